//! The body of a response.

use alloc::sync::Arc;
use core::fmt;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use informer_core::Body;

use crate::address::Address;
use crate::connection::Connection;
use crate::error::HyperError;
use crate::pool::Slot;

/// The body of a response.
///
/// Reading it moves its connection on. At its end the connection goes back to the transport. Dropping it earlier
/// closes the connection. A body that failed goes on failing with the same error; one that has ended stays at its end.
pub struct HyperBody {
    server: Arc<Address>,
    state: State,
    slot: Slot,
    /// What was lent last.
    chunk: Bytes,
}

enum State {
    Open { connection: Box<Connection>, incoming: Incoming },
    Ended,
    Failed(HyperError),
}

impl HyperBody {
    pub(crate) fn new(server: Arc<Address>, connection: Connection, incoming: Incoming, slot: Slot) -> Self {
        let state = State::Open { connection: Box::new(connection), incoming };
        Self { server, state, slot, chunk: Bytes::new() }
    }

    /// Reads the next chunk into `self.chunk`; `false` is the end.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, HyperError>> {
        loop {
            let (connection, incoming) = match &mut self.state {
                State::Open { connection, incoming } => (connection, incoming),
                State::Ended => return Poll::Ready(Ok(false)),
                State::Failed(error) => return Poll::Ready(Err(error.clone())),
            };
            let mut polled = Pin::new(&mut *incoming).poll_frame(cx);
            if polled.is_pending() {
                connection.drive(cx);
                polled = Pin::new(&mut *incoming).poll_frame(cx);
            }
            match ready!(polled) {
                Some(Ok(frame)) => {
                    // Trailers are of no interest.
                    if let Ok(data) = frame.into_data() {
                        self.chunk = data;
                        return Poll::Ready(Ok(true));
                    }
                }
                Some(Err(error)) => {
                    self.state = State::Failed(HyperError::reading(&self.server, &error));
                }
                None => self.end(cx),
            }
        }
    }

    /// Gives the connection back where it can serve again.
    fn end(&mut self, cx: &mut Context<'_>) {
        self.chunk = Bytes::new();
        if let State::Open { mut connection, .. } = core::mem::replace(&mut self.state, State::Ended) {
            connection.set_used();
            if connection.poll_alive(cx) {
                self.slot.put(*connection);
            }
        }
    }
}

impl Body for HyperBody {
    type Error = HyperError;

    async fn chunk(&mut self) -> Result<Option<&[u8]>, HyperError> {
        let more = poll_fn(|cx| self.poll_chunk(cx)).await?;
        Ok(more.then_some(&*self.chunk))
    }
}

impl fmt::Debug for HyperBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Open { .. } => "open",
            State::Ended => "ended",
            State::Failed(_) => "failed",
        };
        write!(f, "HyperBody({}, {state})", self.server)
    }
}
