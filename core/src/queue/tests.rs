//! client-go's scenarios of the work queue and of its limits, by their number.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::*;
use crate::time::Rng;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn at(millis: u64) -> Instant {
    Instant::from_micros(millis * 1000)
}

fn queue() -> PolledQueue<&'static str> {
    PolledQueue::new()
}

/// Many producers and many workers, in an order determined by a seed.
#[test]
fn k01_every_added_key_is_taken_and_none_after_the_end() {
    for seed in 0..crate::rounds(200) {
        let drain = seed % 2 == 0;
        let mut rng = Rng::new(seed);
        let mut queue: PolledQueue<u64> = PolledQueue::new();
        let mut working: Vec<u64> = Vec::new();
        // Keys that were added and not returned since.
        let mut owed = BTreeMap::new();
        let mut ended = false;
        for step in 0..500 {
            let now = at(step);
            match rng.below(5) {
                0 | 1 => {
                    let key = rng.below(10);
                    queue.add(now, key);
                    if !ended {
                        *owed.entry(key).or_insert(0) = 1;
                    }
                }
                2 | 3 => {
                    if let Some(key) = queue.take(now) {
                        assert!(!working.contains(&key), "{key} is worked on twice");
                        assert_eq!(owed.remove(&key), Some(1), "{key} was not added");
                        working.push(key);
                    }
                }
                _ if working.is_empty() => {}
                _ => {
                    let index = usize::try_from(rng.below(working.len() as u64)).unwrap_or(0);
                    queue.done(now, &working.swap_remove(index));
                }
            }
            if step == 400 {
                ended = true;
                if drain {
                    queue.shut_down_with_drain();
                } else {
                    queue.shut_down();
                }
            }
        }
        for key in working {
            queue.done(at(500), &key);
        }
        while let Some(key) = queue.take(at(500)) {
            assert_eq!(owed.remove(&key), Some(1));
            queue.done(at(500), &key);
        }
        assert!(queue.is_empty() && queue.is_shut_down());
        assert_eq!(owed, BTreeMap::new(), "seed {seed}");
    }
}

#[test]
fn k02_a_key_added_while_worked_on_is_taken_again_after_done() {
    let mut queue = queue();
    queue.add(at(0), "a");
    assert_eq!(queue.take(at(0)), Some("a"));
    queue.add(at(1), "a");
    queue.add(at(1), "b");
    assert_eq!(queue.take(at(2)), Some("b"));
    assert_eq!(queue.take(at(2)), None, "a is worked on");
    queue.done(at(3), &"a");
    assert_eq!(queue.take(at(3)), Some("a"));
    queue.done(at(4), &"a");
    queue.done(at(4), &"b");
    queue.done(at(4), &"nobody works on it");
    assert!(queue.is_empty());
}

#[test]
fn k03_a_pending_key_is_not_added_again() {
    let mut queue = queue();
    for key in ["a", "b", "a", "a"] {
        queue.add(at(0), key);
    }
    assert_eq!(queue.waiting(), 2);
    assert_eq!(queue.take(at(0)), Some("a"), "it keeps its place");
    for _ in 0..3 {
        queue.add(at(0), "a");
    }
    queue.done(at(0), &"a");
    assert_eq!(queue.waiting(), 2);
    assert_eq!(queue.take(at(0)), Some("b"));
    assert_eq!(queue.take(at(0)), Some("a"));
    queue.done(at(0), &"a");
    assert_eq!(queue.take(at(0)), None, "once is enough");
    assert_eq!(queue.metrics(at(0)).adds, 3);
}

