//! A clock that follows tokio's time.

use core::time::Duration;

use informer_core::{Instant, Timer};

/// tokio's clock, real or paused, as a [`Timer`]. Clones share the same time.
///
/// A mock on this clock needs only tokio. If tokio's time is paused, tokio itself advances to the next deadline,
/// including those of the server.
///
/// ```
/// use core::time::Duration;
/// use informer_mock::{Body, FakeServer, Get, Mock, TokioClock, Transport};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), informer_mock::MockError> {
/// let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
/// let target = "/api/v1/pods?watch=true&resourceVersion=1&timeoutSeconds=300";
/// let (_, mut watch) = mock.transport().send(Get::new(target).watch(true)).await?;
/// let start = tokio::time::Instant::now();
/// assert_eq!(watch.chunk().await?, None);
/// assert!(start.elapsed() >= Duration::from_secs(300), "the time is tokio's paused time");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    start: tokio::time::Instant,
}

/// The time at which the clock starts, so that there is a time before its start.
const BEFORE: Duration = Duration::from_secs(1);

impl TokioClock {
    /// Creates a clock that starts now.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime if tokio's time is paused.
    #[must_use]
    pub fn new() -> Self {
        Self {
            start: tokio::time::Instant::now(),
        }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Timer for TokioClock {
    fn now(&self) -> Instant {
        Instant::from_micros(0) + BEFORE + self.start.elapsed()
    }

    async fn sleep_until(&mut self, deadline: Instant) {
        let wait = deadline.saturating_duration_since(Instant::from_micros(0) + BEFORE);
        match self.start.checked_add(wait) {
            Some(time) => tokio::time::sleep_until(time).await,
            // The deadline is beyond the range of tokio's time.
            None => core::future::pending().await,
        }
    }
}
