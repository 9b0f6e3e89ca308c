//! What went wrong, for the user: nothing is lost in silence.

mod lost;
mod readable;

pub use lost::{Loss, Lost, Mismatch};

use core::fmt::{self, Write as _};
use core::time::Duration;

use crate::json::{JsonStr, ScanError};
use crate::transport::FailureKind;
use crate::wire::{ErrorClass, FrameProblem};

/// Something the user should hear of.
///
/// `Display` writes one line for a person, whatever the texts of servers, transports and decoders contain (see
/// [`OneLine`]).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Report<'a> {
    /// What was being done.
    pub phase: Phase,
    /// What happened.
    pub problem: Problem<'a>,
    /// How long it takes until the next attempt, where there is a wait.
    pub retry_in: Option<Duration>,
    /// How much it matters.
    pub level: Level,
    /// What the transport says of its failure; empty where it says nothing.
    pub detail: &'a str,
}

/// What the engine was doing when something happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Phase {
    /// Listing.
    List,
    /// Opening a watch, or reading it.
    Watch,
    /// Reading the initial state from a streaming list.
    Stream,
    /// Keeping an object in the cache.
    Cache,
    /// Calling a handler.
    Handler,
    /// Comparing the cache with the server.
    Audit,
    /// Keeping the cache where it outlives the process.
    Journal,
    /// A driver, or a user-defined function that it calls.
    Driver,
}

impl Phase {
    /// Returns the phase as a word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Watch => "watch",
            Self::Stream => "streaming list",
            Self::Cache => "cache",
            Self::Handler => "handler",
            Self::Audit => "audit",
            Self::Journal => "journal",
            Self::Driver => "driver",
        }
    }
}

/// How much a report matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// Part of the ordinary way, such as a server without streaming lists. client-go's error handler does not hear
    /// of it.
    Debug,
    /// It will mend itself.
    Info,
    /// Something is lost or late.
    Warn,
    /// It will not mend itself: somebody has to do something.
    Error,
}

/// How an object of the cache differs from what the server has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DriftKind {
    /// The server has it and the cache has not.
    Missing,
    /// The cache has it and the server has not: nobody told of its deletion.
    Gone,
    /// The cache has another state of it, or another object of the same name.
    Other,
}

