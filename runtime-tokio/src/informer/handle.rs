//! The handle of an informer.

use core::fmt;
use core::time::Duration;
use std::sync::{Arc, Weak};

use informer_core::transport::BoxFuture;
use informer_core::{
    Form, ResourceVersion, cache::IndexError, listeners::ListenerConfig, object::ExpectedState,
};
use tokio::sync::mpsc;

use crate::cache::entry::{Entry, Key};
use crate::cache::hashes::Kept;
use crate::cache::reindex::Building;
use crate::cache::shared::{Inner, Lost};
use crate::cache::shown::ShowsWrites;
use crate::cache::users::Users;
use crate::controller::Places;
use crate::handler::Gate;
use crate::handler::HandlerOptions;
use crate::handler::Subscription;
use crate::handler::{AsyncEventHandler, EventHandler};
use crate::handler::{HandlerHandle, register, register_async};
use crate::health::error::{Ended, StillUnsynced};
use crate::health::{Health, Trouble};
use crate::informer::Lister;

/// A handle to an informer: returns listers, registers handlers and stops it. It is cheap to clone.
///
/// An informer that a [`Factory`](crate::factory::Factory) shares counts its users: this handle and its clones,
/// listers, subscriptions, controllers, and registered handlers until they are removed. Its watch ends with the last of
/// them. An informer that was [built](crate::informer::Builder::build) separately runs until it is stopped.
///
/// `F` is the form in which objects are stored: `Pod`, [`Raw`](crate::Raw), [`Meta`](crate::Meta).
///
/// ```
/// # async fn example(pods: informer_tokio::Informer<informer_tokio::Raw>) -> Result<(), informer_tokio::informer::Ended> {
/// pods.synced().await?;
/// println!("{} has {} objects", pods.name(), pods.lister().len());
/// # Ok(())
/// # }
/// ```
pub struct Informer<F: Form> {
    inner: Arc<Inner<F::Stored>>,
    jobs: mpsc::UnboundedSender<BoxFuture<'static, ()>>,
    resync: Option<Duration>,
    client_go: bool,
    /// The user count of an informer that a factory shares.
    in_use: Option<Arc<Users>>,
}

impl<F: Form> Informer<F> {
    pub(crate) const fn new(
        inner: Arc<Inner<F::Stored>>,
        jobs: mpsc::UnboundedSender<BoxFuture<'static, ()>>,
        resync: Option<Duration>,
        client_go: bool,
    ) -> Self {
        Self {
            inner,
            jobs,
            resync,
            client_go,
            in_use: None,
        }
    }

    /// Counts this handle, its clones and everything created from them as users of a shared informer.
    pub(crate) fn counted(self, in_use: Arc<Users>) -> Self {
        Self {
            in_use: Some(in_use),
            ..self
        }
    }

    /// Returns whether the cache is no longer updated.
    pub(crate) fn is_over(&self) -> bool {
        let status = *self.inner.status.borrow();
        status.stopping || status.closed
    }

    /// Returns a lister, which reads the cache and never sends a request.
    #[must_use]
    pub fn lister(&self) -> Lister<F> {
        Lister::new(Arc::clone(&self.inner), self.in_use.clone())
    }

    /// Waits until the cache is synced: it has received a complete list.
    ///
    /// # Errors
    /// Fails if the driver ends before that.
    pub async fn synced(&self) -> Result<(), Ended> {
        let mut status = self.inner.status.subscribe();
        match status
            .wait_for(|status| status.synced || status.closed)
            .await
        {
            Ok(status) if status.synced => Ok(()),
            Ok(_) | Err(_) => Err(Ended),
        }
    }

    /// Waits until there is data to serve: the content of a [`Journal`](crate::journal::Journal), which may be
    /// [stale](Self::stale_since), or a complete list.
    ///
    /// # Errors
    /// Fails if the driver ends before that.
    pub async fn served(&self) -> Result<(), Ended> {
        let mut status = self.inner.status.subscribe();
        match status
            .wait_for(|status| status.served || status.closed)
            .await
        {
            Ok(status) if status.served => Ok(()),
            Ok(_) | Err(_) => Err(Ended),
        }
    }

