//! The main loop of a controller.

use core::error::Error;
use core::panic::AssertUnwindSafe;
use core::pin::pin;
use core::time::Duration;
use std::collections::HashMap;
use std::panic::catch_unwind;
use std::sync::{Arc, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use informer_core::{Form, report::OneLine};
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{Instant, timeout_at};
use tracing::Instrument as _;

use super::builder::{Controller, Driven, OnFailure};
use super::handle::{Counts, ORDER, Stop, Stopped};
use super::metrics::Figures;
use super::only::Only;
use super::results::Results;
use super::seat::ResignOnDrop;
#[cfg(feature = "signal")]
use super::signal::StopSignal;
use super::sources::{Intake, LOW, Registered};
use super::start::{Held, all_usable};
use super::task::{Failure, Next, Retry, Task, Write, Writes};
use super::writes::WriteLog;
use crate::cache::entry::Key;
use crate::controller::queue::{Work, WorkQueue};
use crate::handler::HandlerOptions;
use crate::health::error::NotSynced;
use crate::informer::Lister;

impl<F: Form<Stored: Send + Sync + 'static>> Controller<F> {
    /// Waits until all informers are synced, and then reconciles. It ends when a [handle](Self::handle) stops it, or
    /// when the driver of one of its informers ends.
    ///
    /// If one of several namespaces or clusters of an informer cannot be listed, the keys of the others are reconciled.
    /// Keys of that namespace or cluster, and in an informer of all namespaces every key, wait for the list, which is
    /// retried: no run takes an object that was not listed for a deleted one.
    ///
    /// Each run of `reconcile` is a separate task on the current runtime. If it returns an error or panics, the key is
    /// requeued after the delay of the [rate limit](Self::limit). Dropping the returned future stops everything at
    /// once.
    ///
    /// The error is any type that implements [`Error`], or one that becomes a `Box` of it, such as a text or `anyhow::Error`. A
    /// closure from which it cannot be inferred ends with `Ok::<_, Error>(..)`, as below.
    ///
    /// # Errors
    /// Fails if an informer ends before it is synced, or receives nothing [for too long](Self::sync_within) before it is
    /// synced.
    ///
    /// ```
    /// # use informer_tokio::{Informer, Raw};
    /// # use informer_tokio::controller::{Controller, Next};
    /// # use core::time::Duration;
    /// # async fn example(certificates: Informer<Raw>) {
    /// let controller = Controller::new(&certificates);
    /// let running = tokio::spawn(controller.run(|task| async move {
    ///     println!("reconciling {}, and again in an hour", task.key());
    ///     Ok::<_, std::io::Error>(Next::after(Duration::from_secs(3600)))
    /// }));
    /// # }
    /// ```
    pub async fn run<C, R, A, ReconcileError>(self, reconcile: C) -> Result<Stopped, NotSynced>
    where
        C: Fn(Task<F>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<A, ReconcileError>> + Send + 'static,
        A: Into<Next>,
        ReconcileError: Into<Box<dyn Error + Send + Sync>>,
    {
        self.run_with(reconcile, |_| Retry::Limited).await
    }

    /// Reconciles like [`run`](Self::run). After an error, `retry` decides when the key is reconciled again.
    ///
    /// # Errors
    /// Fails if an informer ends before it is synced, or receives nothing [for too long](Self::sync_within) before it is
    /// synced.
    ///
    /// ```
    /// # use informer_tokio::{Informer, Raw};
    /// # use informer_tokio::controller::{Controller, Retry, Task};
    /// # use core::time::Duration;
    /// # async fn reconcile(task: Task<Raw>) -> Result<(), std::io::Error> { Ok(()) }
    /// # async fn example(certificates: Informer<Raw>) -> Result<(), informer_tokio::informer::NotSynced> {
    /// use std::io::ErrorKind;
    /// let retry = |error: &std::io::Error| match error.kind() {
    ///     ErrorKind::InvalidData => Retry::Never, // It stays invalid until it is changed.
    ///     ErrorKind::TimedOut => Retry::After(Duration::from_secs(30)),
    ///     _ => Retry::Limited,
    /// };
    /// Controller::new(&certificates).run_with(reconcile, retry).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_with<C, R, A, ReconcileError, B>(
        mut self,
        reconcile: C,
        retry: B,
    ) -> Result<Stopped, NotSynced>
    where
        C: Fn(Task<F>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<A, ReconcileError>> + Send + 'static,
        A: Into<Next>,
        ReconcileError: Into<Box<dyn Error + Send + Sync>>,
        B: Fn(&ReconcileError) -> Retry + Send + Sync + 'static,
    {
        let figures = Arc::new(Figures::new(&self.name));
        figures.begin();
        let registered = self.register(&figures);
        let mut drivers = Drivers::spawn(core::mem::take(&mut self.drivers));
        // Dropping it ends them.
        let mut helpers = JoinSet::new();
        self.follow_streams(&mut helpers);
        #[cfg(feature = "signal")]
        self.stop_on_signal(&mut helpers);
        let mut stop = self.stop.subscribe();
        let is_stopping = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop != Stop::No) => true,
            usable = all_usable(self.sync_within, &registered.0) => usable.map(|()| false)?,
        };
        // A replica that cannot reconcile must not keep another one from it.
        let seat = self.part.take().filter(|_| !is_stopping).map(|part| {
            let (handle, refused) = (self.handle(), self.keep.refused());
            part.take_seat(handle, refused, &mut helpers)
        });
        let retry = Arc::new(retry);
        let last = seat.clone();
        let reconcile = Arc::new(move |task| {
            // Each run has a reference to this function, so the Lease is not released before the last run was dropped.
            let _ = &last;
            let (running, retry) = (reconcile(task), Arc::clone(&retry));
            async move {
                match running.await {
                    Ok(next) => Ok(next.into()),
                    Err(error) => {
                        let retry = retry(&error);
                        let error: Box<dyn Error + Send + Sync> = error.into();
                        Err((error.into(), retry))
                    }
                }
            }
        });
        let mut engine = Engine {
            name: self.name,
            lister: self.lister,
            writes: self.writes,
            queue: self.queue,
            keep: self.keep,
            held: Held::new(&registered.0),
            left: 0,
            reconcile,
            workers: self.workers,
            rechecks: self.rechecks.subscribe(),
            running: JoinSet::new(),
            of: HashMap::new(),
            settling: FuturesUnordered::new(),
            write_deadline: self.write_deadline,
            run_within: self.run_within,
            on_failure: self.on_failure,
            results: self.results,
            counts: self.counts,
            figures,
        };
        engine.work(&registered, &mut stop).await;
        // No further events are received.
        drop(registered);
        let stopped = engine.shut_down(self.drain, &mut stop).await;
        let cut = stop.clone();
        tokio::join!(
            async {
                let mut cut = cut;
                tokio::select! {
                    biased;
                    () = ResignOnDrop::resign(seat.as_ref()) => {}
                    _ = cut.wait_for(|stop| *stop == Stop::Cut) => {}
                }
            },
            async {
                if *stop.borrow() != Stop::Cut {
                    drivers.stop().await;
                }
            }
        );
        if stopped != Stopped::default() {
            tracing::info!(
                controller = engine.name,
                ?stopped,
                "stopped with unprocessed keys"
            );
        }
        Ok(stopped)
    }

    /// Stops the controller at the first signal, and cuts its runs at the second.
    #[cfg(feature = "signal")]
    fn stop_on_signal(&self, helpers: &mut JoinSet<()>) {
        if !self.on_signal {
            return;
        }
        match StopSignal::new() {
            Ok(mut signal) => {
                let handle = self.handle();
                helpers.spawn(async move {
                    signal.recv().await;
                    handle.raise(Stop::Now);
                    signal.recv().await;
                    handle.raise(Stop::Cut);
                });
            }
            Err(error) => {
                tracing::error!(controller = self.name, %error, "cannot listen for signals");
            }
        }
    }

    /// Adds the keys of streams.
    fn follow_streams(&mut self, helpers: &mut JoinSet<()>) {
        for mut keys in self.streams.drain(..) {
            let (queue, keep) = (self.queue.clone(), self.keep.clone());
            let (name, counts) = (self.name.clone(), Arc::clone(&self.counts));
            helpers.spawn(async move {
                let adding = async {
                    while let Some(key) = keys.next().await {
                        if keep.lets_in(&key) {
                            queue.add(key);
                        }
                    }
                };
                if let Err(panic) = AssertUnwindSafe(adding).catch_unwind().await {
                    counts.panicked.fetch_add(1, ORDER);
                    let message = crate::cache::panics::message(&*panic);
                    tracing::error!(
                        controller = name,
                        "a stream of `reconcile_on` panicked, so its keys are no longer reconciled: {}",
                        OneLine(message)
                    );
                }
            });
        }
    }

    fn register(&mut self, figures: &Arc<Figures>) -> AllRegistered {
        let intake = Intake {
            queue: self.queue.clone(),
            keep: self.keep.clone(),
            figures: Arc::clone(figures),
            counts: Arc::clone(&self.counts),
            debounce: self.debounce,
        };
        let mut options = HandlerOptions::default()
            .name(format!("controller {}", self.name))
            .backlog(self.backlog);
        if let Some(period) = self.resync {
            options = options.resync(period);
        }
        let mut registered = AllRegistered(Vec::new());
        for (number, source) in self.sources.drain(..).enumerate() {
            // A resync replays only the controller's own objects, so each key is reconciled once rather than once per
            // related object.
            let options = match number {
                0 => &options,
                _ => &HandlerOptions::default()
                    .name(options.name.clone())
                    .backlog(self.backlog)
                    .resync(Duration::ZERO),
            };
            registered.0.push(source(&intake, options));
        }
        registered
    }
}

