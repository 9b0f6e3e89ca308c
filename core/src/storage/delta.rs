//! Deltas of keys, with client-go's names.

use core::fmt;

use crate::storage::{DeltaList, Storage};

/// The types of deltas.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DeltaKind {
    /// A watch reported a new object.
    Added,
    /// A watch reported a change.
    Updated,
    /// A watch reported a deletion, or a list showed that there was one.
    Deleted,
    /// A list contained the object.
    Replaced,
    /// A resync replays the object. [`DeltaFifo::replace`](crate::cache::DeltaFifo::replace) also uses it if
    /// `emit_replaced` is off.
    Sync,
}

/// Writes client-go's name of the type.
impl fmt::Display for DeltaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Added => "Added",
            Self::Updated => "Updated",
            Self::Deleted => "Deleted",
            Self::Replaced => "Replaced",
            Self::Sync => "Sync",
        })
    }
}

/// One change of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Delta<T> {
    /// The type of the change.
    pub kind: DeltaKind,
    /// The object after the change.
    pub payload: Payload<T>,
}

impl<T> Delta<T> {
    pub(crate) const fn new(kind: DeltaKind, payload: Payload<T>) -> Self {
        Self { kind, payload }
    }

    /// Returns whether it is a deletion that was not observed, so that the final state is unknown.
    #[must_use]
    pub const fn is_tombstone(&self) -> bool {
        matches!(self.payload, Payload::Tombstone(_))
    }

    /// Returns the object. `stored` is the object in the consumer's store after all earlier deltas have been applied.
    ///
    /// A resync and a tombstone of a list refer to the stored object instead of holding a copy.
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
    /// The object in the consumer's store. A resync clones nothing.
    Stored,
    /// The object was deleted, and the deletion was not observed: client-go's `DeletedFinalStateUnknown`.
    Tombstone(Last<T>),
}

/// The last known state of an object whose deletion was not observed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Last<T> {
    /// This state.
    Object(T),
    /// The object in the consumer's store after all earlier deltas of the key have been applied.
    Stored,
    /// It is not known.
    Unknown,
}

/// A deletion that was not observed, as an argument of
/// [`DeltaFifo::delete_tombstone`](crate::cache::DeltaFifo::delete_tombstone).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tombstone<'a, T> {
    /// The key of the object.
    pub key: &'a str,
    /// Its last known state.
    pub last: Option<T>,
}

/// All pending deltas of one key, oldest first. It is never empty when it comes from a queue.
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

    /// Returns the deltas, oldest first.
    #[must_use]
    pub fn as_slice(&self) -> &[Delta<T>] {
        self.list.as_slice()
    }
}

impl<T, S: Storage> Iterator for Deltas<T, S> {
    type Item = Delta<T>;

    /// Removes the oldest delta.
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
