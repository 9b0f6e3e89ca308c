//! Runs many seeds on several threads.

use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Calls a function with one seed after the other, on this many threads, until it returns false for one. A seed is begun
/// only after all smaller ones were begun, and each that was begun is run to its end.
///
/// ```
/// use std::sync::Mutex;
///
/// let failed = Mutex::new(None);
/// informer_explore::each_seed(0..1_000, 4, |seed| {
///     if seed % 300 < 299 {
///         return true;
///     }
///     let mut failed = failed.lock().unwrap();
///     *failed = Some(failed.map_or(seed, |other: u64| other.min(seed)));
///     false
/// });
/// assert_eq!(failed.into_inner().unwrap(), Some(299));
/// ```
pub fn each_seed(seeds: Range<u64>, threads: usize, run: impl Fn(u64) -> bool + Sync) {
    let (next, stop) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            if !run(seed) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        // The work of this thread is one of them.
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
}
