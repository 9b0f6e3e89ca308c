//! The content of indexes in growable storage.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use hashbrown::HashTable;

use super::slots::{HeapSlots, wide};
use super::{Postings, SlotId, Slots, hash};

/// Index values, each stored once with the slots that have it. A slot knows its positions, so removing it from a value
/// takes the same time however many slots share the value. The values of an index form a linked list.
#[derive(Default)]
pub struct HeapPostings {
    values: HeapSlots<IndexValue>,
    lookup: HashTable<(u32, SlotId)>,
    members: Vec<Members>,
    /// The first value of each index.
    heads: Vec<SlotId>,
    seed: u64,
}

struct IndexValue {
    index: u16,
    hash: u32,
    text: Box<str>,
    slots: Vec<SlotId>,
    previous: SlotId,
    next: SlotId,
}

/// The positions of a slot: pairs of a value and the position in its list.
#[derive(Clone, Debug)]
enum Members {
    Few(u8, [(SlotId, u32); 2]),
    Many(Vec<(SlotId, u32)>),
}

impl Default for Members {
    fn default() -> Self {
        Self::Few(0, [(SlotId::NONE, 0); 2])
    }
}

impl Members {
    fn as_slice(&self) -> &[(SlotId, u32)] {
        match self {
            Self::Few(len, places) => places.get(..usize::from(*len)).unwrap_or(places),
            Self::Many(places) => places,
        }
    }

    fn as_mut_slice(&mut self) -> &mut [(SlotId, u32)] {
        match self {
            Self::Few(len, places) => &mut places[..usize::from(*len).min(2)],
            Self::Many(places) => places,
        }
    }

    fn push(&mut self, place: (SlotId, u32)) {
        match self {
            Self::Few(len @ 0..2, places) => {
                places[usize::from(*len)] = place;
                *len += 1;
            }
            Self::Few(_, places) => {
                let mut many = places.to_vec();
                many.push(place);
                *self = Self::Many(many);
            }
            Self::Many(places) => places.push(place),
        }
    }
}

impl HeapPostings {
    fn hash(&self, index: u16, text: &str) -> u32 {
        hash(self.seed.wrapping_add(index.into()), text.as_bytes())
    }

    /// Adds a value that no slot has yet.
    fn insert(&mut self, hash: u32, index: u16, text: &str) -> Option<SlotId> {
        let place = usize::from(index);
        if self.heads.len() <= place {
            self.heads.resize(place + 1, SlotId::NONE);
        }
        let next = self.heads[place];
        let new = IndexValue {
            index,
            hash,
            text: text.into(),
            slots: Vec::new(),
            previous: SlotId::NONE,
            next,
        };
        let value = self.values.insert(new).ok()?;
        if let Some(next) = self.values.get_mut(next) {
            next.previous = value;
        }
        self.heads[place] = value;
        self.lookup
            .insert_unique(wide(hash), (hash, value), |&(h, _)| wide(h));
        Some(value)
    }

    /// Removes a value that no slot has any more.
    fn forget(&mut self, value: SlotId) {
        let Some(gone) = self.values.remove(value) else {
            return;
        };
        match self.values.get_mut(gone.previous) {
            Some(previous) => previous.next = gone.next,
            None => self.heads[usize::from(gone.index)] = gone.next,
        }
        if let Some(next) = self.values.get_mut(gone.next) {
            next.previous = gone.previous;
        }
        let place = self
            .lookup
            .find_entry(wide(gone.hash), |&(_, id)| id == value);
        if let Ok(entry) = place {
            entry.remove();
        }
    }

    fn find(&self, hash: u32, index: u16, text: &str) -> Option<SlotId> {
        self.lookup
            .find(wide(hash), |&(h, id)| {
                h == hash
                    && self
                        .values
                        .get(id)
                        .is_some_and(|v| v.index == index && &*v.text == text)
            })
            .map(|&(_, id)| id)
    }

    /// Removes a slot from the list of a value, and removes the value if no slot is left.
    fn leave(&mut self, value: SlotId, place: u32) {
        let Some(found) = self.values.get_mut(value) else {
            return;
        };
        let place_index = place as usize;
        if place_index < found.slots.len() {
            found.slots.swap_remove(place_index);
        }
        if let Some(&moved) = found.slots.get(place_index) {
            // The last slot of the list has moved to the free position.
            let places = self
                .members
                .get_mut(moved.index())
                .map(Members::as_mut_slice)
                .unwrap_or_default();
            if let Some(entry) = places.iter_mut().find(|(v, _)| *v == value) {
                entry.1 = place;
            }
        } else if found.slots.is_empty() {
            self.forget(value);
        }
    }
}

