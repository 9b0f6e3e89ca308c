//! The Indexer: objects by key, with named indexes.

use core::fmt;

use crate::cache::fifo::KnownObjects;
use crate::object::{KeyBuf, KeyError, KeyFn, split_key};
use crate::storage::table::{Cursor, List, Table};
use crate::storage::{DeltaKind, Deltas, Few, Payload, Postings, SlotId, Storage, Text, derive};

/// The name of the namespace index, which every indexer has. An object without a namespace has the value `""`.
pub const NAMESPACE_INDEX: &str = "namespace";

/// The number of the namespace index.
pub(crate) const NAMESPACE: u16 = 0;

/// A store of objects by key with named indexes, with client-go's contract.
///
/// An index function returns any number of values for an object; [`Indexer::by_index`] finds the objects with a value.
/// The namespace index always exists.
///
/// ```
/// use informer_core::{Heap, cache::Indexer};
///
/// struct Pod { key: &'static str, node: &'static str }
///
/// let mut pods: Indexer<Pod, Heap> = Indexer::new(|pod, key| key.write_str(pod.key));
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

/// The reason why an index could not be added or queried.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexError {
    /// No index has this name.
    Unknown,
    /// An index with this name exists.
    Exists,
    /// The index is being built and does not contain all objects yet.
    Building,
    /// There is no room for another index, or its name is longer than the storage allows.
    Full,
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "no index has this name: add it first",
            Self::Exists => "an index with this name exists: choose another name",
            Self::Building => "the index is being built: wait until it is complete",
            Self::Full => {
                "there is no room for another index, or its name is too long for the storage"
            }
        })
    }
}

impl core::error::Error for IndexError {}

crate::readable_errors!(IndexError);

impl<T, S: Storage> Indexer<T, S> {
    /// Creates an empty store with the namespace index.
    #[must_use]
    pub fn new(key_fn: KeyFn<T>) -> Self {
        Self {
            table: Table::new(0),
            store: Store::new(1, 0),
            key_fn,
        }
    }

