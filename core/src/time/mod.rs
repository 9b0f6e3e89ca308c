//! Points in time, backoff, and seeded randomness.

mod backoff;
mod rng;

pub(crate) use backoff::Backoff;
pub use backoff::BackoffConfig;
pub use rng::Rng;

use core::num::NonZeroU64;
use core::ops::{Add, Sub};
use core::time::Duration;

/// A point in time, in microseconds since an epoch that the caller chooses.
///
/// The engine has no clock: every method that depends on time takes `now`. All times of one informer must come from one
/// clock. If that clock goes back, the engine treats it as stopped. `Option<Instant>` has the size of `Instant`.
///
/// ```
/// use core::time::Duration;
/// use informer_core::Instant;
///
/// let start = Instant::from_micros(0);
/// let later = start + Duration::from_millis(800);
/// assert_eq!(later.saturating_duration_since(start), Duration::from_millis(800));
/// assert_eq!(start.saturating_duration_since(later), Duration::ZERO);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(NonZeroU64);

impl Instant {
    /// Creates the instant `micros` microseconds after the epoch.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(micros))
    }

    /// Returns the microseconds since the epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0.get() - 1
    }

    /// Returns the time from `earlier` to `self`, or zero if `earlier` is later.
    #[must_use]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.get().saturating_sub(earlier.0.get()))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Adds a duration. An overflow saturates at the last instant (584,000 years).
    fn add(self, duration: Duration) -> Self {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(micros))
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

impl core::fmt::Debug for Instant {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let micros = self.as_micros();
        write!(f, "{}.{:06}s", micros / 1_000_000, micros % 1_000_000)
    }
}

/// Returns the earlier of two deadlines. `None` means never.
pub(crate) fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_costs_nothing() {
        assert_eq!(size_of::<Option<Instant>>(), 8);
    }

    #[test]
    fn overflow_stays_at_the_end() {
        let end = Instant::from_micros(u64::MAX);
        assert_eq!(end + Duration::MAX, end);
        assert_eq!(earliest(None, Some(end)), Some(end));
        assert_eq!(
            earliest(Some(Instant::from_micros(1)), Some(end)),
            Some(Instant::from_micros(1))
        );
    }
}
