//! Storage of a fixed size, without an allocator.

use core::fmt;

use super::{DeltaList, Few, Lookup, Postings, SlotId, Slots, Storage, Text};
use crate::storage::Delta;
use crate::wire::FrameBuffer;

/// Storage of a fixed size: at most `N` objects, keys and versions of at most `K` bytes, frames of at most `F` bytes.
/// Requests, continue tokens and the bodies of errors are limited to 1,024 bytes each.
///
/// Data that does not fit is rejected and reported. There are no tables for lookups and indexes: for the few objects of
/// such a device, a linear search costs less than the memory of a table.
///
/// `Q` is the most keys with pending changes; the default is `N`. Each of them reserves memory for two more states of
/// an object, so a small `Q` saves memory if changes are applied after every frame; 2 is enough. While all of them are
/// in use, nothing is read.
///
/// `W` is the most sources of a cache, the most indexes, that by namespace included, and the most sweeps and resyncs in
/// progress; the default is 8. A device with one source needs 2 if it applies changes after every frame.
#[derive(Debug)]
pub enum Inline<
    const N: usize,
    const K: usize,
    const F: usize,
    const Q: usize = N,
    const W: usize = 8,
> {}

impl<const N: usize, const K: usize, const F: usize, const Q: usize, const W: usize> Storage
    for Inline<N, K, F, Q, W>
{
    type Text = InlineText<K>;
    type Slots<V> = InlineSlots<V, N>;
    type Entries<V> = InlineSlots<V, Q>;
    type Lookup = ();
    /// A deletion and one event after it. Merged deltas are never more.
    type Deltas<T> = InlineFew<Delta<T>, 2>;
    type Frame = InlineFrame<F>;
    type Line = InlineFrame<LINE>;
    type Postings = ();
    type IndexFn<T> = fn(&T, &mut dyn FnMut(&str));
    type Few<V> = InlineFew<V, W>;
}

/// The most bytes of a request, a continue token or the body of an error.
const LINE: usize = 1024;

/// A text of at most `K` bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct InlineText<const K: usize>(heapless::String<K>);

impl<const K: usize> Text for InlineText<K> {
    fn try_from_str(text: &str) -> Option<Self> {
        heapless::String::try_from(text).ok().map(Self)
    }
}

impl<const K: usize> AsRef<str> for InlineText<K> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<const K: usize> fmt::Debug for InlineText<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_ref(), f)
    }
}

/// A slab of `N` slots.
#[derive(Debug)]
pub struct InlineSlots<V, const N: usize> {
    /// The slots that were ever used. The others are never written to.
    slots: heapless::Vec<Option<V>, N>,
    len: usize,
}

impl<V, const N: usize> Default for InlineSlots<V, N> {
    fn default() -> Self {
        Self {
            slots: heapless::Vec::new(),
            len: 0,
        }
    }
}

impl<V, const N: usize> Slots<V> for InlineSlots<V, N> {
    fn insert(&mut self, value: V) -> Result<SlotId, V> {
        if !self.has_room() {
            return Err(value);
        }
        self.len += 1;
        let mut slots = self.slots.iter_mut().enumerate();
        if let Some((index, slot)) = slots.find(|(_, slot)| slot.is_none()) {
            *slot = Some(value);
            return Ok(SlotId::from_index(index));
        }
        let index = self.slots.len();
        // There is room: fewer slots are in use than exist, and all lower ones are in use.
        let _ = self.slots.push(Some(value));
        Ok(SlotId::from_index(index))
    }

    fn remove(&mut self, id: SlotId) -> Option<V> {
        let value = self.slots.get_mut(id.index())?.take();
        self.len -= usize::from(value.is_some());
        value
    }

    fn get(&self, id: SlotId) -> Option<&V> {
        self.slots.get(id.index())?.as_ref()
    }

    fn get_mut(&mut self, id: SlotId) -> Option<&mut V> {
        self.slots.get_mut(id.index())?.as_mut()
    }

    fn len(&self) -> usize {
        self.len
    }

    fn has_room(&self) -> bool {
        self.len < N
    }

    fn bound(&self) -> usize {
        self.slots.len()
    }
}

/// A lookup without a table: the caller searches all slots.
impl Lookup for () {
    const SCANS: bool = true;

    fn find(&self, _hash: u32, _is: impl FnMut(SlotId) -> bool) -> Option<SlotId> {
        None
    }

    fn insert(&mut self, _hash: u32, _id: SlotId) {}

    fn remove(&mut self, _hash: u32, _id: SlotId) {}
}

impl Postings for () {
    const SCANS: bool = true;
    type Values = ();

    fn add_value((): &mut (), _index: u16, _value: &str) {}

    fn set(&mut self, _id: SlotId, _first: (u16, &str), (): ()) {}

    fn add(&mut self, _id: SlotId, _index: u16, _value: &str) {}

    fn remove(&mut self, _id: SlotId) {}

    fn set_seed(&mut self, _seed: u64) {}

    fn slots_with(&self, _index: u16, _value: &str) -> &[SlotId] {
        &[]
    }

    fn slots_sharing(&self, (): &(), _f: &mut dyn FnMut(SlotId)) {}

    fn values_of(&self, _index: u16, _f: &mut dyn FnMut(&str)) {}
}

/// A partial frame of at most `F` bytes.
#[derive(Debug)]
pub struct InlineFrame<const F: usize> {
    bytes: heapless::Vec<u8, F>,
    limit: usize,
}

impl<const F: usize> Default for InlineFrame<F> {
    fn default() -> Self {
        Self {
            bytes: heapless::Vec::new(),
            limit: F,
        }
    }
}

impl<const F: usize> FrameBuffer for InlineFrame<F> {
    fn extend(&mut self, bytes: &[u8]) -> Result<(), ()> {
        if self.bytes.len() + bytes.len() > self.limit {
            return Err(());
        }
        self.bytes.extend_from_slice(bytes).map_err(drop)
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
    }

    fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(F);
    }

    fn limit(&self) -> usize {
        self.limit
    }
}

/// At most `W` values.
#[derive(Debug)]
pub struct InlineFew<V, const W: usize>(heapless::Vec<V, W>);

impl<V, const W: usize> Default for InlineFew<V, W> {
    fn default() -> Self {
        Self(heapless::Vec::new())
    }
}

impl<V, const W: usize> Few<V> for InlineFew<V, W> {
    fn push(&mut self, value: V) -> Result<(), V> {
        self.0.push(value)
    }

    fn as_slice(&self) -> &[V] {
        &self.0
    }

    fn as_mut_slice(&mut self) -> &mut [V] {
        &mut self.0
    }

    fn bound(&self) -> usize {
        self.0.capacity()
    }

    fn take(&mut self, at: usize) -> Option<V> {
        (at < self.0.len()).then(|| self.0.remove(at))
    }
}

impl<T> DeltaList<T> for InlineFew<Delta<T>, 2> {
    const KEEPS_ALL: bool = false;

    fn push(&mut self, delta: Delta<T>) {
        let pushed = self.0.push(delta);
        debug_assert!(pushed.is_ok(), "merged deltas are at most two");
    }

    fn pop_newest(&mut self) -> Option<Delta<T>> {
        self.0.pop()
    }

    fn pop_oldest(&mut self) -> Option<Delta<T>> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    fn as_slice(&self) -> &[Delta<T>] {
        &self.0
    }

    fn as_mut_slice(&mut self) -> &mut [Delta<T>] {
        &mut self.0
    }
}