/// Removes the registrations when it is dropped, at the end or with the controller's future.
struct AllRegistered(Vec<Box<dyn Registered>>);

impl Drop for AllRegistered {
    fn drop(&mut self) {
        self.0.iter().for_each(|one| one.remove());
    }
}

/// The drivers of informers that the controller runs. Dropping it ends them at once.
struct Drivers {
    stops: Vec<Box<dyn Fn() + Send>>,
    running: JoinSet<()>,
}

impl Drivers {
    fn spawn(driven: Vec<Driven>) -> Self {
        let mut running = JoinSet::new();
        let stops = driven.into_iter().map(|(stop, driver)| {
            running.spawn(driver);
            stop
        });
        Self {
            stops: stops.collect(),
            running,
        }
    }

    /// Stops all informers, and waits for their drivers. A driver that panicked has reported it.
    async fn stop(&mut self) {
        self.request_stop();
        while self.running.join_next().await.is_some() {}
    }

    fn request_stop(&self) {
        self.stops.iter().for_each(|stop| stop());
    }
}

/// With a stop requested, the end of a driver is not reported as a failure.
impl Drop for Drivers {
    fn drop(&mut self) {
        self.request_stop();
    }
}

/// The time after which a run that has not ended is reported.
const LONG: Duration = Duration::from_secs(600);

