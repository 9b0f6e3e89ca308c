//! What the engine asks of a network and of a clock.

use core::fmt;
use core::time::Duration;

use crate::time::Instant;

/// Sends requests to one API server.
///
/// A transport adds what is its own: the address, credentials, the connection. It does not retry and it does not
/// follow resourceVersions; that is the engine's work.
///
/// A transport of one's own in a few lines:
///
/// ```
/// use informer_core::{Body, Head, Transport, transport::{FailureKind, Get, TransportError}};
///
/// struct Canned;
/// struct Whole(Option<&'static [u8]>);
/// #[derive(Debug)]
/// struct Never;
///
/// impl TransportError for Never {
///     fn kind(&self) -> FailureKind { FailureKind::Other }
/// }
/// impl std::fmt::Display for Never {
///     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str("never") }
/// }
///
/// impl Transport for Canned {
///     type Body = Whole;
///     type Error = Never;
///     async fn send(&mut self, _get: Get<'_>) -> Result<(Head, Whole), Never> {
///         Ok((Head::new(200), Whole(Some(br#"{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[]}"#))))
///     }
/// }
/// impl Body for Whole {
///     type Error = Never;
///     async fn chunk(&mut self) -> Result<Option<&[u8]>, Never> { Ok(self.0.take()) }
/// }
/// ```
#[expect(
    async_fn_in_trait,
    reason = "whether the future is Send follows from the transport, and embassy needs none"
)]
pub trait Transport {
    /// The body of a response.
    type Body: Body<Error = Self::Error>;
    /// Why a request failed.
    type Error: TransportError;

    /// Waits until a request can be sent, where a connection is shared in turns. It is awaited before each request, and
    /// what it takes counts for none of the engine's deadlines: it is not the server that is silent.
    ///
    /// Dropping the future gives the place in the queue up. What boxes a transport may leave it out, so that `send` has to
    /// do as well without it.
    async fn ready(&mut self) {}

    /// Sends a GET request and waits for the head of the response.
    ///
    /// Dropping the future abandons the request. Any HTTP status is a success here.
    ///
    /// # Errors
    /// Fails where there is no response at all.
    async fn send(&mut self, get: Get<'_>) -> Result<(Head, Self::Body), Self::Error>;
}

/// The body of a response. Dropping it abandons the response.
#[expect(
    async_fn_in_trait,
    reason = "whether the future is Send follows from the transport, and embassy needs none"
)]
pub trait Body {
    /// Why reading failed.
    type Error: TransportError;

    /// Waits for more of the body; `None` is its clean end. What it gives is decoded: without transfer or content
    /// encoding. An empty chunk is allowed and means nothing.
    ///
    /// It is cancel-safe: where the future is dropped before it is ready, no byte is lost.
    ///
    /// # Errors
    /// Fails where the body ends before its end: a reset, or fewer bytes than were announced.
    async fn chunk(&mut self) -> Result<Option<&[u8]>, Self::Error>;
}

/// The error of a transport, in the classes that the engine tells apart. `Display` gives one line for a person.
pub trait TransportError: fmt::Display {
    /// Returns the class of the failure.
    fn kind(&self) -> FailureKind;

    /// Tells whether the connection had already served a request. A request that finds its kept connection closed is
    /// repeated at once.
    fn connection_was_used(&self) -> bool {
        false
    }
}

/// The class of a transport's failure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum FailureKind {
    /// Nobody listens there.
    Refused,
    /// The connection was reset or closed in the middle.
    Reset,
    /// Nothing came in time.
    TimedOut,
    /// The TLS handshake failed: a certificate, a name, a protocol.
    Tls,
    /// The name of the server was not found.
    Dns,
    /// Anything else.
    Other,
}

impl FailureKind {
    /// Returns the class as a word for logs and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "connection-refused",
            Self::Reset => "connection-reset",
            Self::TimedOut => "timed-out",
            Self::Tls => "tls",
            Self::Dns => "dns",
            Self::Other => "transport",
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "connection refused",
            Self::Reset => "connection reset",
            Self::TimedOut => "timed out",
            Self::Tls => "TLS handshake failed",
            Self::Dns => "the server's name was not found",
            Self::Other => "the transport failed",
        })
    }
}

/// A GET request as a transport sends it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Get<'a> {
    /// Path and query, percent-encoded: `/api/v1/pods?limit=500&resourceVersion=0`.
    pub target: &'a str,
    /// The `Accept` header.
    pub accept: &'a str,
    /// Whether the response is a stream that stays open.
    pub watch: bool,
}

impl<'a> Get<'a> {
    /// Makes a request for JSON.
    ///
    /// ```
    /// let get = informer_core::transport::Get::new("/api/v1/pods?limit=500");
    /// assert_eq!(get.accept, "application/json");
    /// ```
    #[must_use]
    pub const fn new(target: &'a str) -> Self {
        Self {
            target,
            accept: "application/json",
            watch: false,
        }
    }

    /// Sets the `Accept` header.
    #[must_use]
    pub const fn accept(self, accept: &'a str) -> Self {
        Self { accept, ..self }
    }

    /// Says whether the response is a stream that stays open.
    #[must_use]
    pub const fn watch(self, watch: bool) -> Self {
        Self { watch, ..self }
    }
}

/// The head of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Head {
    /// The HTTP status.
    pub status: u16,
    /// The `Retry-After` header where it is a whole number of seconds.
    pub retry_after: Option<Duration>,
}

impl Head {
    /// Makes a head with this HTTP status.
    ///
    /// ```
    /// assert_eq!(informer_core::Head::new(200).retry_after, None);
    /// ```
    #[must_use]
    pub const fn new(status: u16) -> Self {
        Self {
            status,
            retry_after: None,
        }
    }

    /// Takes over the value of a `Retry-After` header; a date is not understood and counts as none.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use informer_core::Head;
    /// assert_eq!(Head::new(429).with_retry_after("7").retry_after, Some(Duration::from_secs(7)));
    /// assert_eq!(Head::new(429).with_retry_after("Fri, 31 Dec 1999 23:59:59 GMT").retry_after, None);
    /// ```
    #[must_use]
    pub fn with_retry_after(self, header: &str) -> Self {
        let seconds = header.trim().parse::<u32>().ok();
        Self {
            retry_after: seconds.map(|s| Duration::from_secs(s.into())),
            ..self
        }
    }
}

/// How a response, or the attempt to get one, ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The body ended where it should.
    Clean,
    /// It was cut.
    Failed(Failure),
}

/// What the engine needs to know of a transport's error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// The class.
    pub kind: FailureKind,
    /// Whether the connection had already served a request.
    pub connection_was_used: bool,
}

impl Failure {
    /// Makes a failure of a connection that had served nothing.
    #[must_use]
    pub const fn new(kind: FailureKind) -> Self {
        Self {
            kind,
            connection_was_used: false,
        }
    }

    /// Takes over what a transport's error says.
    pub fn of(error: &impl TransportError) -> Self {
        Self {
            kind: error.kind(),
            connection_was_used: error.connection_was_used(),
        }
    }
}

/// A clock that can be waited for.
#[expect(
    async_fn_in_trait,
    reason = "whether the future is Send follows from the timer, and embassy needs none"
)]
pub trait Timer {
    /// Returns the present time.
    fn now(&self) -> Instant;

    /// Waits until `deadline`. It may wake early: the driver compares the clock. Dropping the future is harmless.
    async fn sleep_until(&mut self, deadline: Instant);
}
