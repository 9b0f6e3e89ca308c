//! Health: as a value, as JSON, as metrics, and as a page.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use informer_core::Resource;
use informer_mock::{
    Backend, FailureKind, FakeServer, Fault, Mock, ScriptedServer, TokioClock, Verb, json,
};
use informer_tests::support::{PATIENCE, PODS, pod, secs, server_of};
use informer_tokio::boxed;
use informer_tokio::controller::Controller;
use informer_tokio::election::{Election, LeaseClient, LeaseRecord, Written};
use informer_tokio::factory::Factory;
use informer_tokio::handler::{AsyncHandlers, HandlerOptions};
use informer_tokio::health::State;
use informer_tokio::informer::{AuditConfig, Initial, StillUnsynced};
use informer_tokio::page::Page;
use informer_tokio::{Handlers, Informer, Raw};
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::sleep;

fn list_first<B: Backend + Send + 'static>(mock: &Mock<B, TokioClock>) -> Informer<Raw> {
    Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .seed(1)
        .initial(Initial::List)
        .spawn()
}

fn bytes_of(pods: &Informer<Raw>) -> usize {
    let pods = pods.lister().list();
    pods.iter().map(|pod| pod.bytes().len()).sum()
}

#[tokio::test(start_paused = true)]
async fn the_state_and_since_when() {
    let mock = server_of(["a", "b"]);
    mock.with(|server| {
        server.inject(Fault::delay(secs(5)).on(Verb::List));
        server.inject(Fault::delay(secs(5)).on(Verb::Watch));
    });
    let (pods, driver) = Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .seed(1)
        .initial(Initial::List)
        .build();
    let state = || {
        let health = pods.health();
        (health.state, health.state_age.as_secs(), health.synced)
    };
    sleep(secs(3)).await;
    assert_eq!(state(), (State::NotStarted, 3, false));
    let task = tokio::spawn(driver.run());
    sleep(secs(2)).await;
    assert_eq!(state(), (State::Listing, 2, false));
    sleep(secs(4)).await;
    assert_eq!(state(), (State::Opening, 1, true));
    sleep(secs(14)).await;
    assert_eq!(state(), (State::Watching, 10, true));
    let health = pods.health();
    assert_eq!(health.watch_age.map(|age| age.as_secs()), Some(10));
    assert_eq!(
        (
            health.objects,
            health.lists,
            health.relists,
            health.failures
        ),
        (2, 1, 0, 0)
    );
    assert_eq!(health.bytes, bytes_of(&pods));
    assert!(health.is_well() && health.last_error.is_none());

    // The server disappears: the watch breaks, and later requests are refused.
    mock.with(|server| server.inject(Fault::refuse().always()));
    sleep(secs(700)).await;
    let health = pods.health();
    assert_eq!((health.state, health.watch_age), (State::Waiting, None));
    assert!(health.synced && health.failures > 5);
    let trouble = health.troubles().next().unwrap();
    assert_eq!(trouble.class, "connection-refused");
    assert!(trouble.retry_in.is_some() && !trouble.is_over);

    // It returns.
    mock.with(|server| server.clear_faults());
    sleep(secs(120)).await;
    let health = pods.health();
    assert_eq!(health.state, State::Watching);
    assert_eq!(health.troubles().count(), 0);
    assert!(health.last_error.unwrap().is_over);

    pods.stop();
    task.await.unwrap();
    sleep(secs(7)).await;
    assert_eq!(state(), (State::Ended, 7, true));
}

