//! The state that an informer records for its health.

use core::ops::AddAssign;
use core::time::Duration;
use std::collections::BTreeSet;
use std::time::SystemTime;

use informer_core::{
    OwnedResource, Report,
    drive::Activity,
    report::{Level, Phase, Problem},
    wire::Format,
};
use tokio::time::Instant;
use tracing::Span;

use super::advice;
use super::freshness::Freshness;
use crate::cache::entry::place;
use crate::health::{SourceHealth, State, Trouble};
use crate::spans::Origin;

/// The state of one source, which lists and watches one namespace.
#[derive(Debug)]
pub(crate) struct SourceRecord {
    pub(crate) resource: OwnedResource,
    /// The namespaces that other sources have. It is empty if this one is of a namespace.
    except: Vec<String>,
    /// It has only a part of the objects of its namespaces, by labels, fields or a shard.
    pub(crate) is_part: bool,
    /// The cluster, if there are several.
    pub(crate) cluster: String,
    /// The number of the join of its cluster. Versions of another join mean nothing.
    pub(crate) join: u64,
    /// Whether the cache has had a complete list of it, or the server has confirmed the data of its journal.
    pub(crate) is_complete: bool,
    /// The list or watch in progress.
    pub(crate) span: Span,
    /// `None` until the driver runs.
    activity: Option<Activity>,
    since: Instant,
    watching_since: Option<Instant>,
    last: Option<Noted>,
    pub(crate) lists: u64,
    /// The time of the journal's last write, if the data comes from a journal and the server has not confirmed it.
    pub(crate) stale_since: Option<SystemTime>,
    watches: u64,
    format: Option<Format>,
    received_bytes: u64,
    /// The bytes since the last failure, and the most between two of them.
    attempt: u64,
    furthest: u64,
    failures: u64,
    audits: u64,
    audited_at: Option<Instant>,
    pub(crate) drifted: usize,
    pub(crate) freshness: Freshness,
    /// The classes of problems that were written to stderr since a request succeeded.
    pub(crate) said: BTreeSet<&'static str>,
    /// Those that were logged with advice.
    pub(crate) advised: BTreeSet<&'static str>,
    /// The time of the first failure with a delay since a request succeeded.
    failing_since: Option<Instant>,
}

/// The end of an outage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovered {
    pub(crate) after: Duration,
    /// Whether the outage was written to stderr.
    pub(crate) was_said: bool,
}

/// What sources have done since the start.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counts {
    pub(crate) lists: u64,
    pub(crate) relists: u64,
    pub(crate) watches: u64,
    pub(crate) received_bytes: u64,
    pub(crate) failures: u64,
    pub(crate) audits: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.lists += other.lists;
        self.relists += other.relists;
        self.watches += other.watches;
        self.received_bytes += other.received_bytes;
        self.failures += other.failures;
        self.audits += other.audits;
    }
}

/// A recorded report.
#[derive(Clone, Debug)]
pub(crate) struct Noted {
    pub(crate) class: &'static str,
    phase: Phase,
    key: Option<String>,
    message: String,
    /// The advice that does not depend on the resource or on the message.
    advice: Option<&'static str>,
    at: Instant,
    retry_at: Option<Instant>,
    over: bool,
}

impl Noted {
    pub(crate) fn of(report: &Report<'_>) -> Self {
        let now = Instant::now();
        Self {
            class: report.class(),
            phase: report.phase,
            key: report.key().map(ToOwned::to_owned),
            message: report.to_string(),
            advice: report.advice(),
            at: now,
            retry_at: report.retry_in.and_then(|wait| now.checked_add(wait)),
            over: false,
        }
    }

    pub(crate) fn is_of_a_request(report: &Report<'_>) -> bool {
        report.level >= Level::Info
            // A warning comes with an answer.
            && !matches!(report.problem, Problem::Warning { .. })
            && advice::verb(report.phase).is_some()
            && report.key().is_none()
    }

    pub(crate) fn trouble(&self, resource: &OwnedResource, now: Instant) -> Trouble {
        let resource = resource.as_ref();
        Trouble {
            class: self.class,
            phase: self.phase.as_str(),
            message: self.message.clone(),
            advice: advice::advice(self.class, self.phase, resource, &self.message)
                .or_else(|| self.advice.map(ToOwned::to_owned)),
            missing_verb: (self.class == "forbidden")
                .then(|| advice::verb(self.phase))
                .flatten(),
            key: self.key.clone(),
            age: now.saturating_duration_since(self.at),
            retry_in: self
                .retry_at
                .map(|at| at.saturating_duration_since(now))
                .filter(|wait| !wait.is_zero()),
            is_over: self.over,
        }
    }

