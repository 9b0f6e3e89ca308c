//! Each Namespace that has a label `team` has a ConfigMap `team` with its value.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};

#[tokio::main]
async fn main() -> Result<(), kube::Error> {
    let client = Client::try_default().await?;
    let namespaces = Api::<Namespace>::all(client.clone());
    let maps = Api::<ConfigMap>::all(client.clone());
    Controller::new(namespaces, watcher::Config::default().labels("team"))
        .owns(maps, watcher::Config::default().labels("made-by=teams"))
        .with_config(Config::default().concurrency(4))
        .shutdown_on_signal()
        .run(reconcile, failed, Arc::new(client))
        .for_each(|result| async move {
            if let Err(error) = result {
                eprintln!("{error}");
            }
        })
        .await;
    Ok(())
}

async fn reconcile(namespace: Arc<Namespace>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let Some(owner) = namespace.controller_owner_ref(&()) else {
        return Ok(Action::await_change());
    };
    let wanted = ConfigMap {
        metadata: kube::api::ObjectMeta {
            name: Some("team".to_owned()),
            labels: Some([("made-by".to_owned(), "teams".to_owned())].into()),
            owner_references: Some(vec![owner]),
            ..Default::default()
        },
        data: namespace
            .labels()
            .get("team")
            .map(|team| [("team".to_owned(), team.clone())].into()),
        ..Default::default()
    };
    let api = Api::<ConfigMap>::namespaced(client.as_ref().clone(), &namespace.name_any());
    let parameters = PatchParams::apply("teams").force();
    api.patch("team", &parameters, &Patch::Apply(wanted))
        .await?;
    Ok(Action::await_change())
}

fn failed(_: Arc<Namespace>, _: &kube::Error, _: Arc<Client>) -> Action {
    Action::requeue(Duration::from_secs(5))
}
