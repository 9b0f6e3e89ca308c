//! The cache: DeltaFIFO, Indexer and resync over one table of keys.

pub(crate) mod fifo;
pub(crate) mod indexer;
mod record;
mod step;
#[cfg(test)]
mod tests;
mod walk;

pub use fifo::{DeltaFifo, KeyOf, KnownObjects, PopError, Popped, Unbounded};
pub use indexer::{IndexError, Indexer, NAMESPACE_INDEX, Values as IndexValues};
pub use record::{Reached, Record, Recording};
pub use step::{Step, decode_object, decode_raw, restore_raw, take_frame};

use core::fmt;

use walk::{End, Walk, WalkKind};

use crate::cache::fifo::{Mode, Queue};
use crate::cache::indexer::{Held, Store, Values};
use crate::object::{Cached, KeyError, Object, ResourceVersion};
use crate::reflector::Change;
use crate::storage::table::{NoSlot, Table};
use crate::storage::{
    Delta, DeltaKind, DeltaList, Discarded, Few, Last, Payload, Postings, SlotId, Storage, derive,
};

/// How a [`Cache`] tells what it learns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CacheConfig {
    /// Whether an object that comes again at the same version, in a list or a watch, is told as a replay. client-go
    /// does so while resync is off.
    pub tell_unchanged: bool,
    /// Whether an object that comes back with another uid is told as a deletion and an addition. client-go tells it
    /// as an update.
    pub tell_recreated: bool,
    /// Whether the pending deltas of a key are merged to at most a deletion and what comes after it. Storage of a fixed
    /// size has room for no more, and always merges.
    pub merged: bool,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            tell_unchanged: false,
            tell_recreated: true,
            merged: false,
        }
    }
}

impl CacheConfig {
    /// Behaves as client-go does.
    #[must_use]
    pub const fn client_go() -> Self {
        Self {
            tell_unchanged: true,
            tell_recreated: false,
            merged: false,
        }
    }
}

/// A local copy of a resource: takes steps, keeps the state, and notifies of changes.
///
/// [`Cache::apply`] is the one way in: it queues objects as deltas. [`Cache::pop`] applies a delta to the state and lends the
/// notification. Before the first complete list objects enter silently, and are notified when it is complete. A relist
/// notifies of changes as they arrive, and of deletions at its end.
///
/// A cache has one or more sources: the list and watch of a namespace, or of a shard. What one source does not name is
/// gone only where that source brought it, and the cache is synced when all its sources are.
///
/// ```
/// use informer_core::{
///     Cache, Heap, Notification, Object, ResourceVersion, Step, Uid, cache::CacheConfig, reflector::Change,
/// };
///
/// type Pod = Object<&'static str, Box<str>>;
/// let mut pods: Cache<Pod, Heap> = Cache::new(CacheConfig::default(), 1, 0);
/// pods.apply(0, Step::Begin, &mut ())?;
/// let pod = Object::new(Uid::new("u1"), ResourceVersion::new("5"), "running");
/// pods.apply(0, Step::object(Change::Listed, "prod/web", pod), &mut ())?;
/// assert!(pods.pop().is_none(), "handlers are notified when the list is complete");
///
/// pods.apply(0, Step::Complete(ResourceVersion::new("7")), &mut ())?;
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
    sources: S::Few<Source<S::Text>>,
    walks: S::Few<Walk<S::Text>>,
    config: CacheConfig,
    epoch: u32,
    passes: u32,
    /// What the resync that began last marks objects with.
    mark: u16,
    synced: bool,
    /// The storage has no room for one of the sources.
    lacks_source: bool,
    /// A source may have a version that is reached when the queue is empty.
    arrives: bool,
    /// A source may lack an object for want of room.
    lacks_room: bool,
    /// How many bytes the objects count for.
    bytes: usize,
    /// How many objects are stale.
    stale: usize,
    /// What the last notification lends that is no longer in the table.
    stash: Stash<T, S>,
    /// The second half of a deletion and an addition.
    follows: Option<Tell>,
    discarded: Discarded<T>,
}

/// Objects that a cache no longer needs, see [`Cache::take_discarded`].
#[cfg(feature = "alloc")]
#[must_use = "the objects are to be dropped after the lock of the cache is released"]
pub struct DiscardedObjects<T, S: Storage> {
    _objects: alloc::vec::Vec<T>,
    _incoming: alloc::vec::Vec<Incoming<T, S>>,
}

#[cfg(feature = "alloc")]
impl<T, S: Storage> fmt::Debug for DiscardedObjects<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiscardedObjects")
            .field("len", &(self._objects.len() + self._incoming.len()))
            .finish_non_exhaustive()
    }
}

