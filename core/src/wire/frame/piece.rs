//! The parts of a response body.

use crate::wire::identity::ObjectIdentity;
use crate::wire::{Format, FrameProblem};

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
