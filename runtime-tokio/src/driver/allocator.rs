//! What glibc's heap needs to be told: room is taken in large pieces, and given back.
//!
//! glibc grows the heap of every thread but the first by as little as one page, each time by an `mprotect` that holds up the page
//! faults of all threads: while a list is decoded into many small allocations that is a fifth of the work. A block that is
//! taken and given back at once grows it by as much, in one call, and what follows is cut from there. To other allocators
//! it is one cheap pair of calls.
//!
//! What a list needed on its way lies between the objects that stay, so most of it remains with the process, free, unless
//! glibc is asked to look for whole pages.

/// Just less than what glibc would map by itself, and would give back.
const PIECE: usize = 120 << 10;
/// After how much JSON the next piece is taken; objects take several times their JSON.
const EVERY: usize = 16 << 10;

/// How much was decoded since room was made last.
#[derive(Default)]
pub(crate) struct Headroom {
    decoded: usize,
}

impl Headroom {
    /// Makes room before so much JSON is decoded, where it is time.
    pub(crate) fn before(&mut self, json: usize) {
        self.decoded += json;
        if self.decoded >= EVERY {
            self.decoded = 0;
            // The compiler must not see that nothing is ever written there.
            drop(core::hint::black_box(Vec::<u8>::with_capacity(PIECE)));
        }
    }
}

/// Gives whole pages that are free, in the heaps of all threads, back to the system.
///
/// With some hundred thousand objects that takes a fraction of a millisecond, but some milliseconds where much is free in
/// small pieces, so it is done in a hundredth of the time at most: of many informers that list at once some give back what
/// others have left.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "a function of C")]
pub(crate) fn give_back() {
    use std::sync::Mutex;
    use std::time::Instant;

    static NOT_BEFORE: Mutex<Option<Instant>> = Mutex::new(None);
    // Where another thread is at it that will do.
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

/// Other allocators do it by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) const fn give_back() {}
