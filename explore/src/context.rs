//! The run that a thread belongs to: for panics and log lines, which do not say it.

use core::cell::{Cell, RefCell};
use core::panic::AssertUnwindSafe;
use std::io::Write as _;
use std::sync::{Arc, Once, Weak};

use super::dice::Dice;
use super::interpose::{self, Illusion};
use super::trace::EntryKind;
use super::world::Shared;

/// The check that a program fails by a panic.
const PANICS: &str = "it does not panic";

thread_local! {
    /// The seed of the run of this thread. It needs no destructor, so it can be read while the program exits.
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
    static RUN: RefCell<Weak<Shared>> = const { RefCell::new(Weak::new()) };
    /// The lane of the process that is polled now.
    static LANE: Cell<Option<usize>> = const { Cell::new(None) };
    /// The text of a panic in [`catch`], while that runs.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Makes random bytes of this thread follow from a seed. It comes before everything else on the thread: hashers keep
/// the first ones that they get. `number` distinguishes the threads of a run.
pub(super) fn seed(seed: u64, number: u64) {
    let random = Dice::of(&[seed, number, 10]).below(u64::MAX);
    report_exits();
    SEED.set(Some(seed));
    fastrand::seed(random);
    interpose::set(Some(Illusion::of_seed(random)));
}

/// Makes this thread a part of a run: its panics and log lines belong to it, and it sees the time of day of the world.
pub(super) fn enter(run: &Arc<Shared>) {
    hook_panics();
    RUN.set(Arc::downgrade(run));
    let (start, epoch) = run.clock();
    interpose::set_clock(start, epoch);
}

/// Ends what [`enter`] began.
pub(super) fn leave() {
    interpose::set(None);
    SEED.set(None);
    RUN.set(Weak::new());
}

/// Sets the process that is polled now: its lane, and the seconds by which its clock is ahead.
pub(super) fn set_process(lane: Option<usize>, skew: i64) {
    LANE.set(lane);
    interpose::set_skew(skew);
}

fn run() -> Option<Arc<Shared>> {
    RUN.try_with(|run| run.try_borrow().ok()?.upgrade())
        .ok()
        .flatten()
}

/// Calls a check of the user. Returns its error, or the text of its panic.
pub(super) fn catch(check: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    hook_panics();
    CAUGHT.set(Some(String::new()));
    let result = std::panic::catch_unwind(AssertUnwindSafe(check));
    let text = CAUGHT.take().unwrap_or_default();
    result.unwrap_or_else(|_| Err(format!("the check panics: {text}")))
}

/// Records a line that the program has logged.
pub(super) fn log(text: &str) {
    if let Some(run) = run() {
        run.record(lane(&run), EntryKind::Log, text.to_owned());
    }
}

/// Returns the lane of the process that runs now. A task that was spawned does not say whose it is.
fn lane(run: &Shared) -> usize {
    match LANE.get() {
        Some(lane) => lane,
        None if run.spec.replicas == 1 => run.lane("controller"),
        None => run.lane("tasks"),
    }
}

/// Says so if a program under test ends the whole test program, which nothing can prevent.
fn report_exits() {
    extern "C" fn report() {
        if let Some(seed) = SEED.get() {
            let text = format!(
                "\nexplore: the program under test has ended the whole test program, as `std::process::exit` does, in the \
                 run of seed {seed}. Let it return instead: its function is then started again, like a process.\n"
            );
            // If nobody reads it, there is nothing to do.
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| interpose::at_exit(report));
}

/// Catches the panics of all threads of runs, of spawned tasks as well, which nobody may ask for their end.
fn hook_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let what = panic.payload().downcast_ref::<String>();
            let what = what.map(String::as_str);
            let what = what.or_else(|| panic.payload().downcast_ref::<&str>().copied());
            let what = what.unwrap_or("it panics");
            let place = panic
                .location()
                .map(|place| format!(", at {place}"))
                .unwrap_or_default();
            let text = format!("{what}{place}");
            let is_caught = CAUGHT.with_borrow_mut(|caught| {
                if let Some(caught) = caught {
                    caught.clone_from(&text);
                }
                caught.is_some()
            });
            match run() {
                _ if is_caught => {}
                Some(run) => run.violate(PANICS, &text),
                None => before(panic),
            }
        }));
    });
}
