//! Compressed objects, and how they are read.

use core::fmt;
use std::sync::Arc;

use informer_core::decode::OnDemand;
use informer_core::json::{as_str, value_at};
use informer_core::protobuf::Message;
use informer_core::wire::Format;
use informer_core::{Form, Raw};
use zstd::zstd_safe::DCtx;

use super::codecs::Codecs;
use super::latest::LATEST;
use super::{KEPT_BYTES, PackError, Packer, Shelf, recent};
use crate::informer::Kind;

/// A compressed object that is decoded when it is read: `Packed<Pod>`, `Packed<Proto<T>>`, or `Packed<Raw>` for the
/// bytes.
///
/// The cache stores each object as the server sent it, in about a tenth of its size, and [`get`](Self::get) decodes it.
/// The last 128 decoded objects are kept, so that all handlers of a change, its index functions and a program that reads
/// the same objects again share one decoded object. [`Packer::keep_decoded`] changes the number. Selectors, filters by
/// label and [`string_at`](Self::string_at) decompress the object, in microseconds, and decode nothing.
///
/// An object that is not of the type is found when it is read, and not when it arrives: the cache has it, and `get`
/// returns an error.
///
/// ```
/// use informer_tokio::decode::PackError;
/// use informer_tokio::{Handlers, Informer, Packed, Resource};
/// # #[derive(serde::Deserialize)]
/// # struct Pod { spec: Spec }
/// # #[derive(serde::Deserialize)]
/// # #[serde(rename_all = "camelCase")]
/// # struct Spec { node_name: Option<String> }
///
/// # fn example(client: &informer_tokio::transport::BoxTransport) -> Result<(), PackError> {
/// let pods = Informer::<Packed<Pod>>::builder_for(client, Resource::new("", "v1", "pods"))
///     .index("node", |pod| pod.string_at(&["spec", "nodeName"]).ok().flatten())
///     .spawn();
/// // The filter reads a label and decodes nothing.
/// let web = Handlers::<Packed<Pod>>::new()
///     .on_update(|old, new| match (old.get(), new.get()) {
///         (Ok(old), Ok(new)) => println!("{:?} -> {:?}", old.spec.node_name, new.spec.node_name),
///         (_, Err(error)) | (Err(error), _) => eprintln!("{error}"),
///     })
///     .filter(|pod| pod.label("app").as_deref() == Some("web"));
/// pods.add_handler(web);
/// if let Some(pod) = pods.lister().get("prod", "web-1") {
///     let pod: std::sync::Arc<Pod> = pod.get()?;
///     println!("{:?}", pod.spec.node_name);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Packed<F: OnDemand = Raw> {
    pub(super) shelf: Arc<Shelf<F>>,
    /// Identifies it among the objects that have been decoded.
    number: u64,
    len: usize,
    pub(super) packed: Box<[u8]>,
}

/// A decompressor with its buffer.
struct Opener {
    context: DCtx<'static>,
    whole: Vec<u8>,
}

static OPENERS: Codecs<Opener> = Codecs::new(|| Opener {
    context: DCtx::create(),
    whole: Vec::new(),
});

/// Drops idle decompressors.
pub(super) fn free_codecs() {
    OPENERS.clear();
}

impl<F: OnDemand> Packed<F> {
    pub(super) fn new(shelf: Arc<Shelf<F>>, whole: &[u8], packed: &[u8]) -> Self {
        let number = recent::number();
        LATEST.put(number, whole);
        Self {
            number,
            shelf,
            len: whole.len(),
            packed: packed.into(),
        }
    }

    /// Returns the object, decoded unless it is one of those that were decoded last.
    ///
    /// # Errors
    /// Fails if the object is not of the type, or if the compressed data is damaged.
    pub fn get(&self) -> Result<Arc<F::Object>, PackError> {
        self.shelf.recent.get(self.number, || {
            self.read(F::from_bytes)?
                .map_err(|error| PackError::Object(error.to_string()))
        })
    }

    /// Returns the bytes of the object.
    ///
    /// # Errors
    /// Fails if the compressed data is damaged.
    pub fn unpack(&self) -> Result<Raw, PackError> {
        self.read(Raw::new)
    }

    /// Calls `read` with the object as received, in JSON or protobuf. It is decompressed into a reused buffer, unless it
    /// is one of the latest objects, whose bytes are kept.
    ///
    /// # Errors
    /// Fails if the compressed data is damaged.
    pub fn read<R>(&self, read: impl FnOnce(&[u8]) -> R) -> Result<R, PackError> {
        if let Some(whole) = LATEST.get(self.number) {
            return Ok(read(&whole));
        }
        // `read` may decompress another object with another codec.
        OPENERS.lend(|opener| {
            let Opener { context, whole } = opener;
            whole.clear();
            whole.reserve(self.len);
            match &self.shelf.dictionary {
                Some(dictionary) => {
                    context.decompress_using_ddict(whole, &self.packed, &dictionary.unpack)
                }
                None => context.decompress(whole, &self.packed),
            }
            .map_err(PackError::of)?;
            let result = read(whole);
            if whole.capacity() > KEPT_BYTES {
                *whole = Vec::new();
            }
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

    /// Decodes the object as another type, and keeps nothing of it.
    ///
    /// # Errors
    /// Fails if the object is not of the type, or if the compressed data is damaged.
    pub fn decode<T: serde::de::DeserializeOwned>(&self) -> Result<T, PackError> {
        Ok(self.read(|json| serde_json::from_slice(json))??)
    }
}

impl<F: OnDemand> Form for Packed<F> {
    type Stored = Self;
    type Decoder = Packer<F>;

    fn with_labels(stored: &Self, read: &mut dyn FnMut(&[u8])) {
        // It was compressed here from a valid object, so only damaged memory can cause an error.
        let _ = stored.read(|whole| match Format::of_object(whole) {
            Format::Protobuf => Raw::with_labels(&Raw::new(whole), read),
            Format::Json | _ => value_at(whole, &["metadata", "labels"])
                .into_iter()
                .for_each(read),
        });
    }

    fn with_metadata(stored: &Self, read: &mut dyn FnMut(&[u8])) {
        let _ = stored.read(|whole| match Format::of_object(whole) {
            Format::Protobuf => Raw::with_metadata(&Raw::new(whole), read),
            Format::Json | _ => value_at(whole, &["metadata"]).into_iter().for_each(read),
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

impl<F: OnDemand + Kind> Kind for Packed<F> {
    fn resource() -> informer_core::OwnedResource {
        F::resource()
    }
}

impl<F: OnDemand> Clone for Packed<F> {
    fn clone(&self) -> Self {
        Self {
            shelf: Arc::clone(&self.shelf),
            number: self.number,
            len: self.len,
            packed: self.packed.clone(),
        }
    }
}

impl<F: OnDemand> fmt::Debug for Packed<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packed({} bytes in {})", self.len, self.packed.len())
    }
}
