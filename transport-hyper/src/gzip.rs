//! Incremental decoding of gzip ([RFC 1952](https://www.rfc-editor.org/rfc/rfc1952)).
//!
//! A list is one gzip member. A watch of a 1.37 server has one member per flush, and after any member the stream may be
//! silent for hours. The decoder therefore returns all data that the received bytes allow, and a body may pause at any
//! byte.

use core::fmt;

use bytes::{Buf, Bytes};
use flate2::{Crc, Decompress, FlushDecompress, Status};

/// Decodes the members of one body.
pub(crate) struct Gunzip {
    place: Position,
    /// The optional header fields that have not been read.
    flags: u8,
    inflate: Decompress,
    /// The checksum of the header first, then of the data.
    crc: Crc,
    trailer: [u8; TRAILER],
    output: Box<[u8]>,
    /// The number of valid bytes in `output`.
    filled: usize,
}

/// The position of the next byte in the format.
#[derive(Clone, Copy, Debug)]
enum Position {
    /// The first byte of the body. The body may be empty.
    Start,
    /// One of the ten fixed header bytes, by index.
    Fixed(usize),
    /// A byte of the extra field's length.
    ExtraLow,
    ExtraHigh(u8),
    /// A byte of the extra field. The number counts the bytes left.
    Extra(u16),
    Name,
    Comment,
    HeaderCrcLow,
    HeaderCrcHigh(u8),
    Deflate,
    /// A byte of the checksum or the length, by index.
    Trailer(usize),
    /// The byte after a member: padding, or the first byte of another member.
    Between,
    /// A zero after the last member.
    Padding,
}

impl Gunzip {
    pub(crate) fn new() -> Self {
        Self::with_output(OUTPUT)
    }

    fn with_output(len: usize) -> Self {
        Self {
            place: Position::Start,
            flags: 0,
            inflate: Decompress::new(false),
            crc: Crc::new(),
            trailer: [0; TRAILER],
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
        self.filled = 0;
        loop {
            if let Position::Deflate = self.place {
                let is_done = self.inflate(input)?;
                if is_done {
                    self.place = Position::Trailer(0);
                } else if self.filled == self.output.len() || input.is_empty() {
                    return Ok(self.filled > 0);
                }
            } else {
                let Some(&byte) = input.first() else {
                    return Ok(self.filled > 0);
                };
                input.advance(1);
                self.place = self.step(byte)?;
                if let Position::Between = self.place
                    && self.filled > 0
                {
                    return Ok(true);
                }
            }
        }
    }

    /// The data of the last [`decode`](Self::decode).
    pub(crate) fn output(&self) -> &[u8] {
        &self.output[..self.filled]
    }

    /// Returns an error if a body must not end here.
    pub(crate) fn finish(&self) -> Result<(), GzipError> {
        match self.place {
            Position::Start | Position::Between | Position::Padding => Ok(()),
            Position::Fixed(_)
            | Position::ExtraLow
            | Position::ExtraHigh(_)
            | Position::Extra(_)
            | Position::Name
            | Position::Comment
            | Position::HeaderCrcLow
            | Position::HeaderCrcHigh(_)
            | Position::Deflate
            | Position::Trailer(_) => Err(GzipError::Cut),
        }
    }

    /// Inflates as much as fits into the output. Returns `true` at the end of the member's data.
    fn inflate(&mut self, input: &mut Bytes) -> Result<bool, GzipError> {
        let (total_in, total_out) = (self.inflate.total_in(), self.inflate.total_out());
        let room = &mut self.output[self.filled..];
        let status = self
            .inflate
            .decompress(input, room, FlushDecompress::Sync)
            .map_err(|_| GzipError::Deflate)?;
        let used = moved(total_in, self.inflate.total_in());
        let made = moved(total_out, self.inflate.total_out());
        self.crc.update(&room[..made]);
        self.filled += made;
        let had_input = !input.is_empty();
        input.advance(used);
        match status {
            Status::StreamEnd => Ok(true),
            // There was input and room for output, so no progress means corrupt data.
            Status::Ok | Status::BufError if had_input && used == 0 && made == 0 => {
                Err(GzipError::Deflate)
            }
            Status::Ok | Status::BufError => Ok(false),
        }
    }

    /// Consumes a byte outside of the deflate data. Returns the position of the next byte.
    fn step(&mut self, byte: u8) -> Result<Position, GzipError> {
        let next = match self.place {
            Position::Start => {
                self.crc.reset();
                self.fixed(0, byte)?
            }
            Position::Between if byte == 0 => Position::Padding,
            Position::Between => {
                self.crc.reset();
                self.fixed(0, byte).map_err(|_| GzipError::Garbage)?
            }
            Position::Padding if byte == 0 => Position::Padding,
            Position::Padding => return Err(GzipError::Garbage),
            Position::Fixed(index) => self.fixed(index, byte)?,
            Position::ExtraLow => Position::ExtraHigh(byte),
            Position::ExtraHigh(low) => match u16::from_le_bytes([low, byte]) {
                0 => self.next_field(),
                len => Position::Extra(len),
            },
            Position::Extra(1) => self.next_field(),
            Position::Extra(left) => Position::Extra(left - 1),
            Position::Name | Position::Comment if byte == 0 => self.next_field(),
            Position::Name => Position::Name,
            Position::Comment => Position::Comment,
            // The checksum does not cover itself.
            Position::HeaderCrcLow => return Ok(Position::HeaderCrcHigh(byte)),
            Position::HeaderCrcHigh(low) => {
                let [computed @ .., _, _] = self.crc.sum().to_le_bytes();
                if [low, byte] != computed {
                    return Err(GzipError::HeaderCrc);
                }
                return Ok(self.begin_data());
            }
            Position::Trailer(index) => return self.trailer(index, byte),
            Position::Deflate => unreachable!("deflate data is not taken byte by byte"),
        };
        // At the end of the header, the checksum has already been reset for the data.
        if !matches!(next, Position::Deflate) {
            self.crc.update(&[byte]);
        }
        Ok(next)
    }

    fn fixed(&mut self, index: usize, byte: u8) -> Result<Position, GzipError> {
        match (index, byte) {
            (0, 0x1f) | (1, 0x8b) | (2, DEFLATE) => {}
            (0 | 1, _) => return Err(GzipError::Magic),
            (2, method) => return Err(GzipError::Method(method)),
            (3, flags) if flags & RESERVED != 0 => return Err(GzipError::Flags(flags)),
            (3, flags) => self.flags = flags,
            // The time, the level and the operating system are not used.
            _ => {}
        }
        Ok(match index {
            0..LAST_FIXED => Position::Fixed(index + 1),
            _ => self.next_field(),
        })
    }

    /// Proceeds to the next optional header field, or to the data.
    fn next_field(&mut self) -> Position {
        let fields = [
            (EXTRA, Position::ExtraLow),
            (NAME, Position::Name),
            (COMMENT, Position::Comment),
            (HEADER_CRC, Position::HeaderCrcLow),
        ];
        for (flag, place) in fields {
            if self.flags & flag != 0 {
                self.flags &= !flag;
                return place;
            }
        }
        self.begin_data()
    }

    fn begin_data(&mut self) -> Position {
        self.inflate.reset(false);
        self.crc.reset();
        Position::Deflate
    }

    fn trailer(&mut self, index: usize, byte: u8) -> Result<Position, GzipError> {
        self.trailer[index] = byte;
        if index + 1 < TRAILER {
            return Ok(Position::Trailer(index + 1));
        }
        let [a, b, c, d, len @ ..] = self.trailer;
        if u32::from_le_bytes([a, b, c, d]) != self.crc.sum() {
            return Err(GzipError::Crc);
        }
        // Both are modulo 2^32.
        if u32::from_le_bytes(len) != self.crc.amount() {
            return Err(GzipError::Length);
        }
        Ok(Position::Between)
    }
}

/// The difference between two totals around one call. It is at most the length of a slice.
fn moved(before: u64, after: u64) -> usize {
    usize::try_from(after - before).unwrap_or(usize::MAX)
}

const DEFLATE: u8 = 8;

const HEADER_CRC: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

/// The index of the last fixed header byte.
const LAST_FIXED: usize = 9;
const TRAILER: usize = 8;

/// The most that one call returns. It equals deflate's window, which is allocated as well.
const OUTPUT: usize = 32 * 1024;

/// The reason why a body is not valid gzip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GzipError {
    /// The body ends within a member.
    Cut,
    Magic,
    Method(u8),
    Flags(u8),
    HeaderCrc,
    Deflate,
    Crc,
    Length,
    Garbage,
}

