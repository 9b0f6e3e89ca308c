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

/// A histogram of durations. A duration is added with `+=`.
///
/// ```
/// use core::time::Duration;
/// use informer_core::queue::Spread;
///
/// const BOUNDS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(10)];
/// let mut times = Spread::new(&BOUNDS);
/// times += Duration::from_millis(7);
/// times += Duration::from_secs(1);
/// assert_eq!((times.count, times.max), (2, Duration::from_secs(1)));
/// assert!(times.at_most().eq([(BOUNDS[0], 0), (BOUNDS[1], 1)]));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Spread {
    /// The number of durations.
    pub count: u64,
    /// Their sum.
    pub sum: Duration,
    /// The longest one.
    pub max: Duration,
    bounds: &'static [Duration],
    /// For each bound, the number of durations that are not longer. It is empty before the first duration.
    at_most: Vec<u64>,
}

impl Spread {
    /// The powers of ten from 10 ns to 1000 s: the bounds of controller-runtime's work queues.
    pub const DECADES: [Duration; 12] = {
        let mut bounds = [Duration::from_nanos(10); 12];
        let mut at = 1;
        while at < bounds.len() {
            bounds[at] = bounds[at - 1].saturating_mul(10);
            at += 1;
        }
        bounds
    };

    /// Creates an empty histogram with these bounds, in ascending order.
    #[must_use]
    pub const fn new(bounds: &'static [Duration]) -> Self {
        Self {
            count: 0,
            sum: Duration::ZERO,
            max: Duration::ZERO,
            bounds,
            at_most: Vec::new(),
        }
    }

    /// Returns each bound with the number of durations that are not longer, as in a histogram of Prometheus.
    pub fn at_most(&self) -> impl Iterator<Item = (Duration, u64)> {
        let counts = self.at_most.iter().copied().chain(core::iter::repeat(0));
        self.bounds.iter().copied().zip(counts)
    }
}

/// Creates an empty histogram with the bounds [`DECADES`](Self::DECADES).
impl Default for Spread {
    fn default() -> Self {
        Self::new(&Self::DECADES)
    }
}

impl QueueMetrics {
    pub(super) const fn new() -> Self {
        Self {
            depth: 0,
            depths: Vec::new(),
            working: 0,
            delayed: 0,
            adds: 0,
            retries: 0,
            wait: Spread::new(&Spread::DECADES),
            work: Spread::new(&Spread::DECADES),
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
        self.at_most.resize(self.bounds.len(), 0);
        for (bound, count) in self.bounds.iter().zip(&mut self.at_most) {
            *count += u64::from(time <= *bound);
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
        let counts: Vec<u64> = spread.at_most().map(|(_, count)| count).collect();
        assert_eq!(counts, [1, 1, 2, 3, 3, 3, 4, 5, 5, 5, 5, 5]);
    }
}
