//! The cache: DeltaFIFO, Indexer and resync over one table of keys.

pub(crate) mod fifo;
pub(crate) mod indexer;
mod notification;
mod record;
mod step;
#[cfg(test)]
mod tests;
mod walk;

pub use fifo::{DeltaFifo, KnownObjects, PopError, Popped, Unbounded};
pub use indexer::{IndexError, Indexer, NAMESPACE_INDEX, Values as IndexValues};
pub use notification::{Notification, ObjectNotification};
pub use record::{Reached, Record, Recording};
pub use step::{Step, decode_object, object_of, take_frame};

use core::fmt;

pub(crate) use walk::End;
use walk::{Walk, WalkKind};

use crate::cache::fifo::{Mode, Queue};
use crate::cache::indexer::{Held, Store, Values};
use crate::object::{Cached, KeyError, ResourceVersion};
use crate::reflector::Change;
use crate::storage::table::{NoSlot, Table};
use crate::storage::{
    Delta, DeltaKind, DeltaList, Discarded, Few, Last, Payload, Postings, SlotId, Storage, derive,
};

/// The configuration of a [`Cache`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CacheConfig {
    /// Whether an object that a list or a watch sends again at the same version is notified as a replay. client-go does
    /// so while resync is off.
    pub notify_unchanged: bool,
    /// Whether an object that was recreated with another uid is notified as a deletion and an addition. client-go
    /// notifies of an update.
    pub notify_recreated: bool,
    /// Whether the pending deltas of a key are merged to at most a deletion and a later delta. Fixed-size storage
    /// always merges, since it has no room for more.
    pub merged: bool,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            notify_unchanged: false,
            notify_recreated: true,
            merged: false,
        }
    }
}

impl CacheConfig {
    /// Returns the behaviour of client-go.
    #[must_use]
    pub const fn client_go() -> Self {
        Self {
            notify_unchanged: true,
            notify_recreated: false,
            merged: false,
        }
    }
}

/// A local copy of a resource: it takes steps, stores the state, and notifies of changes.
///
/// All changes enter by [`Cache::apply`], which queues objects as deltas. [`Cache::pop`] applies a delta to the state
/// and lends the notification. Before the first list is complete, objects are stored without notifications; these
/// follow when it is complete. A relist notifies of changes as they arrive, and of deletions at its end.
///
/// A cache has one or more sources: the list and watch of a namespace or of a shard. The end of a list deletes only
/// objects that came from the same source. The cache is synced when all its sources are.
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
    arrives: bool,
    /// A source may lack an object because the cache was full.
    lacks_room: bool,
    /// The total size of the objects in bytes.
    bytes: usize,
    /// The number of stale objects.
    stale: usize,
    /// The parts of the last notification that are no longer in the table.
    stash: Stash<T, S>,
    /// The second notification of a deletion and an addition.
    follows: Option<Notice>,
    discarded: Discarded<T>,
}

/// A source of a cache: one list and watch of a cluster, a namespace or a shard.
///
/// Only a cache issues ids, with [`Cache::sources`]; every cache has a first source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SourceId(pub(crate) u16);

impl SourceId {
    /// The first source, which every cache has.
    pub const FIRST: Self = Self(0);

    /// Returns the position of the source among those of its cache, from 0 on.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

struct Incoming<T, S: Storage> {
    object: T,
    source: u16,
    /// A newer state of the same key was unusable.
    stale: bool,
    values: Values<S>,
}

struct SourceState<X> {
    /// The epoch of the current or latest list.
    epoch: u32,
    /// Counts lists; a list that is begun again counts once.
    relist: u32,
    in_list: bool,
    /// A list was complete; its notifications may be pending.
    completed: bool,
    /// The notifications of a complete list were sent.
    notified: bool,
    /// The state was restored, and the server has not confirmed its version yet.
    restored: bool,
    /// The strongest reason for a rejection since the list began.
    refused: Lack,
    /// The strongest reason for which objects are missing.
    missing: Lack,
    /// There is room again for the missing objects.
    wants_relist: bool,
    version: ResourceVersion<X>,
    /// The version that is reached once the queue is empty.
    arriving: Option<ResourceVersion<X>>,
}

/// The reason why a rejected object is missing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Lack {
    Nothing,
    /// A key is longer than the storage allows; more room would not help.
    Key,
    Room,
}