#[tokio::test(start_paused = true)]
async fn bytes_follow_what_comes_changes_and_goes() {
    let mock = server_of(["a", "b"]);
    let pods = list_first(&mock);
    pods.synced().await.unwrap();
    let check = || {
        let bytes = bytes_of(&pods);
        let health = pods.health();
        assert_eq!((health.bytes, health.objects), (bytes, pods.lister().len()));
        bytes
    };
    let first = check();
    let mut long = pod("a", 1);
    long["spec"]["nodeName"] = json!("a-node-with-a-long-name");
    mock.update("pods", long).unwrap();
    mock.create("pods", pod("c", 1)).unwrap();
    sleep(secs(1)).await;
    assert!(check() > first);
    mock.with(|server| server.compact_all());
    for name in ["a", "b", "c"] {
        mock.delete("pods", "prod", name).unwrap();
    }
    sleep(secs(700)).await;
    assert_eq!(check(), 0);
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "it is decoded, or it is not")]
struct Strict {
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it is decoded, or it is not")]
struct Spec {
    node_name: String,
}

#[tokio::test(start_paused = true)]
async fn stale_objects_and_handlers_are_named() {
    let mock = server_of(["a", "b"]);
    let pods = Informer::<Strict>::builder_for(&mock.transport(), PODS).spawn();
    let options = HandlerOptions::default().name("balancer");
    let handle = pods.add_handler_with(&options, Handlers::new().on_add(|_, _| ()));
    handle.synced().await.unwrap();
    let _events = pods.subscribe();
    mock.update(
        "pods",
        json!({ "metadata": { "name": "a", "namespace": "prod" }, "spec": {} }),
    )
    .unwrap();
    sleep(secs(1)).await;
    let health = pods.health();
    assert_eq!(
        (health.stale.as_slice(), health.stale_count),
        (&["prod/a".to_owned()][..], 1)
    );
    assert!(!health.is_well() && health.synced);
    let error = health.last_error.unwrap();
    assert_eq!(
        (error.class, error.key.as_deref()),
        ("undecodable", Some("prod/a"))
    );
    assert!(error.advice.unwrap().contains("type"));
    let handlers: Vec<_> = health
        .handlers
        .iter()
        .map(|handler| {
            (
                handler.name.as_str(),
                handler.synced,
                handler.calls,
                handler.lag.pending,
            )
        })
        .collect();
    assert_eq!(
        handlers,
        [("balancer", true, 2, 0), ("subscription", false, 0, 3)]
    );
}

const FORBIDDEN: &str = r#"{ "status": 403, "body": { "kind": "Status", "apiVersion": "v1", "status": "Failure",
    "reason": "Forbidden", "code": 403, "message": "pods is forbidden: User \"me\" cannot VERB resource \"pods\" in API group \"\"" } }"#;

