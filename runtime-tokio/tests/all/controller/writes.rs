//! Logs of writes, and controllers that run their informers.

use informer_tokio::controller::{IntoInformer as _, Predicate};

use super::*;

/// A client that records its writes, as a wrapper of an HTTP client does.
#[derive(Clone)]
struct Client {
    mock: Server,
    log: WriteLog,
}

impl Client {
    /// Writes an object and returns its version.
    fn send(&self, method: &str, resource: &Resource<'_>, name: &str, body: &Value) -> u64 {
        let root = match resource.group {
            "" => format!("/api/{}", resource.version),
            group => format!("/apis/{group}/{}", resource.version),
        };
        let collection = format!("{root}/namespaces/prod/{}", resource.plural);
        let target = match method {
            "POST" => collection,
            _ => format!("{collection}/{name}"),
        };
        let body = match method {
            "DELETE" => Vec::new(),
            _ => serde_json::to_vec(body).unwrap(),
        };
        let write = Write {
            method,
            target: &target,
            content_type: "application/json",
            body: &body,
        };
        let now = informer_mock::Instant::from_micros(0);
        let (status, answer) = self.mock.with(|server| server.execute(now, write));
        assert!((200..300).contains(&status), "{method} {target}: {status}");
        let object: Value = serde_json::from_slice(&answer).unwrap();
        let version = object["metadata"]["resourceVersion"].as_str();
        let expected = match method {
            "DELETE" => ExpectedState::after_delete(&answer).unwrap(),
            _ => ExpectedState::at_version(version.unwrap()),
        };
        let is_status = object["kind"] == "Status";
        let known = (!is_status).then_some(&answer[..]);
        self.log
            .record(resource, &format!("prod/{name}"), expected, known);
        version.map_or(0, |version| version.parse().unwrap())
    }
}

/// An informer whose events arrive seconds after they happened, attached to a log.
fn slow(mock: &Server, log: &WriteLog, resource: Resource<'_>) -> Informer<Raw> {
    mock.with(|server| {
        server.inject(Fault::nothing().bandwidth(150).on(Verb::Watch).always());
    });
    let informer = informer(mock, resource);
    log.attach(&informer);
    informer
}

/// Returns how long the log waits, in seconds.
async fn waits(log: &WriteLog) -> u64 {
    let start = Instant::now();
    timeout(secs(60), log.seen()).await.unwrap().unwrap();
    start.elapsed().as_secs()
}

const DELETES: [DeleteAnswer; 3] = [
    DeleteAnswer::OldVersion,
    DeleteAnswer::NewVersion,
    DeleteAnswer::Status,
];

/// The controller knows nothing of the writes, and still no run sees a state from before the writes and deletions of an
/// earlier run of its key.
#[tokio::test(start_paused = true)]
async fn no_run_sees_a_state_from_before_the_writes_of_its_key() {
    for answer in DELETES {
        let mock = server();
        mock.with(|server| {
            server.config_mut().deletes = answer;
            // The uid of the Pods' owners is made up.
            server.config_mut().collects_garbage = false;
        });
        for name in ["a", "b", "c"] {
            mock.create("replicasets.apps", set(name, 0)).unwrap();
        }
        // Each informer has a log of its own.
        let [of_sets, log] = [WriteLog::default(), WriteLog::default()];
        let sets = slow(&mock, &of_sets, SETS);
        let pods = slow(&mock, &log, PODS);
        let client = Client {
            mock: mock.clone(),
            log: log.clone(),
        };
        // The Pods that exist, as the runs know from their writes.
        let exist: Arc<Mutex<BTreeMap<String, bool>>> = Arc::default();
        let controller = Controller::new(Provided::from(sets.clone()).with_writes(&of_sets))
            .owns(Provided::from(pods.clone()).with_writes(&log))
            .workers(2);
        let controller = run(controller, {
            let (lister, exist) = (pods.lister(), Arc::clone(&exist));
            move |task: Task<Raw>| {
                let wanted = task
                    .object()
                    .and_then(|set| set.string_at(&["spec", "replicas"]))
                    .is_none();
                assert!(wanted, "a round is a number");
                // Each run changes what the last one did.
                for name in ["one", "two"].map(|pod| format!("{}-{pod}", task.name())) {
                    let shown = lister.get("prod", &name).is_some();
                    let written = exist.lock().unwrap().get(&name).copied();
                    assert!(
                        written.is_none_or(|written| written == shown),
                        "{name} is {written:?} and seen as {shown} with {answer:?}"
                    );
                    let owned = pod(&name, &[("ReplicaSet", task.name(), true)]);
                    client.send(if shown { "DELETE" } else { "POST" }, &PODS, &name, &owned);
                    exist.lock().unwrap().insert(name, !shown);
                }
                // The events of its Pods are not all that leads to the next run.
                core::future::ready(Ok(Next::after(secs(1))))
            }
        });
        sleep(secs(300)).await;
        let metrics = controller.handle.metrics();
        assert_eq!(
            (metrics.panicked, metrics.failed, metrics.writes_not_seen),
            (0, 0, 0),
            "{answer:?}"
        );
        assert!(metrics.succeeded > 30, "{metrics:?}");
        controller.stop().await;
    }
}

