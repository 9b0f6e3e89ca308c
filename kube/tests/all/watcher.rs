//! The watcher: kube's events and adapters on the engine of this workspace. The defects are those of kube-rs 5.0.

use core::pin::pin;
use core::time::Duration;

use futures_util::{Stream, StreamExt as _};
use informer_kube::runtime::watcher::{Config, Error, Event, Result};
use informer_mock::{
    Config as ServerConfig, FakeServer, Fault, Gone, Mock, ScriptedServer, TokioClock, Verb, json,
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind, PartialObjectMeta};
use kube::runtime::{WatchStreamExt as _, reflector};
use kube::{Api, ResourceExt};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::server::{Server, client, server};
use crate::support::gaps;

pub(crate) fn pod(name: &str) -> Value {
    json!({ "metadata": { "name": name, "namespace": "prod" },
            "spec": { "containers": [{ "name": "main" }] } })
}

pub(crate) fn pods(mock: &Server) -> Api<Pod> {
    Api::all(client(mock))
}

fn shown<K: ResourceExt>(event: &Result<Event<K>>) -> String {
    match event {
        Ok(Event::Init) => "init".to_owned(),
        Ok(Event::InitApply(object)) => format!("++{}", object.name_any()),
        Ok(Event::InitDone) => "done".to_owned(),
        Ok(Event::Apply(object)) => format!("+{}", object.name_any()),
        Ok(Event::Delete(object)) => format!("-{}", object.name_any()),
        Err(error) => format!("! {error}"),
    }
}

pub(crate) async fn next<K: ResourceExt>(
    events: &mut (impl Stream<Item = Result<Event<K>>> + Unpin),
    count: usize,
) -> Vec<String> {
    let limit = Duration::from_secs(600);
    let mut seen = Vec::new();
    for _ in 0..count {
        let event = timeout(limit, events.next()).await;
        seen.push(shown(
            &event.expect("there are more").expect("it does not end"),
        ));
    }
    seen
}