/// A server whose RBAC lacks one verb.
fn without(verb: &str) -> Mock<ScriptedServer, TokioClock> {
    let refusal = FORBIDDEN.replace("VERB", verb);
    let list = r#"{ "body": { "kind": "PodList", "apiVersion": "v1", "metadata": { "resourceVersion": "10" }, "items": [] } }"#;
    let watch = r#"{ "frames": [], "end": "hold" }"#;
    let script = match verb {
        "list" => format!(r#"{{ "lists": [{refusal}], "watches": [{watch}] }}"#),
        _ => format!(r#"{{ "lists": [{list}], "watches": [{refusal}], "streams": [{refusal}] }}"#),
    };
    Mock::with_clock(
        ScriptedServer::from_json(&script).unwrap(),
        TokioClock::new(),
    )
}

#[tokio::test(start_paused = true)]
async fn a_missing_list_verb_is_named_before_the_deadline() {
    for initial in [Initial::List, Initial::Stream] {
        let mock = without("list");
        let pods = Informer::<Raw>::builder_for(&mock.transport(), PODS)
            .initial(initial)
            .spawn();
        let began = tokio::time::Instant::now();
        let error = pods.synced_within(secs(30)).await.unwrap_err();
        assert_eq!(began.elapsed().as_secs(), 30, "within the deadline");
        let text = error.to_string();
        assert!(
            text.contains("403 (forbidden)") && text.contains("cannot list resource"),
            "{text}"
        );
        assert!(
            text.contains("The verb `list` on `pods` in all namespaces is missing"),
            "{text}"
        );
        let StillUnsynced::TimedOut { troubles, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(troubles[0].missing_verb, Some("list"));
        assert!(troubles[0].advice.as_ref().unwrap().contains("ClusterRole"));
    }
}

/// If the list is permitted and the watch is not, the cache is synced and then stands still; health shows it.
#[tokio::test(start_paused = true)]
async fn a_missing_watch_verb_is_named_by_health() {
    let mock = without("watch");
    let pods = list_first(&mock);
    pods.synced_within(secs(30)).await.unwrap();
    sleep(secs(30)).await;
    let health = pods.health();
    assert!(health.synced && health.state == State::Waiting);
    let trouble = health.troubles().next().unwrap();
    assert_eq!(trouble.missing_verb, Some("watch"));
    assert!(
        trouble
            .advice
            .as_ref()
            .unwrap()
            .contains("`watch` on `pods`")
    );
}

#[tokio::test(start_paused = true)]
async fn a_missing_resource_and_expired_credentials_have_their_advice() {
    let mock = server_of(["a", "b"]);
    let widgets = Resource::new("example.com", "v1", "widgets");
    let widgets = Informer::<Raw>::builder_for(&mock.transport(), widgets).spawn();
    let error = widgets
        .synced_within(secs(10))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`widgets.example.com`") && error.contains("CustomResourceDefinition"),
        "{error}"
    );

    mock.with(|server| server.inject(Fault::fail(FailureKind::Tls).always()));
    let pods = list_first(&mock);
    let error = pods.synced_within(secs(10)).await.unwrap_err().to_string();
    assert!(error.contains("TLS"), "{error}");
    mock.with(|server| server.clear_faults());
    mock.with(|server| {
        server.inject(Fault::api_status(401, "Unauthorized", "Unauthorized").always());
    });
    let pods = list_first(&mock);
    let error = pods.synced_within(secs(10)).await.unwrap_err().to_string();
    assert!(error.contains("Renew it"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn health_is_json() {
    let mock = server_of(["a", "b"]);
    mock.with(|server| server.inject(Fault::overloaded(None).on(Verb::List)));
    let pods = list_first(&mock);
    pods.add_handler_with(
        &HandlerOptions::default().name("h"),
        Handlers::new().on_add(|_, _| ()),
    );
    pods.synced().await.unwrap();
    sleep(secs(5)).await;
    let json = serde_json::to_value(pods.health()).unwrap();
    assert_eq!(json["name"], "pods.v1");
    assert_eq!(json["state"], "watching");
    assert!(json["state_age_seconds"].as_f64().unwrap() >= 4.9);
    assert_eq!(json["synced"], true);
    assert_eq!(json["objects"], 2);
    assert_eq!(json["last_error"]["class"], "too-many-requests");
    assert_eq!(json["last_error"]["is_over"], true);
    assert_eq!(json["last_error"]["retry_in_seconds"], json!(null));
    assert!(json["at"].as_f64().unwrap() > 1.0e9);
    assert_eq!(json["sources"][0]["synced"], true);
    assert_eq!(json["handlers"][0]["name"], "h");
    assert_eq!(json["handlers"][0]["pending"], 0);
    assert_eq!(json["handlers"][0]["calls"], 2);
}

/// Records the calls of the metrics facade.
#[derive(Default)]
struct Recorder {
    cells: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    /// The metric whose series cannot be registered.
    panics_at: Option<&'static str>,
}

impl Recorder {
    fn cell(&self, key: &metrics::Key) -> Arc<AtomicU64> {
        assert!(self.panics_at != Some(key.name()), "no such metric");
        let labels: Vec<_> = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()))
            .collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        Arc::clone(self.cells.lock().unwrap().entry(name).or_default())
    }

    fn count(&self, name: &str) -> Option<u64> {
        let cells = self.cells.lock().unwrap();
        Some(cells.get(name)?.load(Ordering::SeqCst))
    }

    fn gauge(&self, name: &str) -> Option<f64> {
        self.count(name).map(f64::from_bits)
    }
}

impl metrics::Recorder for Recorder {
    fn describe_counter(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }
    fn describe_gauge(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }
    fn describe_histogram(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }

    fn register_counter(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        metrics::Counter::from_arc(self.cell(key))
    }

    fn register_gauge(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        metrics::Gauge::from_arc(self.cell(key))
    }

    fn register_histogram(
        &self,
        key: &metrics::Key,
        _: &metrics::Metadata<'_>,
    ) -> metrics::Histogram {
        metrics::Histogram::from_arc(Arc::new(Durations(self.cell(key))))
    }
}

/// Counts the values of a histogram.
struct Durations(Arc<AtomicU64>);

impl metrics::HistogramFn for Durations {
    fn record(&self, _: f64) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn figures_go_to_the_metrics_facade() {
    let recorder = Recorder::default();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let mock = server_of(["a", "b"]);
    mock.with(|server| server.inject(Fault::overloaded(None).on(Verb::List)));
    let pods = list_first(&mock);
    let options = HandlerOptions::default().name("h");
    pods.add_handler_with(
        &options,
        Handlers::<Raw>::new().on_add(|pod, _| assert!(pod.name() != "b", "no b")),
    );
    pods.synced().await.unwrap();
    mock.create("pods", pod("c", 1)).unwrap();
    sleep(secs(1)).await;
    let health = pods.health();
    let gauge = |name: &str| recorder.gauge(&format!("{name}{{informer=pods.v1}}"));
    let count = |name: &str| recorder.count(&format!("{name}{{informer=pods.v1}}"));
    assert_eq!(gauge("informer_objects"), Some(3.0));
    assert_eq!(
        gauge("informer_object_bytes").unwrap() as usize,
        health.bytes
    );
    assert_eq!(gauge("informer_synced"), Some(1.0));
    assert_eq!(gauge("informer_incomplete"), Some(0.0));
    assert_eq!(gauge("informer_stale_objects"), Some(0.0));
    assert!(gauge("informer_watch_age_seconds") >= Some(0.0));
    assert_eq!(gauge("informer_troubles"), Some(0.0));
    assert_eq!(gauge("informer_audit_age_seconds"), None);
    assert_eq!(
        (
            count("informer_lists_total"),
            count("informer_watches_total")
        ),
        (Some(1), Some(1))
    );
    // Those of client-go, with its labels.
    let labels = "informer=pods.v1,name=pods.v1,group=,version=v1,resource=pods";
    let version = recorder.gauge(&format!("informer_store_resource_version{{{labels}}}"));
    assert_eq!(version, health.resource_version.parse().ok());
    let queued = recorder.gauge(&format!("informer_queued_items{{{labels}}}"));
    assert_eq!(queued, Some(0.0));
    let batches = recorder.count(&format!("informer_processing_latency_seconds{{{labels}}}"));
    assert_eq!(batches, Some(health.processing.count));
    assert!(batches > Some(0));
    assert_eq!(count("informer_deltas_total"), Some(3));
    let of_h = |name: &str| recorder.count(&format!("{name}{{informer=pods.v1,handler=h}}"));
    assert_eq!(of_h("informer_handler_calls_total"), Some(3));
    assert_eq!(of_h("informer_handler_panics_total"), Some(1));
    let reports = "informer_reports_total{informer=pods.v1,class=too-many-requests}";
    assert_eq!(recorder.count(reports), Some(1));

    // A handler that takes ten seconds for each of the three objects, during which another one comes.
    let slow = AsyncHandlers::<Raw>::new().on_add(async |_, _| sleep(secs(10)).await);
    pods.add_async_handler_with(&options.name("slow"), slow);
    sleep(secs(1)).await;
    mock.create("pods", pod("d", 1)).unwrap();
    let pending = &format!("informer_pending_notifications{{{labels},handler=slow}}");
    let behind = "informer_handler_behind_seconds{informer=pods.v1,handler=slow}";
    sleep(secs(27)).await;
    assert!(recorder.gauge(pending) > Some(0.0));
    assert!(recorder.gauge(behind) > Some(10.0));
    sleep(secs(30)).await;
    assert_eq!(recorder.gauge(pending), Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn a_recorder_that_panics_is_reported() {
    let recorder = Recorder {
        panics_at: Some("informer_objects"),
        ..Recorder::default()
    };
    let _installed = metrics::set_default_local_recorder(&recorder);
    let pods = list_first(&server_of(["a"]));
    let controller = Controller::new(&pods);
    let handle = controller.handle();
    tokio::spawn(controller.run(async |_| Ok::<_, &str>(())));
    pods.synced().await.unwrap();
    sleep(secs(60)).await;
    let health = pods.health();
    assert!(health.state == State::Watching && handle.metrics().succeeded == 1);
    let updates = health.hook_panics;
    assert!((4..=61).contains(&updates), "{updates} in 60 s");
    assert_eq!(health.last_error.unwrap().class, "hook-panicked");
}

/// The facade shows drivers and controllers that have ended, even if their futures are dropped.
#[tokio::test(start_paused = true)]
async fn the_facade_shows_the_end() {
    let recorder = Recorder::default();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let (pods, driver) = Informer::<Raw>::builder_for(&server_of(["a"]).transport(), PODS).build();
    let controller = Controller::new(&pods).name("c").workers(3);
    let controlling = tokio::spawn(controller.run(async |_| {
        core::future::pending::<()>().await;
        Ok::<_, &str>(())
    }));
    let driving = tokio::spawn(driver.run());
    pods.synced().await.unwrap();
    sleep(secs(2)).await;
    let workers = || recorder.gauge("controller_runtime_max_concurrent_reconciles{controller=c}");
    let running = || recorder.gauge("informer_running{informer=pods.v1}");
    let age = || recorder.gauge("informer_watch_age_seconds{informer=pods.v1}");
    assert_eq!((workers(), running()), (Some(3.0), Some(1.0)));
    assert!(age() > Some(0.0));
    for task in [controlling.abort_handle(), driving.abort_handle()] {
        task.abort();
    }
    let _ = (controlling.await, driving.await);
    assert_eq!((workers(), running()), (Some(0.0), Some(0.0)));
    assert!(age().unwrap().is_nan(), "there is no watch: {:?}", age());
}

/// Health shows the number of audits, the time of the last one, and its result.
#[tokio::test(start_paused = true)]
async fn audits_show() {
    let recorder = Recorder::default();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let mock = server_of(["a", "b"]);
    let pods = Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .seed(1)
        .initial(Initial::List)
        .namespaces(["prod", "test"])
        .audit(AuditConfig::new(secs(3600)))
        .spawn();
    pods.synced().await.unwrap();
    let shown = || {
        let health = pods.health();
        (health.audits, health.audit_age.is_some(), health.drifted)
    };
    assert_eq!(shown(), (0, false, 0));
    mock.with(|server| server.forget("pods", "prod", "a"))
        .unwrap();
    sleep(secs(3600)).await;
    assert_eq!(shown(), (2, true, 1));
    let health = pods.health();
    let of_sources = health.sources.iter().map(|source| source.drifted);
    assert_eq!(of_sources.collect::<Vec<_>>(), [1, 0]);
    assert!(health.audit_age < Some(secs(3600)));
    let json = serde_json::to_value(&health).unwrap();
    assert_eq!((&json["audits"], &json["drifted"]), (&json!(2), &json!(1)));
    assert!(json["sources"][1]["audit_age_seconds"].as_f64().is_some());
    let gauge = |name: &str| recorder.gauge(&format!("{name}{{informer=pods.v1}}"));
    assert_eq!(gauge("informer_drifted_objects"), Some(1.0));
    assert!(gauge("informer_audit_age_seconds") < Some(3600.0));
    let audits = recorder.count("informer_audits_total{informer=pods.v1}");
    assert_eq!(audits, Some(2));
    // The drift was repaired.
    sleep(secs(3600)).await;
    assert_eq!(shown(), (4, true, 0));
    assert_eq!(gauge("informer_drifted_objects"), Some(0.0));
}

/// Without a probe, the begin of a list and bookmarks show that the cache is up to date.
#[tokio::test(start_paused = true)]
async fn staleness_grows_from_the_last_list_or_bookmark() {
    let mock = server_of(["a", "b"]);
    mock.with(|server| server.inject(Fault::delay(secs(5)).on(Verb::List).times(1)));
    let (pods, driver) = Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .initial(Initial::List)
        .build();
    let staleness = || pods.health().staleness.map(|time| time.as_secs());
    assert_eq!(staleness(), None);
    assert!(pods.health().staleness_unknown.is_some());
    tokio::spawn(driver.run());
    pods.synced().await.unwrap();
    assert_eq!(staleness(), Some(5), "the list began five seconds ago");
    for _ in 0..30 {
        sleep(secs(10)).await;
        assert!(staleness() <= Some(75), "{:?}", staleness());
    }
    // The server stops with a change that is not in the cache.
    mock.with(|server| server.go_down());
    sleep(secs(500)).await;
    assert!(staleness() >= Some(500), "{:?}", staleness());
    mock.with(|server| server.come_up());
    sleep(secs(120)).await;
    assert!(staleness() <= Some(75), "{:?}", staleness());
    let json = serde_json::to_value(pods.health()).unwrap();
    assert!(json["staleness_seconds"].is_number() && json["staleness_unknown"].is_null());
}

/// A watch cache that lags behind sends bookmarks as well, and only a probe shows it.
#[tokio::test(start_paused = true)]
async fn a_probe_shows_a_slow_watch_cache() {
    let mock = server_of(["a", "b"]);
    let probed = Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .initial(Initial::List)
        .probe(secs(5))
        .spawn();
    probed.synced().await.unwrap();
    let staleness = || probed.health().staleness.map(|time| time.as_secs());
    sleep(secs(120)).await;
    assert!(staleness() <= Some(75), "{:?}", staleness());
    let limit = secs(100);
    probed.lister().check_staleness(limit).unwrap();
    let controller = Controller::new(&probed).max_staleness(limit);
    let handle = controller.handle();
    let (ran, mut runs) = tokio::sync::mpsc::unbounded_channel();
    let failures = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&failures);
    let controller = controller.on_failure(move |_, failure| {
        heard.lock().unwrap().push(failure.to_string());
    });
    tokio::spawn(controller.run(move |task| {
        let _ = ran.send(task.name().to_owned());
        async { Ok::<_, core::convert::Infallible>(()) }
    }));
    let mut first = [runs.recv().await, runs.recv().await];
    first.sort();
    assert_eq!(first.map(Option::unwrap), ["a", "b"]);
    mock.with(|server| server.lag_at(server.version()));
    mock.create("pods", pod("c", 1)).unwrap();
    sleep(secs(200)).await;
    assert!(staleness() >= Some(200), "{:?}", staleness());
    assert_eq!(probed.health().reports.get("watch-lags"), Some(&1));
    let error = probed.lister().check_staleness(limit).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("pods.v1 may be older than 100s: changes of the last")
    );
    // The controller has seen nothing of the new Pod, and holds the key that comes in another way.
    handle.enqueue("prod/b".parse().unwrap());
    sleep(secs(5)).await;
    assert!(runs.try_recv().is_err());
    let failure = failures.lock().unwrap().join("; ");
    assert_eq!(failure, format!("all keys are held: {error}"));
    mock.with(|server| server.catch_up());
    let mut late = [runs.recv().await, runs.recv().await];
    late.sort();
    assert_eq!(late.map(Option::unwrap), ["b", "c"]);
    sleep(secs(120)).await;
    assert!(staleness() <= Some(75), "{:?}", staleness());
    let log = mock.log();
    let probes = log.lists().filter(|list| list.compact() == "LIST limit=1");
    let probes = probes.count();
    assert!((80..=90).contains(&probes), "{probes} probes in 440 s");
}

/// The informers of a factory are probed as well, and a cluster until it leaves.
#[tokio::test(start_paused = true)]
async fn a_factory_probes_each_cluster() {
    let (eu, us) = (server_of(["a"]), server_of(["b"]));
    let (factory, driver) = Factory::of_clusters().probe(secs(5)).build();
    tokio::spawn(driver.run());
    factory.join("eu", boxed!(eu.transport()));
    factory.join("us", boxed!(us.transport()));
    let pods = factory.raw("pods").unwrap().get();
    factory.synced_within(secs(30)).await.unwrap();
    let probes = |mock: &Mock<FakeServer, TokioClock>| {
        let log = mock.log();
        log.lists()
            .filter(|list| list.compact() == "LIST limit=1")
            .count()
    };
    // Each takes a moment itself.
    let in_100_s = async |mock: &Mock<FakeServer, TokioClock>| {
        let before = probes(mock);
        sleep(secs(100)).await;
        probes(mock) - before
    };
    let expected = 18..=20;
    assert!(expected.contains(&in_100_s(&eu).await));
    assert!(expected.contains(&in_100_s(&us).await));
    us.with(|server| server.lag_at(server.version()));
    us.create("pods", pod("c", 1)).unwrap();
    sleep(secs(200)).await;
    assert!(
        pods.health().staleness >= Some(secs(190)),
        "{:?}",
        pods.health()
    );
    assert_eq!(pods.health().reports.get("watch-lags"), Some(&1));
    factory.leave("us");
    sleep(secs(1)).await;
    assert_eq!(in_100_s(&us).await, 0);
    assert!(expected.contains(&in_100_s(&eu).await));
    assert!(
        pods.health().staleness <= Some(secs(75)),
        "{:?}",
        pods.health()
    );
    us.with(|server| server.catch_up());
    factory.join("us", boxed!(us.transport()));
    sleep(secs(1)).await;
    assert!(expected.contains(&in_100_s(&us).await));
}

/// The metrics of a controller appear in the facade and on the page.
#[tokio::test]
async fn controllers_show() {
    let recorder = Recorder::default();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let mock = server_of(["a", "b"]);
    for name in ["c", "d"] {
        mock.create("pods", pod(name, 1)).unwrap();
    }
    let pods = list_first(&mock);
    let controller = Controller::new(&pods).name("<the> \"controller\"");
    let handle = controller.handle();
    let busy = Arc::new(tokio::sync::Notify::new());
    let begun = Arc::clone(&busy);
    let running = tokio::spawn(controller.run(move |task| {
        let begun = Arc::clone(&begun);
        async move {
            match (task.name(), task.attempt()) {
                ("a", 0) => Err("no"),
                ("b", 0) => panic!("never"),
                ("c", _) => {
                    // The only worker is busy with it forever.
                    begun.notify_one();
                    core::future::pending().await
                }
                _ => Ok(()),
            }
        }
    }));
    busy.notified().await;
    mock.create("pods", pod("e", 1)).unwrap();
    let of = "controller=<the> \"controller\"";
    let depth = || {
        recorder.gauge(&format!(
            "workqueue_depth{{{of},name=<the> \"controller\"}}"
        ))
    };
    let runs = |result: &str| {
        let name = format!("controller_runtime_reconcile_total{{{of},result={result}}}");
        recorder.count(&name)
    };
    // The keys that failed become due meanwhile.
    let is_shown = || depth() > Some(0.0) && depth() == Some(handle.metrics().queue.depth as f64);
    while !is_shown() {
        sleep(Duration::from_millis(5)).await;
    }
    // The last Pod waits with the priority of a change.
    let of_changes = format!("informer_controller_depth{{{of},priority=0}}");
    while recorder.gauge(&of_changes) != Some(1.0) {
        sleep(Duration::from_millis(5)).await;
    }
    let workers = recorder.gauge(&format!("controller_runtime_active_workers{{{of}}}"));
    assert_eq!(workers, Some(1.0));
    let times = recorder.count(&format!(
        "controller_runtime_reconcile_time_seconds{{{of}}}"
    ));
    assert_eq!(times, Some(handle.metrics().reconcile.count));
    assert!(times > Some(0));

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let page = Page::new("demo").informer(&pods).controller(&handle);
    let router = page.controller(&handle).router();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let (_, html) = get(address, "/").await;
    assert!(
        html.contains("controller &lt;the&gt; &quot;controller&quot;</h2>"),
        "{html}"
    );
    let (_, text) = get(address, "/metrics").await;
    let metrics = handle.metrics();
    for line in [
        "# TYPE controller_runtime_reconcile_total counter".to_owned(),
        "# TYPE workqueue_queue_duration_seconds histogram".to_owned(),
        format!(
            "controller_runtime_reconcile_time_seconds_count{{controller=\"<the> \\\"controller\\\"\"}} {}",
            metrics.reconcile.count
        ),
        "controller_runtime_active_workers{controller=\"<the> \\\"controller\\\" (2)\"} 1"
            .to_owned(),
        "informer_controller_depth{controller=\"<the> \\\"controller\\\" (2)\",priority=\"0\"} 1"
            .to_owned(),
        format!(
            "controller_runtime_reconcile_total{{controller=\"<the> \\\"controller\\\"\",result=\"error\"}} {}",
            metrics.failed + metrics.panicked
        ),
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    check_prometheus(&text);
    assert_eq!(runs("error"), Some(metrics.failed + metrics.panicked));
    assert_eq!(runs("success"), Some(metrics.succeeded));
    running.abort();
}

/// A controller that runs its informer needs no second mention of it on the page.
#[tokio::test]
async fn a_page_of_a_controller_has_the_informers_that_it_runs() {
    let mock = server_of(["a", "b"]);
    let controller = Controller::new(Informer::<Raw>::builder_for(&mock.transport(), PODS));
    let handle = controller.handle();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Page::new("demo").controller(&handle).router();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let (status, text) = get(address, "/readyz").await;
    assert!(status == 503 && text.starts_with("pods"), "{status} {text}");
    let (ran, mut runs) = tokio::sync::mpsc::unbounded_channel();
    let running = tokio::spawn(controller.run(move |task| {
        let _ = ran.send(task.key().clone());
        async { Ok::<_, core::convert::Infallible>(()) }
    }));
    runs.recv().await.unwrap();
    assert_eq!(get(address, "/readyz").await, (200, "ok\n".to_owned()));
    handle.stop();
    running.await.unwrap().unwrap();
    assert_eq!(get(address, "/readyz").await.0, 503);
}

/// All its informers are well, and still it reconciles nothing.
#[tokio::test]
async fn a_page_shows_an_election_that_cannot_reach_its_lease() {
    let mock = server_of(["a"]);
    let election = Election::new(Forbidden, "a", Default::default()).unwrap();
    let informer = Informer::<Raw>::builder_for(&mock.transport(), PODS);
    let controller = Controller::new(informer).elected(election);
    let handle = controller.handle();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Page::new("demo").controller(&handle).router();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let running =
        tokio::spawn(controller.run(|_| async { Ok::<_, core::convert::Infallible>(()) }));
    while handle.metrics().election_error.is_none() {
        sleep(Duration::from_millis(10)).await;
    }
    let error = "cannot read the Lease: no right";
    let (status, text) = get(address, "/readyz").await;
    assert_eq!((status, text), (503, format!("controller pods: {error}\n")));
    let (_, text) = get(address, "/").await;
    assert!(text.contains("<th>election</th><td>waits</td>"), "{text}");
    let head = "1 of 1 informers are synced, the election of pods fails.";
    assert!(text.contains(head), "{text}");
    let fails = format!("<th>election fails</th><td>{error}</td>");
    assert!(text.contains(&fails), "{text}");
    let (_, text) = get(address, "/metrics").await;
    let status = "leader_election_master_status{controller=\"pods\",name=\"pods\"} 0";
    assert!(text.contains(status), "{text}");
    handle.stop();
    running.await.unwrap().unwrap();
}

struct Forbidden;

impl LeaseClient for Forbidden {
    type Error = String;

    async fn read(&mut self) -> Result<Option<(LeaseRecord, String)>, String> {
        Err("no right".to_owned())
    }

    async fn create(&mut self, _: &LeaseRecord) -> Result<Written, String> {
        Err("no right".to_owned())
    }

    async fn update(&mut self, _: &LeaseRecord, _: &str, _: bool) -> Result<Written, String> {
        Err("no right".to_owned())
    }
}

/// Requests the page; returns the status and the body.
pub(crate) async fn get(address: core::net::SocketAddr, path: &str) -> (u16, String) {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    // An answer in HTTP/1.0 has no chunks.
    let request = format!("GET {path} HTTP/1.0\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (
        head.split(' ').nth(1).unwrap().parse().unwrap(),
        body.to_owned(),
    )
}

/// A page of three informers: a healthy one, one without permissions, one without a driver. Its names contain markup.
async fn page() -> (core::net::SocketAddr, Vec<Informer<Raw>>) {
    let mock = server_of(["a", "b"]);
    let pods = list_first(&mock);
    pods.add_handler_with(
        &HandlerOptions::default().name("load \"balancer\""),
        Handlers::new().on_add(|_, _| ()),
    );
    let nodes = Informer::<Raw>::builder_for(&without("list").transport(), PODS)
        .name("<b>no</b> rights")
        .spawn();
    let (idle, _never) = Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .name("idle")
        .build();
    core::mem::forget(_never);
    pods.synced().await.unwrap();
    while nodes.health().last_error.is_none() {
        sleep(Duration::from_millis(10)).await;
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Page::new("the <demo>")
        .informer(&pods)
        .informer(&nodes)
        .informer(&idle)
        .router();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, vec![pods, nodes, idle])
}

#[tokio::test]
async fn the_page_is_for_people_probes_and_prometheus() {
    let (address, _informers) = page().await;
    let (status, html) = get(address, "/").await;
    assert_eq!(status, 200);
    for words in [
        "the &lt;demo&gt;",
        "1 of 3 informers are synced, 1 in trouble",
        "&lt;b&gt;no&lt;/b&gt; rights",
        "cannot list resource",
        "The verb <code>list</code> on <code>pods</code> in all namespaces is missing",
        "load &quot;balancer&quot;",
        "not-started for",
    ] {
        assert!(html.contains(words), "{words}: {html}");
    }
    assert!(!html.contains("<b>no</b>"));

    let (status, text) = get(address, "/metrics").await;
    assert_eq!(status, 200);
    for line in [
        "# TYPE informer_synced gauge",
        "informer_synced{informer=\"pods.v1\"} 1",
        "informer_synced{informer=\"<b>no</b> rights\"} 0",
        "informer_objects{informer=\"pods.v1\"} 2",
        "informer_state{informer=\"idle\",state=\"not-started\"} 1",
        "informer_handler_calls_total{informer=\"pods.v1\",handler=\"load \\\"balancer\\\"\"} 2",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    check_prometheus(&text);

    let (status, text) = get(address, "/readyz").await;
    assert_eq!(status, 503);
    assert!(
        text.contains("idle: not-started") && !text.contains("pods.v1:"),
        "{text}"
    );
    assert_eq!(get(address, "/livez").await, (200, "ok\n".to_owned()));
    let (_, json) = get(address, "/health.json").await;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 3);
}

/// Every series has a type declared before it, and appears once.
fn check_prometheus(text: &str) {
    let mut declared = BTreeMap::new();
    let mut seen = std::collections::BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(
                declared.insert(name, kind).is_none(),
                "{name} is declared once"
            );
        } else if !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let of_histogram = ["_bucket", "_sum", "_count"].iter();
            let mut of_histogram = of_histogram.filter_map(|part| name.strip_suffix(part));
            let histogram = of_histogram.find(|name| declared.get(name) == Some(&"histogram"));
            let kind = declared[histogram.unwrap_or(name)];
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert!(seen.insert(series), "{series} stands once");
        }
    }
    assert!(seen.len() > 40, "{text}");
}

/// The page in a browser. CHROMIUM names the program, which `.ci/run browser` provides.
#[tokio::test]
#[ignore = "it needs a browser: .ci/run browser"]
async fn the_page_is_shown_by_a_browser() {
    let chromium = std::env::var("CHROMIUM").expect("CHROMIUM names the program");
    let (address, _informers) = page().await;
    let profile = std::env::temp_dir().join(format!("informer-browser-{}", std::process::id()));
    let output = tokio::process::Command::new(chromium)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(["--virtual-time-budget=3000", "--dump-dom"])
        .arg(format!("http://{address}/"))
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(PATIENCE, output)
        .await
        .unwrap()
        .unwrap();
    let _ = std::fs::remove_dir_all(&profile);
    let dom = String::from_utf8_lossy(&output.stdout);
    // The browser's DOM: elements, and names as text.
    for words in [
        "<title>the &lt;demo&gt;: 1 of 3 informers are synced, 1 in trouble</title>",
        "<h2>&lt;b&gt;no&lt;/b&gt; rights <span class=\"badge ill\">not synced</span></h2>",
        "<h2>pods.v1 <span class=\"badge well\">synced</span></h2>",
        "<tr><th>objects</th><td>2 (",
        "<td data-of=\"handler\">load \"balancer\"</td>",
        "The verb <code>list</code> on <code>pods</code> in all namespaces is missing",
    ] {
        assert!(
            dom.contains(words),
            "{words}: {dom} {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert_eq!(dom.matches("<section>").count(), 3);
}
