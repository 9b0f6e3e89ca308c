//! The Indexer: objects by key, with named indexes.

use core::fmt;

use super::queue::KnownObjects;
use super::store::{Held, IndexError, Store, Values};
use crate::object::{KeyBuf, KeyError, KeyFn};
use crate::storage::table::Table;
use crate::storage::{DeltaKind, Deltas, Payload, Postings, Storage, derive};

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
        self.store.len()
    }

    /// Returns whether the store has no objects.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.store.len() == 0
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
                if let Some((_, held)) = self.table.entry(id) {
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
        self.store.index_names()
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

#[cfg(test)]
mod tests;
