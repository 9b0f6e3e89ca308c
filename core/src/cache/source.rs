//! The sources of a cache: their lists, their versions, and what they lack.

use super::Cache;
use crate::object::{Cached, ResourceVersion};
use crate::storage::{Few, Storage};

/// A source of a cache: one list and watch of a cluster, a namespace or a shard.
///
/// Only a cache issues ids, with [`Cache::sources`] and [`Cache::add_source`]. It issues none twice: the id of a removed
/// source is unknown for ever.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SourceId {
    /// The place of its state, which a later source may get.
    place: u16,
    /// The number of sources that had the place before.
    before: u32,
}

impl SourceId {
    /// The first source, which every new cache has.
    pub const FIRST: Self = Self::initial(0);

    /// Returns the id of a source that a new cache has.
    pub(crate) const fn initial(place: u16) -> Self {
        Self { place, before: 0 }
    }
}

/// The state of a source, or of a place without one.
pub(super) struct SourceState<X> {
    /// The number of sources that had this place before.
    before: u32,
    stage: Presence,
    /// The epoch of the current or latest list.
    pub(super) epoch: u32,
    /// Counts lists; a list that is begun again counts once.
    pub(super) relist: u32,
    pub(super) in_list: bool,
    /// A list was complete; its notifications may be pending.
    pub(super) completed: bool,
    /// The notifications of a complete list were sent.
    pub(super) notified: bool,
    /// The state was restored, and the server has not confirmed its version yet.
    pub(super) restored: bool,
    /// The strongest reason for a rejection since the list began.
    pub(super) rejected: Lack,
    /// The strongest reason for which objects are missing.
    pub(super) missing: Lack,
    /// A list would bring the missing objects.
    pub(super) wants_relist: bool,
    /// The journal has an object that the current list has not contained, and that the cache has from another source.
    pub(super) distrusts: bool,
    pub(super) version: ResourceVersion<X>,
    /// The version that is reached once the queue is empty.
    pending_version: Option<ResourceVersion<X>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Presence {
    Present,
    /// It was removed, and some of its objects are not deleted yet.
    Leaving,
    /// The place is free.
    Free,
}

/// The reason why a rejected object is missing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Lack {
    Nothing,
    /// A key is longer than the storage allows; more room would not help.
    Key,
    /// It was left out in favour of an object of another source, which is gone.
    LeftOut,
    Room,
}

/// A walk over the objects of a source, or of all sources; see `walk`.
pub(super) struct Walk<X> {
    pub(super) kind: WalkKind<X>,
    pub(super) begun: bool,
    /// The source whose objects are being visited; a resync visits those of every source.
    pub(super) source: u16,
}

#[derive(Clone)]
pub(super) enum WalkKind<X> {
    /// Deletes objects that a complete list did not contain. After the first list, notifies of the others.
    Sweep {
        epoch: u32,
        relist: u32,
        end: SweepEnd<X>,
        /// The strongest reason for a rejection in the list.
        rejected: Lack,
    },
    /// Replays all objects.
    Resync { pass: u32 },
}

/// The effect of the end of a sweep on its source.
#[derive(Clone)]
pub(crate) enum SweepEnd<X> {
    /// The list of this version is complete.
    Complete(ResourceVersion<X>),
    /// The state that a journal had at this version is complete.
    Restored(ResourceVersion<X>),
    /// None: the objects are removed, and the source starts empty.
    Forgotten,
    /// The source is removed.
    Removed,
}

impl<X> Walk<X> {
    pub(super) const fn new(source: u16, kind: WalkKind<X>) -> Self {
        Self {
            kind,
            begun: false,
            source,
        }
    }

    pub(super) const fn is_resync(&self) -> bool {
        matches!(self.kind, WalkKind::Resync { .. })
    }

    /// Returns whether it is a sweep of this source.
    pub(super) const fn sweeps(&self, source: u16) -> bool {
        !self.is_resync() && self.source == source
    }
}

impl<X> SourceState<X> {
    /// Returns whether another source can get the place.
    const fn is_free(&self) -> bool {
        matches!(self.stage, Presence::Free) && self.before < u32::MAX
    }

    /// Returns whether its initial state was notified, and the server has confirmed it. A free place lacks nothing.
    pub(super) const fn is_done(&self) -> bool {
        matches!(self.stage, Presence::Free) || (self.notified && !self.restored)
    }
}

