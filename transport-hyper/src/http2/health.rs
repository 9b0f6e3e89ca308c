//! Detects connections whose server no longer responds.

use alloc::sync::Arc;
use core::pin::Pin;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io::{self, IoSlice};

use h2::{Ping, PingPong};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// When to send a ping, and how long to wait for data after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pings {
    pub(crate) after: Duration,
    pub(crate) within: Duration,
}

/// Sends a ping after a time without data, and detects that no response follows.
pub(super) struct Health {
    pings: Pings,
    channel: PingPong,
    heard: Heard,
    asked: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

impl Health {
    pub(super) fn new(pings: Pings, channel: PingPong, heard: Heard) -> Self {
        Self {
            pings,
            channel,
            heard,
            asked: None,
            timer: Box::pin(sleep(pings.after)),
        }
    }

    /// Resolves when the connection is dead, with the time since the last data.
    ///
    /// The connection must be polled before this, and also after a wake-up by it.
    pub(super) fn poll_dead(&mut self, cx: &mut Context<'_>) -> Poll<Duration> {
        loop {
            if self.asked.is_some() {
                match self.channel.poll_pong(cx) {
                    Poll::Ready(Ok(_pong)) => self.asked = None,
                    Poll::Ready(Err(_closed)) => return Poll::Pending, // The streams get the error.
                    Poll::Pending => {}
                }
            }
            ready!(self.timer.as_mut().poll(cx));
            let (now, heard) = (Instant::now(), self.heard.last());
            // Any data after the ping also proves that the connection is alive.
            let deadline = match self.asked {
                Some(asked) => asked.max(heard) + self.pings.within,
                None => heard + self.pings.after,
            };
            if now < deadline {
                self.timer.as_mut().reset(deadline);
                continue;
            }
            if self.asked.is_some() {
                return Poll::Ready(now - heard);
            }
            if self.channel.send_ping(Ping::opaque()).is_err() {
                return Poll::Pending; // The connection is being closed.
            }
            self.asked = Some(now);
            self.timer.as_mut().reset(now + self.pings.within);
        }
    }
}

/// The time of the last received data.
#[derive(Clone)]
pub(super) struct Heard {
    began: Instant,
    /// Microseconds since `began`.
    last: Arc<AtomicU64>,
}

impl Heard {
    pub(super) fn now() -> Self {
        Self {
            began: Instant::now(),
            last: Arc::default(),
        }
    }

    fn note(&self) {
        let since = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.last.store(since, Ordering::Relaxed);
    }

    fn last(&self) -> Instant {
        self.began + Duration::from_micros(self.last.load(Ordering::Relaxed))
    }
}

/// A stream that records when data arrives.
pub(super) struct Watched<S> {
    stream: S,
    heard: Heard,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, heard: Heard) -> Self {
        Self { stream, heard }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            this.heard.note();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
