//! Walks over the objects of the cache: the sweep after a list, and the resync.
//!
//! A walk handles one object at a time, and only while the queue is empty. It therefore needs no copy of the cache, and
//! changes that arrive during a walk are applied first. A runtime can release its lock between any two objects. A sweep
//! visits only the objects of its source.

use super::Cache;
use super::pop::{Notice, Outcome};
use super::source::{Lack, SourceState, SweepEnd, Walk, WalkKind};
use crate::object::Cached;
use crate::storage::{Few, Last, Payload, SlotId, Storage};

impl<T: Cached, S: Storage> Cache<T, S> {
    /// Begins a resync: every object is replayed, without a request to the API server. Returns the number of the pass,
    /// which [`Notification::Replayed`](super::Notification::Replayed) contains.
    ///
    /// While a pass is pending, further calls return its number: at most one pass is running and one is pending. If
    /// fixed-size storage has no room for another pass, the running pass begins again.
    pub fn resync(&mut self) -> u32 {
        // A resync must not take the place of a sweep, so there is always room for a sweep of each source and for a
        // running one.
        let kept = self.sources.as_slice().len() + 1;
        let is_crowded = self.walks.as_slice().len() + kept >= self.walks.bound();
        if (is_crowded || self.has_pending_resync())
            && let Some(pass) = self.join_resync()
        {
            return pass;
        }
        self.passes = self.passes.wrapping_add(1);
        let kind = WalkKind::Resync { pass: self.passes };
        // This can fail only if nearly all sources that there is room for sweep at once. Their lists then notify of
        // every object anyway.
        let _ = self.walks.push(Walk::new(0, kind));
        self.passes
    }

    /// Handles the next object of the current walk.
    pub(super) fn walk(&mut self) -> Outcome {
        let sources = self.sources.as_slice();
        let Some(walk) = self.walks.as_mut_slice().first_mut() else {
            return Outcome::Idle;
        };
        if !walk.begun {
            walk.begun = true;
            if walk.is_resync() {
                // 0 marks objects that no resync has visited.
                self.mark = self.mark.wrapping_add(1).max(1);
                self.store.take_moved();
            }
            // The first sweep of a source also notifies of objects that were added after its list.
            let notified = sources
                .get(usize::from(walk.source))
                .is_none_or(|source| source.notified);
            self.store
                .begin_walk(walk.source, !notified && !walk.is_resync());
        }
        let mut next = self.store.next_in_walk(&self.table);
        while next.is_none() {
            if usize::from(walk.source) + 1 < sources.len() && walk.is_resync() {
                walk.source += 1;
            } else if walk.is_resync() && self.store.take_moved() {
                // Objects that were replayed are marked, and are not replayed again.
                walk.source = 0;
            } else {
                break;
            }
            self.store.begin_walk(walk.source, false);
            next = self.store.next_in_walk(&self.table);
        }
        let Some(id) = next else {
            return match self.walks.take(0).map(|walk| (walk.source, walk.kind)) {
                Some((source, WalkKind::Sweep { end, rejected, .. })) => {
                    self.finish_sweep(source, end, rejected)
                }
                Some((_, WalkKind::Resync { .. })) | None => Outcome::Continue,
            };
        };
        match walk.kind {
            WalkKind::Sweep {
                epoch,
                relist,
                ref end,
                ..
            } => {
                let notifies = !matches!(end, SweepEnd::Forgotten);
                self.sweep(id, epoch, relist, notifies)
            }
            WalkKind::Resync { pass } => self.replay(id, pass),
        }
    }

    fn replay(&mut self, id: SlotId, pass: u32) -> Outcome {
        let Some(slot) = self.table.get_mut(id) else {
            return Outcome::Continue;
        };
        let was_replayed = core::mem::replace(&mut slot.mark, self.mark) == self.mark;
        if !was_replayed && slot.object.as_ref().is_some_and(|held| held.notified) {
            return Outcome::Notify(Notice::Replayed {
                id,
                pass: Some(pass),
            });
        }
        Outcome::Continue
    }

