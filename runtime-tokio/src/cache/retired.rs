//! Replaced objects, until the thread that decoded them drops them.
//!
//! An allocator such as glibc's has a heap for each thread, and locks it while another thread frees memory of it. If
//! handlers dropped old states while the driver decodes new ones at full speed, they would wait for each other at most
//! allocations. Besides, the next state of an object fits where the old one was.
//!
//! Nothing waits for a thread that has nothing to do: a helper thread drops what waits for it before it ends, and the
//! driver before it waits.

use std::sync::{Mutex, MutexGuard, PoisonError};

use informer_core::object::Cached;

use crate::cache::entry::SharedObject;
use crate::cache::heap::{HEAPS, HeapId};

/// The most bytes of JSON of the objects of one heap that wait. Further objects are dropped at once.
const MOST_BYTES: usize = 1 << 20;
pub(crate) struct Retired<V>(Mutex<Waiting<V>>);

struct Waiting<V> {
    /// The driver has work, so that all waiting objects are dropped soon.
    is_open: bool,
    heaps: [Heap<V>; HEAPS],
}

struct Heap<V> {
    /// A helper thread decodes into it, and drops what waits before it ends.
    has_helper: bool,
    objects: Vec<SharedObject<V>>,
    bytes: usize,
}

impl<V> Heap<V> {
    const EMPTY: Self = Self {
        has_helper: false,
        objects: Vec::new(),
        bytes: 0,
    };

    fn take(&mut self) -> Vec<SharedObject<V>> {
        self.bytes = 0;
        core::mem::take(&mut self.objects)
    }
}

impl<V> Default for Retired<V> {
    fn default() -> Self {
        Self(Mutex::new(Waiting {
            is_open: false,
            heaps: [Heap::EMPTY; HEAPS],
        }))
    }
}

impl<V> Retired<V> {
    /// Accepts objects of all heaps from now on: the driver has work.
    pub(crate) fn open(&self) {
        self.lock().is_open = true;
    }

    /// Accepts only objects for helper threads, since the driver waits. Returns the others, to be dropped.
    pub(crate) fn close(&self) -> Vec<SharedObject<V>> {
        let mut waiting = self.lock();
        waiting.is_open = false;
        let others = waiting.heaps.iter_mut().filter(|heap| !heap.has_helper);
        others.flat_map(Heap::take).collect()
    }

    /// Accepts no more objects, and returns those that wait.
    pub(crate) fn end(&self) -> Vec<SharedObject<V>> {
        let mut waiting = self.lock();
        waiting.is_open = false;
        let heaps = waiting.heaps.iter_mut();
        heaps
            .flat_map(|heap| core::mem::replace(heap, Heap::EMPTY).objects)
            .collect()
    }

    /// Returns the objects of this thread's heap, to be dropped.
    pub(crate) fn take(&self) -> Vec<SharedObject<V>> {
        self.of_thread(Heap::take)
    }

    /// Like `take`, and accepts objects of this thread's heap while a helper thread `has_work`, also if the driver has
    /// none.
    pub(crate) fn help(&self, has_work: bool) -> Vec<SharedObject<V>> {
        self.of_thread(|heap| {
            heap.has_helper = has_work;
            heap.take()
        })
    }

    /// Moves objects of other heaps here that nobody else has, while they are accepted. The others remain to be dropped.
    pub(crate) fn put(&self, objects: &mut Vec<SharedObject<V>>) {
        let own = HeapId::of_thread();
        let mut waiting = self.lock();
        let is_open = waiting.is_open;
        let mut at = 0;
        while let Some(object) = objects.get(at) {
            let id = object.heap();
            let waits = id != own && object.is_last();
            let heap = waiting.heaps.get_mut(usize::from(id.0));
            let accepts = |heap: &&mut Heap<V>| {
                waits && (is_open || heap.has_helper) && heap.bytes < MOST_BYTES
            };
            match heap.filter(accepts) {
                Some(heap) => {
                    heap.bytes += object.bytes();
                    heap.objects.push(objects.swap_remove(at));
                }
                None => at += 1,
            }
        }
    }

    fn of_thread<R: Default>(&self, with: impl FnOnce(&mut Heap<V>) -> R) -> R {
        let HeapId(own) = HeapId::of_thread();
        let mut waiting = self.lock();
        let heap = waiting.heaps.get_mut(usize::from(own));
        heap.map(with).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<V>> {
        // Code under this lock cannot panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use informer_core::{Object, ResourceVersion, Uid};

    use super::*;

    fn objects(count: usize) -> Vec<SharedObject<()>> {
        objects_of(1, count)
    }

    fn objects_of(bytes: usize, count: usize) -> Vec<SharedObject<()>> {
        let object = || Object::new(Uid::default(), ResourceVersion::default(), ());
        let object = || SharedObject::new(object(), bytes, false, None);
        (0..count).map(|_| object()).collect()
    }

    /// The number of objects that `work` leaves, on another thread.
    fn left_by_another(
        retired: &Retired<()>,
        mut objects: Vec<SharedObject<()>>,
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
    fn objects_wait_for_the_thread_that_decoded_them_while_it_has_work() {
        type Change = fn(&Retired<()>);
        let driver: [Change; 2] = [Retired::open, |retired| drop(retired.close())];
        let helper: [Change; 2] = [
            |retired| drop(retired.help(true)),
            |retired| drop(retired.help(false)),
        ];
        for [begin, end] in [driver, helper] {
            let retired = Retired::default();
            assert_eq!(left_by_another(&retired, objects(3), || {}), 3, "idle");

            begin(&retired);
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

            let large = objects_of(2 * MOST_BYTES, 2);
            assert_eq!(left_by_another(&retired, large, || {}), 1, "full");
            end(&retired);
            assert!(retired.end().is_empty());
            assert_eq!(
                left_by_another(&retired, objects(1), || {}),
                1,
                "idle again"
            );
        }
    }

    #[test]
    fn objects_of_a_helper_thread_stay_when_the_driver_waits() {
        let retired = Retired::default();
        let decoded = || {
            drop(retired.help(true));
            objects(3)
        };
        let helped = thread::scope(|scope| scope.spawn(decoded).join());
        retired.open();
        let all = [objects(2), helped.expect("it does not panic")].concat();
        assert_eq!(left_by_another(&retired, all, || {}), 0);
        assert_eq!(retired.close().len(), 2);
        assert_eq!(retired.end().len(), 3);
    }
}
