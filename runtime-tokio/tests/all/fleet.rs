//! Informers whose namespaces and clusters join and leave at run time, on paused time.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use informer_mock::{FakeServer, Fault, json};
use informer_tokio::controller::{Controller, Task, WriteLog};
use informer_tokio::factory::Factory;
use informer_tokio::handler::HandlerOptions;
use informer_tokio::informer::ExpectedState;
use informer_tokio::transport::BoxTransport;
use informer_tokio::{Event, Handlers, Key, Raw, Resource, Subscription, boxed};
use tokio::time::{sleep, timeout};

use crate::support::{Server, arrived, keys, server};

fn transport(mock: &Server) -> BoxTransport {
    boxed!(mock.transport())
}

fn pod(mock: &Server, namespace: &str, name: &str) {
    let pod = json!({ "metadata": { "namespace": namespace, "name": name } });
    mock.put("pods", pod).unwrap();
}

fn namespace(mock: &Server, name: &str, team: &str) {
    let labels = json!({ "team": team });
    let namespace = json!({ "metadata": { "name": name, "labels": labels } });
    mock.put("namespaces", namespace).unwrap();
}

/// Returns the events that have arrived.
async fn events(events: &mut Subscription<Raw>) -> Vec<String> {
    let show = |event: Event<Raw>| match event {
        Event::Added { entry, .. } => format!("+{}", entry.key()),
        Event::Deleted { entry, .. } => format!("-{}", entry.key()),
        Event::Synced => "synced".to_owned(),
        other @ (Event::Updated { .. } | Event::Replayed { .. } | _) => format!("{other:?}"),
    };
    let mut shown: Vec<_> = arrived(events).await.into_iter().map(show).collect();
    shown.sort();
    shown
}

async fn settle() {
    sleep(Duration::from_secs(3)).await;
}

