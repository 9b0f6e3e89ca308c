//! Metrics of a work queue.

use alloc::vec::Vec;
use core::ops::AddAssign;
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
    /// Their numbers by priority, from the highest. A priority without keys is left out.
    pub depths: Vec<(i32, usize)>,
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

/// The distribution of durations. A duration is added with `+=`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Spread {
    /// The number of durations.
    pub count: u64,
    /// Their sum.
    pub sum: Duration,
    /// The longest one.
    pub max: Duration,
    /// The numbers of durations of at most 1 µs, 10 µs and so on up to 1000 s, as in a histogram of Prometheus.
    pub at_most: [u64; 10],
}

impl QueueMetrics {
    pub(super) const fn new() -> Self {
        const NONE: Spread = Spread {
            count: 0,
            sum: Duration::ZERO,
            max: Duration::ZERO,
            at_most: [0; 10],
        };
        Self {
            depth: 0,
            depths: Vec::new(),
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
        self.wait += time;
    }

    pub(super) fn worked(&mut self, time: Duration) {
        self.work += time;
    }
}

impl AddAssign<Duration> for Spread {
    fn add_assign(&mut self, time: Duration) {
        self.count += 1;
        self.sum = self.sum.saturating_add(time);
        self.max = self.max.max(time);
        let mut bound = Duration::from_micros(1);
        for count in &mut self.at_most {
            *count += u64::from(time <= bound);
            bound = bound.saturating_mul(10);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_by_powers_of_ten() {
        let mut spread = Spread::default();
        for micros in [0, 1, 2, 10_000, 10_001, 2_000_000_000] {
            spread += Duration::from_micros(micros);
        }
        assert_eq!(spread.count, 6);
        assert_eq!(spread.at_most, [2, 3, 3, 3, 4, 5, 5, 5, 5, 5]);
    }
}
