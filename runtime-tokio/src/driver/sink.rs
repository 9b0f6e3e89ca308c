//! The sink between the reflector and the cache. It decodes outside of the lock, and applies batches under it.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::Arc;

use informer_core::cache::SourceId;
use informer_core::journal::{
    FileError, FileJournal, Identity, LogError, Loss, LostRecords, Record, RecordLog, Recorder,
    Recording,
};
use informer_core::{
    Decode, Frame, Instant, Report, ResourceVersion, Sink, Step,
    drive::{Activity, Command},
    json::JsonStr,
    reflector::{Change, ObjectFrame},
    report::{Phase, Problem},
    wire::Format,
};

use tokio::sync::mpsc;

use crate::cache::entry::{Key, in_cluster};
use crate::cache::metrics::Levels;
use crate::cache::shared::{Inner, METRICS, ON_VERSION};
use crate::driver::allocator::give_back;
use crate::driver::batch::{Batch, Item};
use crate::driver::journal::{Outbox, moment, now};
use crate::driver::pool::{Decoder, Pool};
use crate::driver::turn::Turn;
use crate::health::source::SourceRecord;

/// The most objects that are applied under one lock.
const BATCH: usize = 256;
/// The number of events after a wait that the driver decodes by itself before it uses other threads, unless these decode
/// all objects.
const FEW: usize = 8;
/// The number of objects after which the driver drops the old states of its heap.
const RETIRED: usize = 32;
/// The bytes of JSON of lists, in all informers, after which returning memory to the system is worth it.
const LARGE: usize = 1 << 20;
/// The longest time to hold the lock, rounded up to whole steps.
const HOLD: Duration = Duration::from_micros(200);
/// The number of steps between two checks of the clock.
const STEPS: u32 = 64;
/// The most steps under one lock, however little time they take.
const MOST_STEPS: u32 = 16 * STEPS;

/// Applies the frames of one source.
pub(crate) struct CacheSink<D: Decode> {
    inner: Arc<Inner<D::Value>>,
    source: SourceId,
    /// Gathered frames, which follow those in the pool.
    batch: Batch<D::Value>,
    pool: Pool<D>,
    deadline: Option<Instant>,
    turn: Turn,
    /// The number of objects since the driver waited.
    read: usize,
    stop: StopSignal,
    /// Repair requests of an audit.
    repairs: mpsc::Receiver<()>,
    refill: bool,
    /// The text of the transport's last error.
    failure: String,
    /// The bytes of JSON that the current list has brought.
    listed: usize,
    /// The recorder of the journal, if there is one.
    recorder: Option<Recorder<Outbox>>,
    /// The number of objects in the journal that could not be used.
    unusable: u64,
    /// Whether the cache was restored from the journal and the server has not confirmed it.
    restored: bool,
    /// Whether a complete list was applied, or the server has confirmed the journal.
    completed: bool,
    /// Whether a sweep or a resync is in progress. It continues when the driver is polled next.
    walking: bool,
    /// The versions that are reached when it is complete, if `on_version` is set.
    versions: Vec<String>,
    /// The cluster, which begins the keys if there are several.
    cluster: String,
}

/// The restored state of a source.
pub(crate) type Restored = informer_core::journal::Restored<Key>;

/// Resolves when the informer is to stop.
pub(crate) type StopSignal = core::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

