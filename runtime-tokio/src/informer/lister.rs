//! Read access to the cache.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use informer_core::{Form, OwnedResource, cache::IndexError, selector::LabelSelector};

use crate::cache::entry::{Entry, Key};
use crate::cache::shared::Inner;
use crate::cache::users::Users;
use crate::health::error::ReadError;

/// Reads the cache of an informer. It never sends a request, and never waits for the network or for parsing.
///
/// It is cheap to clone. It returns entries, which are immutable.
pub struct Lister<F: Form>(Arc<Inner<F::Stored>>, Option<Arc<Users>>);

impl<F: Form> Lister<F> {
    pub(crate) const fn new(inner: Arc<Inner<F::Stored>>, in_use: Option<Arc<Users>>) -> Self {
        Self(inner, in_use)
    }

    /// Returns a lister that does not keep a shared informer running.
    pub(crate) fn uncounted(&self) -> Self {
        Self(Arc::clone(&self.0), None)
    }

    /// Returns the key of some object; `None` if there are none.
    pub(crate) fn any_key(&self) -> Option<Key> {
        let cache = self.0.cache();
        let first = cache.iter().next();
        first.map(|(key, _)| key.clone())
    }

    /// Returns whether the informer would show an object with this key; `None` if that depends on its labels, fields or
    /// shard.
    pub(crate) fn selects(&self, key: &str) -> Option<bool> {
        let selects = self
            .0
            .each_source(|_, source| source.has(key).then_some(source.is_part));
        let mut parts = selects.into_iter().flatten();
        match parts.next() {
            None => Some(false),
            Some(false) => Some(true),
            Some(true) => None,
        }
    }

    /// Calls a user-defined function, whose panic is reported.
    pub(crate) fn hook(&self, name: &'static str, call: impl FnOnce()) {
        self.0.hook(name, call);
    }

    pub(crate) fn resource(&self) -> &OwnedResource {
        &self.0.resource
    }

