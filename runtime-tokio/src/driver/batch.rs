//! What came, on its way into the cache: gathered by the driver, decoded there or on a pool, applied in order.

use informer_core::{
    Decode, RawObject, Report, Step,
    cache::{decode_object, decode_raw, restore_raw},
    reflector::{Change, ObjectFrame},
    report::{Phase, Problem},
};

use crate::cache::entry::{Shared as Object, Store};
use crate::cache::index::Indexes;
use crate::cache::panics::catch;
use crate::driver::allocator::Headroom;
use crate::driver::guard::Guarded;

/// Frames in the order in which they came.
pub(crate) struct Batch<V> {
    pub(crate) items: Vec<Item<V>>,
    /// The keys of the objects, one after another.
    pub(crate) keys: String,
    /// The JSON of the objects that are to be decoded later, one after another.
    json: Vec<u8>,
    /// What a journal keeps of the objects, where there is one.
    pub(crate) persisted: Vec<u8>,
    /// Whether there is one.
    pub(crate) persists: bool,
    /// Whether a journal is read.
    pub(crate) restores: bool,
    /// The versions that are reached with it, where somebody wants to hear of them.
    pub(crate) versions: Vec<String>,
}

/// A step on its way into the cache. The text and the bytes of an object are in its batch.
pub(crate) type BatchStep<'a, V> = Step<'a, Object<V>, Store>;

/// What was gathered.
pub(crate) enum Item<V> {
    Object(Gathered<V>),
    /// A step without an object.
    Step(BatchStep<'static, V>),
}

/// An object that was gathered.
pub(crate) struct Gathered<V> {
    pub(crate) change: Change,
    /// Where its key ends, and where that of the next one begins.
    pub(crate) key_end: usize,
    state: State<V>,
    /// Where there is what a journal keeps of it.
    pub(crate) persisted: (usize, usize),
    values: Vec<(u16, Box<str>)>,
    /// How many indexes have been asked for their values.
    indexed: usize,
}

enum State<V> {
    /// As JSON, which ends there.
    Json(usize),
    Decoded(Object<V>),
    /// It cannot be used, which has been reported.
    Refused,
}

impl<V> Gathered<V> {
    /// Returns the step that it is.
    pub(crate) fn step(self, key: &str) -> BatchStep<'_, V> {
        Step::Object {
            change: self.change,
            key,
            object: match self.state {
                State::Decoded(object) => Some(object),
                State::Json(_) | State::Refused => None,
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
            persisted: Vec::new(),
            persists: false,
            restores: false,
            versions: Vec::new(),
        }
    }

    /// Empties it, and keeps its memory for the next one.
    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.keys.clear();
        self.json.clear();
        self.persisted.clear();
        self.versions.clear();
        self.restores = false;
    }

    /// How many bytes wait to be decoded.
    pub(crate) const fn pending(&self) -> usize {
        self.json.len()
    }

    /// Takes an object, and decodes it at once.
    pub(crate) fn decode_now<D: Decode<Value = V>>(
        &mut self,
        frame: &ObjectFrame<'_>,
        decode: &D,
        report: &mut dyn FnMut(Report<'_>),
    ) {
        let start = self.push_key(&frame.raw);
        let key = &self.keys[start..];
        let mut object = decode_object(&Guarded(decode), frame, key, report);
        let bytes = frame.raw.json().len();
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

    /// Takes what a journal has of an object, and decodes it at once or later.
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
                let object = restore_raw(&Guarded(decode), &RawObject::parse(json), key, report);
                object.map(|object| Object::new(object, json.len())).into()
            }
            None => {
                self.json.extend_from_slice(json);
                State::Json(self.json.len())
            }
        };
        self.push(Change::Listed, state, (0, 0));
    }

    /// Takes note that there is a newer state of an object, which could not be used.
    pub(crate) fn keep(&mut self, key: &str) {
        self.keys.push_str(key);
        self.push(Change::Modified, State::Refused, (0, 0));
    }

    /// Takes note that an object is gone, of which nothing else is known.
    pub(crate) fn gone(&mut self, key: &str) {
        self.keys.push_str(key);
        self.push(Change::Deleted, State::Refused, (0, 0));
    }

    /// Takes a copy of an object, which is decoded later. There is nothing wrong with its frame.
    pub(crate) fn decode_later(&mut self, frame: &ObjectFrame<'_>) {
        self.push_key(&frame.raw);
        self.json.extend_from_slice(frame.raw.json());
        self.push(frame.change, State::Json(self.json.len()), (0, 0));
    }

    fn push_key(&mut self, raw: &RawObject<'_>) -> usize {
        let start = self.keys.len();
        // Writing into a `String` does not fail.
        let _ = raw.write_key(&mut self.keys);
        start
    }

    fn push(&mut self, change: Change, state: State<V>, persisted: (usize, usize)) {
        self.items.push(Item::Object(Gathered {
            change,
            key_end: self.keys.len(),
            state,
            persisted,
            values: Vec::new(),
            indexed: 0,
        }));
    }

    /// Decodes what is still JSON.
    pub(crate) fn decode<D: Decode<Value = V>>(
        &mut self,
        decode: &D,
        report: &mut dyn FnMut(Report<'_>),
    ) {
        if self.json.is_empty() {
            return;
        }
        let json = core::mem::take(&mut self.json);
        let mut start = 0;
        let mut headroom = Headroom::default();
        for (key, gathered) in objects(&self.keys, &mut self.items) {
            if let State::Json(end) = gathered.state {
                headroom.before(end - start);
                let raw = RawObject::parse(&json[start..end]);
                let mut object = if self.restores {
                    restore_raw(&Guarded(decode), &raw, key, report)
                } else {
                    decode_raw(&Guarded(decode), &raw, key, report)
                };
                if self.persists && object.is_some() && gathered.change != Change::Deleted {
                    match persist(decode, &raw, key, &mut self.persisted, report) {
                        Some(place) => gathered.persisted = place,
                        None => object = None,
                    }
                }
                gathered.state = object.map(|object| Object::new(object, end - start)).into();
                start = end;
            }
        }
        self.json = json;
        self.json.clear();
    }

    /// Asks the indexes that have not been asked yet.
    pub(crate) fn compute_values(
        &mut self,
        indexes: &Indexes<V>,
        report: &mut dyn FnMut(Report<'_>),
    ) {
        for (key, gathered) in objects(&self.keys, &mut self.items) {
            if let State::Decoded(object) = &gathered.state {
                let (from, values) = (gathered.indexed, &mut gathered.values);
                indexes.values(from, key, object.value(), values, report);
                gathered.indexed = indexes.len();
            }
        }
    }
}

impl<V> From<Option<Object<V>>> for State<V> {
    fn from(object: Option<Object<V>>) -> Self {
        object.map_or(Self::Refused, Self::Decoded)
    }
}

/// Appends what a journal keeps of an object, and returns where it is. Where the decoder panics the object counts as one
/// that cannot be decoded, so that cache and journal agree on it.
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

/// The objects with their keys.
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
