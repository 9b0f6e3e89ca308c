//! How an informer is, as a value.

use core::fmt;
use core::time::Duration;
use std::time::SystemTime;

use serde::{Serialize, Serializer};

/// How an informer is at one moment: the answer to "is it synced, and if not, why?".
///
/// It serializes by serde; durations are seconds, and moments are seconds since 1970. Members may be added to its JSON.
///
/// ```
/// # async fn show(pods: informer_tokio::Informer<informer_tokio::RawJson>) -> Result<(), serde_json::Error> {
/// let health = pods.health();
/// println!("{} is {} for {:?}: {} objects", health.name, health.state, health.state_age, health.objects);
/// if let Some(trouble) = &health.last_error {
///     println!("{}: {}", trouble.message, trouble.advice.as_deref().unwrap_or("it will mend itself"));
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
    /// What it lists and watches, such as `pods.v1`.
    pub resource: String,
    /// When this was asked.
    #[serde(serialize_with = "moment")]
    pub at: SystemTime,
    /// What it is about. Of several sources it is that of the one that is worst off.
    pub state: State,
    /// For how long it has been in this state.
    #[serde(serialize_with = "seconds", rename = "state_age_seconds")]
    pub state_age: Duration,
    /// Whether the cache has shown a complete list.
    pub synced: bool,
    /// Since when the cache may be stale: it was restored from a journal, and no server has confirmed it since.
    #[serde(serialize_with = "opt_moment")]
    pub stale_since: Option<SystemTime>,
    /// Whether the driver has ended.
    pub ended: bool,
    /// Whether something was refused for want of room, so that the cache is not complete.
    pub incomplete: bool,
    /// How many objects there are.
    pub objects: usize,
    /// How many bytes the objects had as they came, as JSON. What they take in memory depends on the decoder.
    pub bytes: usize,
    /// The resourceVersion that the cache shows; of several sources the oldest one. Empty where it has none.
    pub resource_version: String,
    /// How many lists were completed, the first one included.
    pub lists: u64,
    /// How many of them were relists: more than each source's first one.
    pub relists: u64,
    /// How many requests failed, or ended in a failure.
    pub failures: u64,
    /// For how long the watch that is under way has been open; of several the youngest.
    #[serde(serialize_with = "opt_seconds", rename = "watch_age_seconds")]
    pub watch_age: Option<Duration>,
    /// How many [audits](crate::informer::AuditConfig) have come to their end.
    pub audits: u64,
    /// How long ago the last one did; of several sources the one for which that is longest ago. `None` where one of them
    /// had none yet.
    #[serde(serialize_with = "opt_seconds", rename = "audit_age_seconds")]
    pub audit_age: Option<Duration>,
    /// How many objects differed from the server for good when the last one ended.
    pub drifted: usize,
    /// What last went wrong, of whatever kind.
    pub last_error: Option<Trouble>,
    /// The keys of objects whose latest state could not be used; an older one is shown. At most 100 of them.
    pub stale: Vec<String>,
    /// How many such objects there are.
    pub stale_count: usize,
    /// Each list and watch: one, or one for each namespace.
    pub sources: Vec<SourceHealth>,
    /// Handlers and subscriptions.
    pub handlers: Vec<HandlerHealth>,
    /// How many calls of user-defined functions panicked: `on_report`, `on_version`, the metrics recorder, the tracing
    /// subscriber. The first panic of each is reported. Those of handlers are counted with the handler.
    pub hook_panics: u64,
}

impl Health {
    /// Tells whether all is well: it is synced, complete, and nothing of it is stuck at present.
    ///
    /// It is what a readiness probe asks.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.synced && !self.ended && !self.incomplete && self.stale_count == 0
    }

    /// Returns what keeps the informer from working right now: the failures that nothing has mended since.
    pub fn troubles(&self) -> impl Iterator<Item = &Trouble> {
        self.sources
            .iter()
            .filter_map(|source| source.trouble.as_ref())
            .filter(|trouble| !trouble.is_over)
    }
}

/// What an informer, or one source of it, is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum State {
    /// It watches, which is its ordinary state.
    Watching,
    /// It opens a watch.
    Opening,
    /// It lists.
    Listing,
    /// It takes the state from a streaming list.
    Streaming,
    /// Its driver does not run yet.
    NotStarted,
    /// Something failed, and it waits before the next attempt.
    Waiting,
    /// It was stopped, and handlers get what is pending.
    Stopping,
    /// It has ended.
    Ended,
}

