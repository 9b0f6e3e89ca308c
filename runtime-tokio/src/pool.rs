//! Decoding on several threads: batches are handed on as they fill, and come back in their order.

use core::any::Any;
use core::panic::AssertUnwindSafe;
use std::collections::VecDeque;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use informer_core::Decode;

use crate::batch::Batch;
use crate::shared::Inner;

/// How many bytes of JSON are one job: some milliseconds of work, and little memory.
pub(crate) const JOB_BYTES: usize = 256 << 10;
/// How many threads help at most; a list does not come faster than this many can decode it.
const MOST: usize = 8;

/// The batches of one source that are decoded elsewhere. There are never more of them than threads that help, and two.
pub(crate) struct Pool<D: Decode> {
    decoder: Decoder<D>,
    under_way: VecDeque<Arc<Job<D::Value>>>,
    threads: usize,
    runtime: Option<tokio::runtime::Handle>,
    spare: Vec<Batch<D::Value>>,
}

/// Decodes, and says what cannot be used.
pub(crate) struct Decoder<D: Decode> {
    pub(crate) inner: Arc<Inner<D::Value>>,
    pub(crate) decode: Arc<D>,
    pub(crate) source: u16,
}

struct Job<V> {
    state: Mutex<State<V>>,
    changed: Condvar,
}

/// Whoever comes first takes a batch: a thread of the pool, or the driver, which waits for it.
enum State<V> {
    Waiting(Batch<V>),
    Taken,
    Done(Batch<V>),
    /// The decoder panicked; the driver goes on with that.
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
    /// Decodes what is still JSON, and computes what the indexes want of it.
    pub(crate) fn run(&self, batch: &mut Batch<D::Value>) {
        let report = &mut |report: informer_core::Report<'_>| {
            self.inner.report_of(Some(self.source), &report);
        };
        batch.decode(&*self.decode, report);
        batch.compute_values(&self.inner.indexes(), report);
    }
}

impl<V> Job<V> {
    fn lock(&self) -> MutexGuard<'_, State<V>> {
        // Nothing that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the work, unless somebody has begun with it.
    fn help<D: Decode<Value = V>>(&self, decoder: &Decoder<D>) {
        let mut state = self.lock();
        let State::Waiting(_) = *state else {
            return;
        };
        let State::Waiting(mut batch) = core::mem::replace(&mut *state, State::Taken) else {
            return;
        };
        drop(state);
        let done = match catch_unwind(AssertUnwindSafe(|| decoder.run(&mut batch))) {
            Ok(()) => State::Done(batch),
            Err(panic) => State::Panicked(panic),
        };
        *self.lock() = done;
        self.changed.notify_all();
    }

    /// Waits until it is done.
    fn finish(&self) -> Batch<V> {
        let mut state = self.lock();
        loop {
            match core::mem::replace(&mut *state, State::Taken) {
                State::Done(batch) => return batch,
                State::Panicked(panic) => {
                    drop(state);
                    resume_unwind(panic);
                }
                before @ (State::Waiting(_) | State::Taken) => *state = before,
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn is_done(&self) -> bool {
        matches!(*self.lock(), State::Done(_) | State::Panicked(_))
    }
}

impl<D> Pool<D>
where
    D: Decode<Value: Send + Sync + 'static> + Send + Sync + 'static,
{
    /// Makes a pool of so many threads beside the driver's; where nothing is said, of those that the machine has and
    /// that a runtime of several threads would use.
    pub(crate) fn new(decoder: Decoder<D>, threads: Option<usize>) -> Self {
        let runtime = tokio::runtime::Handle::try_current().ok();
        let threads = threads.unwrap_or_else(|| {
            // A runtime of one thread has one.
            let workers = runtime
                .as_ref()
                .map_or(1, |runtime| runtime.metrics().num_workers());
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            workers.min(processors) - 1
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
            runtime,
            spare: Vec::new(),
        }
    }

    pub(crate) const fn decoder(&self) -> &Decoder<D> {
        &self.decoder
    }

    /// Tells whether there is anybody but the driver.
    pub(crate) const fn has_threads(&self) -> bool {
        self.threads > 0 && self.runtime.is_some()
    }

    /// Tells whether anything is under way.
    pub(crate) fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Hands on a batch.
    pub(crate) fn push(&mut self, batch: Batch<D::Value>) {
        let job = Arc::new(Job {
            state: Mutex::new(State::Waiting(batch)),
            changed: Condvar::new(),
        });
        self.under_way.push_back(Arc::clone(&job));
        if let Some(runtime) = &self.runtime {
            let decoder = self.decoder.clone();
            runtime.spawn_blocking(move || job.help(&decoder));
        }
    }

    /// Returns the oldest batch when it is done; where it is not, only if there are too many under way.
    pub(crate) fn next_done(&mut self) -> Option<Batch<D::Value>> {
        let is_done = self.under_way.front()?.is_done();
        if is_done || self.under_way.len() > self.threads + 1 {
            return self.next();
        }
        None
    }

    /// Returns the oldest batch, and works with the others until it is there.
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

    /// Takes a batch back that was applied.
    pub(crate) fn put_back(&mut self, mut batch: Batch<D::Value>) {
        // What a list needed is of no use to a watch.
        if self.under_way.is_empty() {
            self.spare.clear();
        }
        if self.spare.len() <= self.threads {
            batch.clear();
            self.spare.push(batch);
        }
    }
}
