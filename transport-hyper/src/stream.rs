//! The byte stream to the server.

use alloc::sync::Arc;
use core::pin::Pin;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Poll};
use std::io::{self, IoSlice};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf, Take};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// A connection to the server: in plain text or over TLS, direct or through a proxy.
pub(crate) struct Stream {
    io: Take<Box<dyn Io>>,
    /// The most bytes per read.
    most: u64,
    alpn: Option<Vec<u8>>,
    heard: Heard,
}

/// The time of the last received data.
#[derive(Clone)]
pub(crate) struct Heard {
    began: Instant,
    /// Microseconds since `began`.
    last: Arc<AtomicU64>,
}

impl Heard {
    fn now() -> Self {
        Self {
            began: Instant::now(),
            last: Arc::default(),
        }
    }

    fn note(&self) {
        let since = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.last.store(since, Ordering::Relaxed);
    }

    #[cfg(feature = "http2")]
    pub(crate) fn last(&self) -> Instant {
        self.began + core::time::Duration::from_micros(self.last.load(Ordering::Relaxed))
    }
}

pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

impl Stream {
    pub(crate) fn plain(io: impl Io + 'static) -> Self {
        Self::new(io, None)
    }

    /// `alpn` is the protocol that was negotiated in the TLS handshake.
    pub(crate) fn new(io: impl Io + 'static, alpn: Option<Vec<u8>>) -> Self {
        let io: Box<dyn Io> = Box::new(io);
        Self {
            io: io.take(0),
            most: u64::MAX,
            alpn,
            heard: Heard::now(),
        }
    }

    /// Limits the bytes per read, whatever the room of the reader's buffer.
    pub(crate) fn limit_reads(self, most: usize) -> Self {
        Self {
            most: most as u64,
            ..self
        }
    }

    /// Returns the time of the last received data. Clones are updated with it.
    #[cfg(feature = "http2")]
    pub(crate) fn heard(&self) -> Heard {
        self.heard.clone()
    }

    /// The protocol that was negotiated in the TLS handshake.
    pub(crate) fn alpn(&self) -> Option<&[u8]> {
        self.alpn.as_deref()
    }
}

impl From<TcpStream> for Stream {
    fn from(tcp: TcpStream) -> Self {
        Self::plain(tcp)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let most = self.most;
        // The limit of `Take` is for the whole stream, so each read begins with a new one.
        self.io.set_limit(most);
        let before = buf.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.heard.note();
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.io.get_mut()).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.io.get_mut()).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.io.get_mut()).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.io.get_mut()).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.get_ref().is_write_vectored()
    }
}
