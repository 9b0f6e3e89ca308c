//! When a controller may begin, and which keys it may reconcile.

use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::{BoxFuture, select_all};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cache::entry::Key;
use crate::cache::shared::{Inner, Status};
use crate::health::error::{Ended, Missing, NotSynced, ReadError};

/// How often progress is checked within the time that an informer may be without it.
const CHECKS: u32 = 16;

/// The time between two looks at whether an old cache has become new.
const CHECK: Duration = Duration::from_secs(1);

/// How long an informer of which a part is complete may be without progress before its controller begins with that part.
const REST: Duration = Duration::from_secs(10);

/// What an informer has for its controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Readiness {
    /// One of its sources is complete, and each of the others is as well or has failed.
    Usable,
    /// It shows the data of a journal that no server has confirmed.
    Restored,
    /// It is on its way, and has got so far. The number changes with every byte.
    Waiting(u64),
    /// The same, and one of its sources is complete.
    Partly(u64),
    Ended,
}

/// The sources of an informer of any form.
pub(crate) trait Places: Send + Sync {
    /// Returns whether the cache has had a complete list of all that could hold this key.
    fn is_complete_for(&self, key: &Key) -> bool;
    /// Checks that the cache has lacked no change for longer than this.
    fn check_staleness(&self, limit: Duration) -> Result<(), ReadError>;
    fn readiness(&self) -> Readiness;
    fn status(&self) -> watch::Receiver<Status>;
}

/// A registration with an informer of any type.
pub(super) trait Registered: Send + Sync {
    fn places(&self) -> Arc<dyn Places>;
    fn readiness(&self) -> Readiness;
    /// Waits for a change of the readiness from the time of this call on.
    fn changed(&self) -> BoxFuture<'static, ()>;
    /// Returns why it is not ready.
    fn missing(&self) -> Missing;
    fn ended(&self) -> BoxFuture<'_, Ended>;
    fn remove(&self);
}

impl<V: Send + Sync> Places for Inner<V> {
    fn is_complete_for(&self, key: &Key) -> bool {
        let complete =
            self.each_source(|_, source| source.is_complete || !source.has(key.as_str()));
        !complete.contains(&false)
    }

    fn check_staleness(&self, limit: Duration) -> Result<(), ReadError> {
        self.check_staleness(limit)
    }

    fn readiness(&self) -> Readiness {
        let status = *self.status.borrow();
        let (mut some, mut all) = (false, true);
        // Pages arrive even if each of them is preceded by a failure.
        let mut progress = self.cache().len() as u64;
        self.each_source(|_, source| {
            some |= source.is_complete;
            all &= source.is_complete || source.has_no_list();
            progress = progress.wrapping_add(source.progress());
        });
        match status {
            Status { closed: true, .. } => Readiness::Ended,
            _ if status.synced || (some && all) => Readiness::Usable,
            _ if some => Readiness::Partly(progress),
            Status { served: true, .. } => Readiness::Restored,
            _ => Readiness::Waiting(progress),
        }
    }

    fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }
}

