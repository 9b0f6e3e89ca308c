//! Room at the end of the heap, taken in large pieces.
//!
//! glibc grows the heap of every thread but the first by as little as one page, each time by an `mprotect` that holds up the page
//! faults of all threads: while a list is decoded into many small allocations that is a fifth of the work. A block that is
//! taken and given back at once grows it by as much, in one call, and what follows is cut from there. To other allocators
//! it is one cheap pair of calls.

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
