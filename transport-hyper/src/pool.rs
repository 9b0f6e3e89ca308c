//! Selects the connection for a request.

use alloc::sync::Arc;
use core::pin::Pin;
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::{FutureExt as _, Shared, WeakShared};
use tokio::time::Instant;

use crate::connect::{Connector, Opened};
use crate::credentials::ClientCertificate;
use crate::error::HyperError;
use crate::http1::Http1;
use crate::http2::{Http2, StreamSlot};
use crate::tls::Version;

/// A pool of connections to one server.
///
/// An HTTP/2 connection is shared by all clones. Each clone has one idle HTTP/1.1 connection of its own.
pub(crate) struct Pool {
    connector: Arc<Connector>,
    shared: Arc<Mutex<Connections>>,
    slot: Slot,
}

/// The state that all clones share.
#[derive(Default)]
struct Connections {
    /// The protocol of the last connection.
    speaks: Option<Protocol>,
    /// The HTTP/2 connections that accept requests. A connection that received a GOAWAY is removed; its bodies keep it
    /// alive.
    open: Vec<Arc<Http2>>,
    /// The connection attempt that all requests wait for.
    opening: Option<WeakShared<Opening>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

/// The first connection attempt, and all attempts for HTTP/2, are shared. All waiting requests drive the attempt
/// together, so it makes progress whichever of them is polled. It is cancelled when the last of them is dropped.
type Opening = Pin<Box<dyn Future<Output = Result<New, HyperError>> + Send>>;

/// The result of a shared connection attempt.
#[derive(Clone)]
enum New {
    /// A connection for one request. The first request to take it gets it.
    Http1(Arc<Mutex<Option<Http1>>>),
    Http2(Arc<Http2>),
}

/// Limits how often one request is tried again after the server closed the connection or refused the stream.
#[derive(Default)]
pub(crate) struct Attempts(u32);

impl Attempts {
    /// Counts a failed attempt. Returns whether another one is allowed.
    pub(crate) fn fail(&mut self) -> bool {
        self.0 += 1;
        self.0 < Self::MOST
    }

    const MOST: u32 = 5;
}

/// A connection for one request.
pub(crate) enum Taken {
    Http1(Http1),
    Http2(StreamSlot),
}

impl Pool {
    pub(crate) fn new(connector: Connector) -> Self {
        Self {
            connector: Arc::new(connector),
            shared: Arc::default(),
            slot: Slot::default(),
        }
    }

    /// Takes a connection that is ready for a request.
    ///
    /// # Errors
    /// Fails if no connection can be opened, or if the server closed each new one before it accepted a request.
    pub(crate) async fn take(&self, attempts: &mut Attempts) -> Result<Taken, HyperError> {
        loop {
            let version = self.connector.version().await;
            if let Some(connection) = self.slot.take(self.connector.idle)
                && connection.version() == version
                && let Some(connection) = connection.alive().await
            {
                return Ok(Taken::Http1(connection));
            }
            let opening = {
                let mut state = lock(&self.shared);
                if let Some(place) = state.place(version, self.connector.idle) {
                    return Ok(Taken::Http2(place));
                }
                if state.speaks == Some(Protocol::Http1) || !self.connector.may_speak_http2() {
                    None
                } else {
                    Some(self.opening(&mut state))
                }
            };
            let opened = match opening {
                Some(opening) => opening.await?,
                None => match self.connector.open().await? {
                    Opened::Http1(connection) => return Ok(Taken::Http1(connection)),
                    Opened::Http2(connection) => {
                        lock(&self.shared).add(Arc::clone(&connection));
                        New::Http2(connection)
                    }
                },
            };
            match opened {
                New::Http1(spare) => {
                    if let Some(connection) = lock(&spare).take() {
                        return Ok(Taken::Http1(connection));
                    }
                }
                // A new connection counts as not idle, whatever `idle_timeout` is.
                New::Http2(connection)
                    if connection.version() >= version && connection.is_open() =>
                {
                    if let Some(place) = connection.reserve() {
                        return Ok(Taken::Http2(place));
                    }
                    // Other requests have reserved all of its streams, or the server no longer allows any.
                    if connection.idle().is_some() && !attempts.fail() {
                        return Err(HyperError::no_streams(&self.connector.address));
                    }
                }
                New::Http2(_) => {
                    if !attempts.fail() {
                        return Err(HyperError::closing(&self.connector.address));
                    }
                }
            }
        }
    }

    /// Sets the client certificate of the credential.
    pub(crate) fn present(&self, presented: Option<&Arc<ClientCertificate>>) -> Result<(), String> {
        match &self.connector.tls {
            Some(tls) => tls.present(presented),
            None => Ok(()),
        }
    }

    /// Joins the running connection attempt, or begins one.
    fn opening(&self, state: &mut Connections) -> Shared<Opening> {
        if let Some(opening) = state.opening.as_ref().and_then(WeakShared::upgrade) {
            return opening;
        }
        let (connector, shared) = (Arc::clone(&self.connector), Arc::clone(&self.shared));
        let opening: Opening = Box::pin(async move {
            let opened = connector.open().await;
            let mut state = lock(&shared);
            state.opening = None;
            Ok(match opened? {
                Opened::Http1(connection) => {
                    state.speaks = Some(Protocol::Http1);
                    New::Http1(Arc::new(Mutex::new(Some(connection))))
                }
                Opened::Http2(connection) => {
                    state.add(Arc::clone(&connection));
                    New::Http2(connection)
                }
            })
        });
        let opening = opening.shared();
        state.opening = opening.downgrade();
        opening
    }

    /// Returns a pool that also shares the idle HTTP/1.1 connection.
    pub(crate) fn shared(&self) -> Self {
        Self {
            slot: self.slot.clone(),
            ..self.clone()
        }
    }

    /// Returns the slot to which an HTTP/1.1 connection returns after its response has been read.
    pub(crate) fn slot(&self) -> Slot {
        self.slot.clone()
    }
}

impl Clone for Pool {
    fn clone(&self) -> Self {
        Self {
            connector: Arc::clone(&self.connector),
            shared: Arc::clone(&self.shared),
            slot: Slot::default(),
        }
    }
}

impl Connections {
    fn add(&mut self, connection: Arc<Http2>) {
        self.speaks = Some(Protocol::Http2);
        self.open.push(connection);
    }

    /// Reserves a stream on the first connection that has room. Connections are dropped if they accept no requests, or
    /// if they were opened with an older TLS configuration.
    fn place(&mut self, version: Version, limit: Duration) -> Option<StreamSlot> {
        self.open.retain(|connection| {
            connection.version() == version
                && connection.is_open()
                && connection.idle().is_none_or(|idle| idle < limit)
        });
        self.open.iter().find_map(Http2::reserve)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds at most one idle HTTP/1.1 connection. All clones of a slot share it.
#[derive(Clone, Default)]
pub(crate) struct Slot(Arc<Mutex<Option<Idle>>>);

struct Idle {
    connection: Http1,
    since: Instant,
}

impl Slot {
    /// Stores a connection. A connection that was stored before is closed.
    pub(crate) fn put(&self, connection: Http1) {
        let idle = Idle {
            connection,
            since: Instant::now(),
        };
        let previous = lock(&self.0).replace(idle);
        drop(previous);
    }

    fn take(&self, limit: Duration) -> Option<Http1> {
        let idle = lock(&self.0).take()?;
        (idle.since.elapsed() < limit).then_some(idle.connection)
    }
}
