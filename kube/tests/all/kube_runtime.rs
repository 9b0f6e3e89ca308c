//! What the tests of kube-runtime 5.0 state, on the parts of this crate that replace those of kube-runtime:
//! see `docs/FROM-KUBE-RUNTIME.md`.

use core::convert::Infallible;
use core::pin::pin;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures_util::{FutureExt as _, Stream, StreamExt as _, stream};
use informer_kube::runtime::reflector::{ObjectRef, Store, Writer, store};
use informer_kube::runtime::watcher::{self as watchers, Config, Error, Event};
use informer_kube::runtime::{Controller, reflector, watcher};
use informer_mock::{FakeServer, Fault, Verb, json};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{DynamicObject, ObjectMeta};
use kube::core::{ApiResource, Expression, GroupVersionKind, PartialObjectMeta, Selector};
use kube::runtime::controller::{self, Action};
use kube::runtime::utils::Backoff;
use kube::runtime::wait::{Condition as _, conditions};
use kube::runtime::{WatchStreamExt as _, predicates};
use kube::{Api, ResourceExt as _};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::server::{client, server, settle};
use crate::support::{end_of_stream, event, script};
use crate::watcher::{during, next, pod, pods};

fn map(name: &str, version: u32) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            resource_version: Some(version.to_string()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

fn names(store: &Store<ConfigMap>) -> Vec<String> {
    let state = store.state();
    let mut names: Vec<_> = state.iter().map(|object| object.name_any()).collect();
    names.sort();
    names
}

fn object_of(name: &str, version: u32) -> Value {
    let mut object = pod(name);
    object["kind"] = "Pod".into();
    object["apiVersion"] = "v1".into();
    object["metadata"]["resourceVersion"] = version.to_string().into();
    object
}

fn error_event(code: u16, reason: &str) -> Value {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": "m" });
    event("ERROR", &status)
}

/// `streaming_list_init` and `to_watch_params_*`: the initial events are requested once, and then the watch continues at the last
/// version, with the selectors of the first request.
#[tokio::test(start_paused = true)]
async fn initial_events_are_requested_once() {
    let mock = server();
    let labelled = |name: &str, round: u32| {
        let mut pod = pod(name);
        pod["metadata"]["labels"] = json!({ "app": "test", "round": round.to_string() });
        pod
    };
    for name in ["a", "b", "c"] {
        mock.create("pods", labelled(name, 0)).unwrap();
    }
    mock.create("pods", pod("other")).unwrap();
    let config = Config::default()
        .streaming_lists()
        .timeout(300)
        .labels("app=test")
        .fields("metadata.name!=ignored");
    let mut events = pin!(watcher(pods(&mock), config));
    let seen = next(&mut events, 5).await;
    assert_eq!(seen, ["init", "++a", "++b", "++c", "done"]);
    mock.update("pods", labelled("a", 1)).unwrap();
    mock.delete("pods", "prod", "b").unwrap();
    let version = mock.with(|server| server.version()).to_string();
    assert_eq!(next(&mut events, 2).await, ["+a", "-b"]);
    mock.with(|server| server.cut_watches());
    settle().await;
    mock.update("pods", labelled("c", 1)).unwrap();
    assert_eq!(next(&mut events, 1).await, ["+c"]);

    let log = mock.log();
    let requests: Vec<_> = log.iter().collect();
    let [initial, resumed] = requests[..] else {
        panic!("{requests:?}");
    };
    assert_eq!((initial.verb, resumed.verb), (Verb::Stream, Verb::Watch));
    assert_eq!(resumed.query.get("sendInitialEvents"), None);
    assert_eq!(resumed.resource_version(), Some(&*version));
    for request in requests {
        assert_eq!(request.query.get("labelSelector"), Some("app=test"));
        let fields = request.query.get("fieldSelector");
        assert_eq!(fields, Some("metadata.name!=ignored"));
        assert_eq!(request.timeout(), Some(300));
    }
}

/// `streaming_list_initial_stream_eof_before_bookmark_drops_partial_objects`, and the same with 410 and with a cut.
#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_breaks_leaves_nothing_behind() {
    let (a, ghost) = (object_of("a", 1), object_of("ghost", 2));
    let (a, ghost) = (event("ADDED", &a), event("ADDED", &ghost));
    for (frames, end) in [
        (json!([a, ghost]), "close"),
        (json!([a, ghost]), "abort"),
        (json!([a, ghost, error_event(410, "Expired")]), "close"),
    ] {
        let broken = json!({ "frames": frames, "end": end });
        let whole = json!({ "frames": [a, end_of_stream(3)], "end": "hold" });
        // After an error, the list is not streamed.
        let list = json!({ "kind": "PodList", "apiVersion": "v1", "metadata": { "resourceVersion": "3" }, "items": [object_of("a", 1)] });
        let held = json!({ "frames": [], "end": "hold" });
        let script_of =
            json!({ "streams": [broken, whole], "lists": [{ "body": list }], "watches": [held] });
        let mock = script(&script_of);
        let (store, writer) = store::<Pod>();
        let config = Config::default().streaming_lists();
        let api = Api::<Pod>::all(client(&mock));
        let mut events = pin!(reflector(writer, watcher(api, config)));
        let seen = during(Duration::from_secs(20), &mut events).await;
        let expected = ["init", "++a", "++ghost", "init", "++a", "done"];
        assert_eq!(seen, expected, "{frames} {end}");
        let names: Vec<_> = store.state().iter().map(|pod| pod.name_any()).collect();
        assert_eq!(names, ["a"], "{seen:?}");
    }
}

