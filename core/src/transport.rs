//! The engine's interface to the network and the clock.

#[cfg(feature = "alloc")]
use alloc::boxed::Box;
use core::fmt;
#[cfg(feature = "alloc")]
use core::pin::Pin;
use core::time::Duration;

use crate::time::Instant;
use crate::wire::Format;

#[cfg(feature = "alloc")]
mod headers;

#[cfg(feature = "alloc")]
pub use headers::{Warnings, redirect_body};

/// Sends requests to one API server.
///
/// A transport provides the address, the credentials and the connection. It does not retry and does not handle
/// resourceVersions; the engine does.
///
/// A minimal custom transport:
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
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a transport to an API server",
    label = "does not implement `Transport`",
    note = "use `informer::connect()` or a `HyperTransport`; for a `kube::Client`, `informer_kube::transport(client)`",
    note = "or implement `Transport`",
    note = "a transport is passed by value: clone it for each informer"
)]
#[expect(
    async_fn_in_trait,
    reason = "whether the future is `Send` depends on the transport, and embassy does not require it"
)]
pub trait Transport {
    /// The body of a response.
    type Body: Body<Error = Self::Error>;
    /// The error of a request.
    type Error: TransportError;

    /// Waits until a request can be sent, if a connection is shared in turns. It is awaited before each request, and
    /// does not count towards the engine's deadlines: the server is not silent while a request waits for its turn.
    ///
    /// Dropping the future gives up the place in the queue. A wrapper may omit this call, so `send` must also work
    /// without it.
    async fn ready(&mut self) {}

    /// Sends a GET request and waits for the head of the response.
    ///
    /// Dropping the future abandons the request. Every HTTP status is a success here.
    ///
    /// # Errors
    /// Fails if there is no response.
    async fn send(&mut self, get: Get<'_>) -> Result<(Head, Self::Body), Self::Error>;
}

/// A future on the heap that any thread can run.
#[cfg(feature = "alloc")]
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The boxed future of [`Transport::send`].
#[cfg(feature = "alloc")]
pub type BoxSend<'a, T> =
    BoxFuture<'a, Result<(Head, <T as Transport>::Body), <T as Transport>::Error>>;

/// The boxed future of [`Body::chunk`], with an error of another type.
#[cfg(feature = "alloc")]
pub type BoxChunk<'a, E> = BoxFuture<'a, Result<Option<&'a [u8]>, E>>;

/// A [`Transport`] whose futures are `Send`, so that a task on any thread can use it. Clones send to the same server.
///
/// The compiler can prove `Send` only where the type is known, hence a trait. Each method boxes the future of the
/// method of the same name:
///
/// ```
/// use informer_core::transport::{BoxChunk, BoxFuture, BoxSend, Get, SendTransport};
/// use informer_core::{Body, Head, Transport};
/// # use informer_core::transport::{FailureKind, TransportError};
/// # #[derive(Clone)]
/// # struct Canned;
/// # struct Whole(Option<&'static [u8]>);
/// # #[derive(Debug)]
/// # struct Never;
/// # impl TransportError for Never {
/// #     fn kind(&self) -> FailureKind { FailureKind::Other }
/// # }
/// # impl std::fmt::Display for Never {
/// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str("never") }
/// # }
/// # impl Transport for Canned {
/// #     type Body = Whole;
/// #     type Error = Never;
/// #     async fn send(&mut self, _get: Get<'_>) -> Result<(Head, Whole), Never> { Ok((Head::new(200), Whole(None))) }
/// # }
/// # impl Body for Whole {
/// #     type Error = Never;
/// #     async fn chunk(&mut self) -> Result<Option<&[u8]>, Never> { Ok(self.0.take()) }
/// # }
///
/// impl SendTransport for Canned {
///     fn boxed_ready(&mut self) -> BoxFuture<'_, ()> {
///         Box::pin(self.ready())
///     }
///     fn boxed_send<'a>(&'a mut self, get: Get<'a>) -> BoxSend<'a, Self> {
///         Box::pin(self.send(get))
///     }
///     fn boxed_chunk<E: Send + 'static>(body: &mut Whole, error: fn(Never) -> E) -> BoxChunk<'_, E> {
///         Box::pin(async move { body.chunk().await.map_err(error) })
///     }
/// }
/// ```
#[cfg(feature = "alloc")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a transport whose futures are known to be `Send`",
    label = "does not implement `SendTransport`",
    note = "use `informer::connect()` or a `HyperTransport`; for a `kube::Client`, `informer_kube::transport(client)`",
    note = "for a custom `Transport`: box it with `boxed!`, implement `SendTransport` for it, or run the driver that `build()` \
            returns on the thread of the transport"
)]
pub trait SendTransport:
    Transport<Body: Send + 'static, Error: Send> + Clone + Send + 'static
{
    /// Boxes the future of [`Transport::ready`].
    fn boxed_ready(&mut self) -> BoxFuture<'_, ()>;

    /// Boxes the future of [`Transport::send`].
    fn boxed_send<'a>(&'a mut self, get: Get<'a>) -> BoxSend<'a, Self>;

    /// Boxes the future of [`Body::chunk`], once for each chunk, with its error converted by `error`.
    fn boxed_chunk<E: Send + 'static>(
        body: &mut Self::Body,
        error: fn(Self::Error) -> E,
    ) -> BoxChunk<'_, E>;
}

