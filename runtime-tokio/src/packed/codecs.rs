//! Compressors and decompressors. They are expensive to create, so threads share them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most idle codecs. A thread that finds none creates one, which is dropped if there are already this many.
const MOST: usize = 8;

/// Idle codecs, the most recently used last. A thread may use several at once.
pub(crate) struct Codecs<T> {
    make: fn() -> T,
    idle: Mutex<Vec<T>>,
}

impl<T> Codecs<T> {
    pub(crate) const fn new(make: fn() -> T) -> Self {
        Self {
            make,
            idle: Mutex::new(Vec::new()),
        }
    }

    /// Lends a codec to `work`. It is dropped if `work` panics.
    pub(crate) fn lend<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let idle = self.lock().pop();
        let mut tool = idle.unwrap_or_else(self.make);
        let result = work(&mut tool);
        let mut idle = self.lock();
        if idle.len() < MOST {
            idle.push(tool);
        }
        result
    }

    /// Drops all idle codecs.
    pub(crate) fn clear(&self) {
        // Dropping may take time, so it happens outside of the lock.
        drop(core::mem::take(&mut *self.lock()));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        // Code under this lock cannot panic.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use core::panic::AssertUnwindSafe;
    use core::sync::atomic::{AtomicUsize, Ordering};
    use std::panic::catch_unwind;

    use super::*;

    static MADE: AtomicUsize = AtomicUsize::new(0);

    fn make() -> usize {
        MADE.fetch_add(1, Ordering::Relaxed)
    }

    #[test]
    fn calls_in_turn_share_a_codec_and_nested_calls_do_not() {
        let codecs = Codecs::new(make);
        let made = || MADE.load(Ordering::Relaxed);
        let first = codecs.lend(|tool| *tool);
        assert_eq!((codecs.lend(|tool| *tool), made()), (first, 1));

        let (outer, inner) = codecs.lend(|outer| (*outer, codecs.lend(|inner| *inner)));
        assert_ne!(outer, inner);
        assert_eq!((codecs.lock().len(), made()), (2, 2));

        let panicked = catch_unwind(AssertUnwindSafe(|| codecs.lend(|_| panic!("at work"))));
        assert!(panicked.is_err());
        assert_eq!(codecs.lock().len(), 1);
    }

    #[test]
    fn a_crowd_leaves_no_more_than_a_few() {
        fn crowd(codecs: &Codecs<()>, more: usize) -> usize {
            codecs.lend(|()| match more {
                0 => codecs.lock().len(),
                _ => crowd(codecs, more - 1),
            })
        }
        let codecs = Codecs::new(|| ());
        assert_eq!(crowd(&codecs, 3 * MOST), 0);
        assert_eq!(codecs.lock().len(), MOST);
        codecs.clear();
        assert!(codecs.lock().is_empty());
    }
}
