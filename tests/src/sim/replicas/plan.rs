//! A world of replicas and what happens in it, made from a seed.

use core::fmt;
use core::time::Duration;

use informer_core::election::ElectionConfig;
use informer_mock::DeleteAnswer;

use super::super::entropy::Entropy;

/// How many keys there are at most.
pub(super) const KEYS: usize = 12;

/// One in so many is none.
pub(super) const NEVER: u32 = 1_000_000;

/// How many actions a seed has.
const STEPS: usize = 60;

/// So many processes run at most.
pub(super) const MOST: usize = 5;

/// How a world of replicas is.
#[derive(Clone, Debug)]
pub struct World {
    /// Where all its random choices come from.
    pub seed: u64,
    /// How many replicas there are at first.
    pub replicas: u8,
    /// The times of the Leases, in milliseconds: how long others wait, how long one goes on that cannot renew, and the
    /// pause between two requests.
    pub times: [u32; 3],
    /// By how much of a thousand a clock runs too fast or too slow at most.
    pub skew: u32,
    /// How long each half of a request takes at most, in milliseconds.
    pub latency: u32,
    /// One in so many takes very long.
    pub slow: u32,
    /// Leases are read in an older state, now and then. The write that follows fails.
    pub stale_reads: bool,
    /// How long the reconcile function takes at most, in milliseconds.
    pub run: u32,
    /// How many keys a replica reconciles at a time.
    pub workers: u8,
    /// One run in so many fails.
    pub failing: u32,
    /// One run in so many writes to its object, or deletes it.
    pub writing: u32,
    /// What the server answers to a DELETE.
    pub deletes: DeleteAnswer,
    /// A worker that waits for a key stops waiting, one time in so many, and asks again later.
    pub dropping: u32,
}

/// Which of a replica's requests do not come through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Path {
    /// Those for its own Lease.
    Lease,
    /// Those for the Leases of all.
    Members,
    /// The watch of the objects, and the writes of the reconcile function.
    Objects,
    /// All of them.
    All,
}

/// Something that happens. Replicas are counted among those that run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Time passes, in milliseconds.
    Pass(u32),
    /// A replica starts, under a name of its own.
    Start,
    /// A replica ends without a word.
    Kill(u8),
    /// A replica stops its controller, and gives its Lease up.
    Leave(u8),
    /// A process stands still for so many milliseconds, and goes on.
    Freeze(u8, u32),
    /// What a replica asks does not come through, or its answers do not, for so many milliseconds.
    Cut(u8, Path, bool, u32),
    /// A replica's watch is behind by so many milliseconds from now on.
    Lag(u8, u32),
    /// Another client changes a replica's Lease, so that the next renewal is refused.
    Touch(u8),
    /// An object is created or changed.
    Put(u8),
    /// An object is deleted.
    Delete(u8),
}

/// A world and what happens in it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How the world is.
    pub world: World,
    /// What happens.
    pub actions: Vec<Action>,
}

impl Plan {
    /// Makes the plan of a seed.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        let mut entropy = Entropy::Seed(seed);
        let mut world = World::generate(&mut entropy, seed);
        // Each has more of some things, so that few of them come together often.
        let mut weight = |usual: u32| usual * [0, 1, 1, 3][entropy.below(4) as usize];
        let weights = [weight(3), weight(3), weight(6), weight(6), 6];
        let actions = (0..STEPS).map(|_| action(&mut entropy, &world, weights));
        let mut actions: Vec<Action> = actions.collect();
        // Rare ones come from a seed of their own, so that all others stay where they were.
        let mut rare = Entropy::Seed(seed ^ 0x5eed_0000_7a7e_0002);
        if rare.one_in(4) {
            for _ in 0..=rare.below(3) {
                let at = rare.below(STEPS as u32) as usize;
                actions.insert(at, Action::Touch(small(&mut rare, 8)));
            }
        }
        world.writing = rare.pick(&[NEVER, NEVER, 6]);
        world.deletes = rare.pick(&[
            DeleteAnswer::OldVersion,
            DeleteAnswer::NewVersion,
            DeleteAnswer::Status,
        ]);
        world.dropping = rare.pick(&[NEVER, NEVER, 12]);
        Self { world, actions }
    }
}

