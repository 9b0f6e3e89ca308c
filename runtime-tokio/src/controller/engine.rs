//! The loop of a controller: it takes keys from the queue, runs the reconcile function in tasks, and handles the results.

use core::error::Error;
use core::panic::AssertUnwindSafe;
use core::pin::pin;
use core::sync::atomic::AtomicBool;
use core::time::Duration;
use std::collections::HashMap;
use std::panic::catch_unwind;
use std::sync::{Arc, PoisonError};

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use informer_core::{Form, report::OneLine};
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument as _, Span};

use super::builder::OnFailure;
use super::counts::{Counts, LOW, ORDER};
use super::handle::{Stop, Stopped};
use super::live::Live;
use super::only::Only;
use super::queue::{Work, WorkQueue};
use super::results::Results;
use super::skip::Skip;
use super::start::Held;
use super::task::{Failure, Next, Retry, Task, Write, Writes};
use super::writes::{Began, WriteLog};
use crate::cache::entry::Key;
use crate::health::error::Ended;
use crate::health::unheard;
use crate::informer::Lister;
use crate::metrics::facade::Facade;
use crate::spans;

/// The time after which a run that has not ended is reported.
const LONG: Duration = Duration::from_secs(600);

/// The result of a run: what comes next, or the error and the time of the next attempt.
pub(super) type Ran = Result<Next, (Arc<dyn Error + Send + Sync>, Retry)>;

/// One run of the reconcile function.
pub(super) struct Run {
    work: Work<Key>,
    writes: Writes,
    /// The begin of the run in each log.
    began: Vec<Began>,
    since: Instant,
    span: Span,
    task: AbortHandle,
    /// Whether it was reported that it takes long.
    is_reported: bool,
    /// Whether it was cut because its time was over.
    is_over: bool,
}

/// The running tasks, and everything that the loop waits for.
pub(super) struct Engine<F: Form, C> {
    pub(super) name: String,
    pub(super) lister: Lister<F>,
    pub(super) writes: Vec<WriteLog>,
    pub(super) queue: WorkQueue<Key>,
    pub(super) keep: Only,
    pub(super) skip: Option<Arc<Skip>>,
    pub(super) live: Arc<Live>,
    pub(super) held: Held,
    /// The keys that should come again after a stop was requested.
    pub(super) left: usize,
    pub(super) reconcile: Arc<C>,
    pub(super) workers: usize,
    pub(super) rechecks: watch::Receiver<u64>,
    pub(super) running: JoinSet<Ran>,
    /// The key of each running task. It is processed until it is dropped here, however the task ends.
    pub(super) of: HashMap<Id, Run>,
    /// Keys that wait until the cache shows their writes. They still count as being processed, but occupy no worker.
    pub(super) settling: FuturesUnordered<BoxFuture<'static, ()>>,
    pub(super) write_deadline: Duration,
    pub(super) run_within: Option<Duration>,
    pub(super) failures: Failures,
    pub(super) results: Results,
    pub(super) counts: Arc<Counts>,
    pub(super) facade: Facade,
}