    /// Returns the time since which the cache may be stale, if it was restored from a
    /// [`Journal`](crate::journal::Journal) and the server has not confirmed it since. It is the time of the journal's
    /// last write, or 1970 if the clock was wrong; the earliest of several sources.
    ///
    /// Returns `None` without a journal, if it was empty, and from the first event, bookmark or complete list on.
    ///
    /// ```
    /// # fn example(pods: informer_tokio::Informer<informer_tokio::Raw>) {
    /// if let Some(since) = pods.stale_since() {
    ///     println!("no server has confirmed this since {since:?}");
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn stale_since(&self) -> Option<std::time::SystemTime> {
        self.inner.stale_since()
    }

    /// Waits until the cache is synced, for at most `limit`.
    ///
    /// # Errors
    /// Fails with the last report if the time is over, or if the driver ends.
    pub async fn synced_within(&self, limit: Duration) -> Result<(), StillUnsynced> {
        match tokio::time::timeout(limit, self.synced()).await {
            Ok(synced) => Ok(synced?),
            Err(_) => {
                let (reason, troubles) = self.why();
                Err(StillUnsynced::TimedOut {
                    resource: self.inner.name.clone(),
                    waited: limit,
                    reason,
                    troubles,
                })
            }
        }
    }

    /// Waits until the cache has reached at least this resourceVersion, for example the one in the response to a write.
    ///
    /// Versions that are decimal numbers are ordered (KEP-5504). Any other version is awaited until exactly that
    /// version is reached, which may never happen, so limit such a wait.
    ///
    /// # Errors
    /// Fails if the driver ends before that.
    ///
    /// ```
    /// # async fn example(pods: informer_tokio::Informer<informer_tokio::Raw>) -> Result<(), informer_tokio::informer::Ended> {
    /// let written = "4711"; // metadata.resourceVersion in the API server's response
    /// pods.wait_until(written).await?;
    /// let mine = pods.lister().get("prod", "web");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait_until(&self, version: &str) -> Result<(), Ended> {
        let wanted = ResourceVersion::<Key>::new(version);
        let shown = self.inner.reached.until(|shown| {
            let orders = shown.values().map(|shown| shown.compare(&wanted));
            orders
                .into_iter()
                .all(|order| order.is_some_and(core::cmp::Ordering::is_ge))
        });
        let mut status = self.inner.status.subscribe();
        tokio::select! {
            biased;
            () = shown => Ok(()),
            _ = status.wait_for(|status| status.closed) => Err(Ended),
        }
    }

    /// Waits until the cache shows a write: the object at this version or a later one, or any later state of its
    /// source. If the cache has several sources, this is earlier than [`wait_until`](Self::wait_until), since the other
    /// sources do not see the write.
    ///
    /// The version is the one in the server's response. A deletion is awaited by uid, as an [`ExpectedState`], because
    /// up to Kubernetes 1.37 the response has the previous version, which the cache already shows.
    ///
    /// # Errors
    /// Fails if the driver has ended, or ends before the write is shown.
    ///
    /// ```
    /// # async fn example(pods: informer_tokio::Informer<informer_tokio::Raw>, answer: &[u8]) -> Result<(), informer_tokio::informer::Ended> {
    /// use informer_tokio::informer::ExpectedState;
    ///
    /// pods.wait_for_write("prod/web", "4711").await?;
    /// // After a DELETE. The response is an object or a Status.
    /// if let Some(deleted) = ExpectedState::after_delete(answer) {
    ///     pods.wait_for_write("prod/old", deleted).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait_for_write(
        &self,
        key: &str,
        expected: impl Into<ExpectedState<Key>>,
    ) -> Result<(), Ended> {
        let expected = self.inner.expected(key, expected.into());
        self.inner.wait_for_write(key, &expected).await
    }

    /// Waits like [`wait_for_write`](Self::wait_for_write), but not for an informer that has never had a list and cannot
    /// list now. Returns whether the object was changed or deleted since the write.
    pub(crate) async fn await_write(
        &self,
        key: &str,
        expected: ExpectedState<Key>,
    ) -> Result<bool, Ended> {
        let expected = self.inner.expected(key, expected);
        self.inner.await_write(key, &expected).await
    }

    /// Returns what its sources list. Those of clusters are left out: they are of another server.
    #[cfg(feature = "requests")]
    pub(crate) fn sources(&self) -> Vec<informer_core::OwnedResource> {
        let sources = self.inner.each_source(|_, source| {
            let is_here = source.cluster.is_empty();
            is_here.then(|| source.resource.clone())
        });
        sources.into_iter().flatten().collect()
    }

    /// Returns the resourceVersion that the cache has reached; the oldest of several namespaces. It is empty before the
    /// first list.
    #[must_use]
    pub fn resource_version(&self) -> String {
        self.inner.resource_version()
    }

    /// Returns whether the cache is synced: it has received a complete list.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.inner.is_synced()
    }

    /// Returns the informer's health: whether it is synced, and if not, why.
    ///
    /// It checks every object for staleness, so it is meant for people and probes rather than for hot loops.
    #[must_use]
    pub fn health(&self) -> Health {
        self.inner.health()
    }

    /// Returns its sources, for a controller.
    pub(crate) fn places(&self) -> Arc<dyn Places>
    where
        F::Stored: Send + Sync + 'static,
    {
        let inner: Arc<Inner<F::Stored>> = Arc::clone(&self.inner);
        inner
    }

    /// Notes that a controller reconciles its objects.
    pub(crate) fn note_controller(&self) {
        self.inner.note_controller();
    }

    /// Keeps this beside each object that is decoded from now on.
    pub(crate) fn keep(&self, kept: Kept) {
        self.inner.keep(kept);
    }

    pub(crate) fn resource(&self) -> informer_core::Resource<'_> {
        self.inner.resource.as_ref()
    }

    /// The reason why it is not synced, from each source that is not synced.
    pub(crate) fn why(&self) -> (String, Vec<Trouble>) {
        self.inner.why()
    }

    /// Returns the informer's name. The default is its resource.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Stops the informer. Handlers get the pending notifications, and then the driver ends.
    ///
    /// This stops a shared informer of a [`Factory`](crate::factory::Factory) for all its users. The next request to
    /// the factory gets a new one.
    pub fn stop(&self) {
        self.inner.stop();
    }

    /// Waits until the driver has ended, such as after [`stop`](Self::stop), and every handler has received the pending
    /// notifications.
    ///
    /// All calls of handlers have then returned or panicked, which is reported. The wait takes at most the time of
    /// [`Builder::drain`](crate::informer::Builder::drain) after the stop. A handler that is slower is dropped, and its
    /// remaining notifications are reported as undelivered. A running call of a
    /// [blocking](crate::handler::HandlerOptions::blocking) handler cannot be interrupted; it finishes, but no other
    /// follows.
    ///
    /// A [`Subscription`] is not awaited: it keeps the pending events for its reader, and ends after them. If the
    /// driver's future was dropped, handlers end without the pending notifications, which is reported.
    ///
    /// A handler must not await this itself: it would wait for its own end until the time of `drain` is over.
    pub async fn ended(&self) {
        let mut status = self.inner.status.subscribe();
        // The sender is in `inner`, so only a change of the status ends this wait.
        let _ = status.wait_for(|status| status.ended).await;
    }

    fn listener_config(&self, options: &HandlerOptions) -> ListenerConfig {
        let resync = options
            .resync
            .or(self.resync)
            .filter(|period| !period.is_zero());
        // client-go's listeners are unbounded, and are notified of unchanged objects if there is no resync.
        let (backlog, unchanged) = if self.client_go {
            (usize::MAX, resync.is_none())
        } else {
            (options.backlog, options.unchanged)
        };
        ListenerConfig {
            resync,
            backlog,
            unchanged,
        }
    }
}

