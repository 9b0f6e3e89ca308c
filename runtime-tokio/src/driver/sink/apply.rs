//! Applying decoded batches to the cache.
//!
//! A batch is applied in two steps. Under the lock, the cache takes each object, and its notifications go to the
//! handlers' backlogs. Then the new state is published: to handlers, to metrics, and to everyone who waits for a
//! version. One task drives all sources of an informer, so states are published in their order. Only journals are
//! restored on several threads at once, and until then the cache is not synced.

use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::RwLockWriteGuard;

use informer_core::cache::SourceId;
use informer_core::reflector::Change;
use informer_core::report::Phase;
use informer_core::{Cache, Decode, Report, ResourceVersion, Step};
use informer_journal::{Record, Recording as _};

use tokio::time::Instant;

use crate::cache::entry::{Key, SharedObject, Store};
use crate::cache::shared::{Delivery, Inner, ON_VERSION};
use crate::driver::batch::{Batch, BatchStep};
use crate::driver::journal::now;
use crate::driver::sink::CacheSink;
use crate::health::source::SourceRecord;

/// The longest time to hold the lock, rounded up to whole steps.
const HOLD: Duration = Duration::from_micros(200);
/// The number of steps between two checks of the clock.
const STEPS: u32 = 64;
/// The most steps under one lock, however little time they take.
const MOST_STEPS: u32 = 16 * STEPS;

impl<D> CacheSink<D>
where
    D: Decode<Value: Send + Sync + 'static> + Send + Sync + 'static,
{
    /// Applies a decoded batch, and publishes the new state of the cache.
    pub(super) fn apply(
        &mut self,
        mut batch: Batch<D::Value>,
        version: Option<&ResourceVersion<Key>>,
    ) {
        let objects = batch.objects();
        let began = Instant::now();
        let mut state = self.update_cache(&mut batch, version);
        if objects > 0 {
            self.inner.note_applied(objects, began.elapsed());
            self.note_taken(objects);
        }
        self.versions.append(&mut batch.versions);
        self.pool.put_back(batch);
        if state.is_walking {
            let wants_relist = state.wants_relist;
            state = self.walk();
            state.wants_relist |= wants_relist;
        }
        self.publish(state);
    }

    /// Removes the source from the cache, with its objects.
    pub(crate) async fn leave(&mut self) {
        self.apply_all(None);
        self.inner.cache_mut().remove_source(self.source);
        self.continue_walk();
        while self.walking {
            tokio::task::yield_now().await;
            self.continue_walk();
        }
        self.inner.source_left(self.source);
    }

    /// Continues a sweep or a resync for as long as the lock may be held, and publishes the new state of the cache.
    pub(super) fn continue_walk(&mut self) {
        let state = self.walk();
        self.publish(state);
    }

    /// Publishes the state of the cache.
    fn publish(&mut self, state: CacheState) {
        let CacheState {
            is_walking,
            wants_relist,
            is_restored,
            is_source_synced,
            is_synced: synced,
            reached,
        } = state;
        self.walking = is_walking;
        self.refill |= wants_relist;
        self.inner.wake();
        if !self.walking {
            let versions = core::mem::take(&mut self.versions);
            if let Some(hear) = &self.inner.on_version {
                for version in &versions {
                    self.inner.hook(ON_VERSION, || hear(version));
                }
            }
        }
        if self.restored && !is_restored {
            self.restored = false;
            self.completed = true;
            self.inner.source(self.source, SourceRecord::confirmed);
        }
        let completed = self.completed && is_source_synced;
        let is_first =
            |source: &mut SourceRecord| !core::mem::replace(&mut source.is_complete, true);
        if completed && self.inner.source(self.source, is_first) == Some(true) {
            self.inner.source_changed();
        }
        self.inner.note_reached(self.source, &reached);
        self.inner.reached.change(|shown| {
            let Some(shown) = shown.get_mut(&self.source) else {
                return false;
            };
            let moved = *shown != reached;
            *shown = reached;
            moved
        });
        self.inner.status.send_if_modified(|status| {
            status.served |= synced;
            core::mem::replace(&mut status.synced, synced) != synced
        });
    }

    /// Continues a walk in progress, and has the driver polled again if there is more to do.
    pub(super) fn poll_walk(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.walking {
            self.continue_walk();
        }
        if self.walking {
            // Waking the task at once would poll the driver again before other tasks.
            return core::pin::pin!(tokio::task::yield_now()).poll(cx);
        }
        Poll::Ready(())
    }

    /// Updates the cache with a decoded batch, and passes each change to the handlers. A sweep or a resync that follows
    /// from it has begun, and may continue.
    fn update_cache(
        &mut self,
        batch: &mut Batch<D::Value>,
        version: Option<&ResourceVersion<Key>>,
    ) -> CacheState {
        let inner = &self.inner;
        let recorder = &mut self.recorder;
        if let Some(recorder) = recorder {
            recorder.set_time(now());
        }
        let mut cache = lock_with_values(inner, batch);
        let mut delivery = inner.delivery();
        let mut refused = Vec::new();
        let mut start = 0;
        for item in batch.items.drain(..) {
            let (step, key, in_journal) = item.into_step(&batch.keys, &mut start);
            self.unusable += u64::from(is_unusable(&step));
            self.completed |= matches!(step, Step::Complete(_));
            if let Some(recorder) = recorder {
                recorder.journal().at(in_journal);
            }
            match cache.apply(self.source, step, recorder) {
                Ok(true) => {
                    let (from, to) = in_journal.map_or((0, 0), |(_, object)| object);
                    let object = &batch.persisted[from..to];
                    recorder.append(Record::Put { key, object });
                }
                Ok(false) => {}
                Err(why) => refused.push((key, why)),
            }
            // So the queue of the cache never holds more than the deltas of one object.
            pop_some(&mut cache, &mut delivery);
        }
        if let Some(version) = version {
            // The source exists, so this cannot fail.
            let reached = Step::Reached(version.clone());
            let _ = cache.apply(self.source, reached, recorder);
        }
        let state = CacheState::of(&mut cache, self.source);
        // Dropping an object can run user code, which may read this cache.
        let discarded = (cache.take_discarded(), delivery.listeners.take_discarded());
        drop(delivery);
        drop(cache);
        let ((mut replaced, unused), mut delivered) = discarded;
        drop(unused);
        for objects in [&mut replaced, &mut delivered] {
            inner.retired.put(objects);
            inner.discard(objects.drain(..));
        }
        for (key, why) in refused {
            self.unusable += 1;
            inner.report(&Report::about(Phase::Cache, why.problem(key)));
        }
        if let Some(recorder) = recorder {
            let outbox = recorder.journal();
            outbox.send(&mut batch.keys, &mut batch.persisted);
        }
        state
    }

    /// Continues a sweep or a resync for as long as the lock may be held.
    fn walk(&self) -> CacheState {
        let began = Instant::now();
        self.inner.locked(|cache, delivery| {
            for _ in 0..MOST_STEPS / STEPS {
                pop_some(cache, delivery);
                if cache.is_idle() || began.elapsed() >= HOLD {
                    break;
                }
            }
            CacheState::of(cache, self.source)
        })
    }
}

