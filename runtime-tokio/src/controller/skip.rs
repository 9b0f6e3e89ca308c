//! What a controller skips of the changes that its own writes cause.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informer_core::{Form, Resource};

use super::counts::{Counts, ORDER};
use super::own::{Change, PER_OBJECT, Runner, name_of};
use super::queue::WorkQueue;
use super::writes::WriteLog;
use crate::cache::entry::{Entry, Key};

/// Skips the changes that are nothing but own writes of a controller.
pub(super) struct Skip {
    subresources: BTreeSet<String>,
    /// The number of the controller.
    controller: u64,
    queue: WorkQueue<Key>,
    debounce: Duration,
    counts: Arc<Counts>,
    running: Mutex<Running>,
}

/// The keys that are reconciled, each with the changes that its run may have made; `None` when the controller stops.
type Running = Option<HashMap<Key, Vec<(WriteLog, Change)>>>;

impl Skip {
    pub(super) fn new(
        subresources: BTreeSet<String>,
        queue: &WorkQueue<Key>,
        debounce: Duration,
        counts: &Arc<Counts>,
    ) -> Self {
        static CONTROLLERS: AtomicU64 = AtomicU64::new(0);
        Self {
            subresources,
            controller: CONTROLLERS.fetch_add(1, Ordering::Relaxed),
            queue: queue.clone(),
            debounce,
            counts: Arc::clone(counts),
            running: Mutex::new(Some(HashMap::new())),
        }
    }

    /// A run of a key begins. Its writes are known by what is returned.
    pub(super) fn begin(&self, key: &Key) -> Runner {
        if let Some(running) = &mut *self.lock() {
            running.insert(key.clone(), Vec::new());
        }
        self.runner(key)
    }

    /// The run of a key has ended. What it has not written is a change.
    pub(super) fn end(&self, key: &Key) {
        let changes = self.lock().as_mut().and_then(|running| running.remove(key));
        for (log, change) in changes.unwrap_or_default() {
            if self.is_own(&log, &change, key) {
                self.counts.skipped.fetch_add(1, ORDER);
            } else {
                self.queue.add_after(key.clone(), self.debounce);
            }
        }
    }

    /// The controller stops, so that no decision can wait.
    pub(super) fn stop(&self) {
        let running = self.lock().take();
        for (key, changes) in running.unwrap_or_default() {
            if !changes.is_empty() {
                self.queue.add(key);
            }
        }
    }

    /// Returns whether a change does not add a key: it is an own write, or this is decided when the run of the key ends.
    fn takes(&self, log: &WriteLog, change: Change, key: &Key) -> bool {
        // Otherwise the run could end between the two decisions.
        let mut running = self.lock();
        if self.is_own(log, &change, key) {
            self.counts.skipped.fetch_add(1, ORDER);
            return true;
        }
        let changes = running.as_mut().and_then(|running| running.get_mut(key));
        let Some(changes) = changes.filter(|changes| changes.len() < PER_OBJECT) else {
            return false;
        };
        changes.push((log.clone(), change));
        true
    }

    fn is_own(&self, log: &WriteLog, change: &Change, key: &Key) -> bool {
        let (own, runner) = (log.own(), self.runner(key));
        own.has(change, &runner, &self.subresources)
    }

    fn runner(&self, key: &Key) -> Runner {
        Runner {
            controller: self.controller,
            key: key.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        // No code of users runs under this lock.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is skipped of the changes of one informer.
pub(super) struct SkipOf {
    skip: Arc<Skip>,
    log: WriteLog,
    resource: Arc<str>,
}

impl SkipOf {
    pub(super) fn new(skip: &Arc<Skip>, log: &WriteLog, resource: &Resource<'_>) -> Self {
        Self {
            skip: Arc::clone(skip),
            log: log.clone(),
            resource: name_of(resource).into(),
        }
    }

    /// Returns whether an update does not add a key; see [`Skip::takes`].
    pub(super) fn takes<F: Form>(&self, old: &Entry<F>, new: &Entry<F>, key: &Key) -> bool {
        // A list may hide what happened before.
        new.is_from_watch()
            && self.skip.takes(
                &self.log,
                Change {
                    resource: Arc::clone(&self.resource),
                    key: new.key().clone(),
                    from: old.version().clone(),
                    to: new.version().clone(),
                    is_of_status: new.is_as_beside_status(old),
                },
                key,
            )
    }
}
