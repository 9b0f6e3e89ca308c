//! What goes through the cache slot by slot: the sweep after a list, and the resync.
//!
//! A walk takes one slot at a time, and only while the queue is empty. So it needs no copy of the cache, holds no lock
//! for long, and what comes in meanwhile is applied before it goes on.

use super::{Cache, Cached, Payload, Step, Storage, Tell};
use crate::delta::Last;
use crate::storage::{Few, SlotId};
use crate::version::ResourceVersion;

pub(super) struct Walk<X> {
    kind: WalkKind<X>,
    next: usize,
    bound: usize,
}

#[derive(Clone)]
pub(super) enum WalkKind<X> {
    /// Removes what a complete list did not name; tells the rest where it is the first one.
    Sweep {
        source: u16,
        epoch: u32,
        relist: u32,
        version: ResourceVersion<X>,
    },
    /// Replays everything.
    Resync { pass: u32 },
}

impl<X> Walk<X> {
    pub(super) const fn new(kind: WalkKind<X>, bound: usize) -> Self {
        Self {
            kind,
            next: 0,
            bound,
        }
    }

    pub(super) const fn is_resync(&self) -> bool {
        matches!(self.kind, WalkKind::Resync { .. })
    }
}

impl<T: Cached, S: Storage> Cache<T, S> {
    /// Takes the next slot of the walk that is under way.
    pub(super) fn walk(&mut self) -> Step {
        let Some(walk) = self.walks.as_mut_slice().first_mut() else {
            return Step::Nothing;
        };
        if walk.next >= walk.bound {
            return match self.walks.take_first().map(|walk| walk.kind) {
                Some(WalkKind::Sweep {
                    source, version, ..
                }) => self.finish_sweep(source, version),
                Some(WalkKind::Resync { .. }) | None => Step::Again,
            };
        }
        let id = SlotId::from_index(walk.next);
        walk.next += 1;
        match walk.kind {
            WalkKind::Sweep {
                source,
                epoch,
                relist,
                ..
            } => self.sweep(id, source, epoch, relist),
            WalkKind::Resync { pass } => {
                let told = self
                    .held_source(id)
                    .is_some_and(|source| self.is_told(id, source));
                if told {
                    Step::Tell(Tell::Replayed {
                        id,
                        pass: Some(pass),
                    })
                } else {
                    Step::Again
                }
            }
        }
    }

    fn sweep(&mut self, id: SlotId, source: u16, epoch: u32, relist: u32) -> Step {
        let first = self.source(source).is_some_and(|source| !source.told);
        let Some(slot) = self.table.get(id) else {
            return Step::Again;
        };
        let Some(held) = &slot.object else {
            return Step::Again;
        };
        if held.source != source {
            return Step::Again;
        }
        // A newer list may have begun meanwhile; what it named is there.
        if epoch.wrapping_sub(slot.epoch).cast_signed() > 0 {
            if first {
                // It was never told: a list that was begun again brought it and lost it.
                self.store.remove(&mut self.table, id);
                self.table.free_if_idle(id);
                self.len -= 1;
                self.made_room();
            } else {
                self.enqueue_deletion(id, Payload::Tombstone(Last::Stored));
            }
            return Step::Again;
        }
        if first {
            return Step::Tell(Tell::Added { id, initial: true });
        }
        if self.config.tell_unchanged && held.changed != relist {
            return Step::Tell(Tell::Replayed { id, pass: None });
        }
        Step::Again
    }

    fn finish_sweep(&mut self, source: u16, version: ResourceVersion<S::Text>) -> Step {
        if let Some(source) = self.source_mut(source) {
            source.told = true;
            source.version = version;
            source.incomplete = source.refused;
        }
        if !self.synced && self.sources.as_slice().iter().all(|source| source.told) {
            self.synced = true;
            return Step::Tell(Tell::Synced);
        }
        Step::Again
    }

    /// Whether changes of a slot are told: its source has told a complete list, or the sweep that does so is past it.
    pub(super) fn is_told(&self, id: SlotId, source: u16) -> bool {
        self.source(source).is_some_and(|source| source.told)
            || self.walks.as_slice().first().is_some_and(|walk| {
                matches!(walk.kind, WalkKind::Sweep { source: swept, .. } if swept == source)
                    && id.index() < walk.next
            })
    }

    fn held_source(&self, id: SlotId) -> Option<u16> {
        Some(self.table.get(id)?.object.as_ref()?.source)
    }
}
