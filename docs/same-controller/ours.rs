//! Each Namespace that has a label `team` has a ConfigMap `team` with its value.

use informer_hyper::TowerTransport;
use informer_tokio::controller::{Controller, Failure};
use informer_tokio::controller::{StopSignal, Task};
use informer_tokio::{Informer, Key, Lister};
use informer_tokio::{Raw, Resource, boxed};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, client::Body};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn core::error::Error>> {
    let client = Client::try_default().await?;
    let sender = client.clone();
    let service = tower::service_fn(move |request| {
        let sender = sender.clone();
        async move { sender.send(request).await }
    });
    let transport = boxed!(TowerTransport::with_empty(service, Body::empty));

    let labelled = Resource::parse("namespaces")?.labels("team");
    let (namespaces, namespaces_run) = Informer::<Raw>::builder_for(&transport, labelled).build();
    let own = Resource::parse("configmaps")?.labels("made-by=teams");
    let (maps, maps_run) = Informer::<Raw>::builder_for(&transport, own).build();
    tokio::spawn(namespaces_run.run());
    tokio::spawn(maps_run.run());

    let controller = Controller::new(&namespaces)
        .owns(&maps)
        .workers(4)
        .on_failure(report);
    let handle = controller.handle();
    let mut signal = StopSignal::new()?;
    tokio::spawn(async move {
        signal.recv().await;
        handle.stop();
    });
    let lister = namespaces.lister();
    controller
        .run(move |task| reconcile(task, client.clone(), lister.clone(), maps.clone()))
        .await?;
    Ok(())
}

#[expect(clippy::print_stderr, reason = "it is an example")]
fn report(key: &Key, failure: &Failure<'_>) {
    eprintln!("{key}: {failure}");
}

async fn reconcile(
    task: Task<Raw>,
    client: Client,
    namespaces: Lister<Raw>,
    maps: Informer<Raw>,
) -> Result<(), kube::Error> {
    let Some(namespace) = namespaces.get_by_key(task.as_str()) else {
        return Ok(());
    };
    let wanted = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "team",
            "labels": { "made-by": "teams" },
            "ownerReferences": [{
                "apiVersion": "v1",
                "kind": "Namespace",
                "name": namespace.name(),
                "uid": namespace.uid().to_string(),
                "controller": true,
            }],
        },
        "data": { "team": namespace.label("team") },
    });
    let api = Api::<ConfigMap>::namespaced(client, task.name());
    let parameters = PatchParams::apply("teams").force();
    let written = api
        .patch("team", &parameters, &Patch::Apply(wanted))
        .await?;
    let key = Key::new(&format!("{}/team", task.name()));
    task.wrote(
        &maps,
        &key,
        &written.metadata.resource_version.unwrap_or_default(),
    );
    Ok(())
}
