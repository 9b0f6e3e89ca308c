//! An object whose newest state is of no use stays as it was: a list that names it does not end it.
//!
//! Source: `docs/DIFFERENCES.md` S9.

use super::super::client::Seen;
use super::super::cluster::Expected;
use super::super::engine::NoteKind;
use super::super::plan::Scope;
use super::{Context, Invariant, Verdict};

pub(super) struct Kept;

impl Invariant for Kept {
    fn name(&self) -> &'static str {
        "kept"
    }

    fn source(&self) -> &'static str {
        "docs/DIFFERENCES.md S9"
    }

    fn seen(&mut self, seen: &Seen, context: &Context<'_>) -> Verdict {
        let Seen::Told(note) = seen else {
            return Ok(());
        };
        if note.kind != NoteKind::Deleted(true) {
            return Ok(());
        }
        for (wire, scope) in context.client.wires.iter().zip(context.world.scopes) {
            // Who leaves a selector and comes back is told to be gone.
            if matches!(scope, Scope::Label(_)) {
                continue;
            }
            let [version] = wire.versions[..] else {
                continue;
            };
            if !wire.trusted || wire.in_list || !scope.takes(note.slot, note.state) {
                continue;
            }
            let expected = context
                .cluster
                .expected(wire.era, *scope, note.slot, version);
            if let Expected::OlderThan(state) = expected
                && state.uid == note.state.uid
                // What was lost for another reason was there before.
                && state.version >= note.state.version
            {
                return Err(format!("{note}: the list at {version} names it"));
            }
        }
        Ok(())
    }
}
