//! The indexes of a cache.

use super::Cache;
use super::enqueue::Incoming;
use super::store::{IndexError, Values};
use crate::object::Cached;
use crate::storage::{Payload, Postings, Storage};

impl<T: Cached, S: Storage> Cache<T, S> {
    /// Adds an index whose values are computed by `f`. It includes objects that are already stored or queued.
    ///
    /// # Errors
    /// Fails if the name is taken or there is no room for the index.
    ///
    /// # Panics
    /// Panics if `f` panics.
    pub fn add_index(&mut self, name: &str, f: S::IndexFn<T>) -> Result<(), IndexError> {
        let index = self.store.add(name, Some(f))?;
        self.store.backfill(&self.table, index);
        let (store, table) = (&self.store, &self.table);
        self.queue.for_each_delta(|id, delta| {
            if let (Some(slot), Payload::Object(incoming)) = (table.get(id), &mut delta.payload) {
                let Incoming { object, values, .. } = incoming;
                store.compute(index, slot.key.as_ref(), object, values);
            }
        });
        Ok(())
    }

    /// Computes the values of an object in all indexes that were added with a function.
    ///
    /// # Panics
    /// Panics if an index function panics.
    #[must_use]
    pub fn index_values_of(&self, key: &str, object: &T) -> Values<S> {
        self.store.values(key, object)
    }

    /// Adds an index whose values are passed to [`Cache::apply`], under the returned number. Objects that are already
    /// stored or queued have no values in it: use [`Cache::begin_index`] to include them.
    ///
    /// # Errors
    /// Fails if the name is taken or there is no room for the index.
    pub fn declare_index(&mut self, name: &str) -> Result<u16, IndexError> {
        self.store.add(name, None)
    }

    /// Begins to build an index step by step, so that no lock is held for long, and returns its number.
    ///
    /// From now on, its values are passed to [`Cache::apply`]. [`Cache::next_unindexed`] lends the existing objects,
    /// and [`Cache::add_values`] sets their values. Until [`Cache::finish_index`], readers get
    /// [`IndexError::Building`].
    ///
    /// ```
    /// use informer_core::{Cache, Heap, Object, ResourceVersion, Step, Uid, cache::{CacheConfig, SourceId}, reflector::Change};
    ///
    /// type Pod = Object<&'static str, Box<str>>;
    /// let mut pods: Cache<Pod, Heap> = Cache::new(CacheConfig::default(), 1, 0);
    /// let pod = Object::new(Uid::new("u1"), ResourceVersion::new("5"), "n1");
    /// pods.apply(SourceId::FIRST, Step::object(Change::Listed, "prod/web", pod), &mut ())?;
    ///
    /// let node = pods.begin_index("node")?;
    /// let mut piece = Vec::new();
    /// while pods.next_unindexed(node, 256, |key, pod| piece.push((key.clone(), pod.clone()))) {
    ///     // A runtime releases its lock here, then calls the user-defined function.
    ///     for (key, pod) in piece.drain(..) {
    ///         pods.add_values(&key, node, [*pod.value()], |other| other.resource_version() == pod.resource_version());
    ///     }
    /// }
    /// pods.finish_index(node);
    /// pods.pop();
    /// assert_eq!(pods.by_index("node", "n1")?.count(), 1);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the name is taken or there is no room for the index.
    pub fn begin_index(&mut self, name: &str) -> Result<u16, IndexError> {
        if !self.store.has_room_to_build() {
            return Err(IndexError::Full);
        }
        let index = self.store.add(name, None)?;
        self.store.begin_build(index)?;
        Ok(index)
    }

    /// Lends objects that existed before the index was begun: first all queued ones, then at most `max` stored ones at
    /// a time. Returns `false` when there are no more.
    pub fn next_unindexed(
        &mut self,
        index: u16,
        max: usize,
        mut f: impl FnMut(&S::Text, &T),
    ) -> bool {
        let mut any = false;
        if self.store.take_build_start(index) {
            let table = &self.table;
            self.queue.for_each_delta(|id, delta| {
                if let (Some(slot), Payload::Object(incoming)) = (table.get(id), &delta.payload) {
                    f(&slot.key, &incoming.object);
                    any = true;
                }
            });
        }
        for _ in 0..max {
            let Some(id) = self.store.next_unindexed(&self.table, index) else {
                break;
            };
            if let Some((key, held)) = self.table.entry(id) {
                f(key, &held.object);
                any = true;
            }
        }
        any
    }

    /// Sets values in an index that is being built, for the stored and queued objects of a key for which `is` returns
    /// true.
    pub fn add_values<'v>(
        &mut self,
        key: &str,
        index: u16,
        values: impl IntoIterator<Item = &'v str> + Clone,
        is: impl Fn(&T) -> bool,
    ) {
        let Some(id) = self.table.find(key) else {
            return;
        };
        if (self.table.entry(id)).is_some_and(|(_, held)| is(&held.object)) {
            let values = values.clone().into_iter();
            values.for_each(|value| self.store.add_value(id, index, value));
        }
        for delta in self.queue.deltas_mut(&self.table, id) {
            if let Payload::Object(incoming) = &mut delta.payload
                && is(&incoming.object)
            {
                for value in values.clone() {
                    S::Postings::add_value(&mut incoming.values, index, value);
                }
            }
        }
    }

    /// Makes an index that was built available to readers.
    pub fn finish_index(&mut self, index: u16) {
        self.store.finish_build(index);
    }

    /// Returns the objects that have `value` in an index, with their keys.
    ///
    /// # Errors
    /// Fails if the index does not exist. A value without objects is no error.
    pub fn by_index(
        &self,
        name: &str,
        value: &str,
    ) -> Result<impl Iterator<Item = (&S::Text, &T)>, IndexError> {
        let index = self.store.number(name)?;
        Ok(self
            .store
            .select(&self.table, index, value)
            .map(|(key, held)| (key, &held.object)))
    }

    /// Returns the objects that have each of these values in its index, with their keys: pairs of an index and a value. Only the
    /// objects of the rarest value are visited.
    ///
    /// # Errors
    /// Fails if an index does not exist. A value without objects is no error.
    pub fn by_indexes(
        &self,
        values: &[(&str, &str)],
    ) -> Result<impl Iterator<Item = (&S::Text, &T)>, IndexError> {
        let found = self.store.select_all(&self.table, values)?;
        Ok(found.map(|(key, held)| (key, &held.object)))
    }

    /// Calls `f` once for each value that any object has in an index.
    pub fn index_values(&self, name: &str, mut f: impl FnMut(&str)) {
        if let Ok(index) = self.store.number(name) {
            self.store.each_index_value(&self.table, index, &mut f);
        }
    }
}
