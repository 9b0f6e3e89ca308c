//! The controller.

use informer_examples::terminal::say;
use informer_kube::controller::{Controller, Stopped, Task};
use informer_kube::informer::NotSynced;
use informer_kube::informers::{Request, Stored};
use informer_kube::{Informers, Key, Lister, Raw};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, CustomResource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::web;
use informer_examples::cluster::Demo;

/// The desired state of a Web.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Web", namespaced)]
pub(crate) struct WebSpec {
    image: String,
    replicas: u32,
}

/// Creates a controller of Webs and their Deployments.
pub(crate) fn new(informers: &Informers) -> Controller<Web> {
    Controller::new(informers.all::<Web>()).owns(deployments(informers))
}

/// Requests the Deployments that the controller makes. Each request is served from the same cache.
fn deployments(informers: &Informers) -> Request<'_, Raw, Stored> {
    let deployments = informers.all::<Deployment>();
    deployments.labels("made-by=sample-controller").raw()
}

/// Runs a controller until it is stopped.
pub(crate) async fn run(
    controller: Controller<Web>,
    informers: &Informers,
) -> Result<Stopped, NotSynced> {
    let (client, deployments) = (informers.client(), deployments(informers).get());
    let reconcile = move |task| reconcile(task, client.clone(), deployments.lister());
    controller.run(reconcile).await
}

/// Creates or updates the Deployment of a Web.
async fn reconcile(
    task: Task<Web>,
    client: Client,
    deployments: Lister<Raw>,
) -> Result<(), kube::Error> {
    let Some(web) = task.object() else {
        // The cluster's garbage collector deletes the objects that it owned.
        return Ok(());
    };
    let wanted = deployment(&task, web);
    let present = deployments.get_by_key(task.as_str());
    if present.is_some_and(|present| is_as(present.value(), &wanted)) {
        return Ok(());
    }
    // The informers know the writes of this client: the next run of this key sees the Deployment.
    let api: Api<Deployment> = Api::namespaced(client, task.namespace());
    let parameters = PatchParams::apply("sample-controller").force();
    api.patch(task.name(), &parameters, &Patch::Apply(&wanted))
        .await?;
    let replicas = web.spec.replicas;
    say(&format!("{} has {replicas} replicas", task.key()));
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

/// Webs for the demo.
pub(crate) fn demo(demo: &Demo) {
    demo.with(|server| server.add_resource("example.com", "v1", "webs", "Web", true));
    // They are new and have names, so this cannot fail.
    let _ = demo.create("webs.example.com", web("shop", 2));
    let _ = demo.create("webs.example.com", web("blog", 1));
}
