//! Choices that follow from a seed.

use informer_core::time::Rng;

/// A reproducible source of choices.
#[derive(Clone, Debug)]
pub(super) struct Dice(Rng);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(Rng::new(seed))
    }

    /// Creates a source for one purpose, which does not depend on how many choices were made elsewhere. Without that,
    /// a removed action would change everything after it, and no plan could be shrunk.
    pub(super) fn of(parts: &[u64]) -> Self {
        let mixed = parts
            .iter()
            .fold(0, |mixed, part| Rng::new(mixed ^ part).next());
        Self::new(mixed)
    }

    /// Returns a number below `bound`. A bound of 0 counts as 1.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    pub(super) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())]
    }
}
