//! A server with its clock, shared by tests and transports.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use std::sync::{Mutex, MutexGuard, PoisonError};

use informer_core::{Instant, Timer, transport::FailureKind};
use serde_json::Value;

use crate::backend::{Backend, Chunk, HeadPoll, ResponseHead, ResponseId};
use crate::clock::VirtualClock;
use crate::log::RequestLog;
use crate::server::{FakeServer, MutationError};

/// A server and its clock, shared by a test and by the transports of the code under test. Clones share the same server.
///
/// ```
/// use core::time::Duration;
/// use informer_mock::{Body, FakeServer, Get, Mock, Simulation, Transport, json};
///
/// let mock = Mock::new(FakeServer::new(1));
/// mock.create("pods", json!({ "metadata": { "name": "a" } }))?;
///
/// let mut simulation = Simulation::new(mock.clock());
/// let mut transport = mock.transport();
/// let body = simulation.block_on(async move {
///     let (head, mut body) = transport.send(Get::new("/api/v1/pods?resourceVersion=0")).await.ok()?;
///     assert_eq!(head.status, 200);
///     Some(body.chunk().await.ok()??.to_vec())
/// });
/// assert!(String::from_utf8(body.flatten().unwrap()).unwrap().contains("\"name\":\"a\""));
/// mock.log().assert_requests(&["LIST rv=0"]);
/// # Ok::<(), informer_mock::MutationError>(())
/// ```
#[derive(Debug)]
pub struct Mock<B = FakeServer, T = VirtualClock> {
    shared: Arc<Mutex<Shared<B>>>,
    clock: T,
}

#[derive(Debug)]
struct Shared<B> {
    backend: B,
    /// The number of changes of the server.
    changes: u64,
    /// The waiting tasks, in the order of their requests.
    wakers: BTreeMap<ResponseId, Waker>,
}

impl<B: Backend> Mock<B> {
    /// Creates a mock with a virtual clock.
    #[must_use]
    pub fn new(backend: B) -> Self {
        Self::with_clock(backend, VirtualClock::new())
    }
}

impl<B: Backend, T: Timer + Clone> Mock<B, T> {
    /// Creates a mock on an existing clock.
    ///
    /// Several servers can share a clock. The clock may belong to another runtime, such as `TokioClock` (feature
    /// `tokio`), which follows tokio's time, paused or not.
    ///
    /// ```
    /// use informer_mock::{FakeServer, Mock, VirtualClock};
    ///
    /// let clock = VirtualClock::new();
    /// let (near, far) = (FakeServer::new(1), FakeServer::new(2));
    /// let servers = [Mock::with_clock(near, clock.clone()), Mock::with_clock(far, clock)];
    /// ```
    #[must_use]
    pub fn with_clock(backend: B, clock: T) -> Self {
        let shared = Shared {
            backend,
            changes: 0,
            wakers: BTreeMap::new(),
        };
        Self {
            shared: Arc::new(Mutex::new(shared)),
            clock,
        }
    }

    /// Returns the clock.
    #[must_use]
    pub const fn clock(&self) -> &T {
        &self.clock
    }

    /// Calls a function with the server at the current time, and wakes the tasks that wait for responses.
    ///
    /// ```
    /// # use informer_mock::{FakeServer, Fault, Mock};
    /// # let mock = Mock::new(FakeServer::new(1));
    /// mock.with(|server| {
    ///     server.cut_watches();
    ///     server.inject(Fault::refuse().times(3));
    /// });
    /// ```
    pub fn with<R>(&self, change: impl FnOnce(&mut B) -> R) -> R {
        let now = self.clock.now();
        let mut shared = self.lock();
        shared.backend.tick(now);
        let result = change(&mut shared.backend);
        shared.changes += 1;
        let wakers = core::mem::take(&mut shared.wakers);
        drop(shared);
        wakers.into_values().for_each(Waker::wake);
        result
    }

    /// Calls a function with the server, and wakes no task, unlike [`with`](Self::with). The time of the server is that
    /// of the last request or change.
    pub fn read<R>(&self, read: impl FnOnce(&B) -> R) -> R {
        read(&self.lock().backend)
    }

    /// Returns a copy of the request log.
    #[must_use]
    pub fn log(&self) -> RequestLog {
        self.lock().backend.log().clone()
    }

