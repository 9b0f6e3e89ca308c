//! Incremental decoding of gzip ([RFC 1952](https://www.rfc-editor.org/rfc/rfc1952)).
//!
//! A list is one gzip member. A watch of a 1.37 server has one member per flush, and after any member the stream may be
//! silent for hours. The decoder therefore returns all data that the received bytes allow, and a body may pause at any
//! byte.

use core::fmt;
use std::io;

use bytes::{Buf as _, Bytes};
use compression_codecs::core::util::{PartialBuffer, WriteBuffer};
use compression_codecs::{DecodeV2 as _, GzipDecoder};

/// Decodes the members of one body.
pub(crate) struct Gunzip {
    member: GzipDecoder,
    place: Place,
    output: Box<[u8]>,
    /// The number of valid bytes in `output`.
    filled: usize,
}

/// What the next byte belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// The first member. The body may be empty.
    Start,
    Member,
    /// Another member, or padding.
    Between,
    /// Zeros after the last member.
    Padding,
}

impl Gunzip {
    pub(crate) fn new() -> Self {
        Self::with_output(OUTPUT)
    }

    fn with_output(len: usize) -> Self {
        Self {
            member: GzipDecoder::new(),
            place: Place::Start,
            output: vec![0; len].into(),
            filled: 0,
        }
    }

    /// Decodes until there is [`output`](Self::output), and returns whether there is any. If there is none, `input` has
    /// been consumed and more is needed.
    ///
    /// One call returns data of one member only. If the member's end is also in `input`, its checksum has been
    /// verified. After an error, `decode` must not be called again.
    pub(crate) fn decode(&mut self, input: &mut Bytes) -> Result<bool, GzipError> {
        let was_full = self.filled == self.output.len();
        self.filled = 0;
        if self.place == Place::Member && was_full {
            // The decoder may have data that did not fit, and no input for it to return this with.
            self.inflate(|member, output| member.flush(output))?;
        }
        while let Some(&byte) = input.first() {
            match (self.place, byte) {
                (Place::Between | Place::Padding, 0) => {
                    self.place = Place::Padding;
                    input.advance(1);
                }
                (Place::Padding, _) => return Err(GzipError::Garbage),
                (Place::Between, byte) if byte != MAGIC => return Err(GzipError::Garbage),
                (Place::Start | Place::Between, _) => {
                    self.member.reinit().map_err(GzipError::invalid)?;
                    self.place = Place::Member;
                }
                (Place::Member, _) if self.filled == self.output.len() => break,
                (Place::Member, _) => {
                    let mut from = PartialBuffer::new(&input[..]);
                    let has_ended = self.inflate(|member, output| member.decode(&mut from, output));
                    let used = from.written_len();
                    input.advance(used);
                    if has_ended? {
                        self.place = Place::Between;
                        if self.filled > 0 {
                            break;
                        }
                    }
                }
            }
        }
        Ok(self.filled > 0)
    }

    /// Adds to the output. Returns what the decoder returns: whether the member has ended.
    fn inflate(
        &mut self,
        decode: impl FnOnce(&mut GzipDecoder, &mut WriteBuffer<'_>) -> io::Result<bool>,
    ) -> Result<bool, GzipError> {
        let room = self.output.get_mut(self.filled..).unwrap_or_default();
        let mut output = WriteBuffer::new_initialized(room);
        let decoded = decode(&mut self.member, &mut output);
        self.filled += output.written_len();
        decoded.map_err(GzipError::invalid)
    }

    /// The data of the last [`decode`](Self::decode).
    pub(crate) fn output(&self) -> &[u8] {
        &self.output[..self.filled]
    }

    /// Returns an error if a body must not end here.
    pub(crate) fn finish(&self) -> Result<(), GzipError> {
        match self.place {
            Place::Start | Place::Between | Place::Padding => Ok(()),
            Place::Member => Err(GzipError::Cut),
        }
    }
}

/// The first byte of a member.
const MAGIC: u8 = 0x1f;

/// The most that one call returns. It equals deflate's window, which is allocated as well.
const OUTPUT: usize = 32 * 1024;

/// The reason why a body is not valid gzip.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum GzipError {
    /// The body ends within a member.
    Cut,
    /// A member is followed by something else.
    Garbage,
    /// The decoder rejects a member.
    Invalid(String),
}