impl<X> Default for SourceState<X> {
    fn default() -> Self {
        Self {
            before: 0,
            stage: Presence::Present,
            epoch: 0,
            relist: 0,
            in_list: false,
            completed: false,
            notified: false,
            restored: false,
            rejected: Lack::Nothing,
            missing: Lack::Nothing,
            wants_relist: false,
            distrusts: false,
            version: ResourceVersion::default(),
            pending_version: None,
        }
    }
}

impl<T: Cached, S: Storage> Cache<T, S> {
    /// Adds a source, such as that of a namespace which was created. `None` if there is no room for another one.
    ///
    /// A synced cache stays synced: the objects of the new source arrive like those of a relist.
    pub fn add_source(&mut self) -> Option<SourceId> {
        let states = self.sources.as_mut_slice().iter_mut();
        let mut free = (0..).zip(states).filter(|(_, state)| state.is_free());
        if let Some((place, state)) = free.next() {
            state.stage = Presence::Present;
            let before = state.before;
            return Some(SourceId { place, before });
        }
        let place = u16::try_from(self.sources.as_slice().len()).ok()?;
        self.store.add_source()?;
        self.sources.push(SourceState::default()).ok()?;
        Some(SourceId::initial(place))
    }

    /// Removes a source, such as that of a namespace which was deleted. Returns whether the cache had it.
    ///
    /// Its objects are deleted as by a list without objects, so [`Cache::pop`] lends the notifications. Steps of the
    /// source are rejected from now on. A cache that waits only for this source becomes synced.
    pub fn remove_source(&mut self, source: SourceId) -> bool {
        let Some(place) = self.place(source) else {
            return false;
        };
        self.forget_rivals(place);
        self.begin(place);
        if let Some(state) = self.source_mut(place) {
            state.stage = Presence::Leaving;
        }
        self.sweep_source(place, SweepEnd::Removed);
        true
    }

    /// Returns true once when a list would bring missing objects of a source: there is room for them again, or the objects of
    /// another source that had their keys are gone.
    pub fn take_wants_relist(&mut self, source: SourceId) -> bool {
        // A running sweep may show that nothing is missing.
        let mut walks = self.walks.as_slice().iter();
        let Some(place) = self.place(source) else {
            return false;
        };
        let is_swept = walks.any(|walk| walk.sweeps(place));
        self.source_mut(place).is_some_and(|source| {
            !is_swept && !source.in_list && core::mem::take(&mut source.wants_relist)
        })
    }

    /// Returns the ids of the sources; those of a new cache are in order.
    pub fn sources(&self) -> impl Iterator<Item = SourceId> {
        let places = (0..).zip(self.sources.as_slice());
        places
            .filter(|(_, state)| state.stage == Presence::Present)
            .map(|(place, state)| SourceId {
                place,
                before: state.before,
            })
    }

    /// Returns whether a source's state comes from a persisted cache that the server has not confirmed yet.
    #[must_use]
    pub fn is_restored(&self, source: SourceId) -> bool {
        self.state(source).is_some_and(|source| source.restored)
    }

    /// Returns whether a source has completed a list, and handlers were notified of all its objects.
    #[must_use]
    pub fn is_source_synced(&self, source: SourceId) -> bool {
        self.state(source).is_some_and(|source| {
            source.notified && !source.restored && source.missing == Lack::Nothing
        })
    }

