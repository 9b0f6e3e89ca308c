//! The controller.

use core::future::Future;

use informer::controller::{Controller, Failure, Stopped, Task};
use informer::informer::NotSynced;
use informer::transport::BoxTransport;
use informer::{Informer, Key, Raw, Resource, boxed, kind};
use informer_examples::terminal::say;
use informer_hyper::TowerTransport;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::{Value, json};

use super::web;
use informer_examples::cluster::Demo;

/// The fields of a Web that the controller reads.
#[derive(Deserialize)]
pub(crate) struct Web {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    uid: String,
}

#[derive(Deserialize)]
struct Spec {
    image: String,
    replicas: u32,
}

kind!(Web, "example.com/v1", "webs");

const DEPLOYMENTS: Resource<'static> = Resource::new("apps", "v1", "deployments")
    .kind("Deployment")
    .labels("made-by=sample-controller");

/// The controller with its informers and its client.
pub(crate) struct Sample {
    pub(crate) controller: Controller<Web>,
    client: Client,
    webs: Informer<Web>,
    deployments: Informer<Raw>,
}

/// Creates it, and the future that runs its informers.
pub(crate) fn new(client: &Client) -> (Sample, impl Future<Output = ()> + Send + use<>) {
    let (webs, webs_run) = Informer::<Web>::builder(&transport(client)).build();
    let (deployments, deployments_run) =
        Informer::<Raw>::builder_for(&transport(client), DEPLOYMENTS).build();
    let sample = Sample {
        controller: Controller::new(&webs).owns(&deployments),
        client: client.clone(),
        webs,
        deployments,
    };
    let drivers = async {
        let ((), ()) = tokio::join!(webs_run.run(), deployments_run.run());
    };
    (sample, drivers)
}

impl Sample {
    pub(crate) fn workers(self, workers: usize) -> Self {
        Self {
            controller: self.controller.workers(workers),
            ..self
        }
    }

    pub(crate) fn on_failure(
        self,
        hear: impl Fn(&Key, &Failure<'_>) + Send + Sync + 'static,
    ) -> Self {
        Self {
            controller: self.controller.on_failure(hear),
            ..self
        }
    }

    pub(crate) async fn run(self) -> Result<Stopped, NotSynced> {
        let (client, webs, deployments) = (self.client, self.webs, self.deployments);
        let reconcile =
            move |task| reconcile(task, client.clone(), webs.clone(), deployments.clone());
        self.controller.run(reconcile).await
    }
}

/// Creates or updates the Deployment of a Web.
async fn reconcile(
    task: Task<Web>,
    client: Client,
    webs: Informer<Web>,
    deployments: Informer<Raw>,
) -> Result<(), kube::Error> {
    let Some(web) = webs.lister().get_by_key(task.as_str()) else {
        // The cluster's garbage collector deletes the objects that it owned.
        return Ok(());
    };
    let wanted = deployment(&task, &web);
    let present = deployments.lister().get_by_key(task.as_str());
    if present.is_some_and(|present| is_as(present.value(), &wanted)) {
        return Ok(());
    }
    let api: Api<Deployment> = Api::namespaced(client, task.namespace());
    let parameters = PatchParams::apply("sample-controller").force();
    let written = api
        .patch(task.name(), &parameters, &Patch::Apply(&wanted))
        .await?;
    say(&format!(
        "{} has {} replicas",
        task.key(),
        web.spec.replicas
    ));
    if let Some(version) = written.metadata.resource_version {
        // Otherwise, a run after the next change of the Web could read a stale cache and write again.
        task.wrote(&deployments, &task, &version);
    }
    Ok(())
}

/// Returns the Deployment of a Web.
fn deployment(key: &Key, web: &Web) -> Value {
    let labels = json!({ "web": key.name(), "made-by": "sample-controller" });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "namespace": key.namespace(),
            "name": key.name(),
            "labels": labels,
            "ownerReferences": [{
                "apiVersion": "example.com/v1",
                "kind": "Web",
                "name": key.name(),
                "uid": web.metadata.uid,
                "controller": true,
            }],
        },
        "spec": {
            "replicas": web.spec.replicas,
            "selector": { "matchLabels": { "web": key.name() } },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "web", "image": web.spec.image }] },
            },
        },
    })
}

/// Returns whether the fields that the controller sets are as wanted. The server sets further fields.
fn is_as(present: &Raw, wanted: &Value) -> bool {
    let Ok(present) = serde_json::from_slice::<Value>(present.bytes()) else {
        return false;
    };
    let same = |path: &str| present.pointer(path) == wanted.pointer(path);
    same("/spec/replicas")
        && same("/spec/template/spec/containers/0/image")
        && same("/metadata/ownerReferences/0/uid")
}

/// One client for reading and writing.
fn transport(client: &Client) -> BoxTransport {
    let client = client.clone();
    let service = tower::service_fn(move |request| {
        let client = client.clone();
        async move { client.send(request).await }
    });
    boxed!(TowerTransport::with_empty(service, Body::empty))
}

/// Webs for the demo.
pub(crate) fn demo(demo: &Demo) {
    demo.with(|server| server.add_resource("example.com", "v1", "webs", "Web", true));
    // They are new and have names, so this cannot fail.
    let _ = demo.create("webs.example.com", web("shop", 2));
    let _ = demo.create("webs.example.com", web("blog", 1));
}
