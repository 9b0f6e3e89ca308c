//! Resources by the names that `kubectl` takes.

use informer_tokio::discovery::{self, DiscoveryError};
use kube_client::Client;
use kube_core::ApiResource;

/// Looks up a resource through a client, as [`informer_tokio::discovery::discover`] does through a transport.
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
pub async fn discover(client: &Client, name: &str) -> Result<ApiResource, DiscoveryError> {
    let found = discovery::discover(&crate::transport(client.clone()), name).await?;
    let found = found.as_ref();
    Ok(ApiResource {
        group: found.group.to_owned(),
        version: found.version.to_owned(),
        api_version: found.api_version().to_string(),
        kind: found.kind.unwrap_or_default().to_owned(),
        plural: found.plural.to_owned(),
    })
}
