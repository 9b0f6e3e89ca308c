//! Runs many seeds, and reports what fails.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::action::FaultKind;
use super::converge::run_and_compare as run_plan;
use super::describe;
use super::environment::{self, Extent, threads, variable};
use super::failure::{Difference, Failure, Planned};
use super::invariants::Invariant;
use super::plan::Plan;
use super::progress::Progress;
use super::regressions;
use super::rules::Rules;
use super::run::{Ran, Start};
use super::seeds::each_seed;
use super::simplify::simplify;
use super::spec::Spec;
use super::survey::survey;
use super::systematic::points;
use super::tally::Tally;
use super::trace::Trace;

/// The result of an exploration without a failure.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explored {
    /// The number of seeds.
    pub seeds: u64,
    /// The number of points of [`Explore::each_write`](crate::Explore::each_write). All of them hold.
    pub points: u64,
    /// The number of requests of the program in all runs.
    pub requests: u64,
    /// How often a fault of each kind that is on had an effect: it met a request, a watch or a process. 0 means never.
    pub faults: BTreeMap<FaultKind, u64>,
    /// How often a process died.
    pub deaths: u64,
    /// How many runs an invariant could not decide: users have other objects in the runs to compare with, or something
    /// changes every few minutes.
    pub undecided: BTreeMap<Invariant, u64>,
    /// The real time that it took.
    pub took: Duration,
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seeds,
            requests,
            took,
            deaths,
            points,
            ..
        } = self;
        if *points > 0 {
            write!(f, "{points} of {points} points, and ")?;
        }
        write!(
            f,
            "{seeds} seeds with {requests} requests in {took:.1?}: every check holds. Processes died {deaths} times; faults: "
        )?;
        let (had, none): (Vec<_>, Vec<_>) = self.faults.iter().partition(|(_, count)| **count > 0);
        let had: Vec<String> = had
            .iter()
            .map(|(kind, count)| format!("{count} {kind:?}"))
            .collect();
        f.write_str(if had.is_empty() { "none" } else { "" })?;
        f.write_str(&had.join(", "))?;
        if *seeds > 1 && !none.is_empty() {
            let none: Vec<String> = none.iter().map(|(kind, _)| format!("{kind:?}")).collect();
            write!(f, "; without an effect: {}", none.join(", "))?;
        }
        for (invariant, count) in &self.undecided {
            write!(f, ". {invariant:?} could not decide {count} of them")?;
        }
        Ok(())
    }
}

/// How often a seed that has failed is run in all.
const RUNS: usize = 6;
/// For how long a failure is repeated and shrunk, in real time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the seeds that the environment asks for. Panics with the report of a failure.
pub(super) fn run(rules: &Rules, start: &Arc<Start>) -> Explored {
    let rules = &environment::changed(rules);
    if environment::is_set("EXPLORE_ALL") {
        let explored = survey(rules, start);
        summary(&explored);
        return explored;
    }
    let of_seed = |seed| (seed, None);
    let of_point = |point| (point, Some(point));
    let one_only = variable("EXPLORE_SEED").map(of_seed);
    let one_only = one_only.or_else(|| variable("EXPLORE_POINT").map(of_point));
    let explored = match one_only {
        Some((number, point)) => one(rules, number, point, start),
        None => search(rules, &Extent::of_environment(rules), start),
    };
    match explored {
        Ok(explored) => {
            summary(&explored);
            explored
        }
        Err(failure) => report(rules, &failure),
    }
}

/// Prints the summary, which a test shows with `--nocapture`.
#[expect(clippy::print_stdout, reason = "test runners catch only the macro")]
fn summary(explored: &Explored) {
    println!("{explored}");
}

/// Runs one seed or point, and prints what happens.
fn one(
    rules: &Rules,
    number: u64,
    point: Option<u64>,
    start: &Arc<Start>,
) -> Result<Explored, Box<Failure>> {
    let began = Instant::now();
    let spec = Arc::new(rules.spec.clone());
    let plan = match point {
        None => Plan::of_seed(number, &spec),
        Some(_) => {
            let mut points = points(&spec, start);
            let count = points.len();
            let index = usize::try_from(number).ok().filter(|index| *index < count);
            match index {
                Some(index) => points.swap_remove(index),
                None => panic!("EXPLORE_POINT={number} does not exist: there are {count} points"),
            }
        }
    };
    let mut ran = run_plan(&spec, &plan, start);
    if ran.violation.is_some() {
        return Err(failed(rules, &spec, plan, ran, point, start));
    }
    ran.trace.complete();
    let name = if point.is_some() { "point" } else { "seed" };
    let text = format!("{name} {number}: every check holds\n\n{}\n", ran.trace);
    // If nobody reads it, there is nothing to do.
    let _ = std::io::stdout().write_all(text.as_bytes());
    let mut explored = explored(rules, &ran.tally, began);
    if point.is_some() {
        (explored.seeds, explored.points) = (0, 1);
    }
    Ok(explored)
}

