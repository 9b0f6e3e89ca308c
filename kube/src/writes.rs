//! Records the writes that go through a `kube::Client`.

use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, PoisonError, RwLock};

use http::{Method, Request, Response, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use informer_core::Resource;
use informer_core::json::{Elements, as_str, value_at};
use informer_core::object::ExpectedState;
use informer_tokio::Key;
use informer_tokio::controller::WriteLog;
use kube_client::client::Body;
use kube_client::{Client, Error};
use tower_service::Service;

type Bytes = <Body as http_body::Body>::Data;

/// Returns a client that sends through another one, and records the answers to writes. The cluster is empty if there is
/// only one.
pub(crate) fn recording(
    client: Client,
    log: WriteLog,
    cluster: &str,
    subresources: Subresources,
) -> Client {
    let namespace = client.default_namespace().to_owned();
    let valid_until = *client.valid_until();
    let recorder = Recorder {
        client,
        log,
        cluster: cluster.into(),
        subresources,
    };
    Client::new(recorder, namespace).with_valid_until(valid_until)
}

/// The service of the client. Requests, errors and all other answers pass unchanged.
struct Recorder {
    client: Client,
    log: WriteLog,
    cluster: Arc<str>,
    subresources: Subresources,
}

impl Service<Request<Body>> for Recorder {
    type Response = Response<Answer>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (client, log) = (self.client.clone(), self.log.clone());
        let cluster = Arc::clone(&self.cluster);
        let subresources = Arc::clone(&self.subresources);
        Box::pin(async move {
            let write = Write::of(&request, cluster, &subresources);
            // Options of a deletion are in its body.
            let body = write.as_ref().and_then(|_| request.body().try_clone());
            let response = client.send(request).await?;
            let Some(write) = write.filter(|_| response.status().is_success()) else {
                return Ok(response.map(Answer::Passed));
            };
            let options = match body {
                Some(body) => body.collect_bytes().await?,
                None => Bytes::new(),
            };
            let (parts, body) = response.into_parts();
            let chunks = read(body).await;
            if write.hides_pod {
                write.record_hidden(&client, &log, &options).await;
            } else {
                write.record(&log, &options, &chunks);
            }
            Ok(Response::from_parts(parts, Answer::Read(chunks)))
        })
    }
}

type Chunks = VecDeque<Result<Bytes, Error>>;

async fn read(mut body: Body) -> Chunks {
    let mut chunks = Chunks::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) => chunks.push_back(Ok(data)),
            // No answer of the API has trailers.
            Ok(Err(_)) => {}
            Err(error) => {
                chunks.push_back(Err(error));
                break;
            }
        }
    }
    chunks
}