/// The state of the cache after a batch, as it is published.
struct CacheState {
    /// Whether a sweep or a resync is in progress.
    is_walking: bool,
    wants_relist: bool,
    /// Whether the source has data from a journal that the server has not confirmed.
    is_restored: bool,
    is_source_synced: bool,
    is_synced: bool,
    /// The version that the source has reached.
    reached: ResourceVersion<Key>,
}

impl CacheState {
    fn of<V>(cache: &mut Cache<SharedObject<V>, Store>, source: SourceId) -> Self {
        Self {
            is_walking: !cache.is_idle(),
            wants_relist: cache.take_wants_relist(source),
            is_restored: cache.is_restored(source),
            is_source_synced: cache.is_source_synced(source),
            is_synced: cache.is_synced(),
            reached: cache.version(source).cloned().unwrap_or_default(),
        }
    }
}

/// Pops what is pending in the cache, in a limited number of steps, and passes it to the handlers.
fn pop_some<V>(cache: &mut Cache<SharedObject<V>, Store>, delivery: &mut Delivery<V>) {
    let mut budget = STEPS;
    while let Some(notification) = cache.pop_within(&mut budget) {
        delivery.listeners.append(notification);
    }
}

/// Locks the cache. The batch then has the values of all indexes, which are computed outside of the lock.
fn lock_with_values<'a, V>(
    inner: &'a Inner<V>,
    batch: &mut Batch<V>,
) -> RwLockWriteGuard<'a, Cache<SharedObject<V>, Store>> {
    loop {
        let indexes = inner.indexes();
        batch.compute_values(&indexes, &mut |report| inner.report(&report));
        let cache = inner.cache_mut();
        // Otherwise an index was added in the meantime.
        if inner.indexes().len() == indexes.len() {
            return cache;
        }
    }
}

/// Returns whether a step is that of a listed object that could not be decoded.
const fn is_unusable<V>(step: &BatchStep<'_, V>) -> bool {
    matches!(
        step,
        Step::Object {
            change: Change::Listed,
            object: None,
            ..
        }
    )
}
