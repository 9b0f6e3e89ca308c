//! Keeping a connection for the next request.

use alloc::sync::Arc;
use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use crate::connect::Connector;
use crate::connection::Connection;
use crate::error::HyperError;

/// Gives out connections to one server: the idle one, or a new one.
pub(crate) struct Pool {
    connector: Arc<Connector>,
    slot: Slot,
}

/// Holds at most one idle connection. Clones hold the same.
#[derive(Clone, Default)]
pub(crate) struct Slot(Arc<Mutex<Option<Idle>>>);

struct Idle {
    connection: Connection,
    since: Instant,
}

impl Pool {
    pub(crate) fn new(connector: Connector) -> Self {
        Self {
            connector: Arc::new(connector),
            slot: Slot::default(),
        }
    }

    /// Takes a connection that is ready for a request.
    pub(crate) async fn take(&self) -> Result<Connection, HyperError> {
        if let Some(mut connection) = self.slot.take()
            && connection.is_alive().await
        {
            return Ok(connection);
        }
        let stream = self.connector.connect().await?;
        Connection::open(stream)
            .await
            .map_err(|error| HyperError::answering(self.connector.address(), &error, false))
    }

    /// Returns where a connection goes when its response was read.
    pub(crate) fn slot(&self) -> Slot {
        self.slot.clone()
    }
}

/// Connections are not shared between clones.
impl Clone for Pool {
    fn clone(&self) -> Self {
        Self {
            connector: self.connector.clone(),
            slot: Slot::default(),
        }
    }
}

impl Slot {
    /// Keeps a connection; the one that was kept before is closed.
    pub(crate) fn put(&self, connection: Connection) {
        let idle = Idle {
            connection,
            since: Instant::now(),
        };
        let previous = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace(idle);
        drop(previous);
    }

    fn take(&self) -> Option<Connection> {
        let idle = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()?;
        (idle.since.elapsed() < IDLE_LIMIT).then_some(idle.connection)
    }
}

/// After this time something on the way may have forgotten an idle connection. Go's clients have the same limit.
const IDLE_LIMIT: Duration = Duration::from_secs(90);
