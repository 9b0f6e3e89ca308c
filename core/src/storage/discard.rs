//! Discarded values.

use crate::storage::{Delta, Last, Payload};

/// Collects discarded values, or drops them at once.
///
/// Dropping a value runs user code. A runtime with a shared cache takes the values while it holds the lock, and drops
/// them after it has released the lock.
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

    pub(crate) fn put_delta(&mut self, delta: impl Into<Option<Delta<T>>>) {
        match delta.into().map(|delta| delta.payload) {
            Some(Payload::Object(object) | Payload::Tombstone(Last::Object(object))) => {
                self.put(object);
            }
            Some(Payload::Stored | Payload::Tombstone(Last::Stored | Last::Unknown)) | None => {}
        }
    }

    pub(crate) fn put_some(&mut self, value: Option<T>) {
        if let Some(value) = value {
            self.put(value);
        }
    }

    /// Returns whether values are collected.
    #[cfg(feature = "alloc")]
    pub(crate) const fn keeps(&self) -> bool {
        self.kept.is_some()
    }

    /// Collects values from now on.
    #[cfg(feature = "alloc")]
    pub(crate) fn keep(&mut self) {
        self.kept.get_or_insert_default();
    }

    /// Takes the collected values.
    #[cfg(feature = "alloc")]
    pub(crate) fn take(&mut self) -> alloc::vec::Vec<T> {
        self.kept.as_mut().map(core::mem::take).unwrap_or_default()
    }
}
