//! The handle of an informer.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use informer_core::{IndexError, ListenerConfig, ResourceVersion};
use tokio::sync::mpsc;

use crate::driver::Job;
use crate::entry::{Entry, Key};
use crate::error::{Ended, StillUnsynced};
use crate::handler::{EventHandler, HandlerHandle, HandlerOptions};
use crate::index::Index;
use crate::lister::Lister;
use crate::shared::Inner;
use crate::subscription::Subscription;

/// A handle on an informer: asks its cache, registers handlers, stops it. It is cheap to clone.
///
/// `V` is what the decoder keeps of an object: `Typed<Pod>`, [`RawJson`](crate::RawJson),
/// [`Metadata`](crate::Metadata).
pub struct Informer<V> {
    inner: Arc<Inner<V>>,
    jobs: mpsc::UnboundedSender<Job>,
    resync: Option<Duration>,
    client_go: bool,
}

/// How an informer is at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Health {
    /// Whether the cache has shown a complete list.
    pub synced: bool,
    /// Whether the driver has ended.
    pub ended: bool,
    /// How many objects there are.
    pub objects: usize,
    /// The resourceVersion that the cache has reached; empty where it has none.
    pub resource_version: String,
    /// How many lists were completed, the first one included.
    pub lists: u64,
    /// What last went wrong: its class and its message.
    pub last_report: Option<(&'static str, String)>,
    /// The keys of objects whose latest state could not be used.
    pub stale: Vec<String>,
}

impl<V> Informer<V> {
    pub(crate) const fn new(
        inner: Arc<Inner<V>>,
        jobs: mpsc::UnboundedSender<Job>,
        resync: Option<Duration>,
        client_go: bool,
    ) -> Self {
        Self {
            inner,
            jobs,
            resync,
            client_go,
        }
    }

    /// Returns a lister, which reads the cache and never asks the API server.
    #[must_use]
    pub fn lister(&self) -> Lister<V> {
        Lister::new(Arc::clone(&self.inner))
    }

    /// Waits until the cache has shown a complete list.
    ///
    /// # Errors
    /// Fails where the driver ends before that.
    pub async fn synced(&self) -> Result<(), Ended> {
        let mut status = self.inner.status.subscribe();
        match status
            .wait_for(|status| status.synced || status.ended)
            .await
        {
            Ok(status) if status.synced => Ok(()),
            Ok(_) | Err(_) => Err(Ended),
        }
    }

    /// Waits until the cache has shown a complete list, but no longer than `limit`.
    ///
    /// # Errors
    /// Fails where the time is over, and says what was last reported; or where the driver ends.
    pub async fn synced_within(&self, limit: Duration) -> Result<(), StillUnsynced> {
        match tokio::time::timeout(limit, self.synced()).await {
            Ok(synced) => Ok(synced?),
            Err(_) => Err(StillUnsynced::TimedOut {
                resource: self.inner.name.clone(),
                waited: limit,
                reason: self.inner.last_report().map_or_else(
                    || "nothing was reported; is the driver running?".to_owned(),
                    |last| last.message,
                ),
            }),
        }
    }

