//! From the bytes of an object to what the cache keeps of it.

#[cfg(feature = "serde-json-core")]
mod json_core;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(feature = "alloc")]
mod metadata;
#[cfg(feature = "alloc")]
pub mod packing;
#[cfg(feature = "alloc")]
mod raw;
#[cfg(feature = "serde_json")]
mod typed;

#[cfg(feature = "serde-json-core")]
pub use json_core::{JsonCore, JsonCoreError, JsonCoreProblem};
#[cfg(feature = "lz4")]
pub use lz4::{Lz4Json, PackedLz4};
#[cfg(feature = "alloc")]
pub use metadata::{Meta, Metadata};
#[cfg(feature = "alloc")]
pub use raw::{Raw, RawJson};
#[cfg(feature = "serde_json")]
pub use typed::{Json, Typed};

use core::fmt::{self, Write};

use crate::json::JsonStr;
use crate::wire::ObjectHead;

/// The `Accept` header for whole objects.
pub const ACCEPT_JSON: &str = "application/json";

/// Decides what the cache keeps of an object.
///
/// It runs on the driver or on a pool of threads, never under the cache's lock, on one object at a time. What it does
/// not keep is never allocated. A closure that takes a [`RawObject`] is one:
///
/// ```
/// use informer_core::{Decode, RawObject};
///
/// fn decoder() -> impl Decode<Value = usize> {
///     |raw: &RawObject<'_>| Ok::<_, core::convert::Infallible>(raw.json().len())
/// }
/// # let _ = decoder();
/// ```
pub trait Decode {
    /// What is kept.
    type Value;
    /// Why an object was refused.
    type Error: fmt::Display;

    /// Decodes one object.
    ///
    /// # Errors
    /// An object that is refused is reported; the cache keeps its older state and marks the key as stale.
    fn decode(&self, raw: &RawObject<'_>) -> Result<Self::Value, Self::Error>;

    /// Names what is kept, so that a persisted cache of another decoder is not taken for one's own.
    fn fingerprint(&self) -> u64 {
        0
    }

    /// Calls `keep` with what a [`Journal`](crate::journal::Journal) is to keep of an object: JSON with its identity, which
    /// [`Decode::decode`] takes for the same as the object itself. Left out, it is the JSON as it came; a decoder that
    /// keeps little should give as little, and one that keeps no secrets none.
    fn persist(&self, raw: &RawObject<'_>, keep: &mut dyn FnMut(&[u8])) {
        keep(raw.json());
    }

    /// Decodes what [`Decode::persist`] has kept. Left out, it is decoded as any object; a decoder that leaves out parts
    /// need not look for them again.
    ///
    /// # Errors
    /// An object that is refused is reported, and not restored.
    ///
    /// ```
    /// use informer_core::{Decode, Json, RawObject, json::Prune};
    ///
    /// let json = br#"{"metadata":{"name":"web","managedFields":[{"manager":"kubelet"}]}}"#;
    /// let decoder = Json::<serde_json::Value>::new().prune(Prune::NOISE);
    /// let mut kept = Vec::new();
    /// decoder.persist(&RawObject::parse(json), &mut |bytes| kept.extend_from_slice(bytes));
    /// let pod = decoder.restore(&RawObject::parse(&kept))?;
    /// assert_eq!(pod["metadata"], serde_json::json!({"name": "web"}));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    fn restore(&self, raw: &RawObject<'_>) -> Result<Self::Value, Self::Error> {
        self.decode(raw)
    }

    /// Tells whether a runtime with several threads gains by copying the objects of a large list and decoding them on
    /// some of them. Copying 10 kB takes less than a microsecond, and handing it on a few.
    fn is_costly(&self) -> bool {
        false
    }

    /// Returns whether `metadata.managedFields` is not read, so that it may be left out of a frame.
    ///
    /// managedFields take a third of many objects. If they are skipped, an object that exceeds the frame limit only
    /// because of them is decoded all the same; it comes with an empty array in their place.
    ///
    /// ```
    /// use informer_core::{Decode, Json, Meta, json::Prune};
    ///
    /// assert!(Meta.skips_managed_fields());
    /// let whole = Json::<serde_json::Value>::new();
    /// assert!(!whole.skips_managed_fields());
    /// assert!(whole.prune(Prune::NOISE).skips_managed_fields());
    /// ```
    fn skips_managed_fields(&self) -> bool {
        false
    }

