//! Leader election with a Lease.

use core::fmt;
use core::future::Future;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::sync::Arc;

use informer_core::report::OneLine;
use informer_core::{
    Instant, RequestId,
    election::{ElectionConfig, ElectionError, ElectionStep, Elector, LeaseRecord, Written},
};
use tokio::sync::watch;

use crate::cache::panics::catch;
use crate::clock::Clock;
use crate::health::unheard;

/// Reads and writes the Lease of an election, with any client.
///
/// A call that takes longer than `renew_deadline` is abandoned by dropping its future. A response that arrives later
/// must not be returned from a later call.
///
/// ```
/// use std::convert::Infallible;
/// use informer_core::election::{LeaseRecord, Written};
/// use informer_tokio::election::LeaseClient;
///
/// /// A Lease in memory, for a program with a single replica.
/// #[derive(Default)]
/// struct Alone(Option<LeaseRecord>, u64);
///
/// impl LeaseClient for Alone {
///     type Error = Infallible;
///
///     async fn read(&mut self) -> Result<Option<(LeaseRecord, String)>, Infallible> {
///         Ok(self.0.clone().map(|record| (record, self.1.to_string())))
///     }
///
///     async fn create(&mut self, record: &LeaseRecord) -> Result<Written, Infallible> {
///         self.update(record, "", true).await
///     }
///
///     async fn update(&mut self, record: &LeaseRecord, _: &str, _: bool) -> Result<Written, Infallible> {
///         self.0 = Some(record.clone());
///         self.1 += 1;
///         Ok(Written::Done(self.1.to_string()))
///     }
/// }
/// ```
pub trait LeaseClient: Send + 'static {
    /// The error of a request.
    type Error: fmt::Display + Send;

    /// Reads the Lease and its resourceVersion; `None` if it does not exist.
    fn read(
        &mut self,
    ) -> impl Future<Output = Result<Option<(LeaseRecord, String)>, Self::Error>> + Send;

    /// Creates the Lease with `acquireTime` and `renewTime` set to the current time. If it exists, that is a conflict
    /// and not an error. If its namespace does not exist, that is an error.
    fn create(
        &mut self,
        record: &LeaseRecord,
    ) -> impl Future<Output = Result<Written, Self::Error>> + Send;

    /// Updates the Lease if it still has this resourceVersion. It sets `renewTime` to the current time, and
    /// `acquireTime` too if `acquire` is set. If the version differs or the Lease was deleted, that is a conflict and
    /// not an error.
    fn update(
        &mut self,
        record: &LeaseRecord,
        resource_version: &str,
        acquire: bool,
    ) -> impl Future<Output = Result<Written, Self::Error>> + Send;
}

/// Takes part in an election. A controller [takes it](crate::controller::Controller::elected), or the user spawns the
/// future of [`run`](Self::run), and a [`Leadership`] shows the result.
///
/// ```no_run
/// use informer_tokio::election::{Election, ElectionConfig, LeaseClient};
///
/// # async fn example(client: impl LeaseClient) -> Result<(), informer_tokio::election::ElectionError> {
/// let (leadership, election) = Election::new(client, "web-controller-7d9f-x2x4v", ElectionConfig::default())?;
/// tokio::spawn(election.run());
/// loop {
///     leadership.acquired().await;
///     // The inner future is dropped when the leadership ends.
///     leadership.while_leading(async { /* run the controllers */ }).await;
/// }
/// # }
/// ```
pub struct Election<C> {
    client: C,
    elector: Elector,
    config: ElectionConfig,
    state: watch::Sender<LeaderState>,
    resign: watch::Receiver<bool>,
    /// Whether a failure was written to stderr since the Lease was last written.
    said: bool,
    /// The last failure, until a request succeeds.
    error: Option<String>,
    on_error: Option<OnError>,
    clock: Clock,
}

/// Its panics are caught, so it leaves nothing inconsistent.
type OnError = AssertUnwindSafe<Arc<dyn Fn(&str) + Send + Sync>>;

