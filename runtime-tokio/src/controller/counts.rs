//! The metrics of a controller.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use informer_core::queue::{QueueMetrics, Spread};

use super::seat::Seat;
use crate::cache::entry::Key;

/// The priority of keys that no change added: the initial list and resyncs. It is that of controller-runtime.
pub(super) const LOW: i32 = -100;

/// The bounds of [`ControllerMetrics::reconcile`], which are those of controller-runtime.
pub(crate) const RECONCILE: [Duration; 40] = {
    const MILLIS: [u64; 40] = [
        5, 10, 25, 50, 100, 150, 200, 250, 300, 350, 400, 450, 500, 600, 700, 800, 900, 1000, 1250,
        1500, 1750, 2000, 2500, 3000, 3500, 4000, 4500, 5000, 6000, 7000, 8000, 9000, 10_000,
        15_000, 20_000, 25_000, 30_000, 40_000, 50_000, 60_000,
    ];
    let mut bounds = [Duration::ZERO; 40];
    let mut at = 0;
    while at < bounds.len() {
        bounds[at] = Duration::from_millis(MILLIS[at]);
        at += 1;
    }
    bounds
};

/// Metrics of a controller that several tasks access.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) workers: AtomicUsize,
    pub(super) running: AtomicUsize,
    pub(super) settling: AtomicUsize,
    pub(super) held: AtomicUsize,
    pub(super) succeeded: AtomicU64,
    pub(super) requeued: AtomicU64,
    pub(super) requeued_after: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) terminal: AtomicU64,
    pub(super) timed_out: AtomicU64,
    pub(super) panicked: AtomicU64,
    pub(super) cut: AtomicU64,
    pub(super) unseen: AtomicU64,
    pub(super) skipped: AtomicU64,
    reconcile: RunTimes,
    /// The keys whose runs were reported because they take long.
    pub(super) long: Mutex<Vec<Key>>,
    /// The place of this replica, if there are several.
    pub(super) seat: OnceLock<Seat>,
}

#[derive(Debug)]
struct RunTimes(Mutex<Spread>);

impl Default for RunTimes {
    fn default() -> Self {
        Self(Mutex::new(Spread::new(&RECONCILE)))
    }
}

// Nothing else depends on these numbers, so their order does not matter.
pub(super) const ORDER: Ordering = Ordering::Relaxed;

/// Metrics of a controller.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ControllerMetrics {
    /// The most keys that are reconciled at the same time.
    pub workers: usize,
    /// The number of running reconciliations.
    pub running: usize,
    /// The keys whose runs have taken more than ten minutes and have not ended.
    pub long_runs: Vec<Key>,
    /// The number of keys that wait until the cache shows their writes.
    pub waiting_for_writes: usize,
    /// The number of keys that wait for the first list of their namespace or cluster, or for a cache that is
    /// [new enough](super::Controller::max_staleness).
    pub waiting_for_lists: usize,
    /// The number of successful runs.
    pub succeeded: u64,
    /// The number of those that requeued their key [at once](super::Next::again).
    pub requeued: u64,
    /// The number of those that requeued their key [after a time](super::Next::after).
    pub requeued_after: u64,
    /// The number of runs that returned an error, or whose time was over.
    pub failed: u64,
    /// The number of those that are [not retried](super::Retry::Never).
    pub terminal: u64,
    /// The number of those whose [time](super::Controller::run_within) was over.
    pub timed_out: u64,
    /// The number of panics in runs, and in [`Controller::only`](super::Controller::only).
    pub panicked: u64,
    /// The number of runs that were cut by a stop, or because the key moved to another controller.
    pub cut: u64,
    /// The number of writes that the cache did not show in time.
    pub writes_not_seen: u64,
    /// The number of changes that were [skipped](super::Controller::skip_own_writes) as the controller's own writes.
    pub own_writes_skipped: u64,
    /// Whether this replica leads or shares keys; `None` without an election.
    pub is_active: Option<bool>,
    /// The identity of the last known leader, which may be this replica; `None` if there is none, or if replicas share keys.
    pub leader: Option<String>,
    /// Why the Leases of the election cannot be read or written now. Then nothing may be reconciled.
    pub election_error: Option<String>,
    /// The times of the runs.
    pub reconcile: Spread,
    /// Metrics of the queue. It counts a key that waits for a write as being processed.
    pub queue: QueueMetrics,
}

impl Counts {
    pub(super) fn reconcile(&self) -> MutexGuard<'_, Spread> {
        // No user code runs under this lock.
        self.reconcile
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn long(&self) -> MutexGuard<'_, Vec<Key>> {
        self.long.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn metrics(&self, queue: QueueMetrics) -> ControllerMetrics {
        ControllerMetrics {
            workers: self.workers.load(ORDER),
            running: self.running.load(ORDER),
            long_runs: self.long().clone(),
            waiting_for_writes: self.settling.load(ORDER),
            waiting_for_lists: self.held.load(ORDER),
            succeeded: self.succeeded.load(ORDER),
            requeued: self.requeued.load(ORDER),
            requeued_after: self.requeued_after.load(ORDER),
            failed: self.failed.load(ORDER),
            terminal: self.terminal.load(ORDER),
            timed_out: self.timed_out.load(ORDER),
            panicked: self.panicked.load(ORDER),
            cut: self.cut.load(ORDER),
            writes_not_seen: self.unseen.load(ORDER),
            own_writes_skipped: self.skipped.load(ORDER),
            is_active: self.seat.get().map(Seat::is_active),
            leader: self.seat.get().and_then(Seat::leader),
            election_error: self.seat.get().and_then(Seat::error),
            reconcile: self.reconcile().clone(),
            queue,
        }
    }
}
