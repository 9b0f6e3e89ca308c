//! Audits: lists of metadata that are compared with the cache.

use std::sync::Arc;

use informer_core::cache::SourceId;
use informer_core::{
    Decoder, Frame, Instant, Meta, RawObject, Reflector, ReflectorConfig, Report, ResourceVersion,
    Sink, Timer as _, Transport,
    audit::{Audit, AuditConfig, AuditEntry, AuditStep, AuditVerdict},
    drive,
    report::{Phase, Problem},
};
use tokio::sync::mpsc;
use tracing::{Instrument as _, Span};

use crate::cache::entry::{Key, SharedObject, Store};
use crate::cache::shared::Inner;
use crate::driver::guard::Guarded;
use crate::spans;
use crate::timer::TokioTimer;

/// The most differences that are reported individually.
const REPORTED: usize = 100;

/// A source under audit.
pub(crate) struct Audited<V> {
    pub(crate) inner: Arc<Inner<V>>,
    pub(crate) source: SourceId,
    pub(crate) config: ReflectorConfig,
    pub(crate) seed: u64,
    pub(crate) timer: TokioTimer,
    /// Requests a relist of the source.
    pub(crate) repair: mpsc::Sender<()>,
}

impl<V> Audited<V> {
    /// Audits until the informer stops.
    pub(crate) async fn run<T: Transport>(self, transport: T, config: AuditConfig) {
        let mut status = self.inner.status.subscribe();
        tokio::select! {
            biased;
            // An error would mean that the sender is dropped, but `inner` holds it.
            _ = status.wait_for(|status| status.stopping) => {}
            () = self.audit(transport, config) => {}
        }
    }

    async fn audit<T: Transport>(&self, transport: T, config: AuditConfig) {
        let mut transport = Guarded::traced(transport, Span::current);
        let mut audit = Audit::new(config, self.seed);
        let mut timer = self.timer;
        loop {
            let reached = &self.inner.reached;
            let version = reached.borrow().get(&self.source).cloned();
            let version = version.unwrap_or_default();
            match audit.poll(timer.now(), &version) {
                AuditStep::Wait(until) => timer.sleep_until(until).await,
                AuditStep::Behind(until) => tokio::select! {
                    biased;
                    () = timer.sleep_until(until) => {}
                    () = reached.until(|now| now.get(&self.source).is_some_and(|now| *now != version)) => {}
                },
                AuditStep::List => {
                    let span = self.inner.new_span(self.source, spans::audit);
                    self.list(&mut audit, &mut transport).instrument(span).await;
                }
                AuditStep::Compare => self.compare(&mut audit, &version),
            }
        }
    }

    async fn list<T: Transport>(&self, audit: &mut Audit<Key>, transport: &mut T) {
        let mut timer = self.timer;
        let resource = self
            .inner
            .source(self.source, |source| source.resource.clone());
        let is_synced = self.inner.cache().is_source_synced(self.source);
        let (Some(resource), true) = (resource, is_synced) else {
            // A cache that is not synced cannot be audited yet.
            audit.failed(timer.now());
            return;
        };
        let mut reflector: Reflector<_, Store> =
            Reflector::new(resource, self.config.clone(), self.seed)
                .list_once()
                .with_decoder(&Decoder::<Meta>::new());
        let limit = audit.config().list_limit;
        let mut list = List {
            audited: self,
            audit,
            is_complete: false,
            failure: String::new(),
        };
        let driving = drive(&mut reflector, transport, &mut timer, &mut list);
        let in_time = tokio::time::timeout(limit, driving).await.is_ok();
        if !list.is_complete {
            tracing::warn!(
                informer = self.inner.name,
                in_time,
                "the list of an audit failed"
            );
            audit.failed(timer.now());
        }
    }

    fn compare(&self, audit: &mut Audit<Key>, reached: &ResourceVersion<Key>) {
        // The comparison runs outside of the lock.
        let entries: Vec<(Key, SharedObject<V>, bool)> = {
            let cache = self.inner.cache();
            let entries = cache.entries_of(self.source);
            entries
                .map(|(key, object, is_stale)| (key.clone(), object.clone(), is_stale))
                .collect()
        };
        let entries = entries
            .iter()
            .map(|(key, object, is_stale)| entry(key, object, *is_stale));
        match audit.compare(self.timer.now(), reached, entries) {
            AuditVerdict::Clean => {
                tracing::debug!(informer = self.inner.name, "an audit found no differences");
                self.note(0);
            }
            AuditVerdict::Doubt => {}
            AuditVerdict::Drift { count, repair } => {
                self.note(count);
                for (key, kind) in audit.drift().take(REPORTED) {
                    self.report(Problem::Drift { key, kind });
                }
                self.report(Problem::Drifted { count, repair });
                if repair {
                    // An error means that a relist is already requested, or that the source has ended.
                    let _ = self.repair.try_send(());
                }
            }
        }
    }

    /// Records a completed audit, with the number of objects that differed.
    fn note(&self, drifted: usize) {
        self.inner
            .source(self.source, |source| source.audited(drifted));
    }

    fn report(&self, problem: Problem<'_>) {
        self.inner.report(&Report::about(Phase::Audit, problem));
    }
}

fn entry<'a, V>(key: &'a Key, object: &'a SharedObject<V>, is_stale: bool) -> AuditEntry<'a, Key> {
    AuditEntry {
        key: key.as_str(),
        uid: object.uid(),
        version: object.version(),
        is_stale,
    }
}

/// The sink of one list.
struct List<'a, V> {
    audited: &'a Audited<V>,
    audit: &'a mut Audit<Key>,
    is_complete: bool,
    /// The text of the transport's last error.
    failure: String,
}

impl<V> List<'_, V> {
    fn object(&mut self, key: &str, raw: &RawObject<'_>) {
        let cached = {
            let cache = self.audited.inner.cache();
            let is_stale = cache.is_stale(key);
            cache
                .entry(key)
                .map(|(key, object)| (key.clone(), object.clone(), is_stale))
        };
        let cached = cached
            .as_ref()
            .map(|(key, object, is_stale)| entry(key, object, *is_stale));
        self.audit.listed(key, raw, cached);
    }
}

impl<V> Sink<Key> for List<'_, V> {
    fn frame(&mut self, now: Instant, frame: Frame<'_, Key>) {
        match frame {
            Frame::Begin => self.audit.begin(),
            Frame::Object(object) => self.object(object.key, &object.raw),
            Frame::Complete { version } => {
                self.audit.complete(now, version);
                self.is_complete = true;
            }
            Frame::Report(report) => self.audited.inner.report(&report),
            Frame::Bookmark { .. } | Frame::Internal | _ => {}
        }
    }

    fn flush(&mut self, _now: Instant, _version: &ResourceVersion<Key>) {}

    fn report(&mut self, _now: Instant, report: Report<'_>) {
        self.audited
            .inner
            .report(&report.with_detail(&self.failure));
    }

    fn failure(&mut self, _now: Instant, error: &dyn core::fmt::Display) {
        self.failure = error.to_string();
    }
}
