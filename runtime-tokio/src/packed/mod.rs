//! Objects stored in compressed form, by zstd with a dictionary made from the first objects.

mod codecs;
mod dictionary;

use core::fmt;
use core::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use informer_core::decode::packing::{Samples, Training};
use informer_core::json::{as_str, value_at};
use informer_core::protobuf::Message;
use informer_core::wire::Format;
use informer_core::{Decode, Form, Raw, RawObject, decode::Accept, json::Prune};
use zstd::zstd_safe::{self, CCtx, CDict, DCtx, DDict};

use crate::packed::codecs::Codecs;

/// The most bytes of buffer that are kept for the next object, so that one large object does not retain its memory.
const KEPT_BYTES: usize = 128 << 10;

/// The decoder of [`Packed`], which compresses each object: its exact bytes, in a tenth of their size or less.
///
/// Objects of one resource are similar. A dictionary made from the first 256 KiB of objects removes what the others
/// share. If later objects no longer fit it, a new dictionary is made from them. Each object keeps the dictionary that
/// it was compressed with, which lives as long as its objects. Objects before the first dictionary are compressed
/// without one.
///
/// Decompressing an object takes microseconds, and each read does it again; see [`Packed`]. For frequent lookups an
/// index is faster. A clone uses the same dictionary.
///
/// ```
/// use informer_tokio::decode::{Decode, Packer, RawObject};
///
/// let json = br#"{"metadata":{"name":"web","labels":{"app":"web"}},"spec":{"nodeName":"n1"}}"#;
/// let kept = Packer::new().decode(&RawObject::parse(json))?;
/// assert_eq!(kept.unpack()?.bytes(), json);
/// assert_eq!(kept.string_at(&["spec", "nodeName"])?.as_deref(), Some("n1"));
/// # Ok::<(), informer_tokio::decode::PackError>(())
/// ```
#[derive(Clone)]
pub struct Packer {
    packer: Arc<Codec>,
    prune: Prune,
    protobuf: bool,
}

struct Codec {
    level: i32,
    dictionary: RwLock<Option<Arc<Dictionary>>>,
    training: Mutex<Training>,
}

/// A dictionary, prepared for compression and decompression.
struct Dictionary {
    pack: CDict<'static>,
    unpack: DDict<'static>,
}

impl Packer {
    /// Creates a decoder with compression level 1.
    #[must_use]
    pub fn new() -> Self {
        Self::with_level(1)
    }

    fn with_level(level: i32) -> Self {
        Self {
            packer: Arc::new(Codec {
                level,
                dictionary: RwLock::default(),
                training: Mutex::default(),
            }),
            prune: Prune::NOTHING,
            protobuf: false,
        }
    }

    /// Requests protobuf: fewer bytes to receive and to compress. Objects that are served in JSON only, such as custom
    /// resources, are stored as JSON.
    #[must_use]
    pub fn protobuf(self) -> Self {
        Self {
            protobuf: true,
            ..self
        }
    }

    /// Removes parts of each object before it is compressed, such as [`Prune::NOISE`].
    #[must_use]
    pub fn prune(self, prune: Prune) -> Self {
        Self { prune, ..self }
    }
}

impl Default for Packer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packer")
            .field("level", &self.packer.level)
            .finish_non_exhaustive()
    }
}

