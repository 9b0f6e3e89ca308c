//! A mock server on a real port.

mod gzip;
mod reading;
mod wire;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::poll_fn;
use core::net::SocketAddr;
use core::task::Poll;
use core::time::Duration;
use std::io;

use http::header::{ACCEPT, ACCEPT_ENCODING};
use http::{Method, Request, Response, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::task::JoinSet;
use tower_service::Service as _;

use self::reading::Reading;
use self::wire::{Socket, Wire};
use crate::backend::{Backend, Compression};
use crate::mock::Mock;
use crate::service::{self, ServiceBody};
use crate::tokio_clock::TokioClock;

/// The largest head of a request over HTTP/1.1, in bytes.
const HEAD_LIMIT: usize = 64 * 1024;

/// Opens a port for a mock server. [`Serving::run`] must be awaited or spawned to serve it.
///
/// It supports HTTP/1.1, and HTTP/2 with prior knowledge, both without TLS. Bodies have gzip if the server's
/// [`Config`](crate::Config) enables it and the client accepts it. A body is taken from the server only as fast as the
/// client reads it. Faults apply: a refused or cut connection is a TCP reset over HTTP/1.1, and a reset of the stream over
/// HTTP/2, where the other requests of the connection go on.
///
/// ```
/// use informer_mock::{FakeServer, Mock, TokioClock, serve};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
/// let serving = serve(mock.clone(), "127.0.0.1:0").await?;
/// let address = serving.local_addr();
/// let server = tokio::spawn(serving.run());
/// // Clients connect to http://{address}; the test uses `mock`.
/// assert_ne!(address.port(), 0);
/// server.abort();
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Fails if the port cannot be opened.
pub async fn serve<B: Backend + Send + 'static>(
    mock: Mock<B, TokioClock>,
    address: impl ToSocketAddrs,
) -> io::Result<Serving<B>> {
    let listener = TcpListener::bind(address).await?;
    let local = listener.local_addr()?;
    Ok(Serving {
        listener,
        local,
        mock,
    })
}

/// An open port; see [`serve`].
#[derive(Debug)]
pub struct Serving<B> {
    listener: TcpListener,
    local: SocketAddr,
    mock: Mock<B, TokioClock>,
}

impl<B: Backend + Send + 'static> Serving<B> {
    /// Returns the local address.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Serves requests for ever. Dropping the future closes the port and all connections.
    pub async fn run(self) {
        let mut connections = JoinSet::new();
        loop {
            match accept(&self.listener, &mut connections).await {
                Ok(stream) => {
                    connections.spawn(connection(self.mock.clone(), stream));
                }
                // Out of file handles, or the client has disconnected already.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }
}

/// Waits for a client, and removes connections that have ended.
async fn accept(listener: &TcpListener, connections: &mut JoinSet<()>) -> io::Result<TcpStream> {
    poll_fn(|context| {
        while let Poll::Ready(Some(_)) = connections.poll_join_next(context) {}
        listener.poll_accept(context)
    })
    .await
    .map(|(stream, _)| stream)
}

async fn connection<B: Backend + Send + 'static>(mock: Mock<B, TokioClock>, stream: TcpStream) {
    // Without it the connection is only slower.
    let _ = stream.set_nodelay(true);
    let wire = Arc::new(Wire::default());
    let socket = TokioIo::new(Socket::new(stream, Arc::clone(&wire)));
    let mut server = Builder::new(TokioExecutor::new());
    server
        .http1()
        .auto_date_header(false)
        .title_case_headers(true)
        .max_buf_size(HEAD_LIMIT);
    server.http2().auto_date_header(false);
    let service = service_fn(|request| answer(mock.clone(), Arc::clone(&wire), request));
    // The error is a fault, or a client that has disconnected. Both are in the log of requests.
    let _ = server.serve_connection(socket, service).await;
}

async fn answer<B: Backend + Send + 'static>(
    mock: Mock<B, TokioClock>,
    wire: Arc<Wire>,
    request: Request<Incoming>,
) -> io::Result<Response<ServiceBody>> {
    if request.method() != Method::GET {
        return mock.service().call(request).await;
    }
    let target = service::target(request.uri());
    let exchange = mock.open(target, &service::header(request.headers(), ACCEPT));
    // Like the API server, it looks for the word only and ignores weights.
    let gzip = service::header(request.headers(), ACCEPT_ENCODING)
        .split(',')
        .any(|coding| coding.trim() == "gzip");
    let compression = match gzip {
        true => exchange.compression(target),
        false => Compression::None,
    };
    let mut reading = Reading::new(exchange, wire, request.version() == Version::HTTP_2);
    let head = reading
        .head(compression)
        .await
        .map_err(service::of_system)?;
    service::response(&head, ServiceBody::reading(Box::new(reading)))
}
