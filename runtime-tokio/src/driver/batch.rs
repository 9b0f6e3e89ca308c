//! Received frames on their way into the cache: gathered by the driver, decoded there or on a pool, and applied in
//! order.

use informer_core::{
    Decode, RawObject, Report, Step,
    cache::{decode_object, object_of},
    decode::Places,
    reflector::{Change, ObjectFrame},
    report::{Phase, Problem},
};

use crate::cache::entry::{SharedObject, Store};
use crate::cache::hashes::{Hashes, Kept};
use crate::cache::index::Indexes;
use crate::cache::panics::catch;
use crate::driver::allocator::Headroom;
use crate::driver::guard::Guarded;
use crate::driver::journal::Range;

/// Frames in the order in which they arrived.
pub(crate) struct Batch<V> {
    pub(crate) items: Vec<Item<V>>,
    /// The concatenated keys of the objects.
    pub(crate) keys: String,
    /// The concatenated JSON of the objects that are decoded later.
    json: Vec<u8>,
    /// The positions of their identities in the JSON. Records of a journal have none and are parsed when decoded.
    places: Vec<Places>,
    /// The concatenated data of the objects for the journal, if there is one.
    pub(crate) persisted: Vec<u8>,
    /// Whether there is a journal.
    pub(crate) persists: bool,
    /// What is kept beside each object.
    pub(crate) kept: Kept,
    /// Whether a journal is being restored.
    pub(crate) restores: bool,
    /// The versions reached with this batch, if `on_version` is set.
    pub(crate) versions: Vec<String>,
}

/// A step on its way into the cache. The texts and bytes of its object are in the batch.
pub(crate) type BatchStep<'a, V> = Step<'a, SharedObject<V>, Store>;

/// An item of a batch.
pub(crate) enum Item<V> {
    Object(ReceivedObject<V>),
    /// A step without an object.
    Step(BatchStep<'static, V>),
}

/// An object in a batch.
pub(crate) struct ReceivedObject<V> {
    pub(crate) change: Change,
    /// The end of its key, and the start of the next one.
    pub(crate) key_end: usize,
    state: Content<V>,
    /// The range of its data for the journal.
    pub(crate) persisted: (usize, usize),
    values: Vec<(u16, Box<str>)>,
    /// The number of indexes whose values have been computed.
    indexed: usize,
}

enum Content<V> {
    /// JSON that ends at this position.
    Json(usize),
    Decoded(SharedObject<V>),
    /// It cannot be used, which has been reported.
    Refused,
}

impl<V> ReceivedObject<V> {
    /// Computes the values of the indexes that are missing.
    fn compute_values(
        &mut self,
        key: &str,
        indexes: &Indexes<V>,
        report: &mut dyn FnMut(Report<'_>),
    ) {
        if let Content::Decoded(object) = &self.state {
            indexes.values(self.indexed, key, object.value(), &mut self.values, report);
            self.indexed = indexes.len();
        }
    }

    fn into_step(self, key: &str) -> BatchStep<'_, V> {
        Step::Object {
            change: self.change,
            key,
            object: match self.state {
                Content::Decoded(object) => Some(object),
                Content::Json(_) | Content::Refused => None,
            },
            values: Some(self.values),
        }
    }
}

impl<V> Item<V> {
    /// Returns its step and its key, and the ranges of its key and of its data for the journal if it is an object.
    /// `start` is the start of its key among all keys, and becomes that of the next one.
    pub(crate) fn into_step<'a>(
        self,
        keys: &'a str,
        start: &mut usize,
    ) -> (BatchStep<'a, V>, &'a str, Option<(Range, Range)>) {
        match self {
            Self::Step(step) => (step, "", None),
            Self::Object(object) => {
                let range = (*start, object.key_end);
                *start = object.key_end;
                let key = &keys[range.0..range.1];
                let in_journal = Some((range, object.persisted));
                (object.into_step(key), key, in_journal)
            }
        }
    }
}

