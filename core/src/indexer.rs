//! The Indexer: objects by key, with named indexes.

use core::fmt;

use crate::delta::{DeltaKind, Deltas, Payload};
use crate::fifo::KnownObjects;
use crate::key::{KeyBuf, KeyError, KeyFn, Keyed, split_key};
use crate::storage::{Few, Postings, SlotId, Storage, Text};
use crate::table::Table;

/// The name of the index by namespace, which every indexer has. An object without a namespace is under `""`.
pub const NAMESPACE_INDEX: &str = "namespace";

/// The number of the index by namespace.
pub(crate) const NAMESPACE: u16 = 0;

/// A store of objects by key with named indexes, with client-go's contract.
///
/// An index function gives an object 0 to n values; [`Indexer::by_index`] finds the objects that have one. The index
/// by namespace is always there.
///
/// ```
/// use core::fmt::{self, Write};
/// use informer_core::{Heap, Indexer, Keyed};
///
/// struct Pod { key: &'static str, node: &'static str }
/// impl Keyed for Pod {
///     fn write_key(&self, out: &mut dyn Write) -> fmt::Result { out.write_str(self.key) }
/// }
///
/// let mut pods: Indexer<Pod, Heap> = Indexer::new();
/// pods.add_index("node", Box::new(|pod: &Pod, value: &mut dyn FnMut(&str)| value(pod.node)))?;
/// pods.add(Pod { key: "prod/web", node: "n1" })?;
/// assert_eq!(pods.by_index("node", "n1")?.count(), 1);
/// assert_eq!(pods.by_index("namespace", "prod")?.count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Indexer<T, S: Storage> {
    table: Table<Held<T>, S>,
    store: Store<T, S>,
    key_fn: KeyFn<T>,
}

/// Why an index could not be added or asked.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexError {
    /// There is no index of this name.
    Unknown,
    /// There is one of this name already.
    Exists,
    /// There is no room for another index, or its name is longer than the storage takes.
    Full,
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "there is no index of this name: add it first",
            Self::Exists => "there is an index of this name already: choose another name",
            Self::Full => {
                "there is no room for another index, or its name is too long for the storage"
            }
        })
    }
}

impl core::error::Error for IndexError {}

crate::readable_errors!(IndexError);

impl<T: Keyed, S: Storage> Indexer<T, S> {
    /// Makes an empty store with the index by namespace.
    #[must_use]
    pub fn new() -> Self {
        Self::with_key_fn(T::write_key)
    }
}

impl<T: Keyed, S: Storage> Default for Indexer<T, S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, S: Storage> Indexer<T, S> {
    /// Makes an empty store with a key function of one's own.
    #[must_use]
    pub fn with_key_fn(key_fn: KeyFn<T>) -> Self {
        Self {
            table: Table::new(0),
            store: Store::new(),
            key_fn,
        }
    }

    /// Adds an index; the objects that are there are indexed at once.
    ///
    /// # Errors
    /// A name that is taken, or for which there is no room, adds nothing.
    ///
    /// # Panics
    /// Where the function panics.
    pub fn add_index(&mut self, name: &str, f: S::IndexFn<T>) -> Result<(), IndexError> {
        self.store
            .add(name, Some(f))
            .map(|index| self.store.backfill(&self.table, index))
    }

    /// Stores an object under its key; returns the one that was there.
    ///
    /// # Errors
    /// An object without a usable key, or for which there is no room, is not stored.
    ///
    /// # Panics
    /// Where an index function panics; the object is then not stored.
    pub fn add(&mut self, object: T) -> Result<Option<T>, KeyError> {
        let key = KeyBuf::of(self.key_fn, &object)?;
        self.put(key.as_str(), object)
    }

    /// Stores an object under its key; the same as [`Indexer::add`].
    ///
    /// # Errors
    /// As [`Indexer::add`].
    pub fn update(&mut self, object: T) -> Result<Option<T>, KeyError> {
        self.add(object)
    }