impl<X> Default for SourceState<X> {
    fn default() -> Self {
        Self {
            epoch: 0,
            relist: 0,
            in_list: false,
            completed: false,
            notified: false,
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

/// A notification before its contents are borrowed.
#[derive(Clone, Copy)]
enum Notice {
    Added { id: SlotId, initial: bool },
    Updated { id: SlotId },
    Replayed { id: SlotId, pass: Option<u32> },
    Deleted { unknown: bool },
    Synced,
}

/// The result of one delta, or of one object of a walk.
enum Turn {
    Notify(Notice),
    Again,
    Nothing,
}

impl<T: Cached, S: Storage> Cache<T, S> {
    /// Creates an empty cache with `sources` sources, but at least one. The seed is used for hashes.
    ///
    /// [`Cache::apply`] rejects ids of other sources without effect. Fixed-size storage has room for eight sources unless it
    /// says otherwise; a cache with more is incomplete and never synced.
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

    /// Retains objects that are no longer needed until [`Cache::take_discarded`], instead of dropping them immediately.
    ///
    /// Dropping an object may run user code. If that code calls the same cache, it would wait for a lock that its own
    /// thread holds. A runtime takes the objects under its lock and drops them after releasing it.
    #[cfg(feature = "alloc")]
    pub fn keep_discarded(&mut self) {
        self.discarded.keep();
        self.queue.discarded.keep();
    }

    /// Returns the objects that became unneeded since the last call: see [`Cache::keep_discarded`].
    #[cfg(feature = "alloc")]
    #[must_use = "drop the objects after the lock of the cache is released"]
    pub fn take_discarded(&mut self) -> impl Sized + use<T, S> {
        (self.discarded.take(), self.queue.discarded.take())
    }

    /// Begins a list of a source. If the previous list was not complete, this one continues it.
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

    /// Queues an object from a list or a watch, with its values of the indexes that are computed outside of the cache.
    ///
    /// # Errors
    /// Rejects an object that does not fit; the cache is then incomplete until a list fits. Rejects an object of an
    /// unknown source.
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

    /// Queues the deletion of an object by a watch event; `object` is the one in the event if it could be decoded.
    /// Ignores a key that the cache does not have, or has from another source.
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

    /// Marks an object as stale after its new state was unusable; its older state stays.
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

    /// Ends the list of a source: objects that the list did not contain are deleted.
    ///
    /// Handlers are notified of a restored list as the initial state, and readers can use it. The source becomes synced
    /// only when the server completes a list or [confirms](Cache::confirm) the restored version. Nothing of a forgotten
    /// list was notified, and the list begins again.
    pub(crate) fn end_list(&mut self, source: u16, end: End<S::Text>) {
        if matches!(end, End::Forgotten) {
            self.begin(source);
        }
        let Some(state) = self.source_mut(source) else {
            return;
        };
        if !matches!(end, End::Forgotten) {
            (state.in_list, state.completed) = (false, true);
            // A version that is still pending is older than the list.
            state.arriving = None;
            state.restored |= matches!(end, End::Restored(_));
        }
        let (epoch, relist) = (state.epoch, state.relist);
        let kind = WalkKind::Sweep { epoch, relist, end };
        self.begin_sweep(Walk::new(source, kind));
    }

    /// Records that the server resumed the watch at the restored version: an event or a bookmark arrived.
    pub(crate) fn confirm(&mut self, source: u16) {
        if let Some(source) = self.source_mut(source) {
            let confirms = core::mem::take(&mut source.restored);
            self.confirmed |= confirms;
        }
    }

    /// Adds a source, such as that of a namespace which was created. `None` if there is no room for another one.
    ///
    /// A synced cache stays synced: the objects of the new source arrive like those of a relist. A source that is no
    /// longer needed is emptied by a list without objects.
    pub fn add_source(&mut self) -> Option<SourceId> {
        let number = u16::try_from(self.sources.as_slice().len()).ok()?;
        self.store.add_source()?;
        self.sources.push(SourceState::default()).ok()?;
        Some(SourceId(number))
    }

    /// Returns the ids of the sources, in order.
    pub fn sources(&self) -> impl Iterator<Item = SourceId> + use<T, S> {
        let count = self.sources.as_slice().len();
        (0..u16::try_from(count).unwrap_or(u16::MAX)).map(SourceId)
    }

    /// Returns whether a source's state comes from a persisted cache that the server has not confirmed yet.
    #[must_use]
    pub fn is_restored(&self, source: SourceId) -> bool {
        self.source(source.0).is_some_and(|source| source.restored)
    }

    /// Returns whether the cache shows exactly this state of an object, from this source.
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

    /// Returns the keys of a source that its current list has not contained so far. They are deleted if the list
    /// completes without them.
    pub(crate) fn unnamed(&self, source: u16) -> impl Iterator<Item = &S::Text> {
        let epoch = self.source(source).map_or(0, |source| source.epoch);
        let is_of_source = move |id| {
            self.table
                .get(id)?
                .object
                .as_ref()
                .map(|h| h.source == source)
        };
        // A key that is queued for the first time, or from another source, is not in the store's list of this source.
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

    /// Records the version that a source reaches once the queue is empty.
    pub(crate) fn advance(&mut self, source: u16, version: ResourceVersion<S::Text>) {
        let idle = self.is_idle();
        if let Some(source) = self.source_mut(source) {
            if idle {
                source.version = version;
                // A version that was scheduled to be reached is obsolete now.
                source.arriving = None;
            } else {
                source.arriving = Some(version);
                self.arrives = true;
            }
        }
    }

    /// Begins a resync: every object is replayed, without a request to the API server. Returns the number of the pass,
    /// which [`Notification::Replayed`] contains.
    ///
    /// While a pass is pending, further calls return its number: at most one pass is running and one is pending. If
    /// fixed-size storage has no room for another pass, the running pass begins again.
    pub fn resync(&mut self) -> u32 {
        // A resync must not take the place of a sweep, so there is always room for a sweep of each source and for a
        // running one.
        let kept = self.sources.as_slice().len() + 1;
        let is_crowded = self.walks.as_slice().len() + kept >= self.walks.bound();
        if (is_crowded || self.has_pending_resync())
            && let Some(pass) = self.join_resync()
        {
            return pass;
        }
        self.passes = self.passes.wrapping_add(1);
        let kind = WalkKind::Resync { pass: self.passes };
        // This can fail only if nearly all sources that there is room for sweep at once. Their lists then notify of
        // every object anyway.
        let _ = self.walks.push(Walk::new(0, kind));
        self.passes
    }

    /// Applies pending deltas up to the next notification, and lends it. Returns `None` if nothing is pending.
    pub fn pop(&mut self) -> Option<Notification<(&S::Text, &T)>> {
        self.pop_within(&mut u32::MAX.clone())
    }

    /// Like [`Cache::pop`], but takes at most `budget` steps and subtracts the steps taken. `None` with a remaining
    /// budget means that nothing is pending. The budget limits the time for which a lock is held.
    pub fn pop_within(&mut self, budget: &mut u32) -> Option<Notification<(&S::Text, &T)>> {
        self.stash.key = None;
        if let Some(object) = self.stash.object.take() {
            self.discarded.put(object);
        }
        let notice = match self.follows.take() {
            Some(notice) => notice,
            None => loop {
                *budget = budget.checked_sub(1)?;
                match self.turn() {
                    Turn::Notify(notice) => break notice,
                    Turn::Again => {}
                    Turn::Nothing => return None,
                }
            },
        };
        self.lend(notice)
    }

    /// Returns whether all input has been applied and notified.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queue.len() == 0 && self.walks.as_slice().is_empty() && self.follows.is_none()
    }

    /// Returns whether every source has completed a list, and all objects fit.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced && !self.is_incomplete()
    }

    /// Returns whether [`Notification::Synced`] was sent. A handler that joins later must then start with it, since it
    /// is not sent again. It stays true if the cache becomes incomplete later, unlike [`Cache::is_synced`].
    #[must_use]
    pub const fn has_sent_synced(&self) -> bool {
        self.synced
    }

    /// Returns whether a source has completed a list, and handlers were notified of all its objects.
    #[must_use]
    pub fn is_source_synced(&self, source: SourceId) -> bool {
        self.source(source.0).is_some_and(|source| {
            source.notified && !source.restored && source.missing == Lack::Nothing
        })
    }

    /// Returns whether an object or a complete source was rejected because it did not fit.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        let mut sources = self.sources.as_slice().iter();
        self.lacks_source || sources.any(|source| source.missing != Lack::Nothing)
    }

    /// Returns true once when there is room again for the rejected objects of a source, so that it is time to relist.
    pub fn take_wants_relist(&mut self, source: SourceId) -> bool {
        let source = source.0;
        // A running sweep may show that nothing is missing.
        if self.in_list(source) || self.walks.as_slice().iter().any(|walk| walk.sweeps(source)) {
            return false;
        }
        self.source_mut(source)
            .is_some_and(|source| core::mem::take(&mut source.wants_relist))
    }

    /// Returns whether another delta can be queued. If not, stop reading until [`Cache::pop`] has made room.
    #[must_use]
    pub fn wants_read(&self) -> bool {
        self.queue.has_room()
    }

    /// Returns the version of a source that the cache has reached.
    #[must_use]
    pub fn version(&self, source: SourceId) -> Option<&ResourceVersion<S::Text>> {
        self.source(source.0).map(|source| &source.version)
    }

    /// Returns the object with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&T> {
        self.table.object(key).map(|held| &held.object)
    }

