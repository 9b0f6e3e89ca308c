//! A clock that goes on while the machine is suspended.

#[cfg(test)]
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
#[cfg(test)]
use std::sync::Arc;

use informer_core::{Instant, Timer as _};

use crate::timer::TokioTimer;

/// The longest sleep without a look at the time for which the machine was suspended.
const LOOK: Duration = Duration::from_secs(1);

/// tokio's clock, and the time for which the machine was suspended. tokio's stands still then on most systems, so that a
/// leader that is resumed would believe in a Lease that others have taken over.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    timer: TokioTimer,
    /// The time for which the machine had been suspended before.
    before: Duration,
    /// Further microseconds.
    #[cfg(test)]
    pub(crate) jump: Arc<AtomicU64>,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            timer: TokioTimer::default(),
            before: suspended(),
            #[cfg(test)]
            jump: Arc::default(),
        }
    }
}

impl Clock {
    pub(crate) fn now(&self) -> Instant {
        let now = self.timer.now() + suspended().saturating_sub(self.before);
        #[cfg(test)]
        let now = now + Duration::from_micros(self.jump.load(Ordering::Relaxed));
        now
    }

    /// Waits until a time. After the machine was suspended, it takes up to a second to notice.
    pub(crate) async fn sleep_until(&self, until: Instant) {
        let mut timer = self.timer;
        loop {
            let left = until.saturating_duration_since(self.now());
            if left.is_zero() {
                return;
            }
            timer.sleep_until(timer.now() + left.min(LOOK)).await;
        }
    }
}

/// Returns for how long the machine has been suspended since it was started, and never less than before.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn suspended() -> Duration {
    #[cfg(not(test))]
    use core::sync::atomic::{AtomicU64, Ordering};

    use rustix::time::{ClockId, clock_gettime};

    static MOST: AtomicU64 = AtomicU64::new(0);
    let micros = |clock| {
        let time = clock_gettime(clock);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let part = u64::try_from(time.tv_nsec / 1000).unwrap_or_default();
        seconds.saturating_mul(1_000_000).saturating_add(part)
    };
    // A pause between the two makes it too short, and never too long.
    let (with, without) = (micros(ClockId::Boottime), micros(ClockId::Monotonic));
    let now = with.saturating_sub(without);
    Duration::from_micros(MOST.fetch_max(now, Ordering::Relaxed).max(now))
}

/// It is not known on this system, whose clock may go on during a suspension.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const fn suspended() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may")]

    use super::*;
    use crate::election::{Election, ElectionConfig, LeaseClient, LeaseRecord, Written};

    /// A Lease that nobody else wants.
    #[derive(Default)]
    struct Alone(Option<LeaseRecord>, u64);

    impl LeaseClient for Alone {
        type Error = core::convert::Infallible;

        async fn read(&mut self) -> Result<Option<(LeaseRecord, String)>, Self::Error> {
            Ok(self.0.clone().map(|record| (record, self.1.to_string())))
        }

        async fn create(&mut self, record: &LeaseRecord) -> Result<Written, Self::Error> {
            self.update(record, "", true).await
        }

        async fn update(
            &mut self,
            record: &LeaseRecord,
            _: &str,
            _: bool,
        ) -> Result<Written, Self::Error> {
            self.0 = Some(record.clone());
            self.1 += 1;
            Ok(Written::Done(self.1.to_string()))
        }
    }

    /// tokio's clock stands still during a suspension, and the Lease does not.
    #[tokio::test(start_paused = true)]
    async fn a_leader_that_was_suspended_does_not_lead() {
        let (leadership, election) =
            Election::new(Alone::default(), "a", ElectionConfig::default()).unwrap();
        let jump = Arc::clone(&leadership.clock().jump);
        tokio::spawn(election.run());
        assert!(leadership.acquired().await);
        let (lost, work) = (leadership.clone(), leadership.clone());
        let lost = tokio::spawn(async move { lost.lost().await });
        let work =
            tokio::spawn(async move { work.while_leading(core::future::pending::<()>()).await });
        tokio::task::yield_now().await;
        jump.fetch_add(11_000_000, Ordering::Relaxed);
        assert!(!leadership.is_leader(), "its deadline has passed");
        let cut = tokio::time::timeout(Duration::from_millis(1500), work).await;
        assert_eq!(cut.unwrap().unwrap(), None);
        lost.await.unwrap();
        // Nobody has taken the Lease, so a renewal makes it the leader again.
        assert!(leadership.acquired().await);
    }
}