    /// Stores an object under a key that the caller knows.
    ///
    /// # Errors
    /// A key that is too long, or for which there is no room, is not stored.
    pub fn put(&mut self, key: &str, object: T) -> Result<Option<T>, KeyError> {
        let values = self.store.values(key, &object);
        let id = self.table.find_or_insert(key)?;
        Ok(self
            .store
            .put(&mut self.table, id, Held::new(object), values)
            .map(|held| held.object))
    }

    /// Removes an object by its key; returns it. A key that is not there is no error.
    pub fn delete(&mut self, key: &str) -> Option<T> {
        let id = self.table.find(key)?;
        let held = self.store.remove(&mut self.table, id);
        self.table.free_if_idle(id);
        held.map(|held| held.object)
    }

    /// Makes these the only objects.
    ///
    /// # Errors
    /// An object without a usable key ends it; the objects before it are stored, and nothing else is.
    pub fn replace(&mut self, objects: impl IntoIterator<Item = T>) -> Result<(), KeyError> {
        for index in 0..self.table.bound() {
            let id = SlotId::from_index(index);
            self.store.remove(&mut self.table, id);
            self.table.free_if_idle(id);
        }
        objects
            .into_iter()
            .try_for_each(|object| self.add(object).map(drop))
    }

    /// Applies what was popped from a queue: a deletion removes, everything else stores.
    ///
    /// # Errors
    /// A key that is too long, or for which there is no room, ends it.
    pub fn apply(&mut self, deltas: Deltas<T, S>) -> Result<(), KeyError> {
        let key = deltas.key().clone();
        for delta in deltas {
            match (delta.kind, delta.payload) {
                (DeltaKind::Deleted, _) => drop(self.delete(key.as_ref())),
                (_, Payload::Object(object)) => drop(self.put(key.as_ref(), object)?),
                (_, Payload::Stored | Payload::Tombstone(_)) => {}
            }
        }
        Ok(())
    }

    /// Returns the object with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&T> {
        self.table.object(key).map(|held| &held.object)
    }

    /// Returns all objects, in no particular order.
    pub fn list(&self) -> impl Iterator<Item = &T> {
        self.table.objects().map(|(_, _, held)| &held.object)
    }

    /// Returns all keys, in no particular order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.table.objects().map(|(_, key, _)| key.as_ref())
    }

    /// Returns how many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.objects().count()
    }

    /// Tells whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.objects().next().is_none()
    }

    /// Returns the objects that have `value` in an index, in no particular order.
    ///
    /// # Errors
    /// An index that does not exist is an error; a value that nobody has is not.
    pub fn by_index(
        &self,
        name: &str,
        value: &str,
    ) -> Result<impl Iterator<Item = &T>, IndexError> {
        let index = self.store.number(name)?;
        Ok(self
            .store
            .select(&self.table, index, value)
            .map(|(_, held)| &held.object))
    }

    /// Returns the keys of the objects that have `value` in an index, sorted.
    ///
    /// # Errors
    /// An index that does not exist is an error; a value that nobody has is not.
    #[cfg(feature = "alloc")]
    pub fn index_keys(&self, name: &str, value: &str) -> Result<alloc::vec::Vec<&str>, IndexError> {
        let index = self.store.number(name)?;
        let mut keys: alloc::vec::Vec<&str> = self
            .store
            .select(&self.table, index, value)
            .map(|(key, _)| key.as_ref())
            .collect();
        keys.sort_unstable();
        Ok(keys)
    }

    /// Calls `f` with each object that shares a value of an index with `object`, once each.
    ///
    /// # Errors
    /// An index that does not exist is an error.
    pub fn index<'a>(
        &'a self,
        name: &str,
        object: &T,
        mut f: impl FnMut(&'a T),
    ) -> Result<(), IndexError> {
        let index = self.store.number(name)?;
        let key = KeyBuf::of(self.key_fn, object).unwrap_or(KeyBuf::new());
        for (_, other_key, other) in self.table.objects() {
            let mut shares = false;
            self.store
                .each_value(index, key.as_str(), object, &mut |value| {
                    self.store
                        .each_value(index, other_key.as_ref(), &other.object, &mut |v| {
                            shares |= v == value;
                        });
                });
            if shares {
                f(&other.object);
            }
        }
        Ok(())
    }

    /// Calls `f` with each value that any object has in an index, once each; client-go's `ListIndexFuncValues`.
    /// An index that does not exist has none.
    pub fn index_values(&self, name: &str, mut f: impl FnMut(&str)) {
        if let Ok(index) = self.store.number(name) {
            self.store.each_index_value(&self.table, index, &mut f);
        }
    }

    /// Returns the names of the indexes, in the order in which they were added.
    pub fn index_names(&self) -> impl Iterator<Item = &str> {
        self.store
            .indexes
            .as_slice()
            .iter()
            .map(|index| index.name.as_ref())
    }
}