    /// Returns an object by namespace and name. The namespace is empty for a cluster-scoped object.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<Entry<F>> {
        if namespace.is_empty() {
            return self.get_by_key(name);
        }
        self.get_by_key(&format!("{namespace}/{name}"))
    }

    /// Returns an object by its key: `namespace/name`, or `name`.
    #[must_use]
    pub fn get_by_key(&self, key: &str) -> Option<Entry<F>> {
        let cache = self.0.cache();
        let (key, object) = cache.entry(key)?;
        Some(Entry::new(key.clone(), object.clone()))
    }

    /// Returns an object like [`get`](Self::get). `None` means that the informer selects no such object.
    ///
    /// ```
    /// # fn find(pods: informer_tokio::Lister<informer_tokio::Raw>) {
    /// match pods.try_get("prod", "web") {
    ///     Ok(Some(pod)) => println!("{pod}"),
    ///     Ok(None) => println!("there is none that the informer selects"),
    ///     Err(error) => println!("{error}"), // pods.v1 does not watch the namespace of prod/web: …
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if the informer does not watch the namespace, or has not had a list of it since it was started.
    pub fn try_get(&self, namespace: &str, name: &str) -> Result<Option<Entry<F>>, ReadError> {
        let key = match namespace {
            "" => Key::new(name),
            namespace => Key::new(&format!("{namespace}/{name}")),
        };
        let listed = self
            .0
            .each_source(|_, source| source.has(key.as_str()).then_some(source.is_complete));
        let mut listed = listed.into_iter().flatten().peekable();
        let informer = || self.0.name.clone();
        if listed.peek().is_none() {
            let informer = informer();
            return Err(ReadError::NotWatched { informer, key });
        }
        // Of several shards, the object may be in any.
        if !listed.all(|is_listed| is_listed) {
            let informer = informer();
            return Err(ReadError::NotListed { informer, key });
        }
        Ok(self.get_by_key(key.as_str()))
    }

    /// Checks that the cache has lacked no change for longer than this; see
    /// [`Health::staleness`](crate::health::Health::staleness).
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use informer_tokio::informer::ReadError;
    /// # fn free(quotas: informer_tokio::Lister<informer_tokio::Raw>) -> Result<bool, ReadError> {
    /// // An idle watch receives a bookmark about once a minute.
    /// quotas.check_staleness(Duration::from_secs(120))?;
    /// Ok(quotas.get("prod", "used").is_none())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if the cache may be older, or if that is not known.
    pub fn check_staleness(&self, limit: Duration) -> Result<(), ReadError> {
        self.0.check_staleness(limit)
    }

    /// Returns all objects, in no particular order.
    #[must_use]
    pub fn list(&self) -> Vec<Entry<F>> {
        let cache = self.0.cache();
        let mut entries = Vec::with_capacity(cache.len());
        entries.extend(
            cache
                .iter()
                .map(|(key, object)| Entry::new(key.clone(), object.clone())),
        );
        entries
    }

    /// Returns the objects of a namespace, in no particular order.
    #[must_use]
    pub fn list_in(&self, namespace: &str) -> Vec<Entry<F>> {
        // The index by namespace always exists.
        self.by_index(informer_core::cache::NAMESPACE_INDEX, namespace)
            .unwrap_or_default()
    }

    /// Returns the objects that have `value` in an index, in no particular order.
    ///
    /// # Errors
    /// Fails if the index does not exist. A value without objects is not an error.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Entry<F>>, IndexError> {
        let cache = self.0.cache();
        let found = cache.by_index(name, value)?;
        Ok(found
            .map(|(key, object)| Entry::new(key.clone(), object.clone()))
            .collect())
    }

    /// Returns the objects that have each of these values in its index, in no particular order: pairs of an index and a
    /// value. The index `namespace` always exists. All objects have no values at all.
    ///
    /// ```
    /// # fn find(pods: informer_tokio::Lister<informer_tokio::Raw>) -> Result<(), informer_tokio::informer::IndexError> {
    /// let running = pods.by_indexes(&[("node", "n1"), ("phase", "Running"), ("namespace", "prod")])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if an index does not exist. A value without objects is not an error.
    pub fn by_indexes(&self, values: &[(&str, &str)]) -> Result<Vec<Entry<F>>, IndexError> {
        if values.is_empty() {
            return Ok(self.list());
        }
        let cache = self.0.cache();
        let found = cache.by_indexes(values)?;
        Ok(found
            .map(|(key, object)| Entry::new(key.clone(), object.clone()))
            .collect())
    }

    /// Returns the distinct values of an index, in no particular order.
    #[must_use]
    pub fn index_values(&self, name: &str) -> Vec<String> {
        let mut values = Vec::new();
        self.0
            .cache()
            .index_values(name, |value| values.push(value.to_owned()));
        values
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.cache().len()
    }

    /// Returns whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the objects whose labels match a selector, in no particular order. Objects have no labels if the form
    /// does not store them.
    ///
    /// ```
    /// use informer_tokio::{Lister, Raw};
    /// use informer_tokio::selector::LabelSelector;
    /// # fn find(pods: Lister<Raw>) -> Result<(), Box<dyn std::error::Error>> {
    /// let web = pods.select(&LabelSelector::parse("app=web,tier in (front,back)")?);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn select(&self, selector: &LabelSelector) -> Vec<Entry<F>> {
        matching(self.list(), selector)
    }

    /// Returns the objects of a namespace whose labels match a selector, in no particular order.
    #[must_use]
    pub fn select_in(&self, namespace: &str, selector: &LabelSelector) -> Vec<Entry<F>> {
        matching(self.list_in(namespace), selector)
    }
}

/// Selects outside of the lock.
fn matching<F: Form>(mut entries: Vec<Entry<F>>, selector: &LabelSelector) -> Vec<Entry<F>> {
    if !selector.is_everything() {
        entries.retain(|entry| selector.matches(entry));
    }
    entries
}

impl<F: Form> Clone for Lister<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0), self.1.clone())
    }
}

impl<F: Form> fmt::Debug for Lister<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lister")
            .field("name", &self.0.name)
            .finish_non_exhaustive()
    }
}
