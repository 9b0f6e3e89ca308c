//! Checks of rights, against a service that grants some of them.

use core::convert::Infallible;
use core::future::{Ready, ready};
use core::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use informer_mock::json;
use informer_tokio::rights::{Rights, RightsError};
use informer_tokio::{Informer, Raw, Resource};
use serde_json::Value;

use crate::support::{PODS, server};

/// Answers a review by its verb: `watch` is not granted, and `patch` cannot be evaluated.
#[derive(Clone)]
struct Reviews {
    status: u16,
}

impl tower_service::Service<Request<Full<Bytes>>> for Reviews {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let what = format!("{} {}", request.method(), request.uri());
        let reviews = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        assert_eq!(what, reviews);
        let collected = futures_util::FutureExt::now_or_never(request.into_body().collect());
        let body = collected.unwrap().unwrap().to_bytes();
        let review: Value = serde_json::from_slice(&body).unwrap();
        let wanted = &review["spec"]["resourceAttributes"];
        let status = match (wanted["verb"].as_str(), wanted["subresource"].as_str()) {
            (Some("watch"), _) | (_, Some("status")) => json!({ "allowed": false }),
            (Some("patch"), _) => json!({ "allowed": false, "evaluationError": "no webhook" }),
            (Some("get"), _) => json!({}),
            _ => json!({ "allowed": true }),
        };
        let body = json!({ "status": status }).to_string();
        let response = Response::builder().status(self.status);
        ready(Ok(response.body(Full::from(body)).unwrap()))
    }
}

async fn check(rights: &Rights, status: u16) -> Result<(), RightsError> {
    rights.check(&mut Reviews { status }).await
}

#[tokio::test]
async fn all_missing_rights_are_named_at_once() {
    let pods = Informer::<Raw>::builder_for(&server().transport(), PODS);
    let pods = pods.namespaces(["prod", "test"]).spawn();
    let webs = Resource::new("example.com", "v1", "webs");
    let rights = Rights::new()
        .informer(&pods)
        .verbs(webs, &["create"])
        .subresource(webs, "status", &["update", "patch"]);
    let error = check(&rights, 201).await.unwrap_err();
    let rule = |namespace: &str| {
        format!(
            "`watch` on `pods` in the namespace `{namespace}` (a Role with apiGroups: [\"\"], resources: [\"pods\"], \
             verbs: [\"watch\"])"
        )
    };
    let status = "`update`, `patch` on `webs.example.com/status` in all namespaces (a ClusterRole with apiGroups: \
                  [\"example.com\"], resources: [\"webs/status\"], verbs: [\"update\", \"patch\"])";
    assert_eq!(
        error.to_string(),
        format!(
            "rights are missing: {}; {}; {status}",
            rule("prod"),
            rule("test")
        )
    );
    check(&Rights::new().verbs(webs, &["create"]), 201)
        .await
        .unwrap();
}

/// What is not known is no missing right.
#[tokio::test]
async fn a_right_that_cannot_be_checked_is_not_missing() {
    let pods = |verb| Rights::new().verbs(PODS, &[verb]);
    for (verb, status, why) in [
        ("list", 403, "the server responds with 403"),
        ("patch", 201, "no webhook"),
        ("get", 201, "the response is no SelfSubjectAccessReview"),
    ] {
        let error = check(&pods(verb), status).await.unwrap_err();
        assert!(matches!(error, RightsError::Unknown(_)));
        assert!(error.to_string().contains(why), "{error}");
    }
    // One that is missing is said in any case.
    let both = Rights::new().verbs(PODS, &["watch"]).events("prod");
    let error = check(&both, 201).await.unwrap_err();
    assert!(matches!(error, RightsError::Missing(missing) if missing.len() == 1));
}
