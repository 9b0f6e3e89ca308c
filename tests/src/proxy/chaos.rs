//! Random faults from a seed.

use core::time::Duration;

use informer_core::time::Rng;

use super::{Cut, FaultProxy};

/// Random numbers from a seed.
#[derive(Clone, Debug)]
pub struct Random(Rng);

impl Random {
    /// Starts the sequence of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(Rng::new(seed))
    }

    /// Returns a number below `bound`; 0 for a bound of 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// Returns a number from `low` to `high`, both included.
    pub const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }
}

/// Injects one fault after another into a proxy.
#[derive(Clone, Debug)]
pub struct Chaos {
    random: Random,
    counts: [u64; FAULTS.len()],
}

/// The names of the faults, for the counts.
const FAULTS: [&str; 8] = [
    "close",
    "reset",
    "cut at a byte",
    "next cut at a byte",
    "stall",
    "half-open",
    "refuse",
    "thin link",
];

impl Chaos {
    /// Starts with a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            counts: [0; FAULTS.len()],
        }
    }

    /// Injects the next fault, removes it if it is a lasting one, and returns after a pause.
    pub async fn step(&mut self, proxy: &FaultProxy) {
        let kind = self.random.below(FAULTS.len() as u64);
        let cut = if self.random.below(2) == 0 {
            Cut::Close
        } else {
            Cut::Reset
        };
        let bytes = self.random.between(1, 60_000);
        let lasting = Duration::from_millis(self.random.between(200, 3000));
        match kind {
            0 => proxy.cut(Cut::Close),
            1 => proxy.cut(Cut::Reset),
            2 => proxy.cut_after(bytes, cut),
            3 => {
                proxy.cut_next_at(bytes, cut);
                proxy.cut(cut);
            }
            4 => {
                proxy.stall(true);
                tokio::time::sleep(lasting).await;
                proxy.stall(false);
            }
            5 => proxy.freeze(),
            6 => {
                proxy.refuse(true);
                proxy.cut(cut);
                tokio::time::sleep(lasting).await;
                proxy.refuse(false);
            }
            _ => {
                proxy.bandwidth(Some(20_000));
                proxy.delay(Duration::from_millis(20));
                tokio::time::sleep(lasting).await;
                proxy.bandwidth(None);
                proxy.delay(Duration::ZERO);
            }
        }
        if let Some(count) = usize::try_from(kind)
            .ok()
            .and_then(|kind| self.counts.get_mut(kind))
        {
            *count += 1;
        }
        let pause = self.random.between(500, 4000);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }

    /// Returns the number of faults of each kind.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        FAULTS.into_iter().zip(self.counts)
    }
}
