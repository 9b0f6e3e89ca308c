//! The `Status` kind, and the class of an error for a list-watch client.

#[cfg(test)]
mod tests;

use core::fmt;

use super::Format;
use crate::json::members::Cursor;
use crate::json::{Elements, Fields, JsonStr, Scanner, as_str, as_u64, value_at};

/// An object of the kind `Status`: the body of an error, or the object of an error event.
///
/// Strings are empty if absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Status<'a> {
    /// `Success` or `Failure`.
    pub status: JsonStr<'a>,
    /// The corresponding HTTP status code.
    pub code: Option<u16>,
    /// The reason in one word, such as `Expired`.
    pub reason: JsonStr<'a>,
    /// The error message, for people.
    pub message: JsonStr<'a>,
    /// The time to wait before another attempt, in seconds.
    pub retry_after_seconds: Option<u32>,
    /// The format of the object.
    pub format: Format,
    /// The causes, a JSON array, or the details of an object in protobuf; see [`causes`](Self::causes).
    pub raw_causes: Option<&'a [u8]>,
}

impl<'a> Status<'a> {
    /// Parses a `Status` in either format; `None` if it is invalid or another kind of object.
    pub(crate) fn parse(json: &'a [u8]) -> Option<Self> {
        #[cfg(feature = "protobuf")]
        if json.starts_with(&super::protobuf::MAGIC) {
            return super::protobuf::status(json);
        }
        if !is_one_value(json) {
            return None;
        }
        let mut status = Self::default();
        let mut is_status = false;
        for (name, value) in Fields::new(Cursor::new(json).value()?) {
            if name.eq_str("kind") {
                is_status = as_str(value)?.eq_str("Status");
            } else if name.eq_str("status") {
                status.status = as_str(value).unwrap_or_default();
            } else if name.eq_str("code") {
                status.code = as_u64(value).and_then(|code| code.try_into().ok());
            } else if name.eq_str("reason") {
                status.reason = as_str(value).unwrap_or_default();
            } else if name.eq_str("message") {
                status.message = as_str(value).unwrap_or_default();
            } else if name.eq_str("details") {
                let seconds = value_at(value, &["retryAfterSeconds"]).and_then(as_u64);
                status.retry_after_seconds =
                    seconds.map(|seconds| seconds.try_into().unwrap_or(u32::MAX));
                status.raw_causes = value_at(value, &["causes"]);
            }
        }
        is_status.then_some(status)
    }

    /// Returns an iterator over the causes.
    pub(crate) fn causes(&self) -> impl Iterator<Item = Cause<'a>> + use<'a> {
        let raw = self.raw_causes.unwrap_or_default();
        let (json, protobuf) = match self.format {
            Format::Json => (raw, &[][..]),
            Format::Protobuf => (&[][..], raw),
        };
        Elements::new(json)
            .map(Cause::of_json)
            .chain(Cause::of_details(protobuf))
    }
}

/// One of the causes of an error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cause<'a> {
    /// The reason in one word.
    pub reason: JsonStr<'a>,
    /// The error message, for people.
    pub message: JsonStr<'a>,
    /// The field with the error.
    pub field: JsonStr<'a>,
}

impl<'a> Cause<'a> {
    fn of_json(cause: &'a [u8]) -> Self {
        let text = |name| {
            value_at(cause, &[name])
                .and_then(as_str)
                .unwrap_or_default()
        };
        Self {
            reason: text("reason"),
            message: text("message"),
            field: text("field"),
        }
    }

