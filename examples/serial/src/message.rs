//! The content of a frame: a kind, a number, and data.

use core::time::Duration;

use informer_core::{
    Head,
    transport::{FailureKind, Get},
};

/// The size of the header.
pub const HEADER: usize = 5;

/// The bytes of a frame besides its data: header and checksum.
pub const OVERHEAD: usize = HEADER + 4;

/// The most data of a frame to the device, which has a buffer for one. On a noisy line, short frames arrive more often.
pub const DATA: usize = 256;

/// The longest request, including its `Accept` header.
pub const LONGEST_REQUEST: usize = 2048;

/// The kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// From the device: a request. It asks for the first part of the response.
    Ask = b'A',
    /// From the device: asks for the next part.
    More = b'M',
    /// From the device: abandons the response.
    Stop = b'S',
    /// The first part: status and `Retry-After`.
    Head = b'H',
    /// Bytes of the body.
    Data = b'D',
    /// The body has ended.
    End = b'E',
    /// There is no response, or not all of it.
    Failed = b'F',
    /// The next part is not available yet.
    Nothing = b'N',
}

const KINDS: [Kind; 8] = [
    Kind::Ask,
    Kind::More,
    Kind::Stop,
    Kind::Head,
    Kind::Data,
    Kind::End,
    Kind::Failed,
    Kind::Nothing,
];

/// The header of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The kind.
    pub kind: Kind,
    /// The number of the device's frame. The answer has the same one.
    pub number: u32,
}

impl Header {
    /// Converts the header to bytes.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; HEADER] {
        let [a, b, c, d] = self.number.to_be_bytes();
        [self.kind as u8, a, b, c, d]
    }

    /// Parses a header. Returns the rest, too.
    #[must_use]
    pub fn parse(content: &[u8]) -> Option<(Self, &[u8])> {
        let (&[byte, a, b, c, d], rest) = content.split_first_chunk()?;
        let kind = KINDS.into_iter().find(|kind| *kind as u8 == byte)?;
        let number = u32::from_be_bytes([a, b, c, d]);
        Some((Self { kind, number }, rest))
    }
}

/// Parses the data of an `Ask`: whether the response is a stream, the target, a line break, the `Accept` header.
#[must_use]
pub fn parse_ask(payload: &[u8]) -> Option<Get<'_>> {
    let (watch, rest) = payload.split_first()?;
    let (target, accept) = core::str::from_utf8(rest).ok()?.split_once('\n')?;
    Some(Get::new(target).accept(accept).watch(*watch == 1))
}

/// Returns the data of a `Head`: the status, and the seconds of a `Retry-After` plus one, or 0 if there is none.
#[must_use]
pub fn head(head: Head) -> [u8; 6] {
    // More than an hour is no better than an hour.
    let seconds = |after: Duration| after.as_secs().min(3_600) as u32 + 1;
    let [a, b] = head.status.to_be_bytes();
    let [c, d, e, f] = head.retry_after.map_or(0, seconds).to_be_bytes();
    [a, b, c, d, e, f]
}

/// Parses a `Head`.
#[must_use]
pub fn parse_head(payload: &[u8]) -> Option<Head> {
    let [a, b, c, d, e, f] = payload.try_into().ok()?;
    let mut head = Head::new(u16::from_be_bytes([a, b]));
    let seconds = u32::from_be_bytes([c, d, e, f]).checked_sub(1);
    head.retry_after = seconds.map(|seconds| Duration::from_secs(seconds.into()));
    Some(head)
}

/// The failures that have a number, which is their place here.
const FAILURES: [FailureKind; 6] = [
    FailureKind::Refused,
    FailureKind::Reset,
    FailureKind::TimedOut,
    FailureKind::Tls,
    FailureKind::Dns,
    FailureKind::Request,
];

/// Returns the data of a `Failed`.
#[must_use]
pub fn failed(kind: FailureKind) -> [u8; 1] {
    let place = FAILURES.iter().position(|known| *known == kind);
    [place.map_or(u8::MAX, |place| place as u8)]
}

/// Parses a `Failed`.
#[must_use]
pub fn parse_failed(payload: &[u8]) -> FailureKind {
    let place = payload.first().copied().map_or(usize::MAX, usize::from);
    FAILURES.get(place).copied().unwrap_or(FailureKind::Other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_message_is_read_back() {
        for kind in KINDS {
            let number = 0x0102_0304;
            let header = Header { kind, number };
            assert_eq!(Header::parse(&header.to_bytes()), Some((header, &[][..])));
        }
        assert_eq!(Header::parse(b"?1234"), None);
        assert_eq!(Header::parse(b"A123"), None);
        for seconds in [None, Some(0), Some(7), Some(3_600)] {
            let mut expected = Head::new(429);
            expected.retry_after = seconds.map(Duration::from_secs);
            assert_eq!(parse_head(&head(expected)), Some(expected));
        }
        assert_eq!(parse_head(b"12345"), None);
        for kind in FAILURES.into_iter().chain([FailureKind::Other]) {
            assert_eq!(parse_failed(&failed(kind)), kind);
        }
        let get = Get::new("/api/v1/pods?watch=true")
            .accept("a,b")
            .watch(true);
        assert_eq!(parse_ask(b"\x01/api/v1/pods?watch=true\na,b"), Some(get));
        assert_eq!(parse_ask(b"\0/api"), None);
        assert_eq!(parse_ask(b"\0\xff\n"), None);
    }
}