    /// Returns whether an object or a complete source was rejected because it did not fit.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        let mut sources = self.sources.as_slice().iter();
        self.lacks_source || sources.any(|source| source.missing != Lack::Nothing)
    }

    /// Returns the version of a source that the cache has reached.
    #[must_use]
    pub fn version(&self, source: SourceId) -> Option<&ResourceVersion<S::Text>> {
        self.state(source).map(|source| &source.version)
    }

    /// Begins a list of a source. If the previous list was not complete, this one continues it.
    pub(super) fn begin(&mut self, source: u16) {
        self.epoch = self.epoch.wrapping_add(1);
        let epoch = self.epoch;
        if let Some(source) = self.source_mut(source) {
            source.epoch = epoch;
            source.rejected = Lack::Nothing;
            source.wants_relist = false;
            source.distrusts = false;
            if !source.in_list {
                source.in_list = true;
                source.relist = source.relist.wrapping_add(1);
            }
        }
    }

    /// Returns true once if the journal of a source has an object that its list did not contain.
    pub(crate) fn take_distrust(&mut self, source: u16) -> bool {
        let state = self.source_mut(source);
        state.is_some_and(|state| core::mem::take(&mut state.distrusts))
    }

    /// Records that the server resumed the watch at the restored version: an event or a bookmark arrived.
    pub(crate) fn confirm(&mut self, source: u16) {
        // What comes before the end of a list does not: a streaming list can contain deletions.
        if let Some(source) = self.source_mut(source)
            && !source.in_list
        {
            let confirms = core::mem::take(&mut source.restored);
            self.confirmed |= confirms;
        }
    }

    /// Ends the list of a source: objects that the list did not contain are deleted.
    ///
    /// Handlers are notified of a restored list as the initial state, and readers can use it. The source becomes synced
    /// only when the server completes a list or [confirms](Cache::confirm) the restored version. Nothing of a forgotten
    /// list was notified, and the list begins again.
    pub(super) fn end_list(&mut self, source: u16, end: SweepEnd<S::Text>) {
        if matches!(end, SweepEnd::Forgotten) {
            self.begin(source);
        }
        let Some(state) = self.source_mut(source) else {
            return;
        };
        if !matches!(end, SweepEnd::Forgotten) {
            (state.in_list, state.completed) = (false, true);
            // A version that is still pending is older than the list.
            state.pending_version = None;
            state.restored |= matches!(end, SweepEnd::Restored(_));
        }
        self.sweep_source(source, end);
    }

    /// Begins to visit the objects of a source, to delete those that its latest list did not contain.
    fn sweep_source(&mut self, source: u16, end: SweepEnd<S::Text>) {
        let Some(state) = self.source(source) else {
            return;
        };
        let kind = WalkKind::Sweep {
            epoch: state.epoch,
            relist: state.relist,
            end,
            rejected: state.rejected,
        };
        self.begin_sweep(Walk::new(source, kind));
    }

    /// Records the version that a source reaches once the queue is empty.
    pub(crate) fn advance(&mut self, source: u16, version: ResourceVersion<S::Text>) {
        let idle = self.is_idle();
        if let Some(source) = self.source_mut(source) {
            if idle {
                source.version = version;
                // A version that was scheduled to be reached is obsolete now.
                source.pending_version = None;
            } else {
                source.pending_version = Some(version);
                self.has_pending_version = true;
            }
        }
    }

    /// Marks pending versions as reached once the queue is empty.
    pub(super) fn reach_pending_versions(&mut self) {
        // A sweep ends at the version of its list. Later versions are reached after it.
        if !self.has_pending_version || self.is_sweeping() {
            return;
        }
        self.has_pending_version = false;
        for source in self.sources.as_mut_slice() {
            if let Some(version) = source.pending_version.take() {
                source.version = version;
            }
        }
    }

    /// Records that an object of a source did not fit.
    pub(super) fn reject(&mut self, source: u16, lack: Lack) {
        self.lacks_room |= lack == Lack::Room;
        if let Some(source) = self.source_mut(source) {
            source.rejected = source.rejected.max(lack);
            source.missing = source.missing.max(lack);
        }
    }

    /// Requests a relist of each source that lacks room, after an object was removed.
    pub(super) fn request_relists(&mut self) {
        if !self.lacks_room {
            return;
        }
        for source in self.sources.as_mut_slice() {
            source.wants_relist |= source.missing == Lack::Room;
        }
    }

    /// Returns the place of a source that the cache has.
    pub(crate) fn place(&self, source: SourceId) -> Option<u16> {
        self.state(source).map(|_| source.place)
    }

    fn state(&self, source: SourceId) -> Option<&SourceState<S::Text>> {
        let state = self.source(source.place);
        state.filter(|state| state.stage == Presence::Present && state.before == source.before)
    }

    /// Frees the place of a removed source.
    pub(super) fn free_place(&mut self, source: u16) {
        if let Some(state) = self.source_mut(source) {
            *state = SourceState {
                // After the last number, no source gets the place.
                before: state.before.saturating_add(1),
                stage: Presence::Free,
                ..SourceState::default()
            };
        }
    }

    pub(super) fn source(&self, source: u16) -> Option<&SourceState<S::Text>> {
        self.sources.as_slice().get(usize::from(source))
    }

    pub(super) fn source_mut(&mut self, source: u16) -> Option<&mut SourceState<S::Text>> {
        self.sources.as_mut_slice().get_mut(usize::from(source))
    }
}
