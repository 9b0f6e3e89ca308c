//! Takes the place of two functions of the operating system, so that programs under test need no advice: random bytes
//! follow from the seed of the run, and the time of day is that of the world. The only `unsafe` code of the crate.
//!
//! The standard library, and the crates `getrandom`, `jiff` and `chrono`, call them by their names in C. A definition
//! in the program itself is found before that of the C library. On threads without a run, the definition calls the
//! original one. It is done with glibc on 64 bits; the code for macOS has not been run yet. Elsewhere programs see the real functions, and
//! explorations report what differs between two runs.

#![expect(unsafe_code, reason = "defines functions of C, and calls them")]

use core::cell::Cell;

/// What a thread of a run sees in place of the real machine.
#[derive(Clone, Copy)]
pub(crate) struct Illusion {
    /// The state of the generator of random bytes.
    random: u64,
    /// The start of the run by tokio's clock, and the time of day then, in nanoseconds since the Unix epoch.
    clock: Option<(tokio::time::Instant, u64)>,
}

impl Illusion {
    /// Random bytes that follow from a seed, and the real time of day.
    pub(crate) const fn of_seed(random: u64) -> Self {
        Self {
            random,
            clock: None,
        }
    }

    /// Adds the clock of the world: its start by tokio's clock, and the time of day then.
    pub(crate) const fn clock(self, start: tokio::time::Instant, epoch: u64) -> Self {
        Self {
            clock: Some((start, epoch)),
            ..self
        }
    }
}

thread_local! {
    // Without a destructor, so that it can be used at any time.
    static ILLUSION: Cell<Option<Illusion>> = const { Cell::new(None) };
    /// The seconds by which the clock of the process that runs now is ahead.
    static SKEW: Cell<i64> = const { Cell::new(0) };
}

/// Sets what this thread sees.
pub(crate) fn set(illusion: Option<Illusion>) {
    functions::link();
    ILLUSION.set(illusion);
}

/// Adds a clock to what this thread sees.
pub(crate) fn set_clock(start: tokio::time::Instant, epoch: u64) {
    ILLUSION.set(ILLUSION.get().map(|illusion| illusion.clock(start, epoch)));
}

/// Sets how far the clock of the process that runs now is ahead.
pub(crate) fn set_skew(seconds: i64) {
    SKEW.set(seconds);
}

/// Fills a buffer with the random bytes of the run. Returns false on other threads.
fn fill(buffer: &mut [u8]) -> bool {
    let Some(mut illusion) = ILLUSION.get() else {
        return false;
    };
    for part in buffer.chunks_mut(8) {
        // SplitMix64.
        illusion.random = illusion.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = illusion.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        part.copy_from_slice(&mixed.to_ne_bytes()[..part.len()]);
    }
    ILLUSION.set(Some(illusion));
    true
}

/// Returns the time of day of the world in nanoseconds since the Unix epoch; `None` on other threads.
fn time_of_day() -> Option<u64> {
    let (start, epoch) = ILLUSION.get()?.clock?;
    // It reads the real time only outside of a runtime, which asks for the other clock.
    let now = tokio::time::Instant::now();
    let elapsed = now.saturating_duration_since(start).as_nanos();
    let elapsed = u64::try_from(elapsed).unwrap_or(u64::MAX);
    Some(
        epoch
            .saturating_add_signed(SKEW.get().saturating_mul(1_000_000_000))
            .saturating_add(elapsed),
    )
}

/// Has a function called when the program exits.
pub(crate) fn at_exit(function: extern "C" fn()) {
    functions::at_exit(function);
}

/// Gives the signals that end a program their original effect back. A program under test that waits for signals, as with
/// `shutdown_on_signal`, takes them for the whole test program otherwise, which then could not be ended.
pub(crate) fn restore_signals() {
    functions::restore_signals();
}

/// Returns the processor time of this thread; `None` where it is not known.
pub(crate) fn processor_time() -> Option<core::time::Duration> {
    functions::processor_time()
}

/// Whether random bytes and the time of day are those of the world on this platform.
pub(crate) const IS_SUPPORTED: bool = functions::IS_SUPPORTED;

