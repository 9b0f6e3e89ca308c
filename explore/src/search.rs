//! Runs many seeds, and shrinks what fails.

use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::Explore;
use super::failure::{Difference, Failure, Planned};
use super::plan::Plan;
use super::process::Process;
use super::run::{Ran, run as run_plan};
use super::seeds::each_seed;
use super::spec::Spec;
use super::trace::Trace;
use super::world::Running;
use crate::shrink::shrink;

/// Starts the program under test, on any thread.
type Start<'a> = dyn Fn(Process) -> Running + Sync + 'a;

/// The result of an exploration without a failure.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explored {
    /// The number of seeds.
    pub seeds: u64,
    /// The number of requests of the program in all runs.
    pub requests: u64,
    /// The real time that it took.
    pub took: Duration,
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seeds,
            requests,
            took,
        } = self;
        write!(
            f,
            "{seeds} seeds with {requests} requests in {took:.1?}: every check holds"
        )
    }
}

/// Runs the seeds that the environment asks for. Panics with the report of a failure.
pub(super) fn run(explore: &Explore, start: &Start<'_>) -> Explored {
    let Some(seed) = variable("EXPLORE_SEED") else {
        let seeds = variable("EXPLORE_SEEDS").unwrap_or(explore.seeds);
        let found = search(explore, 0..seeds, start);
        return found.unwrap_or_else(|failure| report(&failure));
    };
    match replay(explore, seed, start) {
        Ok(ran) => {
            let text = format!("seed {seed}: every check holds\n\n{}\n", ran.trace);
            // If nobody reads it, there is nothing to do.
            let _ = std::io::stdout().write_all(text.as_bytes());
            Explored {
                seeds: 1,
                requests: ran.requests as u64,
                took: Duration::ZERO,
            }
        }
        Err(failure) => report(&failure),
    }
}

/// Fails a test with the report.
fn report(failure: &Failure) -> ! {
    let page = match failure.write_page() {
        Ok(path) => format!("as a page: {}", path.display()),
        Err(error) => format!("the page could not be written: {error}"),
    };
    panic!("{failure}\n{page}\n");
}

/// Runs the seeds of the rules.
pub(super) fn find(explore: &Explore, start: &Start<'_>) -> Result<Explored, Box<Failure>> {
    search(explore, 0..explore.seeds, start)
}

/// Runs one seed.
pub(super) fn trace(explore: &Explore, seed: u64, start: &Start<'_>) -> Trace {
    let spec = Arc::new(explore.spec.clone());
    run_plan(&spec, &Plan::of_seed(seed, &spec), start, true).trace
}

/// Returns a number of the environment.
fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    match text.trim().parse() {
        Ok(number) => Some(number),
        Err(error) => panic!("{name}={text:?} is not a number: {error}"),
    }
}