impl<D> CacheSink<D>
where
    D: Decode<Value: Send + Sync + 'static> + Send + Sync + 'static,
{
    pub(crate) fn new(pool: Pool<D>, stop: StopSignal, repairs: mpsc::Receiver<()>) -> Self {
        let Decoder { inner, source, .. } = pool.decoder();
        let cluster = inner.source(*source, |source| source.cluster.clone());
        Self {
            cluster: cluster.unwrap_or_default(),
            inner: Arc::clone(inner),
            source: *source,
            batch: Batch::new(),
            pool,
            deadline: None,
            turn: Turn::default(),
            read: 0,
            stop,
            repairs,
            refill: false,
            failure: String::new(),
            listed: 0,
            recorder: None,
            unusable: 0,
            restored: false,
            completed: false,
            walking: false,
            versions: Vec::new(),
        }
    }

    /// Writes all further changes to a journal.
    pub(crate) fn record(&mut self, outbox: Outbox) {
        self.recorder = Some(Recorder::new(outbox));
    }

    /// Fills the cache from a journal. It reads a file, so it must run on a blocking thread.
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
        self.batch.items.push(Item::Step(Step::Begin));
        self.unusable = 0;
        let mut restored = None;
        let (inner, source) = (Arc::clone(&self.inner), self.source);
        let report_loss = |lost: LostRecords| {
            let report = Report::about(Phase::Journal, Problem::JournalLost { lost });
            inner.report_of(Some(source), &report);
        };
        let mut take = |record: Record<'_>| match record {
            Record::Put { key, object } => {
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
            Record::Version(reached) => restored = Some(Restored::of(&reached)),
            Record::Delete { key } => self.batch.gone(key),
            _ => {}
        };
        let loaded = log.load(identity, &mut take, &mut |lost| report_loss(lost));
        let restored = restored.filter(|_| loaded.is_ok());
        if let Some(restored) = &restored {
            let since = moment(restored.at);
            self.inner
                .source(self.source, |source| source.stale_since = Some(since));
        }
        let end = restored.as_ref().map_or(Step::Forget, |restored| {
            Step::Restored(restored.version.clone())
        });
        self.batch.items.push(Item::Step(end));
        self.apply(None);
        // This is a blocking thread, so it need not yield.
        while self.walking {
            self.walk(0);
        }
        // A journal that cannot be restored has been reported.
        loaded?;
        let Some(mut restored) = restored else {
            return Ok(None);
        };
        self.settle();
        // Set only now: batches that other threads have decoded are applied before, and are not restored data.
        self.restored = true;
        if self.unusable > 0 {
            restored.complete = false;
            report_loss(LostRecords::new(Loss::Unusable, self.unusable, 0));
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

    /// Records a version for `on_version`.
    fn note(&mut self, version: &dyn core::fmt::Display) {
        if self.inner.on_version.is_some() {
            self.batch.versions.push(version.to_string());
        }
    }

    fn object(&mut self, frame: &ObjectFrame<'_>) {
        let mut frame = *frame;
        let key;
        if !self.cluster.is_empty() {
            key = in_cluster(&self.cluster, frame.key);
            frame.key = &key;
        }
        let frame = &frame;
        if frame.change == Change::Listed {
            self.listed = self.listed.saturating_add(frame.raw.bytes().len());
        }
        if frame.change == Change::Deleted && self.inner.selects_for_controller() {
            self.look_for_finalizers(frame);
        }
        self.batch.persists = self.recorder.is_some();
        self.batch.hashes = self.inner.hashes();
        // A few events need no other thread, so their bytes need not be copied.
        let is_one_of_few =
            self.read < FEW && frame.change != Change::Listed && !self.pool.leaves_all();
        self.read += 1;
        if self.pool.has_threads() && frame.problem.is_none() && !is_one_of_few {
            self.batch.decode_later(frame);
        } else {
            let Decoder {
                inner,
                decode,
                source,
            } = self.pool.decoder();
            if self.batch.items.len().is_multiple_of(RETIRED) {
                inner.discard(inner.retired.take());
            }
            let report = &mut |report: Report<'_>| inner.report_of(Some(*source), &report);
            self.batch
                .decode_now(frame, &**decode, &inner.indexes(), report);
        }
    }

    /// Reports an object that exists and is no longer selected, but has a finalizer that a controller may have added.
    ///
    /// The last state of an object that is really deleted may also have finalizers, but such an object has been marked for
    /// deletion before.
    fn look_for_finalizers(&self, frame: &ObjectFrame<'_>) {
        if frame.problem.is_some() || frame.raw.is_being_deleted() {
            return;
        }
        // Those of Kubernetes are removed by its own controllers.
        let is_custom = |finalizer: &JsonStr<'_>| {
            let name = finalizer.to_string();
            let domain = name.split_once('/').map(|(domain, _)| domain);
            domain.is_some_and(|domain| {
                !domain.ends_with("kubernetes.io") && !domain.ends_with("k8s.io")
            })
        };
        if let Some(finalizer) = frame.raw.finalizers().find(is_custom) {
            let key = frame.key;
            let problem = Problem::LeftWithFinalizer { key, finalizer };
            let report = Report::about(Phase::Cache, problem);
            self.inner.report_of(Some(self.source), &report);
        }
    }

    /// Frees the memory that only a list needs, after all of it was applied.
    fn settle(&mut self) {
        self.rest();
        // Many small lists leave as much memory as a large one.
        static LISTED: AtomicUsize = AtomicUsize::new(0);
        let listed = core::mem::take(&mut self.listed);
        if LISTED.fetch_add(listed, Ordering::Relaxed) + listed < LARGE {
            return;
        }
        LISTED.store(0, Ordering::Relaxed);
        #[cfg(feature = "zstd")]
        crate::packed::settle();
        give_back();
    }

    /// Frees buffers that an idle watch does not need.
    fn rest(&mut self) {
        self.batch.settle();
        self.pool.settle();
    }

    /// Passes on a batch that is large enough for another thread, and applies those that are done.
    fn proceed(&mut self) {
        if self.batch.pending() >= self.pool.job_bytes() || self.batch.items.len() >= BATCH {
            // The driver is busy, so that it will drop old states soon.
            self.inner.retired.open();
            if self.batch.pending() > 0 {
                self.pass_on();
            } else {
                self.apply(None);
            }
        }
        while let Some(batch) = self.pool.next_done() {
            self.apply_one(batch, None);
        }
    }

    /// Passes on what was gathered to the helper threads.
    fn pass_on(&mut self) {
        let empty = self.pool.empty();
        self.pool.push(core::mem::replace(&mut self.batch, empty));
    }

    /// Applies everything that was gathered.
    fn apply(&mut self, version: Option<&ResourceVersion<Key>>) {
        if self.batch.pending() > 0 && self.pool.leaves_all() {
            self.pass_on();
        }
        while let Some(batch) = self.pool.next() {
            self.apply_one(batch, None);
        }
        let empty = self.pool.empty();
        let mut batch = core::mem::replace(&mut self.batch, empty);
        self.pool.decoder().run(&mut batch);
        self.apply_one(batch, version);
    }

    /// Applies everything, and that this version is reached.
    fn apply_reached(&mut self, version: &ResourceVersion<Key>) {
        let reached = self
            .inner
            .cache()
            .version(self.source)
            .is_some_and(|reached| reached == version);
        if !self.batch.items.is_empty() || self.pool.is_busy() || !reached {
            self.apply(Some(version));
        }
        self.rest();
    }

    /// Applies a decoded batch, and begins the sweep or resync that follows from it.
    fn apply_one(&mut self, mut batch: Batch<D::Value>, version: Option<&ResourceVersion<Key>>) {
        let deltas = batch.items.len();
        self.apply_batch(&mut batch, version);
        self.versions.append(&mut batch.versions);
        self.pool.put_back(batch);
        self.walk(deltas);
    }

    /// Removes the source from the cache, with its objects.
    pub(crate) async fn leave(&mut self) {
        self.apply(None);
        self.inner.cache_mut().remove_source(self.source);
        self.walk(0);
        while self.walking {
            tokio::task::yield_now().await;
            self.walk(0);
        }
        self.inner.source_left(self.source);
    }

    /// Continues a sweep or a resync for as long as the lock may be held. Then publishes the state of the cache after
    /// `deltas` more.
    fn walk(&mut self, deltas: usize) {
        self.walking = !self.work();
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
        self.completed |= self.restored && !restored;
        let completed = self.completed && cache.is_source_synced(self.source);
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
            self.inner.source(self.source, SourceRecord::confirmed);
        }
        let is_first =
            |source: &mut SourceRecord| !core::mem::replace(&mut source.is_complete, true);
        if completed && self.inner.source(self.source, is_first) == Some(true) {
            self.inner.source_changed();
        }
        self.inner
            .hook(METRICS, || self.inner.figures.applied(deltas, levels));
        self.inner.reached.send_if_modified(|shown| {
            let Some(shown) = shown.get_mut(&self.source) else {
                return false;
            };
            let moved = *shown != reached;
            *shown = reached;
            moved
        });
        self.inner.status.send_if_modified(|status| {
            status.served |= synced;
            core::mem::replace(&mut status.synced, synced) != synced
        });
    }

    /// Continues a walk in progress, and has the driver polled again if there is more to do.
    fn poll_walk(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.walking {
            self.walk(0);
        }
        if self.walking {
            // Waking the task at once would poll the driver again before other tasks.
            return core::pin::pin!(tokio::task::yield_now()).poll(cx);
        }
        Poll::Ready(())
    }

    fn apply_batch(&mut self, batch: &mut Batch<D::Value>, version: Option<&ResourceVersion<Key>>) {
        let inner = &self.inner;
        let recorder = &mut self.recorder;
        if let Some(recorder) = recorder {
            recorder.set_time(now());
        }
        let mut cache = loop {
            let indexes = inner.indexes();
            batch.compute_values(&indexes, &mut |report| inner.report(&report));
            let cache = inner.cache_mut();
            // An index was added in the meantime. Compute its values, again outside of the lock.
            if inner.indexes().len() == indexes.len() {
                break cache;
            }
        };
        let mut delivery = inner.delivery();
        let mut start = 0;
        let mut refused = Vec::new();
        let Batch {
            items,
            keys,
            persisted,
            ..
        } = batch;
        for item in items.drain(..) {
            let (mut key, mut place) = ("", None);
            let step = match item {
                Item::Step(step) => step,
                Item::Object(gathered) => {
                    let range = (start, gathered.key_end);
                    start = gathered.key_end;
                    key = &keys[range.0..range.1];
                    place = Some((range, gathered.persisted));
                    gathered.step(key)
                }
            };
            if let Step::Object {
                change: Change::Listed,
                object: None,
                ..
            } = step
            {
                self.unusable += 1;
            }
            self.completed |= matches!(step, Step::Complete(_));
            if let Some(recorder) = recorder {
                recorder.journal().at(place);
            }
            match cache.apply(self.source, step, recorder) {
                Ok(true) => {
                    let (from, to) = place.map_or((0, 0), |(_, object)| object);
                    let object = &persisted[from..to];
                    recorder.append(Record::Put { key, object });
                }
                Ok(false) => {}
                Err(why) => refused.push((key, why)),
            }
            // Deltas are applied one at a time as they come, so the lock is never held for long.
            let mut budget = STEPS;
            while let Some(notification) = cache.pop_within(&mut budget) {
                delivery.listeners.append(notification);
            }
        }
        if let Some(version) = version {
            // The source exists, so this cannot fail.
            let reached = Step::Reached(version.clone());
            let _ = cache.apply(self.source, reached, recorder);
        }
        // Dropping an object can run user code, which may read this cache.
        let discarded = (cache.take_discarded(), delivery.listeners.take_discarded());
        drop(delivery);
        drop(cache);
        let ((mut replaced, unused), mut delivered) = discarded;
        drop(unused);
        for objects in [&mut replaced, &mut delivered] {
            inner.retired.put(objects);
            inner.discard(objects.drain(..));
        }
        for (key, why) in refused {
            self.unusable += 1;
            inner.report(&Report::about(Phase::Cache, why.problem(key)));
        }
        if let Some(recorder) = recorder {
            let outbox = recorder.journal();
            outbox.send(&mut batch.keys, &mut batch.persisted);
        }
    }

    /// Works for as long as the lock may be held. Returns whether everything is done.
    fn work(&self) -> bool {
        let began = std::time::Instant::now();
        self.inner.locked(|cache, delivery| {
            for _ in 0..MOST_STEPS / STEPS {
                let mut budget = STEPS;
                while let Some(notification) = cache.pop_within(&mut budget) {
                    delivery.listeners.append(notification);
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
        if let Some(step) = Step::of_frame(&frame) {
            self.batch.items.push(Item::Step(step));
        }
        match frame {
            Frame::Object(object) => {
                if object.change != Change::Listed {
                    self.note(&object.raw.resource_version());
                }
                self.object(&object);
            }
            Frame::Complete { version } => {
                self.note(version);
                self.inner.listed(self.source);
                // The first state is delivered before later frames of the same batch change it. Otherwise the change
                // would not be notified.
                self.apply(None);
                self.settle();
            }
            Frame::Report(report) => self.inner.report_of(Some(self.source), &report),
            Frame::Bookmark { version } => self.note(version),
            Frame::Begin | Frame::Internal | _ => {}
        }
        self.proceed();
    }

    fn flush(&mut self, _now: Instant, version: &ResourceVersion<Key>) {
        self.read = 0;
        self.apply_reached(version);
        self.inner.discard(self.inner.retired.close());
    }

    fn pause(&mut self, _now: Instant, version: &ResourceVersion<Key>) {
        // Batches that other threads decode are applied in order.
        if self.pool.has_threads() {
            self.proceed();
        } else {
            self.inner.retired.open();
            self.apply_reached(version);
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

    fn received(&mut self, format: Format, bytes: usize) {
        self.inner.received(self.source, format, bytes as u64);
    }

    fn activity(&mut self, _now: Instant, activity: Activity) {
        self.inner.activity(self.source, activity);
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>, has_begun: bool) -> Poll<()> {
        self.turn.poll(cx, has_begun)
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(recorder) = &mut self.recorder {
            core::task::ready!(recorder.journal().poll_room(cx));
        }
        // Handlers are notified of a list before later events change its objects. Otherwise they would miss the change.
        self.poll_walk(cx)
    }

    fn poll_command(&mut self, cx: &mut Context<'_>) -> Poll<Command> {
        core::task::ready!(self.poll_walk(cx));
        if self.stop.as_mut().poll(cx).is_ready() {
            // The future must not be polled again after it was ready.
            self.stop = Box::pin(core::future::pending());
            return Poll::Ready(Command::Stop);
        }
        if core::mem::take(&mut self.refill) {
            return Poll::Ready(Command::Refill);
        }
        if let Some(recorder) = &mut self.recorder
            && recorder.journal().poll_list(cx).is_ready()
        {
            return Poll::Ready(Command::Refill);
        }
        // Without an audit, or after its end, the channel is closed.
        if let Poll::Ready(Some(())) = self.repairs.poll_recv(cx) {
            return Poll::Ready(Command::Repair);
        }
        if self.source != SourceId::FIRST {
            // The sink of the first source handles the resyncs of the cache. It runs until the informer stops.
            return Poll::Pending;
        }
        self.inner.poll_resyncs_changed(cx).map(|()| {
            // `handle_timeout` handles the new deadlines.
            self.deadline = Some(Instant::from_micros(0));
            Command::Wake
        })
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn handle_timeout(&mut self, now: Instant) {
        let (due, deadline) = self.inner.locked(|cache, delivery| {
            let due = delivery
                .listeners
                .next_resync(now)
                .is_some_and(|due| now >= due);
            if due {
                // The listeners must know the pass before its first notification.
                let pass = cache.resync();
                delivery.listeners.begin_pass(now, pass);
            }
            (due, delivery.listeners.next_resync(now))
        });
        self.deadline = deadline;
        if due {
            self.apply(None);
        }
    }
}