/// What happened.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Problem<'a> {
    /// The server answered with an error, or sent one in the stream.
    Answer {
        /// What it means.
        class: ErrorClass,
        /// The HTTP status; for an error in a stream that of the `Status` object, or 0.
        status: u16,
        /// What the server says.
        message: JsonStr<'a>,
    },
    /// There was no answer, or it was cut.
    Transport(FailureKind),
    /// The answer ended before its JSON did.
    Truncated,
    /// The answer is not JSON.
    NotJson(ScanError),
    /// The answer is JSON, but no list of this resource.
    NotAList,
    /// A frame of the watch is JSON, but no event.
    NotAnEvent,
    /// A watch ended within a second, without an event.
    VeryShortWatch,
    /// Watches end so often that the next one waits.
    ShortWatches,
    /// Nothing came for so long that the connection must be dead.
    Silent(Duration),
    /// A streaming list brought no event for so long that it was given up.
    NoInitialEvents(Duration),
    /// A streaming list was read for so long without coming to its end, and was given up for a list.
    EndlessStream(Duration),
    /// The pages of a list do not end: a `continue` token was repeated, or page after page was empty.
    EndlessPages,
    /// The server asks to wait so long before the next attempt, which is made sooner.
    LongRetryAfter(Duration),
    /// A list has no resourceVersion. Deletions between it and the watch are noticed with the next list only.
    NoVersion,
    /// A list takes or took this long.
    SlowList(Duration),
    /// A list is older than what was seen before it: the server was restored, or another one answered.
    VersionWentBack,
    /// The request is longer than the storage takes.
    RequestTooLong,
    /// An object is of another kind and was skipped.
    OtherKind {
        /// The object's key.
        key: &'a str,
        /// Its kind.
        kind: JsonStr<'a>,
    },
    /// An object has no name and was skipped.
    NoName,
    /// An event is of a type that is not known.
    UnknownEvent(JsonStr<'a>),
    /// A frame could not be used; the older state of its object stays.
    Frame {
        /// The object's key, where it could be read.
        key: &'a str,
        /// What is wrong with it.
        problem: FrameProblem,
    },
    /// The decoder refused an object; its older state stays.
    Undecodable {
        /// The object's key.
        key: &'a str,
        /// What the decoder says.
        message: &'a dyn DisplayDebug,
    },
    /// There is no room for an object; the cache is incomplete.
    NoRoom {
        /// The object's key.
        key: &'a str,
    },
    /// An object's key is longer than the storage takes.
    KeyTooLong {
        /// As much of the key as fits.
        key: &'a str,
    },
    /// An object was brought by a source that the cache does not have.
    UnknownSource {
        /// The object's key.
        key: &'a str,
    },
    /// An index function panicked; the object has no values in that index.
    IndexPanicked {
        /// The object's key.
        key: &'a str,
        /// The name of the index.
        index: &'a str,
    },
    /// A handler panicked; it goes on with the next notification.
    HandlerPanicked {
        /// The handler's name.
        handler: &'a str,
        /// What it said.
        message: &'a str,
    },
    /// A user-defined function panicked. It is called again, but reported only once.
    HookPanicked {
        /// The name of the function, such as `on_report`.
        hook: &'a str,
        /// What the panic said.
        message: &'a str,
    },
    /// A driver ended although nobody asked for a stop.
    DriverEnded {
        /// Why.
        reason: &'a str,
    },
    /// Notifications that were pending when the informer stopped were not delivered.
    Undelivered {
        /// The handler's name.
        handler: &'a str,
        /// How many there were.
        count: usize,
    },
    /// The journal cannot be read or written. It keeps what it holds, and is tried again; a list then begins it anew.
    Journal {
        /// What it says.
        message: &'a dyn DisplayDebug,
    },
    /// A part of the journal, or all of it, was not restored. What was restored is a state of the server nevertheless, of
    /// an older version perhaps.
    JournalLost {
        /// How much, and why.
        lost: Lost,
    },
    /// The journal is whole again after a failure: it holds all that the cache shows.
    JournalRecovered,
    /// Other users of the machine can read the files of the journal, and their mode cannot be changed.
    JournalExposed {
        /// Which file, and why not.
        message: &'a dyn DisplayDebug,
    },
    /// An audit found that an object differs from what the server has, for good.
    Drift {
        /// The key of the object.
        key: &'a str,
        /// How it differs.
        kind: DriftKind,
    },
    /// An audit found drift: so many objects differ from what the server has.
    Drifted {
        /// How many.
        count: usize,
        /// Whether a new list is to repair it; false where one has changed nothing before.
        repair: bool,
    },
}

/// What can be shown to a person.
pub trait DisplayDebug: fmt::Display + fmt::Debug {}

impl<T: fmt::Display + fmt::Debug> DisplayDebug for T {}

/// Shows an error that can only be displayed.
pub(crate) struct Shown<'a, E>(pub(crate) &'a E);

impl<E: fmt::Display> fmt::Display for Shown<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<E: fmt::Display> fmt::Debug for Shown<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Displays a text that somebody else wrote, such as a server or a decoder, on one line.
///
/// Line breaks, escape sequences, other control characters and those that reorder text are escaped as in a Rust string
/// literal. So the text can neither forge a line of a log nor control a terminal. [`Report`] does this to all of its texts.
///
/// ```
/// use informer_core::report::OneLine;
///
/// let forged = "no such pod\n2026-01-01 INFO all is well\u{1b}[2J";
/// let shown = r"no such pod\n2026-01-01 INFO all is well\u{1b}[2J";
/// assert_eq!(OneLine(forged).to_string(), shown);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OneLine<T>(pub T);

