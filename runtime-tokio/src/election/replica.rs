//! Replicas that share keys.

use core::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informer_core::{
    Instant,
    election::{ElectionConfig, ElectionError, LeaseRecord, Members},
    report::OneLine,
};
use tokio::sync::watch;

use super::leader::{Election, Leadership, LeaseClient, within};
use crate::cache::entry::Key;
use crate::clock::Clock;
use crate::health::unheard;

/// Lists the Leases of all replicas, and removes those of replicas that have ended.
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

    /// Deletes a Lease that the last list returned, provided that it still has the uid and the resourceVersion that it
    /// had there. A Lease that has changed or does not exist is not an error. It is called for Leases that were not renewed
    /// for four lease durations. By default nothing is deleted.
    fn remove(
        &mut self,
        gone: &LeaseRecord,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let _ = gone;
        core::future::ready(Ok(()))
    }
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
/// # async fn example(lease: impl LeaseClient, all: impl MembersClient, pods: Informer<Raw>) -> Result<(), Box<dyn std::error::Error>> {
/// Controller::new(&pods)
///     .sharing(Replica::new(lease, all, "replica-7f3a", Default::default())?)
///     .run(|task| async move { Ok::<_, std::io::Error>(println!("{}", task.key())) })
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Replica {
    members: Arc<Mutex<Members>>,
    view: watch::Receiver<View>,
    leadership: Leadership,
    clock: Clock,
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
    clock: Clock,
}

/// Everything that determines the owner of a key.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct View {
    is_active: bool,
    live: Vec<String>,
    /// Why the Leases cannot be listed.
    error: Option<String>,
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
        let clock = Clock::default();
        let replica = Self {
            members: Arc::clone(&members),
            view: view_seen,
            leadership: leadership.clone(),
            clock: clock.clone(),
        };
        let work = ReplicaWork {
            election,
            client: all,
            config,
            members,
            view,
            leadership,
            clock,
        };
        Ok((replica, work))
    }

    /// Returns whether a key currently belongs to this replica.
    #[must_use]
    pub fn owns(&self, key: &Key) -> bool {
        lock(&self.members).owns(self.clock.now(), key.as_str())
    }

    /// Returns whether this replica can own keys at all.
    #[must_use]
    pub fn is_active(&self) -> bool {
        lock(&self.members).is_active(self.clock.now())
    }

    /// Returns the names of the live replicas, including this one.
    #[must_use]
    pub fn live(&self) -> Vec<String> {
        let members = lock(&self.members);
        members.live().map(ToOwned::to_owned).collect()
    }

    /// Returns why the Lease of this replica cannot be read or written, or those of all cannot be listed now.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        let of_list = || self.view.borrow().error.clone();
        self.leadership.error().or_else(of_list)
    }

    /// Waits until the owners of keys change. Returns `false` if the background work has ended.
    pub(crate) async fn changed(&mut self) -> bool {
        self.view.changed().await.is_ok()
    }

    /// Releases the Lease, so that others need not wait for it to expire. The work of this replica must have ended
    /// before. A [controller](crate::controller::Controller::sharing) does so itself.
    pub async fn resign(&self) {
        self.request_resign();
        self.leadership.resign().await;
    }

    /// Gives up all keys at once, and lets the background work release the Lease.
    pub(crate) fn request_resign(&self) {
        lock(&self.members).resign();
        self.leadership.request_resign();
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
            clock,
        } = self;
        let shared = ReplicaState {
            members,
            view,
            clock: clock.clone(),
        };
        let wakes = tokio::sync::Notify::new();
        tokio::select! {
            biased;
            () = election.run() => {}
            () = shared.list(client, config, &wakes) => {}
            () = shared.hold(&leadership, &wakes) => {}
            () = shared.tell_in_time(&wakes) => {}
        }
        lock(&shared.members).handle_lease(clock.now(), None);
        shared.announce();
    }
}

