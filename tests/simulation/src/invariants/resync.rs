//! A resync sends one notification for every cached object, in the newest state received, and sends no request. A
//! handler is due according to its own period.
//!
//! Source: client-go's `DeltaFIFO.Resync`: "skips a key that has deltas"; `docs/DIFFERENCES.md` S1.

use std::collections::BTreeMap;

use super::super::client::Seen;
use super::super::engine::{Note, NoteKind};
use super::super::plan::{KEY_NAMES, Scope};
use super::{Context, Invariant, Verdict};

#[derive(Default)]
pub(super) struct Resync {
    /// For each running pass, the keys not yet sent, as bits.
    due: BTreeMap<u32, u32>,
    /// The keys sent by each pass.
    notified: BTreeMap<u32, u32>,
    has: u32,
}

impl Invariant for Resync {
    fn seen(&mut self, seen: &Seen, context: &Context<'_>) -> Verdict {
        match seen {
            Seen::Resync(pass, _) => {
                // With little room, a resync may restart an earlier pass.
                self.due.insert(*pass, self.has);
                self.notified.remove(pass);
            }
            Seen::Notified(note) => self.notified(note, context)?,
            _ => {}
        }
        Ok(())
    }

    fn step(&mut self, context: &Context<'_>) -> Verdict {
        if !context.client.is_popped() {
            return Ok(());
        }
        let missed = self.due.iter().find(|(_, keys)| **keys != 0);
        if let Some((pass, keys)) = missed {
            return Err(format!(
                "pass {pass} is over and has not notified the keys {keys:b}"
            ));
        }
        self.due.clear();
        self.notified.clear();
        Ok(())
    }
}

impl Resync {
    fn notified(&mut self, note: &Note, context: &Context<'_>) -> Verdict {
        let bit = 1 << note.slot;
        match note.kind {
            NoteKind::Replayed(Some(pass)) => {
                let Some(due) = self.due.get_mut(&pass) else {
                    return Err(format!("{note}: nobody began pass {pass}"));
                };
                *due &= !bit;
                let notified = self.notified.entry(pass).or_default();
                if *notified & bit != 0 {
                    return Err(format!(
                        "{note}: pass {pass} notifies of it for the second time"
                    ));
                }
                *notified |= bit;
                let wires = context.client.wires.iter().zip(context.world.scopes);
                let mut newest = wires.filter_map(|(wire, scope)| {
                    let newest = wire.newest[usize::from(note.slot)]?;
                    let written = context.cluster.written(newest);
                    // The server sends both halves.
                    let is_other = matches!(scope, Scope::Half(_))
                        && written.is_some_and(|(slot, state)| !scope.takes(slot, state));
                    (!is_other).then_some(newest)
                });
                let is_of_halves = context.world.is_of_halves();
                let newer = newest.find(|newest| {
                    if is_of_halves {
                        // The cache leaves out the older object of two. A restored backup changes which one that is.
                        *newest > note.state.n && context.cluster.era_number() == 0
                    } else {
                        *newest != note.state.n
                    }
                });
                if let Some(newer) = newer.filter(|_| !context.cluster.raw_restore) {
                    let key = KEY_NAMES[usize::from(note.slot)];
                    return Err(format!("{note}: a newer state of {key} has come, n{newer}"));
                }
            }
            NoteKind::Added(_) => self.has |= bit,
            NoteKind::Deleted(_) => {
                self.has &= !bit;
                self.due.values_mut().for_each(|due| *due &= !bit);
                // A later object of the same name is another object, so the pass may send it too.
                self.notified
                    .values_mut()
                    .for_each(|notified| *notified &= !bit);
            }
            NoteKind::Updated(_) | NoteKind::Replayed(None) | NoteKind::Synced => {}
        }
        Ok(())
    }
}