/// Reads for a time, and returns the events.
pub(crate) async fn during<K: ResourceExt>(
    time: Duration,
    events: &mut (impl Stream<Item = Result<Event<K>>> + Unpin),
) -> Vec<String> {
    let mut seen = Vec::new();
    let end = tokio::time::Instant::now() + time;
    while let Ok(event) = tokio::time::timeout_at(end, events.next()).await {
        seen.push(shown(&event.expect("it does not end")));
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn the_events_are_those_of_kube() {
    for config in [Config::default(), Config::default().streaming_lists()] {
        let mock = server();
        mock.create("pods", pod("a")).unwrap();
        let mut events = pin!(informer_kube::runtime::watcher(pods(&mock), config));
        sleep(Duration::from_secs(5)).await;
        assert_eq!(
            mock.log().iter().count(),
            0,
            "nothing is requested before the first poll"
        );
        assert_eq!(next(&mut events, 3).await, ["init", "++a", "done"]);
        mock.create("pods", pod("b")).unwrap();
        let mut changed = pod("a");
        changed["metadata"]["labels"] = json!({ "app": "web" });
        mock.update("pods", changed).unwrap();
        mock.delete("pods", "prod", "b").unwrap();
        assert_eq!(
            during(Duration::from_secs(60), &mut events).await,
            ["+b", "+a", "-b"]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_selectors_and_pages_are_requested() {
    let mock = server();
    for name in ["a", "b", "c"] {
        let mut pod = pod(name);
        pod["metadata"]["labels"] = json!({ "app": name });
        mock.create("pods", pod).unwrap();
    }
    let api = Api::<Pod>::namespaced(client(&mock), "prod");
    let config = Config::default()
        .labels("app!=b")
        .fields("metadata.name!=x")
        .page_size(1)
        .timeout(30);
    let mut events = pin!(informer_kube::runtime::watcher(api, config));
    assert_eq!(next(&mut events, 4).await, ["init", "++a", "++c", "done"]);
    sleep(Duration::from_secs(1)).await;
    let log = mock.log();
    assert!(
        log.iter()
            .all(|request| request.path == "/api/v1/namespaces/prod/pods")
    );
    assert!(
        log.iter()
            .all(|request| request.query.get("labelSelector") == Some("app!=b"))
    );
    assert!(
        log.iter()
            .all(|request| request.query.get("fieldSelector") == Some("metadata.name!=x"))
    );
    assert_eq!(log.lists().count(), 2);
    let watch = log
        .iter()
        .find(|request| request.verb == Verb::Watch)
        .unwrap();
    assert_eq!(watch.query.get("timeoutSeconds"), Some("30"));
}

#[tokio::test(start_paused = true)]
async fn metadata_and_dynamic_objects_are_watched() {
    let mock = server();
    mock.create("pods", pod("a")).unwrap();
    let accepts_metadata = |mock: &Server| {
        let log = mock.log();
        log.iter()
            .all(|request| request.accept.contains("as=PartialObjectMetadata"))
    };
    let mut events = pin!(informer_kube::runtime::metadata_watcher(
        pods(&mock),
        Config::default()
    ));
    assert_eq!(next(&mut events, 3).await, ["init", "++a", "done"]);
    assert!(accepts_metadata(&mock));
    let api = Api::<PartialObjectMeta<Pod>>::all(client(&mock));
    let mut events = pin!(informer_kube::runtime::watcher(api, Config::default()));
    assert_eq!(next(&mut events, 3).await, ["init", "++a", "done"]);
    assert!(accepts_metadata(&mock));

    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"));
    let api = Api::<DynamicObject>::all_with(client(&mock), &resource);
    let mut events = pin!(informer_kube::runtime::watcher(api, Config::default()));
    assert_eq!(next(&mut events, 3).await, ["init", "++a", "done"]);
}

#[tokio::test(start_paused = true)]
async fn the_adapters_of_kube_apply() {
    let mock = server();
    mock.create("pods", pod("a")).unwrap();
    let (store, writer) = reflector::store::<Pod>();
    let stream = informer_kube::runtime::watcher(pods(&mock), Config::default())
        .default_backoff()
        .modify(|pod| pod.managed_fields_mut().clear())
        .reflect(writer)
        .applied_objects();
    let mut stream = pin!(stream);
    assert_eq!(stream.next().await.unwrap().unwrap().name_any(), "a");
    mock.create("pods", pod("b")).unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap().name_any(), "b");
    assert_eq!(store.state().len(), 2);
}

/// Defect 1: a watch that is answered with 410 is repeated at the same version for ever.
#[tokio::test(start_paused = true)]
async fn k1_http_410_on_a_watch_leads_to_a_list() {
    let mut config = ServerConfig::default();
    config.gone = Gone::Http;
    let mock = Mock::with_clock(FakeServer::with_config(1, config), TokioClock::new());
    mock.create("pods", pod("a")).unwrap();
    let mut events = pin!(informer_kube::runtime::watcher(
        pods(&mock),
        Config::default()
    ));
    assert_eq!(next(&mut events, 3).await, ["init", "++a", "done"]);
    during(Duration::from_secs(5), &mut events).await;
    let mark = mock.log().mark();
    mock.with(|server| {
        server.cut_watches();
        server.create("pods", pod("b")).unwrap();
        server.forget_events(server.version());
    });
    let events = during(Duration::from_secs(60), &mut events).await;
    assert_eq!(events.last().unwrap(), "done");
    assert!(
        events.ends_with(&["init", "++a", "++b", "done"].map(String::from)),
        "{events:?}"
    );
    assert_eq!(mock.log().since(mark).next().unwrap().status, Some(410));
    assert!(mock.log().since(mark).count() <= 3);
}

/// Defect 2: a watch that ends at once is reopened without a delay.
#[tokio::test(start_paused = true)]
async fn k2_watches_that_end_at_once_are_no_hot_loop() {
    let list = json!({ "body": { "kind": "PodList", "metadata": { "resourceVersion": "10" }, "items": [] } });
    let script = json!({ "lists": [list], "watches": [{ "frames": [] }] });
    let script = ScriptedServer::from_json(&script.to_string()).unwrap();
    let mock = Mock::with_clock(script, TokioClock::new());
    let api = Api::<Pod>::all(client(&mock));
    let mut events = pin!(informer_kube::runtime::watcher(api, Config::default()));
    let seen = during(Duration::from_secs(3600), &mut events).await;
    let requests = mock.log().iter().count();
    assert!(
        (60..=260).contains(&requests),
        "{requests} requests in an hour"
    );
    assert!(
        seen.iter().any(|event| event.starts_with('!')),
        "it is reported"
    );
}

/// Defect 3: the delays between failing lists do not grow, since each attempt yields an event.
#[tokio::test(start_paused = true)]
async fn k3_the_delays_between_lists_that_fail_grow() {
    for fault in [Fault::status(500, ""), Fault::refuse()] {
        let mock = server();
        mock.with(|server| server.inject(fault.always()));
        let mut events =
            pin!(informer_kube::runtime::watcher(pods(&mock), Config::default()).default_backoff());
        let seen = during(Duration::from_secs(300), &mut events).await;
        let gaps = gaps(&mock.log());
        assert!(gaps.len() >= 5 && gaps.len() < 20, "{gaps:?}");
        assert!(gaps[4] > 10.0, "{gaps:?}");
        assert!(
            seen.iter()
                .all(|event| event.starts_with("! failed to perform initial object list")),
            "{seen:?}"
        );
    }
}

/// Defect 7: one object that cannot be decoded makes the list fail for ever, and is dropped from a watch with an
/// unrelated error.
#[tokio::test(start_paused = true)]
async fn k7_an_object_that_cannot_be_decoded_costs_no_other() {
    let mock = server();
    let bad = |name: &str| json!({ "metadata": { "name": name, "namespace": "prod" }, "spec": 7 });
    mock.create("pods", pod("a")).unwrap();
    mock.create("pods", bad("bad")).unwrap();
    mock.create("pods", pod("c")).unwrap();
    let mut events = pin!(informer_kube::runtime::watcher(
        pods(&mock),
        Config::default()
    ));
    let seen = next(&mut events, 5).await;
    assert_eq!(seen[..3], ["init", "++a", "++c"]);
    assert!(seen[3].contains("prod/bad cannot be decoded"), "{seen:?}");
    assert_eq!(seen[4], "done");
    mock.update("pods", bad("a")).unwrap();
    mock.create("pods", pod("d")).unwrap();
    let seen = next(&mut events, 2).await;
    assert!(seen[0].contains("prod/a cannot be decoded"), "{seen:?}");
    assert_eq!(seen[1], "+d");
    during(Duration::from_secs(60), &mut events).await;
    assert_eq!(mock.log().lists().count(), 1);

    // A list that begins anew names it once.
    mock.with(|server| server.inject(Fault::expired().on(Verb::List).skip(3)));
    let config = Config::default().page_size(1);
    let mut events = pin!(informer_kube::runtime::watcher(pods(&mock), config));
    let seen = during(Duration::from_secs(60), &mut events).await;
    assert_eq!(seen.iter().filter(|event| *event == "init").count(), 2);
    assert_eq!(seen.concat().matches("prod/bad").count(), 1, "{seen:?}");
}

/// Defect 8: `any_semantic` has no effect at the default page size.
#[tokio::test(start_paused = true)]
async fn k8_a_list_at_any_version_is_requested_as_such() {
    for (config, expected) in [
        (Config::default().any_semantic(), Some("0")),
        (Config::default().any_semantic().page_size(10), Some("0")),
        (Config::default(), None),
    ] {
        let mock = server();
        mock.create("pods", pod("a")).unwrap();
        let mut events = pin!(informer_kube::runtime::watcher(pods(&mock), config));
        assert_eq!(next(&mut events, 3).await, ["init", "++a", "done"]);
        let log = mock.log();
        assert_eq!(log.iter().next().unwrap().resource_version(), expected);
    }
}

/// A reader that stops reading stops the watch, not the memory of the program.
#[tokio::test(start_paused = true)]
async fn a_slow_reader_holds_the_server_back_and_misses_nothing() {
    let mock = server();
    let mut events = pin!(informer_kube::runtime::watcher(
        pods(&mock),
        Config::default()
    ));
    assert_eq!(next(&mut events, 2).await, ["init", "done"]);
    for number in 0..1000 {
        mock.create("pods", pod(&format!("p{number}"))).unwrap();
    }
    sleep(Duration::from_secs(240)).await;
    let seen = next(&mut events, 1000).await;
    let expected: Vec<_> = (0..1000).map(|number| format!("+p{number}")).collect();
    assert!(
        seen == expected,
        "{:?}",
        seen.iter()
            .zip(expected)
            .find(|(seen, expected)| *seen != expected)
    );
}

/// kube's errors are matched by their variant.
#[tokio::test(start_paused = true)]
async fn a_rejection_is_the_error_that_kube_would_give() {
    let mock = server();
    mock.with(|server| server.inject(Fault::status(403, "").always()));
    let mut events = pin!(informer_kube::runtime::watcher(
        pods(&mock),
        Config::default()
    ));
    match events.next().await.unwrap() {
        Err(Error::InitialListFailed(kube::Error::Api(status))) => {
            assert!(status.is_forbidden(), "{status:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_stream_ends_its_requests() {
    let mock = server();
    {
        let mut events = pin!(informer_kube::runtime::watcher(
            pods(&mock),
            Config::default()
        ));
        assert_eq!(next(&mut events, 2).await, ["init", "done"]);
    }
    sleep(Duration::from_secs(1)).await;
    let requests = mock.log().iter().count();
    mock.with(|server| server.cut_watches());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(mock.log().iter().count(), requests);
}

/// The engine expects to be told to wait and to list again. kube passes these answers on, and so does this watcher.
#[tokio::test(start_paused = true)]
async fn answers_that_are_expected_are_still_errors() {
    let mock = server();
    mock.create("pods", pod("a")).unwrap();
    mock.with(|server| server.inject(Fault::overloaded(Some(60)).on(Verb::List).always()));
    let mut events = pin!(informer_kube::runtime::watcher(
        pods(&mock),
        Config::default()
    ));
    let seen = during(Duration::from_secs(3600), &mut events).await;
    let refused = seen.iter().filter(|event| event.contains("429")).count();
    assert!((20..200).contains(&refused), "{seen:?}");
    mock.with(FakeServer::clear_faults);
    let seen = next(&mut events, 3).await;
    assert_eq!(seen, ["init", "++a", "done"]);

    // As events of a watch.
    for (code, reason) in [(410, "Expired"), (429, "TooManyRequests")] {
        let status = json!({ "kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": "no" });
        let event = format!("{}\n", json!({ "type": "ERROR", "object": status }));
        mock.with(|server| {
            server.inject(Fault::nothing().inject_before(0, &event).on(Verb::Watch));
            server.cut_watches();
        });
        mock.put("pods", pod("a")).unwrap();
        let seen = during(Duration::from_secs(120), &mut events).await;
        let error = format!("! error returned by apiserver during watch: no: {reason}");
        let errors = seen.iter().filter(|event| **event == error);
        assert_eq!(errors.count(), 1, "{seen:?}");
        assert_eq!(seen.contains(&"init".to_owned()), code == 410, "{seen:?}");
    }
}

/// The Status of the server, with everything that it contains.
#[tokio::test(start_paused = true)]
async fn an_error_has_the_status_of_the_server() {
    let details = json!({ "kind": "pods", "retryAfterSeconds": 7, "causes": [{ "reason": "R", "message": "m", "field": "f" }] });
    let status = |code: u16, reason: &str| {
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "no", "reason": reason, "details": details.clone(), "code": code,
        })
    };
    for (code, reason) in [
        (405, "MethodNotAllowed"),
        (406, "NotAcceptable"),
        (409, "Conflict"),
        (415, "UnsupportedMediaType"),
        (500, "ServerTimeout"),
    ] {
        let mock = server();
        let body = status(code, reason);
        mock.with(|server| server.inject(Fault::status(code, &body.to_string()).always()));
        let mut events = pin!(informer_kube::runtime::watcher(
            pods(&mock),
            Config::default()
        ));
        let error = loop {
            let event = timeout(Duration::from_secs(60), events.next()).await;
            if let Err(error) = event.unwrap().unwrap() {
                break error;
            }
        };
        let Error::InitialListFailed(kube::Error::Api(shown)) = error else {
            panic!("{code}: {error:?}");
        };
        assert_eq!(*shown, serde_json::from_value(body).unwrap());
    }
    // What is no Status is its message, as with a client.
    let mock = server();
    mock.with(|server| server.inject(Fault::status(502, " <html>bad gateway</html>\n").always()));
    let mut events = pin!(informer_kube::runtime::watcher(
        pods(&mock),
        Config::default()
    ));
    let shown = loop {
        match events.next().await.unwrap() {
            Err(Error::InitialListFailed(kube::Error::Api(status))) => break status,
            other => assert!(other.is_ok(), "{other:?}"),
        }
    };
    assert_eq!(
        (shown.code, &*shown.message, &*shown.reason),
        (
            502,
            "<html>bad gateway</html>",
            "Failed to parse error data"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn one_object_is_watched_by_its_name() {
    let mock = server();
    let watched = informer_kube::runtime::watcher::watch_object(pods(&mock), "a");
    let name = |object: Result<Option<Pod>>| Some(object.ok()?.map(|pod| pod.name_any()));
    let mut watched = pin!(watched.filter_map(|object| core::future::ready(name(object))));
    assert_eq!(watched.next().await, Some(None), "it does not exist");
    mock.create("pods", pod("b")).unwrap();
    mock.create("pods", pod("a")).unwrap();
    assert_eq!(watched.next().await, Some(Some("a".to_owned())));
    // It goes while nobody watches.
    mock.with(|server| {
        server.inject(Fault::expired().on(Verb::Watch));
        server.cut_watches();
    });
    mock.delete("pods", "prod", "a").unwrap();
    let gone = watched.filter_map(|object| core::future::ready(object.is_none().then_some(())));
    let gone = timeout(Duration::from_secs(60), pin!(gone).next()).await;
    assert_eq!(gone.unwrap(), Some(()));
}

/// Zero lets the server decide, and a watch that ends when it was asked to has not ended too early.
#[tokio::test(start_paused = true)]
async fn a_short_timeout_is_no_fault() {
    for (timeout, watches) in [(0, 1..=1), (2, 250..=310)] {
        let mock = server();
        let config = Config::default().timeout(timeout);
        let mut events = pin!(informer_kube::runtime::watcher(pods(&mock), config));
        assert_eq!(next(&mut events, 2).await, ["init", "done"]);
        let seen = during(Duration::from_secs(600), &mut events).await;
        assert_eq!(seen, [""; 0]);
        let count = mock.log().watches().count();
        assert!(watches.contains(&count), "{timeout}: {count}");
        mock.create("pods", pod("a")).unwrap();
        let seen = during(Duration::from_secs(1), &mut events).await;
        assert_eq!(seen, ["+a"], "{timeout}");
    }
}
