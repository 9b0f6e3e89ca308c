//! A world of replicas and the actions in it, made from a seed.

use core::fmt;
use core::time::Duration;

use informer_tokio::election::ElectionConfig;

use super::super::entropy::Entropy;

/// The maximum number of keys.
pub(super) const KEYS: usize = 12;

/// As a probability of one in this many: never.
pub(super) const NEVER: u32 = 1_000_000;

/// The number of actions in a plan made from a seed.
const STEPS: usize = 60;

/// The maximum number of processes that run at a time.
pub(super) const MOST: usize = 5;

/// The settings of a world of replicas.
#[derive(Clone, Debug)]
pub struct World {
    /// The seed of all random choices.
    pub seed: u64,
    /// The replicas compete for one Lease, instead of sharing the keys.
    pub elects: bool,
    /// The number of replicas at the start.
    pub replicas: u8,
    /// The simulation looks at the processes and carries their requests this often, in milliseconds.
    pub tick: u32,
    /// The times of the Leases in milliseconds: the lease duration, the renew deadline and the retry period.
    pub times: [u32; 3],
    /// The maximum error of a clock's rate, in thousandths.
    pub skew: u32,
    /// The maximum latency of each half of a request, in milliseconds.
    pub latency: u32,
    /// One in this many answers is very slow.
    pub slow: u32,
    /// Reads of Leases sometimes return an older state. The write that follows fails.
    pub stale_reads: bool,
    /// The maximum time of a run of the reconcile function, in milliseconds.
    pub run: u32,
    /// The number of keys that a replica reconciles at a time.
    pub workers: u8,
    /// One in this many runs fails.
    pub failing: u32,
}

/// The requests of a replica that are cut off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Path {
    /// The requests for its own Lease.
    Lease,
    /// The lists of all Leases.
    Members,
    /// The watch of the objects, and all that the reconcile function does.
    Objects,
    /// All requests.
    All,
}

const PATHS: [Path; 4] = [Path::Lease, Path::Members, Path::Objects, Path::All];

/// An action. Replicas are counted among those that run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Lets milliseconds pass.
    Pass(u32),
    /// Starts a replica under a new name.
    Start,
    /// Kills a replica without a shutdown.
    Kill(u8),
    /// A replica stops its controller and releases its Lease.
    Leave(u8),
    /// Freezes a process for this many milliseconds.
    Freeze(u8, u32),
    /// Requests of a replica, or their answers, are lost for this many milliseconds.
    Cut(u8, Path, bool, u32),
    /// The next request of a replica fails at once, or its answer is replaced by an error.
    Fail(u8, Path, bool),
    /// Another client changes a replica's Lease or deletes an expired one, so that the next renewal conflicts.
    Touch(u8, bool),
    /// Creates or changes an object.
    Put(u8),
    /// Deletes an object.
    Delete(u8),
}

/// A world and the actions in it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The settings of the world.
    pub world: World,
    /// The actions.
    pub actions: Vec<Action>,
}

impl Plan {
    /// Makes the plan of a seed.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        let mut entropy = Entropy::of(seed);
        let world = World::generate(&mut entropy, seed);
        // Each run has more of some actions, so that rare combinations occur often.
        let mut weight = |usual: u32| usual * [0, 1, 1, 3][entropy.below(4) as usize];
        let weights = [
            weight(3),
            weight(3),
            weight(6),
            weight(6),
            weight(6),
            weight(1),
            5,
        ];
        let actions = (0..STEPS).map(|_| action(&mut entropy, &world, weights));
        let actions = actions.collect();
        Self { world, actions }
    }
}

impl World {
    fn generate(entropy: &mut Entropy<'_>, seed: u64) -> Self {
        let times = entropy.pick(&[
            [15_000, 10_000, 2_000],
            [15_000, 14_000, 2_000],
            [15_000, 10_000, 4_000],
            [9_000, 6_000, 2_500],
            [30_000, 28_000, 5_000],
        ]);
        let [lease, renew, _] = times;
        // The documented condition: clock rates must not differ by more than `lease_duration / renew_deadline`.
        let most = 1000 * (lease - renew) / (lease + renew) - 1;
        Self {
            seed,
            elects: entropy.one_in(4),
            tick: entropy.pick(&[100, 200, 400]),
            replicas: 3 + u8::try_from(entropy.below(2)).unwrap_or(0),
            times,
            skew: entropy.pick(&[0, most / 4, most]),
            latency: entropy.pick(&[5, 40, 300, renew / 20]),
            slow: entropy.pick(&[1_000_000, 60, 12]),
            stale_reads: entropy.one_in(3),
            run: entropy.pick(&[50, 1_000, 4_000]),
            workers: entropy.pick(&[1, 2, 4]),
            failing: entropy.pick(&[NEVER, 4]),
        }
    }

    /// Returns how long a request and its answer take at most without a fault, on any clock.
    pub(super) fn usual(&self) -> Duration {
        let time = u64::from(self.latency + self.tick) * 2 + u64::from(self.tick);
        Duration::from_millis(time * u64::from(1000 + self.skew) / 1000)
    }

    /// Returns the times of the Leases.
    pub(super) fn config(&self) -> ElectionConfig {
        let [lease, renew, retry] = self.times.map(|ms| Duration::from_millis(ms.into()));
        let mut config = ElectionConfig::default();
        config.lease_duration = lease;
        config.renew_deadline = renew;
        config.retry_period = retry;
        config
    }
}

fn action(entropy: &mut Entropy<'_>, world: &World, weights: [u32; 7]) -> Action {
    let [lease, renew, retry] = world.times;
    if entropy.below(5) < 3 {
        // Includes times shortly before and after the deadlines.
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
            Action::Cut(which, entropy.pick(&PATHS), entropy.one_in(2), time)
        }
        4 => Action::Fail(which, entropy.pick(&PATHS[..2]), entropy.one_in(2)),
        5 => Action::Touch(which, entropy.one_in(2)),
        _ if which < 5 => Action::Put(which + small(entropy, 8)),
        _ => Action::Delete(which + small(entropy, 5)),
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
