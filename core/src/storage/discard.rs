//! Values that are no longer needed.

use crate::storage::{Delta, Last, Payload};

/// Where values go that are no longer needed: they are dropped at once, or kept until somebody takes them.
///
/// Dropping a value runs code of a user. A runtime that shares a cache under a lock takes the values under the lock, and
/// drops them after it has released it.
#[derive(Debug)]
pub(crate) struct Discarded<T> {
    #[cfg(feature = "alloc")]
    kept: Option<alloc::vec::Vec<T>>,
    #[cfg(not(feature = "alloc"))]
    kept: core::marker::PhantomData<T>,
}

impl<T> Default for Discarded<T> {
    fn default() -> Self {
        Self {
            kept: Default::default(),
        }
    }
}

impl<T> Discarded<T> {
    pub(crate) fn put(&mut self, value: T) {
        #[cfg(feature = "alloc")]
        if let Some(kept) = &mut self.kept {
            kept.push(value);
            return;
        }
        drop(value);
    }

    pub(crate) fn put_delta(&mut self, delta: Delta<T>) {
        match delta.payload {
            Payload::Object(object) | Payload::Tombstone(Last::Object(object)) => self.put(object),
            Payload::Stored | Payload::Tombstone(Last::Stored | Last::Unknown) => {}
        }
    }

    /// Tells whether values are kept.
    #[cfg(feature = "alloc")]
    pub(crate) const fn keeps(&self) -> bool {
        self.kept.is_some()
    }

    /// Keeps values from now on.
    #[cfg(feature = "alloc")]
    pub(crate) fn keep(&mut self) {
        self.kept.get_or_insert_default();
    }

    /// Takes the values that were kept.
    #[cfg(feature = "alloc")]
    pub(crate) fn take(&mut self) -> alloc::vec::Vec<T> {
        self.kept.as_mut().map(core::mem::take).unwrap_or_default()
    }
}