/// What a cache has to tell. Everything is lent until the next call.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notification<'a, T, X> {
    /// There is a new object.
    Added {
        /// Its key.
        key: &'a X,
        /// The object.
        object: &'a T,
        /// Whether it belongs to the first state.
        is_in_initial_list: bool,
    },
    /// An object changed.
    Updated {
        /// Its key.
        key: &'a X,
        /// What it was.
        old: &'a T,
        /// What it is.
        object: &'a T,
    },
    /// An object is as it was: a resync, or a relist that is to be told.
    Replayed {
        /// Its key.
        key: &'a X,
        /// The object.
        object: &'a T,
        /// The resync pass, see [`Cache::resync`]; `None` where a server sent the same state again.
        pass: Option<u32>,
    },
    /// An object is gone.
    Deleted {
        /// Its key.
        key: &'a X,
        /// The object as the deletion carried it, or its last known state.
        object: &'a T,
        /// Whether nobody saw it go, so that there may have been changes before that are not known.
        final_state_unknown: bool,
    },
    /// All sources have shown a complete list, and handlers were notified of all of it.
    Synced,
}

/// A notification of a cache of [`Object`]s.
pub type ObjectNotification<'a, V, X> = Notification<'a, Object<V, X>, X>;

struct Incoming<T, S: Storage> {
    object: T,
    source: u16,
    /// A newer state of the same key could not be used.
    stale: bool,
    values: Values<S>,
}

struct Source<X> {
    /// The epoch of the list that is under way, or was last.
    epoch: u32,
    /// Counts lists; one begun again is the same.
    relist: u32,
    in_list: bool,
    /// A list was complete, and may not have been told yet.
    completed: bool,
    /// A complete list was told.
    told: bool,
    /// What is shown was restored, and the server has not said yet that it goes on from there.
    restored: bool,
    /// What was refused since the list began.
    refused: Lack,
    /// What is missing.
    missing: Lack,
    /// There is room again for it.
    wants_relist: bool,
    version: ResourceVersion<X>,
    /// The version reached when the queue is empty.
    arriving: Option<ResourceVersion<X>>,
}

/// Why something that was refused is missing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Lack {
    Nothing,
    /// A key is longer than the storage takes; no room will help.
    Key,
    Room,
}

impl<X> Default for Source<X> {
    fn default() -> Self {
        Self {
            epoch: 0,
            relist: 0,
            in_list: false,
            completed: false,
            told: false,
            restored: false,
            refused: Lack::Nothing,
            missing: Lack::Nothing,
            wants_relist: false,
            version: ResourceVersion::default(),
            arriving: None,
        }
    }
}

struct Stash<T, S: Storage> {
    key: Option<S::Text>,
    object: Option<T>,
}

/// A notification before anything is lent.
#[derive(Clone, Copy)]
enum Tell {
    Added { id: SlotId, initial: bool },
    Updated { id: SlotId },
    Replayed { id: SlotId, pass: Option<u32> },
    Deleted { unknown: bool },
    Synced,
}

/// What came of one delta, or of one object of a walk.
enum Turn {
    Tell(Tell),
    Again,
    Nothing,
}

impl<T: Cached, S: Storage> Cache<T, S> {
    /// Makes an empty cache of `sources` sources, at least one. Their ids are the numbers from 0 on. The seed goes into
    /// its hashes.
    ///
    /// An id that is not one of them changes nothing, and [`Cache::apply`] rejects it. Storage of a fixed size has room
    /// for eight sources; a cache that is made for more is incomplete, and never synced.
    #[must_use]
    pub fn new(config: CacheConfig, sources: u16, seed: u64) -> Self {
        let mut few = S::Few::default();
        let mut lacks_source = false;
        for _ in 0..sources.max(1) {
            lacks_source |= few.push(Source::default()).is_err();
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
            lacks_source,
            arrives: false,
            lacks_room: false,
            bytes: 0,
            stale: 0,
            stash: Stash {
                key: None,
                object: None,
            },
            follows: None,
            discarded: Discarded::default(),
        }
    }

    /// Keeps objects that are no longer needed until [`Cache::take_discarded`], rather than dropping them at once.
    ///
    /// Dropping an object runs code of its type. If that asks the same cache, it waits for a lock that the thread holds
    /// already. A runtime takes the objects under its lock, and drops them after it has released it.
    #[cfg(feature = "alloc")]
    pub fn keep_discarded(&mut self) {
        self.discarded.keep();
        self.queue.discarded.keep();
    }

    /// Takes the objects that are no longer needed since the last call, see [`Cache::keep_discarded`].
    #[cfg(feature = "alloc")]
    pub fn take_discarded(&mut self) -> DiscardedObjects<T, S> {
        DiscardedObjects {
            _objects: self.discarded.take(),
            _incoming: self.queue.discarded.take(),
        }
    }