#[test]
fn k04_a_drain_waits_and_a_shutdown_does_not() {
    let begun = || {
        let mut queue = queue();
        queue.add(at(0), "a");
        queue.add(at(0), "b");
        queue.add_after(at(0), "c", ms(5));
        assert_eq!(queue.take(at(0)), Some("a"));
        queue
    };
    let mut shut = begun();
    assert_eq!(shut.shut_down(), 1, "c is dropped");
    assert!(!shut.is_shut_down(), "b is still given out");
    assert_eq!(shut.take(at(9)), Some("b"));
    assert!(shut.is_shut_down(), "whoever works may go on alone");

    let mut drain = begun();
    drain.add(at(1), "a");
    drain.shut_down_with_drain();
    drain.add(at(2), "late");
    assert_eq!(drain.take(at(9)), Some("b"));
    drain.done(at(9), &"b");
    assert!(!drain.is_shut_down());
    drain.done(at(9), &"a");
    assert_eq!(drain.take(at(9)), Some("a"), "it was added before the end");
    assert!(!drain.is_shut_down());
    drain.done(at(9), &"a");
    assert!(drain.is_shut_down() && drain.is_empty());

    let mut broken = begun();
    broken.shut_down_with_drain();
    assert_eq!(broken.take(at(9)), Some("b"));
    assert!(!broken.is_shut_down());
    broken.shut_down();
    assert!(broken.is_shut_down());
    broken.shut_down_with_drain();
    assert!(broken.is_shut_down(), "a shutdown stays one");
}

#[test]
fn k05_nothing_is_kept_of_what_is_done() {
    let mut queue: PolledQueue<String> = PolledQueue::new();
    for round in 0..1000_u32 {
        let key = round.to_string();
        queue.add(at(0), key.clone());
        queue.add_after(at(0), key.clone(), ms(1));
        let taken = queue.take(at(0)).unwrap_or_default();
        queue.add_rate_limited(at(0), taken.clone());
        queue.done(at(0), &taken);
        while let Some(taken) = queue.take(at(2_000_000)) {
            queue.forget(&taken);
            queue.done(at(2_000_000), &taken);
        }
    }
    assert!(queue.is_empty());
    assert_eq!(
        (
            queue.ready.len(),
            queue.ages.len(),
            queue.delayed.len(),
            queue.working.len()
        ),
        (0, 0, 0, 0)
    );
    assert_eq!(queue.requeues(&"7".to_string()), 0);
}

#[test]
fn k06_of_several_delays_the_earliest_counts() {
    let mut queue = queue();
    queue.add_after(at(0), "a", ms(50));
    queue.add_after(at(0), "b", ms(30));
    queue.add_after(at(0), "a", ms(70));
    assert_eq!(
        (queue.next_due(), queue.delayed.len(), queue.waiting()),
        (Some(at(30)), 2, 0)
    );
    assert_eq!(queue.take(at(29)), None);
    assert_eq!(queue.take(at(30)), Some("b"));
    queue.done(at(30), &"b");
    assert_eq!(queue.take(at(49)), None);
    queue.add_after(at(49), "a", ms(0));
    assert_eq!(queue.take(at(49)), Some("a"), "it is there by itself");
    queue.done(at(49), &"a");
    assert_eq!(
        queue.take(at(50)),
        Some("a"),
        "and the delay ends as it was to"
    );
    queue.done(at(50), &"a");
    assert_eq!(queue.next_due(), None);

    queue.add_after(at(60), "a", ms(60));
    queue.add_after(at(60), "a", ms(20));
    assert_eq!(queue.next_due(), Some(at(80)));
    assert_eq!(queue.ready_at(at(90)), Some(at(90)));
    assert_eq!(queue.take(at(200)), Some("a"));
    assert_eq!(queue.take(at(200)), None, "once");
    queue.done(at(200), &"a");

    // In the order in which they are due, even if they are taken late.
    for (key, delay) in [("d", 40), ("b", 20), ("c", 30), ("a", 10)] {
        queue.add_after(at(300), key, ms(delay));
    }
    let order: Vec<_> = core::iter::from_fn(|| queue.take(at(900))).collect();
    assert_eq!(order, ["a", "b", "c", "d"]);
}

#[test]
fn k07_each_key_waits_twice_as_long_each_time() {
    let mut limit = Exponential::new(ms(1), Duration::from_secs(1000));
    let delays = [0; 5].map(|_| limit.delay(at(0), &"a"));
    assert_eq!(delays, [1, 2, 4, 8, 16].map(ms));
    assert_eq!((limit.requeues(&"a"), limit.requeues(&"b")), (5, 0));
    assert_eq!(limit.delay(at(0), &"b"), ms(1));
    limit.forget(&"a");
    assert_eq!(limit.delay(at(0), &"a"), ms(1));
    for _ in 0..1000 {
        limit.delay(at(0), &"b");
    }
    assert_eq!(limit.delay(at(0), &"b"), Duration::from_secs(1000));
    let mut unlimited = Exponential::new(ms(1), Duration::MAX);
    for _ in 0..100 {
        unlimited.delay(at(0), &"a");
    }
    assert_eq!(unlimited.delay(at(0), &"a"), Duration::MAX);
}