    /// Returns the object with this key, and the key as stored.
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

    /// Returns the objects that were notified, with their keys: the initial state for a handler that joins now.
    pub fn notified(&self) -> impl Iterator<Item = (&S::Text, &T)> {
        // After the deletion of a recreated object, its addition has not been notified yet.
        let follows = match self.follows {
            Some(Notice::Added { id, .. }) => Some(id),
            _ => None,
        };
        self.store
            .objects(&self.table)
            .filter(move |(id, _, held)| held.notified && Some(*id) != follows)
            .map(|(_, key, held)| (key, &held.object))
    }

    /// Returns whether the object with this key is stale: its latest state was unusable, and an older one is shown.
    #[must_use]
    pub fn is_stale(&self, key: &str) -> bool {
        self.table.object(key).is_some_and(|held| held.stale)
    }

    /// Returns the keys of stale objects, whose latest state was unusable.
    pub fn stale_keys(&self) -> impl Iterator<Item = &S::Text> {
        self.store
            .objects(&self.table)
            .filter(|(_, _, held)| held.stale)
            .map(|(_, key, _)| key)
    }

    /// Returns the number of stale objects, whose latest state was unusable.
    ///
    /// It equals the length of [`Cache::stale_keys`], without a scan.
    #[must_use]
    pub const fn stale_len(&self) -> usize {
        self.stale
    }