/// The state of an election. Clones share it.
///
/// ```
/// # async fn example(leadership: informer_tokio::election::Leadership) {
/// leadership.acquired().await;
/// println!("this replica is the leader");
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Leadership {
    state: watch::Receiver<LeaderState>,
    resign: watch::Sender<bool>,
    clock: Clock,
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct LeaderState {
    /// The time until which this replica is certainly the leader.
    until: Option<Instant>,
    /// How often the leadership has lapsed.
    term: u64,
    holder: Option<String>,
    error: Option<String>,
    has_ended: bool,
}

impl<C: LeaseClient> Election<C> {
    /// Creates an election with an identity that no other replica has, such as the name of the Pod.
    ///
    /// # Errors
    /// Fails if the identity is empty or the config is [invalid](ElectionConfig). Otherwise two replicas
    /// could lead.
    pub fn new(
        client: C,
        identity: impl Into<String>,
        config: ElectionConfig,
    ) -> Result<(Leadership, Self), ElectionError> {
        let elector = Elector::new(identity, config)?;
        let (state, state_seen) = watch::channel(LeaderState::default());
        let (resign, resign_seen) = watch::channel(false);
        let clock = Clock::default();
        let leadership = Leadership {
            state: state_seen,
            resign,
            clock: clock.clone(),
        };
        let election = Self {
            client,
            elector,
            config,
            state,
            resign: resign_seen,
            said: false,
            error: None,
            on_error: None,
            clock,
        };
        Ok((leadership, election))
    }

    /// Calls `callback` with every failed request for the Lease. Failures are also logged, and the last one is
    /// [shown](Leadership::error) until a request succeeds.
    ///
    /// ```
    /// use informer_tokio::election::{Election, LeaseClient};
    /// # fn example(client: impl LeaseClient) -> Result<(), informer_tokio::election::ElectionError> {
    /// let (leadership, election) = Election::new(client, "web-0", Default::default())?;
    /// let election = election.on_error(|error| eprintln!("{error}")); // For example, that a right is missing.
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn on_error(mut self, callback: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_error = Some(AssertUnwindSafe(Arc::new(callback)));
        self
    }

    /// Runs until this replica has [resigned](Leadership::resign) or every [`Leadership`] was dropped; then the Lease is
    /// released. If the future is dropped, this replica stops leading, and the others have to wait until the Lease
    /// expires.
    pub async fn run(mut self) {
        let clock = self.clock.clone();
        let mut is_wanted = true;
        loop {
            if !is_wanted || *self.resign.borrow_and_update() {
                self.elector.release();
            }
            let now = clock.now();
            let step = self.elector.poll(now);
            self.publish(now);
            if self.elector.is_released() {
                break;
            }
            let patience = self.config.renew_deadline;
            match step {
                ElectionStep::Wait(until) => tokio::select! {
                    biased;
                    () = clock.sleep_until(until) => {}
                    // An error means that every `Leadership` was dropped.
                    changed = self.resign.changed(), if is_wanted => is_wanted = changed.is_ok(),
                },
                ElectionStep::Read(id) => match within(patience, self.client.read()).await {
                    Ok(lease) => {
                        self.error = None;
                        self.elector.handle_read(clock.now(), id, lease);
                    }
                    Err(error) => {
                        self.failed(format!("cannot read the Lease: {error}"));
                        self.elector.handle_read_failed(clock.now(), id);
                    }
                },
                ElectionStep::Create { id, record } => {
                    let written = within(patience, self.client.create(&record)).await;
                    self.written(id, written);
                }
                ElectionStep::Update {
                    id,
                    record,
                    resource_version,
                    acquire,
                } => {
                    let update = self.client.update(&record, &resource_version, acquire);
                    let written = within(patience, update).await;
                    self.written(id, written);
                }
            }
        }
        self.state.send_modify(|state| {
            state.until = None;
            state.has_ended = true;
        });
    }

    fn written(&mut self, id: RequestId, written: Result<Written, String>) {
        let written = written.unwrap_or_else(|error| {
            self.failed(format!("cannot write the Lease: {error}"));
            Written::Failed
        });
        if let Written::Done(_) = written {
            self.said = false;
            self.error = None;
        }
        if written == Written::Conflict && self.elector.is_leader(self.clock.now()) {
            tracing::warn!(
                identity = self.elector.identity(),
                "another client changed or deleted the Lease; not leading until a read confirms it"
            );
        }
        self.elector.handle_written(self.clock.now(), id, written);
    }

    /// Reports a failure. It is written to stderr if nobody hears of it otherwise, once until the Lease is written.
    fn failed(&mut self, error: String) {
        let identity = self.elector.identity();
        tracing::warn!(identity, "{}", OneLine(&error));
        if let Some(on_error) = &self.on_error {
            if let Err(panic) = catch(|| on_error(&error)) {
                let message = crate::cache::panics::message(&*panic);
                tracing::error!(
                    identity,
                    "`on_error` of an election panicked: {}",
                    OneLine(message)
                );
            }
        } else if !self.said {
            self.said = unheard::say(&format!("election of {identity}: {error}"));
        }
        self.error = Some(error);
    }

    fn publish(&self, now: Instant) {
        let leads = self.elector.is_leader(now);
        let (until, term) = {
            let before = self.state.borrow();
            (before.until, before.term)
        };
        // It has not led for a moment, even if nobody has seen that.
        let has_lapsed = until.is_some_and(|until| until <= now);
        let state = LeaderState {
            until: self.elector.leads_until().filter(|_| leads),
            term: term + u64::from(has_lapsed),
            holder: self.elector.holder().map(ToOwned::to_owned),
            error: self.error.clone(),
            has_ended: false,
        };
        self.state.send_if_modified(|before| {
            let is_news = *before != state;
            if is_news {
                self.log(before, &state);
                *before = state;
            }
            is_news
        });
    }

    /// Logs who leads, if that has changed.
    fn log(&self, before: &LeaderState, now: &LeaderState) {
        let identity = self.elector.identity();
        match (before.until.is_some(), now.until.is_some()) {
            (false, true) => tracing::info!(identity, "leads"),
            (true, false) => tracing::info!(identity, "no longer leads"),
            _ if now.holder != before.holder => {
                if let Some(holder) = now.holder.as_deref().filter(|holder| *holder != identity) {
                    tracing::info!(identity, "{} leads", OneLine(holder));
                }
            }
            _ => {}
        }
    }
}

impl<C> fmt::Debug for Election<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election")
            .field("elector", &self.elector)
            .finish_non_exhaustive()
    }
}

