//! Keys, each stored once, with what belongs to them.

use crate::storage::{Lookup, SlotId, Slots, Storage, Text, hash};

/// Slots by key. Queue and store of one informer share a table, so a key's text is there once.
pub(crate) struct Table<O, S: Storage> {
    slots: S::Slots<Slot<O, S>>,
    lookup: S::Lookup,
    seed: u64,
}

/// What belongs to one key.
pub(crate) struct Slot<O, S: Storage> {
    pub(crate) key: S::Text,
    hash: u32,
    /// The entry of the queue where deltas of the key are pending.
    pub(crate) pending: SlotId,
    /// Which list last named the key.
    pub(crate) epoch: u32,
    /// What the store holds.
    pub(crate) object: Option<O>,
}

/// Why a key could not be given a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoSlot {
    Full,
    KeyTooLong,
}

impl<O, S: Storage> Table<O, S> {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            slots: Default::default(),
            lookup: Default::default(),
            seed,
        }
    }

    pub(crate) fn find(&self, key: &str) -> Option<SlotId> {
        let hash = hash(self.seed, key.as_bytes());
        let is = |id| {
            self.slots
                .get(id)
                .is_some_and(|slot| slot.hash == hash && slot.key.as_ref() == key)
        };
        if S::Lookup::SCANS {
            self.ids().find(|&id| is(id))
        } else {
            self.lookup.find(hash, is)
        }
    }

    pub(crate) fn find_or_insert(&mut self, key: &str) -> Result<SlotId, NoSlot> {
        if let Some(id) = self.find(key) {
            return Ok(id);
        }
        let text = S::Text::try_from_str(key).ok_or(NoSlot::KeyTooLong)?;
        let hash = hash(self.seed, key.as_bytes());
        let slot = Slot {
            key: text,
            hash,
            pending: SlotId::NONE,
            epoch: 0,
            object: None,
        };
        let id = self.slots.insert(slot).map_err(|_| NoSlot::Full)?;
        self.lookup.insert(hash, id);
        Ok(id)
    }

    /// Frees a slot that neither the queue nor the store needs; returns its key.
    pub(crate) fn free_if_idle(&mut self, id: SlotId) -> Option<S::Text> {
        let slot = self.slots.get(id)?;
        if slot.pending != SlotId::NONE || slot.object.is_some() {
            return None;
        }
        let slot = self.slots.remove(id)?;
        self.lookup.remove(slot.hash, id);
        Some(slot.key)
    }

    pub(crate) fn get(&self, id: SlotId) -> Option<&Slot<O, S>> {
        self.slots.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: SlotId) -> Option<&mut Slot<O, S>> {
        self.slots.get_mut(id)
    }

    pub(crate) fn bound(&self) -> usize {
        self.slots.bound()
    }

    /// The slots in use, by number.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SlotId> + '_ {
        (0..self.slots.bound())
            .map(SlotId::from_index)
            .filter(|&id| self.slots.get(id).is_some())
    }

    pub(crate) fn object(&self, key: &str) -> Option<&O> {
        self.get(self.find(key)?)?.object.as_ref()
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = (SlotId, &S::Text, &O)> {
        self.ids().filter_map(|id| {
            let slot = self.slots.get(id)?;
            Some((id, &slot.key, slot.object.as_ref()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(feature = "alloc")]
    use crate::storage::Heap;
    use crate::storage::Inline;

    fn frees_what_nobody_needs<S: Storage>() {
        let mut table = Table::<u32, S>::new(7);
        let kept = table.find_or_insert("kept").unwrap();
        let id = table.find_or_insert("key").unwrap();
        assert_eq!(table.find_or_insert("key"), Ok(id));

        table.get_mut(id).unwrap().object = Some(1);
        assert!(table.free_if_idle(id).is_none(), "the store needs it");
        table.get_mut(id).unwrap().object = None;
        table.get_mut(id).unwrap().pending = kept;
        assert!(table.free_if_idle(id).is_none(), "the queue needs it");
        table.get_mut(id).unwrap().pending = SlotId::NONE;
        let key = table.free_if_idle(id);
        assert_eq!(key.as_ref().map(AsRef::as_ref), Some("key"));
        assert!(table.free_if_idle(id).is_none());

        assert_eq!(table.find("key"), None);
        let mut left = 0;
        table.lookup.find(hash(7, b"key"), |_| {
            left += 1;
            false
        });
        assert_eq!(left, 0, "nothing of it stays in the lookup");
        assert_eq!(table.find_or_insert("other"), Ok(id), "its slot is free");
    }

    /// Keys that come and go take no more slots than there were at once.
    fn uses_slots_again<S: Storage>() {
        let mut table = Table::<u32, S>::new(7);
        let ids = ["a", "b", "c", "d"].map(|key| table.find_or_insert(key).unwrap());
        for (one, other) in [(0, 1), (1, 2), (2, 0), (0, 2)] {
            for id in [ids[one], ids[other]] {
                table.free_if_idle(id).unwrap();
            }
            for key in ["a", "b", "c"] {
                table.find_or_insert(key).unwrap();
            }
            assert!(table.ids().eq(ids), "no other slot is in use");
        }
    }

    #[cfg(feature = "alloc")]
    #[test]
    fn on_heap() {
        frees_what_nobody_needs::<Heap>();
        uses_slots_again::<Heap>();
    }

    #[test]
    fn inline() {
        frees_what_nobody_needs::<Inline<8, 8, 8>>();
        uses_slots_again::<Inline<8, 8, 8>>();
    }
}
