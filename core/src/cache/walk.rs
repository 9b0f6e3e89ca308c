//! What goes through the cache slot by slot: the sweep after a list, and the resync.
//!
//! A walk takes one slot at a time, and only while the queue is empty. So it needs no copy of the cache, holds no lock
//! for long, and what comes in meanwhile is applied before it goes on.

use super::{Cache, Cached, Lack, Payload, Step, Storage, Tell};
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
        /// What is complete is a persisted cache.
        restored: bool,
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

    /// Tells whether it is a sweep of this source.
    pub(super) const fn sweeps(&self, wanted: u16) -> bool {
        matches!(self.kind, WalkKind::Sweep { source, .. } if source == wanted)
    }
}

impl<T: Cached, S: Storage> Cache<T, S> {
    /// Takes the next slot of the walk that is under way.
    pub(super) fn walk(&mut self) -> Step {
        let end = self.end_of_walk();
        let Some(walk) = self.walks.as_mut_slice().first_mut() else {
            return self.tell_synced(Step::Nothing);
        };
        if walk.next >= end {
            return match self.walks.take_first().map(|walk| walk.kind) {
                Some(WalkKind::Sweep {
                    source,
                    version,
                    restored,
                    ..
                }) => self.finish_sweep(source, version, restored),
                Some(WalkKind::Resync { .. }) | None => Step::Again,
            };
        }
        let id = SlotId::from_index(walk.next);
        let is_late = walk.next >= walk.bound;
        walk.next += 1;
        match walk.kind {
            WalkKind::Sweep {
                source,
                epoch,
                relist,
                ..
            } => self.sweep(id, source, (epoch, relist), is_late),
            WalkKind::Resync { pass } => {
                let slot = self.table.get(id);
                if slot.is_some_and(|slot| slot.object.as_ref().is_some_and(|held| held.told)) {
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

    /// Where the walk that is under way ends. The first sweep of a source also tells what came after its list, which
    /// nobody has told yet.
    fn end_of_walk(&self) -> usize {
        let Some(walk) = self.walks.as_slice().first() else {
            return 0;
        };
        match walk.kind {
            WalkKind::Sweep { source, .. } if self.source(source).is_some_and(|s| !s.told) => {
                walk.bound.max(self.table.bound())
            }
            WalkKind::Sweep { .. } | WalkKind::Resync { .. } => walk.bound,
        }
    }

    fn sweep(
        &mut self,
        id: SlotId,
        source: u16,
        (epoch, relist): (u32, u32),
        is_late: bool,
    ) -> Step {
        let Some(slot) = self.table.get_mut(id) else {
            return Step::Again;
        };
        let Some(held) = &mut slot.object else {
            return Step::Again;
        };
        if held.source != source && !planted!(SweepAcrossSources) {
            return Step::Again;
        }
        // A newer list may have begun meanwhile; what it named is there.
        if epoch.wrapping_sub(slot.epoch).cast_signed() > 0 {
            if held.told && !planted!(LostTombstone) {
                self.enqueue_deletion(id, Payload::Tombstone(Last::Stored));
            } else {
                // A list that was begun again brought it and lost it.
                let gone = self.store.remove(&mut self.table, id);
                self.table.free_if_idle(id);
                self.len -= 1;
                if let Some(gone) = gone {
                    self.stale -= usize::from(gone.stale);
                    self.bytes = self.bytes.saturating_sub(gone.object.bytes());
                }
                self.made_room();
            }
            return Step::Again;
        }
        if !held.told {
            held.told = true;
            if planted!(UntoldInitial) {
                return Step::Again;
            }
            return Step::Tell(Tell::Added {
                id,
                initial: !is_late,
            });
        }
        if self.config.tell_unchanged && held.changed != relist {
            return Step::Tell(Tell::Replayed { id, pass: None });
        }
        Step::Again
    }

    fn finish_sweep(
        &mut self,
        source: u16,
        version: ResourceVersion<S::Text>,
        restored: bool,
    ) -> Step {
        if let Some(source) = self.source_mut(source) {
            source.told = true;
            source.restored &= restored;
            source.version = version;
            source.missing = source.refused;
            source.wants_relist &= source.missing == Lack::Room;
        }
        self.tell_synced(Step::Again)
    }

    /// Tells that the cache is synced, where that is so now and was not told.
    fn tell_synced(&mut self, otherwise: Step) -> Step {
        let told = |source: &super::Source<S::Text>| {
            source.told && !source.restored || planted!(SyncedByOne)
        };
        if !self.synced && self.sources.as_slice().iter().all(told) {
            self.synced = true;
            return Step::Tell(Tell::Synced);
        }
        otherwise
    }

    /// Whether what a source brings into a slot is told at once: the source has told a complete list, or the sweep that
    /// does so is past the slot.
    pub(super) fn shows(&self, id: SlotId, source: u16) -> bool {
        planted!(ToldTooEarly)
            || self.source(source).is_some_and(|source| source.told)
            || self
                .walks
                .as_slice()
                .first()
                .is_some_and(|walk| walk.sweeps(source) && id.index() < walk.next)
    }

    /// Whether a resync has not begun yet.
    pub(super) fn has_pending_resync(&self) -> bool {
        let mut walks = self.walks.as_slice().iter();
        walks.any(|walk| walk.is_resync() && walk.next == 0)
    }

    /// The pass of the resync that comes last.
    pub(super) fn last_resync(&self) -> Option<u32> {
        let mut walks = self.walks.as_slice().iter().rev();
        walks.find_map(|walk| match walk.kind {
            WalkKind::Resync { pass } => Some(pass),
            WalkKind::Sweep { .. } => None,
        })
    }

    /// Makes another resync a part of the last one, which begins anew if it has begun. Returns its number.
    pub(super) fn join_resync(&mut self, bound: usize) -> Option<u32> {
        let walk = self.walks.as_mut_slice().iter_mut().rev();
        walk.into_iter().find_map(|walk| match walk.kind {
            WalkKind::Resync { pass } => {
                (walk.next, walk.bound) = (0, bound);
                Some(pass)
            }
            WalkKind::Sweep { .. } => None,
        })
    }

    /// Adds a sweep. In storage of a fixed size there may be no room for it besides resyncs that wait; a list is more
    /// than a resync, and a newer list more than an older one.
    pub(super) fn begin_sweep(&mut self, sweep: Walk<S::Text>) {
        let WalkKind::Sweep { source, .. } = sweep.kind else {
            return;
        };
        let Err(sweep) = self.walks.push(sweep) else {
            return;
        };
        let walks = self.walks.as_mut_slice();
        let waits = |walk: &Walk<S::Text>| walk.next == 0;
        let place = walks
            .iter()
            .position(|walk| waits(walk) && walk.sweeps(source))
            .or_else(|| walks.iter().rposition(Walk::is_resync));
        if let Some(place) = place.and_then(|place| walks.get_mut(place)) {
            *place = sweep;
        }
    }
}
