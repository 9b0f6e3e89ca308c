//! One HTTP/1.1 connection and its driver.

use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use crate::stream::Stream;
use crate::tls::Version;

/// The most bytes per read. Larger reads are not faster.
const MOST_BYTES: usize = 128 << 10;
/// The least. The head of a response must fit.
const LEAST_BYTES: usize = 16 << 10;
/// The bytes that all connections may read at once. A connection keeps its read buffer, even while its watch is idle, so each of
/// many gets a small one.
const ALL_BYTES: usize = 1 << 20;

/// The number of open connections.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// Counts an open connection.
struct Counted;

impl Counted {
    /// Returns it with the size of the connection's reads.
    fn new() -> (Self, usize) {
        let open = OPEN.fetch_add(1, Ordering::Relaxed) + 1;
        (Self, (ALL_BYTES / open).clamp(LEAST_BYTES, MOST_BYTES))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection for one request at a time.
///
/// hyper expects a task that drives a connection's I/O. Here, each caller that waits for the connection drives it.
pub(crate) struct Http1 {
    sender: http1::SendRequest<Empty<Bytes>>,
    driver: Driver,
    was_used: bool,
    version: Version,
    _counted: Counted,
}

/// hyper's I/O future. It is `None` after the connection has ended.
struct Driver(Option<Pin<Box<Io>>>);

type Io = http1::Connection<TokioIo<Stream>, Empty<Bytes>>;

impl Http1 {
    pub(crate) async fn open(stream: Stream, version: Version) -> Result<Self, hyper::Error> {
        let (counted, read_bytes) = Counted::new();
        let (sender, driver) = http1::Builder::new()
            .max_buf_size(read_bytes)
            .handshake(TokioIo::new(stream))
            .await?;
        Ok(Self {
            sender,
            driver: Driver(Some(Box::pin(driver))),
            was_used: false,
            version,
            _counted: counted,
        })
    }

    /// Sends a request and waits for the head of the response. The connection must be ready.
    pub(crate) async fn request(
        &mut self,
        request: Request<Empty<Bytes>>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        let mut response = pin!(self.sender.send_request(request));
        let driver = &mut self.driver;
        poll_fn(|cx| {
            driver.poll(cx);
            // The driver passes the response, or its last error, to this future, so it is polled after the driver.
            response.as_mut().poll(cx)
        })
        .await
    }

    /// Returns the connection if it can accept a request. It does not wait.
    pub(crate) async fn alive(mut self) -> Option<Self> {
        let alive = poll_fn(|cx| Poll::Ready(self.poll_alive(cx))).await;
        alive.then_some(self)
    }

    /// Returns whether the connection can accept a request. It first reads what has arrived, since the server may have
    /// closed the connection.
    pub(crate) fn poll_alive(&mut self, cx: &mut Context<'_>) -> bool {
        self.driver.poll(cx);
        self.driver.0.is_some() && self.sender.is_ready()
    }

    /// Drives the I/O as far as it goes. `cx` is woken when more can be done.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>) {
        self.driver.poll(cx);
    }

    /// The version of the TLS configuration that the connection was opened with.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Returns whether the connection has served a request.
    pub(crate) fn was_used(&self) -> bool {
        self.was_used
    }

    pub(crate) fn set_used(&mut self) {
        self.was_used = true;
    }
}

impl Driver {
    fn poll(&mut self, cx: &mut Context<'_>) {
        let Some(driver) = &mut self.0 else { return };
        // The error can be ignored: hyper also passes it to the pending request or body.
        if driver.as_mut().poll(cx).is_ready() {
            self.0 = None;
        }
    }
}
