//! Many seeds, on all processors, and what is said of one that fails.

use core::fmt::Write as _;
use core::ops::Range;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::panic::catch_unwind;
use std::sync::Mutex;

use super::coverage::Coverage;
use super::plan::Plan;
use super::run::{Outcome, Violation};
use super::shrink::shrink;
use super::variant::Variant;

/// What many runs came to.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// How many seeds were run.
    pub seeds: u64,
    /// How many steps these had.
    pub steps: u64,
    /// Which fault met which state.
    pub coverage: Coverage,
    /// The seeds that failed, the smallest first, and why.
    pub failed: Vec<(u64, Violation)>,
}

/// Runs seeds on so many threads; stops after `enough` that fail.
#[must_use]
pub fn explore(
    variant: Variant,
    seeds: Range<u64>,
    threads: usize,
    enough: usize,
    begin: &(dyn Fn() + Sync),
) -> Summary {
    let next = AtomicU64::new(seeds.start);
    let stop = AtomicBool::new(false);
    let summary = Mutex::new(Summary::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                begin();
                let mut own = Summary::default();
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    own.seeds += 1;
                    match run_plan(variant, &variant.plan(seed), false) {
                        Ok(outcome) => {
                            own.steps += outcome.steps as u64;
                            own.coverage.add(&outcome.coverage);
                        }
                        Err(violation) => {
                            own.failed.push((seed, *violation));
                            if own.failed.len() >= enough {
                                stop.store(true, Ordering::Relaxed);
                            }
                        }
                    }
                }
                if let Ok(mut summary) = summary.lock() {
                    summary.add(own);
                }
            });
        }
    });
    let mut summary = summary.into_inner().unwrap_or_default();
    summary.failed.sort_by_key(|(seed, _)| *seed);
    summary
}

impl Summary {
    fn add(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.steps += other.steps;
        self.coverage.add(&other.coverage);
        self.failed.extend(other.failed);
    }
}

/// Runs a plan. A panic is a violation too.
///
/// # Errors
/// The first violation of an invariant.
pub fn run_plan(variant: Variant, plan: &Plan, trace: bool) -> Result<Outcome, Box<Violation>> {
    catch_unwind(AssertUnwindSafe(|| variant.run(plan, trace))).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Box::new(Violation {
            invariant: "panic",
            source: "nothing that a server does is a panic",
            what: said.unwrap_or("it panics").to_owned(),
            step: 0,
            trace: Vec::new(),
        }))
    })
}

/// Says all that is to be said of a seed that fails: what is wrong, how to run it again, and the smallest trace that
/// could be found.
#[must_use]
pub fn report(variant: Variant, seed: u64) -> String {
    let plan = variant.plan(seed);
    let Err(violation) = run_plan(variant, &plan, false) else {
        return format!("seed {seed} violates nothing\n");
    };
    let mut text = format!("seed {seed} violates {violation}\n\n");
    let _ = writeln!(
        text,
        "to run it again:\n    cargo run --release -p informer-tests --no-default-features --bin simulate -- --variant {} --seed {seed}\n",
        variant.name()
    );
    let small = shrink(&plan, 2_000, &mut |plan| {
        run_plan(variant, plan, false)
            .is_err_and(|smaller| smaller.invariant == violation.invariant)
    });
    let Err(violation) = run_plan(variant, &small, true) else {
        return text;
    };
    let _ = writeln!(
        text,
        "the same with {} of its {} actions violates {violation}\n\n{:?}\n",
        small.actions.len(),
        plan.actions.len(),
        small.world
    );
    for line in &violation.trace {
        let _ = writeln!(text, "{line}");
    }
    text
}
