//! A table of keys, each stored once with its data.

use crate::storage::{Lookup, SlotId, Slots, Storage, Text, hash};

/// Slots by key. The queue and the store of one informer share a table, so the text of a key is stored once.
pub(crate) struct Table<O, S: Storage> {
    slots: S::Slots<Slot<O, S>>,
    lookup: S::Lookup,
    seed: u64,
}

/// The data of one key.
pub(crate) struct Slot<O, S: Storage> {
    pub(crate) key: S::Text,
    hash: u32,
    /// The entry of the queue with the pending deltas of the key.
    pub(crate) pending: SlotId,
    /// The last list that contained the key.
    pub(crate) epoch: u32,
    /// Whether the key was added after the first list of its source was complete.
    pub(crate) late: bool,
    /// Another source that has an object of this key, which is not the one in the store.
    pub(crate) rival: Rival,
    /// The last resync that has visited the object.
    pub(crate) mark: u16,
    previous: SlotId,
    next: SlotId,
    /// The object in the store.
    pub(crate) object: Option<O>,
}

/// The source of an object that is left out, since another source has one of the same key. It has the size of a gap in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rival(u8);

impl Rival {
    pub(crate) const NONE: Self = Self(0);
    /// More than one source, or one of a high number.
    const SEVERAL: Self = Self(u8::MAX);

    fn of(source: u16) -> Self {
        let number = source.checked_add(1).map(u8::try_from);
        number.and_then(Result::ok).map_or(Self::SEVERAL, Self)
    }

    /// Returns whether it may be this source.
    pub(crate) fn may_be(self, source: u16) -> bool {
        self == Self::SEVERAL || self == Self::of(source)
    }

    pub(crate) fn add(&mut self, source: u16) {
        *self = if matches!(*self, Self::NONE) {
            Self::of(source)
        } else if *self == Self::of(source) {
            *self
        } else {
            Self::SEVERAL
        };
    }

    /// Removes a source that has no such object any more. Of several, none is removed.
    pub(crate) fn remove(&mut self, source: u16) {
        if *self == Self::of(source) && *self != Self::SEVERAL {
            *self = Self::NONE;
        }
    }
}

/// A linked list of slots in the order in which they were added. A walk takes time in proportion to the list, however
/// large the table once was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    head: SlotId,
    tail: SlotId,
}

impl Default for List {
    fn default() -> Self {
        Self {
            head: SlotId::NONE,
            tail: SlotId::NONE,
        }
    }
}

/// A position in a list of slots. It remains valid while slots are added and removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    next: SlotId,
    /// The last slot; `None` includes slots that are added later.
    end: Option<SlotId>,
}

impl Cursor {
    pub(crate) const DONE: Self = Self {
        next: SlotId::NONE,
        end: Some(SlotId::NONE),
    };

    /// Creates a cursor over the slots that are in the list now.
    pub(crate) const fn of(list: List) -> Self {
        Self {
            next: list.head,
            end: Some(list.tail),
        }
    }

    /// Creates a cursor over the slots of the list, including those that are added before it ends.
    pub(crate) const fn following(list: List) -> Self {
        Self {
            next: list.head,
            end: None,
        }
    }

    /// Records that a slot was added to its list.
    pub(crate) fn added(&mut self, id: SlotId) {
        if self.end.is_none() && self.next == SlotId::NONE {
            self.next = id;
        }
    }
}