/// `streaming_list_resync`: an error within a watch is an item, and what follows is not older than the last version.
#[tokio::test(start_paused = true)]
async fn an_error_in_a_watch_is_an_item_and_the_state_follows() {
    let change = |name, version| event("MODIFIED", &object_of(name, version));
    let object = |name, version| event("ADDED", &object_of(name, version));
    let broken = json!({
        "frames": [object("a", 2), object("b", 3), end_of_stream(4), change("a", 5), error_event(502, "BadGateway")],
        "end": "hold",
    });
    let whole = json!({
        "frames": [object("a", 5), object("b", 3), end_of_stream(5), change("a", 6)],
        "end": "hold",
    });
    let mock = script(&json!({ "streams": [broken, whole] }));
    let api = Api::<Pod>::all(client(&mock));
    let mut events = pin!(watcher(api, Config::default().streaming_lists()));
    let seen = during(Duration::from_secs(20), &mut events).await;
    let error = "! error returned by apiserver during watch: m: BadGateway";
    let expected = [
        "init", "++a", "++b", "done", "+a", error, "init", "++a", "++b", "done", "+a",
    ];
    assert_eq!(seen, expected);
    let log = mock.log();
    let versions: Vec<_> = log
        .iter()
        .map(|request| request.resource_version())
        .collect();
    assert_eq!(versions, [None, Some("5")]);
}

/// `listwatch_paginates_initial_list_before_starting_watch`.
#[tokio::test(start_paused = true)]
async fn the_watch_begins_after_the_last_page() {
    let mock = server();
    for name in ["a", "b", "c"] {
        mock.create("pods", pod(name)).unwrap();
    }
    let mut events = pin!(watcher(pods(&mock), Config::default().page_size(1)));
    let seen = next(&mut events, 5).await;
    assert_eq!(seen, ["init", "++a", "++b", "++c", "done"]);
    settle().await;
    mock.create("pods", pod("d")).unwrap();
    assert_eq!(next(&mut events, 1).await, ["+d"]);
    let log = mock.log();
    let requests: Vec<_> = log.iter().collect();
    let [first, second, third, watch] = requests[..] else {
        panic!("{requests:?}");
    };
    assert_eq!(first.query.get("continue"), None);
    for page in [first, second, third] {
        assert_eq!(
            (page.verb, page.query.get("limit")),
            (Verb::List, Some("1"))
        );
    }
    assert!(second.query.get("continue").is_some());
    assert_ne!(second.query.get("continue"), third.query.get("continue"));
    assert_eq!(watch.verb, Verb::Watch);
    assert_eq!(watch.resource_version(), Some("4"));
    assert_eq!(watch.query.get("sendInitialEvents"), None);
}

