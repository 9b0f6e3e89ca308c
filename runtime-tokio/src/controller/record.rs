//! Records the writes that go through a service.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;
use informer_core::Resource;
use informer_core::json::{Elements, as_str, value_at};
use informer_core::object::ExpectedState;
use tower_service::Service;

use super::writes::WriteLog;
use crate::cache::entry::Key;
use crate::requests::{BoxError, call};

/// A service that records the answers to writes in a [`WriteLog`], so that a controller with this log waits until its
/// caches show them. It wraps the service that sends the requests, such as `informer::transport::HyperTransport`.
///
/// Requests, errors and all other answers pass unchanged. An answer to a write is read whole before it is returned. The
/// deletion of a collection is known only for objects without finalizers and grace period. The answer to an eviction or a
/// binding does not contain the Pod, so the Pod is read after it. Without the right to `get` Pods, they are not known. Of the
/// requests for subresources, those for `status`, `scale`, `binding`, `eviction`, `ephemeralcontainers`, `resize`,
/// `finalize` and `approval` are writes; see [`WriteLog::add_subresource`].
///
/// ```
/// use bytes::Bytes;
/// use http::Request;
/// use informer_mock::{FakeServer, Mock, TokioClock, json};
/// use informer_tokio::controller::{RecordWrites, WriteLog};
/// use informer_tokio::requests::HttpService as _;
/// use informer_tokio::{Informer, Raw, Resource};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
/// mock.create("configmaps", json!({ "metadata": { "name": "web", "namespace": "prod" } }))?;
/// let maps = Resource::parse("configmaps")?.namespace("prod");
/// let informer = Informer::<Raw>::builder_for(&mock.transport(), maps).spawn();
/// informer.synced().await?;
///
/// let log = WriteLog::default();
/// log.attach(&informer);
/// let mut client = RecordWrites::new(mock.service(), &log);
/// client.exchange(Request::delete(maps.object_path("web").to_string()).body(Bytes::new())?).await?;
/// log.seen().await?;
/// assert!(informer.lister().is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RecordWrites<S> {
    service: S,
    log: WriteLog,
    /// It is empty if there is only one.
    cluster: Arc<str>,
}

impl<S> RecordWrites<S> {
    /// Wraps a service.
    #[must_use]
    pub fn new(service: S, log: &WriteLog) -> Self {
        Self {
            service,
            log: log.clone(),
            cluster: "".into(),
        }
    }

    /// Names the cluster of the service, for the keys of a [factory of clusters](crate::factory::Factory::of_clusters).
    #[must_use]
    pub fn cluster(mut self, name: &str) -> Self {
        self.cluster = name.into();
        self
    }
}

impl<S, B, R> Service<Request<B>> for RecordWrites<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + From<Bytes> + Send + 'static,
    R: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    type Response = Response<RecordedBody<R>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // The call waits for it.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut service, log) = (self.service.clone(), self.log.clone());
        let write = Write::of(&request, &self.cluster, &log);
        Box::pin(async move {
            let Some(write) = write else {
                let response = call(&mut service, request).await?;
                return Ok(response.map(|body| RecordedBody(Content::Passed(body))));
            };
            // Options of a deletion are in its body.
            let (head, body) = request.into_parts();
            let sent = body.collect().await.map_err(Into::into)?.to_bytes();
            let request = Request::from_parts(head, B::from(sent.clone()));
            let (head, body) = call(&mut service, request).await?.into_parts();
            if !head.status.is_success() {
                return Ok(Response::from_parts(
                    head,
                    RecordedBody(Content::Passed(body)),
                ));
            }
            let chunks = read(body).await;
            if write.hides_pod {
                write.record_hidden(&mut service, &log, &sent).await;
            } else {
                write.record(&log, &sent, &chunks);
            }
            Ok(Response::from_parts(
                head,
                RecordedBody(Content::Read(chunks)),
            ))
        })
    }
}

type Chunks = VecDeque<Result<Bytes, BoxError>>;

async fn read<R: HttpBody<Data = Bytes, Error: Into<BoxError>> + Unpin>(mut body: R) -> Chunks {
    let mut chunks = Chunks::new();
    while let Some(frame) = body.frame().await {
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) => chunks.push_back(Ok(data)),
            // No answer of the API has trailers.
            Ok(Err(_)) => {}
            Err(error) => {
                chunks.push_back(Err(error.into()));
                break;
            }
        }
    }
    chunks
}

/// The body of a response of [`RecordWrites`].
pub struct RecordedBody<R>(Content<R>);

enum Content<R> {
    Passed(R),
    Read(Chunks),
}

