//! The sources of a controller's keys: changes of objects, and streams.

use core::time::Duration;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use informer_core::Form;

use super::counts::LOW;
use super::only::Only;
use super::predicate::Predicate;
use super::skip::{Skip, SkipOf};
use super::start::{Places, Readiness, Registered};
use crate::cache::entry::{Entry, Key};
use crate::controller::queue::WorkQueue;
use crate::handler::{HandlerHandle, Handlers};
use crate::health::error::{Ended, Missing};
use crate::informer::{HasSynced, Informer};

/// Adds the keys of a state that a slow handler misses.
type MissedStates<F> = Box<dyn Fn(&Entry<F>) + Send + Sync>;

/// The destination of keys.
#[derive(Clone)]
pub(super) struct Intake {
    pub(super) queue: WorkQueue<Key>,
    pub(super) keep: Only,
    pub(super) debounce: Duration,
    pub(super) skip: Option<Arc<Skip>>,
}

impl Intake {
    /// Returns a handler that adds the keys of changed objects, and a function for the states that it misses. Fresh changes
    /// precede the initial list and resyncs. `own` skips own writes.
    pub(super) fn handler<F: Form<Stored: Send + Sync + 'static>, I: IntoIterator<Item = Key>>(
        &self,
        map: impl Fn(&Entry<F>) -> I + Send + Sync + 'static,
        when: Option<Predicate<F>>,
        own: Option<SkipOf>,
    ) -> (Handlers<F>, MissedStates<F>) {
        let (intake, map) = (self.clone(), Arc::new(map));
        let put = {
            let (intake, map) = (intake.clone(), Arc::clone(&map));
            Arc::new(move |entry: &Entry<F>, is_fresh| intake.put(map(entry), is_fresh))
        };
        let (add, delete, lost) = (Arc::clone(&put), Arc::clone(&put), Arc::clone(&put));
        let handlers = Handlers::new()
            .on_add(move |entry, is_initial| add(entry, !is_initial))
            .on_update(move |old, new| {
                // A replay has the same state twice.
                if old.is_same_state(new) {
                    return put(new, false);
                }
                if when.as_ref().is_some_and(|when| !when.counts(old, new)) {
                    return;
                }
                let keys = |entry: &Entry<F>| map(entry).into_iter().collect::<Vec<Key>>();
                match &own {
                    Some(own) if keys(old) == keys(new) => {
                        let keys = keys(new).into_iter();
                        intake.put(keys.filter(|key| !own.takes(old, new, key)), true);
                    }
                    // The owner may have changed.
                    _ => {
                        put(old, true);
                        put(new, true);
                    }
                }
            })
            .on_delete(move |entry, _| delete(entry, true));
        // A state that the handler misses may be anybody's.
        (handlers, Box::new(move |entry| lost(entry, true)))
    }

    fn put(&self, keys: impl IntoIterator<Item = Key>, is_fresh: bool) {
        for key in keys {
            if !self.keep.admits(&key) {
                continue;
            }
            if is_fresh {
                self.queue.add_after(key, self.debounce);
            } else {
                self.queue.add_with_priority(key, LOW);
            }
        }
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
                biased;
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
