//! Objects stored compressed by LZ4, in pure Rust, for one thread.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::convert::Infallible;
use core::fmt;

use super::packing::{Samples, Training};
use super::{Decode, Form, Raw, RawObject};
use crate::json::{Prune, value_at};

/// The decoder of [`PackedLz4`], which compresses each object by LZ4, for one thread and without `std`.
///
/// The first few objects become the dictionary for the others. When objects no longer fit it well, later ones become
/// the next dictionary. An object shares ownership of the dictionary that compressed it. For several threads use
/// `Packed` of informer-tokio, which compresses twice as well.
#[derive(Clone, Debug)]
pub struct PackerLz4 {
    state: Rc<RefCell<Codec>>,
    prune: Prune,
}

#[derive(Debug)]
struct Codec {
    training: Training,
    dictionary: Option<Rc<[u8]>>,
    kept: Vec<u8>,
    packed: Vec<u8>,
}

/// A larger dictionary would slow compression down, since it is scanned for each object.
const DICTIONARY_BYTES: usize = 8 << 10;

impl PackerLz4 {
    /// Creates a decoder.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: Rc::new(RefCell::new(Codec {
                training: Training::of_samples(DICTIONARY_BYTES, 1),
                dictionary: None,
                kept: Vec::new(),
                packed: Vec::new(),
            })),
            prune: Prune::NOTHING,
        }
    }

    /// Sets the parts of each object to remove before compression, such as [`Prune::NOISE`].
    #[must_use]
    pub fn prune(self, prune: Prune) -> Self {
        Self { prune, ..self }
    }
}

impl Default for PackerLz4 {
    fn default() -> Self {
        Self::new()
    }
}

impl PackerLz4 {
    fn pack(&self, prune: Prune, whole: &[u8]) -> PackedLz4 {
        let mut state = self.state.borrow_mut();
        let Codec {
            training,
            dictionary,
            kept,
            packed,
        } = &mut *state;
        let json = if prune.is_nothing() {
            whole
        } else {
            kept.clear();
            prune.copy(whole, kept);
            kept.as_slice()
        };
        packed.resize(lz4_flex::block::get_maximum_output_size(json.len()), 0);
        let shared = dictionary.as_deref().unwrap_or_default();
        // The buffer is large enough for the worst case. If it were not, the object would be stored uncompressed.
        let len = lz4_flex::block::compress_into_with_dict(json, packed, shared).ok();
        let value = PackedLz4 {
            len: json.len(),
            packed: len.and_then(|len| packed.get(..len)).unwrap_or(json).into(),
            is_packed: len.is_some(),
            dictionary: dictionary.clone(),
        };
        if let Some(samples) = training.observe(json, value.packed.len()) {
            *dictionary = Some(shared_part(&samples));
            training.made();
        }
        // A rare large object must not keep its buffer allocated.
        packed.truncate(0);
        packed.shrink_to(4 * DICTIONARY_BYTES);
        kept.shrink_to(4 * DICTIONARY_BYTES);
        value
    }
}

impl Decode for PackerLz4 {
    type Value = PackedLz4;
    type Error = Infallible;

    fn decode(&self, raw: &RawObject<'_>) -> Result<PackedLz4, Infallible> {
        Ok(self.pack(self.prune, raw.bytes()))
    }

    fn restore(&self, raw: &RawObject<'_>) -> Result<PackedLz4, Infallible> {
        Ok(self.pack(Prune::NOTHING, raw.bytes()))
    }

    fn persist(&self, raw: &RawObject<'_>, keep: &mut dyn FnMut(&[u8])) {
        self.prune.lend(raw.bytes(), keep);
    }

    fn skips_managed_fields(&self) -> bool {
        self.prune.skips_managed_fields()
    }

    fn fingerprint(&self) -> u64 {
        0x006c_7a34 ^ self.prune.fingerprint()
    }
}

fn shared_part(samples: &Samples) -> Rc<[u8]> {
    let end = samples.bytes().len().min(DICTIONARY_BYTES);
    samples.bytes().get(..end).unwrap_or_default().into()
}

