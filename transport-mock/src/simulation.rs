//! Runs futures on virtual time, on one thread and in a fixed order.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Waker};
use core::time::Duration;

use informer_core::Instant;

use crate::clock::VirtualClock;

/// Runs futures on a [`VirtualClock`]. It polls them until none can make progress, and then advances to the next
/// deadline.
///
/// Tasks are polled in the order in which they were spawned, so a program always runs the same way. No time passes
/// while tasks run.
///
/// ```
/// use core::time::Duration;
/// use informer_mock::{Simulation, VirtualClock};
///
/// let clock = VirtualClock::new();
/// let mut simulation = Simulation::new(&clock);
/// let sleep = clock.sleep_until(clock.now() + Duration::from_secs(60));
/// let answer = simulation.block_on(async move {
///     sleep.await;
///     42
/// });
/// assert_eq!(answer, Some(42));
/// ```
pub struct Simulation {
    clock: VirtualClock,
    tasks: Vec<Task>,
    polls_at_once: usize,
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    flag: Arc<Flag>,
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl Simulation {
    /// Creates a simulation on a clock.
    #[must_use]
    pub fn new(clock: &VirtualClock) -> Self {
        Self {
            clock: clock.clone(),
            tasks: Vec::new(),
            polls_at_once: 1_000_000,
        }
    }

    /// Sets how often tasks may be polled while no time passes; the default is a million. More polls count as an
    /// endless loop.
    #[must_use]
    pub fn polls_at_once(self, polls: usize) -> Self {
        Self {
            polls_at_once: polls,
            ..self
        }
    }

    /// Adds a task. It is first polled when the simulation runs.
    pub fn spawn(&mut self, future: impl Future<Output = ()> + 'static) {
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        self.tasks.push(Task {
            future: Box::pin(future),
            flag,
        });
    }

    /// Runs until no task can make progress without time passing.
    ///
    /// # Panics
    /// Panics if tasks never stop making progress.
    pub fn run_until_stalled(&mut self) {
        let mut polls = 0_usize;
        loop {
            let mut went_on = false;
            // `retain_mut` keeps the order, and drops a task as soon as it ends.
            self.tasks.retain_mut(|task| {
                if !task.flag.0.swap(false, Ordering::AcqRel) {
                    return true;
                }
                went_on = true;
                polls += 1;
                let waker = Waker::from(Arc::clone(&task.flag));
                let polled = task.future.as_mut().poll(&mut Context::from_waker(&waker));
                polled.is_pending()
            });
            if !went_on {
                return;
            }
            assert!(
                polls <= self.polls_at_once,
                "the tasks were polled {polls} times at {:?}, and can still make progress: a task loops without waiting",
                self.clock.now()
            );
        }
    }

    /// Runs until a time, which becomes the time of the clock.
    ///
    /// # Panics
    /// Panics if tasks loop without waiting.
    pub fn run_until(&mut self, end: Instant) {
        self.run_until_stalled();
        while let Some(next) = self.clock.next_deadline().filter(|next| *next <= end) {
            self.clock.advance_to(next);
            self.run_until_stalled();
        }
        self.clock.advance_to(end);
        self.run_until_stalled();
    }

    /// Runs for a duration.
    ///
    /// # Panics
    /// Panics if tasks loop without waiting.
    pub fn run_for(&mut self, duration: Duration) {
        self.run_until(self.clock.now() + duration);
    }

    /// Runs until a condition holds, or until a time. Returns whether the condition came true. It is checked whenever
    /// no task can make progress.
    ///
    /// # Panics
    /// Panics if tasks loop without waiting.
    pub fn run_until_true(&mut self, end: Instant, mut condition: impl FnMut() -> bool) -> bool {
        loop {
            self.run_until_stalled();
            if condition() {
                return true;
            }
            match self.clock.next_deadline().filter(|next| *next <= end) {
                Some(next) => self.clock.advance_to(next),
                None => return false,
            }
        }
    }

    /// Runs a future to its end, together with the tasks. Returns `None` if all of them wait for events that no
    /// deadline brings.
    ///
    /// # Panics
    /// Panics if tasks loop without waiting.
    pub fn block_on<T: 'static>(&mut self, future: impl Future<Output = T> + 'static) -> Option<T> {
        let result = Rc::new(RefCell::new(None));
        let slot = Rc::clone(&result);
        self.spawn(async move {
            *slot.borrow_mut() = Some(future.await);
        });
        self.run_until_true(Instant::from_micros(u64::MAX), || result.borrow().is_some());
        result.take()
    }

    /// Returns the number of tasks that have not ended.
    #[must_use]
    pub fn running(&self) -> usize {
        self.tasks.len()
    }

    /// Returns the clock.
    #[must_use]
    pub const fn clock(&self) -> &VirtualClock {
        &self.clock
    }
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("clock", &self.clock)
            .field("tasks", &self.tasks.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    #[test]
    fn tasks_run_in_their_order_and_time_jumps() {
        let clock = VirtualClock::new();
        let start = clock.now();
        let mut simulation = Simulation::new(&clock);
        let trace = Rc::new(RefCell::new(String::new()));
        for (name, seconds) in [("a", 5), ("b", 3), ("c", 5)] {
            let (clock, trace) = (clock.clone(), Rc::clone(&trace));
            simulation.spawn(async move {
                for round in 1..=2 {
                    clock
                        .sleep_until(start + Duration::from_secs(round * seconds))
                        .await;
                    *trace.borrow_mut() += name;
                }
            });
        }
        simulation.run_until(start + Duration::from_secs(6));
        assert_eq!(*trace.borrow(), "bacb");
        assert_eq!(simulation.running(), 2);
        assert!(
            simulation.run_until_true(start + Duration::from_secs(100), || trace.borrow().len()
                == 6)
        );
        assert_eq!(clock.now(), start + Duration::from_secs(10));
        assert_eq!(*trace.borrow(), "bacbac");
    }

    #[test]
    fn block_on_returns_none_for_a_future_that_never_ends() {
        let mut simulation = Simulation::new(&VirtualClock::new());
        assert_eq!(simulation.block_on(core::future::pending::<u8>()), None);
    }

    #[test]
    #[should_panic(expected = "a task loops without waiting")]
    fn a_hot_loop_is_found() {
        let mut simulation = Simulation::new(&VirtualClock::new()).polls_at_once(100);
        simulation.spawn(core::future::poll_fn(|context| {
            context.waker().wake_by_ref();
            core::task::Poll::Pending
        }));
        simulation.run_until_stalled();
    }
}
