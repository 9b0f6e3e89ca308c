//! The records of the sources: what each has received, and in which state it is.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use informer_core::cache::SourceId;
use informer_core::drive::Activity;
use informer_core::wire::Format;
use informer_core::{OwnedResource, ResourceVersion};

use tracing::Span;

use super::Inner;
use super::reports::TRACING;
use crate::cache::entry::Key;
use crate::health::source::{Counts, SourceRecord};
use crate::spans::{self, Origin};

/// The sources that list and watch.
pub(super) struct Sources {
    records: BTreeMap<SourceId, Mutex<SourceRecord>>,
    /// The counts of those that have left.
    left: Counts,
}

impl Sources {
    pub(super) fn new(records: BTreeMap<SourceId, SourceRecord>) -> Self {
        let records = records.into_iter();
        Self {
            records: records
                .map(|(id, record)| (id, Mutex::new(record)))
                .collect(),
            left: Counts::default(),
        }
    }
}

impl<V> Inner<V> {
    /// Calls `look` with the state of one source.
    pub(crate) fn source<R>(
        &self,
        source: SourceId,
        look: impl FnOnce(&mut SourceRecord) -> R,
    ) -> Option<R> {
        let sources = self.sources.read().unwrap_or_else(PoisonError::into_inner);
        let source = sources.records.get(&source)?;
        Some(look(
            &mut source.lock().unwrap_or_else(PoisonError::into_inner),
        ))
    }

    /// Calls `look` with the state of each source.
    pub(crate) fn each_source<R>(
        &self,
        mut look: impl FnMut(SourceId, &SourceRecord) -> R,
    ) -> Vec<R> {
        let sources = self.sources.read().unwrap_or_else(PoisonError::into_inner);
        sources
            .records
            .iter()
            .map(|(id, source)| look(*id, &source.lock().unwrap_or_else(PoisonError::into_inner)))
            .collect()
    }

    /// Returns the counts of all sources, also of those that have left.
    pub(crate) fn counts(&self) -> Counts {
        let sources = self.sources.read().unwrap_or_else(PoisonError::into_inner);
        let mut counts = sources.left;
        for source in sources.records.values() {
            counts += source
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .counts();
        }
        counts
    }

    /// Returns whether sources join and leave at run time.
    pub(crate) const fn joins(&self) -> bool {
        self.joins
    }

    /// Adds a source at run time; `None` if there are too many.
    pub(crate) fn join_source(
        &self,
        resource: OwnedResource,
        cluster: &str,
        join: u64,
    ) -> Option<SourceId> {
        let mut new = SourceRecord::new(resource);
        cluster.clone_into(&mut new.cluster);
        new.join = join;
        let id = self.cache_mut().add_source()?;
        self.reached.change(|reached| {
            reached.insert(id, ResourceVersion::default());
            true
        });
        let mut sources = self.sources.write().unwrap_or_else(PoisonError::into_inner);
        sources.records.insert(id, Mutex::new(new));
        Some(id)
    }

    /// Forgets a source that was removed from the cache. Its counts stay.
    pub(crate) fn source_left(&self, source: SourceId) {
        {
            let mut sources = self.sources.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(record) = sources.records.remove(&source) {
                let record = record.into_inner().unwrap_or_else(PoisonError::into_inner);
                sources.left += record.counts();
            }
        }
        // Nobody waits for its versions any more.
        self.reached
            .change(|reached| reached.remove(&source).is_some());
        self.source_changed();
    }

    /// Records the activity of a source's driver.
    pub(crate) fn activity(&self, source: SourceId, activity: Activity) {
        let now = self.clock.now();
        let is_request = matches!(activity, Activity::Listing | Activity::Opening);
        let changed = self.source(source, |source| {
            let (has_changed, recovered) = source.activity(activity);
            if has_changed && is_request {
                source.freshness.requested(now);
            }
            (has_changed, recovered)
        });
        let Some((true, recovered)) = changed else {
            return;
        };
        if let Some(recovered) = recovered {
            self.recovered(source, recovered);
        }
        match activity {
            Activity::Listing => self.begin_span(source, spans::list),
            Activity::Opening => self.begin_span(source, spans::watch),
            Activity::Waiting { .. } => self.set_span(source, Span::none()),
            Activity::Streaming => {
                let span = self.span(source);
                self.hook(TRACING, || {
                    span.record("initial_events", true);
                });
            }
            Activity::Watching | _ => {}
        }
    }

    /// Returns the span of the list or watch in progress.
    pub(crate) fn span(&self, source: SourceId) -> Span {
        let span = self.source(source, |source| source.span.clone());
        span.unwrap_or_else(Span::none)
    }

    fn begin_span(&self, source: SourceId, of: fn(&str, &Origin) -> Span) {
        let span = self.new_span(source, of);
        self.set_span(source, span);
    }

    /// Creates a span of a source. Subscribers are called outside of the locks.
    pub(crate) fn new_span(&self, source: SourceId, of: fn(&str, &Origin) -> Span) -> Span {
        let mut span = Span::none();
        if let Some(origin) = self.source(source, |source| source.origin()) {
            self.hook(TRACING, || span = of(&self.name, &origin));
        }
        span
    }

    fn set_span(&self, source: SourceId, span: Span) {
        let before = self.source(source, |source| core::mem::replace(&mut source.span, span));
        self.hook(TRACING, || drop(before));
    }

    /// Ends the spans of all sources.
    pub(crate) fn end_spans(&self) {
        for source in self.each_source(|id, _| id) {
            self.set_span(source, Span::none());
        }
    }

    /// Records bytes that a source received.
    pub(crate) fn received(&self, source: SourceId, format: Format, bytes: u64) {
        self.source(source, |source| source.received(format, bytes));
    }

    /// Records that a list begins to arrive.
    pub(crate) fn list_begins(&self, source: SourceId) {
        self.source(source, |source| source.freshness.list_begins());
    }

    /// Records a bookmark that a source received.
    pub(crate) fn bookmark(&self, source: SourceId, version: &ResourceVersion<Key>) {
        let now = self.clock.now();
        self.source(source, |source| source.freshness.bookmark(now, version));
    }

    /// Records that the cache has reached a version.
    pub(crate) fn note_reached(&self, source: SourceId, version: &ResourceVersion<Key>) {
        self.source(source, |source| source.freshness.reached(version));
    }

    /// Returns the time since which the cache may be stale. If the data of a source comes from a journal, that is the
    /// time of the journal's last write.
    pub(crate) fn stale_since(&self) -> Option<std::time::SystemTime> {
        let since = self.each_source(|_, source| source.stale_since);
        since.into_iter().flatten().min()
    }

    /// Records that a source was completed, has failed or has left.
    pub(crate) fn source_changed(&self) {
        self.status
            .send_modify(|status| status.sources = status.sources.wrapping_add(1));
    }

    /// Records that a source completed a list, before the cache has it.
    pub(crate) fn listed(&self, source: SourceId, version: &ResourceVersion<Key>) {
        let is_newer = self.cache().version(source) != Some(version);
        let recovered = self.source(source, |source| {
            source.freshness.listed(version, is_newer);
            source.listed()
        });
        if let Some(recovered) = recovered.flatten() {
            self.recovered(source, recovered);
        }
    }
}
