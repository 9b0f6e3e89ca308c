//! Errors of requests.

use core::error::Error;
use core::fmt;
use core::iter;
use core::net::IpAddr;
use core::time::Duration;
use std::io;

use informer_core::{
    report::OneLine,
    transport::{FailureKind, TransportError},
};

use crate::address::{Address, Host};
use crate::gzip::GzipError;
use crate::{http2, tls};

/// The most bytes of the head of a response, in HTTP/1.1 and HTTP/2. An API server sends a few hundred, and a proxy may add
/// cookies and policies.
pub(crate) const MOST_HEAD: u32 = 256 << 10;

/// The reason why a request failed or a response could not be read.
///
/// `Display` writes one line with the server's address and the causes. It contains no secrets.
///
/// # Examples
/// ```
/// use informer_core::{Transport, transport::{FailureKind, Get, TransportError}};
/// use informer_hyper::HyperTransport;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), informer_hyper::BuildError> {
/// // No server listens on port 1.
/// let mut transport = HyperTransport::builder("http://127.0.0.1:1").build()?;
/// let error = transport.send(Get::new("/version")).await.unwrap_err();
/// assert_eq!(error.kind(), FailureKind::Refused);
/// assert!(error.to_string().starts_with("cannot connect to 127.0.0.1:1: Connection refused"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct HyperError {
    kind: FailureKind,
    connection_was_used: bool,
    message: Box<str>,
}

/// The reason why there is no response.
pub(crate) struct NoResponse {
    pub(crate) error: HyperError,
    /// Whether the server certainly has not processed the request, so that it can be sent again on another connection.
    pub(crate) is_untouched: bool,
}

impl HyperError {
    pub(crate) fn lookup(server: &Address, why: impl fmt::Display) -> Self {
        Self::new(
            FailureKind::Dns,
            format!("cannot resolve the address of {}: {why}", server.host()),
        )
    }

    pub(crate) fn connecting(server: &Address, ip: IpAddr, error: &io::Error) -> Self {
        let at = match server.host() {
            Host::Ip(_) => String::new(),
            Host::Name(_) => format!(" at {ip}"),
        };
        Self::new(
            classify(error),
            format!("cannot connect to {server}{at}: {}", chain(error)),
        )
    }

    pub(crate) fn slow(server: &impl fmt::Display, what: &str, limit: Duration) -> Self {
        Self::new(
            FailureKind::TimedOut,
            format!("cannot {what} {server}: it took longer than {limit:?}"),
        )
    }

    pub(crate) fn handshake(server: &Address, error: &io::Error) -> Self {
        Self::new(
            classify(error),
            format!("TLS handshake with {server} failed: {}", chain(error)),
        )
    }

    pub(crate) fn trust(server: &Address, why: &str) -> Self {
        Self::new(
            FailureKind::Tls,
            format!("cannot start TLS with {server}: {why}"),
        )
    }