/// `idle_timeout_returns_none_on_dead_connection`: no error either. With the timeout zero, kube waits without an end.
#[tokio::test(start_paused = true)]
async fn a_watch_on_a_dead_connection_is_reopened() {
    for seconds in [None, Some(290), Some(0)] {
        let mock = server();
        let dead = Fault::nothing().cut_after_events(0).silently();
        mock.with(|server| server.inject(dead.on(Verb::Watch)));
        let config = Config {
            timeout: seconds,
            ..Config::default()
        };
        let mut events = pin!(watcher(pods(&mock), config));
        assert_eq!(next(&mut events, 2).await, ["init", "done"]);
        mock.create("pods", pod("a")).unwrap();
        let seen = during(Duration::from_secs(100), &mut events).await;
        assert_eq!(seen, ["+a"], "{seconds:?}");
    }
}

/// The timeout of the requests: five to ten minutes if the program sets none, and an hour at most if it leaves it to the server.
#[tokio::test(start_paused = true)]
async fn a_watch_without_a_timeout_has_one() {
    for (config, expected) in [
        (Config::default(), 300..=600),
        (Config::default().timeout(0), 1800..=3600),
        (Config::default().timeout(7), 7..=7),
    ] {
        let mock = server();
        let mut events = pin!(watcher(pods(&mock), config));
        assert_eq!(next(&mut events, 2).await, ["init", "done"]);
        let seen = during(Duration::from_secs(8 * 3600), &mut events).await;
        assert_eq!(seen, [""; 0]);
        let log = mock.log();
        let timeouts: Vec<_> = log.watches().filter_map(|watch| watch.timeout()).collect();
        assert!(timeouts.len() >= 8, "{timeouts:?}");
        assert!(
            timeouts.iter().all(|seconds| expected.contains(seconds)),
            "{timeouts:?}"
        );
    }
}

/// The version of the first request: none is the newest, and 0 is what the server has in its memory. kube streams from 0.
#[tokio::test(start_paused = true)]
async fn the_first_version_follows_the_semantic() {
    for (config, expected) in [
        (Config::default(), None),
        (Config::default().any_semantic(), Some("0")),
        (Config::default().streaming_lists(), None),
        (Config::default().streaming_lists().any_semantic(), None),
    ] {
        let mock = server();
        mock.create("pods", pod("a")).unwrap();
        let mut events = pin!(watcher(pods(&mock), config.clone()));
        assert_eq!(next(&mut events, 3).await, ["init", "++a", "done"]);
        let log = mock.log();
        let first = log.iter().next().unwrap();
        assert_eq!(first.resource_version(), expected, "{config:?}");
    }
}

/// A server that does not stream lists gets a list. kube repeats the request.
#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_is_refused_is_a_list() {
    let list = json!({ "kind": "PodList", "apiVersion": "v1", "metadata": { "resourceVersion": "10" }, "items": [object_of("a", 5)] });
    let held = json!({ "frames": [], "end": "hold" });
    let mock = script(&json!({ "lists": [{ "body": list }], "watches": [held] }));
    let api = Api::<Pod>::all(client(&mock));
    let mut events = pin!(watcher(api, Config::default().streaming_lists()));
    let seen = during(Duration::from_secs(60), &mut events).await;
    assert_eq!(seen, ["init", "++a", "done"]);
}

/// What the engine only reports is no error: a program that ends at the first one would end for nothing.
#[tokio::test(start_paused = true)]
async fn a_report_without_a_failed_request_is_no_error() {
    let mock = server();
    mock.with(|server| server.inject(Fault::delay(Duration::from_secs(20)).on(Verb::List)));
    let mut events = pin!(watcher(pods(&mock), Config::default()));
    let seen = during(Duration::from_secs(60), &mut events).await;
    assert_eq!(seen, ["init", "done"], "a list that is slow");

    let list = |version: &str| {
        let metadata = json!({ "resourceVersion": version });
        json!({ "body": { "kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": [object_of("a", 5)] } })
    };
    let expired = json!({ "frames": [10, error_event(410, "Expired")], "end": "close" });
    let held = json!({ "frames": [], "end": "hold" });
    let mock = script(&json!({ "lists": [list("10"), list("7")], "watches": [expired, held] }));
    let api = Api::<Pod>::all(client(&mock));
    let mut events = pin!(watcher(api, Config::default()));
    let seen = during(Duration::from_secs(60), &mut events).await;
    let error = "! error returned by apiserver during watch: m: Expired";
    let expected = ["init", "++a", "done", error, "init", "++a", "done"];
    assert_eq!(seen, expected, "a server that was restored");
}