/// The result of a run: what comes next, or the error and the time of the next attempt.
type Ran = Result<Next, (Arc<dyn Error + Send + Sync>, Retry)>;

/// One run of the reconcile function.
struct Run {
    work: Work<Key>,
    writes: Writes,
    /// The position of each log when the run began.
    began: Vec<u64>,
    since: Instant,
    task: AbortHandle,
    /// Whether it was reported that it takes long.
    is_reported: bool,
    /// Whether it was cut because its time was over.
    is_over: bool,
}

/// The running tasks, and everything that the loop waits for.
struct Engine<F: Form, C> {
    name: String,
    lister: Lister<F>,
    writes: Vec<WriteLog>,
    queue: WorkQueue<Key>,
    keep: Only,
    held: Held,
    /// The keys that should come again after a stop was requested.
    left: usize,
    reconcile: Arc<C>,
    workers: usize,
    rechecks: watch::Receiver<u64>,
    running: JoinSet<Ran>,
    /// The key of each running task. It is processed until it is dropped here, however the task ends.
    of: HashMap<Id, Run>,
    /// Keys that wait until the cache shows their writes. They still count as being processed, but occupy no worker.
    settling: FuturesUnordered<BoxFuture<'static, ()>>,
    write_deadline: Duration,
    run_within: Option<Duration>,
    on_failure: Option<OnFailure>,
    results: Results,
    counts: Arc<Counts>,
    figures: Arc<Figures>,
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
            // An error means that no handle is left, so no recheck can be requested.
            Ok(()) = self.rechecks.changed() => self.cut_others(),
            Some(ended) = self.running.join_next_with_id(), if !self.running.is_empty() => {
                self.ended(ended);
            }
            Some(()) = self.settling.next(), if !self.settling.is_empty() => {}
            keys = self.held.released(), if self.held.len() > 0 => {
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
        self.show();
    }

    fn show(&self) {
        self.figures
            .show(|| self.counts.metrics(self.queue.metrics()));
    }

