//! Ten thousand seeds of the simulation, none of which violates an invariant, and a table of what they met, in which
//! every cell has something; some on storage of a fixed size; and some of replicas that share keys. See `docs/TESTING.md`.

use informer_tests::say;
use informer_tests::sim::Variant;
use informer_tests::sim::replicas::{self, Figures};
use informer_tests::sim::runner::{Summary, explore, report, run_plan};
use informer_tests::sim::runtime;

/// How many seeds are run. `SIMULATION_SEEDS` asks for another number.
const SEEDS: u64 = 10_000;

#[test]
fn no_seed_violates_an_invariant_and_every_fault_meets_every_state() {
    let asked = std::env::var("SIMULATION_SEEDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let seeds = asked.unwrap_or(SEEDS);
    let summary = clean(Variant::Heap, seeds);
    say(&summary.coverage.table());
    assert!(
        summary.steps >= summary.seeds * 200,
        "at least 200 steps a seed"
    );
    let empty = summary.coverage.empty();
    assert!(
        seeds < SEEDS || empty.is_empty(),
        "these never met: {empty:#?}"
    );
}

/// Storage of a fixed size asks and tells what growing storage does, while there is room.
#[test]
fn fixed_storage_agrees_with_growing_storage() {
    clean(Variant::Agree, 500);
}

/// With room for two objects nothing is lost in silence, and what did not fit comes when there is room.
#[test]
fn what_does_not_fit_is_reported_and_comes_when_there_is_room() {
    clean(Variant::Small, 1_000);
}

/// With a journal a process that dies again and again has, each time, a state that the server had.
#[test]
fn what_is_restored_is_a_state_that_the_server_had() {
    clean(Variant::Journal, 1_000);
}

fn clean(variant: Variant, seeds: u64) -> Summary {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let summary = explore(variant, 0..seeds, threads, 1, &|| {});
    say(&format!(
        "{variant:?}: {} seeds, {} steps",
        summary.seeds, summary.steps
    ));
    if let Some((seed, _)) = summary.failed.first() {
        panic!("{}", report(variant, *seed));
    }
    summary
}

/// The same seed gives the same run, to the last byte of its log.
#[test]
fn the_same_seed_gives_the_same_log() {
    for variant in Variant::ALL {
        for seed in 0..20 {
            let plan = variant.plan(seed);
            let runs = [(); 2].map(|()| {
                run_plan(variant, &plan, true).map(|outcome| (outcome.trace, outcome.digest))
            });
            let [Ok(one), Ok(other)] = runs else {
                panic!("{}", report(variant, seed));
            };
            assert_eq!(one, other, "seed {seed}");
        }
    }
}

/// How many seeds of the informer on tokio are run.
const SEEDS_OF_RUNTIME: u64 = 300;

/// Whatever panics in user code is reported and ends nothing, and what has ended has notified everybody.
#[test]
fn the_informer_on_tokio_survives_its_users() {
    let summary = runtime::explore(0..SEEDS_OF_RUNTIME, 1, || {});
    say(&format!(
        "tokio: {} seeds, {:?}",
        summary.seeds, summary.figures
    ));
    if let Some((seed, _)) = summary.failed.first() {
        panic!("{}", runtime::report(*seed));
    }
    let runtime::Figures {
        panics,
        joined,
        replaced,
        dropped,
        restored,
        waits,
    } = summary.figures;
    for often in [
        panics / 8,
        joined / 2,
        replaced * 4,
        dropped * 8,
        restored,
        waits / 2,
    ] {
        assert!(often > SEEDS_OF_RUNTIME, "{:?}", summary.figures);
    }
}

#[test]
fn the_same_seed_on_tokio_gives_the_same_trace() {
    for seed in 0..20 {
        let runs = [(); 2].map(|()| runtime::run(seed).map(|(_, trace)| trace));
        let [Ok(one), Ok(other)] = runs else {
            panic!("{}", runtime::report(seed));
        };
        assert_eq!(one, other, "seed {seed}");
    }
}

/// How many seeds of replicas are run.
const SEEDS_OF_REPLICAS: u64 = 3_000;

/// No key is ever two replicas', and when there are no more faults each is one's, and done.
#[test]
fn replicas_share_keys_whatever_happens() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let summary = replicas::explore(0..SEEDS_OF_REPLICAS, threads, 1, &|| {});
    say(&format!(
        "replicas: {} seeds, {:?}",
        summary.seeds, summary.figures
    ));
    if let Some((seed, _)) = summary.failed.first() {
        panic!("{}", replicas::report(*seed));
    }
    // It is no simulation of nothing.
    let Figures {
        moved,
        cut,
        overslept,
        lapsed,
        lost,
        ..
    } = summary.figures;
    for often in [moved, cut, overslept, lapsed, lost] {
        assert!(often > SEEDS_OF_REPLICAS / 2, "{:?}", summary.figures);
    }
}

#[test]
fn the_same_seed_of_replicas_gives_the_same_trace() {
    for seed in 0..20 {
        let plan = replicas::Plan::of_seed(seed);
        let runs = [(); 2].map(|()| replicas::run(&plan, true).map(|(_, trace)| trace));
        let [Ok(one), Ok(other)] = runs else {
            panic!("{}", replicas::report(seed));
        };
        assert!(one.len() > 50);
        assert_eq!(one, other, "seed {seed}");
    }
}
