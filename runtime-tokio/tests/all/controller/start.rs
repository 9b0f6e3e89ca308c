//! When a controller begins, and which keys wait for a list.

use informer_tokio::election::{Election, Leadership};

use super::*;
use crate::leases::{Access, Leases};

fn elect(leases: &Leases, name: &str) -> (Leadership, Election<Access>) {
    Election::new(leases.access("lease", name), name, Default::default()).unwrap()
}

fn forbidden(path: &str) -> Fault {
    Fault::api_status(403, "Forbidden", "no right").on_path(path)
}

/// A replica that cannot reconcile leaves the Lease to one that can, and ends with an error that says why.
#[tokio::test(start_paused = true)]
async fn a_replica_whose_informer_cannot_list_does_not_take_the_lease() {
    let leases = Leases::default();
    let start = |name: &'static str, mock: &Server| {
        let (log, election) = (Log::default(), elect(&leases, name));
        let controller = Controller::new(informer(mock, SETS))
            .owns(informer(mock, PODS))
            .elected(election);
        (log.clone(), tokio::spawn(controller.run(noting(&log))))
    };
    let (broken, sound) = (with_sets(["a"]), with_sets(["a"]));
    broken.with(|server| server.inject(forbidden("/api/v1/pods").always()));
    let began = Instant::now();
    let (_, running) = start("broken", &broken);
    sleep(secs(60)).await;
    assert_eq!(leases.holder("lease"), None);
    let (log, _running) = start("sound", &sound);
    sleep(secs(5)).await;
    assert_eq!(leases.holder("lease").as_deref(), Some("sound"));
    assert_eq!(names(&log), ["prod/a"]);

    let error = timeout(secs(120), running).await.unwrap().unwrap();
    let error = error.unwrap_err();
    let waited = began.elapsed().as_secs();
    assert!((120..130).contains(&waited), "{waited}");
    assert_eq!(error.missing.len(), 1, "{error}");
    let text = error.to_string();
    assert!(
        text.contains("of pods.v1: ") && text.contains("403"),
        "{text}"
    );
}

/// A list that never ends is an error; one that is slow is not, and neither is one without a limit.
#[tokio::test(start_paused = true)]
async fn only_time_without_progress_counts() {
    let mock = with_sets((0..20).map(|number| format!("s{number}")));
    let start = |fault: Fault, limit: Option<Option<Duration>>| {
        mock.with(|server| {
            server.clear_faults();
            server.inject(fault.on_path("/apis/apps/v1/replicasets").always());
        });
        let controller = Controller::new(informer(&mock, SETS));
        let controller = match limit {
            None => controller,
            Some(limit) => controller.sync_within(limit),
        };
        let log = Log::default();
        let running = tokio::spawn(controller.run(noting(&log)));
        async move {
            let ended = timeout(secs(600), running).await;
            (ended.map(|ended| ended.unwrap()), names(&log).len())
        }
    };
    let slow = || Fault::nothing().bandwidth(25);
    let (ended, runs) = start(slow(), None).await;
    assert!(ended.is_err() && runs == 20, "{runs}");
    let (ended, runs) = start(slow(), Some(Some(secs(30)))).await;
    assert!(ended.is_err() && runs == 20, "{runs}");
    let (ended, _) = start(Fault::stall(), None).await;
    assert!(ended.unwrap().is_err());
    let (ended, _) = start(Fault::stall(), Some(None)).await;
    assert!(ended.is_err());
}

