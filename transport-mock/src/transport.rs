//! A transport to a mock server.

#[cfg(feature = "tokio")]
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};

#[cfg(feature = "tokio")]
use informer_core::transport::{BoxChunk, BoxFuture, BoxSend, SendTransport};
use informer_core::{
    Body, Head, Timer, Transport,
    transport::{FailureKind, Get, TransportError},
};

use crate::backend::Backend;
use crate::clock::VirtualClock;
use crate::mock::{Exchange, Mock};
use crate::server::FakeServer;
#[cfg(feature = "tokio")]
use crate::tokio_clock::TokioClock;

/// A transport to a mock server, created by [`Mock::transport`].
///
/// It reuses connections like an HTTP/1.1 client. A response that has been read to its end leaves its connection to a
/// later request. If that request fails before its response, the error reports the reuse
/// ([`TransportError::connection_was_used`]). Clones share the connections.
///
/// ```
/// use informer_mock::{FakeServer, Fault, Get, Mock, Simulation, Transport, TransportError};
///
/// let mock = Mock::new(FakeServer::new(1));
/// mock.with(|server| server.inject(Fault::reset()));
/// let mut transport = mock.transport();
/// let failed = Simulation::new(mock.clock()).block_on(async move {
///     let error = transport.send(Get::new("/api/v1/pods")).await.err()?;
///     Some((error.to_string(), error.connection_was_used()))
/// });
/// assert_eq!(failed.flatten(), Some(("connection reset".to_string(), false)));
/// ```
#[derive(Debug)]
pub struct MockTransport<B = FakeServer, T = VirtualClock> {
    mock: Mock<B, T>,
    idle: Arc<AtomicUsize>,
    keep_alive: bool,
}

impl<B: Backend, T: Timer + Clone> Mock<B, T> {
    /// Creates a transport to the server.
    #[must_use]
    pub fn transport(&self) -> MockTransport<B, T> {
        MockTransport::new(self.clone())
    }
}

impl<B: Backend, T: Timer + Clone> MockTransport<B, T> {
    fn new(mock: Mock<B, T>) -> Self {
        Self {
            mock,
            idle: Arc::default(),
            keep_alive: true,
        }
    }

    /// Sets whether connections are reused. They are by default.
    #[must_use]
    pub fn keep_alive(self, keep_alive: bool) -> Self {
        Self { keep_alive, ..self }
    }

    fn take_connection(&self) -> bool {
        let taken = self
            .idle
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |idle| {
                idle.checked_sub(1)
            });
        self.keep_alive && taken.is_ok()
    }
}

impl<B, T: Clone> Clone for MockTransport<B, T> {
    fn clone(&self) -> Self {
        Self {
            mock: self.mock.clone(),
            idle: Arc::clone(&self.idle),
            keep_alive: self.keep_alive,
        }
    }
}

impl<B: Backend, T: Timer + Clone> Transport for MockTransport<B, T> {
    type Body = MockBody<B, T>;
    type Error = MockError;

    async fn send(&mut self, get: Get<'_>) -> Result<(Head, Self::Body), MockError> {
        let used = self.take_connection();
        let mut exchange = self.mock.open(get.target, get.accept);
        let head = exchange.head().await.map_err(|kind| {
            // A reused connection cannot be refused.
            MockError {
                kind,
                used: used && kind != FailureKind::Refused,
            }
        })?;
        let body = MockBody {
            exchange,
            buffer: Vec::new(),
            idle: Arc::clone(&self.idle),
            used,
            ended: false,
        };
        Ok((head.to_head(), body))
    }
}

#[cfg(feature = "tokio")]
impl<B: Backend + Send + 'static> SendTransport for MockTransport<B, TokioClock> {
    fn boxed_ready(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.ready())
    }

    fn boxed_send<'a>(&'a mut self, get: Get<'a>) -> BoxSend<'a, Self> {
        Box::pin(self.send(get))
    }

    fn boxed_chunk<E: Send + 'static>(
        body: &mut Self::Body,
        error: fn(Self::Error) -> E,
    ) -> BoxChunk<'_, E> {
        Box::pin(async move { body.chunk().await.map_err(error) })
    }
}

/// The body of a mock server's response.
#[derive(Debug)]
pub struct MockBody<B: Backend = FakeServer, T: Timer + Clone = VirtualClock> {
    exchange: Exchange<B, T>,
    buffer: Vec<u8>,
    idle: Arc<AtomicUsize>,
    used: bool,
    ended: bool,
}

impl<B: Backend, T: Timer + Clone> Body for MockBody<B, T> {
    type Error = MockError;

    async fn chunk(&mut self) -> Result<Option<&[u8]>, MockError> {
        if self.ended {
            return Ok(None);
        }
        // No data is taken from the server before the last await, so dropping this future loses no data.
        match self.exchange.chunk().await {
            Ok(Some(bytes)) => {
                self.buffer = bytes;
                Ok(Some(&self.buffer))
            }
            Ok(None) => {
                self.ended = true;
                self.idle.fetch_add(1, Ordering::AcqRel);
                Ok(None)
            }
            Err(kind) => Err(MockError {
                kind,
                used: self.used,
            }),
        }
    }
}

/// The error of a request to a mock server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MockError {
    kind: FailureKind,
    used: bool,
}

impl MockError {
    /// Creates the error of a new connection.
    #[must_use]
    pub const fn new(kind: FailureKind) -> Self {
        Self { kind, used: false }
    }
}

impl TransportError for MockError {
    fn kind(&self) -> FailureKind {
        self.kind
    }

    fn connection_was_used(&self) -> bool {
        self.used
    }
}

impl fmt::Display for MockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl core::error::Error for MockError {}

informer_core::readable_errors!(MockError);
