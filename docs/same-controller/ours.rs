//! Each Namespace that has a label `team` has a ConfigMap `team` with its value.
#![expect(clippy::print_stderr, reason = "it is an example")]

use informer_kube::Informers;
use informer_kube::controller::{Controller, Task};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn core::error::Error>> {
    control(Client::try_default().await?).await
}

pub(super) async fn control(client: Client) -> Result<(), Box<dyn core::error::Error>> {
    let informers = Informers::with(client, |builder| {
        builder.on_report(|informer, report| eprintln!("{informer}: {report}"))
    });
    let client = informers.client();
    Controller::new(informers.all::<Namespace>().labels("team"))
        .owns(informers.all::<ConfigMap>().labels("made-by=teams"))
        .workers(4)
        .on_failure(|key, failure| eprintln!("{key}: {failure}"))
        .shutdown_on_signal()
        .run(move |task| reconcile(task, client.clone()))
        .await?;
    Ok(())
}

async fn reconcile(task: Task<Namespace>, client: Client) -> Result<(), kube::Error> {
    let Some(namespace) = task.object() else {
        return Ok(());
    };
    let wanted = ConfigMap {
        metadata: ObjectMeta {
            name: Some("team".to_owned()),
            labels: Some([("made-by".to_owned(), "teams".to_owned())].into()),
            owner_references: namespace.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..Default::default()
        },
        data: namespace
            .labels()
            .get("team")
            .map(|team| [("team".to_owned(), team.clone())].into()),
        ..Default::default()
    };
    let api = Api::<ConfigMap>::namespaced(client, task.name());
    let parameters = PatchParams::apply("teams").force();
    api.patch("team", &parameters, &Patch::Apply(wanted))
        .await?;
    Ok(())
}
