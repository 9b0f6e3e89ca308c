//! The queue of pending deltas, for [`DeltaFifo`](super::DeltaFifo) and [`Cache`](super::Cache).

use crate::object::KeyError;
use crate::storage::table::Table;
use crate::storage::{
    Delta, DeltaKind, DeltaList, Discarded, Last, Payload, SlotId, Slots, Storage,
};

/// The store of a queue's consumer, as far as the queue needs it.
pub trait KnownObjects {
    /// Returns whether the store has this key.
    fn contains_key(&self, key: &str) -> bool;
    /// Calls `f` with every key.
    fn for_each_key(&self, f: &mut dyn FnMut(&str));
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
    pub(crate) fn delete_unlisted<O>(
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
    pub(crate) fn end_replace(&mut self) {
        if !self.populated {
            self.populated = true;
            self.initial = self.entries.len();
        }
    }
}

/// Adds a delta to the pending ones of its key.
pub(super) fn gather<T, S: Storage>(
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
