//! The wakers of those who wait for a change.

use core::cell::RefCell;
use core::fmt;
use core::task::Waker;

/// How many futures can wait for changes of one informer at the same time.
pub const MAX_WAITERS: usize = 8;

/// [`MAX_WAITERS`] futures wait for changes of the informer already.
///
/// Share one waiter between tasks, with a signal of embassy-sync for example.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TooManyWaiters;

impl fmt::Display for TooManyWaiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{MAX_WAITERS} tasks wait for this informer already: let some of them share a waiter"
        )
    }
}

impl core::error::Error for TooManyWaiters {}

informer_core::readable_errors!(TooManyWaiters);

/// A place for each waiter. Nobody takes the place of another, which would have to be woken to take its own again: with one
/// waiter too many they would wake each other forever.
pub(crate) struct Waiters(RefCell<[Place; MAX_WAITERS]>);

enum Place {
    Free,
    Taken(Option<Waker>),
}

impl Waiters {
    pub(crate) const fn new() -> Self {
        Self(RefCell::new([const { Place::Free }; MAX_WAITERS]))
    }

    /// Takes a place, which is given back when the waiter is dropped.
    pub(crate) fn join(&self) -> Result<Waiter<'_>, TooManyWaiters> {
        let mut places = self.0.borrow_mut();
        let free = |place: &Place| matches!(place, Place::Free);
        let number = places.iter().position(free).ok_or(TooManyWaiters)?;
        if let Some(place) = places.get_mut(number) {
            *place = Place::Taken(None);
        }
        Ok(Waiter {
            waiters: self,
            number,
        })
    }

    /// Wakes all of them.
    pub(crate) fn wake(&self) {
        for number in 0..MAX_WAITERS {
            let waker = match self.0.borrow_mut().get_mut(number) {
                Some(Place::Taken(waker)) => waker.take(),
                Some(Place::Free) | None => None,
            };
            // The places are not borrowed here: an executor may poll in `wake`.
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

/// Somebody who waits.
pub(crate) struct Waiter<'a> {
    waiters: &'a Waiters,
    number: usize,
}

impl Waiter<'_> {
    pub(crate) fn register(&self, waker: &Waker) {
        if let Some(Place::Taken(place)) = self.waiters.0.borrow_mut().get_mut(self.number) {
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
            *place = Place::Free;
        }
    }
}
