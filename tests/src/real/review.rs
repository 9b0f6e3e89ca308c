//! A review server: it answers token reviews and access reviews by rules that can be changed while it runs.
//!
//! An API server uses it if its `--authentication-kubeconfig` and `--authorization-kubeconfig` name it. Every client
//! may change the rules: it is meant for tests, on a local port.
//!
//! - `PUT /tokens/TOKEN` with `{"user": …, "groups": […]}` makes a token valid for that user; `null` revokes it.
//! - `PUT /users/USER` with `{"verbs": […]}` permits a user these verbs on every resource; `*` means all verbs.
//!
//! Users without a rule may do nothing.

use core::convert::Infallible;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// The rules; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Rules(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// Token to the user of its TokenReview.
    tokens: HashMap<String, Value>,
    /// User to permitted verbs.
    users: HashMap<String, Vec<String>>,
}

/// Answers forever.
///
/// # Errors
/// Fails if the listener does.
pub async fn serve(
    listener: TcpListener,
    tls: TlsAcceptor,
    rules: Rules,
) -> std::io::Result<Infallible> {
    loop {
        let (stream, _) = listener.accept().await?;
        let (tls, rules) = (tls.clone(), rules.clone());
        tokio::spawn(async move {
            // A client that fails the handshake or leaves is ignored.
            let Ok(stream) = tls.accept(stream).await else {
                return;
            };
            let service = service_fn(|request| answer(&rules, request));
            let http = hyper::server::conn::http1::Builder::new();
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    rules: &Rules,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let (status, answer) = match serde_json::from_slice(&body) {
        Ok(body) => rules.answer(&head.method, head.uri.path(), body),
        Err(error) => (
            StatusCode::BAD_REQUEST,
            json!({ "error": error.to_string() }),
        ),
    };
    let mut response = Response::new(Full::new(Bytes::from(answer.to_string())));
    *response.status_mut() = status;
    let kind = http::HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, kind);
    Ok(response)
}

impl Rules {
    fn answer(&self, method: &Method, path: &str, mut body: Value) -> (StatusCode, Value) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let review = path.rsplit('/').next().unwrap_or_default();
        match (method.as_str(), review) {
            ("POST", "tokenreviews") => {
                body["status"] = inner.token(&body["spec"]);
                (StatusCode::CREATED, body)
            }
            ("POST", "subjectaccessreviews") => {
                body["status"] = inner.access(&body["spec"]);
                (StatusCode::CREATED, body)
            }
            ("PUT", name) if path.starts_with("/tokens/") => {
                if body.is_null() {
                    inner.tokens.remove(name);
                } else {
                    inner.tokens.insert(name.to_owned(), body);
                }
                (StatusCode::OK, Value::Null)
            }
            ("PUT", name) if path.starts_with("/users/") => {
                let verbs = body["verbs"]
                    .as_array()
                    .map(Vec::as_slice)
                    .unwrap_or_default();
                let verbs = verbs
                    .iter()
                    .filter_map(|verb| Some(verb.as_str()?.to_owned()));
                inner.users.insert(name.to_owned(), verbs.collect());
                (StatusCode::OK, Value::Null)
            }
            _ => (
                StatusCode::NOT_FOUND,
                json!({ "error": format!("{method} {path}") }),
            ),
        }
    }
}

impl Inner {
    fn token(&self, spec: &Value) -> Value {
        let token = spec["token"].as_str().unwrap_or_default();
        match self.tokens.get(token) {
            None => json!({ "authenticated": false }),
            Some(user) => json!({
                "authenticated": true,
                "user": { "username": user["user"], "uid": user["user"], "groups": user["groups"] },
            }),
        }
    }

    fn access(&self, spec: &Value) -> Value {
        let user = spec["user"].as_str().unwrap_or_default();
        let verb = spec["resourceAttributes"]["verb"]
            .as_str()
            .unwrap_or_default();
        let verbs = self.users.get(user).map(Vec::as_slice).unwrap_or_default();
        let allowed = verbs
            .iter()
            .any(|allowed| allowed == verb || allowed == "*");
        json!({ "allowed": allowed, "reason": if allowed { "" } else { "no rule allows it" } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(rules: &Rules, method: &Method, path: &str, body: Value) -> (u16, Value) {
        let (status, answer) = rules.answer(method, path, body);
        (status.as_u16(), answer)
    }

    #[test]
    fn a_token_is_somebody_until_it_is_revoked() {
        const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
        let rules = Rules::default();
        let review = || {
            let body = json!({ "kind": "TokenReview", "spec": { "token": "t" } });
            let (status, answer) = ask(&rules, &Method::POST, REVIEWS, body);
            assert_eq!((status, &answer["kind"]), (201, &json!("TokenReview")));
            answer["status"].clone()
        };
        assert_eq!(review()["authenticated"], false);
        let user = json!({ "user": "u", "groups": ["g"] });
        assert_eq!(ask(&rules, &Method::PUT, "/tokens/t", user).0, 200);
        let status = review();
        assert_eq!(status["authenticated"], true);
        assert_eq!(
            (&status["user"]["username"], &status["user"]["groups"][0]),
            (&json!("u"), &json!("g"))
        );
        assert_eq!(ask(&rules, &Method::PUT, "/tokens/t", Value::Null).0, 200);
        assert_eq!(review()["authenticated"], false);
    }

    #[test]
    fn a_user_may_do_what_the_rule_says() {
        let rules = Rules::default();
        let may = |verb: &str| {
            let spec = json!({ "user": "u", "resourceAttributes": { "verb": verb } });
            let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
            ask(&rules, &Method::POST, path, json!({ "spec": spec })).1["status"]["allowed"].clone()
        };
        assert_eq!(may("list"), false);
        ask(
            &rules,
            &Method::PUT,
            "/users/u",
            json!({ "verbs": ["list"] }),
        );
        assert_eq!((may("list"), may("watch")), (json!(true), json!(false)));
        ask(&rules, &Method::PUT, "/users/u", json!({ "verbs": ["*"] }));
        assert_eq!(may("watch"), true);
        assert_eq!(ask(&rules, &Method::GET, "/users/u", Value::Null).0, 404);
    }
}
