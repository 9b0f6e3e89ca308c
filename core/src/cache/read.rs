//! Read access to a cache.

use super::pop::Notice;
use super::{Cache, SourceId};
use crate::object::Cached;
use crate::storage::Storage;

impl<T: Cached, S: Storage> Cache<T, S> {
    /// Returns the object with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&T> {
        self.table.object(key).map(|held| &held.object)
    }

    /// Returns the object with this key, and the key as stored.
    #[must_use]
    pub fn entry(&self, key: &str) -> Option<(&S::Text, &T)> {
        let (key, held) = self.table.entry(self.table.find(key)?)?;
        Some((key, &held.object))
    }

    /// Returns all objects with their keys, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&S::Text, &T)> {
        self.store
            .objects(&self.table)
            .map(|(_, key, held)| (key, &held.object))
    }

    /// Returns the objects of a source with their keys, in no particular order, and whether each is stale.
    pub fn entries_of(&self, source: SourceId) -> impl Iterator<Item = (&S::Text, &T, bool)> {
        let place = self.place(source).into_iter();
        place
            .flat_map(|place| self.store.objects_of(&self.table, place))
            .map(|(_, key, held)| (key, &held.object, held.stale))
    }

    /// Returns the objects that were notified, with their keys: the initial state for a handler that joins now.
    pub fn notified(&self) -> impl Iterator<Item = (&S::Text, &T)> {
        // After the deletion of a recreated object, its addition has not been notified yet.
        let unnotified = match self.follow_up {
            Some(Notice::Added { id, .. }) => Some(id),
            _ => None,
        };
        self.store
            .objects(&self.table)
            .filter(move |(id, _, held)| held.notified && Some(*id) != unnotified)
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

    /// Returns whether every source has completed a list, and all objects fit.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced && !self.is_incomplete()
    }

    /// Returns whether [`Notification::Synced`](super::Notification::Synced) was sent. A handler that joins later must
    /// then start with it, since it is not sent again. It stays true if the cache becomes incomplete later, unlike
    /// [`Cache::is_synced`].
    #[must_use]
    pub const fn has_sent_synced(&self) -> bool {
        self.synced
    }
}
