//! Types with a resource, metadata only, field selectors, and a transport chosen at run time.

use core::time::Duration;

use informer_core::{Decode as _, Decoder, Json, RawObject, Resource};
use informer_mock::{Fault, json};
use informer_tests::support::{self, Server, settle};
use informer_tokio::informer::Initial;
use informer_tokio::selector::FieldSelector;
use informer_tokio::transport::BoxTransport;
use informer_tokio::{Event, Informer, Kind, Meta, Raw, boxed, kind};
use serde::Deserialize;

fn server() -> Server {
    let mock = support::server();
    for (name, node) in [("a", "n1"), ("b", "n2")] {
        mock.create("pods", pod(name, node)).unwrap();
    }
    mock
}

fn pod(name: &str, node: &str) -> serde_json::Value {
    json!({
        "metadata": { "name": name, "namespace": "prod", "labels": { "app": name },
                      "managedFields": [{ "manager": "kubelet" }] },
        "spec": { "nodeName": node, "containers": [{ "name": "main", "image": "web:1" }] },
    })
}

/// A user-defined struct needs only one line.
#[derive(Deserialize)]
struct Images {
    spec: ImagesSpec,
}
kind!(Images, "v1", "pods", "Pod");

#[derive(Deserialize)]
struct ImagesSpec {
    containers: Vec<Image>,
}

#[derive(Deserialize)]
struct Image {
    image: String,
}

#[test]
fn a_struct_knows_its_resource() {
    let resource = Images::resource();
    assert_eq!(resource.to_string(), "pods.v1");
    assert_eq!(resource.as_ref().kind, Some("Pod"));
}

#[tokio::test(start_paused = true)]
async fn a_struct_of_ones_own_keeps_what_it_names() {
    let mock = server();
    let pods = Informer::<Images>::builder(&mock.transport()).spawn();
    pods.synced().await.unwrap();
    let a = pods.lister().get("prod", "a").unwrap();
    assert_eq!(a.spec.containers[0].image, "web:1");
}

