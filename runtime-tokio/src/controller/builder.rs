//! The builder of a controller.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::stream::{BoxStream, Stream};
use informer_core::transport::BoxFuture;
use informer_core::{Form, queue::RateLimit};
use tokio::sync::watch;

use super::counts::Counts;
use super::follow::{AllKeys, Driven, Followed, HealthOf, Source};
use super::handle::{ControllerHandle, Stop};
use super::live::Live;
use super::only::Only;
use super::owned::OwnerKind;
use super::part::Part;
use super::provided::{IntoInformer, IntoOwned};
use super::results::{Reconciled, Results};
use super::seat::Seat;
use super::task::Failure;
use super::writes::WriteLog;
use crate::cache::entry::{Entry, Key};
use crate::controller::queue::WorkQueue;
use crate::election::{Election, Leadership, LeaseClient, MembersClient, Replica, ReplicaWork};
use crate::handler::HandlerOptions;
use crate::informer::Lister;

/// Calls a reconcile function with the keys of changed objects.
///
/// Each change of an object of its informer puts the object's key into a [`WorkQueue`]. Changes of other informers that
/// are added with [`owns`](Self::owns) and [`watches`](Self::watches) do the same with related keys. [`run`](Self::run)
/// waits until all informers are synced, and then calls the function with the keys. Several keys are reconciled
/// concurrently, but never the same key twice at a time. The function gets the key and the current state of its object,
/// and not the change, which Kubernetes calls level-triggered.
///
/// Informers are passed as anything that [provides](IntoInformer) one. The controller runs those that are passed as a
/// builder, and stops them when it ends.
///
/// ```
/// use informer_tokio::{Informer, Raw};
/// use informer_tokio::controller::{Controller, Next};
/// # async fn example(sets: Informer<Raw>, pods: Informer<Raw>) -> Result<(), informer_tokio::informer::NotSynced> {
/// let controller = Controller::new(&sets).owns(&pods).workers(4);
/// let stopped = controller
///     .run(|task| async move {
///         println!("reconciling {} to {:?}", task.key(), task.object());
///         Ok::<_, std::io::Error>(Next::done())
///     })
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a controller does nothing until it is run"]
pub struct Controller<F: Form> {
    pub(super) name: String,
    pub(super) lister: Lister<F>,
    pub(super) owner: OwnerKind<F>,
    pub(super) sources: Vec<Source>,
    /// The drivers of informers that the controller runs.
    pub(super) drivers: Vec<Driven>,
    pub(super) writes: Vec<WriteLog>,
    /// The subresources of which own writes are skipped; empty without that option.
    pub(super) skipped: BTreeSet<String>,
    /// One of each informer.
    pub(super) all: Vec<AllKeys>,
    /// The informers that the controller runs.
    pub(super) health: Vec<HealthOf>,
    pub(super) queue: WorkQueue<Key>,
    pub(super) keep: Only,
    pub(super) part: Option<Part>,
    pub(super) streams: Vec<BoxStream<'static, Key>>,
    pub(super) debounce: Duration,
    pub(super) backlog: usize,
    pub(super) workers: usize,
    pub(super) resync: Option<Duration>,
    pub(super) sync_within: Option<Duration>,
    pub(super) write_deadline: Duration,
    pub(super) run_within: Option<Duration>,
    pub(super) max_staleness: Option<Duration>,
    pub(super) drain: Duration,
    pub(super) on_failure: Option<OnFailure>,
    pub(super) results: Results,
    #[cfg(feature = "signal")]
    pub(super) on_signal: bool,
    pub(super) stop: Arc<watch::Sender<Stop>>,
    pub(super) rechecks: Arc<watch::Sender<u64>>,
    pub(super) counts: Arc<Counts>,
    pub(super) live: Arc<Live>,
}

