//! The parts of DER that certificates and keys need.

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OBJECT: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
pub(super) const FIRST: u8 = 0xa0;
pub(super) const SECOND: u8 = 0xa1;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Reads a value with this tag. Returns its content and the rest.
pub(super) fn expect(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = any(der)?;
    (found == tag).then_some((content, rest))
}

/// Reads a value. Returns its tag, its content and the rest.
pub(super) fn any(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    let (&length, rest) = rest.split_first()?;
    let (length, rest) = if length < 0x80 {
        (usize::from(length), rest)
    } else {
        let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
        let length = bytes.iter().try_fold(0_usize, |length, byte| {
            length.checked_mul(256)?.checked_add(usize::from(*byte))
        })?;
        (length, rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((found, content, rest))
}

/// Returns the number of bits of a positive INTEGER.
pub(super) fn bits(integer: &[u8]) -> usize {
    let zeros = integer.iter().take_while(|byte| **byte == 0).count();
    let significant = &integer[zeros..];
    let unused = significant.first().map_or(0, |first| first.leading_zeros());
    significant.len() * 8 - unused as usize
}

/// Reads a date. Returns it in seconds since 1970, and the rest.
pub(super) fn time(der: &[u8]) -> Option<(i64, &[u8])> {
    let (text, rest, years) = match expect(UTC_TIME, der) {
        Some((text, rest)) => (text, rest, 2),
        None => {
            let (text, rest) = expect(GENERALIZED_TIME, der)?;
            (text, rest, 4)
        }
    };
    let text = core::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if text.len() != years + 10 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest_of_text) = text.split_at(years);
    let mut year: i64 = year.parse().ok()?;
    if years == 2 {
        year += if year < 50 { 2000 } else { 1900 };
    }
    let mut parts = [0_i64; 5];
    for (part, digits) in parts.iter_mut().zip(rest_of_text.as_bytes().chunks(2)) {
        *part = core::str::from_utf8(digits).ok()?.parse().ok()?;
    }
    let [month, day, hour, minute, second] = parts;
    // Days since 1970 in the Gregorian calendar, with years that begin in March.
    let (y, m) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days =
        365 * y + y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400) + (153 * m + 2) / 5 + day
            - 1
            - 719_468;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second, rest))
}
