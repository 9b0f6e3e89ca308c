//! An object whose newest state is of no use stays as it was: a list that names it does not end it.
//!
//! Source: `docs/DIFFERENCES.md` S9.

use super::super::cluster::Expected;
use super::super::engine::{Note, NoteKind};
use super::super::plan::Scope;
use super::{Context, Invariant, Verdict};

pub(super) struct Kept;

impl Invariant for Kept {
    fn told(&mut self, note: &Note, context: &Context<'_>) -> Verdict {
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
            // Of several lists that are not popped yet nobody can say which one ends it.
            if context.client.unpopped_lists(source) > 1 {
                continue;
            }
            let wire = &context.client.wires[source];
            // What a watch told the end of, and waits to be told, an older list may name again.
            if context.client.unpopped_lists(source) > 0 && wire.went_back {
                continue;
            }
            // Who leaves a selector and comes back is told to be gone.
            if matches!(scope, Scope::Label(_)) {
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
                // What was lost for another reason was there before.
                matches!(expected, Expected::OlderThan(state)
                    if state.uid == note.state.uid && state.version >= note.state.version)
            };
            // It is of no use in the list, and nothing has happened to it since.
            if names_it(listed) && names_it(*version) {
                return Err(format!("{note}: the list at {listed} names it"));
            }
        }
        Ok(())
    }
}
