//! The sources of a controller's keys: changes of objects, and streams.

use core::time::Duration;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use informer_core::Form;

use super::handle::{Counts, LOW};
use super::metrics::Figures;
use super::only::Only;
use super::predicate::Predicate;
use super::start::{Places, Readiness, Registered};
use crate::cache::entry::{Entry, Key};
use crate::controller::queue::WorkQueue;
use crate::handler::{HandlerHandle, Handlers};
use crate::health::error::{Ended, Missing};
use crate::informer::{HasSynced, Informer};

/// Adds the keys of a state that a slow handler misses.
type MissedStates<F> = Box<dyn Fn(&Entry<F>) + Send + Sync>;

/// The destination of keys.
pub(super) struct Intake {
    pub(super) queue: WorkQueue<Key>,
    pub(super) keep: Only,
    pub(super) figures: Arc<Figures>,
    pub(super) counts: Arc<Counts>,
    pub(super) debounce: Duration,
}

impl Intake {
    /// Returns a handler that adds the keys of changed objects, and a function for the states that it misses. Fresh changes
    /// precede the initial list and resyncs.
    pub(super) fn handler<F: Form<Stored: Send + Sync + 'static>, I: IntoIterator<Item = Key>>(
        &self,
        map: impl Fn(&Entry<F>) -> I + Send + Sync + 'static,
        when: Option<Predicate<F>>,
    ) -> (Handlers<F>, MissedStates<F>) {
        let (queue, keep, debounce) = (self.queue.clone(), self.keep.clone(), self.debounce);
        let (figures, counts) = (Arc::clone(&self.figures), Arc::clone(&self.counts));
        let put = Arc::new(move |entry: &Entry<F>, is_fresh: bool| {
            for key in map(entry) {
                if !keep.admits(&key) {
                    continue;
                }
                if is_fresh {
                    queue.add_after(key, debounce);
                } else {
                    queue.add_with_priority(key, LOW);
                }
            }
            // The loop of the controller does not show them while all workers are busy.
            figures.show(|| counts.metrics(queue.metrics()));
        });
        let (add, delete, lost) = (Arc::clone(&put), Arc::clone(&put), Arc::clone(&put));
        let handlers = Handlers::new()
            .on_add(move |entry, is_initial| add(entry, !is_initial))
            .on_update(move |old, new| {
                // A replay has the same state twice.
                if old.is_same_state(new) {
                    put(new, false);
                } else if when.as_ref().is_none_or(|when| when.counts(old, new)) {
                    // The owner may have changed.
                    put(old, true);
                    put(new, true);
                }
            })
            .on_delete(move |entry, _| delete(entry, true));
        (handlers, Box::new(move |entry| lost(entry, true)))
    }
}

pub(super) struct Watched<F: Form> {
    pub(super) informer: Informer<F>,
    pub(super) handle: HandlerHandle<F>,
}

impl<F: Form<Stored: Send + Sync + 'static>> Registered for Watched<F> {
    fn places(&self) -> Arc<dyn Places> {
        self.informer.places()
    }

    fn readiness(&self) -> Readiness {
        let readiness = self.informer.places().readiness();
        // If all sources are complete, the keys of all objects are added first.
        if !self.informer.is_synced() || self.handle.is_synced() || readiness == Readiness::Ended {
            return readiness;
        }
        Readiness::Waiting(self.handle.calls())
    }

    fn changed(&self) -> BoxFuture<'static, ()> {
        let mut status = self.informer.places().status();
        let synced = self.handle.becomes_synced();
        Box::pin(async move {
            tokio::select! {
                _ = status.changed() => {}
                () = synced => {}
            }
        })
    }

    fn missing(&self) -> Missing {
        let (reason, troubles) = self.handle.why_not();
        Missing {
            name: self.handle.who(),
            reason,
            troubles,
        }
    }

    fn ended(&self) -> BoxFuture<'_, Ended> {
        Box::pin(async {
            self.informer.ended().await;
            Ended
        })
    }

    fn remove(&self) {
        self.handle.remove();
    }
}
