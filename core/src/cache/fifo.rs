//! The DeltaFIFO: pending deltas by key, with keys in the order in which they were queued.

use core::fmt;

use crate::object::{KeyBuf, KeyError, KeyFn};
use crate::storage::table::{NoSlot, Table};
use crate::storage::{
    Delta, DeltaKind, DeltaList, Deltas, Discarded, Last, Payload, SlotId, Slots, Storage,
    Tombstone, derive,
};

/// The store of a queue's consumer, as far as the queue needs it.
pub trait KnownObjects {
    /// Returns whether the store has this key.
    fn contains_key(&self, key: &str) -> bool;
    /// Calls `f` with every key.
    fn for_each_key(&self, f: &mut dyn FnMut(&str));
}

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

/// How the pending deltas of a key accumulate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Every delta is stored, in order, as in client-go.
    All,
    /// At most a deletion and a later delta are stored.
    Merged,
}

impl Mode {
    /// Returns `All` if the storage has no limit on deltas.
    pub(crate) const fn of_storage<T, S: Storage>() -> Self {
        if S::Deltas::<T>::KEEPS_ALL {
            Self::All
        } else {
            Self::Merged
        }
    }
}

/// The queue itself, over a table that may be shared with a store.
pub(crate) struct Queue<T, S: Storage> {
    entries: S::Entries<Entry<T, S>>,
    head: SlotId,
    tail: SlotId,
    mode: Mode,
    pub(crate) emit_replaced: bool,
    populated: bool,
    /// The number of queued keys of the initial population.
    initial: usize,
    epoch: u32,
    pub(crate) closed: bool,
    pub(crate) discarded: Discarded<T>,
}

struct Entry<T, S: Storage> {
    slot: SlotId,
    previous: SlotId,
    next: SlotId,
    /// Whether it was queued before the queue was populated.
    is_initial: bool,
    deltas: S::Deltas<T>,
}

impl<T, S: Storage> Queue<T, S> {
    pub(crate) fn new(mode: Mode) -> Self {
        debug_assert!(mode == Mode::Merged || S::Deltas::<T>::KEEPS_ALL);
        Self {
            entries: Default::default(),
            head: SlotId::NONE,
            tail: SlotId::NONE,
            mode,
            emit_replaced: false,
            populated: false,
            initial: 0,
            epoch: 0,
            closed: false,
            discarded: Discarded::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.entries.has_room()
    }

    pub(crate) const fn has_synced(&self) -> bool {
        self.populated && self.initial == 0
    }

    /// Marks the queue as populated, which the first change of any kind does.
    pub(crate) const fn mark_populated(&mut self) {
        self.populated = true;
    }

    pub(crate) fn deltas<O>(&self, table: &Table<O, S>, id: SlotId) -> &[Delta<T>] {
        let entry = table
            .get(id)
            .and_then(|slot| self.entries.get(slot.pending));
        entry
            .map(|entry| entry.deltas.as_slice())
            .unwrap_or_default()
    }

    pub(crate) fn deltas_mut<O>(&mut self, table: &Table<O, S>, id: SlotId) -> &mut [Delta<T>] {
        let pending = table.get(id).map_or(SlotId::NONE, |slot| slot.pending);
        let entry = self.entries.get_mut(pending);
        entry
            .map(|entry| entry.deltas.as_mut_slice())
            .unwrap_or_default()
    }

    /// Adds a delta to a key; `stored` is whether the consumer's store has the key. If the merged deltas cancel out,
    /// the key leaves the queue, and its slot is freed if it is otherwise unused.
    pub(crate) fn enqueue<O>(
        &mut self,
        table: &mut Table<O, S>,
        id: SlotId,
        delta: Delta<T>,
        stored: bool,
    ) -> Result<(), KeyError> {
        let Some(slot) = table.get_mut(id) else {
            return Ok(());
        };
        if let Some(entry) = self.entries.get_mut(slot.pending) {
            let discarded = &mut self.discarded;
            gather::<T, S>(self.mode, &mut entry.deltas, delta, stored, discarded);
            if entry.deltas.as_slice().is_empty() {
                let pending = core::mem::replace(&mut slot.pending, SlotId::NONE);
                self.take(pending);
                table.free_if_idle(id);
            }
            return Ok(());
        }
        let mut deltas = S::Deltas::default();
        deltas.push(delta);
        let entry = Entry {
            slot: id,
            previous: self.tail,
            next: SlotId::NONE,
            is_initial: !self.populated,
            deltas,
        };
        let new = match self.entries.insert(entry) {
            Ok(new) => new,
            Err(mut entry) => {
                table.free_if_idle(id);
                while let Some(delta) = entry.deltas.pop_oldest() {
                    self.discarded.put_delta(delta);
                }
                return Err(KeyError::Full);
            }
        };
        slot.pending = new;
        match self.entries.get_mut(self.tail) {
            Some(tail) => tail.next = new,
            None => self.head = new,
        }
        self.tail = new;
        Ok(())
    }

    /// Returns the slots with pending deltas.
    pub(crate) fn slots(&self) -> impl Iterator<Item = SlotId> + '_ {
        let mut at = self.head;
        core::iter::from_fn(move || {
            let entry = self.entries.get(at)?;
            at = entry.next;
            Some(entry.slot)
        })
    }

