//! Short pauses of the driver while its handlers lag behind.
//!
//! Each pending notification of an update keeps the object's old state. If the driver and the threads that decode
//! leave the handlers too little processor time, thousands of old states accumulate, and the heap grows by half. The
//! pauses are too short to hold back the cache because of a handler that is slow by itself.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use tokio::time::{Sleep, sleep};

/// The number of notifications from which the driver pauses.
const BACKLOG: usize = 128;
/// The number of deltas between two pauses.
const EVERY: usize = 256;
/// The longest pause. With a handler that never returns, it allows 25,000 deltas per second.
const LONGEST: Duration = Duration::from_millis(10);

#[derive(Default)]
pub(crate) struct Backpressure {
    deltas: usize,
    backlog: usize,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Backpressure {
    /// Records that deltas were applied, and how many notifications the slowest handler has not received.
    pub(crate) const fn applied(&mut self, deltas: usize, backlog: usize) {
        self.deltas += deltas;
        self.backlog = backlog;
    }

    /// Waits until the driver may continue.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.pause.is_none() && self.deltas >= EVERY {
            self.deltas = 0;
            let millis = (self.backlog / BACKLOG) as u64;
            self.pause =
                (millis > 0).then(|| Box::pin(sleep(Duration::from_millis(millis).min(LONGEST))));
        }
        if let Some(pause) = &mut self.pause {
            core::task::ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use core::future::poll_fn;

    use tokio::time::Instant;

    use super::*;

    /// Each pause lasts one millisecond for every 128 notifications, and at most ten.
    #[tokio::test(start_paused = true)]
    async fn pauses_are_short_and_rare() {
        let mut backpressure = Backpressure::default();
        for (deltas, backlog, expected) in [
            (1_000, 127, 0),
            (255, 1_000_000, 0),
            (1, 128, 1),
            (1, 1_000_000, 0),
            (256, 640, 5),
            (256, 1_000_000, 10),
        ] {
            backpressure.applied(deltas, backlog);
            let began = Instant::now();
            poll_fn(|cx| backpressure.poll(cx)).await;
            assert_eq!(began.elapsed().as_millis(), expected, "{deltas} {backlog}");
        }
    }
}
