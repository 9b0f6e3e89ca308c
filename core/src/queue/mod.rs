//! The work queue of a controller, on given time.

mod bucket;
mod limit;
mod metrics;
#[cfg(test)]
mod tests;
mod waiters;

use alloc::collections::{BTreeMap, BTreeSet};
use core::cmp::Reverse;
use core::time::Duration;

pub use self::bucket::TokenBucket;
pub use self::limit::{Exponential, FastSlow, KeyedBackoff, MaxOf, MaxWait, RateLimit};
pub use self::metrics::{QueueMetrics, Spread};
pub use self::waiters::{Turn, Waiter, Waiters};
use crate::time::{Instant, earliest};

/// After so many keys in a row that were added later than the oldest ready key, the oldest one is next.
const MOST_PASSED: u32 = 16;

/// What has to be done: each key once, however often it was added, and never by two workers at the same time.
///
/// It has client-go's contract (`util/workqueue`). A key that is added while it waits is not added again; one that is
/// added while somebody works on it waits until that is [`done`](Self::done), and is then given out once more. Keys
/// can be added after a delay, of which the earliest counts, and at the pace of a [`RateLimit`]. A key of higher
/// priority goes first; those of the same priority go in the order in which they came.
///
/// No priority starves. At most 16 keys in a row pass the key that has been ready for longest, then that one is next,
/// whatever its priority: under a flood of urgent keys the others still get one of 17 places. A key is therefore handed
/// out after at most 17 * (n + 1) calls of [`take`](Self::take), where n keys were ready before it.
///
/// Times are given, and nothing waits: [`take`](Self::take) returns what is to be done now, and
/// [`next_due`](Self::next_due) when to look again. [`Waiters`] has the rules for workers that sleep. Memory is held for keys that wait, that are worked on or, by the
/// rate limit, that failed and were not forgotten.
///
/// ```
/// use core::time::Duration;
/// use informer_core::{Instant, queue::WorkQueue};
///
/// let now = Instant::from_micros(0);
/// let mut queue = WorkQueue::new();
/// queue.add(now, "prod/web");
/// queue.add(now, "prod/web");
/// assert_eq!(queue.take(now), Some("prod/web"));
/// assert_eq!(queue.take(now), None);
///
/// // It went wrong: again, a little later each time.
/// queue.add_rate_limited(now, "prod/web");
/// queue.done(now, &"prod/web");
/// assert_eq!(queue.next_due(), Some(now + Duration::from_millis(5)));
/// assert_eq!(queue.take(now + Duration::from_millis(5)), Some("prod/web"));
/// queue.forget(&"prod/web");
/// queue.done(now, &"prod/web");
/// assert!(queue.is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct WorkQueue<K, L = MaxOf<Exponential<K>, TokenBucket>> {
    items: BTreeMap<K, Item>,
    /// What can be given out: by priority, then in the order in which it came.
    ready: BTreeMap<Place, K>,
    /// The same in the order in which it became ready.
    ages: BTreeMap<u64, Place>,
    /// How many keys in a row have passed the oldest.
    passed: u32,
    /// What is to be added later.
    delayed: BTreeMap<(Instant, u64), K>,
    /// When those who work on something began, the earliest first.
    working: BTreeSet<(Instant, u64)>,
    limit: L,
    metrics: QueueMetrics,
    next: u64,
    ending: Ending,
}

/// A place among what is ready.
type Place = (Reverse<i32>, u64);

/// All that is known of a key.
#[derive(Clone, Default, Debug)]
struct Item {
    /// It has to be done: its place among what is ready, where nobody works on it.
    dirty: Option<Dirty>,
    working: Option<(Instant, u64)>,
    delayed: Option<Delayed>,
}

#[derive(Clone, Copy, Debug)]
struct Dirty {
    since: Instant,
    priority: i32,
    /// Its place, and its number among the ages; `None` while somebody works on it.
    place: Option<(Place, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Delayed {
    due: Instant,
    place: u64,
    priority: i32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    Not,
    /// What is queued is given out, and nothing more.
    ShutDown,
    /// So it is, and what is worked on is waited for, and given out again where it was added meanwhile.
    Drain,
}

impl<K: Ord + Clone> WorkQueue<K> {
    /// Makes a queue with client-go's rate limit for controllers: 5 ms for a key that failed once, twice as much for
    /// each further time up to 1,000 s; and for all together 10 a second, with a burst of 100.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(MaxOf(
            Exponential::new(Duration::from_millis(5), Duration::from_secs(1000)),
            TokenBucket::new(10.0, 100),
        ))
    }
}

