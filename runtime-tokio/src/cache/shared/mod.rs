//! The state that the driver, handles, handlers and subscriptions of one informer share.
//!
//! It has three locks of which a thread may hold two, always in this order: the cache, then the log of notifications
//! ([`Delivery`]) or the indexes. [`Inner::locked`] takes the first two. No user code runs under any of them, not even
//! the `Drop` of an object, so the data behind a poisoned lock is consistent.

mod delivery;
mod reports;
mod sources;

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use informer_core::{Cache, OwnedResource, ResourceVersion, cache::CacheConfig, queue::Spread};
use tokio::sync::watch;
use tokio::time::Instant;

#[cfg(feature = "zstd")]
pub(crate) use self::delivery::TAKE;
pub(crate) use self::delivery::{Delivery, Lost};
use self::reports::Last;
pub(crate) use self::reports::{MAP, METRICS, ON_VERSION, OnReport};
use self::sources::Sources;
use crate::cache::entry::{SharedObject, Store};
use crate::cache::hashes::Kept;
use crate::cache::index::Indexes;
use crate::cache::moves::Moves;
use crate::cache::retired::Retired;
use crate::clock::Clock;
use crate::health::snapshot::PROCESSING;
use crate::health::source::SourceRecord;

/// Called with every resourceVersion that the cache reaches.
pub(crate) type OnVersion = Arc<dyn Fn(&str) + Send + Sync>;

pub(crate) struct Inner<V> {
    pub(crate) name: String,
    pub(crate) resource: OwnedResource,
    cache: RwLock<Cache<SharedObject<V>, Store>>,
    /// Locked after the cache, never before it.
    delivery: Mutex<Delivery<V>>,
    /// Changed only under the cache's write lock.
    indexes: RwLock<Arc<Indexes<V>>>,
    pub(crate) status: watch::Sender<Status>,
    /// The version that the cache has reached, for each source.
    pub(crate) reached: Moves,
    on_report: Option<OnReport>,
    pub(crate) on_version: Option<OnVersion>,
    sources: RwLock<Sources>,
    /// Whether sources join and leave at run time.
    joins: bool,
    /// The last report, and the time of the last change of state.
    last: Mutex<Last>,
    pub(crate) clock: Clock,
    /// The objects that were received and are not in the cache yet.
    pub(crate) queued: AtomicUsize,
    applied: Mutex<Applied>,
    pub(crate) retired: Retired<V>,
    /// What is kept beside each object.
    kept: AtomicU8,
    /// Whether a controller reconciles its objects, of which it sees only a part.
    selects_for_controller: AtomicBool,
    /// Whether problems are written to stderr if nobody hears of them otherwise.
    speaks: AtomicBool,
}

/// What was applied to the cache.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub(crate) deltas: u64,
    /// The times that batches took.
    pub(crate) times: Spread,
}

/// The states that futures wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Status {
    pub(crate) synced: bool,
    /// How often a source was completed, has failed or has left.
    pub(crate) sources: u64,
    /// Whether there is data to serve: it was synced once, or a journal was restored.
    pub(crate) served: bool,
    /// Whether a stop was requested.
    pub(crate) stopping: bool,
    /// Whether no further events will arrive. Handlers still get the pending ones.
    pub(crate) closed: bool,
    /// Whether the driver and the handlers have ended.
    pub(crate) ended: bool,
}

impl<V> Inner<V> {
    /// If `sources` is `None`, sources join and leave at run time. The first source of the cache then has no record: it
    /// lists nothing, and is removed when the initial ones have joined, so that the cache is not synced before.
    pub(crate) fn new(
        name: String,
        sources: Option<Vec<OwnedResource>>,
        resource: OwnedResource,
        config: CacheConfig,
        seed: u64,
        on_report: Option<OnReport>,
        on_version: Option<OnVersion>,
    ) -> Self {
        let joins = sources.is_none();
        let sources = sources.unwrap_or_default();
        let count = u16::try_from(sources.len()).unwrap_or(u16::MAX);
        let mut cache = Cache::new(config, count, seed);
        cache.keep_discarded();
        let namespaces = sources
            .iter()
            .filter_map(|source| source.as_ref().namespace);
        let namespaces: Vec<String> = namespaces
            .filter(|namespace| !namespace.is_empty())
            .map(str::to_owned)
            .collect();
        let records: BTreeMap<_, _> = cache
            .sources()
            .zip(sources)
            .map(|(id, resource)| (id, SourceRecord::new(resource).except(&namespaces)))
            .collect();
        let reached = records.keys().map(|id| (*id, ResourceVersion::default()));
        let reached = Moves::new(reached.collect());
        Self {
            retired: Retired::default(),
            kept: AtomicU8::new(Kept::Nothing as u8),
            selects_for_controller: AtomicBool::new(false),
            speaks: AtomicBool::new(true),
            clock: Clock::default(),
            queued: AtomicUsize::new(0),
            applied: Mutex::new(Applied {
                deltas: 0,
                times: Spread::new(&PROCESSING),
            }),
            name,
            resource,
            cache: RwLock::new(cache),
            delivery: Mutex::new(Delivery::new(seed)),
            indexes: RwLock::new(Arc::default()),
            status: watch::Sender::new(Status::default()),
            reached,
            on_report,
            on_version,
            sources: RwLock::new(Sources::new(records)),
            joins,
            last: Mutex::default(),
        }
    }

