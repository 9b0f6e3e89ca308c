//! Replaced objects, until the thread that decoded them drops them.
//!
//! An allocator such as glibc's has a heap for each thread, and locks it while another thread frees memory of it. If
//! handlers dropped old states while the driver decodes new ones at full speed, they would wait for each other at most
//! allocations. Besides, the next state of an object fits where the old one was.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cache::entry::Shared as Object;

/// The most objects of one heap that wait. Further ones are dropped at once.
const MOST: usize = 128;
/// The number of heaps that are distinguished.
const HEAPS: usize = 16;

/// The heap of a thread. Threads beyond the first ones share an id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HeapId(u8);

impl HeapId {
    /// Returns the id of the current thread's heap.
    pub(crate) fn of_thread() -> Self {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static ID: HeapId = HeapId((THREADS.fetch_add(1, Ordering::Relaxed) % HEAPS) as u8);
        }
        // A thread that is ending decodes nothing.
        ID.try_with(|id| *id).unwrap_or(Self(0))
    }
}

pub(crate) struct Retired<V>(Mutex<Waiting<V>>);

struct Waiting<V> {
    /// The driver has work, so that the waiting objects are dropped soon.
    is_open: bool,
    objects: [Vec<Object<V>>; HEAPS],
}

impl<V> Default for Retired<V> {
    fn default() -> Self {
        Self(Mutex::new(Waiting {
            is_open: false,
            objects: [const { Vec::new() }; HEAPS],
        }))
    }
}

impl<V> Retired<V> {
    /// Accepts objects from now on.
    pub(crate) fn open(&self) {
        self.lock().is_open = true;
    }

    /// Accepts no more objects, and returns those that wait.
    pub(crate) fn close(&self) -> [Vec<Object<V>>; HEAPS] {
        let mut waiting = self.lock();
        waiting.is_open = false;
        core::mem::replace(&mut waiting.objects, [const { Vec::new() }; HEAPS])
    }

    /// Returns the objects of this thread's heap, to be dropped.
    pub(crate) fn take(&self) -> Vec<Object<V>> {
        let HeapId(own) = HeapId::of_thread();
        let mut waiting = self.lock();
        let objects = waiting.objects.get_mut(usize::from(own));
        objects.map(core::mem::take).unwrap_or_default()
    }

    /// Moves objects of other heaps here that nobody else has, while they are accepted. The others remain to be dropped.
    pub(crate) fn put(&self, objects: &mut Vec<Object<V>>) {
        let own = HeapId::of_thread();
        let mut waiting = self.lock();
        if !waiting.is_open {
            return;
        }
        let mut at = 0;
        while let Some(object) = objects.get(at) {
            let heap = object.heap();
            let waits = heap != own && object.is_last();
            let place = waiting.objects.get_mut(usize::from(heap.0));
            match place.filter(|place| waits && place.len() < MOST) {
                Some(place) => place.push(objects.swap_remove(at)),
                None => at += 1,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<V>> {
        // Code under this lock cannot panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use informer_core::{Object as Stored, ResourceVersion, Uid};

    use super::*;

    fn objects(count: usize) -> Vec<Object<()>> {
        let object = || Stored::new(Uid::default(), ResourceVersion::default(), ());
        (0..count).map(|_| Object::new(object(), 1, None)).collect()
    }

    /// The number of objects that `work` leaves, on another thread.
    fn left_by_another(
        retired: &Retired<()>,
        mut objects: Vec<Object<()>>,
        work: impl Fn() + Sync,
    ) -> usize {
        let put = || {
            retired.put(&mut objects);
            work();
            objects.len()
        };
        thread::scope(|scope| scope.spawn(put).join()).expect("it does not panic")
    }

    #[test]
    fn objects_wait_for_the_thread_that_decoded_them_while_the_driver_is_busy() {
        let retired = Retired::default();
        assert_eq!(left_by_another(&retired, objects(3), || {}), 3, "idle");

        retired.open();
        let none_of_its_own = || assert!(retired.take().is_empty());
        assert_eq!(left_by_another(&retired, objects(3), none_of_its_own), 0);
        assert_eq!(retired.take().len(), 3);

        let in_use = objects(1);
        let user = in_use.clone();
        assert_eq!(left_by_another(&retired, in_use, || {}), 1);
        drop(user);
        let mut own = objects(2);
        retired.put(&mut own);
        assert_eq!(own.len(), 2, "its own are dropped at once");

        assert_eq!(left_by_another(&retired, objects(MOST + 1), || {}), 1);
        assert_eq!(retired.close().iter().map(Vec::len).sum::<usize>(), MOST);
        assert_eq!(
            left_by_another(&retired, objects(1), || {}),
            1,
            "idle again"
        );
    }
}
