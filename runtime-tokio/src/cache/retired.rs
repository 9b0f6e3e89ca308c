//! Replaced objects, until the thread that decoded them drops them.
//!
//! An allocator such as glibc's has a heap for each thread, and locks it while another thread frees memory of it. If
//! handlers dropped old states while the driver decodes new ones at full speed, they would wait for each other at most
//! allocations. Besides, the next state of an object fits where the old one was.
//!
//! Nothing waits for a thread that has nothing to do: a helper thread drops what waits for it before it ends, and the
//! driver before it waits.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use informer_core::object::Cached;

use crate::cache::entry::Shared as Object;

/// The most bytes of JSON of the objects of one heap that wait. Further objects are dropped at once.
const MOST_BYTES: usize = 1 << 20;
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

/// The thread that drops the objects of its heap soon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// The driver, while it has work. It may move to another thread, and then drops those of the former one as well.
    Driver,
    /// A helper thread, until it ends for lack of work.
    Helper,
}

pub(crate) struct Retired<V>(Mutex<[Heap<V>; HEAPS]>);

struct Heap<V> {
    /// `None` if nobody drops its objects soon, so that none may wait.
    owner: Option<Owner>,
    objects: Vec<Object<V>>,
    bytes: usize,
}

impl<V> Heap<V> {
    const CLOSED: Self = Self {
        owner: None,
        objects: Vec::new(),
        bytes: 0,
    };

    fn take(&mut self) -> Vec<Object<V>> {
        self.bytes = 0;
        core::mem::take(&mut self.objects)
    }
}

impl<V> Default for Retired<V> {
    fn default() -> Self {
        Self(Mutex::new([Heap::CLOSED; HEAPS]))
    }
}

impl<V> Retired<V> {
    /// Accepts objects of this thread's heap from now on. Returns those that wait, to be dropped.
    pub(crate) fn open(&self, owner: Owner) -> Vec<Object<V>> {
        self.own(|heap| {
            heap.owner = Some(owner);
            heap.take()
        })
    }

    /// Accepts no more objects of this thread's heap, and returns those that wait.
    pub(crate) fn close(&self) -> Vec<Object<V>> {
        self.own(|heap| core::mem::replace(heap, Heap::CLOSED).objects)
    }

    /// Accepts no more objects for this owner, and returns those that wait; `None` is any owner.
    pub(crate) fn close_all(&self, owner: Option<Owner>) -> Vec<Object<V>> {
        let mut heaps = self.lock();
        let closed = (heaps.iter_mut()).filter(|heap| owner.is_none() || heap.owner == owner);
        closed
            .flat_map(|heap| core::mem::replace(heap, Heap::CLOSED).objects)
            .collect()
    }

    /// Moves objects of other heaps here that nobody else has, while they are accepted. The others remain to be dropped.
    pub(crate) fn put(&self, objects: &mut Vec<Object<V>>) {
        let own = HeapId::of_thread();
        let mut heaps = self.lock();
        let mut at = 0;
        while let Some(object) = objects.get(at) {
            let id = object.heap();
            let waits = id != own && object.is_last();
            let heap = heaps.get_mut(usize::from(id.0));
            let heap = heap.filter(|heap| waits && heap.owner.is_some() && heap.bytes < MOST_BYTES);
            match heap {
                Some(heap) => {
                    heap.bytes += object.bytes();
                    heap.objects.push(objects.swap_remove(at));
                }
                None => at += 1,
            }
        }
    }

    fn own<R: Default>(&self, with: impl FnOnce(&mut Heap<V>) -> R) -> R {
        let HeapId(own) = HeapId::of_thread();
        let mut heaps = self.lock();
        heaps
            .get_mut(usize::from(own))
            .map(with)
            .unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, [Heap<V>; HEAPS]> {
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
        objects_of(1, count)
    }

    fn objects_of(bytes: usize, count: usize) -> Vec<Object<()>> {
        let object = || Stored::new(Uid::default(), ResourceVersion::default(), ());
        let object = || Object::new(object(), bytes, None);
        (0..count).map(|_| object()).collect()
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
    fn objects_wait_for_the_thread_that_decoded_them_while_it_accepts_them() {
        for owner in [Owner::Driver, Owner::Helper] {
            let retired = Retired::default();
            assert_eq!(left_by_another(&retired, objects(3), || {}), 3, "closed");

            assert!(retired.open(owner).is_empty());
            let none_of_its_own = || assert!(retired.open(owner).is_empty());
            assert_eq!(left_by_another(&retired, objects(3), none_of_its_own), 0);
            assert_eq!(retired.open(owner).len(), 3);

            let in_use = objects(1);
            let user = in_use.clone();
            assert_eq!(left_by_another(&retired, in_use, || {}), 1);
            drop(user);
            let mut own = objects(2);
            retired.put(&mut own);
            assert_eq!(own.len(), 2, "its own are dropped at once");

            let large = objects_of(2 * MOST_BYTES, 2);
            assert_eq!(left_by_another(&retired, large, || {}), 1, "full");
            assert_eq!(retired.close().len(), 1);
            assert_eq!(left_by_another(&retired, objects(1), || {}), 1, "closed");
        }
    }

    #[test]
    fn the_driver_drops_what_waits_for_the_threads_that_it_ran_on() {
        let retired = Retired::default();
        let (driver, helper) = (
            objects(2),
            thread::scope(|scope| {
                let decoded = || {
                    drop(retired.open(Owner::Helper));
                    objects(3)
                };
                scope.spawn(decoded).join().expect("it does not panic")
            }),
        );
        drop(retired.open(Owner::Driver));
        assert_eq!(
            left_by_another(&retired, [driver, helper].concat(), || {}),
            0
        );
        let elsewhere = |owner| {
            let close = || retired.close_all(owner).len();
            thread::scope(|scope| scope.spawn(close).join()).expect("it does not panic")
        };
        assert_eq!(elsewhere(Some(Owner::Driver)), 2);
        assert_eq!(elsewhere(None), 3);
    }
}