pub(super) fn explored(rules: &Rules, tally: &Tally, began: Instant) -> Explored {
    let mut faults = tally.faults.clone();
    for kind in &rules.spec.faults {
        faults.entry(*kind).or_default();
    }
    Explored {
        seeds: tally.runs,
        points: 0,
        requests: tally.requests,
        faults,
        deaths: tally.deaths,
        undecided: tally.undecided.clone(),
        took: began.elapsed(),
    }
}

/// Fails a test with the report.
fn report(rules: &Rules, failure: &Failure) -> ! {
    let page = match failure.write_page() {
        Ok(path) => format!("as a page: {}", path.display()),
        Err(error) => format!("the page could not be written: {error}"),
    };
    let kept = match (&rules.regressions, &failure.plan) {
        (Some(path), Some(plan)) if failure.line.is_none() => {
            match regressions::add(path, &failure.check, plan) {
                Ok(path) => format!("its plan is kept in {}\n", path.display()),
                Err(error) => format!("its plan could not be kept: {error}\n"),
            }
        }
        _ => String::new(),
    };
    panic!("{failure}\n{page}\n{kept}");
}

/// Runs the seeds of the rules.
pub(super) fn find(rules: &Rules, start: &Arc<Start>) -> Result<Explored, Box<Failure>> {
    search(rules, &Extent::of_rules(rules), start)
}

/// Runs one seed.
pub(super) fn trace(rules: &Rules, seed: u64, start: &Arc<Start>) -> Trace {
    let spec = Arc::new(rules.spec.clone());
    let mut trace = run_plan(&spec, &Plan::of_seed(seed, &spec), start).trace;
    trace.complete();
    trace
}

/// What the threads of a search share.
#[derive(Default)]
struct Found {
    tally: Tally,
    /// The run of the smallest seed that fails.
    failed: Option<(u64, Ran)>,
    /// What makes the runs prove nothing, with the last seed and its trace.
    objection: Option<(u64, Objection, Trace)>,
}

