//! An incremental parser for the head of a response.

use core::str::from_utf8;

use heapless::Vec;
use informer_core::Head;

use super::body::Framing;
use super::error::HttpProblem;

/// The most bytes of a head.
const MAX_HEAD: usize = 16 * 1024;
/// The most bytes of a line that are stored. The headers that matter are shorter.
const MAX_LINE: usize = 512;

/// The parsed head of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Parsed {
    pub(super) head: Head,
    pub(super) framing: Framing,
    pub(super) keep_alive: bool,
}

impl Parsed {
    /// Returns whether this is an interim response (1xx).
    pub(super) const fn is_interim(&self) -> bool {
        self.head.status / 100 == 1 && self.head.status != 101
    }
}

/// Parses the head of a response in parts of any size.
pub(super) struct HeadReader {
    line: Vec<u8, MAX_LINE>,
    /// Whether the line is longer than the stored part.
    cut: bool,
    total: usize,
    status: Option<u16>,
    is_http_1_0: bool,
    length: Option<u64>,
    chunked: bool,
    /// Whether there is an unsupported `Transfer-Encoding` or content coding.
    other_coding: bool,
    close: bool,
    head: Head,
}

impl HeadReader {
    pub(super) const fn new() -> Self {
        Self {
            line: Vec::new(),
            cut: false,
            total: 0,
            status: None,
            is_http_1_0: false,
            length: None,
            chunked: false,
            other_coding: false,
            close: false,
            head: Head::new(0),
        }
    }

    /// Parses more input. Returns how many bytes were consumed, and the head if it is complete.
    pub(super) fn read(&mut self, input: &[u8]) -> Result<(usize, Option<Parsed>), HttpProblem> {
        for (at, &byte) in input.iter().enumerate() {
            self.total += 1;
            if self.total > MAX_HEAD {
                return Err(HttpProblem::HeadTooLong);
            }
            if byte != b'\n' {
                self.cut |= self.line.push(byte).is_err();
                continue;
            }
            // A line may end with a line feed alone (RFC 9112, 2.2).
            if self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
            if let Some(parsed) = self.end_of_line()? {
                return Ok((at + 1, Some(parsed)));
            }
            self.line.clear();
            self.cut = false;
        }
        Ok((input.len(), None))
    }

    fn end_of_line(&mut self) -> Result<Option<Parsed>, HttpProblem> {
        let Some(status) = self.status else {
            self.status = Some(self.status_line()?);
            return Ok(None);
        };
        if self.line.is_empty() && !self.cut {
            return self.finish(status).map(Some);
        }
        self.header()?;
        Ok(None)
    }

    /// Parses `HTTP/1.1 200 OK`.
    fn status_line(&mut self) -> Result<u16, HttpProblem> {
        let rest = self
            .line
            .strip_prefix(b"HTTP/1.")
            .ok_or(HttpProblem::NotHttp)?;
        let (minor, rest) = rest.split_first().ok_or(HttpProblem::NotHttp)?;
        let digits = rest.get(..4).and_then(|rest| rest.strip_prefix(b" "));
        let ended = rest.get(4).is_none_or(|byte| *byte == b' ');
        let digits = digits.filter(|digits| ended && digits.iter().all(u8::is_ascii_digit));
        if !minor.is_ascii_digit() {
            return Err(HttpProblem::NotHttp);
        }
        self.is_http_1_0 = *minor == b'0';
        let text = digits.and_then(|digits| from_utf8(digits).ok());
        text.and_then(|text| text.parse().ok())
            .filter(|status| (100..600).contains(status))
            .ok_or(HttpProblem::NotHttp)
    }

