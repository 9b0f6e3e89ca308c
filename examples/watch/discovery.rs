//! The names of a server's resources.
//!
//! [API discovery](https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api), in the format that
//! every server supports.

use core::fmt;

use informer::Resource;
use informer::informer::OwnedResource;
use informer::transport::{Body, Get, Transport};
use serde::Deserialize;

/// Looks up a resource on a server by its plural, singular or short name or its kind, alone or with a group, or with a
/// version and a group: `po`, `Deployment`, `ct.example.com`, `crontab.v1.example.com`.
pub(crate) async fn find(
    transport: &mut (impl Transport + fmt::Debug),
    name: &str,
) -> Result<OwnedResource, String> {
    let (word, rest) = match name.split_once('.') {
        Some((word, rest)) => (word, Some(rest)),
        None => (name, None),
    };
    let mut without_watch = None;
    let mut silent = Vec::new();
    for place in places(transport, rest).await? {
        let found = match get::<Resources>(transport, &place.path()).await {
            Ok(Some(list)) => list.resources.into_iter().find(|found| found.is(word)),
            Ok(None) => None,
            // The group may be served by another server that is down.
            Err(error) => {
                silent.push(error);
                None
            }
        };
        let Some(found) = found else { continue };
        if ["list", "watch"]
            .iter()
            .all(|verb| found.verbs.iter().any(|v| v == verb))
        {
            let resource = Resource::new(&place.group, &place.version, &found.name);
            return Ok(resource.kind(&found.kind).into());
        }
        without_watch = Some(found.name);
    }
    if let Some(plural) = without_watch {
        return Err(format!("'{name}': {plural} cannot be watched"));
    }
    Err(match silent.first() {
        Some(error) => {
            format!(
                "'{name}': the server has no such resource; its discovery is incomplete: {error}"
            )
        }
        None => format!("'{name}': the server has no such resource"),
    })
}

/// A version of a group.
struct Place {
    group: String,
    version: String,
}

impl Place {
    fn path(&self) -> String {
        match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        }
    }

    /// Returns whether this is the text after the name: a group, or a version and a group.
    fn is(&self, rest: &str) -> bool {
        let qualified = match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{}.{group}", self.version),
        };
        rest == self.group || rest == qualified
    }
}

/// The places to look, in the order of the server's preference. If no group has the whole name, a part of it is
/// sufficient, as in `kubectl`.
async fn places(
    transport: &mut (impl Transport + fmt::Debug),
    rest: Option<&str>,
) -> Result<Vec<Place>, String> {
    let core: Option<Core> = get(transport, "/api").await?;
    let groups: Groups = match get(transport, "/apis").await? {
        Some(groups) => groups,
        None => without_index(transport, rest).await?,
    };
    let mut places: Vec<Place> = Vec::new();
    for version in core.unwrap_or_default().versions {
        let group = String::new();
        places.push(Place { group, version });
    }
    for group in groups.groups {
        let preferred = group.preferred_version.iter();
        let mut versions: Vec<&String> = preferred
            .chain(&group.versions)
            .map(|v| &v.version)
            .collect();
        let mut seen = Vec::new();
        versions.retain(|version| {
            let new = !seen.contains(version);
            seen.push(version);
            new
        });
        places.extend(versions.into_iter().map(|version| Place {
            group: group.name.clone(),
            version: version.clone(),
        }));
    }
    let Some(rest) = rest else { return Ok(places) };
    let exact = places.iter().any(|place| place.is(rest));
    places.retain(|place| place.is(rest) || (!exact && place.group.starts_with(rest)));
    Ok(places)
}

/// Some servers have groups without a list of them, such as a standalone server for custom resources. A named group can
/// be requested directly, and each such server has this one.
async fn without_index(
    transport: &mut (impl Transport + fmt::Debug),
    rest: Option<&str>,
) -> Result<Groups, String> {
    let mut name = rest.unwrap_or("apiextensions.k8s.io");
    let mut groups = Vec::new();
    loop {
        if let Some(group) = get(transport, &format!("/apis/{name}")).await? {
            groups.push(group);
            break;
        }
        // The text before the group may be a version.
        match name.split_once('.') {
            Some((_, shorter)) => name = shorter,
            None => break,
        }
    }
    Ok(Groups { groups })
}

/// Gets a document; `None` if it does not exist.
async fn get<T: for<'a> Deserialize<'a>>(
    transport: &mut (impl Transport + fmt::Debug),
    path: &str,
) -> Result<Option<T>, String> {
    let asked = transport.send(Get::new(path)).await;
    let (head, mut body) = asked.map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    while let Some(piece) = body.chunk().await.map_err(|error| error.to_string())? {
        bytes.extend_from_slice(piece);
        if bytes.len() > LONGEST {
            return Err(format!("{path}: the response is too long"));
        }
    }
    match head.status {
        200 => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| format!("{path}: the response is invalid: {error}")),
        403 | 404 => Ok(None),
        401 => {
            Err("the server rejects the credentials: it responds with 401 (Unauthorized)".into())
        }
        status => Err(format!("{path}: the server responds with {status}")),
    }
}

/// Several hundred resources take a few hundred kilobytes.
const LONGEST: usize = 16 * 1024 * 1024;

#[derive(Deserialize, Default)]
struct Core {
    #[serde(default)]
    versions: Vec<String>,
}

#[derive(Deserialize, Default)]
struct Groups {
    #[serde(default)]
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    name: String,
    #[serde(default)]
    versions: Vec<Version>,
    preferred_version: Option<Version>,
}

#[derive(Deserialize)]
struct Version {
    version: String,
}

#[derive(Deserialize)]
struct Resources {
    #[serde(default)]
    resources: Vec<Found>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    name: String,
    #[serde(default)]
    singular_name: String,
    kind: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
}

impl Found {
    fn is(&self, word: &str) -> bool {
        let names = [&self.name, &self.singular_name, &self.kind];
        // A name with a slash is a subresource.
        !self.name.contains('/')
            && names
                .into_iter()
                .chain(&self.short_names)
                .any(|name| name.eq_ignore_ascii_case(word))
    }
}
