//! The controller: configures the load balancer as Services request it.

use core::time::Duration;
use std::io;

use informer::controller::{Controller, Task};
use informer::transport::SendTransport;
use informer::{Informer, kind};
use informer_examples::terminal::say;
use serde::Deserialize;

use super::balancer::{Balancer, Route};
use super::service;
use informer_examples::cluster::Demo;

/// The fields of a Service that the controller reads.
#[derive(Deserialize)]
pub(crate) struct Service {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    ports: Vec<Port>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Port {
    port: u16,
    node_port: Option<u16>,
}

kind!(Service, "v1", "services");

/// Creates the controller, which runs its informer.
pub(crate) fn new(transport: impl SendTransport, resync: Duration) -> Controller<Service> {
    Controller::new(Informer::<Service>::builder(&transport))
        .name("load-balancer")
        .resync(resync)
}

/// Configures the load balancer for a Service. It reads the load balancer's actual state instead of remembering its own
/// changes, so it also repairs external ones.
pub(crate) async fn reconcile(task: Task<Service>, balancer: Balancer) -> io::Result<()> {
    let wanted = task
        .object()
        .filter(|service| service.spec.kind == "LoadBalancer");
    let routes: Option<Vec<Route>> = wanted.map(|service| {
        let ports = service.spec.ports.iter();
        ports
            .filter_map(|port| {
                let node_port = port.node_port?;
                Some(Route {
                    port: port.port,
                    node_port,
                })
            })
            .collect()
    });
    // A file is fast. Network requests would be awaited here.
    let key = task.key().clone();
    let changed =
        tokio::task::spawn_blocking(move || balancer.set(key.as_str(), routes.as_deref()))
            .await
            .map_err(io::Error::other)??;
    if changed {
        say(&format!("{} is configured", task.key()));
    }
    Ok(())
}

/// Services for the demo.
pub(crate) fn demo(demo: &Demo) {
    for (name, kind, port) in [
        ("web", "LoadBalancer", 80),
        ("mail", "LoadBalancer", 25),
        ("database", "ClusterIP", 5432),
    ] {
        // They are new and have names, so this cannot fail.
        let _ = demo.create("services", service(name, kind, port));
    }
}
