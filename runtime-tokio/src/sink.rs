//! Between the reflector and the cache: decodes outside of the lock, applies in batches under it.

use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::Arc;

use informer_core::{
    Activity, Change, Command, Decode, Frame, Instant, KeyError, ObjectFrame, Phase, Problem,
    Report, ResourceVersion, Sink, decode_object,
};

use crate::entry::{Key, Shared as Object};
use crate::figures::Levels;
use crate::shared::Inner;

/// How many objects are applied under one lock.
const BATCH: usize = 256;
/// How long the lock is held at most, as far as whole steps allow.
const HOLD: Duration = Duration::from_micros(200);
/// How many steps are taken between two looks at the clock.
const STEPS: u32 = 64;

/// Applies what one source brings.
pub(crate) struct CacheSink<D: Decode> {
    inner: Arc<Inner<D::Value>>,
    decode: Arc<D>,
    source: u16,
    /// The keys of what was gathered, one after another.
    keys: String,
    batch: Vec<Item<D::Value>>,
    deadline: Option<Instant>,
    stop: StopSignal,
    relist: bool,
    /// What the transport last said of a failure.
    failure: String,
    /// The versions that are reached with what was gathered, where somebody wants to hear of them.
    versions: Vec<String>,
}

/// Resolves when the informer is to stop.
pub(crate) type StopSignal = core::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// What was gathered.
enum Item<V> {
    Begin,
    Object {
        change: Change,
        key_end: usize,
        object: Option<Object<V>>,
        values: Vec<(u16, Box<str>)>,
        indexed: usize,
    },
    Complete(ResourceVersion<Key>),
}

impl<D: Decode> CacheSink<D> {
    pub(crate) fn new(
        inner: Arc<Inner<D::Value>>,
        decode: Arc<D>,
        source: u16,
        stop: StopSignal,
    ) -> Self {
        Self {
            inner,
            decode,
            source,
            keys: String::new(),
            batch: Vec::with_capacity(BATCH),
            deadline: None,
            stop,
            relist: false,
            failure: String::new(),
            versions: Vec::new(),
        }
    }

    /// Takes note of a version for who wants to hear of it.
    fn note(&mut self, version: &dyn core::fmt::Display) {
        if self.inner.on_version.is_some() {
            self.versions.push(version.to_string());
        }
    }

    fn object(&mut self, frame: &ObjectFrame<'_>) {
        let start = self.keys.len();
        // Writing into a `String` does not fail.
        let _ = frame.raw.write_key(&mut self.keys);
        let key = &self.keys[start..];
        let (inner, source) = (&self.inner, self.source);
        let object = decode_object(&*self.decode, frame, key, &mut |report| {
            inner.report_of(Some(source), &report);
        })
        .map(|object| Object::new(object, frame.raw.json().len()));
        let key_end = self.keys.len();
        self.batch.push(Item::Object {
            change: frame.change,
            key_end,
            object,
            values: Vec::new(),
            indexed: 0,
        });
    }

    /// Applies what was gathered, and tells what follows from it.
    fn apply(&mut self, version: Option<&ResourceVersion<Key>>) {
        let deltas = self.batch.len();
        self.apply_batch(version);
        // What is told slot by slot, as after a list, in turns, so that readers get theirs.
        while !self.turn() {}
        self.inner.wake();
        if let Some(hear) = &self.inner.on_version {
            self.versions.drain(..).for_each(|version| hear(&version));
        }
        let mut cache = self.inner.cache_mut();
        self.relist |= cache.take_wants_relist(self.source);
        let synced = cache.is_synced();
        let reached = cache.version(self.source).cloned().unwrap_or_default();
        let levels = Levels {
            objects: cache.len(),
            bytes: cache.bytes(),
            stale: cache.stale_len(),
            synced,
            incomplete: cache.is_incomplete(),
        };
        drop(cache);
        self.inner.figures.applied(deltas, levels);
        self.inner.reached.send_if_modified(|shown| {
            let shown = shown.get_mut(usize::from(self.source));
            let moved = shown.as_ref().is_none_or(|shown| **shown != reached);
            if let Some(shown) = shown {
                *shown = reached;
            }
            moved
        });
        self.inner
            .status
            .send_if_modified(|status| core::mem::replace(&mut status.synced, synced) != synced);
    }

