//! One HTTP/1.1 connection and its driver.

use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use crate::address::Address;
use crate::error::{HyperError, MOST_HEAD, NoResponse};
use crate::stream::Stream;
use crate::tls::Version;

/// The largest read buffer. Larger reads are not faster.
const MOST_BYTES: usize = 128 << 10;
/// The smallest read buffer.
const LEAST_BYTES: usize = 16 << 10;
/// The bytes of all read buffers. A connection keeps its read buffer, even while its watch is idle, so each of many gets a small
/// one.
const ALL_BYTES: usize = 1 << 20;

/// The number of open connections.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// Counts an open connection.
struct Counted;

impl Counted {
    /// Returns it with the size of the connection's read buffer.
    fn new() -> (Self, usize) {
        let open = OPEN.fetch_add(1, Ordering::Relaxed) + 1;
        (Self, buffer_of(open))
    }
}

/// Returns the size of the read buffer of one of many connections: a power of two.
fn buffer_of(connections: usize) -> usize {
    let share = (ALL_BYTES / connections).clamp(LEAST_BYTES, MOST_BYTES);
    1 << share.ilog2()
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
    sender: http1::SendRequest<Full<Bytes>>,
    driver: Driver,
    was_used: bool,
    version: Version,
    _counted: Counted,
}

/// hyper's I/O future. It is `None` after the connection has ended.
struct Driver(Option<Pin<Box<Io>>>);

type Io = http1::Connection<TokioIo<Stream>, Full<Bytes>>;

impl Http1 {
    pub(crate) async fn open(stream: Stream, version: Version) -> Result<Self, hyper::Error> {
        let (counted, buffer) = Counted::new();
        let stream = limited(stream, buffer);
        let (sender, driver) = settings().handshake(TokioIo::new(stream)).await?;
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
        server: &Address,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, NoResponse> {
        let mut response = pin!(self.sender.try_send_request(request));
        let driver = &mut self.driver;
        let answered = poll_fn(|cx| {
            driver.poll(cx);
            // The driver passes the response, or its last error, to this future, so it is polled after the driver.
            response.as_mut().poll(cx)
        });
        answered.await.map_err(|mut error| NoResponse {
            // hyper returns a request of which it has written nothing.
            is_untouched: error.take_message().is_some(),
            error: HyperError::answering(server, error.error(), self.was_used),
        })
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

    pub(crate) fn set_used(&mut self) {
        self.was_used = true;
    }
}

/// hyper's `max_buf_size` bounds a head and the read buffer, and a head may exceed it by a read. Here it makes room for the
/// largest head, and [`limited`] bounds the buffer.
fn settings() -> http1::Builder {
    let mut settings = http1::Builder::new();
    settings
        .max_header_size(MOST_HEAD as usize)
        .max_buf_size(MOST_HEAD as usize);
    settings
}

/// Limits the reads of a stream so that hyper's read buffer gets this size, which is a power of two of at least 8 KiB.
///
/// hyper reserves 8 KiB for the first read, and doubles that after each read that was at least as large as what it reserved
/// (`ReadStrategy` in hyper's `proto/h1/io.rs`). No read fills the last byte, so it stops at this size. Only a head that is
/// larger makes the buffer grow beyond it.
fn limited(stream: Stream, buffer: usize) -> Stream {
    stream.limit_reads(buffer - 1)
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

#[cfg(test)]
mod tests {
    use super::*;

    use core::sync::atomic::AtomicBool;
    use std::io;
    use std::sync::Arc;

    use http_body_util::BodyExt as _;
    use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};

    /// Records the largest room that hyper has for a read.
    struct Recorder {
        stream: Stream,
        most: Arc<AtomicUsize>,
        is_on: Arc<AtomicBool>,
    }

    impl AsyncRead for Recorder {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if self.is_on.load(Ordering::Relaxed) {
                self.most.fetch_max(buf.remaining(), Ordering::Relaxed);
            }
            Pin::new(&mut self.stream).poll_read(cx, buf)
        }
    }

    impl AsyncWrite for Recorder {
        fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &[u8],
        ) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.stream).poll_write(cx, buf)
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_flush(cx)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_shutdown(cx)
        }
    }

    /// Reads a response of four megabytes, and returns the largest room for a read of its body.
    async fn room(head: &str, buffer: usize) -> usize {
        const BODY: usize = 4 << 20;
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let head = format!("HTTP/1.1 200 OK\r\n{head}Content-Length: {BODY}\r\n\r\n");
        tokio::spawn(async move {
            // The request is an empty one, and its end is not awaited.
            far.read_u8().await?;
            far.write_all(head.as_bytes()).await?;
            far.write_all(&vec![b'x'; BODY]).await?;
            far.read_to_end(&mut Vec::new()).await
        });
        let (most, is_on) = (Arc::default(), Arc::default());
        let io = Recorder {
            stream: limited(Stream::plain(near), buffer),
            most: Arc::clone(&most),
            is_on: Arc::clone(&is_on),
        };
        let (mut sender, driver) = settings().handshake(TokioIo::new(io)).await.unwrap();
        tokio::spawn(driver);
        let request = Request::new(Full::<Bytes>::default());
        let mut body = sender.send_request(request).await.unwrap().into_body();
        is_on.store(true, Ordering::Relaxed);
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            length += frame.unwrap().into_data().unwrap().len();
        }
        assert_eq!(length, BODY);
        most.load(Ordering::Relaxed)
    }

    /// Reserving may double a buffer.
    #[tokio::test]
    async fn the_read_buffer_has_the_size_for_the_number_of_connections() {
        for connections in [1, 8, 9, 40, 5_000] {
            let buffer = buffer_of(connections);
            let found = room("", buffer).await;
            assert!(
                (buffer..=2 * buffer).contains(&found),
                "{found} for {buffer}"
            );
        }
        assert_eq!(
            [1, 8, 9, 40, 5_000].map(buffer_of).map(|size| size >> 10),
            [128, 128, 64, 16, 16]
        );
        for _ in 0..100 {
            drop(Counted::new());
        }
        assert_eq!(Counted::new().1, MOST_BYTES, "those are closed");
    }
}
