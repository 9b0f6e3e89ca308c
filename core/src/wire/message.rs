//! The message of an error response, for people.

use super::Status;
use crate::json::{JsonStr, as_str, value_at};

/// Returns the message of an error response: that of a `Status` or of a proxy's JSON, or else the first line of text
/// with content.
pub(crate) fn message(body: &[u8]) -> JsonStr<'_> {
    const PLACES: [&[&str]; 4] = [&["message"], &["error", "message"], &["error"], &["detail"]];
    if let Some(status) = Status::parse(body) {
        return status.message;
    }
    for place in PLACES {
        if let Some(text) = value_at(body, place).and_then(as_str) {
            return text;
        }
    }
    let line = body
        .split(|&b| b == b'\n' || b == b'\r')
        .find(|line| {
            line.iter()
                .any(|b| b.is_ascii_alphanumeric() || !b.is_ascii())
        })
        .unwrap_or_default()
        .trim_ascii();
    JsonStr::new(line.get(..200).unwrap_or(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_is_no_status_is_quoted() {
        for (body, shown) in [
            ("404 page not found\n", "404 page not found"),
            ("\r\n\r\n  no route\n", "no route"),
            ("<html>\n<body>", "<html>"),
            ("", ""),
            ("{\n}", ""),
            ("---\n未找到\n", "未找到"),
            (
                r#"{"message":"no Route matched","request_id":"1"}"#,
                "no Route matched",
            ),
            (
                "{\n  \"error\": {\n    \"code\": 404,\n    \"message\": \"gone\"",
                "gone",
            ),
            (r#"{"error":"not_found"}"#, "not_found"),
            // RFC 9457.
            (
                r#"{"type":"about:blank","status":404,"detail":"no such host"}"#,
                "no such host",
            ),
            ("{\n  \"code\": 404\n}", r#""code": 404"#),
            ("[\n\"message\"\n]", r#""message""#),
            (r#"{"message":{"a":1}}"#, r#"{"message":{"a":1}}"#),
            (
                r#"{"kind":"Status","message":"as it should be","error":"x"}"#,
                "as it should be",
            ),
        ] {
            assert!(
                message(body.as_bytes()).eq_str(shown),
                "{body}: {}",
                message(body.as_bytes())
            );
        }
        let long = [b'x'; 300];
        assert_eq!(message(&long), JsonStr::new(&long[..200]));
    }
}
