//! The correct controller holds, and each planted bug is found.
#![allow(clippy::unwrap_used, reason = "a test may")]

use super::controller::Bug;
use super::world::{program, rules};

#[test]
fn the_controller_holds() {
    let explored = rules().seeds(100).run(program(None, false));
    assert!(explored.requests > 100 * 5, "{explored}");
}

/// Two replicas, whose clocks differ, create a second database if both of them reconcile.
#[test]
fn a_leader_is_elected() {
    let explored = rules().replicas(2).seeds(100).run(program(None, true));
    assert!(explored.requests > 100 * 5, "{explored}");
    let failure = rules().replicas(2).find(program(None, false)).unwrap_err();
    assert_eq!(failure.check, "no Shop has two databases", "{failure}");
}

fn is_found(bug: Bug, check: &str) {
    let failure = rules().find(program(Some(bug), false)).unwrap_err();
    assert_eq!(failure.check, check, "{failure}");
    assert_eq!(failure.difference, None, "{failure}");
    assert!(failure.actions.len() <= 8, "{failure}");
}

#[test]
fn a_stale_read_is_found() {
    is_found(Bug::ActsOnStaleRead, "no Shop has two Pods");
}

#[test]
fn a_missed_deletion_is_found() {
    is_found(Bug::LeaksMissedDeletion, "no database is left over");
}

#[test]
fn a_second_creation_after_a_crash_is_found() {
    is_found(Bug::CreatesTwiceAfterCrash, "no Shop has two databases");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let requests = |seed| -> Vec<String> {
        rules()
            .trace(seed, program(None, false))
            .requests()
            .collect()
    };
    for seed in 0..3 {
        let first = requests(seed);
        for _ in 0..5 {
            let again = requests(seed);
            let differs = first.iter().zip(&again).find(|(one, other)| one != other);
            assert_eq!(differs, None, "seed {seed}");
            assert_eq!(first.len(), again.len(), "seed {seed}");
        }
    }
}