impl<F: Form<Stored: Send + Sync + 'static>> Informer<F> {
    /// Returns the cache for a log of writes.
    pub(crate) fn shows(&self) -> Weak<dyn ShowsWrites> {
        let inner: Weak<Inner<F::Stored>> = Arc::downgrade(&self.inner);
        inner
    }

    /// Adds an index. The existing objects are indexed in steps, and all of them are indexed when this returns. Until
    /// then, reads of the index fail. The index is completed even if the future is dropped.
    ///
    /// # Errors
    /// Fails without an effect if the name is in use. Fails with [`IndexError::Building`] if the runtime shuts down
    /// before the end.
    ///
    /// ```
    /// # async fn example(pods: informer_tokio::Informer<informer_tokio::Raw>) -> Result<(), informer_tokio::informer::IndexError> {
    /// pods.add_index("node", |pod, value| {
    ///     let node = pod.at(&["spec", "nodeName"]).and_then(informer_core::json::as_str);
    ///     node.iter().for_each(|node| value(&node.to_string()));
    /// })
    /// .await?;
    /// let on_n1 = pods.lister().by_index("node", "n1")?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn add_index(
        &self,
        name: &str,
        values: impl Fn(&F::Stored, &mut dyn FnMut(&str)) + Send + Sync + 'static,
    ) -> Result<(), IndexError> {
        let building = Building::begin(&self.inner, name, Arc::new(values))?.run();
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => runtime
                .spawn(building)
                .await
                .map_err(|_| IndexError::Building),
            Err(_) => {
                building.await;
                Ok(())
            }
        }
    }

    /// Returns a stream of events that begins with the current state.
    #[must_use]
    pub fn subscribe(&self) -> Subscription<F> {
        self.subscribe_with(&HandlerOptions::default().name("subscription"))
    }

    /// Subscribes like [`Informer::subscribe`], with options such as a name, a resync period or a backlog.
    #[must_use]
    pub fn subscribe_with(&self, options: &HandlerOptions) -> Subscription<F> {
        Subscription::new(
            (Arc::clone(&self.inner), self.in_use.clone()),
            self.listener_config(options),
            &options.name,
            None,
        )
    }

    /// Subscribes like [`Informer::subscribe_with`], restricted to objects for which `keep` returns `true`. An object
    /// that begins to match is added, and one that ceases to match is deleted; see [`Filter`](crate::handler::Filter).
    #[must_use]
    pub fn subscribe_where(
        &self,
        options: &HandlerOptions,
        keep: impl FnMut(&Entry<F>) -> bool + Send + 'static,
    ) -> Subscription<F> {
        Subscription::new(
            (Arc::clone(&self.inner), self.in_use.clone()),
            self.listener_config(options),
            &options.name,
            Some(Gate::new(keep)),
        )
    }

    /// Adds a handler, before the driver runs or at any time later. It is first notified of all existing objects.
    pub fn add_handler(&self, handler: impl EventHandler<F>) -> HandlerHandle<F> {
        self.add_handler_with(&HandlerOptions::default(), handler)
    }

    /// Adds a handler like [`Informer::add_handler`], with options such as a name, a resync period or a backlog.
    pub fn add_handler_with(
        &self,
        options: &HandlerOptions,
        handler: impl EventHandler<F>,
    ) -> HandlerHandle<F> {
        self.register(options, handler, None)
    }

    /// Adds the handler of a controller. `lost` is called with the states that it misses when it is slow.
    pub(crate) fn add_intake(
        &self,
        options: &HandlerOptions,
        handler: impl EventHandler<F>,
        lost: impl Fn(&Entry<F>) + Send + Sync + 'static,
    ) -> HandlerHandle<F> {
        let lost: Lost<F::Stored> =
            Arc::new(move |key, object| lost(&Entry::new(key.clone(), object.clone())));
        self.register(options, handler, Some(lost))
    }

    fn register(
        &self,
        options: &HandlerOptions,
        handler: impl EventHandler<F>,
        lost: Option<Lost<F::Stored>>,
    ) -> HandlerHandle<F> {
        let config = self.listener_config(options);
        let shared = (Arc::clone(&self.inner), self.in_use.clone());
        let (handle, job) = register(shared, config, options, handler, lost);
        // If the driver has ended, the handler never runs, and its handle reports that.
        let _ = self.jobs.send(job);
        handle
    }

    /// Adds an asynchronous handler; see [`Informer::add_handler`].
    pub fn add_async_handler(&self, handler: impl AsyncEventHandler<F>) -> HandlerHandle<F> {
        self.add_async_handler_with(&HandlerOptions::default(), handler)
    }

    /// Adds a handler like [`Informer::add_async_handler`], with options such as a name, a resync period or a backlog.
    pub fn add_async_handler_with(
        &self,
        options: &HandlerOptions,
        handler: impl AsyncEventHandler<F>,
    ) -> HandlerHandle<F> {
        let config = self.listener_config(options);
        let shared = (Arc::clone(&self.inner), self.in_use.clone());
        let (handle, job) = register_async(shared, config, options, handler);
        // If the driver has ended, the handler never runs, and its handle reports that.
        let _ = self.jobs.send(job);
        handle
    }
}

impl<F: Form> Clone for Informer<F> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            jobs: self.jobs.clone(),
            resync: self.resync,
            client_go: self.client_go,
            in_use: self.in_use.clone(),
        }
    }
}

impl<F: Form> fmt::Debug for Informer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let users = self.in_use.as_ref().map(Arc::strong_count);
        f.debug_struct("Informer")
            .field("name", &self.inner.name)
            .field("users", &users)
            .finish_non_exhaustive()
    }
}
