//! The predicate that selects a controller's keys.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;

use crate::cache::entry::Key;

/// The predicate of [`Controller::only`](super::Controller::only). A panic in it must neither end the controller nor
/// lose a key.
#[derive(Clone)]
pub(super) struct Only(Arc<dyn Fn(&Key) -> bool + Send + Sync>);

impl Only {
    pub(super) fn new(keep: impl Fn(&Key) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(keep))
    }

    /// Returns a predicate that holds if both hold.
    pub(super) fn and(self, keep: impl Fn(&Key) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |key| (self.0)(key) && keep(key)))
    }

    /// Returns whether the key belongs to the controller. The error is the message of a panic.
    pub(super) fn ask(&self, key: &Key) -> Result<bool, String> {
        // The predicate gets only a shared reference, so a panic leaves nothing inconsistent.
        catch_unwind(AssertUnwindSafe(|| (self.0)(key))).map_err(|panic| {
            let message = crate::cache::panics::message(&*panic);
            format!("in `only`: {message}")
        })
    }

    /// Returns whether the key may enter the queue. A key for which the predicate panics may: the predicate is called
    /// again before the key is reconciled, and the key is retried then.
    pub(super) fn lets_in(&self, key: &Key) -> bool {
        self.ask(key).unwrap_or(true)
    }
}