impl Postings for HeapPostings {
    const SCANS: bool = false;
    type Values = Vec<(u16, Box<str>)>;

    fn add_value(values: &mut Self::Values, index: u16, value: &str) {
        values.push((index, value.into()));
    }

    fn set(&mut self, id: SlotId, first: (u16, &str), values: Self::Values) {
        let all =
            || core::iter::once(first).chain(values.iter().map(|(index, text)| (*index, &**text)));
        let old = self
            .members
            .get(id.index())
            .map(Members::as_slice)
            .unwrap_or_default();
        let unchanged = old.len() == values.len() + 1
            && old.iter().zip(all()).all(|(&(value, _), (index, text))| {
                self.values
                    .get(value)
                    .is_some_and(|v| v.index == index && &*v.text == text)
            });
        if !unchanged {
            self.remove(id);
            all().for_each(|(index, text)| self.add(id, index, text));
        }
    }

    fn add(&mut self, id: SlotId, index: u16, text: &str) {
        let hash = self.hash(index, text);
        let found = self.find(hash, index, text);
        let Some(value) = found.or_else(|| self.insert(hash, index, text)) else {
            return;
        };
        if self.members.len() <= id.index() {
            self.members.resize(id.index() + 1, Members::default());
        }
        let (Some(members), Some(found)) =
            (self.members.get_mut(id.index()), self.values.get_mut(value))
        else {
            return;
        };
        // An index function may emit a value twice. It counts once.
        if members.as_slice().iter().all(|(v, _)| *v != value) {
            members.push((value, u32::try_from(found.slots.len()).unwrap_or(u32::MAX)));
            found.slots.push(id);
        }
    }

    fn remove(&mut self, id: SlotId) {
        let Some(members) = self.members.get_mut(id.index()) else {
            return;
        };
        let members = core::mem::take(members);
        for &(value, place) in members.as_slice() {
            self.leave(value, place);
        }
    }

    fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
        self.lookup.clear();
        for index in 0..self.values.bound() {
            let id = SlotId::from_index(index);
            if let Some(value) = self.values.get_mut(id) {
                let hash = hash(seed.wrapping_add(value.index.into()), value.text.as_bytes());
                value.hash = hash;
                self.lookup
                    .insert_unique(wide(hash), (hash, id), |&(h, _)| wide(h));
            }
        }
    }

    fn slots_with(&self, index: u16, value: &str) -> &[SlotId] {
        let found = self.find(self.hash(index, value), index, value);
        found
            .and_then(|id| self.values.get(id))
            .map(|v| v.slots.as_slice())
            .unwrap_or_default()
    }

    fn has(&self, id: SlotId, index: u16, value: &str) -> bool {
        let Some(value) = self.find(self.hash(index, value), index, value) else {
            return false;
        };
        let members = self.members.get(id.index()).map(Members::as_slice);
        members.is_some_and(|places| places.iter().any(|(own, _)| *own == value))
    }

    fn slots_sharing(&self, values: &Self::Values, f: &mut dyn FnMut(SlotId)) {
        let mut done: Vec<SlotId> = Vec::new();
        for (index, text) in values {
            let Some(id) = self.find(self.hash(*index, text), *index, text) else {
                continue;
            };
            if done.contains(&id) {
                continue;
            }
            for &slot in self.values.get(id).map_or(&[][..], |value| &value.slots) {
                // A slot that also has an earlier value was reported with that value.
                let places = self
                    .members
                    .get(slot.index())
                    .map(Members::as_slice)
                    .unwrap_or_default();
                if places.iter().all(|(value, _)| !done.contains(value)) {
                    f(slot);
                }
            }
            done.push(id);
        }
    }

    fn values_of(&self, index: u16, f: &mut dyn FnMut(&str)) {
        let mut at = self.heads.get(usize::from(index)).copied();
        while let Some(value) = at.and_then(|id| self.values.get(id)) {
            f(&value.text);
            at = Some(value.next);
        }
    }
}

impl fmt::Debug for HeapPostings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeapPostings")
            .field("values", &self.values.len())
            .finish_non_exhaustive()
    }
}
