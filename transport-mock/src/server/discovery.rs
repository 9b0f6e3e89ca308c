//! Discovery: the groups, versions and resources of the server.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Value, json};

use super::FakeServer;
use super::answer::{Answer, whole};
use crate::log::RequestRecord;
use crate::object::{Format, ResourceType};
use crate::query::Part;
use crate::status::Status;

/// The verbs of a resource, in the order of the API server.
const VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
/// The same of a custom resource.
const CUSTOM_VERBS: &[&str] = &[
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];
const NAMESPACE_VERBS: &[&str] = &[
    "create", "delete", "get", "list", "patch", "update", "watch",
];

/// The parts of an object that discovery lists, by name.
const PARTS: [Part; 10] = [
    Part::Container("attach"),
    Part::Binding,
    Part::Eviction,
    Part::Container("exec"),
    Part::Finalize,
    Part::Container("log"),
    Part::Container("portforward"),
    Part::Container("proxy"),
    Part::Scale,
    Part::Status,
];

/// A subresource.
struct Subresource {
    name: &'static str,
    /// The group and version of its kind, if they are not those of the resource.
    group_version: Option<(&'static str, &'static str)>,
    kind: String,
    verbs: &'static [&'static str],
}

/// How a list of groups is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Discovery {
    Plain,
    /// With all resources, in this version of `apidiscovery.k8s.io`.
    Aggregated(&'static str),
}

impl FakeServer {
    /// Responds to a request for discovery. `None` if it is none.
    pub(super) fn answer_discovery(&self, request: &RequestRecord) -> Option<Answer> {
        let path = request.path.strip_prefix('/')?;
        // A slash at the end makes no difference here.
        let path = path.strip_suffix('/').unwrap_or(path);
        let path: Vec<&str> = path.split('/').collect();
        let is_list = matches!(path.as_slice(), ["api" | "apis"]);
        let form = self.negotiate_discovery(&request.accept, is_list);
        let Some(form) = form else {
            let is_known = self.discover(&path, Discovery::Plain).is_some();
            return is_known.then(|| self.refusal(&request.accept, &Status::not_acceptable()));
        };
        let body = self.discover(&path, form)?;
        let (mut head, source) = whole(200, Format::Json, format!("{body}\n").into_bytes());
        if let Discovery::Aggregated(version) = form {
            let media = "application/json;g=apidiscovery.k8s.io;v=";
            let media = [media, version, ";as=APIGroupDiscoveryList"].concat();
            head.set_header("Content-Type", &media);
        }
        Some((head, source))
    }