impl State {
    /// Returns the state as a word that does not change between versions.
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

/// Something that went wrong, and what can be done about it.
///
/// ```
/// # fn show(pods: &informer_tokio::Informer<informer_tokio::RawJson>) {
/// if let Some(trouble) = pods.health().last_error
///     && let Some(verb) = trouble.missing_verb
/// {
///     println!("RBAC lacks the verb {verb}: {}", trouble.advice.unwrap_or_default());
/// }
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Trouble {
    /// Its class: a word that does not change between versions, as in [`Report::class`](crate::health::Report::class).
    pub class: &'static str,
    /// What was being done: `list`, `watch`, `streaming list`, `cache` or `handler`.
    pub phase: &'static str,
    /// What happened, in a line.
    pub message: String,
    /// What a person can do about it; `None` where there is nothing to be said.
    pub advice: Option<String>,
    /// The verb that RBAC does not grant, where that is the trouble.
    pub missing_verb: Option<&'static str>,
    /// The key of the object that it is about.
    pub key: Option<String>,
    /// How long ago it was.
    #[serde(serialize_with = "seconds", rename = "age_seconds")]
    pub age: Duration,
    /// In how long the next attempt is made.
    #[serde(serialize_with = "opt_seconds", rename = "retry_in_seconds")]
    pub retry_in: Option<Duration>,
    /// Whether the server has agreed to a list or a watch since.
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

/// How one list and watch is: an informer of several namespaces has one for each.
///
/// ```
/// # fn show(pods: &informer_tokio::Informer<informer_tokio::RawJson>) {
/// for source in &pods.health().sources {
///     println!("{}: {} at {}", source.namespace, source.state, source.resource_version);
/// }
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct SourceHealth {
    /// The namespace; empty for all of them.
    pub namespace: String,
    /// What it is about.
    pub state: State,
    /// For how long.
    #[serde(serialize_with = "seconds", rename = "state_age_seconds")]
    pub state_age: Duration,
    /// Whether it has shown a complete list.
    pub synced: bool,
    /// The resourceVersion that the cache shows of it.
    pub resource_version: String,
    /// For how long its watch has been open.
    #[serde(serialize_with = "opt_seconds", rename = "watch_age_seconds")]
    pub watch_age: Option<Duration>,
    /// How many lists were completed.
    pub lists: u64,
    /// How many watches were opened.
    pub watches: u64,
    /// How many requests failed, or ended in a failure.
    pub failures: u64,
    /// How many audits have come to their end.
    pub audits: u64,
    /// How long ago the last one did.
    #[serde(serialize_with = "opt_seconds", rename = "audit_age_seconds")]
    pub audit_age: Option<Duration>,
    /// How many objects differed from the server for good when the last one ended.
    pub drifted: usize,
    /// What last went wrong with its requests.
    pub trouble: Option<Trouble>,
}

/// How a handler or a subscription is.
///
/// ```
/// # fn show(pods: &informer_tokio::Informer<informer_tokio::RawJson>) {
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
    /// Its name.
    pub name: String,
    /// Whether it was called with the whole first state.
    pub synced: bool,
    /// How far it is behind.
    #[serde(flatten)]
    pub lag: Lag,
    /// How many calls it had.
    pub calls: u64,
    /// How many of them panicked.
    pub panics: u64,
}

/// How far a handler or a subscription is behind.
///
/// ```
/// # fn show(handle: &informer_tokio::handler::HandlerHandle<informer_tokio::RawJson>) {
/// let lag = handle.lag();
/// println!("{} wait, the oldest for {:?}; {} were merged", lag.pending, lag.behind, lag.merged);
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
#[non_exhaustive]
pub struct Lag {
    /// How many notifications wait to be told, merged ones counted as they are.
    pub pending: usize,
    /// How many were not told one by one, because it was too slow: they were merged by key.
    pub merged: u64,
    /// For how long something has been waiting without a break: since it last had nothing to do.
    #[serde(serialize_with = "seconds", rename = "behind_seconds")]
    pub behind: Duration,
    /// For how long the call that is under way has been running.
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