    pub(crate) fn proxy(proxy: &Address, server: &Address, error: &(dyn Error + 'static)) -> Self {
        Self::new(
            classify(error),
            format!(
                "the proxy {proxy} cannot connect to {server}: {}",
                chain(error)
            ),
        )
    }

    #[cfg(feature = "tower")]
    pub(crate) fn service(error: &(dyn Error + 'static)) -> Self {
        Self::new(
            classify(error),
            format!("no response from the service: {}", chain(error)),
        )
    }

    pub(crate) fn login(server: &Address, error: &impl fmt::Display) -> Self {
        Self::new(
            FailureKind::Other,
            format!("cannot log in to {server}: {error}"),
        )
    }

    /// A request that cannot be built. The cause is its caller.
    pub(crate) fn request(server: &impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::new(
            FailureKind::Request,
            format!("cannot send a request to {server}: {why}"),
        )
    }

    /// A response whose head never arrived.
    pub(crate) fn answering(
        server: &Address,
        error: &(dyn Error + 'static),
        connection_was_used: bool,
    ) -> Self {
        let why = too_large(error).unwrap_or_else(|| chain(error));
        let message = format!("no response from {server}: {why}");
        Self {
            connection_was_used,
            ..Self::new(classify(error), message)
        }
    }

    /// A response that ended in the middle of its body.
    pub(crate) fn reading(server: &impl fmt::Display, error: &(dyn Error + 'static)) -> Self {
        Self::new(
            classify(error),
            format!("the response from {server} was cut off: {}", chain(error)),
        )
    }

    /// A server that does not accept HTTP/2 although HTTP/1.1 is disabled.
    pub(crate) fn not_http2(server: &Address) -> Self {
        Self::new(
            FailureKind::Other,
            format!("the server at {server} does not support HTTP/2, and HTTP/1.1 is disabled"),
        )
    }

    pub(crate) fn no_streams(server: &Address) -> Self {
        Self::new(
            FailureKind::Other,
            format!("the server at {server} allows no HTTP/2 streams"),
        )
    }

    /// A server that closes every new connection before it accepts a request.
    pub(crate) fn closing(server: &Address) -> Self {
        Self::new(
            FailureKind::Reset,
            format!(
                "the server at {server} closes each new HTTP/2 connection before it accepts a request"
            ),
        )
    }

    /// A response that does not conform to its content encoding.
    pub(crate) fn decoding(server: &impl fmt::Display, error: &GzipError) -> Self {
        if *error == GzipError::Cut {
            return Self::new(
                FailureKind::Reset,
                format!("the response from {server} was cut off: {error}"),
            );
        }
        let message = format!("the response from {server} cannot be decoded: {error}");
        Self::new(FailureKind::Other, message)
    }

    /// A response in a content encoding that was not requested.
    pub(crate) fn encoding(server: &impl fmt::Display, name: &str) -> Self {
        let message = format!(
            "the response from {server} cannot be decoded: its content encoding {name:?} is not supported"
        );
        Self::new(FailureKind::Other, message)
    }

    fn new(kind: FailureKind, message: String) -> Self {
        Self {
            kind,
            connection_was_used: false,
            // It may contain headers and certificates of the server, or the output of plugins.
            message: OneLine(message).to_string().into(),
        }
    }
}

#[cfg(feature = "http2")]
impl HyperError {
    pub(crate) fn beginning(server: &Address, error: &(dyn Error + 'static)) -> Self {
        Self::new(
            classify(error),
            format!(
                "cannot use HTTP/2 with {server}: {}; does the server support it?",
                chain(error)
            ),
        )
    }

    /// A connection whose server no longer responds to pings.
    pub(crate) fn silent(server: &Address, silence: Duration) -> Self {
        Self::new(
            FailureKind::TimedOut,
            format!(
                "the connection to {server} is dead: no data for {:.0} s and no response to a ping",
                silence.as_secs_f64()
            ),
        )
    }

    pub(crate) fn on_used(self, connection_was_used: bool) -> Self {
        Self {
            connection_was_used,
            ..self
        }
    }
}

impl TransportError for HyperError {
    fn kind(&self) -> FailureKind {
        self.kind
    }

    /// Returns whether the connection had already served a request. It is `false` once the head of the response has
    /// arrived.
    fn connection_was_used(&self) -> bool {
        self.connection_was_used
    }
}

impl fmt::Display for HyperError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for HyperError {}

informer_core::readable_errors!(HyperError);

fn classify(error: &(dyn Error + 'static)) -> FailureKind {
    let mut kind = FailureKind::Other;
    for cause in causes(error) {
        if cause.is::<tls::Error>() {
            return FailureKind::Tls;
        }
        let io = cause.downcast_ref::<io::Error>();
        if let Some(error) = io.or_else(|| http2::io_error(cause))
            && let Some(kind) = classify_io(error.kind())
        {
            return kind;
        }
        if let Some(error) = cause.downcast_ref::<hyper::Error>()
            && (error.is_incomplete_message() || error.is_closed() || error.is_canceled())
        {
            kind = FailureKind::Reset;
        }
        if http2::is_remote(cause) {
            kind = FailureKind::Reset;
        }
    }
    kind
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "there are many kinds, and more may be added"
)]
fn classify_io(kind: io::ErrorKind) -> Option<FailureKind> {
    match kind {
        io::ErrorKind::ConnectionRefused => Some(FailureKind::Refused),
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::NotConnected
        | io::ErrorKind::UnexpectedEof => Some(FailureKind::Reset),
        io::ErrorKind::TimedOut => Some(FailureKind::TimedOut),
        _ => None,
    }
}

/// Describes the failure of a response whose head is over the limit.
fn too_large(error: &(dyn Error + 'static)) -> Option<String> {
    let how = causes(error).find_map(|cause| {
        if let Some(error) = cause.downcast_ref::<hyper::Error>() {
            // hyper has a method for it only in its server.
            let is_too_large = error.is_parse() && error.to_string() == "message head is too large";
            return is_too_large.then_some("or has more than 100 headers");
        }
        http2::may_be_of_head(cause).then_some("or is not valid")
    })?;
    Some(format!(
        "the head of the response is larger than {} KiB, {how}",
        MOST_HEAD >> 10
    ))
}

/// Joins an error and its causes in one line.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut line = String::new();
    for cause in causes(error) {
        let text = match cause.downcast_ref::<tls::Error>() {
            Some(error) => tls::describe(error),
            None if is_wrapper(cause) => continue,
            None => cause.to_string(),
        };
        if !line.is_empty() {
            line.push_str(": ");
        }
        line.extend(text.split(['\r', '\n']).filter(|part| !part.is_empty()));
    }
    line
}

/// Returns whether an error's text only repeats its cause.
fn is_wrapper(error: &(dyn Error + 'static)) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.get_ref().is_some())
}

/// Iterates over an error and its causes. An `io::Error` hides the error that it wraps: its `source` is that error's
/// source.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    iter::successors(Some(error), |&error| {
        match error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}
