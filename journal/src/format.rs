//! The format of records in an area.
//!
//! ```text
//! length of the value  4 bytes, little-endian like all numbers
//! length of the key    2
//! kind                 1
//! flags                1
//! key
//! value
//! check                4: the CRC-32 of all bytes above, continued from the check of the previous record
//! zeros up to the next multiple of the medium's unit
//! ```
//! Since each check continues the previous one, a record is valid only after exactly the records that it was written
//! after.

use core::fmt::Write;

use super::Identity;
use super::crc::crc;
use super::medium::{Area, Medium, Room};
use informer_core::object::MAX_KEY;

/// A key as the log reads it.
pub(super) type Key = heapless::String<MAX_KEY>;

/// The number of bytes before the key.
const HEADER: usize = 8;
const CHECK: usize = 4;
/// The number of bytes that are buffered before a write.
const GATHERED: usize = 256;
/// The first bytes of an area: the name of the format and its version.
const MAGIC: [u8; 8] = *b"ifrjrnl\x01";
/// The size of the value of the first record: the magic, the sequence number, the identity.
pub(super) const HEAD: usize = 8 + 8 + 32;
/// A flag of a version: objects are missing.
pub(super) const INCOMPLETE: u8 = 1;

/// The kind of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The first record of an area.
    Head = 1,
    Put = 2,
    Delete = 3,
    Stale = 4,
    Version = 5,
}

impl Kind {
    const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Head,
            2 => Self::Put,
            3 => Self::Delete,
            4 => Self::Stale,
            5 => Self::Version,
            _ => return None,
        })
    }
}

/// A position between two records.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogCursor {
    pub(super) area: Area,
    pub(super) at: u64,
    /// The check of the previous record.
    pub(super) check: u32,
}

impl LogCursor {
    pub(super) const fn start(area: Area) -> Self {
        Self {
            area,
            at: 0,
            check: 0,
        }
    }
}

/// A record that was read. Its value is in the caller's buffer.
pub(super) struct Located {
    pub(super) kind: Kind,
    pub(super) flags: u8,
    pub(super) area: Area,
    pub(super) at: u64,
    /// Including the padding.
    pub(super) size: u64,
    pub(super) key: Key,
    /// The place of the value.
    pub(super) value: u64,
    pub(super) len: usize,
}

/// The way to read a record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// Copies the value to the buffer and checks it.
    Checked,
    /// Skips the check, since the record was checked a moment ago.
    Again,
    /// Checks the value in the medium's memory, and copies it to the buffer only if the medium cannot lend it.
    InPlace,
}

/// The first bytes of a record.
struct Header {
    kind: Kind,
    flags: u8,
    key: usize,
    len: usize,
}

impl Header {
    fn parse(bytes: [u8; HEADER]) -> Option<Self> {
        let [a, b, c, d, e, f, kind, flags] = bytes;
        let key = usize::from(u16::from_le_bytes([e, f]));
        Some(Self {
            kind: Kind::from_byte(kind)?,
            flags,
            key: (key <= MAX_KEY).then_some(key)?,
            len: usize::try_from(u32::from_le_bytes([a, b, c, d])).ok()?,
        })
    }

    /// Parses a header, unless the record would exceed the area.
    fn parse_within(bytes: [u8; HEADER], at: u64, end: u64) -> Option<Self> {
        Self::parse(bytes).filter(|header| at + header.size(1) <= end)
    }

    fn bytes(&self) -> Option<[u8; HEADER]> {
        let [a, b, c, d] = u32::try_from(self.len).ok()?.to_le_bytes();
        let [e, f] = u16::try_from(self.key).ok()?.to_le_bytes();
        Some([a, b, c, d, e, f, self.kind as u8, self.flags])
    }

    fn size(&self, unit: usize) -> u64 {
        size(self.key, self.len, unit)
    }
}

/// Returns the size of a record with padding, in bytes.
pub(super) fn size(key: usize, len: usize, unit: usize) -> u64 {
    let whole = (HEADER + key + CHECK) as u64 + len as u64;
    whole.next_multiple_of(unit.max(1) as u64)
}

/// Reads the record at the cursor and advances the cursor. Returns `None` if there is no valid record.
pub(super) fn read<M: Medium>(
    medium: &mut M,
    room: &mut impl Room,
    cursor: &mut LogCursor,
    end: u64,
    how: How,
) -> Result<Option<Located>, M::Error> {
    let LogCursor { area, at, check } = *cursor;
    let mut bytes = [0; HEADER];
    let Some(header) = fits(at, end)
        .then(|| medium.read(area, at, &mut bytes))
        .transpose()?
        .and_then(|()| Header::parse_within(bytes, at, end))
    else {
        return Ok(None);
    };
    let mut text = [0; MAX_KEY];
    let Some(name) = text.get_mut(..header.key) else {
        return Ok(None);
    };
    medium.read(area, at + HEADER as u64, name)?;
    let place = at + (HEADER + header.key) as u64;
    let mut sum = crc(crc(check, &bytes), name);
    let lent = match how {
        How::InPlace => medium.lend(area, place, header.len)?,
        How::Checked | How::Again => None,
    };
    if let Some(value) = lent {
        sum = crc(sum, value);
    } else {
        // A value that is longer than the buffer was not written by this program.
        let Some(value) = room.room(header.len) else {
            return Ok(None);
        };
        medium.read(area, place, value)?;
        if how != How::Again {
            sum = crc(sum, value);
        }
    }
    let mut stored = [0; CHECK];
    medium.read(area, place + header.len as u64, &mut stored)?;
    let stored = u32::from_le_bytes(stored);
    if how != How::Again && sum != stored {
        return Ok(None);
    }
    let mut key = Key::new();
    if key
        .write_str(core::str::from_utf8(name).unwrap_or_default())
        .is_err()
    {
        return Ok(None);
    }
    let size = header.size(medium.unit());
    *cursor = LogCursor {
        area,
        at: at + size,
        check: stored,
    };
    Ok(Some(Located {
        kind: header.kind,
        flags: header.flags,
        area,
        at,
        size,
        key,
        value: place,
        len: header.len,
    }))
}

