//! Replicas that share keys.

use core::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informer_core::{
    Instant, Timer as _,
    election::{ElectionConfig, ElectionError, LeaseRecord, Members},
};
use tokio::sync::watch;

use super::leader::{Election, Leadership, LeaseClient, within};
use crate::cache::entry::Key;
use crate::controller::ControllerHandle;
use crate::timer::TokioTimer;

/// Lists the Leases of all replicas.
///
/// ```
/// use informer_tokio::election::{LeaseRecord, MembersClient};
///
/// struct Leases(Vec<LeaseRecord>);
///
/// impl MembersClient for Leases {
///     type Error = std::convert::Infallible;
///
///     async fn list(&mut self) -> Result<Vec<LeaseRecord>, Self::Error> {
///         Ok(self.0.clone()) // With a LIST with a label selector, without a resourceVersion.
///     }
/// }
/// ```
pub trait MembersClient: Send + 'static {
    /// The error of a request.
    type Error: fmt::Display + Send;

    /// Lists the Leases of all replicas at the newest version, and not from a cache.
    fn list(&mut self) -> impl Future<Output = Result<Vec<LeaseRecord>, Self::Error>> + Send;
}

/// One of several replicas that share keys. Each key belongs to one replica at a time, within the guarantees of a
/// Lease. The keys of a replica that fails move to others after the duration of its Lease. See [`Members`] for the
/// rules.
///
/// Each replica has a Lease that is named after it. With a [`Controller`](crate::controller::Controller):
///
/// ```
/// use informer_tokio::{Informer, Raw};
/// use informer_tokio::controller::Controller;
/// use informer_tokio::election::{LeaseClient, MembersClient, Replica};
/// # async fn example(lease: impl LeaseClient, all: impl MembersClient, pods: Informer<Raw>) -> Result<(), informer_tokio::election::ElectionError> {
/// let (replica, work) = Replica::new(lease, all, "replica-7f3a", Default::default())?;
/// let own = replica.clone();
/// let controller = Controller::new(&pods).only(move |key| own.owns(key));
/// let handle = controller.handle();
/// tokio::spawn(work.run()); // Not in the task of the controller, which may be busy.
/// let sharing = replica.clone();
/// tokio::spawn(async move { sharing.share(&handle).await });
/// let stopped = controller.run(|task| async move { Ok::<_, std::io::Error>(println!("{}", task.key())) }).await;
/// replica.resign().await; // After all runs have ended.
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Replica {
    members: Arc<Mutex<Members>>,
    view: watch::Receiver<View>,
    leadership: Leadership,
    timer: TokioTimer,
}

/// The background work of a [`Replica`]: renews its Lease and lists those of all replicas.
#[must_use = "a replica does nothing until its work runs"]
pub struct ReplicaWork<C, M> {
    election: Election<C>,
    client: M,
    config: ElectionConfig,
    members: Arc<Mutex<Members>>,
    view: watch::Sender<View>,
    leadership: Leadership,
    timer: TokioTimer,
}

/// Everything that determines the owner of a key.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct View {
    is_active: bool,
    live: Vec<String>,
}

impl Replica {
    /// Creates a replica and its background work. No other replica may have or have had the same name. `lease` accesses
    /// the Lease of this replica, and `all` those of all replicas.
    ///
    /// # Errors
    /// Fails if the identity is empty or the config is [invalid](ElectionConfig). Otherwise two replicas
    /// could own a key.
    pub fn new<C: LeaseClient, M: MembersClient>(
        lease: C,
        all: M,
        identity: impl Into<String>,
        config: ElectionConfig,
    ) -> Result<(Self, ReplicaWork<C, M>), ElectionError> {
        let identity = identity.into();
        let members = Arc::new(Mutex::new(Members::new(identity.clone(), config)?));
        let (leadership, election) = Election::new(lease, identity, config)?;
        let (view, view_seen) = watch::channel(View::default());
        let timer = TokioTimer::new();
        let replica = Self {
            members: Arc::clone(&members),
            view: view_seen,
            leadership: leadership.clone(),
            timer,
        };
        let work = ReplicaWork {
            election,
            client: all,
            config,
            members,
            view,
            leadership,
            timer,
        };
        Ok((replica, work))
    }

    /// Returns whether a key currently belongs to this replica.
    #[must_use]
    pub fn owns(&self, key: &Key) -> bool {
        lock(&self.members).owns(self.timer.now(), key.as_str())
    }

    /// Returns whether this replica can own keys at all.
    #[must_use]
    pub fn is_active(&self) -> bool {
        lock(&self.members).is_active(self.timer.now())
    }

