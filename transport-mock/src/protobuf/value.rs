//! Values whose text in JSON differs from their form in protobuf: times and bytes.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::seed::rfc3339;
use crate::token;

/// Parses RFC 3339 into seconds since 1970 and nanoseconds.
pub(super) fn parse_time(text: &str) -> Option<(i64, u32)> {
    let number = |range: core::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let seconds = number(11..13)? * 3600 + number(14..16)? * 60 + number(17..19)?;
    let rest = text.get(19..)?;
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => {
            let digits = rest.find(|c: char| !c.is_ascii_digit())?;
            rest.split_at(digits)
        }
        None => ("", rest),
    };
    let nanos = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    let offset = match zone.as_bytes() {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), ..] => {
            let minutes =
                zone.get(1..3)?.parse::<i64>().ok()? * 60 + zone.get(4..6)?.parse::<i64>().ok()?;
            if *sign == b'-' { -minutes } else { minutes }
        }
        _ => return None,
    };
    // Days since 1970 of a year that begins in March.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let era = year.div_euclid(400);
    let year = year.rem_euclid(400);
    let days = era * 146_097 + year * 365 + year / 4 - year / 100 + (153 * month + 2) / 5 + day
        - 1
        - 719_468;
    Some((days * 86_400 + seconds - offset * 60, nanos))
}

/// Formats a time of 1970 or later, with microseconds if `micros` is set.
pub(super) fn format_time(seconds: i64, nanos: u32, micros: bool) -> String {
    let text = rfc3339(u64::try_from(seconds).unwrap_or(0));
    if micros {
        format!("{}.{:06}Z", text.trim_end_matches('Z'), nanos / 1000)
    } else {
        text
    }
}

/// Decodes base64; `None` if the text is invalid.
pub(super) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    token::unbase64(&text.replace('+', "-").replace('/', "_"))
}

/// Encodes base64 with padding.
pub(super) fn to_base64(bytes: &[u8]) -> String {
    let mut text = token::base64(bytes).replace('-', "+").replace('_', "/");
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some((0, 0))),
            (
                "2024-02-29T23:59:59.25Z",
                Some((1_709_251_199, 250_000_000)),
            ),
            ("2026-01-01T01:30:00+01:30", Some((1_767_225_600, 0))),
            ("2026-01-01", None),
            ("2026-01-01T00:00:00", None),
        ] {
            assert_eq!(parse_time(text), expected, "{text}");
        }
        assert_eq!(format_time(1_767_225_600, 0, false), "2026-01-01T00:00:00Z");
        assert_eq!(
            format_time(1_767_225_600, 1_234_000, true),
            "2026-01-01T00:00:00.001234Z"
        );
    }

    #[test]
    fn base64() {
        for (bytes, text) in [
            ("", ""),
            ("a", "YQ=="),
            ("ab", "YWI="),
            ("abc", "YWJj"),
            ("abcd", "YWJjZA=="),
        ] {
            assert_eq!(to_base64(bytes.as_bytes()), text);
            assert_eq!(from_base64(text).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(from_base64("a b"), None);
    }
}
