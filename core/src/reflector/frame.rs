//! The frames that a reflector finds in an answer.

use crate::decode::RawObject;
use crate::object::ResourceVersion;
use crate::report::Report;
use crate::wire::FrameProblem;

/// One element of an answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Frame<'a, X> {
    /// A list or a streaming list begins. After an interruption, it begins again.
    Begin,
    /// An object.
    Object(ObjectFrame<'a>),
    /// The version advanced without a change.
    Bookmark {
        /// The new version.
        version: &'a ResourceVersion<X>,
    },
    /// The list is complete: objects that it did not contain are deleted.
    Complete {
        /// The version of the list.
        version: &'a ResourceVersion<X>,
    },
    /// A report for the user; reading continues.
    Report(Report<'a>),
    /// A frame that only the reflector needs.
    Internal,
}

/// An object in an answer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ObjectFrame<'a> {
    /// The change of the object.
    pub change: Change,
    /// The key of the object.
    pub key: &'a str,
    /// The object. If there is a problem, it may be truncated.
    pub raw: RawObject<'a>,
    /// The reason why it cannot be used.
    pub problem: Option<FrameProblem>,
}

/// The change of an object, as a list or a watch states it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Change {
    /// A list contains it.
    Listed,
    /// A watch event: it was added.
    Added,
    /// A watch event: it was modified.
    Modified,
    /// A watch event: it was deleted.
    Deleted,
}
