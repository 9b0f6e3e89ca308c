//! The DeltaFIFO: pending deltas by key, with keys in the order in which they were queued.

use core::fmt;

use super::queue::{KnownObjects, Mode, Queue};
use crate::object::{KeyBuf, KeyError, KeyFn};
use crate::storage::table::{NoSlot, Table};
use crate::storage::{Delta, DeltaKind, Deltas, Last, Payload, Storage, Tombstone, derive};

/// A queue of changes by key, with client-go's contract.
///
/// A key is queued once; its deltas accumulate until it is popped. Two consecutive deletions collapse into the more
/// informative one. [`DeltaFifo::replace`] queues deletions for keys that a list no longer contains, and
/// [`DeltaFifo::resync`] replays the consumer's store. client-go passes that store to the queue (known objects); here
/// it is an argument. Nothing is cloned: a resync or a tombstone refers to the object in the store.
///
/// ```
/// use informer_core::{Heap, cache::DeltaFifo, storage::DeltaKind};
///
/// struct Pod(&'static str);
///
/// let mut fifo: DeltaFifo<Pod, Heap> = DeltaFifo::new(|pod, key| key.write_str(pod.0));
/// fifo.add(Pod("prod/web"))?;
/// fifo.update(Pod("prod/web"))?;
/// let popped = fifo.pop()?;
/// assert_eq!(popped.deltas.key().as_ref(), "prod/web");
/// assert_eq!(popped.deltas.map(|d| d.kind).collect::<Vec<_>>(), [DeltaKind::Added, DeltaKind::Updated]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DeltaFifo<T, S: Storage> {
    table: Table<(), S>,
    queue: Queue<T, S>,
    key_fn: KeyFn<T>,
}

/// The result of [`DeltaFifo::pop`].
#[non_exhaustive]
pub struct Popped<T, S: Storage> {
    /// The key and its deltas, oldest first.
    pub deltas: Deltas<T, S>,
    /// Whether the key belongs to the initial population, because the queue was not yet synced.
    pub is_in_initial_list: bool,
}

impl<T: fmt::Debug, S: Storage> fmt::Debug for Popped<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Popped")
            .field("deltas", &self.deltas)
            .field("is_in_initial_list", &self.is_in_initial_list)
            .finish()
    }
}

/// The reason why nothing was popped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PopError {
    /// Nothing is queued.
    Empty,
    /// Nothing is queued, and the queue was closed: client-go's `ErrFIFOClosed`.
    Closed,
}

impl fmt::Display for PopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the queue is empty",
            Self::Closed => "the queue is closed",
        })
    }
}

impl core::error::Error for PopError {}

crate::readable_errors!(PopError);

/// A list of deltas without a limit.
pub trait Unbounded {}

#[cfg(feature = "alloc")]
impl<T> Unbounded for crate::storage::HeapDeltas<T> {}

impl<T, S: Storage> DeltaFifo<T, S> {
    /// Creates an empty queue that stores every delta, in order.
    ///
    /// Fixed-size storage has no room for every delta:
    /// ```compile_fail
    /// use informer_core::{Inline, cache::DeltaFifo};
    ///
    /// let by_key = |key: &u32, out: &mut dyn core::fmt::Write| write!(out, "{key}");
    /// let fifo: DeltaFifo<u32, Inline<16, 64, 1024>> = DeltaFifo::new(by_key);
    /// ```
    #[must_use]
    pub fn new(key_fn: KeyFn<T>) -> Self
    where
        S::Deltas<T>: Unbounded,
    {
        Self::in_mode(key_fn, Mode::All)
    }

    /// Creates an empty queue that merges the pending deltas of a key to at most a deletion and a later delta.
    ///
    /// Consecutive changes become the last one. A deletion cancels a pending addition if the consumer's store does not
    /// have the key.
    #[must_use]
    pub fn merged(key_fn: KeyFn<T>) -> Self {
        Self::in_mode(key_fn, Mode::Merged)
    }