impl GzipError {
    #[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
    fn invalid(error: io::Error) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl fmt::Display for GzipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut => f.write_str("it ends in the middle of a gzip member"),
            Self::Garbage => f.write_str("a gzip member is followed by other data"),
            Self::Invalid(message) => write!(f, "it is not valid gzip: {message}"),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    use flate2::{Compress, Compression, Crc, FlushCompress};

    /// Compresses data to deflate, with a flush after each part.
    fn deflate(parts: &[&[u8]]) -> Vec<u8> {
        let mut compress = Compress::new(Compression::fast(), false);
        let len: usize = parts.iter().map(|part| part.len() + 100).sum();
        let mut out = Vec::with_capacity(len);
        for part in parts {
            compress
                .compress_vec(part, &mut out, FlushCompress::Sync)
                .unwrap();
        }
        compress
            .compress_vec(&[], &mut out, FlushCompress::Finish)
            .unwrap();
        out
    }

    fn trailer(data: &[u8]) -> Vec<u8> {
        let mut crc = Crc::new();
        crc.update(data);
        [crc.sum().to_le_bytes(), crc.amount().to_le_bytes()].concat()
    }

    const PLAIN: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];

    fn member_with(header: &[u8], data: &[u8]) -> Vec<u8> {
        [header, &deflate(&[data]), &trailer(data)].concat()
    }

    pub(crate) fn member(data: &[u8]) -> Vec<u8> {
        member_with(PLAIN, data)
    }

    /// A header with all fields.
    fn long_header() -> Vec<u8> {
        let mut header = vec![0x1f, 0x8b, 8, 0b1_1111, 1, 2, 3, 4, 0, 3];
        header.extend(b"\x03\x00abcname\0comment\0");
        let mut crc = Crc::new();
        crc.update(&header);
        header.extend(&crc.sum().to_le_bytes()[..2]);
        header
    }

    /// Decodes a body that arrives in these pieces.
    fn decode<'a>(
        gunzip: &mut Gunzip,
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Vec<u8>, GzipError> {
        let mut all = Vec::new();
        for piece in pieces {
            let mut piece = Bytes::copy_from_slice(piece);
            while gunzip.decode(&mut piece)? {
                assert!(!gunzip.output().is_empty());
                all.extend_from_slice(gunzip.output());
            }
            assert!(piece.is_empty() && gunzip.output().is_empty());
        }
        gunzip.finish()?;
        Ok(all)
    }

    fn whole(bytes: &[u8]) -> Result<Vec<u8>, GzipError> {
        decode(&mut Gunzip::new(), [bytes])
    }

    /// Text that compresses to literals and to matches, near and far.
    fn text(len: usize) -> Vec<u8> {
        let mut state = 1u32;
        let mut text = Vec::new();
        while text.len() < len {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            text.extend(format!("{{\"name\":\"pod-{}\"}}\n", state >> 20).bytes());
        }
        text.truncate(len);
        text
    }

    /// Members of all sorts, and the data of all of them.
    fn stream() -> (Vec<u8>, Vec<u8>) {
        let flushed = text(300);
        let (one, two) = flushed.split_at(120);
        let bytes = [
            member(b""),
            member(b"a"),
            member_with(&long_header(), &text(150)),
            [PLAIN, &deflate(&[one, b"", two]), &trailer(&flushed)].concat(),
            member_with(&[0x1f, 0x8b, 8, 1 << 2, 0, 0, 0, 0, 0, 0, 0, 0], &[7; 500]),
            member(b""),
            vec![0; 5],
        ];
        let data = [b"a", &*text(150), &flushed, &[7; 500]];
        (bytes.concat(), data.concat())
    }

    #[test]
    fn one_member_is_decoded() {
        assert_eq!(whole(&member(b"hello")).as_deref(), Ok(&b"hello"[..]));
    }

    #[test]
    fn no_bytes_are_no_data() {
        assert_eq!(whole(b""), Ok(vec![]));
    }

    #[test]
    fn members_can_be_torn_at_any_byte_and_at_any_two() {
        let (bytes, data) = stream();
        for first in 0..=bytes.len() {
            for second in (first..=bytes.len()).step_by(53) {
                let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                let got = decode(&mut Gunzip::with_output(64), pieces);
                assert!(got.as_ref() == Ok(&data), "{first} {second}: {got:?}");
            }
        }
    }

    #[test]
    fn pieces_and_outputs_can_have_any_size() {
        let (bytes, data) = stream();
        for size in (1..40).chain([100, 500]) {
            for room in [1, 2, 3, 31, 258, 259, OUTPUT] {
                let got = decode(&mut Gunzip::with_output(room), bytes.chunks(size));
                assert!(got.as_ref() == Ok(&data), "{size} {room}: {got:?}");
            }
        }
    }

    #[test]
    fn large_members_are_decoded() {
        let data = text(300_000);
        let bytes = [member(&data), member(&data[..100_000])].concat();
        let expected = [&data[..], &data[..100_000]].concat();
        for size in [1, 1000, 8192, bytes.len()] {
            assert!(decode(&mut Gunzip::new(), bytes.chunks(size)).as_ref() == Ok(&expected));
        }
    }

    #[test]
    fn data_that_does_not_compress_is_decoded() {
        // A stored block: its length, and the complement of its length.
        let data = text(2000);
        let len = 2000u16.to_le_bytes();
        let inverted = (!2000u16).to_le_bytes();
        let bytes = [PLAIN, &[1], &len, &inverted, &data, &trailer(&data)].concat();
        for size in [1, 2, 3, 500, 4000] {
            assert!(
                decode(&mut Gunzip::with_output(100), bytes.chunks(size)).as_ref() == Ok(&data)
            );
        }
    }

    #[test]
    fn no_decoded_byte_is_held_back() {
        // After a flush all data is returned, and every byte of a member's data before its trailer.
        let (one, two) = (text(400), text(333));
        let flushed = deflate(&[&one]);
        let open = &flushed[..flushed.len() - deflate(&[]).len()];
        let mut gunzip = Gunzip::new();
        for n in 0..3 {
            // A member whose data was flushed and whose end has not arrived.
            let mut input = Bytes::from([PLAIN, open].concat());
            assert_eq!(gunzip.decode(&mut input), Ok(true), "{n}");
            assert!(gunzip.output() == one);
            assert_eq!(gunzip.decode(&mut input), Ok(false));
            let mut input = Bytes::from([&flushed[open.len()..], &trailer(&one)].concat());
            assert_eq!(gunzip.decode(&mut input), Ok(false));
            assert_eq!(gunzip.finish(), Ok(()));
            // A complete member, and then nothing.
            let mut input = Bytes::from(member(&two));
            assert_eq!(gunzip.decode(&mut input), Ok(true));
            assert!(gunzip.output() == two && input.is_empty());
            // A member without its trailer.
            let mut input = Bytes::from(member(&two));
            let mut rest = input.split_off(input.len() - 8);
            assert_eq!(gunzip.decode(&mut input), Ok(true));
            assert!(gunzip.output() == two);
            assert_eq!(gunzip.finish(), Err(GzipError::Cut));
            assert_eq!(gunzip.decode(&mut rest), Ok(false));
        }
    }

    #[test]
    fn a_cut_at_any_byte_is_reported() {
        let parts = [
            member(b"first"),
            member_with(&long_header(), b"second"),
            member(b""),
        ];
        let bytes = parts.concat();
        let mut ends = vec![0];
        for part in &parts {
            ends.push(ends[ends.len() - 1] + part.len());
        }
        for len in 0..=bytes.len() {
            let expected = if ends.contains(&len) {
                None
            } else {
                Some(GzipError::Cut)
            };
            assert_eq!(whole(&bytes[..len]).err(), expected, "{len}");
        }
    }

    #[test]
    fn a_wrong_header_is_reported_at_its_first_wrong_byte() {
        for bytes in [&b"{"[..], &[0], &[0x1f, 0x9d], &[0x1f, 0x8b, 7]] {
            let error = whole(bytes).unwrap_err().to_string();
            assert_eq!(error, "it is not valid gzip: Invalid gzip header");
        }
        let mut header = long_header();
        header[4] ^= 1;
        let wrong = whole(&member_with(&header, b"x"));
        assert!(matches!(wrong, Err(GzipError::Invalid(_))), "{wrong:?}");
    }

    #[test]
    fn damage_to_any_bit_of_data_and_trailer_is_reported() {
        let data = [&b"good"[..], &text(200)].concat();
        let good = [member(b"good"), member(&text(200))].concat();
        let start = member(b"good").len() + PLAIN.len();
        let mut harmless = 0;
        for bit in start * 8..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            for size in [1, bytes.len()] {
                match decode(&mut Gunzip::new(), bytes.chunks(size)) {
                    Ok(got) => {
                        assert!(got == data, "{bit}");
                        harmless += 1;
                    }
                    Err(error) => assert_ne!(error, GzipError::Garbage, "{bit}"),
                }
            }
        }
        // Up to seven bits mean nothing before the flush, and as many before the trailer.
        assert!(harmless <= 2 * 14, "{harmless}");
    }

    #[test]
    fn a_wrong_trailer_is_reported_before_the_data_that_it_came_with() {
        for at in [8, 4] {
            let mut bad = member(b"bad");
            let at = bad.len() - at;
            bad[at] ^= 1;
            let mut input = Bytes::from([member(b"good"), bad].concat());
            let mut gunzip = Gunzip::new();
            assert_eq!(gunzip.decode(&mut input), Ok(true));
            assert_eq!(gunzip.output(), b"good");
            let wrong = gunzip.decode(&mut input);
            assert!(matches!(wrong, Err(GzipError::Invalid(_))), "{wrong:?}");
        }
    }

    #[test]
    fn only_zeros_may_follow() {
        let padded = [member(b"x"), vec![0; 512]].concat();
        assert_eq!(whole(&padded), Ok(b"x".into()));
        for garbage in [&b"\n"[..], b"\0\n", &member(b"y")[1..]] {
            let bytes = [&member(b"x"), garbage].concat();
            assert_eq!(whole(&bytes), Err(GzipError::Garbage));
        }
        let behind_padding = [padded, member(b"y")].concat();
        assert_eq!(whole(&behind_padding), Err(GzipError::Garbage));
    }

    #[test]
    fn a_bomb_comes_in_small_pieces() {
        let bytes = member(&vec![0; 10_000_000]);
        assert!(bytes.len() < 60_000);
        let mut input = Bytes::from(bytes);
        let mut gunzip = Gunzip::new();
        let mut total = 0;
        while gunzip.decode(&mut input).unwrap() {
            assert!(gunzip.output().len() <= OUTPUT);
            assert_eq!(gunzip.output.len(), OUTPUT);
            total += gunzip.output().len();
        }
        assert_eq!((total, gunzip.finish()), (10_000_000, Ok(())));
    }

    #[test]
    fn any_bytes_are_decoded_or_refused() {
        let (bytes, _) = stream();
        let mut state = 7u32;
        for _ in 0..3000 {
            let mut bytes = bytes.clone();
            for _ in 0..3 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = (state >> 8) as usize % bytes.len();
                bytes[at] = state.to_le_bytes()[3];
            }
            let once = whole(&bytes);
            let in_pieces = decode(&mut Gunzip::with_output(50), bytes.chunks(3));
            assert_eq!(once.is_ok(), in_pieces.is_ok());
        }
    }
}