#[cfg(any(
    all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"),
    target_os = "macos"
))]
mod functions {
    use core::ffi::{CStr, c_int, c_void};
    use core::sync::atomic::{AtomicPtr, Ordering};
    use core::time::Duration;
    use std::sync::OnceLock;

    pub(super) const IS_SUPPORTED: bool = true;

    type GetTime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int;

    /// Makes the linker keep the definitions of this module.
    pub(super) fn link() {
        core::hint::black_box(clock_gettime as GetTime);
        random::link();
    }

    /// Returns the next definition of a function after that of this module.
    fn original(name: &CStr, found: &AtomicPtr<c_void>) -> *mut c_void {
        let mut function = found.load(Ordering::Relaxed);
        if function.is_null() {
            // SAFETY: the name is a C string, and the handle is one that the documentation of `dlsym` names.
            function = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
            found.store(function, Ordering::Relaxed);
        }
        function
    }

    /// In place of the function of the C library: the time of day is that of the world.
    ///
    /// # Safety
    /// `time` is valid for writes.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
        if clock == libc::CLOCK_REALTIME
            && let Some(now) = super::time_of_day()
        {
            let seconds = now / 1_000_000_000;
            let now = libc::timespec {
                tv_sec: libc::time_t::try_from(seconds).unwrap_or(libc::time_t::MAX),
                tv_nsec: (now % 1_000_000_000) as _,
            };
            // SAFETY: the caller guarantees that it is valid for writes.
            unsafe { time.write(now) };
            return 0;
        }
        static FOUND: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
        let function = original(c"clock_gettime", &FOUND);
        if function.is_null() {
            return -1;
        }
        // SAFETY: it is the function of the C library of this name, and it gets the arguments of its caller.
        unsafe { core::mem::transmute::<*mut c_void, GetTime>(function)(clock, time) }
    }

    pub(super) fn at_exit(function: extern "C" fn()) {
        // SAFETY: it may be called at any time. If there is no memory for it, it is not called.
        unsafe { libc::atexit(function) };
    }

    pub(super) fn restore_signals() {
        static DEFAULT: OnceLock<Vec<c_int>> = OnceLock::new();
        let all = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];
        // The first call is before the first run.
        let default =
            DEFAULT.get_or_init(|| all.into_iter().filter(|one| is_default(*one)).collect());
        for signal in default.iter().filter(|signal| !is_default(**signal)) {
            // SAFETY: it is a valid signal, and the default action needs no function.
            unsafe { libc::signal(*signal, libc::SIG_DFL) };
        }
    }

    fn is_default(signal: c_int) -> bool {
        let mut action = core::mem::MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: the pointer is to a value of this frame, and nothing is changed.
        let read = unsafe { libc::sigaction(signal, core::ptr::null(), action.as_mut_ptr()) };
        // SAFETY: zeroes are a valid value, and the function has written it if it returns 0.
        read == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_DFL
    }

    pub(super) fn processor_time() -> Option<Duration> {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the pointer is to a value of this frame.
        if unsafe { clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0 {
            return None;
        }
        let seconds = u64::try_from(time.tv_sec).ok()?;
        Some(Duration::new(seconds, u32::try_from(time.tv_nsec).ok()?))
    }

    #[cfg(target_os = "linux")]
    mod random {
        use super::{AtomicPtr, c_void, original};
        use core::ffi::c_uint;

        type GetRandom = unsafe extern "C" fn(*mut c_void, usize, c_uint) -> isize;

        pub(super) fn link() {
            core::hint::black_box(getrandom as GetRandom);
        }

        /// In place of the function of the C library: the bytes follow from the seed of the run.
        ///
        /// # Safety
        /// `buffer` is valid for writes of `length` bytes.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn getrandom(buffer: *mut c_void, length: usize, flags: c_uint) -> isize {
            if length > 0 && !buffer.is_null() {
                // SAFETY: the caller guarantees that it is valid for writes of so many bytes. They are zeroed first,
                // since they need not be initialised.
                let bytes = unsafe {
                    buffer.write_bytes(0, length);
                    core::slice::from_raw_parts_mut(buffer.cast::<u8>(), length)
                };
                if super::super::fill(bytes) {
                    return isize::try_from(length).unwrap_or(isize::MAX);
                }
            }
            static FOUND: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
            let function = original(c"getrandom", &FOUND);
            if function.is_null() {
                return -1;
            }
            // SAFETY: it is the function of the C library of this name, and it gets the arguments of its caller.
            unsafe {
                core::mem::transmute::<*mut c_void, GetRandom>(function)(buffer, length, flags)
            }
        }
    }

    #[cfg(target_os = "macos")]
    mod random {
        use super::{AtomicPtr, c_int, c_void, original};

        type GetEntropy = unsafe extern "C" fn(*mut c_void, usize) -> c_int;

        pub(super) fn link() {
            core::hint::black_box(getentropy as GetEntropy);
            core::hint::black_box(CCRandomGenerateBytes as GetEntropy);
        }

        /// Fills a buffer, or calls the original function.
        ///
        /// # Safety
        /// `buffer` is valid for writes of `length` bytes, and `function` is a function of this type or null.
        unsafe fn fill(buffer: *mut c_void, length: usize, function: *mut c_void) -> c_int {
            if length > 0 && !buffer.is_null() {
                // SAFETY: as above; they are zeroed first, since they need not be initialised.
                let bytes = unsafe {
                    buffer.write_bytes(0, length);
                    core::slice::from_raw_parts_mut(buffer.cast::<u8>(), length)
                };
                if super::super::fill(bytes) {
                    return 0;
                }
            }
            if function.is_null() {
                return -1;
            }
            // SAFETY: the caller guarantees the type.
            unsafe { core::mem::transmute::<*mut c_void, GetEntropy>(function)(buffer, length) }
        }

        /// In place of the function of the system: the bytes follow from the seed of the run.
        ///
        /// # Safety
        /// `buffer` is valid for writes of `length` bytes.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn getentropy(buffer: *mut c_void, length: usize) -> c_int {
            static FOUND: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
            // SAFETY: the caller guarantees the buffer, and the name is that of a function of this type.
            unsafe { fill(buffer, length, original(c"getentropy", &FOUND)) }
        }

        /// In place of the function of the system: the bytes follow from the seed of the run.
        ///
        /// # Safety
        /// `buffer` is valid for writes of `length` bytes.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn CCRandomGenerateBytes(buffer: *mut c_void, length: usize) -> c_int {
            static FOUND: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
            // SAFETY: the caller guarantees the buffer, and the name is that of a function of this type.
            unsafe { fill(buffer, length, original(c"CCRandomGenerateBytes", &FOUND)) }
        }
    }
}