fn search(
    explore: &Explore,
    seeds: Range<u64>,
    start: &Start<'_>,
) -> Result<Explored, Box<Failure>> {
    let began = Instant::now();
    let spec = Arc::new(explore.spec.clone());
    let requests = AtomicU64::new(0);
    // The smallest seed that fails.
    let failed = Mutex::new(None::<u64>);
    let threads = variable("EXPLORE_THREADS").map(|threads| threads as usize);
    let threads = threads.unwrap_or_else(|| {
        std::thread::available_parallelism().map_or(1, core::num::NonZeroUsize::get)
    });
    each_seed(seeds.clone(), threads, |seed| {
        let ran = run_plan(&spec, &Plan::of_seed(seed, &spec), start, false);
        requests.fetch_add(ran.requests as u64, Ordering::Relaxed);
        if ran.violation.is_some() {
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            *failed = Some(failed.map_or(seed, |other| other.min(seed)));
        }
        ran.violation.is_none()
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    let Some(seed) = failed else {
        return Ok(Explored {
            seeds: seeds.end - seeds.start,
            requests: requests.into_inner(),
            took: began.elapsed(),
        });
    };
    match replay(explore, seed, start) {
        Err(failure) => Err(failure),
        // It failed before, so the program is not deterministic.
        Ok(ran) => Err(Box::new(Failure::vanished(seed, ran.trace))),
    }
}

/// Runs a seed twice. If it fails, shrinks the failure.
fn replay(explore: &Explore, seed: u64, start: &Start<'_>) -> Result<Ran, Box<Failure>> {
    let spec = Arc::new(explore.spec.clone());
    let plan = Plan::of_seed(seed, &spec);
    let first = run_plan(&spec, &plan, start, true);
    let Some(violation) = first.violation.clone() else {
        return Ok(first);
    };
    let second = run_plan(&spec, &plan, start, true);
    let difference = Difference::between(&first.trace, &second.trace);
    let small = shrink_plan(explore, &spec, &plan, start, &violation.0);
    let last = run_plan(&spec, &small, start, true);
    let is_same = |ran: &Ran| {
        ran.violation
            .as_ref()
            .is_some_and(|(check, _)| *check == violation.0)
    };
    // A program that is not deterministic need not fail again.
    let (small, last) = if is_same(&last) {
        (small, last)
    } else {
        (plan.clone(), first)
    };
    Err(Box::new(Failure {
        seed,
        check: violation.0,
        what: last.violation.map(|(_, what)| what).unwrap_or_default(),
        all_actions: plan.steps.len(),
        actions: planned(&small, &spec),
        settings: settings(&small),
        trace: last.trace,
        difference,
    }))
}

/// Removes actions and simplifies the rest while the same check fails.
fn shrink_plan(
    explore: &Explore,
    spec: &Arc<Spec>,
    plan: &Plan,
    start: &Start<'_>,
    check: &str,
) -> Plan {
    let mut budget = explore.shrinks;
    let fails = |plan: &Plan| {
        let ran = run_plan(spec, plan, start, false);
        ran.violation.is_some_and(|(name, _)| name == check)
    };
    let mut small = plan.clone();
    loop {
        let before = small.clone();
        for settings in small.settings.simpler() {
            simplify(&mut small, &mut budget, &fails, |plan| {
                plan.settings = settings;
            });
            if small.settings != before.settings {
                break;
            }
        }
        let rest = small.clone();
        small.steps = shrink(&small.steps, &mut budget, &mut |steps| {
            fails(&Plan {
                steps: steps.to_vec(),
                ..rest.clone()
            })
        });
        let last = |plan: &Plan| plan.steps.last().map_or(Duration::ZERO, |step| step.at);
        for wait in [Duration::ZERO, Duration::from_secs(1)] {
            simplify(&mut small, &mut budget, &fails, |plan| {
                plan.end = last(plan) + wait;
            });
        }
        for index in 0..small.steps.len() {
            // Everything from here on happens earlier.
            for wait in [Duration::ZERO, Duration::from_secs(1)] {
                simplify(&mut small, &mut budget, &fails, |plan| {
                    move_up(plan, index, wait);
                });
            }
        }
        if small == before || budget == 0 {
            return small;
        }
    }
}

/// Moves a step, and what follows it, to a time after the step before it. It never moves it back.
fn move_up(plan: &mut Plan, index: usize, wait: Duration) {
    let before = index.checked_sub(1).and_then(|index| plan.steps.get(index));
    let wanted = before.map_or(Duration::ZERO, |step| step.at) + wait;
    let by = plan.steps[index].at.saturating_sub(wanted);
    for step in &mut plan.steps[index..] {
        step.at -= by;
    }
    plan.end -= by;
}

/// Keeps a change of a plan if it still fails.
fn simplify(
    plan: &mut Plan,
    budget: &mut usize,
    fails: &dyn Fn(&Plan) -> bool,
    change: impl FnOnce(&mut Plan),
) {
    let mut simpler = plan.clone();
    change(&mut simpler);
    if simpler == *plan || simpler.end > plan.end || *budget == 0 {
        return;
    }
    *budget -= 1;
    if fails(&simpler) {
        *plan = simpler;
    }
}

fn planned(plan: &Plan, spec: &Spec) -> Vec<Planned> {
    let steps = plan.steps.iter().map(|step| Planned {
        at: step.at,
        what: super::describe::describe(&step.action, spec),
    });
    steps.collect()
}

/// Describes what is unusual in a world.
fn settings(plan: &Plan) -> String {
    let settings = plan.settings;
    let mut parts: Vec<String> = Vec::new();
    let mut add = |is_unusual: bool, text: String| {
        if is_unusual {
            parts.push(text);
        }
    };
    add(
        settings.read_ms > 1,
        format!("reads take up to {} ms", settings.read_ms),
    );
    add(
        settings.write_ms > 1,
        format!("writes take up to {} ms each way", settings.write_ms),
    );
    add(
        !settings.streams,
        "there are no streaming lists".to_string(),
    );
    add(!settings.bookmarks, "there are no bookmarks".to_string());
    add(
        settings.gone_http,
        "watches expire by status 410".to_string(),
    );
    add(
        settings.forgetful,
        "events are forgotten after 75 s".to_string(),
    );
    add(
        settings.skew > 0,
        format!("clocks differ by {} s", settings.skew),
    );
    if parts.is_empty() {
        "the usual settings".to_string()
    } else {
        parts.join(", ")
    }
}
