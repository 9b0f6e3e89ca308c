//! Entries: objects of the cache as users get them.

use core::borrow::Borrow;
use core::fmt;
use core::ops::Deref;
use core::str::FromStr;
use std::sync::Arc;

use informer_core::storage::Text;
use informer_core::{
    Form, Heap, Object, ResourceVersion, Uid, json,
    object::{Cached, split_key},
    selector::Labels,
};

use crate::cache::hashes::{Hashes, beside_status};
use crate::cache::heap::HeapId;

/// The storage of a cache on tokio. Keys are shared with the entries that users hold.
pub(crate) type Store = Heap<Key>;

/// The key of an object: `namespace/name`, or `name`. It is cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// Creates a key from its text.
    #[must_use]
    pub fn new(key: &str) -> Self {
        Self(key.into())
    }

    /// Returns the key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the cluster, if the object came from one of [several](crate::factory::Factory::of_clusters), and
    /// otherwise an empty string. Such a key is `cluster:namespace/name`, or `cluster:/name`.
    ///
    /// ```
    /// use informer_tokio::Key;
    /// let key = Key::new("eu:prod/web");
    /// assert_eq!((key.cluster(), key.namespace(), key.name()), ("eu", "prod", "web"));
    /// assert_eq!(Key::new("system:node").cluster(), "", "a colon in a name");
    /// ```
    #[must_use]
    pub fn cluster(&self) -> &str {
        place(&self.0).0
    }

    /// Returns the namespace, or an empty string for a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> &str {
        place(&self.0).1
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        split_key(&self.0).1
    }
}

/// Returns the cluster and the namespace of a key.
pub(crate) fn place(key: &str) -> (&str, &str) {
    let (place, _) = split_key(key);
    place.split_once(':').unwrap_or(("", place))
}

/// Returns the key of an object in one of several clusters.
pub(crate) fn in_cluster(cluster: &str, key: &str) -> String {
    let slash = if key.contains('/') { "" } else { "/" };
    format!("{cluster}:{slash}{key}")
}

impl Text for Key {
    fn try_from_str(text: &str) -> Option<Self> {
        Some(Self::new(text))
    }
}

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// A map with keys can be read by texts.
///
/// ```
/// use std::collections::HashMap;
/// use informer_tokio::Key;
/// let nodes = HashMap::from([(Key::new("prod/web"), "n1")]);
/// assert_eq!(nodes["prod/web"], "n1");
/// ```
impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl serde::Serialize for Key {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// ```
/// use informer_tokio::Key;
/// let key: Key = "prod/web".parse()?;
/// assert_eq!(key, Key::new("prod/web"));
/// assert!("prod/web/status".parse::<Key>().is_err());
/// # Ok::<(), informer_tokio::InvalidKey>(())
/// ```
impl FromStr for Key {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let (_, name) = split_key(text);
        if name.is_empty() || name.contains('/') || text.starts_with('/') {
            return Err(InvalidKey(text.to_owned()));
        }
        Ok(Self::new(text))
    }
}

/// A text is not the key of an object.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a key: write `name`, `namespace/name`, `cluster:/name` or `cluster:namespace/name`"
)]
pub struct InvalidKey(String);

informer_core::readable_errors!(InvalidKey);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A shared object in the cache.
pub(crate) struct SharedObject<V>(Arc<Counted<V>>);

struct Counted<V> {
    object: Object<V, Key>,
    /// The length of its JSON, in bytes.
    bytes: u32,
    heap: HeapId,
    is_from_watch: bool,
    /// `None` if no predicate had asked for them when the object was decoded.
    hashes: Option<Box<Hashes>>,
}

impl<V> SharedObject<V> {
    /// Shares an object that a list, or an event of a watch, has brought with this number of bytes.
    pub(crate) fn new(
        object: Object<V, Key>,
        bytes: usize,
        is_from_watch: bool,
        hashes: Option<Hashes>,
    ) -> Self {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Self(Arc::new(Counted {
            object,
            bytes,
            heap: HeapId::of_thread(),
            is_from_watch,
            hashes: hashes.map(Box::new),
        }))
    }

    /// Returns the heap of the thread that decoded it.
    pub(crate) fn heap(&self) -> HeapId {
        self.0.heap
    }

    /// Returns whether nobody else has the object, so that dropping this frees its memory.
    pub(crate) fn is_last(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    pub(crate) fn value(&self) -> &V {
        self.object().value()
    }

    pub(crate) fn version(&self) -> &ResourceVersion<Key> {
        self.object().resource_version()
    }

    pub(crate) fn uid(&self) -> &Uid<Key> {
        self.object().uid()
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn object(&self) -> &Object<V, Key> {
        &self.0.object
    }
}

impl<V> Clone for SharedObject<V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<V> fmt::Debug for SharedObject<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.object().resource_version())
    }
}

impl<V> Cached for SharedObject<V> {
    fn same_version(&self, other: &Self) -> bool {
        self.object().same_version(other.object())
    }

    fn is_another(&self, other: &Self) -> bool {
        self.object().is_another(other.object())
    }

    fn is_older(&self, other: &Self) -> bool {
        self.object().is_older(other.object())
    }

    fn bytes(&self) -> usize {
        self.0.bytes as usize
    }
}

