//! What is outside of a controller that runs.

use core::fmt;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;

use informer_core::queue::QueueMetrics;
use tokio::sync::watch;

use super::only::Only;
use crate::cache::entry::Key;
use crate::controller::queue::WorkQueue;

/// Stops a controller, adds keys to it, and has its figures. It is cheap to clone.
#[derive(Clone)]
pub struct ControllerHandle {
    pub(super) name: Arc<str>,
    pub(super) queue: WorkQueue<Key>,
    pub(super) keys: Arc<dyn Fn() -> Vec<Key> + Send + Sync>,
    pub(super) keep: Only,
    pub(super) stop: Arc<watch::Sender<Stop>>,
    pub(super) rechecks: Arc<watch::Sender<u64>>,
    pub(super) counts: Arc<Counts>,
}

/// How a controller is to stop; a later one is stronger.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Stop {
    No,
    /// When all is done that waits.
    Drain,
    /// When all is done that is under way.
    Now,
}

/// Figures of a controller that more than one task looks at.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) running: AtomicUsize,
    pub(super) settling: AtomicUsize,
    pub(super) succeeded: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) panicked: AtomicU64,
    pub(super) cut: AtomicU64,
    pub(super) unseen: AtomicU64,
}

// Nothing else depends on these figures, so no order between them is needed.
pub(super) const ORDER: Ordering = Ordering::Relaxed;

/// Figures of a controller.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ControllerMetrics {
    /// How many keys are reconciled now.
    pub running: usize,
    /// How many keys wait for the cache to show what they wrote.
    pub waiting_for_writes: usize,
    /// How many runs went well.
    pub succeeded: u64,
    /// How many runs gave an error.
    pub failed: u64,
    /// How many runs panicked, and how often [`Controller::only`](super::Controller::only) did in place of one.
    pub panicked: u64,
    /// How many runs were cut: by a stop, or since the key was another's.
    pub cut: u64,
    /// How many writes the cache did not show in time.
    pub writes_not_seen: u64,
    /// Figures of the queue, for which a key that waits for a write is worked on.
    pub queue: QueueMetrics,
}

/// How a controller ended.
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
    /// How many keys were left that waited for a worker.
    pub waiting: usize,
    /// How many keys were left that waited for their time: retries, and what is looked at again after a time.
    pub delayed: usize,
    /// How many runs were cut, since the time for the stop was over.
    pub cut: usize,
}

impl Counts {
    pub(super) fn metrics(&self, queue: QueueMetrics) -> ControllerMetrics {
        ControllerMetrics {
            running: self.running.load(ORDER),
            waiting_for_writes: self.settling.load(ORDER),
            succeeded: self.succeeded.load(ORDER),
            failed: self.failed.load(ORDER),
            panicked: self.panicked.load(ORDER),
            cut: self.cut.load(ORDER),
            writes_not_seen: self.unseen.load(ORDER),
            queue,
        }
    }
}

impl ControllerHandle {
    /// Returns the controller's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Stops: no key is begun any more, and what is under way comes to its end. [`Controller::run`](super::Controller::run)
    /// returns then.
    pub fn stop(&self) {
        self.raise(Stop::Now);
    }

    /// Stops after all that waits was done; delayed keys do not wait, they are left.
    pub fn drain(&self) {
        self.raise(Stop::Drain);
    }

    /// Adds a key, whatever its objects do.
    pub fn enqueue(&self, key: Key) {
        if self.keep.lets_in(&key) {
            self.queue.add(key);
        }
    }

    /// Adds the keys of all objects that there are: where [`Controller::only`](super::Controller::only) keeps others than
    /// it did.
    pub fn enqueue_all(&self) {
        for key in (self.keys)() {
            self.enqueue(key);
        }
    }

    /// Looks at all keys anew: runs whose key [`Controller::only`](super::Controller::only) keeps no more are cut, which is a
    /// [`Failure::Cut`](super::Failure::Cut), and the keys of all objects that it keeps are added.
    pub fn recheck(&self) {
        self.rechecks
            .send_modify(|count| *count = count.wrapping_add(1));
        self.enqueue_all();
    }

    /// Returns figures.
    #[must_use]
    pub fn metrics(&self) -> ControllerMetrics {
        self.counts.metrics(self.queue.metrics())
    }

    fn raise(&self, stop: Stop) {
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
