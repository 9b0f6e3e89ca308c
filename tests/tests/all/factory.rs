//! The factory: informers that are shared and counted, run by one driver, and awaited and stopped together.

use core::convert::Infallible;
use std::sync::{Arc, Mutex};

use informer_core::{Decoder, Form, Json, RawObject};
use informer_mock::{FakeServer, Fault, Verb, json};
use informer_tests::support::{self, Server, secs, settle, shown};
use informer_tokio::factory::{Factory, FactoryDriver};
use informer_tokio::health::State;
use informer_tokio::informer::Ended;
use informer_tokio::{Handlers, Informer, Raw, Resource, boxed, kind};
use serde::Deserialize;
use tokio::time::{sleep, timeout};

#[derive(Deserialize)]
struct Pod {}
kind!(Pod, "v1", "pods");

#[derive(Deserialize)]
struct Node {}
kind!(Node, "v1", "nodes");

fn server() -> Server {
    let mock = support::server();
    for (namespace, name) in [
        ("prod", "a"),
        ("prod", "b"),
        ("staging", "c"),
        ("other", "d"),
    ] {
        mock.create("pods", pod(namespace, name)).unwrap();
    }
    mock
}

fn pod(namespace: &str, name: &str) -> serde_json::Value {
    json!({
        "metadata": { "name": name, "namespace": namespace, "labels": { "app": name } },
        "spec": { "containers": [] },
    })
}

fn factory(mock: &Server) -> (Factory, FactoryDriver) {
    Factory::builder(boxed!(mock.transport())).build()
}

fn start(mock: &Server) -> Factory {
    let (factory, driver) = factory(mock);
    tokio::spawn(driver.run());
    factory
}

/// The number of first requests: each informer sends one per source.
fn begun(mock: &Server) -> usize {
    let log = mock.log();
    log.lists().chain(log.streams()).count()
}

fn names<F: Form>(informer: &Informer<F>) -> String {
    support::names(&informer.lister().list())
}

