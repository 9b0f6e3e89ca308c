//! When the power goes, and chance.

use core::cell::Cell;
use std::rc::Rc;

/// Numbers by chance, the same for the same seed.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Begins anew.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// Returns the next number below a bound, which is not 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    /// Tells whether one of so many times has come.
    pub const fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Returns a number below a bound, as a place.
    ///
    /// # Panics
    /// Where the bound is 0.
    pub fn place(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).expect("it is below one")
    }
}

/// Power, which goes at an operation of the medium that was chosen before.
#[derive(Clone, Debug, Default)]
pub struct Power(Rc<Cell<Option<u64>>>);

/// What becomes of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It is done.
    Done,
    /// The power goes in the middle of it.
    Torn,
    /// There is no power.
    Dead,
}

impl Power {
    /// There is power for so many operations; `None` is for ever.
    pub fn on(&self, operations: Option<u64>) {
        self.0.set(operations.map(|operations| operations + 1));
    }

    /// Tells whether it has gone.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.0.get() == Some(0)
    }

    /// Begins an operation.
    #[must_use]
    pub fn spend(&self) -> Fate {
        match self.0.get() {
            None => Fate::Done,
            Some(0) => Fate::Dead,
            Some(1) => {
                self.0.set(Some(0));
                Fate::Torn
            }
            Some(left) => {
                self.0.set(Some(left - 1));
                Fate::Done
            }
        }
    }
}

/// There is no power.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Off;

impl core::fmt::Display for Off {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the power is off")
    }
}
