//! Frames in a byte stream: between two END bytes as in SLIP (RFC 1055), with a checksum at the end.

const END: u8 = 0xc0;
const ESCAPE: u8 = 0xdb;
const ESCAPED_END: u8 = 0xdc;
const ESCAPED_ESCAPE: u8 = 0xdd;

/// The size of the checksum in bytes.
const CHECK: usize = 4;

/// Returns the bytes of a frame whose content is the concatenation of `parts`. It begins with an END too, so that
/// inserted bytes before it form a separate frame.
///
/// ```
/// use informer_serial::frame::{Decoder, encode};
///
/// let mut decoder = Decoder::<32>::new();
/// let mut bytes = b"noise".iter().copied().chain(encode(&[b"hel", b"lo"]));
/// assert!(bytes.any(|byte| decoder.push(byte)));
/// assert_eq!(decoder.content(), b"hello");
/// ```
pub fn encode<'a>(parts: &'a [&'a [u8]]) -> impl Iterator<Item = u8> + 'a {
    let content = parts.iter().flat_map(|part| part.iter());
    let check = checksum(content.clone());
    let inside = content.copied().chain(check).flat_map(|byte| {
        let (first, second) = match byte {
            END => (ESCAPE, Some(ESCAPED_END)),
            ESCAPE => (ESCAPE, Some(ESCAPED_ESCAPE)),
            plain => (plain, None),
        };
        core::iter::once(first).chain(second)
    });
    core::iter::once(END).chain(inside).chain([END])
}

/// Finds frames in a byte stream. Frames with more than `B` bytes, including the checksum, are ignored.
#[derive(Clone, Debug)]
pub struct Decoder<const B: usize> {
    buffer: [u8; B],
    length: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Text,
    /// The last byte was an ESCAPE.
    Escape,
    /// The bytes up to the next END are not a frame.
    Skip,
    /// The last byte completed a frame.
    Whole,
}

impl<const B: usize> Decoder<B> {
    /// Creates a decoder in its initial state.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            buffer: [0; B],
            length: 0,
            // It may be in the middle of a frame, up to the next END.
            state: State::Skip,
        }
    }

    /// Handles a byte. Returns whether it completed a frame with a correct checksum. [`content`](Self::content) is then
    /// available until the next byte.
    pub fn push(&mut self, byte: u8) -> bool {
        if self.state == State::Whole {
            self.length = 0;
            self.state = State::Text;
        }
        self.state = match (self.state, byte) {
            (State::Text, END) if self.is_right() => State::Whole,
            (_, END) => {
                self.length = 0;
                State::Text
            }
            (State::Skip, _) => State::Skip,
            (State::Escape, ESCAPED_END) => self.put(END),
            (State::Escape, ESCAPED_ESCAPE) => self.put(ESCAPE),
            (State::Escape, _) => State::Skip,
            (_, ESCAPE) => State::Escape,
            (_, plain) => self.put(plain),
        };
        self.state == State::Whole
    }

    /// Returns the content of the frame that the last byte completed, without its checksum; otherwise an empty slice.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        let length = match self.state {
            State::Whole => self.length.saturating_sub(CHECK),
            State::Text | State::Escape | State::Skip => 0,
        };
        self.buffer.get(..length).unwrap_or_default()
    }

    fn put(&mut self, byte: u8) -> State {
        let Some(place) = self.buffer.get_mut(self.length) else {
            return State::Skip;
        };
        *place = byte;
        self.length += 1;
        State::Text
    }

    fn is_right(&self) -> bool {
        let bytes = self.buffer.get(..self.length).unwrap_or_default();
        bytes.split_last_chunk().is_some_and(|(content, check)| {
            !content.is_empty() && checksum(content.iter()) == *check
        })
    }
}

impl<const B: usize> Default for Decoder<B> {
    fn default() -> Self {
        Self::new()
    }
}

/// CRC-32 as in Ethernet, bit by bit: a serial line is slower than that, and a table takes flash.
fn checksum<'a>(content: impl Iterator<Item = &'a u8>) -> [u8; CHECK] {
    let crc = content.fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |value, _| {
            (value >> 1) ^ (0xedb8_8320 & 0_u32.wrapping_sub(value & 1))
        })
    });
    (!crc).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn the_checksum_is_the_known_one() {
        assert_eq!(checksum(b"123456789".iter()), [0xcb, 0xf4, 0x39, 0x26]);
    }

    #[test]
    fn a_frame_that_is_too_long_is_none_and_the_next_one_is() {
        let mut decoder = Decoder::<12>::new();
        let mut found = Vec::new();
        for content in [&b"123456789"[..], b"12345678"] {
            for byte in encode(&[content]) {
                if decoder.push(byte) {
                    found.push(decoder.content().to_vec());
                }
            }
        }
        assert_eq!(found, [b"12345678"]);
    }
}