impl fmt::Display for GzipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut => f.write_str("it ends in the middle of a gzip member"),
            Self::Magic => f.write_str("it has no gzip header"),
            Self::Method(method) => {
                write!(f, "the gzip compression method {method} is not supported")
            }
            Self::Flags(flags) => write!(f, "the gzip flags {flags:#04x} are not supported"),
            Self::HeaderCrc => f.write_str("the checksum of a gzip header is wrong"),
            Self::Deflate => f.write_str("its gzip data is corrupt"),
            Self::Crc => f.write_str("the checksum of a gzip member is wrong"),
            Self::Length => f.write_str("the length of a gzip member is wrong"),
            Self::Garbage => f.write_str("a gzip member is followed by other data"),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    use flate2::{Compress, Compression, FlushCompress};

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
            member_with(&[0x1f, 0x8b, 8, EXTRA, 0, 0, 0, 0, 0, 0, 0, 0], &[7; 500]),
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
            let mut rest = input.split_off(input.len() - TRAILER);
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
        for (bytes, error) in [
            (&b"{"[..], GzipError::Magic),
            (&[0], GzipError::Magic),
            (&[0x1f, 0x9d], GzipError::Magic),
            (&[0x1f, 0x8b, 7], GzipError::Method(7)),
            (&[0x1f, 0x8b, 8, 0x20], GzipError::Flags(0x20)),
        ] {
            assert_eq!(whole(bytes), Err(error));
        }
        let mut header = long_header();
        header[4] ^= 1;
        assert_eq!(
            whole(&member_with(&header, b"x")),
            Err(GzipError::HeaderCrc)
        );
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
        for (at, error) in [(8, GzipError::Crc), (4, GzipError::Length)] {
            let mut bad = member(b"bad");
            let at = bad.len() - at;
            bad[at] ^= 1;
            let mut input = Bytes::from([member(b"good"), bad].concat());
            let mut gunzip = Gunzip::new();
            assert_eq!(gunzip.decode(&mut input), Ok(true));
            assert_eq!(gunzip.output(), b"good");
            assert_eq!(gunzip.decode(&mut input), Err(error));
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