struct ReplicaState {
    members: Arc<Mutex<Members>>,
    view: watch::Sender<View>,
    clock: Clock,
}

impl ReplicaState {
    async fn list<M: MembersClient>(
        &self,
        mut client: M,
        config: ElectionConfig,
        wakes: &tokio::sync::Notify,
    ) {
        let clock = &self.clock;
        // Whether the last removal failed.
        let mut cannot_remove = false;
        loop {
            let began = clock.now();
            match within(config.renew_deadline, client.list()).await {
                Ok(leases) => {
                    let pairs = leases.iter();
                    let pairs = pairs.map(|lease| (lease.holder.as_str(), lease.renewed.as_str()));
                    lock(&self.members).handle_list(began, clock.now(), pairs);
                    self.listed(None);
                    wakes.notify_one();
                    let next = clock.now() + config.retry_period;
                    tokio::select! {
                        biased;
                        // A removal does not delay the next list.
                        () = clock.sleep_until(next) => {}
                        () = self.remove_gone(&mut client, &leases, &mut cannot_remove) => {
                            clock.sleep_until(next).await;
                        }
                    }
                }
                Err(error) => {
                    let error = format!("cannot list the Leases of the replicas: {error}");
                    tracing::warn!("{}", OneLine(&error));
                    self.listed(Some(error));
                    clock.sleep_until(clock.now() + config.retry_period).await;
                }
            }
        }
    }

    /// Removes the Leases of replicas that have ended. A failure does no harm but that they stay, so it is reported once,
    /// until a removal succeeds, and is no [error](Replica::error) of this replica.
    async fn remove_gone<M: MembersClient>(
        &self,
        client: &mut M,
        leases: &[LeaseRecord],
        cannot_remove: &mut bool,
    ) {
        let is_gone = |members: &Members, lease: &LeaseRecord| {
            let mut gone = members.gone(self.clock.now());
            gone.any(|gone| gone == (lease.holder.as_str(), lease.renewed.as_str()))
        };
        for lease in leases {
            if !is_gone(&lock(&self.members), lease) {
                continue;
            }
            let holder = &lease.holder;
            match client.remove(lease).await {
                Ok(()) => {
                    *cannot_remove = false;
                    tracing::info!(holder, "removed the Lease of a replica that has ended");
                }
                Err(error) if *cannot_remove => {
                    tracing::debug!(%error, holder, "cannot remove a Lease");
                }
                Err(error) => {
                    *cannot_remove = true;
                    let line = format!(
                        "cannot remove the Lease of {holder}, which has ended, so it stays: {error}"
                    );
                    tracing::warn!("{}", OneLine(&line));
                    unheard::say(&line);
                }
            }
        }
    }

    /// Follows the state of this replica's Lease.
    async fn hold(&self, leadership: &Leadership, wakes: &tokio::sync::Notify) {
        let mut leads = leadership.clone();
        loop {
            // Each has its own clock, but durations are the same on both.
            let now = self.clock.now();
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
        let clock = &self.clock;
        loop {
            self.announce();
            let next: Option<Instant> = lock(&self.members).next_change(clock.now());
            match next {
                None => wakes.notified().await,
                Some(next) => tokio::select! {
                    biased;
                    () = wakes.notified() => {}
                    () = clock.sleep_until(next) => {}
                },
            }
        }
    }

    /// Publishes the result of a list. The first failure is written to stderr if nobody hears of it otherwise.
    fn listed(&self, error: Option<String>) {
        self.view.send_if_modified(|view| {
            if let (None, Some(error)) = (&view.error, &error) {
                unheard::say(error);
            }
            let is_news = view.error != error;
            view.error = error;
            is_news
        });
    }

    fn announce(&self) {
        let now = self.clock.now();
        let view = {
            let members = lock(&self.members);
            View {
                is_active: members.is_active(now),
                live: members.live().map(ToOwned::to_owned).collect(),
                error: self.view.borrow().error.clone(),
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
