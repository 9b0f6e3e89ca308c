//! Measures the memory allocated by a test process.

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::alloc::System;

/// An allocator that counts the bytes allocated now, and the peak since [`Counting::reset_peak`].
///
/// Use it as a test's `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting {
    now: AtomicUsize,
    peak: AtomicUsize,
}

impl Counting {
    /// Makes an allocator with all counts at zero.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            now: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        }
    }

    /// Returns the number of bytes allocated.
    #[must_use]
    pub fn now(&self) -> usize {
        self.now.load(Ordering::SeqCst)
    }

    /// Returns the peak of the bytes allocated.
    #[must_use]
    pub fn peak(&self) -> usize {
        self.peak.load(Ordering::SeqCst)
    }

    /// Resets the peak to the bytes allocated now, and returns it.
    pub fn reset_peak(&self) -> usize {
        let now = self.now();
        self.peak.store(now, Ordering::SeqCst);
        now
    }

    fn add(&self, bytes: usize) {
        let now = self.now.fetch_add(bytes, Ordering::SeqCst) + bytes;
        self.peak.fetch_max(now, Ordering::SeqCst);
    }

    fn subtract(&self, bytes: usize) {
        self.now.fetch_sub(bytes, Ordering::SeqCst);
    }
}

impl Default for Counting {
    fn default() -> Self {
        Self::new()
    }
}

#[expect(
    unsafe_code,
    reason = "an allocator cannot be had without it; everything is handed on as it came"
)]
// SAFETY: the system's allocator does the work, with the arguments of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.add(layout.size());
        // SAFETY: the caller upholds the contract of this method, which is that of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.add(layout.size());
        // SAFETY: the caller upholds the contract of this method, which is that of the system's allocator.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.subtract(layout.size());
        // SAFETY: the caller upholds the contract of this method, which is that of the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Large blocks are remapped rather than copied, so the old and the new block never exist at the same time.
        self.subtract(layout.size());
        self.add(size);
        // SAFETY: the caller upholds the contract of this method, which is that of the system's allocator.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