/// The kinds of errors that do not come from the server's answer.
#[tokio::test(start_paused = true)]
async fn failures_of_the_connection_are_errors_of_the_service() {
    let mock = server();
    mock.with(|server| server.inject(Fault::refuse()));
    let mut events = pin!(watcher(pods(&mock), Config::default()));
    let failure = events.next().await.unwrap().unwrap_err();
    let Error::InitialListFailed(kube::Error::Service(cause)) = failure else {
        panic!("{failure:?}");
    };
    assert!(cause.to_string().contains("refused"), "{cause}");
    assert_eq!(
        during(Duration::from_secs(30), &mut events).await,
        ["init", "done"]
    );
    mock.with(|server| {
        server.inject(Fault::status(403, "").on(Verb::Watch));
        server.cut_watches();
    });
    let failure = timeout(Duration::from_secs(60), events.next()).await;
    let failure = failure.unwrap().unwrap();
    assert!(
        matches!(&failure, Err(Error::WatchStartFailed(kube::Error::Api(status))) if status.is_forbidden()),
        "{failure:?}"
    );
}

/// `should_allow_getting_*`: a cluster-scoped object is found by a reference with a namespace, but not the reverse.
#[test]
fn objects_are_found_by_references() {
    let within = |namespace: Option<&str>| {
        let mut object = map("obj", 1);
        object.metadata.namespace = namespace.map(str::to_owned);
        object
    };
    for (stored, asked, found) in [
        (Some("ns"), Some("ns"), true),
        (Some("ns"), None, false),
        (Some("ns"), Some("other"), false),
        (None, None, true),
        (None, Some("ns"), true),
    ] {
        let (store, mut writer) = store::<ConfigMap>();
        writer.apply_watcher_event(&Event::Apply(within(stored)));
        let object = store.get(&ObjectRef::from_obj(&within(asked)));
        let expected = found.then(|| within(stored));
        assert_eq!(object.as_deref(), expected.as_ref(), "{stored:?} {asked:?}");
    }
}

/// `state_filter_filters_by_predicate`, `state_filter_selector_filters_by_label_selector` and `find_element_in_store`.
#[test]
fn objects_are_selected() {
    let (store, mut writer) = store::<ConfigMap>();
    assert!(store.is_empty());
    for (name, app, generation) in [("cm1", "nginx", 1), ("cm2", "postgres", 1234)] {
        let mut object = map(name, 1);
        object.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
        object.metadata.generation = Some(generation);
        writer.apply_watcher_event(&Event::Apply(object));
    }
    assert_eq!((store.len(), store.is_empty()), (2, false));
    let selector: Selector = Expression::Equal("app".into(), "nginx".into()).into();
    for selected in [
        store.state_filter(|map| map.labels().get("app").is_some_and(|app| app == "nginx")),
        store.state_filter_selector(&selector),
    ] {
        let selected: Vec<_> = selected.iter().map(|map| map.name_any()).collect();
        assert_eq!(selected, ["cm1"]);
    }
    let found = store.find(|map| map.metadata.generation == Some(1234));
    assert_eq!(found.unwrap().name_any(), "cm2");
    assert!(
        store
            .find(|map| map.metadata.generation == Some(7))
            .is_none()
    );
}

