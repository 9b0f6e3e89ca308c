//! Resources by name.

use std::sync::{Arc, Mutex};

use informer_mock::{Value, json};
use informer_tokio::discovery::discover;
use informer_tokio::transport::{
    BoxTransport, DynBody, DynTransport, FailureKind, Get, Head, Lost, async_trait,
};

/// Responds with a document for each path, and with 404 to others. A number is a status, and null is silence.
#[derive(Clone)]
struct Documents {
    of: Arc<Value>,
    requests: Arc<Mutex<Vec<String>>>,
}

struct Piece(Vec<u8>, bool);

#[async_trait]
impl DynTransport for Documents {
    async fn send(&mut self, get: Get<'_>) -> Result<(Head, Box<dyn DynBody>), Lost> {
        assert!(
            get.accept.starts_with(
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
            )
        );
        assert!(get.accept.ends_with(",application/json"));
        self.requests.lock().unwrap().push(get.target.to_owned());
        let (status, text) = match self.of.get(get.target) {
            Some(Value::Null) => core::future::pending().await,
            Some(Value::Number(status)) => (status.as_u64().unwrap() as u16, String::new()),
            Some(Value::String(error)) => return Err(Lost::new(FailureKind::Refused, error)),
            Some(document) => (200, document.to_string()),
            None => (404, String::new()),
        };
        Ok((Head::new(status), Box::new(Piece(text.into_bytes(), true))))
    }

