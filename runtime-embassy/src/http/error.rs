//! Errors of requests.

use core::fmt;

use embedded_io_async::ErrorKind;
use informer_core::transport::{FailureKind, TransportError};

/// The error of a request that failed before or during the response.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HttpError {
    problem: HttpProblem,
    connection_was_used: bool,
}

/// The cause of an [`HttpError`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HttpProblem {
    /// The link could not be opened.
    Open(ErrorKind),
    /// The link failed.
    Link(ErrorKind),
    /// The server closed the connection before the response was complete.
    Closed,
    /// The head of the response is larger than 16 KiB, or there were too many interim responses.
    HeadTooLong,
    /// A header that the client needs is longer than 512 bytes.
    HeaderTooLong,
    /// The response is not HTTP/1.
    NotHttp,
    /// A header is invalid, or contradicts another one.
    BadHeader,
    /// The body has a content coding that is not supported, such as gzip.
    UnknownCoding,
    /// The chunks of the body are malformed.
    BadChunk,
    /// The request, including its token, is longer than the buffer.
    RequestTooLong,
    /// There is no token.
    NoToken,
    /// The token contains an invalid byte.
    BadToken,
    /// The connection is in use. This is a bug of this crate.
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

    /// Returns the cause of the error.
    #[must_use]
    pub const fn problem(&self) -> HttpProblem {
        self.problem
    }
}

impl TransportError for HttpError {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "embedded-io may add kinds, and an unknown kind counts as other"
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
            // The program may get a token later.
            | HttpProblem::NoToken
            | HttpProblem::InUse => FailureKind::Other,
            HttpProblem::RequestTooLong | HttpProblem::BadToken => FailureKind::Request,
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
            HttpProblem::Closed => {
                "the server closed the connection before the end of its response"
            }
            HttpProblem::HeadTooLong => "the head of the response is too long",
            HttpProblem::HeaderTooLong => "a header of the response is too long",
            HttpProblem::NotHttp => "the response is not HTTP/1",
            HttpProblem::BadHeader => {
                "the headers of the response are invalid or contradict each other"
            }
            HttpProblem::UnknownCoding => "the content coding of the body is not supported",
            HttpProblem::BadChunk => "the chunks of the body are malformed",
            HttpProblem::RequestTooLong => {
                "the request is longer than the buffer of the connection: shorten the selectors or enlarge the buffer"
            }
            HttpProblem::NoToken => "there is no token",
            HttpProblem::BadToken => "the token contains an invalid byte",
            HttpProblem::InUse => "the connection is in use",
        })
    }
}

impl core::error::Error for HttpError {}

informer_core::readable_errors!(HttpError);
