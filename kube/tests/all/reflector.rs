//! The store, and kube's controller on the watcher of this crate. The defects are those of kube-rs 5.0.

use core::convert::Infallible;
use core::pin::pin;
use core::time::Duration;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use informer_kube::runtime::reflector::{ObjectRef, Store, Writer, store};
use informer_kube::runtime::{Controller, reflector, watcher};
use informer_mock::{Fault, Verb, json};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta};
use kube::runtime::controller::Action;
use kube::{Api, ResourceExt as _};
use tokio::time::{sleep, timeout};
use watcher::Event;

use crate::server::{client, server, settle};

fn map(name: &str, version: u32) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("prod".to_owned()),
            resource_version: Some(version.to_string()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

fn names(store: &Store<ConfigMap>) -> Vec<String> {
    let mut names: Vec<_> = store
        .state()
        .iter()
        .map(|object| object.name_any())
        .collect();
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn the_store_follows_the_watch() {
    let mock = server();
    let object = |name: &str| json!({ "metadata": { "name": name, "namespace": "prod" } });
    mock.create("configmaps", object("a")).unwrap();
    let (store, writer) = store::<ConfigMap>();
    let maps = Api::<ConfigMap>::all(client(&mock));
    let stream = reflector(writer, watcher(maps, watcher::Config::default()));
    let reading = tokio::spawn(stream.for_each(async |_| {}));
    store.wait_until_ready().await.unwrap();
    assert_eq!(names(&store), ["a"]);
    settle().await;
    mock.create("configmaps", object("b")).unwrap();
    settle().await;
    mock.delete("configmaps", "prod", "a").unwrap();
    settle().await;
    let b = store.get(&ObjectRef::new("b").within("prod")).unwrap();
    assert_eq!(b.name_any(), "b");
    assert!(store.find(|map| map.name_any() == "a").is_none());
    // A deletion during an outage.
    mock.with(|server| {
        server.cut_watches();
        server.delete("configmaps", "prod", "b").unwrap();
        server.create("configmaps", object("c")).unwrap();
        server.forget_events(server.version());
    });
    sleep(Duration::from_secs(60)).await;
    assert_eq!(names(&store), ["c"]);
    reading.abort();
}

/// Defect 5: of several tasks that wait for the first list, one is woken.
#[tokio::test(start_paused = true)]
async fn k5_all_tasks_that_wait_for_the_first_list_are_woken() {
    for drops in [false, true] {
        let (store, mut writer) = store::<ConfigMap>();
        let waiting: Vec<_> = (0..10)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move { store.wait_until_ready().await.is_ok() })
            })
            .collect();
        settle().await;
        assert!(waiting.iter().all(|task| !task.is_finished()));
        writer.apply_watcher_event(&Event::Init);
        if drops {
            drop(writer);
        } else {
            writer.apply_watcher_event(&Event::InitDone);
            drop(writer);
        }
        for task in waiting {
            let ready = timeout(Duration::from_secs(1), task).await;
            assert_eq!(ready.expect("it is woken").unwrap(), !drops);
        }
        assert_eq!(store.wait_until_ready().await.is_ok(), !drops);
    }
}

/// Defect 6: a subscriber hangs for ever if an object is deleted before it looks.
#[tokio::test(start_paused = true)]
async fn k6_a_subscriber_goes_on_where_an_object_is_gone_before_it_looks() {
    let mut writer = Writer::<ConfigMap>::new(());
    writer.apply_watcher_event(&Event::Apply(map("old", 1)));
    let mut applied = writer.as_reader().subscribe();
    writer.apply_watcher_event(&Event::Apply(map("x", 2)));
    writer.apply_watcher_event(&Event::Delete(map("x", 3)));
    writer.apply_watcher_event(&Event::Apply(map("y", 4)));
    writer.apply_watcher_event(&Event::Apply(map("z", 5)));
    writer.apply_watcher_event(&Event::Apply(map("y", 6)));
    for expected in [("old", "1"), ("y", "6"), ("z", "5")] {
        let object = timeout(Duration::from_secs(1), applied.next())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (
                object.name_any().as_str(),
                object.resource_version().as_deref()
            ),
            (expected.0, Some(expected.1))
        );
    }
    let waiting = tokio::spawn(async move {
        (
            applied.next().await.map(|object| object.name_any()),
            applied.next().await,
        )
    });
    settle().await;
    assert!(!waiting.is_finished());
    writer.apply_watcher_event(&Event::Apply(map("x", 7)));
    settle().await;
    drop(writer);
    let (next, end) = timeout(Duration::from_secs(1), waiting)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(next.as_deref(), Some("x"));
    assert!(end.is_none(), "it ends with the writer");
}

