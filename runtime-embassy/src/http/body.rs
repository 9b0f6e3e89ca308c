//! The framing of a response body.

use super::error::HttpProblem;

/// The most bytes of extensions per chunk, and of trailers per body.
const MAX_EXTRA: u16 = 4096;

/// The framing of a body, and the position of the reader in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Framing {
    /// The body has ended.
    Empty,
    /// This many bytes are left.
    Length(u64),
    /// The body ends with the connection.
    UntilClose,
    /// The body is chunked.
    Chunked(Chunk),
}

/// The position in a chunked body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Chunk {
    /// Within the digits of a size.
    Size { size: u64, digits: u8 },
    /// After the digits, in an extension.
    Extension { size: u64, extra: u16 },
    /// In the data, of which this many bytes are left.
    Data { left: u64 },
    /// After the data, at the end of the line.
    AfterData,
    /// In the trailers. `line` counts the bytes of the current line.
    Trailer { line: u16, extra: u16 },
}

/// The next part of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Piece {
    /// This many bytes of content.
    Data(usize),
    /// All input has been read, and the body continues.
    More,
    /// The body is complete.
    End,
}

impl Framing {
    pub(super) const fn chunked() -> Self {
        Self::Chunked(Chunk::Size { size: 0, digits: 0 })
    }

    /// Reads on. Returns how many bytes to skip, and what follows them.
    pub(super) fn next(&mut self, input: &[u8]) -> Result<(usize, Piece), HttpProblem> {
        match self {
            Self::Empty | Self::Length(0) => Ok((0, Piece::End)),
            _ if input.is_empty() => Ok((0, Piece::More)),
            Self::Length(left) => Ok((0, Piece::Data(take(left, input)))),
            Self::UntilClose => Ok((0, Piece::Data(input.len()))),
            Self::Chunked(chunk) => chunk.next(input),
        }
    }

    /// Handles the end of the connection. Unless the body has ended with it, the body was cut.
    pub(super) fn ended(&mut self) -> Result<(), HttpProblem> {
        if *self != Self::UntilClose {
            return Err(HttpProblem::Closed);
        }
        *self = Self::Empty;
        Ok(())
    }
}

impl Chunk {
    fn next(&mut self, input: &[u8]) -> Result<(usize, Piece), HttpProblem> {
        for (at, &byte) in input.iter().enumerate() {
            match self {
                Self::Size { size, digits } => {
                    if let Some(digit) = char::from(byte).to_digit(16) {
                        *size = *size << 4 | u64::from(digit);
                        *digits += 1;
                        if *digits > 15 {
                            return Err(HttpProblem::BadChunk);
                        }
                        continue;
                    }
                    let size = *size;
                    if *digits == 0 {
                        return Err(HttpProblem::BadChunk);
                    }
                    match byte {
                        b'\n' => *self = Self::after_size(size),
                        b';' | b'\r' | b' ' | b'\t' => *self = Self::Extension { size, extra: 0 },
                        _ => return Err(HttpProblem::BadChunk),
                    }
                }
                Self::Extension { size, extra } => {
                    *extra += 1;
                    if byte == b'\n' {
                        *self = Self::after_size(*size);
                    } else if *extra > MAX_EXTRA {
                        return Err(HttpProblem::BadChunk);
                    }
                }
                Self::Data { left: 0 } | Self::AfterData => match byte {
                    b'\r' if *self != Self::AfterData => *self = Self::AfterData,
                    b'\n' => *self = Self::Size { size: 0, digits: 0 },
                    _ => return Err(HttpProblem::BadChunk),
                },
                Self::Data { left } => {
                    let rest = input.get(at..).unwrap_or_default();
                    return Ok((at, Piece::Data(take(left, rest))));
                }
                Self::Trailer { line: 0, .. } if byte == b'\n' => return Ok((at + 1, Piece::End)),
                Self::Trailer { line, extra } => {
                    *extra += 1;
                    if *extra > MAX_EXTRA {
                        return Err(HttpProblem::BadChunk);
                    }
                    match byte {
                        b'\n' => *line = 0,
                        // It precedes the line feed. Elsewhere it does not make an empty line non-empty.
                        b'\r' => {}
                        _ => *line = 1,
                    }
                }
            }
        }
        Ok((input.len(), Piece::More))
    }

