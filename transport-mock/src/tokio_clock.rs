//! tokio's time for the mock.

use core::time::Duration;

use informer_core::{Instant, Timer};

/// tokio's clock, real or paused, as a [`Timer`]. Clones are the same clock.
///
/// A mock on it needs no more than tokio: where tokio's time is paused, tokio itself jumps to the next deadline, of the
/// server or of anybody else.
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
/// assert!(start.elapsed() >= Duration::from_secs(300), "of tokio's paused time, which is none of ours");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    start: tokio::time::Instant,
}

/// What the clock shows when it is made, so that there is a time before.
const BEFORE: Duration = Duration::from_secs(1);

impl TokioClock {
    /// Makes a clock that starts now.
    ///
    /// # Panics
    /// Outside a tokio runtime where tokio's time is paused.
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
            // Later than there is time.
            None => core::future::pending().await,
        }
    }
}
