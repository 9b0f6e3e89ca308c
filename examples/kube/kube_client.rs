//! One `kube::Client` for an informer and for writes.
//!
//! `cargo run -p informer-examples-kube --example kube_client` prints the ConfigMaps of a namespace (`default`, or the
//! first argument) in the cluster that `kubectl` would use. It creates one, waits until the informer shows it, and
//! deletes it again.

use core::time::Duration;
use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;
use informer_examples::terminal::say;
use informer_kube::Informers;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

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
    let informers = Informers::with(client, |builder| {
        builder.on_report(|name, report| say(&format!("{name}: {report}")))
    });
    let maps = informers.namespaced::<ConfigMap>(&namespace).raw().get();
    maps.synced_within(Duration::from_secs(30)).await?;
    let lister = maps.lister();
    for map in lister.list() {
        say(map.key().as_str());
    }

    let api: Api<ConfigMap> = Api::namespaced(informers.client(), &namespace);
    let map = ConfigMap {
        metadata: ObjectMeta {
            generate_name: Some("informer-example-".into()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    let created = api.create(&PostParams::default(), &map).await?;
    let name = created.metadata.name.unwrap_or_default();
    let began = Instant::now();
    informers.sees_own_writes().await?;
    if lister.get(&namespace, &name).is_some() {
        let waited = began.elapsed();
        say(&format!(
            "{namespace}/{name} is in the cache after {waited:?}"
        ));
    }
    api.delete(&name, &DeleteParams::default()).await?;
    informers.sees_own_writes().await?;
    if lister.get(&namespace, &name).is_none() {
        say(&format!("{namespace}/{name} is deleted"));
    }
    informers.factory().shutdown().await;
    Ok(())
}
