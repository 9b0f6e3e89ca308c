//! The Indexer: objects by key, with named indexes.

use core::fmt;

use crate::cache::fifo::KnownObjects;
use crate::object::{KeyBuf, KeyError, KeyFn, Keyed, split_key};
use crate::storage::table::{Cursor, List, Table};
use crate::storage::{DeltaKind, Deltas, Few, Payload, Postings, SlotId, Storage, Text, derive};

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
/// use informer_core::{Heap, cache::Indexer, object::Keyed};
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
    /// The index is being built: it does not cover all objects yet.
    Building,
    /// There is no room for another index, or its name is longer than the storage takes.
    Full,
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "there is no index of this name: add it first",
            Self::Exists => "there is an index of this name already: choose another name",
            Self::Building => "the index is being built: wait until it was added",
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
    /// Makes an empty store with a custom key function.
    #[must_use]
    pub fn with_key_fn(key_fn: KeyFn<T>) -> Self {
        Self {
            table: Table::new(0),
            store: Store::new(1, 0),
            key_fn,
        }
    }

    /// Sets the seed of the hashes. It should be random where keys or values come from users, who could make them
    /// collide otherwise.
    ///
    /// ```
    /// use informer_core::{Heap, cache::Indexer};
    ///
    /// let by_key = |key: &String, out: &mut dyn std::fmt::Write| out.write_str(key);
    /// let store: Indexer<String, Heap> = Indexer::with_key_fn(by_key).with_seed(0x5eed);
    /// # assert!(store.is_empty());
    /// ```
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.table.set_seed(derive(seed, 0));
        self.store.postings.set_seed(derive(seed, 1));
        self
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

    /// Returns how many objects there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.store.len
    }

    /// Tells whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.store.len == 0
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

/// The objects of each source and the indexes, over a table that may be shared with a queue.
pub(crate) struct Store<T, S: Storage> {
    indexes: S::Few<Index<T, S>>,
    postings: S::Postings,
    /// The objects of each source.
    lists: S::Few<List>,
    len: usize,
    /// Where the walk that is under way stands, and through the objects of which source.
    walk: Cursor,
    walked: u16,
    /// An object was handed over to another source, and a walk through all sources may have missed it.
    moved: bool,
    /// The indexes that are being built.
    builds: S::Few<Build>,
}

struct Build {
    index: u16,
    /// The source whose objects come after those at the cursor.
    next_source: u16,
    cursor: Cursor,
    /// The queued objects have been given out.
    began: bool,
}

struct Index<T, S: Storage> {
    name: S::Text,
    /// `None` where the values are computed by somebody else, and for the index by namespace.
    function: Option<S::IndexFn<T>>,
}

/// The values of an object that were computed ahead.
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
            // There is one for each of the sources of a cache, for which there is as much room.
            let _ = store.lists.push(List::default());
        }
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

    /// Returns the number of an index that covers all objects.
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

    /// Marks an index as one that does not cover all objects yet.
    pub(crate) fn begin_build(&mut self, index: u16) -> Result<(), IndexError> {
        let build = Build {
            index,
            next_source: 0,
            cursor: Cursor::DONE,
            began: false,
        };
        self.builds.push(build).map_err(|_| IndexError::Full)
    }

    /// Tells whether there is room for another build.
    pub(crate) fn has_room_to_build(&self) -> bool {
        self.builds.as_slice().len() < self.builds.bound()
    }

    /// Tells, once, that an index has begun to be built.
    pub(crate) fn begins_build(&mut self, index: u16) -> bool {
        let mut builds = self.builds.as_mut_slice().iter_mut();
        let build = builds.find(|build| build.index == index);
        build.is_some_and(|build| !core::mem::replace(&mut build.began, true))
    }

    /// Takes the next stored object that was there before the index.
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

    /// Shows an index to readers.
    pub(crate) fn finish_build(&mut self, index: u16) {
        let builds = self.builds.as_slice();
        if let Some(at) = builds.iter().position(|build| build.index == index) {
            self.builds.take(at);
        }
    }

    /// The slots of all objects.
    pub(crate) fn ids<'a>(
        &'a self,
        table: &'a Table<Held<T>, S>,
    ) -> impl Iterator<Item = SlotId> + 'a {
        let lists = self.lists.as_slice().iter();
        lists.flat_map(|&list| table.linked(list))
    }

    /// All objects.
    pub(crate) fn objects<'a>(
        &'a self,
        table: &'a Table<Held<T>, S>,
    ) -> impl Iterator<Item = (SlotId, &'a S::Text, &'a Held<T>)> {
        self.ids(table).filter_map(|id| held(table, id))
    }

    /// The objects of a source.
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

    /// Begins a walk through the objects of a source, and those that it brings meanwhile if it `follows`.
    pub(crate) fn begin_walk(&mut self, source: u16, follows: bool) {
        let list = self.list(source);
        self.walked = source;
        self.walk = if follows {
            Cursor::following(list)
        } else {
            Cursor::of(list)
        };
    }

    /// Tells, once, that an object was handed over to another source.
    pub(crate) const fn take_moved(&mut self) -> bool {
        core::mem::replace(&mut self.moved, false)
    }

    /// Takes the next object of the walk.
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

    /// Makes an object that is as it was one of another source.
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
        // An index that is being built may have passed the end of the list that the object is moved to.
        self.postings
            .set(id, (NAMESPACE, split_key(slot.key.as_ref()).0), values);
        self.unlink(table, id, before);
        self.link(table, id, source);
        self.moved = true;
    }

    /// Takes the object out of a slot; the slot itself stays.
    pub(crate) fn remove(&mut self, table: &mut Table<Held<T>, S>, id: SlotId) -> Option<Held<T>> {
        let held = table.get_mut(id)?.object.take()?;
        self.len -= 1;
        self.unlink(table, id, held.source);
        self.postings.remove(id);
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
                // A value is told where it comes up first: in no earlier object, and at no earlier place in this one.
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
