//! The cache: DeltaFIFO, Indexer and resync over one table of keys.

mod config;
mod enqueue;
mod fifo;
mod identity;
mod index;
mod indexer;
mod notification;
mod pop;
mod queue;
mod read;
mod record;
mod source;
mod step;
mod store;
#[cfg(test)]
mod tests;
mod walk;

pub use config::CacheConfig;
pub use fifo::{DeltaFifo, PopError, Popped, Unbounded};
pub use identity::Identity;
pub use indexer::Indexer;
pub use notification::{Notification, ObjectNotification};
pub use record::{Reached, Record, Recording};
pub use source::SourceId;
pub use step::{Step, decode_object, object_of, take_frame};
pub use store::{IndexError, NAMESPACE_INDEX, Values as IndexValues};

use core::fmt;

use enqueue::Incoming;
use pop::{Notice, Stash};
pub use queue::KnownObjects;
use queue::{Mode, Queue};
use source::{SourceState, Walk};
use store::{Held, Store, Values};

use crate::object::Cached;
use crate::storage::table::Table;
use crate::storage::{Discarded, Few, Storage, derive};

/// A local copy of a resource: it takes steps, stores the state, and notifies of changes.
///
/// All changes enter by [`Cache::apply`], which queues objects as deltas. [`Cache::pop`] applies a delta to the state
/// and lends the notification. Before the first list is complete, objects are stored without notifications; these
/// follow when it is complete. A relist notifies of changes as they arrive, and of deletions at its end.
///
/// A cache has one or more sources: the list and watch of a namespace or of a shard. The end of a list deletes only
/// objects that came from the same source. If two sources have an object of one key, as shards may while it is deleted and
/// created again, the cache has the newer one. The cache is synced when all its sources are.
///
/// ```
/// use informer_core::{
///     Cache, Heap, Notification, Object, ResourceVersion, Step, Uid, cache::{CacheConfig, SourceId}, reflector::Change,
/// };
///
/// type Pod = Object<&'static str, Box<str>>;
/// let mut pods: Cache<Pod, Heap> = Cache::new(CacheConfig::default(), 1, 0);
/// pods.apply(SourceId::FIRST, Step::Begin, &mut ())?;
/// let pod = Object::new(Uid::new("u1"), ResourceVersion::new("5"), "running");
/// pods.apply(SourceId::FIRST, Step::object(Change::Listed, "prod/web", pod), &mut ())?;
/// assert!(pods.pop().is_none(), "handlers are notified when the list is complete");
///
/// pods.apply(SourceId::FIRST, Step::Complete(ResourceVersion::new("7")), &mut ())?;
/// assert!(matches!(pods.pop(), Some(Notification::Added { is_in_initial_list: true, .. })));
/// assert!(matches!(pods.pop(), Some(Notification::Synced)));
/// assert!(pods.is_synced());
/// assert_eq!(pods.get("prod/web").map(|pod| *pod.value()), Some("running"));
/// # Ok::<(), informer_core::object::KeyError>(())
/// ```
pub struct Cache<T, S: Storage> {
    table: Table<Held<T>, S>,
    queue: Queue<Incoming<T, S>, S>,
    store: Store<T, S>,
    sources: S::Few<SourceState<S::Text>>,
    walks: S::Few<Walk<S::Text>>,
    config: CacheConfig,
    epoch: u32,
    passes: u32,
    /// The mark that the latest resync sets on objects.
    mark: u16,
    synced: bool,
    /// A source was confirmed, which may complete the initial state of the cache.
    confirmed: bool,
    /// The storage has no room for one of the sources.
    lacks_source: bool,
    /// A source may have a version that is reached once the queue is empty.
    has_pending_version: bool,
    /// A source may lack an object because the cache was full.
    lacks_room: bool,
    /// A key may have objects of two sources.
    has_rivals: bool,
    /// The total size of the objects in bytes.
    bytes: usize,
    /// The number of stale objects.
    stale: usize,
    /// The parts of the last notification that are no longer in the table.
    stash: Stash<T, S>,
    /// The second notification of a deletion and an addition.
    follow_up: Option<Notice>,
    discarded: Discarded<T>,
}

impl<T: Cached, S: Storage> Cache<T, S> {
    /// Creates an empty cache with `sources` sources, but at least one. The seed is used for hashes.
    ///
    /// [`Cache::apply`] rejects ids of other sources without effect. Fixed-size storage has room for eight sources, or
    /// for its parameter `W`; a cache with more is incomplete and never synced.
    #[must_use]
    pub fn new(config: CacheConfig, sources: u16, seed: u64) -> Self {
        let mut few = S::Few::default();
        let mut lacks_source = false;
        for _ in 0..sources.max(1) {
            lacks_source |= few.push(SourceState::default()).is_err();
        }
        let mode = if config.merged {
            Mode::Merged
        } else {
            Mode::of_storage::<Incoming<T, S>, S>()
        };
        Self {
            table: Table::new(derive(seed, 0)),
            queue: Queue::new(mode),
            store: Store::new(few.as_slice().len(), seed),
            sources: few,
            walks: S::Few::default(),
            config,
            epoch: 0,
            passes: 0,
            mark: 0,
            synced: false,
            confirmed: false,
            lacks_source,
            has_pending_version: false,
            lacks_room: false,
            has_rivals: false,
            bytes: 0,
            stale: 0,
            stash: Stash {
                key: None,
                object: None,
            },
            follow_up: None,
            discarded: Discarded::default(),
        }
    }

    /// Retains objects that are no longer needed until [`Cache::take_discarded`], instead of dropping them immediately.
    ///
    /// Dropping an object may run user code. If that code calls the same cache, it would wait for a lock that its own
    /// thread holds. A runtime takes the objects under its lock and drops them after releasing it.
    #[cfg(feature = "alloc")]
    pub fn keep_discarded(&mut self) {
        self.discarded.keep();
        self.queue.discarded.keep();
    }

    /// Returns the objects that became unneeded since the last call, and those that were never in the cache: see
    /// [`Cache::keep_discarded`].
    #[cfg(feature = "alloc")]
    #[must_use = "drop the objects after the lock of the cache is released"]
    pub fn take_discarded(&mut self) -> (alloc::vec::Vec<T>, impl Sized + use<T, S>) {
        (self.discarded.take(), self.queue.discarded.take())
    }
}

impl<T, S: Storage> fmt::Debug for Cache<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("len", &self.store.len())
            .field("synced", &self.synced)
            .finish_non_exhaustive()
    }
}