/// `reflector_*` and `events_are_passed_through`: the store after each event, and the events as they came.
#[tokio::test]
async fn a_reflector_passes_on_each_event_and_stores_its_object() {
    let mut changed = map("a", 2);
    changed.data = Some(BTreeMap::from([("data".to_owned(), "present!".to_owned())]));
    let events = [
        (Ok(Event::Apply(map("a", 1))), &["a"][..]),
        (Ok(Event::Apply(changed.clone())), &["a"]),
        (Err(Error::NoResourceVersion), &["a"]),
        (Ok(Event::Apply(map("gone", 3))), &["a", "gone"]),
        (Ok(Event::Delete(map("gone", 4))), &["a"]),
        (Ok(Event::Delete(map("never", 5))), &["a"]),
        (Ok(Event::Init), &["a"]),
        // kube's store shows these two when the list is complete.
        (Ok(Event::InitApply(map("b", 6))), &["a", "b"]),
        (Ok(Event::InitApply(map("c", 7))), &["a", "b", "c"]),
        (Ok(Event::InitDone), &["b", "c"]),
    ];
    let expected = events
        .each_ref()
        .map(|(event, names)| (show(event), *names));
    let (store, writer) = store::<ConfigMap>();
    let events = events.map(|(event, _)| event);
    let mut stream = pin!(reflector(writer, stream::iter(events)));
    assert_eq!(store.len(), 0);
    for (number, (event, stored)) in expected.iter().enumerate() {
        let passed = stream.next().now_or_never().expect("it is ready").unwrap();
        assert_eq!(show(&passed), *event);
        assert_eq!(names(&store), *stored, "after event {number}");
        if number == 1 {
            let object = store.get(&ObjectRef::new("a"));
            assert_eq!(object.as_deref(), Some(&changed));
        }
    }
    assert!(stream.next().await.is_none());
    assert_eq!(store.len(), 2, "the store outlives its stream");
}

fn show(event: &watchers::Result<Event<ConfigMap>>) -> String {
    match event {
        Ok(event) => event.to_string(),
        Err(error) => error.to_string(),
    }
}

/// `reflector_store_should_not_contain_duplicates`.
#[tokio::test]
async fn a_store_has_each_object_once() {
    let mut state = 1_u64;
    let events = (0..100_000_u32).map(move |number| {
        // A linear congruential generator; the upper bits are the better ones.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let object = map(&((state >> 33) % 100).to_string(), number);
        Ok(if (state >> 50) % 10 < 4 {
            Event::Delete(object)
        } else {
            Event::Apply(object)
        })
    });
    let (store, writer) = store::<ConfigMap>();
    reflector(writer, stream::iter(events))
        .for_each(async |_| {})
        .await;
    let mut names = names(&store);
    let count = names.len();
    names.dedup();
    assert!((10..=100).contains(&count), "{count}");
    assert_eq!(names.len(), count);
}

/// The end of a stream drops the writer, as in kube: nobody waits any longer, and subscriptions end.
#[tokio::test(start_paused = true)]
async fn a_reflector_whose_stream_ends_drops_its_writer() {
    let (store, writer) = store::<ConfigMap>();
    let mut applied = store.subscribe();
    let events = [Ok(Event::Apply(map("a", 1)))];
    let mut stream = pin!(reflector(writer, stream::iter(events)));
    assert!(stream.next().await.is_some());
    assert_eq!(applied.next().await.unwrap().name_any(), "a");
    let mut waiting = pin!(store.wait_until_ready());
    assert!(waiting.as_mut().now_or_never().is_none());
    assert!(stream.next().await.is_none());
    // The stream still exists.
    let waited = timeout(Duration::from_secs(1), waiting).await;
    assert!(waited.expect("it is woken").is_err());
    let end = timeout(Duration::from_secs(1), applied.next()).await;
    assert!(end.expect("it is woken").is_none());
    assert!(stream.next().await.is_none(), "it remains at its end");
    assert_eq!(names(&store), ["a"]);
}