impl<T, S: Storage> KnownObjects for Indexer<T, S> {
    fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    fn for_each_key(&self, f: &mut dyn FnMut(&str)) {
        self.keys().for_each(f);
    }
}

impl<T, S: Storage> fmt::Debug for Indexer<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Indexer")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// An object in a store.
pub(crate) struct Held<T> {
    pub(crate) object: T,
    /// Who brought it.
    pub(crate) source: u16,
    /// The latest state could not be decoded; this is an older one.
    pub(crate) stale: bool,
    /// Whoever listens knows of it.
    pub(crate) told: bool,
    /// The relist in which it last changed; what changed is not replayed at the relist's end.
    pub(crate) changed: u32,
}

impl<T> Held<T> {
    const fn new(object: T) -> Self {
        Self {
            object,
            source: 0,
            stale: false,
            told: false,
            changed: 0,
        }
    }
}

/// The indexes over a table that may be shared with a queue.
pub(crate) struct Store<T, S: Storage> {
    indexes: S::Few<Index<T, S>>,
    postings: S::Postings,
}

struct Index<T, S: Storage> {
    name: S::Text,
    /// `None` where the values are computed by somebody else, and for the index by namespace.
    function: Option<S::IndexFn<T>>,
}

/// The values of an object that were computed ahead.
pub type Values<S> = <<S as Storage>::Postings as Postings>::Values;

impl<T, S: Storage> Store<T, S> {
    pub(crate) fn new() -> Self {
        let mut store = Self {
            indexes: Default::default(),
            postings: Default::default(),
        };
        // Where its name of nine bytes does not fit, `add` has no room for any index.
        let _ = store.add(NAMESPACE_INDEX, None);
        store
    }

    /// Adds an index, without looking at what is there; returns its number.
    pub(crate) fn add(
        &mut self,
        name: &str,
        function: Option<S::IndexFn<T>>,
    ) -> Result<u16, IndexError> {
        if self.number(name).is_ok() {
            return Err(IndexError::Exists);
        }
        let name = S::Text::try_from_str(name).ok_or(IndexError::Full)?;
        let number = u16::try_from(self.indexes.as_slice().len()).map_err(|_| IndexError::Full)?;
        if number == NAMESPACE && name.as_ref() != NAMESPACE_INDEX {
            return Err(IndexError::Full);
        }
        self.indexes
            .push(Index { name, function })
            .map_err(|_| IndexError::Full)?;
        Ok(number)
    }

    pub(crate) fn number(&self, name: &str) -> Result<u16, IndexError> {
        let at = self
            .indexes
            .as_slice()
            .iter()
            .position(|index| index.name.as_ref() == name);
        at.and_then(|at| u16::try_from(at).ok())
            .ok_or(IndexError::Unknown)
    }

    /// Computes the values of an object in the indexes whose functions are here, but for the one by namespace.
    pub(crate) fn values(&self, key: &str, object: &T) -> Values<S> {
        let mut values = Values::<S>::default();
        if !S::Postings::SCANS {
            for number in
                NAMESPACE + 1..u16::try_from(self.indexes.as_slice().len()).unwrap_or(u16::MAX)
            {
                self.compute(number, key, object, &mut values);
            }
        }
        values
    }

