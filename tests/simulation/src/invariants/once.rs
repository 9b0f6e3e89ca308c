//! Each state is notified once, and so is each object's deletion.
//!
//! Source: etcd's robustness tests, "Unique"; client-go's `dedupDeltas`.

use std::collections::{BTreeMap, BTreeSet};

use super::super::engine::{Note, NoteKind};
use super::super::plan::World;
use super::{Context, Invariant, Verdict};

pub(super) struct Once {
    notified: BTreeSet<u32>,
    ended: BTreeSet<u32>,
    /// The last notified object under each key, while it exists.
    live: BTreeMap<u8, u32>,
    client_go: bool,
}

impl Once {
    pub(super) const fn new(world: &World) -> Self {
        Self {
            notified: BTreeSet::new(),
            ended: BTreeSet::new(),
            live: BTreeMap::new(),
            client_go: world.client_go,
        }
    }
}

impl Invariant for Once {
    fn notified(&mut self, note: &Note, context: &Context<'_>) -> Verdict {
        match note.kind {
            NoteKind::Added(_) | NoteKind::Updated(_) => {
                // An object that returns to a selector, from a backup, or on a lagging server, returns in its old
                // state.
                let may_come_again = context.cluster.era_number() > 0
                    || context
                        .client
                        .wires
                        .iter()
                        .any(|wire| wire.begun > 1 || wire.in_list || !wire.trusted);
                if !self.notified.insert(note.state.n) && !may_come_again {
                    return Err(format!("{note}: notified for the second time"));
                }
                self.ended.remove(&note.state.uid);
                self.live.insert(note.slot, note.state.uid);
            }
            NoteKind::Deleted(_) => {
                // After an improper restore of a backup, an object that a watch reported as deleted may exist again
                // unnoticed, and be deleted a second time.
                let may_end_again = context.cluster.raw_restore;
                // client-go does not distinguish objects under one key. If a lagging server shows the previous object
                // again and merging hides it, its second deletion stands for the deletion of the notified object.
                let notified = self.live.remove(&note.slot);
                let ends_another =
                    self.client_go && notified.is_some_and(|uid| uid != note.state.uid);
                if !self.ended.insert(note.state.uid) && !may_end_again && !ends_another {
                    return Err(format!("{note}: its end is notified for the second time"));
                }
            }
            NoteKind::Replayed(_) | NoteKind::Synced => {}
        }
        Ok(())
    }
}
