//! What a controller is made of: its informers, its queue and its settings.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use informer_core::queue::RateLimit;
use tokio::sync::watch;

use super::handle::{ControllerHandle, Counts, Stop};
use super::metrics::Figures;
use super::only::Only;
use super::owned::{Owned, OwnerKind};
use super::task::Failure;
use crate::cache::entry::{Entry, Key};
use crate::controller::queue::WorkQueue;
use crate::handler::HandlerHandle;
use crate::handler::HandlerOptions;
use crate::handler::Handlers;
use crate::health::error::Ended;
use crate::informer::HasSynced;
use crate::informer::Informer;
use crate::informer::Lister;

/// Calls a reconcile function with the keys of what changed.
///
/// Each change of an object of its informer, and of what [`owns`](Self::owns) and [`watches`](Self::watches) add, puts a
/// key into a [`WorkQueue`]. [`run`](Self::run) waits until all informers are synced, and calls the function with the
/// keys: several at a time, but never twice at a time with the same key, as often as it takes. The function gets no more
/// than the key, and looks up what there is: that is "level-triggered" in the words of Kubernetes.
///
/// ```
/// use informer_tokio::{Informer, RawJson};
/// use informer_tokio::controller::{Controller, Next};
/// # async fn example(sets: Informer<RawJson>, pods: Informer<RawJson>) -> Result<(), informer_tokio::informer::NotSynced> {
/// let lister = sets.lister();
/// let controller = Controller::new(&sets).owns(&pods).workers(4);
/// let stopped = controller
///     .run(move |task| {
///         let set = lister.get_by_key(task.as_str());
///         async move {
///             println!("{} is to be as {set:?} says", task.key());
///             Ok::<_, std::io::Error>(Next::done())
///         }
///     })
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing happens before it runs"]
pub struct Controller {
    pub(super) name: String,
    pub(super) owner: OwnerKind,
    pub(super) sources: Vec<Source>,
    /// Gives all keys of the informer.
    pub(super) keys: Arc<dyn Fn() -> Vec<Key> + Send + Sync>,
    pub(super) queue: WorkQueue<Key>,
    pub(super) keep: Only,
    pub(super) workers: usize,
    pub(super) resync: Option<Duration>,
    pub(super) sync_within: Option<Duration>,
    pub(super) write_deadline: Duration,
    pub(super) drain: Duration,
    pub(super) on_failure: Option<OnFailure>,
    pub(super) stop: Arc<watch::Sender<Stop>>,
    pub(super) rechecks: Arc<watch::Sender<u64>>,
    pub(super) counts: Arc<Counts>,
}

