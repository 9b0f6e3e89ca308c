//! A factory: shared informers of types, bytes and metadata, over one transport.
//!
//! Without an argument it uses a fake API server in this program. `--kubeconfig` and `--server` name a real one.

use core::time::Duration;

use clap::Parser;
use informer::factory::Factory;
use informer::{Handlers, boxed, kind};
use informer_examples::cluster::{Cluster, Demo};
use informer_examples::terminal::say;
use informer_mock::json;
use serde::Deserialize;

/// The part of a Pod that this program reads; nothing else is stored.
#[derive(Deserialize)]
struct Pod {
    spec: Spec,
}
kind!(Pod, "v1", "pods");

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

/// Shows how two parts of a program share informers.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    cluster: Cluster,
}

fn fill(demo: &Demo) {
    for (namespace, name) in [("prod", "web"), ("prod", "db"), ("default", "tool")] {
        let metadata = json!({ "namespace": namespace, "name": name });
        let pod = json!({ "metadata": metadata, "spec": { "nodeName": "n1" } });
        let _ = demo.create("pods", pod);
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn core::error::Error>> {
    let (transport, _demo) = Arguments::parse().cluster.connect(fill).await?;
    let (factory, driver) = Factory::builder(boxed!(transport)).build();
    tokio::spawn(driver.run());

    // Two parts of a program request the same informer, and share one cache and one watch.
    let pods = factory.informer::<Pod>();
    let also_pods = factory.informer::<Pod>();
    // Two namespaces, one cache.
    let of_two = factory
        .of::<Pod>()
        .namespaces(["default", "kube-system"])
        .get();
    // A resource that is known only at run time, and only its metadata.
    let nodes = factory.metadata("nodes")?.get();

    if let Err(error) = factory.synced_within(Duration::from_secs(30)).await {
        // The error names what is missing, and the missing permission or resource.
        say_all(&error);
        factory.shutdown().await;
        return Err(error.into());
    }
    also_pods.add_handler(Handlers::new().on_add(|_, _| ()));
    for pod in pods.lister().list() {
        say(&format!(
            "{pod} on {}",
            pod.spec.node_name.as_deref().unwrap_or("no node")
        ));
    }
    say(&format!(
        "{} of them in two namespaces; {} nodes",
        of_two.lister().len(),
        nodes.lister().len()
    ));
    for health in factory.health() {
        say(&format!(
            "{}: {}, {} objects",
            health.name, health.state, health.objects
        ));
    }
    drop(of_two); // Its watches end.
    factory.shutdown().await;
    Ok(())
}

fn say_all(error: &informer::informer::NotSynced) {
    for missing in &error.missing {
        say(&format!("! {missing}"));
    }
}