impl<V> Batch<V> {
    pub(crate) const fn new() -> Self {
        Self {
            items: Vec::new(),
            keys: String::new(),
            json: Vec::new(),
            places: Vec::new(),
            persisted: Vec::new(),
            persists: false,
            kept: Kept::Nothing,
            restores: false,
            versions: Vec::new(),
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.items.is_empty() && self.versions.is_empty()
    }

    /// Frees the memory of the batch, if it is empty and has much.
    pub(crate) fn free_unused(&mut self) {
        const KEPT_BYTES: usize = 4 << 10;
        let items = self.items.capacity() * size_of::<Item<V>>();
        let places = self.places.capacity() * size_of::<Places>();
        let bytes = self.keys.capacity() + self.json.capacity() + self.persisted.capacity();
        if self.is_empty() && items + places + bytes > KEPT_BYTES {
            *self = const { Self::new() };
        }
    }

    /// Clears the batch and keeps its memory for reuse.
    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.keys.clear();
        self.json.clear();
        self.places.clear();
        self.persisted.clear();
        self.versions.clear();
        self.restores = false;
    }

    /// The number of objects.
    pub(crate) fn objects(&self) -> usize {
        let is_object = |item: &&Item<V>| matches!(item, Item::Object(_));
        self.items.iter().filter(is_object).count()
    }

    /// The number of bytes that are not decoded yet.
    pub(crate) const fn pending(&self) -> usize {
        self.json.len()
    }

