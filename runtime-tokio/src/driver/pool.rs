//! Decoding on several threads. Batches are passed on as they fill, and return in order.
//!
//! `spawn_blocking` for each batch would not do: a batch must be decoded by the thread whose heap has the old states,
//! and that thread must free them. Besides, a sink is not asynchronous: after [`flush`](informer_core::Sink::flush)
//! everything is applied.

mod jobs;

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use informer_core::Decode;
use informer_core::cache::SourceId;

use crate::cache::shared::Inner;
use crate::driver::batch::Batch;
use crate::driver::pool::jobs::{Job, Queue};

/// The bytes per job. A job takes several hundred microseconds or more, and little memory.
const JOB_BYTES: usize = 128 << 10;
/// Records restored from a journal arrive faster than a thread wakes, so their jobs are larger.
const JOURNAL_JOB_BYTES: usize = 1 << 20;
/// How long the driver leaves a batch to the helper threads before it decodes it by itself. The runtime may have no
/// blocking thread left. A job before it takes one or two milliseconds.
const PATIENCE: Duration = Duration::from_millis(100);
/// The most helper threads. A list does not arrive faster than they can decode it.
const MOST: usize = 8;
/// The most helper threads of all informers together whose number of threads was not set. Without a limit, informers that
/// sync at once could start one each.
const MOST_OF_ALL: usize = 16;

/// The batches of one source that are being decoded. There are at most two more of them than helper threads.
pub(crate) struct Pool<D: Decode> {
    decoder: Decoder<D>,
    under_way: VecDeque<Arc<Job<Batch<D::Value>>>>,
    threads: usize,
    job_bytes: usize,
    /// Whether the user has set the number of threads.
    is_set: bool,
    /// The number of helper threads and the bytes per job while a journal is read.
    for_journal: (usize, usize),
    runtime: Option<tokio::runtime::Handle>,
    /// How long to leave a batch to the helper threads. After a timeout it is zero until one of them has taken a batch.
    patience: Duration,
    queue: Arc<Queue<Batch<D::Value>>>,
    spare: Vec<Batch<D::Value>>,
}

/// Decodes batches, and reports objects that cannot be used.
pub(crate) struct Decoder<D: Decode> {
    pub(crate) inner: Arc<Inner<D::Value>>,
    pub(crate) decode: Arc<D>,
    pub(crate) source: SourceId,
}

impl<D: Decode> Clone for Decoder<D> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            decode: Arc::clone(&self.decode),
            source: self.source,
        }
    }
}

impl<D: Decode> Decoder<D> {
    /// Drops the old states of this thread's heap, whose memory serves for the new ones, and decodes.
    pub(crate) fn run(&self, batch: &mut Batch<D::Value>) {
        self.inner.discard(self.inner.retired.take());
        self.decode(batch);
    }

    /// Decodes the remaining JSON, and computes the index values of its objects.
    fn decode(&self, batch: &mut Batch<D::Value>) {
        let report = &mut |report: informer_core::Report<'_>| {
            self.inner.report_of(Some(self.source), &report);
        };
        batch.decode(&*self.decode, &self.inner.indexes(), report);
    }
}

impl<D: Decode> Drop for Pool<D> {
    fn drop(&mut self) {
        self.queue.close();
        // A driver may be dropped at any time.
        let inner = &self.decoder.inner;
        inner.discard(inner.retired.end());
    }
}

