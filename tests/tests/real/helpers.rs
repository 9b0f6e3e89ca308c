//! Helpers of kube in a controller of `informer-kube`: finalizers, events, and waits for a condition.

use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use informer_kube::Informers;
use informer_kube::controller::{Controller, Task};
use informer_kube::rights::Rights;
use informer_tests::real::{Outcome, ensure};
use informer_tokio::recorder::{Happened, Recorder as EventRecorder, Regarding};
use informer_tokio::{Informer, Raw, Resource};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::finalizer::{Event as Finalizer, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, Resource as _, ResourceExt as _};

use crate::Context;

const PATIENCE: Duration = Duration::from_secs(60);
const CLEANUP: &str = "example.com/cleanup";

type Failure = Box<dyn core::error::Error + Send + Sync>;

/// What the reconcile function did, in order.
type Calls = Arc<Mutex<Vec<&'static str>>>;

/// An object gets a finalizer, is applied, and is cleaned up before the server deletes it. Each step is an event. So it is in
/// a controller that skips its own writes, since the finalizer is none to the status.
pub(crate) async fn finalizers_events_and_conditions(context: Context) -> Outcome {
    names_missing_rights(&context).await?;
    for skips in [false, true] {
        let namespace = format!("helpers-{skips}");
        finalizes(&context, &namespace, skips).await?;
    }
    Ok(())
}

/// One error names all rights that a user lacks.
async fn names_missing_rights(context: &Context) -> Outcome {
    let config = Kubeconfig::read_from(&context.kubeconfig)?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    let mut nobody = config.clone();
    nobody.auth_info.impersonate = Some("nobody".to_owned());
    nobody.auth_info.impersonate_groups = Some(vec!["system:authenticated".to_owned()]);
    let maps = Resource::new("", "v1", "configmaps").namespace("default");
    let rights = Rights::new().verbs(maps, &["list", "watch"]).events("");
    let check =
        |config| -> Result<_, Failure> { Ok(informer_kube::service(Client::try_from(config)?)) };
    rights.check(&mut check(config)?).await?;
    let missing = rights.check(&mut check(nobody)?).await;
    let missing = missing
        .err()
        .map_or_else(String::new, |error| error.to_string());
    let both = missing.contains("`list`, `watch` on `configmaps` in the namespace `default`")
        && missing.contains("`create`, `patch` on `events.events.k8s.io` in all namespaces");
    ensure(both, missing)
}

