//! The subset of HTTP/1.1 that a client of the API needs.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::backend::ResponseHead;

/// The largest head of a request, in bytes.
pub(super) const HEAD_LIMIT: usize = 64 * 1024;
/// The largest body of a request, in bytes, as on the API server.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) accept: String,
    /// Whether the client accepts gzip.
    pub(super) gzip: bool,
    pub(super) keep_alive: bool,
    /// Whether the client supports chunked bodies.
    pub(super) chunks: bool,
    pub(super) content_type: String,
    pub(super) body: Vec<u8>,
}

/// Parses a request at the start of the input. Returns the request and its length in bytes, or `None` if it is
/// incomplete. The error is an HTTP status.
pub(super) fn parse(input: &[u8]) -> Result<Option<(Request, usize)>, u16> {
    // RFC 9112 requires empty lines before a request to be ignored.
    let start = input
        .iter()
        .position(|byte| !matches!(byte, b'\r' | b'\n'))
        .unwrap_or(input.len());
    let Some(end) = find(&input[start..], b"\r\n\r\n").map(|at| start + at) else {
        return if input.len() > HEAD_LIMIT {
            Err(431)
        } else {
            Ok(None)
        };
    };
    if end > HEAD_LIMIT {
        return Err(431);
    }
    let head = core::str::from_utf8(&input[start..end]).map_err(|_| 400_u16)?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(400);
    };
    let chunks = match version {
        "HTTP/1.1" => true,
        "HTTP/1.0" => false,
        _ => return Err(505),
    };
    let (mut accept, mut keep_alive, mut length) = (Vec::new(), chunks, 0);
    let mut content_type = "";
    let mut gzip = false;
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(400_u16)?;
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "accept" => accept.push(value),
            // Like the API server, it looks for the word only and ignores weights.
            "accept-encoding" => gzip |= value.split(',').any(|part| part.trim() == "gzip"),
            "connection" => {
                let has = |token: &str| {
                    value
                        .split(',')
                        .any(|part| part.trim().eq_ignore_ascii_case(token))
                };
                keep_alive = !has("close") && (keep_alive || has("keep-alive"));
            }
            "content-type" => content_type = value,
            "content-length" => length = value.parse().map_err(|_| 400_u16)?,
            "transfer-encoding" => return Err(411),
            _ => {}
        }
    }
    if !["GET", "POST", "PUT", "PATCH", "DELETE"].contains(&method) {
        return Err(405);
    }
    if length > BODY_LIMIT {
        return Err(413);
    }
    let used = end + 4 + length;
    if input.len() < used {
        return Ok(None);
    }
    let target = path(target).ok_or(400_u16)?;
    Ok(Some((
        Request {
            method: method.to_string(),
            target: target.to_string(),
            accept: accept.join(","),
            gzip,
            keep_alive,
            chunks,
            content_type: content_type.to_string(),
            body: input[end + 4..used].to_vec(),
        },
        used,
    )))
}

/// Writes the head of a response.
pub(super) fn head(head: &ResponseHead, chunked: bool, keep_alive: bool) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {} {}\r\n", head.status, reason(head.status));
    for (name, value) in &head.headers {
        // A header value from a fault must not break out of its line.
        if !name.contains(['\r', '\n']) && !value.contains(['\r', '\n']) {
            text += &format!("{name}: {value}\r\n");
        }
    }
    if let Some(length) = head.content_length {
        text += &format!("Content-Length: {length}\r\n");
    } else if chunked {
        text += "Transfer-Encoding: chunked\r\n";
    }
    if !keep_alive {
        text += "Connection: close\r\n";
    }
    text += "\r\n";
    text.into_bytes()
}

/// Formats bytes as a chunk.
pub(super) fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 16);
    out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
    out
}

/// Formats the response to an invalid request.
pub(super) fn refusal(status: u16) -> Vec<u8> {
    let mut refusal = ResponseHead::new(status);
    refusal.content_length = Some(0);
    head(&refusal, false, false)
}

/// Extracts the path and query of a target, which may be a complete URL.
fn path(target: &str) -> Option<&str> {
    if target.starts_with('/') {
        return Some(target);
    }
    let rest = target.strip_prefix("http://")?;
    Some(rest.find('/').map_or("/", |at| &rest[at..]))
}

fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes
        .windows(pattern.len())
        .position(|window| window == pattern)
}

const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Option<(Request, usize)>, u16> {
        parse(text.as_bytes())
    }

    #[test]
    fn requests() {
        let text = "\r\nGET /a?b HTTP/1.1\r\nHost: x\r\nACCEPT: a\r\naccept:b \r\nContent-Length: 2\r\n\r\nxyGET";
        let (request, used) = parsed(text).ok().flatten().expect("whole");
        let expected = Request {
            method: "GET".to_string(),
            target: "/a?b".to_string(),
            accept: "a,b".to_string(),
            gzip: false,
            keep_alive: true,
            chunks: true,
            content_type: String::new(),
            body: b"xy".to_vec(),
        };
        assert_eq!((request, used), (expected, text.len() - 3));
        for len in 0..text.len() - 3 {
            assert_eq!(parsed(&text[..len]), Ok(None), "{len}");
        }
        let keep = |text: &str| {
            parsed(text)
                .ok()
                .flatten()
                .map(|(request, _)| request.keep_alive)
        };
        assert_eq!(
            keep("GET / HTTP/1.1\r\nConnection: Close\r\n\r\n"),
            Some(false)
        );
        assert_eq!(keep("GET / HTTP/1.0\r\n\r\n"), Some(false));
        assert_eq!(
            keep("GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n"),
            Some(true)
        );
        let target = |text: &str| {
            parsed(text)
                .ok()
                .flatten()
                .map(|(request, _)| request.target)
        };
        assert_eq!(
            target("GET http://host:1/a HTTP/1.1\r\n\r\n").as_deref(),
            Some("/a")
        );
        assert_eq!(
            target("GET http://host HTTP/1.1\r\n\r\n").as_deref(),
            Some("/")
        );
    }

    #[test]
    fn bad_requests() {
        for (text, status) in [
            ("GET /\r\n\r\n", 400),
            ("GET  / HTTP/1.1\r\n\r\n", 400),
            ("HEAD / HTTP/1.1\r\n\r\n", 405),
            ("GET / HTTP/2\r\n\r\n", 505),
            ("GET / HTTP/1.1\r\nx\r\n\r\n", 400),
            ("GET x HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", 413),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        ] {
            assert_eq!(parsed(text), Err(status), "{text}");
        }
        assert_eq!(parse(b"GET /\xff HTTP/1.1\r\n\r\n"), Err(400));
        assert_eq!(parse(&[b'x'; HEAD_LIMIT + 1]), Err(431));
    }
}