    pub(crate) const fn at(&self) -> Instant {
        self.at
    }
}

/// Returns the field selector that leaves out namespaces.
pub(crate) fn excluding(namespaces: &[String]) -> String {
    let others = namespaces
        .iter()
        .map(|namespace| format!("metadata.namespace!={namespace}"));
    others.collect::<Vec<_>>().join(",")
}

impl SourceRecord {
    pub(crate) fn new(resource: OwnedResource) -> Self {
        let selected = resource.as_ref();
        Self {
            is_part: selected.label_selector.is_some()
                || selected.field_selector.is_some()
                || selected.shard.is_some(),
            resource,
            except: Vec::new(),
            cluster: String::new(),
            join: 0,
            is_complete: false,
            span: Span::none(),
            activity: None,
            since: Instant::now(),
            watching_since: None,
            last: None,
            lists: 0,
            stale_since: None,
            watches: 0,
            format: None,
            received_bytes: 0,
            attempt: 0,
            furthest: 0,
            failures: 0,
            audits: 0,
            audited_at: None,
            drifted: 0,
            freshness: Freshness::default(),
            said: BTreeSet::new(),
            advised: BTreeSet::new(),
            failing_since: None,
        }
    }

    /// Returns whether an object with this key comes from this source.
    pub(crate) fn has(&self, key: &str) -> bool {
        let (cluster, namespace) = place(key);
        let of = self.resource.as_ref().namespace.unwrap_or_default();
        let is_other = || !self.except.iter().any(|except| except == namespace);
        self.cluster == cluster && (of == namespace || of.is_empty() && is_other())
    }

    /// Leaves out these namespaces, unless it is of a namespace.
    pub(crate) fn except(mut self, namespaces: &[String]) -> Self {
        let resource = self.resource.as_ref();
        if resource.namespace.unwrap_or_default().is_empty() && !namespaces.is_empty() {
            let is_others = resource.field_selector == Some(&*excluding(namespaces));
            let is_whole = resource.label_selector.is_none() && resource.shard.is_none();
            self.is_part &= !(is_others && is_whole);
            self.except = namespaces.to_vec();
        }
        self
    }

    /// Returns whether its first list is missing, and is not in progress without a failure so far. Nobody knows when the
    /// cache will show anything of it.
    pub(crate) fn has_no_list(&self) -> bool {
        let has_failed = self.last.as_ref().is_some_and(|last| !last.over);
        !self.is_complete && (self.activity.is_none() || has_failed)
    }

    /// Returns where its objects come from.
    pub(crate) fn origin(&self) -> Origin {
        let namespace = self.resource.as_ref().namespace;
        Origin {
            resource: self.resource.to_string(),
            namespace: namespace.unwrap_or_default().to_owned(),
            cluster: self.cluster.clone(),
        }
    }

    /// Records the activity of the driver. Returns whether it has changed, and whether an outage is over.
    pub(crate) fn activity(&mut self, activity: Activity) -> (bool, Option<Recovered>) {
        let is_same = self.activity.is_some_and(|before| {
            core::mem::discriminant(&before) == core::mem::discriminant(&activity)
        });
        if is_same {
            return (false, None);
        }
        self.activity = Some(activity);
        self.since = Instant::now();
        let opened = matches!(activity, Activity::Watching | Activity::Streaming);
        let recovered = if opened {
            self.watches += 1;
            self.is_well()
        } else {
            None
        };
        self.watching_since = opened.then_some(self.since);
        (true, recovered)
    }

    /// Records bytes that were received.
    pub(crate) const fn received(&mut self, format: Format, bytes: u64) {
        self.format = Some(format);
        self.received_bytes += bytes;
        self.attempt += bytes;
        if self.attempt > self.furthest {
            self.furthest = self.attempt;
        }
    }

    /// Returns a number that grows when more is received than before any failure. An error that is received again and
    /// again is no progress.
    pub(crate) const fn progress(&self) -> u64 {
        self.furthest
    }

