//! What a reflector finds in the bytes that it is given.

use crate::decode::RawObject;
use crate::object::ResourceVersion;
use crate::report::Report;
use crate::wire::FrameProblem;

/// One thing found in an answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Frame<'a, X> {
    /// A complete picture begins: a list, or a streaming list. One that was cut begins again.
    Begin,
    /// An object.
    Object(ObjectFrame<'a>),
    /// The version moved on without a change.
    Bookmark {
        /// The version reached.
        version: &'a ResourceVersion<X>,
    },
    /// The picture that began is complete: what it did not name is gone.
    Complete {
        /// The version reached.
        version: &'a ResourceVersion<X>,
    },
    /// Something the user should hear of; the stream goes on.
    Report(Report<'a>),
    /// Something that concerns the reflector alone.
    Internal,
}

/// An object in an answer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ObjectFrame<'a> {
    /// What is said of it.
    pub change: Change,
    /// The object. Where there is a problem it may be only its beginning.
    pub raw: RawObject<'a>,
    /// Why it cannot be used.
    pub problem: Option<FrameProblem>,
}

/// What is said of an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Change {
    /// A list names it.
    Listed,
    /// A watch says it is new.
    Added,
    /// A watch says it changed.
    Modified,
    /// A watch says it is gone.
    Deleted,
}
