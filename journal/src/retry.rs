//! The delays between attempts to repair a journal.

use core::time::Duration;

use informer_core::Instant;

/// The first delay.
const FIRST: Duration = Duration::from_secs(1);

/// Delays that double from a second up to a limit. They restart only after a pause of twice the limit, so that a
/// journal that fails again soon after each recovery is not retried every second.
///
/// ```
/// use core::time::Duration;
/// use informer_core::Instant;
/// use informer_journal::Retry;
///
/// let mut retry = Retry::up_to(Duration::from_secs(300));
/// let now = Instant::from_micros(0);
/// assert!(!retry.is_due(now), "the first delay begins now");
/// assert!(retry.is_due(now + Duration::from_secs(1)));
/// assert!(!retry.is_due(now + Duration::from_secs(1)), "and now the second one, of two seconds");
/// ```
#[derive(Clone, Debug)]
pub struct Retry {
    limit: Duration,
    next: Duration,
    due: Option<Instant>,
    last: Option<Instant>,
}

impl Retry {
    /// Creates delays that grow up to a limit.
    #[must_use]
    pub const fn up_to(limit: Duration) -> Self {
        Self {
            limit,
            next: FIRST,
            due: None,
            last: None,
        }
    }

    /// Returns the end of the current delay, which begins with the first call after an attempt.
    pub fn due(&mut self, now: Instant) -> Instant {
        if let Some(due) = self.due {
            return due;
        }
        let was_quiet = self
            .last
            .is_some_and(|last| now.saturating_duration_since(last) > self.limit.saturating_mul(2));
        if was_quiet {
            self.next = FIRST;
        }
        let due = now + self.next.min(self.limit);
        self.next = self.next.saturating_mul(2).min(self.limit);
        self.due = Some(due);
        due
    }

    /// Returns whether it is time for an attempt. If so, it counts as made.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now >= self.due(now);
        if is_due {
            (self.due, self.last) = (None, Some(now));
        }
        is_due
    }

    /// Ends the current delay, because no attempt is needed any more.
    pub const fn reset(&mut self) {
        self.due = None;
    }
}