    fn fork(&self) -> Box<dyn DynTransport> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl DynBody for Piece {
    async fn chunk(&mut self) -> Result<Option<&[u8]>, Lost> {
        Ok(core::mem::take(&mut self.1).then_some(&self.0[..]))
    }
}

/// Looks up a name, and returns the resource with its kind and scope, or the error, and the paths of the requests.
async fn look_up(of: &Value, name: &str) -> (String, Vec<String>) {
    let server = Documents {
        of: Arc::new(of.clone()),
        requests: Arc::default(),
    };
    let found = discover(&BoxTransport::new(server.clone()), name).await;
    let text = match found {
        Ok(found) => {
            let found = found.as_ref();
            let scope = if found.namespaced.unwrap() {
                "namespaced"
            } else {
                "cluster"
            };
            format!("{found} {} {scope}", found.kind.unwrap())
        }
        Err(error) => error.to_string(),
    };
    (text, core::mem::take(&mut *server.requests.lock().unwrap()))
}

const ALL: [&str; 3] = ["get", "list", "watch"];

/// The groups of a small cluster in the aggregated form.
fn aggregated() -> Value {
    let resource = |plural: &str, kind: &str, short: &str, scope: &str, verbs: &[&str]| {
        json!({ "resource": plural, "singularResource": kind.to_lowercase(), "shortNames": [short], "verbs": verbs,
                "responseKind": { "group": "", "version": "", "kind": kind }, "scope": scope })
    };
    json!({
        "/api": { "kind": "APIGroupDiscoveryList", "items": [{ "metadata": {}, "versions": [
            { "version": "v1", "freshness": "Current", "resources": [
                resource("pods", "Pod", "po", "Namespaced", &ALL), resource("nodes", "Node", "no", "Cluster", &ALL),
                resource("bindings", "Binding", "", "Namespaced", &["create"]),
            ] },
        ] }] },
        "/apis": { "kind": "APIGroupDiscoveryList", "items": [
            { "metadata": { "name": "apps" }, "versions": [
                { "version": "v1", "freshness": "Current", "resources": [
                    resource("deployments", "Deployment", "deploy", "Namespaced", &ALL),
                ] },
                { "version": "v1beta1", "freshness": "Current", "resources": [
                    resource("deployments", "Deployment", "deploy", "Namespaced", &ALL),
                    resource("scales", "Scale", "", "Namespaced", &ALL),
                ] },
            ] },
            { "metadata": { "name": "example.com" }, "versions": [
                { "version": "v2", "freshness": "Current", "resources": [resource("pods", "Pod", "", "Cluster", &ALL)] },
            ] },
        ] },
    })
}

/// The same in the older form, in which a version that is preferred need not be the first one.
fn older() -> Value {
    let resource = |plural: &str, kind: &str, short: &str, namespaced: bool, verbs: &[&str]| {
        json!({ "name": plural, "singularName": kind.to_lowercase(), "shortNames": [short], "verbs": verbs,
                "kind": kind, "namespaced": namespaced })
    };
    let deployments = resource("deployments", "Deployment", "deploy", true, &ALL);
    json!({
        "/api": { "kind": "APIVersions", "versions": ["v1"] },
        "/api/v1": { "resources": [
            resource("pods", "Pod", "po", true, &ALL), resource("pods/status", "Pod", "", true, &ALL),
            resource("nodes", "Node", "no", false, &ALL), resource("bindings", "Binding", "", true, &["create"]),
        ] },
        "/apis": { "kind": "APIGroupList", "groups": [
            {
                "name": "apps", "versions": [{ "version": "v1beta1" }, { "version": "v1" }],
                "preferredVersion": { "version": "v1" },
            },
            { "name": "example.com", "versions": [{ "version": "v2" }], "preferredVersion": { "version": "v2" } },
        ] },
        "/apis/apps/v1": { "resources": [deployments] },
        "/apis/apps/v1beta1": { "resources": [deployments, resource("scales", "Scale", "", true, &ALL)] },
        "/apis/example.com/v2": { "resources": [resource("pods", "Pod", "", false, &ALL)] },
    })
}

#[tokio::test]
async fn each_name_of_kubectl_is_found_in_both_forms_of_discovery() {
    for (name, expected) in [
        ("po", "pods.v1 Pod namespaced"),
        ("Pod", "pods.v1 Pod namespaced"),
        ("pods.v1", "pods.v1 Pod namespaced"),
        ("node", "nodes.v1 Node cluster"),
        ("deploy", "deployments.v1.apps Deployment namespaced"),
        (
            "deployment.apps",
            "deployments.v1.apps Deployment namespaced",
        ),
        (
            "deployment.v1beta1.apps",
            "deployments.v1beta1.apps Deployment namespaced",
        ),
        ("scales", "scales.v1beta1.apps Scale namespaced"),
        ("pods.example.com", "pods.v2.example.com Pod cluster"),
        // A part of the group is sufficient.
        ("pods.exam", "pods.v2.example.com Pod cluster"),
        ("bindings", "'bindings': bindings cannot be watched"),
        (
            "pods/status",
            "'pods/status': the server has no such resource",
        ),
        ("unknown", "'unknown': the server has no such resource"),
        ("pods.com", "'pods.com': the server has no such resource"),
    ] {
        assert_eq!(look_up(&older(), name).await.0, expected, "{name}");
        let (found, requests) = look_up(&aggregated(), name).await;
        assert_eq!(found, expected, "{name}");
        assert_eq!(requests, ["/api", "/apis"], "{name}");
    }
}

/// What a group has that does not answer is unknown: others are searched, and an error says that it is incomplete. In the
/// aggregated form such a group is stale, and is asked again.
#[tokio::test(start_paused = true)]
async fn a_group_that_does_not_answer_is_not_taken_for_empty() {
    for answer in [
        json!(503),
        json!(403),
        json!("refused"),
        json!(null),
        json!({ "resources": 1 }),
    ] {
        let mut of_older = older();
        of_older["/apis/apps/v1"] = answer.clone();
        let mut of_aggregated = aggregated();
        of_aggregated["/apis"]["items"][0]["versions"][0]["freshness"] = "Stale".into();
        of_aggregated["/apis/apps/v1"] = answer;
        for of in [of_older, of_aggregated] {
            let (found, requests) = look_up(&of, "pods.example.com").await;
            assert_eq!(found, "pods.v2.example.com Pod cluster");
            assert!(
                !requests.contains(&"/apis/apps/v1".to_owned()),
                "{requests:?}"
            );
            assert_eq!(
                look_up(&of, "scales").await.0,
                "scales.v1beta1.apps Scale namespaced"
            );
            let (error, _) = look_up(&of, "unknown").await;
            let expected = "'unknown': the server has no such resource; its discovery is incomplete: /apis/apps/v1: ";
            assert!(error.starts_with(expected), "{error}");
        }
    }
    // It may have come back since.
    let mut back = aggregated();
    back["/apis"]["items"][0]["versions"][0]["freshness"] = "Stale".into();
    back["/apis/apps/v1"] = older()["/apis/apps/v1"].clone();
    assert_eq!(
        look_up(&back, "deploy").await.0,
        "deployments.v1.apps Deployment namespaced"
    );
}

/// Without the groups nothing is known. A guess could be another resource of the same name.
#[tokio::test(start_paused = true)]
async fn groups_that_cannot_be_read_are_an_error() {
    for path in ["/api", "/apis"] {
        for (answer, text) in [
            (json!(401), "rejects the credentials"),
            (json!(403), "`system:discovery`"),
            (json!(500), "responds with 500"),
            (json!(null), "no response within 60s"),
            (json!("gone"), "gone"),
        ] {
            let mut of = aggregated();
            of[path] = answer;
            let (error, _) = look_up(&of, "pods").await;
            assert!(
                error.starts_with(&format!("{path}: ")) && error.contains(text),
                "{error}"
            );
        }
    }
}

/// A server for custom resources alone lists no groups.
#[tokio::test]
async fn a_server_without_an_index_of_groups_is_asked_for_the_named_group() {
    let of = json!({
        "/apis/apiextensions.k8s.io": { "name": "apiextensions.k8s.io", "versions": [{ "version": "v1" }] },
        "/apis/apiextensions.k8s.io/v1": { "resources": [
            { "name": "customresourcedefinitions", "kind": "CustomResourceDefinition", "shortNames": ["crd"], "verbs": ALL },
        ] },
        "/apis/example.com": { "name": "example.com", "versions": [{ "version": "v1" }] },
        "/apis/example.com/v1": { "resources": [
            { "name": "widgets", "kind": "Widget", "namespaced": true, "verbs": ALL },
        ] },
    });
    let definitions =
        "customresourcedefinitions.v1.apiextensions.k8s.io CustomResourceDefinition cluster";
    assert_eq!(look_up(&of, "crd").await.0, definitions);
    for name in ["widget.example.com", "Widgets.v1.example.com"] {
        let (found, _) = look_up(&of, name).await;
        assert_eq!(found, "widgets.v1.example.com Widget namespaced", "{name}");
    }
    let (error, requests) = look_up(&of, "widgets.example.com/../../api").await;
    assert!(
        error.ends_with("the server has no such resource"),
        "{error}"
    );
    assert_eq!(requests, ["/api", "/apis"], "no path is made of it");
}