#[cfg(not(any(
    all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"),
    target_os = "macos"
)))]
mod functions {
    pub(super) const IS_SUPPORTED: bool = false;

    pub(super) const fn link() {}

    pub(super) const fn restore_signals() {}

    pub(super) const fn at_exit(_: extern "C" fn()) {}

    pub(super) const fn processor_time() -> Option<core::time::Duration> {
        None
    }
}

#[cfg(test)]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;
    use core::hash::BuildHasher as _;
    use core::time::Duration;
    use std::hash::RandomState;
    use std::time::SystemTime;

    /// On a thread of its own: hashers keep their keys for each thread.
    fn seen(random: u64) -> (u64, SystemTime) {
        std::thread::spawn(move || {
            set(Some(Illusion::of_seed(random)));
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(async {
                set_clock(tokio::time::Instant::now(), 1_700_000_000_000_000_000);
                tokio::time::sleep(Duration::from_secs(3)).await;
                (RandomState::new().hash_one("a"), SystemTime::now())
            })
        })
        .join()
        .unwrap()
    }

    #[test]
    fn random_bytes_and_the_time_of_day_are_those_of_the_run() {
        let (first, now) = seen(1);
        assert_eq!(
            now.duration_since(SystemTime::UNIX_EPOCH).unwrap(),
            Duration::from_secs(1_700_000_003)
        );
        assert_eq!(seen(1).0, first);
        assert_ne!(seen(2).0, first);
    }

    #[test]
    fn other_threads_see_the_real_ones() {
        let hash = || std::thread::spawn(|| RandomState::new().hash_one("a"));
        assert_ne!(hash().join().unwrap(), hash().join().unwrap());
        let now = SystemTime::now();
        assert!(now > SystemTime::UNIX_EPOCH + Duration::from_secs(1_780_000_000));
        assert!(processor_time().is_some());
    }
}
