//! The source of choices: a seed, or the bytes of a fuzzer.

use informer_core::time::Rng;

/// A reproducible source of choices.
#[derive(Clone, Debug)]
pub enum Entropy<'a> {
    /// The numbers of a seed; unlimited.
    Seed(Rng),
    /// Bytes; after their end every choice is the first one.
    Bytes(&'a [u8]),
}

impl Entropy<'_> {
    /// Creates the choices of a seed.
    #[must_use]
    pub const fn of(seed: u64) -> Self {
        Self::Seed(Rng::new(seed))
    }

    /// Returns a number below `bound`; a bound of 0 counts as 1.
    pub fn below(&mut self, bound: u32) -> u32 {
        let bound = bound.max(1);
        match self {
            // The result is below the bound.
            Self::Seed(rng) => u32::try_from(rng.below(bound.into())).unwrap_or(0),
            Self::Bytes(bytes) => {
                let width = if bound <= 256 { 1 } else { 4 };
                let (taken, rest) = bytes.split_at(width.min(bytes.len()));
                *bytes = rest;
                taken.iter().fold(0_u32, |n, b| n << 8 | u32::from(*b)) % bound
            }
        }
    }

    /// Returns true once in `n` times.
    pub fn one_in(&mut self, n: u32) -> bool {
        // The first choice is the harmless one: after the end of the bytes there are no more faults.
        self.below(n) == n.saturating_sub(1)
    }

    /// Returns one of the items.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(u32::try_from(of.len()).unwrap_or(u32::MAX)) as usize]
    }

    /// Removes one of the items and returns it.
    pub fn take<T>(&mut self, from: &mut Vec<T>) -> Option<T> {
        let count = u32::try_from(from.len()).unwrap_or(u32::MAX);
        (count > 0).then(|| from.swap_remove(self.below(count) as usize))
    }

    /// Returns whether the bytes have ended.
    #[must_use]
    pub const fn is_spent(&self) -> bool {
        matches!(self, Self::Bytes([]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(entropy: &mut Entropy<'_>) -> [u32; 8] {
        core::array::from_fn(|_| entropy.below(100))
    }

    #[test]
    fn a_seed_gives_the_same_numbers_and_bytes_come_to_an_end() {
        let (mut one, mut same, mut other) = (Entropy::of(4), Entropy::of(4), Entropy::of(5));
        let first = numbers(&mut one);
        assert_eq!(first, numbers(&mut same));
        assert_ne!(first, numbers(&mut other));
        let bytes = numbers(&mut Entropy::Bytes(&[1, 2, 203]));
        assert_eq!(bytes, [1, 2, 3, 0, 0, 0, 0, 0]);
    }
}
