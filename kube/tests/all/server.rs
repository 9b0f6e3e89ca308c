//! The mock as the service of a `kube::Client`.

use std::io;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use informer_mock::{Backend, Body as _, FakeServer, Get, Mock, TokioClock, Transport as _, Write};
use informer_tokio::transport::{FailureKind, Timer as _, TransportError as _};
use kube::Client;
use kube::client::Body;
use tower::BoxError;

pub(crate) type Server = Mock<FakeServer, TokioClock>;
type Answer = Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError>;

pub(crate) fn server() -> Server {
    Mock::with_clock(FakeServer::new(1), TokioClock::new())
}

/// Runs everything that is ready.
pub(crate) async fn settle() {
    tokio::time::sleep(core::time::Duration::from_millis(10)).await;
}

pub(crate) fn client<B: Backend + Send + 'static>(mock: &Mock<B, TokioClock>) -> Client {
    let mock = mock.clone();
    let service = tower::service_fn(move |request| {
        let mock = mock.clone();
        async move { answer(&mock, request).await }
    });
    Client::new(service, "default")
}

async fn answer<B: Backend + Send + 'static>(
    mock: &Mock<B, TokioClock>,
    request: Request<Body>,
) -> Answer {
    let (parts, body) = request.into_parts();
    let target = parts.uri.path_and_query().unwrap().as_str();
    let header = |name| {
        parts
            .headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    };
    if parts.method == "GET" {
        return read(mock, Get::new(target).accept(header("accept"))).await;
    }
    let write = Write {
        method: parts.method.as_str(),
        target,
        content_type: header("content-type"),
        body: &body.collect().await?.to_bytes(),
    };
    let now = mock.clock().now();
    let answer = mock.with(|server| server.handle_write(now, write));
    let (status, body) = answer.expect("the server accepts writes");
    let body = Full::from(body).map_err(BoxError::from).boxed_unsync();
    Ok(Response::builder().status(status).body(body)?)
}

async fn read<B: Backend + Send + 'static>(mock: &Mock<B, TokioClock>, get: Get<'_>) -> Answer {
    let (head, body) = mock
        .transport()
        .send(get)
        .await
        .map_err(|error| of_system(error.kind()))?;
    let chunks = futures_util::stream::unfold(body, async |mut body| {
        let chunk = match body.chunk().await {
            Ok(chunk) => Ok(Frame::data(Bytes::copy_from_slice(chunk?))),
            Err(error) => Err(of_system(error.kind())),
        };
        Some((chunk, body))
    });
    let mut response = Response::builder().status(head.status);
    if let Some(after) = head.retry_after {
        response = response.header("retry-after", after.as_secs());
    }
    Ok(response.body(StreamBody::new(chunks).boxed_unsync())?)
}

/// The system's error that a client on a socket would get.
fn of_system(kind: FailureKind) -> BoxError {
    Box::new(io::Error::from(match kind {
        FailureKind::Refused => io::ErrorKind::ConnectionRefused,
        FailureKind::Reset => io::ErrorKind::ConnectionReset,
        FailureKind::TimedOut => io::ErrorKind::TimedOut,
        FailureKind::Tls | FailureKind::Dns | FailureKind::Other | _ => io::ErrorKind::Other,
    }))
}