impl<F, C, R> Engine<F, C>
where
    F: Form<Stored: Send + Sync + 'static>,
    C: Fn(Task<F>) -> R + Send + Sync + 'static,
    R: Future<Output = Ran> + Send + 'static,
{
    /// Waits for one event and handles it. Dropping the future loses nothing.
    async fn step(&mut self, begin: bool) {
        let room = begin && self.running.len() < self.workers;
        let overdue = self.next_overdue();
        tokio::select! {
            biased;
            () = self.facade.due() => self.show(),
            // An error means that no handle is left, so no recheck can be requested.
            Ok(()) = self.rechecks.changed() => self.cut_others(),
            Some(ended) = self.running.join_next_with_id(), if !self.running.is_empty() => {
                self.ended(ended);
            }
            Some(()) = self.settling.next(), if !self.settling.is_empty() => {}
            // A queue that is shutting down would discard them, uncounted.
            keys = self.held.released(), if self.held.len() > 0 && !self.queue.is_shutting_down() => {
                for key in keys {
                    self.queue.add_with_priority(key, LOW);
                }
            }
            () = sleep_until_some(overdue) => self.check_overdue(),
            Some(work) = self.queue.next(), if room => self.begin(work),
            else => core::future::pending().await,
        }
        self.counts.running.store(self.running.len(), ORDER);
        self.counts.settling.store(self.settling.len(), ORDER);
        self.counts.held.store(self.held.len(), ORDER);
    }

    fn show(&mut self) {
        let (facade, counts, queue) = (&mut self.facade, &self.counts, &self.queue);
        let show = AssertUnwindSafe(|| facade.show_controller(|| counts.metrics(queue.metrics())));
        if let Err(panic) = catch_unwind(show) {
            let message = OneLine(crate::cache::panics::message(&*panic));
            tracing::error!(
                controller = self.name,
                "the metrics recorder panicked: {message}"
            );
        }
    }

    fn begin(&mut self, work: Work<Key>) {
        match self.keep.ask(work.key()) {
            Ok(true) => {}
            Ok(false) => return self.queue.forget(work.key()),
            Err(message) => return self.panicked(work.key(), &message),
        }
        if !self.held.admits(work.key()) {
            if let Some(error) = self.held.too_old() {
                self.failed(work.key(), &Failure::CacheTooOld(&error));
            }
            return;
        }
        let attempt = self.queue.requeues(work.key());
        let writes = Writes::default();
        for log in self.live.logs() {
            if !self.writes.iter().any(|other| other.is(&log)) {
                self.writes.push(log);
            }
        }
        let began = self.writes.iter().map(WriteLog::begin).collect();
        let (key, recorded) = (work.key().clone(), Arc::clone(&writes));
        let (reconcile, lister) = (Arc::clone(&self.reconcile), self.lister.clone());
        let span = spans::run(&self.name, lister.resource(), &key, attempt);
        // The function itself is also called in the task, so that its panic is a panic of the task.
        let running = async move {
            let object = lister.get_by_key(key.as_str());
            let exists = match (&object, lister.selects(key.as_str())) {
                (Some(_), _) => Some(true),
                (None, Some(true)) => Some(false),
                (None, Some(false) | None) => None,
            };
            reconcile(Task::new(key, object, exists, attempt, recorded)).await
        };
        let running = running.instrument(span.clone());
        let task = match &self.skip {
            Some(skip) => self.running.spawn(skip.begin(work.key()).scope(running)),
            None => self.running.spawn(running),
        };
        let run = Run {
            work,
            writes,
            began,
            since: Instant::now(),
            span,
            task: task.clone(),
            is_reported: false,
            is_over: false,
        };
        self.of.insert(task.id(), run);
    }

    /// Returns the time at which a run is to be reported or cut since it takes too long.
    fn next_overdue(&self) -> Option<Instant> {
        let times = self.of.values().flat_map(|run| {
            let report = (!run.is_reported).then_some(LONG);
            let cut = self.run_within.filter(|_| !run.is_over);
            let times = [report, cut].into_iter().flatten();
            // A time that is too far to be added is never.
            times.filter_map(|time| run.since.checked_add(time))
        });
        times.min()
    }

    /// Reports the runs that take long, and cuts those whose time is over.
    fn check_overdue(&mut self) {
        let now = Instant::now();
        let mut long = Vec::new();
        for run in self.of.values_mut() {
            let time = now - run.since;
            if self.run_within.is_some_and(|limit| time >= limit) && !run.is_over {
                run.is_over = true;
                run.task.abort();
            } else if time >= LONG && !run.is_reported {
                long.push((run.work.key().clone(), time));
            }
            run.is_reported |= time >= LONG;
        }
        for (key, time) in long {
            self.failed(&key, &Failure::StillRunning(time));
            self.counts.long().push(key);
        }
    }

    /// Cuts the runs of keys that no longer belong to the controller.
    fn cut_others(&self) {
        for run in self.of.values() {
            match self.keep.ask(run.work.key()) {
                Ok(true) => {}
                Ok(false) => run.task.abort(),
                // A panic does not mean that the key belongs to another controller.
                Err(message) => self.failed(run.work.key(), &Failure::Panicked(&message)),
            }
        }
    }

    fn ended(&mut self, ended: Result<(Id, Ran), JoinError>) {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let Some(run) = self.of.remove(&id) else {
            return;
        };
        let span = run.span.clone();
        let _within = span.enter();
        *self.counts.reconcile() += run.since.elapsed();
        let has_succeeded = matches!(&ended, Ok((_, Ok(_))));
        let key = run.work.key();
        if run.is_reported {
            self.counts.long().retain(|long| long != key);
        }
        let ended = ended.map(|(_, result)| result);
        let (result, delay) = match &ended {
            Ok(Ok(next)) => match next.after {
                Some(Duration::ZERO) => ("requeue", None),
                Some(after) => ("requeue_after", Some(after)),
                None => ("success", None),
            },
            Ok(Err((_, Retry::After(delay)))) => ("error", Some(*delay)),
            Ok(Err(_)) => ("error", None),
            Err(error) if error.is_panic() => ("panic", None),
            Err(_) if run.is_over => ("timeout", None),
            Err(_) => ("cut", None),
        };
        spans::run_ended(&span, result, delay);
        match ended {
            Ok(Ok(next)) => self.succeeded(&run.work, next),
            Ok(Err((error, retry))) => self.returned_error(&run.work, error, retry),
            Err(error) => self.did_not_return(key, run.is_over, error),
        }
        let writes = &run.writes;
        let mut writes =
            core::mem::take(&mut *writes.lock().unwrap_or_else(PoisonError::into_inner));
        writes.extend(run.began.iter().flat_map(Began::writes));
        if let Some(skip) = &self.skip {
            skip.end(run.work.key());
        }
        if !writes.is_empty() {
            self.finish_work(run.work, writes, has_succeeded);
        }
    }

    fn succeeded(&mut self, work: &Work<Key>, next: Next) {
        let key = work.key();
        self.counts.succeeded.fetch_add(1, ORDER);
        match next.after {
            Some(Duration::ZERO) => self.counts.requeued.fetch_add(1, ORDER),
            Some(_) => self.counts.requeued_after.fetch_add(1, ORDER),
            None => 0,
        };
        self.failures.ended();
        self.queue.forget(key);
        self.results.send(key, || Ok(next));
        if let Some(after) = next.after {
            self.comes_again();
            let priority = next.priority.unwrap_or_else(|| work.priority());
            self.queue
                .add_after_with_priority(key.clone(), after, priority);
        }
    }

    fn returned_error(
        &mut self,
        work: &Work<Key>,
        error: Arc<dyn Error + Send + Sync>,
        retry: Retry,
    ) {
        let key = work.key();
        self.counts.failed.fetch_add(1, ORDER);
        self.failed(key, &Failure::Failed(&*error));
        self.results.send(key, || Err(error));
        if retry != Retry::Never {
            self.comes_again();
        }
        match retry {
            Retry::Limited => self.queue.add_rate_limited(key.clone()),
            Retry::After(delay) => {
                self.queue
                    .add_after_with_priority(key.clone(), delay, work.priority());
            }
            Retry::Never => {
                self.counts.terminal.fetch_add(1, ORDER);
                self.queue.forget(key);
            }
        }
    }

    /// Handles a run that panicked or was cut. `is_over` says that its time was over.
    fn did_not_return(&mut self, key: &Key, is_over: bool, error: JoinError) {
        match error.try_into_panic() {
            Ok(panic) => {
                let message = crate::cache::panics::message(&*panic);
                self.panicked(key, message);
                let failure = Failure::Panicked(message);
                self.results.send(key, || Err(failure.to_error()));
            }
            Err(_) if is_over => {
                self.counts.failed.fetch_add(1, ORDER);
                self.counts.timed_out.fetch_add(1, ORDER);
                let failure = Failure::OutOfTime(self.run_within.unwrap_or_default());
                self.failed(key, &failure);
                self.results.send(key, || Err(failure.to_error()));
                self.comes_again();
                self.queue.add_rate_limited(key.clone());
            }
            Err(_) => {
                self.counts.cut.fetch_add(1, ORDER);
                self.failed(key, &Failure::Cut);
                self.results.send(key, || Err(Failure::Cut.to_error()));
                // If the key comes back, its rate limit starts from zero.
                self.queue.forget(key);
            }
        }
    }

    /// Keeps the key in processing until the cache shows its writes, or until the deadline. If one of them is superseded, the
    /// key is requeued, since no event may tell. A key that failed is requeued anyway, under its rate limit.
    fn finish_work(&self, work: Work<Key>, writes: Vec<Write>, has_succeeded: bool) {
        let queue = self.queue.clone();
        let (failures, counts) = (self.failures.clone(), Arc::clone(&self.counts));
        let waited = self.write_deadline;
        let until = tokio::time::sleep(waited).deadline();
        self.settling.push(Box::pin(async move {
            let mut is_superseded = false;
            for write in writes {
                // If the informer has ended, the controller ends as well.
                if let Ok(seen) = timeout_at(until, write.seen).await {
                    is_superseded |= write.is_last && seen.unwrap_or(false);
                    continue;
                }
                counts.unseen.fetch_add(1, ORDER);
                let failure = Failure::WriteNotSeen {
                    informer: &write.informer,
                    written: &write.key,
                    expected: &write.expected,
                    waited,
                };
                failures.report(work.key(), &failure);
            }
            if is_superseded && has_succeeded {
                queue.add(work.key().clone());
            }
        }));
    }

    /// Counts a key that should come again, although the queue takes no keys any more.
    fn comes_again(&mut self) {
        self.left += usize::from(self.queue.is_shutting_down());
    }

    fn panicked(&mut self, key: &Key, message: &str) {
        self.comes_again();
        self.counts.panicked.fetch_add(1, ORDER);
        self.failed(key, &Failure::Panicked(message));
        self.queue.add_rate_limited(key.clone());
    }

    fn failed(&self, key: &Key, failure: &Failure<'_>) {
        self.failures.report(key, failure);
    }

    /// Processes keys until a stop is requested or an informer has ended.
    pub(super) async fn work(
        &mut self,
        mut ended: FuturesUnordered<BoxFuture<'_, Ended>>,
        stop: &mut watch::Receiver<Stop>,
    ) {
        loop {
            tokio::select! {
                biased;
                // An error would mean that the sender is dropped, but the controller holds it.
                _ = stop.wait_for(|stop| *stop != Stop::No) => break,
                Some(_) = ended.next() => break,
                () = self.step(true) => {}
            }
        }
    }

    /// Drains the queue if that was requested, and waits for the runs. They are cut when the time is over or a second
    /// signal demands it. Returns what was not processed.
    pub(super) async fn shut_down(
        &mut self,
        drain: Duration,
        stop: &mut watch::Receiver<Stop>,
    ) -> Stopped {
        // A sleep saturates.
        let until = tokio::time::sleep(drain).deadline();
        if let Some(skip) = &self.skip {
            skip.stop();
        }
        let mut stopped = Stopped {
            // Each way to stop discards them.
            delayed: self.queue.metrics().delayed,
            ..Stopped::default()
        };
        if *stop.borrow_and_update() == Stop::Drain {
            let queue = self.queue.clone();
            let mut drained = pin!(queue.shut_down_with_drain());
            loop {
                tokio::select! {
                    biased;
                    _ = stop.wait_for(|stop| *stop >= Stop::Now) => break,
                    () = tokio::time::sleep_until(until) => break,
                    _ = &mut drained => break,
                    () = self.step(true) => {}
                }
            }
        }
        self.queue.shut_down();
        stopped.waiting = self.queue.waiting() + self.held.len();
        while !self.running.is_empty() {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop == Stop::Cut) => break,
                () = tokio::time::sleep_until(until) => break,
                () = self.step(false) => {}
            }
        }
        self.running.abort_all();
        while let Some(ended) = self.running.join_next_with_id().await {
            stopped.cut += usize::from(ended.as_ref().is_err_and(JoinError::is_cancelled));
            self.ended(ended);
        }
        stopped.delayed += self.left;
        self.counts.running.store(0, ORDER);
        self.counts.settling.store(0, ORDER);
        self.show();
        stopped
    }
}