impl<D> Pool<D>
where
    D: Decode<Value: Send + Sync + 'static> + Send + Sync + 'static,
{
    /// Creates a pool with this number of helper threads. By default it depends on the number of processors and the
    /// workers of the runtime.
    pub(crate) fn new(decoder: Decoder<D>, threads: Option<usize>) -> Self {
        let runtime = tokio::runtime::Handle::try_current().ok();
        let others = std::thread::available_parallelism().map_or(1, usize::from) - 1;
        let is_set = threads.is_some();
        let for_journal = threads.unwrap_or(others).min(MOST);
        let threads = threads.unwrap_or_else(|| {
            // A single-threaded runtime has one.
            let workers = runtime
                .as_ref()
                .map_or(1, |runtime| runtime.metrics().num_workers());
            others.min(workers - 1)
        });
        let threads = if decoder.decode.is_costly() {
            threads.min(MOST)
        } else {
            0
        };
        Self {
            decoder,
            under_way: VecDeque::new(),
            threads,
            is_set,
            job_bytes: JOB_BYTES,
            for_journal: (for_journal, JOURNAL_JOB_BYTES),
            runtime,
            patience: PATIENCE,
            queue: Arc::new(Queue::new()),
            spare: Vec::new(),
        }
    }

    pub(crate) const fn decoder(&self) -> &Decoder<D> {
        &self.decoder
    }

    /// Switches to the number of threads for reading a journal, or back.
    pub(crate) const fn swap_threads(&mut self) {
        core::mem::swap(&mut self.threads, &mut self.for_journal.0);
        core::mem::swap(&mut self.job_bytes, &mut self.for_journal.1);
    }

    /// Returns the bytes of JSON per job.
    pub(crate) const fn job_bytes(&self) -> usize {
        self.job_bytes
    }

    /// Returns whether there are helper threads.
    pub(crate) const fn has_threads(&self) -> bool {
        self.threads > 0 && self.runtime.is_some()
    }

    /// Returns whether the driver leaves all objects to helper threads, so that they stay in the heaps of these threads.
    ///
    /// If the driver decoded some of them, their memory would come from the heap of the thread on which its task happens
    /// to run, and memory that is freed in one heap is of no use to another.
    pub(crate) fn leaves_all(&self) -> bool {
        self.has_threads() && self.decoder.decode.is_in_pieces()
    }

    /// Returns whether batches are being decoded.
    pub(crate) fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Passes on a batch.
    pub(crate) fn push(&mut self, batch: Batch<D::Value>) {
        let job = Arc::new(Job::new(batch));
        self.under_way.push_back(Arc::clone(&job));
        if let Some(runtime) = &self.runtime
            && self.queue.push(job, self.threads)
        {
            let permit = if self.is_set {
                None
            } else {
                let Some(permit) = Permit::acquire() else {
                    self.queue.not_started();
                    return;
                };
                Some(permit)
            };
            let (decoder, queue) = (self.decoder.clone(), Arc::clone(&self.queue));
            runtime.spawn_blocking(move || {
                let _permit = permit;
                let inner = &decoder.inner;
                inner.discard(inner.retired.help(true));
                while let Some(job) = queue.next() {
                    job.help(|batch| decoder.decode(batch));
                    // The driver does not wait for this. The memory serves for the next objects.
                    inner.discard(inner.retired.help(true));
                }
                inner.discard(inner.retired.help(false));
            });
        }
    }

    /// Returns the oldest batch if it is done, or if there are too many in progress.
    pub(crate) fn next_done(&mut self) -> Option<Batch<D::Value>> {
        let is_done = self.under_way.front()?.is_done();
        if is_done || self.under_way.len() > self.threads + 1 {
            return self.next();
        }
        None
    }

    /// Returns the oldest batch, and decodes others until it is done.
    pub(crate) fn next(&mut self) -> Option<Batch<D::Value>> {
        let job = self.under_way.pop_front()?;
        let leaves_all = self.leaves_all();
        if leaves_all && self.queue.has_helper() {
            if job.is_taken_within(self.patience) {
                self.patience = PATIENCE;
                return Some(job.finish());
            }
            self.patience = Duration::ZERO;
        }
        let run = |batch: &mut _| self.decoder.run(batch);
        job.help(run);
        for other in &self.under_way {
            if leaves_all || job.is_done() {
                break;
            }
            other.help(run);
        }
        Some(job.finish())
    }

    /// Returns an empty batch.
    pub(crate) fn empty(&mut self) -> Batch<D::Value> {
        self.spare.pop().unwrap_or(const { Batch::new() })
    }

    /// Frees the memory of spare batches, which an idle watch does not need.
    pub(crate) fn free_unused(&mut self) {
        self.spare.truncate(1);
        self.spare.iter_mut().for_each(Batch::free_unused);
    }

    /// Takes back a batch that has been applied.
    pub(crate) fn put_back(&mut self, mut batch: Batch<D::Value>) {
        // The memory of a list is of no use to a watch.
        if self.under_way.is_empty() {
            self.spare.clear();
        }
        if self.spare.len() <= self.threads {
            batch.clear();
            self.spare.push(batch);
        }
    }
}

/// The permit of a helper thread to be one of [`MOST_OF_ALL`].
struct Permit;

impl Permit {
    /// The number of permits in use.
    fn in_use() -> &'static AtomicUsize {
        static IN_USE: AtomicUsize = AtomicUsize::new(0);
        &IN_USE
    }

    fn acquire() -> Option<Self> {
        let more = |in_use| (in_use < MOST_OF_ALL).then_some(in_use + 1);
        let acquired = Self::in_use().fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        // Only a permit that was acquired may be dropped.
        acquired.is_ok().then(|| Self)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        Self::in_use().fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_the_driver_has_done_leave_the_queue_without_a_helper_thread() {
        let queue = Queue::new();
        let done = [(); 3].map(|()| {
            let job = Arc::new(Job::new(()));
            queue.push(Arc::clone(&job), 0);
            job.help(|()| ());
            Arc::downgrade(&job)
        });
        let waiting = Arc::new(Job::new(()));
        queue.push(Arc::clone(&waiting), 0);
        assert!(done.iter().all(|job| job.upgrade().is_none()));
        assert_eq!(Arc::strong_count(&waiting), 2);
    }

    #[test]
    fn helper_threads_of_all_informers_are_limited() {
        let permits: Vec<_> = core::iter::from_fn(Permit::acquire).collect();
        assert!(permits.len() <= MOST_OF_ALL);
        assert!(Permit::acquire().is_none());
        drop(permits);
        assert!(Permit::acquire().is_some());

        let queue = Queue::new();
        for _ in 0..2 {
            assert!(queue.push(Arc::new(Job::new(())), 1), "none is started");
            assert!(queue.has_helper());
            queue.not_started();
            assert!(!queue.has_helper());
        }
    }
}
