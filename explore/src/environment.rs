//! What the environment of a test changes.

use core::fmt::Debug;
use core::ops::Range;
use core::time::Duration;

use super::action::FaultKind;
use super::invariants::Invariant;
use super::rules::Rules;

/// The seeds to run.
pub(super) struct Extent {
    pub(super) seeds: Range<u64>,
    /// The real time after which no seed is begun.
    pub(super) time: Option<Duration>,
    /// Whether it tells the user how it goes.
    pub(super) says: bool,
}

impl Extent {
    pub(super) const fn of_rules(rules: &Rules) -> Self {
        let seeds = if rules.time.is_some() {
            u64::MAX
        } else {
            rules.seeds
        };
        Self {
            seeds: 0..seeds,
            time: rules.time,
            says: false,
        }
    }

    pub(super) fn of_environment(rules: &Rules) -> Self {
        let from = variable("EXPLORE_FROM").unwrap_or(0);
        let mut extent = Self::of_rules(rules);
        extent.says = true;
        if let Some(seeds) = variable("EXPLORE_SEEDS") {
            (extent.seeds.end, extent.time) = (seeds, None);
        }
        if let Some(time) = duration("EXPLORE_TIME") {
            (extent.seeds.end, extent.time) = (u64::MAX, Some(time));
        }
        extent.seeds = from..extent.seeds.end.saturating_add(from);
        extent
    }
}

/// Returns the number of threads.
pub(super) fn threads() -> usize {
    let threads = variable("EXPLORE_THREADS").map(|threads| threads as usize);
    threads.unwrap_or_else(|| {
        std::thread::available_parallelism().map_or(1, core::num::NonZeroUsize::get)
    })
}

/// Returns the rules without the faults and invariants that `EXPLORE_WITHOUT` names.
pub(super) fn changed(rules: &Rules) -> Rules {
    let mut rules = rules.clone();
    let names = std::env::var(WITHOUT).unwrap_or_default();
    for name in names
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
    {
        let fault = FaultKind::ALL.into_iter().find(|kind| is_named(kind, name));
        let invariant = Invariant::ALL.into_iter().find(|one| is_named(one, name));
        assert!(
            fault.is_some() || invariant.is_some(),
            "{WITHOUT}={names:?}: {name} is none of the faults {:?} and the invariants {:?}",
            FaultKind::ALL,
            Invariant::ALL
        );
        let spec = &mut rules.spec;
        spec.faults.retain(|kind| Some(*kind) != fault);
        spec.named.retain(|kind| Some(*kind) != fault);
        spec.invariants.retain(|one| Some(*one) != invariant);
    }
    rules
}

pub(super) const WITHOUT: &str = "EXPLORE_WITHOUT";

fn is_named(value: &impl Debug, name: &str) -> bool {
    format!("{value:?}") == name
}

pub(super) fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Returns a number of the environment.
pub(super) fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    match text.trim().parse() {
        Ok(number) => Some(number),
        Err(error) => panic!("{name}={text:?} is not a number: {error}"),
    }
}

/// Returns a time of the environment, such as `60s` or `10m`.
fn duration(name: &str) -> Option<Duration> {
    let text = std::env::var(name).ok()?;
    let (number, unit) = match text.trim().strip_suffix('m') {
        Some(minutes) => (minutes, 60),
        None => (text.trim().trim_end_matches('s'), 1),
    };
    match number.parse::<u64>() {
        Ok(number) => Some(Duration::from_secs(number.saturating_mul(unit))),
        Err(_) => panic!("{name}={text:?} is no time: write it as 60s or 10m"),
    }
}
