//! The parts of DER that certificates and keys need.

use der::asn1::{AnyRef, GeneralizedTime, UtcTime};
use der::{Decode as _, Reader as _, SliceReader, TagNumber, Tagged as _};

pub(super) use der::Tag;

/// The context-specific tags of optional fields.
pub(super) const FIRST: Tag = optional(0);
pub(super) const SECOND: Tag = optional(1);

const fn optional(number: u32) -> Tag {
    Tag::ContextSpecific {
        constructed: true,
        number: TagNumber(number),
    }
}

/// Reads a value with this tag. Returns its content and the rest.
pub(super) fn expect(tag: Tag, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = any(der)?;
    (found == tag).then_some((content, rest))
}

/// Reads a value. Returns its tag, its content and the rest.
pub(super) fn any(der: &[u8]) -> Option<(Tag, &[u8], &[u8])> {
    let mut reader = SliceReader::new(der).ok()?;
    let value = AnyRef::decode(&mut reader).ok()?;
    Some((value.tag(), value.value(), rest(reader)?))
}

/// Returns the number of bits of a positive INTEGER.
pub(super) fn bits(integer: &[u8]) -> usize {
    let zeros = integer.iter().take_while(|byte| **byte == 0).count();
    let significant = &integer[zeros..];
    let unused = significant.first().map_or(0, |first| first.leading_zeros());
    significant.len() * 8 - unused as usize
}

/// Reads a date of 1970 or later. Returns it in seconds since 1970, and the rest.
pub(super) fn time(der: &[u8]) -> Option<(i64, &[u8])> {
    let mut reader = SliceReader::new(der).ok()?;
    let since = if Tag::peek(&reader).ok()? == Tag::UtcTime {
        UtcTime::decode(&mut reader).ok()?.to_unix_duration()
    } else {
        GeneralizedTime::decode(&mut reader)
            .ok()?
            .to_unix_duration()
    };
    Some((i64::try_from(since.as_secs()).ok()?, rest(reader)?))
}

fn rest(mut reader: SliceReader<'_>) -> Option<&[u8]> {
    let length = reader.remaining_len();
    reader.read_slice(length).ok()
}
