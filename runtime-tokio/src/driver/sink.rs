//! Between the reflector and the cache: decodes outside of the lock, applies in batches under it.

use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::Arc;

use informer_core::journal::{
    FileError, FileJournal, Identity, Journal, LogError, Loss, Lost, Record,
};
use informer_core::{
    Activity, Change, Command, Decode, Frame, Instant, KeyError, ObjectFrame, Phase, Problem,
    Report, ResourceVersion, Sink,
};

use tokio::sync::mpsc;

use crate::cache::entry::Key;
use crate::cache::metrics::Levels;
use crate::cache::shared::{Inner, METRICS, ON_VERSION};
use crate::driver::allocator::give_back;
use crate::driver::batch::{Batch, Item};
use crate::driver::journal::{Outbox, moment};
use crate::driver::pool::{Decoder, Pool};

/// How many objects are applied under one lock.
const BATCH: usize = 256;
/// How many bytes of JSON make a list that leaves enough behind to be given back.
const LARGE: usize = 1 << 20;
/// How long the lock is held at most, as far as whole steps allow.
const HOLD: Duration = Duration::from_micros(200);
/// How many steps are taken between two looks at the clock.
const STEPS: u32 = 64;
/// How many steps are taken under one lock at most, whatever the clock says.
const MOST_STEPS: u32 = 16 * STEPS;

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
    refill: bool,
    /// What the transport last said of a failure.
    failure: String,
    /// How many bytes of JSON the list has brought so far.
    listed: usize,
    /// What is to be written into the journal, where there is one.
    outbox: Option<Outbox>,
    /// What the cache shows comes from the journal, and the server has not confirmed it.
    restored: bool,
    /// A sweep or a resync is under way, and is continued when the driver is polled next.
    walking: bool,
    /// The versions that are reached when it is done, where somebody wants to hear of them.
    versions: Vec<String>,
}

