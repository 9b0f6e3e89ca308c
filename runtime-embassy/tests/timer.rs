//! embassy's clock, advanced manually. The clock is global, so this test has its own process.
#![allow(clippy::unwrap_used, reason = "a test may")]

use core::pin::pin;
use core::task::{Context, Waker};
use core::time::Duration;

use embassy_time::MockDriver;
use informer_embassy::{EmbassyTimer, Timer};

#[test]
fn it_waits_for_embassys_time() {
    let mut cx = Context::from_waker(Waker::noop());
    let clock = EmbassyTimer;
    let mut timer = clock;
    let start = clock.now();
    MockDriver::get().advance(embassy_time::Duration::from_millis(40));
    assert_eq!(clock.now() - start, Duration::from_millis(40));

    let deadline = start + Duration::from_millis(100);
    let mut sleep = pin!(timer.sleep_until(deadline));
    assert!(sleep.as_mut().poll(&mut cx).is_pending());
    MockDriver::get().advance(embassy_time::Duration::from_millis(60));
    // One tick more, so that the deadline has certainly passed.
    assert!(sleep.as_mut().poll(&mut cx).is_pending());
    MockDriver::get().advance(embassy_time::Duration::from_ticks(1));
    assert!(sleep.as_mut().poll(&mut cx).is_ready());
    assert!(clock.now() >= deadline);

    let mut timer = clock;
    let mut never = pin!(timer.sleep_until(informer_core_end()));
    assert!(never.as_mut().poll(&mut cx).is_pending());
}

fn informer_core_end() -> informer_core::Instant {
    informer_core::Instant::from_micros(u64::MAX)
}
