//! An object as the cache holds it.

mod expected;
mod key;
mod version;

pub use expected::ExpectedState;
pub(crate) use key::{KeyBuf, MAX_KEY, store_key};
pub use key::{KeyError, KeyFn, Keyed, split_key};
pub use version::{ResourceVersion, Uid};

use core::fmt;

use crate::storage::Text;

/// What a cache has to know of the objects in it.
///
/// [`Object`] implements it; so does a runtime's shared handle on one.
pub trait Cached {
    /// Tells whether both are the same state of one object: both have a resourceVersion, and the same one.
    fn same_version(&self, other: &Self) -> bool;
    /// Tells whether one was deleted and the other created under the same name: both have a uid, and not the same one.
    fn is_another(&self, other: &Self) -> bool;

    /// Returns how many bytes the object counts for in [`Cache::bytes`](crate::Cache::bytes); 0 where that is not known.
    fn bytes(&self) -> usize {
        0
    }
}

/// An object: which one it is, at which version, and what the decoder kept of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Object<V, X> {
    uid: Uid<X>,
    version: ResourceVersion<X>,
    value: V,
}

impl<V, X: Text> Object<V, X> {
    /// Makes an object of its parts.
    #[must_use]
    pub const fn new(uid: Uid<X>, version: ResourceVersion<X>, value: V) -> Self {
        Self {
            uid,
            version,
            value,
        }
    }

    /// Returns what the decoder kept.
    #[must_use]
    pub const fn value(&self) -> &V {
        &self.value
    }

    /// Returns the uid.
    #[must_use]
    pub const fn uid(&self) -> &Uid<X> {
        &self.uid
    }

    /// Returns the resourceVersion.
    #[must_use]
    pub const fn resource_version(&self) -> &ResourceVersion<X> {
        &self.version
    }
}

impl<V, X: Text + PartialEq> Cached for Object<V, X> {
    fn same_version(&self, other: &Self) -> bool {
        self.version.is_known() && self.version == other.version
    }

    fn is_another(&self, other: &Self) -> bool {
        self.uid.is_known() && other.uid.is_known() && self.uid != other.uid
    }
}

impl<V: fmt::Debug, X: Text> fmt::Debug for Object<V, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{} {:?}", self.version, self.value)
    }
}
