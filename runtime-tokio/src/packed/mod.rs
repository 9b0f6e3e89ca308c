//! Objects stored in compressed form, by zstd with a dictionary made from the first objects.
//!
//! They are decoded by their readers, outside of the lock and on the thread that reads: the object in the cache, in the
//! log and in an entry is the packed one. Only [`recent`] holds decoded ones, so that handlers share them and a slow
//! handler holds none. [`latest`] holds the bytes of the objects that were packed last, which spares index functions
//! and prompt handlers the decompression.

mod codecs;
mod dictionary;
mod latest;
mod object;
mod recent;
#[cfg(test)]
mod tests;
mod training;

use core::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use informer_core::decode::OnDemand;
use informer_core::{Decode, Raw, RawObject, decode::Accept, json::Prune};
use zstd::zstd_safe::{self, CCtx, CDict, DDict};

use self::latest::LATEST;
pub use self::object::Packed;
use self::recent::Recent;
use self::training::{Samples, Training};
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
/// Decompressing an object takes microseconds, and each read does it again; see [`Packed`]. The bytes of the latest
/// objects, half a megabyte in a program, are kept for index functions and handlers. For frequent lookups an index is
/// faster. A clone uses the same dictionary and the same decoded objects.
///
/// ```
/// use informer_tokio::Raw;
/// use informer_tokio::decode::{Decode, Packer, RawObject};
///
/// let json = br#"{"metadata":{"name":"web","labels":{"app":"web"}},"spec":{"nodeName":"n1"}}"#;
/// let kept = Packer::<Raw>::new().decode(&RawObject::parse(json))?;
/// assert_eq!(kept.unpack()?.bytes(), json);
/// assert_eq!(kept.string_at(&["spec", "nodeName"])?.as_deref(), Some("n1"));
/// # Ok::<(), informer_tokio::decode::PackError>(())
/// ```
pub struct Packer<F: OnDemand = Raw> {
    codec: Arc<Codec<F>>,
    prune: Prune,
    protobuf: bool,
}

struct Codec<F: OnDemand> {
    level: i32,
    /// The shelf of the next object.
    shelf: RwLock<Arc<Shelf<F>>>,
    training: Mutex<Training>,
}

/// The objects that were compressed with one dictionary, or without one, are on the same shelf.
struct Shelf<F: OnDemand> {
    dictionary: Option<Dictionary>,
    recent: Arc<Recent<F::Object>>,
}

/// A dictionary, prepared for compression and decompression.
struct Dictionary {
    pack: CDict<'static>,
    unpack: DDict<'static>,
}

impl<F: OnDemand> Packer<F> {
    /// Creates a decoder with compression level 1.
    #[must_use]
    pub fn new() -> Self {
        let shelf = Shelf {
            dictionary: None,
            recent: Arc::new(Recent::new()),
        };
        Self {
            codec: Arc::new(Codec {
                level: 1,
                shelf: RwLock::new(Arc::new(shelf)),
                training: Mutex::new(Training::new()),
            }),
            prune: Prune::NOTHING,
            protobuf: false,
        }
    }

    /// Removes parts of each object before it is compressed, such as [`Prune::NOISE`].
    #[must_use]
    pub fn prune(self, prune: Prune) -> Self {
        Self { prune, ..self }
    }

    /// Sets how many decoded objects are kept. The default is 128: the old and the new states of the changes that a
    /// handler takes at once. With fewer, each handler decodes on its own.
    #[must_use]
    pub fn keep_decoded(self, most: usize) -> Self {
        self.codec.shelf().recent.set_most(most);
        self
    }
}

impl Packer<Raw> {
    /// Requests protobuf: fewer bytes to receive and to compress. Objects that are served in JSON only, such as custom
    /// resources, are stored as JSON.
    #[must_use]
    pub fn protobuf(self) -> Self {
        Self {
            protobuf: true,
            ..self
        }
    }
}

