//! One HTTP/1.1 connection and the work that moves it on.

use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use crate::stream::Stream;
use crate::tls::Version;

/// How many bytes are read at once, at most. More are not read faster, and a connection keeps what it has read into.
const READ_BYTES: usize = 128 << 10;

/// A connection for one request at a time.
///
/// hyper wants its I/O driven by a task; here everyone who waits for something of the connection drives it.
pub(crate) struct Http1 {
    sender: http1::SendRequest<Empty<Bytes>>,
    driver: Driver,
    was_used: bool,
    version: Version,
}

/// hyper's I/O future; `None` when it has ended, and with it the connection.
struct Driver(Option<Pin<Box<Io>>>);

type Io = http1::Connection<TokioIo<Stream>, Empty<Bytes>>;

impl Http1 {
    pub(crate) async fn open(stream: Stream, version: Version) -> Result<Self, hyper::Error> {
        let (sender, driver) = http1::Builder::new()
            .max_buf_size(READ_BYTES)
            .handshake(TokioIo::new(stream))
            .await?;
        Ok(Self {
            sender,
            driver: Driver(Some(Box::pin(driver))),
            was_used: false,
            version,
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
            // The driver leaves the response, or its last error, here, so this is asked after it.
            response.as_mut().poll(cx)
        })
        .await
    }

    /// Returns the connection where it can take a request, without waiting.
    pub(crate) async fn alive(mut self) -> Option<Self> {
        let alive = poll_fn(|cx| Poll::Ready(self.poll_alive(cx))).await;
        alive.then_some(self)
    }

    /// Tells whether the connection can take a request, after reading what there is to read: the server may have
    /// closed it.
    pub(crate) fn poll_alive(&mut self, cx: &mut Context<'_>) -> bool {
        self.driver.poll(cx);
        self.driver.0.is_some() && self.sender.is_ready()
    }

    /// Moves the connection on as far as it goes; wakes `cx` when it can go on.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>) {
        self.driver.poll(cx);
    }

    /// What it was opened with.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Tells whether the connection has served a request.
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
        // Its error is of use to nobody: where a request or a body waits, hyper gives the error to that.
        if driver.as_mut().poll(cx).is_ready() {
            self.0 = None;
        }
    }
}
