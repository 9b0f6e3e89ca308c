//! The scenarios of client-go's REST client (T) on tokio: the effect of events and errors on the wire, and the
//! retries below the reflector.

use core::time::Duration;
use std::sync::{Arc, Mutex};

use informer_core::{Resource, reflector::Initial};
use informer_mock::{
    FailureKind, FakeServer, Fault, Mock, MockTransport, ScriptedServer, TokioClock, Verb, json,
};
use informer_tests::{next, shown};
use informer_tokio::informer::Builder;
use informer_tokio::{Informer, Raw};
use serde_json::Value;
use tokio::time::sleep;

const PODS: Resource<'static> = Resource::new("", "v1", "pods").kind("Pod");

/// The reports: class and text.
#[derive(Clone, Default)]
struct Reports(Arc<Mutex<Vec<(&'static str, String)>>>);

impl Reports {
    fn take(&self) -> Vec<(&'static str, String)> {
        core::mem::take(&mut *self.0.lock().expect("no test panics with it"))
    }

    fn classes(&self) -> Vec<&'static str> {
        self.take().into_iter().map(|(class, _)| class).collect()
    }
}

fn start<B: informer_mock::Backend + Send + 'static>(
    builder: Builder<MockTransport<B, TokioClock>, Raw>,
) -> (Informer<Raw>, Reports) {
    let reports = Reports::default();
    let (informer, driver) = builder
        .seed(1)
        .on_report({
            let reports = reports.clone();
            move |report| {
                let report = (report.class(), report.to_string());
                reports
                    .0
                    .lock()
                    .expect("no test panics with it")
                    .push(report);
            }
        })
        .build();
    tokio::spawn(driver.run());
    (informer, reports)
}

fn server() -> Mock<FakeServer, TokioClock> {
    let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
    let a = json!({ "metadata": { "name": "a", "namespace": "prod" } });
    mock.create("pods", a).expect("it is new");
    mock
}

fn at(name: &str, version: u32) -> Value {
    json!({ "kind": "Pod", "metadata": { "name": name, "namespace": "prod", "resourceVersion": version.to_string() } })
}

