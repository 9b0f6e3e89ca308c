//! The progress of a listener, for its handle and for the informer's health.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct ListenerState {
    pub(crate) name: String,
    left: AtomicBool,
    synced: AtomicBool,
    /// The number of notifications taken from the log and not delivered yet.
    taken: AtomicUsize,
    calls: AtomicU64,
    panics: AtomicU64,
    call_since: Mutex<Option<Instant>>,
}

// Nothing else depends on these numbers, so their order does not matter.
const ORDER: Ordering = Ordering::Relaxed;

impl ListenerState {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            left: AtomicBool::new(false),
            synced: AtomicBool::new(false),
            taken: AtomicUsize::new(0),
            calls: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            call_since: Mutex::new(None),
        }
    }

    /// Removes the listener. Notifications that were taken for it are not delivered any more.
    pub(crate) fn leave(&self) {
        self.left.store(true, Ordering::Release);
    }

    pub(crate) fn has_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }

    pub(crate) fn take(&self, count: usize) {
        self.taken.store(count, ORDER);
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.load(ORDER)
    }

    /// Counts one of the taken notifications as being delivered.
    pub(crate) fn begin_call(&self, is_call: bool, now: Instant) {
        // The same task takes and delivers, so no update is lost between load and store.
        self.taken.store(self.taken().saturating_sub(1), ORDER);
        self.calls.fetch_add(u64::from(is_call), ORDER);
        *self.call_since() = Some(now);
    }

    pub(crate) fn end_call(&self, panicked: bool) {
        self.panics.fetch_add(u64::from(panicked), ORDER);
        *self.call_since() = None;
    }

    pub(crate) fn set_synced(&self) {
        self.synced.store(true, ORDER);
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.synced.load(ORDER)
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(ORDER)
    }

    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(ORDER)
    }

    pub(crate) fn call(&self, now: Instant) -> Option<Duration> {
        self.call_since()
            .map(|since| now.saturating_duration_since(since))
    }

    fn call_since(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.call_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