/// A write is awaited where the server sends it, and nowhere else.
#[tokio::test(start_paused = true)]
async fn a_write_is_awaited_only_where_it_will_be_seen() {
    let mock = server();
    let log = WriteLog::default();
    let client = Client {
        mock: mock.clone(),
        log: log.clone(),
    };
    let sets = slow(&mock, &log, SETS);
    sets.synced().await.unwrap();
    client.send("POST", &SETS, "a", &set("a", 0));
    assert!(sets.lister().is_empty());
    assert!(waits(&log).await > 1, "an attached informer sees it");
    assert_eq!(sets.lister().len(), 1);
    // The same object can be written in another version of its group.
    let version = mock.update("replicasets.apps", set("a", 3)).unwrap();
    let before = Resource::new("apps", "v1beta1", "replicasets");
    log.record(&before, "prod/a", &*version.to_string(), None);
    assert!(waits(&log).await > 0);

    client.send("POST", &PODS, "p", &pod("p", &[]));
    assert_eq!(waits(&log).await, 0, "no informer of Pods is attached");

    let other = informer(&mock, PODS.namespace("staging"));
    log.attach(&other);
    other.synced().await.unwrap();
    client.send("PUT", &PODS, "p", &pod("p", &[]));
    assert_eq!(waits(&log).await, 0, "it is in another namespace");

    let named = PODS.labels("app!=db");
    let named = informer(&mock, named.fields("metadata.name!=p,spec.nodeName="));
    log.attach(&named);
    named.synced().await.unwrap();
    client.send("PUT", &PODS, "p", &pod("p", &[]));
    assert_eq!(waits(&log).await, 0, "the fields do not match");
    client.send("POST", &PODS, "q", &pod("q", &[]));
    log.seen().await.unwrap();
    assert!(named.lister().get("prod", "q").is_some());

    // Each of several informers sees it in its own time.
    mock.with(|server| {
        server.clear_faults();
        server.inject(Fault::nothing().bandwidth(50).on(Verb::Watch).times(1));
    });
    let slower = informer(&mock, PODS);
    log.attach(&slower);
    slower.synced().await.unwrap();
    settle().await;
    let prompt = informer(&mock, PODS);
    log.attach(&prompt);
    prompt.synced().await.unwrap();
    client.send("POST", &PODS, "r", &pod("r", &[]));
    assert!(waits(&log).await > 2);
    for pods in [named, slower, prompt] {
        assert!(pods.lister().get("prod", "r").is_some());
    }

    // An informer that has ended, and one that is dropped, are not awaited.
    sets.stop();
    sets.ended().await;
    client.send("PUT", &SETS, "a", &set("a", 1));
    assert_eq!(waits(&log).await, 0);
}