pub(super) type OnFailure = Arc<dyn Fn(&Key, &Failure<'_>) + Send + Sync>;

impl<F: Form<Stored: Send + Sync + 'static>> Controller<F> {
    /// Creates a controller for the objects of an informer. Each change of an object reconciles its key.
    pub fn new(informer: impl IntoInformer<Form = F>) -> Self {
        let provided = informer.into_informer();
        provided.informer.note_controller();
        let lister = provided.informer.lister();
        // A handle does not keep the informer running.
        let objects = lister.uncounted();
        Self {
            name: provided.informer.resource().plural.to_owned(),
            lister,
            owner: OwnerKind::of(&provided.informer.resource(), objects.clone()),
            sources: Vec::new(),
            drivers: Vec::new(),
            writes: Vec::new(),
            skipped: BTreeSet::new(),
            all: Vec::new(),
            health: Vec::new(),
            queue: WorkQueue::new(),
            keep: Only::new(move |key| objects.get_by_key(key.as_str()).is_some()),
            part: None,
            streams: Vec::new(),
            debounce: Duration::ZERO,
            backlog: HandlerOptions::default().backlog,
            workers: 1,
            resync: None,
            sync_within: Some(Duration::from_secs(120)),
            write_deadline: Duration::from_secs(30),
            run_within: None,
            max_staleness: None,
            drain: Duration::from_secs(30),
            on_failure: None,
            results: Results::default(),
            #[cfg(feature = "signal")]
            on_signal: false,
            stop: Arc::new(watch::Sender::new(Stop::No)),
            rechecks: Arc::new(watch::Sender::new(0)),
            counts: Arc::default(),
            live: Arc::default(),
        }
        .watches(provided, |entry| [entry.key().clone()])
    }

    /// Reconciles the owner of a changed object, if the owner is of the controller's kind. The owner is the entry of
    /// `ownerReferences` with `controller: true`.
    ///
    /// The group and the kind must be those of the controller's informer. If its resource was named without a kind, the
    /// owner must be an object of the informer with the same uid; [`kind`](Self::kind) sets it.
    pub fn owns<I: IntoOwned>(self, informer: I) -> Self {
        let kind = self.owner.clone();
        self.watches(informer, move |entry| {
            let owner = I::owner(entry)?;
            kind.key(&owner, entry.key())
        })
    }

    /// Reconciles all owners of a changed object that are of the controller's kind, like [`owns`](Self::owns), whether or not
    /// they have `controller: true`. kube-rs does so.
    ///
    /// ```
    /// # use informer_tokio::{Informer, Raw};
    /// # use informer_tokio::controller::Controller;
    /// # fn example(sets: Informer<Raw>, shared: Informer<Raw>) {
    /// // A ConfigMap that several sets own, of which none manages it.
    /// let controller = Controller::new(&sets).owns_any(&shared);
    /// # }
    /// ```
    pub fn owns_any<I: IntoOwned>(self, informer: I) -> Self {
        let kind = self.owner.clone();
        self.watches(informer, move |entry| {
            let owners = I::owners(entry).into_iter();
            let keys: Vec<Key> = owners
                .filter_map(|owner| kind.key(&owner, entry.key()))
                .collect();
            keys
        })
    }

    /// Reconciles the keys that `map` returns for a changed object. It is called with the old and with the new state.
    ///
    /// ```
    /// # use informer_tokio::{Informer, Key, Raw};
    /// # use informer_tokio::controller::Controller;
    /// # fn example(sets: Informer<Raw>, config: Informer<Raw>) {
    /// let controller = Controller::new(&sets)
    ///     .watches(&config, |map| map.label("for").map(|name| Key::new(&format!("{}/{name}", map.namespace()))));
    /// # }
    /// ```
    pub fn watches<I, K>(
        mut self,
        informer: I,
        map: impl Fn(&Entry<I::Form>) -> K + Send + Sync + 'static,
    ) -> Self
    where
        I: IntoInformer,
        K: IntoIterator<Item = Key>,
    {
        let followed = Followed::new(informer, map);
        self.sources.push(followed.register);
        self.drivers.extend(followed.driver);
        self.health.extend(followed.health);
        self.all.push(followed.all);
        if let Some(log) = followed
            .log
            .filter(|log| !self.writes.iter().any(|other| other.is(log)))
        {
            self.writes.push(log);
        }
        self
    }

    /// Reconciles the keys of a stream as well, such as events from outside of the cluster. The controller continues when
    /// the stream ends.
    pub fn reconcile_on(mut self, keys: impl Stream<Item = Key> + Send + 'static) -> Self {
        self.streams.push(Box::pin(keys));
        self
    }

    /// Sets how long a key waits after a change, so that further changes in this time cause no further run. The time
    /// begins with the first change, so constant changes do not delay a key for longer. The default is zero.
    pub const fn debounce(mut self, time: Duration) -> Self {
        self.debounce = time;
        self
    }

    /// Sets the number of pending changes of an informer above which they are merged by key. The default is 4,096.
    ///
    /// Nothing is lost by that: states that are merged away are mapped to keys as well, and count as changes whatever
    /// [`when`](super::IntoInformer::when) selects. The driver of the informer calls the function of
    /// [`watches`](Self::watches) for them.
    pub const fn backlog(mut self, limit: usize) -> Self {
        self.backlog = limit;
        self
    }

    /// Sets the name for logs, metrics and the health of its informers. It must be set before [`handle`](Self::handle).
    /// The default is that of the resource, such as `deployments`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the kind of the controller's objects for [`owns`](Self::owns), and whether they are namespaced. It must be
    /// set before `owns`. The default is taken from the informer's resource, and whether they are namespaced otherwise from
    /// its objects.
    ///
    /// ```
    /// # use informer_tokio::{Informer, Raw};
    /// # use informer_tokio::controller::Controller;
    /// # fn example(tenants: Informer<Raw>, pods: Informer<Raw>) {
    /// let controller = Controller::new(&tenants).kind("Tenant", false).owns(&pods);
    /// # }
    /// ```
    pub fn kind(mut self, kind: impl Into<String>, namespaced: bool) -> Self {
        self.owner.set(kind.into(), namespaced);
        self
    }

    /// Sets how many keys are reconciled concurrently. The default is 1, as in client-go.
    ///
    /// # Panics
    /// Panics if it is 0.
    pub fn workers(mut self, workers: usize) -> Self {
        assert!(workers > 0, "a controller needs at least one worker");
        self.workers = workers;
        self
    }

    /// Sets the rate limit for failed keys. The default is that of client-go: a delay from 5 ms to 1000 s, doubled
    /// after each failure, and for all keys together at most 10 per second after a burst of 100.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # fn example(controller: informer_tokio::controller::Controller<informer_tokio::Raw>) {
    /// controller.limit(informer_core::queue::Exponential::new(Duration::from_secs(1), Duration::from_secs(60)));
    /// # }
    /// ```
    pub fn limit(self, limit: impl RateLimit<Key> + Send + 'static) -> Self {
        self.queue.set_limit(limit);
        self
    }

    /// Reconciles all keys periodically, without a request to the API server. The default is the resync period of the
    /// informers, if they have one. It repairs external changes that the informers do not see.
    pub const fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Reconciles only while this replica is the leader. The controller runs the election once its informers are synced, and
    /// keeps its caches current while another replica leads.
    ///
    /// When the leadership is lost, runs are cut. When it is acquired, the keys that follow from all objects of all informers
    /// are added, and so is every other key that came before: that of a deleted object, of a [stream](Self::reconcile_on)
    /// or of [`enqueue`](ControllerHandle::enqueue), each of which a replica keeps once. At a stop, the Lease is released
    /// immediately after the last run, before [`run`](Self::run) returns. If the future of `run` is dropped, a task
    /// releases the Lease once the last run has been dropped, provided that the runtime continues. The controller stops
    /// if the election ends.
    ///
    /// ```
    /// # use informer_tokio::{Informer, Raw};
    /// # use informer_tokio::controller::{Controller, Task};
    /// # use informer_tokio::election::{Election, LeaseClient};
    /// # async fn reconcile(task: Task<Raw>) -> Result<(), std::io::Error> { Ok(()) }
    /// # async fn example(pods: Informer<Raw>, lease: impl LeaseClient, pod: &str) -> Result<(), Box<dyn std::error::Error>> {
    /// Controller::new(&pods)
    ///     .elected(Election::new(lease, pod, Default::default())?)
    ///     .run(reconcile)
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn elected<C: LeaseClient>(self, (leadership, work): (Leadership, Election<C>)) -> Self {
        self.seated(Seat::Leader(leadership), Box::pin(work.run()))
    }

    /// Reconciles the keys that belong to this replica, while others reconcile the rest. The controller runs the
    /// background work of the replica. When keys move to another replica, their runs are cut, and that replica adds them as
    /// in [`elected`](Self::elected).
    ///
    /// At a stop, the Lease is released as in [`elected`](Self::elected).
    pub fn sharing<C: LeaseClient, M: MembersClient>(
        self,
        (replica, work): (Replica, ReplicaWork<C, M>),
    ) -> Self {
        self.seated(Seat::Member(replica), Box::pin(work.run()))
    }

    fn seated(mut self, seat: Seat, work: BoxFuture<'static, ()>) -> Self {
        self.keep = self.keep.seated(seat.clone());
        // The metrics show the first election. A second one would need a second Lease.
        let _ = self.counts.seat.set(seat.clone());
        self.part = Some(Part { seat, work });
        self
    }

    /// Restricts the controller to keys for which `keep` returns `true`, in addition to earlier restrictions.
    ///
    /// `keep` is called when a key is added and again before the key is reconciled. When its result changes, call
    /// [`ControllerHandle::enqueue_all`] to add the new keys. A panic in it is a [`Failure`], and the key is retried.
    ///
    /// ```
    /// # fn example(controller: informer_tokio::controller::Controller<informer_tokio::Raw>) {
    /// controller.only(|key| informer_core::election::rendezvous(key.as_str(), ["a", "b", "c"]) == Some("a"));
    /// # }
    /// ```
    pub fn only(mut self, keep: impl Fn(&Key) -> bool + Send + Sync + 'static) -> Self {
        self.keep = self.keep.and(keep);
        self
    }

    /// Sets how long an informer may receive nothing before it is synced. Then [`run`](Self::run) fails with an error that
    /// names it, so that the replica does not stay useless unnoticed. The default is two minutes; `None` waits for ever.
    ///
    /// Each received byte begins the time anew, but not those of a failed request that is repeated. An informer that shows
    /// the data of a [journal](crate::journal::Journal) has no limit.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # fn example(controller: informer_tokio::controller::Controller<informer_tokio::Raw>) {
    /// let patient = controller.sync_within(None);
    /// let strict = patient.sync_within(Duration::from_secs(30));
    /// # }
    /// ```
    pub fn sync_within(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.sync_within = limit.into();
        self
    }

    /// Sets how long a key waits until the caches show the writes of its run, which were [recorded](super::Task::wrote)
    /// by it or in a [log](WriteLog). After that, the
    /// key is reconciled anyway, and a [`Failure`] is reported. The default is 30 seconds.
    pub const fn write_deadline(mut self, limit: Duration) -> Self {
        self.write_deadline = limit;
        self
    }

    /// Skips changes that are nothing but the controller's own writes to these subresources, usually `["status"]`. Without
    /// it, each write of a run causes another run of its key.
    ///
    /// A run that relies on the one after its own write, such as one that writes one field at a time, requests it by
    /// [`Next::again`](super::Next::again). Writes of the object itself always cause a run, such as that which adds a
    /// finalizer.
    ///
    /// The writes must be known with their requests, from the client of `informer_kube::Informers`, from `RecordWrites` or
    /// by [`WriteLog::record_subresource`]. A change is skipped only if all of this is known:
    ///
    /// - It came by one event of a watch, whose version is that in the answer to a write. Changes that come by a list, or that
    ///   a slow handler gets merged, cause a run.
    /// - The write has led to it: the request has the resourceVersion of the state before, or it has the whole status that
    ///   the object has now, and nothing else has changed.
    /// - The run of the same key has written it, in its own task.
    ///
    /// A change that comes during a run waits for its end, in case that the answer is late. The informer keeps a hash beside
    /// each object that it decodes from the time on at which the controller is run, which takes some 60 bytes of memory.
    /// An object that was decoded before is compared only if its form has its JSON.
    ///
    /// ```
    /// # fn example(controller: informer_tokio::controller::Controller<informer_tokio::Raw>) {
    /// let controller = controller.skip_own_writes(["status"]);
    /// # }
    /// ```
    pub fn skip_own_writes<S: Into<String>>(
        mut self,
        subresources: impl IntoIterator<Item = S>,
    ) -> Self {
        self.skipped
            .extend(subresources.into_iter().map(Into::into));
        self
    }

    /// Sets how long a run may take. Then it is cut, which is a [`Failure`], and its key is retried. There is no limit by
    /// default, but a run of ten minutes is [reported](Failure::StillRunning).
    ///
    /// ```
    /// # use core::time::Duration;
    /// # fn example(controller: informer_tokio::controller::Controller<informer_tokio::Raw>) {
    /// // A request without a timeout does not hold its key for ever.
    /// let controller = controller.run_within(Duration::from_secs(300));
    /// # }
    /// ```
    pub const fn run_within(mut self, limit: Duration) -> Self {
        self.run_within = Some(limit);
        self
    }

    /// Holds all keys while a cache may lack changes for longer than this; see
    /// [`Health::staleness`](crate::health::Health::staleness). This is reported once, as a
    /// [`Failure`](Failure::CacheTooOld). By default a controller goes on with what it knows.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # fn example(controller: informer_tokio::controller::Controller<informer_tokio::Raw>) {
    /// // It deletes nothing that it has not seen for three minutes.
    /// let controller = controller.max_staleness(Duration::from_secs(180));
    /// # }
    /// ```
    pub const fn max_staleness(mut self, limit: Duration) -> Self {
        self.max_staleness = Some(limit);
        self
    }

    /// Sets how long a stop waits for running reconciliations before they are cut. The default is 30 seconds.
    pub const fn drain(mut self, limit: Duration) -> Self {
        self.drain = limit;
        self
    }

    /// Stops the controller at SIGINT (Ctrl-C) or SIGTERM, which a Pod gets first. Running reconciliations may finish
    /// within the time of [`drain`](Self::drain). A second signal cuts them.
    ///
    /// From then on, these signals no longer end the process by themselves. If the system refuses to register for them,
    /// that is logged.
    ///
    /// ```
    /// # use informer_tokio::{Informer, Raw};
    /// # use informer_tokio::controller::Controller;
    /// # async fn example(pods: Informer<Raw>) -> Result<(), informer_tokio::informer::NotSynced> {
    /// let stopped = Controller::new(&pods)
    ///     .shutdown_on_signal()
    ///     .run(|task| async move { Ok::<_, std::io::Error>(println!("{}", task.key())) })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "signal")]
    pub const fn shutdown_on_signal(mut self) -> Self {
        self.on_signal = true;
        self
    }

    /// Calls `callback` with every failure. Failures are also logged. A panic in `callback` is logged, and the controller
    /// continues. With neither a callback nor a reader of [`results`](Self::results) nor a subscriber of `tracing`, the first
    /// failure since the last successful run is a line on stderr.
    pub fn on_failure(
        mut self,
        callback: impl Fn(&Key, &Failure<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.on_failure = Some(Arc::new(callback));
        self
    }

    /// Returns the results of all runs as a stream, which ends with the controller. Poll it beside
    /// [`run`](Self::run).
    ///
    /// A slow reader does not block the controller. At most 1024 results wait for it. If it lags further, the oldest are
    /// discarded, and [`Reconciled::missed`] counts them.
    ///
    /// ```
    /// # use informer_tokio::{Informer, Raw};
    /// # use informer_tokio::controller::{Controller, Task};
    /// # async fn reconcile(task: Task<Raw>) -> Result<(), std::io::Error> { Ok(()) }
    /// # async fn example(pods: Informer<Raw>) -> Result<(), informer_tokio::informer::NotSynced> {
    /// use futures_util::StreamExt;
    /// let mut controller = Controller::new(&pods);
    /// let results = controller.results();
    /// let printed = results.for_each(|run| async move { println!("{}: {:?}", run.key, run.result) });
    /// let (stopped, ()) = tokio::join!(controller.run(reconcile), printed);
    /// # stopped.map(drop)
    /// # }
    /// ```
    pub fn results(&mut self) -> impl Stream<Item = Reconciled> + Send + 'static {
        self.results.subscribe()
    }

    /// Returns a handle that stops the controller, adds keys and returns metrics and health. Add all informers before.
    ///
    /// ```
    /// # async fn example(controller: informer_tokio::controller::Controller<informer_tokio::Raw>) {
    /// let handle = controller.handle();
    /// tokio::spawn(controller.run(|task| async move { Ok::<_, std::io::Error>(println!("{}", task.key())) }));
    /// handle.stop();
    /// # }
    /// ```
    #[must_use]
    pub fn handle(&self) -> ControllerHandle {
        ControllerHandle {
            name: self.name.as_str().into(),
            queue: self.queue.clone(),
            all: self.all.clone(),
            health: self.health.clone(),
            keep: self.keep.clone(),
            stop: Arc::clone(&self.stop),
            rechecks: Arc::clone(&self.rechecks),
            counts: Arc::clone(&self.counts),
            live: Arc::clone(&self.live),
        }
    }
}

impl<F: Form> fmt::Debug for Controller<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