    /// Begins a complete picture of a source; one that is begun again before it is complete is the same picture.
    pub(crate) fn begin(&mut self, source: u16) {
        self.epoch = self.epoch.wrapping_add(1);
        let epoch = self.epoch;
        if let Some(source) = self.source_mut(source) {
            source.epoch = epoch;
            source.refused = Lack::Nothing;
            source.wants_relist = false;
            if !source.in_list {
                source.in_list = true;
                source.relist = source.relist.wrapping_add(1);
            }
        }
    }

    /// Queues an object that a list named or a watch brought, with the values that index functions outside of the
    /// cache gave it.
    ///
    /// # Errors
    /// An object for which there is no room is rejected, and the cache is then incomplete until a list fits. An object of
    /// an unknown source is rejected.
    pub(crate) fn upsert(
        &mut self,
        source: u16,
        change: Change,
        key: &str,
        object: T,
        values: Values<S>,
    ) -> Result<(), KeyError> {
        let Some(state) = self.source(source) else {
            self.discarded.put(object);
            return Err(KeyError::UnknownSource);
        };
        let (epoch, late) = (state.epoch, state.completed);
        let id = match self.table.find_or_insert(key) {
            Ok(id) => id,
            Err(why) => {
                self.discarded.put(object);
                self.refuse(
                    source,
                    match why {
                        NoSlot::Full => Lack::Room,
                        NoSlot::KeyTooLong => Lack::Key,
                    },
                );
                return Err(why.into());
            }
        };
        let mut stored = false;
        if let Some(slot) = self.table.get_mut(id) {
            slot.epoch = epoch;
            stored = slot.object.is_some();
            if !stored && slot.pending == SlotId::NONE {
                slot.late = late;
            }
        }
        let kind = match change {
            Change::Added => DeltaKind::Added,
            Change::Listed => DeltaKind::Replaced,
            Change::Modified | Change::Deleted => DeltaKind::Updated,
        };
        let delta = Delta::new(
            kind,
            Payload::Object(Incoming {
                object,
                source,
                stale: false,
                values,
            }),
        );
        self.queue
            .enqueue(&mut self.table, id, delta, stored)
            .inspect_err(|_| self.refuse(source, Lack::Room))
    }

    /// Queues the deletion of an object that a watch brought; `object` is the one in the event, where it could be
    /// decoded. What the cache does not have, or has from another source, is ignored.
    pub(crate) fn delete(&mut self, source: u16, key: &str, object: Option<T>) {
        let found = self.table.find(key);
        let Some(id) = found.filter(|&id| self.owner(id) == Some(source)) else {
            object
                .into_iter()
                .for_each(|object| self.discarded.put(object));
            return;
        };
        let payload = match object {
            Some(object) => Payload::Object(Incoming {
                object,
                source,
                stale: false,
                values: Values::<S>::default(),
            }),
            None => Payload::Tombstone(Last::Stored),
        };
        self.enqueue_deletion(id, payload);
    }

    /// Keeps the older state of an object whose new state could not be used, and marks it as stale.
    pub(crate) fn keep(&mut self, source: u16, key: &str) {
        let epoch = self.source(source).map(|source| source.epoch);
        let (Some(epoch), Some(id)) = (epoch, self.table.find(key)) else {
            return;
        };
        let newest = self.queue.deltas_mut(&self.table, id).last_mut();
        let is_queued = newest.is_some();
        if let Some(Payload::Object(incoming)) = newest.map(|newest| &mut newest.payload) {
            incoming.stale = true;
        }
        if let Some(slot) = self.table.get_mut(id) {
            slot.epoch = epoch;
            if let (Some(held), false) = (&mut slot.object, is_queued) {
                self.stale += usize::from(!held.stale);
                held.stale = true;
            }
        }
    }

    /// Completes the picture of a source that began: what it did not name is gone.
    pub(crate) fn complete(&mut self, source: u16, version: ResourceVersion<S::Text>) {
        let Some(state) = self.source_mut(source) else {
            return;
        };
        (state.in_list, state.completed) = (false, true);
        // A version that is still pending is older than the list.
        state.arriving = None;
        let (epoch, relist) = (state.epoch, state.relist);
        let kind = WalkKind::Sweep {
            source,
            epoch,
            relist,
            end: End::Complete(version),
        };
        self.begin_sweep(Walk::new(kind));
    }

    /// Completes the picture of a source that began, as [`Cache::complete`] does, where it comes from a persisted cache: it
    /// is told as the first state and served, but nothing is synced by it before the server has shown a complete list, or
    /// has [confirmed](Cache::confirm) that it goes on from there.
    pub(crate) fn restore(&mut self, source: u16, version: ResourceVersion<S::Text>) {
        let Some(state) = self.source_mut(source) else {
            return;
        };
        (state.in_list, state.completed, state.restored) = (false, true, true);
        state.arriving = None;
        let (epoch, relist) = (state.epoch, state.relist);
        let kind = WalkKind::Sweep {
            source,
            epoch,
            relist,
            end: End::Restored(version),
        };
        self.begin_sweep(Walk::new(kind));
    }

