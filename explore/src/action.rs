//! Events in a world besides those of the program under test.

use core::time::Duration;

use serde::{Deserialize, Serialize};

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
    /// The server has no streaming lists, like those before 1.34, or sends no bookmarks.
    OldServer,
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
    /// Reads fail: 500, 503, or an HTML page of a proxy.
    FailedRead,
    /// Requests are rejected with 401 for a while, as when a token has expired.
    Unauthorized,
    /// Reads are slow.
    Slow,
    /// Watches are slow: each has a delay of its own, so one shows an old state when another shows the newest, and own
    /// writes are seen long after their responses. Each watch keeps its order.
    LateEvents,
    /// Another client changes an object just before a write to it.
    Conflict,
    /// Writes fail without an effect: 429, 500, or a reset connection. A run that makes several writes does a part.
    FailedWrite,
    /// Writes are slow, as with a slow webhook.
    SlowWrite,
    /// A write takes effect, but its response is lost, or is a 504.
    LostAnswer,
    /// Writes are refused without an effect: 403 by a webhook or a quota, or 422.
    Denied,
    /// A call by [`Process::try_call`](crate::Process::try_call) fails, with or without an effect.
    FailedCall,
    /// A process cannot reach any server for a while.
    Partition,
    /// A process does not run for a while, as on a machine without processor time.
    Pause,
    /// The clocks of machines are ahead or behind by up to an hour, and jump.
    Clocks,
    /// Deletions take time: the garbage collector is slow, so objects outlive their owners by up to a minute, and Pods
    /// that run on a Node outlive their deletion by up to their grace period.
    SlowDeletion,
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
    pub const ALL: [Self; 28] = [
        Self::Stale,
        Self::Unobserved,
        Self::Crash,
        Self::OldServer,
        Self::Expired,
        Self::Gone,
        Self::Cut,
        Self::Silence,
        Self::Restart,
        Self::Overload,
        Self::FailedRead,
        Self::Unauthorized,
        Self::Slow,
        Self::LateEvents,
        Self::Conflict,
        Self::FailedWrite,
        Self::SlowWrite,
        Self::LostAnswer,
        Self::Denied,
        Self::FailedCall,
        Self::Partition,
        Self::Pause,
        Self::Clocks,
        Self::SlowDeletion,
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
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
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
    /// A replica is replaced by the new program.
    Upgrade {
        replica: usize,
    },
    Pause {
        replica: usize,
        time: Duration,
    },
    /// The clock of a machine jumps by so many seconds.
    Jump {
        replica: usize,
        by: i64,
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
    /// New requests of a replica go to a server.
    Route {
        replica: usize,
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
        /// Selects one of the resources that the program has written; only its writes count then.
        #[serde(default)]
        of: Option<u64>,
    },
    Call {
        /// Whether it takes effect.
        has_effect: bool,
        /// The number of calls before it.
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
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum ReadFault {
    /// A watch gets the status 410.
    Gone,
    Reset,
    /// 500.
    Failed,
    /// 503, with a page of a proxy.
    Page,
    Unauthorized,
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
            Self::Failed | Self::Page => FaultKind::FailedRead,
            Self::Unauthorized => FaultKind::Unauthorized,
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
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum UserChange {
    /// Creates it, or changes it, to a variant.
    Put(usize),
    Delete,
    /// Deletes it and creates it again at once.
    Recreate(usize),
}

impl UserChange {
    /// Returns the variant of the object that it writes.
    pub(super) const fn variant(self) -> Option<usize> {
        match self {
            Self::Put(variant) | Self::Recreate(variant) => Some(variant),
            Self::Delete => None,
        }
    }
}

/// The point at which a process dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum CrashAt {
    /// Wherever it is.
    Now,
    /// Before it sends a write.
    BeforeWrite,
    /// After a write took effect, before its response.
    AfterWrite,
}

/// The fate of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum WriteFault {
    /// Another client changes the object first.
    Conflict,
    Overloaded,
    Failed,
    Reset,
    Slow(Duration),
    AnswerLost,
    AnswerTimeout,
    Unauthorized,
    /// 403 by a webhook.
    Denied,
    /// 403 by a quota.
    Quota,
    /// 422.
    Invalid,
}

impl WriteFault {
    /// Returns the kind of fault that it belongs to.
    pub(super) const fn kind(self) -> FaultKind {
        match self {
            Self::Conflict => FaultKind::Conflict,
            Self::Overloaded | Self::Failed | Self::Reset => FaultKind::FailedWrite,
            Self::Slow(_) => FaultKind::SlowWrite,
            Self::AnswerLost | Self::AnswerTimeout => FaultKind::LostAnswer,
            Self::Unauthorized => FaultKind::Unauthorized,
            Self::Denied | Self::Quota | Self::Invalid => FaultKind::Denied,
        }
    }
}