/// `readers_yield_touched_objects`: a subscriber gets the objects that are applied, no deletions and no errors.
#[tokio::test]
async fn a_subscriber_gets_what_is_applied() {
    let events = [
        Ok(Event::Delete(map("foo", 1))),
        Ok(Event::Apply(map("foo", 2))),
        Err(Error::NoResourceVersion),
        Ok(Event::Init),
        Ok(Event::InitApply(map("foo", 3))),
        Ok(Event::InitApply(map("bar", 4))),
        Ok(Event::InitDone),
    ];
    let (store, writer) = store::<ConfigMap>();
    let mut applied = store.subscribe();
    let mut stream = pin!(reflector(writer, stream::iter(events)));
    // kube's subscribers get the objects of a list at its end.
    for expected in [None, Some("2"), None, None, Some("3"), Some("4"), None] {
        assert!(stream.next().await.is_some());
        let object = applied.next().now_or_never().map(Option::unwrap);
        let version = object.and_then(|object| object.resource_version());
        assert_eq!(version.as_deref(), expected);
    }
    assert!(stream.next().await.is_none());
    assert_eq!(applied.next().now_or_never(), Some(None));
}

/// `readers_yield_when_tx_drops`: after the end of the stream, a subscriber gets what it has not read yet.
#[tokio::test]
async fn a_subscriber_reads_what_is_left_after_the_stream() {
    let events = [
        Ok(Event::Init),
        Ok(Event::InitApply(map("foo", 1))),
        Ok(Event::InitApply(map("bar", 2))),
        Ok(Event::InitDone),
    ];
    let (store, writer) = store::<ConfigMap>();
    let mut applied = store.subscribe();
    reflector(writer, stream::iter(events))
        .for_each(async |_| {})
        .await;
    let mut left = [(); 2].map(|()| applied.next().now_or_never().unwrap().unwrap().name_any());
    left.sort();
    assert_eq!(left, ["bar", "foo"]);
    assert_eq!(applied.next().now_or_never(), Some(None));
}

/// `reflect_applies_backpressure` states the reverse for kube: a reader that does not read holds nothing back here.
#[tokio::test]
async fn a_subscriber_that_does_not_read_holds_nothing_back() {
    let (store, writer) = store::<ConfigMap>();
    let (mut fast, mut slow) = (store.subscribe(), store.subscribe());
    let events = (0..1000).map(|round| Ok(Event::Apply(map(["foo", "bar"][round % 2], 1))));
    let events = events.chain([Ok(Event::Apply(map("foo", 2)))]);
    let mut stream = pin!(reflector(writer, stream::iter(events)));
    let mut count = 0;
    while stream.next().now_or_never().expect("it is ready").is_some() {
        assert!(fast.next().now_or_never().is_some());
        count += 1;
    }
    assert_eq!(count, 1001);
    let objects: Vec<_> = slow
        .by_ref()
        .collect()
        .now_or_never()
        .expect("it has ended");
    let left: Vec<_> = objects
        .iter()
        .map(|object| (object.name_any(), object.resource_version().unwrap()))
        .collect();
    assert_eq!(
        left,
        [("foo", "2"), ("bar", "1")].map(|(name, version)| (name.to_owned(), version.to_owned()))
    );
}

/// A backoff that gives up at the third failure in a row.
struct GivesUp(usize);

impl Iterator for GivesUp {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0 += 1;
        (self.0 < 3).then_some(Duration::from_secs(1))
    }
}

impl Backoff for GivesUp {
    fn reset(&mut self) {
        self.0 = 0;
    }
}

/// `backoff_should_close_when_requested`, on this watcher.
#[tokio::test(start_paused = true)]
async fn a_backoff_that_gives_up_ends_the_stream_and_its_requests() {
    let mock = server();
    mock.with(|server| server.inject(Fault::status(500, "").always()));
    let mut events = pin!(watcher(pods(&mock), Config::default()).backoff(GivesUp(0)));
    for _ in 0..3 {
        assert!(events.next().await.unwrap().is_err());
    }
    assert!(events.next().await.is_none());
}

