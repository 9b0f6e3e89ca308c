//! The reasons why a frame is unusable.

use core::fmt;

/// The maximum total size of the parts of an identity, in bytes.
///
/// The longest identity that Kubernetes allows takes 760: a name of 253, a namespace of 63, a uid of 36, a
/// resourceVersion of 20, a kind of 63, an apiVersion of 317, and the 8 of an event's type.
pub(super) const ROOM: usize = 768;

/// The reason why a frame is unusable, although later frames are not affected.
///
/// If there are several reasons, the first in this order is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameProblem {
    /// It exceeds the limit; the part up to the limit is delivered.
    TooLarge {
        /// The size of the complete frame in bytes.
        size: u64,
        /// The limit in bytes.
        limit: usize,
    },
    /// It exceeds the limit, and its identity is longer than the framer supports, which is more than Kubernetes allows.
    /// The change cannot be applied to any object.
    Unidentifiable {
        /// The size of the complete frame in bytes.
        size: u64,
        /// The limit in bytes.
        limit: usize,
    },
    /// It is nested more than 128 levels deep, including the containers around
    /// it.
    TooDeep,
    /// It is not UTF-8.
    NotUtf8,
    /// Its protobuf is malformed.
    Malformed,
}

impl fmt::Display for FrameProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { size, limit } => {
                write!(f, "{size} bytes, more than the limit of {limit}")
            }
            Self::Unidentifiable { size, limit } => write!(
                f,
                "{size} bytes, more than the limit of {limit}, and its identity exceeds {} bytes, so the change is lost",
                ROOM
            ),
            Self::TooDeep => f.write_str("nested too deeply"),
            Self::NotUtf8 => f.write_str("not UTF-8"),
            Self::Malformed => f.write_str("malformed protobuf"),
        }
    }
}