    fn discover(&self, path: &[&str], form: Discovery) -> Option<Value> {
        Some(match (path, form) {
            (["api"], Discovery::Plain) => json!({
                "kind": "APIVersions", "versions": ["v1"],
                "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443" }],
            }),
            (["api"], Discovery::Aggregated(version)) => self.aggregated(&[""], version),
            (["apis"], Discovery::Plain) => {
                let groups = self.groups();
                let groups = groups.iter().filter_map(|group| self.group(group));
                json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups.collect::<Vec<_>>() })
            }
            (["apis"], Discovery::Aggregated(version)) => self.aggregated(&self.groups(), version),
            (["apis", group], _) if !group.is_empty() => {
                let mut found = self.group(group)?;
                found["kind"] = "APIGroup".into();
                found["apiVersion"] = "v1".into();
                found
            }
            (["api", version], _) => self.resource_list("", version)?,
            (["apis", group, version], _) if !group.is_empty() => {
                self.resource_list(group, version)?
            }
            _ => return None,
        })
    }

    /// Returns the resources that have endpoints. An older one of the same name hides a newer one.
    fn served(&self) -> impl Iterator<Item = &ResourceType> {
        let same = |one: &ResourceType, other: &ResourceType| {
            (&one.group, &one.version, &one.plural) == (&other.group, &other.version, &other.plural)
        };
        let kinds = self.store.kinds().filter(|kind| kind.is_served);
        let kinds = kinds.enumerate().filter(move |(index, kind)| {
            let mut older = self.store.kinds().filter(|kind| kind.is_served);
            !older.by_ref().take(*index).any(|older| same(older, kind))
        });
        kinds.map(|(_, kind)| &**kind)
    }

    /// Returns the groups except for the first one, which has no name: the built-in ones by their priority, and the
    /// others by name.
    fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<(bool, &str)> = Vec::new();
        for kind in self.served().filter(|kind| !kind.group.is_empty()) {
            if !groups.iter().any(|(_, group)| *group == kind.group) {
                groups.push((kind.custom, &kind.group));
            }
        }
        groups.sort_by_key(|(custom, group)| (*custom, if *custom { *group } else { "" }));
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// Returns the versions of a group, the preferred one first.
    fn versions(&self, group: &str) -> Vec<&str> {
        let kinds = self.served().filter(|kind| kind.group == group);
        let mut versions: Vec<&str> = kinds.map(|kind| kind.version.as_str()).collect();
        versions.sort_by_cached_key(|version| priority(version));
        versions.dedup();
        versions
    }

    fn group(&self, group: &str) -> Option<Value> {
        let versions = self.versions(group).into_iter().map(
            |version| json!({ "groupVersion": format!("{group}/{version}"), "version": version }),
        );
        let versions: Vec<Value> = versions.collect();
        let preferred = versions.first()?.clone();
        Some(json!({ "name": group, "versions": versions, "preferredVersion": preferred }))
    }

    /// Returns the resources of a version of a group, by name.
    fn resources_of(&self, group: &str, version: &str) -> Vec<&ResourceType> {
        let kinds = self.served();
        let kinds = kinds.filter(|kind| kind.group == group && kind.version == version);
        let mut kinds: Vec<&ResourceType> = kinds.collect();
        kinds.sort_by_key(|kind| &kind.plural);
        kinds
    }

    fn resource_list(&self, group: &str, version: &str) -> Option<Value> {
        let mut resources = Vec::new();
        for kind in self.resources_of(group, version) {
            let mut resource = json!({
                "name": kind.plural, "singularName": kind.names.singular, "namespaced": kind.namespaced,
                "kind": kind.kind, "verbs": verbs(kind),
            });
            set_names(&mut resource, kind);
            resources.push(resource);
            for part in subresources(kind) {
                let mut resource = json!({
                    "name": format!("{}/{}", kind.plural, part.name), "singularName": "",
                    "namespaced": kind.namespaced, "kind": part.kind, "verbs": part.verbs,
                });
                if let Some((group, version)) = part.group_version {
                    resource["group"] = group.into();
                    resource["version"] = version.into();
                }
                resources.push(resource);
            }
        }
        if resources.is_empty() {
            return None;
        }
        let name = match group {
            "" => version.to_string(),
            group => [group, "/", version].concat(),
        };
        let mut list =
            json!({ "kind": "APIResourceList", "groupVersion": name, "resources": resources });
        if !group.is_empty() {
            list["apiVersion"] = "v1".into();
        }
        Some(list)
    }

    fn aggregated(&self, groups: &[&str], version: &str) -> Value {
        let items = groups.iter().map(|group| {
            let versions = self.versions(group).into_iter().map(|version| {
                let resources = self.resources_of(group, version);
                let resources: Vec<Value> = resources.into_iter().map(aggregated).collect();
                json!({ "version": version, "resources": resources, "freshness": "Current" })
            });
            let versions: Vec<Value> = versions.collect();
            let metadata = match *group {
                "" => json!({}),
                name => json!({ "name": name }),
            };
            json!({ "metadata": metadata, "versions": versions })
        });
        json!({
            "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"),
            "metadata": {}, "items": items.collect::<Vec<_>>(),
        })
    }
}

