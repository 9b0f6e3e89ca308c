//! Which keys the controller reconciles, and what becomes of the others.

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::seat::Seat;
use crate::cache::entry::Key;

/// The predicate of [`Controller::only`](super::Controller::only), and the [`Seat`] of this replica. A panic in the
/// predicate must neither end the controller nor lose a key.
#[derive(Clone)]
pub(super) struct Only {
    keep: Arc<dyn Fn(&Key) -> bool + Send + Sync>,
    seat: Option<Seat>,
    refused: Arc<Refused>,
    /// Returns whether a key is that of an object, which is added anyway when keys move to this replica.
    is_object: Arc<dyn Fn(&Key) -> bool + Send + Sync>,
}

/// What came while it belonged to another replica.
#[derive(Default)]
pub(super) struct Refused {
    /// Each key once, without the keys of objects.
    keys: Mutex<BTreeSet<Key>>,
    /// Whether there was a key since this was last taken.
    any: AtomicBool,
    changed: Notify,
}

impl Only {
    /// Creates one that accepts all keys. `is_object` returns whether a key is that of an object of the controller.
    pub(super) fn new(is_object: impl Fn(&Key) -> bool + Send + Sync + 'static) -> Self {
        Self {
            keep: Arc::new(|_| true),
            seat: None,
            refused: Arc::default(),
            is_object: Arc::new(is_object),
        }
    }

    /// Returns one that accepts a key if `keep` holds as well.
    pub(super) fn and(self, keep: impl Fn(&Key) -> bool + Send + Sync + 'static) -> Self {
        let before = self.keep;
        Self {
            keep: Arc::new(move |key| before(key) && keep(key)),
            ..self
        }
    }

    /// Returns one that accepts a key only while it belongs to this replica.
    pub(super) fn seated(self, seat: Seat) -> Self {
        Self {
            seat: Some(seat),
            ..self
        }
    }

    /// Returns whether the key belongs to the controller. The error is the message of a panic. A key of another replica
    /// is kept until it moves to this one.
    pub(super) fn ask(&self, key: &Key) -> Result<bool, String> {
        // The predicate gets only a shared reference, so a panic leaves nothing inconsistent.
        let keeps = catch_unwind(AssertUnwindSafe(|| (self.keep)(key))).map_err(|panic| {
            let message = crate::cache::panics::message(&*panic);
            format!("in `only`: {message}")
        })?;
        Ok(keeps && self.is_own(key))
    }

    /// Returns whether the key may enter the queue. A key for which the predicate panics may: the predicate is called
    /// again before the key is reconciled, and the key is retried then.
    pub(super) fn admits(&self, key: &Key) -> bool {
        self.ask(key).unwrap_or(true)
    }

    pub(super) fn refused(&self) -> Arc<Refused> {
        Arc::clone(&self.refused)
    }

    /// Takes the kept keys that belong to this replica now.
    pub(super) fn take_own(&self) -> BTreeSet<Key> {
        let Some(seat) = &self.seat else {
            return BTreeSet::new();
        };
        self.refused.any.store(false, Ordering::Release);
        let mut keys = self.refused.keys();
        let (own, others) = core::mem::take(&mut *keys)
            .into_iter()
            .partition(|key| seat.owns(key));
        *keys = others;
        own
    }

    fn is_own(&self, key: &Key) -> bool {
        let Some(seat) = self.seat.as_ref().filter(|seat| !seat.owns(key)) else {
            return true;
        };
        let is_object = (self.is_object)(key);
        if !is_object {
            self.refused.keys().insert(key.clone());
        }
        self.refused.any.store(true, Ordering::Release);
        if !seat.owns(key) {
            self.refused.changed.notify_one();
            return false;
        }
        // It has moved here meanwhile, perhaps before it was kept.
        self.refused.keys().remove(key);
        true
    }
}

impl Refused {
    /// Waits until a key is refused after the keys were last taken.
    pub(super) async fn any(&self) {
        while !self.any.load(Ordering::Acquire) {
            self.changed.notified().await;
        }
    }

    fn keys(&self) -> MutexGuard<'_, BTreeSet<Key>> {
        // No code of users runs under this lock.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
