//! embassy's clock.

use informer_core::{Instant, Timer};

/// embassy's clock as a [`Timer`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EmbassyTimer;

impl Timer for EmbassyTimer {
    fn now(&self) -> Instant {
        Instant::from_micros(embassy_time::Instant::now().as_micros())
    }

    async fn sleep_until(&mut self, deadline: Instant) {
        // Ticks are rounded down. A sleep that ends before its deadline would begin again, in a loop.
        let micros = deadline.as_micros();
        let tick = embassy_time::Duration::from_ticks(1);
        match embassy_time::Instant::try_from_micros(micros) {
            Some(at) => embassy_time::Timer::at(at.saturating_add(tick)).await,
            None => core::future::pending().await,
        }
    }
}