    #[cfg(feature = "protobuf")]
    fn of_details(details: &'a [u8]) -> impl Iterator<Item = Self> + use<'a> {
        super::protobuf::causes(details).map(|[reason, message, field]| Self {
            reason,
            message,
            field,
        })
    }

    #[cfg(not(feature = "protobuf"))]
    fn of_details(_: &'a [u8]) -> impl Iterator<Item = Self> + use<'a> {
        core::iter::empty()
    }
}

/// The class of an error for a list-watch client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorClass {
    /// The resource version, or the token for the next page, is too old.
    Expired,
    /// The resource version is newer than the server has.
    TooLarge,
    /// The server is overloaded or not ready.
    TooManyRequests,
    /// The credentials are missing or no longer valid.
    Unauthorized,
    /// The credentials are not sufficient.
    Forbidden,
    /// The resource does not exist, or does not exist yet.
    NotFound,
    /// The server does not support the requested media type.
    NotAcceptable,
    /// The server cannot parse the request: a selector, a parameter, or plain HTTP sent to a TLS port.
    BadRequest,
    /// The resource does not support the verb.
    MethodNotAllowed,
    /// A parameter is invalid, or unknown to this server.
    Invalid,
    /// The server failed.
    InternalError,
    /// The server requests another attempt.
    ServerTimeout,
    /// The server did not finish in time.
    Timeout,
    /// The server is unavailable, or a proxy reports so.
    ServiceUnavailable,
    /// Any other error.
    Other,
}

impl ErrorClass {
    /// Returns the name of the class in kebab case.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::TooLarge => "too-large",
            Self::TooManyRequests => "too-many-requests",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not-found",
            Self::NotAcceptable => "not-acceptable",
            Self::BadRequest => "bad-request",
            Self::MethodNotAllowed => "method-not-allowed",
            Self::Invalid => "invalid",
            Self::InternalError => "internal-error",
            Self::ServerTimeout => "server-timeout",
            Self::Timeout => "timeout",
            Self::ServiceUnavailable => "service-unavailable",
            Self::Other => "other",
        }
    }

    /// Returns whether the same request keeps failing until someone changes the request, the credentials, the
    /// permissions or the server.
    pub(crate) const fn is_permanent(self) -> bool {
        match self {
            Self::Unauthorized
            | Self::Forbidden
            | Self::NotFound
            | Self::NotAcceptable
            | Self::BadRequest
            | Self::MethodNotAllowed
            | Self::Invalid => true,
            Self::Expired
            | Self::TooLarge
            | Self::TooManyRequests
            | Self::InternalError
            | Self::ServerTimeout
            | Self::Timeout
            | Self::ServiceUnavailable
            | Self::Other => false,
        }
    }

    /// Returns the class of a reason; `None` for an unknown reason, so that the code determines the class.
    fn of_reason(reason: JsonStr<'_>) -> Option<Self> {
        const KNOWN: [(&str, ErrorClass); 19] = [
            ("Expired", ErrorClass::Expired),
            ("Gone", ErrorClass::Expired),
            ("TooManyRequests", ErrorClass::TooManyRequests),
            ("Unauthorized", ErrorClass::Unauthorized),
            ("Forbidden", ErrorClass::Forbidden),
            ("NotFound", ErrorClass::NotFound),
            ("NotAcceptable", ErrorClass::NotAcceptable),
            ("Invalid", ErrorClass::Invalid),
            ("InternalError", ErrorClass::InternalError),
            ("ServerTimeout", ErrorClass::ServerTimeout),
            ("Timeout", ErrorClass::Timeout),
            ("ServiceUnavailable", ErrorClass::ServiceUnavailable),
            ("AlreadyExists", ErrorClass::Other),
            ("BadRequest", ErrorClass::BadRequest),
            ("Conflict", ErrorClass::Other),
            ("MethodNotAllowed", ErrorClass::MethodNotAllowed),
            ("RequestEntityTooLarge", ErrorClass::Other),
            ("StoreReadError", ErrorClass::InternalError),
            ("UnsupportedMediaType", ErrorClass::Other),
        ];
        KNOWN
            .iter()
            .find(|(known, _)| reason.eq_str(known))
            .map(|(_, class)| *class)
    }

    fn of_code(code: u16) -> Self {
        match code {
            400 => Self::BadRequest,
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 => Self::NotFound,
            405 => Self::MethodNotAllowed,
            406 => Self::NotAcceptable,
            410 => Self::Expired,
            422 => Self::Invalid,
            429 => Self::TooManyRequests,
            500 => Self::InternalError,
            503 => Self::ServiceUnavailable,
            504 => Self::Timeout,
            _ => Self::Other,
        }
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns the class of an error.
///
/// `http_code` is the code of the response. If it is 0 or a success, because the error came as an event or in place of
/// a list, the code of `status` is used. `body` is the text of a response that is not a `Status`.
///
/// As in client-go, a known reason determines the class, and otherwise the code does. A resourceVersion that is too
/// large is recognized by the causes, and for servers before 1.18.6 by the message.
pub(crate) fn classify(http_code: u16, status: Option<&Status<'_>>, body: &[u8]) -> ErrorClass {
    let code = match http_code {
        0 | 200..=299 => status.and_then(|status| status.code).unwrap_or_default(),
        code => code,
    };
    let reason = status.and_then(|status| ErrorClass::of_reason(status.reason));
    let class = reason.unwrap_or_else(|| ErrorClass::of_code(code));

    let text = |text| match status {
        Some(status) => status.message.contains(text),
        None => JsonStr::new(body).contains(text),
    };
    let is_cause = status.is_some_and(|status| {
        status.causes().any(|cause| {
            let in_message = class == ErrorClass::Timeout && cause.message.eq_str(TOO_LARGE);
            in_message || cause.reason.eq_str("ResourceVersionTooLarge")
        })
    });
    if is_cause || class == ErrorClass::Timeout && text(TOO_LARGE) {
        return ErrorClass::TooLarge;
    }
    // The text counts only if there is neither a reason nor a code.
    if class == ErrorClass::Other
        && reason.is_none()
        && code == 0
        && text("too old resource version")
    {
        return ErrorClass::Expired;
    }
    class
}

const TOO_LARGE: &str = "Too large resource version";

/// Returns whether the JSON is exactly one valid value, with optional whitespace around it.
fn is_one_value(json: &[u8]) -> bool {
    let mut scanner = Scanner::new();
    let mut at = 0;
    let ended = scanner.skip_value(json, &mut at, 0) == Ok(true);
    let rest = json.get(at..).unwrap_or_default();
    ended
        && rest
            .iter()
            .all(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t'))
}