    /// Sets the seed of the hashes. Use a random seed if users choose the keys, since they could otherwise provoke
    /// collisions.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.table.set_seed(derive(seed, 0));
        self
    }

    pub(crate) fn in_mode(key_fn: KeyFn<T>, mode: Mode) -> Self {
        Self {
            table: Table::new(0),
            queue: Queue::new(mode),
            key_fn,
        }
    }

    /// Sets whether [`DeltaFifo::replace`] queues `Replaced` (true) or `Sync` (false, the default, as in client-go).
    pub const fn set_emit_replaced(&mut self, emit: bool) {
        self.queue.emit_replaced = emit;
    }

    /// Queues the addition of an object.
    ///
    /// # Errors
    /// Fails if the object has no usable key; nothing is queued.
    pub fn add(&mut self, object: T) -> Result<(), KeyError> {
        self.queue.mark_populated();
        self.enqueue(DeltaKind::Added, object)
    }

    /// Queues a change of an object.
    ///
    /// # Errors
    /// Fails if the object has no usable key; nothing is queued.
    pub fn update(&mut self, object: T) -> Result<(), KeyError> {
        self.queue.mark_populated();
        self.enqueue(DeltaKind::Updated, object)
    }

    /// Queues the deletion of an object. Ignores an object that neither the queue nor `known` has.
    ///
    /// # Errors
    /// Fails if the object has no usable key; nothing is queued.
    pub fn delete(&mut self, object: T, known: Option<&dyn KnownObjects>) -> Result<(), KeyError> {
        let key = KeyBuf::of(self.key_fn, &object)?;
        self.delete_key(key.as_str(), Payload::Object(object), known)
    }

    /// Queues the deletion of an object whose final state is unknown, under the tombstone's key.
    ///
    /// # Errors
    /// Fails if the storage cannot hold the key; nothing is queued.
    pub fn delete_tombstone(
        &mut self,
        tombstone: Tombstone<'_, T>,
        known: Option<&dyn KnownObjects>,
    ) -> Result<(), KeyError> {
        let last = tombstone.last.map_or(Last::Unknown, Last::Object);
        self.delete_key(tombstone.key, Payload::Tombstone(last), known)
    }

    fn delete_key(
        &mut self,
        key: &str,
        payload: Payload<T>,
        known: Option<&dyn KnownObjects>,
    ) -> Result<(), KeyError> {
        self.queue.mark_populated();
        let stored = known.map(|known| known.contains_key(key));
        let id = match (self.table.find(key), stored) {
            (Some(id), _) => id,
            (None, Some(true)) => self.table.find_or_insert(key)?,
            (None, None | Some(false)) => return Ok(()),
        };
        self.queue.enqueue(
            &mut self.table,
            id,
            Delta::new(DeltaKind::Deleted, payload),
            stored.unwrap_or(true),
        )
    }

    /// Queues a complete list: each item, and a deletion with unknown final state for each queued or known key that the
    /// list does not contain.
    ///
    /// # Errors
    /// Fails at an item without a usable key: earlier items stay queued, and no deletions are queued. Fails at a
    /// deletion that does not fit: earlier ones stay queued. A failed list does not count as the first one, so
    /// [`DeltaFifo::has_synced`] waits for a complete list.
    pub fn replace(
        &mut self,
        items: impl IntoIterator<Item = T>,
        known: Option<&dyn KnownObjects>,
    ) -> Result<(), KeyError> {
        let epoch = self.queue.begin_replace();
        for item in items {
            let key = KeyBuf::of(self.key_fn, &item)?;
            let id = self.table.find_or_insert(key.as_str())?;
            self.queue.replace_item(&mut self.table, id, epoch, item)?;
        }
        self.queue.delete_unlisted(&mut self.table, epoch, known);
        if let Some(known) = known {
            self.enqueue_known(known, DeltaKind::Deleted, || {
                Payload::Tombstone(Last::Stored)
            })?;
        }
        self.queue.end_replace();
        Ok(())
    }

    /// Queues a `Sync` for each known key without pending deltas. It sends no request to the API server.
    ///
    /// # Errors
    /// Fails at a key that does not fit; earlier keys stay queued.
    pub fn resync(&mut self, known: &dyn KnownObjects) -> Result<(), KeyError> {
        self.enqueue_known(known, DeltaKind::Sync, || Payload::Stored)
    }

    /// Queues a delta for each known key that has nothing queued.
    fn enqueue_known(
        &mut self,
        known: &dyn KnownObjects,
        kind: DeltaKind,
        payload: fn() -> Payload<T>,
    ) -> Result<(), KeyError> {
        let (table, queue) = (&mut self.table, &mut self.queue);
        let mut result = Ok(());
        known.for_each_key(&mut |key| {
            if result.is_ok() && table.find(key).is_none() {
                result = table
                    .find_or_insert(key)
                    .map_err(KeyError::from)
                    .and_then(|id| queue.enqueue(table, id, Delta::new(kind, payload()), true));
            }
        });
        result
    }

    /// Removes and returns the key that was queued first, with all its deltas.
    ///
    /// # Errors
    /// Fails if the queue is empty; the error states whether it was closed.
    pub fn pop(&mut self) -> Result<Popped<T, S>, PopError> {
        let popped = self.queue.pop(&mut self.table);
        let popped = popped.and_then(|(id, list, is_in_initial_list)| {
            let key = self.table.free_if_idle(id)?;
            Some(Popped {
                deltas: Deltas::new(key, list),
                is_in_initial_list,
            })
        });
        popped.ok_or(if self.queue.closed {
            PopError::Closed
        } else {
            PopError::Empty
        })
    }

    /// Returns the pending deltas of a key, oldest first.
    #[must_use]
    pub fn pending(&self, key: &str) -> &[Delta<T>] {
        self.table
            .find(key)
            .map(|id| self.queue.deltas(&self.table, id))
            .unwrap_or_default()
    }

    /// Calls `f` with each queued key, in the order of popping.
    pub fn for_each_queued(&self, mut f: impl FnMut(&str)) {
        let slots = self.queue.slots().filter_map(|id| self.table.get(id));
        slots.for_each(|slot| f(slot.key.as_ref()));
    }

    /// Returns the number of queued keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns whether the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the initial population has been popped: the first list, or the first change if that came
    /// earlier.
    #[must_use]
    pub const fn has_synced(&self) -> bool {
        self.queue.has_synced()
    }

    /// Closes the queue. Queued keys can still be popped; after them, [`DeltaFifo::pop`] returns [`PopError::Closed`].
    pub const fn close(&mut self) {
        self.queue.closed = true;
    }

    fn enqueue(&mut self, kind: DeltaKind, object: T) -> Result<(), KeyError> {
        let key = KeyBuf::of(self.key_fn, &object)?;
        let id = self.table.find_or_insert(key.as_str())?;
        self.queue.enqueue(
            &mut self.table,
            id,
            Delta::new(kind, Payload::Object(object)),
            true,
        )
    }
}

impl<T, S: Storage> fmt::Debug for DeltaFifo<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaFifo")
            .field("len", &self.len())
            .field("has_synced", &self.has_synced())
            .field("closed", &self.queue.closed)
            .finish_non_exhaustive()
    }
}

impl From<NoSlot> for KeyError {
    fn from(why: NoSlot) -> Self {
        match why {
            NoSlot::Full => Self::Full,
            NoSlot::KeyTooLong => Self::TooLong,
        }
    }
}

#[cfg(test)]
mod tests;
