//! Growable storage.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::marker::PhantomData;

use hashbrown::HashTable;

use super::postings::HeapPostings;
use super::{DeltaList, Few, Lookup, SlotId, Slots, Storage, Text};
use crate::storage::Delta;
use crate::wire::FrameBuffer;

/// Growable storage, for programs with an allocator.
///
/// `X` is the type of its short texts. A runtime that shares keys between threads uses one that is cheap to clone.
#[derive(Debug)]
pub struct Heap<X = Box<str>>(PhantomData<X>);

impl<X: Text + 'static> Storage for Heap<X> {
    type Text = X;
    type Slots<V> = HeapSlots<V>;
    type Entries<V> = HeapSlots<V>;
    type Lookup = HeapLookup;
    type Deltas<T> = HeapDeltas<T>;
    type Frame = HeapFrame;
    type Line = HeapFrame;
    type Postings = HeapPostings;
    type IndexFn<T> = Box<dyn Fn(&T, &mut dyn FnMut(&str)) + Send + Sync>;
    type Few<V> = Vec<V>;
}

impl Text for Box<str> {
    fn try_from_str(text: &str) -> Option<Self> {
        Some(text.into())
    }
}

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

/// A list of deltas. A single delta, the common case, needs no allocation.
#[derive(Debug)]
pub enum HeapDeltas<T> {
    /// At most one delta.
    One(Option<Delta<T>>),
    /// Several deltas, in contiguous memory.
    Many(VecDeque<Delta<T>>),
}

impl<T> Default for HeapDeltas<T> {
    fn default() -> Self {
        Self::One(None)
    }
}

impl<T> DeltaList<T> for HeapDeltas<T> {
    const KEEPS_ALL: bool = true;

    fn push(&mut self, delta: Delta<T>) {
        let many: VecDeque<Delta<T>> = match self {
            Self::One(one @ None) => {
                *one = Some(delta);
                return;
            }
            Self::Many(many) => {
                many.push_back(delta);
                if many.as_slices().1.is_empty() {
                    return;
                }
                // The end has wrapped around. Moving all deltas into twice the capacity makes room for as many pushes
                // as there are deltas, so the amortized cost is constant.
                let mut wider = VecDeque::with_capacity(2 * many.len());
                wider.extend(many.drain(..));
                wider
            }
            Self::One(one) => {
                let mut two = VecDeque::with_capacity(2);
                two.extend(one.take());
                two.push_back(delta);
                two
            }
        };
        *self = Self::Many(many);
    }

    fn pop_newest(&mut self) -> Option<Delta<T>> {
        match self {
            Self::One(one) => one.take(),
            Self::Many(many) => many.pop_back(),
        }
    }

    fn pop_oldest(&mut self) -> Option<Delta<T>> {
        match self {
            Self::One(one) => one.take(),
            Self::Many(many) => many.pop_front(),
        }
    }

    fn as_slice(&self) -> &[Delta<T>] {
        match self {
            Self::One(one) => one.as_slice(),
            Self::Many(many) => many.as_slices().0,
        }
    }

    fn as_mut_slice(&mut self) -> &mut [Delta<T>] {
        match self {
            Self::One(one) => one.as_mut_slice(),
            Self::Many(many) => many.as_mut_slices().0,
        }
    }
}

/// A buffer for a partial frame. It frees its memory after the frame, unless it is small.
#[derive(Debug)]
pub struct HeapFrame {
    bytes: Vec<u8>,
    limit: usize,
}

impl Default for HeapFrame {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            limit: usize::MAX,
        }
    }
}

impl FrameBuffer for HeapFrame {
    fn extend(&mut self, bytes: &[u8]) -> Result<(), ()> {
        if bytes.len() > self.limit - self.bytes.len().min(self.limit) {
            return Err(());
        }
        let needed = self.bytes.len() + bytes.len();
        if needed > self.bytes.capacity() {
            // It grows like `Vec`, but never beyond the limit.
            let grown = (2 * self.bytes.capacity()).clamp(needed, self.limit);
            self.bytes.reserve_exact(grown - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    fn remove(&mut self, start: usize, end: usize) {
        let end = end.min(self.bytes.len());
        self.bytes.drain(start.min(end)..end);
    }

    fn clear(&mut self) {
        self.bytes.clear();
        // Frames that arrive whole need no buffer, so an idle watch would keep one for nothing.
        self.bytes.shrink_to(1024);
    }

    fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    fn limit(&self) -> usize {
        self.limit
    }
}

impl<V> Few<V> for Vec<V> {
    fn push(&mut self, value: V) -> Result<(), V> {
        self.push(value);
        Ok(())
    }

    fn as_slice(&self) -> &[V] {
        self
    }

    fn as_mut_slice(&mut self) -> &mut [V] {
        self
    }

    fn bound(&self) -> usize {
        usize::MAX
    }

    fn take(&mut self, at: usize) -> Option<V> {
        (at < self.len()).then(|| self.remove(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{DeltaKind, Payload};

    /// With n pending deltas, taking one and adding one moves the others only once in n times.
    #[test]
    fn a_long_list_of_deltas_is_rarely_moved() {
        const PENDING: usize = 100;
        let mut deltas = HeapDeltas::default();
        let new = |number| Delta::new(DeltaKind::Updated, Payload::Object(number));
        (0..PENDING).for_each(|number| deltas.push(new(number)));
        let mut moves = 0;
        for number in PENDING..20 * PENDING {
            let oldest = deltas.pop_oldest().unwrap();
            assert_eq!(oldest.object(None), Some(&(number - PENDING)));
            let before = core::ptr::from_ref(&deltas.as_slice()[0]);
            deltas.push(new(number));
            assert_eq!(deltas.as_slice().len(), PENDING);
            moves += usize::from(before != core::ptr::from_ref(&deltas.as_slice()[0]));
        }
        assert!(moves <= 20, "{moves}");
    }
}