/// `predicate_filtering_*`, `watches_applies_uses_correct_stream` and `eventmodify_modifies_inner_value_of_event`, on this watcher.
#[tokio::test(start_paused = true)]
async fn predicates_select_the_objects_of_this_watcher() {
    let mock = server();
    let labelled = |label: &str, message: &str| {
        let mut pod = pod("a");
        pod["metadata"]["labels"] = json!({ "app": label });
        pod["status"] = json!({ "message": message });
        pod
    };
    mock.create("pods", labelled("web", "1")).unwrap();
    let objects = watcher(pods(&mock), Config::default())
        .modify(|pod| {
            pod.annotations_mut()
                .insert("seen".to_owned(), "yes".to_owned());
        })
        .touched_objects()
        .predicate_filter(predicates::labels, Default::default());
    let mut objects = pin!(objects);
    let mut seen = Vec::new();
    for (label, message) in [("web", "2"), ("db", "3"), ("db", "4")] {
        if let Ok(object) = timeout(Duration::from_secs(5), objects.next()).await {
            seen.push(object.unwrap().unwrap());
        }
        mock.update("pods", labelled(label, message)).unwrap();
    }
    mock.delete("pods", "prod", "a").unwrap();
    mock.create("pods", labelled("db", "5")).unwrap();
    while let Ok(object) = timeout(Duration::from_secs(5), objects.next()).await {
        seen.push(object.unwrap().unwrap());
    }
    let labels: Vec<_> = seen.iter().map(|pod| &*pod.labels()["app"]).collect();
    // The last one has another uid.
    assert_eq!(labels, ["web", "db", "db"]);
    assert_ne!(seen[1].uid(), seen[2].uid());
    assert!(seen.iter().all(|pod| pod.annotations()["seen"] == "yes"));
}

/// `test_controller_should_be_send` and `test_watcher_stream_type_drift`: this is compiled, and not run.
#[expect(dead_code, reason = "it is only compiled")]
fn types_are_those_of_kube(
    maps: Api<ConfigMap>,
    pods: Api<Pod>,
    partial: Api<PartialObjectMeta<Pod>>,
) {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    fn is_of<T, S: Stream<Item = watchers::Result<Event<T>>> + Send + 'static>(stream: S) -> S {
        stream
    }
    let config = Config::default;
    drop(is_send(Controller::new(maps.clone(), config()).run(
        async |_, _| Ok(Action::await_change()),
        |_: Arc<ConfigMap>, _: &std::io::Error, _| Action::await_change(),
        Arc::new(()),
    )));
    drop(is_of::<ConfigMap, _>(watcher(maps, config())));
    drop(is_of::<PartialObjectMeta<Pod>, _>(watcher(
        partial,
        config(),
    )));
    drop(is_of::<PartialObjectMeta<Pod>, _>(
        informer_kube::runtime::metadata_watcher(pods.clone(), config()),
    ));
    drop(is_send(watchers::watch_object(pods.clone(), "a")));
    let filtered = watcher(pods.clone(), config())
        .touched_objects()
        .predicate_filter(predicates::generation, Default::default());
    drop(filtered.boxed());
    // A store and its writer can be moved to other tasks.
    let (store, writer) = is_send(store::<Pod>());
    drop(is_of::<Pod, _>(reflector(writer, watcher(pods, config()))));
    drop(is_send(store.subscribe()));
    drop(is_send(
        async move { store.wait_until_ready().await.is_ok() },
    ));
}

/// What `await_condition` does, on this watcher: it also waits while requests fail.
#[tokio::test(start_paused = true)]
async fn a_condition_of_kube_is_awaited() {
    let mock = server();
    mock.with(|server| server.inject(Fault::status(500, "").times(2)));
    let is_running = conditions::is_pod_running();
    let states = watchers::watch_object(pods(&mock), "a").filter_map(|state| {
        let pod = state
            .ok()
            .filter(|pod| is_running.matches_object(pod.as_ref()));
        core::future::ready(pod)
    });
    let mut states = pin!(states);
    let early = timeout(Duration::from_secs(60), states.next()).await;
    assert!(early.is_err(), "it does not exist");
    let mut object = pod("a");
    mock.create("pods", object.clone()).unwrap();
    object["status"] = json!({ "phase": "Running" });
    mock.update("pods", object).unwrap();
    let state = timeout(Duration::from_secs(1), states.next()).await;
    assert_eq!(state.unwrap().unwrap().unwrap().name_any(), "a");
}

