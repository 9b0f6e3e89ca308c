//! Virtual time.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use informer_core::{Instant, Timer};

/// A clock that only moves when it is advanced. Clones share the same time.
///
/// It starts one second after its epoch, so that there is a time before its start.
///
/// ```
/// use core::time::Duration;
/// use informer_mock::{Simulation, Timer, VirtualClock};
///
/// let clock = VirtualClock::new();
/// let start = clock.now();
/// let mut timer = clock.clone();
/// let mut simulation = Simulation::new(&clock);
/// simulation.spawn(async move { timer.sleep_until(start + Duration::from_secs(3600)).await });
/// simulation.run_for(Duration::from_secs(7200));
/// assert_eq!(clock.now(), start + Duration::from_secs(7200));
/// assert_eq!(simulation.running(), 0);
/// ```
#[derive(Clone, Debug)]
pub struct VirtualClock {
    state: Arc<Mutex<Sleepers>>,
}

#[derive(Debug)]
struct Sleepers {
    now: Instant,
    /// The waiting tasks, in the order in which they are woken.
    sleepers: BTreeMap<(Instant, u64), Waker>,
    next: u64,
}

impl VirtualClock {
    /// Creates a clock.
    #[must_use]
    pub fn new() -> Self {
        let state = Sleepers {
            now: Instant::from_micros(1_000_000),
            sleepers: BTreeMap::new(),
            next: 0,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.lock().now
    }

    /// Advances to a time, and wakes the tasks that wait for this or an earlier time, the earliest first. A time in the
    /// past changes nothing.
    pub fn advance_to(&self, time: Instant) {
        let mut state = self.lock();
        state.now = state.now.max(time);
        let now = state.now;
        let later = state.sleepers.split_off(&(now, u64::MAX));
        let due = core::mem::replace(&mut state.sleepers, later);
        drop(state);
        due.into_values().for_each(Waker::wake);
    }

    /// Advances by a duration.
    pub fn advance(&self, by: Duration) {
        self.advance_to(self.now() + by);
    }

    /// Returns the earliest time that a task waits for.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.lock().sleepers.keys().next().map(|key| key.0)
    }

    /// Returns a future that waits until a time.
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep {
            clock: self.clone(),
            deadline,
            id: None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sleepers> {
        // A panic elsewhere leaves the state consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Timer for VirtualClock {
    fn now(&self) -> Instant {
        Self::now(self)
    }

    async fn sleep_until(&mut self, deadline: Instant) {
        Self::sleep_until(self, deadline).await;
    }
}

/// A future that waits for a time of a [`VirtualClock`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Sleep {
    clock: VirtualClock,
    deadline: Instant,
    id: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let mut state = this.clock.lock();
        if state.now >= this.deadline {
            return Poll::Ready(());
        }
        let id = this.id.unwrap_or(state.next);
        if this.id.is_none() {
            state.next += 1;
            this.id = Some(id);
        }
        state
            .sleepers
            .insert((this.deadline, id), context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.clock.lock().sleepers.remove(&(self.deadline, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_that_is_dropped_leaves_nothing() {
        let clock = VirtualClock::new();
        let mut sleep = clock.sleep_until(clock.now() + Duration::from_secs(1));
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut sleep).poll(&mut context).is_pending());
        assert!(Pin::new(&mut sleep).poll(&mut context).is_pending());
        assert_eq!(
            clock.next_deadline(),
            Some(clock.now() + Duration::from_secs(1))
        );
        drop(sleep);
        assert_eq!(clock.next_deadline(), None);
    }

    #[test]
    fn time_does_not_go_back() {
        let clock = VirtualClock::new();
        clock.advance(Duration::from_secs(5));
        let now = clock.now();
        clock.advance_to(Instant::from_micros(0));
        assert_eq!(clock.now(), now);
    }
}
