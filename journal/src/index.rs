//! The index of a log: which of its records are current.

#[cfg(feature = "alloc")]
use alloc::{
    boxed::Box,
    collections::{BTreeMap, btree_map::Entry},
};

/// Stores the place of the newest record of each key, so that the log need not be read to find it.
pub trait Index: Default {
    /// Whether the index stores anything. If not, the log is read instead.
    const KEEPS: bool;

    /// Records that an object was put by the record at `at`, which takes `size` bytes.
    fn put(&mut self, key: &str, at: u64, size: u64);
    /// Records that an object was marked as stale by the record at `at`.
    fn stale(&mut self, key: &str, at: u64, size: u64);
    /// Records that an object was deleted.
    fn delete(&mut self, key: &str);
    /// Records that a record moved to another place.
    fn moved(&mut self, key: &str, from: u64, to: u64);
    /// Returns whether the record at this place is the newest of its kind, and not superseded.
    fn is_live(&self, key: &str, at: u64) -> bool;
    /// Removes all entries.
    fn clear(&mut self);
    /// Returns the total size of the current records in bytes.
    fn live(&self) -> u64;
    /// Returns the number of objects.
    fn objects(&self) -> usize;
}

/// An index that stores nothing, for a device without an allocator. Compaction then reads the log once for each of its
/// records.
#[derive(Clone, Copy, Default, Debug)]
pub struct Scanned;

impl Index for Scanned {
    const KEEPS: bool = false;

    fn put(&mut self, _key: &str, _at: u64, _size: u64) {}
    fn stale(&mut self, _key: &str, _at: u64, _size: u64) {}
    fn delete(&mut self, _key: &str) {}
    fn moved(&mut self, _key: &str, _from: u64, _to: u64) {}
    fn is_live(&self, _key: &str, _at: u64) -> bool {
        true
    }
    fn clear(&mut self) {}
    fn live(&self) -> u64 {
        0
    }
    fn objects(&self) -> usize {
        0
    }
}

/// An index that stores keys and the places of their records: about 100 bytes for each object.
#[cfg(feature = "alloc")]
#[derive(Default, Debug)]
pub struct Keys {
    places: BTreeMap<Box<str>, Place>,
    live: u64,
}

#[cfg(feature = "alloc")]
#[derive(Clone, Copy, Default, Debug)]
struct Place {
    put: u64,
    /// The place of the mark, or 0, where no record of an object can be.
    stale: u64,
    size: u64,
}

#[cfg(feature = "alloc")]
impl Index for Keys {
    const KEEPS: bool = true;

    fn put(&mut self, key: &str, at: u64, size: u64) {
        let place = Place {
            put: at,
            stale: 0,
            size,
        };
        self.live += size;
        match self.places.entry(key.into()) {
            Entry::Occupied(mut before) => self.live -= before.insert(place).size,
            Entry::Vacant(free) => {
                free.insert(place);
            }
        }
    }

    fn stale(&mut self, key: &str, at: u64, size: u64) {
        if let Some(place) = self.places.get_mut(key) {
            if place.stale == 0 {
                place.size += size;
                self.live += size;
            }
            place.stale = at;
        }
    }

    fn delete(&mut self, key: &str) {
        if let Some(place) = self.places.remove(key) {
            self.live -= place.size;
        }
    }

    fn moved(&mut self, key: &str, from: u64, to: u64) {
        if let Some(place) = self.places.get_mut(key) {
            if place.put == from {
                place.put = to;
            } else if place.stale == from {
                place.stale = to;
            }
        }
    }

    fn is_live(&self, key: &str, at: u64) -> bool {
        let place = self.places.get(key);
        place.is_some_and(|place| place.put == at || place.stale == at)
    }

    fn clear(&mut self) {
        *self = Self::default();
    }

    fn live(&self) -> u64 {
        self.live
    }

    fn objects(&self) -> usize {
        self.places.len()
    }
}
