//! Runs all seeds although some fail, and lists which of them fail and why.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::converge::run_and_compare;
use super::environment::{Extent, threads};
use super::plan::Plan;
use super::progress::Progress;
use super::rules::Rules;
use super::run::Start;
use super::search::{Explored, explored};
use super::seeds::each_seed;
use super::tally::Tally;

/// The seeds that fail a check, and what the first of them has found.
type Failures = BTreeMap<String, (Vec<u64>, String)>;

/// Runs the seeds that the environment asks for, without points and regressions. Panics with a list if some fail, or if
/// all of them prove nothing.
pub(super) fn survey(rules: &Rules, start: &Arc<Start>) -> Explored {
    let began = Instant::now();
    let spec = Arc::new(rules.spec.clone());
    let extent = Extent::of_environment(rules);
    let progress = Progress::new(true);
    let all = Mutex::new((Tally::default(), Failures::new()));
    each_seed(extent.seeds, threads(), |seed| {
        let ran = run_and_compare(&spec, &Plan::of_seed(seed, &spec), start);
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        let (tally, failures) = &mut *all;
        tally.add(&ran.tally);
        progress.holds(tally.runs);
        if let Some(violation) = ran.violation {
            let (seeds, what) = failures.entry(violation.check).or_default();
            if seeds.iter().all(|other| seed < *other) {
                *what = violation.what;
            }
            seeds.push(seed);
        }
        extent.time.is_none_or(|time| began.elapsed() < time)
    });
    let (tally, failures) = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    let explored = explored(rules, &tally, began);
    let objection = tally.objection(&spec, true);
    if failures.is_empty() && objection.is_none() {
        return explored;
    }
    let count: usize = failures.values().map(|(seeds, _)| seeds.len()).sum();
    let mut text = format!("{count} of {} seeds fail:\n", tally.runs);
    for (check, (mut seeds, what)) in failures {
        seeds.sort_unstable();
        let some: Vec<String> = seeds.iter().take(20).map(u64::to_string).collect();
        let more = if seeds.len() > some.len() {
            ", …"
        } else {
            ""
        };
        text += &format!(
            "\n  {check}: {} seeds ({}{more})\n    seed {}: {what}\n",
            seeds.len(),
            some.join(", "),
            some[0]
        );
    }
    if let Some((check, what)) = objection {
        text += &format!("\n  {check}: in all seeds\n    {what}\n");
    }
    panic!("{text}\nEXPLORE_SEED=n, without EXPLORE_ALL, replays one of them");
}
