//! Replicas by hand, and many of them at random.
#![allow(clippy::unwrap_used, reason = "a test may")]

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::*;
use crate::time::Rng;

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn members(name: &str) -> Members {
    Members::new(name, ElectionConfig::default()).unwrap()
}

fn at(seconds: u64) -> Instant {
    Instant::from_micros(seconds * 1_000_000 + 1)
}

/// Renews and lists, each second from `from` to `to`.
fn live(members: &mut Members, from: u64, to: u64, others: &[(&str, &str)]) {
    for second in from..=to {
        members.handle_lease(at(second), Some(at(second + 10)));
        members.handle_list(at(second), at(second), others.iter().copied());
    }
}

fn owned(members: &Members, second: u64) -> usize {
    let keys = KEYS.iter();
    keys.filter(|key| members.owns(at(second), key)).count()
}

#[test]
fn a_single_replica_owns_all_keys_after_a_while() {
    let mut a = members("a");
    assert_eq!(a.next_change(at(0)), None);
    live(&mut a, 0, 14, &[]);
    assert_eq!(owned(&a, 14), 0);
    assert_eq!(a.next_change(at(14)), Some(at(15)));
    live(&mut a, 15, 15, &[]);
    assert_eq!(owned(&a, 15), 6);
    // It stops by itself, and counts as new when it comes back.
    assert_eq!(owned(&a, 24), 6);
    assert_eq!(a.next_change(at(24)), Some(at(25)));
    assert_eq!(owned(&a, 25), 0);
    live(&mut a, 30, 44, &[]);
    assert_eq!(owned(&a, 44), 0);
    live(&mut a, 45, 45, &[]);
    assert_eq!(owned(&a, 45), 6);
}

#[test]
fn without_lists_or_without_a_lease_it_has_nothing() {
    let mut a = members("a");
    live(&mut a, 0, 20, &[]);
    for second in 21..=40 {
        a.handle_lease(at(second), Some(at(second + 10)));
        assert_eq!(
            owned(&a, second),
            if second < 30 { 6 } else { 0 },
            "{second}"
        );
    }
    let mut b = members("b");
    live(&mut b, 0, 20, &[]);
    b.handle_lease(at(21), None);
    b.handle_list(at(21), at(21), []);
    assert_eq!(owned(&b, 21), 0);
}

#[test]
fn the_dead_are_seen_after_the_lease_and_who_leaves_at_once() {
    let mut a = members("a");
    live(&mut a, 0, 40, &[("b", "1"), ("gone", "1")]);
    assert_eq!(owned(&a, 40), 6, "nothing was seen to change");
    for second in 41..60 {
        live(
            &mut a,
            second,
            second,
            &[("b", &second.to_string()), ("", "1")],
        );
    }
    let half = owned(&a, 59);
    assert!((1..6).contains(&half), "{half}");
    let names: Vec<&str> = a.live().collect();
    assert_eq!(names, ["b", "a"]);
    // It was last seen alive at 59.
    live(&mut a, 60, 73, &[("b", "59")]);
    assert_eq!(owned(&a, 73), half);
    assert_eq!(a.next_change(at(73)), Some(at(83)));
    live(&mut a, 74, 74, &[("b", "59")]);
    assert_eq!(owned(&a, 74), 6);
    live(&mut a, 75, 75, &[("b", "75")]);
    assert_eq!(owned(&a, 75), half);
    live(&mut a, 76, 76, &[("", "76")]);
    assert_eq!(owned(&a, 76), 6, "it has given its Lease up");
}

/// A list that was requested long ago says nothing about the present.
#[test]
fn a_late_answer_is_as_old_as_its_question() {
    let mut a = members("a");
    live(&mut a, 0, 20, &[]);
    for second in 21..=31 {
        a.handle_lease(at(second), Some(at(second + 10)));
    }
    a.handle_list(at(20), at(31), []);
    assert_eq!(owned(&a, 31), 0);
}

