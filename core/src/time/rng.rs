//! Seeded randomness for jitter: the same seed gives the same run.

use core::time::Duration;

/// The generator splitmix64: a seed gives the same numbers in each version of this crate. It is not suitable for
/// secrets.
///
/// ```
/// use informer_core::time::Rng;
///
/// let (mut one, mut two) = (Rng::new(7), Rng::new(7));
/// assert_eq!(one.next(), two.next());
/// assert!(one.below(6) < 6);
/// ```
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates a generator from a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 to `bound` - 1, or 0 if `bound` is 0. The bias of the modulo does not matter for jitter.
    pub const fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// Returns a duration from `min` to `max`, in whole microseconds.
    pub(crate) fn between(&mut self, min: Duration, max: Duration) -> Duration {
        let span = u64::try_from(max.saturating_sub(min).as_micros()).unwrap_or(u64::MAX);
        min.saturating_add(Duration::from_micros(self.below(span.saturating_add(1))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        for _ in 0..100 {
            assert_eq!(a.next(), b.next());
        }
        assert_ne!(Rng::new(1).next(), Rng::new(2).next());
    }

    #[test]
    fn between_stays_within_its_bounds() {
        let mut rng = Rng::new(1);
        let (min, max) = (Duration::from_secs(300), Duration::from_secs(600));
        for _ in 0..1000 {
            let d = rng.between(min, max);
            assert!(d >= min && d <= max, "{d:?}");
        }
        assert_eq!(rng.between(max, min), max);
    }
}