#[tokio::test(start_paused = true)]
async fn namespaces_join_and_leave_by_their_labels() {
    let mock = server();
    for (name, team) in [("a", "web"), ("b", "db"), ("c", "web")] {
        namespace(&mock, name, team);
        pod(&mock, name, "p");
    }
    let (factory, driver) = Factory::builder(transport(&mock)).build();
    tokio::spawn(driver.run());
    let request = || factory.raw("pods").unwrap().namespaces_where("team=web");
    let pods = request().get();
    let mut heard = pods.subscribe();
    pods.synced().await.unwrap();
    assert_eq!(keys(&pods), ["a/p", "c/p"]);
    settle().await;
    assert_eq!(events(&mut heard).await, ["+a/p", "+c/p", "synced"]);
    assert_eq!(keys(&request().get()), ["a/p", "c/p"], "it is shared");

    namespace(&mock, "b", "web");
    namespace(&mock, "a", "db");
    settle().await;
    assert_eq!(events(&mut heard).await, ["+b/p", "-a/p"]);
    pod(&mock, "a", "unseen");
    pod(&mock, "b", "q");
    mock.delete("namespaces", "", "c").unwrap();
    settle().await;
    assert_eq!(events(&mut heard).await, ["+b/q", "-c/p"]);
    assert_eq!(keys(&pods), ["b/p", "b/q"]);
    assert!(pods.is_synced());
    let sources = pods.health().sources;
    let of: Vec<_> = sources
        .iter()
        .map(|source| source.namespace.as_str())
        .collect();
    assert_eq!(of, ["b"]);
    // The namespace that comes back takes the place of one that has left.
    namespace(&mock, "a", "web");
    settle().await;
    assert_eq!(events(&mut heard).await, ["+a/p", "+a/unseen"]);
    drop((pods, heard));
    settle().await;
    assert!(
        factory.health().is_empty(),
        "the namespaces are not watched any more"
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_namespace_the_informer_is_synced_and_empty() {
    let mock = server();
    let (factory, driver) = Factory::builder(transport(&mock)).build();
    tokio::spawn(driver.run());
    let pods = factory
        .raw("pods")
        .unwrap()
        .namespaces_where("team=web")
        .get();
    timeout(Duration::from_secs(5), pods.synced())
        .await
        .unwrap()
        .unwrap();
    assert!(pods.lister().is_empty());
}

/// The namespace of a Pod counts in its cluster only.
#[tokio::test(start_paused = true)]
async fn clusters_join_and_leave() {
    let (eu, us) = (server(), server());
    pod(&eu, "prod", "web");
    pod(&us, "prod", "web");
    pod(&us, "test", "web");
    let (factory, driver) = Factory::of_clusters().build();
    tokio::spawn(driver.run());
    factory.join("eu", transport(&eu));
    let pods = factory.raw("pods").unwrap().get();
    let of_prod = factory.raw("pods").unwrap().namespace("prod").get();
    let of_two = factory.raw("pods").unwrap();
    let of_two = of_two.namespaces(["prod", "test"]).get();
    let nodes = factory.raw("nodes").unwrap().get();
    eu.put("nodes", json!({ "metadata": { "name": "n1" } }))
        .unwrap();
    let mut heard = pods.subscribe();
    pods.synced().await.unwrap();
    assert_eq!(keys(&pods), ["eu:prod/web"]);

    factory.join("us", transport(&us));
    settle().await;
    assert_eq!(keys(&pods), ["eu:prod/web", "us:prod/web", "us:test/web"]);
    assert_eq!(keys(&of_prod), ["eu:prod/web", "us:prod/web"]);
    assert_eq!(keys(&of_two), keys(&pods), "both namespaces have joined");
    assert!(of_two.is_synced());
    let later = factory.raw("pods").unwrap();
    let later = later.namespaces(["other", "test"]).get();
    later.synced().await.unwrap();
    assert_eq!(keys(&later), ["us:test/web"]);
    assert_eq!(keys(&nodes), ["eu:/n1"]);
    let lister = pods.lister();
    assert_eq!(lister.list_in("us:prod").len(), 1);
    let entry = lister.get("us:prod", "web").unwrap();
    let key = entry.key();
    assert_eq!(
        (key.cluster(), key.namespace(), key.name()),
        ("us", "prod", "web")
    );
    events(&mut heard).await;

    // A broken watch of one cluster leads to a relist of that cluster.
    us.with(|server| server.cut_watches());
    us.delete("pods", "test", "web").unwrap();
    pod(&eu, "prod", "db");
    settle().await;
    assert_eq!(events(&mut heard).await, ["+eu:prod/db", "-us:test/web"]);

    factory.leave("us");
    settle().await;
    assert_eq!(events(&mut heard).await, ["-us:prod/web"]);
    assert_eq!(keys(&of_prod), ["eu:prod/db", "eu:prod/web"]);
    let opened = us.log().iter().count();
    pod(&us, "prod", "late");
    sleep(Duration::from_secs(600)).await;
    assert_eq!(
        us.log().iter().count(),
        opened,
        "nothing is requested any more"
    );
    assert!(events(&mut heard).await.is_empty());
    // An unreachable cluster does not affect the others.
    us.with(|server| server.inject(Fault::refuse().always()));
    factory.join("us", transport(&us));
    pod(&eu, "prod", "more");
    settle().await;
    assert_eq!(events(&mut heard).await, ["+eu:prod/more"]);
    assert!(pods.is_synced());
    // Only a write to a cluster with a list is awaited.
    let (log, resource) = (WriteLog::default(), Resource::new("", "v1", "pods"));
    log.attach(&pods);
    log.record(&resource, "us:prod/new", "1000", None);
    let seen = timeout(Duration::from_secs(5), log.seen());
    seen.await.unwrap().unwrap();
    log.record(&resource, "eu:prod/new", "1000", None);
    assert!(timeout(Duration::from_secs(5), log.seen()).await.is_err());
    us.with(FakeServer::clear_faults);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(events(&mut heard).await, ["+us:prod/late", "+us:prod/web"]);
}

/// Neither its version nor its list says anything about the cluster that joins next.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_joins_after_one_has_left_inherits_nothing() {
    let (eu, us) = (server(), server());
    for name in ["a", "b", "c"] {
        pod(&eu, "prod", name);
    }
    us.with(|server| server.inject(Fault::refuse().always()));
    let (factory, driver) = Factory::of_clusters().build();
    tokio::spawn(driver.run());
    eu.with(|server| server.inject(Fault::refuse()));
    factory.join("eu", transport(&eu));
    let pods = factory.raw("pods").unwrap().get();
    pods.synced().await.unwrap();
    factory.leave("eu");
    settle().await;
    let health = pods.health();
    assert!(health.sources.is_empty() && pods.lister().is_empty());
    // What the cluster counted still counts.
    assert_eq!((health.lists, health.watches, health.failures), (1, 1, 1));
    assert!(health.received_bytes > 0);

    factory.join("us", transport(&us));
    settle().await;
    let health = pods.health();
    let [source] = &health.sources[..] else {
        panic!("{:?}", health.sources)
    };
    assert_eq!(source.namespace, "us:");
    assert!(!source.synced && source.resource_version.is_empty());
    assert!(source.failures > 0);
    assert_eq!(health.failures, 1 + source.failures);
    assert_eq!((pods.resource_version(), health.lists), (String::new(), 1));
    let written = pods.wait_for_write("us:prod/a", "1");
    assert!(timeout(Duration::from_secs(5), written).await.is_err());
    pod(&us, "prod", "a");
    us.with(FakeServer::clear_faults);
    pods.wait_for_write("us:prod/a", "1").await.unwrap();
    settle().await;
    let health = pods.health();
    assert!(health.sources[0].synced);
    assert_eq!((health.lists, health.watches), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn one_controller_reconciles_the_keys_of_all_clusters() {
    let servers = [("eu", server()), ("us", server())];
    let (factory, driver) = Factory::of_clusters().build();
    tokio::spawn(driver.run());
    for (name, mock) in &servers {
        namespace(mock, "prod", "web");
        let set = json!({ "metadata": { "namespace": "prod", "name": "web" } });
        mock.create("replicasets.apps", set).unwrap();
        factory.join(name, transport(mock));
    }
    let seen: Arc<Mutex<BTreeMap<String, Option<String>>>> = Arc::default();
    let sets = factory
        .raw("replicasets.apps")
        .unwrap()
        .namespaces_where("team=web");
    let pods = factory.raw("pods").unwrap();
    let controller = Controller::new(sets).kind("ReplicaSet", true).owns(pods);
    let noted = Arc::clone(&seen);
    tokio::spawn(controller.run(move |task: Task<Raw>| {
        let version = task.object().map(|set| set.resource_version().to_string());
        noted
            .lock()
            .unwrap()
            .insert(task.key().to_string(), version);
        core::future::ready(Ok::<_, std::io::Error>(()))
    }));
    settle().await;
    let take = || {
        let seen = core::mem::take(&mut *seen.lock().unwrap());
        let exists = |(key, version): (String, Option<String>)| (key, version.is_some());
        seen.into_iter().map(exists).collect::<Vec<_>>()
    };
    let key = |key: &str, exists: bool| (key.to_owned(), exists);
    assert_eq!(take(), [key("eu:prod/web", true), key("us:prod/web", true)]);
    // The owner is in the cluster of what it owns.
    let owner = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true }]);
    let metadata = json!({ "namespace": "prod", "name": "p", "ownerReferences": owner });
    servers[1]
        .1
        .create("pods", json!({ "metadata": metadata }))
        .unwrap();
    settle().await;
    assert_eq!(take(), [key("us:prod/web", true)]);
    factory.leave("us");
    settle().await;
    assert_eq!(take(), [key("us:prod/web", false)]);
}

