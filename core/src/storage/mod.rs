//! The containers of the engine, in two implementations.
//!
//! The engine is generic over [`Storage`]. `Heap` grows (feature `alloc`), and [`Inline`] has a fixed size and needs
//! no allocator. The storage is selected by a type parameter and never by a Cargo feature, so a crate that uses `Heap`
//! cannot change the types of another one that uses `Inline`.

mod delta;
mod discard;
#[cfg(feature = "alloc")]
mod heap;
mod inline;
#[cfg(feature = "alloc")]
mod postings;
#[cfg(feature = "alloc")]
mod slots;
pub(crate) mod table;

pub use delta::{Delta, DeltaKind, Deltas, Last, Payload, Tombstone};
pub(crate) use discard::Discarded;
#[cfg(feature = "alloc")]
pub use heap::{Heap, HeapDeltas, HeapFrame};
pub use inline::{Inline, InlineFew, InlineFrame, InlineSlots, InlineText};
#[cfg(feature = "alloc")]
pub use postings::HeapPostings;
#[cfg(feature = "alloc")]
pub use slots::{HeapLookup, HeapSlots};

use core::fmt;

use crate::wire::FrameBuffer;

/// A family of containers, which hold all data of the engine.
///
/// `Heap` and [`Inline`] implement it. Other crates can use `Heap` with a custom text type.
pub trait Storage: Sized + 'static {
    /// Keys, versions and other short texts.
    type Text: Text;
    /// A slab: values with small, stable numbers.
    type Slots<V>: Slots<V>;
    /// The slab of the delta queue, with one value for each key with pending deltas. While it is full, reading stops.
    type Entries<V>: Slots<V>;
    /// Finds a slot by the hash of its key.
    type Lookup: Lookup;
    /// The pending deltas of one key.
    type Deltas<T>: DeltaList<T>;
    /// A partial frame.
    type Frame: FrameBuffer;
    /// A longer text: a request, a continue token, the body of an error.
    type Line: FrameBuffer;
    /// The content of the indexes.
    type Postings: Postings;
    /// An index function over objects of type `T`.
    type IndexFn<T>: Fn(&T, &mut dyn FnMut(&str));
    /// A few values of one type, such as the indexes or the sources.
    type Few<V>: Few<V>;
}

/// A short stored text.
pub trait Text: AsRef<str> + Clone + fmt::Debug {
    /// Copies `text`, or returns `None` if it does not fit.
    fn try_from_str(text: &str) -> Option<Self>;
}

/// The number of a slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SlotId(u32);

impl SlotId {
    /// No slot.
    pub(crate) const NONE: Self = Self(u32::MAX);