    fn begin(&mut self, work: Work<Key>) {
        match self.keep.ask(work.key()) {
            Ok(true) => {}
            Ok(false) => return self.queue.forget(work.key()),
            Err(message) => return self.panicked(work.key(), &message),
        }
        if !self.held.admits(work.key()) {
            return;
        }
        let attempt = self.queue.requeues(work.key());
        let writes = Writes::default();
        let began = self.writes.iter().map(WriteLog::position).collect();
        let (key, recorded) = (work.key().clone(), Arc::clone(&writes));
        let (reconcile, lister) = (Arc::clone(&self.reconcile), self.lister.clone());
        let span = tracing::info_span!(
            "reconcile",
            controller = self.name,
            resource = lister.name(),
            key = %OneLine(&key),
            attempt
        );
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
        let task = self.running.spawn(running.instrument(span));
        let run = Run {
            work,
            writes,
            began,
            since: Instant::now(),
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
        let Run {
            work,
            writes,
            began,
            since,
            is_over,
            ..
        } = run;
        *self.counts.reconcile() += since.elapsed();
        let key = work.key();
        match ended.map(|(_, result)| result) {
            Ok(Ok(next)) => {
                self.counts.succeeded.fetch_add(1, ORDER);
                self.queue.forget(key);
                self.results.send(key, || Ok(next));
                if let Some(after) = next.after {
                    self.comes_again();
                    let priority = next.priority.unwrap_or_else(|| work.priority());
                    self.queue
                        .add_after_with_priority(key.clone(), after, priority);
                }
            }
            Ok(Err((error, retry))) => {
                self.counts.failed.fetch_add(1, ORDER);
                self.failed(key, &Failure::Failed(&*error));
                self.results.send(key, || Err(error));
                if retry != Retry::Never {
                    self.comes_again();
                }
                match retry {
                    Retry::Limited => self.queue.add_rate_limited(key.clone()),
                    Retry::After(delay) => {
                        let priority = work.priority();
                        self.queue
                            .add_after_with_priority(key.clone(), delay, priority);
                    }
                    Retry::Never => self.queue.forget(key),
                }
            }
            Err(error) => match error.try_into_panic() {
                Ok(panic) => {
                    let message = crate::cache::panics::message(&*panic);
                    self.panicked(key, message);
                    let failure = Failure::Panicked(message);
                    self.results.send(key, || Err(failure.to_error()));
                }
                Err(_) if is_over => {
                    self.counts.failed.fetch_add(1, ORDER);
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
            },
        }
        let mut writes =
            core::mem::take(&mut *writes.lock().unwrap_or_else(PoisonError::into_inner));
        let logs = self.writes.iter().zip(began);
        writes.extend(logs.flat_map(|(log, began)| log.since(began)));
        if !writes.is_empty() {
            self.settle(work, writes);
        }
    }

    /// Keeps the key in processing until the cache shows its writes, or until the deadline.
    fn settle(&self, work: Work<Key>, writes: Vec<Write>) {
        let (name, on_failure) = (self.name.clone(), self.on_failure.clone());
        let (counts, waited) = (Arc::clone(&self.counts), self.write_deadline);
        let until = tokio::time::sleep(waited).deadline();
        self.settling.push(Box::pin(async move {
            for write in writes {
                // If the informer has ended, the controller ends as well.
                if timeout_at(until, write.seen).await.is_ok() {
                    continue;
                }
                counts.unseen.fetch_add(1, ORDER);
                let failure = Failure::WriteNotSeen {
                    informer: &write.informer,
                    written: &write.key,
                    expected: &write.expected,
                    waited,
                };
                log_failure(&name, on_failure.as_ref(), work.key(), &failure);
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
        log_failure(&self.name, self.on_failure.as_ref(), key, failure);
    }

    /// Processes keys until a stop is requested or an informer ends.
    async fn work(&mut self, registered: &AllRegistered, stop: &mut watch::Receiver<Stop>) {
        let mut ended: FuturesUnordered<_> = registered.0.iter().map(|one| one.ended()).collect();
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
    async fn shut_down(&mut self, drain: Duration, stop: &mut watch::Receiver<Stop>) -> Stopped {
        // A sleep saturates.
        let until = tokio::time::sleep(drain).deadline();
        let mut stopped = Stopped::default();
        if *stop.borrow_and_update() == Stop::Drain {
            let queue = self.queue.clone();
            let mut drained = pin!(queue.shut_down_with_drain());
            loop {
                tokio::select! {
                    biased;
                    _ = stop.wait_for(|stop| *stop >= Stop::Now) => break,
                    () = tokio::time::sleep_until(until) => break,
                    delayed = &mut drained => {
                        stopped.delayed = delayed;
                        break;
                    }
                    () = self.step(true) => {}
                }
            }
        }
        stopped.delayed += self.queue.metrics().delayed;
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

fn log_failure(name: &str, on_failure: Option<&OnFailure>, key: &Key, failure: &Failure<'_>) {
    let line = OneLine(key);
    tracing::warn!(controller = name, key = %line, "{}", OneLine(failure));
    let Some(hear) = on_failure else {
        return;
    };
    // A panic in the failure hook must not end the controller. The hook gets only shared references.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| hear(key, failure))) {
        let message = crate::cache::panics::message(&*panic);
        tracing::error!(controller = name, key = %line, "`on_failure` panicked: {}", OneLine(message));
    }
}
