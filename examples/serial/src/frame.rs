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
    let content = parts.iter().flat_map(|part| part.iter().copied());
    let check = content.clone().fold(CRC_START, crc) ^ CRC_END;
    let inside = content.chain(check.to_be_bytes()).flat_map(|byte| {
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
        if byte == END {
            let is_whole = self.state == State::Text && self.is_right();
            if !is_whole {
                self.length = 0;
            }
            self.state = if is_whole { State::Whole } else { State::Text };
            return is_whole;
        }
        if self.state == State::Whole {
            self.length = 0;
            self.state = State::Text;
        }
        match (self.state, byte) {
            (State::Skip | State::Whole, _) => {}
            (State::Text, ESCAPE) => self.state = State::Escape,
            (State::Text, plain) => self.put(plain),
            (State::Escape, ESCAPED_END) => self.put(END),
            (State::Escape, ESCAPED_ESCAPE) => self.put(ESCAPE),
            (State::Escape, _) => self.state = State::Skip,
        }
        false
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

    fn put(&mut self, byte: u8) {
        self.state = match self.buffer.get_mut(self.length) {
            Some(place) => {
                *place = byte;
                self.length += 1;
                State::Text
            }
            None => State::Skip,
        };
    }

    fn is_right(&self) -> bool {
        let bytes = self.buffer.get(..self.length).unwrap_or_default();
        let Some((content, check)) = bytes.split_last_chunk::<CHECK>() else {
            return false;
        };
        let expected = content.iter().copied().fold(CRC_START, crc) ^ CRC_END;
        !content.is_empty() && expected.to_be_bytes() == *check
    }
}

impl<const B: usize> Default for Decoder<B> {
    fn default() -> Self {
        Self::new()
    }
}

const CRC_START: u32 = u32::MAX;
const CRC_END: u32 = u32::MAX;

/// CRC-32 as in Ethernet, half a byte at a time, which needs a table of only 64 bytes.
fn crc(crc: u32, byte: u8) -> u32 {
    const TABLE: [u32; 16] = {
        let mut table = [0; 16];
        let mut index = 0;
        while index < 16 {
            let mut value = index as u32;
            let mut bit = 0;
            while bit < 4 {
                value = (value >> 1) ^ (0xedb8_8320 & 0_u32.wrapping_sub(value & 1));
                bit += 1;
            }
            table[index] = value;
            index += 1;
        }
        table
    };
    let half = |crc: u32| (crc >> 4) ^ TABLE[(crc & 15) as usize];
    half(half(crc ^ u32::from(byte)))
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn the_checksum_is_the_known_one() {
        assert_eq!(
            b"123456789".iter().copied().fold(CRC_START, crc) ^ CRC_END,
            0xcbf4_3926
        );
    }

    #[test]
    fn every_byte_is_carried_and_no_end_is_inside() {
        let every: Vec<u8> = (0..=255).collect();
        let frame: Vec<u8> = encode(&[&every]).collect();
        assert_eq!(
            frame.iter().filter(|byte| **byte == END).count(),
            2,
            "one before and one after it"
        );
        let mut decoder = Decoder::<260>::new();
        let ends: Vec<bool> = frame.iter().map(|byte| decoder.push(*byte)).collect();
        assert_eq!(ends.iter().filter(|end| **end).count(), 1);
        assert_eq!(ends.last(), Some(&true));
        assert_eq!(decoder.content(), every);
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