    /// Returns what is to be kept beside each object.
    pub(crate) fn kept(&self) -> Kept {
        let kept = self.kept.load(Ordering::Relaxed);
        let all = [Kept::BesideStatus, Kept::Metadata];
        all.into_iter()
            .find(|one| kept >= *one as u8)
            .unwrap_or(Kept::Nothing)
    }

    /// Keeps this beside each object that is decoded from now on.
    pub(crate) fn keep(&self, kept: Kept) {
        self.kept.fetch_max(kept as u8, Ordering::Relaxed);
    }

    /// Returns whether a controller reconciles its objects, of which it sees only a part.
    pub(crate) fn selects_for_controller(&self) -> bool {
        self.selects_for_controller.load(Ordering::Relaxed)
    }

    /// Notes that a controller reconciles its objects.
    pub(crate) fn note_controller(&self) {
        let selects = |resource: &OwnedResource| {
            let resource = resource.as_ref();
            resource.label_selector.is_some() || resource.field_selector.is_some()
        };
        let parts = self.each_source(|_, source| selects(&source.resource));
        let selects = selects(&self.resource) || parts.contains(&true);
        self.selects_for_controller
            .fetch_or(selects, Ordering::Relaxed);
    }

    pub(crate) fn cache(&self) -> RwLockReadGuard<'_, Cache<SharedObject<V>, Store>> {
        self.cache.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn cache_mut(&self) -> RwLockWriteGuard<'_, Cache<SharedObject<V>, Store>> {
        self.cache.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a batch of objects that was applied to the cache.
    pub(crate) fn note_applied(&self, objects: usize, took: Duration) {
        let mut applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        applied.deltas += objects as u64;
        applied.times += took;
    }

    pub(crate) fn applied(&self) -> Applied {
        let applied = self.applied.lock();
        applied.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn delivery(&self) -> MutexGuard<'_, Delivery<V>> {
        self.delivery.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn indexes(&self) -> Arc<Indexes<V>> {
        Arc::clone(&self.indexes.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the indexes. Returns the previous ones, which must be dropped outside of all locks.
    pub(crate) fn set_indexes(&self, indexes: Indexes<V>) -> Arc<Indexes<V>> {
        let indexes = Arc::new(indexes);
        let mut shown = self.indexes.write().unwrap_or_else(PoisonError::into_inner);
        core::mem::replace(&mut *shown, indexes)
    }

    /// Calls `work` with the cache and the log. Objects that are no longer needed are dropped after both locks are
    /// released: that runs user code, which may read this cache.
    pub(crate) fn locked<R>(
        &self,
        work: impl FnOnce(&mut Cache<SharedObject<V>, Store>, &mut Delivery<V>) -> R,
    ) -> R {
        let mut cache = self.cache_mut();
        let mut delivery = self.delivery();
        let result = work(&mut cache, &mut delivery);
        let discarded = (cache.take_discarded(), delivery.listeners.take_discarded());
        drop(delivery);
        drop(cache);
        drop(discarded);
        result
    }

    /// Requests a stop.
    pub(crate) fn stop(&self) {
        self.last().stopping.get_or_insert_with(Instant::now);
        self.status.send_modify(|status| status.stopping = true);
    }

    /// Records that no further events will arrive. Listeners end after their pending notifications.
    pub(crate) fn close(&self) {
        self.delivery().ended = true;
        self.status.send_modify(|status| status.closed = true);
        self.wake();
    }

    /// Records that the driver and its handlers have ended.
    pub(crate) fn end(&self) {
        self.close();
        self.last().ended.get_or_insert_with(Instant::now);
        self.end_spans();
        self.status.send_modify(|status| status.ended = true);
    }
}
