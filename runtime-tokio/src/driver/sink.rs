//! The sink between the reflector and the cache. It decodes outside of the lock, and applies batches under it.

mod apply;
mod restore;

use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll};
use std::sync::Arc;

use informer_core::{
    Decode, Frame, Instant, Report, ResourceVersion, Sink, Step,
    cache::SourceId,
    drive::{Activity, Command},
    json::JsonStr,
    reflector::{Change, ObjectFrame},
    report::{Phase, Problem},
    wire::Format,
};
use informer_journal::Recorder;
use tokio::sync::mpsc;

use crate::cache::entry::{Key, in_cluster};
use crate::cache::shared::Inner;
use crate::driver::allocator::give_back;
use crate::driver::batch::{Batch, BatchStep, Item};
use crate::driver::journal::Outbox;
use crate::driver::pool::{Decoder, Pool};
use crate::driver::turn::Turn;

/// The most objects that are applied under one lock.
const BATCH: usize = 256;
/// The number of events after a wait that the driver decodes by itself before it uses other threads, unless these decode
/// all objects.
const FEW: usize = 8;
/// The number of objects after which the driver drops the old states of its heap.
const RETIRED: usize = 32;
/// The bytes of JSON of lists, in all informers, after which returning memory to the system is worth it.
const LARGE: usize = 1 << 20;
/// Applies the frames of one source.
pub(crate) struct CacheSink<D: Decode> {
    inner: Arc<Inner<D::Value>>,
    source: SourceId,
    /// Gathered frames, which follow those in the pool.
    batch: Batch<D::Value>,
    pool: Pool<D>,
    deadline: Option<Instant>,
    turn: Turn,
    /// The number of objects that were gathered or are being decoded.
    queued: usize,
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
pub(crate) type Restored = informer_journal::Restored<Key>;

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
            queued: 0,
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

    /// Records a version for `on_version`.
    fn gather_version(&mut self, version: &dyn core::fmt::Display) {
        if self.inner.on_version.is_some() {
            self.batch.versions.push(version.to_string());
        }
    }

    /// Adds a step that follows from a frame without an object.
    fn step(&mut self, step: BatchStep<'static, D::Value>) {
        self.batch.items.push(Item::Step(step));
    }

    fn object(&mut self, frame: &ObjectFrame<'_>) {
        self.queued += 1;
        self.inner.queued.fetch_add(1, Ordering::Relaxed);
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
        self.batch.kept = self.inner.kept();
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

    /// Records that objects were taken from what was gathered.
    fn note_taken(&mut self, objects: usize) {
        let taken = objects.min(self.queued);
        self.queued -= taken;
        self.inner.queued.fetch_sub(taken, Ordering::Relaxed);
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
    fn free_list_memory(&mut self) {
        self.free_buffers();
        // Many small lists leave as much memory as a large one.
        static LISTED: AtomicUsize = AtomicUsize::new(0);
        let listed = core::mem::take(&mut self.listed);
        if LISTED.fetch_add(listed, Ordering::Relaxed) + listed < LARGE {
            return;
        }
        LISTED.store(0, Ordering::Relaxed);
        #[cfg(feature = "zstd")]
        crate::packed::free_codecs();
        give_back();
    }

    /// Frees buffers that an idle watch does not need.
    fn free_buffers(&mut self) {
        self.batch.free_unused();
        self.pool.free_unused();
    }

    /// Passes on a batch that is large enough for another thread, and applies those that are done.
    fn proceed(&mut self) {
        if self.batch.pending() >= self.pool.job_bytes() || self.batch.items.len() >= BATCH {
            // The driver is busy, so that it will drop old states soon.
            self.inner.retired.open();
            if self.batch.pending() > 0 {
                self.pass_on();
            } else {
                self.apply_all(None);
            }
        }
        while let Some(batch) = self.pool.next_done() {
            self.apply(batch, None);
        }
    }

    /// Passes on what was gathered to the helper threads.
    fn pass_on(&mut self) {
        let empty = self.pool.empty();
        self.pool.push(core::mem::replace(&mut self.batch, empty));
    }

    /// Applies everything that was gathered.
    fn apply_all(&mut self, version: Option<&ResourceVersion<Key>>) {
        if self.batch.pending() > 0 && self.pool.leaves_all() {
            self.pass_on();
        }
        while let Some(batch) = self.pool.next() {
            // The version is reached with the last batch.
            let is_last = !self.pool.is_busy() && self.batch.is_empty();
            self.apply(batch, version.filter(|_| is_last));
            if is_last {
                return;
            }
        }
        let empty = self.pool.empty();
        let mut batch = core::mem::replace(&mut self.batch, empty);
        self.pool.decoder().run(&mut batch);
        self.apply(batch, version);
    }

    /// Applies everything, and that this version is reached.
    fn apply_up_to(&mut self, version: &ResourceVersion<Key>) {
        let reached = self
            .inner
            .cache()
            .version(self.source)
            .is_some_and(|reached| reached == version);
        if !self.batch.items.is_empty() || self.pool.is_busy() || !reached {
            self.apply_all(Some(version));
        }
        self.free_buffers();
    }
}

impl<D> Sink<Key> for CacheSink<D>
where
    D: Decode<Value: Send + Sync + 'static> + Send + Sync + 'static,
{
    fn frame(&mut self, _now: Instant, frame: Frame<'_, Key>) {
        match frame {
            Frame::Object(object) => {
                if object.change != Change::Listed {
                    self.gather_version(&object.raw.resource_version());
                }
                self.object(&object);
            }
            Frame::Complete { version } => {
                self.step(Step::Complete(version.clone()));
                self.gather_version(version);
                self.inner.listed(self.source, version);
                // The first state is delivered before later frames of the same batch change it. Otherwise the change
                // would not be notified.
                self.apply_all(None);
                self.free_list_memory();
            }
            Frame::Report(report) => self.inner.report_of(Some(self.source), &report),
            Frame::Bookmark { version } => {
                self.inner.bookmark(self.source, version);
                self.step(Step::Confirm);
                self.gather_version(version);
            }
            Frame::Begin => {
                self.inner.list_begins(self.source);
                self.step(Step::Begin);
            }
            Frame::Internal | _ => {}
        }
        self.proceed();
    }

    fn flush(&mut self, _now: Instant, version: &ResourceVersion<Key>) {
        self.read = 0;
        self.apply_up_to(version);
        self.inner.discard(self.inner.retired.close());
    }

    fn pause(&mut self, _now: Instant, version: &ResourceVersion<Key>) {
        // Batches that other threads decode are applied in order.
        if self.pool.has_threads() {
            self.proceed();
        } else {
            self.inner.retired.open();
            self.apply_up_to(version);
        }
    }

    fn report(&mut self, _now: Instant, report: Report<'_>) {
        let report = report.with_detail(&self.failure);
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
            self.apply_all(None);
        }
    }
}

impl<D: Decode> Drop for CacheSink<D> {
    fn drop(&mut self) {
        // What was gathered will not be applied any more.
        self.inner.queued.fetch_sub(self.queued, Ordering::Relaxed);
    }
}
