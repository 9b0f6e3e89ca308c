//! The informer on tokio against the fake API server, on paused time.

use core::time::Duration;

use informer_core::{Decoder, Form};
use informer_mock::{FakeServer, Fault, json};
use informer_tokio::handler::HandlerOptions;
use informer_tokio::informer::{HasSynced, IndexError, wait_for_sync};
use informer_tokio::selector::LabelSelector;
use informer_tokio::{Handlers, Informer, Json, Meta, Raw, Subscription};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::support::{PATIENCE, PODS, Pod, Recorder, Server, named, names, node, server, settle};

fn pod(name: &str, node: &str) -> serde_json::Value {
    json!({
        "metadata": { "name": name, "namespace": "prod", "labels": { "app": name, "tier": "front" } },
        "spec": { "nodeName": node },
    })
}

fn start(mock: &Server) -> (Informer<Raw>, JoinHandle<()>) {
    let (informer, driver) = Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .seed(1)
        .index_with("node", node)
        .build();
    (informer, tokio::spawn(driver.run()))
}

async fn next<F: Form>(events: &mut Subscription<F>, count: usize) -> Vec<String> {
    let mut seen = Vec::new();
    for _ in 0..count {
        let event = timeout(PATIENCE, events.recv()).await.unwrap();
        seen.push(event.as_ref().map_or_else(|| "end".to_owned(), named));
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn a_subscription_starts_with_the_present_state_and_follows() {
    let mock = server();
    mock.create("pods", pod("a", "n1")).unwrap();
    let (pods, _driver) = start(&mock);
    let mut events = pods.subscribe();
    assert_eq!(next(&mut events, 2).await, ["++a", "synced"]);
    mock.create("pods", pod("b", "n2")).unwrap();
    mock.update("pods", pod("a", "n2")).unwrap();
    mock.delete("pods", "prod", "b").unwrap();
    assert_eq!(next(&mut events, 3).await, ["+b", "~a", "-b"]);

    let mut late = pods.subscribe();
    assert_eq!(next(&mut late, 2).await, ["++a", "synced"]);
    drop(late);
    assert_eq!(pods.health().handlers.len(), 1, "it has left");
}

#[tokio::test(start_paused = true)]
async fn i09_i10_x16_a_lister_gets_lists_and_selects() {
    let mock = server();
    for (name, node) in [("a", "n1"), ("b", "n1"), ("c", "n2")] {
        mock.create("pods", pod(name, node)).unwrap();
    }
    let (pods, _driver) = start(&mock);
    pods.synced().await.unwrap();
    let lister = pods.lister();
    assert_eq!(names(&lister.list()), "a,b,c");
    assert_eq!(names(&lister.list_in("prod")), "a,b,c");
    assert_eq!(names(&lister.list_in("other")), "");
    assert_eq!(names(&lister.by_index("node", "n1").unwrap()), "a,b");
    assert_eq!(names(&lister.by_index("node", "n9").unwrap()), "");
    let of = |values: &[(&str, &str)]| Some(names(&lister.by_indexes(values).ok()?));
    for (values, found) in [
        (&[("node", "n1"), ("namespace", "prod")][..], Some("a,b")),
        (&[("namespace", "prod"), ("node", "n2")], Some("c")),
        (&[("node", "n1"), ("node", "n2")], Some("")),
        (&[("node", "n1"), ("namespace", "test")], Some("")),
        (&[("node", "n1"), ("zone", "z")], None),
        (&[], Some("a,b,c")),
    ] {
        assert_eq!(of(values).as_deref(), found, "{values:?}");
    }
    assert_eq!(
        lister.by_index("zone", "z").err(),
        Some(IndexError::Unknown)
    );
    assert_eq!(
        names(&lister.select(&LabelSelector::parse("app in (a,c)").unwrap())),
        "a,c"
    );
    assert_eq!(
        names(&lister.select_in("prod", &LabelSelector::parse("app!=a").unwrap())),
        "b,c"
    );
    assert_eq!(names(&lister.select(&LabelSelector::nothing())), "");
    let a = lister.get("prod", "a").unwrap();
    assert_eq!(
        (a.namespace(), a.name(), a.label("app").as_deref()),
        ("prod", "a", Some("a"))
    );
    assert_eq!(a.string_at(&["spec", "nodeName"]).as_deref(), Some("n1"));
    assert!(lister.get("prod", "z").is_none());
    assert!(matches!(lister.try_get("prod", "a"), Ok(Some(_))));
    assert!(matches!(lister.try_get("prod", "z"), Ok(None)));

    pods.add_index("name", |pod, value| {
        value(
            &pod.at(&["metadata", "name"])
                .and_then(informer_core::json::as_str)
                .unwrap_or_default()
                .to_string(),
        );
    })
    .await
    .unwrap();
    assert_eq!(names(&lister.by_index("name", "c").unwrap()), "c");
    mock.create("pods", pod("d", "n2")).unwrap();
    settle().await;
    assert_eq!(names(&lister.by_index("name", "d").unwrap()), "d");
    assert_eq!(
        pods.add_index("name", |_, _| {}).await.err(),
        Some(IndexError::Exists)
    );
}

#[tokio::test(start_paused = true)]
async fn typed_and_metadata_forms_have_the_same_api() {
    let mock = server();
    mock.create("pods", pod("a", "n1")).unwrap();
    let pods = Informer::<Pod>::builder(&mock.transport())
        .index("node", |p| [p.spec.node_name.clone()])
        .spawn();
    pods.synced().await.unwrap();
    let found = pods.lister().by_index("node", "n1").unwrap();
    assert_eq!(found[0].get().spec.node_name, "n1");
    assert_eq!(found[0].label("tier").as_deref(), Some("front"));

    let pods = Informer::<Meta>::builder_for(&mock.transport(), PODS).spawn();
    pods.synced().await.unwrap();
    let a = pods.lister().get("prod", "a").unwrap();
    assert_eq!(a.value().label("app").unwrap().to_string(), "a");

    let pods = Informer::<Pod>::builder_with(
        mock.transport(),
        PODS,
        Decoder::<Json<Pod>>::new().without_labels(),
    )
    .spawn();
    pods.synced().await.unwrap();
    assert_eq!(pods.lister().get("prod", "a").unwrap().label("app"), None);
}

#[tokio::test(start_paused = true)]
async fn c03_a_panic_in_a_handler_is_reported_and_stays_in_it() {
    let mock = server();
    mock.create("pods", pod("a", "n1")).unwrap();
    let reports = Recorder::default();
    let reported = reports.clone();
    let (pods, driver) = Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .on_report(move |report| reported.note(report.to_string()))
        .build();
    tokio::spawn(driver.run());
    let bad = pods.add_handler_with(
        &HandlerOptions::default().name("bad"),
        Handlers::new().on_add(|pod, _| panic!("no place for {pod}")),
    );
    let good = Recorder::default();
    pods.add_handler(good.clone());
    bad.synced().await.unwrap();
    mock.create("pods", pod("b", "n1")).unwrap();
    settle().await;
    assert_eq!(good.take(), ["++a", "+b"]);
    assert_eq!(
        reports.take(),
        [
            "handler: handler bad panicked: no place for prod/a",
            "handler: handler bad panicked: no place for prod/b"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn x16_an_index_function_that_panics_costs_only_its_value() {
    let mock = server();
    mock.create("pods", pod("a", "n1")).unwrap();
    mock.create("pods", pod("b", "n1")).unwrap();
    let (pods, driver) = Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .index_with("odd", |pod, value| {
            assert!(
                !pod.bytes().windows(3).any(|w| w == b"\"a\""),
                "not this one"
            );
            value("ok");
        })
        .build();
    tokio::spawn(driver.run());
    pods.synced().await.unwrap();
    assert_eq!(pods.lister().len(), 2);
    assert_eq!(pods.lister().by_index("odd", "ok").unwrap().len(), 1);
    assert_eq!(pods.health().last_error.unwrap().class, "index-panicked");
}

#[tokio::test(start_paused = true)]
async fn x08_a_stop_delivers_what_is_pending_and_ends_everything() {
    let mock = server();
    for i in 0..500 {
        mock.create("pods", pod(&format!("p{i}"), "n1")).unwrap();
    }
    let (pods, driver) = start(&mock);
    let handler = Recorder::default();
    let handle = pods.add_handler(handler.clone());
    let mut events = pods.subscribe();
    pods.synced().await.unwrap();
    pods.stop();
    driver.await.unwrap();
    pods.ended().await;
    handle.removed().await;
    assert_eq!(handler.take().len(), 500);
    let mut count = 0;
    while events.recv().await.is_some() {
        count += 1;
    }
    assert_eq!(count, 501);
    assert_eq!(pods.lister().len(), 500, "the cache can still be read");
    let mut late = next(&mut pods.subscribe(), 502).await;
    assert_eq!(late.split_off(500), ["synced", "end"]);
    assert!(late.contains(&"++p7".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_sync_fails_with_the_reason_at_the_end() {
    let mock = server();
    mock.with(|server| {
        server.inject(
            Fault::api_status(403, "Forbidden", "User \"x\" cannot list resource \"pods\"")
                .always(),
        );
    });
    let pods = Informer::<Raw>::builder_for(&mock.transport(), PODS);
    let (pods, driver) = pods.namespaces(["edge", "prod"]).build();
    let driver = tokio::spawn(driver.run());
    let error = pods
        .synced_within(Duration::from_secs(30))
        .await
        .unwrap_err()
        .to_string();
    for namespace in ["edge: ", "prod: "] {
        let reason = error.split_once(namespace).unwrap().1;
        assert!(reason.contains("cannot list resource"), "{error}");
    }
    for (namespace, why) in [
        (
            "edge",
            "pods.v1 has had no list that could have edge/a: wait until it is synced",
        ),
        (
            "test",
            "pods.v1 does not watch the namespace of test/a: add it to its namespaces or parts",
        ),
    ] {
        let read = pods.lister().try_get(namespace, "a");
        assert_eq!(read.unwrap_err().to_string(), why);
    }
    driver.abort();
    let _ = driver.await;
    assert!(pods.synced().await.is_err());
    assert_eq!(next(&mut pods.subscribe(), 1).await, ["end"]);

    // A wait reports the end of one informer, although the other is synced later.
    let (ending, unused) = Informer::<Raw>::builder_for(&mock.transport(), PODS).build();
    let (pods, _driver) = start(&mock);
    mock.with(FakeServer::clear_faults);
    drop(unused);
    let limit = Duration::from_secs(3600);
    let waited = wait_for_sync(limit, [&pods as &dyn HasSynced, &ending as _]).await;
    let error = waited.unwrap_err();
    assert!(error.waited < Duration::from_secs(600), "{error}");
    assert_eq!(error.missing.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn wait_until_returns_when_the_cache_has_a_write() {
    let mock = server();
    mock.create("pods", pod("a", "n1")).unwrap();
    let (pods, driver) = start(&mock);
    pods.synced().await.unwrap();
    let written = mock.create("pods", pod("b", "n1")).unwrap();
    pods.wait_until(&written.to_string()).await.unwrap();
    assert!(pods.lister().get("prod", "b").is_some());
    assert_eq!(pods.resource_version(), written.to_string());
    pods.wait_until("1").await.unwrap();

    let (waits, ()) = tokio::join!(pods.wait_until("999999"), async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        driver.abort();
    });
    assert!(
        waits.is_err(),
        "a driver that has ended reaches nothing more"
    );
}

#[tokio::test]
async fn the_driver_can_be_spawned_on_many_threads() {
    fn is_send<T: Send + 'static>(future: T) -> T {
        future
    }
    let mock = server();
    let (pods, driver) = Informer::<Raw>::builder_for(&mock.transport(), PODS).build();
    drop(is_send(driver.run()));
    assert!(
        pods.synced().await.is_err(),
        "a driver that is dropped has ended"
    );
}

/// While a long list is read that is available at once, other tasks on the same thread are polled.
#[tokio::test(start_paused = true)]
async fn a_long_list_leaves_turns_to_others() {
    let mock = server();
    mock.with(|server| {
        for number in 0..2_000 {
            server
                .create("pods", pod(&format!("p{number}"), "n1"))
                .unwrap();
        }
    });
    let (pods, _driver) = start(&mock);
    let mut seen = Vec::new();
    while !pods.is_synced() {
        tokio::task::yield_now().await;
        let count = pods.lister().len();
        if seen.last() != Some(&count) {
            seen.push(count);
        }
    }
    assert!(seen.len() > 10, "{seen:?}");
}

/// Each namespace has selectors of its own, and so have all others together.
#[tokio::test(start_paused = true)]
async fn parts_have_selectors_of_their_own() {
    let mock = server();
    let pod = |namespace: &str, name: &str, app: &str| {
        let labels = json!({ "app": app, "tier": "front" });
        json!({ "metadata": { "name": name, "namespace": namespace, "labels": labels } })
    };
    for namespace in ["prod", "test", "edge", "lab"] {
        for app in ["web", "db"] {
            mock.create("pods", pod(namespace, app, app)).unwrap();
        }
    }
    let pods = Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .parts(|pods| {
            vec![
                pods.namespace("prod"),
                pods.namespace("test").labels("app=db"),
                pods.labels("app=web"),
            ]
        })
        .labels("tier=front")
        .seed(1)
        .spawn();
    pods.synced().await.unwrap();
    let keys = || {
        let mut keys: Vec<String> = pods
            .lister()
            .list()
            .iter()
            .map(ToString::to_string)
            .collect();
        keys.sort();
        keys.join(" ")
    };
    assert_eq!(keys(), "edge/web lab/web prod/db prod/web test/db");
    // An object of a namespace with a part of its own is none of the others.
    let mut events = pods.subscribe();
    next(&mut events, 6).await;
    for namespace in ["test", "edge"] {
        let name = format!("new-{namespace}");
        mock.create("pods", pod(namespace, &name, "web")).unwrap();
    }
    assert_eq!(next(&mut events, 1).await, ["+new-edge"]);
    mock.update("pods", pod("edge", "new-edge", "db")).unwrap();
    assert_eq!(next(&mut events, 1).await, ["-new-edge"]);
    let written = mock.update("pods", pod("test", "db", "web")).unwrap();
    assert_eq!(next(&mut events, 1).await, ["-db"]);
    let written = written.to_string();
    let gone = pods.wait_for_write("test/db", written.as_str());
    timeout(PATIENCE, gone).await.unwrap().unwrap();
    assert!(matches!(pods.lister().try_get("lab", "db"), Ok(None)));
}
