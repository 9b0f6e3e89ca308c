//! The health of an informer as a value.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;
use std::time::SystemTime;

use informer_core::queue::Spread;
use serde::{Serialize, Serializer};

/// The bounds of [`Health::processing`], which are those of client-go.
pub(crate) const PROCESSING: [Duration; 12] = {
    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }
    [
        ms(1),
        ms(5),
        ms(10),
        ms(25),
        ms(50),
        ms(100),
        ms(250),
        ms(500),
        ms(1000),
        ms(2500),
        ms(5000),
        ms(10_000),
    ]
};

/// A snapshot of an informer's health: whether it is synced, and if not, why.
///
/// It can be serialized with serde. Durations are seconds, and times are seconds since 1970. Later versions may add
/// fields to the JSON.
///
/// ```
/// # async fn show(pods: informer_tokio::Informer<informer_tokio::Raw>) -> Result<(), serde_json::Error> {
/// let health = pods.health();
/// println!("{} is {} for {:?}: {} objects", health.name, health.state, health.state_age, health.objects);
/// if let Some(trouble) = &health.last_error {
///     println!("{}: {}", trouble.message, trouble.advice.as_deref().unwrap_or("no action is needed"));
/// }
/// println!("{}", serde_json::to_string_pretty(&health)?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Health {
    /// The informer's name.
    pub name: String,
    /// The resource that it lists and watches, such as `pods.v1`.
    pub resource: String,
    /// The time of the snapshot.
    #[serde(serialize_with = "moment")]
    pub at: SystemTime,
    /// The current activity. If there are several sources, it is the worst one.
    pub state: State,
    /// How long it has been in this state.
    #[serde(serialize_with = "seconds", rename = "state_age_seconds")]
    pub state_age: Duration,
    /// Whether the cache is synced: it has received a complete list.
    pub synced: bool,
    /// The longest time for which the cache may have lacked a change that the server had; the longest one of several
    /// sources. `None` if it is not known. See [`Builder::probe`](crate::informer::Builder::probe).
    #[serde(serialize_with = "opt_seconds", rename = "staleness_seconds")]
    pub staleness: Option<Duration>,
    /// Why it is not known.
    pub staleness_unknown: Option<&'static str>,
    /// The time since which the cache may be stale, if it was restored from a journal and no server has confirmed it
    /// since.
    #[serde(serialize_with = "opt_moment")]
    pub stale_since: Option<SystemTime>,
    /// Whether the driver has ended.
    pub ended: bool,
    /// Whether an object is missing: it did not fit, or it will come with the list that is due.
    pub incomplete: bool,
    /// The number of objects.
    pub objects: usize,
    /// The bytes of JSON of the objects, as received. Their memory depends on the decoder.
    pub bytes: usize,
    /// The resourceVersion that the cache has reached; the oldest of several sources. It is empty if there is none.
    pub resource_version: String,
    /// The number of objects that were received and are not in the cache yet.
    pub queued: usize,
    /// The number of objects that lists and watches have brought, deletions included.
    pub deltas: u64,
    /// The times in which a batch of them was put into the cache and into the backlogs of handlers. It is not in the JSON.
    #[serde(skip)]
    pub processing: Spread,
    /// The number of completed lists, including the first one. This and the other counts include the sources that have
    /// left.
    pub lists: u64,
    /// The number of relists: all lists after each source's first one.
    pub relists: u64,
    /// The number of opened watches.
    pub watches: u64,
    /// The number of bytes of response bodies, decompressed.
    pub received_bytes: u64,
    /// The number of failed requests.
    pub failures: u64,
    /// How long the current watch has been open; the most recent one of several.
    #[serde(serialize_with = "opt_seconds", rename = "watch_age_seconds")]
    pub watch_age: Option<Duration>,
    /// The number of completed [audits](crate::informer::AuditConfig).
    pub audits: u64,
    /// The time since the last completed audit; the longest of several sources. `None` if a source has had no audit
    /// yet.
    #[serde(serialize_with = "opt_seconds", rename = "audit_age_seconds")]
    pub audit_age: Option<Duration>,
    /// The number of objects that differed permanently from the server in the last audit.
    pub drifted: usize,
    /// The number of reports of each [class](crate::health::Report::class).
    pub reports: BTreeMap<&'static str, u64>,
    /// The last problem of any kind.
    pub last_error: Option<Trouble>,
    /// The keys of objects in an older state because the latest one could not be used. At most 100 of them.
    pub stale: Vec<String>,
    /// The number of such objects.
    pub stale_count: usize,
    /// The sources. There is one, or one for each namespace and shard.
    pub sources: Vec<SourceHealth>,
    /// The handlers and subscriptions.
    pub handlers: Vec<HandlerHealth>,
    /// The number of panics in user-defined functions: `on_report`, `on_version`, the metrics recorder, the tracing
    /// subscriber. The first panic of each is reported. Panics of handlers are counted with the handler.
    pub hook_panics: u64,
}

impl Health {
    /// Returns whether the informer is synced, complete and running, without stale objects.
    ///
    /// Use it in readiness probes.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.synced && !self.ended && !self.incomplete && self.stale_count == 0
    }

    /// Returns the problems that currently keep the informer from working.
    pub fn troubles(&self) -> impl Iterator<Item = &Trouble> {
        self.sources
            .iter()
            .filter_map(|source| source.trouble.as_ref())
            .filter(|trouble| !trouble.is_over)
    }
}

