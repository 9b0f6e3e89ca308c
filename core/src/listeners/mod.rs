//! Listeners: one log of notifications, and a cursor in it for each listener.

mod backlog;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use backlog::Backlog;

use crate::cache::Notification;
use crate::storage::{Discarded, derive};
use crate::time::{Instant, earliest};

type Owned<K, T> = Notification<(K, T)>;

impl<K, T> Owned<K, T> {
    fn discard(self, discarded: &mut Discarded<T>) {
        self.map(|(_, object)| discarded.put(object));
    }

    fn key(&self) -> Option<&K> {
        self.entry().map(|(key, _)| key)
    }
}

/// The id of a listener.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ListenerId(u64);

/// The options of a listener.
#[derive(Clone, Debug)]
pub struct ListenerConfig {
    /// The period at which every object is replayed; `None` is never. The minimum is one second.
    pub resync: Option<Duration>,
    /// The number of pending notifications above which they are merged by key.
    pub backlog: usize,
    /// Whether the listener is notified of objects that a relist or a watch sent again unchanged.
    pub unchanged: bool,
}

impl Default for ListenerConfig {
    fn default() -> Self {
        Self {
            resync: None,
            backlog: 4096,
            unchanged: false,
        }
    }
}

/// The listeners of one cache.
///
/// A notification is stored once, in a log in which each listener has a cursor. If a listener falls behind by more than
/// its limit, its pending notifications are merged by key. They then take no more memory than the objects that
/// changed, and no listener delays another.
///
/// ```
/// use informer_core::{Listeners, Notification, listeners::ListenerConfig};
///
/// let mut listeners: Listeners<String, u32> = Listeners::default();
/// let id = listeners.join(ListenerConfig::default(), [], true);
/// listeners.append(Notification::Added { entry: (&"a".to_string(), &1), is_in_initial_list: false });
///
/// let mut events = Vec::new();
/// listeners.take(id, 10, &mut events);
/// assert_eq!(events[0], Notification::Synced);
/// assert!(matches!(events[1], Notification::Added { entry: (_, 1), .. }));
/// ```
#[derive(Debug)]
pub struct Listeners<K, T> {
    log: VecDeque<Notification<(K, T)>>,
    /// The number of the first entry in the log.
    first: u64,
    listeners: BTreeMap<ListenerId, Listener<K, T>>,
    next_id: u64,
    /// The smallest backlog limit of all listeners.
    least_limit: usize,
    /// The number of listeners that want unchanged objects.
    unchanged: usize,
    seed: u64,
    discarded: Discarded<T>,
}

#[derive(Debug)]
struct Listener<K, T> {
    config: ListenerConfig,
    /// The initial state, for a listener that joined late.
    initial: VecDeque<(K, T)>,
    /// Whether `Synced` is due after the initial state.
    sync_due: bool,
    backlog: Backlog<K, T>,
    /// The number of notifications that were merged into others or cancelled out.
    merged: u64,
    /// The number of the first entry that the listener has not read.
    next: u64,
    next_resync: Option<Instant>,
    passes: Passes,
}

/// The resync passes in which a listener was due and that may have pending entries. They are ordered from the oldest,
/// each with the end of the log at its beginning.
///
/// A cache runs at most two passes at a time, so the log contains all of a pass when the second pass after it begins.
#[derive(Debug, Default)]
struct Passes(VecDeque<(u32, u64)>);

impl Passes {
    /// Adds a pass that begins at `end` of the log. The listener has read the log up to `read`.
    fn begin(&mut self, pass: u32, end: u64, read: u64) {
        if self.0.back().is_some_and(|&(last, _)| last == pass) {
            return;
        }
        self.0.push_back((pass, end));
        while self.0.get(2).is_some_and(|&(_, began)| began <= read) {
            self.0.pop_front();
        }
        // A pass has no entries if the log did not grow until the second pass after it began.
        let oldest = self.0.len().checked_sub(3);
        if let Some(index) = oldest
            && self.0.get(index).is_some_and(|&(_, began)| began == end)
        {
            self.0.remove(index);
        }
    }

    fn contains(&self, pass: u32) -> bool {
        let first = self.0.front().map_or(0, |&(first, _)| first);
        let age = |pass: u32| pass.wrapping_sub(first);
        let found = self
            .0
            .binary_search_by_key(&age(pass), |&(pass, _)| age(pass));
        found.is_ok()
    }
}

impl<K, T> Default for Listeners<K, T> {
    fn default() -> Self {
        Self {
            log: VecDeque::new(),
            first: 0,
            listeners: BTreeMap::new(),
            next_id: 0,
            least_limit: usize::MAX,
            unchanged: 0,
            seed: 0,
            discarded: Discarded::default(),
        }
    }
}