/// An object of the cache with its identity. It is immutable, cheap to clone, and dereferences to the value that the
/// decoder stored.
///
/// Holding an entry keeps its object in memory, even after the cache has a newer state.
///
/// ```
/// # fn example(pod: informer_tokio::Entry<informer_tokio::Raw>) {
/// println!("{pod} at {}", pod.resource_version());
/// let json: &informer_tokio::Raw = &pod; // The value that the decoder stored.
/// # }
/// ```
pub struct Entry<F: Form> {
    key: Key,
    object: SharedObject<F::Stored>,
}

impl<F: Form> Entry<F> {
    pub(crate) const fn new(key: Key, object: SharedObject<F::Stored>) -> Self {
        Self { key, object }
    }

    /// Returns what predicates compare, if one had asked for it when the object was decoded.
    pub(crate) fn hashes(&self) -> Option<&Hashes> {
        self.object.0.hashes.as_deref()
    }

    /// Returns whether an event of a watch has brought this state.
    pub(crate) fn is_from_watch(&self) -> bool {
        self.object.0.is_from_watch
    }

    pub(crate) fn version(&self) -> &ResourceVersion<Key> {
        self.object.version()
    }

    /// Returns whether both states are known to differ in nothing but their status.
    pub(crate) fn is_as_beside_status(&self, other: &Self) -> bool {
        let beside = |entry: &Self| match entry.hashes() {
            Some(hashes) => hashes.beside_status,
            None => {
                let mut beside = None;
                F::with_json(entry.value(), &mut |json| beside = beside_status(json));
                beside
            }
        };
        beside(self).is_some_and(|one| beside(other) == Some(one))
    }

    pub(crate) fn into_object(self) -> SharedObject<F::Stored> {
        self.object
    }

    /// Returns the key.
    #[must_use]
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the namespace, or an empty string for a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.key.namespace()
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key.name()
    }

    /// Returns the resourceVersion.
    #[must_use]
    pub fn resource_version(&self) -> &(impl fmt::Display + PartialEq + use<F>) {
        self.object.object().resource_version()
    }

    /// Returns the uid.
    #[must_use]
    pub fn uid(&self) -> &(impl fmt::Display + PartialEq + use<F>) {
        self.object.object().uid()
    }

    /// Returns the value that the decoder stored.
    #[must_use]
    pub fn value(&self) -> &F::Stored {
        self.object.value()
    }

    /// Returns whether both entries are the same state of one object. An update between two such entries is a replay.
    ///
    /// ```
    /// # fn example(old: informer_tokio::Entry<informer_tokio::Raw>, new: informer_tokio::Entry<informer_tokio::Raw>) {
    /// if !new.is_same_state(&old) {
    ///     println!("{new} has changed");
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn is_same_state(&self, other: &Self) -> bool {
        self.object.is(&other.object)
            || (self.key == other.key && self.object.same_version(&other.object))
    }
}

impl<F: Form> Entry<F> {
    /// Returns the value of a label, if the form stores labels.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<String> {
        let mut found = None;
        labels_of::<F>(self.value(), key, &mut |value| {
            found = value.map(str::to_owned);
        });
        found
    }

    /// Returns the string at a path. `None` if the object is not stored as JSON (packed or not), or if there is no
    /// string.
    #[must_use]
    pub fn string_at(&self, path: &[&str]) -> Option<String> {
        let mut found = None;
        F::with_json(self.value(), &mut |whole| {
            let text = json::value_at(whole, path).and_then(json::as_str);
            found = text.map(|text| text.to_string());
        });
        found
    }

    /// Returns the JSON of the value at a path, if the object is stored as JSON. A number in the path is an index into
    /// an array.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&[u8]> {
        json::value_at(F::json(self.value())?, path)
    }
}

impl<F: Form> Labels for Entry<F> {
    fn label(&self, key: &str, f: &mut dyn FnMut(Option<&str>)) {
        labels_of::<F>(self.value(), key, f);
    }
}

/// Calls `f` with the value of a label, without allocating if the text has no escapes.
fn labels_of<F: Form>(stored: &F::Stored, key: &str, f: &mut dyn FnMut(Option<&str>)) {
    // `f` is called exactly once, even without labels.
    let mut asked = false;
    F::with_labels(stored, &mut |labels| {
        asked = true;
        match json::value_at(labels, &[key]).and_then(json::as_str) {
            None => f(None),
            Some(text) => match text.as_plain() {
                Some(plain) => f(Some(plain)),
                None => f(Some(&text.to_string())),
            },
        }
    });
    if !asked {
        f(None);
    }
}

impl<F: Form> Deref for Entry<F> {
    type Target = F::Stored;

    fn deref(&self) -> &F::Stored {
        self.value()
    }
}

impl<F: Form> Clone for Entry<F> {
    fn clone(&self) -> Self {
        Self {
            key: self.key.clone(),
            object: self.object.clone(),
        }
    }
}

/// Writes the key.
impl<F: Form> fmt::Display for Entry<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

/// Writes the key, the version and the size of the JSON.
impl<F: Form> fmt::Debug for Entry<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{:?} ({} bytes)",
            self.key, self.object, self.object.0.bytes
        )
    }
}
