//! Resources by name, through a client.

use http::{Request, Response};
use informer_kube::discover;
use informer_mock::json;
use kube::Client;
use kube::client::Body;
use tower::BoxError;

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