/// Returns a resource as aggregated discovery shows it.
fn aggregated(kind: &ResourceType) -> Value {
    // The API server writes no group and version of built-in kinds.
    let own = match kind.custom {
        true => (kind.group.as_str(), kind.version.as_str()),
        false => ("", ""),
    };
    let named = |(group, version): (&str, &str), kind: &str| json!({ "group": group, "version": version, "kind": kind });
    let mut resource = json!({
        "resource": kind.plural, "responseKind": named(own, &kind.kind),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.names.singular, "verbs": verbs(kind),
    });
    set_names(&mut resource, kind);
    let parts = subresources(kind).map(|part| {
        json!({
            "subresource": part.name, "verbs": part.verbs,
            "responseKind": named(part.group_version.unwrap_or(own), &part.kind),
        })
    });
    let parts: Vec<Value> = parts.collect();
    if !parts.is_empty() {
        resource["subresources"] = parts.into();
    }
    resource
}

fn set_names(resource: &mut Value, kind: &ResourceType) {
    for (member, names) in [
        ("shortNames", &kind.names.short),
        ("categories", &kind.names.categories),
    ] {
        if !names.is_empty() {
            resource[member] = json!(names);
        }
    }
}

fn verbs(kind: &ResourceType) -> &'static [&'static str] {
    match (kind.custom, kind.plural.as_str()) {
        (true, _) => CUSTOM_VERBS,
        (false, "namespaces") => NAMESPACE_VERBS,
        (false, _) => VERBS,
    }
}

fn subresources(kind: &ResourceType) -> impl Iterator<Item = Subresource> {
    let mut parts = PARTS;
    if kind.custom {
        parts.reverse();
    }
    let parts = parts.into_iter().filter(|part| kind.has(*part));
    parts.map(|part| {
        let name = part.name();
        let part = |kind: &str, verbs| Subresource {
            name,
            group_version: None,
            kind: kind.to_string(),
            verbs,
        };
        match name {
            "scale" => Subresource {
                group_version: Some(("autoscaling", "v1")),
                ..part("Scale", &["get", "patch", "update"])
            },
            "eviction" => Subresource {
                group_version: Some(("policy", "v1")),
                ..part("Eviction", &["create"])
            },
            "binding" => part("Binding", &["create"]),
            "finalize" => part(&kind.kind, &["update"]),
            "log" => part(&kind.kind, &["get"]),
            "attach" => part("PodAttachOptions", &["create", "get"]),
            "exec" => part("PodExecOptions", &["create", "get"]),
            "portforward" => part("PodPortForwardOptions", &["create", "get"]),
            "proxy" => part(
                &[&kind.kind, "ProxyOptions"].concat(),
                &["create", "delete", "get", "patch", "update"],
            ),
            _ => part(&kind.kind, &["get", "patch", "update"]),
        }
    })
}

/// The order of versions: `v2`, `v1`, `v1beta1`, `v1alpha1`, and then all others by name.
fn priority(version: &str) -> (u8, core::cmp::Reverse<(u32, u32)>, String) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (major, rest) = rest.split_at(end);
        let major = major.parse().ok()?;
        let (rank, minor) = match rest {
            "" => (0, "0"),
            rest => rest
                .strip_prefix("beta")
                .map(|minor| (1, minor))
                .or_else(|| rest.strip_prefix("alpha").map(|minor| (2, minor)))?,
        };
        Some((rank, (major, minor.parse().ok()?)))
    };
    match parse() {
        Some((rank, number)) => (rank, core::cmp::Reverse(number), String::new()),
        None => (3, core::cmp::Reverse((0, 0)), version.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_the_order_of_kubernetes() {
        let mut versions = [
            "foo10", "v1alpha2", "v2", "v10", "v1", "v1beta1", "v1beta10", "foo1", "v1alpha1",
        ];
        versions.sort_by_cached_key(|version| priority(version));
        assert_eq!(
            versions,
            [
                "v10", "v2", "v1", "v1beta10", "v1beta1", "v1alpha2", "v1alpha1", "foo1", "foo10"
            ]
        );
    }
}
