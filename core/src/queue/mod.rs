//! The work queue of a controller, as a state machine.

mod bucket;
mod limit;
mod metrics;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, BTreeSet};
use core::cmp::Reverse;
use core::time::Duration;

pub use self::bucket::TokenBucket;
pub use self::limit::{Exponential, MaxOf, RateLimit};
pub use self::metrics::{QueueMetrics, Spread};
use crate::time::{Instant, earliest};

/// The most keys in a row that may pass the oldest ready key.
const MOST_PASSED: u32 = 16;

/// A work queue: each key waits at most once, however often it was added, and is never processed by two workers at the
/// same time.
///
/// It has client-go's contract (`util/workqueue`). A key that is added while it waits is not added again. A key that is
/// added while it is being processed becomes ready again after [`done`](Self::done). Keys can be added after a delay,
/// of which the earliest applies, and with the delay of a [`RateLimit`]. Keys of higher priority come first, and keys
/// of the same priority in the order in which they were added.
///
/// No priority starves. After at most 16 keys in a row that pass the oldest ready key, that key is next, whatever its
/// priority. So even under a flood of urgent keys, one of 17 places goes to the others. A key is returned after at most
/// 17 * (n + 1) calls of [`take`](Self::take), if n keys were ready before it.
///
/// The queue has no clock and never waits: [`take`](Self::take) returns the key to process now, and
/// [`ready_at`](Self::ready_at) the time to check again. A delayed key is ready from its time on, whether or not a worker
/// asks for one: every method that changes the queue and gets the time begins with [`advance`](Self::advance).
/// Memory is used for keys that wait, that are being processed, or
/// whose failures the rate limit has counted.
///
/// ```
/// use core::time::Duration;
/// use informer_core::{Instant, queue::PolledQueue};
///
/// let now = Instant::from_micros(0);
/// let mut queue = PolledQueue::new();
/// queue.add(now, "prod/web");
/// queue.add(now, "prod/web");
/// assert_eq!(queue.take(now), Some("prod/web"));
/// assert_eq!(queue.take(now), None);
///
/// // It failed: retry with an increasing delay.
/// queue.add_rate_limited(now, "prod/web");
/// queue.done(now, &"prod/web");
/// assert_eq!(queue.ready_at(now), Some(now + Duration::from_millis(5)));
/// assert_eq!(queue.take(now + Duration::from_millis(5)), Some("prod/web"));
/// queue.forget(&"prod/web");
/// queue.done(now, &"prod/web");
/// assert!(queue.is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct PolledQueue<K, L = MaxOf<Exponential<K>, TokenBucket>> {
    items: BTreeMap<K, Item>,
    /// The ready keys, by priority and then in the order in which they were added.
    ready: BTreeMap<Place, K>,
    /// Their numbers by priority.
    depths: BTreeMap<Reverse<i32>, usize>,
    /// The same keys, in the order in which they became ready.
    ages: BTreeMap<u64, Place>,
    /// How many keys in a row have passed the oldest.
    passed: u32,
    /// The delayed keys.
    delayed: BTreeMap<(Instant, u64), K>,
    /// The times at which the keys in processing were taken, the earliest first.
    working: BTreeSet<(Instant, u64)>,
    limit: L,
    metrics: QueueMetrics,
    next: u64,
    ending: Ending,
}

/// A place among the ready keys.
type Place = (Reverse<i32>, u64);

/// The state of a key.
#[derive(Clone, Default, Debug)]
struct Item {
    /// Set if the key must be processed.
    dirty: Option<Dirty>,
    working: Option<Working>,
    delayed: Option<Delayed>,
}

#[derive(Clone, Copy, Debug)]
struct Dirty {
    since: Instant,
    priority: i32,
    /// Its place and its number among the ages; `None` while the key is being processed.
    place: Option<(Place, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Working {
    /// The time at which it was taken, and its number.
    began: (Instant, u64),
    /// The priority with which it was taken.
    priority: i32,
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
    /// Waiting keys are returned, and no others.
    ShutDown,
    /// The same, and keys in processing are awaited and returned again if they were added in the meantime.
    Drain,
}

impl<K: Ord + Clone> PolledQueue<K> {
    /// Creates a queue with client-go's rate limit for controllers: a delay of 5 ms after the first failure of a key,
    /// doubled with each further failure up to 1,000 s, and for all keys together 10 per second with a burst of 100.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(MaxOf(
            Exponential::new(Duration::from_millis(5), Duration::from_secs(1000)),
            TokenBucket::new(10.0, 100),
        ))
    }
}

