//! The problems that are reported, and their messages.

use core::fmt::{self, Write as _};
use core::time::Duration;

use super::facts::Facts;
use super::one_line::Escaped;
use super::{DisplayDebug, DriftKind, Level, Loss, LostRecords, RequestProblem};
use crate::json::JsonStr;
use crate::object::MAX_KEY;
use crate::resource::InvalidName;
use crate::wire::{ErrorClass, FrameProblem};

/// The problem of a report.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Problem<'a> {
    /// The server responded with an error, or sent one in a stream.
    Answer {
        /// The class of the error.
        class: ErrorClass,
        /// The HTTP status. For an error in a stream, it is the code of the `Status` object, or 0.
        status: u16,
        /// The message of the server.
        message: JsonStr<'a>,
    },
    /// The server answered a request and warns of something, such as a deprecated version of a resource.
    Warning {
        /// The text of the server.
        text: &'a str,
    },
    /// A request or its response failed.
    Request(RequestProblem),
    /// A name in the resource is one that no API server can have, so no request was sent.
    InvalidName(InvalidName<'a>),
    /// An object is of another kind and was skipped.
    OtherKind {
        /// The object's key.
        key: &'a str,
        /// Its kind.
        kind: JsonStr<'a>,
    },
    /// An object without a name was skipped.
    NoName,
    /// An event has an unknown type.
    UnknownEvent(JsonStr<'a>),
    /// A frame could not be used. The older state of its object stays.
    Frame {
        /// The object's key, if it could be read.
        key: &'a str,
        /// The problem of the frame.
        problem: FrameProblem,
    },
    /// The decoder rejected an object. Its older state stays.
    Undecodable {
        /// The object's key.
        key: &'a str,
        /// The message of the decoder.
        message: &'a dyn DisplayDebug,
    },
    /// There is no room for an object. The cache is incomplete.
    NoRoom {
        /// The object's key.
        key: &'a str,
    },
    /// An object's key is longer than the storage allows.
    KeyTooLong {
        /// The part of the key that fits.
        key: &'a str,
    },
    /// An object comes from a source that the cache does not have.
    UnknownSource {
        /// The object's key.
        key: &'a str,
    },
    /// An object no longer matches the selector of a controller, and has a finalizer. Nobody may be left who removes it.
    LeftWithFinalizer {
        /// The object's key.
        key: &'a str,
        /// The first such finalizer.
        finalizer: JsonStr<'a>,
    },
    /// An index function panicked. The object has no values in that index.
    IndexPanicked {
        /// The object's key.
        key: &'a str,
        /// The name of the index.
        index: &'a str,
    },
    /// A handler panicked. It continues with the next notification.
    HandlerPanicked {
        /// The handler's name.
        handler: &'a str,
        /// The message of the panic.
        message: &'a str,
    },
    /// A user-defined function panicked. It is called again, but reported only once.
    HookPanicked {
        /// The name of the function, such as `on_report`.
        hook: &'a str,
        /// The message of the panic.
        message: &'a str,
    },
    /// A driver ended without a stop request.
    DriverEnded {
        /// The reason.
        reason: &'a str,
    },
    /// Notifications were still pending for a handler when the informer stopped.
    Undelivered {
        /// The handler's name.
        handler: &'a str,
        /// The number of these notifications.
        count: usize,
    },
    /// The journal cannot be read or written. Its contents are kept, and it is retried; a list then restarts it.
    Journal {
        /// The message of the journal.
        message: &'a dyn DisplayDebug,
    },
    /// The journal was not restored, or only in part. The restored part is still a state of the server, possibly of an
    /// older version.
    JournalLost {
        /// The size and the reason of the loss.
        lost: LostRecords,
    },
    /// The journal is complete again after a failure.
    JournalRecovered,
    /// Other users of the machine can read the files of the journal, and their mode cannot be changed.
    JournalExposed {
        /// The file, and why its mode cannot be changed.
        message: &'a dyn DisplayDebug,
    },
    /// An audit found that an object permanently differs from the server's.
    Drift {
        /// The key of the object.
        key: &'a str,
        /// How it differs.
        kind: DriftKind,
    },
    /// An audit found objects that permanently differ from the server's.
    Drifted {
        /// The number of objects.
        count: usize,
        /// Whether a relist will repair it. It is `false` if one had no effect before.
        repair: bool,
    },
    /// The watch has not reached a version that a list had long ago.
    WatchLags {
        /// The time since that list began.
        lag: Duration,
    },
}

impl From<RequestProblem> for Problem<'_> {
    fn from(problem: RequestProblem) -> Self {
        Self::Request(problem)
    }
}

