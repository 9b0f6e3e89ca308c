//! What hyper's server does not do on a socket: a reset, and bytes after the announced end of a body.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The socket of a connection.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    wire: Arc<Wire>,
}

/// What the responses of a connection ask of its socket.
#[derive(Debug, Default)]
pub(super) struct Wire {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether hyper may hold bytes that the system does not have.
    unsent: bool,
    /// The responses that wait until it holds none.
    waiting: Vec<Waker>,
    /// Bytes to send after the announced end of a body.
    surplus: Vec<u8>,
    /// Nothing is read any more, so that hyper closes the connection.
    closing: bool,
    /// The connection ends by a reset.
    reset: bool,
}

impl Wire {
    /// Records that hyper gets bytes to send.
    pub(super) fn sending(&self) {
        self.lock().unsent = true;
    }

    /// Waits until the system has all bytes. hyper drops those that it still holds when a response fails.
    pub(super) async fn sent(&self) {
        poll_fn(|context| {
            let mut state = self.lock();
            if state.unsent {
                state.waiting.push(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Resets the connection when it ends, where the client would otherwise see a regular end.
    pub(super) fn reset(&self) {
        self.lock().reset = true;
    }

    /// Sends bytes after the end of the body, and then closes the connection.
    pub(super) fn surplus(&self, bytes: &[u8]) {
        self.lock().surplus.extend_from_slice(bytes);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Socket {
    pub(super) const fn new(stream: TcpStream, wire: Arc<Wire>) -> Self {
        Self { stream, wire }
    }

    fn poll_surplus(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.wire.lock();
        while !state.surplus.is_empty() {
            let written = Pin::new(&mut self.stream).poll_write(context, &state.surplus);
            let written = ready!(written)?;
            state.surplus.drain(..written);
            state.closing = true;
            // hyper reads again, and sees the end.
            context.waker().wake_by_ref();
        }
        state.unsent = false;
        state.waiting.drain(..).for_each(Waker::wake);
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.wire.lock().closing {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes when it has written all that it holds.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.poll_surplus(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.wire.lock().reset {
            // Without it, the client would see an end instead of a reset.
            let _ = self.stream.set_zero_linger();
        }
    }
}