/// A cluster that cannot be reached from the start on.
#[tokio::test(start_paused = true)]
async fn a_dead_cluster_does_not_keep_the_keys_of_others_waiting() {
    let (eu, us) = (server(), server());
    us.with(|server| server.inject(Fault::refuse().always()));
    let (factory, driver) = Factory::of_clusters().build();
    tokio::spawn(driver.run());
    for (name, mock) in [("eu", &eu), ("us", &us)] {
        pod(mock, "prod", "web");
        factory.join(name, transport(mock));
    }
    let seen: Arc<Mutex<Vec<(String, bool)>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let controller = Controller::new(factory.raw("pods").unwrap());
    let handle = controller.handle();
    tokio::spawn(controller.run(move |task: Task<Raw>| {
        let run = (task.key().to_string(), task.object().is_some());
        noted.lock().unwrap().push(run);
        core::future::ready(Ok::<_, std::io::Error>(()))
    }));
    handle.enqueue(Key::new("us:prod/web"));
    let take = || core::mem::take(&mut *seen.lock().unwrap());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(take(), [("eu:prod/web".to_owned(), true)]);
    assert_eq!(handle.metrics().waiting_for_lists, 1);
    us.with(FakeServer::clear_faults);
    sleep(Duration::from_secs(600)).await;
    assert_eq!(take(), [("us:prod/web".to_owned(), true)]);
}

