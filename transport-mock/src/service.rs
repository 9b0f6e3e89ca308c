//! The mock as a service over HTTP requests, as `kube::Client` takes one.

use alloc::boxed::Box;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::{Context, Poll, ready};
use std::io;

use bytes::{Buf as _, Bytes};
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use informer_core::{Timer as _, transport::FailureKind};

use crate::backend::{Backend, ResponseHead, Write};
use crate::mock::{Exchange, Mock};
use crate::status::Status;
use crate::tokio_clock::TokioClock;

/// The largest body of a request, in bytes, as on the API server.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// A future in a box.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// A part of a body; `None` is its end.
pub type Part = Result<Option<Vec<u8>>, FailureKind>;
/// The head of a response and the rest of it.
pub type Opened = Result<(ResponseHead, Source), FailureKind>;
/// A body that is read from a server.
pub type Source = Box<dyn Chunks>;

/// A mock server as a service over HTTP requests, created by [`Mock::service`]. `kube::Client::new` takes it.
#[derive(Clone)]
pub struct MockService {
    server: Arc<dyn Connect>,
}

/// The body of a response of a [`MockService`].
pub struct ServiceBody {
    state: State,
}

/// A server that a [`MockService`] sends its requests to.
pub trait Connect: Send + Sync {
    /// Sends a GET request with its path and query, and its `Accept` header.
    fn read<'a>(&'a self, target: &'a str, accept: &'a str) -> Boxed<'a, Opened>;
    /// Sends a write. Returns the status and the body of the response.
    fn write<'a>(&'a self, write: Write<'a>) -> Boxed<'a, Result<(u16, Vec<u8>), FailureKind>>;
}

/// The rest of a body.
pub trait Chunks: Send {
    /// Waits for the next part.
    fn chunk(&mut self) -> Boxed<'_, Part>;
}

enum State {
    Whole(Bytes),
    Reading(Boxed<'static, (Source, Part)>),
    Ended,
}

impl<B: Backend + Send + 'static> Mock<B, TokioClock> {
    /// Returns the server as a service over HTTP requests.
    ///
    /// ```
    /// use informer_mock::{FakeServer, Mock, TokioClock, json};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
    /// mock.create("pods", json!({ "metadata": { "name": "a" } }))?;
    ///
    /// // A program with kube-rs: kube::Client::new(mock.service(), "default").
    /// let request = http::Request::get("/api/v1/namespaces/default/pods/a").body(String::new())?;
    /// let response = tower_service::Service::call(&mut mock.service(), request).await?;
    /// assert_eq!(response.status(), 200);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn service(&self) -> MockService {
        MockService::new(self.clone())
    }
}

impl MockService {
    /// Creates a service over a server.
    #[must_use]
    pub fn new(server: impl Connect + 'static) -> Self {
        Self {
            server: Arc::new(server),
        }
    }

    async fn answer(
        self,
        parts: http::request::Parts,
        body: Option<Vec<u8>>,
    ) -> io::Result<Response<ServiceBody>> {
        let target = target(&parts.uri);
        if parts.method == Method::GET {
            let read = self
                .server
                .read(target, &header(&parts.headers, ACCEPT))
                .await;
            let (head, source) = read.map_err(of_system)?;
            return response(&head, ServiceBody::reading(source));
        }
        let (status, body) = if let Some(body) = body {
            let write = Write {
                method: parts.method.as_str(),
                target,
                content_type: &header(&parts.headers, CONTENT_TYPE),
                body: &body,
            };
            self.server.write(write).await.map_err(of_system)?
        } else {
            let status = Status::body_too_large(BODY_LIMIT);
            (status.code, status.json())
        };
        let mut head = ResponseHead::new(status);
        head.set_header("Content-Type", "application/json");
        if let Some(seconds) = Status::retry_after_in(status, &body) {
            head.set_header("Retry-After", &seconds.to_string());
        }
        let state = State::Whole(body.into());
        response(&head, ServiceBody { state })
    }
}

impl<B> tower_service::Service<Request<B>> for MockService
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn core::error::Error + Send + Sync>>,
{
    type Response = Response<ServiceBody>;
    type Error = io::Error;
    type Future = Boxed<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = collect(body).await.map_err(io::Error::other)?;
            service.answer(parts, body).await
        })
    }
}