/// What the journal of a source had.
pub(crate) struct Restored {
    pub(crate) version: ResourceVersion<Key>,
    /// Whether it is all there was at this version.
    pub(crate) complete: bool,
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
            refill: false,
            failure: String::new(),
            listed: 0,
            outbox: None,
            restored: false,
            walking: false,
            versions: Vec::new(),
        }
    }

    /// From here on all is written into a journal.
    pub(crate) fn record(&mut self, outbox: Outbox) {
        self.outbox = Some(outbox);
    }

    /// Fills the cache with what a journal has. It reads a file, and is for a thread that may wait.
    pub(crate) fn restore(
        &mut self,
        log: &mut FileJournal,
        identity: &Identity,
    ) -> Result<Option<Restored>, LogError<FileError>> {
        self.pool.swap_threads();
        let restored = self.read(log, identity);
        self.pool.swap_threads();
        restored
    }

    fn read(
        &mut self,
        log: &mut FileJournal,
        identity: &Identity,
    ) -> Result<Option<Restored>, LogError<FileError>> {
        self.batch.items.push(Item::Begin);
        let mut reached = None;
        let mut objects = 0;
        let (inner, source) = (Arc::clone(&self.inner), self.source);
        let report_loss = |lost: Lost| {
            let report = Report::about(Phase::Journal, Problem::JournalLost { lost });
            inner.report_of(Some(source), &report);
        };
        let mut take = |record: Record<'_>| match record {
            Record::Put { key, object } => {
                objects += 1;
                self.listed = self.listed.saturating_add(object.len());
                let Decoder {
                    inner,
                    decode,
                    source,
                } = self.pool.decoder();
                let now = (!self.pool.has_threads()).then_some(&**decode);
                self.batch.restore(key, object, now, &mut |report| {
                    inner.report_of(Some(*source), &report);
                });
                self.proceed();
            }
            Record::Stale { key } => self.batch.keep(key),
            Record::Version(version) => {
                let restored = Restored {
                    version: ResourceVersion::new(version.version),
                    complete: version.complete,
                };
                reached = Some((restored, moment(version.at)));
            }
            // It was put before.
            Record::Delete { key } => {
                objects -= 1;
                self.batch.gone(key);
            }
            _ => {}
        };
        let loaded = log.load(identity, &mut take, &mut |lost| report_loss(lost));
        if reached.is_none() || loaded.is_err() {
            self.batch.items.push(Item::Nothing);
            self.apply(None);
            while self.walking {
                self.walk(0);
            }
        }
        // Whatever it was that is not restored, a loss was reported.
        loaded?;
        let Some((mut restored, since)) = reached else {
            return Ok(None);
        };
        self.inner
            .source(self.source, |source| source.stale_since = Some(since));
        let version = restored.version.clone();
        self.batch.items.push(Item::Restored(version));
        self.apply(None);
        // This thread has nobody to yield to.
        while self.walking {
            self.walk(0);
        }
        self.settle();
        // Not before: what others have decoded is applied first, and nothing is restored then.
        self.restored = true;
        let held = self.inner.cache().entries_of(self.source).count();
        if held < objects {
            restored.complete = false;
            let unusable = u64::try_from(objects - held).unwrap_or(u64::MAX);
            report_loss(Lost::new(Loss::Unusable, unusable, 0));
        }
        let cache = self.inner.cache();
        let sources = self.inner.each_source(|source, _| source);
        let is_there = |source| cache.is_restored(source) || cache.is_source_synced(source);
        let served = sources.into_iter().all(is_there);
        drop(cache);
        self.inner
            .status
            .send_modify(|status| status.served |= served);
        Ok(Some(restored))
    }

    /// Takes note of a version for who wants to hear of it.
    fn note(&mut self, version: &dyn core::fmt::Display) {
        if self.inner.on_version.is_some() {
            self.batch.versions.push(version.to_string());
        }
    }

    fn object(&mut self, frame: &ObjectFrame<'_>) {
        if frame.change == Change::Listed {
            self.listed = self.listed.saturating_add(frame.raw.json().len());
        }
        self.batch.persists = self.outbox.is_some();
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

    /// Gives back what only a large list needs, some megabytes, after all of it was applied.
    fn settle(&mut self) {
        if core::mem::take(&mut self.listed) < LARGE {
            return;
        }
        self.batch = Batch::new();
        self.pool.settle();
        #[cfg(feature = "zstd")]
        crate::packed::settle();
        give_back();
    }

    /// Hands on what is enough for another thread, and applies what is there already.
    fn proceed(&mut self) {
        if self.batch.pending() >= self.pool.job_bytes() || self.batch.items.len() >= BATCH {
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

    /// Applies a batch that is decoded, and begins with what follows from it.
    fn apply_one(&mut self, mut batch: Batch<D::Value>, version: Option<&ResourceVersion<Key>>) {
        let deltas = batch.items.len();
        self.apply_batch(&mut batch, version);
        self.versions.append(&mut batch.versions);
        self.pool.put_back(batch);
        self.walk(deltas);
    }

    /// Continues a sweep or a resync for as long as the lock may be held, and shows how far the cache is after `deltas`
    /// more.
    fn walk(&mut self, deltas: usize) {
        self.walking = !self.turn();
        self.inner.wake();
        if !self.walking {
            let versions = core::mem::take(&mut self.versions);
            if let Some(hear) = &self.inner.on_version {
                for version in &versions {
                    self.inner.hook(ON_VERSION, || hear(version));
                }
            }
        }
        let mut cache = self.inner.cache_mut();
        self.refill |= cache.take_wants_relist(self.source);
        let synced = cache.is_synced();
        let restored = cache.is_restored(self.source);
        let reached = cache.version(self.source).cloned().unwrap_or_default();
        let levels = Levels {
            objects: cache.len(),
            bytes: cache.bytes(),
            stale: cache.stale_len(),
            synced,
            incomplete: cache.is_incomplete(),
        };
        drop(cache);
        if self.restored && !restored {
            self.restored = false;
            self.inner
                .source(self.source, |source| source.stale_since = None);
        }
        self.inner
            .hook(METRICS, || self.inner.figures.applied(deltas, levels));
        self.inner.reached.send_if_modified(|shown| {
            let shown = shown.get_mut(usize::from(self.source));
            let moved = shown.as_ref().is_none_or(|shown| **shown != reached);
            if let Some(shown) = shown {
                *shown = reached;
            }
            moved
        });
        self.inner.status.send_if_modified(|status| {
            status.served |= synced;
            core::mem::replace(&mut status.synced, synced) != synced
        });
    }

    /// Continues a walk that is under way, and has the driver polled again if there is more to do.
    fn poll_walk(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.walking {
            self.walk(0);
        }
        if self.walking {
            // A waker that is woken at once would have the driver polled again before others.
            return core::pin::pin!(tokio::task::yield_now()).poll(cx);
        }
        Poll::Ready(())
    }

    fn apply_batch(&mut self, batch: &mut Batch<D::Value>, version: Option<&ResourceVersion<Key>>) {
        let inner = &self.inner;
        let mut outbox = self.outbox.as_mut();
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
                Item::Begin => {
                    outbox.iter_mut().for_each(|outbox| outbox.begin());
                    cache.begin(self.source);
                }
                Item::Complete(version) => {
                    if let Some(outbox) = &mut outbox {
                        cache.unnamed(self.source).for_each(|key| outbox.gone(key));
                        outbox.complete(version, !cache.is_incomplete());
                    }
                    cache.complete(self.source, version.clone());
                }
                Item::Restored(version) => cache.restore(self.source, version.clone()),
                Item::Nothing => {
                    cache.begin(self.source);
                    let keys: Vec<Key> = cache.unnamed(self.source).cloned().collect();
                    for key in keys {
                        cache.delete(self.source, key.as_str(), None);
                    }
                }
                Item::Confirmed => {
                    cache.confirm(self.source);
                    outbox.iter_mut().for_each(|outbox| outbox.still());
                }
                Item::Object(gathered) => {
                    let place = (start, gathered.key_end);
                    let key = &keys[start..gathered.key_end];
                    start = gathered.key_end;
                    match (gathered.change, gathered.take()) {
                        (Change::Deleted, object) => {
                            outbox.iter_mut().for_each(|outbox| outbox.delete(place));
                            cache.delete(self.source, key, object);
                        }
                        (_, None) => {
                            outbox.iter_mut().for_each(|outbox| outbox.stale(place));
                            cache.keep(self.source, key);
                        }
                        (change, Some(object)) => {
                            if let Some(outbox) = &mut outbox
                                && (outbox.wants_all() || !cache.holds(self.source, key, &object))
                            {
                                outbox.put(place, gathered.persisted);
                            }
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
            if let Some(outbox) = &mut outbox {
                outbox.reached(version, !cache.is_incomplete());
            }
        }
        // Dropping an object runs code of its type, which may ask this cache.
        let discarded = (cache.take_discarded(), told.listeners.take_discarded());
        drop(told);
        drop(cache);
        drop(discarded);
        for (key, why) in refused {
            let problem = match why {
                KeyError::TooLong => Problem::KeyTooLong { key },
                KeyError::NoKey | KeyError::NoDeltas | KeyError::Full | _ => {
                    Problem::NoRoom { key }
                }
            };
            inner.report(&Report::about(Phase::Cache, problem));
        }
        if let Some(outbox) = outbox {
            outbox.send(&mut batch.keys, &mut batch.persisted);
        }
    }

    /// Works for as long as the lock may be held; returns whether there is nothing more to do.
    fn turn(&self) -> bool {
        let began = std::time::Instant::now();
        self.inner.locked(|cache, told| {
            for _ in 0..MOST_STEPS / STEPS {
                let mut budget = STEPS;
                while let Some(notification) = cache.pop_within(&mut budget) {
                    told.listeners.append(&notification);
                }
                if budget > 0 {
                    return true;
                }
                if began.elapsed() >= HOLD {
                    break;
                }
            }
            false
        })
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
                    if self.restored {
                        self.batch.items.push(Item::Confirmed);
                    }
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
                self.settle();
            }
            Frame::Report(report) => self.inner.report_of(Some(self.source), &report),
            Frame::Bookmark { version } => {
                self.note(version);
                if self.restored || self.outbox.is_some() {
                    self.batch.items.push(Item::Confirmed);
                }
            }
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

    fn end_turn(&mut self, cx: &mut Context<'_>) {
        // A task that wakes itself is polled many times before tokio looks at its timers, its sockets and the future of
        // `block_on`. Tokio wakes one that yields after them.
        let _ = core::pin::pin!(tokio::task::yield_now()).poll(cx);
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(outbox) = &mut self.outbox {
            core::task::ready!(outbox.poll_room(cx));
        }
        // A list is told before what follows it changes its objects, or nobody would be notified of the change.
        self.poll_walk(cx)
    }

    fn poll_command(&mut self, cx: &mut Context<'_>) -> Poll<Command> {
        core::task::ready!(self.poll_walk(cx));
        if self.stop.as_mut().poll(cx).is_ready() {
            // Asked again, it is not polled after it was ready.
            self.stop = Box::pin(core::future::pending());
            return Poll::Ready(Command::Stop);
        }
        if core::mem::take(&mut self.refill) {
            return Poll::Ready(Command::Refill);
        }
        if let Some(outbox) = &mut self.outbox
            && outbox.poll_list(cx).is_ready()
        {
            return Poll::Ready(Command::Refill);
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
        let (due, deadline) = self.inner.locked(|cache, told| {
            let due = told
                .listeners
                .next_resync(now)
                .is_some_and(|due| now >= due);
            if due {
                // The listeners have to know the pass before it is told.
                let pass = cache.resync();
                told.listeners.begin_pass(now, pass);
            }
            (due, told.listeners.next_resync(now))
        });
        self.deadline = deadline;
        if due {
            self.apply(None);
        }
    }
}
