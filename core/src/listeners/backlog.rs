//! The pending notifications of a slow listener, merged by key.
//!
//! | pending | new | result |
//! |---|---|---|
//! | update | update | an update from the oldest state to the newest |
//! | add | update | an add of the newest state |
//! | add | delete | nothing |
//! | update | delete | the delete |
//! | delete | add | both |
//! | replay | replay | one replay; any other event replaces it, and it replaces nothing |
//!
//! The states that the listener misses in this way are passed to a function. Whoever reads the cache may have seen them.

use alloc::collections::VecDeque;

use hashbrown::HashTable;

use crate::cache::Notification;
use crate::storage::{Discarded, hash};

#[derive(Debug)]
pub(super) struct Backlog<K, T> {
    /// Ordered by the time at which a key became pending.
    entries: VecDeque<Option<Waiting<K, T>>>,
    /// The number of the first entry.
    first: u64,
    /// The entry of a key, by the hash of the key.
    by_key: HashTable<(u32, u64)>,
    len: usize,
    seed: u64,
}

/// The pending events of one key: a deletion, a later event, or both. Without a key, it is the `Synced` event.
#[derive(Debug)]
struct Waiting<K, T> {
    deleted: Option<Notification<(K, T)>>,
    then: Option<Notification<(K, T)>>,
}

impl<K: AsRef<str>, T> Backlog<K, T> {
    pub(super) const fn new(seed: u64) -> Self {
        Self {
            entries: VecDeque::new(),
            first: 0,
            by_key: HashTable::new(),
            len: 0,
            seed,
        }
    }

    fn hash(&self, key: &K) -> u32 {
        hash(self.seed, key.as_ref().as_bytes())
    }

    /// Adds an event. Objects that the listener no longer needs go to `discarded`. `lost` is called with the states that it
    /// misses.
    pub(super) fn push(
        &mut self,
        event: Notification<(K, T)>,
        lost: &mut dyn FnMut(&K, &T),
        discarded: &mut Discarded<T>,
    ) {
        let Some(hash) = event.key().map(|key| self.hash(key)) else {
            self.add(Waiting {
                deleted: None,
                then: Some(event),
            });
            return;
        };
        let found = self.by_key.find(wide(hash), |&(h, number)| {
            h == hash
                && self
                    .at(number)
                    .is_some_and(|waiting| waiting.key_is(&event))
        });
        match found.copied() {
            Some((_, number)) => {
                let index = usize::try_from(number - self.first).unwrap_or(usize::MAX);
                let Some(Some(waiting)) = self.entries.get_mut(index) else {
                    return;
                };
                let before = waiting.len();
                waiting.coalesce(event, lost, discarded);
                self.len = self.len + waiting.len() - before;
                if waiting.len() == 0 {
                    self.entries[index] = None;
                    self.unlist(hash, number);
                }
            }
            None => {
                let number = self.first + self.entries.len() as u64;
                self.by_key
                    .insert_unique(wide(hash), (hash, number), |&(h, _)| wide(h));
                self.add(match event {
                    Notification::Deleted { .. } => Waiting {
                        deleted: Some(event),
                        then: None,
                    },
                    Notification::Added { .. }
                    | Notification::Updated { .. }
                    | Notification::Replayed { .. }
                    | Notification::Synced => Waiting {
                        deleted: None,
                        then: Some(event),
                    },
                });
            }
        }
    }

    pub(super) fn pop(&mut self) -> Option<Notification<(K, T)>> {
        loop {
            let Some(waiting) = self.entries.front_mut()? else {
                self.entries.pop_front();
                self.first += 1;
                continue;
            };
            let event = waiting.deleted.take().or_else(|| waiting.then.take());
            let done = waiting.len() == 0;
            if let Some(key) = event.as_ref().and_then(Notification::key).filter(|_| done) {
                self.unlist(self.hash(key), self.first);
            }
            if done {
                self.entries.pop_front();
                self.first += 1;
            }
            if event.is_some() {
                self.len -= 1;
                if self.len == 0 {
                    *self = Self::new(self.seed);
                }
                return event;
            }
        }
    }