/// A type that is known only at run time.
#[tokio::test(start_paused = true)]
async fn a_store_of_dynamic_objects_has_a_writer() {
    let mock = server();
    mock.create(
        "configmaps",
        json!({ "metadata": { "name": "a", "namespace": "prod" } }),
    )
    .unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let writer = Writer::<DynamicObject>::new(resource.clone());
    let store = writer.as_reader();
    let api = Api::<DynamicObject>::all_with(client(&mock), &resource);
    let stream = reflector(writer, watcher(api, Config::default()));
    let _reading = tokio::spawn(stream.for_each(async |_| {}));
    store.wait_until_ready().await.unwrap();
    let key = ObjectRef::new_with("a", resource).within("prod");
    assert_eq!(store.get(&key).unwrap().name_any(), "a");
}

/// `runner_should_wait_for_readiness`, `runner_should_dedupe_while_waiting_for_readiness`,
/// `runner_should_respect_max_concurrent_executions` and the shutdown, with kube's controller on this watcher.
#[tokio::test(start_paused = true)]
async fn the_methods_of_the_controller_have_their_effect() {
    let mock = server();
    for name in ["a", "b", "c", "d"] {
        mock.create(
            "configmaps",
            json!({ "metadata": { "name": name, "namespace": "prod" } }),
        )
        .unwrap();
    }
    mock.with(|server| {
        server.inject(Fault::delay(Duration::from_secs(20)).on_path("/api/v1/configmaps"));
    });
    let secret = json!({ "metadata": { "name": "s", "namespace": "prod" } });
    mock.create("secrets", secret).unwrap();
    let (every, all) = tokio::sync::mpsc::unbounded_channel();
    let all = stream::unfold(
        all,
        async |mut all: tokio::sync::mpsc::UnboundedReceiver<()>| Some((all.recv().await?, all)),
    );
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let of = |secret: Secret| [ObjectRef::new("a").within(&secret.namespace().unwrap())];
    // The running ones, and the most at a time.
    let running = Arc::new(Mutex::new((0_u32, 0_u32)));
    let reconcile = async |_: Arc<ConfigMap>, running: Arc<Mutex<(u32, u32)>>| {
        {
            let mut running = running.lock().unwrap();
            running.0 += 1;
            running.1 = running.1.max(running.0);
        }
        sleep(Duration::from_secs(1)).await;
        running.lock().unwrap().0 -= 1;
        Ok::<_, Infallible>(Action::await_change())
    };
    let config = Config::default;
    let runs = Controller::new(Api::<ConfigMap>::all(client(&mock)), config())
        .watches(Api::<Secret>::all(client(&mock)), config(), of)
        .with_config(controller::Config::default().concurrency(2))
        .reconcile_all_on(all)
        .graceful_shutdown_on(async move { drop(stopped.await) })
        .run(
            reconcile,
            |_, error, _| match *error {},
            Arc::clone(&running),
        );
    let done = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&done);
    let ran = tokio::spawn(runs.for_each(move |run| {
        log.lock()
            .unwrap()
            .push(run.map(|(object, _)| object.name).unwrap());
        core::future::ready(())
    }));
    let take = || {
        let mut names = core::mem::take(&mut *done.lock().unwrap());
        names.sort();
        names
    };
    sleep(Duration::from_secs(15)).await;
    assert_eq!(take(), [""; 0], "the store is not ready");
    sleep(Duration::from_secs(15)).await;
    assert_eq!(take(), ["a", "b", "c", "d"]);
    every.send(()).unwrap();
    sleep(Duration::from_secs(10)).await;
    assert_eq!(take(), ["a", "b", "c", "d"]);
    assert_eq!(*running.lock().unwrap(), (0, 2));
    every.send(()).unwrap();
    settle().await;
    stop.send(()).unwrap();
    timeout(Duration::from_secs(5), ran).await.unwrap().unwrap();
    assert_eq!(take().len(), 2, "those that had begun");
    mock.with(FakeServer::cut_watches);
    let mark = mock.log().mark();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(mock.log().since(mark).count(), 0);
}