    /// Calls `f` with each pending delta and the slot of its key.
    pub(crate) fn for_each_delta(&mut self, mut f: impl FnMut(SlotId, &mut Delta<T>)) {
        let mut at = self.head;
        while let Some(entry) = self.entries.get_mut(at) {
            let deltas = entry.deltas.as_mut_slice().iter_mut();
            deltas.for_each(|delta| f(entry.slot, delta));
            at = entry.next;
        }
    }

    /// Removes and returns the first key with its deltas, and whether it belongs to the initial population.
    pub(crate) fn pop<O>(
        &mut self,
        table: &mut Table<O, S>,
    ) -> Option<(SlotId, S::Deltas<T>, bool)> {
        let is_initial = !self.has_synced();
        let entry = self.take(self.head)?;
        if let Some(slot) = table.get_mut(entry.slot) {
            slot.pending = SlotId::NONE;
        }
        Some((entry.slot, entry.deltas, is_initial))
    }

    /// Removes an entry at any position of the queue.
    fn take(&mut self, at: SlotId) -> Option<Entry<T, S>> {
        let entry = self.entries.remove(at)?;
        match self.entries.get_mut(entry.previous) {
            Some(previous) => previous.next = entry.next,
            None => self.head = entry.next,
        }
        match self.entries.get_mut(entry.next) {
            Some(next) => next.previous = entry.previous,
            None => self.tail = entry.previous,
        }
        self.initial = self.initial.saturating_sub(entry.is_initial.into());
        Some(entry)
    }

    /// Puts the remaining deltas of a popped key back to the front.
    pub(crate) fn push_front<O>(
        &mut self,
        table: &mut Table<O, S>,
        id: SlotId,
        deltas: S::Deltas<T>,
    ) {
        let Some(slot) = table.get_mut(id) else {
            return;
        };
        // The popped entry left a free place, so this succeeds.
        let Ok(new) = self.entries.insert(Entry {
            slot: id,
            previous: SlotId::NONE,
            next: self.head,
            is_initial: false,
            deltas,
        }) else {
            return;
        };
        slot.pending = new;
        match self.entries.get_mut(self.head) {
            Some(head) => head.previous = new,
            None => self.tail = new,
        }
        self.head = new;
    }

    pub(crate) const fn begin_replace(&mut self) -> u32 {
        self.epoch = self.epoch.wrapping_add(1);
        self.epoch
    }

    pub(crate) fn replace_item<O>(
        &mut self,
        table: &mut Table<O, S>,
        id: SlotId,
        epoch: u32,
        item: T,
    ) -> Result<(), KeyError> {
        let kind = if self.emit_replaced {
            DeltaKind::Replaced
        } else {
            DeltaKind::Sync
        };
        self.enqueue(table, id, Delta::new(kind, Payload::Object(item)), true)?;
        if let Some(slot) = table.get_mut(id) {
            slot.epoch = epoch;
        }
        Ok(())
    }

