//! Running a controller: its start, its helpers and its end.

use core::error::Error;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use informer_core::{Form, report::OneLine};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::builder::Controller;
use super::counts::ORDER;
use super::engine::{Engine, Failures};
use super::follow::Driven;
use super::handle::{Stop, Stopped};
use super::live::LeaveOnDrop;
use super::part::ResignOnDrop;
#[cfg(feature = "signal")]
use super::signal::StopSignal;
use super::skip::Skip;
use super::sources::Intake;
use super::start::{Held, Registered, all_usable};
use super::task::{Next, Retry, Task};
use crate::handler::HandlerOptions;
use crate::health::error::NotSynced;
use crate::health::unheard;
use crate::metrics::facade::{CONTROLLER, Facade};

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
        let facade = Facade::new(CONTROLLER, &self.name);
        self.counts.workers.store(self.workers, ORDER);
        let skip = self.skip();
        let (registered, live) = self.register(skip.as_ref());
        let drivers = Drivers::spawn(core::mem::take(&mut self.drivers));
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
                running.await.map(Into::into).map_err(|error| {
                    let retry = retry(&error);
                    let error: Box<dyn Error + Send + Sync> = error.into();
                    (error.into(), retry)
                })
            }
        });
        let mut engine = Engine {
            failures: Failures::new(&self.name, self.on_failure, &self.results),
            name: self.name,
            lister: self.lister,
            writes: self.writes,
            queue: self.queue,
            keep: self.keep,
            skip,
            live: Arc::clone(&self.live),
            held: Held::new(&registered.0, self.max_staleness),
            left: 0,
            reconcile,
            workers: self.workers,
            rechecks: self.rechecks.subscribe(),
            running: JoinSet::new(),
            of: HashMap::new(),
            settling: FuturesUnordered::new(),
            write_deadline: self.write_deadline,
            run_within: self.run_within,
            results: self.results,
            counts: self.counts,
            facade,
        };
        let ended = registered.0.iter().map(|one| one.ended()).collect();
        engine.work(ended, &mut stop).await;
        // No further events are received.
        drop(registered);
        let stopped = engine.shut_down(self.drain, &mut stop).await;
        end(seat.as_ref(), drivers, &live, stop).await;
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
                        if keep.admits(&key) {
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

    /// Returns what skips own writes, if that is wanted.
    fn skip(&self) -> Option<Arc<Skip>> {
        if self.skipped.is_empty() {
            return None;
        }
        if self.writes.is_empty() {
            let line = "no own write is skipped, since no informer has a log of writes";
            tracing::warn!(controller = self.name, "{line}");
            unheard::say(&format_args!("controller {}: {line}", self.name));
        }
        let (subresources, queue) = (self.skipped.clone(), &self.queue);
        let skip = Skip::new(subresources, queue, self.debounce, &self.counts);
        Some(Arc::new(skip))
    }

    fn register(&mut self, skip: Option<&Arc<Skip>>) -> (AllRegistered, LeaveOnDrop) {
        let intake = Intake {
            queue: self.queue.clone(),
            keep: self.keep.clone(),
            debounce: self.debounce,
            skip: skip.cloned(),
        };
        let mut options = HandlerOptions::default()
            .name(format!("controller {}", self.name))
            .backlog(self.backlog);
        if let Some(period) = self.resync {
            options = options.resync(period);
        }
        // A resync replays only the controller's own objects, so each key is reconciled once rather than once per related
        // object.
        let of_related = HandlerOptions::default()
            .name(options.name.clone())
            .backlog(self.backlog)
            .resync(Duration::ZERO);
        let mut registered = AllRegistered(Vec::new());
        for (number, source) in self.sources.drain(..).enumerate() {
            let options = if number == 0 { &options } else { &of_related };
            registered.0.push(source(&intake, options));
        }
        (registered, self.live.begin(&intake, &of_related))
    }
}

/// Releases the Lease and stops the drivers, until a cut is requested.
async fn end(
    seat: Option<&Arc<ResignOnDrop>>,
    mut drivers: Drivers,
    live: &LeaveOnDrop,
    stop: watch::Receiver<Stop>,
) {
    let mut cut = stop.clone();
    tokio::join!(
        async {
            tokio::select! {
                biased;
                () = ResignOnDrop::resign(seat) => {}
                _ = cut.wait_for(|stop| *stop == Stop::Cut) => {}
            }
        },
        async {
            if *stop.borrow() != Stop::Cut {
                tokio::join!(drivers.stop(), live.stop());
            }
        }
    );
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