    fn add(&mut self, waiting: Waiting<K, T>) {
        self.len += waiting.len();
        self.entries.push_back(Some(waiting));
    }

    fn at(&self, number: u64) -> Option<&Waiting<K, T>> {
        self.entries
            .get(usize::try_from(number.checked_sub(self.first)?).ok()?)?
            .as_ref()
    }

    fn unlist(&mut self, hash: u32, number: u64) {
        if let Ok(entry) = self.by_key.find_entry(wide(hash), |&(_, n)| n == number) {
            entry.remove();
        }
    }
}

impl<K, T> Backlog<K, T> {
    pub(super) const fn len(&self) -> usize {
        self.len
    }
}

impl<K: AsRef<str>, T> Waiting<K, T> {
    fn len(&self) -> usize {
        usize::from(self.deleted.is_some()) + usize::from(self.then.is_some())
    }

    fn key_is(&self, event: &Notification<(K, T)>) -> bool {
        let own = self
            .deleted
            .as_ref()
            .or(self.then.as_ref())
            .and_then(Notification::key);
        match (own, event.key()) {
            (Some(own), Some(key)) => own.as_ref() == key.as_ref(),
            _ => false,
        }
    }

    fn coalesce(
        &mut self,
        event: Notification<(K, T)>,
        lost: &mut dyn FnMut(&K, &T),
        discarded: &mut Discarded<T>,
    ) {
        self.lose_to(&event, lost);
        self.then = match (self.then.take(), event) {
            (
                Some(Notification::Added {
                    entry: (_, unseen),
                    is_in_initial_list,
                }),
                Notification::Updated { old: (_, old), new },
            ) => {
                discarded.put(unseen);
                discarded.put(old);
                Some(Notification::Added {
                    entry: new,
                    is_in_initial_list,
                })
            }
            (Some(unseen @ Notification::Added { .. }), event @ Notification::Deleted { .. }) => {
                unseen.discard(discarded);
                event.discard(discarded);
                None
            }
            (
                Some(Notification::Updated {
                    old,
                    new: (_, unseen),
                }),
                Notification::Updated {
                    old: (_, same),
                    new,
                },
            ) => {
                discarded.put(unseen);
                discarded.put(same);
                Some(Notification::Updated { old, new })
            }
            (Some(pending), event @ Notification::Replayed { .. }) => {
                event.discard(discarded);
                Some(pending)
            }
            (unseen, event @ Notification::Deleted { .. }) => {
                unseen
                    .into_iter()
                    .for_each(|unseen| unseen.discard(discarded));
                // The listener knows the object, so it needs this deletion.
                if self.deleted.is_none() {
                    self.deleted = Some(event);
                } else {
                    event.discard(discarded);
                }
                None
            }
            (unseen, event) => {
                unseen
                    .into_iter()
                    .for_each(|unseen| unseen.discard(discarded));
                Some(event)
            }
        };
    }

    /// Passes to `lost` the states of which the listener will not be notified after this event.
    fn lose_to(&self, event: &Notification<(K, T)>, lost: &mut dyn FnMut(&K, &T)) {
        // A replay shows a state of which the listener was notified.
        let is_replay = matches!(event, Notification::Replayed { .. });
        match &self.then {
            Some(Notification::Added {
                entry: (key, unseen),
                ..
            }) if !is_replay => lost(key, unseen),
            Some(Notification::Updated { old, new }) if !is_replay => {
                lost(&new.0, &new.1);
                if let Notification::Deleted { .. } = event {
                    lost(&old.0, &old.1);
                }
            }
            _ => {}
        }
        // It cancels out an addition, or it is the second deletion.
        if let Notification::Deleted {
            entry: (key, last), ..
        } = event
            && (self.deleted.is_some() || matches!(self.then, Some(Notification::Added { .. })))
        {
            lost(key, last);
        }
    }
}

const fn wide(hash: u32) -> u64 {
    (hash as u64) << 32 | hash as u64
}