/// Registers with an informer, when the controller runs.
pub(super) type Source = Box<dyn FnOnce(&Intake, &HandlerOptions) -> Box<dyn Registered> + Send>;
pub(super) type OnFailure = Arc<dyn Fn(&Key, &Failure<'_>) + Send + Sync>;

impl Controller {
    /// Makes a controller of the objects of an informer: each change of one is a reason to reconcile its key.
    pub fn new<V: Send + Sync + 'static>(informer: &Informer<V>) -> Self {
        let lister = informer.lister();
        Self {
            name: informer.name().to_owned(),
            owner: OwnerKind::of(&informer.resource()),
            sources: Vec::new(),
            keys: Arc::new(move || keys(&lister)),
            queue: WorkQueue::new(),
            keep: Only::new(|_| true),
            workers: 1,
            resync: None,
            sync_within: None,
            write_deadline: Duration::from_secs(30),
            drain: Duration::from_secs(30),
            on_failure: None,
            stop: Arc::new(watch::Sender::new(Stop::No)),
            rechecks: Arc::new(watch::Sender::new(0)),
            counts: Arc::default(),
        }
        .watches(informer, |entry| [entry.key().clone()])
    }

    /// Reconciles the owner of an object that changes, where the owner is of the controller's kind: the entry of
    /// `ownerReferences` with `controller: true`.
    ///
    /// The group and the kind have to be those of the controller's informer. Where its resource was named without a kind
    /// every kind of the group will do: name it ([`kind`](Self::kind)).
    pub fn owns<V: Owned + Send + Sync + 'static>(self, informer: &Informer<V>) -> Self {
        let owner = self.owner.clone();
        self.watches(informer, move |entry| owner.key(entry))
    }

    /// Reconciles those keys that `map` gives for an object that changes: for its old state and for its new one.
    ///
    /// ```
    /// # use informer_tokio::{Informer, Key, RawJson};
    /// # use informer_tokio::controller::Controller;
    /// # fn example(sets: Informer<RawJson>, config: Informer<RawJson>) {
    /// let controller = Controller::new(&sets)
    ///     .watches(&config, |map| map.label("for").map(|name| Key::new(&format!("{}/{name}", map.namespace()))));
    /// # }
    /// ```
    pub fn watches<V, I>(
        mut self,
        informer: &Informer<V>,
        map: impl Fn(&Entry<V>) -> I + Send + Sync + 'static,
    ) -> Self
    where
        V: Send + Sync + 'static,
        I: IntoIterator<Item = Key>,
    {
        let informer = informer.clone();
        self.sources.push(Box::new(move |intake, options| {
            let handle = informer.add_handler_with(options, intake.handler(map));
            Box::new(Watched { informer, handle })
        }));
        self
    }

    /// Names it in logs, in figures and in the health of its informers. It has to come before [`handle`](Self::handle).
    /// Left out, it has the name of its informer.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Names the kind of the controller's objects and whether they live in a namespace, for [`owns`](Self::owns). It
    /// has to come before that. Left out, it is what the informer's resource says, and a namespace where that says
    /// nothing.
    ///
    /// ```
    /// # use informer_tokio::{Informer, RawJson};
    /// # use informer_tokio::controller::Controller;
    /// # fn example(tenants: Informer<RawJson>, pods: Informer<RawJson>) {
    /// let controller = Controller::new(&tenants).kind("Tenant", false).owns(&pods);
    /// # }
    /// ```
    pub fn kind(mut self, kind: impl Into<String>, namespaced: bool) -> Self {
        self.owner.kind = Some(kind.into());
        self.owner.namespaced = namespaced;
        self
    }

    /// Sets how many keys are reconciled at a time. The default is 1, as it is in client-go's world.
    ///
    /// # Panics
    /// Where it is 0.
    pub fn workers(mut self, workers: usize) -> Self {
        assert!(workers > 0, "somebody has to do the work");
        self.workers = workers;
        self
    }

    /// Sets how long a key waits after a failure. The default is client-go's: from 5 ms to 1000 s, doubled each time, and
    /// all keys together at most 10 a second after the first 100.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # fn example(controller: informer_tokio::controller::Controller) {
    /// controller.limit(informer_core::queue::Exponential::new(Duration::from_secs(1), Duration::from_secs(60)));
    /// # }
    /// ```
    pub fn limit(mut self, limit: impl RateLimit<Key> + Send + 'static) -> Self {
        self.queue = WorkQueue::with_limit(limit);
        self
    }

    /// Reconciles every key again in this period, without asking the API server. Left out, it is the resync period of
    /// the informers, which is none where they have none. It repairs what was changed behind the controller's back.
    pub const fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Reconciles no other keys than these: for replicas that share the work. It is asked when a key comes and again
    /// before it is reconciled. Where the answer changes, [`ControllerHandle::enqueue_all`] brings in what is new. Where it
    /// panics that is a [`Failure`], and the key is tried again.
    ///
    /// ```
    /// # fn example(controller: informer_tokio::controller::Controller) {
    /// controller.only(|key| informer_core::election::rendezvous(key.as_str(), ["a", "b", "c"]) == Some("a"));
    /// # }
    /// ```
    pub fn only(mut self, keep: impl Fn(&Key) -> bool + Send + Sync + 'static) -> Self {
        self.keep = Only::new(keep);
        self
    }

    /// Sets how long [`run`](Self::run) waits for the informers to be synced before it gives up. Left out, it waits as
    /// long as it takes.
    pub const fn sync_within(mut self, limit: Duration) -> Self {
        self.sync_within = Some(limit);
        self
    }

    /// Sets how long a key waits for the cache to show what it [wrote](super::Task::wrote). After it the key is reconciled all
    /// the same, and a [`Failure`] says so. The default is 30 seconds.
    pub const fn write_deadline(mut self, limit: Duration) -> Self {
        self.write_deadline = limit;
        self
    }

    /// Sets how long a stop waits for what is under way before it is cut. The default is 30 seconds.
    pub const fn drain(mut self, limit: Duration) -> Self {
        self.drain = limit;
        self
    }

    /// Has `hear` called with every failure. They are logged in any case. Where it panics that is logged, and the
    /// controller goes on.
    pub fn on_failure(mut self, hear: impl Fn(&Key, &Failure<'_>) + Send + Sync + 'static) -> Self {
        self.on_failure = Some(Arc::new(hear));
        self
    }

    /// Returns a handle that stops it, adds keys, and has figures.
    ///
    /// ```
    /// # async fn example(controller: informer_tokio::controller::Controller) {
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
            keys: Arc::clone(&self.keys),
            keep: self.keep.clone(),
            stop: Arc::clone(&self.stop),
            rechecks: Arc::clone(&self.rechecks),
            counts: Arc::clone(&self.counts),
        }
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

fn keys<V>(lister: &Lister<V>) -> Vec<Key> {
    let entries = lister.list();
    entries.iter().map(|entry| entry.key().clone()).collect()
}

/// Where keys go.
pub(super) struct Intake {
    pub(super) queue: WorkQueue<Key>,
    pub(super) keep: Only,
    pub(super) figures: Arc<Figures>,
}

impl Intake {
    fn handler<V: Send + Sync + 'static, I: IntoIterator<Item = Key>>(
        &self,
        map: impl Fn(&Entry<V>) -> I + Send + Sync + 'static,
    ) -> Handlers<V> {
        let (queue, keep, map) = (self.queue.clone(), self.keep.clone(), Arc::new(map));
        let figures = Arc::clone(&self.figures);
        let put = Arc::new(move |entry: &Entry<V>| {
            for key in map(entry) {
                if keep.lets_in(&key) {
                    queue.add(key);
                }
            }
            figures.queue(|| queue.metrics());
        });
        let (add, delete) = (Arc::clone(&put), Arc::clone(&put));
        Handlers::new()
            .on_add(move |entry, _| add(entry))
            .on_update(move |old, new| {
                // It may belong to another one now; a replay is told with one state.
                if !old.is_same_state(new) {
                    put(old);
                }
                put(new);
            })
            .on_delete(move |entry, _| delete(entry))
    }
}

/// A place among the handlers of an informer of any type.
pub(super) trait Registered: Send + Sync {
    fn synced(&self) -> &dyn HasSynced;
    fn ended(&self) -> core::pin::Pin<Box<dyn Future<Output = Ended> + Send + '_>>;
    fn remove(&self);
}

struct Watched<V> {
    informer: Informer<V>,
    handle: HandlerHandle<V>,
}

impl<V: Send + Sync + 'static> Registered for Watched<V> {
    fn synced(&self) -> &dyn HasSynced {
        &self.handle
    }

    fn ended(&self) -> core::pin::Pin<Box<dyn Future<Output = Ended> + Send + '_>> {
        Box::pin(async {
            self.informer.ended().await;
            Ended
        })
    }

    fn remove(&self) {
        self.handle.remove();
    }
}
