//! The versions that the sources have reached, and those who wait for them.

use core::pin::pin;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use informer_core::ResourceVersion;
use informer_core::cache::SourceId;
use tokio::sync::Notify;

use super::entry::Key;

/// The version that the cache has reached, for each source.
pub(crate) type Reached = BTreeMap<SourceId, ResourceVersion<Key>>;

/// The versions that the sources have reached. Waiters are woken in the order in which they have begun to wait, unlike
/// those of a `watch` channel, so that the order of runs of a controller follows from the order of events.
#[derive(Default)]
pub(crate) struct Moves {
    reached: RwLock<Reached>,
    moved: Notify,
}

impl Moves {
    pub(crate) fn new(reached: Reached) -> Self {
        Self {
            reached: RwLock::new(reached),
            moved: Notify::new(),
        }
    }

    pub(crate) fn borrow(&self) -> RwLockReadGuard<'_, Reached> {
        self.reached.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the versions. Waiters look at them if the change returns true.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Reached) -> bool) {
        let has_moved = {
            let mut reached = self.reached.write().unwrap_or_else(PoisonError::into_inner);
            change(&mut reached)
        };
        if has_moved {
            self.moved.notify_waiters();
        }
    }

    /// Waits until a condition of the versions holds.
    pub(crate) async fn until(&self, holds: impl Fn(&Reached) -> bool) {
        loop {
            let mut moved = pin!(self.moved.notified());
            // A change from here on is not missed.
            moved.as_mut().enable();
            if holds(&self.borrow()) {
                return;
            }
            moved.await;
        }
    }
}