#[test]
fn k08_the_longer_delay_of_two_limits_applies() {
    let mut limit = MaxOf(
        Exponential::new(ms(1), ms(2000)),
        Exponential::new(ms(3), ms(6)),
    );
    assert_eq!(
        [0; 5].map(|_| limit.delay(at(0), &"a")),
        [3, 6, 6, 8, 16].map(ms)
    );
    assert_eq!(limit.requeues(&"a"), 5);
    limit.forget(&"a");
    assert_eq!((limit.requeues(&"a"), limit.delay(at(0), &"a")), (0, ms(3)));
}

#[test]
fn k09_the_limit_determines_when_a_key_is_added() {
    let mut queue = PolledQueue::with_limit(Exponential::new(ms(1), Duration::from_secs(1000)));
    for (count, due) in [(1, 1), (2, 2), (3, 4)] {
        queue.add_rate_limited(at(0), "a");
        assert_eq!(queue.next_due(), Some(at(due)));
        assert_eq!(queue.requeues(&"a"), count);
        assert_eq!(queue.take(at(due)), Some("a"));
        queue.done(at(due), &"a");
    }
    queue.forget(&"a");
    assert_eq!(queue.requeues(&"a"), 0);
    queue.add_rate_limited(at(0), "a");
    assert_eq!(queue.next_due(), Some(at(1)));
    assert_eq!(queue.metrics(at(0)).retries, 4);
    queue.shut_down();
    queue.add_rate_limited(at(0), "a");
    assert_eq!((queue.requeues(&"a"), queue.metrics(at(0)).retries), (1, 4));
}

#[test]
fn k10_figures() {
    let mut queue = queue();
    queue.add(at(0), "a");
    queue.add(at(10), "b");
    queue.add(at(10), "b");
    queue.add_after(at(10), "c", ms(90));
    let metrics = queue.metrics(at(20));
    assert_eq!((metrics.depth, metrics.adds, metrics.delayed), (2, 2, 1));
    queue.take(at(50));
    queue.take(at(60));
    let metrics = queue.metrics(at(100));
    assert_eq!(
        (metrics.wait.count, metrics.wait.sum, metrics.wait.max),
        (2, ms(100), ms(50))
    );
    assert_eq!(
        (metrics.working, metrics.unfinished, metrics.longest_running),
        (2, ms(90), ms(50))
    );
    queue.done(at(110), &"a");
    let metrics = queue.metrics(at(110));
    assert_eq!(
        (
            metrics.work.count,
            metrics.work.max,
            metrics.longest_running
        ),
        (1, ms(60), ms(50))
    );
    // A key that was added while it was being processed waits from then on, and a delayed key from the time it became
    // due.
    queue.add(at(120), "b");
    queue.done(at(140), &"b");
    assert_eq!(queue.take(at(200)), Some("c"));
    assert_eq!(queue.metrics(at(200)).wait.sum, ms(200));
    assert_eq!(queue.take(at(200)), Some("b"));
    assert_eq!(queue.metrics(at(200)).wait.sum, ms(280));
    queue.shut_down();
    let before = queue.metrics(at(200));
    queue.add(at(200), "d");
    assert_eq!(queue.metrics(at(200)), before);
}

fn take(bucket: &mut TokenBucket, now: Instant) -> bool {
    bucket.reserve_within(now, Duration::ZERO).is_some()
}

