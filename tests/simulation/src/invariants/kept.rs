//! An object whose newest state cannot be used keeps its previous state: a list that names it does not delete it.
//!
//! Source: `docs/DIFFERENCES.md` S9.

use super::super::cluster::Expected;
use super::super::engine::{Note, NoteKind};
use super::super::plan::Scope;
use super::{Context, Invariant, Verdict};

pub(super) struct Kept;

impl Invariant for Kept {
    fn notified(&mut self, note: &Note, context: &Context<'_>) -> Verdict {
        if note.kind != NoteKind::Deleted(true) {
            return Ok(());
        }
        for (source, scope) in context
            .world
            .scopes
            .iter()
            .enumerate()
            .take(context.client.sources())
        {
            // With several unpopped lists, the one that caused the deletion is unknown.
            if context.client.unpopped_lists(source) > 1 {
                continue;
            }
            let wire = &context.client.wires[source];
            // A watch may have deleted the object, with the notification pending, while an older list names it again.
            if context.client.unpopped_lists(source) > 0 && wire.went_back {
                continue;
            }
            // An object that leaves a selector and returns is correctly reported as deleted, and so is one that another half
            // replaces.
            if matches!(scope, Scope::Label(_)) || context.world.is_of_halves() {
                continue;
            }
            let ([version], Some(listed)) = (&wire.versions[..], wire.listed) else {
                continue;
            };
            if !wire.trusted || wire.in_list || !scope.takes(note.slot, note.state) {
                continue;
            }
            let names_it = |version: u64| {
                let expected = context
                    .cluster
                    .expected(wire.era, *scope, note.slot, version);
                // Otherwise the deletion has another reason: it concerns another object, or a state newer than the
                // unusable one.
                matches!(expected, Expected::OlderThan(state)
                    if state.uid == note.state.uid && state.version >= note.state.version)
            };
            // The object cannot be used in the list, and has not changed since.
            if names_it(listed) && names_it(*version) {
                return Err(format!("{note}: the list at {listed} names it"));
            }
        }
        Ok(())
    }
}
