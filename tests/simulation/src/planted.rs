//! Hunts each planted bug: the simulation must find every one.

use core::ops::Range;

use super::bugs::BUGS;
use super::run::Violation;
use super::runner::explore;
use super::variant::Variant;

type Failed = Vec<(u64, Violation)>;

/// Each bug must be found within these seeds. The seed that finds it must not fail without it.
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
    /// The bug.
    pub bug: Bug,
    /// The seed that found it, and the invariant that was violated.
    pub found: Option<(u64, &'static str)>,
    /// The invariant that this seed violates without the bug.
    pub without: Option<&'static str>,
}

/// Hunts all bugs, or only the one with the given name.
#[must_use]
pub fn hunt(threads: usize, only: Option<&str>, say: &dyn Fn(&Hunt)) -> Vec<Hunt> {
    let failed = |bug: Bug, seeds: Range<u64>, planted: bool| {
        let name = planted.then_some(bug.name);
        let summary = if is_of_journal(bug) {
            explore(Variant::Journal, seeds, threads, 1, name).failed
        } else if is_of_tokio(bug) {
            on_tokio(bug, name, seeds, threads)
        } else {
            explore(Variant::Heap, seeds, threads, 1, name).failed
        };
        let first = summary.first();
        first.map(|(seed, violation)| (*seed, violation.invariant))
    };
    let hunt = |bug: Bug| {
        let found = failed(bug, SEEDS, true);
        let without = found.and_then(|(seed, _)| failed(bug, seed..seed + 1, false));
        let without = without.map(|(_, invariant)| invariant);
        let hunt = Hunt {
            bug,
            found,
            without,
        };
        say(&hunt);
        hunt
    };
    // Replicas and the informer on tokio are simulated only with the feature `runtime`.
    let is_wanted = |bug: &Bug| {
        (cfg!(feature = "runtime") || !is_of_tokio(*bug))
            && only.is_none_or(|only| bug.name == only)
    };
    BUGS.iter().copied().filter(is_wanted).map(hunt).collect()
}

#[cfg(feature = "runtime")]
fn on_tokio(bug: Bug, name: Option<&'static str>, seeds: Range<u64>, threads: usize) -> Failed {
    if is_of_replicas(bug) {
        return explore(super::replicas::Replicas, seeds, threads, 1, name).failed;
    }
    explore(super::runtime::Runtime(name), seeds, threads, 1, name).failed
}

#[cfg(not(feature = "runtime"))]
fn on_tokio(_: Bug, _: Option<&'static str>, _: Range<u64>, _: usize) -> Failed {
    Failed::new()
}

/// Returns whether a bug concerns replicas, which have a separate simulation.
fn is_of_replicas(bug: Bug) -> bool {
    let place = bug.place.trim_start_matches("informer-tokio ");
    let places = [
        "Members::",
        "Elector::",
        "Election::",
        "Leadership::",
        "ReplicaState::",
    ];
    places.iter().any(|start| place.starts_with(start))
}

/// Returns whether a bug concerns the journal, which is simulated by a process that dies repeatedly.
fn is_of_journal(bug: Bug) -> bool {
    is_in(bug, &["Log::", "Recorder::", "format::"])
}

/// Returns whether a bug concerns replicas, the crate for tokio or the loop that it runs.
fn is_of_tokio(bug: Bug) -> bool {
    is_of_replicas(bug) || is_in(bug, &["informer-tokio ", "drive::", "ExpectedState::"])
}

fn is_in(bug: Bug, places: &[&str]) -> bool {
    places.iter().any(|place| bug.place.starts_with(place))
}

/// Formats a row of the table.
#[must_use]
pub fn line(hunt: &Hunt) -> String {
    let Bug { name, place, what } = hunt.bug;
    let found = match (hunt.found, hunt.without) {
        (Some((seed, _)), Some(invariant)) => format!("seed {seed} WITHOUT IT: {invariant}"),
        (Some((seed, invariant)), None) => format!("seed {seed}: {invariant}"),
        (None, _) => "NOT FOUND".to_owned(),
    };
    format!("{name:<22} {place:<28} {found:<28} {what}\n")
}

/// Returns whether every bug was found, by a seed that does not fail without it.
#[must_use]
pub fn is_good(hunts: &[Hunt]) -> bool {
    !hunts.is_empty()
        && hunts
            .iter()
            .all(|hunt| hunt.found.is_some() && hunt.without.is_none())
}
