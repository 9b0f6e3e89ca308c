//! How the objects of a source enter the queue.

use super::source::Lack;
use super::{Cache, Values};
use crate::object::{Cached, KeyError};
use crate::reflector::Change;
use crate::storage::table::{NoSlot, Rival};
use crate::storage::{Delta, DeltaKind, Few as _, Last, Payload, SlotId, Storage, Text as _};

/// An object on its way from a source to the store.
pub(super) struct Incoming<T, S: Storage> {
    pub(super) object: T,
    pub(super) source: u16,
    /// A newer state of the same key was unusable.
    pub(super) stale: bool,
    pub(super) values: Values<S>,
}

impl<T: Cached, S: Storage> Cache<T, S> {
    /// Returns whether another delta can be queued. If not, stop reading until [`Cache::pop`] has made room.
    #[must_use]
    pub fn wants_read(&self) -> bool {
        self.queue.has_room()
    }

    /// Queues an object from a list or a watch, with its values of the indexes that are computed outside of the cache.
    ///
    /// # Errors
    /// Rejects an object that does not fit; the cache is then incomplete until a list fits. Rejects an object of an
    /// unknown source.
    pub(crate) fn upsert(
        &mut self,
        source: u16,
        change: Change,
        key: &str,
        object: T,
        values: Values<S>,
    ) -> Result<(), KeyError> {
        let Some(state) = self.source(source) else {
            self.discarded.put(object);
            return Err(KeyError::UnknownSource);
        };
        // What a source brings that joins a synced cache is not of the initial list.
        let (epoch, late) = (state.epoch, state.completed || self.synced);
        let id = match self.table.find_or_insert(key) {
            Ok(id) => id,
            Err(why) => {
                self.discarded.put(object);
                self.reject(
                    source,
                    match why {
                        NoSlot::Full => Lack::Room,
                        NoSlot::KeyTooLong => Lack::Key,
                    },
                );
                return Err(why.into());
            }
        };
        if self.sources.as_slice().len() > 1 && !self.is_newest(id, source, &object) {
            self.discarded.put(object);
            return Ok(());
        }
        let mut stored = false;
        if let Some(slot) = self.table.get_mut(id) {
            slot.epoch = epoch;
            stored = slot.object.is_some();
            if !stored && slot.pending == SlotId::NONE {
                slot.late = late;
            }
        }
        let kind = match change {
            Change::Added => DeltaKind::Added,
            Change::Listed => DeltaKind::Replaced,
            Change::Modified | Change::Deleted => DeltaKind::Updated,
        };
        let delta = Delta::new(
            kind,
            Payload::Object(Incoming {
                object,
                source,
                stale: false,
                values,
            }),
        );
        self.queue
            .enqueue(&mut self.table, id, delta, stored)
            .inspect_err(|_| self.reject(source, Lack::Room))
    }

    /// Decides between an object and that of another source with the same key. The older one is left out; if that is not
    /// known, the earlier one. If the other is deleted, the source of the one that was left out is listed again.
    ///
    /// Shards by uid have such keys: an object is deleted, and created again in another shard, whose watch is ahead.
    fn is_newest(&mut self, id: SlotId, source: u16, object: &T) -> bool {
        if let Some(slot) = self.table.get_mut(id) {
            slot.rival.remove(source);
        }
        let newest = self.newest_state(id);
        let Some((other, newest)) = newest.filter(|(other, _)| *other != source) else {
            return true;
        };
        let is_newest = !object.is_older(newest);
        let left_out = if is_newest { other } else { source };
        let (list, in_list) = self
            .source(left_out)
            .map_or((0, false), |state| (state.epoch, state.in_list));
        let Some(slot) = self.table.get_mut(id) else {
            return true;
        };
        if !is_newest || slot.epoch == list {
            slot.rival.add(left_out);
            self.has_rivals = true;
        } else if in_list && let Some(state) = self.source_mut(left_out) {
            // The current list of the other has not contained the object so far.
            state.distrusts = true;
        }
        is_newest
    }

    /// Queues the deletion of an object by a watch event; `object` is the one in the event if it could be decoded.
    /// Ignores a key that the cache does not have, or has from another source.
    pub(crate) fn delete(&mut self, source: u16, key: &str, object: Option<T>) {
        let Some(id) = self.table.find(key) else {
            self.discarded.put_some(object);
            self.deleted_unknown(source, key);
            return;
        };
        if self.newest_source(id) != Some(source) {
            if let Some(slot) = self.table.get_mut(id) {
                slot.rival.remove(source);
            }
            self.discarded.put_some(object);
            return;
        }
        let payload = match object {
            Some(object) => Payload::Object(Incoming {
                object,
                source,
                stale: false,
                values: Values::<S>::default(),
            }),
            None => Payload::Tombstone(Last::Stored),
        };
        self.enqueue_deletion(id, payload);
    }

    /// Marks an object of the source as stale after its new state was unusable; its older state stays.
    pub(crate) fn mark_stale(&mut self, source: u16, key: &str) {
        let epoch = self.source(source).map(|source| source.epoch);
        let (Some(epoch), Some(id)) = (epoch, self.table.find(key)) else {
            return;
        };
        if self.newest_source(id) != Some(source) {
            return;
        }
        let newest = self.queue.deltas_mut(&self.table, id).last_mut();
        let is_queued = newest.is_some();
        if let Some(Payload::Object(incoming)) = newest.map(|newest| &mut newest.payload) {
            incoming.stale = true;
        }
        if let Some(slot) = self.table.get_mut(id) {
            slot.epoch = epoch;
            if let (Some(held), false) = (&mut slot.object, is_queued) {
                self.stale += usize::from(!held.stale);
                held.stale = true;
            }
        }
    }

