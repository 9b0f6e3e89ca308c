//! Resources by name, through a client.

use http::{Request, Response};
use informer_kube::discover;
use informer_mock::json;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::core::GroupVersionKind;
use kube::discovery::{Discovery, Scope, oneshot, verbs};
use kube::runtime::wait::{await_condition, conditions};
use tower::BoxError;

use crate::server::{client, server};

#[tokio::test]
async fn a_name_of_kubectl_is_found_through_a_client() {
    let service = tower::service_fn(async |request: Request<Body>| {
        let items = match request.uri().path() {
            "/api" => json!([]),
            _ => {
                json!([{ "metadata": { "name": "apps" }, "versions": [{ "version": "v1", "resources": [{
                "resource": "deployments", "shortNames": ["deploy"], "verbs": ["list", "watch"],
                "responseKind": { "kind": "Deployment" }, "scope": "Namespaced",
            }] }] }])
            }
        };
        let list = json!({ "kind": "APIGroupDiscoveryList", "items": items });
        Ok::<_, BoxError>(Response::new(Body::from(list.to_string().into_bytes())))
    });
    let client = Client::new(service, "default");
    let found = discover(&client, "deploy").await.unwrap();
    assert_eq!(
        (&*found.api_version, &*found.group, &*found.version),
        ("apps/v1", "apps", "v1")
    );
    assert_eq!(
        (&*found.plural, &*found.kind),
        ("deployments", "Deployment")
    );
    let error = discover(&client, "pods").await.unwrap_err();
    assert_eq!(error.to_string(), "'pods': the server has no such resource");
}

/// kube's own discovery works against the mock, with one request for each version or with all at once.
#[tokio::test(start_paused = true)]
async fn kube_discovers_the_mock() {
    let mock = server();
    mock.with(|server| server.add_resource("example.com", "v1", "widgets", "Widget", true));
    let client = client(&mock);
    for aggregated in [false, true] {
        let discovery = Discovery::new(client.clone());
        let discovery = match aggregated {
            false => discovery.run().await.unwrap(),
            true => discovery.run_aggregated().await.unwrap(),
        };
        let widget = GroupVersionKind::gvk("example.com", "v1", "Widget");
        let (resource, capabilities) = discovery.resolve_gvk(&widget).unwrap();
        assert_eq!(
            (resource.plural.as_str(), resource.api_version.as_str()),
            ("widgets", "example.com/v1")
        );
        assert_eq!(capabilities.scope, Scope::Namespaced, "{aggregated}");
        assert!(
            capabilities.supports_operation(verbs::WATCH),
            "{aggregated}"
        );
        let deployment = GroupVersionKind::gvk("apps", "v1", "Deployment");
        let (_, capabilities) = discovery.resolve_gvk(&deployment).unwrap();
        let parts = capabilities
            .subresources
            .iter()
            .map(|(part, _)| part.plural.as_str());
        assert_eq!(
            parts.collect::<Vec<_>>().len(),
            2,
            "{aggregated}: /scale and /status"
        );
        assert!(discovery.has_group(""), "{aggregated}");
    }
    let pod = GroupVersionKind::gvk("", "v1", "Pod");
    let (pod, _) = oneshot::pinned_kind(&client, &pod).await.unwrap();
    assert_eq!(pod.plural, "pods");
    assert_eq!(client.apiserver_version().await.unwrap().minor, "36");
}

/// A program applies its own CustomResourceDefinition and waits for it, as programs with kube do.
#[tokio::test(start_paused = true)]
async fn a_definition_is_established() {
    let mock = server();
    let client = client(&mock);
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "gizmos.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "plural": "gizmos", "kind": "Gizmo" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    }))
    .unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let how = PatchParams::apply("me");
    definitions
        .patch("gizmos.example.com", &how, &Patch::Apply(&definition))
        .await
        .unwrap();
    let established = await_condition(
        definitions.clone(),
        "gizmos.example.com",
        conditions::is_crd_established(),
    );
    established.await.unwrap();
    let gizmo = GroupVersionKind::gvk("example.com", "v1", "Gizmo");
    let (resource, _) = oneshot::pinned_kind(&client, &gizmo).await.unwrap();
    let gizmos: Api<DynamicObject> = Api::namespaced_with(client.clone(), "prod", &resource);
    gizmos
        .create(&PostParams::default(), &DynamicObject::new("a", &resource))
        .await
        .unwrap();
    definitions
        .delete("gizmos.example.com", &DeleteParams::default())
        .await
        .unwrap();
    assert!(oneshot::pinned_kind(&client, &gizmo).await.is_err());
    assert!(
        definitions
            .get_opt("gizmos.example.com")
            .await
            .unwrap()
            .is_none()
    );
}