    /// Returns the `Accept` headers that ask for no more than is kept: for lists, and for watches.
    fn accept(&self) -> Accept {
        Accept {
            list: ACCEPT_JSON,
            watch: ACCEPT_JSON,
        }
    }
}

impl<F, V, E> Decode for F
where
    F: Fn(&RawObject<'_>) -> Result<V, E>,
    E: fmt::Display,
{
    type Value = V;
    type Error = E;

    fn decode(&self, raw: &RawObject<'_>) -> Result<V, E> {
        self(raw)
    }
}

/// The `Accept` headers of an informer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accept {
    /// For lists.
    pub list: &'static str,
    /// For watches and streaming lists.
    pub watch: &'static str,
}

impl Default for Accept {
    fn default() -> Self {
        Self {
            list: ACCEPT_JSON,
            watch: ACCEPT_JSON,
        }
    }
}

/// One object as it came: its JSON, and the identity that the scanner read from it.
#[derive(Clone, Copy, Debug)]
pub struct RawObject<'a> {
    json: &'a [u8],
    head: ObjectHead<'a>,
}

impl<'a> RawObject<'a> {
    pub(crate) const fn new(json: &'a [u8], head: ObjectHead<'a>) -> Self {
        Self { json, head }
    }

    /// Reads the identity of an object from its JSON.
    ///
    /// ```
    /// use informer_core::RawObject;
    /// let raw = RawObject::parse(br#"{"metadata":{"name":"web","namespace":"prod"}}"#);
    /// assert_eq!(raw.name().to_string(), "web");
    /// ```
    #[must_use]
    pub fn parse(json: &'a [u8]) -> Self {
        Self {
            json,
            head: ObjectHead::parse(json, true),
        }
    }

    /// Returns the object's JSON: one whole value, checked to be well-formed.
    #[must_use]
    pub const fn json(&self) -> &'a [u8] {
        self.json
    }

    /// Returns `kind`; empty where there is none, as in most lists.
    #[must_use]
    pub const fn kind(&self) -> JsonStr<'a> {
        self.head.kind
    }

    /// Returns `apiVersion`; empty where there is none, as in most lists.
    #[must_use]
    pub const fn api_version(&self) -> JsonStr<'a> {
        self.head.api_version
    }

    /// Returns `metadata.name`.
    #[must_use]
    pub const fn name(&self) -> JsonStr<'a> {
        self.head.name
    }

    /// Returns `metadata.namespace`; empty where there is none.
    #[must_use]
    pub const fn namespace(&self) -> JsonStr<'a> {
        self.head.namespace
    }

    /// Returns `metadata.uid`; empty where there is none.
    #[must_use]
    pub const fn uid(&self) -> JsonStr<'a> {
        self.head.uid
    }

    /// Returns `metadata.resourceVersion`; empty where there is none.
    #[must_use]
    pub const fn resource_version(&self) -> JsonStr<'a> {
        self.head.resource_version
    }

    /// Returns the JSON of `metadata.labels`.
    #[must_use]
    pub const fn labels(&self) -> Option<&'a [u8]> {
        self.head.labels
    }

    /// Returns the JSON of `metadata`.
    #[must_use]
    pub const fn metadata(&self) -> Option<&'a [u8]> {
        self.head.metadata
    }

    /// Writes the object's key: `namespace/name`, or `name`.
    ///
    /// # Errors
    /// Fails where `out` does.
    pub fn write_key(&self, out: &mut dyn Write) -> fmt::Result {
        if !self.head.namespace.is_empty() {
            self.head.namespace.write_to(out)?;
            out.write_char('/')?;
        }
        self.head.name.write_to(out)
    }
}

/// What can be asked of a cached value whatever its form.
///
/// Selectors and index functions ask it, so they work on typed objects and on bytes alike. For a value of one's own
/// `impl View for MyValue {}` is enough; it then has no labels.
pub trait View {
    /// Returns the JSON of the object's labels, where they are kept.
    fn labels_json(&self) -> Option<&[u8]> {
        None
    }

    /// Returns the JSON of the object, where it is kept as it is.
    fn json(&self) -> Option<&[u8]> {
        None
    }

    /// Calls `read` with the JSON of the object's labels, where they are kept, unpacked where need be.
    fn with_labels(&self, read: &mut dyn FnMut(&[u8])) {
        self.labels_json().into_iter().for_each(read);
    }

    /// Calls `read` with the JSON of the object, where it is kept, unpacked where need be.
    fn with_json(&self, read: &mut dyn FnMut(&[u8])) {
        self.json().into_iter().for_each(read);
    }
}