/// Waits until all informers are usable. `limit` is the time that one of them may be without progress.
pub(super) async fn all_usable(
    limit: Option<Duration>,
    all: &[Box<dyn Registered>],
) -> Result<(), NotSynced> {
    let began = Instant::now();
    let mut progress = vec![(Readiness::Waiting(0), began); all.len()];
    loop {
        // Changes count from here on.
        let changes: Vec<BoxFuture<'_, ()>> = all.iter().map(|one| one.changed()).collect();
        let now = Instant::now();
        let (mut missing, mut is_over) = (Vec::new(), false);
        // A time that is too far to be added is never.
        let mut check = limit.and_then(|limit| now.checked_add(limit / CHECKS));
        for (one, (before, since)) in all.iter().zip(&mut progress) {
            let readiness = one.readiness();
            match readiness {
                Readiness::Usable => continue,
                Readiness::Ended => is_over = true,
                Readiness::Restored => *since = now,
                Readiness::Waiting(_) | Readiness::Partly(_) if readiness != *before => {
                    *since = now;
                }
                // What is missing hangs, so it does not hold up the rest.
                Readiness::Partly(_) if now - *since >= REST => continue,
                Readiness::Partly(_) => {}
                Readiness::Waiting(_) => {
                    is_over |= limit.is_some_and(|limit| now - *since >= limit);
                }
            }
            *before = readiness;
            missing.push(one);
            let limit = if let Readiness::Partly(_) = readiness {
                Some(REST)
            } else {
                limit
            };
            let until = limit.and_then(|limit| since.checked_add(limit));
            check = check.into_iter().chain(until).min();
        }
        if missing.is_empty() {
            return Ok(());
        }
        if is_over {
            let missing = missing.into_iter().map(|one| one.missing());
            let mut missing: Vec<Missing> = missing.collect();
            missing.sort_by(|a, b| a.name.cmp(&b.name));
            let waited = now - began;
            return Err(NotSynced { waited, missing });
        }
        let changed = select_all(changes);
        let check = async {
            match check {
                Some(check) => tokio::time::sleep_until(check).await,
                None => core::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = changed => {}
            () = check => {}
        }
    }
}

/// Holds the keys of namespaces and clusters whose first list is missing, since a run would take their objects for
/// deleted; and all keys while a cache is older than it may be.
pub(super) struct Held {
    all: Vec<(Arc<dyn Places>, watch::Receiver<Status>)>,
    keys: BTreeSet<Key>,
    max_staleness: Option<Duration>,
    /// A cache was too old when it was checked last, and this was reported.
    is_old: bool,
    /// When to look again whether it has become new.
    check_at: Instant,
}

impl Held {
    pub(super) fn new(all: &[Box<dyn Registered>], max_staleness: Option<Duration>) -> Self {
        let places = all.iter().map(|one| one.places());
        Self {
            all: places.map(|one| (Arc::clone(&one), one.status())).collect(),
            keys: BTreeSet::new(),
            max_staleness,
            is_old: false,
            check_at: Instant::now(),
        }
    }

    /// Returns why a cache is too old, unless it was before.
    pub(super) fn too_old(&mut self) -> Option<ReadError> {
        let limit = self.max_staleness?;
        let mut checked = self.all.iter().map(|(one, _)| one.check_staleness(limit));
        let old = checked.find_map(Result::err);
        let was_old = core::mem::replace(&mut self.is_old, old.is_some());
        old.filter(|_| !was_old)
    }

    /// Returns whether a key may be reconciled. Otherwise it is held.
    pub(super) fn admits(&mut self, key: &Key) -> bool {
        let admits = self.is_open_for(key);
        if admits {
            self.is_old = false;
        } else {
            self.keys.insert(key.clone());
        }
        admits
    }

    /// Waits until keys that were held may be reconciled, and returns them. Dropping the future loses nothing.
    pub(super) async fn released(&mut self) -> BTreeSet<Key> {
        loop {
            let changes = self
                .all
                .iter_mut()
                .map(|(_, status)| Box::pin(status.changed()));
            let changed = async {
                let _ = select_all(changes).await;
            };
            // A cache gets newer without a change of the status.
            let check_at = self.check_at;
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(check_at), if self.max_staleness.is_some() => {
                    self.check_at = Instant::now() + CHECK;
                }
                () = changed => {}
            }
            let held = core::mem::take(&mut self.keys);
            let (open, held) = held.into_iter().partition(|key| self.is_open_for(key));
            self.keys = held;
            if !open.is_empty() {
                return open;
            }
        }
    }

    /// Returns the number of keys that are held.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    fn is_open_for(&self, key: &Key) -> bool {
        let is_new = |one: &Arc<dyn Places>| {
            self.max_staleness
                .is_none_or(|limit| one.check_staleness(limit).is_ok())
        };
        self.all
            .iter()
            .all(|(one, _)| one.is_complete_for(key) && is_new(one))
    }
}
