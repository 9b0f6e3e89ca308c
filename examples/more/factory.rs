//! A factory: informers that are shared, of types, of bytes and of metadata, over one transport.
//!
//! Without an argument it runs against a fake API server in memory; `factory http://127.0.0.1:8001` asks a real one, such
//! as `kubectl proxy`.

use core::time::Duration;

use informer::factory::Factory;
use informer::transport::BoxTransport;
use informer::transport::HyperTransport;
use informer::{Handlers, boxed, kind};
use informer_examples::terminal::say;
use informer_mock::{FakeServer, Mock, TokioClock, json};
use serde::Deserialize;

/// What this program wants to know of a Pod; nothing else is kept.
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

/// The transport is chosen here, at run time.
fn transport() -> Result<BoxTransport, Box<dyn core::error::Error>> {
    if let Some(url) = std::env::args().nth(1) {
        return Ok(boxed!(HyperTransport::builder(&url).build()?));
    }
    let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
    for (namespace, name) in [("prod", "web"), ("prod", "db"), ("default", "tool")] {
        let metadata = json!({ "namespace": namespace, "name": name });
        mock.create(
            "pods",
            json!({ "metadata": metadata, "spec": { "nodeName": "n1" } }),
        )?;
    }
    Ok(boxed!(mock.transport()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn core::error::Error>> {
    let (factory, driver) = Factory::builder(transport()?).build();
    tokio::spawn(driver.run());

    // Two parts of a program ask for the same; there is one cache and one watch.
    let pods = factory.informer::<Pod>();
    let also_pods = factory.informer::<Pod>();
    // Two namespaces, one cache.
    let of_two = factory
        .of::<Pod>()
        .namespaces(["default", "kube-system"])
        .get();
    // What is known only at run time, and no more than metadata.
    let nodes = factory.metadata("nodes")?.get();

    if let Err(error) = factory.synced_within(Duration::from_secs(30)).await {
        // It says who is missing, and which right or which resource it lacks.
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
