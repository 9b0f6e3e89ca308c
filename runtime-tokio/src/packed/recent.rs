//! The objects that were decoded last.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::cache::shared::TAKE;

/// The default number of objects. Handlers take batches of [`TAKE`] notifications, and each has an old and a new
/// state.
const MOST: usize = 2 * TAKE;

/// The objects that were decoded last, by their numbers. The least recently used one goes first.
pub(super) struct Recent<T> {
    most: AtomicUsize,
    slots: Mutex<VecDeque<(u64, Arc<Slot<T>>)>>,
}

/// An object that is being decoded, or has been. Other readers of the object wait for the first.
type Slot<T> = Mutex<Option<Arc<T>>>;

/// Returns the number of another object.
pub(super) fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl<T> Recent<T> {
    pub(super) const fn new() -> Self {
        Self {
            most: AtomicUsize::new(MOST),
            slots: Mutex::new(VecDeque::new()),
        }
    }

    pub(super) fn set_most(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// Returns an object by its number, decoded by `decode` if it is not here. Failures are not stored.
    pub(super) fn get<E>(
        &self,
        number: u64,
        decode: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let slot = self.slot(number);
        // After a panic in `decode`, the slot is still empty.
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(object) = &*slot {
            return Ok(Arc::clone(object));
        }
        let object = Arc::new(decode()?);
        *slot = Some(Arc::clone(&object));
        Ok(object)
    }

    /// Returns the slot of an object, which becomes the most recently used one.
    fn slot(&self, number: u64) -> Arc<Slot<T>> {
        // Code under this lock cannot panic.
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        // Most readers follow each other closely.
        let at = slots.iter().rposition(|(other, _)| *other == number);
        let used = at.and_then(|at| slots.remove(at));
        let (_, slot) = used.unwrap_or_default();
        slots.push_back((number, Arc::clone(&slot)));
        let over = slots
            .len()
            .saturating_sub(self.most.load(Ordering::Relaxed));
        let dropped: Vec<_> = slots.drain(..over).collect();
        drop(slots);
        // Dropping an object can run user code.
        drop(dropped);
        slot
    }
}

#[cfg(test)]
mod tests {
    use core::convert::Infallible;

    use super::*;

    fn get(recent: &Recent<u64>, number: u64, decoded: &mut u32) -> Arc<u64> {
        let Ok(object) = recent.get(number, || {
            *decoded += 1;
            Ok::<_, Infallible>(number)
        });
        object
    }

    #[test]
    fn objects_in_use_stay_and_the_least_recently_used_goes() {
        let (recent, mut decoded) = (Recent::new(), 0);
        recent.set_most(2);
        for number in [1, 2, 1, 3, 1, 3] {
            assert_eq!(*get(&recent, number, &mut decoded), number);
        }
        assert_eq!(decoded, 3);
        get(&recent, 2, &mut decoded);
        assert_eq!(decoded, 4, "2 made room for 3");
        recent.set_most(0);
        let held = get(&recent, 7, &mut decoded);
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(recent.slots.lock().unwrap().is_empty());
    }

    #[test]
    fn a_batch_of_every_handler_fits() {
        let (recent, mut decoded) = (Recent::new(), 0);
        let batch = 0..2 * TAKE as u64;
        for number in batch.clone().chain(batch.clone()).chain(batch) {
            get(&recent, number, &mut decoded);
        }
        assert_eq!(decoded as usize, 2 * TAKE);
    }

    #[test]
    fn a_failure_is_returned_and_a_panic_leaves_nothing_behind() {
        let (recent, mut decoded) = (Recent::new(), 0);
        assert_eq!(recent.get(1, || Err::<u64, _>("no")), Err("no"));
        let panicked = std::thread::scope(|scope| {
            let panics = || recent.get(1, || -> Result<u64, ()> { panic!("in `Deserialize`") });
            scope.spawn(panics).join().is_err()
        });
        assert!(panicked);
        assert_eq!(*get(&recent, 1, &mut decoded), 1);
    }

    #[test]
    fn two_readers_at_once_decode_once() {
        let (recent, count) = (Recent::new(), AtomicUsize::new(0));
        let both = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    both.wait();
                    let object = recent.get(1, || {
                        count.fetch_add(1, Ordering::Relaxed);
                        Ok::<_, Infallible>(5)
                    });
                    assert_eq!(object.as_deref(), Ok(&5));
                });
            }
        });
        assert_eq!(count.into_inner(), 1);
    }
}