impl<K, T> Listeners<K, T> {
    /// Sets the seed of the hashes. Use a random seed if users choose the keys, since they could otherwise provoke
    /// collisions.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = derive(seed, 2);
        self
    }

    /// Retains objects that are no longer needed until [`Listeners::take_discarded`], instead of dropping them
    /// immediately: see [`Cache::keep_discarded`](crate::Cache::keep_discarded).
    pub fn keep_discarded(&mut self) {
        self.discarded.keep();
    }

    /// Returns the objects that became unneeded since the last call.
    #[must_use = "drop the objects after the lock is released"]
    pub fn take_discarded(&mut self) -> Vec<T> {
        self.discarded.take()
    }
}

impl<K: Clone + AsRef<str>, T: Clone> Listeners<K, T> {
    /// Adds a listener. It first gets the objects of `initial`, which are those of earlier notifications, and then
    /// [`Notification::Synced`] if the cache is synced.
    pub fn join(
        &mut self,
        config: ListenerConfig,
        initial: impl IntoIterator<Item = (K, T)>,
        synced: bool,
    ) -> ListenerId {
        let id = ListenerId(self.next_id);
        self.next_id += 1;
        let listener = Listener {
            config: ListenerConfig {
                resync: config.resync.map(|p| p.max(Duration::from_secs(1))),
                ..config
            },
            initial: initial.into_iter().collect(),
            sync_due: synced,
            backlog: Backlog::new(self.seed),
            merged: 0,
            next: self.first + self.log.len() as u64,
            next_resync: None,
            passes: Passes::default(),
        };
        self.listeners.insert(id, listener);
        self.sum_up();
        id
    }

    /// Removes a listener and returns the number of its pending notifications. An unknown id is no error.
    pub fn leave(&mut self, id: ListenerId) -> usize {
        let pending = self.pending(id);
        if let Some(mut listener) = self.listeners.remove(&id) {
            let initial = listener.initial.into_iter();
            initial.for_each(|(_, object)| self.discarded.put(object));
            while let Some(event) = listener.backlog.pop() {
                event.discard(&mut self.discarded);
            }
        }
        self.sum_up();
        self.forget();
        pending
    }

    /// Stores a notification for the listeners that it is for.
    pub fn append(&mut self, notification: Notification<(&K, &T)>) {
        // A resync pass begins only if a listener is due.
        let is_unchanged = matches!(notification, Notification::Replayed { pass: None, .. });
        if !self.listeners.is_empty() && (!is_unchanged || self.unchanged > 0) {
            let event = notification.map(|(key, object)| (key.clone(), object.clone()));
            self.log.push_back(event);
        }
    }

    /// Coalesces the pending notifications of listeners that exceeded their limit. Call it after a batch of
    /// notifications, without holding the cache's lock.
    pub fn coalesce(&mut self) {
        self.coalesce_with(&mut |_, _, _| {});
    }

    /// Coalesces like [`coalesce`](Self::coalesce), and calls `lost` with each state that a listener misses, since it was
    /// merged with a later one or cancelled out. Whoever reads the cache may have seen it. An update whose object is
    /// deleted loses its old state as well.
    pub fn coalesce_with(&mut self, lost: &mut dyn FnMut(ListenerId, &K, &T)) {
        if self.log.len() <= self.least_limit {
            return;
        }
        let end = self.first + self.log.len() as u64;
        for (id, listener) in &mut self.listeners {
            let behind = end - listener.next;
            if behind <= listener.config.backlog as u64 {
                continue;
            }
            let from = usize::try_from(listener.next - self.first).unwrap_or(usize::MAX);
            for event in self.log.range(from.min(self.log.len())..) {
                if listener.wants(event) {
                    let before = listener.backlog.len();
                    let lost = &mut |key: &K, object: &T| lost(*id, key, object);
                    listener
                        .backlog
                        .push(event.clone(), lost, &mut self.discarded);
                    listener.merged += (before + 1 - listener.backlog.len()) as u64;
                }
            }
            listener.next = end;
        }
        self.forget();
    }

    /// Moves up to `max` events for a listener into `out`; returns whether there are more.
    pub fn take(
        &mut self,
        id: ListenerId,
        max: usize,
        out: &mut Vec<Notification<(K, T)>>,
    ) -> bool {
        let Some(listener) = self.listeners.get_mut(&id) else {
            return false;
        };
        let end = self.first + self.log.len() as u64;
        let is_last = listener.next == self.first;
        let full = out.len().saturating_add(max);
        while out.len() < full
            && listener.has_own()
            && let Some(event) = listener.pop_own()
        {
            out.push(event);
        }
        let from = usize::try_from(listener.next - self.first).unwrap_or(usize::MAX);
        let mut read = 0;
        for event in self.log.range(from.min(self.log.len())..) {
            if out.len() == full {
                break;
            }
            read += 1;
            if listener.wants(event) {
                out.push(event.clone());
            }
        }
        listener.next += read;
        let more = listener.has_own() || listener.next < end;
        if is_last && listener.next != self.first {
            self.forget();
        }
        more
    }