/// Waits until a time; for ever if there is none.
async fn sleep_until_some(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => core::future::pending().await,
    }
}

/// Where the failures of a controller are reported.
#[derive(Clone)]
pub(super) struct Failures {
    name: Arc<str>,
    hook: Option<OnFailure>,
    /// Somebody reads the results of the runs.
    is_read: bool,
    /// A failure is on stderr, and no run has succeeded since.
    said: Arc<AtomicBool>,
}

impl Failures {
    pub(super) fn new(name: &str, hook: Option<OnFailure>, results: &Results) -> Self {
        Self {
            name: name.into(),
            hook,
            is_read: results.is_read(),
            said: Arc::default(),
        }
    }

    fn report(&self, key: &Key, failure: &Failure<'_>) {
        let (name, line) = (&*self.name, OneLine(key));
        tracing::warn!(controller = name, key = %line, "{}", OneLine(failure));
        if let Some(hook) = &self.hook {
            // A panic in the hook must not end the controller. The hook gets only shared references.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| hook(key, failure))) {
                let message = crate::cache::panics::message(&*panic);
                tracing::error!(controller = name, key = %line, "`on_failure` panicked: {}", OneLine(message));
            }
        } else if !self.is_read && !self.said.load(ORDER) && !matches!(failure, Failure::Cut) {
            let said = unheard::say(&format_args!("controller {name}: {line}: {failure}"));
            self.said.store(said, ORDER);
        }
    }

    /// A run has succeeded.
    fn ended(&self) {
        self.said.store(false, ORDER);
    }
}
