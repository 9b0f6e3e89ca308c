//! The state from which a reflector starts after a restore from a journal.

use crate::object::ResourceVersion;

/// The state that a journal restored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restored<X> {
    /// The version from which a watch can be [resumed](crate::Reflector::resume).
    pub version: ResourceVersion<X>,
    /// The time at which this version was reached, in milliseconds since 1970, if known. Later changes may be missing
    /// from the cache.
    pub at: Option<u64>,
    /// Whether all objects were restored. If not, a list is needed.
    pub complete: bool,
}
