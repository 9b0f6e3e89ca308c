//! Resources by the names that `kubectl` takes.
//!
//! [`discover`] asks the server, by [API discovery](https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api):
//! in the aggregated form, which takes two requests, or in the older one if the server has no other.

use core::fmt::Display;
use core::time::Duration;

use informer_core::{
    Body as _, OwnedResource, Resource, Transport, report::OneLine, transport::Get,
};
use serde::Deserialize;
use tokio::time::timeout;

/// Looks up a resource that can be listed and watched by its plural, singular or short name or its kind, alone, with a
/// group, or with a version and a group: `po`, `Deployment`, `ct.example.com`, `crontab.v1.example.com`.
///
/// If several groups have the name, the first one in the order of the server counts, as with `kubectl`, and the core group
/// comes before all others. If no group is called as given, one that begins so is sufficient.
///
/// The resource has its kind, and whether it is namespaced. Each request may take 60 s.
///
/// # Errors
/// Fails if the server has no such resource, or does not answer.
///
/// ```no_run
/// use informer_tokio::discovery::discover;
/// use informer_tokio::{Informer, Raw};
/// # async fn example(transport: informer_tokio::transport::BoxTransport) -> Result<(), Box<dyn std::error::Error>> {
/// let deployments = discover(&transport, "deploy").await?;
/// assert_eq!(deployments.to_string(), "deployments.v1.apps");
/// let deployments = Informer::<Raw>::builder_for(&transport, deployments).spawn();
/// # Ok(())
/// # }
/// ```
pub async fn discover<T: Transport + Clone>(
    transport: &T,
    name: &str,
) -> Result<OwnedResource, DiscoveryError> {
    let mut transport = transport.clone();
    let (word, rest) = match name.split_once('.') {
        Some((word, rest)) => (word, Some(rest)),
        None => (name, None),
    };
    let mut without_watch = None;
    let mut unknown = None;
    for place in places(&mut transport, rest).await? {
        let resources = match place.resources {
            Some(resources) => resources,
            None => match get::<ResourceList>(&mut transport, &place.path()).await {
                Ok(list) => list.map(|list| list.resources).unwrap_or_default(),
                // The group may be served by another server that is down.
                Err(error) => {
                    unknown.get_or_insert(error);
                    continue;
                }
            },
        };
        let Some(found) = resources.into_iter().find(|found| found.is(word)) else {
            continue;
        };
        if found.is_watched() {
            let resource = Resource::new(&place.group, &place.version, &found.name);
            let is_namespaced = found.namespaced || found.scope == "Namespaced";
            return Ok(resource.kind(found.kind()).namespaced(is_namespaced).into());
        }
        without_watch.get_or_insert(found.name);
    }
    let name = name.to_owned();
    Err(match (without_watch, unknown) {
        (Some(plural), _) => DiscoveryError::Unwatchable { name, plural },
        (None, Some(error)) => DiscoveryError::Incomplete {
            name,
            error: error.to_string(),
        },
        (None, None) => DiscoveryError::NotFound { name },
    })
}

/// A resource was not found.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// No group of the server has a resource of this name.
    #[error("'{name}': the server has no such resource")]
    NotFound {
        /// The name that was looked up.
        name: String,
    },
    /// The resource cannot be listed and watched.
    #[error("'{name}': {plural} cannot be watched")]
    Unwatchable {
        /// The name that was looked up.
        name: String,
        /// The plural name of the resource.
        plural: String,
    },
    /// No group has the resource, but at least one did not answer.
    #[error("'{name}': the server has no such resource; its discovery is incomplete: {}", OneLine(.error))]
    Incomplete {
        /// The name that was looked up.
        name: String,
        /// Why a group is unknown.
        error: String,
    },
    /// The server's groups are unknown.
    #[error("{path}: {}", OneLine(.error))]
    Failed {
        /// The path of the request.
        path: String,
        /// Why it failed.
        error: String,
    },
}

informer_core::readable_errors!(DiscoveryError);

