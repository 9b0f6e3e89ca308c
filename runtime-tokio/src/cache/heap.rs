//! The heaps of an allocator that has one for each thread.

use core::sync::atomic::{AtomicUsize, Ordering};

/// The number of heaps that are distinguished.
pub(crate) const HEAPS: usize = 16;

/// The heap of a thread. Threads beyond the first ones share an id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HeapId(pub(crate) u8);

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