    /// Creates the id of the slot with this number.
    pub(crate) fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// Returns the slot's number.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A slab: values with small, stable numbers.
pub trait Slots<V>: Default {
    /// Stores a value in a free slot.
    ///
    /// # Errors
    /// Returns the value if there is no room.
    fn insert(&mut self, value: V) -> Result<SlotId, V>;
    /// Removes a value and frees its slot.
    fn remove(&mut self, id: SlotId) -> Option<V>;
    /// Returns the value in a slot.
    fn get(&self, id: SlotId) -> Option<&V>;
    /// Returns the value in a slot mutably.
    fn get_mut(&mut self, id: SlotId) -> Option<&mut V>;
    /// Returns the number of values.
    fn len(&self) -> usize;
    /// Returns whether there are no values.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns whether another value would fit.
    fn has_room(&self) -> bool;
    /// Returns a number greater than that of every slot in use.
    fn bound(&self) -> usize;
}

/// Finds slots by the hash of their key.
pub trait Lookup: Default {
    /// Whether there is no table, so that the caller must search all slots.
    const SCANS: bool;
    /// Returns the slot with this hash for which `is` holds.
    fn find(&self, hash: u32, is: impl FnMut(SlotId) -> bool) -> Option<SlotId>;
    /// Adds a slot. The caller has checked that it is not present.
    fn insert(&mut self, hash: u32, id: SlotId);
    /// Removes a slot.
    fn remove(&mut self, hash: u32, id: SlotId);
}

/// The pending deltas of one key, oldest first.
pub trait DeltaList<T>: Default {
    /// Whether all deltas can be stored. Otherwise it is at most a deletion and one delta after it.
    const KEEPS_ALL: bool;
    /// Adds a delta at the end. If the list is full, the delta is dropped; callers ensure that it is not.
    fn push(&mut self, delta: Delta<T>);
    /// Removes the newest delta.
    fn pop_newest(&mut self) -> Option<Delta<T>>;
    /// Removes the oldest delta.
    fn pop_oldest(&mut self) -> Option<Delta<T>>;
    /// Returns the deltas, oldest first.
    fn as_slice(&self) -> &[Delta<T>];
    /// Returns the deltas mutably, oldest first.
    fn as_mut_slice(&mut self) -> &mut [Delta<T>];
}

/// The content of the indexes: the slots of each value.
pub trait Postings: Default {
    /// Whether nothing is stored, so that the caller must call the index functions for each object.
    const SCANS: bool;
    /// The precomputed values of one object: pairs of an index's number and a value.
    type Values: Default;
    /// Adds a value to the precomputed ones.
    fn add_value(values: &mut Self::Values, index: u16, value: &str);
    /// Sets the values of a slot in all indexes: `first`, and the precomputed ones.
    fn set(&mut self, id: SlotId, first: (u16, &str), values: Self::Values);
    /// Adds one value to a slot.
    fn add(&mut self, id: SlotId, index: u16, value: &str);
    /// Removes a slot.
    fn remove(&mut self, id: SlotId);
    /// Sets the seed of the hashes.
    fn set_seed(&mut self, seed: u64);
    /// Returns the slots that have `value` in `index`.
    fn slots_with(&self, index: u16, value: &str) -> &[SlotId];
    /// Returns whether a slot has `value` in `index`.
    fn has(&self, id: SlotId, index: u16, value: &str) -> bool {
        self.slots_with(index, value).contains(&id)
    }
    /// Calls `f` once for each slot that has any of `values`.
    fn slots_sharing(&self, values: &Self::Values, f: &mut dyn FnMut(SlotId));
    /// Calls `f` once for each distinct value of `index`.
    fn values_of(&self, index: u16, f: &mut dyn FnMut(&str));
}

/// A few values of one type.
pub trait Few<V>: Default {
    /// Adds a value.
    ///
    /// # Errors
    /// Returns the value if there is no room.
    fn push(&mut self, value: V) -> Result<(), V>;
    /// Returns the values in the order in which they were added.
    fn as_slice(&self) -> &[V];
    /// Returns the values mutably.
    fn as_mut_slice(&mut self) -> &mut [V];
    /// Returns the capacity.
    fn bound(&self) -> usize;
    /// Removes the value at a position. The following values move up.
    fn take(&mut self, at: usize) -> Option<V>;
}

/// Hashes bytes with a seed to 32 bits.
///
/// Each step multiplies two words, both masked with the seed, and folds the 128-bit product. Values that collide under
/// every seed would have to compensate for a product of two unknown factors.
pub(crate) fn hash(seed: u64, bytes: &[u8]) -> u32 {
    let mask = seed.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15;
    let step = |h: u64, (a, b): (u64, u64)| fold(a ^ h, b ^ mask);
    let (whole, rest) = bytes.as_chunks::<16>();
    let words = |chunk: &[u8; 16]| {
        let words = u128::from_le_bytes(*chunk);
        (words as u64, (words >> 64) as u64)
    };
    let h = seed ^ (bytes.len() as u64).wrapping_mul(0xa076_1d64_78bd_642f);
    let h = whole.iter().map(words).fold(h, step);
    let h = fold(step(h, tail(rest)) ^ 0xff51_afd7_ed55_8ccd, mask);
    (h ^ (h >> 32)) as u32
}

/// Reads fewer than 16 bytes as two overlapping words. Together with the length, the words are unique.
fn tail(rest: &[u8]) -> (u64, u64) {
    if let (Some(first), Some(last)) = (rest.first_chunk(), rest.last_chunk()) {
        return (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
    }
    if let (Some(first), Some(last)) = (rest.first_chunk(), rest.last_chunk()) {
        return (
            u32::from_le_bytes(*first).into(),
            u32::from_le_bytes(*last).into(),
        );
    }
    match *rest {
        [] => (0, 0),
        [first] => (first.into(), 0),
        [first, .., last] => (first.into(), u16::from_le_bytes([rest[1], last]).into()),
    }
}

const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

/// Derives the seed of one of several tables from the user's seed, so that values that collide in one table do not in
/// another.
pub(crate) const fn derive(seed: u64, table: u64) -> u64 {
    let mut z = seed.wrapping_add((table + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
