//! The queue of a replica and the workers that wait for its keys, like `WorkQueue` of `informer-tokio`.

use core::time::Duration;

use informer_core::{
    Instant,
    queue::{Exponential, PolledQueue, Turn, Waiter, Waiters},
};

use super::super::entropy::Entropy;
use super::plan::{NEVER, World};

pub(super) struct Workers {
    queue: PolledQueue<usize, Exponential<usize>>,
    waiters: Waiters,
    /// The waiting workers, and until when they sleep.
    asleep: Vec<(Waiter, Option<Instant>)>,
    /// When the workers that stopped waiting return.
    away: Vec<Instant>,
    workers: usize,
    entropy: Entropy<'static>,
    dropping: u32,
}

impl Workers {
    pub(super) fn new(world: &World, seed: u64, limit: Exponential<usize>) -> Self {
        Self {
            queue: PolledQueue::with_limit(limit),
            waiters: Waiters::default(),
            asleep: Vec::new(),
            away: Vec::new(),
            workers: world.workers.into(),
            entropy: Entropy::Seed(seed ^ 0x5eed_0000_7a7e_0004),
            dropping: world.dropping,
        }
    }

    pub(super) const fn calm(&mut self) {
        self.dropping = NEVER;
    }

    pub(super) fn add(&mut self, now: Instant, key: usize) {
        self.queue.add(now, key);
        self.wake(now);
    }

    pub(super) fn add_rate_limited(&mut self, now: Instant, key: usize) {
        self.queue.add_rate_limited(now, key);
        self.wake(now);
    }

    pub(super) fn forget(&mut self, key: usize) {
        self.queue.forget(&key);
    }

    pub(super) fn done(&mut self, now: Instant, key: usize) {
        self.queue.done(now, &key);
        self.wake(now);
    }

    /// Returns when a worker wakes by itself.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        let timers = self.asleep.iter().filter_map(|(_, until)| *until);
        let times = timers.chain(self.away.iter().copied());
        times.filter(|time| *time > now).min()
    }

    /// Polls the queue for workers that were woken, whose time has come, or that are idle; `running` others are busy.
    /// Any waiting worker may stop waiting. No worker waits unless the replica `works`. Returns the next key.
    pub(super) fn look(&mut self, now: Instant, works: bool, running: usize) -> Option<usize> {
        if !works {
            while let Some((waiter, _)) = self.asleep.pop() {
                self.leave(now, waiter);
            }
            return None;
        }
        self.away.retain(|back| *back > now);
        loop {
            let busy = running + self.away.len() + self.asleep.len();
            let waiter = if busy < self.workers {
                self.waiters.join()
            } else {
                let is_next = |(waiter, until): &(Waiter, Option<Instant>)| {
                    self.waiters.is_woken(*waiter) || until.is_some_and(|until| until <= now)
                };
                let next = self.asleep.iter().position(is_next);
                let stops = self.entropy.one_in(self.dropping);
                let index = next.or_else(|| (stops && !self.asleep.is_empty()).then_some(0))?;
                let (waiter, _) = self.asleep.remove(index);
                if stops {
                    self.leave(now, waiter);
                    let ms = self.entropy.below(2_000) + 1;
                    self.away.push(now + Duration::from_millis(ms.into()));
                    continue;
                }
                waiter
            };
            let turn = self.waiters.look(now, waiter, &mut self.queue);
            if let Turn::Wait(until) = turn {
                self.asleep.push((waiter, until));
                self.wake(now);
            } else {
                self.leave(now, waiter);
            }
            if let Turn::Work(key) = turn {
                return Some(key);
            }
        }
    }

    /// Returns a description if a key could be handed out while a worker that waits for one sleeps.
    pub(super) fn neglected(&self, now: Instant) -> Option<String> {
        let sleeps = |(waiter, _): &&(Waiter, _)| !self.waiters.is_woken(*waiter);
        let asleep = self.asleep.iter().filter(sleeps).count();
        let is_ready = self.queue.ready_at(now) == Some(now);
        (is_ready && asleep > 0).then(|| {
            let depth = self.queue.waiting();
            format!("has {depth} keys that are ready, delayed ones aside, and {asleep} workers that sleep")
        })
    }

    fn leave(&mut self, now: Instant, waiter: Waiter) {
        self.waiters.leave(waiter);
        self.wake(now);
    }

    fn wake(&mut self, now: Instant) {
        while self.waiters.wake(now, &mut self.queue).is_some() {}
    }
}
