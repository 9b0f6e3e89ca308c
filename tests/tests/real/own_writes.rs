//! Own writes to the status of built-in objects, which another client changes as well.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;

use informer_kube::Informers;
use informer_kube::controller::{Controller, ControllerHandle, Task};
use informer_tests::real::{Outcome, ensure};
use informer_tests::say;
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::{Context, soak};

const PATIENCE: Duration = Duration::from_secs(60);
const OBJECTS: usize = 80;
/// Clients that change the objects, each its own ones.
const CLIENTS: usize = 4;
const ROUND: &str = "example.com/round";

/// The number of writes of each object by the controller.
type Written = Arc<[watch::Sender<u64>]>;

/// Each change of another client makes a controller write the status once. Without its option, that write causes another
/// run; with it, there is one run for each change, and none is missed.
///
/// There are `INFORMER_TEST_OWN_WRITES` changes, or 400.
pub(crate) async fn to_the_status_cause_no_runs(context: Context) -> Outcome {
    let changes = soak::number("INFORMER_TEST_OWN_WRITES", 400)?;
    let kubectl = context.kubectl()?;
    let mut figures = Vec::new();
    for skips in [false, true] {
        let namespace = format!("own-writes-{skips}");
        kubectl.run(&["create", "namespace", &namespace]).await?;
        figures.push(run(&context, &namespace, skips, changes).await?);
        let delete = ["delete", "namespace", &namespace, "--wait=false"];
        kubectl.run(&delete).await?;
    }
    let [without, with] = figures[..] else {
        return Err("two figures".into());
    };
    say(&format!(
        "runs for {changes} own writes to the status: {without}, and {with} if they are skipped"
    ));
    // On a busy machine, changes may be merged, and a watch may be opened again by a list.
    ensure(4 * without > 7 * changes, format_args!("{without} runs"))?;
    ensure(
        (20 * changes..21 * changes).contains(&(20 * with)),
        format_args!("{with} runs"),
    )
}

/// Returns the number of runs for this number of changes by other clients.
async fn run(context: &Context, namespace: &str, skips: bool, changes: u64) -> Outcome<u64> {
    let config = Kubeconfig::read_from(&context.kubeconfig)?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let ingresses = Api::<Ingress>::namespaced(client.clone(), namespace);
    for number in 0..OBJECTS {
        let ingress = serde_json::from_value(json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
            "metadata": { "name": format!("web-{number}"), "annotations": { ROUND: "0" } },
            "spec": { "defaultBackend": { "service": { "name": "web", "port": { "number": 80 } } } },
        }))?;
        ingresses.create(&PostParams::default(), &ingress).await?;
    }

    let informers = Informers::new(client);
    let written: Written = (0..OBJECTS).map(|_| watch::Sender::new(0)).collect();
    let controller = Controller::new(informers.namespaced::<Ingress>(namespace)).workers(4);
    let controller = match skips {
        true => controller.skip_own_writes(["status"]),
        false => controller,
    };
    let handle = controller.handle();
    let (client, counts) = (informers.client(), Arc::clone(&written));
    let running =
        tokio::spawn(controller.run(move |task| reconcile(task, client.clone(), counts.clone())));
    for written in &*written {
        let mut written = written.subscribe();
        tokio::time::timeout(PATIENCE, written.wait_for(|written| *written == 1)).await??;
    }
    let before = settled(&handle).await;

    let rounds = Arc::new(AtomicU64::new(0));
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (ingresses, written) = (ingresses.clone(), Arc::clone(&written));
        let rounds = Arc::clone(&rounds);
        clients.spawn(async move {
            for number in (client..OBJECTS).step_by(CLIENTS).cycle() {
                let round = rounds.fetch_add(1, Relaxed) + 1;
                if round > changes {
                    break;
                }
                let mut written = written[number].subscribe();
                let before = *written.borrow();
                change(&ingresses, number, round).await?;
                let answered = written.wait_for(|written| *written > before);
                let answered = tokio::time::timeout(PATIENCE, answered).await;
                answered.map_err(|_| format!("change {round} of {number} is lost"))??;
            }
            Outcome::Ok(())
        });
    }
    while let Some(done) = clients.join_next().await {
        done??;
    }
    let runs = settled(&handle).await - before;
    let metrics = handle.metrics();
    ensure(
        metrics.failed == 0 && (metrics.own_writes_skipped > 0) == skips,
        format_args!("{metrics:?}"),
    )?;
    handle.stop();
    running.await??;
    Ok(runs)
}

/// Returns the number of runs once there are no more.
async fn settled(handle: &ControllerHandle) -> u64 {
    loop {
        let before = handle.metrics().succeeded;
        tokio::time::sleep(Duration::from_secs(2)).await;
        if handle.metrics().succeeded == before {
            return before;
        }
    }
}

/// Changes the annotation of an object, or its status.
async fn change(ingresses: &Api<Ingress>, number: usize, round: u64) -> Outcome {
    let (name, params) = (format!("web-{number}"), PatchParams::default());
    if round.is_multiple_of(2) {
        let patch = json!({ "metadata": { "annotations": { ROUND: round.to_string() } } });
        ingresses
            .patch(&name, &params, &Patch::Merge(patch))
            .await?;
    } else {
        let patch = json!({ "status": status_of(&format!("another-{round}")) });
        let patch = Patch::Merge(patch);
        ingresses.patch_status(&name, &params, &patch).await?;
    }
    Ok(())
}

fn status_of(hostname: &str) -> Value {
    json!({ "loadBalancer": { "ingress": [{ "hostname": hostname }] } })
}

/// Makes the status follow the annotation. Every other object is written for the state that was seen.
async fn reconcile(
    task: Task<Ingress>,
    client: Client,
    written: Written,
) -> Result<(), Box<dyn core::error::Error + Send + Sync>> {
    let Some(ingress) = task.object() else {
        return Ok(());
    };
    let Some(round) = ingress.annotations().get(ROUND) else {
        return Ok(());
    };
    let number: usize = task.name().trim_start_matches("web-").parse()?;
    let ingresses = Api::<Ingress>::namespaced(client, task.namespace());
    let status = status_of(&format!("round-{round}"));
    if serde_json::to_value(&ingress.status)? == status {
        return Ok(());
    }
    if number.is_multiple_of(2) {
        let (mut ingress, params) = (ingress.get().clone(), PostParams::default());
        ingress.status = serde_json::from_value(status)?;
        let name = task.name();
        ingresses.replace_status(name, &params, &ingress).await?;
    } else {
        let (patch, params) = (json!({ "status": status }), PatchParams::default());
        let patch = Patch::Merge(patch);
        ingresses.patch_status(task.name(), &params, &patch).await?;
    }
    written[number].send_modify(|written| *written += 1);
    Ok(())
}