    /// Adds an object, decodes it immediately and computes its index values.
    pub(crate) fn decode_now<D: Decode<Value = V>>(
        &mut self,
        frame: &ObjectFrame<'_>,
        decode: &D,
        indexes: &Indexes<V>,
        report: &mut dyn FnMut(Report<'_>),
    ) {
        let key = frame.key;
        self.keys.push_str(key);
        let mut object = decode_object(&Guarded(decode), frame, report);
        let bytes = frame.raw.bytes().len();
        let mut persisted = (0, 0);
        if self.persists && object.is_some() && frame.change != Change::Deleted {
            match persist(decode, &frame.raw, key, &mut self.persisted, report) {
                Some(place) => persisted = place,
                None => object = None,
            }
        }
        let hashes = Hashes::kept(self.kept, &frame.raw);
        let is_from_watch = frame.change != Change::Listed;
        self.push(
            frame.change,
            object
                .map(|object| SharedObject::new(object, bytes, is_from_watch, hashes))
                .into(),
            persisted,
        );
        if let Some(Item::Object(received)) = self.items.last_mut() {
            received.compute_values(key, indexes, report);
        }
    }

    /// Adds an object from a journal, and decodes it now or later.
    pub(crate) fn restore<D: Decode<Value = V>>(
        &mut self,
        key: &str,
        json: &[u8],
        now: Option<&D>,
        report: &mut dyn FnMut(Report<'_>),
    ) {
        self.restores = true;
        self.keys.push_str(key);
        let state = match now {
            Some(decode) => {
                let raw = RawObject::parse(json);
                let object = object_of(Guarded(decode).restore(&raw), &raw, key, report);
                object
                    .map(|object| SharedObject::new(object, json.len(), false, None))
                    .into()
            }
            None => {
                self.json.extend_from_slice(json);
                Content::Json(self.json.len())
            }
        };
        self.push(Change::Listed, state, (0, 0));
    }

    /// Adds a change of an object of which a journal has no state: a newer one that could not be used, or a deletion.
    pub(crate) fn restore_unusable(&mut self, change: Change, key: &str) {
        self.keys.push_str(key);
        self.push(change, Content::Refused, (0, 0));
    }

    /// Adds a copy of an object, which is decoded later. Its frame must be valid.
    pub(crate) fn decode_later(&mut self, frame: &ObjectFrame<'_>) {
        self.keys.push_str(frame.key);
        self.places.push(frame.raw.places());
        self.json.extend_from_slice(frame.raw.bytes());
        self.push(frame.change, Content::Json(self.json.len()), (0, 0));
    }

    fn push(&mut self, change: Change, state: Content<V>, persisted: (usize, usize)) {
        self.items.push(Item::Object(ReceivedObject {
            change,
            key_end: self.keys.len(),
            state,
            persisted,
            values: Vec::new(),
            indexed: 0,
        }));
    }

    /// Decodes all objects that are still JSON, and computes the index values of each immediately, while the bytes of a
    /// packed object are kept.
    pub(crate) fn decode<D: Decode<Value = V>>(
        &mut self,
        decode: &D,
        indexes: &Indexes<V>,
        report: &mut dyn FnMut(Report<'_>),
    ) {
        if self.json.is_empty() {
            return;
        }
        let json = core::mem::take(&mut self.json);
        let mut start = 0;
        let mut headroom = Headroom::default();
        let mut places = self.places.drain(..);
        for (key, received) in objects(&self.keys, &mut self.items) {
            if let Content::Json(end) = received.state {
                headroom.before(end - start);
                let json = &json[start..end];
                let raw = match places.next() {
                    Some(places) => RawObject::of_copy(json, &places),
                    None => RawObject::parse(json),
                };
                let decoded = if self.restores {
                    Guarded(decode).restore(&raw)
                } else {
                    Guarded(decode).decode(&raw)
                };
                let mut object = object_of(decoded, &raw, key, report);
                if self.persists && object.is_some() && received.change != Change::Deleted {
                    match persist(decode, &raw, key, &mut self.persisted, report) {
                        Some(place) => received.persisted = place,
                        None => object = None,
                    }
                }
                // The bytes in a journal may lack pruned parts.
                let hashes = match self.restores {
                    true => None,
                    false => Hashes::kept(self.kept, &raw),
                };
                let (bytes, is_from_watch) = (end - start, received.change != Change::Listed);
                received.state = object
                    .map(|object| SharedObject::new(object, bytes, is_from_watch, hashes))
                    .into();
                received.compute_values(key, indexes, report);
                start = end;
            }
        }
        drop(places);
        self.json = json;
        self.json.clear();
    }

    /// Computes the values of the indexes that are missing.
    pub(crate) fn compute_values(
        &mut self,
        indexes: &Indexes<V>,
        report: &mut dyn FnMut(Report<'_>),
    ) {
        for (key, received) in objects(&self.keys, &mut self.items) {
            received.compute_values(key, indexes, report);
        }
    }
}

impl<V> From<Option<SharedObject<V>>> for Content<V> {
    fn from(object: Option<SharedObject<V>>) -> Self {
        object.map_or(Self::Refused, Self::Decoded)
    }
}

/// Appends an object's data for the journal, and returns its range. If the decoder panics, the object counts as one
/// that cannot be decoded, so that cache and journal agree.
fn persist<D: Decode>(
    decode: &D,
    raw: &RawObject<'_>,
    key: &str,
    into: &mut Vec<u8>,
    report: &mut dyn FnMut(Report<'_>),
) -> Option<(usize, usize)> {
    let start = into.len();
    if let Err(panic) = catch(|| decode.persist(raw, &mut |kept| into.extend_from_slice(kept))) {
        into.truncate(start);
        let message = format!(
            "`persist` panicked: {}",
            crate::cache::panics::message(&*panic)
        );
        let problem = Problem::Undecodable {
            key,
            message: &message,
        };
        report(Report::about(Phase::Cache, problem));
        return None;
    }
    Some((start, into.len()))
}

/// Iterates over the objects with their keys.
fn objects<'a, V>(
    keys: &'a str,
    items: &'a mut [Item<V>],
) -> impl Iterator<Item = (&'a str, &'a mut ReceivedObject<V>)> {
    let mut start = 0;
    items.iter_mut().filter_map(move |item| match item {
        Item::Object(received) => {
            let key = &keys[start..received.key_end];
            start = received.key_end;
            Some((key, received))
        }
        Item::Step(_) => None,
    })
}
