//! What can go wrong for who waits.

use core::fmt;
use core::time::Duration;

use crate::health::Trouble;

/// The driver has ended, so nothing more will come.
///
/// ```
/// # async fn example(pods: informer_tokio::Informer<informer_tokio::RawJson>) {
/// if let Err(informer_tokio::informer::Ended { .. }) = pods.synced().await {
///     println!("nobody spawned the driver, or it was dropped");
/// }
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the informer's driver has ended: spawn `Driver::run` and keep it running")]
#[non_exhaustive]
pub struct Ended;

informer_core::readable_errors!(Ended);

/// The cache did not become synced in time.
///
/// ```
/// use core::time::Duration;
/// use informer_tokio::informer::StillUnsynced;
/// # async fn example(pods: informer_tokio::Informer<informer_tokio::RawJson>) {
/// match pods.synced_within(Duration::from_secs(30)).await {
///     Ok(()) => println!("all there"),
///     // For a person: "pods.v1 is not synced after 30s: list: the server answered 403 (forbidden): …"
///     Err(error) => println!("{error}"),
/// }
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StillUnsynced {
    /// The driver has ended.
    #[error(transparent)]
    Ended(#[from] Ended),
    /// The time is over.
    #[error("{resource} is not synced after {waited:?}: {reason}")]
    TimedOut {
        /// The informer's name, which is its resource where it was given none.
        resource: String,
        /// How long it was waited for.
        waited: Duration,
        /// What keeps it, and what can be done about it.
        reason: String,
        /// What went wrong with each source that is not synced, as far as something did.
        troubles: Vec<Trouble>,
    },
}

informer_core::readable_errors!(StillUnsynced);

/// Something that is not synced, and why.
///
/// ```
/// # async fn example(factory: informer_tokio::factory::Factory) {
/// if let Err(error) = factory.synced_within(core::time::Duration::from_secs(30)).await {
///     for missing in &error.missing {
///         println!("{}: {}", missing.name, missing.reason);
///     }
/// }
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Missing {
    /// The name of the informer or of the handler.
    pub name: String,
    /// What keeps it, and what can be done about it.
    pub reason: String,
    /// What went wrong with each source that is not synced, as far as something did.
    pub troubles: Vec<Trouble>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.reason)
    }
}

/// Some of those that were waited for did not become synced.
///
/// See [`Missing`] for an example.
///
/// ```
/// # fn example(error: informer_tokio::informer::NotSynced) {
/// println!("{error}"); // not synced after 30s: pods.v1: list: the server answered 403 …; nodes.v1: …
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotSynced {
    /// How long it was waited for.
    pub waited: Duration,
    /// Who is not synced, in the order of names.
    pub missing: Vec<Missing>,
}

impl fmt::Display for NotSynced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not synced after {:?}", self.waited)?;
        for (i, missing) in self.missing.iter().enumerate() {
            write!(f, "{}{missing}", if i == 0 { ": " } else { "; " })?;
        }
        Ok(())
    }
}

impl core::error::Error for NotSynced {}

informer_core::readable_errors!(NotSynced);