    /// Records a completed list, or the completed first part of a streaming list. Returns whether an outage is over.
    pub(crate) fn listed(&mut self) -> Option<Recovered> {
        self.lists += 1;
        let recovered = self.is_well();
        if self.activity == Some(Activity::Streaming) {
            // The stream continues as a watch.
            self.activity = Some(Activity::Watching);
            self.since = Instant::now();
        }
        recovered
    }

    /// Records that the server has confirmed the data of the journal.
    pub(crate) const fn confirmed(&mut self) {
        self.stale_since = None;
    }

    /// Records a completed audit, with the number of objects that differed permanently.
    pub(crate) fn audited(&mut self, drifted: usize) {
        self.audits += 1;
        self.audited_at = Some(Instant::now());
        self.drifted = drifted;
    }

    pub(crate) fn note(&mut self, noted: Noted) {
        if noted.retry_at.is_some() {
            self.failing_since.get_or_insert(noted.at);
        }
        self.failures += 1;
        self.attempt = 0;
        self.last = Some(noted);
    }

    pub(crate) const fn counts(&self) -> Counts {
        Counts {
            lists: self.lists,
            relists: self.lists.saturating_sub(1),
            watches: self.watches,
            received_bytes: self.received_bytes,
            failures: self.failures,
            audits: self.audits,
        }
    }

    pub(crate) const fn last(&self) -> Option<&Noted> {
        self.last.as_ref()
    }

    /// Marks the last problem as resolved, since a request has succeeded.
    fn is_well(&mut self) -> Option<Recovered> {
        self.advised.clear();
        let was_said = !core::mem::take(&mut self.said).is_empty();
        if let Some(last) = &mut self.last {
            last.over = true;
        }
        let since = self.failing_since.take()?;
        Some(Recovered {
            after: since.elapsed(),
            was_said,
        })
    }

    pub(crate) const fn state(&self) -> State {
        match self.activity {
            None => State::NotStarted,
            Some(Activity::Listing) => State::Listing,
            Some(Activity::Streaming) => State::Streaming,
            Some(Activity::Opening) => State::Opening,
            Some(Activity::Watching) => State::Watching,
            Some(Activity::Waiting { .. }) | Some(_) => State::Waiting,
        }
    }

    /// Explains on one line why it is not synced.
    pub(crate) fn reason(&self, now: Instant) -> String {
        let pending = self.last.as_ref().filter(|last| !last.over);
        if let Some(last) = pending {
            let advice = last.trouble(&self.resource, now).advice;
            return match advice {
                Some(advice) => format!("{}. {advice}", last.message),
                None => last.message.clone(),
            };
        }
        let lasts = now.saturating_duration_since(self.since);
        match self.state() {
            State::NotStarted => "there is no activity; is the driver running?".to_owned(),
            State::Listing | State::Streaming => {
                format!("the list has been running for {}", seconds(lasts))
            }
            State::Opening => format!("a watch has had no response for {}", seconds(lasts)),
            State::Watching | State::Waiting | State::Stopping | State::Ended => {
                "the list was not completed".to_owned()
            }
        }
    }

    pub(crate) fn health(
        &self,
        synced: bool,
        resource_version: String,
        now: Instant,
        clock: informer_core::Instant,
    ) -> SourceHealth {
        let staleness = self.freshness.staleness(clock);
        let namespace = self.resource.as_ref().namespace.unwrap_or_default();
        SourceHealth {
            namespace: match self.cluster.as_str() {
                "" => namespace.to_owned(),
                cluster => format!("{cluster}:{namespace}"),
            },
            state: self.state(),
            state_age: now.saturating_duration_since(self.since),
            synced,
            staleness: staleness.ok(),
            staleness_unknown: staleness.err(),
            resource_version,
            watch_age: self
                .watching_since
                .map(|since| now.saturating_duration_since(since)),
            lists: self.lists,
            watches: self.watches,
            format: self.format.map(Format::as_str),
            received_bytes: self.received_bytes,
            failures: self.failures,
            audits: self.audits,
            audit_age: self.audited_at.map(|at| now.saturating_duration_since(at)),
            drifted: self.drifted,
            trouble: self
                .last
                .as_ref()
                .map(|last| last.trouble(&self.resource, now)),
        }
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f32())
}
