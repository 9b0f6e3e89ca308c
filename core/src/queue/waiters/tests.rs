//! Waiters that come, sleep, are woken and leave, in an order determined by a seed.

use alloc::collections::BTreeMap;
use core::time::Duration;

use super::*;
use crate::time::Rng;

fn at(millis: u64) -> Instant {
    Instant::from_micros(millis * 1000)
}

/// A ready key is returned at once if a waiter exists, whichever waiters leave and whatever is in progress.
#[test]
fn no_key_lies_there_while_somebody_sleeps() {
    for seed in 0..crate::rounds(500) {
        let mut rng = Rng::new(seed);
        let mut queue: PolledQueue<u64> = PolledQueue::new();
        let mut waiters = Waiters::default();
        // Each waiter, and the time until which it sleeps.
        let mut sleeping: BTreeMap<Waiter, Option<Instant>> = BTreeMap::new();
        let mut working = alloc::vec::Vec::new();
        for step in 0..400 {
            let now = at(step);
            let key = rng.below(6);
            let mut looks = alloc::vec::Vec::new();
            match rng.below(8) {
                0 => queue.add_after(now, key, Duration::from_millis(rng.below(40))),
                1 => queue.add(now, key),
                2 | 3 => looks.push(waiters.join()),
                4 => {
                    // A future that is dropped, woken or not.
                    let count = sleeping.len().max(1) as u64;
                    let index = usize::try_from(rng.below(count)).unwrap_or(0);
                    if let Some(waiter) = sleeping.keys().nth(index).copied() {
                        sleeping.remove(&waiter);
                        waiters.leave(waiter);
                    }
                }
                5 if !working.is_empty() => queue.done(now, &working.swap_remove(0)),
                _ => {}
            }
            let times_up =
                |(_, until): &(&Waiter, &Option<Instant>)| until.is_some_and(|until| until <= now);
            looks.extend(sleeping.iter().filter(times_up).map(|(waiter, _)| *waiter));
            // The woken ones look later, one at a time, and others may leave in the meantime.
            if rng.below(2) == 0 {
                looks.extend(
                    sleeping
                        .keys()
                        .copied()
                        .find(|waiter| waiters.is_woken(*waiter)),
                );
            }
            for waiter in looks {
                match waiters.look(now, waiter, &mut queue) {
                    Turn::Work(key) => {
                        waiters.leave(waiter);
                        sleeping.remove(&waiter);
                        working.push(key);
                    }
                    Turn::Wait(until) => drop(sleeping.insert(waiter, until)),
                    Turn::Over => panic!("nobody has shut it down"),
                }
                while waiters.wake(now, &mut queue).is_some() {}
            }
            while waiters.wake(now, &mut queue).is_some() {}
            let woken = sleeping
                .keys()
                .filter(|waiter| waiters.is_woken(**waiter))
                .count();
            let asleep = sleeping.len() - woken;
            assert!(
                asleep == 0 || queue.waiting() <= woken,
                "seed {seed}, step {step}"
            );
            let earliest = sleeping.values().flatten().min();
            let due = queue.next_due().filter(|_| woken == 0 && asleep > 0);
            assert!(
                due.is_none_or(|due| earliest.is_some_and(|until| *until <= due)),
                "seed {seed}, step {step}: nobody keeps the timer for {due:?}"
            );
        }
        queue.shut_down();
        let mut woken = 0;
        while waiters.wake(at(400), &mut queue).is_some() {
            woken += 1;
        }
        assert!(woken <= sleeping.len());
        assert!(sleeping.keys().all(|waiter| waiters.is_woken(*waiter)) || !queue.is_shut_down());
    }
}
