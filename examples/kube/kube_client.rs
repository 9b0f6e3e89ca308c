//! One `kube::Client` for an informer and for writes.
//!
//! `cargo run -p informer-examples-kube --example kube_client` prints the ConfigMaps of a namespace (`default`, or the
//! first argument) in the cluster that `kubectl` would use. It creates one, waits until the informer shows it, and
//! deletes it again.

use core::time::Duration;
use std::path::PathBuf;

use clap::Parser;
use informer::{Informer, Raw, Resource};
use informer_examples::terminal::say;
use informer_hyper::TowerTransport;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, client::Body};

/// Reads and writes the ConfigMaps of a namespace through one `kube::Client`.
#[derive(Parser)]
struct Arguments {
    /// The kubeconfig file; by default the cluster that `kubectl` would use
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The namespace
    #[arg(default_value = "default")]
    namespace: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn core::error::Error>> {
    let Arguments {
        kubeconfig,
        namespace,
    } = Arguments::parse();
    let client = match kubeconfig {
        Some(file) => {
            let file = Kubeconfig::read_from(file)?;
            let options = KubeConfigOptions::default();
            Client::try_from(Config::from_custom_kubeconfig(file, &options).await?)?
        }
        None => Client::try_default().await?,
    };

    // The client finds the server and authenticates, for writes as well as for the informer.
    let sender = client.clone();
    let service = tower::service_fn(move |request| {
        let sender = sender.clone();
        async move { sender.send(request).await }
    });
    let transport = TowerTransport::with_empty(service, Body::empty);
    let maps = Informer::<Raw>::builder_for(&transport, Resource::parse("configmaps")?)
        .namespace(&namespace)
        .spawn();
    maps.synced_within(Duration::from_secs(30)).await?;
    let lister = maps.lister();
    for map in lister.list() {
        say(map.key().as_str());
    }

    let api: Api<ConfigMap> = Api::namespaced(client, &namespace);
    let map = ConfigMap {
        metadata: ObjectMeta {
            generate_name: Some("informer-example-".into()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    let created = api.create(&PostParams::default(), &map).await?;
    let name = created.metadata.name.unwrap_or_default();
    let mut waits = 0;
    while lister.get(&namespace, &name).is_none() && waits < 100 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        waits += 1;
    }
    say(&format!(
        "{namespace}/{name} is in the cache after about {} ms",
        waits * 100
    ));
    api.delete(&name, &DeleteParams::default()).await?;
    say(&format!("{namespace}/{name} is deleted"));
    maps.stop();
    Ok(())
}
