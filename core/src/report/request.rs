//! The problems of requests and their responses.

use core::fmt::{self, Write as _};
use core::time::Duration;

use super::Level;
use super::facts::Facts;
use super::one_line::Escaped;
use crate::json::ScanError;
use crate::transport::FailureKind;

/// The problem of a request, or of the stream in its response. It is the [`Problem::Request`](super::Problem::Request)
/// of a report.
///
/// ```
/// use informer_core::report::{Problem, Report, RequestProblem};
///
/// fn is_restored(report: &Report<'_>) -> bool {
///     matches!(report.problem, Problem::Request(RequestProblem::VersionWentBack))
/// }
/// # let _ = is_restored;
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum RequestProblem {
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
}

impl RequestProblem {
    pub(super) const fn facts(self) -> Facts {
        use Level::{Error, Info, Warn};
        let network = "Check the network and any proxy, load balancer or firewall in between. The request is retried, and no data is lost.";
        let other = "This is not an API server: check whether the address belongs to a proxy or a login page.";
        let cut = "Watches are cut: check whether a proxy in between has a short timeout or buffers responses.";
        let streams = "The server or a proxy does not support streaming lists, so plain lists are used. `Initial::List` avoids \
                       the attempt.";
        match self {
            Self::Transport(kind) => {
                let facts = Facts::new(kind.as_str(), Warn);
                match kind {
                    FailureKind::Refused => facts.advice(
                        "No server listens at this address: check the address and the port, and whether the API server runs.",
                    ),
                    FailureKind::Reset | FailureKind::TimedOut | FailureKind::Other => facts.advice(network),
                    FailureKind::Dns => {
                        facts.advice("The server's name cannot be resolved: check its spelling and DNS.")
                    }
                    FailureKind::Request => facts.level(Error).advice(
                        "The request cannot be sent as it is, and the message says why: shorten or correct the selectors. A \
                         program can also select on its own side, with `Handlers::filter` or `Controller::only`.",
                    ),
                    // It depends on the message.
                    FailureKind::Tls => facts,
                }
            }
            Self::Truncated => Facts::new("truncated", Warn)
                .text("the response was cut off")
                .advice(network),
            Self::NotJson(_) => Facts::new("not-json", Warn).advice(other),
            Self::NotAList => Facts::new("not-a-list", Warn)
                .text("the response is not a list of this resource")
                .advice(other),
            Self::NotAnEvent => Facts::new("not-an-event", Warn)
                .text("the watch sent an object that is not an event")
                .advice(other),
            Self::VeryShortWatch => Facts::new("very-short-watch", Warn)
                .text("the watch ended within a second, without an event")
                .advice(cut),
            Self::ShortWatches => Facts::new("short-watches", Info)
                .text("watches end so often that the next one is delayed")
                .advice(cut),
            Self::Silent(_) => Facts::new("silent", Warn).advice(network),
            Self::NoInitialEvents(_) => Facts::new("no-initial-events", Warn).advice(streams),
            Self::EndlessStream(_) => Facts::new("endless-stream", Warn).advice(streams),
            Self::EndlessPages => Facts::new("endless-pages", Warn)
                .text(
                    "the pages of the list do not end: the server repeats a `continue` token or sends only empty pages",
                )
                .advice(
                    "The server does not implement paging as the API requires. A page size of 0 requests the whole list at once.",
                ),
            Self::LongRetryAfter(_) => Facts::new("long-retry-after", Warn).advice(
                "The server or a proxy requests a long delay: check whether it is overloaded or misconfigured.",
            ),
            Self::NoVersion => Facts::new("no-version", Warn)
                .text(
                    "the list has no resourceVersion: deletions before the watch begins are missed until the next list",
                )
                .advice(
                    "The server violates the API: every list must have a resourceVersion. A relist finds missed changes.",
                ),
            Self::NotWatched(_) => Facts::new("not-watched", Warn),
            Self::SlowList(_) => Facts::new("slow-list", Warn),
            Self::VersionWentBack => Facts::new("version-went-back", Info)
                .text("the list is older than the current state, and replaces it"),
            Self::RequestTooLong => Facts::new("request-too-long", Error)
                .text("the request is longer than the storage allows: shorten the selectors")
                .advice("The selectors are too long: shorten them."),
        }
    }

    /// Writes a problem that has details.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "all others have a fixed text"
    )]
    pub(super) fn write_details(self, f: &mut Escaped<'_, '_>) -> fmt::Result {
        match self {
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
            other => f.write_str(other.facts().text),
        }
    }
}
