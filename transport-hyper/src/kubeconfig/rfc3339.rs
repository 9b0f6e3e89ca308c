//! The times of credentials: [RFC 3339](https://www.rfc-editor.org/rfc/rfc3339#section-5.6).

use core::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

/// Reads a time such as `2026-03-01T12:00:00.5+01:00`. Fractions of a second are dropped, since a credential may be
/// renewed early but not late. Times before 1970 are the epoch.
pub(super) fn parse(text: &str) -> Option<SystemTime> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let end = time.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = time.split_at_checked(end)?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let offset = match zone.split_at_checked(1)? {
        ("Z" | "z", "") => 0,
        (sign @ ("+" | "-"), ahead) => {
            let [hours, minutes] = numbers(ahead, ':', [2, 2])?;
            let offset = hours * 3600 + minutes * 60;
            let in_range = hours < 24 && minutes < 60;
            in_range.then_some(if sign == "-" { -offset } else { offset })?
        }
        _ => return None,
    };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of_month = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    // The clock shows 60 during a leap second.
    let in_range = (1..=days_of_month).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    if !in_range || fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Years begin in March, so that the day of a leap year is the last one. The constant is the day 1970-01-01.
    let (year, month) = if month < 3 {
        (year - 1, month + 9)
    } else {
        (year, month - 3)
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset;
    UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// Writes a time in whole seconds, such as `2026-03-01T12:00:00Z`. Times before 1970 are the epoch.
pub(super) fn format(time: SystemTime) -> String {
    let seconds = time
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // As above, years begin in March. An era is 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 {
        (era * 400 + year, month + 3)
    } else {
        (era * 400 + year + 1, month - 9)
    };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Parses numbers with exactly this many digits.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(between);
    let mut numbers = [0; N];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next()?;
        let is_number = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        *number = is_number.then(|| part.parse().ok())??;
    }
    parts.next().is_none().then_some(numbers)
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
            "2100-03-01T00:00:00Z",
            "2400-02-29T00:00:00Z",
        ] {
            assert_eq!(parse(text).map(format).as_deref(), Some(text));
        }
        // Days of four centuries.
        for day in 0..146_097 {
            let time = UNIX_EPOCH + Duration::from_secs(day * 86_400);
            assert_eq!(parse(&format(time)), Some(time));
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
            "2026-04-30T12:00:00+24:00",
            "2026-04-00T12:00:00Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
