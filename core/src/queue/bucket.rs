//! A token bucket.

use core::time::Duration;

use super::RateLimit;
use crate::time::Instant;

/// Limits events to a rate per second, with a burst after an idle time.
///
/// A token can be [reserved](Self::reserve) in advance, so that the caller need not poll.
///
/// ```
/// use core::time::Duration;
/// use informer_core::{Instant, queue::TokenBucket};
///
/// let now = Instant::from_micros(0);
/// let mut bucket = TokenBucket::new(10.0, 2);
/// assert_eq!([(); 2].map(|()| bucket.reserve(now)), [Duration::ZERO; 2]);
/// assert_eq!(bucket.reserve(now), Duration::from_millis(100));
/// assert_eq!(bucket.reserve(now), Duration::from_millis(200));
/// ```
#[derive(Clone, Debug)]
pub struct TokenBucket {
    per_second: f64,
    burst: f64,
    /// The tokens at that time. It is negative if tokens were reserved in advance.
    tokens: f64,
    at: Option<Instant>,
}

impl TokenBucket {
    /// Creates a full bucket. With a rate that is not positive, only the burst is allowed. A burst of 0 counts as 1.
    #[must_use]
    pub fn new(per_second: f64, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        Self {
            // `max` replaces NaN with 0.
            per_second: per_second.max(0.0),
            burst,
            tokens: burst,
            at: None,
        }
    }

    /// Takes a token unconditionally, and returns how long to wait for it.
    pub fn reserve(&mut self, now: Instant) -> Duration {
        self.fill(now);
        self.tokens -= 1.0;
        self.wait_for(self.tokens)
    }

    /// Takes a token if it is available within `most`, and returns how long to wait for it. With a `most` of zero, it
    /// takes a token that is there at once.
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
        // If the clock goes back, no tokens are added.
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
        // Less than a microsecond is a rounding error.
        if wait < Duration::from_micros(1) {
            Duration::ZERO
        } else {
            wait
        }
    }
}

/// All keys share the bucket, and no failures are counted.
impl<K> RateLimit<K> for TokenBucket {
    fn delay(&mut self, now: Instant, _: &K) -> Duration {
        self.reserve(now)
    }

    fn forget(&mut self, _: &K) {}

    fn requeues(&self, _: &K) -> u32 {
        0
    }
}