    fn header(&mut self) -> Result<(), HttpProblem> {
        let mut parts = self.line.splitn(2, |byte| *byte == b':');
        let name = parts.next().unwrap_or_default();
        let Some(value) = parts.next() else {
            // A line without a colon is either a truncated one, which does not matter, or invalid.
            return if self.cut {
                Ok(())
            } else {
                Err(HttpProblem::BadHeader)
            };
        };
        // This is a folded line, which RFC 9112 forbids, or white space in a name.
        if name.is_empty() || !name.iter().all(u8::is_ascii_graphic) {
            return Err(HttpProblem::BadHeader);
        }
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        let matters = [
            "content-length",
            "transfer-encoding",
            "content-encoding",
            "connection",
        ];
        if !matters.into_iter().any(is) && !is("retry-after") {
            return Ok(());
        }
        if self.cut {
            return Err(HttpProblem::HeaderTooLong);
        }
        let value = from_utf8(value.trim_ascii()).map_err(|_| HttpProblem::BadHeader)?;
        if is("content-length") {
            let length = content_length(value)?;
            if self.length.is_some_and(|before| before != length) {
                return Err(HttpProblem::BadHeader);
            }
            self.length = Some(length);
        } else if is("transfer-encoding") {
            // Only `chunked` alone is supported, and no coding can follow it (RFC 9112, 6.1).
            self.other_coding |= self.chunked || !value.eq_ignore_ascii_case("chunked");
            self.chunked = true;
        } else if is("content-encoding") {
            self.other_coding |= !value.is_empty() && !value.eq_ignore_ascii_case("identity");
        } else if is("connection") {
            let mut options = value.split(',').map(str::trim);
            self.close |= options.any(|option| option.eq_ignore_ascii_case("close"));
        } else {
            self.head = self.head.with_retry_after(value);
        }
        Ok(())
    }

    fn finish(&self, status: u16) -> Result<Parsed, HttpProblem> {
        if self.other_coding {
            return Err(HttpProblem::UnknownCoding);
        }
        if status == 101 {
            return Err(HttpProblem::NotHttp);
        }
        let is_empty = status / 100 == 1 || status == 204 || status == 304;
        let framing = match (is_empty, self.chunked, self.length) {
            (true, ..) => Framing::Empty,
            (_, true, _) => Framing::chunked(),
            (_, _, Some(length)) => Framing::Length(length),
            (_, _, None) => Framing::UntilClose,
        };
        // A length together with chunks may be an attempt at request smuggling (RFC 9112, 6.3).
        let is_dubious = self.chunked && self.length.is_some();
        let mut head = self.head;
        head.status = status;
        Ok(Parsed {
            head,
            keep_alive: !(self.close
                || self.is_http_1_0
                || is_dubious
                || framing == Framing::UntilClose),
            framing,
        })
    }
}