    /// Sends a GET request with its path and query, and its `Accept` header. It is for servers and transports that
    /// disturb responses in their own way; others use [`transport`](Self::transport).
    ///
    /// ```
    /// use informer_mock::{FailureKind, FakeServer, Mock, Simulation};
    ///
    /// let mock = Mock::new(FakeServer::new(1));
    /// let mut exchange = mock.open("/api/v1/pods", "application/json");
    /// let read = Simulation::new(mock.clock()).block_on(async move {
    ///     let head = exchange.head().await?;
    ///     // Here a proxy could delay or change each part of the body.
    ///     let part = exchange.chunk().await?;
    ///     Ok::<_, FailureKind>((head.status, part.is_some()))
    /// });
    /// assert_eq!(read, Some(Ok((200, true))));
    /// ```
    pub fn open(&self, target: &str, accept: &str) -> Exchange<B, T> {
        let now = self.clock.now();
        let id = self.lock().backend.handle_request(now, target, accept);
        Exchange {
            mock: self.clone(),
            id,
            left: None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared<B>> {
        // A test that panicked inside of `with` may still read the log.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a time, or until the server has changed since `seen`.
    async fn wait(&self, id: ResponseId, seen: u64, until: Option<Instant>) {
        let mut changed = pin!(Changed {
            mock: self,
            id,
            seen
        });
        match until {
            None => changed.await,
            Some(until) => {
                let mut timer = self.clock.clone();
                let mut sleep = pin!(timer.sleep_until(until));
                core::future::poll_fn(|context| {
                    if changed.as_mut().poll(context).is_ready() {
                        return Poll::Ready(());
                    }
                    sleep.as_mut().poll(context)
                })
                .await;
            }
        }
    }
}

/// Methods of [`FakeServer`] that also wake the waiting tasks.
impl<T: Timer + Clone> Mock<FakeServer, T> {
    /// Creates an object.
    ///
    /// # Errors
    /// Fails as [`FakeServer::create`] does.
    pub fn create(&self, resource: &str, object: Value) -> Result<u64, MutationError> {
        self.with(|server| server.create(resource, object))
    }

    /// Replaces an object.
    ///
    /// # Errors
    /// Fails as [`FakeServer::update`] does.
    pub fn update(&self, resource: &str, object: Value) -> Result<u64, MutationError> {
        self.with(|server| server.update(resource, object))
    }

    /// Creates or replaces an object.
    ///
    /// # Errors
    /// Fails as [`FakeServer::put`] does.
    pub fn put(&self, resource: &str, object: Value) -> Result<u64, MutationError> {
        self.with(|server| server.put(resource, object))
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// Fails as [`FakeServer::delete`] does.
    pub fn delete(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<u64, MutationError> {
        self.with(|server| server.delete(resource, namespace, name))
    }
}

impl<B, T: Clone> Clone for Mock<B, T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            clock: self.clock.clone(),
        }
    }
}

/// A request and its response, created by [`Mock::open`]. Dropping it abandons the request.
#[derive(Debug)]
pub struct Exchange<B: Backend, T: Timer + Clone> {
    mock: Mock<B, T>,
    id: ResponseId,
    /// The number of announced bytes that have not arrived.
    left: Option<u64>,
}

impl<B: Backend, T: Timer + Clone> Exchange<B, T> {
    /// Returns how the body is compressed for a client that accepts gzip.
    #[cfg(feature = "serve")]
    pub(crate) fn compression(&self, target: &str) -> crate::backend::Compression {
        self.mock.lock().backend.compression(target)
    }

    /// Waits for the head. It can be awaited again after it was dropped.
    ///
    /// # Errors
    /// The failure of the connection.
    pub async fn head(&mut self) -> Result<ResponseHead, FailureKind> {
        loop {
            let now = self.mock.clock.now();
            let (polled, seen) = {
                let mut shared = self.mock.lock();
                (shared.backend.poll_head(now, self.id), shared.changes)
            };
            match polled {
                HeadPoll::Ready(head) => {
                    self.left = head.content_length;
                    return Ok(head);
                }
                HeadPoll::Failed(kind) => return Err(kind),
                HeadPoll::Pending { until } => self.mock.wait(self.id, seen, until).await,
            }
        }
    }

    /// Waits for the next part of the body, and enforces the announced length. `None` is the end.
    ///
    /// # Errors
    /// The failure of the connection, also if the body ends before the announced length.
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>, FailureKind> {
        if self.left == Some(0) {
            return Ok(None);
        }
        match self.raw_chunk().await? {
            Some(mut bytes) => {
                if let Some(left) = &mut self.left {
                    bytes.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= bytes.len() as u64;
                }
                Ok(Some(bytes))
            }
            None if self.left.is_some() => Err(FailureKind::Reset),
            None => Ok(None),
        }
    }

    /// Waits for the next part of the body, regardless of the announced length.
    pub(crate) async fn raw_chunk(&mut self) -> Result<Option<Vec<u8>>, FailureKind> {
        loop {
            let now = self.mock.clock.now();
            let (polled, seen) = {
                let mut shared = self.mock.lock();
                (shared.backend.poll_chunk(now, self.id), shared.changes)
            };
            match polled {
                Chunk::Data(bytes) => return Ok(Some(bytes)),
                Chunk::End => return Ok(None),
                Chunk::Abort(kind) => return Err(kind),
                Chunk::Pending { until } => self.mock.wait(self.id, seen, until).await,
            }
        }
    }
}

impl<B: Backend, T: Timer + Clone> Drop for Exchange<B, T> {
    fn drop(&mut self) {
        let mut shared = self.mock.lock();
        shared.backend.close(self.id);
        shared.wakers.remove(&self.id);
        if shared.backend.wakes_by_close() {
            shared.changes += 1;
            let wakers = core::mem::take(&mut shared.wakers);
            drop(shared);
            wakers.into_values().for_each(Waker::wake);
        }
    }
}

/// A future that waits for a change of the server.
struct Changed<'a, B, T> {
    mock: &'a Mock<B, T>,
    id: ResponseId,
    seen: u64,
}

impl<B: Backend, T: Timer + Clone> Future for Changed<'_, B, T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut shared = self.mock.lock();
        if shared.changes != self.seen {
            return Poll::Ready(());
        }
        shared.wakers.insert(self.id, context.waker().clone());
        Poll::Pending
    }
}
