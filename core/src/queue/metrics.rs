//! Metrics of a work queue.

use core::time::Duration;

/// Metrics of a work queue, like client-go's workqueue metrics.
///
/// ```
/// use core::time::Duration;
/// use informer_core::{Instant, queue::PolledQueue};
///
/// let at = |seconds: u64| Instant::from_micros(seconds * 1_000_000);
/// let mut queue = PolledQueue::new();
/// queue.add(at(0), "a");
/// queue.take(at(3));
/// let metrics = queue.metrics(at(5));
/// assert_eq!((metrics.adds, metrics.depth, metrics.working), (1, 0, 1));
/// assert_eq!(metrics.wait.sum, Duration::from_secs(3));
/// assert_eq!(metrics.longest_running, Duration::from_secs(2));
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct QueueMetrics {
    /// The number of keys that are ready.
    pub depth: usize,
    /// The number of keys that are being processed.
    pub working: usize,
    /// The number of delayed keys.
    pub delayed: usize,
    /// The number of added keys, without those that were already waiting.
    pub adds: u64,
    /// The number of keys that were added through the rate limit.
    pub retries: u64,
    /// The times that keys waited before they were processed.
    pub wait: Spread,
    /// The times that keys were processed.
    pub work: Spread,
    /// The total time since the keys in processing were taken.
    pub unfinished: Duration,
    /// The time since the first of them was taken.
    pub longest_running: Duration,
}

/// The count, sum and maximum of durations.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Spread {
    /// The number of durations.
    pub count: u64,
    /// Their sum.
    pub sum: Duration,
    /// The longest one.
    pub max: Duration,
}

impl QueueMetrics {
    pub(super) const fn new() -> Self {
        const NONE: Spread = Spread {
            count: 0,
            sum: Duration::ZERO,
            max: Duration::ZERO,
        };
        Self {
            depth: 0,
            working: 0,
            delayed: 0,
            adds: 0,
            retries: 0,
            wait: NONE,
            work: NONE,
            unfinished: Duration::ZERO,
            longest_running: Duration::ZERO,
        }
    }

    pub(super) fn waited(&mut self, time: Duration) {
        self.wait.add(time);
    }

    pub(super) fn worked(&mut self, time: Duration) {
        self.work.add(time);
    }
}

impl Spread {
    fn add(&mut self, time: Duration) {
        self.count += 1;
        self.sum = self.sum.saturating_add(time);
        self.max = self.max.max(time);
    }
}
