//! The place of a replica of a controller.

use crate::cache::entry::Key;
use crate::election::{Leadership, Replica};

/// The place of this replica among all, which determines its keys.
#[derive(Clone, Debug)]
pub(super) enum Seat {
    /// The leader has all keys.
    Leader(Leadership),
    /// Each replica has a part of the keys.
    Member(Replica),
}

impl Seat {
    pub(super) fn owns(&self, key: &Key) -> bool {
        match self {
            Self::Leader(leadership) => leadership.is_leader(),
            Self::Member(replica) => replica.owns(key),
        }
    }

    /// Returns whether this replica reconciles keys.
    pub(super) fn is_active(&self) -> bool {
        match self {
            Self::Leader(leadership) => leadership.is_leader(),
            Self::Member(replica) => replica.is_active(),
        }
    }

    /// Returns the identity of the last known leader.
    pub(super) fn leader(&self) -> Option<String> {
        match self {
            Self::Leader(leadership) => leadership.holder(),
            Self::Member(_) => None,
        }
    }

    /// Returns why the Leases cannot be read or written.
    pub(super) fn error(&self) -> Option<String> {
        match self {
            Self::Leader(leadership) => leadership.error(),
            Self::Member(replica) => replica.error(),
        }
    }
}
