//! What may happen to one key, in the words of client-go.

use core::fmt;

use crate::storage::{DeltaList, Storage};

/// The five types of delta.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DeltaKind {
    /// A watch reported a new object.
    Added,
    /// A watch reported a change.
    Updated,
    /// A watch reported a deletion, or a list showed that there was one.
    Deleted,
    /// A list named the object.
    Replaced,
    /// A resync replays the object; also what [`DeltaFifo::replace`](crate::cache::DeltaFifo::replace) gives where
    /// `emit_replaced` is off.
    Sync,
}

impl DeltaKind {
    /// Returns client-go's name of the type.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "Added",
            Self::Updated => "Updated",
            Self::Deleted => "Deleted",
            Self::Replaced => "Replaced",
            Self::Sync => "Sync",
        }
    }
}

impl fmt::Display for DeltaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing that happened to a key.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Delta<T> {
    /// What happened.
    pub kind: DeltaKind,
    /// The object after it.
    pub payload: Payload<T>,
}

impl<T> Delta<T> {
    pub(crate) const fn new(kind: DeltaKind, payload: Payload<T>) -> Self {
        Self { kind, payload }
    }

    /// Tells whether it is a deletion that nobody saw, and whose final state is therefore unknown.
    #[must_use]
    pub const fn is_tombstone(&self) -> bool {
        matches!(self.payload, Payload::Tombstone(_))
    }

    /// Returns the object; `stored` is what the consumer's store holds for the key when all deltas before this one
    /// have been applied.
    ///
    /// A resync and a tombstone of a list name the object in the store rather than holding a copy of it.
    #[must_use]
    pub const fn object<'a>(&'a self, stored: Option<&'a T>) -> Option<&'a T> {
        match &self.payload {
            Payload::Object(object) | Payload::Tombstone(Last::Object(object)) => Some(object),
            Payload::Stored | Payload::Tombstone(Last::Stored) => stored,
            Payload::Tombstone(Last::Unknown) => None,
        }
    }
}

/// The object of a [`Delta`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Payload<T> {
    /// The object itself.
    Object(T),
    /// The one in the consumer's store: a resync clones nothing.
    Stored,
    /// The object is gone and nobody saw it go: client-go's `DeletedFinalStateUnknown`.
    Tombstone(Last<T>),
}

/// The last known state of an object whose deletion nobody saw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Last<T> {
    /// This one.
    Object(T),
    /// The one in the consumer's store when all earlier deltas of the key have been applied.
    Stored,
    /// It is not known.
    Unknown,
}

/// A deletion that nobody saw, as it is handed to [`DeltaFifo::delete_tombstone`](crate::cache::DeltaFifo::delete_tombstone).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tombstone<'a, T> {
    /// The key of the object.
    pub key: &'a str,
    /// Its last known state.
    pub last: Option<T>,
}

/// All deltas of one key that were pending, oldest first; never empty when it comes from a queue.
pub struct Deltas<T, S: Storage> {
    key: S::Text,
    list: S::Deltas<T>,
}

impl<T, S: Storage> Deltas<T, S> {
    pub(crate) const fn new(key: S::Text, list: S::Deltas<T>) -> Self {
        Self { key, list }
    }

    /// Returns the key.
    #[must_use]
    pub const fn key(&self) -> &S::Text {
        &self.key
    }

    /// Returns the newest one.
    #[must_use]
    pub fn newest(&self) -> Option<&Delta<T>> {
        self.as_slice().last()
    }

    /// Returns the oldest one.
    #[must_use]
    pub fn oldest(&self) -> Option<&Delta<T>> {
        self.as_slice().first()
    }

    /// Returns them, oldest first.
    #[must_use]
    pub fn as_slice(&self) -> &[Delta<T>] {
        self.list.as_slice()
    }
}

impl<T, S: Storage> Iterator for Deltas<T, S> {
    type Item = Delta<T>;

    /// Takes the oldest one.
    fn next(&mut self) -> Option<Delta<T>> {
        self.list.pop_oldest()
    }
}

impl<T: fmt::Debug, S: Storage> fmt::Debug for Deltas<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: ", self.key)?;
        f.debug_list().entries(self.as_slice()).finish()
    }
}