impl<K: Ord + Clone> Default for WorkQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord + Clone, L> WorkQueue<K, L> {
    /// Makes a queue with another rate limit.
    ///
    /// ```
    /// use core::time::Duration;
    /// use informer_core::queue::{Exponential, WorkQueue};
    ///
    /// let queue: WorkQueue<String, _> =
    ///     WorkQueue::with_limit(Exponential::<String>::new(Duration::from_secs(1), Duration::from_secs(60)));
    /// assert!(queue.is_empty());
    /// ```
    #[must_use]
    pub const fn with_limit(limit: L) -> Self {
        Self {
            items: BTreeMap::new(),
            ready: BTreeMap::new(),
            ages: BTreeMap::new(),
            passed: 0,
            delayed: BTreeMap::new(),
            working: BTreeSet::new(),
            limit,
            metrics: QueueMetrics::new(),
            next: 0,
            ending: Ending::Not,
        }
    }

    /// Adds a key, with priority 0. After a shutdown nothing is added.
    pub fn add(&mut self, now: Instant, key: K) {
        self.add_with_priority(now, key, 0);
    }

    /// Adds a key. One that waits with a lower priority is raised to this one, and goes behind those that have it.
    ///
    /// ```
    /// # use informer_core::{Instant, queue::WorkQueue};
    /// # let now = Instant::from_micros(0);
    /// let mut queue = WorkQueue::new();
    /// queue.add_with_priority(now, "resync", -100);
    /// queue.add(now, "event");
    /// assert_eq!(queue.take(now), Some("event"));
    /// ```
    pub fn add_with_priority(&mut self, now: Instant, key: K, priority: i32) {
        if self.ending != Ending::Not {
            return;
        }
        let number = self.next;
        let item = self.items.entry(key.clone()).or_default();
        let place = match &mut item.dirty {
            Some(dirty) if priority <= dirty.priority => return,
            Some(dirty) => {
                dirty.priority = priority;
                // It keeps its age.
                dirty.place.as_mut().map(|(place, age)| {
                    self.ready.remove(place);
                    *place = (Reverse(priority), number);
                    (*place, *age)
                })
            }
            None => {
                self.metrics.adds += 1;
                let is_free = item.working.is_none();
                let place = is_free.then_some(((Reverse(priority), number), number));
                item.dirty = Some(Dirty {
                    since: now,
                    priority,
                    place,
                });
                place
            }
        };
        if let Some((place, age)) = place {
            self.put(place, age, key);
        }
    }

    fn put(&mut self, place: Place, age: u64, key: K) {
        self.next += 1;
        self.ready.insert(place, key);
        self.ages.insert(age, place);
    }

    /// Adds a key after a delay, or now where there is none. Of several delays for a key the one that ends first
    /// counts; one that is running ends by itself where the key is added meanwhile.
    pub fn add_after(&mut self, now: Instant, key: K, delay: Duration) {
        self.add_after_with_priority(now, key, delay, 0);
    }

    /// Adds a key after a delay. The higher priority of several counts.
    pub fn add_after_with_priority(
        &mut self,
        now: Instant,
        key: K,
        delay: Duration,
        priority: i32,
    ) {
        if self.ending != Ending::Not {
            return;
        }
        if delay.is_zero() {
            self.add_with_priority(now, key, priority);
            return;
        }
        let mut delayed = Delayed {
            due: now + delay,
            place: self.next,
            priority,
        };
        let item = self.items.entry(key.clone()).or_default();
        if let Some(old) = item.delayed {
            delayed.priority = priority.max(old.priority);
            if old.due <= delayed.due {
                item.delayed = Some(Delayed {
                    priority: delayed.priority,
                    ..old
                });
                return;
            }
            self.delayed.remove(&(old.due, old.place));
        }
        item.delayed = Some(delayed);
        self.delayed.insert((delayed.due, delayed.place), key);
        self.next += 1;
    }

    /// Returns the next key to work on. It counts as worked on until [`done`](Self::done).
    pub fn take(&mut self, now: Instant) -> Option<K> {
        self.bring_due(now);
        let (first, oldest) = (*self.ready.keys().next()?, *self.ages.values().next()?);
        let is_due = self.passed >= MOST_PASSED;
        let place = if is_due { oldest } else { first };
        self.passed = if place == oldest { 0 } else { self.passed + 1 };
        let key = self.ready.remove(&place)?;
        let began = (now, self.next);
        self.next += 1;
        if let Some(item) = self.items.get_mut(&key) {
            if let Some(dirty) = item.dirty.take() {
                self.metrics.waited(now - dirty.since);
                self.ages.remove(&dirty.place.map_or(0, |(_, age)| age));
            }
            item.working = Some(began);
        }
        self.working.insert(began);
        Some(key)
    }

    /// Ends the work on a key, and makes it ready again if it was added in the meantime. A key that nobody works on is
    /// ignored.
    pub fn done(&mut self, now: Instant, key: &K) {
        let Some(item) = self.items.get_mut(key) else {
            return;
        };
        if let Some(began) = item.working.take() {
            self.working.remove(&began);
            self.metrics.worked(now - began.0);
            if let Some(dirty) = &mut item.dirty {
                // It goes behind what is ready already.
                let (place, age) = ((Reverse(dirty.priority), self.next), self.next);
                dirty.place = Some((place, age));
                self.put(place, age, key.clone());
                return;
            }
        }
        if item.is_nothing() {
            self.items.remove(key);
        }
    }

