//! Rate limits for retries.

use alloc::collections::BTreeMap;
use core::time::Duration;

use crate::time::Instant;

/// Determines how long a key waits before it is retried.
///
/// ```
/// use core::time::Duration;
/// use informer_core::{Instant, queue::RateLimit};
///
/// /// One second, for ever.
/// struct Steady;
///
/// impl<K> RateLimit<K> for Steady {
///     fn delay(&mut self, _: Instant, _: &K) -> Duration {
///         Duration::from_secs(1)
///     }
///     fn forget(&mut self, _: &K) {}
///     fn requeues(&self, _: &K) -> u32 {
///         0
///     }
/// }
/// # assert_eq!(Steady.delay(Instant::from_micros(0), &"a"), Duration::from_secs(1));
/// ```
pub trait RateLimit<K> {
    /// Counts a failure of a key, and returns the delay before its retry.
    fn delay(&mut self, now: Instant, key: &K) -> Duration;

    /// Resets the failures of a key.
    fn forget(&mut self, key: &K);

    /// Returns the number of counted failures of a key.
    fn requeues(&self, key: &K) -> u32;
}

/// Doubles the delay of a key with each failure, up to a maximum.
///
/// ```
/// use core::time::Duration;
/// use informer_core::{Instant, queue::{Exponential, RateLimit}};
///
/// let now = Instant::from_micros(0);
/// let mut limit = Exponential::new(Duration::from_millis(1), Duration::from_millis(3));
/// let delays = [0; 4].map(|_| limit.delay(now, &"a").as_millis());
/// assert_eq!(delays, [1, 2, 3, 3]);
/// limit.forget(&"a");
/// assert_eq!(limit.requeues(&"a"), 0);
/// ```
#[derive(Clone, Debug)]
pub struct Exponential<K> {
    first: Duration,
    most: Duration,
    /// The time without a failure after which those of a key are forgotten.
    expires: Option<Duration>,
    /// The number of failures of each key, and the last one.
    failures: BTreeMap<K, (u32, Instant)>,
    /// The number of keys at which expired ones are removed.
    sweep_at: usize,
}

impl<K: Ord> Exponential<K> {
    /// Creates a limit with a first and a maximum delay.
    #[must_use]
    pub const fn new(first: Duration, most: Duration) -> Self {
        Self {
            first,
            most,
            expires: None,
            failures: BTreeMap::new(),
            sweep_at: 64,
        }
    }

    /// Forgets a key that has not failed for longer than this, for programs that do not call
    /// [`forget`](RateLimit::forget). The `Backoff` of client-go uses twice the maximum delay.
    #[must_use]
    pub const fn expires_after(mut self, time: Duration) -> Self {
        self.expires = Some(time);
        self
    }
}

impl<K: Ord + Clone> RateLimit<K> for Exponential<K> {
    fn delay(&mut self, now: Instant, key: &K) -> Duration {
        let expires = self.expires;
        let is_expired = |last: Instant| {
            expires.is_some_and(|expires| now.saturating_duration_since(last) > expires)
        };
        if self.failures.len() >= self.sweep_at {
            self.failures.retain(|_, (_, last)| !is_expired(*last));
            self.sweep_at = (2 * self.failures.len()).max(64);
        }
        let (failures, last) = self.failures.entry(key.clone()).or_insert((0, now));
        if is_expired(*last) {
            *failures = 0;
        }
        let before = *failures;
        (*failures, *last) = (before.saturating_add(1), now);
        doubled(self.first, before).min(self.most)
    }

    fn forget(&mut self, key: &K) {
        self.failures.remove(key);
    }

    fn requeues(&self, key: &K) -> u32 {
        self.failures.get(key).map_or(0, |(failures, _)| *failures)
    }
}

/// The longer delay of two limits.
#[derive(Clone, Copy, Debug)]
pub struct MaxOf<A, B>(pub A, pub B);

impl<K, A: RateLimit<K>, B: RateLimit<K>> RateLimit<K> for MaxOf<A, B> {
    fn delay(&mut self, now: Instant, key: &K) -> Duration {
        self.0.delay(now, key).max(self.1.delay(now, key))
    }

    fn forget(&mut self, key: &K) {
        self.0.forget(key);
        self.1.forget(key);
    }

    fn requeues(&self, key: &K) -> u32 {
        self.0.requeues(key).max(self.1.requeues(key))
    }
}

fn doubled(first: Duration, times: u32) -> Duration {
    2_u32
        .checked_pow(times)
        .map_or(Duration::MAX, |factor| first.saturating_mul(factor))
}
