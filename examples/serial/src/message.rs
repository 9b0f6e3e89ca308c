//! The content of a frame: a kind, the number of a request, the number of a piece of its response, and data.

use core::time::Duration;

use informer_core::{
    Head,
    transport::{FailureKind, Get},
};

/// The size of the header.
pub const HEADER: usize = 9;

/// The bytes of a frame besides its data: header and checksum.
pub const OVERHEAD: usize = HEADER + 4;

/// The longest request, including its `Accept` header.
pub const LONGEST_REQUEST: usize = 2048;

/// The kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// From the device: a request. It asks for the first piece of the response.
    Ask,
    /// From the device: asks for a piece, and confirms the previous one.
    More,
    /// From the device: abandons the response.
    Stop,
    /// The first piece: status and `Retry-After`.
    Head,
    /// Bytes of the body.
    Data,
    /// The body has ended.
    End,
    /// There is no response, or not all of it.
    Failed,
    /// The piece is not available yet.
    Nothing,
    /// The request is unknown.
    Gone,
}

const KINDS: [(Kind, u8); 9] = [
    (Kind::Ask, b'A'),
    (Kind::More, b'M'),
    (Kind::Stop, b'S'),
    (Kind::Head, b'H'),
    (Kind::Data, b'D'),
    (Kind::End, b'E'),
    (Kind::Failed, b'F'),
    (Kind::Nothing, b'N'),
    (Kind::Gone, b'G'),
];

/// The header of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The kind.
    pub kind: Kind,
    /// The number of the request.
    pub request: u32,
    /// The number of the piece.
    pub piece: u32,
}

impl Header {
    /// Converts the header to bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; HEADER] {
        let byte = KINDS.iter().find(|(kind, _)| *kind == self.kind);
        let [a, b, c, d] = self.request.to_be_bytes();
        let [e, f, g, h] = self.piece.to_be_bytes();
        [byte.map_or(0, |(_, byte)| *byte), a, b, c, d, e, f, g, h]
    }

    /// Parses a header. Returns the rest, too.
    #[must_use]
    pub fn parse(content: &[u8]) -> Option<(Self, &[u8])> {
        let (&[byte, a, b, c, d, e, f, g, h], rest) = content.split_first_chunk()?;
        let (kind, _) = *KINDS.iter().find(|(_, known)| *known == byte)?;
        let header = Self {
            kind,
            request: u32::from_be_bytes([a, b, c, d]),
            piece: u32::from_be_bytes([e, f, g, h]),
        };
        Some((header, rest))
    }
}

/// Returns the start of an `Ask`: the most bytes of data per frame that the device accepts, and whether the response is
/// a stream. The target, a line break and the `Accept` header follow.
#[must_use]
pub fn ask(room: u16, get: Get<'_>) -> [u8; 3] {
    let [high, low] = room.to_be_bytes();
    [high, low, u8::from(get.watch)]
}

/// Parses an `Ask`. Returns the room and the request.
#[must_use]
pub fn parse_ask(payload: &[u8]) -> Option<(u16, Get<'_>)> {
    let (&[high, low, watch], rest) = payload.split_first_chunk()?;
    let (target, accept) = core::str::from_utf8(rest).ok()?.split_once('\n')?;
    let get = Get::new(target).accept(accept).watch(watch == 1);
    Some((u16::from_be_bytes([high, low]), get))
}

/// Returns the data of a `Head`: the status, and the seconds of a `Retry-After` plus one, or 0 if there is none.
#[must_use]
pub fn head(head: Head) -> [u8; 6] {
    let seconds = |after: Duration| {
        u32::try_from(after.as_secs())
            .unwrap_or(u32::MAX)
            .saturating_add(1)
    };
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

const FAILURES: [(FailureKind, u8); 6] = [
    (FailureKind::Refused, b'r'),
    (FailureKind::Reset, b'c'),
    (FailureKind::TimedOut, b't'),
    (FailureKind::Tls, b's'),
    (FailureKind::Dns, b'd'),
    (FailureKind::Request, b'q'),
];

/// Returns the data of a `Failed`.
#[must_use]
pub fn failed(kind: FailureKind) -> [u8; 1] {
    let known = FAILURES.iter().find(|(failure, _)| *failure == kind);
    [known.map_or(b'o', |(_, byte)| *byte)]
}

/// Parses a `Failed`.
#[must_use]
pub fn parse_failed(payload: &[u8]) -> FailureKind {
    let known = FAILURES.iter().find(|(_, byte)| payload == [*byte]);
    known.map_or(FailureKind::Other, |(kind, _)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (kind, _) in KINDS {
            let header = Header {
                kind,
                request: 0x0102_0304,
                piece: u32::MAX,
            };
            assert_eq!(Header::parse(&header.to_bytes()), Some((header, &[][..])));
        }
        assert_eq!(Header::parse(b"?12345678"), None);
        assert_eq!(Header::parse(b"A1234567"), None);
        for seconds in [None, Some(0), Some(7), Some(u32::MAX.into())] {
            let mut expected = Head::new(429);
            expected.retry_after = seconds.map(Duration::from_secs);
            let read = parse_head(&head(expected)).map(|head| head.retry_after);
            let most = Some(Duration::from_secs(u64::from(u32::MAX) - 1));
            assert_eq!(read, Some(expected.retry_after.min(most)));
        }
        assert_eq!(parse_head(b"12345"), None);
        for kind in FAILURES
            .map(|(kind, _)| kind)
            .into_iter()
            .chain([FailureKind::Other])
        {
            assert_eq!(parse_failed(&failed(kind)), kind);
        }
        let get = Get::new("/api/v1/pods?watch=true")
            .accept("a,b")
            .watch(true);
        let mut bytes = ask(300, get).to_vec();
        bytes.extend_from_slice(b"/api/v1/pods?watch=true\na,b");
        assert_eq!(parse_ask(&bytes), Some((300, get)));
        assert_eq!(parse_ask(b"\0\0\0/api"), None);
        assert_eq!(parse_ask(b"\0\0\0\xff\n"), None);
    }
}