    /// Returns the number of pending notifications of a listener, after coalescing.
    #[must_use]
    pub fn pending(&self, id: ListenerId) -> usize {
        let Some(listener) = self.listeners.get(&id) else {
            return 0;
        };
        let from = usize::try_from(listener.next - self.first)
            .unwrap_or(usize::MAX)
            .min(self.log.len());
        let in_log = self
            .log
            .range(from..)
            .filter(|event| listener.wants(event))
            .count();
        listener.initial.len() + usize::from(listener.sync_due) + listener.backlog.len() + in_log
    }

    /// Returns how many notifications a slow listener did not get separately, because they were merged with others of
    /// the same key or cancelled out.
    #[must_use]
    pub fn merged(&self, id: ListenerId) -> u64 {
        self.listeners
            .get(&id)
            .map_or(0, |listener| listener.merged)
    }

    /// Returns whether a listener with this id exists.
    #[must_use]
    pub fn contains(&self, id: ListenerId) -> bool {
        self.listeners.contains_key(&id)
    }

    /// Returns the time of the next resync; `None` is never. Periods begin with the first call.
    pub fn next_resync(&mut self, now: Instant) -> Option<Instant> {
        self.listeners.values_mut().fold(None, |next, listener| {
            if listener.next_resync.is_none() {
                listener.next_resync = listener.config.resync.map(|period| now + period);
            }
            earliest(next, listener.next_resync)
        })
    }

    /// Adds the listeners that are due to a resync pass and schedules their next one; returns whether any is due.
    /// `pass` is the number that [`Cache::resync`](crate::Cache::resync) returned, or will return next.
    pub fn begin_pass(&mut self, now: Instant, pass: u32) -> bool {
        let mut any = false;
        let end = self.first + self.log.len() as u64;
        for listener in self.listeners.values_mut() {
            let (Some(due), Some(period)) = (listener.next_resync, listener.config.resync) else {
                continue;
            };
            if now < due {
                continue;
            }
            // Periods are exact, and a period that was missed entirely is skipped.
            let next = due + period;
            listener.next_resync = Some(if next > now { next } else { now + period });
            listener.passes.begin(pass, end, listener.next);
            any = true;
        }
        any
    }

    /// Drops entries that every listener has read.
    fn forget(&mut self) {
        let end = self.first + self.log.len() as u64;
        let seen = self
            .listeners
            .values()
            .map(|listener| listener.next)
            .reduce(u64::min)
            .unwrap_or(end);
        let count = usize::try_from(seen - self.first)
            .unwrap_or(usize::MAX)
            .min(self.log.len());
        let seen = self.log.drain(..count);
        if self.discarded.keeps() {
            seen.for_each(|event| event.discard(&mut self.discarded));
        } else {
            drop(seen);
        }
        self.first += count as u64;
        if self.log.is_empty() && self.log.capacity() > 1024 {
            self.log = VecDeque::new();
        }
    }

    fn sum_up(&mut self) {
        let configs = || self.listeners.values().map(|listener| &listener.config);
        self.least_limit = configs()
            .map(|config| config.backlog)
            .min()
            .unwrap_or(usize::MAX);
        self.unchanged = configs().filter(|config| config.unchanged).count();
    }
}

impl<K, T> Listener<K, T> {
    fn wants(&self, event: &Notification<(K, T)>) -> bool {
        match event {
            Notification::Replayed { pass: None, .. } => self.config.unchanged,
            Notification::Replayed {
                pass: Some(pass), ..
            } => self.passes.contains(*pass),
            Notification::Added { .. }
            | Notification::Updated { .. }
            | Notification::Deleted { .. }
            | Notification::Synced => true,
        }
    }

    /// Returns whether there are events for this listener alone, which precede those of the log.
    fn has_own(&self) -> bool {
        !self.initial.is_empty() || self.sync_due || self.backlog.len() > 0
    }
}

impl<K: AsRef<str>, T> Listener<K, T> {
    fn pop_own(&mut self) -> Option<Notification<(K, T)>> {
        if let Some(entry) = self.initial.pop_front() {
            return Some(Notification::Added {
                entry,
                is_in_initial_list: true,
            });
        }
        if core::mem::take(&mut self.sync_due) {
            self.initial = VecDeque::new();
            return Some(Notification::Synced);
        }
        self.backlog.pop()
    }
}