/// Somebody undoes a write while its informer has no watch, so the cache shows no difference and no event tells of it. A
/// later write of the same run is not undone.
#[tokio::test(start_paused = true)]
async fn a_write_that_is_undone_before_the_cache_shows_it_is_done_again() {
    for recorded in [false, true] {
        let mock = with_sets(["a", "b"]);
        let on_node = |name: &str, node: &str| {
            let mut pod = pod(name, &[]);
            pod["metadata"]["labels"] = json!({ "node": node });
            pod
        };
        mock.create("pods", on_node("b", "old")).unwrap();
        let log = WriteLog::default();
        // A log without informers, if the runs record their writes themselves.
        let used = if recorded {
            log.clone()
        } else {
            WriteLog::default()
        };
        let client = Client {
            mock: mock.clone(),
            log: used,
        };
        let (sets, pods) = (informer(&mock, SETS), informer(&mock, PODS));
        // Another object of the run has the same key, and is written later.
        let configs = Resource::new("", "v1", "configmaps");
        let marks = informer(&mock, configs);
        log.attach(&marks);
        marks.synced().await.unwrap();
        pods.synced().await.unwrap();
        let away = Fault::refuse().on_path("/api/v1/pods").always();
        mock.with(|server| {
            server.cut_watches();
            server.inject(away);
        });
        let node =
            |pod: &informer_tokio::Entry<Raw>| pod.string_at(&["metadata", "labels", "node"]);
        let moved = Predicate::new(move |old, new| node(old) != node(new));
        let controller = Controller::new(Provided::from(sets.clone()).with_writes(&log)).watches(
            Provided::from(pods.clone()).with_writes(&log).when(moved),
            |pod| (!pod.name().starts_with("beside")).then(|| pod.key().clone()),
        );
        let controller = run(controller, {
            let pods = pods.clone();
            move |task: Task<Raw>| {
                let lister = pods.lister();
                let send = |name: &str| {
                    let shown = lister.get("prod", name);
                    let method = if shown.is_some() { "PUT" } else { "POST" };
                    if shown.as_ref().and_then(node).as_deref() != Some("new") {
                        let version = client.send(method, &PODS, name, &on_node(name, "new"));
                        if !recorded {
                            let key = Key::new(&format!("prod/{name}"));
                            task.wrote(&pods, &key, &*version.to_string());
                        }
                    }
                };
                send(task.name());
                send(&format!("beside-{}", task.name()));
                if marks.lister().get_by_key(task.as_str()).is_none() {
                    let mark = json!({ "metadata": { "name": task.name(), "namespace": "prod" } });
                    let version = client.send("POST", &configs, task.name(), &mark);
                    if !recorded {
                        task.wrote(&marks, &task, &*version.to_string());
                    }
                }
                core::future::ready(Ok(()))
            }
        });
        sleep(secs(5)).await;
        assert_eq!(controller.handle.metrics().waiting_for_writes, 2);
        mock.delete("pods", "prod", "a").unwrap();
        mock.put("pods", on_node("b", "old")).unwrap();
        mock.with(FakeServer::clear_faults);
        sleep(secs(120)).await;
        let node = |name: &str| {
            let get = |server: &mut FakeServer| server.get("pods", "prod", name);
            mock.with(|server| Some(get(server)?["metadata"]["labels"]["node"].clone()))
        };
        for name in ["a", "b", "beside-a", "beside-b"] {
            assert_eq!(node(name), Some(json!("new")), "{name}, {recorded}");
        }
        let metrics = controller.handle.metrics();
        assert_eq!((metrics.panicked, metrics.writes_not_seen), (0, 0));
        assert!(metrics.succeeded <= 6, "{metrics:?}");
        controller.stop().await;
    }
}

/// The second write of a run to an object supersedes the first one, and that is no news.
#[tokio::test(start_paused = true)]
async fn a_run_that_writes_an_object_twice_is_not_run_again_for_that() {
    for recorded in [false, true] {
        let mock = with_sets(["a"]);
        let log = WriteLog::default();
        let (sets, pods) = (informer(&mock, SETS), informer(&mock, PODS));
        log.attach(&pods);
        pods.synced().await.unwrap();
        // The next list shows both writes at once.
        mock.with(|server| {
            server.cut_watches();
            server.inject(Fault::refuse().on_path("/api/v1/pods").always());
        });
        // An empty log, if the runs record their writes themselves.
        let used = if recorded { log } else { WriteLog::default() };
        let client = Client {
            mock: mock.clone(),
            log: used.clone(),
        };
        let controller = Controller::new(Provided::from(sets.clone()).with_writes(&used));
        let controller = run(controller, {
            let pods = pods.clone();
            move |task: Task<Raw>| {
                for (method, uid) in [("POST", "1"), ("PUT", "2")] {
                    let mut pod = pod("p", &[]);
                    pod["metadata"]["labels"] = json!({ "round": uid });
                    let version = client.send(method, &PODS, "p", &pod);
                    if !recorded {
                        task.wrote(&pods, &Key::new("prod/p"), &*version.to_string());
                    }
                }
                core::future::ready(Ok(()))
            }
        });
        sleep(secs(5)).await;
        mock.with(FakeServer::clear_faults);
        sleep(secs(60)).await;
        assert!(pods.lister().get("prod", "p").is_some());
        let metrics = controller.handle.metrics();
        assert_eq!(
            (metrics.succeeded, metrics.panicked, metrics.failed),
            (1, 0, 0),
            "recorded: {recorded}"
        );
        controller.stop().await;
    }
}

