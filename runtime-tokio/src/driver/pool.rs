//! Decoding on several threads. Batches are passed on as they fill, and return in order.
//!
//! The key of an object decides which thread decodes it. The states of an object thus come from one heap of the
//! allocator, and the memory of an old state serves for a new one. If any thread decoded any object, each heap would
//! grow to the most that its thread ever had: half as much memory again after many updates.

use core::any::Any;
use core::hash::Hasher as _;
use core::panic::AssertUnwindSafe;
use std::collections::VecDeque;
use std::hash::DefaultHasher;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use informer_core::Decode;
use informer_core::cache::SourceId;

use crate::cache::shared::Inner;
use crate::driver::batch::{Batch, Decoded};

/// The bytes of JSON per job. A job takes several hundred microseconds or more, which is long compared to waking a thread,
/// and little memory.
const JOB_BYTES: usize = 128 << 10;
/// Records restored from a journal arrive faster than a thread wakes, so their jobs are larger.
const JOURNAL_JOB_BYTES: usize = 1 << 20;
/// The most threads. A list does not arrive faster than they can decode it.
const MOST: usize = 8;
/// The number of jobs in progress besides one for each thread. The shares of a job differ in size, so a thread may be
/// some jobs ahead of another.
const AHEAD: usize = 4;

/// The batches of one source that are being decoded.
pub(crate) struct Pool<D: Decode> {
    decoder: Decoder<D>,
    under_way: VecDeque<Arc<Job<D::Value>>>,
    threads: usize,
    job_bytes: usize,
    /// The number of threads and the bytes per job while a journal is read.
    for_journal: (usize, usize),
    spare: Vec<Batch<D::Value>>,
}

/// Decodes batches, and reports objects that cannot be used.
pub(crate) struct Decoder<D: Decode> {
    pub(crate) inner: Arc<Inner<D::Value>>,
    pub(crate) decode: Arc<D>,
    pub(crate) source: SourceId,
}

/// A batch, of which each thread decodes its share.
struct Job<V> {
    state: Mutex<Decoding<V>>,
    changed: Condvar,
}

struct Decoding<V> {
    batch: Option<Arc<Batch<V>>>,
    shares: [Share<V>; MOST],
    /// The number of shares that are not done.
    left: usize,
}

enum Share<V> {
    Waiting,
    Done(Decoded<V>),
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
        if batch.pending() > 0 {
            let decoded = self.decode(batch, None);
            batch.fill(&mut [decoded]);
        }
        batch.compute_values(&self.inner.indexes(), &mut |report| self.report(&report));
    }

    /// Decodes a share of a batch, or all of it.
    fn decode(&self, batch: &Batch<D::Value>, share: Option<u8>) -> Decoded<D::Value> {
        let indexes = self.inner.indexes();
        batch.decode(share, &*self.decode, &indexes, &mut |report| {
            self.report(&report);
        })
    }

    fn report(&self, report: &informer_core::Report<'_>) {
        self.inner.report_of(Some(self.source), report);
    }
}

/// The threads that decode, which all informers of the process share. They start when there is work and stay.
static THREADS: [OnceLock<Option<Sender<Task>>>; MOST] = [const { OnceLock::new() }; MOST];

type Task = Box<dyn FnOnce() + Send>;

/// Runs a task on a thread, or here if the system refuses to start the thread.
fn run_on(thread: u8, task: Task) {
    let start = || {
        let (sender, tasks) = channel::<Task>();
        // The task may drop the last reference to an informer, and dropping an object may panic.
        let run_one = |task: Task| drop(catch_unwind(AssertUnwindSafe(task)));
        let run = move || tasks.into_iter().for_each(run_one);
        let builder = std::thread::Builder::new().name(format!("informer-decode-{thread}"));
        builder.spawn(run).ok().map(|_| sender)
    };
    let sender = THREADS
        .get(usize::from(thread))
        .and_then(|it| it.get_or_init(start).as_ref());
    match sender {
        // The thread never ends, so this cannot fail.
        Some(sender) => drop(sender.send(task)),
        None => task(),
    }
}

