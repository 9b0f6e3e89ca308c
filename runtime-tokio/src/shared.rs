//! What driver, handles, handlers and subscriptions of one informer share.

use core::task::{Context, Poll, Waker};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use informer_core::{
    Cache, CacheConfig, Event, ListenerConfig, ListenerId, Listeners, OwnedResource, Report,
    ResourceVersion,
};
use tokio::sync::watch;

use crate::entry::{Key, Shared as Object, Store};
use crate::index::Indexes;

/// Hears of every report.
pub(crate) type OnReport = Arc<dyn Fn(&Report<'_>) + Send + Sync>;

/// Hears of every resourceVersion.
pub(crate) type OnVersion = Arc<dyn Fn(&str) + Send + Sync>;

/// How many events are handed to a listener at a time.
pub(crate) const TAKE: usize = 64;

pub(crate) struct Inner<V> {
    pub(crate) name: String,
    pub(crate) resource: OwnedResource,
    cache: RwLock<Cache<Object<V>, Store>>,
    /// Taken after the cache, never before it.
    told: Mutex<Told<V>>,
    /// Changes only under the cache's write lock.
    indexes: RwLock<Arc<Indexes<V>>>,
    pub(crate) status: watch::Sender<Status>,
    /// The version that the cache shows.
    pub(crate) reached: watch::Sender<ResourceVersion<Key>>,
    on_report: Option<OnReport>,
    pub(crate) on_version: Option<OnVersion>,
    last_report: Mutex<Option<LastReport>>,
}

/// The last thing that went wrong.
#[derive(Clone, Debug)]
pub(crate) struct LastReport {
    pub(crate) class: &'static str,
    pub(crate) message: String,
}

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Status {
    pub(crate) synced: bool,
    /// A stop was asked for.
    pub(crate) stopping: bool,
    /// Nothing more will come.
    pub(crate) ended: bool,
    pub(crate) relists: u64,
}

pub(crate) struct Told<V> {
    pub(crate) listeners: Listeners<Key, Object<V>>,
    wakers: HashMap<ListenerId, Waker>,
    ended: bool,
    /// Something that the driver's deadline depends on has changed.
    driver: Option<Waker>,
    pub(crate) resyncs_changed: bool,
}

impl<V> Inner<V> {
    pub(crate) fn new(
        name: String,
        resource: OwnedResource,
        config: CacheConfig,
        seed: u64,
        on_report: Option<OnReport>,
        on_version: Option<OnVersion>,
    ) -> Self {
        Self {
            name,
            resource,
            cache: RwLock::new(Cache::new(config, 1, seed)),
            told: Mutex::new(Told {
                listeners: Listeners::default(),
                wakers: HashMap::new(),
                ended: false,
                driver: None,
                resyncs_changed: false,
            }),
            indexes: RwLock::new(Arc::default()),
            status: watch::Sender::new(Status::default()),
            reached: watch::Sender::default(),
            on_report,
            on_version,
            last_report: Mutex::new(None),
        }
    }

    // No code of a user runs under these locks, so a poisoned one is as good as another.

    pub(crate) fn cache(&self) -> RwLockReadGuard<'_, Cache<Object<V>, Store>> {
        self.cache.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn cache_mut(&self) -> RwLockWriteGuard<'_, Cache<Object<V>, Store>> {
        self.cache.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn told(&self) -> MutexGuard<'_, Told<V>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn indexes(&self) -> Arc<Indexes<V>> {
        Arc::clone(&self.indexes.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_indexes(&self, indexes: Indexes<V>) {
        *self.indexes.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(indexes);
    }

    /// Adds a listener, which begins with what the cache has told so far.
    pub(crate) fn join(&self, config: ListenerConfig) -> ListenerId {
        // With the cache held still, nothing is told between the snapshot and the place in the log.
        let cache = self.cache();
        let mut told = self.told();
        let initial = cache
            .told()
            .map(|(key, object)| (key.clone(), object.clone()));
        let id = told.listeners.join(config, initial, cache.is_synced());
        told.resyncs_changed = true;
        let driver = told.driver.take();
        drop(told);
        drop(cache);
        driver.into_iter().for_each(Waker::wake);
        id
    }

    /// Removes a listener; returns how many notifications waited for it.
    pub(crate) fn leave(&self, id: ListenerId) -> usize {
        let mut told = self.told();
        let waker = told.wakers.remove(&id);
        let pending = told.listeners.leave(id);
        drop(told);
        waker.into_iter().for_each(Waker::wake);
        pending
    }

    /// Waits for events for a listener and moves some of them into `out`; `Ready(false)` when there will be no more.
    pub(crate) fn poll_take(
        &self,
        cx: &mut Context<'_>,
        id: ListenerId,
        out: &mut Vec<Event<Key, Object<V>>>,
    ) -> Poll<bool> {
        let mut told = self.told();
        told.listeners.take(id, TAKE, out);
        if !out.is_empty() {
            return Poll::Ready(true);
        }
        if told.ended || !told.listeners.contains(id) {
            return Poll::Ready(false);
        }
        told.wakers.insert(id, cx.waker().clone());
        Poll::Pending
    }

    /// Wakes every listener, and has what slow ones have not read coalesced.
    pub(crate) fn wake(&self) {
        let mut told = self.told();
        told.listeners.coalesce();
        let wakers: Vec<Waker> = told.wakers.drain().map(|(_, waker)| waker).collect();
        drop(told);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Has the driver woken when its deadline may have changed.
    pub(crate) fn poll_resyncs_changed(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut told = self.told();
        if core::mem::take(&mut told.resyncs_changed) {
            return Poll::Ready(());
        }
        told.driver = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Says that nothing more will come.
    pub(crate) fn end(&self) {
        self.told().ended = true;
        self.status.send_modify(|status| status.ended = true);
        self.wake();
    }

    /// Tells the user.
    pub(crate) fn report(&self, report: &Report<'_>) {
        use informer_core::Level;
        let (name, class) = (self.name.as_str(), report.class());
        match report.level {
            Level::Debug => tracing::debug!(informer = name, class, "{report}"),
            Level::Info => tracing::info!(informer = name, class, "{report}"),
            Level::Warn => tracing::warn!(informer = name, class, "{report}"),
            Level::Error => tracing::error!(informer = name, class, "{report}"),
        }
        if report.level >= Level::Info {
            let last = LastReport {
                class,
                message: report.to_string(),
            };
            *self
                .last_report
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = Some(last);
        }
        if let Some(on_report) = &self.on_report {
            on_report(report);
        }
    }

    pub(crate) fn last_report(&self) -> Option<LastReport> {
        self.last_report
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
