//! Workers that wait for a key.

#[cfg(test)]
mod tests;

use alloc::collections::BTreeSet;

use super::PolledQueue;
use crate::time::Instant;

/// Decides which worker that waits for a key of a [`PolledQueue`] is woken, and which one keeps the timer of the next
/// delayed key. It is a state machine without I/O, for runtimes whose workers may stop waiting at any time.
///
/// One waiter at a time keeps a timer. If it leaves or gets a key, another one takes over the timer. Without waiters, a
/// due key is returned by the next [`look`](Self::look). The runtime has three duties. A waiter that is woken, or whose
/// timer has fired, looks again. A waiter that stops waiting [leaves](Self::leave). After each change of the queue and
/// each `look` or `leave`, the runtime wakes the waiters that [`wake`](Self::wake) returns.
///
/// ```
/// use core::time::Duration;
/// use informer_core::{Instant, queue::{Turn, Waiters, PolledQueue}};
///
/// let (now, mut queue, mut waiters) = (Instant::from_micros(0), PolledQueue::new(), Waiters::default());
/// let due = now + Duration::from_secs(1);
/// queue.add_after(now, "prod/web", Duration::from_secs(1));
/// let (first, second) = (waiters.join(), waiters.join());
/// assert_eq!(waiters.look(now, first, &mut queue), Turn::Wait(Some(due)));
/// assert_eq!(waiters.look(now, second, &mut queue), Turn::Wait(None));
/// // The first one is dropped together with its timer.
/// waiters.leave(first);
/// assert_eq!(waiters.wake(now, &mut queue), Some(second));
/// assert_eq!(waiters.look(now, second, &mut queue), Turn::Wait(Some(due)));
/// assert_eq!(waiters.look(due, second, &mut queue), Turn::Work("prod/web"));
/// ```
#[derive(Clone, Default, Debug)]
pub struct Waiters {
    /// The sleeping waiters. A lower number has waited for longer.
    asleep: BTreeSet<u64>,
    /// The waiters that were woken and have not looked since.
    woken: BTreeSet<u64>,
    /// The waiter that keeps the timer of the next delayed key, and its time.
    timer: Option<(u64, Instant)>,
    next: u64,
}

/// The id of a waiter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Waiter(u64);

/// The next action of a waiter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn<K> {
    /// Process this key.
    Work(K),
    /// Sleep until it is woken, or until this time.
    Wait(Option<Instant>),
    /// Stop: the queue is shut down.
    Over,
}

impl Waiters {
    /// Adds a waiter, which must [look](Self::look) first.
    pub const fn join(&mut self) -> Waiter {
        self.next += 1;
        Waiter(self.next)
    }

    /// Takes a key for a waiter, or marks it as sleeping.
    pub fn look<K: Ord + Clone, L>(
        &mut self,
        now: Instant,
        waiter: Waiter,
        queue: &mut PolledQueue<K, L>,
    ) -> Turn<K> {
        self.forget(waiter);
        if let Some(key) = queue.take(now) {
            return Turn::Work(key);
        }
        if queue.is_shut_down() {
            return Turn::Over;
        }
        self.asleep.insert(waiter.0);
        let due = queue.next_due().filter(|due| self.needs_timer(*due));
        if let Some(due) = due {
            self.timer = Some((waiter.0, due));
        }
        Turn::Wait(due)
    }

    /// Removes a waiter that has a key or stops waiting.
    pub fn leave(&mut self, waiter: Waiter) {
        self.forget(waiter);
    }

    /// Returns a waiter that must look again. Call it until it returns `None`. One waiter is woken for each ready key,
    /// one if nobody keeps the timer of the next delayed key, and all after a shutdown.
    pub fn wake<K: Ord + Clone, L>(
        &mut self,
        now: Instant,
        queue: &mut PolledQueue<K, L>,
    ) -> Option<Waiter> {
        queue.advance(now);
        let wanted = if queue.is_shut_down() {
            usize::MAX
        } else {
            let keeper = queue.next_due().is_some_and(|due| self.needs_timer(due));
            queue.waiting().max(keeper.into())
        };
        if self.woken.len() >= wanted {
            return None;
        }
        let waiter = Waiter(*self.asleep.first()?);
        self.forget(waiter);
        self.woken.insert(waiter.0);
        Some(waiter)
    }

    /// Returns whether a waiter was woken and has not looked since.
    #[must_use]
    pub fn is_woken(&self, waiter: Waiter) -> bool {
        self.woken.contains(&waiter.0)
    }

    fn needs_timer(&self, due: Instant) -> bool {
        self.timer.is_none_or(|(_, until)| due < until)
    }

    fn forget(&mut self, waiter: Waiter) {
        self.asleep.remove(&waiter.0);
        self.woken.remove(&waiter.0);
        self.timer = self.timer.filter(|(keeper, _)| *keeper != waiter.0);
    }
}
