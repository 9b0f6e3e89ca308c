//! Computes the health of an informer.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::collections::BTreeSet;
use std::time::SystemTime;

use informer_core::{Cache, ResourceVersion, cache::SourceId};
use tokio::time::Instant;

use crate::cache::entry::{SharedObject, Store};
use crate::cache::moves::Reached;
use crate::cache::shared::Inner;
use crate::health::error::{Ended, ReadError};
use crate::health::{HandlerHealth, Health, SourceHealth, State, Trouble};

/// The most stale keys that are named.
const STALE_KEYS: usize = 100;

impl<V> Inner<V> {
    pub(crate) fn health(&self) -> Health {
        let now = Instant::now();
        let inner = self;
        let status = *inner.status.borrow();
        let (stopping, ended) = inner.stopped();
        let cache = inner.cache();
        let reached = versions(&cache);
        let resource_version = self.oldest(&reached);
        let is_synced = cache.is_synced();
        let stale_count = cache.stale_len();
        let stale: Vec<String> = cache
            .stale_keys()
            .take(STALE_KEYS)
            .map(ToString::to_string)
            .collect();
        let (objects, bytes) = (cache.len(), cache.bytes());
        let incomplete = cache.is_incomplete();
        let synced: BTreeSet<SourceId> = cache
            .sources()
            .filter(|source| cache.is_source_synced(*source))
            .collect();
        drop(cache);
        let mut sources = inner.each_source(|id, source| {
            let version = reached.get(&id).map(ToString::to_string);
            source.health(
                source.is_complete && synced.contains(&id),
                version.unwrap_or_default(),
                now,
                inner.clock.now(),
            )
        });
        if let Some(since) = ended {
            for source in &mut sources {
                source.state = State::Ended;
                source.state_age = now.saturating_duration_since(since);
                source.watch_age = None;
            }
        }
        let staleness = self.staleness();
        let listeners = inner.delivery().listeners();
        let handlers = listeners.iter().map(|(listener, lag)| HandlerHealth {
            name: listener.name.clone(),
            synced: listener.is_synced(),
            lag: *lag,
            calls: listener.calls(),
            panics: listener.panics(),
        });
        let (state, state_age) = match (stopping, ended) {
            (_, Some(since)) => (State::Ended, now.saturating_duration_since(since)),
            (Some(since), None) => (State::Stopping, now.saturating_duration_since(since)),
            (None, None) => worst(&sources),
        };
        let counts = inner.counts();
        let applied = inner.applied();
        Health {
            name: inner.name.clone(),
            resource: inner.resource.to_string(),
            at: SystemTime::now(),
            state,
            state_age,
            synced: is_synced,
            staleness: staleness.ok(),
            staleness_unknown: staleness.err(),
            stale_since: self.stale_since(),
            ended: status.ended,
            incomplete,
            objects,
            bytes,
            resource_version,
            queued: inner.queued.load(Ordering::Relaxed),
            deltas: applied.deltas,
            processing: applied.times,
            lists: counts.lists,
            relists: counts.relists,
            watches: counts.watches,
            received_bytes: counts.received_bytes,
            failures: counts.failures,
            watch_age: sources.iter().filter_map(|source| source.watch_age).min(),
            audits: counts.audits,
            audit_age: oldest_audit(&sources),
            drifted: sources.iter().map(|source| source.drifted).sum(),
            reports: self.reports(),
            last_error: self.last_error(now),
            stale,
            stale_count,
            sources,
            handlers: handlers.collect(),
            hook_panics: inner.hook_panics(),
        }
    }

