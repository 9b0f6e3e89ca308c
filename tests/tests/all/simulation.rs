//! Ten thousand seeds of the simulation without a violation, and a coverage table without empty cells; some seeds on
//! fixed storage, and some of replicas that share keys. See `docs/TESTING.md`.

use informer_simulation::Variant;
use informer_simulation::replicas::{Figures, Replicas};
use informer_simulation::runner::{Simulation, Summary, explore, report, run_plan};
use informer_simulation::runtime::{self, Runtime};
use informer_tests::say;

/// The number of seeds, unless `SIMULATION_SEEDS` sets another one.
const SEEDS: u64 = 10_000;

#[test]
fn no_seed_violates_an_invariant_and_every_fault_meets_every_state() {
    let asked = std::env::var("SIMULATION_SEEDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let seeds = asked.unwrap_or(SEEDS);
    let summary = clean(Variant::Heap, seeds, threads());
    let figures = &summary.figures;
    say(&figures.coverage.table());
    assert!(
        figures.steps >= summary.seeds * 200,
        "at least 200 steps a seed"
    );
    let empty = figures.coverage.empty();
    assert!(
        seeds < SEEDS || empty.is_empty(),
        "these never met: {empty:#?}"
    );
}

/// Fixed storage sends the same requests and notifications as growing storage while there is room.
#[test]
fn fixed_storage_agrees_with_growing_storage() {
    clean(Variant::Agree, 500, threads());
}

/// With room for two objects nothing is lost silently, and objects that did not fit arrive once there is room.
#[test]
fn objects_that_do_not_fit_are_reported_and_arrive_when_there_is_room() {
    clean(Variant::Small, 1_000, threads());
}

/// A process with a journal that dies repeatedly always restores a state that the server had.
#[test]
fn a_restored_state_is_one_that_the_server_had() {
    clean(Variant::Journal, 1_000, threads());
}

/// The same seeds give the same requests, reports and notifications in protobuf as in JSON.
#[test]
fn protobuf_agrees_with_json() {
    clean(Variant::Protobuf, 300, threads());
}

fn clean<S: Simulation>(simulation: S, seeds: u64, threads: usize) -> Summary<S::Figures> {
    let summary = explore(simulation, 0..seeds, threads, 1, None);
    say(&format!(
        "{}: {} seeds, {:?}",
        simulation.arguments(),
        summary.seeds,
        summary.figures
    ));
    if let Some((seed, violation)) = summary.failed.first() {
        panic!("{}", report(simulation, *seed, Some(violation)));
    }
    summary
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The same seed gives the same run, to the last byte of its log.
#[test]
fn the_same_seed_gives_the_same_log() {
    fn check(simulation: impl Simulation) {
        for seed in 0..20 {
            let plan = simulation.plan(seed);
            let runs = [(); 2].map(|()| run_plan(simulation, &plan, true));
            let [Ok((_, one)), Ok((_, other))] = runs else {
                panic!("{}", report(simulation, seed, None));
            };
            assert!(one.len() > 30, "{}", simulation.arguments());
            let mut pairs = one.iter().zip(&other);
            let differs = pairs.find(|(one, other)| one != other);
            assert_eq!(differs, None, "seed {seed} of{}", simulation.arguments());
            assert_eq!(one.len(), other.len(), "{}", simulation.arguments());
        }
    }
    Variant::ALL.into_iter().for_each(check);
    check(Runtime(None));
    check(Replicas);
}

/// The number of seeds of the informer on tokio.
const SEEDS_OF_RUNTIME: u64 = 300;

/// Any panic in user code is reported and ends nothing, and an informer that has ended has delivered all
/// notifications.
#[test]
fn the_informer_on_tokio_survives_its_users() {
    let summary = clean(Runtime(None), SEEDS_OF_RUNTIME, 1);
    let runtime::Figures {
        panics,
        joined,
        replaced,
        dropped,
        restored,
        waits,
        runs,
        skipped,
        proven,
    } = summary.figures;
    for often in [
        panics / 8,
        joined / 2,
        replaced * 4,
        dropped * 8,
        restored,
        waits / 2,
        runs / 10,
        skipped / 2,
        proven / 10,
    ] {
        assert!(often > SEEDS_OF_RUNTIME, "{:?}", summary.figures);
    }
}

/// The number of seeds of replicas.
const SEEDS_OF_REPLICAS: u64 = 400;

/// No key ever belongs to two replicas, faults cost no more than they must, and without faults each key has an owner and is
/// reconciled.
#[test]
fn replicas_share_keys_whatever_happens() {
    let summary = clean(Replicas, SEEDS_OF_REPLICAS, threads());
    // The simulation must have met each of these cases.
    let Figures {
        moved,
        cut,
        overslept,
        lapsed,
        lost,
        made_up,
        ..
    } = summary.figures;
    for often in [moved, cut, overslept, lapsed, lost, made_up] {
        assert!(often > SEEDS_OF_REPLICAS / 2, "{:?}", summary.figures);
    }
}