    /// Adds the values of an object in one index to those that were computed ahead.
    pub(crate) fn compute(&self, index: u16, key: &str, object: &T, values: &mut Values<S>) {
        self.each_value(index, key, object, &mut |value| {
            S::Postings::add_value(values, index, value);
        });
    }

    /// Computes the values in an index of the objects that were there before it.
    pub(crate) fn backfill(&mut self, table: &Table<Held<T>, S>, index: u16) {
        let function = self
            .indexes
            .as_slice()
            .get(usize::from(index))
            .and_then(|index| index.function.as_ref());
        if let (Some(f), false) = (function, S::Postings::SCANS) {
            for (id, _, held) in table.objects() {
                f(&held.object, &mut |value| {
                    self.postings.add(id, index, value);
                });
            }
        }
    }

    /// Adds a value to an index that came after the object.
    pub(crate) fn add_value(&mut self, id: SlotId, index: u16, value: &str) {
        self.postings.add(id, index, value);
    }

    /// Calls `f` with each value of an object in an index.
    fn each_value(&self, index: u16, key: &str, object: &T, f: &mut dyn FnMut(&str)) {
        if index == NAMESPACE {
            f(split_key(key).0);
        } else if let Some(function) = self
            .indexes
            .as_slice()
            .get(usize::from(index))
            .and_then(|index| index.function.as_ref())
        {
            function(object, f);
        }
    }

    pub(crate) fn put(
        &mut self,
        table: &mut Table<Held<T>, S>,
        id: SlotId,
        held: Held<T>,
        values: Values<S>,
    ) -> Option<Held<T>> {
        let slot = table.get_mut(id)?;
        if slot.object.is_none() || !planted!(UnindexedChange) {
            self.postings
                .set(id, (NAMESPACE, split_key(slot.key.as_ref()).0), values);
        }
        slot.object.replace(held)
    }

    /// Takes the object out of a slot; the slot itself stays.
    pub(crate) fn remove(&mut self, table: &mut Table<Held<T>, S>, id: SlotId) -> Option<Held<T>> {
        let held = table.get_mut(id)?.object.take()?;
        if !planted!(StaleIndex) {
            self.postings.remove(id);
        }
        Some(held)
    }

    /// The objects that have `value` in an index.
    pub(crate) fn select<'a>(
        &'a self,
        table: &'a Table<Held<T>, S>,
        index: u16,
        value: &str,
    ) -> impl Iterator<Item = (&'a S::Text, &'a Held<T>)> {
        // Exactly one of the two has something in it.
        let listed = self.postings.slots_with(index, value).iter().copied();
        let scanned =
            (0..if S::Postings::SCANS { table.bound() } else { 0 }).map(SlotId::from_index);
        let scanned = scanned.filter(move |&id| {
            let Some(slot) = table.get(id) else {
                return false;
            };
            let Some(held) = &slot.object else {
                return false;
            };
            let mut has = false;
            self.each_value(index, slot.key.as_ref(), &held.object, &mut |v| {
                has |= v == value;
            });
            has
        });
        listed.chain(scanned).filter_map(move |id| {
            let slot = table.get(id)?;
            Some((&slot.key, slot.object.as_ref()?))
        })
    }

    pub(crate) fn each_index_value(
        &self,
        table: &Table<Held<T>, S>,
        index: u16,
        f: &mut dyn FnMut(&str),
    ) {
        if !S::Postings::SCANS {
            self.postings.values_of(index, f);
            return;
        }
        for (id, key, held) in table.objects() {
            let (key, object) = (key.as_ref(), &held.object);
            let mut at = 0;
            self.each_value(index, key, object, &mut |value| {
                // A value is told where it comes up first: in no earlier object, and at no earlier place in this one.
                let mut seen = false;
                let mut place = 0;
                self.each_value(index, key, object, &mut |v| {
                    seen |= place < at && v == value;
                    place += 1;
                });
                at += 1;
                for (_, key, held) in table.objects().take_while(|(other, ..)| *other < id) {
                    self.each_value(index, key.as_ref(), &held.object, &mut |v| {
                        seen |= v == value;
                    });
                }
                if !seen {
                    f(value);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests;