/// Parses a length. Several equal lengths are allowed.
fn content_length(value: &str) -> Result<u64, HttpProblem> {
    let mut lengths = value.split(',').map(str::trim).map(|length| {
        let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
        digits
            .then(|| length.parse().ok())
            .flatten()
            .ok_or(HttpProblem::BadHeader)
    });
    let first = lengths.next().ok_or(HttpProblem::BadHeader)??;
    for other in lengths {
        if other? != first {
            return Err(HttpProblem::BadHeader);
        }
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::format;
    use std::string::String;

    use super::*;

    /// Reads a head as a whole, and split at each byte. Both results must be equal.
    fn read(text: &str) -> Result<Parsed, HttpProblem> {
        let whole = HeadReader::new()
            .read(text.as_bytes())
            .map(|(read, parsed)| {
                assert_eq!(read, text.len());
                parsed.expect("the head is complete")
            });
        for step in 1..text.len().min(40) {
            let mut reader = HeadReader::new();
            let mut parsed = Ok(None);
            for piece in text.as_bytes().chunks(step) {
                match reader.read(piece) {
                    Ok((_, None)) => {}
                    Ok((_, done)) => parsed = Ok(done),
                    Err(problem) => {
                        parsed = Err(problem);
                        break;
                    }
                }
            }
            assert_eq!(
                parsed.map(|parsed| parsed.expect("complete")),
                whole,
                "{step}"
            );
        }
        whole
    }

    fn with(headers: &str) -> Result<Parsed, HttpProblem> {
        read(&format!("HTTP/1.1 200 OK\r\n{headers}\r\n"))
    }

    #[test]
    fn heads_as_api_servers_send_them() {
        let parsed = with(
            "Audit-Id: 1\r\nCache-Control: no-cache, private\r\ncontent-TYPE: application/json\r\nTransfer-Encoding: chunked\r\n",
        )
        .unwrap();
        assert_eq!(parsed.framing, Framing::chunked());
        assert!(parsed.keep_alive && parsed.head.status == 200);
        let parsed = read(
            "HTTP/1.1 429 Too Many Requests\nRetry-After: 7\nContent-Length:12 \nConnection: Close\n\n",
        )
        .unwrap();
        assert_eq!(parsed.head.retry_after, Some(Duration::from_secs(7)));
        assert_eq!(parsed.framing, Framing::Length(12));
        assert!(!parsed.keep_alive);
        assert_eq!(
            read("HTTP/1.1 204\r\n\r\n").unwrap().framing,
            Framing::Empty
        );
        assert!(read("HTTP/1.1 100 Continue\r\n\r\n").unwrap().is_interim());
        let old = read("HTTP/1.0 200 OK\r\n\r\n").unwrap();
        assert!(!old.keep_alive && old.framing == Framing::UntilClose);
    }

    #[test]
    fn contradictory_or_invalid_heads_are_refused() {
        for (headers, problem) in [
            (
                "Content-Length: 1\r\nContent-Length: 2\r\n",
                HttpProblem::BadHeader,
            ),
            ("Content-Length: 1, 2\r\n", HttpProblem::BadHeader),
            ("Content-Length: +1\r\n", HttpProblem::BadHeader),
            ("Content-Length: \r\n", HttpProblem::BadHeader),
            (
                "Content-Length: 99999999999999999999\r\n",
                HttpProblem::BadHeader,
            ),
            ("Content-Encoding: gzip\r\n", HttpProblem::UnknownCoding),
            (
                "Transfer-Encoding: gzip, chunked\r\n",
                HttpProblem::UnknownCoding,
            ),
            (
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                HttpProblem::UnknownCoding,
            ),
            (" folded\r\n", HttpProblem::BadHeader),
            (" Content-Length: 1\r\n", HttpProblem::BadHeader),
            ("Content-Length : 1\r\n", HttpProblem::BadHeader),
            ("no colon\r\n", HttpProblem::BadHeader),
        ] {
            assert_eq!(with(headers), Err(problem), "{headers}");
        }
        let same = with("Content-Length: 5\r\nContent-Length: 5, 5\r\n").unwrap();
        assert_eq!(same.framing, Framing::Length(5));
        let both = with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n").unwrap();
        assert!(both.framing == Framing::chunked() && !both.keep_alive);
        for text in [
            "HTTP/2 200 OK\r\n\r\n",
            "HTTP/1.1 20 OK\r\n\r\n",
            "HTTP/1.1 2000 OK\r\n\r\n",
            "HTTP/1.1 600 OK\r\n\r\n",
            "HTTP/1.x 200 OK\r\n\r\n",
            "\r\n\r\n",
            "HTTP/1.1 101 Switching\r\n\r\n",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn everything_has_a_limit() {
        let long = "x".repeat(2000);
        let parsed = with(&format!(
            "Warning: {long}\r\n{long}: 1\r\nContent-Length: 3\r\n"
        ));
        assert_eq!(parsed.unwrap().framing, Framing::Length(3));
        let matters = with(&format!("Connection: {long}\r\n"));
        assert_eq!(matters, Err(HttpProblem::HeaderTooLong));
        let endless: String = (0..2000).map(|i| format!("X-{i}: 1\r\n")).collect();
        assert_eq!(with(&endless), Err(HttpProblem::HeadTooLong));
    }
}
