//! A token bucket.

use core::time::Duration;

use super::RateLimit;
use crate::time::Instant;

/// Lets so many things happen in a second, and a burst of some at once after a time of rest.
///
/// A place can be [reserved](Self::reserve) that is yet to come, so that nobody has to ask twice.
///
/// ```
/// use core::time::Duration;
/// use informer_core::{Instant, queue::TokenBucket};
///
/// let now = Instant::from_micros(0);
/// let mut bucket = TokenBucket::new(10.0, 2);
/// assert!(bucket.try_take(now) && bucket.try_take(now) && !bucket.try_take(now));
/// assert_eq!(bucket.reserve(now), Duration::from_millis(100));
/// assert_eq!(bucket.reserve(now), Duration::from_millis(200));
/// ```
#[derive(Clone, Debug)]
pub struct TokenBucket {
    per_second: f64,
    burst: f64,
    /// What was there at a time; less than nothing where it was reserved ahead.
    tokens: f64,
    at: Option<Instant>,
}

impl TokenBucket {
    /// Makes a bucket that is full. A rate that is not above 0 lets the burst through and nothing more; a burst of 0 is
    /// one of 1.
    #[must_use]
    pub fn new(per_second: f64, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        Self {
            // `max` makes 0 of what is no number.
            per_second: per_second.max(0.0),
            burst,
            tokens: burst,
            at: None,
        }
    }

    /// Takes a token if there is one.
    pub fn try_take(&mut self, now: Instant) -> bool {
        self.reserve_within(now, Duration::ZERO).is_some()
    }

    /// Takes a token in any case, and returns how long to wait for it.
    pub fn reserve(&mut self, now: Instant) -> Duration {
        self.fill(now);
        self.tokens -= 1.0;
        self.wait_for(self.tokens)
    }

    /// Takes a token if it comes within a time, and returns how long to wait for it.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use informer_core::{Instant, queue::TokenBucket};
    /// # let now = Instant::from_micros(0);
    /// let mut bucket = TokenBucket::new(1.0, 1);
    /// assert_eq!(bucket.reserve_within(now, Duration::ZERO), Some(Duration::ZERO));
    /// assert_eq!(bucket.reserve_within(now, Duration::from_millis(900)), None);
    /// assert_eq!(bucket.reserve_within(now, Duration::from_secs(1)), Some(Duration::from_secs(1)));
    /// ```
    pub fn reserve_within(&mut self, now: Instant, most: Duration) -> Option<Duration> {
        self.fill(now);
        let tokens = self.tokens - 1.0;
        let wait = self.wait_for(tokens);
        (wait <= most).then(|| {
            self.tokens = tokens;
            wait
        })
    }

    fn fill(&mut self, now: Instant) {
        // A clock that goes back brings nothing.
        let at = self.at.map_or(now, |at| at.max(now));
        let passed = self.at.map_or(Duration::ZERO, |before| at - before);
        self.tokens = (self.tokens + passed.as_secs_f64() * self.per_second).min(self.burst);
        self.at = Some(at);
    }

    fn wait_for(&self, tokens: f64) -> Duration {
        if tokens >= 0.0 {
            return Duration::ZERO;
        }
        let wait = Duration::try_from_secs_f64(-tokens / self.per_second).unwrap_or(Duration::MAX);
        // What is less than a microsecond is the rounding of the sums.
        if wait < Duration::from_micros(1) {
            Duration::ZERO
        } else {
            wait
        }
    }
}

/// All keys take from the one bucket, and none is remembered.
impl<K> RateLimit<K> for TokenBucket {
    fn delay(&mut self, now: Instant, _: &K) -> Duration {
        self.reserve(now)
    }

    fn forget(&mut self, _: &K) {}

    fn requeues(&self, _: &K) -> u32 {
        0
    }
}