/// The body of a response. Dropping it abandons the response.
#[expect(
    async_fn_in_trait,
    reason = "whether the future is `Send` depends on the transport, and embassy does not require it"
)]
pub trait Body {
    /// The error of a read.
    type Error: TransportError;

    /// Waits for the next chunk of the body; `None` is the regular end. The data is decoded, without transfer or
    /// content encoding. Empty chunks are allowed and ignored.
    ///
    /// It must be cancel-safe: dropping the future before it is ready must not lose data.
    ///
    /// # Errors
    /// Fails if the body ends prematurely: after a reset, or with fewer bytes than announced.
    async fn chunk(&mut self) -> Result<Option<&[u8]>, Self::Error>;

    /// Returns the next warning in the head of the response that was not reported yet. It becomes a report,
    /// [`Problem::Warning`](crate::report::Problem::Warning).
    ///
    /// A transport over HTTP returns the texts of `Warning` headers, each once for all clones: see `Warnings`. An API
    /// server warns of deprecated resources. At most 100 are asked for. A wrapper forwards the call. The default returns
    /// none.
    fn warning(&mut self) -> Option<&str> {
        None
    }
}

/// The error of a transport, with a class for the engine. `Display` writes one line.
pub trait TransportError: fmt::Display {
    /// Returns the class of the failure.
    fn kind(&self) -> FailureKind;

    /// Returns whether the connection had already served a request. If a reused connection turns out to be closed, the
    /// request is retried at once.
    fn connection_was_used(&self) -> bool {
        false
    }
}

/// The class of a transport error.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum FailureKind {
    /// The connection was refused.
    Refused,
    /// The connection was reset or closed prematurely.
    Reset,
    /// A time limit passed.
    TimedOut,
    /// The TLS handshake failed, for example because of a certificate, a name or a protocol.
    Tls,
    /// The server's name could not be resolved.
    Dns,
    /// The request cannot be built or sent as it is: sending it again fails again.
    ///
    /// The cause is the caller: a target that is too long, or a text that a header cannot have. The informer reports it
    /// as an error and retries as after a permanent refusal, with delays of up to 5 to 10 minutes.
    Request,
    /// Any other error.
    Other,
}

impl FailureKind {
    /// Returns the class as a word for logs and JSON.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "connection-refused",
            Self::Reset => "connection-reset",
            Self::TimedOut => "timed-out",
            Self::Tls => "tls",
            Self::Dns => "dns",
            Self::Request => "request",
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
            Self::Dns => "the server's name could not be resolved",
            Self::Request => {
                "the request cannot be sent as it is: shorten or correct its selectors"
            }
            Self::Other => "the transport failed",
        })
    }
}

/// A GET request for a transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Get<'a> {
    /// The path and query, percent-encoded: `/api/v1/pods?limit=500&resourceVersion=0`.
    pub target: &'a str,
    /// The `Accept` header.
    pub accept: &'a str,
    /// Whether the response is a stream.
    pub watch: bool,
}

impl<'a> Get<'a> {
    /// Creates a request for JSON.
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

    /// Sets whether the response is a stream.
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
    /// The `Retry-After` header, if it is a whole number of seconds.
    pub retry_after: Option<Duration>,
    /// The format of the body, from its `Content-Type`. Without it, the first byte of the body decides.
    pub format: Option<Format>,
}

impl Head {
    /// Creates a head with this HTTP status.
    #[must_use]
    pub const fn new(status: u16) -> Self {
        Self {
            status,
            retry_after: None,
            format: None,
        }
    }

    /// Sets the value of the `Content-Type` header.
    ///
    /// ```
    /// # use informer_core::{Head, wire::Format};
    /// let head = Head::new(200).with_content_type("application/vnd.kubernetes.protobuf;stream=watch");
    /// assert_eq!(head.format, Some(Format::Protobuf));
    /// ```
    #[must_use]
    pub fn with_content_type(self, header: &str) -> Self {
        Self {
            format: Some(Format::of_content_type(header)),
            ..self
        }
    }

    /// Sets the value of a `Retry-After` header. A date is not supported and is ignored.
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
    /// The body ended regularly.
    Clean,
    /// It was cut.
    Failed(TransportFailure),
}

/// The properties of a transport's error that the engine needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TransportFailure {
    /// The class.
    pub kind: FailureKind,
    /// Whether the connection had already served a request.
    pub connection_was_used: bool,
}

impl TransportFailure {
    /// Creates a failure of a new connection.
    #[must_use]
    pub const fn new(kind: FailureKind) -> Self {
        Self {
            kind,
            connection_was_used: false,
        }
    }

    /// Copies the class of a transport's error.
    pub(crate) fn of(error: &impl TransportError) -> Self {
        Self {
            kind: error.kind(),
            connection_was_used: error.connection_was_used(),
        }
    }
}

/// A clock with a timer.
#[expect(
    async_fn_in_trait,
    reason = "whether the future is `Send` depends on the timer, and embassy does not require it"
)]
pub trait Timer {
    /// Returns the current time.
    fn now(&self) -> Instant;

    /// Waits until `deadline`. It may wake early, since the driver checks the clock. The future may be dropped at any
    /// time.
    async fn sleep_until(&mut self, deadline: Instant);
}