    /// Queues a deletion for each queued key that the list did not contain.
    fn delete_unlisted<O>(
        &mut self,
        table: &mut Table<O, S>,
        epoch: u32,
        known: Option<&dyn KnownObjects>,
    ) {
        let mut at = self.head;
        while let Some(entry) = self.entries.get(at) {
            let id = entry.slot;
            // `enqueue` removes the entry if its deltas cancel out.
            at = entry.next;
            let Some(slot) = table.get(id).filter(|slot| slot.epoch != epoch) else {
                continue;
            };
            let stored = known.is_none_or(|known| known.contains_key(slot.key.as_ref()));
            let deltas = self.deltas(table, id);
            // A pending deletion is at least as good as a tombstone, since both refer to the same last state.
            if deltas
                .last()
                .is_none_or(|newest| newest.kind != DeltaKind::Deleted)
            {
                let delta = Delta::new(DeltaKind::Deleted, Payload::Tombstone(Last::Stored));
                // The key has an entry in the queue, so there is room for the delta.
                let _ = self.enqueue(table, id, delta, stored);
            }
        }
    }

    /// Ends a list. The first complete one is the initial population: its items, and deletions of keys that it does not
    /// contain.
    fn end_replace(&mut self) {
        if !self.populated {
            self.populated = true;
            self.initial = self.entries.len();
        }
    }
}

/// Adds a delta to the pending ones of its key.
fn gather<T, S: Storage>(
    mode: Mode,
    deltas: &mut S::Deltas<T>,
    delta: Delta<T>,
    stored: bool,
    discarded: &mut Discarded<T>,
) {
    let is_deletion = delta.kind == DeltaKind::Deleted;
    let newest_is_deletion = deltas
        .as_slice()
        .last()
        .is_some_and(|d| d.kind == DeltaKind::Deleted);
    if is_deletion && newest_is_deletion {
        // Of two consecutive deletions, a real one wins over a tombstone, otherwise the older one.
        let worse = if deltas.as_slice().last().is_some_and(Delta::is_tombstone) {
            let tombstone = deltas.pop_newest();
            deltas.push(delta);
            tombstone
        } else {
            Some(delta)
        };
        discarded.put_delta(worse);
        return;
    }
    if mode == Mode::All || newest_is_deletion {
        deltas.push(delta);
        return;
    }
    // The queue merges, and the newest delta is a change that was not popped.
    if is_deletion {
        merge_deletion::<T, S>(deltas, delta, stored, discarded);
        return;
    }
    if matches!(delta.payload, Payload::Stored) {
        // The stored state is older than the pending one.
        return;
    }
    let mut kind = delta.kind;
    if let Some(older) = deltas.pop_newest() {
        if older.kind == DeltaKind::Added {
            kind = DeltaKind::Added;
        }
        discarded.put_delta(older);
    }
    deltas.push(Delta::new(kind, delta.payload));
}

/// Merges a deletion with a change that was not popped. A key that the consumer does not have leaves no trace.
fn merge_deletion<T, S: Storage>(
    deltas: &mut S::Deltas<T>,
    delta: Delta<T>,
    stored: bool,
    discarded: &mut Discarded<T>,
) {
    let unseen = deltas.pop_newest();
    let deletes_already = deltas
        .as_slice()
        .last()
        .is_some_and(|d| d.kind == DeltaKind::Deleted);
    if deletes_already || !stored {
        discarded.put_delta(delta);
        discarded.put_delta(unseen);
        return;
    }
    // The dropped change is a newer last state than the one in the store.
    let payload = match (delta.payload, unseen) {
        (
            Payload::Tombstone(Last::Stored),
            Some(Delta {
                payload: Payload::Object(object),
                ..
            }),
        ) => Payload::Tombstone(Last::Object(object)),
        (payload, unseen) => {
            discarded.put_delta(unseen);
            payload
        }
    };
    deltas.push(Delta::new(DeltaKind::Deleted, payload));
}

#[cfg(test)]
mod tests;