    fn apply_batch(&mut self, version: Option<&ResourceVersion<Key>>) {
        let inner = Arc::clone(&self.inner);
        let mut cache = loop {
            let indexes = inner.indexes();
            self.compute_values(&indexes);
            let cache = inner.cache_mut();
            // An index that came in between: compute its values, again outside of the lock.
            if inner.indexes().len() == indexes.len() {
                break cache;
            }
        };
        let mut told = inner.told();
        let mut start = 0;
        let mut refused = Vec::new();
        for item in self.batch.drain(..) {
            match item {
                Item::Begin => cache.begin(self.source),
                Item::Complete(version) => cache.complete(self.source, version),
                Item::Object {
                    change,
                    key_end,
                    object,
                    values,
                    ..
                } => {
                    let key = &self.keys[start..key_end];
                    start = key_end;
                    match (change, object) {
                        (Change::Deleted, object) => cache.delete(self.source, key, object),
                        (_, None) => cache.keep(self.source, key),
                        (_, Some(object)) => {
                            if let Err(why) = cache.upsert(self.source, change, key, object, values)
                            {
                                refused.push((key.to_owned(), why));
                            }
                        }
                    }
                }
            }
            // One delta at a time, as it comes: nothing waits under the lock for long.
            let mut budget = STEPS;
            while let Some(notification) = cache.pop_within(&mut budget) {
                told.listeners.append(&notification);
            }
        }
        if let Some(version) = version.filter(|version| version.is_known()) {
            cache.advance(self.source, version.clone());
        }
        drop(told);
        drop(cache);
        self.keys.clear();
        for (key, why) in refused {
            let problem = match why {
                KeyError::TooLong => Problem::KeyTooLong { key: &key },
                KeyError::NoKey | KeyError::NoDeltas | KeyError::Full | _ => {
                    Problem::NoRoom { key: &key }
                }
            };
            inner.report(&Report::about(Phase::Cache, problem));
        }
    }

    fn compute_values(&mut self, indexes: &crate::index::Indexes<D::Value>) {
        let mut start = 0;
        for item in &mut self.batch {
            let Item::Object {
                key_end,
                object,
                values,
                indexed,
                ..
            } = item
            else {
                continue;
            };
            let key = &self.keys[start..*key_end];
            start = *key_end;
            if let Some(object) = object {
                let inner = &self.inner;
                indexes.values(*indexed, key, object.value(), values, &mut |report| {
                    inner.report(&report);
                });
                *indexed = indexes.len();
            }
        }
    }

    /// Works for as long as the lock may be held; returns whether there is nothing more to do.
    fn turn(&self) -> bool {
        let began = std::time::Instant::now();
        let mut cache = self.inner.cache_mut();
        let mut told = self.inner.told();
        loop {
            let mut budget = STEPS;
            while let Some(notification) = cache.pop_within(&mut budget) {
                told.listeners.append(&notification);
            }
            if budget > 0 {
                return true;
            }
            if began.elapsed() >= HOLD {
                return false;
            }
        }
    }
}

impl<D: Decode> Sink<Key> for CacheSink<D> {
    fn frame(&mut self, _now: Instant, frame: Frame<'_, Key>) {
        match frame {
            Frame::Begin => self.batch.push(Item::Begin),
            Frame::Object(object) => {
                if object.change != Change::Listed {
                    self.note(&object.raw.resource_version());
                }
                self.object(&object);
            }
            Frame::Complete { version } => {
                self.note(version);
                self.batch.push(Item::Complete(version.clone()));
                self.inner.listed(self.source);
                // The first state is told before what follows it in the same batch changes it, or nobody would hear
                // of the change.
                self.apply(None);
            }
            Frame::Report(report) => self.inner.report_of(Some(self.source), &report),
            Frame::Bookmark { version } => self.note(version),
            Frame::Internal | _ => {}
        }
        if self.batch.len() >= BATCH {
            self.apply(None);
        }
    }

    fn flush(&mut self, _now: Instant, version: &ResourceVersion<Key>) {
        let reached = self
            .inner
            .cache()
            .version(self.source)
            .is_some_and(|reached| reached == version);
        if !self.batch.is_empty() || !reached {
            self.apply(Some(version));
        }
    }

    fn report(&mut self, _now: Instant, report: Report<'_>) {
        let report = if matches!(report.problem, Problem::Transport(_)) {
            report.with_detail(&self.failure)
        } else {
            report
        };
        self.inner.report_of(Some(self.source), &report);
    }

    fn failure(&mut self, _now: Instant, error: &dyn core::fmt::Display) {
        self.failure = error.to_string();
    }

    fn activity(&mut self, _now: Instant, activity: Activity) {
        self.inner.activity(self.source, activity);
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // A body that is always there would keep the thread from all others, from those who read events too.
        core::pin::pin!(tokio::task::consume_budget()).poll(cx)
    }

    fn poll_command(&mut self, cx: &mut Context<'_>) -> Poll<Command> {
        if self.stop.as_mut().poll(cx).is_ready() {
            // Asked again, it is not polled after it was ready.
            self.stop = Box::pin(core::future::pending());
            return Poll::Ready(Command::Stop);
        }
        if core::mem::take(&mut self.relist) {
            return Poll::Ready(Command::Relist);
        }
        if self.source > 0 {
            // The first source sees to the resyncs of the cache.
            return Poll::Pending;
        }
        self.inner.poll_resyncs_changed(cx).map(|()| {
            // `handle_timeout` sees to the deadlines that are new.
            self.deadline = Some(Instant::from_micros(0));
            Command::Wake
        })
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn handle_timeout(&mut self, now: Instant) {
        let mut cache = self.inner.cache_mut();
        let mut told = self.inner.told();
        let due = told
            .listeners
            .next_resync(now)
            .is_some_and(|due| now >= due);
        if due {
            // The pass has to be known to the listeners before it is told.
            let pass = cache.resync();
            told.listeners.begin_pass(now, pass);
        }
        self.deadline = told.listeners.next_resync(now);
        drop(told);
        drop(cache);
        if due {
            self.apply(None);
        }
    }
}