/// A response's body, which may have been read already.
pub(crate) enum Answer {
    Passed(Body),
    Read(Chunks),
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match &mut *self {
            Self::Passed(body) => Pin::new(body).poll_frame(cx),
            Self::Read(chunks) => {
                Poll::Ready(chunks.pop_front().map(|chunk| chunk.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Passed(body) => body.is_end_stream(),
            Self::Read(chunks) => chunks.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Passed(body) => body.size_hint(),
            Self::Read(chunks) => {
                let chunks = chunks.iter().flatten();
                SizeHint::with_exact(chunks.map(|chunk| chunk.len() as u64).sum())
            }
        }
    }
}

/// The subresources through which an object is written.
const WRITTEN: [&str; 8] = [
    "status",
    "scale",
    "binding",
    "eviction",
    "ephemeralcontainers",
    "resize",
    "finalize",
    "approval",
];

/// Further subresources that users name.
pub(crate) type Subresources = Arc<RwLock<BTreeSet<String>>>;

/// A request that writes: its path.
struct Write {
    cluster: Arc<str>,
    method: Method,
    group: String,
    version: String,
    plural: String,
    namespace: String,
    /// `None` for a collection.
    name: Option<String>,
    /// It is the eviction or the binding of a Pod, whose answer does not show the Pod.
    hides_pod: bool,
}

impl Write {
    /// Parses a request, unless it only reads, is a dry run, or does not write an object: a request through the proxy of the
    /// API server may be answered by a stream without an end.
    fn of(request: &Request<Body>, cluster: Arc<str>, also: &Subresources) -> Option<Self> {
        let method = request.method();
        if ![Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(method) {
            return None;
        }
        let query = request.uri().query().unwrap_or_default();
        if query.split('&').any(|pair| pair.starts_with("dryRun=")) {
            return None;
        }
        let mut segments = request.uri().path().trim_start_matches('/').split('/');
        let group = match segments.next()? {
            "api" => "",
            "apis" => segments.next()?,
            _ => return None,
        };
        let version = segments.next()?;
        let rest: Vec<&str> = segments.collect();
        let (namespace, plural, name, below) = match rest[..] {
            // Subresources of a Namespace itself.
            ["namespaces", name, sub @ ("status" | "finalize")] => {
                ("", "namespaces", Some(name), &[sub][..])
            }
            ["namespaces", namespace, plural] => (namespace, plural, None, &[][..]),
            ["namespaces", namespace, plural, name, ref below @ ..] => {
                (namespace, plural, Some(name), below)
            }
            [plural] => ("", plural, None, &[][..]),
            [plural, name, ref below @ ..] => ("", plural, Some(name), below),
            [] => return None,
        };
        let is_written = |name: &str| {
            let also = also.read().unwrap_or_else(PoisonError::into_inner);
            WRITTEN.contains(&name) || also.contains(name)
        };
        let hides_pod = match below {
            [] => false,
            [subresource] if is_written(subresource) => {
                let hides = ["eviction", "binding"].contains(subresource);
                hides && group.is_empty() && plural == "pods"
            }
            _ => return None,
        };
        Some(Self {
            cluster,
            hides_pod,
            method: method.clone(),
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            namespace: namespace.to_owned(),
            name: name.map(str::to_owned),
        })
    }

    fn record(&self, log: &WriteLog, options: &[u8], chunks: &Chunks) {
        let mut answer = Vec::new();
        for chunk in chunks {
            // Without the whole answer, the new state is unknown.
            let Ok(chunk) = chunk else { return };
            answer.extend_from_slice(chunk);
        }
        if self.method != Method::DELETE {
            self.record_object(log, &answer);
        } else if !has_items(options, "dryRun") {
            match &self.name {
                Some(_) => self.record_deletion(log, &answer),
                None => self.record_deletions(log, options, &answer),
            }
        }
    }

    /// Records an eviction or a binding. Its answer has neither a uid nor a version, so the Pod is read. If it no longer
    /// exists, the caches have to lose the one that they hold. If the read fails otherwise, nothing is known of the write.
    async fn record_hidden(&self, client: &Client, log: &WriteLog, sent: &[u8]) {
        let options = value_at(sent, &["deleteOptions"]).unwrap_or_default();
        let (Some(name), false) = (&self.name, has_items(options, "dryRun")) else {
            return;
        };
        let path = format!(
            "/api/{}/namespaces/{}/pods/{name}",
            self.version, self.namespace
        );
        let Ok(request) = Request::get(path).body(Body::empty()) else {
            return;
        };
        let Ok(answer) = client.send(request).await else {
            return;
        };
        let (parts, body) = answer.into_parts();
        match parts.status {
            StatusCode::OK => {
                if let Ok(pod) = body.collect_bytes().await {
                    self.record_object(log, &pod);
                }
            }
            StatusCode::NOT_FOUND => self.put(log, &[], ExpectedState::gone("", ""), None),
            _ => {}
        }
    }

    /// Records the answer to a POST, PUT or PATCH. Answers without a version, such as a `Status`, are not writes.
    fn record_object(&self, log: &WriteLog, answer: &[u8]) {
        let Some(version) = text(answer, &["metadata", "resourceVersion"]) else {
            return;
        };
        // An update that removes the last finalizer of a deleted object removes the object.
        let is_deleted = value_at(answer, &["metadata", "deletionTimestamp"]).is_some();
        let gone = if is_deleted && !self.is_terminating(answer) {
            ExpectedState::after_delete(answer)
        } else {
            None
        };
        let expected = gone.unwrap_or_else(|| ExpectedState::at_version(&version));
        // A Scale has the version of its object, but not its labels.
        let is_scale = text(answer, &["kind"]).is_some_and(|kind| kind == "Scale");
        self.put(log, answer, expected, (!is_scale).then_some(answer));
    }

    fn record_deletion(&self, log: &WriteLog, answer: &[u8]) {
        let is_object = text(answer, &["metadata", "uid"]).is_some();
        let expected = match text(answer, &["metadata", "resourceVersion"]) {
            Some(version) if self.is_terminating(answer) => {
                Some(ExpectedState::at_version(&version))
            }
            _ => ExpectedState::after_delete(answer),
        };
        if let Some(expected) = expected {
            self.put(log, answer, expected, is_object.then_some(answer));
        }
    }

    /// Records the deletion of a collection. The answer has the objects as they were before, so it does not show the
    /// version at which an object with finalizers or a grace period is marked.
    fn record_deletions(&self, log: &WriteLog, options: &[u8], answer: &[u8]) {
        let policy = text(options, &["propagationPolicy"]);
        if policy.is_some_and(|policy| policy != "Background") {
            return;
        }
        for item in value_at(answer, &["items"])
            .into_iter()
            .flat_map(Elements::new)
        {
            let is_placed =
                self.plural == "pods" && value_at(item, &["spec", "nodeName"]).is_some();
            let finalizers = value_at(item, &["metadata", "finalizers"]);
            let stays = finalizers.is_some_and(|list| Elements::new(list).next().is_some());
            if !is_placed && !stays && !self.is_terminating(item) {
                self.record_deletion(log, item);
            }
        }
    }

    /// Returns whether an object is a Namespace that its controller has yet to empty.
    fn is_terminating(&self, object: &[u8]) -> bool {
        self.group.is_empty()
            && self.plural == "namespaces"
            && value_at(object, &["spec"]).is_some_and(|spec| has_items(spec, "finalizers"))
    }

    fn put(
        &self,
        log: &WriteLog,
        answer: &[u8],
        expected: ExpectedState<Key>,
        object: Option<&[u8]>,
    ) {
        let name = match &self.name {
            Some(name) => name.clone(),
            // The server may have generated it.
            None => text(answer, &["metadata", "name"]).unwrap_or_default(),
        };
        let namespace = match self.namespace.as_str() {
            // A collection of all namespaces.
            "" => text(answer, &["metadata", "namespace"]).unwrap_or_default(),
            namespace => namespace.to_owned(),
        };
        let key = match (&*self.cluster, namespace.as_str()) {
            ("", "") => name,
            ("", namespace) => format!("{namespace}/{name}"),
            (cluster, namespace) => format!("{cluster}:{namespace}/{name}"),
        };
        let resource = Resource::new(&self.group, &self.version, &self.plural);
        log.record(&resource, &key, expected, object);
    }
}

fn text(json: &[u8], path: &[&str]) -> Option<String> {
    value_at(json, path)
        .and_then(as_str)
        .map(|text| text.to_string())
}

fn has_items(json: &[u8], member: &str) -> bool {
    value_at(json, &[member]).is_some_and(|list| Elements::new(list).next().is_some())
}