/// The activity of an informer or a source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum State {
    /// It watches. This is the normal state.
    Watching,
    /// It opens a watch.
    Opening,
    /// It lists.
    Listing,
    /// It receives a streaming list.
    Streaming,
    /// Its driver has not started.
    NotStarted,
    /// A request failed, and it waits before the next attempt.
    Waiting,
    /// It was stopped, and handlers get the pending notifications.
    Stopping,
    /// It has ended.
    Ended,
}

impl State {
    /// Returns the state as a word that is stable across versions.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Watching => "watching",
            Self::Opening => "opening",
            Self::Listing => "listing",
            Self::Streaming => "streaming",
            Self::NotStarted => "not-started",
            Self::Waiting => "waiting",
            Self::Stopping => "stopping",
            Self::Ended => "ended",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A problem, with advice.
///
/// ```
/// # fn show(pods: &informer_tokio::Informer<informer_tokio::Raw>) {
/// if let Some(trouble) = pods.health().last_error
///     && let Some(verb) = trouble.missing_verb
/// {
///     println!("RBAC does not grant the verb {verb}: {}", trouble.advice.unwrap_or_default());
/// }
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Trouble {
    /// The class, a word that is stable across versions; see [`Report::class`](crate::health::Report::class).
    pub class: &'static str,
    /// The phase: `list`, `watch`, `streaming list`, `cache`, `handler`, `audit`, `journal` or `driver`.
    pub phase: &'static str,
    /// The message, on one line.
    pub message: String,
    /// Advice for a person; `None` if there is none.
    pub advice: Option<String>,
    /// The verb that RBAC does not grant, if that is the problem.
    pub missing_verb: Option<&'static str>,
    /// The key of the affected object.
    pub key: Option<String>,
    /// The time since the problem occurred.
    #[serde(serialize_with = "seconds", rename = "age_seconds")]
    pub age: Duration,
    /// The time until the next attempt.
    #[serde(serialize_with = "opt_seconds", rename = "retry_in_seconds")]
    pub retry_in: Option<Duration>,
    /// Whether a list or a watch has succeeded since.
    pub is_over: bool,
}

/// Writes the message and the advice.
impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.advice {
            Some(advice) => write!(f, ". {advice}"),
            None => Ok(()),
        }
    }
}

/// The health of one source. An informer of several namespaces has one for each.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct SourceHealth {
    /// The namespace, or an empty string for all namespaces.
    pub namespace: String,
    /// The current activity.
    pub state: State,
    /// How long it has been in this state.
    #[serde(serialize_with = "seconds", rename = "state_age_seconds")]
    pub state_age: Duration,
    /// Whether it is synced.
    pub synced: bool,
    /// The longest time for which the cache may have lacked a change that the server had.
    #[serde(serialize_with = "opt_seconds", rename = "staleness_seconds")]
    pub staleness: Option<Duration>,
    /// Why it is not known.
    pub staleness_unknown: Option<&'static str>,
    /// The resourceVersion that the cache has reached for this source.
    pub resource_version: String,
    /// How long its watch has been open.
    #[serde(serialize_with = "opt_seconds", rename = "watch_age_seconds")]
    pub watch_age: Option<Duration>,
    /// The number of completed lists.
    pub lists: u64,
    /// The number of opened watches.
    pub watches: u64,
    /// The format of the responses: `json` or `protobuf`.
    pub format: Option<&'static str>,
    /// The number of bytes of response bodies, decompressed.
    pub received_bytes: u64,
    /// The number of failed requests.
    pub failures: u64,
    /// The number of completed audits.
    pub audits: u64,
    /// The time since the last completed audit.
    #[serde(serialize_with = "opt_seconds", rename = "audit_age_seconds")]
    pub audit_age: Option<Duration>,
    /// The number of objects that differed permanently from the server in the last audit.
    pub drifted: usize,
    /// The last problem of its requests.
    pub trouble: Option<Trouble>,
}

/// The health of a handler or a subscription.
///
/// ```
/// # fn show(pods: &informer_tokio::Informer<informer_tokio::Raw>) {
/// let health = pods.health();
/// let slow = health.handlers.iter().filter(|handler| handler.lag.pending > 1000);
/// for handler in slow {
///     println!("{} is behind: {:?}", handler.name, handler.lag);
/// }
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct HandlerHealth {
    /// The name.
    pub name: String,
    /// Whether it was notified of the whole initial list.
    pub synced: bool,
    /// How far it is behind.
    #[serde(flatten)]
    pub lag: Lag,
    /// The number of calls.
    pub calls: u64,
    /// The number of calls that panicked.
    pub panics: u64,
}

/// How far a handler or a subscription is behind.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct Lag {
    /// The number of pending notifications, after coalescing.
    pub pending: usize,
    /// The number of notifications that were merged into others of the same key because the handler was too slow.
    pub merged: u64,
    /// How long it has continuously had pending notifications.
    #[serde(serialize_with = "seconds", rename = "behind_seconds")]
    pub behind: Duration,
    /// How long the current call has been running.
    #[serde(serialize_with = "opt_seconds", rename = "call_seconds")]
    pub call: Option<Duration>,
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

fn opt_seconds<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.serialize_some(&time.as_secs_f64()),
        None => serializer.serialize_none(),
    }
}

fn opt_moment<S: Serializer>(at: &Option<SystemTime>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => moment(at, serializer),
        None => serializer.serialize_none(),
    }
}

fn moment<S: Serializer>(at: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    let since_1970 = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    serializer.serialize_f64(since_1970.as_secs_f64())
}