impl<T: fmt::Display> fmt::Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaped(f), "{}", self.0)
    }
}

/// Escapes what would not stay on its line.
struct Escaped<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, unsafe_char)) = rest.char_indices().find(|(_, c)| leaves_line(*c)) {
            let (before, from) = rest.split_at(at);
            self.0.write_str(before)?;
            write!(self.0, "{}", unsafe_char.escape_default())?;
            rest = from.get(unsafe_char.len_utf8()..).unwrap_or_default();
        }
        self.0.write_str(rest)
    }
}

fn leaves_line(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            // Marks, embeddings and isolates of bidirectional text, and the separators of lines and paragraphs.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

impl<'a> Report<'a> {
    pub(crate) const fn new(phase: Phase, problem: Problem<'a>) -> Self {
        let level = problem.level();
        Self {
            phase,
            problem,
            retry_in: None,
            level,
            detail: "",
        }
    }

    /// Makes a report about the cache or a handler, as a runtime does.
    #[must_use]
    pub const fn about(phase: Phase, problem: Problem<'a>) -> Self {
        Self::new(phase, problem)
    }

    /// Adds what a transport says of its failure.
    #[must_use]
    pub const fn with_detail<'b>(self, detail: &'b str) -> Report<'b>
    where
        'a: 'b,
    {
        Report { detail, ..self }
    }

    /// Returns the class of the problem as a word that does not change between versions.
    #[must_use]
    pub const fn class(&self) -> &'static str {
        self.problem.class()
    }

    /// Returns whether a request failed in a way that further attempts will not mend.
    ///
    /// The server refused the credentials, the permissions, the resource or the parameters, and no other way to ask is
    /// left. The informer keeps trying, ever more slowly, because somebody may grant the permission or install the
    /// resource. A program that a person has just started should rather end with this report than wait.
    ///
    /// ```
    /// use informer_core::{Head, Heap, Instant, Output, Reflector, ReflectorConfig, Resource};
    ///
    /// let now = Instant::from_micros(0);
    /// let pods = Resource::new("", "v1", "pods").fields("spec.colour=red");
    /// let mut reflector: Reflector<_, Heap> = Reflector::new(pods, ReflectorConfig::list(), 1);
    /// let Output::Send(request) = reflector.poll_output(now) else { panic!() };
    /// let id = request.id();
    /// reflector.handle_head(now, id, Head::new(400));
    /// reflector.handle_end(now, id, informer_core::End::Clean);
    /// let Output::Report(report) = reflector.poll_output(now) else { panic!() };
    /// assert!(report.is_permanent(), "pods have no colour: {report}");
    /// ```
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        let is_request = matches!(self.phase, Phase::List | Phase::Watch | Phase::Stream);
        // A refusal that another request gets around is less than an error.
        is_request && self.level == Level::Error
    }

    /// Returns the key of the object it is about.
    #[must_use]
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "only these are about an object"
    )]
    pub const fn key(&self) -> Option<&'a str> {
        match self.problem {
            Problem::OtherKind { key, .. }
            | Problem::Frame { key, .. }
            | Problem::Undecodable { key, .. }
            | Problem::NoRoom { key }
            | Problem::UnknownSource { key }
            | Problem::IndexPanicked { key, .. }
            | Problem::Drift { key, .. }
            | Problem::KeyTooLong { key } => Some(key),
            _ => None,
        }
    }
}

