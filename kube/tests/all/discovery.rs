//! Resources by name.

use http::{Request, Response};
use informer_kube::discover;
use informer_mock::json;
use kube::Client;
use kube::client::Body;
use tower::BoxError;

/// A server with the API groups of a small cluster.
fn client() -> Client {
    let service = tower::service_fn(async |request: Request<Body>| {
        let resource = |plural: &str, kind: &str, short: &[&str], verbs: &[&str]| {
            json!({ "resource": plural, "singularResource": kind.to_lowercase(), "shortNames": short, "verbs": verbs,
                    "responseKind": { "group": "", "version": "v1", "kind": kind }, "scope": "Namespaced" })
        };
        let all = ["get", "list", "watch"];
        let items = match request.uri().path() {
            "/api" => json!([{ "versions": [{ "version": "v1", "resources": [
                resource("pods", "Pod", &["po"], &all), resource("bindings", "Binding", &[], &["create"]),
                resource("componentstatuses", "ComponentStatus", &["cs"], &["get", "list"]),
            ] }] }]),
            _ => json!([
                { "metadata": { "name": "apps" }, "versions": [
                    { "version": "v1", "resources": [resource("deployments", "Deployment", &["deploy"], &all)] },
                    { "version": "v1beta1", "resources": [
                        resource("deployments", "Deployment", &["deploy"], &all), resource("scales", "Scale", &[], &all),
                    ] },
                ] },
                { "metadata": { "name": "example.com" }, "versions": [
                    { "version": "v1", "resources": [resource("pods", "Pod", &[], &all)] },
                ] },
            ]),
        };
        let list = json!({ "kind": "APIGroupDiscoveryList", "items": items });
        Ok::<_, BoxError>(Response::new(Body::from(list.to_string().into_bytes())))
    });
    Client::new(service, "default")
}

#[tokio::test]
async fn each_name_of_kubectl_is_found() {
    let client = client();
    for (name, expected) in [
        ("po", "v1 pods Pod"),
        ("Pod", "v1 pods Pod"),
        ("pods", "v1 pods Pod"),
        ("deploy", "apps/v1 deployments Deployment"),
        ("deployment.apps", "apps/v1 deployments Deployment"),
        ("scales", "apps/v1beta1 scales Scale"),
        ("pods.example.com", "example.com/v1 pods Pod"),
    ] {
        let found = discover(&client, name).await.unwrap();
        assert_eq!(
            format!("{} {} {}", found.api_version, found.plural, found.kind),
            expected,
            "{name}"
        );
    }
    for name in ["bindings", "cs", "unknown", "pods.com", "pods.other.com"] {
        let error = discover(&client, name).await.unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
}
