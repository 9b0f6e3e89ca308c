//! Tuning of glibc's heap: memory is requested in large blocks, and returned after a list.
//!
//! glibc grows the heap of every thread but the first by as little as one page at a time. Each step is an `mprotect`
//! call that blocks the page faults of all threads. While a list is decoded into many small allocations, that takes a
//! fifth of the time. Allocating and freeing one large block grows the heap by its size in one call, and the following
//! allocations are cut from it. For other allocators this is a cheap pair of calls.
//!
//! Temporary memory of a list lies between the objects that stay. Most of it therefore remains free in the process
//! until glibc is asked to return whole pages.

/// Slightly less than the size from which glibc maps a block by itself, and returns it.
const PIECE: usize = 120 << 10;
/// The bytes of JSON per block. Objects take several times the size of their JSON.
const EVERY: usize = 16 << 10;

/// The bytes decoded since the last block.
#[derive(Default)]
pub(crate) struct Headroom {
    decoded: usize,
}

impl Headroom {
    /// Grows the heap before this much JSON is decoded, if it is due.
    pub(crate) fn before(&mut self, json: usize) {
        self.decoded += json;
        if self.decoded >= EVERY {
            self.decoded = 0;
            // Prevents the compiler from removing an allocation that is never written to.
            drop(core::hint::black_box(Vec::<u8>::with_capacity(PIECE)));
        }
    }
}

/// Returns free whole pages in the heaps of all threads to the operating system.
///
/// With several hundred thousand objects it takes a fraction of a millisecond, and several milliseconds if much memory
/// is free in small pieces. It therefore runs for at most a hundredth of the time. If many informers list at once, one
/// call serves several of them.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "calls a C function")]
pub(crate) fn give_back() {
    use std::sync::Mutex;
    use std::time::Instant;

    static NOT_BEFORE: Mutex<Option<Instant>> = Mutex::new(None);
    // Another thread is doing it.
    let Ok(mut not_before) = NOT_BEFORE.try_lock() else {
        return;
    };
    let begun = Instant::now();
    if not_before.is_some_and(|at| begun < at) {
        return;
    }
    // SAFETY: Any thread may call it at any time.
    unsafe {
        libc::malloc_trim(0);
    }
    *not_before = Some(begun + begun.elapsed() * 100);
}

/// Other allocators return memory by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) const fn give_back() {}
