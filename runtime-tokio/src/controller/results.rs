//! The results of runs as a stream.

use core::error::Error;
use std::sync::Arc;

use futures_util::stream::{Stream, unfold};
use tokio::sync::broadcast::{self, error::RecvError};

use super::task::Next;
use crate::cache::entry::Key;

/// The number of results that wait for a reader.
const WAITING: usize = 1024;

/// The result of one run of a reconcile function, from [`Controller::results`](super::Controller::results).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reconciled {
    /// The key.
    pub key: Key,
    /// The next step, or the error that the run returned. After a panic, and if the run was cut, it is one with the text of the
    /// [`Failure`](super::Failure).
    pub result: Result<Next, Arc<dyn Error + Send + Sync>>,
    /// The number of results before this one that were discarded because the reader lagged.
    pub missed: u64,
}

/// The destination of results. Without a reader it costs nothing.
#[derive(Default)]
pub(super) struct Results(Option<broadcast::Sender<Reconciled>>);

impl Results {
    pub(super) fn subscribe(&mut self) -> impl Stream<Item = Reconciled> + Send + 'static {
        let sender = self
            .0
            .get_or_insert_with(|| broadcast::Sender::new(WAITING));
        unfold(sender.subscribe(), |mut receiver| async {
            let mut missed = 0;
            loop {
                match receiver.recv().await {
                    Ok(run) => return Some((Reconciled { missed, ..run }, receiver)),
                    Err(RecvError::Lagged(count)) => missed += count,
                    Err(RecvError::Closed) => return None,
                }
            }
        })
    }

    /// Returns whether somebody has asked for them.
    pub(super) const fn is_read(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn send(
        &self,
        key: &Key,
        result: impl FnOnce() -> Result<Next, Arc<dyn Error + Send + Sync>>,
    ) {
        if let Some(sender) = &self.0 {
            // An error means that no reader is left.
            let _ = sender.send(Reconciled {
                key: key.clone(),
                result: result(),
                missed: 0,
            });
        }
    }
}