/// Lists and watches request metadata, each with its media type, and accept the whole object from an old server that
/// supports neither.
#[tokio::test(start_paused = true)]
async fn metadata_is_asked_for_by_two_media_types() {
    let list = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1;drop=metadata.managedFields";
    let single = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1;drop=metadata.managedFields";
    for initial in [Initial::List, Initial::Stream] {
        let mock = server();
        let pods = Informer::<Meta>::builder_for(&mock.transport(), Images::resource())
            .initial(initial)
            .spawn();
        pods.synced().await.unwrap();
        mock.create("pods", pod("c", "n3")).unwrap();
        settle().await;
        for name in ["a", "c"] {
            let found = pods.lister().get("prod", name).unwrap();
            assert_eq!(found.value().label("app").unwrap().to_string(), name);
            assert!(
                found.at(&["managedFields"]).is_none(),
                "it is not even kept"
            );
        }
        for request in mock.log().iter() {
            let wanted = if request.verb == informer_mock::Verb::List {
                list
            } else {
                single
            };
            assert!(
                request.accept.split(',').next() == Some(wanted),
                "{initial:?}: {request} {}",
                request.accept
            );
            assert_eq!(request.status, Some(200), "{request}");
        }
        assert!(mock.log().iter().count() > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn whole_objects_are_cut_down_to_metadata() {
    let mock = server();
    let whole = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"3"},"items":[
        {"metadata":{"name":"old","namespace":"prod","uid":"u","resourceVersion":"2"},"spec":{"nodeName":"n1"}}]}"#;
    mock.with(|server| server.inject(Fault::status(200, whole)));
    let pods = Informer::<Meta>::builder_for(&mock.transport(), Resource::parse("pods").unwrap())
        .initial(Initial::List)
        .spawn();
    pods.synced().await.unwrap();
    let old = pods.lister().get("prod", "old").unwrap();
    assert_eq!(
        old.value().json(),
        br#"{"name":"old","namespace":"prod","uid":"u","resourceVersion":"2"}"#
    );
}

#[tokio::test(start_paused = true)]
async fn a_field_selector_is_the_servers_work() {
    let mock = server();
    let on_n1 = FieldSelector::new().is("spec.nodeName", "n1");
    let pods = Informer::<Images>::builder(&mock.transport())
        .fields(on_n1)
        .spawn();
    let mut events = pods.subscribe();
    pods.synced().await.unwrap();
    assert_eq!(pods.lister().len(), 1);
    let request = mock
        .log()
        .iter()
        .next()
        .unwrap()
        .query
        .get("fieldSelector")
        .unwrap()
        .to_owned();
    assert_eq!(request, "spec.nodeName=n1");

    // An object that no longer matches is deleted; one that now matches is added.
    mock.update("pods", pod("a", "n2")).unwrap();
    mock.update("pods", pod("b", "n1")).unwrap();
    settle().await;
    let mut heard = Vec::new();
    while events.lag().pending > 0 {
        heard.push(match events.recv().await.unwrap() {
            Event::Added { entry, .. } => format!("+{}", entry.name()),
            Event::Deleted { entry, .. } => format!("-{}", entry.name()),
            Event::Updated { .. } | Event::Replayed { .. } | Event::Synced | _ => continue,
        });
    }
    assert_eq!(heard, ["+a", "-a", "+b"]);
}

#[tokio::test(start_paused = true)]
async fn a_transport_may_be_chosen_at_run_time() {
    for over_a_thin_link in [false, true] {
        let mock = server();
        // Two types, one of which is known only at run time.
        let transport: BoxTransport = if over_a_thin_link {
            let transport = mock.transport();
            boxed!(boxed!(transport))
        } else {
            boxed!(mock.transport())
        };
        let pods = Informer::<Raw>::builder_for(&transport, Resource::parse("pods").unwrap())
            .namespaces(["prod", "other"])
            .spawn();
        pods.synced().await.unwrap();
        assert_eq!(pods.lister().len(), 2);
        mock.delete("pods", "prod", "a").unwrap();
        settle().await;
        assert_eq!(pods.lister().len(), 1);
    }
}

/// A boxed transport preserves the class of errors, which determines the reaction.
#[tokio::test(start_paused = true)]
async fn a_boxed_transport_keeps_the_classes_of_errors() {
    let mock = server();
    mock.with(|server| server.inject(Fault::refuse().always()));
    let transport = boxed!(mock.transport());
    let pods = Informer::<Raw>::builder_for(&transport, Resource::parse("pods").unwrap()).spawn();
    let error = pods
        .synced_within(Duration::from_secs(20))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("connection refused"),
        "it says what the transport said: {error}"
    );
    let trouble = pods.health().last_error.unwrap();
    assert_eq!(trouble.class, "connection-refused");
    assert!(trouble.advice.unwrap().contains("address"));
}

/// Secrets reach logs by `Debug`.
#[test]
fn debug_shows_no_content() {
    let json = br#"{"metadata":{"name":"a","namespace":"prod","resourceVersion":"5",
        "annotations":{"token":"hunter2"}},"data":{"password":"hunter2"}}"#;
    let raw = RawObject::parse(json);
    let Ok(whole) = Decoder::<Raw>::new().decode(&raw);
    let Ok(meta) = Decoder::<Meta>::new().decode(&raw);
    let typed = Decoder::<Json<serde_json::Value>>::new().decode(&raw);
    assert_eq!(typed.as_ref().unwrap().get()["data"]["password"], "hunter2");
    let event =
        informer_core::wire::WatchEvent::parse(br#"{"type":"ADDED","object":{"data":"hunter2"}}"#);
    let shown = [
        format!("{raw:?}"),
        format!("{whole:?}"),
        format!("{meta:?}"),
        format!("{:?}", typed.unwrap()),
        format!("{event:?}"),
    ];
    assert_eq!(
        shown,
        [
            "RawObject(prod/a@5, 139 bytes)",
            "Raw(prod/a@5, 139 bytes)",
            "Meta(prod/a@5, 87 bytes)",
            "Json<serde_json::value::Value>",
            "Some(WatchEvent(Added, 18 bytes))",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn debug_of_an_event_shows_key_version_and_size() {
    let pods = Informer::<Raw>::builder_for(&server().transport(), support::PODS).spawn();
    let mut events = pods.subscribe();
    pods.synced().await.unwrap();
    let event = format!("{:?}", events.recv().await.unwrap());
    assert!(event.starts_with("Added { entry: prod/a@2 ("), "{event}");
    assert!(
        event.contains(" bytes)") && !event.contains("containers"),
        "{event}"
    );
}
