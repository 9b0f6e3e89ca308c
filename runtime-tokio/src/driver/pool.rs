//! Decoding on several threads. Batches are passed on as they fill, and return in order.

use core::any::Any;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::collections::VecDeque;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use informer_core::Decode;
use informer_core::cache::SourceId;

use crate::cache::shared::Inner;
use crate::driver::batch::Batch;

/// The bytes of JSON per job. A job takes several hundred microseconds or more, and little memory.
const JOB_BYTES: usize = 64 << 10;
/// Records restored from a journal arrive faster than a thread wakes, so their jobs are larger.
const JOURNAL_JOB_BYTES: usize = 1 << 20;
/// How long a helper thread waits for another job. The next part of a list or journal usually arrives earlier, and
/// waking a thread takes up to a tenth of a job's time.
const LINGER: Duration = Duration::from_millis(2);
/// The most helper threads. A list does not arrive faster than they can decode it.
const MOST: usize = 8;

/// The batches of one source that are being decoded. There are at most two more of them than helper threads.
pub(crate) struct Pool<D: Decode> {
    decoder: Decoder<D>,
    under_way: VecDeque<Arc<Job<D::Value>>>,
    threads: usize,
    job_bytes: usize,
    /// The number of helper threads and the bytes per job while a journal is read.
    for_journal: (usize, usize),
    runtime: Option<tokio::runtime::Handle>,
    helpers: Arc<Helpers<D::Value>>,
    spare: Vec<Batch<D::Value>>,
}

/// The state that the helper threads share.
struct Helpers<V> {
    desk: Mutex<Desk<V>>,
    changed: Condvar,
}

struct Desk<V> {
    jobs: VecDeque<Arc<Job<V>>>,
    /// The number of helper threads.
    helping: usize,
    /// The number of helper threads that wait for a job.
    idle: usize,
    closed: bool,
}

/// Decodes batches, and reports objects that cannot be used.
pub(crate) struct Decoder<D: Decode> {
    pub(crate) inner: Arc<Inner<D::Value>>,
    pub(crate) decode: Arc<D>,
    pub(crate) source: SourceId,
}

struct Job<V> {
    state: Mutex<Decoding<V>>,
    changed: Condvar,
}

/// A batch is decoded by whoever takes it first: a helper thread, or the driver when it needs the batch.
enum Decoding<V> {
    Waiting(Batch<V>),
    Taken,
    Done(Batch<V>),
    /// The decoder panicked. The driver resumes the panic.
    Panicked(Box<dyn Any + Send>),
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
    /// Decodes the remaining JSON, and computes the index values.
    pub(crate) fn run(&self, batch: &mut Batch<D::Value>) {
        let report = &mut |report: informer_core::Report<'_>| {
            self.inner.report_of(Some(self.source), &report);
        };
        batch.decode(&*self.decode, report);
        batch.compute_values(&self.inner.indexes(), report);
    }
}

impl<V> Helpers<V> {
    fn new() -> Self {
        Self {
            desk: Mutex::new(Desk {
                jobs: VecDeque::new(),
                helping: 0,
                idle: 0,
                closed: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Desk<V>> {
        // Code under this lock cannot panic.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job. Returns whether to start another helper thread, up to `most`.
    fn push(&self, job: Arc<Job<V>>, most: usize) -> bool {
        let mut desk = self.lock();
        desk.jobs.push_back(job);
        if desk.jobs.len() <= desk.idle {
            self.changed.notify_one();
            return false;
        }
        let wants_more = desk.helping < most;
        desk.helping += usize::from(wants_more);
        wants_more
    }

    /// Takes the next job; `None` if there is none for a while.
    fn next(&self) -> Option<Arc<Job<V>>> {
        let mut desk = self.lock();
        loop {
            if desk.closed {
                break;
            }
            if let Some(job) = desk.jobs.pop_front() {
                return Some(job);
            }
            desk.idle += 1;
            let waited = self.changed.wait_timeout(desk, LINGER);
            let (woken, why) = waited.unwrap_or_else(PoisonError::into_inner);
            desk = woken;
            desk.idle -= 1;
            if why.timed_out() && desk.jobs.is_empty() {
                break;
            }
        }
        desk.helping -= 1;
        None
    }

    fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }
}

impl<D: Decode> Drop for Pool<D> {
    fn drop(&mut self) {
        self.helpers.close();
    }
}

impl<V> Job<V> {
    fn lock(&self) -> MutexGuard<'_, Decoding<V>> {
        // Code under this lock cannot panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the job, unless it has been started.
    fn help<D: Decode<Value = V>>(&self, decoder: &Decoder<D>) {
        let mut state = self.lock();
        let Decoding::Waiting(_) = *state else {
            return;
        };
        let Decoding::Waiting(mut batch) = core::mem::replace(&mut *state, Decoding::Taken) else {
            return;
        };
        drop(state);
        let done = match catch_unwind(AssertUnwindSafe(|| decoder.run(&mut batch))) {
            Ok(()) => Decoding::Done(batch),
            Err(panic) => Decoding::Panicked(panic),
        };
        *self.lock() = done;
        self.changed.notify_all();
    }

    /// Waits until the job is done.
    fn finish(&self) -> Batch<V> {
        let mut state = self.lock();
        loop {
            match core::mem::replace(&mut *state, Decoding::Taken) {
                Decoding::Done(batch) => return batch,
                Decoding::Panicked(panic) => {
                    drop(state);
                    resume_unwind(panic);
                }
                before @ (Decoding::Waiting(_) | Decoding::Taken) => *state = before,
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn is_done(&self) -> bool {
        matches!(*self.lock(), Decoding::Done(_) | Decoding::Panicked(_))
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
            job_bytes: JOB_BYTES,
            for_journal: (for_journal, JOURNAL_JOB_BYTES),
            runtime,
            helpers: Arc::new(Helpers::new()),
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

    /// Returns whether batches are being decoded.
    pub(crate) fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Passes on a batch.
    pub(crate) fn push(&mut self, batch: Batch<D::Value>) {
        let job = Arc::new(Job {
            state: Mutex::new(Decoding::Waiting(batch)),
            changed: Condvar::new(),
        });
        self.under_way.push_back(Arc::clone(&job));
        if let Some(runtime) = &self.runtime
            && self.helpers.push(job, self.threads)
        {
            let (decoder, helpers) = (self.decoder.clone(), Arc::clone(&self.helpers));
            runtime.spawn_blocking(move || {
                while let Some(job) = helpers.next() {
                    job.help(&decoder);
                }
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
        job.help(&self.decoder);
        for other in &self.under_way {
            if job.is_done() {
                break;
            }
            other.help(&self.decoder);
        }
        Some(job.finish())
    }

    /// Returns an empty batch.
    pub(crate) fn empty(&mut self) -> Batch<D::Value> {
        self.spare.pop().unwrap_or(const { Batch::new() })
    }

    /// Frees the memory of spare batches, which an idle watch does not need.
    pub(crate) fn settle(&mut self) {
        self.spare.truncate(1);
        self.spare.iter_mut().for_each(Batch::settle);
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