/// Reads a whole body; `None` if it is larger than the API server accepts.
async fn collect<B: Body>(body: B) -> Result<Option<Vec<u8>>, B::Error> {
    let mut body = pin!(body);
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        if let Ok(mut data) = frame?.into_data() {
            if bytes.len() + data.remaining() > BODY_LIMIT {
                return Ok(None);
            }
            while data.has_remaining() {
                let part = data.chunk();
                bytes.extend_from_slice(part);
                let length = part.len();
                data.advance(length);
            }
        }
    }
    Ok(Some(bytes))
}

/// Returns the path and query of a request.
pub(crate) fn target(uri: &Uri) -> &str {
    uri.path_and_query().map_or("/", |target| target.as_str())
}

/// Returns the values of a header, joined by commas.
pub(crate) fn header(headers: &HeaderMap, name: HeaderName) -> String {
    let values = headers.get_all(name).into_iter();
    let values: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
    values.join(",")
}

/// Creates a response. Headers of a fault that are no headers of HTTP are left out.
pub(crate) fn response(
    head: &ResponseHead,
    body: ServiceBody,
) -> io::Result<Response<ServiceBody>> {
    let mut response = Response::builder().status(head.status);
    for (name, value) in &head.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response = response.header(name, value);
        }
    }
    if let Some(length) = head.content_length {
        response = response.header(CONTENT_LENGTH, length);
    }
    response.body(body).map_err(io::Error::other)
}

impl ServiceBody {
    /// A body that is read while the client takes it.
    pub(crate) fn reading(source: Source) -> Self {
        Self {
            state: State::read(source),
        }
    }
}

impl State {
    fn read(mut source: Source) -> Self {
        Self::Reading(Box::pin(async move {
            let chunk = source.chunk().await;
            (source, chunk)
        }))
    }
}

impl Body for ServiceBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let state = &mut self.get_mut().state;
        let (source, chunk) = match state {
            State::Ended => return Poll::Ready(None),
            State::Whole(bytes) => {
                let bytes = core::mem::take(bytes);
                *state = State::Ended;
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            State::Reading(reading) => ready!(reading.as_mut().poll(context)),
        };
        *state = State::Ended;
        Poll::Ready(match chunk {
            Ok(Some(bytes)) => {
                *state = State::read(source);
                Some(Ok(Frame::data(bytes.into())))
            }
            Ok(None) => None,
            Err(kind) => Some(Err(of_system(kind))),
        })
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            State::Reading(_) => SizeHint::default(),
            State::Ended => SizeHint::with_exact(0),
        }
    }
}

impl<B: Backend + Send + 'static> Connect for Mock<B, TokioClock> {
    fn read<'a>(&'a self, target: &'a str, accept: &'a str) -> Boxed<'a, Opened> {
        Box::pin(async move {
            let mut exchange = self.open(target, accept);
            let head = exchange.head().await?;
            let source: Source = Box::new(exchange);
            Ok((head, source))
        })
    }

    fn write<'a>(&'a self, write: Write<'a>) -> Boxed<'a, Result<(u16, Vec<u8>), FailureKind>> {
        Box::pin(async move {
            let now = self.clock().now();
            let answer = self.with(|server| server.handle_write(now, write));
            Ok(answer.unwrap_or_else(|| {
                let status = Status::not_allowed();
                (status.code, status.json())
            }))
        })
    }
}

impl<B: Backend + Send> Chunks for Exchange<B, TokioClock> {
    fn chunk(&mut self) -> Boxed<'_, Part> {
        Box::pin(Self::chunk(self))
    }
}

/// The error that a client on a socket would get from the system.
pub(crate) fn of_system(kind: FailureKind) -> io::Error {
    io::Error::from(match kind {
        FailureKind::Refused => io::ErrorKind::ConnectionRefused,
        FailureKind::Reset => io::ErrorKind::ConnectionReset,
        FailureKind::TimedOut => io::ErrorKind::TimedOut,
        FailureKind::Request => io::ErrorKind::InvalidInput,
        FailureKind::Tls | FailureKind::Dns | FailureKind::Other | _ => io::ErrorKind::Other,
    })
}

impl fmt::Debug for MockService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockService").finish_non_exhaustive()
    }
}

impl fmt::Debug for ServiceBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceBody").finish_non_exhaustive()
    }
}
