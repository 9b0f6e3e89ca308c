//! What a work queue counts.

use core::time::Duration;

/// Figures of a work queue, as client-go's workqueue metrics have them.
///
/// ```
/// use core::time::Duration;
/// use informer_core::{Instant, queue::WorkQueue};
///
/// let at = |seconds: u64| Instant::from_micros(seconds * 1_000_000);
/// let mut queue = WorkQueue::new();
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
    /// How many keys can be given out.
    pub depth: usize,
    /// How many keys are worked on.
    pub working: usize,
    /// How many keys are delayed.
    pub delayed: usize,
    /// How often a key was added that was not there.
    pub adds: u64,
    /// How often a key was added by the rate limit.
    pub retries: u64,
    /// How long keys waited until they were given out.
    pub wait: Spread,
    /// How long keys were worked on.
    pub work: Spread,
    /// For how long the keys that are worked on have been so, together.
    pub unfinished: Duration,
    /// For how long the one of them has been so that began first.
    pub longest_running: Duration,
}

/// Count, sum and maximum of durations.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// All together.
    pub sum: Duration,
    /// The longest.
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