impl<K: Ord + Clone> Default for PolledQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord + Clone, L> PolledQueue<K, L> {
    /// Creates a queue with a custom rate limit.
    #[must_use]
    pub const fn with_limit(limit: L) -> Self {
        Self {
            items: BTreeMap::new(),
            ready: BTreeMap::new(),
            depths: BTreeMap::new(),
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

    /// Returns the rate limit, which may be replaced.
    pub const fn limit_mut(&mut self) -> &mut L {
        &mut self.limit
    }

    /// Adds a key with priority 0. After a shutdown it is ignored.
    pub fn add(&mut self, now: Instant, key: K) {
        self.add_with_priority(now, key, 0);
    }

    /// Adds a key. A key that waits with a lower priority is raised to this priority, behind others of the same
    /// priority.
    ///
    /// ```
    /// # use informer_core::{Instant, queue::PolledQueue};
    /// # let now = Instant::from_micros(0);
    /// let mut queue = PolledQueue::new();
    /// queue.add_with_priority(now, "resync", -100);
    /// queue.add(now, "event");
    /// assert_eq!(queue.take(now), Some("event"));
    /// ```
    pub fn add_with_priority(&mut self, now: Instant, key: K, priority: i32) {
        if self.ending != Ending::Not {
            return;
        }
        self.advance(now);
        self.make_ready(now, key, priority);
    }

    fn make_ready(&mut self, now: Instant, key: K, priority: i32) {
        let number = self.next;
        let mut before = None;
        let item = self.items.entry(key.clone()).or_default();
        let place = match &mut item.dirty {
            Some(dirty) if priority <= dirty.priority => return,
            Some(dirty) => {
                dirty.priority = priority;
                // It keeps its age.
                dirty.place.as_mut().map(|(place, age)| {
                    before = Some(*place);
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
        if let Some(before) = before {
            self.remove(&before);
        }
        if let Some((place, age)) = place {
            self.put(place, age, key);
        }
    }

    fn put(&mut self, place: Place, age: u64, key: K) {
        self.next += 1;
        self.ready.insert(place, key);
        *self.depths.entry(place.0).or_default() += 1;
        self.ages.insert(age, place);
    }

    fn remove(&mut self, place: &Place) -> Option<K> {
        let key = self.ready.remove(place)?;
        if let Some(depth) = self.depths.get_mut(&place.0) {
            *depth -= 1;
            if *depth == 0 {
                self.depths.remove(&place.0);
            }
        }
        Some(key)
    }

    /// Adds a key after a delay, or now if the delay is zero. Of several delays for a key, the earliest applies. A
    /// delay is not affected if the key is also added directly.
    pub fn add_after(&mut self, now: Instant, key: K, delay: Duration) {
        self.add_after_with_priority(now, key, delay, 0);
    }

    /// Adds a key after a delay. Of several priorities for a key, the highest applies.
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
        self.advance(now);
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

    /// Returns the next key to process. It counts as being processed until [`done`](Self::done).
    pub fn take(&mut self, now: Instant) -> Option<K> {
        self.advance(now);
        let (first, oldest) = (*self.ready.keys().next()?, *self.ages.values().next()?);
        let is_due = self.passed >= MOST_PASSED;
        let place = if is_due { oldest } else { first };
        self.passed = if place == oldest { 0 } else { self.passed + 1 };
        let key = self.remove(&place)?;
        let began = (now, self.next);
        self.next += 1;
        if let Some(item) = self.items.get_mut(&key) {
            let mut priority = 0;
            if let Some(dirty) = item.dirty.take() {
                self.metrics.waited(now - dirty.since);
                self.ages.remove(&dirty.place.map_or(0, |(_, age)| age));
                priority = dirty.priority;
            }
            item.working = Some(Working { began, priority });
        }
        self.working.insert(began);
        Some(key)
    }

    /// Ends the processing of a key, and makes it ready again if it was added in the meantime. A key that is not being
    /// processed is ignored.
    pub fn done(&mut self, now: Instant, key: &K) {
        self.advance(now);
        let Some(item) = self.items.get_mut(key) else {
            return;
        };
        if let Some(Working { began, .. }) = item.working.take() {
            self.working.remove(&began);
            self.metrics.worked(now - began.0);
            if let Some(dirty) = &mut item.dirty {
                // It goes behind the keys that are already ready.
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

    /// Returns the time of the next delayed key, if there is one: until then a worker without a key may sleep.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use informer_core::{Instant, queue::PolledQueue};
    /// # let now = Instant::from_micros(0);
    /// let mut queue = PolledQueue::new();
    /// queue.add_after(now, "prod/web", Duration::from_secs(1));
    /// assert_eq!(queue.take(now), None);
    /// assert_eq!(queue.next_due(), Some(now + Duration::from_secs(1)));
    /// ```
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.delayed.first_key_value().map(|((due, _), _)| *due)
    }

    /// Returns the priority with which a key was taken that is being processed.
    #[must_use]
    pub fn priority(&self, key: &K) -> Option<i32> {
        let working = self.items.get(key)?.working.as_ref()?;
        Some(working.priority)
    }

    /// Makes the delayed keys ready whose time has come. They go behind the keys that became ready before.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use informer_core::{Instant, queue::PolledQueue};
    /// # let now = Instant::from_micros(0);
    /// let mut queue = PolledQueue::new();
    /// queue.add_after(now, "prod/web", Duration::from_secs(1));
    /// queue.advance(now + Duration::from_secs(2));
    /// assert_eq!(queue.shut_down(), 0, "it is not discarded");
    /// ```
    pub fn advance(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let ((due, _), key) = entry.remove_entry();
            let delayed = self
                .items
                .get_mut(&key)
                .and_then(|item| item.delayed.take());
            if self.ending == Ending::Not {
                // It has waited since it became due, not since the last call.
                self.make_ready(due, key, delayed.map_or(0, |delayed| delayed.priority));
            }
        }
    }

    /// Returns the number of ready keys, as of the last call with a time.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.ready.len()
    }

    /// Returns whether there are no keys that wait, are delayed or are being processed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Stops accepting keys. Waiting keys are still returned. Delayed keys are discarded, and their number is returned. Those
    /// whose time has come are waiting keys, if the queue has [advanced](Self::advance) to it.
    pub fn shut_down(&mut self) -> usize {
        self.ending = Ending::ShutDown;
        self.drop_delayed()
    }

    /// Stops accepting keys, like [`shut_down`](Self::shut_down), and drains the queue.
    /// [`is_shut_down`](Self::is_shut_down) becomes `true` when all keys have been processed, including those that were
    /// added while they were being processed.
    pub fn shut_down_with_drain(&mut self) -> usize {
        if self.ending == Ending::Not {
            self.ending = Ending::Drain;
        }
        self.drop_delayed()
    }

    /// Returns whether the queue has stopped accepting keys.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.ending != Ending::Not
    }

    /// Returns whether no key will be returned any more, and after a drain, whether no key is being processed.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        match self.ending {
            Ending::Not => false,
            Ending::ShutDown => self.ready.is_empty(),
            Ending::Drain => self.ready.is_empty() && self.working.is_empty(),
        }
    }

    /// Returns the metrics. Running times are as of `now`.
    #[must_use]
    pub fn metrics(&self, now: Instant) -> QueueMetrics {
        let mut metrics = self.metrics.clone();
        let due = self.delayed.range(..(now, u64::MAX));
        let ready = due.clone().filter_map(|(_, key)| {
            let item = self.items.get(key)?;
            let is_new = item.dirty.is_none() && item.working.is_none();
            item.delayed.filter(|_| is_new)
        });
        let mut depths = self.depths.clone();
        for delayed in ready {
            *depths.entry(Reverse(delayed.priority)).or_default() += 1;
        }
        metrics.depth = depths.values().sum();
        let depths = depths.into_iter();
        metrics.depths = depths
            .map(|(Reverse(priority), depth)| (priority, depth))
            .collect();
        metrics.working = self.working.len();
        metrics.delayed = self.delayed.len() - due.count();
        metrics.longest_running = self
            .working
            .first()
            .map_or(Duration::ZERO, |(began, _)| now - *began);
        metrics.unfinished = self.working.iter().map(|(began, _)| now - *began).sum();
        metrics
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

impl<K: Ord + Clone, L: RateLimit<K>> PolledQueue<K, L> {
    /// Adds a key after the delay of the rate limit, which grows until the key is [forgotten](Self::forget). A key that is
    /// being processed keeps its priority.
    pub fn add_rate_limited(&mut self, now: Instant, key: K) {
        // A key that is not accepted does not count as a failure.
        if self.ending != Ending::Not {
            return;
        }
        self.metrics.retries += 1;
        let delay = self.limit.delay(now, &key);
        let priority = self.priority(&key).unwrap_or_default();
        self.add_after_with_priority(now, key, delay, priority);
    }

    /// Resets the rate limit for a key, after a success.
    pub fn forget(&mut self, key: &K) {
        self.limit.forget(key);
    }

    /// Returns how often the rate limit has delayed a key since it was reset.
    #[must_use]
    pub fn requeues(&self, key: &K) -> u32 {
        self.limit.requeues(key)
    }
}

impl<K: Ord + Clone, L> PolledQueue<K, L> {
    /// Returns the time at which the next key is ready: `now`, or later if it is delayed.
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
