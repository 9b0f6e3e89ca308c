//! Why a request failed.

use core::fmt;

use embedded_io_async::ErrorKind;
use informer_core::transport::{FailureKind, TransportError};

/// Why a request failed below HTTP's own status.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HttpError {
    problem: HttpProblem,
    connection_was_used: bool,
}

/// What went wrong with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HttpProblem {
    /// The link could not be opened.
    Open(ErrorKind),
    /// The link failed.
    Link(ErrorKind),
    /// The server closed the connection before the answer was complete.
    Closed,
    /// The head of the answer has more than 16 KiB, or there were too many interim answers.
    HeadTooLong,
    /// The line of a header that matters has more than 512 bytes.
    HeaderTooLong,
    /// What came is no answer of HTTP/1.
    NotHttp,
    /// A header contradicts itself or another one.
    BadHeader,
    /// The body has a coding that this client does not have, such as gzip.
    UnknownCoding,
    /// The chunks of the body are not framed as they should be.
    BadChunk,
    /// The request, with its token, is longer than the buffer.
    RequestTooLong,
    /// There is no token to be had.
    NoToken,
    /// The token has a byte that no token may have.
    BadToken,
    /// The connection is in use, which is a mistake of this crate.
    InUse,
}

impl HttpError {
    pub(super) const fn of(problem: HttpProblem) -> Self {
        Self {
            problem,
            connection_was_used: false,
        }
    }

    pub(super) const fn on_used(self, connection_was_used: bool) -> Self {
        Self {
            connection_was_used,
            ..self
        }
    }

    /// Returns what went wrong.
    #[must_use]
    pub const fn problem(&self) -> HttpProblem {
        self.problem
    }
}

impl TransportError for HttpError {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the kinds of embedded-io may grow, and what is not known is something else"
    )]
    fn kind(&self) -> FailureKind {
        match self.problem {
            HttpProblem::Closed => FailureKind::Reset,
            HttpProblem::Open(kind) | HttpProblem::Link(kind) => match kind {
                ErrorKind::ConnectionRefused => FailureKind::Refused,
                ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::BrokenPipe
                | ErrorKind::NotConnected
                | ErrorKind::WriteZero => FailureKind::Reset,
                ErrorKind::TimedOut => FailureKind::TimedOut,
                _ => FailureKind::Other,
            },
            HttpProblem::HeadTooLong
            | HttpProblem::HeaderTooLong
            | HttpProblem::NotHttp
            | HttpProblem::BadHeader
            | HttpProblem::UnknownCoding
            | HttpProblem::BadChunk
            | HttpProblem::RequestTooLong
            | HttpProblem::NoToken
            | HttpProblem::BadToken
            | HttpProblem::InUse => FailureKind::Other,
        }
    }

    fn connection_was_used(&self) -> bool {
        self.connection_was_used
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.problem {
            HttpProblem::Open(kind) => return write!(f, "the link cannot be opened: {kind:?}"),
            HttpProblem::Link(kind) => return write!(f, "the link failed: {kind:?}"),
            HttpProblem::Closed => "the server closed the connection before the end of its answer",
            HttpProblem::HeadTooLong => "the head of the answer is too long",
            HttpProblem::HeaderTooLong => "a header of the answer is too long",
            HttpProblem::NotHttp => "the answer is not HTTP/1",
            HttpProblem::BadHeader => "the headers of the answer contradict each other",
            HttpProblem::UnknownCoding => "the body has a coding that this client does not have",
            HttpProblem::BadChunk => "the chunks of the body are malformed",
            HttpProblem::RequestTooLong => {
                "the request is longer than the buffer of the connection"
            }
            HttpProblem::NoToken => "there is no token",
            HttpProblem::BadToken => "the token has a byte that no token may have",
            HttpProblem::InUse => "the connection is in use",
        })
    }
}

impl core::error::Error for HttpError {}

informer_core::readable_errors!(HttpError);