#[test]
fn k12_a_backoff_for_each_key_ends_by_itself() {
    let secs = Duration::from_secs;
    let mut limit = Exponential::new(secs(1), secs(8)).expires_after(secs(16));
    assert_eq!(
        [0; 5].map(|_| limit.delay(at(0), &0)),
        [1, 2, 4, 8, 8].map(secs)
    );
    assert_eq!((limit.requeues(&0), limit.requeues(&1)), (5, 0));
    limit.forget(&0);
    assert_eq!(limit.requeues(&0), 0);

    // It did not fail for longer than the limit, so it starts again.
    limit.delay(at(0), &0);
    assert_eq!(limit.delay(at(16_000), &0), secs(2));
    assert_eq!(limit.delay(at(32_001), &0), secs(1));
    // Keys that are never asked for again take no memory for ever.
    for key in 1..1000_u16 {
        limit.delay(at(u64::from(key) * 1000), &key);
    }
    let kept = (0..1000_u16).filter(|key| limit.requeues(key) > 0).count();
    assert!(kept < 100, "{kept}");
}

#[test]
fn k13_a_token_bucket_fills_again_and_lets_a_burst_through() {
    let mut bucket = TokenBucket::new(10.0, 5);
    assert_eq!((0..10).filter(|_| take(&mut bucket, at(0))).count(), 5);
    assert!(!take(&mut bucket, at(99)) && take(&mut bucket, at(100)));
    // After a long idle time it is full.
    assert_eq!(
        (0..10).filter(|_| take(&mut bucket, at(100_000))).count(),
        5
    );
    // Tokens reserved in advance are used.
    assert_eq!(bucket.reserve(at(100_000)), ms(100));
    assert_eq!(bucket.reserve_within(at(100_000), ms(199)), None);
    assert_eq!(bucket.reserve_within(at(100_000), ms(200)), Some(ms(200)));
    assert!(!take(&mut bucket, at(100_299)) && take(&mut bucket, at(100_300)));
    // A clock that goes back adds nothing and removes nothing.
    assert!(!take(&mut bucket, at(50_000)) && take(&mut bucket, at(100_400)));

    // Over an hour of constant use, the configured rate is kept.
    let mut precise = TokenBucket::new(3.0, 1);
    let taken = (0..3_600_000)
        .filter(|now| take(&mut precise, at(*now)))
        .count();
    assert!((10_700..=10_801).contains(&taken), "{taken}");

    for none in [0.0, -1.0, f64::NAN] {
        let mut bucket = TokenBucket::new(none, 0);
        assert!(take(&mut bucket, at(0)) && !take(&mut bucket, at(1_000_000_000)));
        assert_eq!(bucket.reserve(at(0)), Duration::MAX);
    }
}

#[test]
fn a_higher_priority_goes_first() {
    let mut queue = queue();
    queue.add_with_priority(at(0), "resync", -100);
    queue.add(at(0), "first");
    queue.add(at(0), "second");
    queue.add_with_priority(at(0), "urgent", 7);
    assert_eq!(queue.metrics(at(0)).depths, [(7, 1), (0, 2), (-100, 1)]);
    // It is raised, behind others of that priority. It is never lowered.
    queue.add(at(0), "resync");
    queue.add_with_priority(at(0), "urgent", -100);
    assert_eq!(queue.metrics(at(0)).depths, [(7, 1), (0, 3)]);
    let order: Vec<_> = core::iter::from_fn(|| queue.take(at(0))).collect();
    assert_eq!(order, ["urgent", "first", "second", "resync"]);
    // The same while it is being processed or delayed.
    queue.add_with_priority(at(0), "first", -1);
    queue.add_with_priority(at(0), "first", 1);
    queue.add(at(0), "second");
    for key in ["second", "first"] {
        queue.done(at(0), &key);
    }
    queue.add_after_with_priority(at(0), "third", ms(5), 2);
    queue.add_after(at(0), "third", ms(1));
    assert_eq!(queue.metrics(at(1)).depths, [(2, 1), (1, 1), (0, 1)]);
    let order: Vec<_> = core::iter::from_fn(|| queue.take(at(1))).collect();
    assert_eq!(order, ["third", "first", "second"]);
}