/// The reason why an object could not be compressed or decompressed.
///
/// ```
/// use informer_tokio::{Packed, Raw, decode::PackError};
/// fn replicas(deployment: &Packed<Raw>) -> Result<u64, PackError> {
///     let whole: serde_json::Value = deployment.decode()?;
///     Ok(whole["spec"]["replicas"].as_u64().unwrap_or(1))
/// }
/// ```
#[derive(thiserror::Error)]
pub enum PackError {
    /// An error of zstd.
    #[error("zstd: {0}")]
    Zstd(&'static str),
    /// The object is not of the type.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

informer_core::readable_errors!(PackError);

impl PackError {
    fn of(code: zstd_safe::ErrorCode) -> Self {
        Self::Zstd(zstd_safe::get_error_name(code))
    }
}

/// A compressor with its buffer.
struct Press {
    context: CCtx<'static>,
    packed: Vec<u8>,
    kept: Vec<u8>,
}

/// A decompressor with its buffer.
struct Opener {
    context: DCtx<'static>,
    json: Vec<u8>,
}

static PRESSES: Codecs<Press> = Codecs::new(|| Press {
    context: CCtx::create(),
    packed: Vec::new(),
    kept: Vec::new(),
});

static OPENERS: Codecs<Opener> = Codecs::new(|| Opener {
    context: DCtx::create(),
    json: Vec::new(),
});

/// Drops the codecs that a list needed. A codec that was used without a dictionary has twice the memory that it needs
/// with one.
pub(crate) fn settle() {
    PRESSES.clear();
    OPENERS.clear();
}

impl Packer {
    fn pack(&self, prune: Prune, whole: &[u8]) -> Result<Packed<Raw>, PackError> {
        PRESSES.lend(|press| {
            let Press {
                context,
                packed,
                kept,
            } = press;
            let json = if prune.is_nothing() {
                whole
            } else {
                kept.clear();
                prune.copy(whole, kept);
                kept.as_slice()
            };
            let made = self.packer.pack(json, context, packed);
            packed.shrink_to(KEPT_BYTES);
            kept.shrink_to(KEPT_BYTES);
            made
        })
    }
}

impl Decode for Packer {
    type Value = Packed<Raw>;
    type Error = PackError;

    fn decode(&self, raw: &RawObject<'_>) -> Result<Packed<Raw>, PackError> {
        self.pack(self.prune, raw.bytes())
    }

    fn restore(&self, raw: &RawObject<'_>) -> Result<Packed<Raw>, PackError> {
        self.pack(Prune::NOTHING, raw.bytes())
    }

    fn is_costly(&self) -> bool {
        true
    }

    fn persist(&self, raw: &RawObject<'_>, keep: &mut dyn FnMut(&[u8])) {
        self.prune.lend(raw.bytes(), keep);
    }

    fn skips_managed_fields(&self) -> bool {
        self.prune.skips_managed_fields()
    }

    fn fingerprint(&self) -> u64 {
        0x007a_7374 ^ self.prune.fingerprint() ^ u64::from(self.protobuf) << 32
    }

    fn accept(&self) -> Accept {
        if self.protobuf {
            Accept::default().protobuf()
        } else {
            Accept::default()
        }
    }
}

impl Codec {
    fn pack(
        &self,
        json: &[u8],
        context: &mut CCtx<'_>,
        packed: &mut Vec<u8>,
    ) -> Result<Packed<Raw>, PackError> {
        let dictionary = self
            .dictionary
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        packed.clear();
        packed.reserve(zstd_safe::compress_bound(json.len()));
        match &dictionary {
            Some(dictionary) => context.compress_using_cdict(packed, json, &dictionary.pack),
            None => context.compress(packed, json, self.level),
        }
        .map_err(PackError::of)?;
        let value = Packed {
            dictionary,
            len: json.len(),
            packed: packed.as_slice().into(),
            of: PhantomData,
        };
        let training = || self.training.lock().unwrap_or_else(PoisonError::into_inner);
        let samples = training().observe(json, packed.len());
        if let Some(samples) = samples {
            let made = Arc::new(Dictionary::of(&samples, self.level));
            *self
                .dictionary
                .write()
                .unwrap_or_else(PoisonError::into_inner) = Some(made);
            training().made();
        }
        Ok(value)
    }
}

impl Dictionary {
    fn of(samples: &Samples, level: i32) -> Self {
        let bytes = dictionary::train(samples, level);
        Self {
            pack: CDict::create(&bytes, level),
            unpack: DDict::create(&bytes),
        }
    }
}

/// A compressed object. Each read decompresses the whole object.
#[derive(Clone)]
pub struct Packed<T = Raw> {
    dictionary: Option<Arc<Dictionary>>,
    len: usize,
    packed: Box<[u8]>,
    of: PhantomData<fn() -> T>,
}

impl Packed<Raw> {
    /// Returns the decompressed object.
    ///
    /// # Errors
    /// Fails if the compressed data is damaged.
    pub fn unpack(&self) -> Result<Raw, PackError> {
        self.read(Raw::new)
    }

    /// Calls `read` with the object as received, in JSON or protobuf, which is decompressed into a reused buffer.
    ///
    /// # Errors
    /// Fails if the compressed data is damaged.
    pub fn read<R>(&self, read: impl FnOnce(&[u8]) -> R) -> Result<R, PackError> {
        // `read` may decompress another object with another codec.
        OPENERS.lend(|opener| {
            let Opener { context, json } = opener;
            json.clear();
            json.reserve(self.len);
            match &self.dictionary {
                Some(dictionary) => {
                    context.decompress_using_ddict(json, &self.packed, &dictionary.unpack)
                }
                None => context.decompress(json, &self.packed),
            }
            .map_err(PackError::of)?;
            let result = read(json);
            json.shrink_to(KEPT_BYTES);
            Ok(result)
        })
    }

    /// Returns the string at a path, if there is one. A number in the path is an index into an array.
    ///
    /// # Errors
    /// Fails if the compressed data is damaged.
    pub fn string_at(&self, path: &[&str]) -> Result<Option<String>, PackError> {
        self.read(|whole| {
            let text = value_at(whole, path).and_then(as_str);
            text.map(|text| text.to_string())
        })
    }

    /// Decodes the object as a type.
    ///
    /// # Errors
    /// Fails if the object is not of the type, or if the compressed data is damaged.
    pub fn decode<T: serde::de::DeserializeOwned>(&self) -> Result<T, PackError> {
        Ok(self.read(|json| serde_json::from_slice(json))??)
    }
}

impl Form for Packed<Raw> {
    type Stored = Self;
    type Decoder = Packer;

    fn with_labels(stored: &Self, read: &mut dyn FnMut(&[u8])) {
        // It was compressed here from a valid object, so only damaged memory can cause an error.
        let _ = stored.read(|whole| match Format::of_object(whole) {
            Format::Json => value_at(whole, &["metadata", "labels"])
                .into_iter()
                .for_each(read),
            Format::Protobuf => Raw::with_labels(&Raw::new(whole), read),
        });
    }

    fn with_metadata(stored: &Self, read: &mut dyn FnMut(&[u8])) {
        let _ = stored.read(|whole| match Format::of_object(whole) {
            Format::Json => value_at(whole, &["metadata"]).into_iter().for_each(read),
            Format::Protobuf => Raw::with_metadata(&Raw::new(whole), read),
        });
    }

    fn with_message(stored: &Self, read: &mut dyn FnMut(Message<'_>)) {
        let _ = stored.read(|whole| {
            if Format::of_object(whole) == Format::Protobuf {
                read(Message::new(whole));
            }
        });
    }

    fn with_json(stored: &Self, read: &mut dyn FnMut(&[u8])) {
        let _ = stored.read(|whole| {
            if Format::of_object(whole) == Format::Json {
                read(whole);
            }
        });
    }
}

impl<T> fmt::Debug for Packed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packed({} bytes in {})", self.len, self.packed.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(number: usize, word: &str) -> String {
        let mut env = String::new();
        for i in 0..40 {
            env.push_str(&format!(
                r#"{{"name":"{word}_SETTING_{i}","value":"{}"}},"#,
                i * 7 % 11
            ));
        }
        format!(
            r#"{{"metadata":{{"name":"{word}-{number}","labels":{{"app":"{word}"}},"managedFields":[{{}}]}},"spec":{{"nodeName":"n{}","env":[{env}null]}}}}"#,
            number % 10
        )
    }

    fn keep(packed: &Packer, json: &str) -> Packed<Raw> {
        packed.decode(&RawObject::parse(json.as_bytes())).unwrap()
    }

    #[test]
    fn bytes_come_back_as_they_were_with_and_without_a_dictionary() {
        let packed = Packer::new();
        let pods: Vec<String> = (0..400).map(|i| pod(i, "web")).collect();
        let kept: Vec<_> = pods.iter().map(|json| keep(&packed, json)).collect();
        assert!(kept[0].dictionary.is_none() && kept[399].dictionary.is_some());
        // These are so repetitive that they compress well without a dictionary.
        assert!(kept[399].packed.len() * 3 < kept[0].packed.len() * 2);
        for (json, kept) in pods.iter().zip(&kept) {
            assert_eq!(kept.unpack().unwrap().bytes(), json.as_bytes());
        }
        assert_eq!(
            kept[7].string_at(&["spec", "nodeName"]).unwrap().unwrap(),
            "n7"
        );
        let mut labels = Vec::new();
        Packed::<Raw>::with_labels(&kept[7], &mut |json| labels.push(json.to_vec()));
        assert_eq!(labels, [br#"{"app":"web"}"#.to_vec()]);
    }

    #[test]
    fn a_dictionary_is_renewed_when_objects_change_and_the_old_one_stays_readable() {
        let packed = Packer::new();
        let old: Vec<_> = (0..2000).map(|i| keep(&packed, &pod(i, "web"))).collect();
        let other = |i: usize| {
            let words: String = (0..60)
                .map(|k| {
                    format!(
                        r#""field-{}-of-another-kind":{{"deep":[{k},"x{k}"]}},"#,
                        k * 31 % 97
                    )
                })
                .collect();
            format!(r#"{{"metadata":{{"name":"o{i}"}},{words}"end":{i}}}"#)
        };
        let new: Vec<_> = (0..3000).map(|i| keep(&packed, &other(i))).collect();
        let of = |kept: &Packed<Raw>| kept.dictionary.as_ref().map(Arc::as_ptr);
        assert_ne!(of(&old[1999]), of(&new[2999]));
        assert!(new[2999].packed.len() * 2 < new[0].packed.len());
        assert_eq!(
            old[1999].unpack().unwrap().bytes(),
            pod(1999, "web").as_bytes()
        );
        assert_eq!(new[0].unpack().unwrap().bytes(), other(0).as_bytes());
    }

    #[test]
    fn parts_are_left_out_before_packing() {
        let kept = keep(&Packer::new().prune(Prune::NOISE), &pod(1, "web"));
        let json = kept.unpack().unwrap();
        assert_eq!(json.at(&["metadata", "managedFields"]), None);
        assert!(json.at(&["metadata", "labels"]).is_some());
    }

    #[test]
    fn a_reader_may_read_another_object() {
        let packed = Packer::new();
        let (a, b) = (keep(&packed, &pod(1, "a")), keep(&packed, &pod(2, "b")));
        let both = a
            .read(|a| b.read(|b| (a.to_vec(), b.to_vec())).unwrap())
            .unwrap();
        assert_eq!(both.0, pod(1, "a").as_bytes());
        assert_eq!(both.1, pod(2, "b").as_bytes());
    }
}
