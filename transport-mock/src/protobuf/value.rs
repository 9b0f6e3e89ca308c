//! Times, whose text in JSON differs from their form in protobuf.

use alloc::format;
use alloc::string::String;

use jiff::Timestamp;

/// Parses RFC 3339 into seconds since 1970 and nanoseconds.
pub(super) fn parse_time(text: &str) -> Option<(i64, u32)> {
    let time: Timestamp = text.parse().ok()?;
    let nanos = time.subsec_nanosecond().rem_euclid(1_000_000_000);
    // Before 1970, jiff counts both parts back from it.
    let seconds = time.as_second() - i64::from(time.subsec_nanosecond() < 0);
    Some((seconds, u32::try_from(nanos).ok()?))
}

/// Formats a time, with microseconds if `micros` is set. A time that no date has is the first second of 1970.
pub(super) fn format_time(seconds: i64, nanos: u32, micros: bool) -> String {
    let nanos = i32::try_from(nanos).unwrap_or(0);
    let time = Timestamp::new(seconds, nanos).unwrap_or(Timestamp::UNIX_EPOCH);
    if micros {
        format!("{time:.6}")
    } else {
        format!("{time:.0}")
    }
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
            ("1969-12-31T23:59:59.25Z", Some((-1, 250_000_000))),
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
}
