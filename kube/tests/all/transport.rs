//! Informers whose transport is a `kube::Client`.

use core::time::Duration;

use informer_core::wire::Format;
use informer_mock::{Fault, Verb, json};
use informer_tokio::transport::{DynTransport as _, FailureKind, Get};
use informer_tokio::{Informer, Resource};
use k8s_openapi::api::core::v1::Pod;
use kube::client::Body;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{CustomResource, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::server::{Server, client, server, settle};

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Widget", namespaced)]
pub(crate) struct WidgetSpec {
    size: u32,
}

fn with_widget() -> Server {
    let mock = server();
    mock.with(|server| server.add_resource("example.com", "v1", "widgets", "Widget", true));
    let widget = json!({ "metadata": { "name": "w", "namespace": "prod" }, "spec": { "size": 7 } });
    mock.create("widgets.example.com", widget).unwrap();
    mock
}

#[test]
fn each_type_has_its_resource() {
    let pods = informer_kube::resource::<Pod>();
    assert_eq!(
        (pods.to_string(), pods.as_ref().kind),
        ("pods.v1".to_owned(), Some("Pod"))
    );
    let widgets = informer_kube::resource::<Widget>();
    assert_eq!(widgets.to_string(), "widgets.v1.example.com");
    assert_eq!(widgets.as_ref().kind, Some("Widget"));
}

#[tokio::test(start_paused = true)]
async fn a_type_of_k8s_openapi_is_watched() {
    let mock = server();
    let pod = |name, node| {
        json!({
            "metadata": { "name": name, "namespace": "prod" },
            "spec": { "nodeName": node, "containers": [{ "name": "main", "image": "web:1" }] },
        })
    };
    mock.create("pods", pod("a", "n1")).unwrap();
    let pods = informer_kube::resource::<Pod>();
    let (pods, driver) =
        Informer::<Pod>::builder_for(&informer_kube::transport(client(&mock)), pods.as_ref())
            .index("node", |pod| pod.spec.as_ref()?.node_name.clone())
            .build();
    tokio::spawn(driver.run());
    pods.synced().await.unwrap();
    mock.create("pods", pod("b", "n1")).unwrap();
    mock.delete("pods", "prod", "a").unwrap();
    settle().await;
    let on_n1 = pods.lister().by_index("node", "n1").unwrap();
    assert_eq!(on_n1.len(), 1);
    assert_eq!(on_n1[0].get().name_any(), "b");
}

#[tokio::test(start_paused = true)]
async fn a_custom_resource_is_watched_typed_and_dynamic() {
    let mock = with_widget();
    let transport = informer_kube::transport(client(&mock));
    let resource = informer_kube::resource::<Widget>();
    let (typed, run_typed) = Informer::<Widget>::builder_for(&transport, resource.as_ref()).build();
    let found = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    let resource = informer_kube::resource_of(&found);
    let (dynamic, run_dynamic) =
        Informer::<DynamicObject>::builder_for(&transport, resource.as_ref()).build();
    tokio::spawn(run_typed.run());
    tokio::spawn(run_dynamic.run());
    typed.synced().await.unwrap();
    dynamic.synced().await.unwrap();
    assert_eq!(typed.lister().get("prod", "w").unwrap().get().spec.size, 7);
    assert_eq!(
        dynamic.lister().get("prod", "w").unwrap().get().data["spec"]["size"],
        7
    );
}

#[tokio::test(start_paused = true)]
async fn failures_keep_their_class_and_their_cause() {
    for (fault, class, text) in [
        (
            Fault::refuse(),
            "connection-refused",
            "no response from the server",
        ),
        (
            Fault::fail(FailureKind::TimedOut),
            "timed-out",
            "no response from the server",
        ),
        (
            Fault::nothing().cut_inside_event(0),
            "connection-reset",
            "the response was cut off",
        ),
    ] {
        let mock = server();
        mock.create(
            "pods",
            json!({ "metadata": { "name": "a", "namespace": "prod" } }),
        )
        .unwrap();
        mock.with(|server| server.inject(fault.always()));
        let transport = informer_kube::transport(client(&mock));
        let pods = Resource::parse("pods").unwrap();
        let pods = Informer::<DynamicObject>::builder_for(&transport, pods).spawn();
        let error = pods
            .synced_within(Duration::from_secs(60))
            .await
            .unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(pods.health().last_error.unwrap().class, class);
    }
}

/// The request was never sent, so the network cannot be the cause.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_too_long_is_an_error_of_its_caller() {
    let mock = server();
    let transport = informer_kube::transport(client(&mock));
    let values = "a".repeat(70_000);
    let selector = format!("app={values}");
    let pods = Resource::parse("pods").unwrap().labels(&selector);
    let pods = Informer::<DynamicObject>::builder_for(&transport, pods).spawn();
    let error = pods
        .synced_within(Duration::from_secs(60))
        .await
        .unwrap_err();
    let shown = error.to_string();
    assert!(shown.contains("at most 65534 are possible"), "{shown}");
    assert_eq!(pods.health().last_error.unwrap().class, "request");
}

