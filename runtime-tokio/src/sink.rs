//! Between the reflector and the cache: decodes outside of the lock, applies in batches under it.

use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::Arc;

use informer_core::{
    Activity, Change, Command, Decode, Frame, Instant, KeyError, ObjectFrame, Phase, Problem,
    Report, ResourceVersion, Sink,
};

use tokio::sync::mpsc;

use crate::batch::{Batch, Item};
use crate::entry::Key;
use crate::figures::Levels;
use crate::pool::{Decoder, JOB_BYTES, Pool};
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
    source: u16,
    /// What is gathered, and comes after all that is in the pool.
    batch: Batch<D::Value>,
    pool: Pool<D>,
    deadline: Option<Instant>,
    stop: StopSignal,
    /// An audit has found something.
    repairs: mpsc::Receiver<()>,
    relist: bool,
    /// What the transport last said of a failure.
    failure: String,
}

/// Resolves when the informer is to stop.
pub(crate) type StopSignal = core::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

impl<D> CacheSink<D>
where
    D: Decode<Value: Send + Sync + 'static> + Send + Sync + 'static,
{
    pub(crate) fn new(pool: Pool<D>, stop: StopSignal, repairs: mpsc::Receiver<()>) -> Self {
        let Decoder { inner, source, .. } = pool.decoder();
        Self {
            inner: Arc::clone(inner),
            source: *source,
            batch: Batch::new(),
            pool,
            deadline: None,
            stop,
            repairs,
            relist: false,
            failure: String::new(),
        }
    }

    /// Takes note of a version for who wants to hear of it.
    fn note(&mut self, version: &dyn core::fmt::Display) {
        if self.inner.on_version.is_some() {
            self.batch.versions.push(version.to_string());
        }
    }

    fn object(&mut self, frame: &ObjectFrame<'_>) {
        if self.pool.has_threads() && frame.problem.is_none() {
            self.batch.decode_later(frame);
        } else {
            let Decoder {
                inner,
                decode,
                source,
            } = self.pool.decoder();
            self.batch.decode_now(frame, &**decode, &mut |report| {
                inner.report_of(Some(*source), &report);
            });
        }
    }

    /// Hands on what is enough for another thread, and applies what is there already.
    fn proceed(&mut self) {
        if self.batch.pending() >= JOB_BYTES || self.batch.items.len() >= BATCH {
            if self.batch.pending() > 0 {
                let empty = self.pool.empty();
                self.pool.push(core::mem::replace(&mut self.batch, empty));
            } else {
                self.apply(None);
            }
        }
        while let Some(batch) = self.pool.next_done() {
            self.apply_one(batch, None);
        }
    }

    /// Applies all that was gathered.
    fn apply(&mut self, version: Option<&ResourceVersion<Key>>) {
        while let Some(batch) = self.pool.next() {
            self.apply_one(batch, None);
        }
        let empty = self.pool.empty();
        let mut batch = core::mem::replace(&mut self.batch, empty);
        self.pool.decoder().run(&mut batch);
        self.apply_one(batch, version);
    }

    /// Applies a batch that is decoded, and tells what follows from it.
    fn apply_one(&mut self, mut batch: Batch<D::Value>, version: Option<&ResourceVersion<Key>>) {
        let deltas = batch.items.len();
        self.apply_batch(&mut batch, version);
        // What is told slot by slot, as after a list, in turns, so that readers get theirs.
        while !self.turn() {}
        self.inner.wake();
        if let Some(hear) = &self.inner.on_version {
            batch.versions.iter().for_each(|version| hear(version));
        }
        self.pool.put_back(batch);
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

    fn apply_batch(&self, batch: &mut Batch<D::Value>, version: Option<&ResourceVersion<Key>>) {
        let inner = &self.inner;
        let mut cache = loop {
            let indexes = inner.indexes();
            batch.compute_values(&indexes, &mut |report| inner.report(&report));
            let cache = inner.cache_mut();
            // An index that came in between: compute its values, again outside of the lock.
            if inner.indexes().len() == indexes.len() {
                break cache;
            }
        };
        let mut told = inner.told();
        let mut start = 0;
        let mut refused = Vec::new();
        let Batch { items, keys, .. } = batch;
        for item in items {
            match item {
                Item::Begin => cache.begin(self.source),
                Item::Complete(version) => cache.complete(self.source, version.clone()),
                Item::Object(gathered) => {
                    let key = &keys[start..gathered.key_end];
                    start = gathered.key_end;
                    match (gathered.change, gathered.take()) {
                        (Change::Deleted, object) => cache.delete(self.source, key, object),
                        (_, None) => cache.keep(self.source, key),
                        (change, Some(object)) => {
                            let values = core::mem::take(&mut gathered.values);
                            if let Err(why) = cache.upsert(self.source, change, key, object, values)
                            {
                                refused.push((key, why));
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
        for (key, why) in refused {
            let problem = match why {
                KeyError::TooLong => Problem::KeyTooLong { key },
                KeyError::NoKey | KeyError::NoDeltas | KeyError::Full | _ => {
                    Problem::NoRoom { key }
                }
            };
            inner.report(&Report::about(Phase::Cache, problem));
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

impl<D> Sink<Key> for CacheSink<D>
where
    D: Decode<Value: Send + Sync + 'static> + Send + Sync + 'static,
{
    fn frame(&mut self, _now: Instant, frame: Frame<'_, Key>) {
        match frame {
            Frame::Begin => self.batch.items.push(Item::Begin),
            Frame::Object(object) => {
                if object.change != Change::Listed {
                    self.note(&object.raw.resource_version());
                }
                self.object(&object);
            }
            Frame::Complete { version } => {
                self.note(version);
                self.batch.items.push(Item::Complete(version.clone()));
                self.inner.listed(self.source);
                // The first state is told before what follows it in the same batch changes it, or nobody would hear
                // of the change.
                self.apply(None);
            }
            Frame::Report(report) => self.inner.report_of(Some(self.source), &report),
            Frame::Bookmark { version } => self.note(version),
            Frame::Internal | _ => {}
        }
        self.proceed();
    }

    fn flush(&mut self, _now: Instant, version: &ResourceVersion<Key>) {
        let reached = self
            .inner
            .cache()
            .version(self.source)
            .is_some_and(|reached| reached == version);
        if !self.batch.items.is_empty() || self.pool.is_busy() || !reached {
            self.apply(Some(version));
        }
    }

    fn pause(&mut self, now: Instant, version: &ResourceVersion<Key>) {
        // What the others decode comes in its turn.
        if self.pool.has_threads() {
            self.proceed();
        } else {
            self.flush(now, version);
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
        // Where there is no audit, or its end, the channel is closed.
        if let Poll::Ready(Some(())) = self.repairs.poll_recv(cx) {
            return Poll::Ready(Command::Repair);
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