    /// Returns the objects of a source with their keys, in no particular order, and whether each is stale.
    pub fn entries_of(&self, source: SourceId) -> impl Iterator<Item = (&S::Text, &T, bool)> {
        self.store
            .objects_of(&self.table, source.0)
            .map(|(_, key, held)| (key, &held.object, held.stale))
    }

    /// Returns the number of objects.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.store.len()
    }

    /// Returns whether the cache has no objects.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.store.len() == 0
    }

    /// Returns the sum of [`Cached::bytes`] over all objects.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an index whose values are computed by `f`. It includes objects that are already stored or queued.
    ///
    /// # Errors
    /// Fails if the name is taken or there is no room for the index.
    ///
    /// # Panics
    /// Panics if `f` panics.
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

    /// Computes the values of an object in all indexes that were added with a function.
    ///
    /// # Panics
    /// Panics if an index function panics.
    #[must_use]
    pub fn index_values_of(&self, key: &str, object: &T) -> Values<S> {
        self.store.values(key, object)
    }

    /// Adds an index whose values are passed to [`Cache::apply`], under the returned number. Objects that are already
    /// stored or queued have no values in it: use [`Cache::begin_index`] to include them.
    ///
    /// # Errors
    /// Fails if the name is taken or there is no room for the index.
    pub fn declare_index(&mut self, name: &str) -> Result<u16, IndexError> {
        self.store.add(name, None)
    }

    /// Begins to build an index step by step, so that no lock is held for long, and returns its number.
    ///
    /// From now on, its values are passed to [`Cache::apply`]. [`Cache::next_unindexed`] lends the existing objects,
    /// and [`Cache::add_values`] sets their values. Until [`Cache::finish_index`], readers get
    /// [`IndexError::Building`].
    ///
    /// ```
    /// use informer_core::{Cache, Heap, Object, ResourceVersion, Step, Uid, cache::{CacheConfig, SourceId}, reflector::Change};
    ///
    /// type Pod = Object<&'static str, Box<str>>;
    /// let mut pods: Cache<Pod, Heap> = Cache::new(CacheConfig::default(), 1, 0);
    /// let pod = Object::new(Uid::new("u1"), ResourceVersion::new("5"), "n1");
    /// pods.apply(SourceId::FIRST, Step::object(Change::Listed, "prod/web", pod), &mut ())?;
    ///
    /// let node = pods.begin_index("node")?;
    /// let mut piece = Vec::new();
    /// while pods.next_unindexed(node, 256, |key, pod| piece.push((key.clone(), pod.clone()))) {
    ///     // A runtime releases its lock here, then calls the user-defined function.
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
    /// Fails if the name is taken or there is no room for the index.
    pub fn begin_index(&mut self, name: &str) -> Result<u16, IndexError> {
        if !self.store.has_room_to_build() {
            return Err(IndexError::Full);
        }
        let index = self.store.add(name, None)?;
        self.store.begin_build(index)?;
        Ok(index)
    }

    /// Lends objects that existed before the index was begun: first all queued ones, then at most `max` stored ones at
    /// a time. Returns `false` when there are no more.
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

    /// Sets values in an index that is being built, for the stored and queued objects of a key for which `is` returns
    /// true.
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

    /// Makes an index that was built available to readers.
    pub fn finish_index(&mut self, index: u16) {
        self.store.finish_build(index);
    }

    /// Returns the objects that have `value` in an index, with their keys.
    ///
    /// # Errors
    /// Fails if the index does not exist. A value without objects is no error.
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

    /// Calls `f` once for each value that any object has in an index.
    pub fn index_values(&self, name: &str, mut f: impl FnMut(&str)) {
        if let Ok(index) = self.store.number(name) {
            self.store.each_index_value(&self.table, index, &mut f);
        }
    }

    /// Takes one step: a delta of the queue, or one slot of a walk if the queue is empty.
    fn turn(&mut self) -> Turn {
        // `Synced` comes before the change that confirms the restored state. The notifications of a sweep belong to the
        // initial state, and the sweep checks again at its end.
        if self.confirmed && !self.is_sweeping() {
            self.confirmed = false;
            let synced = self.tell_synced();
            if matches!(synced, Turn::Notify(_)) {
                return synced;
            }
        }
        if let Some((id, mut deltas, _)) = self.queue.pop(&mut self.table) {
            // Merged deltas can cancel out.
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
        let was_notified = slot.object.as_ref().is_some_and(|held| held.notified);
        if let Some(held) = &mut slot.object
            && held.object.same_version(&object)
            && !held.object.is_another(&object)
        {
            self.stale += usize::from(stale);
            self.stale -= usize::from(held.stale);
            held.stale = stale;
            held.notified |= shows;
            // The state is unchanged. In a list, the sweep notifies of replays.
            let replays = self.config.notify_unchanged && was_notified && !listed;
            if replays {
                held.changed = changed;
            }
            if held.source != source {
                self.store.hand_over(&mut self.table, id, source, values);
            }
            self.discarded.put(object);
            return if !was_notified && shows {
                Turn::Notify(Notice::Added { id, initial: false })
            } else if replays {
                Turn::Notify(Notice::Replayed { id, pass: None })
            } else {
                Turn::Again
            };
        }
        self.bytes += object.bytes();
        let held = Held {
            object,
            source,
            stale,
            notified: was_notified || shows,
            changed,
        };
        let old = self.store.put(&mut self.table, id, held, values);
        self.bytes = self
            .bytes
            .saturating_sub(old.as_ref().map_or(0, |old| old.object.bytes()));
        self.stale += usize::from(stale);
        self.stale -= usize::from(old.as_ref().is_some_and(|old| old.stale));
        match old {
            Some(old) if was_notified => return self.tell_change(id, old.object),
            Some(old) => self.discarded.put(old.object),
            None => {}
        }
        if shows {
            Turn::Notify(Notice::Added { id, initial: false })
        } else {
            Turn::Again
        }
    }

    /// Notifies of a new state of an object, or of a recreated one.
    fn tell_change(&mut self, id: SlotId, old: T) -> Turn {
        let recreated = self
            .table
            .get(id)
            .and_then(|slot| slot.object.as_ref())
            .is_some_and(|held| held.object.is_another(&old));
        self.stash(old);
        if recreated && self.config.notify_recreated {
            self.stash.key = self.table.get(id).map(|slot| slot.key.clone());
            self.follows = Some(Notice::Added { id, initial: false });
            return Turn::Notify(Notice::Deleted { unknown: true });
        }
        Turn::Notify(Notice::Updated { id })
    }

    /// Removes an object; `last` is its last state, if the deletion contained it.
    fn apply_deletion(&mut self, id: SlotId, last: Option<T>, unknown: bool) -> Turn {
        let Some(held) = self.store.remove(&mut self.table, id) else {
            last.into_iter().for_each(|last| self.discarded.put(last));
            return Turn::Again;
        };
        self.stale -= usize::from(held.stale);
        self.bytes = self.bytes.saturating_sub(held.object.bytes());
        self.made_room();
        // If deltas were merged or lost, the deleted object may be one of which no handler was notified.
        let is_another = last
            .as_ref()
            .is_some_and(|last| last.is_another(&held.object));
        let keeps = is_another && self.config.notify_recreated;
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
        if held.notified {
            Turn::Notify(Notice::Deleted { unknown })
        } else {
            Turn::Again
        }
    }

    /// Stores an object that the next notification borrows.
    fn stash(&mut self, object: T) {
        // The same call may have removed an object of which no handler was notified.
        if let Some(unknown) = self.stash.object.replace(object) {
            self.discarded.put(unknown);
        }
    }

    /// Puts back the deltas of a key that are not yet applied, and frees the slot if it is unused.
    fn put_back(&mut self, id: SlotId, deltas: S::Deltas<Incoming<T, S>>) {
        if deltas.as_slice().is_empty() {
            self.table.free_if_idle(id);
        } else {
            self.queue.push_front(&mut self.table, id, deltas);
        }
    }

    fn lend(&self, notice: Notice) -> Option<Notification<(&S::Text, &T)>> {
        let at = |id| {
            let slot = self.table.get(id)?;
            Some((&slot.key, &slot.object.as_ref()?.object))
        };
        Some(match notice {
            Notice::Added { id, initial } => Notification::Added {
                entry: at(id)?,
                is_in_initial_list: initial,
            },
            Notice::Updated { id } => {
                let new = at(id)?;
                let old = (new.0, self.stash.object.as_ref()?);
                Notification::Updated { old, new }
            }
            Notice::Replayed { id, pass } => Notification::Replayed {
                entry: at(id)?,
                pass,
            },
            Notice::Deleted { unknown } => Notification::Deleted {
                entry: (self.stash.key.as_ref()?, self.stash.object.as_ref()?),
                final_state_unknown: unknown,
            },
            Notice::Synced => Notification::Synced,
        })
    }

    fn enqueue_deletion(&mut self, id: SlotId, payload: Payload<Incoming<T, S>>) {
        let stored = self.is_stored(id);
        let delta = Delta::new(DeltaKind::Deleted, payload);
        // If the queue is full, the object stays, and the source relists once there is room.
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

    /// Returns the source of the newest state of a key, queued or stored.
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

    fn is_sweeping(&self) -> bool {
        self.walks.as_slice().iter().any(|walk| !walk.is_resync())
    }

    fn is_stored(&self, id: SlotId) -> bool {
        self.table.get(id).is_some_and(|slot| slot.object.is_some())
    }

    fn source(&self, source: u16) -> Option<&SourceState<S::Text>> {
        self.sources.as_slice().get(usize::from(source))
    }

    fn source_mut(&mut self, source: u16) -> Option<&mut SourceState<S::Text>> {
        self.sources.as_mut_slice().get_mut(usize::from(source))
    }

    fn in_list(&self, source: u16) -> bool {
        self.source(source).is_some_and(|source| source.in_list)
    }

    /// Marks pending versions as reached once the queue is empty.
    fn arrive(&mut self) {
        if !self.arrives {
            return;
        }
        // A sweep ends at the version of its list. Later versions are reached after it.
        if self.is_sweeping() {
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
