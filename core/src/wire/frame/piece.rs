//! The parts of a response body.

use core::fmt;

use crate::wire::Format;
use crate::wire::identity::ObjectIdentity;

/// A part of a response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Piece<'a> {
    /// An element of the `items` of a list.
    Item {
        /// The format of the bytes.
        format: Format,
        /// The object; truncated with [`FrameProblem::TooLarge`].
        bytes: &'a [u8],
        /// The problem, if it is unusable.
        problem: Option<FrameProblem>,
        /// The identity of the object, if it exceeds the limit; otherwise it is in the bytes.
        identity: Option<&'a ObjectIdentity>,
    },
    /// Another member of the list itself.
    Member {
        /// The name of the member.
        name: ListMember,
        /// The format of its value.
        format: Format,
        /// Its value.
        bytes: &'a [u8],
    },
    /// An event of a watch.
    Event {
        /// The format of the bytes.
        format: Format,
        /// The event; truncated with [`FrameProblem::TooLarge`]. In protobuf, the object alone if there is an identity.
        bytes: &'a [u8],
        /// The problem, if it is unusable.
        problem: Option<FrameProblem>,
        /// The identity of the event and its object, if it exceeds the limit; otherwise it is in the bytes.
        identity: Option<&'a ObjectIdentity>,
    },
    /// The end of a list; nothing that matters may follow.
    End,
}

/// The members of a list other than `items`, and of a `Status` in its place, that are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListMember {
    /// The kind of the list, or `Status`.
    Kind,
    /// Group and version.
    ApiVersion,
    /// Resource version and paging of the list.
    Metadata,
    /// `Success` or `Failure`.
    Status,
    /// The error message, for people.
    Message,
    /// The error reason, in one word.
    Reason,
    /// The error code, an HTTP status code.
    Code,
    /// Details of the error.
    Details,
    /// Kind and API version in protobuf.
    TypeMeta,
}

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
                crate::wire::identity::ROOM
            ),
            Self::TooDeep => f.write_str("nested too deeply"),
            Self::NotUtf8 => f.write_str("not UTF-8"),
            Self::Malformed => f.write_str("malformed protobuf"),
        }
    }
}
