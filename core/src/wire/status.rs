//! The `Status` kind, and the class of an error for a list-watch client.

use core::fmt;

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
    /// The causes, a JSON array; see [`causes`](Self::causes).
    pub raw_causes: Option<&'a [u8]>,
}

impl<'a> Status<'a> {
    /// Parses a `Status`; `None` if the JSON is invalid or another kind of object.
    pub(crate) fn parse(json: &'a [u8]) -> Option<Self> {
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
        Elements::new(self.raw_causes.unwrap_or_default()).map(|cause| {
            let text = |name| {
                value_at(cause, &[name])
                    .and_then(as_str)
                    .unwrap_or_default()
            };
            Cause {
                reason: text("reason"),
                message: text("message"),
                field: text("field"),
            }
        })
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

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    use super::*;

    /// Returns the JSON of a Status with some fields.
    fn json(code: u16, reason: &str, message: &str, causes: &str) -> String {
        format!(
            r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"{message}","reason":"{reason}","details":{{"retryAfterSeconds":1,"causes":{causes}}},"code":{code}}}"#
        )
    }

    fn class(http_code: u16, json: &str) -> ErrorClass {
        let status = Status::parse(json.as_bytes());
        assert!(status.is_some(), "{json}");
        classify(http_code, status.as_ref(), json.as_bytes())
    }

    #[test]
    fn reads_a_status() {
        let json = json(
            504,
            "Timeout",
            "a \\\"b\\\"",
            r#"[{"reason":"R","message":"M","field":"f"},{}]"#,
        );
        let status = Status::parse(json.as_bytes()).unwrap();
        assert!(
            status.status == "Failure" && status.reason == "Timeout" && status.message == "a \"b\""
        );
        assert_eq!(
            (status.code, status.retry_after_seconds),
            (Some(504), Some(1))
        );
        let causes: Vec<_> = status.causes().collect();
        let text = JsonStr::new;
        assert_eq!(
            causes,
            [
                Cause {
                    reason: text(b"R"),
                    message: text(b"M"),
                    field: text(b"f")
                },
                Cause::default()
            ]
        );

        let bare = Status::parse(b" {\"kind\":\"Status\"}\n").unwrap();
        assert_eq!(bare, Status::default());
        assert_eq!(bare.causes().count(), 0);
        let odd =
            br#"{"code":"410","reason":5,"message":null,"details":[],"status":{},"kind":"Status"}"#;
        assert_eq!(Status::parse(odd), Some(Status::default()));
        let odd = br#"{"code":70000,"details":{"retryAfterSeconds":99999999999,"causes":{}},"kind":"Status"}"#;
        let status = Status::parse(odd).unwrap();
        assert_eq!(
            (status.code, status.retry_after_seconds),
            (None, Some(u32::MAX))
        );
        assert_eq!(status.causes().count(), 0);
    }

    #[test]
    fn refuses_what_is_no_status() {
        for json in [
            "",
            "Too many requests, please try again later.",
            "<html>",
            "{}",
            "[]",
            "null",
            "1",
            r#"{"kind":"PodList"}"#,
            r#"{"kind":7}"#,
            r#"{"kind":"Status""#,
            r#"{"kind":"Status"} x"#,
            r#"{"kind":"Status","code":01}"#,
        ] {
            assert_eq!(Status::parse(json.as_bytes()), None, "{json}");
        }
    }

    #[test]
    fn classifies_by_reason_then_code() {
        use ErrorClass::*;
        for (code, reason, expected) in [
            (410, "Expired", Expired),
            (410, "Gone", Expired),
            (410, "", Expired),
            (410, "SomethingNew", Expired),
            (429, "TooManyRequests", TooManyRequests),
            (401, "Unauthorized", Unauthorized),
            (403, "Forbidden", Forbidden),
            (404, "NotFound", NotFound),
            (406, "NotAcceptable", NotAcceptable),
            (422, "Invalid", Invalid),
            (500, "InternalError", InternalError),
            (500, "ServerTimeout", ServerTimeout),
            (503, "ServiceUnavailable", ServiceUnavailable),
            (504, "Timeout", Timeout),
            (504, "", Timeout),
            (500, "", InternalError),
            (500, "Expired", Expired),
            (400, "BadRequest", BadRequest),
            (400, "", BadRequest),
            (405, "MethodNotAllowed", MethodNotAllowed),
            (409, "Conflict", Other),
            (410, "Conflict", Other),
            (418, "", Other),
        ] {
            let json = json(code, reason, "m", "null");
            assert_eq!(class(code, &json), expected, "{code} {reason}");
            // As the object of an error event, or with code 200 in place of a list.
            assert_eq!(class(0, &json), expected, "{code} {reason}");
            assert_eq!(class(200, &json), expected, "{code} {reason}");
        }
        assert_eq!(class(503, &json(0, "", "", "[]")), ServiceUnavailable);
    }

    #[test]
    fn classifies_without_a_status() {
        let class = |code, body: &str| classify(code, None, body.as_bytes());
        assert_eq!(
            class(429, "Too many requests, please try again later.\n"),
            ErrorClass::TooManyRequests
        );
        assert_eq!(class(404, "404 page not found\n"), ErrorClass::NotFound);
        assert_eq!(class(410, ""), ErrorClass::Expired);
        assert_eq!(
            class(400, "Client sent an HTTP request to an HTTPS server.\n"),
            ErrorClass::BadRequest
        );
        assert_eq!(class(405, ""), ErrorClass::MethodNotAllowed);
        assert_eq!(class(502, "<html>bad gateway</html>"), ErrorClass::Other);
        assert_eq!(
            class(504, "Timeout: Too large resource version: 5, current: 4"),
            ErrorClass::TooLarge
        );
        assert_eq!(
            class(500, "Too large resource version"),
            ErrorClass::InternalError
        );
        assert_eq!(
            class(0, "too old resource version: 1 (2)"),
            ErrorClass::Expired
        );
        assert_eq!(class(0, "\\ud8"), ErrorClass::Other);
        assert_eq!(class(0, ""), ErrorClass::Other);
    }

    #[test]
    fn knows_a_resource_version_that_is_too_large() {
        let by_reason =
            r#"[{"reason":"Other"},{"reason":"ResourceVersionTooLarge","message":"x"}]"#;
        assert_eq!(
            class(504, &json(504, "Timeout", "m", by_reason)),
            ErrorClass::TooLarge
        );
        assert_eq!(
            class(0, &json(504, "Timeout", "m", by_reason)),
            ErrorClass::TooLarge
        );
        assert_eq!(
            class(500, &json(500, "InternalError", "m", by_reason)),
            ErrorClass::TooLarge
        );

        let by_message = r#"[{"message":"Too large resource version"}]"#;
        assert_eq!(
            class(504, &json(504, "Timeout", "m", by_message)),
            ErrorClass::TooLarge
        );
        assert_eq!(
            class(504, &json(504, "", "m", by_message)),
            ErrorClass::TooLarge
        );
        assert_eq!(
            class(500, &json(500, "InternalError", "m", by_message)),
            ErrorClass::InternalError
        );
        let longer = r#"[{"message":"Too large resource version: 5"}]"#;
        assert_eq!(
            class(504, &json(504, "Timeout", "m", longer)),
            ErrorClass::Timeout
        );

        let message = "Timeout: Too large resource version: 5, current: 4";
        assert_eq!(
            class(504, &json(504, "Timeout", message, "[]")),
            ErrorClass::TooLarge
        );
        assert_eq!(
            class(0, &json(504, "", message, "null")),
            ErrorClass::TooLarge
        );
        assert_eq!(
            class(422, &json(422, "Invalid", message, "[]")),
            ErrorClass::Invalid
        );
    }

    #[test]
    fn knows_an_event_that_only_tells_by_its_message() {
        let event = r#"{"kind":"Status","message":"too old resource version: 1 (2)"}"#;
        assert_eq!(class(0, event), ErrorClass::Expired);
        assert_eq!(class(200, event), ErrorClass::Expired);
        assert_eq!(class(500, event), ErrorClass::InternalError);
    }

    #[test]
    fn names_classes() {
        assert_eq!(ErrorClass::TooManyRequests.to_string(), "too-many-requests");
        assert_eq!(ErrorClass::Other.as_str(), "other");
    }
}