impl<V> Job<V> {
    fn lock(&self) -> MutexGuard<'_, Decoding<V>> {
        // Code under this lock cannot panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decodes a share.
    fn decode<D: Decode<Value = V>>(&self, share: u8, decoder: &Decoder<D>) {
        let Some(batch) = self.lock().batch.clone() else {
            return;
        };
        let decode = || decoder.decode(&batch, Some(share));
        let done = match catch_unwind(AssertUnwindSafe(decode)) {
            Ok(decoded) => Share::Done(decoded),
            Err(panic) => Share::Panicked(panic),
        };
        // When the last share is done, the job alone has the batch.
        drop(batch);
        let mut state = self.lock();
        if let Some(share) = state.shares.get_mut(usize::from(share)) {
            *share = done;
        }
        state.left -= 1;
        if state.left == 0 {
            self.changed.notify_all();
        }
    }

    /// Waits until all shares are done, and returns the batch.
    fn finish(&self) -> Option<Batch<V>> {
        let waited = self.changed.wait_while(self.lock(), |state| state.left > 0);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let batch = state.batch.take();
        let shares = core::mem::replace(&mut state.shares, [const { Share::Waiting }; MOST]);
        drop(state);
        let mut batch = Arc::into_inner(batch?)?;
        batch.fill(&mut shares.map(|share| match share {
            Share::Done(decoded) => decoded,
            Share::Panicked(panic) => resume_unwind(panic),
            Share::Waiting => Decoded::EMPTY,
        }));
        Some(batch)
    }

    fn is_done(&self) -> bool {
        self.lock().left == 0
    }
}

impl<D> Pool<D>
where
    D: Decode<Value: Send + Sync + 'static> + Send + Sync + 'static,
{
    /// Creates a pool with this number of threads. By default it depends on the number of processors and the workers of
    /// the runtime.
    pub(crate) fn new(decoder: Decoder<D>, threads: Option<usize>) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let several = |number: usize| if number > 1 { number.min(MOST) } else { 0 };
        let for_journal = threads.unwrap_or_else(|| several(processors));
        let threads = threads.unwrap_or_else(|| {
            let runtime = tokio::runtime::Handle::try_current();
            // A single-threaded runtime has one.
            let workers = runtime.map_or(1, |runtime| runtime.metrics().num_workers());
            if workers > 1 { several(processors) } else { 0 }
        });
        let is_costly = decoder.decode.is_costly();
        Self {
            decoder,
            under_way: VecDeque::new(),
            threads: if is_costly { threads.min(MOST) } else { 0 },
            job_bytes: JOB_BYTES,
            for_journal: (for_journal.min(MOST), JOURNAL_JOB_BYTES),
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

    /// Returns whether other threads decode.
    pub(crate) const fn has_threads(&self) -> bool {
        self.threads > 0
    }

    /// Returns whether batches are being decoded.
    pub(crate) fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Returns the share to which an object belongs, which is the number of the thread that decodes it.
    pub(crate) fn share_of(&self, key: &str) -> u8 {
        let mut hasher = DefaultHasher::new();
        hasher.write(key.as_bytes());
        let threads = self.threads.max(1) as u64;
        // It is less than `MOST`.
        (hasher.finish() % threads) as u8
    }

    /// Passes on a batch.
    pub(crate) fn push(&mut self, batch: Batch<D::Value>) {
        let mut has_share = [false; MOST];
        for share in batch.shares() {
            if let Some(has_share) = has_share.get_mut(usize::from(share)) {
                *has_share = true;
            }
        }
        let shares = (0..).zip(has_share).filter(|(_, has_share)| *has_share);
        let job = Arc::new(Job {
            state: Mutex::new(Decoding {
                batch: Some(Arc::new(batch)),
                shares: [const { Share::Waiting }; MOST],
                left: shares.clone().count(),
            }),
            changed: Condvar::new(),
        });
        self.under_way.push_back(Arc::clone(&job));
        for (share, _) in shares {
            let (decoder, job) = (self.decoder.clone(), Arc::clone(&job));
            run_on(share, Box::new(move || job.decode(share, &decoder)));
        }
    }

    /// Returns the oldest batch if it is done, or if there are too many in progress.
    pub(crate) fn next_done(&mut self) -> Option<Batch<D::Value>> {
        let is_done = self.under_way.front()?.is_done();
        if is_done || self.under_way.len() > self.threads + AHEAD {
            return self.next();
        }
        None
    }

    /// Returns the oldest batch when it is done.
    pub(crate) fn next(&mut self) -> Option<Batch<D::Value>> {
        self.under_way.pop_front()?.finish()
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