    /// Returns the longest staleness of the sources, or why one of them is not known.
    fn staleness(&self) -> Result<Duration, &'static str> {
        let now = self.clock.now();
        let of_sources = self.each_source(|_, source| source.freshness.staleness(now));
        let worst = of_sources
            .into_iter()
            .reduce(|worst, one| Ok(worst?.max(one?)));
        worst.unwrap_or(Err("there is no namespace and no cluster"))
    }

    /// Checks that the cache has lacked no change for longer than this.
    pub(crate) fn check_staleness(&self, limit: Duration) -> Result<(), ReadError> {
        let found = match self.staleness() {
            Ok(staleness) if staleness <= limit => return Ok(()),
            Ok(staleness) => {
                format!(
                    "changes of the last {} s may be missing",
                    staleness.as_secs()
                )
            }
            Err(why) => format!("that is not known: {why}"),
        };
        let informer = self.name.clone();
        Err(ReadError::TooOld {
            informer,
            limit,
            found,
        })
    }

    /// The last report. If it is about the requests of a source, the source knows whether it is resolved.
    fn last_error(&self, now: Instant) -> Option<Trouble> {
        if let Some(failure) = self.failure() {
            return Some(failure.trouble(&self.resource, now));
        }
        let last = self.last_report()?;
        let of_a_source = self.each_source(|_, source| {
            let own = source
                .last()
                .filter(|own| own.at() == last.at() && own.class == last.class)?;
            Some(own.trouble(&source.resource, now))
        });
        let of_a_source = of_a_source.into_iter().flatten().next();
        of_a_source.or_else(|| Some(last.trouble(&self.resource, now)))
    }

    /// The reason why the informer is not synced, from each source that is not synced.
    pub(crate) fn why(&self) -> (String, Vec<Trouble>) {
        let now = Instant::now();
        let status = *self.status.borrow();
        if let Some(failure) = self.failure() {
            let trouble = failure.trouble(&self.resource, now);
            return (trouble.message.clone(), vec![trouble]);
        }
        if status.closed {
            return (Ended.to_string(), Vec::new());
        }
        let mut sources = self.each_source(|id, _| id);
        let are_several = sources.len() > 1;
        {
            let cache = self.cache();
            sources.retain(|id| !cache.is_source_synced(*id));
        }
        let mut troubles = Vec::new();
        let mut reasons = Vec::new();
        self.each_source(|id, source| {
            if !sources.contains(&id) {
                return;
            }
            troubles.extend(
                source
                    .last()
                    .map(|last| last.trouble(&source.resource, now)),
            );
            let reason = source.reason(now);
            reasons.push(match source.resource.as_ref().namespace {
                Some(namespace) if are_several => format!("{namespace}: {reason}"),
                _ => reason,
            });
        });
        (reasons.join("; "), troubles)
    }

    /// Returns the resourceVersion that the cache has reached; the oldest of several sources.
    ///
    /// It is read from the cache, since a listener can be notified of a change before `reached` is updated.
    pub(crate) fn resource_version(&self) -> String {
        self.oldest(&versions(&self.cache()))
    }

    /// Returns the oldest version of those sources that list and watch.
    fn oldest(&self, versions: &Reached) -> String {
        let unknown = ResourceVersion::default();
        let versions = self.each_source(|id, _| versions.get(&id).unwrap_or(&unknown));
        let oldest = versions
            .into_iter()
            .reduce(|oldest, other| match other.compare(oldest) {
                Some(order) if order.is_ge() => oldest,
                // A version that is unknown or not comparable counts as the oldest.
                _ => other,
            });
        oldest.map(ToString::to_string).unwrap_or_default()
    }

    /// Returns whether the cache has been synced, as listeners are notified of it.
    pub(crate) fn is_synced(&self) -> bool {
        self.cache().is_synced()
    }
}

/// Returns the worst state of the sources, and for how long a source has been in it.
fn worst(sources: &[SourceHealth]) -> (State, Duration) {
    sources
        .iter()
        .map(|source| (source.state, source.state_age))
        .max()
        .unwrap_or((State::NotStarted, Duration::ZERO))
}

/// Returns the age of the oldest of the sources' last audits; `None` if one has had none.
fn oldest_audit(sources: &[SourceHealth]) -> Option<Duration> {
    sources
        .iter()
        .map(|source| source.audit_age)
        .try_fold(Duration::ZERO, |most, age| Some(most.max(age?)))
        .filter(|_| !sources.is_empty())
}

/// Returns the version of each source.
fn versions<V>(cache: &Cache<SharedObject<V>, Store>) -> Reached {
    let sources = cache.sources();
    sources
        .filter_map(|id| Some((id, cache.version(id)?.clone())))
        .collect()
}