impl Problem<'_> {
    const fn class(&self) -> &'static str {
        match self {
            Self::Answer { class, .. } => class.as_str(),
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
            Self::SlowList(_) => "slow-list",
            Self::VersionWentBack => "version-went-back",
            Self::RequestTooLong => "request-too-long",
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
            Self::IndexPanicked { .. } => "index-panicked",
            Self::HandlerPanicked { .. } => "handler-panicked",
            Self::Undelivered { .. } => "undelivered",
            Self::Journal { .. } => "journal",
            Self::HookPanicked { .. } => "hook-panicked",
            Self::DriverEnded { .. } => "driver-ended",
            Self::JournalLost {
                lost:
                    Lost {
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
        reason = "a warning unless there is more to say"
    )]
    pub(crate) const fn level(&self) -> Level {
        match self {
            Self::Answer { class, .. } if class.is_permanent() => Level::Error,
            Self::RequestTooLong
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
                    Lost {
                        why: Loss::Unfinished,
                        ..
                    },
            } => Level::Info,
            _ => Level::Warn,
        }
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.detail {
            "" => write!(f, "{}: {}", self.phase.as_str(), self.problem)?,
            detail => write!(f, "{}: {}", self.phase.as_str(), OneLine(detail))?,
        }
        match self.retry_in {
            Some(wait) => {
                // Without floating point, whose formatting takes 8 kB of a device's flash.
                let tenths =
                    wait.as_secs().saturating_mul(10) + u64::from(wait.subsec_millis() + 50) / 100;
                write!(
                    f,
                    "; the next attempt is in {}.{} s",
                    tenths / 10,
                    tenths % 10
                )
            }
            None => Ok(()),
        }
    }
}

impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_to(&mut Escaped(f))
    }
}

