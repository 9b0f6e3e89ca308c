//! Controllers on paused time.

mod failures;
mod order;
mod own;
mod start;
mod writes;

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use informer_core::{Decode, Form, queue::Exponential};
use informer_mock::{DeleteAnswer, FakeServer, Fault, Verb, Write, json};
use informer_tokio::controller::{
    Controller, ControllerHandle, Failure, Next, Owned, OwnedObject, Owner, Provided, Stopped,
    Task, WriteLog,
};
use informer_tokio::informer::{ExpectedState, Initial};
use informer_tokio::{Informer, Key, Meta, Raw, Resource};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use crate::support::{PODS, Server, secs, server, settle, truth_of};

const SETS: Resource<'static> = Resource::new("apps", "v1", "replicasets").kind("ReplicaSet");

type Log = Arc<Mutex<Vec<(String, u64)>>>;

fn informer_of<F>(mock: &Server, resource: Resource<'_>) -> Informer<F>
where
    F: Form<Stored: Send + Sync>,
    F::Decoder: Decode<Value = F::Stored> + Default + Send + Sync + 'static,
{
    Informer::<F>::builder_for(&mock.transport(), resource)
        .initial(Initial::List)
        .seed(1)
        .spawn()
}

fn informer(mock: &Server, resource: Resource<'_>) -> Informer<Raw> {
    informer_of(mock, resource)
}

fn set(name: &str, round: u64) -> Value {
    json!({ "metadata": { "name": name, "namespace": "prod" }, "spec": { "replicas": round } })
}

/// Returns a server with these ReplicaSets.
fn with_sets<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Server {
    let mock = server();
    for name in names {
        let set = set(name.as_ref(), 0);
        mock.create("replicasets.apps", set).unwrap();
    }
    mock
}

/// A Pod with owners: `(kind, name, is the controller)`.
fn pod(name: &str, owners: &[(&str, &str, bool)]) -> Value {
    let owners: Vec<Value> = owners
        .iter()
        .map(|(kind, name, controller)| {
            json!({ "apiVersion": "apps/v1beta7", "kind": kind, "name": name, "uid": "u", "controller": controller })
        })
        .collect();
    json!({ "metadata": { "name": name, "namespace": "prod", "ownerReferences": owners } })
}

/// A running controller as seen from outside.
struct Running {
    handle: ControllerHandle,
    ended: tokio::task::JoinHandle<Stopped>,
}

impl Running {
    async fn stop(self) -> Stopped {
        self.handle.stop();
        timeout(secs(100), self.ended).await.unwrap().unwrap()
    }
}

fn run<F, R, A>(controller: Controller<Raw>, reconcile: F) -> Running
where
    F: Fn(Task<Raw>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<A, String>> + Send + 'static,
    A: Into<Next> + 'static,
{
    let handle = controller.handle();
    let ended = tokio::spawn(async move { controller.run(reconcile).await.unwrap() });
    Running { handle, ended }
}

/// A reconcile function that records the key and the second.
fn noting(log: &Log) -> impl Fn(Task<Raw>) -> core::future::Ready<Result<(), String>> + use<> {
    let (log, start) = (Arc::clone(log), Instant::now());
    move |task| {
        let second = start.elapsed().as_secs();
        log.lock().unwrap().push((task.key().to_string(), second));
        core::future::ready(Ok(()))
    }
}

fn names(log: &Log) -> Vec<String> {
    let mut names: Vec<_> = log.lock().unwrap().drain(..).map(|(key, _)| key).collect();
    names.sort();
    names
}

/// Many keys and many changes: a key is never reconciled twice at a time, all workers are used and no more, and a run
/// that begins after the last change of each key sees it.
#[tokio::test(start_paused = true)]
async fn each_key_is_reconciled_by_one_at_a_time() {
    let mock = with_sets((0..30).map(|number| format!("s{number}")));
    let sets = informer(&mock, SETS);
    let running: Arc<Mutex<BTreeMap<Key, u64>>> = Arc::default();
    let most = Arc::new(AtomicUsize::new(0));
    let seen: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
    let controller = run(Controller::new(&sets).workers(4), {
        let (running, most, seen) = (Arc::clone(&running), Arc::clone(&most), Arc::clone(&seen));
        let lister = sets.lister();
        move |task: Task<Raw>| {
            let (running, most, seen) =
                (Arc::clone(&running), Arc::clone(&most), Arc::clone(&seen));
            let lister = lister.clone();
            async move {
                let key = task.key().clone();
                let before = running.lock().unwrap().insert(key.clone(), 1);
                assert_eq!(before, None, "{key} by two");
                most.fetch_max(running.lock().unwrap().len(), Ordering::Relaxed);
                let state = lister
                    .get_by_key(key.as_str())
                    .map(|set| set.resource_version().to_string());
                sleep(Duration::from_millis(20)).await;
                running.lock().unwrap().remove(&key);
                seen.lock()
                    .unwrap()
                    .insert(key.to_string(), state.unwrap_or_default());
                Ok(())
            }
        }
    });
    for round in 0..40_u64 {
        for number in 0..30 {
            if (number + round) % 3 == 0 {
                mock.update("replicasets.apps", set(&format!("s{number}"), round))
                    .unwrap();
            }
        }
        sleep(Duration::from_millis(round * 5)).await;
    }
    mock.delete("replicasets.apps", "prod", "s7").unwrap();
    sleep(secs(20)).await;
    assert_eq!(most.load(Ordering::Relaxed), 4);
    let truth = truth_of(&mock, "replicasets.apps");
    let mut seen = seen.lock().unwrap().clone();
    assert_eq!(seen.remove("prod/s7").as_deref(), Some(""), "it is gone");
    assert_eq!(seen, truth);
    let metrics = controller.handle.metrics();
    assert_eq!(
        (metrics.running, metrics.failed, metrics.panicked),
        (0, 0, 0)
    );
    assert_eq!(controller.stop().await, Stopped::default());
}

/// Nothing is reconciled before the last informer is synced, also of two of the same resource. It fails if one is late or
/// ends, and later it ends with any of them.
#[tokio::test(start_paused = true)]
async fn it_waits_for_all_its_informers() {
    let mock = with_sets(["a"]);
    mock.create("pods", pod("p", &[("ReplicaSet", "b", true)]))
        .unwrap();
    let second = Fault::delay(secs(20))
        .on(Verb::List)
        .on_path("/api/v1/pods")
        .skip(1);
    mock.with(|server| server.inject(second));
    let (sets, pods) = (informer(&mock, SETS), informer(&mock, PODS));
    let late = informer(&mock, PODS);
    let log = Log::default();
    let controller = Controller::new(&sets).owns(&pods).owns(&late);
    let controller = run(controller, noting(&log));
    sleep(secs(10)).await;
    assert!(sets.is_synced() && pods.is_synced() && !late.is_synced());
    assert_eq!(names(&log), [""; 0]);
    sleep(secs(15)).await;
    assert_eq!(names(&log), ["prod/a", "prod/b"]);
    late.stop();
    let stopped = timeout(secs(100), controller.ended).await;
    assert_eq!(stopped.unwrap().unwrap(), Stopped::default());

    mock.with(|server| server.inject(Fault::stall().on_path("/api/v1/pods").always()));
    let (pods, others) = (informer(&mock, PODS), informer(&mock, PODS));
    let late = Controller::new(&sets).owns(&pods).owns(&others);
    let late = late.sync_within(secs(30)).run(noting(&log));
    let error = late.await.unwrap_err();
    assert_eq!(error.waited, secs(30));
    assert_eq!(error.missing.len(), 2);
    let ended = Controller::new(&sets).owns(&pods);
    let (error, ()) = tokio::join!(ended.run(noting(&log)), async {
        sleep(secs(5)).await;
        pods.stop();
    });
    assert_eq!(error.unwrap_err().missing.len(), 1);
    // It can be stopped while it waits.
    let pods = informer(&mock, PODS);
    let waiting = run(Controller::new(&sets).owns(&pods), noting(&log));
    sleep(secs(5)).await;
    assert_eq!(waiting.stop().await.waiting, 1);
    assert_eq!(names(&log), [""; 0]);
    assert!(sets.health().handlers.is_empty(), "they have all left");
}

#[tokio::test(start_paused = true)]
async fn a_key_comes_again_after_the_time_it_asked_for() {
    let mock = with_sets(["a"]);
    let sets = informer(&mock, SETS);
    let log = Log::default();
    let note = noting(&log);
    let controller = run(Controller::new(&sets), move |task| {
        let noted = note(task);
        async move { noted.await.map(|()| Next::after(secs(60))) }
    });
    sleep(secs(150)).await;
    let at: Vec<u64> = log
        .lock()
        .unwrap()
        .iter()
        .map(|(_, second)| *second)
        .collect();
    assert_eq!(at, [0, 60, 120]);
    let stopped = controller.stop().await;
    assert_eq!((stopped.delayed, stopped.waiting, stopped.cut), (1, 0, 0));
}

#[derive(serde::Deserialize)]
struct Pod {
    metadata: Metadata,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    owner_references: Vec<Reference>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
    #[serde(default)]
    controller: bool,
}

impl OwnedObject for Pod {
    fn controller(&self) -> Option<Owner> {
        let owner = self
            .metadata
            .owner_references
            .iter()
            .find(|owner| owner.controller)?;
        Some(Owner {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        })
    }
}

/// The owner that is the controller is reconciled if its group and kind match. When an object changes owners, both are
/// reconciled, and when it is deleted, the last one.
async fn owners_are_reconciled<F>()
where
    F: Form<Stored: Owned + Send + Sync>,
    F::Decoder: Decode<Value = F::Stored> + Default + Send + Sync + 'static,
{
    let mock = server();
    let (sets, pods) = (informer(&mock, SETS), informer_of::<F>(&mock, PODS));
    let log = Log::default();
    let controller = run(Controller::new(&sets).owns(&pods), noting(&log));
    settle().await;
    mock.create(
        "pods",
        pod("mine", &[("Node", "n1", false), ("ReplicaSet", "a", true)]),
    )
    .unwrap();
    mock.create("pods", pod("loose", &[])).unwrap();
    mock.create("pods", pod("used", &[("ReplicaSet", "x", false)]))
        .unwrap();
    mock.create("pods", pod("others", &[("DaemonSet", "y", true)]))
        .unwrap();
    let mut core = pod("core", &[("ReplicaSet", "z", true)]);
    core["metadata"]["ownerReferences"][0]["apiVersion"] = json!("v1");
    mock.create("pods", core).unwrap();
    settle().await;
    assert_eq!(names(&log), ["prod/a"]);
    mock.update("pods", pod("mine", &[("ReplicaSet", "b", true)]))
        .unwrap();
    settle().await;
    assert_eq!(names(&log), ["prod/a", "prod/b"]);
    mock.delete("pods", "prod", "mine").unwrap();
    settle().await;
    assert_eq!(names(&log), ["prod/b"]);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn owners_are_reconciled_whatever_is_kept_of_what_they_own() {
    owners_are_reconciled::<Raw>().await;
    #[cfg(feature = "zstd")]
    {
        owners_are_reconciled::<informer_tokio::Packed<Raw>>().await;
        owners_are_reconciled::<informer_tokio::Packed<Value>>().await;
    }
    owners_are_reconciled::<Meta>().await;
    owners_are_reconciled::<Pod>().await;
}

/// A cluster-scoped owner owns namespaced objects.
#[tokio::test(start_paused = true)]
async fn owners_without_a_namespace_are_found() {
    let mock = server();
    mock.create("pods", pod("p", &[("Node", "n1", true)]))
        .unwrap();
    let nodes = informer(&mock, Resource::parse("nodes").unwrap());
    let pods = informer(&mock, PODS);
    let log = Log::default();
    // The group of the reference is `apps` in this test, and nodes have an empty group.
    let controller = run(Controller::new(&nodes).owns(&pods), noting(&log));
    settle().await;
    assert_eq!(names(&log), [""; 0]);
    let mut own = pod("p", &[("Node", "n1", true)]);
    own["metadata"]["ownerReferences"][0]["apiVersion"] = json!("v1");
    mock.update("pods", own).unwrap();
    settle().await;
    assert_eq!(names(&log), ["n1"]);
    controller.stop().await;
}

/// Neither the scope nor, in the second round, the kind of a custom resource is known before its objects show it.
#[tokio::test(start_paused = true)]
async fn the_scope_and_the_kind_of_owners_are_read_from_the_cache() {
    for (namespaced, kind, wanted) in [
        (false, Some("Tenant"), "acme"),
        (true, Some("Tenant"), "prod/acme"),
        (false, None, "acme"),
        (true, None, "prod/acme"),
    ] {
        let mock = server();
        mock.with(|server| {
            server.add_resource("example.com", "v1", "tenants", "Tenant", namespaced);
        });
        let named = Resource::new("example.com", "v1", "tenants").kind(kind.unwrap_or_default());
        let (tenants, pods) = (informer(&mock, named), informer(&mock, PODS));
        let owned_by = |kind: &str, name: &str, uid: &str| {
            let mut own = pod(
                &format!("{name}-{}", kind.to_lowercase()),
                &[(kind, name, true)],
            );
            own["metadata"]["ownerReferences"][0]["apiVersion"] = json!("example.com/v1");
            own["metadata"]["ownerReferences"][0]["uid"] = json!(uid);
            own
        };
        let log = Log::default();
        let controller = run(Controller::new(&tenants).owns(&pods), noting(&log));
        // Without an owner there is nothing to reconcile, and no key to guess.
        mock.create("pods", owned_by("Tenant", "early", "u"))
            .unwrap();
        settle().await;
        assert_eq!(names(&log), [""; 0], "{named}");

        let mut tenant = json!({ "metadata": { "name": "acme" } });
        if namespaced {
            tenant["metadata"]["namespace"] = json!("prod");
        }
        mock.create("tenants.example.com", tenant).unwrap();
        settle().await;
        assert_eq!(names(&log), [wanted]);
        let uid = tenants.lister().list()[0].uid().to_string();
        mock.create("pods", owned_by("Tenant", "acme", &uid))
            .unwrap();
        settle().await;
        assert_eq!(names(&log), [wanted]);
        mock.create("pods", owned_by("Landlord", "acme", "u2"))
            .unwrap();
        settle().await;
        assert_eq!(names(&log), [""; 0], "another kind of the group");
        controller.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn watched_objects_are_mapped_to_keys() {
    let mock = server();
    let (sets, pods) = (informer(&mock, SETS), informer(&mock, PODS));
    let log = Log::default();
    let controller = Controller::new(&sets)
        .watches(&pods, |pod| {
            assert_ne!(
                pod.name(),
                "wild",
                "a function that panics loses this one alone"
            );
            let of = pod.string_at(&["spec", "of"]).unwrap_or_default();
            of.split(',').map(Key::new).collect::<Vec<_>>()
        })
        .only(|key| key.as_str() != "prod/no")
        .only(|key| key.as_str() != "prod/nor");
    let controller = run(controller, noting(&log));
    settle().await;
    let of = |name: &str, of: &str| json!({ "metadata": { "name": name, "namespace": "prod" }, "spec": { "of": of } });
    mock.create("pods", of("p", "prod/a,prod/b,prod/no,prod/nor"))
        .unwrap();
    mock.create("pods", of("wild", "prod/c")).unwrap();
    settle().await;
    assert_eq!(names(&log), ["prod/a", "prod/b"]);
    mock.update("pods", of("p", "prod/b,prod/d")).unwrap();
    settle().await;
    assert_eq!(names(&log), ["prod/a", "prod/b", "prod/d"]);
    controller.handle.enqueue(Key::new("prod/by-hand"));
    controller.handle.enqueue(Key::new("prod/no"));
    settle().await;
    assert_eq!(names(&log), ["prod/by-hand"]);
    controller.stop().await;
}

/// An object is replayed once per period, however many others belong to it, and the others are not. All keys that follow
/// from objects come after those that have changed.
#[tokio::test(start_paused = true)]
async fn a_resync_reconciles_every_key_again() {
    let mock = with_sets(["a", "b"]);
    for owner in ["a", "gone"] {
        mock.create("pods", pod(owner, &[("ReplicaSet", owner, true)]))
            .unwrap();
    }
    let (sets, pods) = (informer(&mock, SETS), informer(&mock, PODS));
    let log = Log::default();
    let controller = run(
        Controller::new(&sets)
            .owns(&pods)
            .resync(secs(60))
            .debounce(secs(5)),
        noting(&log),
    );
    sleep(secs(30)).await;
    assert_eq!(names(&log), ["prod/a", "prod/b", "prod/gone"]);
    let requests = mock.log().iter().count();
    sleep(secs(60)).await;
    // It is no change.
    assert!(log.lock().unwrap().iter().all(|(_, second)| *second == 60));
    assert_eq!(names(&log), ["prod/a", "prod/b"]);
    assert_eq!(
        mock.log().iter().count(),
        requests,
        "the server was not asked"
    );
    controller.handle.enqueue_all();
    controller.handle.enqueue(Key::new("prod/fresh"));
    settle().await;
    assert_eq!(log.lock().unwrap()[0].0, "prod/fresh");
    let all = ["prod/a", "prod/b", "prod/fresh", "prod/gone"];
    assert_eq!(names(&log), all);
    controller.stop().await;
}

/// An owner that the informer does not select would be taken for deleted, so it is not reconciled. Of other keys, a run
/// learns that nothing is known of them.
#[tokio::test(start_paused = true)]
async fn a_key_that_is_not_selected_is_not_taken_for_deleted() {
    let mock = server();
    for (name, app) in [("a", "web"), ("b", "db")] {
        let mut set = set(name, 0);
        set["metadata"]["labels"] = json!({ "app": app });
        mock.create("replicasets.apps", set).unwrap();
    }
    for owner in ["a", "b", "gone"] {
        mock.create("pods", pod(owner, &[("ReplicaSet", owner, true)]))
            .unwrap();
    }
    for (resource, of_pods, of_handle) in [
        (SETS, vec!["prod/a", "prod/b", "prod/gone"], Some(false)),
        (SETS.labels("app=web"), vec!["prod/a"], None),
        (SETS.namespace("other"), vec![], None),
    ] {
        let sets = informer(&mock, resource);
        let seen: Arc<Mutex<BTreeMap<String, Option<bool>>>> = Arc::default();
        let controller = Controller::new(&sets).owns(informer(&mock, PODS));
        let controller = run(controller, {
            let seen = Arc::clone(&seen);
            move |task: Task<Raw>| {
                seen.lock().unwrap().insert(task.to_string(), task.exists());
                core::future::ready(Ok(()))
            }
        });
        settle().await;
        let runs = core::mem::take(&mut *seen.lock().unwrap());
        assert_eq!(runs.keys().collect::<Vec<_>>(), of_pods, "{resource}");
        assert_eq!(
            runs.get("prod/a").copied(),
            (!of_pods.is_empty()).then_some(Some(true))
        );
        controller.handle.enqueue(Key::new("prod/none"));
        settle().await;
        assert_eq!(seen.lock().unwrap().get("prod/none"), Some(&of_handle));
        controller.stop().await;
    }
}

/// `owns` reconciles the owner that manages an object, and `owns_any` all of them, in every form.
#[tokio::test(start_paused = true)]
async fn every_owner_can_be_reconciled() {
    async fn owners<F>() -> [Vec<String>; 2]
    where
        F: Form<Stored: Owned + Send + Sync + 'static>,
        F::Decoder: Decode<Value = F::Stored> + Default + Send + Sync + 'static,
    {
        let mock = server();
        let owners = [
            ("ReplicaSet", "a", false),
            ("ReplicaSet", "b", true),
            ("ReplicaSet", "c", false),
            ("Job", "d", false),
        ];
        mock.create("pods", pod("p", &owners)).unwrap();
        let mut seen = Vec::new();
        for any in [false, true] {
            let sets = informer(&mock, SETS);
            let pods = informer_of::<F>(&mock, PODS);
            let (controller, log) = (Controller::new(&sets), Log::default());
            let controller = match any {
                true => controller.owns_any(&pods),
                false => controller.owns(&pods),
            };
            let controller = run(controller, noting(&log));
            settle().await;
            seen.push(names(&log));
            controller.stop().await;
        }
        seen.try_into().unwrap()
    }
    let expected = [vec!["prod/b"], vec!["prod/a", "prod/b", "prod/c"]];
    assert_eq!(owners::<Raw>().await, expected);
    assert_eq!(owners::<Meta>().await, expected);
}

/// The cache is slow. A key is not reconciled with a state from before its own write, whatever else happens to it, and
/// the worker processes other keys.
#[tokio::test(start_paused = true)]
async fn a_key_waits_until_the_cache_has_its_own_write() {
    let mock = with_sets(["a"]);
    // The last byte of an event of some 300 bytes arrives seconds later.
    mock.with(|server| server.inject(Fault::nothing().bandwidth(50).on(Verb::Watch).always()));
    let sets = informer(&mock, SETS);
    let written: Arc<Mutex<Vec<u64>>> = Arc::default();
    let controller = Controller::new(&sets).on_failure(|key, failure| {
        let is_expected = matches!(failure, Failure::Failed(error) if error.to_string() == "no");
        assert!(is_expected, "{key}: {failure}");
    });
    let controller = run(controller, {
        let (mock, sets, written) = (mock.clone(), sets.clone(), Arc::clone(&written));
        move |task: Task<Raw>| {
            let result = (|| {
                let Some(set_seen) = sets.lister().get_by_key(task.as_str()) else {
                    return Ok(());
                };
                if task.name() != "a" {
                    return Ok(());
                }
                let seen: u64 = set_seen.resource_version().to_string().parse().unwrap();
                let mut written = written.lock().unwrap();
                let last = written.last().copied().unwrap_or_default();
                assert!(seen >= last, "it sees {seen} and has written {last}");
                if written.len() < 5 {
                    let version = mock.update("replicasets.apps", set("a", seen)).unwrap();
                    task.wrote(&sets, &task, &version.to_string());
                    written.push(version);
                    if written.len() == 3 {
                        // It also counts if the run fails afterwards.
                        return Err("no".to_owned());
                    }
                }
                Ok(())
            })();
            core::future::ready(result)
        }
    });
    controller.handle.enqueue(Key::new("prod/a"));
    sleep(secs(2)).await;
    let metrics = controller.handle.metrics();
    assert_eq!((metrics.running, metrics.waiting_for_writes), (0, 1));
    for _ in 0..100 {
        controller.handle.enqueue(Key::new("prod/a"));
        controller.handle.enqueue(Key::new("prod/other"));
        sleep(Duration::from_millis(700)).await;
    }
    assert_eq!(written.lock().unwrap().len(), 5);
    let metrics = controller.handle.metrics();
    assert_eq!((metrics.panicked, metrics.writes_not_seen), (0, 0));
    assert!(metrics.succeeded > 90, "{metrics:?}");
    controller.stop().await;
}

/// The response to a DELETE may have the version that the cache already shows, so the uid decides.
#[tokio::test(start_paused = true)]
async fn a_deletion_is_awaited_until_the_cache_shows_it() {
    use DeleteAnswer::{NewVersion, OldVersion, Status};
    for answer in [OldVersion, NewVersion, Status] {
        let mock = server();
        mock.with(|server| server.config_mut().deletes = answer);
        mock.create("replicasets.apps", set("a", 0)).unwrap();
        let sets = informer(&mock, SETS);
        sets.synced().await.unwrap();
        let delete = Write {
            method: "DELETE",
            target: "/apis/apps/v1/namespaces/prod/replicasets/a",
            content_type: "application/json",
            body: b"",
        };
        let epoch = informer_mock::Instant::from_micros(0);
        let (status, body) = mock.with(|server| server.execute(epoch, delete));
        assert_eq!(status, 200);
        assert!(
            sets.lister().get_by_key("prod/a").is_some(),
            "the event is on its way"
        );
        let expected = ExpectedState::after_delete(&body).unwrap();
        let seen = sets.wait_for_write("prod/a", expected);
        timeout(secs(60), seen).await.unwrap().unwrap();
        assert!(sets.lister().get_by_key("prod/a").is_none(), "{answer:?}");
    }
}

/// If the cache never shows the write, the key is reconciled after the deadline, and a failure is reported.
#[tokio::test(start_paused = true)]
async fn waiting_for_a_write_has_an_end() {
    for recorded in [false, true] {
        waiting_for_writes_has_an_end(recorded).await;
    }
}

/// With two writes of a run, and a log that two informers came with.
async fn waiting_for_writes_has_an_end(recorded: bool) {
    let mock = with_sets(["a"]);
    let sets = informer(&mock, SETS);
    let log = Log::default();
    let notified = Arc::new(Mutex::new(Vec::new()));
    let writes = WriteLog::default();
    let controller = Controller::new(Provided::from(sets.clone()).with_writes(&writes))
        .owns(Provided::from(informer(&mock, PODS)).with_writes(&writes));
    let controller = controller.write_deadline(secs(45)).on_failure({
        let notified = Arc::clone(&notified);
        move |key, failure| {
            assert!(matches!(failure, Failure::WriteNotSeen { .. }));
            notified.lock().unwrap().push(format!("{key}: {failure}"));
        }
    });
    let controller = run(controller, {
        let (sets, note) = (sets.clone(), noting(&log));
        move |task: Task<Raw>| {
            for key in ["prod/a", "prod/b"] {
                if recorded {
                    writes.record(&SETS, key, "1000000", None);
                } else {
                    task.wrote(&sets, &Key::new(key), "1000000");
                }
            }
            note(task)
        }
    });
    settle().await;
    controller.handle.enqueue(Key::new("prod/a"));
    sleep(secs(60)).await;
    let at: Vec<u64> = log
        .lock()
        .unwrap()
        .iter()
        .map(|(_, second)| *second)
        .collect();
    assert_eq!(at, [0, 45]);
    let text = |key: &str| {
        format!("prod/a: replicasets.v1.apps did not show the write of {key} at 1000000 within 45s")
    };
    assert_eq!(*notified.lock().unwrap(), ["prod/a", "prod/b"].map(text));
    // A stop does not wait for it.
    let (start, handle) = (Instant::now(), controller.handle.clone());
    assert_eq!(handle.metrics().waiting_for_writes, 1);
    controller.stop().await;
    assert!(start.elapsed() < secs(1));
    assert_eq!(handle.metrics().waiting_for_writes, 0);
}

/// A stop lets running reconciliations finish and begins none. A drain also processes waiting keys. Slow runs are cut.
#[tokio::test(start_paused = true)]
async fn stops_are_clean() {
    let mock = with_sets((0..6).map(|number| format!("s{number}")));
    let sets = informer(&mock, SETS);
    let begun = Arc::new(AtomicUsize::new(0));
    let done = Arc::new(AtomicUsize::new(0));
    let begin = |controller: Controller<Raw>| {
        begun.store(0, Ordering::Relaxed);
        done.store(0, Ordering::Relaxed);
        let (begun, done) = (Arc::clone(&begun), Arc::clone(&done));
        run(controller.workers(2), move |_| {
            let (begun, done) = (Arc::clone(&begun), Arc::clone(&done));
            async move {
                // Two runs do not end at the same time.
                let number = begun.fetch_add(1, Ordering::Relaxed) as u64;
                sleep(secs(10 + number % 2)).await;
                done.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        })
    };
    let counts = || (begun.load(Ordering::Relaxed), done.load(Ordering::Relaxed));

    let controller = begin(Controller::new(&sets));
    sleep(secs(15)).await;
    controller.handle.stop();
    // It comes too late.
    controller.handle.drain();
    let stopped = controller.ended.await.unwrap();
    assert_eq!((stopped.waiting, stopped.cut), (2, 0));
    assert_eq!(counts(), (4, 4));

    let controller = begin(Controller::new(&sets));
    sleep(secs(5)).await;
    controller.handle.drain();
    mock.update("replicasets.apps", set("s0", 1)).unwrap();
    assert_eq!(controller.ended.await.unwrap(), Stopped::default());
    assert_eq!(counts(), (6, 6));

    let cut = Arc::new(AtomicUsize::new(0));
    let controller = begin(Controller::new(&sets).drain(secs(3)).on_failure({
        let cut = Arc::clone(&cut);
        move |_, failure| {
            assert!(matches!(failure, Failure::Cut));
            cut.fetch_add(1, Ordering::Relaxed);
        }
    }));
    sleep(secs(5)).await;
    let handle = controller.handle.clone();
    let stopped = controller.stop().await;
    assert_eq!((stopped.waiting, stopped.cut), (4, 2));
    assert_eq!((handle.metrics().running, handle.metrics().cut), (0, 2));
    assert_eq!((counts(), cut.load(Ordering::Relaxed)), ((2, 0), 2));

    // A drain that takes too long is cut as well, and one with a limit of zero ends at once.
    let controller = Controller::new(&sets).drain(secs(12));
    let controller = begin(controller.debounce(secs(100)));
    sleep(secs(5)).await;
    mock.update("replicasets.apps", set("s0", 2)).unwrap();
    settle().await;
    controller.handle.drain();
    let stopped = controller.ended.await.unwrap();
    assert_eq!((stopped.waiting, stopped.delayed, stopped.cut), (2, 1, 2));

    let controller = begin(Controller::new(&sets));
    sleep(secs(5)).await;
    controller.handle.drain();
    sleep(secs(1)).await;
    let stopped = controller.stop().await;
    assert_eq!((stopped.waiting, stopped.cut), (4, 0));
    assert_eq!(counts(), (2, 2));

    // When the informer ends, so does its controller. A dropped future leaves nothing behind.
    let controller = begin(Controller::new(&sets));
    let dropped = begin(Controller::new(&sets));
    sleep(secs(1)).await;
    dropped.ended.abort();
    settle().await;
    assert_eq!(sets.health().handlers.len(), 1);
    sets.stop();
    let stopped = timeout(secs(100), controller.ended).await.unwrap().unwrap();
    assert_eq!(stopped.waiting, 4);
}

/// The first signal stops the controller, and the second one cuts a run that does not end. Signals are real, and so is
/// the time.
#[cfg(all(unix, feature = "signal"))]
#[tokio::test]
async fn signals_stop_a_controller() {
    let mock = with_sets(["a"]);
    let sets = informer(&mock, SETS);
    let begun = Arc::new(tokio::sync::Notify::new());
    let controller = Controller::new(&sets).shutdown_on_signal().drain(secs(600));
    let controller = run(controller, {
        let begun = Arc::clone(&begun);
        move |_| {
            begun.notify_one();
            core::future::pending::<Result<(), String>>()
        }
    });
    begun.notified().await;
    let signal = |name: &str| {
        let process = std::process::id().to_string();
        let mut kill = tokio::process::Command::new("kill");
        kill.args(["-s", name, &process]).status()
    };
    assert!(signal("TERM").await.unwrap().success());
    while !format!("{:?}", controller.handle).contains("stop: Now") {
        tokio::task::yield_now().await;
    }
    assert!(!controller.ended.is_finished(), "the run may finish");
    assert!(signal("INT").await.unwrap().success());
    let stopped = timeout(secs(100), controller.ended).await.unwrap().unwrap();
    assert_eq!((stopped.waiting, stopped.cut), (0, 1));
}
