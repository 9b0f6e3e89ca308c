//! The wakers of futures that wait for a change.

use core::cell::RefCell;
use core::fmt;
use core::task::Waker;

/// The most futures that can wait for changes of one informer at the same time.
pub const MAX_WAITERS: usize = 8;

/// The error of a future beyond the [`MAX_WAITERS`] that can wait for changes of an informer.
///
/// Several tasks can share one waiter, for example with a signal of embassy-sync.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TooManyWaiters;

impl fmt::Display for TooManyWaiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{MAX_WAITERS} tasks are already waiting for this informer; let some of them share a waiter"
        )
    }
}

impl core::error::Error for TooManyWaiters {}

informer_core::readable_errors!(TooManyWaiters);

/// A fixed place for each waiter. A waiter that took another's place would have to wake it, and with one waiter too
/// many they would wake each other for ever.
pub(crate) struct Waiters(RefCell<[WaiterSlot; MAX_WAITERS]>);

enum WaiterSlot {
    Free,
    Taken(Option<Waker>),
}

impl Waiters {
    pub(crate) const fn new() -> Self {
        Self(RefCell::new([const { WaiterSlot::Free }; MAX_WAITERS]))
    }

    /// Takes a place, which becomes free when the waiter is dropped.
    pub(crate) fn join(&self) -> Result<Waiter<'_>, TooManyWaiters> {
        let mut places = self.0.borrow_mut();
        let free = |place: &WaiterSlot| matches!(place, WaiterSlot::Free);
        let number = places.iter().position(free).ok_or(TooManyWaiters)?;
        if let Some(place) = places.get_mut(number) {
            *place = WaiterSlot::Taken(None);
        }
        Ok(Waiter {
            waiters: self,
            number,
        })
    }

    /// Wakes all waiters.
    pub(crate) fn wake(&self) {
        for number in 0..MAX_WAITERS {
            let waker = match self.0.borrow_mut().get_mut(number) {
                Some(WaiterSlot::Taken(waker)) => waker.take(),
                Some(WaiterSlot::Free) | None => None,
            };
            // The places are not borrowed here: an executor may poll in `wake`.
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

/// A waiting future.
pub(crate) struct Waiter<'a> {
    waiters: &'a Waiters,
    number: usize,
}

impl Waiter<'_> {
    pub(crate) fn register(&self, waker: &Waker) {
        if let Some(WaiterSlot::Taken(place)) = self.waiters.0.borrow_mut().get_mut(self.number) {
            match place {
                Some(registered) => registered.clone_from(waker),
                None => *place = Some(waker.clone()),
            }
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.waiters.0.borrow_mut().get_mut(self.number) {
            *place = WaiterSlot::Free;
        }
    }
}
