//! Statuses, and the classes of errors.

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
    use ErrorClass::*;
    let http = "Client sent an HTTP request to an HTTPS server.\n";
    let too_large = "Timeout: Too large resource version: 5, current: 4";
    for (code, body, expected) in [
        (
            429,
            "Too many requests, please try again later.\n",
            TooManyRequests,
        ),
        (404, "404 page not found\n", NotFound),
        (410, "", Expired),
        (400, http, BadRequest),
        (405, "", MethodNotAllowed),
        (502, "<html>bad gateway</html>", Other),
        (504, too_large, TooLarge),
        (500, "Too large resource version", InternalError),
        (0, "too old resource version: 1 (2)", Expired),
        (0, "\\ud8", Other),
        (0, "", Other),
    ] {
        assert_eq!(classify(code, None, body.as_bytes()), expected, "{body}");
    }
}

#[test]
fn knows_a_resource_version_that_is_too_large() {
    use ErrorClass::*;
    let by_reason = r#"[{"reason":"Other"},{"reason":"ResourceVersionTooLarge","message":"x"}]"#;
    let by_message = r#"[{"message":"Too large resource version"}]"#;
    let longer = r#"[{"message":"Too large resource version: 5"}]"#;
    let message = "Timeout: Too large resource version: 5, current: 4";
    for (http, code, reason, message, causes, expected) in [
        (504, 504, "Timeout", "m", by_reason, TooLarge),
        (0, 504, "Timeout", "m", by_reason, TooLarge),
        (500, 500, "InternalError", "m", by_reason, TooLarge),
        (504, 504, "Timeout", "m", by_message, TooLarge),
        (504, 504, "", "m", by_message, TooLarge),
        (500, 500, "InternalError", "m", by_message, InternalError),
        (504, 504, "Timeout", "m", longer, Timeout),
        (504, 504, "Timeout", message, "[]", TooLarge),
        (0, 504, "", message, "null", TooLarge),
        (422, 422, "Invalid", message, "[]", Invalid),
    ] {
        let status = json(code, reason, message, causes);
        assert_eq!(class(http, &status), expected, "{http} {status}");
    }
}

#[test]
fn recognizes_an_event_by_its_message_alone() {
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