/// The resyncs of handlers do not depend on the members.
#[tokio::test(start_paused = true)]
async fn handlers_of_a_fleet_are_resynced() {
    let mock = server();
    pod(&mock, "prod", "web");
    let (factory, driver) = Factory::of_clusters().build();
    tokio::spawn(driver.run());
    let pods = factory.raw("pods").unwrap().get();
    let replays = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&replays);
    let options = HandlerOptions::default().resync(Duration::from_secs(60));
    let handler = Handlers::new().on_update(move |_, _| *counted.lock().unwrap() += 1);
    pods.add_handler_with(&options, handler);
    factory.join("eu", transport(&mock));
    sleep(Duration::from_secs(200)).await;
    assert_eq!(*replays.lock().unwrap(), 3);
}

/// The objects of the cluster that it replaces are not lost with it, nor do they stay.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_joins_again_is_replaced() {
    let (before, after) = (server(), server());
    for name in ["both", "old"] {
        pod(&before, "prod", name);
    }
    for name in ["both", "new"] {
        pod(&after, "prod", name);
    }
    let (factory, driver) = Factory::of_clusters().build();
    tokio::spawn(driver.run());
    factory.join("eu", transport(&before));
    let pods = factory.raw("pods").unwrap().get();
    pods.synced().await.unwrap();
    for mock in [&after, &before, &after] {
        factory.join("eu", transport(mock));
    }
    settle().await;
    assert_eq!(keys(&pods), ["eu:prod/both", "eu:prod/new"]);
    // The same, after which the new cluster is watched.
    after.delete("pods", "prod", "both").unwrap();
    settle().await;
    assert_eq!(keys(&pods), ["eu:prod/new"]);
}

/// The versions of the new cluster say nothing about a write to the one before, and neither do those of another one.
#[tokio::test(start_paused = true)]
async fn a_write_to_a_cluster_that_was_replaced_is_not_awaited() {
    let (before, after, us) = (server(), server(), server());
    pod(&us, "prod", "web");
    for round in 0..50 {
        let labels = json!({ "round": round.to_string() });
        let pod = json!({ "metadata": { "namespace": "prod", "name": "web", "labels": labels } });
        before.put("pods", pod).unwrap();
    }
    pod(&after, "prod", "other");
    let (factory, driver) = Factory::of_clusters().build();
    tokio::spawn(driver.run());
    factory.join("eu", transport(&before));
    factory.join("us", transport(&us));
    let pods = factory.raw("pods").unwrap().get();
    let log = WriteLog::default();
    log.attach(&pods);
    pods.synced().await.unwrap();
    let resource = Resource::new("", "v1", "pods");
    let uid = pods.lister().get_by_key("eu:prod/web").unwrap();
    let version = before.delete("pods", "prod", "web").unwrap();
    let gone = ExpectedState::gone(&uid.uid().to_string(), &version.to_string());
    let gone = pods.wait_for_write("eu:prod/web", gone);
    timeout(Duration::from_secs(5), gone)
        .await
        .unwrap()
        .unwrap();
    log.record(&resource, "eu:prod/late", "1000", None);
    let direct = pods.wait_for_write("eu:prod/late", "1000");
    let waits = async { tokio::join!(log.seen(), direct) };
    let mut waits = core::pin::pin!(timeout(Duration::from_secs(60), waits));
    assert!(timeout(Duration::from_secs(5), &mut waits).await.is_err());
    factory.join("eu", transport(&after));
    let waited = waits.await.expect("the write never arrives");
    assert!(matches!(waited, (Ok(()), Ok(()))));
    assert_eq!(keys(&pods), ["eu:prod/other", "us:prod/web"]);
    // Writes to the new one are awaited.
    log.record(&resource, "eu:prod/new", "1000", None);
    assert!(timeout(Duration::from_secs(5), log.seen()).await.is_err());
}
