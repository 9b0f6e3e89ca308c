//! The times of credentials: [RFC 3339](https://www.rfc-editor.org/rfc/rfc3339#section-5.6).

use core::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// Reads a time such as `2026-03-01T12:00:00.5+01:00`. Fractions of a second are dropped, since a credential may be
/// renewed early but not late. Times before 1970 are the epoch.
pub(super) fn parse(text: &str) -> Option<SystemTime> {
    let seconds = text.parse::<Timestamp>().ok()?.as_second();
    UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// Writes a time in whole seconds, such as `2026-03-01T12:00:00Z`. Times before 1970 are the epoch.
pub(super) fn format(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    // After the year 9999.
    let time = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
    format!("{time:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_they_are_read() {
        for text in [
            "1970-01-01T00:00:00Z",
            "2000-02-29T23:59:59Z",
            "2000-03-01T00:00:00Z",
            "2026-12-31T12:34:56Z",
            "2100-02-28T23:59:59Z",
            "2400-02-29T00:00:00Z",
        ] {
            assert_eq!(parse(text).map(format).as_deref(), Some(text));
        }
    }

    #[test]
    fn times_are_read() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59Z", 951_868_799),
            ("2001-09-09T01:46:40.999999Z", 1_000_000_000),
            ("2100-03-01T00:00:00Z", 4_107_542_400),
            ("2026-03-01t12:00:00+01:30", 1_772_361_000),
            ("2026-03-01T12:00:00-01:30", 1_772_371_800),
            ("1969-12-31T23:59:59Z", 0),
        ] {
            let expected = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "soon",
            "2026-03-01",
            "2026-03-01T12:00:00",
            "2026-3-01T12:00:00Z",
            "2100-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "2026-04-30T24:00:00Z",
            "2026-04-30T12:00:00.Z",
            "2026-04-30T12:00:00Zulu",
            "2026-04-30T12:00:00+1:00",
            "2026-04-30T12:00:00+26:00",
            "2026-04-00T12:00:00Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