    /// Returns the names of the live replicas, including this one.
    #[must_use]
    pub fn live(&self) -> Vec<String> {
        let members = lock(&self.members);
        members.live().map(ToOwned::to_owned).collect()
    }

    /// Waits until the owners of keys change. Returns `false` if the background work has ended.
    ///
    /// ```
    /// # async fn example(mut replica: informer_tokio::election::Replica) {
    /// while replica.changed().await {
    ///     println!("{} live", replica.live().len());
    /// }
    /// # }
    /// ```
    pub async fn changed(&mut self) -> bool {
        self.view.changed().await.is_ok()
    }

    /// Keeps a controller in step with the ownership of keys, until the replica's background work ends.
    ///
    /// When owners change, it cuts runs of keys that moved to another replica, and adds the keys that this replica now
    /// owns. The controller must be restricted to [`owns`](Self::owns) with
    /// [`Controller::only`](crate::controller::Controller::only).
    pub async fn share(&self, controller: &ControllerHandle) {
        let mut own = self.clone();
        loop {
            controller.recheck();
            if !own.changed().await {
                controller.recheck();
                return;
            }
        }
    }

    /// Releases the Lease, so that others need not wait for it to expire. Stop the controller before, since its runs
    /// must have ended.
    pub async fn resign(&self) {
        lock(&self.members).resign();
        self.leadership.resign().await;
    }
}

impl<C: LeaseClient, M: MembersClient> ReplicaWork<C, M> {
    /// Renews and lists until the replica resigns. If it is dropped, the replica loses its keys when its Lease expires.
    pub async fn run(self) {
        let Self {
            election,
            client,
            config,
            members,
            view,
            leadership,
            timer,
        } = self;
        let shared = Shared {
            members,
            view,
            timer,
        };
        let wakes = tokio::sync::Notify::new();
        tokio::select! {
            () = election.run() => {}
            () = shared.list(client, config, &wakes) => {}
            () = shared.hold(&leadership, &wakes) => {}
            () = shared.tell_in_time(&wakes) => {}
        }
        lock(&shared.members).handle_lease(timer.now(), None);
        shared.announce();
    }
}

struct Shared {
    members: Arc<Mutex<Members>>,
    view: watch::Sender<View>,
    timer: TokioTimer,
}

impl Shared {
    async fn list<M: MembersClient>(
        &self,
        mut client: M,
        config: ElectionConfig,
        wakes: &tokio::sync::Notify,
    ) {
        let mut timer = self.timer;
        loop {
            let began = timer.now();
            match within(config.renew_deadline, client.list()).await {
                Ok(leases) => {
                    let leases = leases.iter();
                    let leases =
                        leases.map(|lease| (lease.holder.as_str(), lease.renewed.as_str()));
                    lock(&self.members).handle_list(began, timer.now(), leases);
                    wakes.notify_one();
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot list the Leases of the replicas");
                }
            }
            timer.sleep_until(timer.now() + config.retry_period).await;
        }
    }

    /// Follows the state of this replica's Lease.
    async fn hold(&self, leadership: &Leadership, wakes: &tokio::sync::Notify) {
        let mut leads = leadership.clone();
        loop {
            // Each has its own clock, but durations are the same on both.
            let now = self.timer.now();
            let until = leads.leads_for().map(|time| now + time);
            lock(&self.members).handle_lease(now, until);
            wakes.notify_one();
            if !leads.changed().await {
                // The election has ended, which ends this future as well.
                core::future::pending::<()>().await;
            }
        }
    }

    /// Publishes changes, both those from responses and those from the passage of time.
    async fn tell_in_time(&self, wakes: &tokio::sync::Notify) {
        let mut timer = self.timer;
        loop {
            self.announce();
            let next: Option<Instant> = lock(&self.members).next_change(timer.now());
            match next {
                None => wakes.notified().await,
                Some(next) => tokio::select! {
                    () = wakes.notified() => {}
                    () = timer.sleep_until(next) => {}
                },
            }
        }
    }

    fn announce(&self) {
        let now = self.timer.now();
        let view = {
            let members = lock(&self.members);
            View {
                is_active: members.is_active(now),
                live: members.live().map(ToOwned::to_owned).collect(),
            }
        };
        self.view.send_if_modified(|before| {
            let is_news = *before != view;
            *before = view;
            is_news
        });
    }
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica")
            .field("view", &*self.view.borrow())
            .finish_non_exhaustive()
    }
}

impl<C, M> fmt::Debug for ReplicaWork<C, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplicaWork").finish_non_exhaustive()
    }
}

fn lock(members: &Mutex<Members>) -> MutexGuard<'_, Members> {
    // No user code runs under this lock.
    members.lock().unwrap_or_else(PoisonError::into_inner)
}