impl Problem<'_> {
    fn write_to(&self, f: &mut Escaped<'_, '_>) -> fmt::Result {
        match self {
            Self::Answer {
                class,
                status,
                message,
            } => {
                match status {
                    0 => write!(f, "the server sent an error ({})", class.as_str())?,
                    _ => write!(f, "the server answered {status} ({})", class.as_str())?,
                }
                if message.is_empty() {
                    Ok(())
                } else {
                    write!(f, ": {message}")
                }
            }
            Self::Transport(kind) => write!(f, "{kind}"),
            Self::Truncated => f.write_str("the answer ended in the middle"),
            Self::NotJson(error) => write!(f, "the answer is not JSON: {error}"),
            Self::NotAList => f.write_str("the answer is no list of this resource"),
            Self::NotAnEvent => f.write_str("the watch sent JSON that is no event"),
            Self::VeryShortWatch => {
                f.write_str("the watch ended within a second, without an event")
            }
            Self::ShortWatches => f.write_str("watches end so often that the next one waits"),
            Self::Silent(time) => write!(
                f,
                "nothing came for {} s: the connection is taken for dead",
                time.as_secs()
            ),
            Self::NoInitialEvents(time) => write!(f, "no initial event for {} s", time.as_secs()),
            Self::EndlessStream(time) => write!(
                f,
                "the streaming list did not come to its end within {} s: a list follows",
                time.as_secs()
            ),
            Self::EndlessPages => f.write_str(
                "the pages of the list do not end: the server repeats a `continue` token, or sends empty pages only",
            ),
            Self::LongRetryAfter(asked) => write!(
                f,
                "the server asks to wait {} s, which is more than is waited",
                asked.as_secs()
            ),
            Self::NoVersion => f.write_str(
                "the list has no resourceVersion: deletions before the watch begins are missed until the next list",
            ),
            Self::SlowList(time) => write!(f, "the list takes long: {} s", time.as_secs()),
            Self::VersionWentBack => f.write_str(
                "the list is older than what was seen before it; it is taken as the truth",
            ),
            Self::RequestTooLong => {
                f.write_str("the request is longer than the storage takes: shorten the selectors")
            }
            Self::OtherKind { key, kind } => write!(f, "{key} is a {kind} and was skipped"),
            Self::NoName => f.write_str("an object without a name was skipped"),
            Self::UnknownEvent(kind) => {
                write!(f, "an event of the unknown type {kind} was skipped")
            }
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
                write!(f, "the key of {key}… is longer than the storage takes")
            }
            Self::UnknownSource { key } => {
                write!(
                    f,
                    "{key} comes from a source that the cache was not made for"
                )
            }
            Self::IndexPanicked { key, index } => {
                write!(
                    f,
                    "the function of index {index} panicked on {key}, which has no values in it"
                )
            }
            Self::HandlerPanicked { handler, message } => {
                write!(f, "handler {handler} panicked: {message}")
            }
            Self::HookPanicked { hook, message } => write!(
                f,
                "{hook} panicked: {message}; it is still called, and further panics are counted in health"
            ),
            Self::DriverEnded { reason } => write!(
                f,
                "the driver ended without a stop: {reason}; the cache stays as it is: build a new informer"
            ),
            Self::Journal { message } => write!(
                f,
                "the journal cannot be used: {message}; it keeps what it holds, and is tried again"
            ),
            Self::JournalLost { lost } => {
                write!(f, "a part of the journal is not restored: {lost}")
            }
            Self::JournalRecovered => f.write_str("the journal is whole again"),
            Self::JournalExposed { message } => write!(
                f,
                "others can read the objects in the journal: {message}; keep it in a folder that is the program's alone"
            ),
            Self::Drift { key, kind } => {
                write!(
                    f,
                    "{key} {}",
                    match kind {
                        DriftKind::Missing => "is on the server and not in the cache",
                        DriftKind::Gone => "is in the cache and not on the server",
                        DriftKind::Other => "has another state on the server than in the cache",
                    }
                )
            }
            Self::Drifted { count, repair } => {
                write!(f, "the cache differs from the server in {count} objects: ")?;
                f.write_str(if *repair {
                    "everything is listed again"
                } else {
                    "a list has not helped before"
                })
            }
            Self::Undelivered { handler, count } => {
                write!(
                    f,
                    "handler {handler} was stopped with {count} notifications not delivered"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    const HOSTILE: &str = "a\nb\r\u{1b}[2Jc\u{7f}\u{9b}1m\u{202e}\u{2066}\u{2028}\u{0}\t";

    /// Whatever text a server, a transport, a decoder or a handler gives, a report stays on its line.
    #[test]
    fn every_report_is_one_line() {
        let json = escaped(HOSTILE);
        let text = JsonStr::new(json.as_bytes());
        let (key, message) = (HOSTILE, &HOSTILE as &dyn DisplayDebug);
        let (class, problem) = (ErrorClass::Forbidden, FrameProblem::NotUtf8);
        for problem in [
            Problem::Answer {
                class,
                status: 403,
                message: text,
            },
            Problem::Answer {
                class,
                status: 0,
                message: JsonStr::new(HOSTILE.as_bytes()),
            },
            Problem::OtherKind { key, kind: text },
            Problem::UnknownEvent(text),
            Problem::Frame { key, problem },
            Problem::Undecodable { key, message },
            Problem::NoRoom { key },
            Problem::KeyTooLong { key },
            Problem::IndexPanicked {
                key,
                index: HOSTILE,
            },
            Problem::HandlerPanicked {
                handler: HOSTILE,
                message: HOSTILE,
            },
            Problem::Undelivered {
                handler: HOSTILE,
                count: 1,
            },
            Problem::Journal { message },
            Problem::Drift {
                key,
                kind: DriftKind::Gone,
            },
        ] {
            let report = Report::new(Phase::List, problem);
            for shown in [
                report.to_string(),
                problem.to_string(),
                report.with_detail(HOSTILE).to_string(),
            ] {
                assert!(!shown.contains(leaves_line), "{shown:?}");
                assert!(
                    shown.contains(r"a\nb\r\u{1b}[2Jc\u{7f}\u{9b}1m\u{202e}"),
                    "{shown}"
                );
            }
        }
    }

    /// The text as a server sends it: escaped.
    fn escaped(text: &str) -> alloc::string::String {
        text.chars()
            .map(|c| alloc::format!("\\u{:04x}", u32::from(c)))
            .collect()
    }
}