    fn sweep(&mut self, id: SlotId, epoch: u32, relist: u32, notifies: bool) -> Outcome {
        let Some(slot) = self.table.get_mut(id) else {
            return Outcome::Continue;
        };
        let Some(held) = &mut slot.object else {
            return Outcome::Continue;
        };
        // A newer list may have begun since then and contained the object.
        if epoch.wrapping_sub(slot.epoch).cast_signed() > 0 {
            if held.notified {
                self.enqueue_deletion(id, Payload::Tombstone(Last::Stored));
            } else {
                // A list that was begun again contained the object at first, but not in the end.
                let removed = self.remove(id);
                self.free(id);
                self.discarded.put_some(removed.map(|held| held.object));
            }
            return Outcome::Continue;
        }
        if !notifies {
            return Outcome::Continue;
        }
        if !held.notified {
            held.notified = true;
            return Outcome::Notify(Notice::Added {
                id,
                initial: !slot.late,
            });
        }
        if self.config.notify_unchanged && held.changed != relist {
            return Outcome::Notify(Notice::Replayed { id, pass: None });
        }
        Outcome::Continue
    }

    fn finish_sweep(&mut self, source: u16, end: SweepEnd<S::Text>, rejected: Lack) -> Outcome {
        let (version, restored) = match end {
            SweepEnd::Complete(version) => (version, false),
            SweepEnd::Restored(version) => (version, true),
            SweepEnd::Forgotten => return Outcome::Continue,
            SweepEnd::Removed => {
                self.free_place(source);
                return self.notify_synced();
            }
        };
        if let Some(source) = self.source_mut(source) {
            source.notified = true;
            source.restored &= restored;
            source.version = version;
            // A newer list may have begun, and has not brought what this one lacked.
            source.missing = source.rejected.max(rejected);
            source.wants_relist &= source.missing != Lack::Nothing;
        }
        let mut sources = self.sources.as_slice().iter();
        self.lacks_room = sources.any(|source| source.missing == Lack::Room);
        self.notify_synced()
    }

    /// Notifies of `Synced` once the cache is synced.
    pub(super) fn notify_synced(&mut self) -> Outcome {
        if !self.synced && self.sources.as_slice().iter().all(SourceState::is_done) {
            self.synced = true;
            return Outcome::Notify(Notice::Synced);
        }
        Outcome::Continue
    }

    /// Returns whether handlers are notified of an object of this source immediately. Before the first complete list,
    /// its sweep notifies of the object instead.
    pub(super) fn notifies(&self, source: u16) -> bool {
        self.source(source).is_some_and(|source| source.notified)
    }

    pub(super) fn is_sweeping(&self) -> bool {
        self.walks.as_slice().iter().any(|walk| !walk.is_resync())
    }

    /// Returns whether a resync is pending that has not begun.
    fn has_pending_resync(&self) -> bool {
        let mut walks = self.walks.as_slice().iter();
        walks.any(|walk| walk.is_resync() && !walk.begun)
    }

    /// Merges another resync into the latest one, which restarts if it has begun. Returns its number.
    fn join_resync(&mut self) -> Option<u32> {
        let walk = self.walks.as_mut_slice().iter_mut().rev();
        walk.into_iter().find_map(|walk| match walk.kind {
            WalkKind::Resync { pass } => {
                (walk.begun, walk.source) = (false, 0);
                Some(pass)
            }
            WalkKind::Sweep { .. } => None,
        })
    }

    /// Adds a sweep. It replaces a pending sweep of the same source, since the newer list shows the current objects.
    ///
    /// In fixed-size storage there may be no room next to pending resyncs and running sweeps. A sweep then replaces a resync, or
    /// the running sweep of its source.
    pub(super) fn begin_sweep(&mut self, sweep: Walk<S::Text>) {
        let walks = self.walks.as_mut_slice().iter_mut();
        let mut pending = walks.filter(|walk| !walk.begun && walk.sweeps(sweep.source));
        if let Some(pending) = pending.next() {
            *pending = sweep;
            return;
        }
        let Err(sweep) = self.walks.push(sweep) else {
            return;
        };
        // A running sweep of the same source begins again. Objects that it has notified of are not notified twice.
        let is_older = |walk: &&mut Walk<S::Text>| walk.is_resync() || walk.sweeps(sweep.source);
        let walks = self.walks.as_mut_slice().iter_mut();
        if let Some(older) = walks.rev().find(is_older) {
            *older = sweep;
        }
    }
}
