//! tokio's clock.

use core::time::Duration;

use informer_core::{Instant, Timer};

/// tokio's clock as a [`Timer`]. In tests it can be paused.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use core::time::Duration;
/// use informer_core::Timer;
/// use informer_tokio::transport::TokioTimer;
///
/// let mut timer = TokioTimer::default();
/// let start = timer.now();
/// timer.sleep_until(start + Duration::from_secs(60)).await;
/// assert!(timer.now() >= start + Duration::from_secs(60));
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TokioTimer {
    epoch: tokio::time::Instant,
}

/// Creates a clock whose epoch is now.
impl Default for TokioTimer {
    fn default() -> Self {
        Self {
            epoch: tokio::time::Instant::now(),
        }
    }
}

impl Timer for TokioTimer {
    fn now(&self) -> Instant {
        let elapsed = self.epoch.elapsed();
        Instant::from_micros(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX))
    }

    async fn sleep_until(&mut self, deadline: Instant) {
        // One microsecond is added because the clock truncates to microseconds, and must not be before the deadline
        // after waking.
        let after = Duration::from_micros(deadline.as_micros().saturating_add(1));
        match self.epoch.checked_add(after) {
            Some(at) => tokio::time::sleep_until(at).await,
            None => core::future::pending().await,
        }
    }
}