/// A watch with one event of each type, in pieces of every size, and the effect of its error.
#[tokio::test(start_paused = true)]
async fn t01_each_type_of_event_arrives() {
    let status = json!({ "kind": "Status", "status": "Failure", "code": 500, "reason": "InternalError", "message": "m" });
    let events: String = [
        ("ADDED", at("b", 11)),
        ("MODIFIED", at("b", 12)),
        ("DELETED", at("b", 13)),
        ("BOOKMARK", at("", 20)),
        ("ERROR", status),
    ]
    .iter()
    .map(|(kind, object)| format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n"))
    .collect();
    for size in [1, 2, 7, 64, 1000] {
        let pieces: Vec<&str> = events
            .as_bytes()
            .chunks(size)
            .map(|piece| core::str::from_utf8(piece).unwrap())
            .collect();
        let list = |version: &str| json!({ "body": { "kind": "PodList", "metadata": { "resourceVersion": version }, "items": [at("a", 5)] } });
        let watch = json!({ "frames": pieces, "end": "hold" });
        let held = json!({ "frames": [], "end": "hold" });
        let script = json!({ "lists": [list("10"), list("21")], "watches": [watch, held] });
        let script = ScriptedServer::from_json(&script.to_string()).unwrap();
        let mock = Mock::with_clock(script, TokioClock::new());
        let (pods, reports) =
            start(Informer::<Raw>::builder_for(&mock.transport(), PODS).initial(Initial::List));
        let mut told = pods.subscribe();
        for expected in [
            "++prod/a@5",
            "synced",
            "+prod/b@11",
            "~prod/b@12",
            "-prod/b@13",
        ] {
            assert_eq!(shown(&next(&mut told).await), expected);
        }
        sleep(Duration::from_secs(5)).await;
        assert_eq!(reports.classes(), ["internal-error"]);
        mock.log().assert_requests(&[
            "LIST rv=0 limit=500",
            "WATCH rv=10 bookmarks",
            "LIST rv=20",
            "WATCH rv=21 bookmarks",
        ]);
    }
}

/// The stream of events closes between two events or within one: the watch resumes.
#[tokio::test(start_paused = true)]
async fn t01_a_source_that_closes_is_opened_again() {
    for cut in ["", "{\"type\":\"ADDED\",\"obj"] {
        let mock = server();
        let (pods, reports) =
            start(Informer::<Raw>::builder_for(&mock.transport(), PODS).initial(Initial::List));
        pods.synced().await.unwrap();
        sleep(Duration::from_secs(5)).await;
        let mark = mock.log().mark();
        let fault = Fault::nothing()
            .inject_before(0, cut)
            .cut_after_bytes(cut.len() as u64);
        mock.with(|server| {
            server.inject(
                fault
                    .and_delay(Duration::from_secs(2))
                    .cleanly()
                    .on(Verb::Watch),
            );
            server.close_watches();
        });
        sleep(Duration::from_secs(5)).await;
        mock.create(
            "pods",
            json!({ "metadata": { "name": "b", "namespace": "prod" } }),
        )
        .unwrap();
        sleep(Duration::from_secs(5)).await;
        assert!(pods.lister().get("prod", "b").is_some());
        mock.log().assert_count_since(mark, Verb::Watch, 2);
        mock.log().assert_no_list_since(mark);
        assert_eq!(reports.take(), []);
    }
}

/// A watch that is refused, with a Status or without a body: the report has the error's class and the server's
/// message.
#[tokio::test(start_paused = true)]
async fn t02_a_refused_watch_is_reported_as_what_it_is() {
    for (fault, class, text) in [
        (
            Fault::api_status(403, "Forbidden", "User \"x\" cannot watch"),
            "forbidden",
            "User \"x\" cannot watch",
        ),
        (Fault::status(403, ""), "forbidden", "403"),
        (Fault::status(401, ""), "unauthorized", "401"),
        (
            Fault::api_status(500, "InternalError", "etcd"),
            "internal-error",
            "etcd",
        ),
        (Fault::status(418, ""), "other", "418"),
    ] {
        let mock = server();
        mock.with(|server| server.inject(fault.on(Verb::Watch)));
        let (pods, reports) =
            start(Informer::<Raw>::builder_for(&mock.transport(), PODS).initial(Initial::List));
        sleep(Duration::from_secs(30)).await;
        let reports = reports.take();
        assert_eq!(reports.len(), 1, "{reports:?}");
        assert_eq!(reports[0].0, class);
        assert!(reports[0].1.contains(text), "{reports:?}");
        assert!(pods.is_synced());
        mock.log().assert_requests(&[
            "LIST rv=0 limit=500",
            "WATCH rv=2 bookmarks",
            "LIST rv=2",
            "WATCH rv=2 bookmarks",
        ]);
    }
}

/// A watch that is cut before its answer is retried below the reflector: after a second, at most ten times.
#[tokio::test(start_paused = true)]
async fn t02_a_watch_that_is_cut_before_its_answer_is_asked_again() {
    for (times, watches, reported) in [
        (1, 2, &[][..]),
        (10, 11, &[]),
        (11, 12, &["connection-reset"]),
    ] {
        let mock = server();
        mock.with(|server| server.inject(Fault::reset().on(Verb::Watch).times(times)));
        let (pods, reports) =
            start(Informer::<Raw>::builder_for(&mock.transport(), PODS).initial(Initial::List));
        pods.synced().await.unwrap();
        sleep(Duration::from_secs(30)).await;
        mock.log().assert_count_since(0, Verb::Watch, watches);
        mock.log().assert_count_since(0, Verb::List, 1);
        assert_eq!(reports.classes(), reported);
    }
}

/// Always Retry-After: the unchanged request is retried after it, at most ten times; then the reflector gets the
/// error.
#[tokio::test(start_paused = true)]
async fn t02_a_watch_with_retry_after_each_time_is_given_up() {
    let mock = server();
    let fault = Fault::status(503, "")
        .header("Retry-After", "2")
        .on(Verb::Watch);
    mock.with(|server| server.inject(fault.times(11)));
    let (pods, reports) =
        start(Informer::<Raw>::builder_for(&mock.transport(), PODS).initial(Initial::List));
    pods.synced().await.unwrap();
    sleep(Duration::from_millis(19_900)).await;
    mock.log().assert_count_since(0, Verb::Watch, 10);
    sleep(Duration::from_secs(10)).await;
    let log = mock.log();
    log.assert_count_since(0, Verb::Watch, 12);
    // The run ends there, and the next one lists.
    log.assert_count_since(0, Verb::List, 2);
    assert!(reports.classes().contains(&"service-unavailable"));
}

/// How requests fail, and when they are repeated: after a second or Retry-After below the reflector, otherwise after
/// the backoff of 0.8 to 1.6 s.
#[tokio::test(start_paused = true)]
async fn t03_what_is_asked_again_and_when() {
    const DELAYED: core::ops::Range<f64> = 0.8..1.601;
    // The connection had served the list.
    const AT_ONCE: core::ops::Range<f64> = 0.0..0.001;
    const ONE: core::ops::Range<f64> = 1.0..1.01;
    const SEVEN: core::ops::Range<f64> = 7.0..7.01;
    let after = |status: u16| Fault::status(status, "").header("Retry-After", "7");
    let date = |status: u16| {
        Fault::status(status, "").header("Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT")
    };
    let rows = [
        // The fault; for a list and for a watch, the delay and whether there is a report.
        ("429 with", after(429), (SEVEN, true), (SEVEN, true)),
        ("503 with", after(503), (SEVEN, true), (SEVEN, true)),
        ("500 with", after(500), (SEVEN, true), (SEVEN, true)),
        (
            "429 without",
            Fault::status(429, ""),
            (DELAYED, true),
            (DELAYED, true),
        ),
        (
            "503 without",
            Fault::status(503, ""),
            (DELAYED, true),
            (DELAYED, true),
        ),
        (
            "500 without",
            Fault::status(500, ""),
            (DELAYED, true),
            (DELAYED, true),
        ),
        (
            "429 with a date",
            date(429),
            (DELAYED, true),
            (DELAYED, true),
        ),
        ("307 with", after(307), (DELAYED, true), (DELAYED, true)),
        ("404 with", after(404), (DELAYED, true), (DELAYED, true)),
        ("reset", Fault::reset(), (ONE, false), (AT_ONCE, false)),
        (
            "timed out",
            Fault::fail(FailureKind::TimedOut),
            (DELAYED, true),
            (AT_ONCE, false),
        ),
        ("refused", Fault::refuse(), (DELAYED, true), (DELAYED, true)),
        (
            "TLS",
            Fault::fail(FailureKind::Tls),
            (DELAYED, true),
            (DELAYED, true),
        ),
        (
            "DNS",
            Fault::fail(FailureKind::Dns),
            (DELAYED, true),
            (DELAYED, true),
        ),
    ];
    for (name, fault, list, watch) in rows {
        for (verb, (delay, reported)) in [(Verb::List, list), (Verb::Watch, watch)] {
            let mock = server();
            mock.with(|server| server.inject(fault.clone().on(verb)));
            let (pods, reports) =
                start(Informer::<Raw>::builder_for(&mock.transport(), PODS).initial(Initial::List));
            sleep(Duration::from_secs(20)).await;
            assert!(pods.is_synced(), "{name}");
            let log = mock.log();
            let requests: Vec<_> = log.iter().collect();
            let failed = requests
                .iter()
                .position(|request| request.verb == verb)
                .unwrap();
            let gap = (requests[failed + 1].at - requests[failed].at).as_secs_f64();
            assert!(delay.contains(&gap), "{name}, {verb:?}: {gap} s");
            assert_eq!(!reports.take().is_empty(), reported, "{name}, {verb:?}");
            if delay != DELAYED {
                assert_eq!(
                    requests[failed].query,
                    requests[failed + 1].query,
                    "{name}: unchanged"
                );
            }
        }
    }
}

/// Retry-After has no effect on a successful answer.
#[tokio::test(start_paused = true)]
async fn t03_a_good_answer_is_not_asked_for_again() {
    let mock = server();
    mock.with(|server| server.inject(Fault::nothing().header("Retry-After", "7").times(2)));
    let (pods, reports) =
        start(Informer::<Raw>::builder_for(&mock.transport(), PODS).initial(Initial::List));
    sleep(Duration::from_secs(20)).await;
    assert!(pods.is_synced());
    mock.log()
        .assert_requests(&["LIST rv=0 limit=500", "WATCH rv=2 bookmarks"]);
    assert_eq!(reports.take(), []);
}

/// Requests have no bodies, so all can be retried. Retries are counted, and the last error ends the run.
#[tokio::test(start_paused = true)]
async fn t04_retries_are_counted_and_the_last_error_is_reported() {
    let mock = server();
    let busy = Fault::status(503, "")
        .header("Retry-After", "1")
        .on(Verb::List);
    let last = Fault::overloaded(Some(1)).on(Verb::List);
    mock.with(|server| {
        server.inject(busy.times(10));
        server.inject(last);
    });
    let (pods, reports) =
        start(Informer::<Raw>::builder_for(&mock.transport(), PODS).initial(Initial::List));
    sleep(Duration::from_millis(10_500)).await;
    mock.log().assert_count_since(0, Verb::List, 11);
    let mut classes = reports.classes();
    assert_eq!(classes.pop(), Some("too-many-requests"));
    // Each retry is reported too, as transient; and so is the list that it slows down.
    classes.retain(|class| *class != "slow-list");
    assert_eq!(classes, ["service-unavailable"; 10]);
    pods.synced().await.unwrap();
    mock.log().assert_count_since(0, Verb::List, 12);
}