async fn finalizes(context: &Context, namespace: &str, skips: bool) -> Outcome {
    let kubectl = context.kubectl()?;
    kubectl.run(&["create", "namespace", namespace]).await?;
    let config = Kubeconfig::read_from(&context.kubeconfig)?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    let informers = Informers::new(Client::try_from(config)?);
    let client = informers.client();

    let calls = Calls::default();
    let controller = Controller::new(informers.namespaced::<ConfigMap>(namespace).labels("app"));
    let controller = match skips {
        true => controller.skip_own_writes(["status"]),
        false => controller,
    };
    let handle = controller.handle();
    let recorder = Recorder::new(client.clone(), Reporter::from("helpers"));
    let running = {
        let (client, calls) = (client.clone(), calls.clone());
        tokio::spawn(
            controller
                .run(move |task| reconcile(task, client.clone(), recorder.clone(), calls.clone())),
        )
    };

    let maps = Api::<ConfigMap>::namespaced(client, namespace);
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some("web".to_owned()),
            labels: Some([("app".to_owned(), "web".to_owned())].into()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    let map = maps.create(&PostParams::default(), &map).await?;
    let has_finalizer = |map: Option<&ConfigMap>| {
        map.is_some_and(|map| map.finalizers().iter().any(|name| name == CLEANUP))
    };
    tokio::time::timeout(
        PATIENCE,
        await_condition(maps.clone(), "web", has_finalizer),
    )
    .await??;
    let events = [
        "get",
        "events",
        "-n",
        namespace,
        "--sort-by=.metadata.name",
        "-o",
        "jsonpath={range .items[*]}{.involvedObject.name} {.reason} {end}",
    ];
    let mut shown = String::new();
    let is_applied = async {
        while shown != "web Applied " {
            tokio::time::sleep(Duration::from_millis(100)).await;
            shown = kubectl.run(&events).await?;
        }
        Outcome::Ok(())
    };
    tokio::time::timeout(PATIENCE, is_applied).await??;

    kubectl
        .run(&[
            "delete",
            "configmap",
            "web",
            "-n",
            namespace,
            "--wait=false",
        ])
        .await?;
    let uid = map.uid().ok_or("it has no uid")?;
    let is_deleted = conditions::is_deleted(&uid);
    tokio::time::timeout(PATIENCE, await_condition(maps, "web", is_deleted)).await??;
    let shown = kubectl.run(&events).await?;
    ensure(shown.contains("web CleanedUp"), &shown)?;

    let is_gone = async {
        while calls.lock().unwrap_or_else(PoisonError::into_inner).last() != Some(&"gone") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, is_gone).await?;
    let calls = core::mem::take(&mut *calls.lock().unwrap_or_else(PoisonError::into_inner));
    // No run sees a state from before its own write: the finalizer is added once, and the object cleaned up once.
    ensure(
        calls.iter().filter(|call| **call == "cleanup").count() == 1,
        format_args!("{calls:?}"),
    )?;
    let metrics = handle.metrics();
    ensure(
        metrics.failed == 0 && metrics.writes_not_seen == 0,
        format_args!("{metrics:?}, {calls:?}"),
    )?;
    handle.stop();
    running.await??;
    kubectl
        .run(&["delete", "namespace", namespace, "--wait=false"])
        .await?;
    Ok(())
}

async fn reconcile(
    task: Task<ConfigMap>,
    client: Client,
    recorder: Recorder,
    calls: Calls,
) -> Result<(), Failure> {
    let note = |call| {
        calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(call);
    };
    let Some(map) = task.object() else {
        note("gone");
        return Ok(());
    };
    let maps = Api::<ConfigMap>::namespaced(client, task.namespace());
    finalizer(&maps, CLEANUP, Arc::new(map.get().clone()), async |event| {
        let (map, call, reason) = match event {
            Finalizer::Apply(map) => (map, "apply", "Applied"),
            Finalizer::Cleanup(map) => (map, "cleanup", "CleanedUp"),
        };
        note(call);
        let event = Event {
            type_: EventType::Normal,
            reason: reason.to_owned(),
            note: None,
            action: reason.to_owned(),
            secondary: None,
        };
        recorder.publish(&event, &map.object_ref(&())).await?;
        Ok::<_, kube::Error>(Action::await_change())
    })
    .await?;
    Ok(())
}

/// An Event of the recorder without kube is shown by kubectl, and the same Event again counts it up.
pub(crate) async fn events_without_kube(context: Context) -> Outcome {
    let kubectl = context.kubectl()?;
    let namespace = "events-without-kube";
    kubectl.run(&["create", "namespace", namespace]).await?;
    let create = ["create", "configmap", "web", "-n", namespace];
    kubectl.run(&create).await?;
    let config = informer_hyper::Kubeconfig::from_file(&context.kubeconfig)?;
    let transport = config.builder()?.build()?;
    let maps = Resource::new("", "v1", "configmaps").namespace(namespace);
    let maps = Informer::<Raw>::builder_for(&transport, maps).spawn();
    maps.synced().await?;
    let map = maps.lister().get(namespace, "web");
    let map = map.ok_or("the cache has no ConfigMap")?;
    let recorder = EventRecorder::new(transport, "example.com/test", "one");
    let about = Regarding::of("v1", "ConfigMap", &map);
    for _ in 0..3 {
        let happened = Happened::warning("Seen", "Look", "it is there");
        recorder.publish(&about, &happened).await?;
    }
    let path = "jsonpath={range .items[*]}{.reason} {.type} {.note} {.series.count}\n{end}";
    let events = [
        "get",
        "events.v1.events.k8s.io",
        "-n",
        namespace,
        "-o",
        path,
    ];
    let shown = kubectl.run(&events).await?;
    ensure(shown.contains("Seen Warning it is there 3"), &shown)?;
    let described = ["describe", "configmap", "web", "-n", namespace];
    let described = kubectl.run(&described).await?;
    ensure(described.contains("it is there"), &described)?;
    maps.stop();
    let delete = ["delete", "namespace", namespace, "--wait=false"];
    kubectl.run(&delete).await?;
    Ok(())
}
