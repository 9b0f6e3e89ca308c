//! The objects of a cache or an indexer, with their indexes, over a table of keys.

use core::fmt;

use crate::object::split_key;
use crate::storage::table::{Cursor, List, Table};
use crate::storage::{Few, Postings, SlotId, Storage, Text, derive};

/// The name of the namespace index, which every indexer has. An object without a namespace has the value `""`.
pub const NAMESPACE_INDEX: &str = "namespace";

/// The number of the namespace index.
pub(crate) const NAMESPACE: u16 = 0;

/// The objects of each source and the indexes, over a table that may be shared with a queue.
pub(crate) struct Store<T, S: Storage> {
    indexes: S::Few<Index<T, S>>,
    pub(super) postings: S::Postings,
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

struct Index<T, S: Storage> {
    name: S::Text,
    /// `None` for the namespace index, and if the values are computed outside of the cache.
    function: Option<S::IndexFn<T>>,
}

struct Build {
    index: u16,
    /// The source to visit after the list at the cursor.
    next_source: u16,
    cursor: Cursor,
    /// The queued objects have been visited.
    began: bool,
}

/// The precomputed index values of an object.
pub type Values<S> = <<S as Storage>::Postings as Postings>::Values;

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

impl<T> Held<T> {
    pub(super) const fn new(object: T) -> Self {
        Self {
            object,
            source: 0,
            stale: false,
            notified: false,
            changed: 0,
        }
    }
}

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
    pub(crate) fn move_to_source(
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

    pub(crate) const fn len(&self) -> usize {
        self.len
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
        self.ids(table).filter_map(|id| entry(table, id))
    }

    /// Returns the objects of a source.
    pub(crate) fn objects_of<'a>(
        &'a self,
        table: &'a Table<Held<T>, S>,
        source: u16,
    ) -> impl Iterator<Item = (SlotId, &'a S::Text, &'a Held<T>)> {
        let ids = table.linked(self.list(source));
        ids.filter_map(|id| entry(table, id))
    }

    fn list(&self, source: u16) -> List {
        let list = self.lists.as_slice().get(usize::from(source));
        list.copied().unwrap_or_default()
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
}

/// The indexes.
impl<T, S: Storage> Store<T, S> {
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

    pub(super) fn index_names(&self) -> impl Iterator<Item = &str> {
        let indexes = self.indexes.as_slice().iter();
        indexes.map(|index| index.name.as_ref())
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

    /// Returns the objects that have `value` in an index.
    pub(crate) fn select<'a>(
        &'a self,
        table: &'a Table<Held<T>, S>,
        index: u16,
        value: &str,
    ) -> impl Iterator<Item = (&'a S::Text, &'a Held<T>)> {
        let ids = self.ids_with(table, index, value);
        ids.filter_map(move |id| table.entry(id))
    }

    /// Returns the objects that have each of these values in its index.
    pub(crate) fn select_all<'a>(
        &'a self,
        table: &'a Table<Held<T>, S>,
        values: &[(&str, &str)],
    ) -> Result<impl Iterator<Item = (&'a S::Text, &'a Held<T>)>, IndexError> {
        let mut rarest: Option<(usize, u16, &str)> = None;
        for (name, value) in values {
            let index = self.number(name)?;
            let count = self.postings.slots_with(index, value).len();
            if rarest.is_none_or(|(least, ..)| count < least) {
                rarest = Some((count, index, *value));
            }
        }
        let ids = rarest.into_iter();
        let ids = ids.flat_map(|(_, index, value)| self.ids_with(table, index, value));
        let ids = ids.filter(move |&id| {
            values.iter().all(|(name, value)| {
                let index = self.declared(name);
                index.is_ok_and(|index| self.has_value(table, id, index, value))
            })
        });
        Ok(ids.filter_map(move |id| table.entry(id)))
    }

    fn ids_with<'a>(
        &'a self,
        table: &'a Table<Held<T>, S>,
        index: u16,
        value: &str,
    ) -> impl Iterator<Item = SlotId> {
        // Depending on the storage, only one of the two iterators has elements.
        let listed = self.postings.slots_with(index, value).iter().copied();
        let scanned = self
            .ids(table)
            .take(if S::Postings::SCANS { self.len } else { 0 });
        let scanned = scanned.filter(move |&id| self.has_value(table, id, index, value));
        listed.chain(scanned)
    }

    fn has_value(&self, table: &Table<Held<T>, S>, id: SlotId, index: u16, value: &str) -> bool {
        if !S::Postings::SCANS {
            return self.postings.has(id, index, value);
        }
        let Some((key, held)) = table.entry(id) else {
            return false;
        };
        let mut has = false;
        self.each_value(index, key.as_ref(), &held.object, &mut |v| {
            has |= v == value;
        });
        has
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

    /// Calls `f` with each value of an object in an index.
    pub(super) fn each_value(&self, index: u16, key: &str, object: &T, f: &mut dyn FnMut(&str)) {
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
                if let Some((_, held)) = table.entry(id) {
                    f(&held.object, &mut |value| {
                        self.postings.add(id, index, value);
                    });
                }
            }
        }
    }
}

/// Indexes that are built while the cache is in use.
impl<T, S: Storage> Store<T, S> {
    /// Returns whether another index can be built at the same time.
    pub(crate) fn has_room_to_build(&self) -> bool {
        self.builds.as_slice().len() < self.builds.bound()
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

    /// Returns true once when an index has begun to be built.
    pub(crate) fn take_build_start(&mut self, index: u16) -> bool {
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

    /// Adds a value of an object to an index that is newer than the object.
    pub(crate) fn add_value(&mut self, id: SlotId, index: u16, value: &str) {
        self.postings.add(id, index, value);
    }

    /// Makes an index available to readers.
    pub(crate) fn finish_build(&mut self, index: u16) {
        let builds = self.builds.as_slice();
        if let Some(at) = builds.iter().position(|build| build.index == index) {
            self.builds.take(at);
        }
    }
}

/// Walks over all objects, during which objects may change.
impl<T, S: Storage> Store<T, S> {
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
    pub(crate) fn next_in_walk(&mut self, table: &Table<Held<T>, S>) -> Option<SlotId> {
        table.advance(&mut self.walk)
    }
}

fn entry<T, S: Storage>(
    table: &Table<Held<T>, S>,
    id: SlotId,
) -> Option<(SlotId, &S::Text, &Held<T>)> {
    let (key, held) = table.entry(id)?;
    Some((id, key, held))
}
