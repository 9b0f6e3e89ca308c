//! Each state is told once, and so is the end of each object.
//!
//! Source: etcd's robustness tests, "Unique"; client-go's `dedupDeltas`.

use std::collections::{BTreeMap, BTreeSet};

use super::super::engine::{Note, NoteKind};
use super::super::plan::World;
use super::{Context, Invariant, Verdict};

pub(super) struct Once {
    told: BTreeSet<u32>,
    ended: BTreeSet<u32>,
    /// The object that was told last under each key, while it lives.
    live: BTreeMap<u8, u32>,
    client_go: bool,
}

impl Once {
    pub(super) const fn new(world: &World) -> Self {
        Self {
            told: BTreeSet::new(),
            ended: BTreeSet::new(),
            live: BTreeMap::new(),
            client_go: world.client_go,
        }
    }
}

impl Invariant for Once {
    fn told(&mut self, note: &Note, context: &Context<'_>) -> Verdict {
        match note.kind {
            NoteKind::Added(_) | NoteKind::Updated(_) => {
                // Who comes into a selector again, or back from a backup, or to a server that is behind, comes as it was.
                let may_come_again = context.cluster.era_number() > 0
                    || context
                        .client
                        .wires
                        .iter()
                        .any(|wire| wire.begun > 1 || wire.in_list || !wire.trusted);
                if !self.told.insert(note.state.n) && !may_come_again {
                    return Err(format!("{note}: told for the second time"));
                }
                self.ended.remove(&note.state.uid);
                self.live.insert(note.slot, note.state.uid);
            }
            NoteKind::Deleted(_) => {
                // After a backup was restored with its version as it was, what a watch has told the end of may live
                // again behind its back, and end again.
                let may_end_again = context.cluster.raw_restore;
                // client-go does not tell objects under one key apart: where a server that is behind shows the one before
                // again, and merging leaves that untold, its second end is that of the one that was told.
                let told = self.live.remove(&note.slot);
                let ends_another = self.client_go && told.is_some_and(|uid| uid != note.state.uid);
                if !self.ended.insert(note.state.uid) && !may_end_again && !ends_another {
                    return Err(format!("{note}: its end is told for the second time"));
                }
            }
            NoteKind::Replayed(_) | NoteKind::Synced => {}
        }
        Ok(())
    }
}