impl<F: OnDemand> Default for Packer<F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: OnDemand> Clone for Packer<F> {
    fn clone(&self) -> Self {
        Self {
            codec: Arc::clone(&self.codec),
            prune: self.prune,
            protobuf: self.protobuf,
        }
    }
}

impl<F: OnDemand> fmt::Debug for Packer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packer")
            .field("level", &self.codec.level)
            .finish_non_exhaustive()
    }
}

/// The reason why an object could not be compressed, decompressed or decoded.
///
/// ```
/// use informer_tokio::{Packed, Raw, decode::PackError};
/// fn replicas(deployment: &Packed<Raw>) -> Result<u64, PackError> {
///     let whole: serde_json::Value = deployment.decode()?;
///     Ok(whole["spec"]["replicas"].as_u64().unwrap_or(1))
/// }
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// An error of zstd.
    #[error("zstd: {0}")]
    Zstd(&'static str),
    /// The object is not of the type that [`Packed::decode`] was asked for.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The object is not of the type of its cache. The text is the error of the type's decoder.
    #[error("the stored object cannot be decoded: {0}")]
    Object(String),
}

informer_core::readable_errors!(PackError);

impl PackError {
    fn of(code: zstd_safe::ErrorCode) -> Self {
        Self::Zstd(zstd_safe::get_error_name(code))
    }
}

/// A compressor with its buffers.
struct Press {
    context: CCtx<'static>,
    packed: Vec<u8>,
    kept: Vec<u8>,
}

static PRESSES: Codecs<Press> = Codecs::new(|| Press {
    context: CCtx::create(),
    packed: Vec::new(),
    kept: Vec::new(),
});

/// Drops the codecs that a list needed. A codec that was used without a dictionary has twice the memory that it needs
/// with one.
pub(crate) fn free_codecs() {
    PRESSES.clear();
    object::free_codecs();
    LATEST.clear();
}

impl<F: OnDemand> Packer<F> {
    fn pack(&self, prune: Prune, whole: &[u8]) -> Result<Packed<F>, PackError> {
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
            let made = self.codec.pack(json, context, packed);
            packed.shrink_to(KEPT_BYTES);
            kept.shrink_to(KEPT_BYTES);
            made
        })
    }
}

impl<F: OnDemand> Decode for Packer<F> {
    type Value = Packed<F>;
    type Error = PackError;

    fn decode(&self, raw: &RawObject<'_>) -> Result<Packed<F>, PackError> {
        self.pack(self.prune, raw.bytes())
    }

    fn restore(&self, raw: &RawObject<'_>) -> Result<Packed<F>, PackError> {
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
        let is_json = self.accept() == Accept::default();
        0x007a_7374 ^ self.prune.fingerprint() ^ u64::from(!is_json) << 32
    }

    fn accept(&self) -> Accept {
        if self.protobuf {
            F::accept().protobuf()
        } else {
            F::accept()
        }
    }
}

impl<F: OnDemand> Codec<F> {
    fn shelf(&self) -> Arc<Shelf<F>> {
        // Code under this lock cannot panic.
        let shelf = self.shelf.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&shelf)
    }

    fn pack(
        &self,
        json: &[u8],
        context: &mut CCtx<'_>,
        packed: &mut Vec<u8>,
    ) -> Result<Packed<F>, PackError> {
        let shelf = self.shelf();
        packed.clear();
        packed.reserve(zstd_safe::compress_bound(json.len()));
        match &shelf.dictionary {
            Some(dictionary) => context.compress_using_cdict(packed, json, &dictionary.pack),
            None => context.compress(packed, json, self.level),
        }
        .map_err(PackError::of)?;
        let training = || self.training.lock().unwrap_or_else(PoisonError::into_inner);
        let samples = training().observe(json, packed.len());
        if let Some(samples) = samples {
            let next = Arc::new(Shelf {
                dictionary: Some(Dictionary::of(&samples, self.level)),
                recent: Arc::clone(&shelf.recent),
            });
            *self.shelf.write().unwrap_or_else(PoisonError::into_inner) = next;
            training().made();
        }
        Ok(Packed::new(shelf, json, packed))
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
