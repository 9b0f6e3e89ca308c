//! Errors of futures that wait for an informer.

use core::error::Error;
use core::fmt;
use core::time::Duration;

use crate::cache::entry::Key;
use crate::health::Trouble;

/// Returns the text of an error with those of its sources.
pub(crate) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Many errors name their source themselves.
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// The driver has ended, so no further events will arrive.
///
/// ```
/// # async fn example(pods: informer_tokio::Informer<informer_tokio::Raw>) {
/// if let Err(informer_tokio::informer::Ended { .. }) = pods.synced().await {
///     println!("the driver was not spawned, or it was dropped");
/// }
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the informer's driver has ended: spawn `Driver::run` and keep it running")]
#[non_exhaustive]
pub struct Ended;

informer_core::readable_errors!(Ended);

/// The cache was not synced in time.
///
/// ```
/// use core::time::Duration;
/// use informer_tokio::informer::StillUnsynced;
/// # async fn example(pods: informer_tokio::Informer<informer_tokio::Raw>) {
/// match pods.synced_within(Duration::from_secs(30)).await {
///     Ok(()) => println!("synced"),
///     // For example "pods.v1 is not synced after 30s: list: the server answered 403 (forbidden): …"
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
        /// The informer's name. By default, it is its resource.
        resource: String,
        /// The length of the wait.
        waited: Duration,
        /// The reason, with advice.
        reason: String,
        /// The last problem of each source that is not synced, if there is one.
        troubles: Vec<Trouble>,
    },
}

informer_core::readable_errors!(StillUnsynced);

/// An informer or a handler that is not synced, with the reason.
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
    /// The reason, with advice.
    pub reason: String,
    /// The last problem of each source that is not synced, if there is one.
    pub troubles: Vec<Trouble>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.reason)
    }
}

/// Some of the informers or handlers were not synced in time.
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
    /// The length of the wait.
    pub waited: Duration,
    /// The ones that are not synced, ordered by name.
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

impl Error for NotSynced {}

informer_core::readable_errors!(NotSynced);

/// The cache does not know: of an object, so that its absence means nothing, or of the latest changes.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The informer does not watch the namespace or the cluster of the key.
    #[error("{informer} does not watch the namespace of {key}: add it to its namespaces or parts")]
    NotWatched {
        /// The name of the informer.
        informer: String,
        /// The key of the object.
        key: Key,
    },
    /// The first list is missing.
    #[error("{informer} has had no list that could have {key}: wait until it is synced")]
    NotListed {
        /// The name of the informer.
        informer: String,
        /// The key of the object.
        key: Key,
    },
    /// The cache may be older than it should be.
    #[error("{informer} may be older than {limit:?}: {found}")]
    TooOld {
        /// The name of the informer.
        informer: String,
        /// The longest time for which a change may be missing.
        limit: Duration,
        /// The time for which one may be missing, or why that is not known.
        found: String,
    },
}

informer_core::readable_errors!(ReadError);