/// The reason why a key got no slot.
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
        self.find_hashed(self.hash(key), key)
    }

    fn find_hashed(&self, hash: u32, key: &str) -> Option<SlotId> {
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

    fn hash(&self, key: &str) -> u32 {
        if S::Lookup::SCANS {
            0
        } else {
            hash(self.seed, key.as_bytes())
        }
    }

    /// Computes the hashes of all keys again.
    pub(crate) fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
        self.lookup = S::Lookup::default();
        for index in 0..self.slots.bound() {
            let id = SlotId::from_index(index);
            if let Some(slot) = self.slots.get_mut(id)
                && !S::Lookup::SCANS
            {
                slot.hash = hash(seed, slot.key.as_ref().as_bytes());
                self.lookup.insert(slot.hash, id);
            }
        }
    }

    pub(crate) fn find_or_insert(&mut self, key: &str) -> Result<SlotId, NoSlot> {
        let hash = self.hash(key);
        if let Some(id) = self.find_hashed(hash, key) {
            return Ok(id);
        }
        let text = S::Text::try_from_str(key).ok_or(NoSlot::KeyTooLong)?;
        let slot = Slot {
            key: text,
            hash,
            pending: SlotId::NONE,
            epoch: 0,
            late: false,
            rival: Rival::NONE,
            mark: 0,
            previous: SlotId::NONE,
            next: SlotId::NONE,
            object: None,
        };
        let id = self.slots.insert(slot).map_err(|_| NoSlot::Full)?;
        self.lookup.insert(hash, id);
        Ok(id)
    }

    /// Frees a slot that neither the queue nor the store needs. Returns its key.
    pub(crate) fn free_if_idle(&mut self, id: SlotId) -> Option<S::Text> {
        let slot = self.slots.get(id)?;
        if slot.pending != SlotId::NONE || slot.object.is_some() {
            return None;
        }
        let slot = self.slots.remove(id)?;
        self.lookup.remove(slot.hash, id);
        Some(slot.key)
    }

    /// Returns the object of a slot with its key.
    #[inline]
    pub(crate) fn entry(&self, id: SlotId) -> Option<(&S::Text, &O)> {
        let slot = self.slots.get(id)?;
        Some((&slot.key, slot.object.as_ref()?))
    }

    pub(crate) fn get(&self, id: SlotId) -> Option<&Slot<O, S>> {
        self.slots.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: SlotId) -> Option<&mut Slot<O, S>> {
        self.slots.get_mut(id)
    }

    /// Adds a slot to the end of a list. The slot must not be in a list.
    pub(crate) fn link(&mut self, list: &mut List, id: SlotId) {
        if let Some(slot) = self.slots.get_mut(id) {
            (slot.previous, slot.next) = (list.tail, SlotId::NONE);
        }
        match self.slots.get_mut(list.tail) {
            Some(tail) => tail.next = id,
            None => list.head = id,
        }
        list.tail = id;
    }

    /// Removes a slot from its list, and moves each cursor off the slot.
    pub(crate) fn unlink<'c>(
        &mut self,
        list: &mut List,
        id: SlotId,
        cursors: impl Iterator<Item = &'c mut Cursor>,
    ) {
        let Some(slot) = self.slots.get(id) else {
            return;
        };
        let (previous, next) = (slot.previous, slot.next);
        for cursor in cursors {
            let is_end = cursor.end == Some(id);
            if cursor.next == id {
                cursor.next = if is_end { SlotId::NONE } else { next };
            } else if is_end {
                cursor.end = Some(previous);
            }
        }
        match self.slots.get_mut(previous) {
            Some(previous) => previous.next = next,
            None => list.head = next,
        }
        match self.slots.get_mut(next) {
            Some(next) => next.previous = previous,
            None => list.tail = previous,
        }
    }

    /// Returns the slot at a cursor, and moves the cursor to the next one.
    pub(crate) fn advance(&self, cursor: &mut Cursor) -> Option<SlotId> {
        let id = cursor.next;
        let slot = self.slots.get(id)?;
        cursor.next = if cursor.end == Some(id) {
            SlotId::NONE
        } else {
            slot.next
        };
        Some(id)
    }

    /// Iterates over the slots of a list.
    pub(crate) fn linked(&self, list: List) -> impl Iterator<Item = SlotId> + '_ {
        let mut cursor = Cursor::of(list);
        core::iter::from_fn(move || self.advance(&mut cursor))
    }

    /// Iterates over the slots in use, by number.
    /// Calls a function with each slot.
    pub(crate) fn each_mut(&mut self, mut f: impl FnMut(&mut Slot<O, S>)) {
        for index in 0..self.slots.bound() {
            if let Some(slot) = self.slots.get_mut(SlotId::from_index(index)) {
                f(slot);
            }
        }
    }

    fn ids(&self) -> impl Iterator<Item = SlotId> + '_ {
        (0..self.slots.bound())
            .map(SlotId::from_index)
            .filter(|&id| self.slots.get(id).is_some())
    }

    pub(crate) fn object(&self, key: &str) -> Option<&O> {
        self.get(self.find(key)?)?.object.as_ref()
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
        table.lookup.find(table.hash("key"), |_| {
            left += 1;
            false
        });
        assert_eq!(left, 0, "nothing of it stays in the lookup");
        assert_eq!(table.find_or_insert("other"), Ok(id), "its slot is free");
    }

    /// Keys that come and go need no more slots than the most that existed at once.
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