    /// Removes what a source has brought since it began, none of which was notified. Its list is still under way.
    pub(crate) fn forget(&mut self, source: u16) {
        self.begin(source);
        let Some(state) = self.source(source) else {
            return;
        };
        let kind = WalkKind::Sweep {
            source,
            epoch: state.epoch,
            relist: state.relist,
            end: End::Forgotten,
        };
        self.begin_sweep(Walk::new(kind));
    }

    /// Takes note that the server goes on from the version that was restored: an event or a bookmark has come.
    pub(crate) fn confirm(&mut self, source: u16) {
        if let Some(source) = self.source_mut(source) {
            source.restored = false;
        }
    }

    /// Tells whether what a source shows comes from a persisted cache, and the server has not confirmed it yet.
    #[must_use]
    pub fn is_restored(&self, source: u16) -> bool {
        self.source(source).is_some_and(|source| source.restored)
    }

    /// Tells whether this is the state of an object that a source has brought and that the cache shows.
    pub(crate) fn holds(&self, source: u16, key: &str, object: &T) -> bool {
        let Some(slot) = self.table.find(key).and_then(|id| self.table.get(id)) else {
            return false;
        };
        slot.pending == SlotId::NONE
            && slot.object.as_ref().is_some_and(|held| {
                held.source == source
                    && !held.stale
                    && held.object.same_version(object)
                    && !held.object.is_another(object)
            })
    }

    /// Returns the keys that a source has brought and that its list, which is under way, has not named: what is gone where
    /// that is complete.
    pub(crate) fn unnamed(&self, source: u16) -> impl Iterator<Item = &S::Text> {
        let epoch = self.source(source).map_or(0, |source| source.epoch);
        let is_of_source = move |id| {
            self.table
                .get(id)?
                .object
                .as_ref()
                .map(|h| h.source == source)
        };
        // A key that is queued for the first time, or by another source before, is not in the list of the source.
        let queued = self.queue.slots();
        let queued = queued.filter(move |&id| is_of_source(id) != Some(true));
        let stored = self.store.objects_of(&self.table, source);
        let ids = stored.map(|(id, ..)| id).chain(queued);
        ids.filter_map(move |id| {
            let slot = self.table.get(id)?;
            let is_older = epoch.wrapping_sub(slot.epoch).cast_signed() > 0;
            (is_older && self.owner(id) == Some(source)).then_some(&slot.key)
        })
    }

    /// Takes note of the version that a source has reached when all that was queued is applied.
    pub(crate) fn advance(&mut self, source: u16, version: ResourceVersion<S::Text>) {
        let idle = self.is_idle();
        if let Some(source) = self.source_mut(source) {
            if idle {
                source.version = version;
                // One that was to be reached when all is applied is no news any more.
                source.arriving = None;
            } else {
                source.arriving = Some(version);
                self.arrives = true;
            }
        }
    }

    /// Begins a resync: replays every object, without asking the API server. Returns the number of the pass, which
    /// [`Notification::Replayed`] will carry.
    ///
    /// While a pass is pending, further calls return its number: at most one pass is under way and one is pending. Where
    /// storage of a fixed size has no room for another one, the pass that is under way begins anew.
    pub fn resync(&mut self) -> u32 {
        // A list must not push a resync out, so that there is always room for a sweep of each source, and for one that is
        // under way.
        let kept = self.sources.as_slice().len() + 1;
        let is_crowded = self.walks.as_slice().len() + kept >= self.walks.bound();
        if (is_crowded || self.has_pending_resync())
            && let Some(pass) = self.join_resync()
        {
            return pass;
        }
        self.passes = self.passes.wrapping_add(1);
        let kind = WalkKind::Resync { pass: self.passes };
        // There is room, but where more than six sources sweep at once; then all is told by their lists.
        let _ = self.walks.push(Walk::new(kind));
        self.passes
    }

