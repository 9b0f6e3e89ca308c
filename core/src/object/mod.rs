//! Objects, keys and versions as a cache stores them.

mod expected;
mod key;
mod version;

pub use expected::ExpectedState;
pub(crate) use key::{KeyBuf, KeyFn};
pub use key::{KeyError, MAX_KEY, split_key};
pub use version::{ResourceVersion, Uid};

use core::cmp::Ordering;
use core::fmt;

use crate::storage::Text;

/// The comparisons that a cache needs of its objects.
///
/// [`Object`] implements it, and so does a runtime's shared handle to an object.
pub trait Cached {
    /// Returns whether both are the same state of one object: both have a resourceVersion, and the versions are equal.
    fn same_version(&self, other: &Self) -> bool;
    /// Returns whether the two are different objects under the same name: both have a uid, and the uids differ.
    fn is_another(&self, other: &Self) -> bool;

    /// Returns whether the resourceVersion is known to be older than that of `other`.
    fn is_older(&self, other: &Self) -> bool {
        let _ = other;
        false
    }

    /// Returns the size of the object in bytes, as counted by [`Cache::bytes`](crate::Cache::bytes); 0 if unknown.
    fn bytes(&self) -> usize {
        0
    }
}

/// An object as stored: its uid, its resourceVersion, and the value that the decoder produced.
#[derive(Clone, PartialEq, Eq)]
pub struct Object<V, X> {
    uid: Uid<X>,
    version: ResourceVersion<X>,
    value: V,
}

impl<V, X: Text> Object<V, X> {
    /// Creates an object from its parts.
    #[must_use]
    pub const fn new(uid: Uid<X>, version: ResourceVersion<X>, value: V) -> Self {
        Self {
            uid,
            version,
            value,
        }
    }

    /// Returns the decoded value.
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

    fn is_older(&self, other: &Self) -> bool {
        self.version.compare(&other.version) == Some(Ordering::Less)
    }
}

impl<V: fmt::Debug, X: Text> fmt::Debug for Object<V, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{} {:?}", self.version, self.value)
    }
}