/// A Lease that was unchanged for long in an old list may have been renewed since. Its holder then still has its keys.
#[test]
fn an_old_list_does_not_make_a_replica_dead() {
    let mut a = members("a");
    live(&mut a, 0, 19, &[("b", "0")]);
    live(&mut a, 20, 26, &[("b", "1")]);
    let half = owned(&a, 26);
    assert!((1..6).contains(&half), "{half}");
    // The lists fail from 27 on, and b renews at 28 for the next ten seconds.
    for second in 27..35 {
        a.handle_lease(at(second), Some(at(second + 10)));
        assert_eq!(owned(&a, second), half, "{second}");
    }
    // Asked for at 27, and answered at 35.
    a.handle_list(at(27), at(35), [("b", "1")]);
    assert_eq!(owned(&a, 35), half);
    a.handle_list(at(36), at(36), [("b", "2")]);
    assert_eq!(owned(&a, 36), half);
    // A list that was requested earlier is ignored, although it arrives later.
    a.handle_list(at(35), at(37), []);
    assert_eq!(owned(&a, 37), half);
}

#[test]
fn a_replica_that_resigned_never_owns_a_key_again() {
    let mut a = members("a");
    live(&mut a, 0, 20, &[]);
    assert_eq!(owned(&a, 20), 6);
    a.resign();
    live(&mut a, 20, 60, &[]);
    assert_eq!(owned(&a, 60), 0);
}

/// The holder and its last renewal.
type Lease = (String, String);

/// A replica in the random test below, with its requests in progress.
struct Replica {
    members: Members,
    name: String,
    /// The number of the last renewal of its Lease on the server.
    renewed: u64,
    alive: bool,
    /// Until then, no request reaches the server and no response returns.
    cut_until: u64,
    /// When it was requested, when the response arrives, and the response.
    list: Option<(u64, u64, Vec<Lease>)>,
}

/// Many replicas that come, die, are cut off and come back, with slow requests. No key ever belongs to two replicas,
/// and at the end each key belongs to one.
#[test]
fn no_key_is_ever_twos() {
    let mut moved = 0;
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut replicas: Vec<Replica> = Vec::new();
        let mut leases: BTreeMap<String, String> = BTreeMap::new();
        let mut owners = [None; KEYS.len()];
        let mut started = 0;
        for second in 0..600_u64 {
            let quiet = second > 500;
            let alive = replicas.iter().filter(|replica| replica.alive).count();
            if alive == 0 || (!quiet && alive < 5 && rng.below(25) == 0) {
                started += 1;
                let name = format!("r{started}");
                replicas.push(Replica {
                    members: members(&name),
                    name,
                    renewed: 0,
                    alive: true,
                    cut_until: 0,
                    list: None,
                });
            }
            for replica in replicas.iter_mut().filter(|replica| replica.alive) {
                if !quiet {
                    match rng.below(120) {
                        0 => replica.alive = false,
                        1 => replica.cut_until = second + rng.below(40),
                        2 => {
                            // It leaves: it has stopped before it releases its Lease.
                            replica.alive = false;
                            leases.remove(&replica.name);
                        }
                        _ => {}
                    }
                }
                if !replica.alive || second < replica.cut_until {
                    continue;
                }
                if second % 2 == 0 {
                    // The renewal counts from when it was sent.
                    replica.renewed += 1;
                    leases.insert(replica.name.clone(), replica.renewed.to_string());
                    let (sent, answered) = (second, second);
                    replica
                        .members
                        .handle_lease(at(answered), Some(at(sent + 10)));
                }
                match replica.list.take() {
                    None => {
                        let all = leases
                            .iter()
                            .map(|(name, renewed)| (name.clone(), renewed.clone()));
                        replica.list = Some((second, second + rng.below(4), all.collect()));
                    }
                    Some((began, due, all)) if second >= due => {
                        let all = all
                            .iter()
                            .map(|(name, renewed)| (name.as_str(), renewed.as_str()));
                        replica.members.handle_list(at(began), at(second), all);
                    }
                    waiting @ Some(_) => replica.list = waiting,
                }
            }
            for (key, before) in KEYS.iter().zip(&mut owners) {
                let own = replicas
                    .iter()
                    .filter(|replica| replica.alive && replica.members.owns(at(second), key));
                let own: Vec<&str> = own.map(|replica| replica.name.as_str()).collect();
                assert!(
                    own.len() <= 1,
                    "seed {seed}, second {second}: {key} is of {own:?}"
                );
                let number = own.first().and_then(|name| name[1..].parse::<u32>().ok());
                moved += u32::from(*before != number);
                *before = number;
            }
        }
        assert!(
            owners.iter().all(Option::is_some),
            "seed {seed}: {owners:?}"
        );
    }
    assert!(moved > 10_000, "{moved}");
}
