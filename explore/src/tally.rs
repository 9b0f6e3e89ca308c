//! What has happened in runs, and whether an exploration proves anything.

use std::collections::BTreeMap;

use super::action::FaultKind;
use super::invariants::Invariant;
use super::spec::Spec;
use super::systematic::Sent;

/// Counts of one run, or of all.
#[derive(Clone, Default, Debug)]
pub(super) struct Tally {
    pub(super) runs: u64,
    pub(super) requests: u64,
    /// How often a fault of each kind had an effect.
    pub(super) faults: BTreeMap<FaultKind, u64>,
    /// How often a process died.
    pub(super) deaths: u64,
    /// How many runs an invariant could not decide.
    pub(super) undecided: BTreeMap<Invariant, u64>,
    /// What the program has written. It is of one run.
    pub(super) sent: Sent,
    /// The writes by users, by the objects and the variant.
    pub(super) writes: BTreeMap<(usize, usize), Writes>,
}

/// Writes of the same object by users.
#[derive(Clone, Default, Debug)]
pub(super) struct Writes {
    pub(super) accepted: u64,
    pub(super) refused: u64,
    /// The answer to a write that was refused.
    pub(super) answer: String,
}

/// An exploration stops after so many runs without a request, or writes of an object that were all refused.
const FEW: u64 = 10;
/// The least number of runs in which each fault that was asked for occurs.
const MANY: u64 = 200;

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.requests += other.requests;
        self.deaths += other.deaths;
        for (kind, count) in &other.faults {
            *self.faults.entry(*kind).or_default() += count;
        }
        for (invariant, count) in &other.undecided {
            *self.undecided.entry(*invariant).or_default() += count;
        }
        for (of, writes) in &other.writes {
            let all = self.writes.entry(*of).or_default();
            all.accepted += writes.accepted;
            all.refused += writes.refused;
            if all.answer.is_empty() {
                all.answer.clone_from(&writes.answer);
            }
        }
    }

    /// Counts a run that an invariant cannot decide.
    pub(super) fn cannot_decide(&mut self, invariant: Invariant) {
        *self.undecided.entry(invariant).or_default() += 1;
    }

    /// Counts a write by a user. `answer` is that of the server, or empty if it was accepted.
    pub(super) fn wrote(&mut self, of: (usize, usize), answer: String) {
        let writes = self.writes.entry(of).or_default();
        if answer.is_empty() {
            writes.accepted += 1;
        } else {
            writes.refused += 1;
            writes.answer = answer;
        }
    }

    /// Returns what makes the runs prove nothing: the name of a check, and what to change. More runs may follow unless
    /// `is_last`.
    pub(super) fn objection(&self, spec: &Spec, is_last: bool) -> Option<(&'static str, String)> {
        if self.requests == 0 && (is_last || self.runs >= FEW) {
            let what = format!(
                "the program has sent no request in {} runs, so the checks prove nothing. Does it use \
                 `process.transport()`, `process.client()` or `process.service()`, and does it wait for work that \
                 never comes?",
                self.runs
            );
            return Some(("the program sends requests", what));
        }
        let in_vain = |writes: &Writes| {
            writes.accepted == 0 && writes.refused >= if is_last { 1 } else { FEW }
        };
        if let Some(((objects, variant), writes)) =
            self.writes.iter().find(|(_, writes)| in_vain(writes))
        {
            let objects = &spec.objects[*objects];
            let change = match variant.checked_sub(1) {
                Some(index) => format!(" with the change {}", objects.variants[index]),
                None => String::new(),
            };
            let what = format!(
                "the server has refused each of the {} writes of {}{change} by users, so it never exists. Correct the \
                 object in the test: {}",
                writes.refused, objects.resource, writes.answer
            );
            return Some(("users can write their objects", what));
        }
        if is_last && self.runs >= MANY {
            let fired = |kind: &FaultKind| self.faults.get(kind).is_some_and(|count| *count > 0);
            let absent: Vec<_> = spec.named.iter().filter(|kind| !fired(kind)).collect();
            if !absent.is_empty() {
                let what = format!(
                    "in {} runs, {absent:?} has never had an effect. Leave it out, or let the program do what it meets: \
                     a write, or a watch",
                    self.runs
                );
                return Some(("each fault that was asked for occurs", what));
            }
        }
        None
    }
}
