//! Received frames on their way into the cache: gathered by the driver, decoded there or on a pool, and applied in
//! order.

use std::collections::VecDeque;

use informer_core::{
    Decode, RawObject, Report, Step,
    cache::{decode_object, object_of},
    decode::Places,
    reflector::{Change, ObjectFrame},
    report::{Phase, Problem},
};

use crate::cache::entry::{Shared as Object, Store};
use crate::cache::index::Indexes;
use crate::cache::panics::catch;
use crate::driver::allocator::Headroom;
use crate::driver::guard::Guarded;

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
    /// Whether a journal is being restored.
    pub(crate) restores: bool,
    /// The versions reached with this batch, if `on_version` is set.
    pub(crate) versions: Vec<String>,
}

/// A step on its way into the cache. The texts and bytes of its object are in the batch.
pub(crate) type BatchStep<'a, V> = Step<'a, Object<V>, Store>;

/// An item of a batch.
pub(crate) enum Item<V> {
    Object(Gathered<V>),
    /// A step without an object.
    Step(BatchStep<'static, V>),
}

/// An object in a batch.
pub(crate) struct Gathered<V> {
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
    /// JSON that ends at this position, and which thread decodes it.
    Json(usize, u8),
    Decoded(Object<V>),
    /// It cannot be used, which has been reported.
    Refused,
}

/// The decoded objects of a share, in order.
pub(crate) struct Decoded<V> {
    objects: VecDeque<DecodedObject<V>>,
    /// The concatenated data of the objects for the journal.
    persisted: Vec<u8>,
    /// The position of that data in the batch.
    persisted_at: usize,
    /// The number of indexes whose values have been computed.
    indexed: usize,
}

struct DecodedObject<V> {
    /// `None` if it cannot be used, which has been reported.
    object: Option<Object<V>>,
    values: Vec<(u16, Box<str>)>,
    persisted: (usize, usize),
}

impl<V> Decoded<V> {
    pub(crate) const EMPTY: Self = Self {
        objects: VecDeque::new(),
        persisted: Vec::new(),
        persisted_at: 0,
        indexed: 0,
    };
}

impl<V> Gathered<V> {
    /// Converts the object to a step.
    pub(crate) fn step(self, key: &str) -> BatchStep<'_, V> {
        Step::Object {
            change: self.change,
            key,
            object: match self.state {
                Content::Decoded(object) => Some(object),
                Content::Json(..) | Content::Refused => None,
            },
            values: self.values,
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
            restores: false,
            versions: Vec::new(),
        }
    }

