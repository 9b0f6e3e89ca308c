//! The problems that are reported, and their messages.

use core::fmt::{self, Write as _};
use core::time::Duration;

use super::one_line::Escaped;
use super::{DisplayDebug, DriftKind, Level, Loss, LostRecords};
use crate::json::{JsonStr, ScanError};
use crate::object::MAX_KEY;
use crate::resource::InvalidName;
use crate::transport::FailureKind;
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
    /// There was no response, or it was cut.
    Transport(FailureKind),
    /// The response ended within its JSON.
    Truncated,
    /// The response is not JSON, or not the protobuf that its `Content-Type` states.
    NotJson(ScanError),
    /// The response is an object, but not a list of this resource.
    NotAList,
    /// A frame of the watch is not an event.
    NotAnEvent,
    /// A watch ended within a second, without an event.
    VeryShortWatch,
    /// Watches end so often that the next one is delayed.
    ShortWatches,
    /// There was no data for so long that the connection is considered dead.
    Silent(Duration),
    /// A streaming list sent no event for so long that it was abandoned.
    NoInitialEvents(Duration),
    /// A streaming list did not end within this time and was abandoned for a plain list.
    EndlessStream(Duration),
    /// The pages of a list do not end: a `continue` token was repeated, or many pages were empty.
    EndlessPages,
    /// The server requests a delay that is longer than the longest one accepted. The next attempt is made earlier.
    LongRetryAfter(Duration),
    /// A list has no resourceVersion. Deletions between it and the watch are detected only by the next list.
    NoVersion,
    /// The server does not watch the resource (405), so it is listed at this interval.
    NotWatched(Duration),
    /// A list takes or took this long.
    SlowList(Duration),
    /// A list is older than the current state: the server was restored, or another server responded.
    VersionWentBack,
    /// The request is longer than the storage allows.
    RequestTooLong,
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
    /// The journal cannot be read or written. Its content stays, and it is retried; a list then restarts it.
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
}

impl Problem<'_> {
    pub(super) const fn class(&self) -> &'static str {
        match self {
            Self::Answer { class, .. } => class.as_str(),
            Self::Warning { .. } => "warning",
            Self::Transport(kind) => kind.as_str(),
            Self::Truncated => "truncated",
            Self::NotJson(_) => "not-json",
            Self::NotAList => "not-a-list",
            Self::NotAnEvent => "not-an-event",
            Self::VeryShortWatch => "very-short-watch",
            Self::ShortWatches => "short-watches",
            Self::Silent(_) => "silent",
            Self::NoInitialEvents(_) => "no-initial-events",
            Self::EndlessStream(_) => "endless-stream",
            Self::EndlessPages => "endless-pages",
            Self::LongRetryAfter(_) => "long-retry-after",
            Self::NoVersion => "no-version",
            Self::NotWatched(_) => "not-watched",
            Self::SlowList(_) => "slow-list",
            Self::VersionWentBack => "version-went-back",
            Self::RequestTooLong => "request-too-long",
            Self::InvalidName(_) => "invalid-name",
            Self::OtherKind { .. } => "other-kind",
            Self::NoName => "no-name",
            Self::UnknownEvent(_) => "unknown-event",
            Self::Frame {
                problem: FrameProblem::TooLarge { .. },
                ..
            } => "object-too-large",
            Self::Frame {
                problem: FrameProblem::Unidentifiable { .. },
                ..
            } => "object-unidentifiable",
            Self::Frame {
                problem: FrameProblem::TooDeep,
                ..
            } => "object-too-deep",
            Self::Frame { .. } => "object-not-utf8",
            Self::Undecodable { .. } => "undecodable",
            Self::NoRoom { .. } => "no-room",
            Self::KeyTooLong { .. } => "key-too-long",
            Self::UnknownSource { .. } => "unknown-source",
            Self::LeftWithFinalizer { .. } => "left-with-finalizer",
            Self::IndexPanicked { .. } => "index-panicked",
            Self::HandlerPanicked { .. } => "handler-panicked",
            Self::Undelivered { .. } => "undelivered",
            Self::Journal { .. } => "journal",
            Self::HookPanicked { .. } => "hook-panicked",
            Self::DriverEnded { .. } => "driver-ended",
            Self::JournalLost {
                lost:
                    LostRecords {
                        why: Loss::Refused(_),
                        ..
                    },
            } => "journal-refused",
            Self::JournalLost { .. } => "journal-lost",
            Self::JournalRecovered => "journal-recovered",
            Self::JournalExposed { .. } => "journal-exposed",
            Self::Drift { .. } | Self::Drifted { .. } => "drift",
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "all other problems are warnings"
    )]
    pub(crate) const fn level(&self) -> Level {
        match self {
            Self::Answer { class, .. } if class.is_permanent() => Level::Error,
            Self::RequestTooLong
            | Self::InvalidName(_)
            | Self::Transport(FailureKind::Request)
            | Self::IndexPanicked { .. }
            | Self::HandlerPanicked { .. }
            | Self::HookPanicked { .. }
            | Self::DriverEnded { .. } => Level::Error,
            Self::Answer {
                class: ErrorClass::Expired | ErrorClass::TooLarge | ErrorClass::TooManyRequests,
                ..
            }
            | Self::ShortWatches
            | Self::VersionWentBack
            | Self::JournalRecovered
            | Self::JournalLost {
                lost:
                    LostRecords {
                        why: Loss::Unfinished,
                        ..
                    },
            } => Level::Info,
            _ => Level::Warn,
        }
    }
}

impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_to(&mut Escaped(f))
    }
}

impl Problem<'_> {
    pub(super) fn write_to(&self, f: &mut Escaped<'_, '_>) -> fmt::Result {
        match self.fixed_text() {
            Some(text) => f.write_str(text),
            None => self.write_with_details(f),
        }
    }

    /// Returns the text of a problem that has no details.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all others have details")]
    const fn fixed_text(&self) -> Option<&'static str> {
        Some(match self {
            Self::Truncated => "the response was cut off",
            Self::NotAList => "the response is not a list of this resource",
            Self::NotAnEvent => "the watch sent an object that is not an event",
            Self::VeryShortWatch => "the watch ended within a second, without an event",
            Self::ShortWatches => "watches end so often that the next one is delayed",
            Self::EndlessPages => {
                "the pages of the list do not end: the server repeats a `continue` token or sends only empty pages"
            }
            Self::NoVersion => {
                "the list has no resourceVersion: deletions before the watch begins are missed until the next list"
            }
            Self::VersionWentBack => "the list is older than the current state, and replaces it",
            Self::RequestTooLong => {
                "the request is longer than the storage allows: shorten the selectors"
            }
            Self::NoName => "an object without a name was skipped",
            Self::JournalRecovered => "the journal is complete again",
            _ => return None,
        })
    }

    /// Writes what is wrong with a request, a response or the journal.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "continued by `write_of_object`"
    )]
    fn write_with_details(&self, f: &mut Escaped<'_, '_>) -> fmt::Result {
        match self {
            Self::Answer {
                class,
                status,
                message,
            } => write_answer(f, *class, *status, message),
            Self::Warning { text } => write!(f, "the server warns: {text}"),
            Self::Transport(kind) => write!(f, "{kind}"),
            Self::NotJson(error) if error.kind.is_of_protobuf() => {
                write!(f, "the response is not Kubernetes protobuf: {error}")
            }
            Self::NotJson(error) => write!(f, "the response is not JSON: {error}"),
            Self::Silent(time) => write!(
                f,
                "no data for {} s: the connection is considered dead",
                time.as_secs()
            ),
            Self::NoInitialEvents(time) => write!(f, "no initial event for {} s", time.as_secs()),
            Self::EndlessStream(time) => write!(
                f,
                "the streaming list did not end within {} s: a list follows",
                time.as_secs()
            ),
            Self::LongRetryAfter(asked) => write!(
                f,
                "the server requests a delay of {} s, which is too long",
                asked.as_secs()
            ),
            Self::NotWatched(interval) => write!(
                f,
                "the server does not watch this resource: it is listed every {} s",
                interval.as_secs()
            ),
            Self::SlowList(time) => write!(f, "the list is slow: {} s", time.as_secs()),
            Self::InvalidName(name) => write!(f, "{name}"),
            Self::UnknownEvent(kind) => {
                write!(f, "an event of the unknown type {kind} was skipped")
            }
            Self::Journal { message } => write!(
                f,
                "the journal cannot be used: {message}; its content stays, and it is retried"
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
            _ => f.write_str(self.class()),
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
