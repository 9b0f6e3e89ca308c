//! The jobs that helper threads share with the driver. Each is done by the thread that takes it first.

use core::any::Any;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::collections::VecDeque;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::{Arc, PoisonError};

// From the parent, since the model checker in tests/loom replaces these.
use super::{Condvar, Mutex, MutexGuard};

/// How long a helper thread waits for another job. The next part of a list or journal usually arrives earlier, and
/// waking a thread takes up to a tenth of a job's time. Besides, another thread would decode into another heap.
const LINGER: Duration = Duration::from_millis(10);

/// The queue of the jobs that no helper thread has taken.
pub(super) struct Queue<W> {
    inner: Mutex<Jobs<W>>,
    changed: Condvar,
}

struct Jobs<W> {
    jobs: VecDeque<Arc<Job<W>>>,
    /// The number of helper threads.
    helping: usize,
    /// The number of helper threads that wait for a job.
    idle: usize,
    closed: bool,
}

/// Work that is done once, by a helper thread or by the driver.
pub(super) struct Job<W> {
    progress: Mutex<Progress<W>>,
    changed: Condvar,
}

struct Progress<W> {
    state: JobState<W>,
    /// The driver waits, or has waited.
    is_awaited: bool,
}

enum JobState<W> {
    Waiting(W),
    Taken,
    Done(W),
    /// The work panicked. The driver resumes the panic.
    Panicked(Box<dyn Any + Send>),
}

impl<W> Queue<W> {
    pub(super) fn new() -> Self {
        Self {
            inner: Mutex::new(Jobs {
                jobs: VecDeque::new(),
                helping: 0,
                idle: 0,
                closed: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Jobs<W>> {
        // Code under this lock cannot panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job. Returns whether to start another helper thread, up to `most`.
    pub(super) fn push(&self, job: Arc<Job<W>>, most: usize) -> bool {
        let mut inner = self.lock();
        // The driver does jobs by itself if no helper thread starts, as long as the runtime has none to spare.
        while inner.jobs.front().is_some_and(|job| job.is_taken()) {
            inner.jobs.pop_front();
        }
        inner.jobs.push_back(job);
        if inner.jobs.len() <= inner.idle {
            self.changed.notify_one();
            return false;
        }
        let wants_more = inner.helping < most;
        inner.helping += usize::from(wants_more);
        wants_more
    }

    /// Records that the helper thread for which `push` asked was not started.
    pub(super) fn not_started(&self) {
        self.lock().helping -= 1;
    }

    /// Returns whether there is a helper thread.
    pub(super) fn has_helper(&self) -> bool {
        self.lock().helping > 0
    }

    /// Takes the next job; `None` if there is none for a while.
    pub(super) fn next(&self) -> Option<Arc<Job<W>>> {
        let mut inner = self.lock();
        loop {
            if inner.closed {
                break;
            }
            if let Some(job) = inner.jobs.pop_front() {
                return Some(job);
            }
            inner.idle += 1;
            let waited = self.changed.wait_timeout(inner, LINGER);
            let (woken, why) = waited.unwrap_or_else(PoisonError::into_inner);
            inner = woken;
            inner.idle -= 1;
            if why.timed_out() && inner.jobs.is_empty() {
                break;
            }
        }
        inner.helping -= 1;
        None
    }

    /// Ends the helper threads.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }
}

impl<W> Job<W> {
    pub(super) fn new(work: W) -> Self {
        Self {
            progress: Mutex::new(Progress {
                state: JobState::Waiting(work),
                is_awaited: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Progress<W>> {
        // Code under this lock cannot panic.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the job, unless it has been started.
    pub(super) fn help(&self, run: impl FnOnce(&mut W)) {
        let Some(mut work) = self.lock().take() else {
            return;
        };
        let done = match catch_unwind(AssertUnwindSafe(|| run(&mut work))) {
            Ok(()) => JobState::Done(work),
            Err(panic) => JobState::Panicked(panic),
        };
        let mut progress = self.lock();
        progress.state = done;
        let is_awaited = progress.is_awaited;
        drop(progress);
        // Each call is a system call.
        if is_awaited {
            self.changed.notify_all();
        }
    }

    fn is_taken(&self) -> bool {
        !matches!(self.lock().state, JobState::Waiting(_))
    }

    /// Waits for a helper thread to do the job. Returns whether one has taken it within this time.
    pub(super) fn is_taken_within(&self, patience: Duration) -> bool {
        let mut progress = self.lock();
        if matches!(progress.state, JobState::Waiting(_)) {
            progress.is_awaited = true;
            let waited = self.changed.wait_timeout(progress, patience);
            // A wake-up without a reason only costs the patience.
            (progress, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        !matches!(progress.state, JobState::Waiting(_))
    }

    /// Waits until the job is done.
    pub(super) fn finish(&self) -> W {
        let mut progress = self.lock();
        loop {
            match core::mem::replace(&mut progress.state, JobState::Taken) {
                JobState::Done(work) => return work,
                JobState::Panicked(panic) => {
                    drop(progress);
                    resume_unwind(panic);
                }
                before @ (JobState::Waiting(_) | JobState::Taken) => progress.state = before,
            }
            progress.is_awaited = true;
            progress = self
                .changed
                .wait(progress)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.lock().state, JobState::Done(_) | JobState::Panicked(_))
    }
}

impl<W> Progress<W> {
    /// Takes the work of a job that has not been started.
    fn take(&mut self) -> Option<W> {
        match core::mem::replace(&mut self.state, JobState::Taken) {
            JobState::Waiting(work) => Some(work),
            before @ (JobState::Taken | JobState::Done(_) | JobState::Panicked(_)) => {
                self.state = before;
                None
            }
        }
    }
}