/// A relist keeps what it shows and removes the rest at its end.
#[test]
fn a_list_that_is_repeated_removes_what_it_does_not_show() {
    let (store, mut writer) = store::<ConfigMap>();
    for event in [
        Event::Init,
        Event::InitApply(map("a", 1)),
        Event::InitApply(map("b", 1)),
        Event::InitDone,
    ] {
        writer.apply_watcher_event(&event);
    }
    for event in [
        Event::Init,
        Event::InitApply(map("c", 2)),
        Event::Init,
        Event::InitApply(map("b", 3)),
    ] {
        writer.apply_watcher_event(&event);
    }
    assert_eq!(names(&store), ["a", "b", "c"]);
    writer.apply_watcher_event(&Event::InitDone);
    assert_eq!(names(&store), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn the_controller_of_kube_runs_on_this_watcher() {
    let mock = server();
    let object = |name: &str, owner: Option<&str>| {
        let owners: Vec<_> = owner.into_iter().map(|name| json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": "u", "controller": true })).collect();
        json!({ "metadata": { "name": name, "namespace": "prod", "labels": { "app": "web" }, "ownerReferences": owners } })
    };
    mock.create("configmaps", object("a", None)).unwrap();
    let client = client(&mock);
    let maps = Api::<ConfigMap>::all(client.clone());
    let owned = Api::<k8s_openapi::api::core::v1::Secret>::all(client);
    let config = watcher::Config::default;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = |map: Arc<ConfigMap>, seen: Arc<Mutex<Vec<String>>>| async move {
        seen.lock().unwrap().push(map.name_any());
        Ok::<_, Infallible>(Action::await_change())
    };
    let controller = Controller::new(maps, config()).owns(owned, config().labels("app=web"));
    let store = controller.store();
    let mut running = pin!(controller.run(note, |_, error, _| match *error {}, Arc::clone(&seen)));
    let mut run = async || timeout(Duration::from_secs(60), running.next()).await.ok();
    assert_eq!(run().await.unwrap().unwrap().unwrap().0.name, "a");
    assert_eq!(store.state().len(), 1);
    // The change of an owned object.
    mock.create("secrets", object("s", Some("a"))).unwrap();
    assert_eq!(run().await.unwrap().unwrap().unwrap().0.name, "a");
    assert_eq!(*seen.lock().unwrap(), ["a", "a"]);
    assert!(run().await.is_none());
    let log = mock.log();
    let of_secrets = log
        .iter()
        .filter(|request| request.path.ends_with("/secrets"));
    let selected: Vec<_> = of_secrets
        .map(|request| request.query.get("labelSelector"))
        .collect();
    assert!(selected.len() >= 2);
    assert!(selected.iter().all(|labels| *labels == Some("app=web")));
}

/// A type that is known only at run time, which has no default.
#[tokio::test(start_paused = true)]
async fn kubes_controller_watches_a_resource_of_discovery() {
    let mock = server();
    let object = |name: &str| json!({ "metadata": { "name": name, "namespace": "prod" } });
    mock.create("configmaps", object("a")).unwrap();
    let maps = Api::<ConfigMap>::all(client(&mock));
    let secret = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Secret"));
    let secrets = Api::<DynamicObject>::all_with(client(&mock), &secret);
    let of = |secret: DynamicObject| [ObjectRef::new(&secret.name_any()).within("prod")];
    let controller = Controller::new(maps, watcher::Config::default())
        .watches_with(secrets, secret, watcher::Config::default(), of)
        .trigger_backoff(watcher::DefaultBackoff::default());
    let reconcile = async |_, _| Ok::<_, Infallible>(Action::await_change());
    let mut running = pin!(controller.run(reconcile, |_, error, _| match *error {}, Arc::new(())));
    let mut run = async || timeout(Duration::from_secs(60), running.next()).await.ok();
    assert_eq!(run().await.unwrap().unwrap().unwrap().0.name, "a");
    mock.create("secrets", object("a")).unwrap();
    assert_eq!(run().await.unwrap().unwrap().unwrap().0.name, "a");
    assert!(run().await.is_none());
}

/// It exists in a state that cannot be decoded, so its last known state stays.
#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_decoded_survives_a_relist() {
    let mock = server();
    let object = |name: &str| json!({ "metadata": { "name": name, "namespace": "prod" } });
    for name in ["a", "bad", "gone", "worse"] {
        mock.create("configmaps", object(name)).unwrap();
    }
    let (store, writer) = store::<ConfigMap>();
    let maps = Api::<ConfigMap>::all(client(&mock));
    let stream = reflector(writer, watcher(maps, watcher::Config::default()));
    let _reading = tokio::spawn(stream.for_each(async |_| {}));
    store.wait_until_ready().await.unwrap();
    assert_eq!(names(&store), ["a", "bad", "gone", "worse"]);
    // An object without a namespace.
    let namespace = |spec| json!({ "metadata": { "name": "bad" }, "spec": spec });
    mock.create("namespaces", namespace(json!({}))).unwrap();
    let (namespaces, writer) = reflector::store::<Namespace>();
    let all = Api::<Namespace>::all(client(&mock));
    let stream = reflector(writer, watcher(all, watcher::Config::default()));
    let _reading = tokio::spawn(stream.for_each(async |_| {}));
    namespaces.wait_until_ready().await.unwrap();
    settle().await;
    // A relist shows what happened while the watch was broken.
    mock.with(|server| {
        server.inject(Fault::expired().on(Verb::Watch).times(2));
        server.cut_watches();
    });
    mock.update("namespaces", namespace(json!(7))).unwrap();
    mock.delete("configmaps", "prod", "gone").unwrap();
    for name in ["bad", "worse"] {
        let mut bad = object(name);
        bad["immutable"] = 7.into();
        mock.update("configmaps", bad).unwrap();
    }
    sleep(Duration::from_secs(60)).await;
    assert!(mock.log().lists().count() >= 4);
    assert_eq!(namespaces.len(), 1);
    assert_eq!(names(&store), ["a", "bad", "worse"]);
    mock.update("configmaps", object("bad")).unwrap();
    mock.delete("configmaps", "prod", "bad").unwrap();
    settle().await;
    assert_eq!(names(&store), ["a", "worse"]);
}

/// The names and paths that kube has.
#[test]
fn a_changed_import_is_enough() {
    use informer_kube::runtime::reflector::{ObjectRefExtra, store::Writer as AtKubesPath};
    use kube::core::{Expression, Selector};

    let mut writer = AtKubesPath::<ConfigMap>::default();
    let store = writer.as_reader();
    for (name, app) in [("a", "web"), ("b", "db")] {
        let mut object = map(name, 1);
        object.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
        writer.apply_watcher_event(&Event::Apply(object));
    }
    let selector: Selector = Expression::Equal("app".into(), "web".into()).into();
    let selected = store.state_filter_selector(&selector);
    let selected: Vec<String> = selected.iter().map(|object| object.name_any()).collect();
    assert_eq!(selected, ["a"]);
    let extra: ObjectRefExtra = ObjectRef::from_obj(&map("a", 7)).extra;
    assert_eq!(extra.resource_version.as_deref(), Some("7"));
}