/// The keys of a namespace that cannot be listed wait, since a run would take their objects for deleted. The others do
/// not, and neither does the election.
#[tokio::test(start_paused = true)]
async fn only_the_keys_of_a_namespace_without_a_list_wait_for_it() {
    let mock = server();
    for (namespace, name) in [("a", "x"), ("b", "x"), ("c", "x"), ("c", "y")] {
        let metadata = json!({ "namespace": namespace, "name": name });
        let set = json!({ "metadata": metadata.clone() });
        mock.create("replicasets.apps", set).unwrap();
        let mut pod = pod(name, &[("ReplicaSet", name, true)]);
        pod["metadata"]["namespace"] = namespace.into();
        mock.create("pods", pod).unwrap();
    }
    mock.with(|server| {
        server.inject(forbidden("/apis/apps/v1/namespaces/a/replicasets").always());
        server.inject(forbidden("/api/v1/namespaces/c/pods").always());
    });
    let in_namespaces = |resource| {
        Informer::<Raw>::builder_for(&mock.transport(), resource)
            .namespaces(["a", "b", "c"])
            .initial(Initial::List)
    };
    let leases = Leases::default();
    let sets = in_namespaces(SETS).spawn();
    let controller = Controller::new(&sets)
        .owns(in_namespaces(PODS))
        .elected(elect(&leases, "one"));
    let seen: Arc<Mutex<BTreeMap<String, bool>>> = Arc::default();
    let controller = run(controller, {
        let seen = Arc::clone(&seen);
        move |task: Task<Raw>| {
            let exists = task.object().is_some();
            seen.lock().unwrap().insert(task.to_string(), exists);
            core::future::ready(Ok(()))
        }
    });
    let take = || core::mem::take(&mut *seen.lock().unwrap());
    let all = |keys: &[&str]| -> BTreeMap<String, bool> {
        keys.iter().map(|key| ((*key).to_owned(), true)).collect()
    };
    sleep(secs(300)).await;
    assert_eq!(take(), all(&["b/x"]));
    let metrics = controller.handle.metrics();
    assert_eq!(metrics.waiting_for_lists, 3, "{metrics:?}");
    let health = sets.health();
    let missing: Vec<_> = health.sources.iter().filter(|one| !one.synced).collect();
    assert_eq!(missing.len(), 1);
    assert_eq!(missing[0].namespace, "a");
    assert_eq!(missing[0].trouble.as_ref().unwrap().class, "forbidden");

    // The last one may be listed from now on.
    mock.with(|server| {
        server.clear_faults();
        server.inject(forbidden("/apis/apps/v1/namespaces/a/replicasets").always());
    });
    sleep(secs(1000)).await;
    assert_eq!(take(), all(&["c/x", "c/y"]));
    mock.with(FakeServer::clear_faults);
    sleep(secs(1000)).await;
    assert_eq!(take(), all(&["a/x"]));
    let metrics = controller.handle.metrics();
    assert_eq!(metrics.waiting_for_lists, 0, "{metrics:?}");
    controller.stop().await;
}

/// The list of a namespace that hangs has not failed, but it holds up the others for some seconds only. If it arrives
/// during a drain, its keys are left.
#[tokio::test(start_paused = true)]
async fn a_namespace_whose_list_hangs_holds_up_nothing() {
    for limit in [Some(secs(120)), None] {
        let mock = server();
        for namespace in ["a", "b"] {
            let metadata = json!({ "namespace": namespace, "name": "x" });
            mock.create("replicasets.apps", json!({ "metadata": metadata }))
                .unwrap();
        }
        let stall = Fault::stall().on_path("/apis/apps/v1/namespaces/b/replicasets");
        mock.with(|server| server.inject(stall.always()));
        let sets = Informer::<Raw>::builder_for(&mock.transport(), SETS)
            .namespaces(["a", "b"])
            .initial(Initial::List)
            .spawn();
        let controller = Controller::new(&sets).sync_within(limit).drain(secs(9000));
        let log = Log::default();
        let note = noting(&log);
        let controller = run(controller, move |task| {
            let noted = note(task);
            async move {
                noted.await?;
                sleep(secs(5000)).await;
                Ok(())
            }
        });
        controller.handle.enqueue(Key::new("b/x"));
        sleep(secs(900)).await;
        assert_eq!(*log.lock().unwrap(), [("a/x".to_owned(), 10)]);
        assert_eq!(controller.handle.metrics().waiting_for_lists, 1);
        controller.handle.drain();
        mock.with(FakeServer::clear_faults);
        sleep(secs(1000)).await;
        assert!(sets.is_synced() && !controller.ended.is_finished());
        let stopped = controller.ended.await.unwrap();
        assert_eq!((stopped.waiting, stopped.delayed, stopped.cut), (1, 0, 0));
    }
}