/// The server's `Retry-After` is a header, which the transport passes on.
#[tokio::test(start_paused = true)]
async fn an_overloaded_server_is_asked_again_after_the_time_it_names() {
    let mock = server();
    mock.with(|server| server.inject(Fault::overloaded(Some(7)).on(Verb::Stream)));
    let transport = informer_kube::transport(client(&mock));
    let (pods, driver) =
        Informer::<DynamicObject>::builder_for(&transport, Resource::parse("pods").unwrap())
            .build();
    tokio::spawn(driver.run());
    pods.synced().await.unwrap();
    let log = mock.log();
    let times: Vec<_> = log.iter().map(|request| request.at).collect();
    assert_eq!((times[1] - times[0]).as_secs(), 7);
}

/// None of this is in the body that the server sent. A stream is requested uncompressed.
#[tokio::test(start_paused = true)]
async fn warnings_formats_and_redirects_of_the_server_are_passed_on() {
    let service = tower::service_fn(async |request: http::Request<Body>| {
        let response = http::Response::builder()
            .header("Warning", "299 - \"pods are old\"")
            .header("Warning", "299 - \"and slow\"")
            .header("Content-Type", "application/vnd.kubernetes.protobuf");
        let response = match request.uri().path() {
            "/moved" => response
                .status(307)
                .header("Location", "https://other:6443/x?token=s3cret"),
            "/packed" => response.header("Content-Encoding", "gzip"),
            _ => response,
        };
        let coding = request.headers().get("Accept-Encoding");
        let coding = coding.map_or(&b"any"[..], |coding| coding.as_bytes());
        Ok::<_, core::convert::Infallible>(response.body(Body::from(coding.to_vec())).unwrap())
    });
    let mut transport = informer_kube::transport(kube::Client::new(service, "default"));
    let (head, mut body) = transport.send(Get::new("/x")).await.unwrap();
    assert_eq!(head.format, Some(Format::Protobuf));
    assert_eq!(body.warning(), Some("pods are old"));
    assert_eq!(body.warning(), Some("and slow"));
    assert_eq!(body.warning(), None);
    assert_eq!(body.chunk().await.unwrap(), Some(&b"any"[..]));
    let watch = Get::new("/x").watch(true);
    let (_, mut body) = transport.send(watch).await.unwrap();
    assert_eq!(body.chunk().await.unwrap(), Some(&b"identity"[..]));
    let packed = transport.send(Get::new("/packed")).await;
    let error = packed.map(drop).unwrap_err().to_string();
    assert!(error.ends_with("enable kube's feature `gzip`"), "{error}");
    let (_, mut body) = transport.clone().send(Get::new("/x")).await.unwrap();
    assert_eq!(body.warning(), None);
    let (head, mut body) = transport.send(Get::new("/moved")).await.unwrap();
    assert_eq!(head.status, 307);
    let text = body.chunk().await.unwrap().unwrap().to_vec();
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("redirects to https://other:6443/x, "),
        "{text}"
    );
}
