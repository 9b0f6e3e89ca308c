//! Time: SysTick counts, and a timer wakes.
//!
//! An emulated timer loses ticks while the host is busy, so they do not measure time. SysTick runs freely at 12.5 MHz
//! and wraps every 1.34 s, which is counted. The timer's tick of a millisecond only wakes tasks that are due.

use core::cell::RefCell;
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::Waker;

use cortex_m_rt::exception;
use critical_section::Mutex;
use embassy_time_driver::Driver;
use embassy_time_queue_utils::Queue;

use super::{enable, read, write};

pub const INTERRUPT: i16 = 19;

const TIMER: usize = 0x4003_0000;
const SYSTICK_CONTROL: usize = 0xe000_e010;
const SYSTICK_RELOAD: usize = 0xe000_e014;
const SYSTICK_VALUE: usize = 0xe000_e018;
const INTERRUPT_STATE: usize = 0xe000_ed04;
const SYSTICK_PENDING: u32 = 1 << 26;
const LAST: u32 = 0xff_ffff;

static WRAPS: AtomicU32 = AtomicU32::new(0);

struct Clock {
    queue: Mutex<RefCell<Queue>>,
}

embassy_time_driver::time_driver_impl!(static CLOCK: Clock = Clock {
    queue: Mutex::new(RefCell::new(Queue::new())),
});

impl Driver for Clock {
    fn now(&self) -> u64 {
        cycles() / 12_500
    }

    fn schedule_wake(&self, at: u64, waker: &Waker) {
        critical_section::with(|token| {
            self.queue
                .borrow(token)
                .borrow_mut()
                .schedule_wake(at, waker);
        });
    }
}

/// Starts the clock.
pub fn start() {
    write(SYSTICK_RELOAD, LAST);
    write(SYSTICK_VALUE, 0);
    write(SYSTICK_CONTROL, 0b111);
    // It reads 0 until the first reload, which would look like a wrap.
    while read(SYSTICK_VALUE) == 0 {}
    write(TIMER, 0);
    write(TIMER + 0x04, 2);
    write(TIMER + 0x28, 12_500);
    write(TIMER + 0x18, 1);
    write(TIMER + 0x0c, 1);
    enable(INTERRUPT);
}

/// Returns the cycles since the start: 12.5 million per second.
pub fn cycles() -> u64 {
    critical_section::with(|_| {
        let mut value = read(SYSTICK_VALUE);
        let mut wraps = WRAPS.load(Ordering::Relaxed);
        if read(INTERRUPT_STATE) & SYSTICK_PENDING != 0 {
            value = read(SYSTICK_VALUE);
            wraps += 1;
        }
        u64::from(wraps) << 24 | u64::from(LAST - value)
    })
}

#[exception]
fn SysTick() {
    // An atomic addition is not needed, since nothing interrupts this.
    WRAPS.store(WRAPS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Wakes the tasks that are due.
pub fn handle() {
    write(TIMER + 0x24, 1);
    critical_section::with(|token| {
        CLOCK
            .queue
            .borrow(token)
            .borrow_mut()
            .next_expiration(CLOCK.now());
    });
}