impl Problem<'_> {
    pub(super) const fn facts(&self) -> Facts {
        use Level::{Error, Info, Warn};
        let panicked = "A function of this program panicked: fix it.";
        let full = "The cache has a fixed size and is full: enlarge it, or select fewer objects.";
        match self {
            Self::Answer { class, .. } => facts_of_answer(*class),
            Self::Request(problem) => problem.facts(),
            Self::Warning { .. } => Facts::new("warning", Warn),
            Self::InvalidName(_) => Facts::new("invalid-name", Error)
                .advice("No request was sent, since no server can have this name: correct it."),
            Self::OtherKind { .. } => Facts::new("other-kind", Warn)
                .advice("The server sent an object of another kind: check the kind of the resource."),
            Self::NoName => Facts::new("no-name", Warn).text("an object without a name was skipped"),
            Self::UnknownEvent(_) => Facts::new("unknown-event", Warn),
            Self::Frame { problem, .. } => facts_of_frame(problem),
            Self::Undecodable { .. } => Facts::new("undecodable", Warn).advice(OTHER_TYPE),
            Self::NoRoom { .. } => Facts::new("no-room", Warn).advice(full),
            Self::KeyTooLong { .. } => Facts::new("key-too-long", Warn).advice(full),
            Self::UnknownSource { .. } => Facts::new("unknown-source", Warn),
            Self::LeftWithFinalizer { .. } => Facts::new("left-with-finalizer", Warn),
            Self::IndexPanicked { .. } => Facts::new("index-panicked", Error).advice(panicked),
            Self::HandlerPanicked { .. } => Facts::new("handler-panicked", Error).advice(panicked),
            Self::HookPanicked { .. } => Facts::new("hook-panicked", Error).advice(panicked),
            Self::DriverEnded { .. } => Facts::new("driver-ended", Error),
            Self::Undelivered { .. } => Facts::new("undelivered", Warn)
                .advice("A handler did not finish in time for a stop: `Builder::drain` extends the time."),
            Self::Journal { .. } => Facts::new("journal", Warn),
            Self::JournalLost { lost } => match lost.why {
                Loss::Unfinished => Facts::new("journal-lost", Info),
                Loss::Refused(_) => Facts::new("journal-refused", Warn),
                Loss::Damaged | Loss::NoJournal | Loss::Format(_) | Loss::Unusable => {
                    Facts::new("journal-lost", Warn)
                }
            },
            Self::JournalRecovered => {
                Facts::new("journal-recovered", Info).text("the journal is complete again")
            }
            Self::JournalExposed { .. } => Facts::new("journal-exposed", Warn),
            Self::WatchLags { .. } => Facts::new("watch-lags", Warn).advice(
                "The watch cache of the server, or something in between, is slow: the cache shows an old state.",
            ),
            Self::Drift { .. } | Self::Drifted { .. } => Facts::new("drift", Warn).advice(
                "The server or a proxy lost events. The audit repairs the cache with a relist; see docs/AUDIT.md.",
            ),
        }
    }

    pub(crate) const fn level(&self) -> Level {
        self.facts().level
    }
}

const OTHER_TYPE: &str = "The object does not match the decoded type: check that the type is of the served version, and \
                          that fields which may be missing are optional.";

/// Returns the facts of an error of the server. Advice that names the resource is the runtime's.
const fn facts_of_answer(class: ErrorClass) -> Facts {
    let facts = Facts::new(
        class.as_str(),
        if class.is_permanent() {
            Level::Error
        } else {
            Level::Warn
        },
    );
    match class {
        ErrorClass::Expired | ErrorClass::TooLarge => facts.level(Level::Info).advice(
            "No action is needed: a relist follows. If this is frequent, the server's history is too short.",
        ),
        ErrorClass::TooManyRequests => facts.level(Level::Info).advice(OVERLOADED),
        ErrorClass::ServiceUnavailable
        | ErrorClass::ServerTimeout
        | ErrorClass::Timeout
        | ErrorClass::InternalError => facts.advice(OVERLOADED),
        ErrorClass::Unauthorized => facts.advice(
            "The server does not accept the credentials: the token or the client certificate is missing, has expired or \
             is for another cluster. Renew it.",
        ),
        ErrorClass::NotAcceptable => facts.advice(
            "The server does not support the requested media type: request whole objects instead of metadata.",
        ),
        ErrorClass::Forbidden
        | ErrorClass::NotFound
        | ErrorClass::MethodNotAllowed
        | ErrorClass::BadRequest
        | ErrorClass::Invalid
        | ErrorClass::Other => facts,
    }
}

const OVERLOADED: &str =
    "The server is overloaded or not ready. The request is retried with increasing delays.";

const fn facts_of_frame(problem: &FrameProblem) -> Facts {
    let limit = "The object exceeds a limit: raise it with `Builder::frame_limit`.";
    match problem {
        FrameProblem::TooLarge { .. } => Facts::new("object-too-large", Level::Warn).advice(limit),
        FrameProblem::Unidentifiable { .. } => Facts::new("object-unidentifiable", Level::Warn),
        FrameProblem::TooDeep => Facts::new("object-too-deep", Level::Warn).advice(limit),
        FrameProblem::NotUtf8 => Facts::new("object-not-utf8", Level::Warn).advice(OTHER_TYPE),
        FrameProblem::Malformed => Facts::new("object-malformed", Level::Warn).advice(OTHER_TYPE),
    }
}

impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_to(&mut Escaped(f))
    }
}

impl Problem<'_> {
    pub(super) fn write_to(&self, f: &mut Escaped<'_, '_>) -> fmt::Result {
        match self.facts().text {
            "" => self.write_details(f),
            text => f.write_str(text),
        }
    }

    /// Writes what is wrong with a request, a response or the journal.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "continued by `write_of_object`"
    )]
    fn write_details(&self, f: &mut Escaped<'_, '_>) -> fmt::Result {
        match self {
            Self::Answer {
                class,
                status,
                message,
            } => write_answer(f, *class, *status, message),
            Self::Warning { text } => write!(f, "the server warns: {text}"),
            Self::Request(problem) => problem.write_details(f),
            Self::InvalidName(name) => write!(f, "{name}"),
            Self::UnknownEvent(kind) => {
                write!(f, "an event of the unknown type {kind} was skipped")
            }
            Self::Journal { message } => write!(
                f,
                "the journal cannot be used: {message}; its contents are kept, and it will be retried"
            ),
            Self::JournalLost { lost } => {
                write!(f, "a part of the journal is not restored: {lost}")
            }
            Self::JournalExposed { message } => write!(
                f,
                "other users can read the objects in the journal: {message}; store it in a private folder"
            ),
            Self::Drifted { count, repair } => {
                write!(f, "the cache differs from the server in {count} objects: ")?;
                f.write_str(if *repair {
                    "a relist repairs it"
                } else {
                    "an earlier relist did not repair it"
                })
            }
            Self::WatchLags { lag } => write!(
                f,
                "the watch has not reached the version that a list had {} s ago",
                lag.as_secs()
            ),
            _ => self.write_of_object(f),
        }
    }

    /// Writes what is wrong with an object, a handler or a function of the user.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "all others are written by the callers"
    )]
    fn write_of_object(&self, f: &mut Escaped<'_, '_>) -> fmt::Result {
        match self {
            Self::OtherKind { key, kind } => write!(f, "{key} is a {kind} and was skipped"),
            Self::Frame { key, problem } => {
                write!(
                    f,
                    "{}: {problem}; its older state stays",
                    if key.is_empty() { "an object" } else { key }
                )
            }
            Self::Undecodable { key, message } => {
                write!(
                    f,
                    "{key} cannot be decoded: {message}; its older state stays"
                )
            }
            Self::NoRoom { key } => write!(f, "no room for {key}: the cache is incomplete"),
            Self::KeyTooLong { key } => {
                // Of a key that exceeds the reader's buffer, whole characters of up to four bytes are known.
                let rest = if key.len() + 4 > MAX_KEY { "…" } else { "" };
                write!(f, "the key {key}{rest} is longer than the storage allows")
            }
            Self::UnknownSource { key } => {
                write!(f, "{key} comes from a source that the cache does not have")
            }
            Self::LeftWithFinalizer { key, finalizer } => {
                write!(
                    f,
                    "{key} no longer matches the selector and has the finalizer {finalizer}: if this controller adds \
                     it, the deletion of the object will wait for ever; select by labels that do not change"
                )
            }
            Self::IndexPanicked { key, index } => {
                write!(
                    f,
                    "the function of index {index} panicked on {key}, so the object has no values in it"
                )
            }
            Self::HandlerPanicked { handler, message } => {
                write!(f, "handler {handler} panicked: {message}")
            }
            Self::HookPanicked { hook, message } => write!(
                f,
                "{hook} panicked: {message}; it will be called again, and health counts further panics"
            ),
            Self::DriverEnded { reason } => write!(
                f,
                "the driver ended without a stop request: {reason}; the cache is no longer updated: build a new informer"
            ),
            Self::Drift { key, kind } => {
                write!(
                    f,
                    "{key} {}",
                    match kind {
                        DriftKind::Missing => "is on the server but not in the cache",
                        DriftKind::Gone => "is in the cache but not on the server",
                        DriftKind::Other => "has another state on the server than in the cache",
                    }
                )
            }
            Self::Undelivered { handler, count } => {
                write!(
                    f,
                    "handler {handler} was stopped with {count} undelivered notifications"
                )
            }
            _ => f.write_str(self.facts().class),
        }
    }
}

fn write_answer(
    f: &mut Escaped<'_, '_>,
    class: ErrorClass,
    status: u16,
    message: &JsonStr<'_>,
) -> fmt::Result {
    match status {
        0 => write!(f, "the server sent an error ({})", class.as_str())?,
        _ => write!(f, "the server answered {status} ({})", class.as_str())?,
    }
    if !message.is_empty() {
        write!(f, ": {message}")?;
    }
    if class == ErrorClass::NotFound {
        f.write_str(
            "; the resource is not served: check its group, version and plural, or install its \
             CustomResourceDefinition",
        )?;
    }
    Ok(())
}