    const fn after_size(size: u64) -> Self {
        if size == 0 {
            Self::Trailer { line: 0, extra: 0 }
        } else {
            Self::Data { left: size }
        }
    }
}

/// Takes the bytes of the input that belong to the body.
fn take(left: &mut u64, input: &[u8]) -> usize {
    let length = usize::try_from(*left)
        .unwrap_or(usize::MAX)
        .min(input.len());
    *left -= length as u64;
    length
}

#[cfg(test)]
mod tests {
    use std::string::String;
    use std::vec::Vec;
    use std::{format, vec};

    use super::*;

    /// Reads a body in pieces of a size, and the bytes after it too.
    fn read(
        mut framing: Framing,
        bytes: &[u8],
        step: usize,
    ) -> Result<(Vec<u8>, usize), HttpProblem> {
        let (mut content, mut done) = (vec![], 0);
        for piece in bytes.chunks(step) {
            let mut rest = piece;
            loop {
                let (skip, what) = framing.next(rest)?;
                done += skip;
                rest = &rest[skip..];
                match what {
                    Piece::More => break,
                    Piece::End => return Ok((content, bytes.len() - done)),
                    Piece::Data(length) => {
                        content.extend_from_slice(&rest[..length]);
                        done += length;
                        rest = &rest[length..];
                    }
                }
            }
        }
        framing.ended()?;
        Ok((content, 0))
    }

    fn at_every_split(framing: Framing, bytes: &[u8]) -> Result<(String, usize), HttpProblem> {
        let whole = read(framing, bytes, bytes.len());
        for step in 1..bytes.len() {
            assert_eq!(read(framing, bytes, step), whole, "{step}");
        }
        whole.map(|(content, left)| (String::from_utf8(content).unwrap(), left))
    }

    #[test]
    fn bodies_in_every_framing_at_every_split() {
        let ok = |content: &str, left| Ok((content.into(), left));
        let chunked = Framing::chunked();
        assert_eq!(at_every_split(Framing::Length(5), b"hello"), ok("hello", 0));
        assert_eq!(
            at_every_split(Framing::Length(5), b"helloXY"),
            ok("hello", 2)
        );
        assert_eq!(
            at_every_split(Framing::Length(6), b"hello"),
            Err(HttpProblem::Closed)
        );
        assert_eq!(
            at_every_split(Framing::UntilClose, b"hello"),
            ok("hello", 0)
        );
        let body = b"5\r\nhello\r\n1;a=\"b\"\r\n \r\n00C \r\nhow are you?\r\n0\r\n\r\n";
        assert_eq!(at_every_split(chunked, body), ok("hello how are you?", 0));
        let trailers = b"1\na\n0;last\r\nX: y\r\nZ: \r\n\r\nnext";
        assert_eq!(at_every_split(chunked, trailers), ok("a", 4));
        assert_eq!(at_every_split(chunked, b"0\r\n\r\n"), ok("", 0));
    }

    #[test]
    fn chunks_that_are_none_are_refused() {
        for body in [
            &b"\r\n"[..],
            b"g\r\n",
            b"-1\r\n",
            b"1\r\nab\r\n",
            b"1\r\na\r\r\n",
            b"1\r\na\rb",
            b"1\r\na1\r\n",
            b"fffffffffffffffff\r\n",
            b"0x5\r\nhello\r\n",
        ] {
            assert_eq!(
                at_every_split(Framing::chunked(), body),
                Err(HttpProblem::BadChunk),
                "{body:?}"
            );
        }
        for body in [
            &b"5\r\nhell"[..],
            b"5\r\nhello\r\n",
            b"5",
            b"0\r\n",
            b"0\r\nX: y\r\n",
        ] {
            assert_eq!(
                at_every_split(Framing::chunked(), body),
                Err(HttpProblem::Closed),
                "{body:?}"
            );
        }
        let long = "x".repeat(5000);
        for body in [format!("1;{long}\r\n"), format!("0\r\n{long}: y\r\n")] {
            let read = read(Framing::chunked(), body.as_bytes(), 100);
            assert_eq!(read, Err(HttpProblem::BadChunk));
        }
    }
}