    /// Sets the seed of the hashes. Use a random seed if users choose the keys or index values, since they could
    /// otherwise provoke collisions.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.table.set_seed(derive(seed, 0));
        self.store.postings.set_seed(derive(seed, 1));
        self
    }

    /// Adds an index, which includes the stored objects.
    ///
    /// # Errors
    /// Fails if the name is taken or there is no room for the index.
    ///
    /// # Panics
    /// Panics if `f` panics.
    pub fn add_index(&mut self, name: &str, f: S::IndexFn<T>) -> Result<(), IndexError> {
        self.store
            .add(name, Some(f))
            .map(|index| self.store.backfill(&self.table, index))
    }

    /// Stores an object under its key, and returns the previous object.
    ///
    /// # Errors
    /// Fails if the object has no usable key or does not fit; the object is not stored.
    ///
    /// # Panics
    /// Panics if an index function panics; the object is not stored.
    pub fn add(&mut self, object: T) -> Result<Option<T>, KeyError> {
        let key = KeyBuf::of(self.key_fn, &object)?;
        self.put(key.as_str(), object)
    }

    /// Stores an object under the given key, and returns the previous object.
    fn put(&mut self, key: &str, object: T) -> Result<Option<T>, KeyError> {
        let values = self.store.values(key, &object);
        let id = self.table.find_or_insert(key)?;
        Ok(self
            .store
            .put(&mut self.table, id, Held::new(object), values)
            .map(|held| held.object))
    }

    /// Removes and returns the object with this key. An unknown key is no error.
    pub fn delete(&mut self, key: &str) -> Option<T> {
        let id = self.table.find(key)?;
        let held = self.store.remove(&mut self.table, id);
        self.table.free_if_idle(id);
        held.map(|held| held.object)
    }

    /// Replaces all objects.
    ///
    /// # Errors
    /// Fails at an object without a usable key; the objects before it are stored, and no others.
    pub fn replace(&mut self, objects: impl IntoIterator<Item = T>) -> Result<(), KeyError> {
        loop {
            let Some(id) = self.store.ids(&self.table).next() else {
                break;
            };
            self.store.remove(&mut self.table, id);
            self.table.free_if_idle(id);
        }
        objects
            .into_iter()
            .try_for_each(|object| self.add(object).map(drop))
    }

    /// Applies popped deltas: a deletion removes the object, any other delta stores it.
    ///
    /// # Errors
    /// Fails at a key that is too long or does not fit.
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
        self.store
            .objects(&self.table)
            .map(|(_, _, held)| &held.object)
    }

    /// Returns all keys, in no particular order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.store
            .objects(&self.table)
            .map(|(_, key, _)| key.as_ref())
    }

    /// Returns the number of objects.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.store.len
    }

    /// Returns whether the store has no objects.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.store.len == 0
    }

    /// Returns the objects that have `value` in an index, in no particular order.
    ///
    /// # Errors
    /// Fails if the index does not exist. A value without objects is no error.
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
    /// Fails if the index does not exist. A value without objects is no error.
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

    /// Calls `f` once for each object that shares a value of an index with `object`.
    ///
    /// # Errors
    /// Fails if the index does not exist.
    pub fn index<'a>(
        &'a self,
        name: &str,
        object: &T,
        mut f: impl FnMut(&'a T),
    ) -> Result<(), IndexError> {
        let index = self.store.number(name)?;
        let key = KeyBuf::of(self.key_fn, object).unwrap_or(KeyBuf::new());
        if !S::Postings::SCANS {
            let mut values = Values::<S>::default();
            self.store.compute(index, key.as_str(), object, &mut values);
            self.store.postings.slots_sharing(&values, &mut |id| {
                if let Some(held) = self.table.get(id).and_then(|slot| slot.object.as_ref()) {
                    f(&held.object);
                }
            });
            return Ok(());
        }
        for (_, other_key, other) in self.store.objects(&self.table) {
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

    /// Calls `f` once for each value that any object has in an index: client-go's `ListIndexFuncValues`. Does nothing
    /// if the index does not exist.
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
    /// The source of the object.
    pub(crate) source: u16,
    /// The latest state was unusable, and this is an older one.
    pub(crate) stale: bool,
    /// Handlers were notified of the object.
    pub(crate) notified: bool,
    /// The relist in which the object last changed. The end of that relist does not replay it.
    pub(crate) changed: u32,
}

impl<T> Held<T> {
    const fn new(object: T) -> Self {
        Self {
            object,
            source: 0,
            stale: false,
            notified: false,
            changed: 0,
        }
    }
}

/// The objects of each source and the indexes, over a table that may be shared with a queue.
pub(crate) struct Store<T, S: Storage> {
    indexes: S::Few<Index<T, S>>,
    postings: S::Postings,
    /// The objects of each source.
    lists: S::Few<List>,
    len: usize,
    /// The position of the current walk, and the source whose objects it visits.
    walk: Cursor,
    walked: u16,
    /// An object moved to another source, so a walk over all sources may have missed it.
    moved: bool,
    /// The indexes that are being built.
    builds: S::Few<Build>,
}

struct Build {
    index: u16,
    /// The source to visit after the list at the cursor.
    next_source: u16,
    cursor: Cursor,
    /// The queued objects have been visited.
    began: bool,
}

struct Index<T, S: Storage> {
    name: S::Text,
    /// `None` for the namespace index, and if the values are computed outside of the cache.
    function: Option<S::IndexFn<T>>,
}

/// The precomputed index values of an object.
pub type Values<S> = <<S as Storage>::Postings as Postings>::Values;

impl<T, S: Storage> Store<T, S> {
    pub(crate) fn new(sources: usize, seed: u64) -> Self {
        let mut store = Self {
            indexes: Default::default(),
            postings: Default::default(),
            lists: Default::default(),
            len: 0,
            walk: Cursor::DONE,
            walked: 0,
            moved: false,
            builds: Default::default(),
        };
        store.postings.set_seed(derive(seed, 1));
        for _ in 0..sources {
            // This cannot fail: the cache has as many sources as fit.
            let _ = store.add_source();
        }
        // If the name of nine bytes does not fit, `add` rejects every index.
        let _ = store.add(NAMESPACE_INDEX, None);
        store
    }

    pub(crate) fn add_source(&mut self) -> Option<()> {
        self.lists.push(List::default()).ok()
    }

    /// Adds an index without indexing the stored objects; returns its number.
    pub(crate) fn add(
        &mut self,
        name: &str,
        function: Option<S::IndexFn<T>>,
    ) -> Result<u16, IndexError> {
        if self.declared(name).is_ok() {
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

    /// Returns the number of an index that contains all objects.
    pub(crate) fn number(&self, name: &str) -> Result<u16, IndexError> {
        let number = self.declared(name)?;
        let mut builds = self.builds.as_slice().iter();
        if builds.any(|build| build.index == number) {
            return Err(IndexError::Building);
        }
        Ok(number)
    }

    fn declared(&self, name: &str) -> Result<u16, IndexError> {
        let at = self
            .indexes
            .as_slice()
            .iter()
            .position(|index| index.name.as_ref() == name);
        at.and_then(|at| u16::try_from(at).ok())
            .ok_or(IndexError::Unknown)
    }

    /// Computes the values of an object in all indexes that have a function, except the namespace index.
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

    /// Computes the values of an object in one index, and adds them to `values`.
    pub(crate) fn compute(&self, index: u16, key: &str, object: &T, values: &mut Values<S>) {
        self.each_value(index, key, object, &mut |value| {
            S::Postings::add_value(values, index, value);
        });
    }

    /// Computes the values of the stored objects in a new index.
    pub(crate) fn backfill(&mut self, table: &Table<Held<T>, S>, index: u16) {
        let function = self
            .indexes
            .as_slice()
            .get(usize::from(index))
            .and_then(|index| index.function.as_ref());
        if let (Some(f), false) = (function, S::Postings::SCANS) {
            for id in self
                .lists
                .as_slice()
                .iter()
                .flat_map(|&list| table.linked(list))
            {
                if let Some(held) = table.get(id).and_then(|slot| slot.object.as_ref()) {
                    f(&held.object, &mut |value| {
                        self.postings.add(id, index, value);
                    });
                }
            }
        }
    }

    /// Marks an index as incomplete.
    pub(crate) fn begin_build(&mut self, index: u16) -> Result<(), IndexError> {
        let build = Build {
            index,
            next_source: 0,
            cursor: Cursor::DONE,
            began: false,
        };
        self.builds.push(build).map_err(|_| IndexError::Full)
    }

    /// Returns whether another index can be built at the same time.
    pub(crate) fn has_room_to_build(&self) -> bool {
        self.builds.as_slice().len() < self.builds.bound()
    }

    /// Returns true once when an index has begun to be built.
    pub(crate) fn begins_build(&mut self, index: u16) -> bool {
        let mut builds = self.builds.as_mut_slice().iter_mut();
        let build = builds.find(|build| build.index == index);
        build.is_some_and(|build| !core::mem::replace(&mut build.began, true))
    }

    /// Returns the next stored object that existed before the index.
    pub(crate) fn next_unindexed(
        &mut self,
        table: &Table<Held<T>, S>,
        index: u16,
    ) -> Option<SlotId> {
        let mut builds = self.builds.as_mut_slice().iter_mut();
        let build = builds.find(|build| build.index == index)?;
        loop {
            if let Some(id) = table.advance(&mut build.cursor) {
                return Some(id);
            }
            let list = *self.lists.as_slice().get(usize::from(build.next_source))?;
            build.cursor = Cursor::of(list);
            build.next_source += 1;
        }
    }

    /// Makes an index available to readers.
    pub(crate) fn finish_build(&mut self, index: u16) {
        let builds = self.builds.as_slice();
        if let Some(at) = builds.iter().position(|build| build.index == index) {
            self.builds.take(at);
        }
    }

    /// Returns the slots of all objects.
    pub(crate) fn ids<'a>(
        &'a self,
        table: &'a Table<Held<T>, S>,
    ) -> impl Iterator<Item = SlotId> + 'a {
        let lists = self.lists.as_slice().iter();
        lists.flat_map(|&list| table.linked(list))
    }

    /// Returns all objects.
    pub(crate) fn objects<'a>(
        &'a self,
        table: &'a Table<Held<T>, S>,
    ) -> impl Iterator<Item = (SlotId, &'a S::Text, &'a Held<T>)> {
        self.ids(table).filter_map(|id| held(table, id))
    }

    /// Returns the objects of a source.
    pub(crate) fn objects_of<'a>(
        &'a self,
        table: &'a Table<Held<T>, S>,
        source: u16,
    ) -> impl Iterator<Item = (SlotId, &'a S::Text, &'a Held<T>)> {
        let ids = table.linked(self.list(source));
        ids.filter_map(|id| held(table, id))
    }

    fn list(&self, source: u16) -> List {
        let list = self.lists.as_slice().get(usize::from(source));
        list.copied().unwrap_or_default()
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Begins a walk over the objects of a source. If it `follows`, it includes objects that are added during the walk.
    pub(crate) fn begin_walk(&mut self, source: u16, follows: bool) {
        let list = self.list(source);
        self.walked = source;
        self.walk = if follows {
            Cursor::following(list)
        } else {
            Cursor::of(list)
        };
    }

    /// Returns true once after an object moved to another source.
    pub(crate) const fn take_moved(&mut self) -> bool {
        core::mem::replace(&mut self.moved, false)
    }

    /// Returns the next object of the walk.
    pub(crate) fn walk_on(&mut self, table: &Table<Held<T>, S>) -> Option<SlotId> {
        table.advance(&mut self.walk)
    }

    fn link(&mut self, table: &mut Table<Held<T>, S>, id: SlotId, source: u16) {
        if let Some(list) = self.lists.as_mut_slice().get_mut(usize::from(source)) {
            table.link(list, id);
        }
        if source == self.walked {
            self.walk.added(id);
        }
    }

    fn unlink(&mut self, table: &mut Table<Held<T>, S>, id: SlotId, source: u16) {
        let builds = self.builds.as_mut_slice().iter_mut();
        let cursors = builds.map(|build| &mut build.cursor);
        if let Some(list) = self.lists.as_mut_slice().get_mut(usize::from(source)) {
            table.unlink(list, id, cursors.chain([&mut self.walk]));
        }
    }

    /// Adds a value of an object to an index that is newer than the object.
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
        self.postings
            .set(id, (NAMESPACE, split_key(slot.key.as_ref()).0), values);
        let source = held.source;
        let old = slot.object.replace(held);
        match &old {
            None => {
                self.len += 1;
                self.link(table, id, source);
            }
            Some(old) if old.source != source => {
                self.unlink(table, id, old.source);
                self.link(table, id, source);
                self.moved = true;
            }
            Some(_) => {}
        }
        old
    }

    /// Moves an unchanged object to another source.
    pub(crate) fn hand_over(
        &mut self,
        table: &mut Table<Held<T>, S>,
        id: SlotId,
        source: u16,
        values: Values<S>,
    ) {
        let Some(slot) = table.get_mut(id) else {
            return;
        };
        let Some(held) = &mut slot.object else {
            return;
        };
        let before = core::mem::replace(&mut held.source, source);
        // An index that is being built may have passed the end of the list that the object moves to.
        self.postings
            .set(id, (NAMESPACE, split_key(slot.key.as_ref()).0), values);
        self.unlink(table, id, before);
        self.link(table, id, source);
        self.moved = true;
    }

    /// Removes the object from a slot, but not the slot itself.
    pub(crate) fn remove(&mut self, table: &mut Table<Held<T>, S>, id: SlotId) -> Option<Held<T>> {
        let held = table.get_mut(id)?.object.take()?;
        self.len -= 1;
        self.unlink(table, id, held.source);
        self.postings.remove(id);
        Some(held)
    }

    /// Returns the objects that have `value` in an index.
    pub(crate) fn select<'a>(
        &'a self,
        table: &'a Table<Held<T>, S>,
        index: u16,
        value: &str,
    ) -> impl Iterator<Item = (&'a S::Text, &'a Held<T>)> {
        // Depending on the storage, only one of the two iterators has elements.
        let listed = self.postings.slots_with(index, value).iter().copied();
        let scanned = self
            .ids(table)
            .take(if S::Postings::SCANS { self.len } else { 0 });
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
        for (id, key, held) in self.objects(table) {
            let (key, object) = (key.as_ref(), &held.object);
            let mut at = 0;
            self.each_value(index, key, object, &mut |value| {
                // Report a value only at its first occurrence: not in an earlier object, and not earlier in this one.
                let mut seen = false;
                let mut place = 0;
                self.each_value(index, key, object, &mut |v| {
                    seen |= place < at && v == value;
                    place += 1;
                });
                at += 1;
                for (_, key, held) in self.objects(table).take_while(|(other, ..)| *other != id) {
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

fn held<T, S: Storage>(
    table: &Table<Held<T>, S>,
    id: SlotId,
) -> Option<(SlotId, &S::Text, &Held<T>)> {
    let slot = table.get(id)?;
    Some((id, &slot.key, slot.object.as_ref()?))
}

#[cfg(test)]
mod tests;
