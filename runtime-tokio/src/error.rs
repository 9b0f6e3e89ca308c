//! What can go wrong for who waits.

use core::time::Duration;

/// The driver has ended, so nothing more will come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the informer's driver has ended: spawn `Driver::run` and keep it running")]
#[non_exhaustive]
pub struct Ended;

/// The cache did not become synced in time.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StillUnsynced {
    /// The driver has ended.
    #[error(transparent)]
    Ended(#[from] Ended),
    /// The time is over.
    #[error("{resource} is not synced after {waited:?}: {reason}")]
    TimedOut {
        /// What is listed and watched.
        resource: String,
        /// How long it was waited for.
        waited: Duration,
        /// What was last reported, as far as anything was.
        reason: String,
    },
}
