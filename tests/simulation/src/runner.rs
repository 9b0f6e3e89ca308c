//! Runs many seeds of any simulation on all processors, and reports those that fail.

use core::fmt::{Debug, Write as _};
use core::ops::Range;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Mutex;

use informer_explore::each_seed;

use super::bugs::choose;
use super::run::Violation;

/// The result of a run, with its trace if requested, or the first violation of an invariant.
pub type Ran<F> = Result<(F, Vec<String>), Box<Violation>>;

/// A simulation in which each run follows from a seed.
pub trait Simulation: Copy + Sync {
    /// What is carried out.
    type Plan;
    /// Counters of what happened.
    type Figures: Default + Debug + Send;

    /// Returns the arguments that select this simulation in `simulate`.
    fn arguments(self) -> String;

    /// Makes the plan of a seed.
    fn plan(self, seed: u64) -> Self::Plan;

    /// Carries out a plan.
    ///
    /// # Errors
    /// The first violation of an invariant.
    fn run(self, plan: &Self::Plan, trace: bool) -> Ran<Self::Figures>;

    /// Adds the counters of another run.
    fn add(sum: &mut Self::Figures, one: Self::Figures);

    /// Returns a smaller plan that still fails, with a description. `fails` may be called 2,000 times.
    fn shrink(
        self,
        plan: Self::Plan,
        fails: &mut dyn FnMut(&Self::Plan) -> bool,
    ) -> (Self::Plan, String);
}

/// The result of many runs.
#[derive(Debug)]
pub struct Summary<F> {
    /// The number of seeds run.
    pub seeds: u64,
    /// The counters of all runs.
    pub figures: F,
    /// The seeds that failed, smallest first, and why.
    pub failed: Vec<(u64, Violation)>,
}

/// Runs seeds on `threads` threads, with a planted bug if one is named. Stops after `enough` failures.
#[must_use]
pub fn explore<S: Simulation>(
    simulation: S,
    seeds: Range<u64>,
    threads: usize,
    enough: usize,
    bug: Option<&'static str>,
) -> Summary<S::Figures> {
    let summary = Mutex::new(Summary {
        seeds: 0,
        figures: S::Figures::default(),
        failed: Vec::new(),
    });
    each_seed(seeds, threads, |seed| {
        choose(bug);
        let ran = run_plan(simulation, &simulation.plan(seed), false);
        choose(None);
        let mut summary = summary.lock().expect("nothing here panics with it");
        summary.seeds += 1;
        match ran {
            Ok((figures, _)) => S::add(&mut summary.figures, figures),
            Err(violation) => summary.failed.push((seed, *violation)),
        }
        summary.failed.len() < enough
    });
    let mut summary = summary.into_inner().expect("nothing here panics with it");
    summary.failed.sort_by_key(|(seed, _)| *seed);
    summary
}

/// Runs a plan. A panic is a violation too.
///
/// # Errors
/// The first violation of an invariant.
pub fn run_plan<S: Simulation>(simulation: S, plan: &S::Plan, trace: bool) -> Ran<S::Figures> {
    catch_unwind(AssertUnwindSafe(|| simulation.run(plan, trace))).unwrap_or_else(|panic| {
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

/// Describes the run of a seed by its trace. For a failure, adds the violation, the command that reproduces it, and
/// the smallest trace found. `found` is the violation that an earlier run has found: the seed is run several times until
/// it fails again.
#[must_use]
pub fn report<S: Simulation>(simulation: S, seed: u64, found: Option<&Violation>) -> String {
    const AGAIN: usize = 20;
    let plan = simulation.plan(seed);
    let mut passed = None;
    let again = (0..AGAIN).find_map(|_| match run_plan(simulation, &plan, true) {
        Ok((_, trace)) => {
            passed = Some(trace);
            found.is_none().then_some(None)
        }
        Err(violation) => Some(Some(violation)),
    });
    let Some(first) = again.flatten() else {
        let said = match found {
            Some(found) => format!(
                "has violated {found}\n\nIt has not failed again in {AGAIN} runs, so it depends on real time or on the \
                 order of threads. This is a run without the violation:"
            ),
            None => "violates nothing".to_owned(),
        };
        let trace = passed.unwrap_or_default().join("\n");
        return format!("seed {seed} {said}\n\n{trace}\n");
    };
    let mut text = format!(
        "seed {seed} violates {first}\n\nto run it again:\n    \
         cargo run --release -p informer-simulation --{} --seed {seed}\n\n",
        simulation.arguments()
    );
    let (small, said) = simulation.shrink(plan, &mut |plan| {
        run_plan(simulation, plan, false).is_err_and(|smaller| smaller.invariant == first.invariant)
    });
    let last = run_plan(simulation, &small, true).err().unwrap_or(first);
    let trace = last.trace.join("\n");
    let _ = writeln!(text, "with {said} it violates {last}\n\n{trace}");
    text
}