impl World {
    fn generate(entropy: &mut Entropy<'_>, seed: u64) -> Self {
        let times = entropy.pick(&[
            [15_000, 10_000, 2_000],
            [15_000, 10_000, 2_000],
            [15_000, 10_000, 4_000],
            [9_000, 6_000, 2_500],
            [30_000, 28_000, 5_000],
        ]);
        let [lease, renew, _] = times;
        // What is promised: no clock is faster than another by the part by which the one time is longer than the other.
        let most = 1000 * (lease - renew) / (lease + renew) - 1;
        Self {
            seed,
            replicas: 3 + u8::try_from(entropy.below(2)).unwrap_or(0),
            times,
            skew: entropy.pick(&[0, most / 4, most]),
            latency: entropy.pick(&[5, 40, 300, renew / 20]),
            slow: entropy.pick(&[1_000_000, 60, 12]),
            stale_reads: entropy.one_in(3),
            run: entropy.pick(&[50, 1_000, 4_000]),
            workers: entropy.pick(&[1, 2, 4]),
            failing: entropy.pick(&[NEVER, 4]),
            writing: NEVER,
            deletes: DeleteAnswer::Status,
            dropping: NEVER,
        }
    }

    /// Tells whether there is time for another request where one has failed at once.
    pub(super) const fn makes_up_for_one(&self) -> bool {
        let [_, renew, retry] = self.times;
        (retry * 2 + self.latency * 8) * (1000 + self.skew) < renew * (1000 - self.skew)
    }

    /// The times of the Leases.
    pub(super) fn config(&self) -> ElectionConfig {
        let [lease, renew, retry] = self.times.map(|ms| Duration::from_millis(ms.into()));
        let mut config = ElectionConfig::default();
        config.lease_duration = lease;
        config.renew_deadline = renew;
        config.retry_period = retry;
        config
    }
}

fn action(entropy: &mut Entropy<'_>, world: &World, weights: [u32; 5]) -> Action {
    let [lease, renew, retry] = world.times;
    if entropy.below(5) < 3 {
        // Shortly before and after what counts, too.
        let times = [
            10,
            retry / 2,
            retry,
            retry * 2,
            renew - 100,
            renew + retry,
            lease,
            lease + retry,
        ];
        return Action::Pass(entropy.pick(&times) + entropy.below(100));
    }
    let mut at = entropy.below(weights.iter().sum());
    let mut group = 0;
    while at >= weights[group] {
        at -= weights[group];
        group += 1;
    }
    let which = small(entropy, 8);
    let mut time = || entropy.below(lease * 2) + 10;
    match group {
        0 => Action::Start,
        1 if which < 5 => Action::Kill(which),
        1 => Action::Leave(which),
        2 => Action::Freeze(which, time()),
        3 => {
            let time = time();
            let paths = [Path::Lease, Path::Members, Path::Objects, Path::All];
            Action::Cut(which, entropy.pick(&paths), entropy.below(2) == 1, time)
        }
        _ => match small(entropy, 8) {
            0..5 => Action::Put(which + small(entropy, 5)),
            5 | 6 => Action::Delete(which + small(entropy, 5)),
            _ => Action::Lag(which, entropy.pick(&[0, 300, 5_000])),
        },
    }
}

fn small(entropy: &mut Entropy<'_>, bound: u32) -> u8 {
    u8::try_from(entropy.below(bound)).unwrap_or(0)
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lease => "its Lease",
            Self::Members => "the list of the Leases",
            Self::Objects => "its objects",
            Self::All => "the API server",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_keep_to_what_is_promised() {
        for seed in 0..100 {
            let world = Plan::of_seed(seed).world;
            let [lease, renew, _] = world.times;
            assert!((1000 + world.skew) * renew < (1000 - world.skew) * lease);
        }
    }
}
