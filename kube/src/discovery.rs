//! Resources by the names that `kubectl` accepts.

use kube_client::client::APIGroupDiscovery;
use kube_client::{Client, Error, error::DiscoveryError};
use kube_core::ApiResource;

/// Finds a resource by a name as on the command line of `kubectl`: a plural, singular or short name, or a kind, each
/// optionally with its group, such as `deploy` or `widgets.example.com`.
///
/// If several groups have the name, the first one counts, as in `kubectl`, and the core group comes before all others.
///
/// # Errors
/// Fails if the server has no such resource that can be listed and watched, or does not answer.
///
/// ```no_run
/// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use informer_kube::{Informers, discover};
/// let deployments = discover(&client, "deploy").await?;
/// let informers = Informers::new(client);
/// let deployments = informers.of_resource(&deployments).get();
/// # Ok(())
/// # }
/// ```
pub async fn discover(client: &Client, name: &str) -> Result<ApiResource, Error> {
    let mut groups = client.list_core_api_versions_aggregated().await?.items;
    groups.extend(client.list_api_groups_aggregated().await?.items);
    let found = groups.iter().find_map(|group| find(group, name));
    found.ok_or_else(|| Error::Discovery(DiscoveryError::MissingResource(name.to_owned())))
}

fn find(group: &APIGroupDiscovery, name: &str) -> Option<ApiResource> {
    let of_group = group
        .metadata
        .as_ref()
        .and_then(|metadata| metadata.name.as_deref());
    let of_group = of_group.unwrap_or_default();
    let name = match name.split_once('.') {
        Some((name, wanted)) if wanted == of_group => name,
        Some(_) => return None,
        None => name,
    };
    // The preferred version comes first.
    group.versions.iter().find_map(|version| {
        let resource = version.resources.iter().find(|resource| {
            let kind = resource
                .response_kind
                .as_ref()
                .and_then(|kind| kind.kind.as_deref());
            let names = [
                resource.resource.as_deref(),
                resource.singular_resource.as_deref(),
                kind,
            ];
            let names = names
                .into_iter()
                .flatten()
                .chain(resource.short_names.iter().map(String::as_str));
            let has = |verb: &str| resource.verbs.iter().any(|other| other == verb);
            names
                .into_iter()
                .any(|other| other.eq_ignore_ascii_case(name))
                && has("list")
                && has("watch")
        })?;
        let version = version.version.clone()?;
        let kind = resource.response_kind.as_ref()?.kind.clone()?;
        Some(ApiResource {
            api_version: if of_group.is_empty() {
                version.clone()
            } else {
                format!("{of_group}/{version}")
            },
            group: of_group.to_owned(),
            version,
            kind,
            plural: resource.resource.clone()?,
        })
    })
}
