//! Handles of running controllers.

use core::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use super::counts::{ControllerMetrics, Counts, LOW};
use super::follow::{AllKeys, Followed, HealthOf};
use super::live::{Ended, Live};
use super::only::Only;
use super::provided::IntoInformer;
use crate::cache::entry::{Entry, Key};
use crate::controller::queue::WorkQueue;
use crate::health::Health;

/// Stops a controller, adds keys to it and returns its metrics. It is cheap to clone.
#[derive(Clone)]
pub struct ControllerHandle {
    pub(super) name: Arc<str>,
    pub(super) queue: WorkQueue<Key>,
    pub(super) all: Vec<AllKeys>,
    pub(super) health: Vec<HealthOf>,
    pub(super) keep: Only,
    pub(super) stop: Arc<watch::Sender<Stop>>,
    pub(super) rechecks: Arc<watch::Sender<u64>>,
    pub(super) counts: Arc<Counts>,
    pub(super) live: Arc<Live>,
}

/// How a controller is to stop. A later variant takes precedence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Stop {
    No,
    /// After all waiting keys have been reconciled.
    Drain,
    /// After the running reconciliations.
    Now,
    /// At once.
    Cut,
}

/// The state in which a controller ended.
///
/// ```
/// # fn example(stopped: informer_tokio::controller::Stopped) {
/// if stopped.cut > 0 {
///     eprintln!("{} runs were cut", stopped.cut);
/// }
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stopped {
    /// The number of keys that were waiting for a worker, or for the first list of their namespace or cluster.
    pub waiting: usize,
    /// The number of delayed keys: retries, and keys that were requeued after a time.
    pub delayed: usize,
    /// The number of runs that were cut because the time to stop was over.
    pub cut: usize,
}

impl ControllerHandle {
    #[cfg(feature = "page")]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Stops the controller. No further key is started, and running reconciliations may finish. Then
    /// [`Controller::run`](super::Controller::run) returns.
    pub fn stop(&self) {
        self.raise(Stop::Now);
    }

    /// Stops the controller after all waiting keys have been reconciled. Delayed keys are discarded.
    pub fn drain(&self) {
        self.raise(Stop::Drain);
    }

    /// Adds a key without a change of its object. While it belongs to another replica, it is kept, once.
    pub fn enqueue(&self, key: Key) {
        if self.keep.admits(&key) {
            self.queue.add(key);
        }
    }

    /// Adds an informer while the controller runs, like [`Controller::watches`](super::Controller::watches): the keys that `map`
    /// returns for its objects are reconciled. So a controller follows kinds that it learns of while it runs.
    ///
    /// Runs do not wait for its first list: until then, [`Lister::try_get`](crate::Lister::try_get) fails. If it cannot be
    /// listed or ends, the controller continues. The controller runs a driver that it gets with the informer, and stops it
    /// at its own end.
    ///
    /// ```
    /// use informer_tokio::{Informer, Key, Raw};
    /// use informer_tokio::controller::ControllerHandle;
    ///
    /// fn follow(handle: &ControllerHandle, widgets: &Informer<Raw>) -> Result<(), informer_tokio::controller::Ended> {
    ///     handle.watch(widgets, |widget| widget.label("app").map(|app| Key::new(&format!("{}/{app}", widget.namespace()))))
    /// }
    /// ```
    ///
    /// # Errors
    /// Fails if the controller has ended.
    pub fn watch<I, K>(
        &self,
        informer: I,
        map: impl Fn(&Entry<I::Form>) -> K + Send + Sync + 'static,
    ) -> Result<(), Ended>
    where
        I: IntoInformer,
        K: IntoIterator<Item = Key>,
    {
        self.live.add(Followed::new(informer, map))
    }

    /// Adds the keys that follow from all existing objects of all informers, after those that have changed, for example
    /// after the result of [`Controller::only`](super::Controller::only) has changed.
    pub fn enqueue_all(&self) {
        let mut add = |key| {
            if self.keep.admits(&key) {
                self.queue.add_with_priority(key, LOW);
            }
        };
        let live = self.live.all();
        self.all.iter().chain(&live).for_each(|all| all(&mut add));
    }

    /// Evaluates [`Controller::only`](super::Controller::only) again for all keys. Runs of keys that no longer belong
    /// to the controller are cut, with a [`Failure::Cut`](super::Failure::Cut). The keys that follow from all objects, and
    /// those that came before they belonged to it, are added.
    pub(crate) fn recheck(&self) {
        self.rechecks
            .send_modify(|count| *count = count.wrapping_add(1));
        self.enqueue_all();
        for key in self.keep.take_own() {
            self.queue.add(key);
        }
    }

    /// Returns the metrics.
    #[must_use]
    pub fn metrics(&self) -> ControllerMetrics {
        self.counts.metrics(self.queue.metrics())
    }

    /// Returns the health of the informers that the controller runs.
    #[must_use]
    pub fn health(&self) -> Vec<Health> {
        let live = self.live.health();
        let health = self.health.iter().chain(&live);
        health.map(|health| health()).collect()
    }

    pub(super) fn raise(&self, stop: Stop) {
        self.stop.send_if_modified(|before| {
            let is_news = *before < stop;
            *before = stop.max(*before);
            is_news
        });
    }
}

impl fmt::Debug for ControllerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerHandle")
            .field("name", &self.name)
            .field("stop", &*self.stop.borrow())
            .finish_non_exhaustive()
    }
}