/// A compressed object. Reading any part decompresses all of it.
#[derive(Clone)]
pub struct PackedLz4 {
    dictionary: Option<Rc<[u8]>>,
    len: usize,
    packed: Box<[u8]>,
    is_packed: bool,
}

impl PackedLz4 {
    /// Returns the object's JSON; `None` if the compressed data is corrupt.
    #[must_use]
    pub fn unpack(&self) -> Option<Raw> {
        if !self.is_packed {
            return Some(Raw::new(&self.packed));
        }
        let shared = self.dictionary.as_deref().unwrap_or_default();
        lz4_flex::block::decompress_with_dict(&self.packed, self.len, shared)
            .ok()
            .map(|json| Raw::new(&json))
    }
}

impl Form for PackedLz4 {
    type Stored = Self;
    type Decoder = PackerLz4;

    fn with_labels(stored: &Self, read: &mut dyn FnMut(&[u8])) {
        if let Some(whole) = stored.unpack() {
            value_at(whole.bytes(), &["metadata", "labels"])
                .into_iter()
                .for_each(read);
        }
    }

    fn with_json(stored: &Self, read: &mut dyn FnMut(&[u8])) {
        if let Some(whole) = stored.unpack() {
            read(whole.bytes());
        }
    }
}

impl fmt::Debug for PackedLz4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PackedLz4({} bytes in {})", self.len, self.packed.len())
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;

    fn pod(number: usize, word: &str) -> String {
        let env: String = (0..40)
            .map(|i| {
                format!(
                    r#"{{"name":"{word}_SETTING_{i}","value":"{}"}},"#,
                    i * 7 % 11
                )
            })
            .collect();
        format!(
            r#"{{"metadata":{{"name":"{word}-{number}","labels":{{"app":"{word}"}},"managedFields":[{{}}]}},"spec":{{"env":[{env}null]}}}}"#
        )
    }

    fn keep(decoder: &PackerLz4, json: &str) -> PackedLz4 {
        decoder.decode(&RawObject::parse(json.as_bytes())).unwrap()
    }

    #[test]
    fn bytes_come_back_as_they_were() {
        let decoder = PackerLz4::new();
        let kept: Vec<_> = (0..50).map(|i| keep(&decoder, &pod(i, "web"))).collect();
        for (number, kept) in kept.iter().enumerate() {
            assert_eq!(
                kept.unpack().unwrap().bytes(),
                pod(number, "web").as_bytes()
            );
        }
        assert!(kept[49].packed.len() * 4 < kept[0].packed.len(), "{kept:?}");
        let mut labels = Vec::new();
        PackedLz4::with_labels(&kept[3], &mut |json| labels.extend_from_slice(json));
        assert_eq!(labels, br#"{"app":"web"}"#);
    }

    #[test]
    fn a_dictionary_is_renewed_and_the_old_one_stays_readable() {
        let decoder = PackerLz4::new();
        let old: Vec<_> = (0..600).map(|i| keep(&decoder, &pod(i, "web"))).collect();
        let other = |i: usize| {
            let words: String = (0..60)
                .map(|k| format!(r#""field-{}-of-another":{{"deep":[{k}]}},"#, k * 31 % 97))
                .collect();
            format!(r#"{{"metadata":{{"name":"o{i}"}},{words}"end":{i}}}"#)
        };
        let new: Vec<_> = (0..1200).map(|i| keep(&decoder, &other(i))).collect();
        assert!(new[1199].packed.len() * 2 < new[0].packed.len());
        assert_eq!(
            old[599].unpack().unwrap().bytes(),
            pod(599, "web").as_bytes()
        );
    }

    #[test]
    fn parts_are_left_out_before_packing() {
        let kept = keep(&PackerLz4::new().prune(Prune::NOISE), &pod(1, "web"));
        assert_eq!(
            kept.unpack().unwrap().at(&["metadata", "managedFields"]),
            None
        );
    }
}
