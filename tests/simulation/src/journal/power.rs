//! Power losses, and random numbers.

use core::cell::Cell;
use std::rc::Rc;

use informer_core::time::Rng;

/// A reproducible sequence of random numbers.
#[derive(Clone, Debug)]
pub struct Chance(Rng);

impl Chance {
    /// Starts the sequence of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(Rng::new(seed ^ 0x9e37_79b9_7f4a_7c15))
    }

    /// Returns the next number below a bound.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// Returns true once in `times` times.
    pub const fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Returns a number below a bound, as an index.
    ///
    /// # Panics
    /// If the bound is 0.
    pub fn place(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).expect("it is below one")
    }
}

/// The power supply. It fails at an operation of the medium that was chosen in advance.
#[derive(Clone, Debug, Default)]
pub struct Power(Rc<Cell<Option<u64>>>);

/// The result of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It is completed.
    Done,
    /// The power fails in the middle of it.
    Torn,
    /// There is no power.
    Dead,
}

impl Power {
    /// Supplies power for this many operations; `None` is unlimited.
    pub fn on(&self, operations: Option<u64>) {
        self.0.set(operations.map(|operations| operations + 1));
    }

    /// Returns whether the power has failed.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.0.get() == Some(0)
    }

    /// Starts an operation.
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

/// The error of an operation without power.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Off;

impl core::fmt::Display for Off {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the power is off")
    }
}