type Objection = (&'static str, String);

fn search(rules: &Rules, extent: &Extent, start: &Arc<Start>) -> Result<Explored, Box<Failure>> {
    let began = Instant::now();
    let spec = Arc::new(rules.spec.clone());
    for (line, plan) in rules
        .regressions
        .iter()
        .flat_map(|path| regressions::read(path, &spec))
    {
        let ran = run_plan(&spec, &plan, start);
        if ran.violation.is_some() {
            let mut failure = failed(rules, &spec, plan, ran, None, start);
            failure.line = Some(line);
            return Err(failure);
        }
    }
    let points = if rules.each_write {
        each_point(rules, &spec, start)?
    } else {
        0
    };
    let found = Mutex::new(Found::default());
    let progress = Progress::new(extent.says);
    each_seed(extent.seeds.clone(), threads(), |seed| {
        let mut ran = run_plan(&spec, &Plan::of_seed(seed, &spec), start);
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        found.tally.add(&ran.tally);
        if let Some(violation) = &ran.violation {
            progress.fails("seed", seed, violation);
            if found.failed.as_ref().is_none_or(|(other, _)| seed < *other) {
                found.failed = Some((seed, ran));
            }
            return false;
        }
        let is_last = extent.time.is_some_and(|time| began.elapsed() >= time);
        if found.objection.is_none()
            && let Some(objection) = found.tally.objection(&spec, false)
        {
            ran.trace.complete();
            found.objection = Some((seed, objection, ran.trace));
        }
        progress.holds(found.tally.runs);
        found.objection.is_none() && !is_last
    });
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some((seed, ran)) = found.failed {
        let plan = Plan::of_seed(seed, &spec);
        return Err(failed(rules, &spec, plan, ran, None, start));
    }
    let last = || {
        let objection = found.tally.objection(&spec, true)?;
        let seed = extent.seeds.start;
        Some((seed, objection, trace(rules, seed, start)))
    };
    if let Some((seed, (check, what), trace)) = found.objection.or_else(last) {
        let mut failure = Failure::of_all(check, &what, trace);
        failure.seed = seed;
        return Err(Box::new(failure));
    }
    let mut explored = explored(rules, &found.tally, began);
    explored.points = points;
    Ok(explored)
}

/// Runs all points. Returns their number.
fn each_point(rules: &Rules, spec: &Arc<Spec>, start: &Arc<Start>) -> Result<u64, Box<Failure>> {
    let points = points(spec, start);
    let count = points.len() as u64;
    // The first is without a fault.
    if count == 1 {
        let mut trace = run_plan(spec, &Plan::of_seed(0, spec), start).trace;
        trace.complete();
        let what = "the program has written nothing while users created, changed and deleted their objects without a \
                    fault, so there is no write to explore";
        return Err(Box::new(Failure::of_all("the program writes", what, trace)));
    }
    let failed_at = Mutex::new(None::<(u64, Ran)>);
    each_seed(0..count, threads(), |point| {
        let plan = usize::try_from(point)
            .ok()
            .and_then(|index| points.get(index));
        let Some(plan) = plan else { return false };
        let ran = run_plan(spec, plan, start);
        if ran.violation.is_none() {
            return true;
        }
        let mut failed = failed_at.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.as_ref().is_none_or(|(other, _)| point < *other) {
            *failed = Some((point, ran));
        }
        false
    });
    let failed_at = failed_at
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let Some((point, ran)) = failed_at else {
        return Ok(count);
    };
    let plan = points.into_iter().nth(usize::try_from(point).unwrap_or(0));
    let plan = plan.unwrap_or_else(|| unreachable!("it was run"));
    Err(failed(rules, spec, plan, ran, Some(point), start))
}

/// Runs a plan that has failed several times more. If it fails each time, the failure is shrunk. Otherwise the run that
/// has failed is reported as it was.
fn failed(
    rules: &Rules,
    spec: &Arc<Spec>,
    plan: Plan,
    first: Ran,
    point: Option<u64>,
    start: &Arc<Start>,
) -> Box<Failure> {
    let Some(violation) = first.violation.clone() else {
        unreachable!("it has failed")
    };
    let began = Instant::now();
    let is_late = || began.elapsed() > PATIENCE;
    let is_same = |ran: &Ran| {
        let same = |other: &super::world::Violation| other.check == violation.check;
        ran.violation.as_ref().is_some_and(same)
    };
    let (mut fails, mut runs, mut difference) = (1, 1, None);
    // It would take its time again, and has nothing that could be shrunk.
    let again = if violation.is_real_time { 0 } else { RUNS - 1 };
    for _ in 0..again {
        if runs > 1 && is_late() {
            break;
        }
        let ran = run_plan(spec, &plan, start);
        runs += 1;
        fails += usize::from(is_same(&ran));
        if difference.is_none() {
            difference = Difference::between(&first.trace, &ran.trace);
        }
    }
    let all_actions = plan.actions().count();
    let (mut small, mut last) = (plan, first);
    if fails == runs && runs > 1 {
        let mut budget = rules.shrinks;
        let shrunk = simplify(&small, &mut budget, &|plan| {
            !is_late() && is_same(&run_plan(spec, plan, start))
        });
        let ran = run_plan(spec, &shrunk, start);
        // A program that is not deterministic need not fail again.
        if is_same(&ran) {
            (small, last) = (shrunk, ran);
        }
    }
    Box::new(Failure {
        seed: small.seed,
        point,
        check: violation.check,
        what: last
            .violation
            .map_or(violation.what, |violation| violation.what),
        actions: planned(&small, spec),
        trace: last.trace,
        fails,
        runs,
        difference,
        line: None,
        all_actions,
        settings: settings(&small),
        plan: Some(small),
    })
}

fn planned(plan: &Plan, spec: &Spec) -> Vec<Planned> {
    let actions = plan.actions().map(|(at, action)| Planned {
        at,
        what: describe::describe(action, spec),
    });
    actions.collect()
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
    let way = if settings.ahead < 0 {
        "behind"
    } else {
        "ahead"
    };
    add(
        settings.ahead != 0,
        format!(
            "the clock of the program is {} s {way}",
            settings.ahead.unsigned_abs()
        ),
    );
    add(
        settings.late_ms > 0,
        format!("watches are late by up to {} ms", settings.late_ms),
    );
    add(settings.slow_deletion, "deletions are slow".to_string());
    if parts.is_empty() {
        "the usual settings".to_string()
    } else {
        parts.join(", ")
    }
}
