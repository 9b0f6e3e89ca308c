//! Which keys are the controller's.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;

use crate::cache::entry::Key;

/// What [`Controller::only`](super::Controller::only) was given, which may panic: that must not end the controller, nor
/// lose a key.
#[derive(Clone)]
pub(super) struct Only(Arc<dyn Fn(&Key) -> bool + Send + Sync>);

impl Only {
    pub(super) fn new(keep: impl Fn(&Key) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(keep))
    }

    /// Tells whether the key is the controller's, or what the function panicked with.
    pub(super) fn ask(&self, key: &Key) -> Result<bool, String> {
        // It is given nothing that it could leave half done.
        catch_unwind(AssertUnwindSafe(|| (self.0)(key))).map_err(|panic| {
            let message = crate::cache::panics::message(&*panic);
            format!("in `only`: {message}")
        })
    }

    /// Tells whether the key may wait in the queue. One with which the function panics may: it is asked again before it
    /// is reconciled, and tried again then.
    pub(super) fn lets_in(&self, key: &Key) -> bool {
        self.ask(key).unwrap_or(true)
    }
}