    /// Returns when a delayed key is due, if there is one.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.delayed.first_key_value().map(|((due, _), _)| *due)
    }

    /// Returns how many keys can be given out now, delayed ones that are due aside.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.ready.len()
    }

    /// Tells whether no key is there at all: none waits, none is delayed, and none is worked on.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns how many keys are worked on.
    #[must_use]
    pub fn working(&self) -> usize {
        self.working.len()
    }

    /// Returns how many keys are delayed.
    #[must_use]
    pub fn delayed(&self) -> usize {
        self.delayed.len()
    }

    /// Takes nothing more in. What is queued is still given out, what is delayed is dropped and its number returned.
    pub fn shut_down(&mut self) -> usize {
        self.ending = Ending::ShutDown;
        self.drop_delayed()
    }

    /// Takes nothing more in, and waits for what is worked on: [`is_shut_down`](Self::is_shut_down) tells when it is
    /// done. A key that was added while it was worked on is given out once more.
    pub fn shut_down_with_drain(&mut self) -> usize {
        if self.ending == Ending::Not {
            self.ending = Ending::Drain;
        }
        self.drop_delayed()
    }

    /// Tells whether nothing is taken in any more.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.ending != Ending::Not
    }

    /// Tells whether it is over: nothing will be given out any more, and after a drain nobody works any more.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        match self.ending {
            Ending::Not => false,
            Ending::ShutDown => self.ready.is_empty(),
            Ending::Drain => self.ready.is_empty() && self.working.is_empty(),
        }
    }

    /// Returns figures. Those of time that passes are as of `now`.
    #[must_use]
    pub fn metrics(&self, now: Instant) -> QueueMetrics {
        let mut metrics = self.metrics.clone();
        metrics.depth = self.ready.len();
        metrics.working = self.working.len();
        metrics.delayed = self.delayed.len();
        metrics.longest_running = self
            .working
            .first()
            .map_or(Duration::ZERO, |(began, _)| now - *began);
        metrics.unfinished = self.working.iter().map(|(began, _)| now - *began).sum();
        metrics
    }

    /// Returns the rate limit.
    pub const fn limit_mut(&mut self) -> &mut L {
        &mut self.limit
    }

    fn bring_due(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let ((due, _), key) = entry.remove_entry();
            let delayed = self
                .items
                .get_mut(&key)
                .and_then(|item| item.delayed.take());
            // It has waited since it was due, not since somebody looked.
            self.add_with_priority(due, key, delayed.map_or(0, |delayed| delayed.priority));
        }
    }

    fn drop_delayed(&mut self) -> usize {
        let dropped = core::mem::take(&mut self.delayed);
        for key in dropped.values() {
            if let Some(item) = self.items.get_mut(key) {
                item.delayed = None;
                if item.is_nothing() {
                    self.items.remove(key);
                }
            }
        }
        dropped.len()
    }
}

impl<K: Ord + Clone, L: RateLimit<K>> WorkQueue<K, L> {
    /// Adds a key after the time that the rate limit says, which grows with each time until it is
    /// [forgotten](Self::forget).
    pub fn add_rate_limited(&mut self, now: Instant, key: K) {
        self.add_rate_limited_with_priority(now, key, 0);
    }

    /// Adds a key after the time that the rate limit says.
    pub fn add_rate_limited_with_priority(&mut self, now: Instant, key: K, priority: i32) {
        // Where nothing is taken in, nothing is counted.
        if self.ending != Ending::Not {
            return;
        }
        self.metrics.retries += 1;
        let delay = self.limit.delay(now, &key);
        self.add_after_with_priority(now, key, delay, priority);
    }

    /// Has the rate limit forget what it knows of a key, for which all went well.
    pub fn forget(&mut self, key: &K) {
        self.limit.forget(key);
    }

    /// Returns how often a key was added by the rate limit since it was forgotten.
    #[must_use]
    pub fn requeues(&self, key: &K) -> u32 {
        self.limit.requeues(key)
    }
}

impl<K: Ord + Clone, L> WorkQueue<K, L> {
    /// Returns when something can be given out: `now` where it is there, later where it is delayed.
    #[must_use]
    pub fn ready_at(&self, now: Instant) -> Option<Instant> {
        earliest(
            (!self.ready.is_empty()).then_some(now),
            self.next_due().map(|due| due.max(now)),
        )
    }
}

impl Item {
    const fn is_nothing(&self) -> bool {
        self.dirty.is_none() && self.working.is_none() && self.delayed.is_none()
    }
}