/// A version of a group.
struct Place {
    group: String,
    version: String,
    /// `None` if they are not known yet.
    resources: Option<Vec<Found>>,
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

/// Returns the places to look, in the order of the server's preference. If no group has the whole name, a part of it is
/// sufficient.
async fn places(
    transport: &mut impl Transport,
    rest: Option<&str>,
) -> Result<Vec<Place>, DiscoveryError> {
    let mut places = Vec::new();
    if let Some(core) = get::<Index>(transport, "/api").await? {
        places.extend(core.places());
    }
    match get::<Index>(transport, "/apis").await? {
        Some(groups) => places.extend(groups.places()),
        None => places.extend(without_index(transport, rest).await?),
    }
    let Some(rest) = rest else { return Ok(places) };
    let exact = places.iter().any(|place| place.is(rest));
    places.retain(|place| place.is(rest) || (!exact && place.group.starts_with(rest)));
    Ok(places)
}

/// Some servers have groups without a list of them, such as a standalone server for custom resources. A named group can
/// be requested directly, and each such server has this one.
async fn without_index(
    transport: &mut impl Transport,
    rest: Option<&str>,
) -> Result<Vec<Place>, DiscoveryError> {
    let mut name = rest.unwrap_or("apiextensions.k8s.io");
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    while name.chars().all(is_name) {
        if let Some(group) = get::<Group>(transport, &format!("/apis/{name}")).await? {
            return Ok(group.places());
        }
        // The text before the group may be a version.
        match name.split_once('.') {
            Some((_, shorter)) => name = shorter,
            None => break,
        }
    }
    Ok(Vec::new())
}

/// Gets a document; `None` if it does not exist.
async fn get<T: for<'a> Deserialize<'a>>(
    transport: &mut impl Transport,
    path: &str,
) -> Result<Option<T>, DiscoveryError> {
    let failed = |error: &dyn Display| DiscoveryError::Failed {
        path: path.to_owned(),
        error: error.to_string(),
    };
    transport.ready().await;
    let reads = async {
        let asked = transport.send(Get::new(path).accept(ACCEPT)).await;
        let (head, mut body) = asked.map_err(|error| failed(&error))?;
        let mut bytes = Vec::new();
        while let Some(piece) = body.chunk().await.map_err(|error| failed(&error))? {
            bytes.extend_from_slice(piece);
            if bytes.len() > LONGEST {
                return Err(failed(&"the response is too long"));
            }
        }
        Ok((head.status, bytes))
    };
    let read = timeout(LIMIT, reads).await;
    match read.unwrap_or_else(|_| Err(failed(&format_args!("no response within {LIMIT:?}"))))? {
        (200, bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| failed(&format_args!("the response is invalid: {error}"))),
        (404, _) => Ok(None),
        (401, _) => Err(failed(
            &"the server rejects the credentials: it responds with 401 (Unauthorized)",
        )),
        (403, _) => Err(failed(
            &"the server responds with 403 (Forbidden): the ClusterRole `system:discovery` permits discovery",
        )),
        (status, _) => Err(failed(&format_args!("the server responds with {status}"))),
    }
}

/// The aggregated form, and else the older one.
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// Several hundred resources take a few hundred kilobytes.
const LONGEST: usize = 16 * 1024 * 1024;

/// The time that a response may take.
const LIMIT: Duration = Duration::from_secs(60);

/// The response to `/api` or `/apis`, in either form.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Index {
    /// The versions of the core group, in the older form.
    versions: Vec<String>,
    #[serde(alias = "items")]
    groups: Vec<Group>,
}

impl Index {
    fn places(self) -> impl Iterator<Item = Place> {
        let core = self.versions.into_iter().map(|version| Place {
            group: String::new(),
            version,
            resources: None,
        });
        core.chain(self.groups.into_iter().flat_map(Group::places))
    }
}

/// A group, in either form.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Group {
    name: String,
    preferred_version: Option<Version>,
    versions: Vec<Version>,
    /// In the aggregated form, it has the name.
    metadata: Metadata,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Metadata {
    name: String,
}

#[derive(Deserialize)]
struct Version {
    version: String,
    resources: Option<Vec<Found>>,
    freshness: Option<String>,
}

impl Group {
    /// The preferred version comes first; the aggregated form has it there.
    fn places(self) -> Vec<Place> {
        let group = if self.name.is_empty() {
            self.metadata.name
        } else {
            self.name
        };
        let mut places: Vec<Place> = Vec::new();
        for version in self.preferred_version.into_iter().chain(self.versions) {
            if places.iter().all(|place| place.version != version.version) {
                // A server that is down may have other resources by now.
                let is_stale = version
                    .freshness
                    .is_some_and(|freshness| freshness == "Stale");
                places.push(Place {
                    group: group.clone(),
                    version: version.version,
                    resources: version.resources.filter(|_| !is_stale),
                });
            }
        }
        places
    }
}

/// The response to the path of a version.
#[derive(Deserialize)]
struct ResourceList {
    #[serde(default)]
    resources: Vec<Found>,
}

/// A resource, in either form.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    #[serde(alias = "resource")]
    name: String,
    #[serde(default, alias = "singularResource")]
    singular_name: String,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    namespaced: bool,
    /// The kind in the aggregated form.
    #[serde(default)]
    response_kind: ResponseKind,
    /// `Namespaced` or `Cluster`, in the aggregated form.
    #[serde(default)]
    scope: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ResponseKind {
    kind: String,
}

impl Found {
    fn kind(&self) -> &str {
        if self.kind.is_empty() {
            &self.response_kind.kind
        } else {
            &self.kind
        }
    }

    fn is_watched(&self) -> bool {
        let has = |verb: &str| self.verbs.iter().any(|other| other == verb);
        has("list") && has("watch")
    }

    /// Returns whether this is one of its names. A name with a slash is a subresource.
    fn is(&self, word: &str) -> bool {
        let names = [&*self.name, &self.singular_name, self.kind()];
        let short = self.short_names.iter().map(String::as_str);
        !self.name.contains('/')
            && names
                .into_iter()
                .chain(short)
                .any(|name| name.eq_ignore_ascii_case(word))
    }
}