    /// Frees the memory of the batch, if it is empty and has much.
    pub(crate) fn settle(&mut self) {
        const KEPT_BYTES: usize = 4 << 10;
        let items = self.items.capacity() * size_of::<Item<V>>();
        let places = self.places.capacity() * size_of::<Places>();
        let bytes = self.keys.capacity() + self.json.capacity() + self.persisted.capacity();
        let is_empty = self.items.is_empty() && self.versions.is_empty();
        if is_empty && items + places + bytes > KEPT_BYTES {
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

    /// The number of bytes that are not decoded yet.
    pub(crate) const fn pending(&self) -> usize {
        self.json.len()
    }

    /// Adds an object and decodes it immediately.
    pub(crate) fn decode_now<D: Decode<Value = V>>(
        &mut self,
        frame: &ObjectFrame<'_>,
        decode: &D,
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
        self.push(
            frame.change,
            object.map(|object| Object::new(object, bytes)).into(),
            persisted,
        );
    }

    /// Adds an object from a journal, and decodes it now, or later in a share.
    pub(crate) fn restore<D: Decode<Value = V>>(
        &mut self,
        key: &str,
        json: &[u8],
        now: Result<&D, u8>,
        report: &mut dyn FnMut(Report<'_>),
    ) {
        self.restores = true;
        self.keys.push_str(key);
        let state = match now {
            Ok(decode) => {
                let raw = RawObject::parse(json);
                let object = object_of(Guarded(decode).restore(&raw), &raw, key, report);
                object.map(|object| Object::new(object, json.len())).into()
            }
            Err(share) => {
                self.json.extend_from_slice(json);
                Content::Json(self.json.len(), share)
            }
        };
        self.push(Change::Listed, state, (0, 0));
    }

    /// Records that an object has a newer state that could not be used.
    pub(crate) fn keep(&mut self, key: &str) {
        self.keys.push_str(key);
        self.push(Change::Modified, Content::Refused, (0, 0));
    }

    /// Records that an object was deleted, of which only the key is known.
    pub(crate) fn gone(&mut self, key: &str) {
        self.keys.push_str(key);
        self.push(Change::Deleted, Content::Refused, (0, 0));
    }

    /// Adds a copy of an object, which is decoded later. Its frame must be valid.
    pub(crate) fn decode_later(&mut self, frame: &ObjectFrame<'_>, share: u8) {
        self.keys.push_str(frame.key);
        self.places.push(frame.raw.places());
        self.json.extend_from_slice(frame.raw.bytes());
        let state = Content::Json(self.json.len(), share);
        self.push(frame.change, state, (0, 0));
    }

    fn push(&mut self, change: Change, state: Content<V>, persisted: (usize, usize)) {
        self.items.push(Item::Object(Gathered {
            change,
            key_end: self.keys.len(),
            state,
            persisted,
            values: Vec::new(),
            indexed: 0,
        }));
    }

    /// Returns the shares of the objects that are still JSON.
    pub(crate) fn shares(&self) -> impl Iterator<Item = u8> {
        self.items.iter().filter_map(|item| match item {
            Item::Object(Gathered {
                state: Content::Json(_, share),
                ..
            }) => Some(*share),
            Item::Object(_) | Item::Step(_) => None,
        })
    }

    /// Decodes the objects of a share that are still JSON, or those of all shares. Computes their index values.
    pub(crate) fn decode<D: Decode<Value = V>>(
        &self,
        share: Option<u8>,
        decode: &D,
        indexes: &Indexes<V>,
        report: &mut dyn FnMut(Report<'_>),
    ) -> Decoded<V> {
        let mut decoded = Decoded::EMPTY;
        let (mut start, mut key_start) = (0, 0);
        let mut headroom = Headroom::default();
        let mut places = self.places.iter();
        for item in &self.items {
            let Item::Object(gathered) = item else {
                continue;
            };
            let key = &self.keys[key_start..gathered.key_end];
            key_start = gathered.key_end;
            let Content::Json(end, its) = gathered.state else {
                continue;
            };
            let json = &self.json[start..end];
            start = end;
            let places = places.next();
            if share.is_some_and(|share| share != its) {
                continue;
            }
            headroom.before(json.len());
            let raw = places.map_or_else(
                || RawObject::parse(json),
                |places| RawObject::of_copy(json, places),
            );
            let object = if self.restores {
                Guarded(decode).restore(&raw)
            } else {
                Guarded(decode).decode(&raw)
            };
            let mut object = object_of(object, &raw, key, report);
            let mut persisted = (0, 0);
            if self.persists && object.is_some() && gathered.change != Change::Deleted {
                match persist(decode, &raw, key, &mut decoded.persisted, report) {
                    Some(place) => persisted = place,
                    None => object = None,
                }
            }
            let object = object.map(|object| Object::new(object, json.len()));
            let mut values = Vec::new();
            if let Some(object) = &object {
                indexes.values(0, key, object.value(), &mut values, report);
            }
            decoded.objects.push_back(DecodedObject {
                object,
                values,
                persisted,
            });
        }
        decoded.indexed = indexes.len();
        decoded
    }

    /// Replaces JSON by the decoded objects: those of each share, or of all shares in one part.
    pub(crate) fn fill(&mut self, parts: &mut [Decoded<V>]) {
        let Some(last) = parts.len().checked_sub(1) else {
            return;
        };
        for part in &mut *parts {
            part.persisted_at = self.persisted.len();
            self.persisted.append(&mut part.persisted);
        }
        for item in &mut self.items {
            let Item::Object(gathered) = item else {
                continue;
            };
            let Content::Json(_, share) = gathered.state else {
                continue;
            };
            let part = &mut parts[last.min(share.into())];
            if let Some(decoded) = part.objects.pop_front() {
                gathered.state = decoded.object.into();
                gathered.values = decoded.values;
                gathered.indexed = part.indexed;
                let (from, to) = decoded.persisted;
                gathered.persisted = (part.persisted_at + from, part.persisted_at + to);
            }
        }
        self.places.clear();
        self.json.clear();
    }

    /// Computes the values of the indexes that are missing.
    pub(crate) fn compute_values(
        &mut self,
        indexes: &Indexes<V>,
        report: &mut dyn FnMut(Report<'_>),
    ) {
        for (key, gathered) in objects(&self.keys, &mut self.items) {
            if let Content::Decoded(object) = &gathered.state {
                let (from, values) = (gathered.indexed, &mut gathered.values);
                indexes.values(from, key, object.value(), values, report);
                gathered.indexed = indexes.len();
            }
        }
    }
}

impl<V> From<Option<Object<V>>> for Content<V> {
    fn from(object: Option<Object<V>>) -> Self {
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
) -> impl Iterator<Item = (&'a str, &'a mut Gathered<V>)> {
    let mut start = 0;
    items.iter_mut().filter_map(move |item| match item {
        Item::Object(gathered) => {
            let key = &keys[start..gathered.key_end];
            start = gathered.key_end;
            Some((key, gathered))
        }
        Item::Step(_) => None,
    })
}