/// An informer that cannot list shows no write, neither to a controller nor to a log, and slows nobody down.
#[tokio::test(start_paused = true)]
async fn a_write_is_not_awaited_in_an_informer_that_cannot_list() {
    let mock = with_sets(["a"]);
    let forbidden = Fault::api_status(403, "Forbidden", "no right").on_path("/api/v1/pods");
    mock.with(|server| server.inject(forbidden.always()));
    let log = WriteLog::default();
    let client = Client {
        mock: mock.clone(),
        log: log.clone(),
    };
    let sets = informer(&mock, SETS);
    let pods = informer(&mock, PODS);
    log.attach(&sets);
    log.attach(&pods);
    let controller = Controller::new(Provided::from(sets.clone()).with_writes(&log));
    let controller = run(controller, {
        let (client, pods) = (client.clone(), pods.clone());
        let runs = AtomicUsize::new(0);
        move |task: Task<Raw>| {
            let name = format!("p{}", runs.fetch_add(1, Ordering::Relaxed));
            let version = client.send("POST", &PODS, &name, &pod(&name, &[]));
            task.wrote(&pods, &Key::new("prod/p"), &version.to_string());
            core::future::ready(Ok(Next::after(secs(1))))
        }
    });
    sleep(secs(60)).await;
    let metrics = controller.handle.metrics();
    assert_eq!(metrics.writes_not_seen, 0);
    assert!(metrics.succeeded >= 58, "{metrics:?}");
    assert_eq!(waits(&log).await, 0);
    // From its list on, writes are awaited again.
    mock.with(FakeServer::clear_faults);
    pods.synced().await.unwrap();
    mock.with(|server| {
        server.inject(Fault::nothing().bandwidth(150).on(Verb::Watch).always());
        server.cut_watches();
    });
    client.send("POST", &PODS, "last", &pod("last", &[]));
    assert!(waits(&log).await > 1);
    assert!(pods.lister().get("prod", "last").is_some());
    controller.stop().await;
}

/// An object that ceases to match a selector is awaited until the cache has lost it, and no longer.
#[tokio::test(start_paused = true)]
async fn an_object_that_is_no_longer_selected_is_awaited_until_it_is_gone() {
    for answer in DELETES {
        let mock = server();
        mock.with(|server| server.config_mut().deletes = answer);
        let log = WriteLog::default();
        let client = Client {
            mock: mock.clone(),
            log: log.clone(),
        };
        let web = slow(&mock, &log, PODS.labels("app=web"));
        web.synced().await.unwrap();
        let labelled = |app: &str| {
            let mut pod = pod("p", &[]);
            pod["metadata"]["labels"] = json!({ "app": app });
            pod
        };
        client.send("POST", &PODS, "p", &labelled("db"));
        assert_eq!(waits(&log).await, 0, "it was never selected");
        for _ in 0..2 {
            client.send("PUT", &PODS, "p", &labelled("web"));
            client.send("PUT", &PODS, "p", &labelled("db"));
            client.send("PUT", &PODS, "p", &labelled("db"));
            assert!(web.lister().is_empty(), "the cache has seen nothing yet");
            assert!(waits(&log).await > 1, "it is about to be added and deleted");
            assert!(web.lister().is_empty());
        }

        client.send("PUT", &PODS, "p", &labelled("web"));
        log.seen().await.unwrap();
        assert_eq!(web.lister().len(), 1);
        client.send("PUT", &PODS, "p", &labelled("db"));
        client.send("DELETE", &PODS, "p", &Value::Null);
        assert!(waits(&log).await > 1, "{answer:?}");
        assert!(web.lister().is_empty());
    }
}