#[tokio::test(start_paused = true)]
async fn equal_requests_return_the_same_informer() {
    let mock = server();
    let factory = start(&mock);
    let one = factory.informer::<Pod>();
    let two = factory.informer::<Pod>();
    factory.synced().await.unwrap();
    assert_eq!(
        (names(&one), names(&two)),
        ("a,b,c,d".into(), "a,b,c,d".into())
    );
    assert_eq!(begun(&mock), 1);
    // The order and repetition of namespaces do not matter.
    let these = factory.of::<Pod>().namespaces(["staging", "prod"]).get();
    let those = factory
        .of::<Pod>()
        .namespaces(["prod", "staging", "prod"])
        .get();
    factory.synced().await.unwrap();
    assert_eq!(
        (names(&these), names(&those)),
        ("a,b,c".into(), "a,b,c".into())
    );
    assert_eq!(begun(&mock), 3);
    assert_eq!(factory.health().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn another_form_namespace_or_selector_is_another_informer() {
    let mock = server();
    let factory = start(&mock);
    let _all = factory.informer::<Pod>();
    let prod = factory.of::<Pod>().namespace("prod").get();
    let app = factory.of::<Pod>().labels("app=a").get();
    let named = factory.of::<Pod>().fields("metadata.name=d").get();
    let raw = factory.raw("pods").unwrap().get();
    let meta = factory.metadata("pods").unwrap().get();
    let _nodes = factory.informer::<Node>();
    factory.synced().await.unwrap();
    assert_eq!(begun(&mock), 7);
    assert_eq!(
        [names(&prod), names(&app), names(&named)],
        ["a,b", "a", "d"]
    );
    assert_eq!(
        (names(&raw), names(&meta)),
        ("a,b,c,d".into(), "a,b,c,d".into())
    );
    let mut called: Vec<_> = factory
        .health()
        .into_iter()
        .map(|health| health.name)
        .collect();
    called.dedup();
    assert_eq!(
        called,
        [
            "nodes.v1",
            "pods.v1",
            "pods.v1 in prod",
            "pods.v1 with fields metadata.name=d",
            "pods.v1 with labels app=a",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_resource_is_watched_once() {
    let mock = server();
    mock.create("nodes", json!({ "metadata": { "name": "n1" } }))
        .unwrap();
    let factory = start(&mock);
    let _all = factory.informer::<Node>();
    let of_two = factory.of::<Node>().namespaces(["prod", "staging"]).get();
    let _selected = factory.of::<Node>().namespaces_where("team=web").get();
    factory.synced().await.unwrap();
    assert_eq!((begun(&mock), names(&of_two)), (1, "n1".into()));
    let nodes = Resource::new("", "v1", "nodes");
    let alone = Informer::<Raw>::builder_for(&mock.transport(), nodes);
    let alone = alone.namespaces(["prod", "staging"]).spawn();
    alone.synced().await.unwrap();
    assert_eq!((begun(&mock), names(&alone)), (2, "n1".into()));
}

#[tokio::test(start_paused = true)]
async fn decoders_that_may_differ_share_no_informer() {
    let mock = server();
    let factory = start(&mock);
    let pods = Resource::new("", "v1", "pods");
    let marked = |mark: u8| {
        let decode = move |_: &RawObject<'_>| Ok::<_, Infallible>(Raw::new(&[mark]));
        factory.with::<Raw, _>(pods, decode).get()
    };
    let (ones, twos) = (marked(1), marked(2));
    let unmarked = || {
        let decode = |_: &RawObject<'_>| Ok::<_, Infallible>(Raw::new(&[0]));
        factory.with::<Raw, _>(pods, decode).get()
    };
    let (_zeros, _same) = (unmarked(), unmarked());
    let labeled = |labels: bool| {
        let decode = Decoder::<Json<Pod>>::new();
        let decode = if labels {
            decode
        } else {
            decode.without_labels()
        };
        factory.with::<Pod, _>(pods, decode).get()
    };
    let (with, _without) = (labeled(true), labeled(false));
    factory.synced().await.unwrap();
    assert_eq!(begun(&mock), 5);
    for (informer, mark) in [(&ones, 1), (&twos, 2)] {
        let marks = informer.lister().list();
        assert!(marks.iter().all(|entry| entry.bytes() == [mark]));
    }
    assert_eq!(with.lister().select(&"app=a".parse().unwrap()).len(), 1);
    // The informers without another request end with their users, too.
    drop((ones, twos));
    settle().await;
    assert_eq!(factory.health().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_watch_stops_with_its_last_user() {
    let mock = server();
    let factory = start(&mock);
    let one = factory.informer::<Pod>();
    let two = one.clone();
    let lister = two.lister();
    factory.synced().await.unwrap();

    drop(one);
    settle().await;
    mock.create("pods", pod("prod", "e")).unwrap();
    settle().await;
    assert_eq!((lister.len(), two.health().state), (5, State::Watching));

    drop(two);
    mock.create("pods", pod("prod", "f")).unwrap();
    settle().await;
    assert_eq!(lister.len(), 6, "a lister is a user, too");

    drop(lister);
    assert!(factory.health().is_empty(), "it is forgotten");
    settle().await;
    assert_eq!(mock.with(FakeServer::open_responses), (0, 0));

    // A later request returns a new informer.
    let again = factory.informer::<Pod>();
    again.synced().await.unwrap();
    assert_eq!((again.lister().len(), begun(&mock)), (6, 2));
}

/// Users come and go at random; there is never more than one watch, and none without users.
#[tokio::test(start_paused = true)]
async fn users_come_and_go() {
    let mock = server();
    let factory = start(&mock);
    let mut users = Vec::new();
    let mut rounds = 0;
    for step in 0_usize..500 {
        // A reproducible random walk.
        let dice = step.wrapping_mul(2_654_435_761) >> 7;
        if dice % 5 < 2 || users.is_empty() {
            rounds += usize::from(users.is_empty());
            users.push(factory.informer::<Pod>());
        } else {
            drop(users.swap_remove(dice % users.len()));
        }
        assert_eq!(factory.health().len(), usize::from(!users.is_empty()));
        if dice.is_multiple_of(3) {
            settle().await;
        }
        if let Some(user) = users.last() {
            user.synced_within(secs(60)).await.unwrap();
            assert_eq!(user.lister().len(), 4);
        }
    }
    assert!(
        rounds > 3 && begun(&mock) <= rounds,
        "{rounds} {}",
        begun(&mock)
    );
}

#[tokio::test(start_paused = true)]
async fn requests_before_and_after_the_start_are_served() {
    let mock = server();
    let (factory, driver) = factory(&mock);
    let early = factory.informer::<Pod>();
    let heard = Arc::new(Mutex::new(0));
    let count = Arc::clone(&heard);
    early.add_handler(Handlers::new().on_add(move |_, _| *count.lock().unwrap() += 1));
    settle().await;
    assert_eq!(early.health().state, State::NotStarted);
    tokio::spawn(driver.run());
    early.synced().await.unwrap();
    settle().await;
    assert_eq!(*heard.lock().unwrap(), 4);

    // In client-go an informer requested after the start never syncs, unless the factory is started again.
    let late = factory.informer::<Node>();
    late.synced_within(secs(1)).await.unwrap();
}

/// One cache of two namespaces: one list and watch each, synced when both are, and correct during changes in each.
#[tokio::test(start_paused = true)]
async fn a_list_of_namespaces_is_one_cache_with_one_source_each() {
    let mock = server();
    mock.with(|server| {
        server.inject(
            Fault::delay(secs(5))
                .on_path("/api/v1/namespaces/staging/pods")
                .times(1),
        );
    });
    let factory = start(&mock);
    let pods = factory
        .raw("pods")
        .unwrap()
        .namespaces(["prod", "staging"])
        .get();
    let mut events = pods.subscribe();
    sleep(secs(2)).await;
    assert!(!pods.is_synced());
    let health = pods.health();
    let synced: Vec<_> = health
        .sources
        .iter()
        .map(|source| (source.namespace.as_str(), source.synced))
        .collect();
    assert_eq!(synced, [("prod", true), ("staging", false)]);
    pods.synced().await.unwrap();
    assert_eq!(names(&pods), "a,b,c");
    let mut paths: Vec<_> = mock
        .log()
        .iter()
        .map(|request| request.path.clone())
        .collect();
    paths.sort();
    paths.dedup();
    assert_eq!(
        paths,
        [
            "/api/v1/namespaces/prod/pods",
            "/api/v1/namespaces/staging/pods"
        ]
    );

    // A loss in one source does not affect the other.
    let version = mock.create("pods", pod("staging", "e")).unwrap();
    pods.wait_for_write("staging/e", &version.to_string())
        .await
        .unwrap();
    mock.with(|server| {
        server.compact_all();
        server.inject(
            Fault::expired()
                .on(Verb::Watch)
                .on_path("/api/v1/namespaces/prod/pods"),
        );
    });
    mock.delete("pods", "prod", "a").unwrap();
    sleep(secs(700)).await;
    assert_eq!(names(&pods), "b,c,e");
    let mut heard = Vec::new();
    while events.lag().pending > 0 {
        heard.push(shown(&events.recv().await.unwrap()));
    }
    assert_eq!(heard.iter().filter(|event| *event == "synced").count(), 1);
    assert_eq!(
        heard.iter().filter(|event| event.starts_with('-')).count(),
        1,
        "{heard:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn synced_within_names_each_missing_informer_with_its_reason() {
    let mock = server();
    let forbidden = "pods is forbidden: User \"system:serviceaccount:default:me\" cannot list resource \"pods\"";
    mock.with(|server| {
        server.inject(
            Fault::api_status(403, "Forbidden", forbidden)
                .on_path("/api/v1/namespaces/staging/pods")
                .always(),
        );
    });
    let factory = start(&mock);
    let _pods = factory.of::<Pod>().namespaces(["prod", "staging"]).get();
    let _nodes = factory.informer::<Node>();
    let _widgets = factory.raw("widgets.v1.example.com").unwrap().get();
    let error = factory.synced_within(secs(30)).await.unwrap_err();
    let missing: Vec<_> = error
        .missing
        .iter()
        .map(|missing| missing.name.as_str())
        .collect();
    assert_eq!(
        missing,
        ["pods.v1 in prod,staging", "widgets.v1.example.com"]
    );
    let text = error.to_string();
    for words in [
        "not synced after 30s",
        "staging: list: the server answered 403 (forbidden)",
        "The verb `list` on `pods` in the namespace `staging` is missing",
        "CustomResourceDefinition is installed",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("prod: "), "that one is there: {text}");
    assert_eq!(error.missing[0].troubles[0].missing_verb, Some("list"));
}

#[tokio::test(start_paused = true)]
async fn a_stop_delivers_what_is_pending_and_ends_all() {
    let mock = server();
    let (factory, driver) = factory(&mock);
    let task = tokio::spawn(driver.run());
    let pods = factory.informer::<Pod>();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&heard);
    let slow = informer_tokio::handler::AsyncHandlers::<Pod>::new().on_add(move |pod, _| {
        let note = Arc::clone(&note);
        async move {
            sleep(secs(1)).await;
            note.lock().unwrap().push(pod.name().to_owned());
        }
    });
    pods.add_async_handler(slow);
    factory.synced().await.unwrap();
    factory.shutdown().await;
    assert_eq!(
        heard.lock().unwrap().len(),
        4,
        "what was pending was notified"
    );
    task.await.unwrap();
    assert_eq!(pods.health().state, State::Ended);

    let late = factory.informer::<Node>();
    assert!(matches!(late.synced().await, Err(Ended { .. })));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_driver_ends_all() {
    let mock = server();
    let (factory, driver) = factory(&mock);
    let task = tokio::spawn(driver.run());
    let pods = factory.informer::<Pod>();
    factory.synced().await.unwrap();
    task.abort();
    timeout(secs(10), factory.ended()).await.unwrap();
    timeout(secs(10), pods.ended()).await.unwrap();
    let nodes = factory.informer::<Node>();
    assert!(nodes.synced().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn the_driver_ends_when_nobody_can_ask_any_more() {
    let mock = server();
    let (factory, driver) = factory(&mock);
    let task = tokio::spawn(driver.run());
    let pods = factory.informer::<Pod>();
    drop(factory);
    pods.synced().await.unwrap();
    assert!(!task.is_finished(), "somebody uses it");
    drop(pods);
    timeout(secs(60), task).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn reports_have_the_name_of_their_informer() {
    let mock = server();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&heard);
    let (factory, driver) = Factory::builder(boxed!(mock.transport()))
        .on_report(move |name, report| {
            note.lock()
                .unwrap()
                .push(format!("{name} {}", report.class()));
        })
        .build();
    tokio::spawn(driver.run());
    let _nothing = factory
        .with::<Raw, _>(
            Resource::new("example.com", "v1", "things"),
            Decoder::<Raw>::new(),
        )
        .get();
    settle().await;
    let heard = heard.lock().unwrap();
    assert_eq!(
        heard.last().map(String::as_str),
        Some("things.v1.example.com not-found")
    );
}
