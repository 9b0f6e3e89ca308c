//! No notification is sent before the first complete list. Once all sources have one, a single synced notification
//! follows the whole initial state.
//!
//! Source: client-go's `HasSynced`; `docs/DIFFERENCES.md` S5.

use super::super::engine::{Note, NoteKind};
use super::{Context, Invariant, Verdict};

#[derive(Default)]
pub(super) struct Visibility {
    synced: bool,
}

impl Invariant for Visibility {
    fn notified(&mut self, note: &Note, context: &Context<'_>) -> Verdict {
        let wires = &context.client.wires;
        match note.kind {
            NoteKind::Synced => {
                if wires.iter().any(|wire| wire.complete == 0) {
                    return Err("synced, but not all sources have a complete list".to_owned());
                }
                if core::mem::replace(&mut self.synced, true) {
                    return Err("synced for the second time".to_owned());
                }
            }
            NoteKind::Added(true) if self.synced => {
                return Err(format!("{note}: in the first state, after it was complete"));
            }
            _ => {
                if wires.iter().all(|wire| wire.complete == 0) {
                    return Err(format!("{note}: before any complete list"));
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, context: &Context<'_>) -> Verdict {
        let engine = &context.client.engine;
        if engine.cache().is_synced() && !self.synced {
            return Err("the cache is synced, and `Synced` was not notified".to_owned());
        }
        let complete = context.client.wires.iter().all(|wire| wire.complete > 0);
        if complete && context.client.is_popped() && !self.synced && !engine.cache().is_restored() {
            return Err("all lists are complete and popped, and it is not synced".to_owned());
        }
        if self.synced && context.client.is_popped() {
            let unnotified = context
                .snapshot
                .iter()
                .flatten()
                .find(|cached| !cached.notified);
            if let Some(cached) = unnotified {
                return Err(format!("{cached:?} is in the cache without a notification"));
            }
        }
        Ok(())
    }
}
