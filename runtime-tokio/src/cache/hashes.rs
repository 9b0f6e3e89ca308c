//! What predicates compare of an object's metadata, kept beside an object of any form.

use core::fmt::{self, Write};
use core::hash::Hasher;
use std::hash::DefaultHasher;

use informer_core::RawObject;

/// The generation of an object, and hashes of parts of its metadata.
#[derive(Clone, Debug)]
pub(crate) struct Hashes {
    /// `None` if the resource has none.
    pub(crate) generation: Option<u64>,
    pub(crate) labels: u64,
    pub(crate) annotations: u64,
    pub(crate) finalizers: u64,
}

impl Hashes {
    pub(crate) fn of(raw: &RawObject<'_>) -> Self {
        // The order of the members of a map means nothing.
        let map = |pairs: &mut dyn Iterator<Item = u64>| pairs.fold(0, u64::wrapping_add);
        Self {
            generation: raw.generation(),
            labels: map(&mut raw.labels().map(|(key, value)| hash(&[&key, &value]))),
            annotations: map(&mut raw.annotations().map(|(key, value)| hash(&[&key, &value]))),
            finalizers: raw
                .finalizers()
                .fold(0, |before, finalizer| hash(&[&before, &finalizer])),
        }
    }
}

/// The hash of several texts.
fn hash(texts: &[&dyn fmt::Display]) -> u64 {
    let mut hash = Hash(DefaultHasher::new());
    for text in texts {
        // It does not fail. No text contains the byte between them.
        let _ = write!(hash, "{text}");
        hash.0.write_u8(0xff);
    }
    hash.0.finish()
}

struct Hash(DefaultHasher);

impl Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}
