//! Many seeds, on all processors, and what is said of one that fails.

use core::fmt::Write as _;
use core::ops::Range;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::panic::catch_unwind;
use std::sync::Mutex;

use super::super::run::Violation;
use super::super::shrink::shrink_list;
use super::plan::Plan;
use super::run::{Figures, run};

/// What many runs came to.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// How many seeds were run.
    pub seeds: u64,
    /// What happened in all of them.
    pub figures: Figures,
    /// The seeds that failed, the smallest first, and why.
    pub failed: Vec<(u64, Violation)>,
}

/// Runs seeds on so many threads; stops after `enough` that fail.
#[must_use]
pub fn explore(
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
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let outcome = run_plan(&Plan::of_seed(seed), false);
                    let Ok(mut summary) = summary.lock() else {
                        break;
                    };
                    summary.seeds += 1;
                    match outcome {
                        Ok((figures, _)) => summary.figures.add(&figures),
                        Err(violation) => summary.failed.push((seed, *violation)),
                    }
                    stop.fetch_or(summary.failed.len() >= enough, Ordering::Relaxed);
                }
            });
        }
    });
    let mut summary = summary.into_inner().unwrap_or_default();
    summary.failed.sort_by_key(|(seed, _)| *seed);
    summary
}

/// Runs a plan. A panic is a violation too.
fn run_plan(plan: &Plan, trace: bool) -> Result<(Figures, Vec<String>), Box<Violation>> {
    catch_unwind(AssertUnwindSafe(|| run(plan, trace))).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Box::new(Violation {
            invariant: "panic",
            source: "nothing that happens is a panic",
            what: said.unwrap_or("it panics").to_owned(),
            step: 0,
            trace: Vec::new(),
        }))
    })
}

/// Says all that is to be said of a seed: what is wrong, how to run it again, and the smallest trace that could be found.
#[must_use]
pub fn report(seed: u64) -> String {
    let mut plan = Plan::of_seed(seed);
    let Err(violation) = run_plan(&plan, false) else {
        return format!("seed {seed} violates nothing\n");
    };
    let mut text = format!("seed {seed} violates {violation}\n\n");
    let _ = writeln!(
        text,
        "to run it again:\n    cargo run --release -p informer-tests --no-default-features --bin simulate -- --replicas --seed {seed}\n",
    );
    let count = plan.actions.len();
    let mut budget = 2_000;
    plan.actions = shrink_list(&plan.actions, &mut budget, &mut |actions| {
        let smaller = Plan {
            world: plan.world.clone(),
            actions: actions.to_vec(),
        };
        run_plan(&smaller, false).is_err_and(|smaller| smaller.invariant == violation.invariant)
    });
    let Err(violation) = run_plan(&plan, true) else {
        return text;
    };
    let _ = writeln!(
        text,
        "the same with {} of its {count} actions violates {violation}\n\n{:?}\n",
        plan.actions.len(),
        plan.world
    );
    for line in &violation.trace {
        let _ = writeln!(text, "{line}");
    }
    text
}