/// The log forgets writes that are shown, so its size does not grow with the number of writes. What came of those of a run
/// that goes on is not forgotten, but what is not shown for minutes is.
#[tokio::test(start_paused = true)]
async fn a_log_forgets_what_is_shown_and_what_never_will_be() {
    let mock = server();
    let log = WriteLog::default();
    let client = Client {
        mock: mock.clone(),
        log: log.clone(),
    };
    let ended = informer(&mock, SETS);
    log.attach(&ended);
    ended.stop();
    ended.ended().await;
    drop(ended);
    settle().await;
    let (sets, pods) = (informer(&mock, SETS), informer(&mock, PODS));
    log.attach(&pods);
    log.attach(&sets);
    log.attach(&sets.clone());
    sets.synced().await.unwrap();
    // Two runs begin at once, and the longest of three ends last.
    let runs = Arc::new(AtomicUsize::new(0));
    let controller = Controller::new(Provided::from(sets.clone()).with_writes(&log)).workers(9);
    let controller = run(controller, {
        let (client, runs) = (client.clone(), Arc::clone(&runs));
        move |task: Task<Raw>| {
            if task.name() == "long" && runs.fetch_add(1, Ordering::Relaxed) == 0 {
                client.send("POST", &PODS, "p", &pod("p", &[]));
            }
            let length = match task.name() {
                "long" => 60,
                "later" => 30,
                _ => 0,
            };
            async move {
                sleep(secs(length)).await;
                Ok(())
            }
        }
    });
    controller.handle.enqueue(Key::new("prod/long"));
    controller.handle.enqueue(Key::new("prod/short"));
    settle().await;
    mock.update("pods", pod("p", &[("ReplicaSet", "none", true)]))
        .unwrap();
    settle().await;
    client.send("POST", &SETS, "a", &set("a", 0));
    controller.handle.enqueue(Key::new("prod/later"));
    settle().await;
    for round in 1..2000 {
        client.send("PUT", &SETS, "a", &set("a", round));
        if round % 50 == 0 {
            log.seen().await.unwrap();
        }
    }
    let text = format!("{log:?}");
    let pending: usize = text
        .split_once("pending: ")
        .and_then(|(_, rest)| rest.split([',', ' ']).next()?.parse().ok())
        .unwrap();
    assert!(text.contains("informers: 2,") && pending <= 128, "{text}");
    sleep(secs(61)).await;
    assert_eq!(
        runs.load(Ordering::Relaxed),
        2,
        "another has changed its Pod"
    );
    controller.stop().await;

    for _ in 0..100 {
        log.record(&SETS, "prod/never", "1000000", None);
    }
    assert!(timeout(secs(1), log.seen()).await.is_err());
    sleep(secs(301)).await;
    for round in 0..200 {
        client.send("PUT", &SETS, "a", &set("a", 3000 + round));
    }
    assert_eq!(waits(&log).await, 0);
}

/// Informers that are passed as builders run with the controller, and end with it.
#[tokio::test(start_paused = true)]
async fn a_controller_runs_its_informers() {
    let mock = server();
    mock.create("replicasets.apps", set("a", 7)).unwrap();
    mock.create("pods", pod("p", &[("ReplicaSet", "b", true)]))
        .unwrap();
    let builder = |resource| Informer::<Raw>::builder_for(&mock.transport(), resource);
    let rounds: Arc<Mutex<BTreeMap<String, Option<String>>>> = Arc::default();
    let controller = Controller::new(builder(SETS)).owns(builder(PODS));
    let controller = run(controller, {
        let rounds = Arc::clone(&rounds);
        move |task: Task<Raw>| {
            let round = task.object().and_then(|set| set.at(&["spec", "replicas"]));
            let round = round.map(|round| String::from_utf8_lossy(round).into_owned());
            rounds.lock().unwrap().insert(task.to_string(), round);
            core::future::ready(Ok(()))
        }
    });
    settle().await;
    let wanted = [("prod/a", Some("7")), ("prod/b", None)];
    let wanted = wanted.map(|(key, round)| (key.to_owned(), round.map(str::to_owned)));
    assert_eq!(*rounds.lock().unwrap(), BTreeMap::from(wanted));
    assert_eq!(mock.with(FakeServer::open_responses).0, 2);
    let health = controller.handle.health();
    let health: Vec<_> = health.iter().map(|one| (&*one.name, one.synced)).collect();
    assert_eq!(health, [("replicasets.v1.apps", true), ("pods.v1", true)]);
    assert_eq!(controller.stop().await, Stopped::default());
    assert_eq!(
        mock.with(FakeServer::open_responses),
        (0, 0),
        "the informers have ended"
    );

    // A dropped future ends them as well, which is no fault of theirs.
    let reports: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = |resource| {
        let reports = Arc::clone(&reports);
        builder(resource).on_report(move |report| reports.lock().unwrap().push(report.to_string()))
    };
    let controller = Controller::new(heard(SETS)).owns(heard(PODS));
    let dropped = run(controller, noting(&Log::default()));
    settle().await;
    assert_eq!(mock.with(FakeServer::open_responses).0, 2);
    dropped.ended.abort();
    settle().await;
    assert_eq!(mock.with(FakeServer::open_responses), (0, 0));
    assert_eq!(*reports.lock().unwrap(), [""; 0]);

    // Without a list, it fails, and its informers end as well.
    mock.with(|server| server.inject(Fault::stall().on_path("/api/v1/pods").always()));
    let late = Controller::new(builder(SETS))
        .owns(builder(PODS))
        .sync_within(secs(30));
    let error = late.run(noting(&Log::default())).await.unwrap_err();
    assert_eq!(error.missing.len(), 1);
    settle().await;
    assert_eq!(mock.with(FakeServer::open_responses), (0, 0));
}
