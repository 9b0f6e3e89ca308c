//! The same controller with the crate `informer` alone, and with an election.
#![expect(clippy::print_stderr, reason = "it is an example")]

use core::error::Error;

use informer::controller::{Controller, IntoInformer as _, RecordWrites, Task, WriteLog};
use informer::election::{Election, HttpLease};
use informer::requests::{HttpService as _, bytes::Bytes, http::Request};
use informer::transport::HyperTransport;
use informer::{Informer, Meta, Resource};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let cluster = informer::connect().await?;
    let log = WriteLog::default();
    let client = RecordWrites::new(cluster.clone(), &log);
    let informer = |resource: Resource<'_>| {
        let builder = Informer::<Meta>::builder_for(&cluster, resource);
        builder.into_informer().with_writes(&log)
    };
    let lease = HttpLease::new(cluster.clone(), "default", "teams");
    let identity = std::env::var("POD_NAME")?;
    Controller::new(informer(Resource::parse("namespaces")?.labels("team")))
        .owns(informer(
            Resource::parse("configmaps")?.labels("made-by=teams"),
        ))
        .workers(4)
        .on_failure(|key, failure| eprintln!("{key}: {failure}"))
        .elected(Election::new(lease, identity, Default::default())?)
        .shutdown_on_signal()
        .run(move |task| reconcile(task, client.clone()))
        .await?;
    Ok(())
}

async fn reconcile(
    task: Task<Meta>,
    mut client: RecordWrites<HyperTransport>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let Some(namespace) = task.object() else {
        return Ok(());
    };
    let owner = json!({
        "apiVersion": "v1", "kind": "Namespace", "name": task.name(), "uid": namespace.uid().to_string(),
        "controller": true, "blockOwnerDeletion": true,
    });
    let wanted = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "team", "labels": { "made-by": "teams" }, "ownerReferences": [owner] },
        "data": { "team": namespace.label("team") },
    });
    let maps = Resource::parse("configmaps")?.namespace(task.name());
    let target = format!("{}?fieldManager=teams&force=true", maps.object_path("team"));
    let apply = Request::patch(target)
        .header("Content-Type", "application/apply-patch+yaml")
        .body(Bytes::from(wanted.to_string()))?;
    client.accepted(apply).await?;
    Ok(())
}
