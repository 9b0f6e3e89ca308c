//! Slots in growable storage, and the table that finds them.

use alloc::vec::Vec;

use hashbrown::HashTable;

use super::{Lookup, SlotId, Slots};

/// The number of slots per allocation. Growth copies no slots, except those of the first chunk while it is smaller.
const CHUNK: usize = 256;
/// The number of slots at first. A program may have thousands of slabs with a few values each.
const FIRST: usize = 8;

/// A slab that grows in chunks.
#[derive(Debug)]
pub struct HeapSlots<V> {
    /// All but the last are full. A slot that was never used is not in its chunk.
    chunks: Vec<Vec<Slot<V>>>,
    free: u32,
    used: usize,
    len: usize,
}

#[derive(Debug)]
enum Slot<V> {
    Free(u32),
    Used(V),
}

impl<V> Default for HeapSlots<V> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            free: u32::MAX,
            used: 0,
            len: 0,
        }
    }
}

impl<V> HeapSlots<V> {
    fn slot(&self, index: usize) -> Option<&Slot<V>> {
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }

    fn slot_mut(&mut self, index: usize) -> Option<&mut Slot<V>> {
        self.chunks.get_mut(index / CHUNK)?.get_mut(index % CHUNK)
    }

    /// Stores a value in a slot that was never used.
    fn append(&mut self, value: V) -> Result<SlotId, V> {
        if self.used >= u32::MAX as usize - CHUNK {
            return Err(value);
        }
        if self.used == self.chunks.len() * CHUNK {
            let slots = if self.used == 0 { FIRST } else { CHUNK };
            self.chunks.push(Vec::with_capacity(slots));
        }
        let Some(chunk) = self.chunks.last_mut() else {
            return Err(value);
        };
        chunk.push(Slot::Used(value));
        let id = SlotId::from_index(self.used);
        self.used += 1;
        self.len += 1;
        Ok(id)
    }
}

impl<V> Slots<V> for HeapSlots<V> {
    fn insert(&mut self, value: V) -> Result<SlotId, V> {
        let id = SlotId(self.free);
        if id == SlotId::NONE {
            return self.append(value);
        }
        let Some(slot) = self.slot_mut(id.index()) else {
            return Err(value);
        };
        self.free = match core::mem::replace(slot, Slot::Used(value)) {
            Slot::Free(next) => next,
            Slot::Used(_) => u32::MAX,
        };
        self.len += 1;
        Ok(id)
    }

    fn remove(&mut self, id: SlotId) -> Option<V> {
        let free = self.free;
        let slot = self.slot_mut(id.index())?;
        if matches!(slot, Slot::Free(_)) {
            return None;
        }
        let Slot::Used(value) = core::mem::replace(slot, Slot::Free(free)) else {
            return None;
        };
        self.free = id.0;
        self.len -= 1;
        if self.len == 0 {
            // A few slots stay, so that a slab that is repeatedly filled and emptied, like a queue, does not allocate
            // each time.
            self.chunks.truncate(1);
            self.chunks.shrink_to_fit();
            if let Some(chunk) = self.chunks.first_mut() {
                chunk.clear();
                chunk.shrink_to(FIRST);
            }
            self.free = u32::MAX;
            self.used = 0;
        }
        Some(value)
    }

    fn get(&self, id: SlotId) -> Option<&V> {
        match self.slot(id.index())? {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    fn get_mut(&mut self, id: SlotId) -> Option<&mut V> {
        match self.slot_mut(id.index())? {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn has_room(&self) -> bool {
        true
    }

    fn bound(&self) -> usize {
        self.used
    }
}

/// A hash table from hashes to slots.
#[derive(Debug, Default)]
pub struct HeapLookup(HashTable<(u32, SlotId)>);

impl Lookup for HeapLookup {
    const SCANS: bool = false;

    fn find(&self, hash: u32, mut is: impl FnMut(SlotId) -> bool) -> Option<SlotId> {
        self.0
            .find(wide(hash), |&(h, id)| h == hash && is(id))
            .map(|&(_, id)| id)
    }

    fn insert(&mut self, hash: u32, id: SlotId) {
        self.0
            .insert_unique(wide(hash), (hash, id), |&(h, _)| wide(h));
    }

    fn remove(&mut self, hash: u32, id: SlotId) {
        if let Ok(entry) = self.0.find_entry(wide(hash), |&(_, other)| other == id) {
            entry.remove();
        }
        if self.0.is_empty() {
            self.0 = HashTable::new();
        }
    }
}

/// The table takes its control bits from the upper end of 64 bits, and the position from the lower end.
pub(super) const fn wide(hash: u32) -> u64 {
    (hash as u64) << 32 | hash as u64
}
