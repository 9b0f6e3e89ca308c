//! Seven thousand seeds of the simulation, none of which violates an invariant, and a table of what they met, in which
//! every cell but those of a later page has something. See `docs/TESTING.md`.

use informer_tests::say;
use informer_tests::sim::Plan;
use informer_tests::sim::runner::{explore, report, run_plan};

/// How many seeds are run. `SIMULATION_SEEDS` asks for another number.
const SEEDS: u64 = 7_000;

#[test]
fn no_seed_violates_an_invariant_and_every_fault_meets_every_state() {
    let asked = std::env::var("SIMULATION_SEEDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let seeds = asked.unwrap_or(SEEDS);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let summary = explore(0..seeds, threads, 1, &|| {});
    say(&summary.coverage.table());
    say(&format!("{} seeds, {} steps", summary.seeds, summary.steps));
    if let Some((seed, _)) = summary.failed.first() {
        panic!("{}", report(*seed));
    }
    assert!(
        summary.steps >= summary.seeds * 200,
        "at least 200 steps a seed"
    );
    let mut empty = summary.coverage.empty();
    // Pages are answered at once, so that little happens between them.
    empty.retain(|cell| !cell.ends_with("PageSent") && !cell.ends_with("PageBody"));
    assert!(
        seeds < SEEDS || empty.is_empty(),
        "these never met: {empty:#?}"
    );
}

/// The same seed gives the same run, to the last byte of its log.
#[test]
fn the_same_seed_gives_the_same_log() {
    for seed in 0..40 {
        let plan = Plan::of_seed(seed);
        let runs =
            [(); 2].map(|()| run_plan(&plan, true).map(|outcome| (outcome.trace, outcome.digest)));
        let [Ok(one), Ok(other)] = runs else {
            panic!("{}", report(seed));
        };
        assert_eq!(one, other, "seed {seed}");
    }
}