impl<R: HttpBody<Data = Bytes, Error: Into<BoxError>> + Unpin> HttpBody for RecordedBody<R> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Content::Passed(body) => {
                let frame = Pin::new(body).poll_frame(cx);
                frame.map(|frame| frame.map(|frame| frame.map_err(Into::into)))
            }
            Content::Read(chunks) => {
                Poll::Ready(chunks.pop_front().map(|chunk| chunk.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Passed(body) => body.is_end_stream(),
            Content::Read(chunks) => chunks.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Passed(body) => body.size_hint(),
            Content::Read(chunks) => {
                let chunks = chunks.iter().flatten();
                SizeHint::with_exact(chunks.map(|chunk| chunk.len() as u64).sum())
            }
        }
    }
}

impl<R> fmt::Debug for RecordedBody<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedBody").finish_non_exhaustive()
    }
}

impl<S> fmt::Debug for RecordWrites<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordWrites").finish_non_exhaustive()
    }
}

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
    subresource: Option<String>,
    /// It is the eviction or the binding of a Pod, whose answer does not show the Pod.
    hides_pod: bool,
}

impl Write {
    /// Parses a request, unless it only reads, is a dry run, or does not write an object: a request through the proxy of the
    /// API server may be answered by a stream without an end.
    fn of<B>(request: &Request<B>, cluster: &Arc<str>, log: &WriteLog) -> Option<Self> {
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
        let hides_pod = match below {
            [] => false,
            [subresource] if log.is_written_by(subresource) => {
                let hides = ["eviction", "binding"].contains(subresource);
                hides && group.is_empty() && plural == "pods"
            }
            _ => return None,
        };
        Some(Self {
            cluster: Arc::clone(cluster),
            hides_pod,
            method: method.clone(),
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            namespace: namespace.to_owned(),
            name: name.map(str::to_owned),
            subresource: below.first().map(|&subresource| subresource.to_owned()),
        })
    }

    fn record(&self, log: &WriteLog, sent: &[u8], chunks: &Chunks) {
        let mut answer = Vec::new();
        for chunk in chunks {
            // Without the whole answer, the new state is unknown.
            let Ok(chunk) = chunk else { return };
            answer.extend_from_slice(chunk);
        }
        if self.method != Method::DELETE {
            self.record_object(log, sent, &answer);
        } else if !has_items(sent, "dryRun") {
            match &self.name {
                Some(_) => self.record_deletion(log, &answer),
                None => self.record_deletions(log, sent, &answer),
            }
        }
    }

    /// Records an eviction or a binding. Its answer has neither a uid nor a version, so the Pod is read. If it no longer
    /// exists, the caches have to lose the one that they hold. If the read fails otherwise, nothing is known of the write.
    async fn record_hidden<S, B, R>(&self, service: &mut S, log: &WriteLog, sent: &[u8])
    where
        S: Service<Request<B>, Response = Response<R>, Error: Into<BoxError>>,
        B: From<Bytes>,
        R: HttpBody<Data = Bytes, Error: Into<BoxError>>,
    {
        let options = value_at(sent, &["deleteOptions"]).unwrap_or_default();
        let (Some(name), false) = (&self.name, has_items(options, "dryRun")) else {
            return;
        };
        let path = format!(
            "/api/{}/namespaces/{}/pods/{name}",
            self.version, self.namespace
        );
        let Ok(request) = Request::get(path).body(B::from(Bytes::new())) else {
            return;
        };
        let Ok(answer) = call(service, request).await else {
            return;
        };
        let (parts, body) = answer.into_parts();
        match parts.status {
            StatusCode::OK => {
                if let Ok(pod) = body.collect().await {
                    self.record_object(log, &[], &pod.to_bytes());
                }
            }
            StatusCode::NOT_FOUND => self.put(log, &[], ExpectedState::gone("", ""), None),
            _ => {}
        }
    }

    /// Records the answer to a POST, PUT or PATCH. Answers without a version, such as a `Status`, are not writes.
    fn record_object(&self, log: &WriteLog, sent: &[u8], answer: &[u8]) {
        let Some(version) = text(answer, &["metadata", "resourceVersion"]) else {
            return;
        };
        if let Some(subresource) = &self.subresource {
            let key = self.key(answer);
            log.note_own(&self.resource(), &key, subresource, sent, answer);
        }
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
        log.record(&self.resource(), &self.key(answer), expected, object);
    }

    fn resource(&self) -> Resource<'_> {
        Resource::new(&self.group, &self.version, &self.plural)
    }

    fn key(&self, answer: &[u8]) -> String {
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
        match (&*self.cluster, namespace.as_str()) {
            ("", "") => name,
            ("", namespace) => format!("{namespace}/{name}"),
            (cluster, namespace) => format!("{cluster}:{namespace}/{name}"),
        }
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
