//! What predicates compare of an object's metadata, kept beside an object of any form.

use core::fmt::{self, Write};
use core::hash::Hasher;
use std::hash::DefaultHasher;

use informer_core::RawObject;
use informer_core::json::{Fields, JsonStr};

/// The generation of an object, and hashes of parts of its metadata.
#[derive(Clone, Debug)]
pub(crate) struct Hashes {
    /// `None` if the resource has none.
    pub(crate) generation: Option<u64>,
    pub(crate) labels: u64,
    pub(crate) annotations: u64,
    pub(crate) finalizers: u64,
    /// The hash of the object without its status; `None` if it is not known.
    pub(crate) beside_status: Option<u64>,
}

/// What is kept beside each object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kept {
    Nothing,
    /// What predicates compare.
    Metadata,
    /// The hash of the object without its status as well.
    BesideStatus,
}

impl Hashes {
    /// Returns what is to be kept of an object.
    pub(crate) fn kept(kept: Kept, raw: &RawObject<'_>) -> Option<Self> {
        (kept > Kept::Nothing).then(|| Self {
            beside_status: (kept == Kept::BesideStatus)
                .then(|| beside_status(raw.json()))
                .flatten(),
            ..Self::of(raw)
        })
    }

    fn of(raw: &RawObject<'_>) -> Self {
        // The order of the members of a map means nothing.
        let map = |pairs: &mut dyn Iterator<Item = u64>| pairs.fold(0, u64::wrapping_add);
        Self {
            generation: raw.generation(),
            labels: map(&mut raw.labels().map(|(key, value)| hash(&[&key, &value]))),
            annotations: map(&mut raw.annotations().map(|(key, value)| hash(&[&key, &value]))),
            finalizers: raw
                .finalizers()
                .fold(0, |before, finalizer| hash(&[&before, &finalizer])),
            beside_status: None,
        }
    }
}

/// The hash of an object in JSON without its status and without what every write changes; `None` if it is not known.
///
/// The server writes the members of an object in the same order each time, and in a list without their kind.
pub(crate) fn beside_status(json: &[u8]) -> Option<u64> {
    let is_one = |name: &JsonStr<'_>, names: &[&str]| names.iter().any(|one| name.eq_str(one));
    let mut rest = Hash(DefaultHasher::new());
    let mut metadata = None;
    for (name, value) in Fields::new(json) {
        if name.eq_str("metadata") {
            metadata = Some(value);
        } else if !is_one(&name, &["apiVersion", "kind", "status"]) {
            rest.put(&name, value);
        }
    }
    for (name, value) in Fields::new(metadata?) {
        if !is_one(&name, &["managedFields", "resourceVersion"]) {
            rest.put(&name, value);
        }
    }
    Some(rest.0.finish())
}

/// The hash of several texts.
fn hash(texts: &[&dyn fmt::Display]) -> u64 {
    let mut hash = Hash(DefaultHasher::new());
    for text in texts {
        hash.text(text);
    }
    hash.0.finish()
}

struct Hash(DefaultHasher);

impl Hash {
    fn text(&mut self, text: &dyn fmt::Display) {
        // It does not fail. No text contains the byte after it.
        let _ = write!(self, "{text}");
        self.0.write_u8(0xff);
    }

    fn put(&mut self, name: &JsonStr<'_>, value: &[u8]) {
        self.text(name);
        self.0.write(value);
        self.0.write_u8(0xff);
    }
}

impl Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}
