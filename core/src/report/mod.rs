//! Reports of problems for the user.

mod facts;
mod lost;
mod one_line;
mod problem;
mod readable;
mod request;
#[cfg(test)]
mod tests;

pub use lost::{Loss, LostRecords, Mismatch};
pub(crate) use one_line::Shown;
pub use one_line::{DisplayDebug, OneLine};
pub use problem::Problem;
pub use request::RequestProblem;

use core::fmt;
use core::time::Duration;

/// A problem that the user should know about.
///
/// `Display` writes one line, whatever the texts of servers, transports and decoders contain (see [`OneLine`]).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Report<'a> {
    /// The phase in which it happened.
    pub phase: Phase,
    /// The problem.
    pub problem: Problem<'a>,
    /// The time until the next attempt, if there is a delay.
    pub retry_in: Option<Duration>,
    /// The severity.
    pub level: Level,
    /// The transport's description of its failure; empty if there is none.
    pub detail: &'a str,
    /// For [`Problem::Answer`], the begin of the response's body, or the object of the event, as received: usually a
    /// `Status`. Otherwise it is empty.
    pub answer: &'a [u8],
}

/// The phase of the engine in which a problem happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Phase {
    /// Listing.
    List,
    /// Opening a watch, or reading it.
    Watch,
    /// Reading the initial state from a streaming list.
    Stream,
    /// Storing an object in the cache.
    Cache,
    /// Calling a handler.
    Handler,
    /// Comparing the cache with the server.
    Audit,
    /// Persisting the cache.
    Journal,
    /// Running a driver, or calling a user-defined function.
    Driver,
}

impl Phase {
    /// Returns the phase as text.
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

/// The severity of a report.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Level {
    /// A normal event, such as a server without streaming lists. client-go's error handler is not called for it.
    Debug,
    /// No action is needed.
    Info,
    /// Data is lost or delayed.
    Warn,
    /// The user must act.
    Error,
}

/// How an object of the cache differs from the server's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DriftKind {
    /// It is on the server but not in the cache.
    Missing,
    /// It is in the cache but not on the server: its deletion was lost.
    Gone,
    /// The cache has another state of it, or another object of the same name.
    Other,
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
            answer: &[],
        }
    }

    /// Creates a report about the cache or a handler, for runtimes.
    #[must_use]
    pub const fn about(phase: Phase, problem: Problem<'a>) -> Self {
        Self::new(phase, problem)
    }

    /// Adds the transport's description of its last failure, if the report is about a failure of the transport.
    #[must_use]
    pub const fn with_detail<'b>(self, detail: &'b str) -> Report<'b>
    where
        'a: 'b,
    {
        if matches!(self.problem, Problem::Request(RequestProblem::Transport(_))) {
            Report { detail, ..self }
        } else {
            self
        }
    }

    /// Returns the class of the problem, a word that is stable across versions.
    #[must_use]
    pub const fn class(&self) -> &'static str {
        self.problem.facts().class
    }

    /// Returns what the user can do, if that does not depend on the resource or on the message. The health of an informer
    /// has the advice that does.
    ///
    /// ```
    /// use informer_core::report::{Phase, Report, RequestProblem};
    /// use informer_core::transport::FailureKind;
    ///
    /// let report = Report::about(Phase::Watch, RequestProblem::Transport(FailureKind::Dns).into());
    /// assert_eq!(report.advice(), Some("The server's name cannot be resolved: check its spelling and DNS."));
    /// ```
    #[cfg(feature = "std")]
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self.problem.facts().advice {
            "" => None,
            advice => Some(advice),
        }
    }

    /// Returns whether a request failed in a way that retries alone will not fix.
    ///
    /// The server rejected the credentials, the permissions, the resource or the parameters, and there is no
    /// alternative request. The informer keeps retrying with growing delays, since the permission may be granted or the
    /// resource installed later. An interactive program should rather end with this report than wait.
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
        // A rejection with an alternative request has a lower level than an error.
        is_request && self.level == Level::Error
    }

    /// Returns the key of the affected object.
    #[must_use]
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "only these problems have a key"
    )]
    pub const fn key(&self) -> Option<&'a str> {
        match self.problem {
            Problem::OtherKind { key, .. }
            | Problem::Frame { key, .. }
            | Problem::Undecodable { key, .. }
            | Problem::NoRoom { key }
            | Problem::UnknownSource { key }
            | Problem::LeftWithFinalizer { key, .. }
            | Problem::IndexPanicked { key, .. }
            | Problem::Drift { key, .. }
            | Problem::KeyTooLong { key } => Some(key),
            _ => None,
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
                // Formatting floating point numbers would take 8 kB of a device's flash.
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
