//! How the objects of a source enter the queue.

use super::source::Lack;
use super::{Cache, Values};
use crate::object::{Cached, KeyError};
use crate::reflector::Change;
use crate::storage::table::NoSlot;
use crate::storage::{Delta, DeltaKind, Last, Payload, SlotId, Storage};

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
        let (epoch, late) = (state.epoch, state.completed);
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

    /// Queues the deletion of an object by a watch event; `object` is the one in the event if it could be decoded.
    /// Ignores a key that the cache does not have, or has from another source.
    pub(crate) fn delete(&mut self, source: u16, key: &str, object: Option<T>) {
        let found = self.table.find(key);
        let Some(id) = found.filter(|&id| self.newest_source(id) == Some(source)) else {
            self.discarded.put_some(object);
            return;
        };
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

    /// Marks an object as stale after its new state was unusable; its older state stays.
    pub(crate) fn mark_stale(&mut self, source: u16, key: &str) {
        let epoch = self.source(source).map(|source| source.epoch);
        let (Some(epoch), Some(id)) = (epoch, self.table.find(key)) else {
            return;
        };
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
