//! Events in a world besides those of the program under test.

use core::time::Duration;

/// A kind of fault.
///
/// All of them may meet a correct controller. Those that [`is_honest`](Self::is_honest) excludes are off by default:
/// a server lies, or what the program relies on does not hold.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum FaultKind {
    /// An API server lags behind, and its stale cache serves a process, often one that has just started.
    Stale,
    /// Events are never observed: watches show nothing for a while, and cannot be resumed.
    Unobserved,
    /// A process dies at any await, often before or after one of its writes, and starts again later.
    Crash,
    /// Versions expire: a watch gets an event with 410, and a page of a list the status 410. In some runs the server
    /// forgets events after 75 s.
    Expired,
    /// A watch from a version that has expired is rejected with the HTTP status 410, as by API servers before 1.20 and
    /// some proxies, instead of an event with 410.
    Gone,
    /// Connections of watches and reads are cut.
    Cut,
    /// Watches are half open: they send nothing, and do not end.
    Silence,
    /// An API server is down or restarts.
    Restart,
    /// Reads are rejected with 429.
    Overload,
    /// Reads are slow.
    Slow,
    /// Another client changes an object just before a write to it.
    Conflict,
    /// Writes fail without an effect: 429, 500, or a reset connection. A run that makes several writes does a part.
    FailedWrite,
    /// Writes are slow, as with a slow webhook.
    SlowWrite,
    /// A write takes effect, but its response is lost, or is a 504.
    LostAnswer,
    /// A process cannot reach any server for a while.
    Partition,
    /// A second copy of a process runs for a while, as during an update without leader election. Off by default.
    Duplicate,
    /// An old backup of etcd is restored, and versions are issued a second time. Off by default.
    Backup,
    /// A server loses an object without an event. Off by default.
    LostObject,
    /// A watch omits an event. Off by default.
    LostEvent,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [Self; 19] = [
        Self::Stale,
        Self::Unobserved,
        Self::Crash,
        Self::Expired,
        Self::Gone,
        Self::Cut,
        Self::Silence,
        Self::Restart,
        Self::Overload,
        Self::Slow,
        Self::Conflict,
        Self::FailedWrite,
        Self::SlowWrite,
        Self::LostAnswer,
        Self::Partition,
        Self::Duplicate,
        Self::Backup,
        Self::LostObject,
        Self::LostEvent,
    ];

    /// Returns whether a correct controller must cope with it without any precaution such as leader election or a
    /// periodic relist. These are on by default.
    #[must_use]
    pub const fn is_honest(self) -> bool {
        !matches!(
            self,
            Self::Duplicate | Self::Backup | Self::LostObject | Self::LostEvent
        )
    }
}

/// One action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Wait,
    /// A user changes one of the objects of the specification.
    User {
        slot: usize,
        change: UserChange,
    },
    /// A person edits or deletes an object of a resource that the controller writes.
    Person {
        resource: usize,
        which: u64,
        deletes: bool,
    },
    Crash {
        replica: usize,
        at: CrashAt,
        /// The number of writes before it.
        skip: u64,
        down: Duration,
    },
    Partition {
        replica: usize,
        time: Duration,
    },
    Duplicate {
        replica: usize,
        time: Duration,
    },
    Lag {
        server: usize,
    },
    CatchUp {
        server: usize,
    },
    Route {
        server: usize,
    },
    Down {
        server: usize,
        time: Duration,
    },
    Restart {
        server: usize,
        unready: Duration,
    },
    CutWatches,
    CloseWatches,
    StallWatches,
    GoAway,
    ForgetEvents,
    Compact,
    /// One or more reads fail.
    Read {
        fault: ReadFault,
        count: u64,
    },
    Write {
        fault: WriteFault,
        /// The number of writes before it.
        skip: u64,
    },
    Restore {
        back: u64,
    },
    Lose {
        which: u64,
    },
}

/// The fate of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReadFault {
    /// A watch gets the status 410.
    Gone,
    Reset,
    Overloaded {
        /// The value of `Retry-After`.
        seconds: u32,
    },
    Slow(Duration),
    /// A watch omits one of its events.
    DropEvent(usize),
}

impl ReadFault {
    /// Returns the kind of fault that it belongs to.
    pub(super) const fn kind(self) -> FaultKind {
        match self {
            Self::Gone => FaultKind::Gone,
            Self::Reset => FaultKind::Cut,
            Self::Overloaded { .. } => FaultKind::Overload,
            Self::Slow(_) => FaultKind::Slow,
            Self::DropEvent(_) => FaultKind::LostEvent,
        }
    }

    /// Returns whether it meets watches only.
    pub(super) const fn is_of_watches(self) -> bool {
        matches!(self, Self::Gone | Self::DropEvent(_))
    }
}

/// An action of a user on an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum UserChange {
    /// Creates it, or changes it, to a variant.
    Put(usize),
    Delete,
    /// Deletes it and creates it again at once.
    Recreate(usize),
}

/// The point at which a process dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CrashAt {
    /// Wherever it is.
    Now,
    /// Before it sends a write.
    BeforeWrite,
    /// After a write took effect, before its response.
    AfterWrite,
}

/// The fate of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WriteFault {
    /// Another client changes the object first.
    Conflict,
    Overloaded,
    Failed,
    Reset,
    Slow(Duration),
    AnswerLost,
    AnswerTimeout,
}

impl WriteFault {
    /// Returns the kind of fault that it belongs to.
    pub(super) const fn kind(self) -> FaultKind {
        match self {
            Self::Conflict => FaultKind::Conflict,
            Self::Overloaded | Self::Failed | Self::Reset => FaultKind::FailedWrite,
            Self::Slow(_) => FaultKind::SlowWrite,
            Self::AnswerLost | Self::AnswerTimeout => FaultKind::LostAnswer,
        }
    }
}