    pub(super) fn enqueue_deletion(&mut self, id: SlotId, payload: Payload<Incoming<T, S>>) {
        let stored = self.table.entry(id).is_some();
        let rival = self.table.get(id).map_or(Rival::NONE, |slot| slot.rival);
        let delta = Delta::new(DeltaKind::Deleted, payload);
        // If the queue is full, the object stays, and the source relists once there is room.
        if self
            .queue
            .enqueue(&mut self.table, id, delta, stored)
            .is_err()
            && let Some(source) = self.newest_source(id)
        {
            self.reject(source, Lack::Room);
        }
        // An addition and a deletion can cancel out.
        if self.table.get(id).is_none() {
            self.freed(rival);
        }
    }

    /// Notes the deletion of an object that the cache does not have. It may be one that is missing: a list shows whether others
    /// are.
    fn deleted_unknown(&mut self, source: u16, key: &str) {
        let is_too_long = S::Text::try_from_str(key).is_none();
        if let Some(state) = self.source_mut(source) {
            let may_be_missing = match state.missing.max(state.rejected) {
                Lack::Nothing => false,
                Lack::Key => is_too_long,
                Lack::LeftOut | Lack::Room => true,
            };
            state.wants_relist |= may_be_missing;
        }
    }

    /// Frees the slot of a key that has neither an object nor deltas.
    pub(super) fn free(&mut self, id: SlotId) {
        let rival = self.table.get(id).map_or(Rival::NONE, |slot| slot.rival);
        if self.table.free_if_idle(id).is_some() {
            self.freed(rival);
        }
    }

    /// Notes that a key has neither an object nor deltas: there is room for a missing object, and one of another source that was
    /// left out in favour of this key's is missing.
    fn freed(&mut self, rival: Rival) {
        self.request_relists();
        if rival == Rival::NONE {
            return;
        }
        for (source, state) in (0..).zip(self.sources.as_mut_slice()) {
            if rival.may_be(source) {
                state.rejected = state.rejected.max(Lack::LeftOut);
                state.missing = state.missing.max(Lack::LeftOut);
                state.wants_relist = true;
            }
        }
    }

    /// Returns whether the list of a source that begins may leave out keys that its journal has: the cache has them from
    /// another source. The list shows which of them the source still has.
    pub(crate) fn forget_rivals(&mut self, source: u16) -> bool {
        if !self.has_rivals {
            return false;
        }
        let (mut found, mut left) = (false, false);
        self.table.each_mut(|slot| {
            found |= slot.rival.may_be(source);
            slot.rival.remove(source);
            left |= slot.rival != Rival::NONE;
        });
        self.has_rivals = left;
        found
    }

    /// Returns whether the cache shows exactly this state of an object, from this source.
    pub(crate) fn holds(&self, source: u16, key: &str, object: &T) -> bool {
        let Some(slot) = self.table.find(key).and_then(|id| self.table.get(id)) else {
            return false;
        };
        slot.pending == SlotId::NONE
            && slot.object.as_ref().is_some_and(|held| {
                held.source == source
                    && !held.stale
                    && held.object.same_version(object)
                    && !held.object.is_another(object)
            })
    }

    /// Returns the keys of a source that its current list has not contained so far. They are deleted if the list
    /// completes without them.
    pub(crate) fn unlisted(&self, source: u16) -> impl Iterator<Item = &S::Text> {
        let epoch = self.source(source).map_or(0, |source| source.epoch);
        let is_of_source = move |id| {
            self.table
                .entry(id)
                .is_some_and(|(_, held)| held.source == source)
        };
        // A key that is queued for the first time, or from another source, is not in the store's list of this source.
        let queued = self.queue.slots();
        let queued = queued.filter(move |&id| !is_of_source(id));
        let stored = self.store.objects_of(&self.table, source);
        let ids = stored.map(|(id, ..)| id).chain(queued);
        ids.filter_map(move |id| {
            let slot = self.table.get(id)?;
            let is_older = epoch.wrapping_sub(slot.epoch).cast_signed() > 0;
            (is_older && self.newest_source(id) == Some(source)).then_some(&slot.key)
        })
    }

    /// Returns the newest state of a key, queued or stored, with its source. `None` if it is deleted.
    fn newest_state(&self, id: SlotId) -> Option<(u16, &T)> {
        let newest = self.queue.deltas(&self.table, id).last();
        match newest.map(|delta| (delta.kind, &delta.payload)) {
            Some((DeltaKind::Deleted, _)) => None,
            Some((_, Payload::Object(incoming))) => Some((incoming.source, &incoming.object)),
            Some((_, Payload::Stored | Payload::Tombstone(_))) | None => {
                let (_, held) = self.table.entry(id)?;
                Some((held.source, &held.object))
            }
        }
    }

    /// Returns the source of the newest state of a key, queued or stored.
    pub(super) fn newest_source(&self, id: SlotId) -> Option<u16> {
        let queued = self
            .queue
            .deltas(&self.table, id)
            .iter()
            .rev()
            .find_map(|delta| match &delta.payload {
                Payload::Object(incoming) => Some(incoming.source),
                Payload::Stored | Payload::Tombstone(_) => None,
            });
        queued.or_else(|| Some(self.table.entry(id)?.1.source))
    }
}
