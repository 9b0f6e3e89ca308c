//! Pseudorandom numbers from a seed.

use alloc::format;
use alloc::string::String;

/// The generator splitmix64.
#[derive(Clone, Debug)]
pub(crate) struct Seed(u64);

impl Seed {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns a number below `bound`. A bound of 0 counts as 1.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// Returns a UUID of version 4.
    pub(crate) fn uuid(&mut self) -> String {
        let (a, b) = (self.next(), self.next());
        let (low, mid, high) = (a >> 32, a >> 16 & 0xffff, a & 0xfff | 0x4000);
        format!(
            "{low:08x}-{mid:04x}-{high:04x}-{:04x}-{:012x}",
            b >> 48 & 0x3fff | 0x8000,
            b & 0xffff_ffff_ffff
        )
    }

    /// Returns a suffix such as the API server appends to `generateName`.
    pub(crate) fn suffix(&mut self) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..5)
            .map(|_| char::from(LETTERS[self.below(LETTERS.len() as u64) as usize]))
            .collect()
    }
}

/// Formats seconds since 1970 as RFC 3339 in UTC.
pub(crate) fn rfc3339(seconds: u64) -> String {
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    // Civil from days, with years that start in March; the era is 400 years.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        time / 3_600,
        time / 60 % 60,
        time % 60
    )
}

/// Reads what [`rfc3339`] writes.
#[cfg(feature = "explore")]
pub(crate) fn seconds_of(text: &str) -> Option<u64> {
    let number = |range: core::ops::Range<usize>| text.get(range)?.parse::<u64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let time = number(11..13)? * 3_600 + number(14..16)? * 60 + number(17..19)?;
    // Years start in March, as above.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year.checked_sub(1)?, month + 9)
    };
    let days = year * 365 + year / 4 - year / 100
        + year / 400
        + (153 * month + 2) / 5
        + day.checked_sub(1)?;
    Some(days.checked_sub(719_468)? * 86_400 + time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(rfc3339(1_767_225_600), "2026-01-01T00:00:00Z");
        assert_eq!(rfc3339(4_102_444_799), "2099-12-31T23:59:59Z");
        #[cfg(feature = "explore")]
        for seconds in [0, 951_827_696, 1_767_225_600, 4_102_444_799] {
            assert_eq!(seconds_of(&rfc3339(seconds)), Some(seconds));
        }
    }

    #[test]
    fn uuids_have_their_form_and_follow_from_the_seed() {
        let uuid = Seed::new(3).uuid();
        assert_eq!(uuid.len(), 36);
        assert_eq!(uuid.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&uuid.as_bytes()[19]));
        assert_eq!(uuid, Seed::new(3).uuid());
        assert_ne!(uuid, Seed::new(4).uuid());
    }
}
