//! Where a reflector begins whose objects came from a journal.

use crate::object::ResourceVersion;

/// What was restored.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Restored<X> {
    /// The version, at which a watch can be [resumed](crate::Reflector::resuming_at).
    pub version: ResourceVersion<X>,
    /// When it was reached, in milliseconds since 1970, where that is known: since then the cache may be stale.
    pub at: Option<u64>,
    /// Whether all objects were there; where not, a list is needed.
    pub complete: bool,
}