/// Urgent keys arrive faster than they are processed. The others get one place of 17, in the order in which they were
/// added.
#[test]
fn no_priority_starves_under_a_flood_of_urgent_keys() {
    let mut queue: PolledQueue<u64> = PolledQueue::new();
    for (key, priority) in [(0, -100), (1, -1), (2, i32::MIN)] {
        queue.add_with_priority(at(0), key, priority);
    }
    queue.add_after_with_priority(at(0), 3, ms(5), -7);
    let mut handed_out = Vec::new();
    for now in 0..100 {
        // Two arrive for each that is processed.
        for urgent in [1000 + 2 * now, 1001 + 2 * now] {
            queue.add_with_priority(at(now), urgent, 5);
        }
        // It is raised, but not above the flood. It keeps its age.
        queue.add_with_priority(at(now), 2, 1);
        let key = queue.take(at(now)).unwrap_or_default();
        queue.done(at(now), &key);
        if key < 1000 {
            handed_out.push((key, now));
        }
    }
    let first: Vec<_> = handed_out.iter().take(4).copied().collect();
    assert_eq!(first, [(0, 16), (1, 33), (2, 50), (3, 67)]);
}

/// Whatever is added, raised and processed in between, n keys that were ready before a key delay it by at most 17 * (n
/// + 1).
#[test]
fn each_key_is_handed_out_within_its_bound() {
    for seed in 0..crate::rounds(200) {
        let mut rng = Rng::new(seed);
        let mut queue: PolledQueue<u64> = PolledQueue::new();
        // The call by which each ready key must be returned.
        let mut owed: BTreeMap<u64, u64> = BTreeMap::new();
        for calls in 0..600 {
            for _ in 0..rng.below(3) {
                let key = rng.below(60);
                let priority = i32::try_from(rng.below(4)).unwrap_or(0) * 10;
                let bound = calls + 17 * (owed.len() as u64 + 1);
                queue.add_with_priority(at(calls), key, priority);
                owed.entry(key).or_insert(bound);
            }
            if let Some(key) = queue.take(at(calls)) {
                queue.done(at(calls), &key);
                let bound = owed.remove(&key).unwrap_or_default();
                assert!(
                    calls < bound,
                    "seed {seed}: {key} at {calls}, owed by {bound}"
                );
            }
            assert_eq!(queue.waiting(), owed.len());
        }
    }
}

/// It is ready at its time, whether or not a worker asks for one.
#[test]
fn a_delayed_key_is_ready_at_its_time() {
    let mut queue = queue();
    queue.add_after(at(0), "a", ms(1000));
    queue.add_after(at(0), "b", ms(9000));
    let metrics = queue.metrics(at(2000));
    assert_eq!((metrics.depth, metrics.delayed), (1, 1));
    queue.add(at(2000), "c");
    assert_eq!(queue.waiting(), 2);
    // A drain returns it, and discards the other.
    assert_eq!(queue.shut_down_with_drain(), 1);
    assert_eq!(queue.take(at(2000)), Some("a"), "it was ready before c");
    assert_eq!(queue.take(at(2000)), Some("c"));
    assert_eq!(queue.take(at(9000)), None);

    // A key that is worked on is not ready when its time has come, but after that.
    let mut queue = self::queue();
    queue.add(at(0), "a");
    assert_eq!(queue.take(at(0)), Some("a"));
    queue.add_after(at(0), "a", ms(1000));
    let metrics = queue.metrics(at(1000));
    assert_eq!((metrics.depth, metrics.delayed), (0, 0));
    queue.done(at(1000), &"a");
    assert_eq!(queue.metrics(at(1000)).depth, 1);
}

/// A fresh change does not wait behind the retries of the initial list.
#[test]
fn a_key_that_failed_keeps_its_priority() {
    let mut queue = queue();
    queue.add_with_priority(at(0), "old", -100);
    queue.add(at(0), "fresh");
    for _ in 0..2 {
        assert_eq!(queue.take(at(100)), Some("fresh"));
        assert_eq!(queue.take(at(100)), Some("old"));
        assert_eq!(queue.priority(&"old"), Some(-100));
        for key in ["old", "fresh"] {
            queue.add_rate_limited(at(0), key);
            queue.done(at(0), &key);
        }
        queue.advance(at(100));
        assert_eq!(queue.waiting(), 2);
        queue.forget(&"old");
    }
    // A change raises it.
    queue.add(at(100), "old");
    assert_eq!(queue.take(at(100)), Some("fresh"));
    assert_eq!(queue.take(at(100)), Some("old"));
    assert_eq!(queue.priority(&"old"), Some(0));
}