    /// Waits until the cache shows at least this resourceVersion, as after a write of one's own, whose answer names it.
    ///
    /// Versions that are decimal numbers are in order (KEP-5504). One that is not is waited for until it is reached
    /// itself, which may never be, so give such a wait a limit.
    ///
    /// # Errors
    /// Fails where the driver ends before that.
    ///
    /// ```
    /// # async fn example(pods: informer_tokio::Informer<informer_tokio::RawJson>) -> Result<(), informer_tokio::Ended> {
    /// let written = "4711"; // metadata.resourceVersion of what the API server answered
    /// pods.wait_until(written).await?;
    /// let mine = pods.lister().get("prod", "web");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait_until(&self, version: &str) -> Result<(), Ended> {
        let wanted = ResourceVersion::<Key>::new(version);
        let mut reached = self.inner.reached.subscribe();
        let shown = reached.wait_for(|shown| {
            shown
                .compare(&wanted)
                .is_some_and(core::cmp::Ordering::is_ge)
        });
        let mut status = self.inner.status.subscribe();
        tokio::select! {
            biased;
            shown = shown => shown.map(drop).map_err(|_| Ended),
            _ = status.wait_for(|status| status.ended) => Err(Ended),
        }
    }

    /// Returns the resourceVersion that the cache shows; empty where it has none yet.
    #[must_use]
    pub fn resource_version(&self) -> String {
        self.inner.reached.borrow().to_string()
    }

    /// Tells whether the cache has shown a complete list.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.inner.status.borrow().synced
    }

    /// Returns how the informer is.
    #[must_use]
    pub fn health(&self) -> Health {
        let status = *self.inner.status.borrow();
        let last_report = self
            .inner
            .last_report()
            .map(|last| (last.class, last.message));
        let cache = self.inner.cache();
        Health {
            synced: status.synced,
            ended: status.ended,
            objects: cache.len(),
            resource_version: cache
                .version(0)
                .map(ToString::to_string)
                .unwrap_or_default(),
            lists: status.relists,
            last_report,
            stale: cache.stale_keys().map(ToString::to_string).collect(),
        }
    }

    /// Adds an index; the objects that are there are in it when this returns.
    ///
    /// # Errors
    /// A name that is taken adds nothing.
    pub fn add_index(
        &self,
        name: &str,
        values: impl Fn(&V, &mut dyn FnMut(&str)) + Send + Sync + 'static,
    ) -> Result<(), IndexError> {
        let index = {
            let mut cache = self.inner.cache_mut();
            let index = Index {
                number: cache.declare_index(name)?,
                name: name.to_owned(),
                function: Arc::new(values),
            };
            // From here on the driver computes the values of what comes.
            self.inner
                .set_indexes(self.inner.indexes().with(index.clone()));
            index
        };
        let present: Vec<_> = self
            .inner
            .cache()
            .iter()
            .map(|(key, object)| Entry::new(key.clone(), object.clone()))
            .collect();
        // The function runs outside of the lock; where an object changed meanwhile the driver has seen to it.
        let values: Vec<Vec<String>> = present
            .iter()
            .map(|entry| {
                let mut values = Vec::new();
                let report = &mut |report: informer_core::Report<'_>| self.inner.report(&report);
                index.values(
                    entry.key().as_str(),
                    entry.value(),
                    &mut |v| values.push(v.to_owned()),
                    report,
                );
                values
            })
            .collect();
        let mut cache = self.inner.cache_mut();
        for (entry, values) in present.iter().zip(&values) {
            if cache
                .get(entry.key().as_str())
                .is_some_and(|object| entry.is_object(object))
            {
                cache.add_values(
                    entry.key().as_str(),
                    index.number,
                    values.iter().map(String::as_str),
                );
            }
        }
        Ok(())
    }

    /// Stops the informer. Handlers get what is pending, and then the driver ends.
    pub fn stop(&self) {
        self.inner
            .status
            .send_modify(|status| status.stopping = true);
    }

    /// Waits until the driver has ended.
    pub async fn ended(&self) {
        let mut status = self.inner.status.subscribe();
        // The sender is in `inner`, so this ends with the status and with nothing else.
        let _ = status.wait_for(|status| status.ended).await;
    }

    fn listener_config(&self, options: &HandlerOptions) -> ListenerConfig {
        let resync = options
            .resync
            .unwrap_or(self.resync)
            .filter(|period| !period.is_zero());
        let config = ListenerConfig::default().resync(resync);
        if self.client_go {
            // client-go's listeners keep everything, and hear of unchanged objects while there is no resync.
            config.backlog(usize::MAX).unchanged(resync.is_none())
        } else {
            config.backlog(options.backlog).unchanged(options.unchanged)
        }
    }
}

impl<V: Send + Sync + 'static> Informer<V> {
    /// Returns a stream of what happens, which starts with the present state.
    #[must_use]
    pub fn subscribe(&self) -> Subscription<V> {
        self.subscribe_with(&HandlerOptions::default())
    }

    /// As [`Informer::subscribe`], with a resync period or a backlog of its own.
    #[must_use]
    pub fn subscribe_with(&self, options: &HandlerOptions) -> Subscription<V> {
        Subscription::new(Arc::clone(&self.inner), self.listener_config(options))
    }

    /// Adds a handler, before the driver runs or at any time after. It first hears of everything that is there.
    pub fn add_handler(&self, handler: impl EventHandler<V>) -> HandlerHandle<V> {
        self.add_handler_with(&HandlerOptions::default(), handler)
    }

    /// As [`Informer::add_handler`], with a name, a resync period or a backlog of its own.
    pub fn add_handler_with(
        &self,
        options: &HandlerOptions,
        handler: impl EventHandler<V>,
    ) -> HandlerHandle<V> {
        let config = self.listener_config(options);
        let (handle, job) =
            crate::handler::register(Arc::clone(&self.inner), config, options, handler);
        // Where the driver has ended there is nobody to run it, and the handle says so.
        let _ = self.jobs.send(job);
        handle
    }
}

impl<V> Clone for Informer<V> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            jobs: self.jobs.clone(),
            resync: self.resync,
            client_go: self.client_go,
        }
    }
}

impl<V> fmt::Debug for Informer<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer")
            .field("name", &self.inner.name)
            .finish_non_exhaustive()
    }
}