    /// Applies what is queued up to the next thing to tell, and lends that; `None` when there is nothing more to do.
    pub fn pop(&mut self) -> Option<Notification<'_, T, S::Text>> {
        self.pop_within(&mut u32::MAX.clone())
    }

    /// As [`Cache::pop`], but takes no more steps than `budget`, and takes those it took off it. `None` with a budget
    /// left says that there is nothing more to do. It bounds the time for which a lock is held.
    pub fn pop_within(&mut self, budget: &mut u32) -> Option<Notification<'_, T, S::Text>> {
        self.stash.key = None;
        if let Some(object) = self.stash.object.take() {
            self.discarded.put(object);
        }
        let tell = match self.follows.take() {
            Some(tell) => tell,
            None => loop {
                *budget = budget.checked_sub(1)?;
                match self.turn() {
                    Turn::Tell(tell) => break tell,
                    Turn::Again => {}
                    Turn::Nothing => return None,
                }
            },
        };
        self.lend(tell)
    }

    /// Tells whether everything that came in was applied and told.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queue.len() == 0 && self.walks.as_slice().is_empty() && self.follows.is_none()
    }

    /// Tells whether every source has shown a complete list, and there was room for all of it.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced && !self.is_incomplete()
    }

    /// Tells whether [`Notification::Synced`] was told: somebody who joins now begins with it, and would wait for it in
    /// vain otherwise. It stays so where the cache is incomplete later, and [`Cache::is_synced`] does not.
    #[must_use]
    pub const fn has_told_synced(&self) -> bool {
        self.synced
    }

    /// Tells whether a source has shown a complete list, and handlers were notified of all of it.
    #[must_use]
    pub fn is_source_synced(&self, source: u16) -> bool {
        self.source(source).is_some_and(|source| {
            source.told && !source.restored && source.missing == Lack::Nothing
        })
    }

    /// Tells whether an object, or a whole source, was rejected for want of room.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        let mut sources = self.sources.as_slice().iter();
        self.lacks_source || sources.any(|source| source.missing != Lack::Nothing)
    }

    /// Tells, once, that there is room again for what was refused of a source: it is time to list.
    pub fn take_wants_relist(&mut self, source: u16) -> bool {
        // A sweep may yet show that nothing is missing.
        if self.in_list(source) || self.walks.as_slice().iter().any(|walk| walk.sweeps(source)) {
            return false;
        }
        self.source_mut(source)
            .is_some_and(|source| core::mem::take(&mut source.wants_relist))
    }

    /// Tells whether another delta can be queued: where not, reading has to wait for [`Cache::pop`].
    #[must_use]
    pub fn wants_read(&self) -> bool {
        self.queue.has_room()
    }

    /// Returns the version that a source has reached and that the cache shows.
    #[must_use]
    pub fn version(&self, source: u16) -> Option<&ResourceVersion<S::Text>> {
        self.source(source).map(|source| &source.version)
    }

    /// Returns the object with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&T> {
        self.table.object(key).map(|held| &held.object)
    }

    /// Returns the object with this key, with the key as it is stored.
    #[must_use]
    pub fn entry(&self, key: &str) -> Option<(&S::Text, &T)> {
        let slot = self.table.get(self.table.find(key)?)?;
        Some((&slot.key, &slot.object.as_ref()?.object))
    }

    /// Returns all objects with their keys, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&S::Text, &T)> {
        self.store
            .objects(&self.table)
            .map(|(_, key, held)| (key, &held.object))
    }

    /// Returns the objects that were told, with their keys: those with which somebody who joins now has to begin.
    pub fn told(&self) -> impl Iterator<Item = (&S::Text, &T)> {
        // Between the two halves of a deletion and an addition the second one is still to be told.
        let follows = match self.follows {
            Some(Tell::Added { id, .. }) => Some(id),
            _ => None,
        };
        self.store
            .objects(&self.table)
            .filter(move |(id, _, held)| held.told && Some(*id) != follows)
            .map(|(_, key, held)| (key, &held.object))
    }

    /// Tells whether an object with this key is shown in an older state, since its latest one could not be used.
    #[must_use]
    pub fn is_stale(&self, key: &str) -> bool {
        self.table.object(key).is_some_and(|held| held.stale)
    }

    /// Returns the keys whose latest state could not be used.
    pub fn stale_keys(&self) -> impl Iterator<Item = &S::Text> {
        self.store
            .objects(&self.table)
            .filter(|(_, _, held)| held.stale)
            .map(|(_, key, _)| key)
    }

    /// Returns how many objects are shown in an older state, since their latest one could not be used.
    ///
    /// It is the count of [`Cache::stale_keys`], without looking for them.
    #[must_use]
    pub const fn stale_len(&self) -> usize {
        self.stale
    }

    /// Returns the objects of a source, in no particular order, and whether a newer state of them could not be used.
    pub fn entries_of(&self, source: u16) -> impl Iterator<Item = (&S::Text, &T, bool)> {
        self.store
            .objects_of(&self.table, source)
            .map(|(_, key, held)| (key, &held.object, held.stale))
    }

    /// Returns how many objects there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.store.len()
    }

    /// Tells whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.store.len() == 0
    }

    /// Returns the sum of what [`Cached::bytes`] says of each object.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an index whose values are computed by `f`. It covers the objects that are stored or queued already.
    ///
    /// # Errors
    /// A name that is taken, or for which there is no room, adds nothing.
    ///
    /// # Panics
    /// If the function panics.
    pub fn add_index(&mut self, name: &str, f: S::IndexFn<T>) -> Result<(), IndexError> {
        let index = self.store.add(name, Some(f))?;
        self.store.backfill(&self.table, index);
        let (store, table) = (&self.store, &self.table);
        self.queue.for_each_delta(|id, delta| {
            if let (Some(slot), Payload::Object(incoming)) = (table.get(id), &mut delta.payload) {
                let Incoming { object, values, .. } = incoming;
                store.compute(index, slot.key.as_ref(), object, values);
            }
        });
        Ok(())
    }

    /// Computes the values of an object in the indexes whose functions are here.
    ///
    /// # Panics
    /// Where an index function panics.
    #[must_use]
    pub fn index_values_of(&self, key: &str, object: &T) -> Values<S> {
        self.store.values(key, object)
    }

    /// Adds an index whose values come with [`Cache::apply`] under the number that is returned. Objects that are stored
    /// or queued already have no values in it: [`Cache::begin_index`] adds an index that covers them.
    ///
    /// # Errors
    /// A name that is taken, or for which there is no room, adds nothing.
    pub fn declare_index(&mut self, name: &str) -> Result<u16, IndexError> {
        self.store.add(name, None)
    }

    /// Begins to build an index piece by piece, so that no lock is held for long, and returns its number.
    ///
    /// From now on its values come with [`Cache::apply`]. [`Cache::next_unindexed`] lends the objects that were there
    /// before, and [`Cache::add_values`] gives them their values. Until [`Cache::finish_index`], readers get
    /// [`IndexError::Building`].
    ///
    /// ```
    /// use informer_core::{Cache, Heap, Object, ResourceVersion, Step, Uid, cache::CacheConfig, reflector::Change};
    ///
    /// type Pod = Object<&'static str, Box<str>>;
    /// let mut pods: Cache<Pod, Heap> = Cache::new(CacheConfig::default(), 1, 0);
    /// let pod = Object::new(Uid::new("u1"), ResourceVersion::new("5"), "n1");
    /// pods.apply(0, Step::object(Change::Listed, "prod/web", pod), &mut ())?;
    ///
    /// let node = pods.begin_index("node")?;
    /// let mut piece = Vec::new();
    /// while pods.next_unindexed(node, 256, |key, pod| piece.push((key.clone(), pod.clone()))) {
    ///     // A runtime releases its lock here, and calls the user's function.
    ///     for (key, pod) in piece.drain(..) {
    ///         pods.add_values(&key, node, [*pod.value()], |other| other.resource_version() == pod.resource_version());
    ///     }
    /// }
    /// pods.finish_index(node);
    /// pods.pop();
    /// assert_eq!(pods.by_index("node", "n1")?.count(), 1);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A name that is taken, or for which there is no room, adds nothing.
    pub fn begin_index(&mut self, name: &str) -> Result<u16, IndexError> {
        if !self.store.has_room_to_build() {
            return Err(IndexError::Full);
        }
        let index = self.store.add(name, None)?;
        self.store.begin_build(index)?;
        Ok(index)
    }

    /// Lends objects that were there before an index was begun: first all that are queued, then at most `max` stored ones
    /// at a time. Returns `false` when there are no more.
    pub fn next_unindexed(
        &mut self,
        index: u16,
        max: usize,
        mut f: impl FnMut(&S::Text, &T),
    ) -> bool {
        let mut any = false;
        if self.store.begins_build(index) {
            let table = &self.table;
            self.queue.for_each_delta(|id, delta| {
                if let (Some(slot), Payload::Object(incoming)) = (table.get(id), &delta.payload) {
                    f(&slot.key, &incoming.object);
                    any = true;
                }
            });
        }
        for _ in 0..max {
            let Some(id) = self.store.next_unindexed(&self.table, index) else {
                break;
            };
            if let Some(slot) = self.table.get(id)
                && let Some(held) = &slot.object
            {
                f(&slot.key, &held.object);
                any = true;
            }
        }
        any
    }

    /// Gives the objects of a key, stored or queued, for which `is` holds their values in an index that is being built.
    pub fn add_values<'v>(
        &mut self,
        key: &str,
        index: u16,
        values: impl IntoIterator<Item = &'v str> + Clone,
        is: impl Fn(&T) -> bool,
    ) {
        let Some(id) = self.table.find(key) else {
            return;
        };
        let Some(slot) = self.table.get(id) else {
            return;
        };
        if slot.object.as_ref().is_some_and(|held| is(&held.object)) {
            let values = values.clone().into_iter();
            values.for_each(|value| self.store.add_value(id, index, value));
        }
        for delta in self.queue.deltas_mut(&self.table, id) {
            if let Payload::Object(incoming) = &mut delta.payload
                && is(&incoming.object)
            {
                for value in values.clone() {
                    S::Postings::add_value(&mut incoming.values, index, value);
                }
            }
        }
    }

    /// Shows an index that was built to readers.
    pub fn finish_index(&mut self, index: u16) {
        self.store.finish_build(index);
    }

    /// Returns the objects that have `value` in an index, with their keys.
    ///
    /// # Errors
    /// An index that does not exist is an error; a value that nobody has is not.
    pub fn by_index(
        &self,
        name: &str,
        value: &str,
    ) -> Result<impl Iterator<Item = (&S::Text, &T)>, IndexError> {
        let index = self.store.number(name)?;
        Ok(self
            .store
            .select(&self.table, index, value)
            .map(|(key, held)| (key, &held.object)))
    }

    /// Calls `f` with each value that any object has in an index, once each.
    pub fn index_values(&self, name: &str, mut f: impl FnMut(&str)) {
        if let Ok(index) = self.store.number(name) {
            self.store.each_index_value(&self.table, index, &mut f);
        }
    }

    /// One step: a delta of the queue, or, where that is empty, one slot of a walk.
    fn turn(&mut self) -> Turn {
        if let Some((id, mut deltas, _)) = self.queue.pop(&mut self.table) {
            // Merged deltas can come to nothing.
            let turn = deltas
                .pop_oldest()
                .map_or(Turn::Again, |delta| self.apply_delta(id, delta));
            self.put_back(id, deltas);
            return turn;
        }
        self.arrive();
        self.walk()
    }

    /// Applies one delta.
    fn apply_delta(&mut self, id: SlotId, delta: Delta<Incoming<T, S>>) -> Turn {
        match (delta.kind, delta.payload) {
            (DeltaKind::Deleted, Payload::Object(incoming)) => {
                self.apply_deletion(id, Some(incoming.object), false)
            }
            (DeltaKind::Deleted, Payload::Tombstone(Last::Object(incoming))) => {
                self.apply_deletion(id, Some(incoming.object), true)
            }
            (DeltaKind::Deleted, _) => self.apply_deletion(id, None, true),
            (kind, Payload::Object(incoming)) => {
                self.apply_upsert(id, incoming, kind == DeltaKind::Replaced)
            }
            (_, Payload::Stored | Payload::Tombstone(_)) => Turn::Again,
        }
    }

    fn apply_upsert(&mut self, id: SlotId, incoming: Incoming<T, S>, listed: bool) -> Turn {
        let Incoming {
            object,
            source,
            stale,
            values,
        } = incoming;
        let shows = self.shows(source);
        let changed = self.source(source).map_or(0, |source| source.relist);
        let Some(slot) = self.table.get_mut(id) else {
            return Turn::Again;
        };
        let was_told = slot.object.as_ref().is_some_and(|held| held.told);
        if let Some(held) = &mut slot.object
            && held.object.same_version(&object)
            && !held.object.is_another(&object)
        {
            self.stale += usize::from(stale);
            self.stale -= usize::from(held.stale);
            held.stale = stale;
            held.told |= shows;
            // The same state again. In a list its replay, where it is wanted, comes with the sweep.
            let replays = self.config.tell_unchanged && was_told && !listed;
            if replays {
                held.changed = changed;
            }
            if held.source != source {
                self.store.hand_over(&mut self.table, id, source, values);
            }
            self.discarded.put(object);
            return if !was_told && shows {
                Turn::Tell(Tell::Added { id, initial: false })
            } else if replays {
                Turn::Tell(Tell::Replayed { id, pass: None })
            } else {
                Turn::Again
            };
        }
        self.bytes += object.bytes();
        let held = Held {
            object,
            source,
            stale,
            told: was_told || shows,
            changed,
        };
        let old = self.store.put(&mut self.table, id, held, values);
        self.bytes = self
            .bytes
            .saturating_sub(old.as_ref().map_or(0, |old| old.object.bytes()));
        self.stale += usize::from(stale);
        self.stale -= usize::from(old.as_ref().is_some_and(|old| old.stale));
        match old {
            Some(old) if was_told => return self.tell_change(id, old.object),
            Some(old) => self.discarded.put(old.object),
            None => {}
        }
        if shows {
            Turn::Tell(Tell::Added { id, initial: false })
        } else {
            Turn::Again
        }
    }

    /// An object that was told is now another one, or in another state.
    fn tell_change(&mut self, id: SlotId, old: T) -> Turn {
        let recreated = self
            .table
            .get(id)
            .and_then(|slot| slot.object.as_ref())
            .is_some_and(|held| held.object.is_another(&old));
        self.stash(old);
        if recreated && self.config.tell_recreated {
            self.stash.key = self.table.get(id).map(|slot| slot.key.clone());
            self.follows = Some(Tell::Added { id, initial: false });
            return Turn::Tell(Tell::Deleted { unknown: true });
        }
        Turn::Tell(Tell::Updated { id })
    }

    /// Removes an object; `last` is its last state, where that is better known than what is stored.
    fn apply_deletion(&mut self, id: SlotId, last: Option<T>, unknown: bool) -> Turn {
        let Some(held) = self.store.remove(&mut self.table, id) else {
            last.into_iter().for_each(|last| self.discarded.put(last));
            return Turn::Again;
        };
        self.stale -= usize::from(held.stale);
        self.bytes = self.bytes.saturating_sub(held.object.bytes());
        self.made_room();
        // Where deltas were merged or lost, the one that was deleted may be one that nobody was told of.
        let is_another = last
            .as_ref()
            .is_some_and(|last| last.is_another(&held.object));
        let keeps = is_another && self.config.tell_recreated;
        let unknown = unknown || keeps;
        let shown = match last {
            Some(last) if keeps => {
                self.discarded.put(last);
                held.object
            }
            Some(last) => {
                self.discarded.put(held.object);
                last
            }
            None => held.object,
        };
        self.stash(shown);
        self.stash.key = self.table.get(id).map(|slot| slot.key.clone());
        if held.told {
            Turn::Tell(Tell::Deleted { unknown })
        } else {
            Turn::Again
        }
    }

    /// Keeps an object that the next notification lends.
    fn stash(&mut self, object: T) {
        // One that nobody knew of went before, in the same call.
        if let Some(unknown) = self.stash.object.replace(object) {
            self.discarded.put(unknown);
        }
    }

    /// Puts back the deltas of a key that are still to be applied, and frees what nobody needs.
    fn put_back(&mut self, id: SlotId, deltas: S::Deltas<Incoming<T, S>>) {
        if deltas.as_slice().is_empty() {
            self.table.free_if_idle(id);
        } else {
            self.queue.push_front(&mut self.table, id, deltas);
        }
    }

    fn lend(&self, tell: Tell) -> Option<Notification<'_, T, S::Text>> {
        let at = |id| {
            let slot = self.table.get(id)?;
            Some((&slot.key, &slot.object.as_ref()?.object))
        };
        Some(match tell {
            Tell::Added { id, initial } => {
                let (key, object) = at(id)?;
                Notification::Added {
                    key,
                    object,
                    is_in_initial_list: initial,
                }
            }
            Tell::Updated { id } => {
                let (key, object) = at(id)?;
                Notification::Updated {
                    key,
                    old: self.stash.object.as_ref()?,
                    object,
                }
            }
            Tell::Replayed { id, pass } => {
                let (key, object) = at(id)?;
                Notification::Replayed { key, object, pass }
            }
            Tell::Deleted { unknown } => Notification::Deleted {
                key: self.stash.key.as_ref()?,
                object: self.stash.object.as_ref()?,
                final_state_unknown: unknown,
            },
            Tell::Synced => Notification::Synced,
        })
    }

    fn enqueue_deletion(&mut self, id: SlotId, payload: Payload<Incoming<T, S>>) {
        let stored = self.is_stored(id);
        let delta = Delta::new(DeltaKind::Deleted, payload);
        // Where the queue is full the object stays, and the source is listed again when there is room.
        if self
            .queue
            .enqueue(&mut self.table, id, delta, stored)
            .is_err()
            && let Some(source) = self.owner(id)
        {
            self.refuse(source, Lack::Room);
        }
    }

    fn refuse(&mut self, source: u16, lack: Lack) {
        self.lacks_room |= lack == Lack::Room;
        if let Some(source) = self.source_mut(source) {
            source.refused = source.refused.max(lack);
            source.missing = source.missing.max(lack);
        }
    }

    fn made_room(&mut self) {
        if !self.lacks_room {
            return;
        }
        for source in self.sources.as_mut_slice() {
            source.wants_relist |= source.missing == Lack::Room;
        }
    }

    /// The source of the newest state of a key, queued or stored.
    fn owner(&self, id: SlotId) -> Option<u16> {
        let queued = self
            .queue
            .deltas(&self.table, id)
            .iter()
            .rev()
            .find_map(|delta| match &delta.payload {
                Payload::Object(incoming) => Some(incoming.source),
                Payload::Stored | Payload::Tombstone(_) => None,
            });
        queued.or_else(|| Some(self.table.get(id)?.object.as_ref()?.source))
    }

    fn is_stored(&self, id: SlotId) -> bool {
        self.table.get(id).is_some_and(|slot| slot.object.is_some())
    }

    fn source(&self, source: u16) -> Option<&Source<S::Text>> {
        self.sources.as_slice().get(usize::from(source))
    }

    fn source_mut(&mut self, source: u16) -> Option<&mut Source<S::Text>> {
        self.sources.as_mut_slice().get_mut(usize::from(source))
    }

    fn in_list(&self, source: u16) -> bool {
        self.source(source).is_some_and(|source| source.in_list)
    }

    /// With the queue empty, the version of what was in it is reached.
    fn arrive(&mut self) {
        if !self.arrives {
            return;
        }
        // A sweep ends at the version of its list, and what came after it is reached after it.
        if self.walks.as_slice().iter().any(|walk| !walk.is_resync()) {
            return;
        }
        self.arrives = false;
        for source in self.sources.as_mut_slice() {
            if let Some(version) = source.arriving.take() {
                source.version = version;
            }
        }
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
