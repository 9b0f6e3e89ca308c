//! Ten thousand power losses for each medium: a restored cache is always a state that the server had.

use informer_journal::FileJournal;
use informer_simulation::journal::power::Power;
use informer_simulation::journal::process::{Ran, run};
use informer_simulation::journal::{on_disk, on_flash};

/// The number of runs, and the number of power losses in each.
const RUNS: u64 = 200;
const CRASHES: usize = 50;

fn all(run: impl Fn(u64) -> Result<Ran, String>) -> Ran {
    let mut all = Ran::default();
    for seed in 0..RUNS {
        let ran = run(seed).unwrap_or_else(|what| panic!("{what}"));
        all.crashes += ran.crashes;
        all.restored += ran.restored;
        all.lists += ran.lists;
    }
    assert_eq!(all.crashes, 10_000);
    assert!(all.restored > 8_000, "there was something to lose: {all:?}");
    assert!(all.lists > 1_000, "also in the middle of lists: {all:?}");
    all
}

#[test]
fn files_are_whole_after_each_loss_of_power() {
    all(|seed| on_disk(seed, CRASHES));
}

#[test]
fn a_flash_is_whole_after_each_loss_of_power() {
    all(|seed| on_flash(seed, CRASHES));
}

/// With real files, a killed process loses only records that no version covers.
#[test]
fn real_files_are_whole_after_a_kill() {
    let folder = tempfile::tempdir().expect("a folder for the files");
    for seed in 0..4 {
        let path = folder.path().join(seed.to_string());
        let ran = run(
            seed,
            CRASHES,
            &Power::default(),
            (),
            |()| FileJournal::open(&path).expect("nobody else has them"),
            |log, _| drop(log),
        );
        let ran = ran.unwrap_or_else(|what| panic!("{what}"));
        assert!(ran.restored > CRASHES / 2, "{ran:?}");
    }
}
