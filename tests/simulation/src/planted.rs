//! Hunts each planted bug: the simulation must find every one.

use core::ops::Range;

use super::bugs::BUGS;
use super::replicas::Replicas;
use super::runner::explore;
#[cfg(feature = "runtime")]
use super::runtime::Runtime;
use super::variant::Variant;

/// Each bug must be found within these seeds, and none of them may fail without a bug.
pub const SEEDS: Range<u64> = 0..2_000;

/// A planted bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bug {
    /// Its name, which is that of its patch.
    pub name: &'static str,
    /// The function that contains it.
    pub place: &'static str,
    /// What is wrong.
    pub what: &'static str,
}

/// The result of hunting one bug.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// The bug; `None` is the unchanged engine.
    pub bug: Option<Bug>,
    /// The seed that found it, and the invariant that was violated.
    pub found: Option<(u64, &'static str)>,
}

/// Runs the unchanged engine and hunts all bugs, or hunts only the bug with the given name.
#[must_use]
pub fn hunt(threads: usize, only: Option<&str>, say: &dyn Fn(&Hunt)) -> Vec<Hunt> {
    // The informer on tokio is simulated only with the feature `runtime`.
    let is_wanted = |bug: &Bug| {
        (cfg!(feature = "runtime") || !is_of_runtime(*bug))
            && only.is_none_or(|only| bug.name == only)
    };
    let none = only.is_none().then_some(None);
    let bugs = BUGS.iter().copied().filter(is_wanted).map(Some);
    let hunt = |bug: Option<Bug>| {
        let name = bug.map(|bug| bug.name);
        // Without a bug all simulations run.
        let is_in = |is_in: fn(Bug) -> bool| bug.is_none_or(is_in);
        let mut failed = Vec::new();
        if is_in(is_of_engine) {
            failed.extend(explore(Variant::Heap, SEEDS, threads, 1, name).failed);
        }
        if is_in(is_of_journal) {
            failed.extend(explore(Variant::Journal, SEEDS, threads, 1, name).failed);
        }
        if is_in(is_of_replicas) {
            failed.extend(explore(Replicas, SEEDS, threads, 1, name).failed);
        }
        #[cfg(feature = "runtime")]
        if is_in(is_of_runtime) {
            failed.extend(explore(Runtime(name), SEEDS, threads, 1, name).failed);
        }
        let found = failed.first();
        let hunt = Hunt {
            bug,
            found: found.map(|(seed, violation)| (*seed, violation.invariant)),
        };
        say(&hunt);
        hunt
    };
    none.into_iter().chain(bugs).map(hunt).collect()
}

/// Returns whether a bug concerns replicas, which have a separate simulation.
fn is_of_replicas(bug: Bug) -> bool {
    is_in(
        bug,
        &["Members::", "Elector::", "Waiters::", "ExpectedState::"],
    )
}

/// Returns whether a bug concerns the journal, which is simulated by a process that dies repeatedly.
fn is_of_journal(bug: Bug) -> bool {
    is_in(bug, &["Log::", "Recorder::", "format::"])
}

/// Returns whether a bug concerns the crate for tokio or the loop that it runs.
fn is_of_runtime(bug: Bug) -> bool {
    is_in(bug, &["informer-tokio ", "drive::"])
}

fn is_of_engine(bug: Bug) -> bool {
    !is_of_runtime(bug) && !is_of_replicas(bug) && !is_of_journal(bug)
}

fn is_in(bug: Bug, places: &[&str]) -> bool {
    places.iter().any(|place| bug.place.starts_with(place))
}

/// Formats a row of the table.
#[must_use]
pub fn line(hunt: &Hunt) -> String {
    let (name, place, what) = hunt.bug.map_or_else(
        || ("(none)", "", "the engine as it is"),
        |bug| (bug.name, bug.place, bug.what),
    );
    let found = match (hunt.bug, hunt.found) {
        (_, Some((seed, invariant))) => format!("seed {seed}: {invariant}"),
        (Some(_), None) => "NOT FOUND".to_owned(),
        (None, None) => "clean".to_owned(),
    };
    format!("{name:<22} {place:<28} {found:<28} {what}\n")
}

/// Returns whether every bug was found, and the unchanged engine passed.
#[must_use]
pub fn is_good(hunts: &[Hunt]) -> bool {
    !hunts.is_empty()
        && hunts
            .iter()
            .all(|hunt| hunt.bug.is_some() == hunt.found.is_some())
}