impl Leadership {
    #[cfg(test)]
    pub(crate) const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns how long this replica is certainly the leader from now on, as of the last update.
    pub(crate) fn leads_for(&mut self) -> Option<Duration> {
        let until = self.state.borrow_and_update().until?;
        (!*self.resign.borrow()).then(|| until.saturating_duration_since(self.clock.now()))
    }

    /// Waits for a change of the state. Returns `false` if the election has ended.
    pub(crate) async fn changed(&mut self) -> bool {
        self.state.changed().await.is_ok()
    }

    /// Returns whether this replica is the leader now.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        let until = self.state.borrow().until;
        !*self.resign.borrow() && until.is_some_and(|until| self.clock.now() < until)
    }

    /// Returns the last known holder of the Lease.
    #[must_use]
    pub fn holder(&self) -> Option<String> {
        self.state.borrow().holder.clone()
    }

    /// Returns why the Lease cannot be read or written now; `None` if the last request succeeded.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        self.state.borrow().error.clone()
    }

    /// Waits until this replica is the leader. Returns `false` if the election has ended.
    pub async fn acquired(&self) -> bool {
        let mut state = self.state.clone();
        loop {
            if self.is_leader() {
                return true;
            }
            if state.borrow_and_update().has_ended || state.changed().await.is_err() {
                return false;
            }
        }
    }

    /// Waits until this replica is not the leader, at the latest until its leadership expires.
    pub async fn lost(&self) {
        let (mut state, mut resign) = (self.state.clone(), self.resign.subscribe());
        let term = state.borrow().term;
        loop {
            state.mark_unchanged();
            resign.mark_unchanged();
            let Some(until) = state.borrow().until.filter(|_| self.is_leader()) else {
                return;
            };
            if state.borrow().term != term {
                return;
            }
            tokio::select! {
                biased;
                () = self.clock.sleep_until(until) => {}
                changed = state.changed() => if changed.is_err() {
                    // The election was dropped, so nothing is renewed, but the Lease remains until it expires.
                    self.clock.sleep_until(until).await;
                },
                _ = resign.changed() => {}
            }
        }
    }

    /// Runs a future while this replica is the leader, and drops it when the leadership ends or expires. Returns `None`
    /// if the future was dropped, or if this replica is not the leader.
    ///
    /// ```
    /// # async fn example(leadership: informer_tokio::election::Leadership) {
    /// let worked = leadership.while_leading(async { "done" }).await;
    /// println!("{}", worked.unwrap_or("no longer the leader"));
    /// # }
    /// ```
    pub async fn while_leading<F: Future>(&self, work: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            () = self.lost() => None,
            output = work => Some(output),
        }
    }

    /// Releases the leadership and leaves the election, so that another replica need not wait for the Lease to expire.
    /// The work of the leader must have ended before. A [controller](crate::controller::Controller::elected) does so
    /// itself.
    pub async fn resign(&self) {
        self.request_resign();
        let mut state = self.state.clone();
        // An error means that the election was dropped.
        let _ = state.wait_for(|state| state.has_ended).await;
    }

    /// Stops leading at once, and lets the election release the Lease.
    pub(crate) fn request_resign(&self) {
        self.resign.send_replace(true);
    }
}

/// Limits the time of a call.
pub(crate) async fn within<T, E: fmt::Display>(
    patience: Duration,
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match tokio::time::timeout(patience, call).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no response within {patience:?}")),
    }
}