/// Returns whether the smallest record would fit.
const fn fits(at: u64, end: u64) -> bool {
    at + (HEADER + CHECK) as u64 <= end
}

/// Reads the kind, the key and the size of a record, without checking the record.
pub(super) fn read_key<M: Medium>(
    medium: &mut M,
    area: Area,
    at: u64,
    end: u64,
) -> Result<Option<(Kind, Key, u64)>, M::Error> {
    let mut bytes = [0; HEADER];
    if !fits(at, end) {
        return Ok(None);
    }
    medium.peek(area, at, &mut bytes)?;
    let Some(header) = Header::parse_within(bytes, at, end) else {
        return Ok(None);
    };
    let mut text = [0; MAX_KEY];
    let name = text.get_mut(..header.key).unwrap_or_default();
    medium.peek(area, at + HEADER as u64, name)?;
    let mut key = Key::new();
    // The key was written from a `str`. If it is not UTF-8, the record is damaged.
    let _ = key.write_str(core::str::from_utf8(name).unwrap_or_default());
    Ok(Some((header.kind, key, header.size(medium.unit()))))
}

/// Writes a record and advances the cursor.
pub(super) fn write<M: Medium>(
    medium: &mut M,
    cursor: &mut LogCursor,
    (kind, flags): (Kind, u8),
    key: &str,
    value: &[u8],
) -> Result<(), M::Error> {
    let header = Header {
        kind,
        flags,
        key: key.len(),
        len: value.len(),
    };
    // The caller has checked that the lengths fit.
    let begin = header.bytes().unwrap_or_default();
    let key = key.as_bytes();
    let check = crc(crc(crc(cursor.check, &begin), key), value);
    let size = header.size(medium.unit());
    let mut out = Gather {
        area: cursor.area,
        at: cursor.at,
        bytes: [0; GATHERED],
        len: 0,
    };
    for part in [&begin[..], key, value, &check.to_le_bytes()[..]] {
        out.push(medium, part)?;
    }
    out.finish(medium)?;
    cursor.at += size;
    cursor.check = check;
    Ok(())
}

/// Buffers bytes, so that they are written in whole units.
struct Gather {
    area: Area,
    at: u64,
    bytes: [u8; GATHERED],
    len: usize,
}

impl Gather {
    fn push<M: Medium>(&mut self, medium: &mut M, mut bytes: &[u8]) -> Result<(), M::Error> {
        while !bytes.is_empty() {
            let free = self.bytes.get_mut(self.len..).unwrap_or_default();
            let (now, later) = bytes.split_at(free.len().min(bytes.len()));
            if let Some(free) = free.get_mut(..now.len()) {
                free.copy_from_slice(now);
            }
            self.len += now.len();
            bytes = later;
            if self.len == GATHERED {
                self.write(medium, GATHERED)?;
            }
        }
        Ok(())
    }

    fn finish<M: Medium>(&mut self, medium: &mut M) -> Result<(), M::Error> {
        let filled = self
            .len
            .next_multiple_of(medium.unit().max(1))
            .min(GATHERED);
        self.bytes
            .iter_mut()
            .take(filled)
            .skip(self.len)
            .for_each(|byte| *byte = 0);
        if filled > 0 {
            self.write(medium, filled)?;
        }
        Ok(())
    }

    fn write<M: Medium>(&mut self, medium: &mut M, len: usize) -> Result<(), M::Error> {
        let bytes = self.bytes.get(..len).unwrap_or_default();
        medium.write(self.area, self.at, bytes)?;
        self.at += len as u64;
        self.len = 0;
        Ok(())
    }
}

/// Returns the value of the first record of an area.
pub(super) fn head(sequence: u64, identity: &Identity) -> [u8; HEAD] {
    let mut value = [0; HEAD];
    let numbers = identity.parts();
    let parts = [u64::from_le_bytes(MAGIC), sequence]
        .into_iter()
        .chain(numbers);
    for (place, part) in value.chunks_exact_mut(8).zip(parts) {
        place.copy_from_slice(&part.to_le_bytes());
    }
    value
}

/// Parses the value of the first record of an area: the sequence number and the identity.
pub(super) fn parse_head(value: &[u8]) -> Option<(u64, Identity)> {
    let mut parts = value.chunks_exact(8).map(number);
    if value.len() != HEAD || parts.next() != Some(u64::from_le_bytes(MAGIC)) {
        return None;
    }
    let sequence = parts.next()?;
    let identity = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
    Some((sequence, Identity::from_parts(identity)))
}

/// Reads the version of the format at the start of an area, whose first record may have any length.
pub(super) fn format_of<M: Medium>(medium: &mut M, area: Area) -> Result<Option<u8>, M::Error> {
    let mut bytes = [0; MAGIC.len()];
    // The first record has no key.
    let at = HEADER as u64;
    if medium.len(area)? < at + MAGIC.len() as u64 {
        return Ok(None);
    }
    medium.read(area, at, &mut bytes)?;
    let ([name @ .., format], [own @ .., _]) = (bytes, MAGIC);
    Ok((name == own).then_some(format))
}

/// Returns the version of the format that this program reads and writes.
pub(super) const fn format() -> u8 {
    let [.., format] = MAGIC;
    format
}

/// Parses a number of up to eight bytes.
pub(super) fn number(bytes: &[u8]) -> u64 {
    let bytes = bytes.iter().rev();
    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
}
