//! Growable storage.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::marker::PhantomData;

use super::postings::HeapPostings;
use super::slots::{HeapLookup, HeapSlots};
use super::{DeltaList, Few, Storage, Text};
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
