//! Growable storage.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use hashbrown::HashTable;

use super::{DeltaList, Few, Lookup, Postings, SlotId, Slots, Storage, Text, hash};
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
    type IndexFn<T> = BoxedIndexFn<T>;
    type Few<V> = Vec<V>;
}

/// A boxed index function.
pub type BoxedIndexFn<T> = Box<dyn Fn(&T, &mut dyn FnMut(&str)) + Send + Sync>;

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
const fn wide(hash: u32) -> u64 {
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

/// Index values, each stored once with the slots that have it. A slot knows its positions, so removing it from a value
/// takes the same time however many slots share the value. The values of an index form a linked list.
#[derive(Default)]
pub struct HeapPostings {
    values: HeapSlots<Value>,
    lookup: HashTable<(u32, SlotId)>,
    members: Vec<Members>,
    /// The first value of each index.
    heads: Vec<SlotId>,
    seed: u64,
}

struct Value {
    index: u16,
    hash: u32,
    text: Box<str>,
    slots: Vec<SlotId>,
    previous: SlotId,
    next: SlotId,
}

/// The positions of a slot: pairs of a value and the position in its list.
#[derive(Clone, Debug)]
enum Members {
    Few(u8, [(SlotId, u32); 2]),
    Many(Vec<(SlotId, u32)>),
}

impl Default for Members {
    fn default() -> Self {
        Self::Few(0, [(SlotId::NONE, 0); 2])
    }
}

impl Members {
    fn as_slice(&self) -> &[(SlotId, u32)] {
        match self {
            Self::Few(len, places) => places.get(..usize::from(*len)).unwrap_or(places),
            Self::Many(places) => places,
        }
    }

    fn as_mut_slice(&mut self) -> &mut [(SlotId, u32)] {
        match self {
            Self::Few(len, places) => &mut places[..usize::from(*len).min(2)],
            Self::Many(places) => places,
        }
    }

    fn push(&mut self, place: (SlotId, u32)) {
        match self {
            Self::Few(len @ 0..2, places) => {
                places[usize::from(*len)] = place;
                *len += 1;
            }
            Self::Few(_, places) => {
                let mut many = places.to_vec();
                many.push(place);
                *self = Self::Many(many);
            }
            Self::Many(places) => places.push(place),
        }
    }
}

impl HeapPostings {
    fn hash(&self, index: u16, text: &str) -> u32 {
        hash(self.seed.wrapping_add(index.into()), text.as_bytes())
    }

    /// Adds a value that no slot has yet.
    fn insert(&mut self, hash: u32, index: u16, text: &str) -> Option<SlotId> {
        let place = usize::from(index);
        if self.heads.len() <= place {
            self.heads.resize(place + 1, SlotId::NONE);
        }
        let next = self.heads[place];
        let new = Value {
            index,
            hash,
            text: text.into(),
            slots: Vec::new(),
            previous: SlotId::NONE,
            next,
        };
        let value = self.values.insert(new).ok()?;
        if let Some(next) = self.values.get_mut(next) {
            next.previous = value;
        }
        self.heads[place] = value;
        self.lookup
            .insert_unique(wide(hash), (hash, value), |&(h, _)| wide(h));
        Some(value)
    }

    /// Removes a value that no slot has any more.
    fn forget(&mut self, value: SlotId) {
        let Some(gone) = self.values.remove(value) else {
            return;
        };
        match self.values.get_mut(gone.previous) {
            Some(previous) => previous.next = gone.next,
            None => self.heads[usize::from(gone.index)] = gone.next,
        }
        if let Some(next) = self.values.get_mut(gone.next) {
            next.previous = gone.previous;
        }
        let place = self
            .lookup
            .find_entry(wide(gone.hash), |&(_, id)| id == value);
        if let Ok(entry) = place {
            entry.remove();
        }
    }

    fn find(&self, hash: u32, index: u16, text: &str) -> Option<SlotId> {
        self.lookup
            .find(wide(hash), |&(h, id)| {
                h == hash
                    && self
                        .values
                        .get(id)
                        .is_some_and(|v| v.index == index && &*v.text == text)
            })
            .map(|&(_, id)| id)
    }

    /// Removes a slot from the list of a value, and removes the value if no slot is left.
    fn leave(&mut self, value: SlotId, place: u32) {
        let Some(found) = self.values.get_mut(value) else {
            return;
        };
        let place_index = place as usize;
        if place_index < found.slots.len() {
            found.slots.swap_remove(place_index);
        }
        if let Some(&moved) = found.slots.get(place_index) {
            // The last slot of the list has moved to the free position.
            let places = self
                .members
                .get_mut(moved.index())
                .map(Members::as_mut_slice)
                .unwrap_or_default();
            if let Some(entry) = places.iter_mut().find(|(v, _)| *v == value) {
                entry.1 = place;
            }
        } else if found.slots.is_empty() {
            self.forget(value);
        }
    }
}

impl Postings for HeapPostings {
    const SCANS: bool = false;
    type Values = Vec<(u16, Box<str>)>;

    fn add_value(values: &mut Self::Values, index: u16, value: &str) {
        values.push((index, value.into()));
    }

    fn set(&mut self, id: SlotId, first: (u16, &str), values: Self::Values) {
        let all =
            || core::iter::once(first).chain(values.iter().map(|(index, text)| (*index, &**text)));
        let old = self
            .members
            .get(id.index())
            .map(Members::as_slice)
            .unwrap_or_default();
        let unchanged = old.len() == values.len() + 1
            && old.iter().zip(all()).all(|(&(value, _), (index, text))| {
                self.values
                    .get(value)
                    .is_some_and(|v| v.index == index && &*v.text == text)
            });
        if !unchanged {
            self.remove(id);
            all().for_each(|(index, text)| self.add(id, index, text));
        }
    }

    fn add(&mut self, id: SlotId, index: u16, text: &str) {
        let hash = self.hash(index, text);
        let found = self.find(hash, index, text);
        let Some(value) = found.or_else(|| self.insert(hash, index, text)) else {
            return;
        };
        if self.members.len() <= id.index() {
            self.members.resize(id.index() + 1, Members::default());
        }
        let (Some(members), Some(found)) =
            (self.members.get_mut(id.index()), self.values.get_mut(value))
        else {
            return;
        };
        // An index function may emit a value twice. It counts once.
        if members.as_slice().iter().all(|(v, _)| *v != value) {
            members.push((value, u32::try_from(found.slots.len()).unwrap_or(u32::MAX)));
            found.slots.push(id);
        }
    }

    fn remove(&mut self, id: SlotId) {
        let Some(members) = self.members.get_mut(id.index()) else {
            return;
        };
        let members = core::mem::take(members);
        for &(value, place) in members.as_slice() {
            self.leave(value, place);
        }
    }

    fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
        self.lookup.clear();
        for index in 0..self.values.bound() {
            let id = SlotId::from_index(index);
            if let Some(value) = self.values.get_mut(id) {
                let hash = hash(seed.wrapping_add(value.index.into()), value.text.as_bytes());
                value.hash = hash;
                self.lookup
                    .insert_unique(wide(hash), (hash, id), |&(h, _)| wide(h));
            }
        }
    }

    fn slots_with(&self, index: u16, value: &str) -> &[SlotId] {
        let found = self.find(self.hash(index, value), index, value);
        found
            .and_then(|id| self.values.get(id))
            .map(|v| v.slots.as_slice())
            .unwrap_or_default()
    }

    fn slots_sharing(&self, values: &Self::Values, f: &mut dyn FnMut(SlotId)) {
        let mut done: Vec<SlotId> = Vec::new();
        for (index, text) in values {
            let Some(id) = self.find(self.hash(*index, text), *index, text) else {
                continue;
            };
            if done.contains(&id) {
                continue;
            }
            for &slot in self.values.get(id).map_or(&[][..], |value| &value.slots) {
                // A slot that also has an earlier value was reported with that value.
                let places = self
                    .members
                    .get(slot.index())
                    .map(Members::as_slice)
                    .unwrap_or_default();
                if places.iter().all(|(value, _)| !done.contains(value)) {
                    f(slot);
                }
            }
            done.push(id);
        }
    }

    fn values_of(&self, index: u16, f: &mut dyn FnMut(&str)) {
        let mut at = self.heads.get(usize::from(index)).copied();
        while let Some(value) = at.and_then(|id| self.values.get(id)) {
            f(&value.text);
            at = Some(value.next);
        }
    }
}

impl fmt::Debug for HeapPostings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeapPostings")
            .field("values", &self.values.len())
            .finish_non_exhaustive()
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