/// Informers are added before the controller runs, while it runs and when it has ended.
#[tokio::test(start_paused = true)]
async fn an_informer_is_added_while_the_controller_runs() {
    let mock = with_sets(["a"]);
    mock.create("pods", pod("one", &[])).unwrap();
    mock.create("configmaps", set("early", 0)).unwrap();
    let sets = informer(&mock, SETS);
    let log = Log::default();
    let controller = Controller::new(&sets);
    let handle = controller.handle();
    let to_a = |_: &informer_tokio::Entry<Raw>| [Key::new("prod/a")];
    let maps = informer(&mock, Resource::new("", "v1", "configmaps"));
    handle
        .watch(&maps, |map| [Key::new(&format!("prod/{}", map.name()))])
        .unwrap();
    let running = run(controller, noting(&log));
    sleep(secs(5)).await;
    assert_eq!(names(&log), ["prod/a", "prod/early"]);

    // The controller runs its driver. That of the other resource never has a list.
    let pods = Informer::<Raw>::builder_for(&mock.transport(), PODS).seed(2);
    handle.watch(pods, to_a).unwrap();
    let unknown = Resource::new("example.com", "v1", "widgets");
    let widgets = Informer::<Raw>::builder_for(&mock.transport(), unknown).seed(3);
    handle.watch(widgets, to_a).unwrap();
    sleep(secs(5)).await;
    assert_eq!(names(&log), ["prod/a"], "the Pod exists");
    mock.put("pods", pod("one", &[("ReplicaSet", "x", true)]))
        .unwrap();
    sleep(secs(5)).await;
    assert_eq!(names(&log), ["prod/a"], "the Pod was changed");
    handle.enqueue_all();
    sleep(secs(5)).await;
    assert_eq!(names(&log), ["prod/a", "prod/early"]);
    let shown = handle.health();
    let synced: Vec<bool> = shown.iter().map(|health| health.synced).collect();
    assert_eq!(synced, [true, false]);

    running.stop().await;
    let shown = handle.health();
    assert!(shown.is_empty(), "{shown:?}");
    let ended = handle.watch(&maps, to_a).unwrap_err();
    assert_eq!(ended.to_string(), "the controller has ended");
    assert!(maps.health().handlers.is_empty());
}

/// An object of the part that has all other namespaces is known to be deleted, since that part has no selectors of its own.
#[tokio::test(start_paused = true)]
async fn a_deletion_is_known_in_the_part_without_selectors() {
    let mock = server();
    for namespace in ["prod", "edge"] {
        let metadata = json!({ "name": "a", "namespace": namespace, "labels": { "app": "web" } });
        mock.create("pods", json!({ "metadata": metadata }))
            .unwrap();
    }
    let pods = Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .parts(|pods| vec![pods.namespace("prod").labels("app=web"), pods])
        .spawn();
    let seen: Arc<Mutex<BTreeMap<String, Option<bool>>>> = Arc::default();
    let runs = Arc::clone(&seen);
    let running = run(Controller::new(&pods), move |task: Task<Raw>| {
        runs.lock()
            .unwrap()
            .insert(task.key().to_string(), task.exists());
        core::future::ready(Ok(()))
    });
    sleep(secs(5)).await;
    for namespace in ["prod", "edge"] {
        mock.delete("pods", namespace, "a").unwrap();
    }
    sleep(secs(5)).await;
    let seen = seen.lock().unwrap().clone();
    let expected = [("edge/a", Some(false)), ("prod/a", None)];
    assert_eq!(
        seen,
        expected
            .map(|(key, exists)| (key.to_owned(), exists))
            .into()
    );
    running.stop().await;
}
