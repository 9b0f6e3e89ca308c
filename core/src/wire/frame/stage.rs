//! The position of the framer in a body, and what it finds there.

use super::ListMember;
use crate::wire::FrameProblem;
use crate::wire::identity::KeyText;

/// The structure of a response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FramerMode {
    /// One object with the member `items`, whose elements are delivered one by one.
    List,
    /// A sequence of objects.
    Watch,
}

/// The position of the framer in the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before the list or an event.
    Start,
    /// In the list, between members.
    Between,
    /// In the key of a member of the list.
    Key,
    /// Between such a key and its value.
    Named(Name),
    /// In `items`, between elements.
    Elements,
    /// In a value that is a frame.
    Frame(What),
    /// In the value of a member that is not delivered.
    Skip,
    /// After the list.
    Ended,
}

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::wire) enum What {
    Item,
    Member(ListMember),
    Event,
}

impl What {
    /// Returns the depth around the frame.
    pub(super) fn floor(self) -> u32 {
        match self {
            Self::Item => LIST_DEPTH + 1,
            Self::Member(_) => LIST_DEPTH,
            Self::Event => 0,
        }
    }

    pub(super) fn stage_after(self) -> Stage {
        match self {
            Self::Item => Stage::Elements,
            Self::Member(_) => Stage::Between,
            Self::Event => Stage::Start,
        }
    }
}

/// The result of a call, without the parts that it borrows from the framer.
pub(in crate::wire) enum Found<'i> {
    Frame {
        what: What,
        /// The frame if it is complete in the input; otherwise it is in the buffer.
        lent: Option<&'i [u8]>,
        problem: Option<FrameProblem>,
    },
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Items,
    Member(ListMember),
    Other,
}

/// Returns the member of a list with this key.
pub(super) fn name_of(key: &KeyText) -> Name {
    const KNOWN: [(&str, Name); 9] = [
        ("items", Name::Items),
        ("kind", Name::Member(ListMember::Kind)),
        ("apiVersion", Name::Member(ListMember::ApiVersion)),
        ("metadata", Name::Member(ListMember::Metadata)),
        ("status", Name::Member(ListMember::Status)),
        ("message", Name::Member(ListMember::Message)),
        ("reason", Name::Member(ListMember::Reason)),
        ("code", Name::Member(ListMember::Code)),
        ("details", Name::Member(ListMember::Details)),
    ];
    key.find(&KNOWN).unwrap_or(Name::Other)
}

/// The number of open containers between the members of a list.
pub(super) const LIST_DEPTH: u32 = 1;
