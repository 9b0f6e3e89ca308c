//! Decoders: from the JSON of an object to the value that the cache stores.

mod form;
#[cfg(feature = "serde_json")]
mod json;
#[cfg(feature = "serde-json-core")]
mod json_core;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(feature = "alloc")]
mod meta;
#[cfg(feature = "alloc")]
pub mod packing;
#[cfg(feature = "alloc")]
mod raw;

#[cfg(feature = "alloc")]
pub use form::Decoder;
pub use form::Form;
#[cfg(feature = "serde_json")]
pub use json::Json;
#[cfg(feature = "serde-json-core")]
pub use json_core::{JsonCore, JsonCoreError, JsonCoreProblem};
#[cfg(feature = "lz4")]
pub use lz4::{PackedLz4, PackerLz4};
#[cfg(feature = "alloc")]
pub use meta::Meta;
#[cfg(feature = "alloc")]
pub use raw::Raw;

use core::fmt::{self, Write};

use crate::json::JsonStr;
use crate::wire::ObjectHead;

/// The `Accept` header for complete objects in JSON.
const ACCEPT_JSON: &str = "application/json";

/// A decoder: it turns the JSON of an object into the value that the cache stores.
///
/// A runtime calls it on the driver's task or on a pool of threads, never under the cache's lock. Only the returned
/// value is stored. A closure that takes a [`RawObject`] is a decoder:
///
/// ```
/// use informer_core::{Decode, RawObject};
///
/// fn decoder() -> impl Decode<Value = usize> {
///     |raw: &RawObject<'_>| Ok::<_, core::convert::Infallible>(raw.json().len())
/// }
/// # let _ = decoder();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a decoder of objects",
    label = "does not implement `Decode`",
    note = "use `Raw`, `Meta`, `Json::<T>::new()` for a `T: Deserialize`, or a closure `|raw: &RawObject<'_>| -> Result<V, E>`"
)]
pub trait Decode {
    /// The stored value.
    type Value;
    /// The reason for rejecting an object.
    type Error: fmt::Display;

    /// Decodes one object.
    ///
    /// # Errors
    /// Returns an error to reject the object. The rejection is reported; the cache keeps the older state of the object
    /// and marks its key as stale.
    fn decode(&self, raw: &RawObject<'_>) -> Result<Self::Value, Self::Error>;

    /// Returns a fingerprint of the stored form, so that a decoder does not restore a journal that another decoder
    /// wrote.
    fn fingerprint(&self) -> u64 {
        0
    }

    /// Calls `keep` with the bytes that a [`RecordLog`](crate::journal::RecordLog) stores for an object: JSON that includes
    /// the object's identity, and from which [`Decode::decode`] produces the same value.
    ///
    /// The default passes the original JSON. A decoder that stores few fields should pass only those, and a decoder
    /// that discards secrets must not pass them.
    fn persist(&self, raw: &RawObject<'_>, keep: &mut dyn FnMut(&[u8])) {
        keep(raw.json());
    }

    /// Decodes the bytes that [`Decode::persist`] passed to `keep`.
    ///
    /// The default decodes them like any other object. A decoder that prunes objects can skip pruning here.
    ///
    /// # Errors
    /// Returns an error to reject the object. The rejection is reported, and the object is not restored.
    ///
    /// ```
    /// use informer_core::{Decode, Decoder, Json, RawObject, json::Prune};
    ///
    /// let json = br#"{"metadata":{"name":"web","managedFields":[{"manager":"kubelet"}]}}"#;
    /// let decoder = Decoder::<Json<serde_json::Value>>::new().prune(Prune::NOISE);
    /// let mut kept = Vec::new();
    /// decoder.persist(&RawObject::parse(json), &mut |bytes| kept.extend_from_slice(bytes));
    /// let pod = decoder.restore(&RawObject::parse(&kept))?;
    /// assert_eq!(pod["metadata"], serde_json::json!({"name": "web"}));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    fn restore(&self, raw: &RawObject<'_>) -> Result<Self::Value, Self::Error> {
        self.decode(raw)
    }

    /// Returns whether decoding is slow enough for a runtime with several threads to copy the objects of a large list
    /// and decode them in parallel. Copying 10 kB takes less than a microsecond, and passing it to another thread a
    /// few.
    fn is_costly(&self) -> bool {
        false
    }

    /// Returns whether the decoder ignores `metadata.managedFields`, so that they may be left out of a frame.
    ///
    /// managedFields make up a third of many objects. If they are skipped, an object that exceeds the frame limit only
    /// because of them is decoded nevertheless, with an empty array in their place.
    ///
    /// ```
    /// use informer_core::{Decode, Decoder, Json, Meta, json::Prune};
    ///
    /// assert!(Decoder::<Meta>::new().skips_managed_fields());
    /// let whole = Decoder::<Json<serde_json::Value>>::new();
    /// assert!(!whole.skips_managed_fields());
    /// assert!(whole.prune(Prune::NOISE).skips_managed_fields());
    /// ```
    fn skips_managed_fields(&self) -> bool {
        false
    }

    /// Returns the `Accept` headers for lists and watches. They should request no more than the decoder stores.
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

/// An object as received: its JSON, and the identity that the scanner read from it.
#[derive(Clone, Copy, Debug)]
pub struct RawObject<'a> {
    json: &'a [u8],
    head: ObjectHead<'a>,
}

/// The positions of an object's identity in its JSON, see [`RawObject::places`].
#[derive(Clone, Copy, Debug)]
pub struct Places([(u32, u32); 8]);

impl<'a> RawObject<'a> {
    pub(crate) const fn new(json: &'a [u8], head: ObjectHead<'a>) -> Self {
        Self { json, head }
    }

    /// Parses the identity of an object from its JSON.
    #[must_use]
    pub fn parse(json: &'a [u8]) -> Self {
        Self {
            json,
            head: ObjectHead::parse(json, true),
        }
    }

    /// Returns the positions of the identity in the JSON, for [`RawObject::of_copy`].
    #[must_use]
    pub fn places(&self) -> Places {
        let head = &self.head;
        let start = self.json.as_ptr().addr();
        let parts = [
            head.kind.raw(),
            head.api_version.raw(),
            head.name.raw(),
            head.namespace.raw(),
            head.uid.raw(),
            head.resource_version.raw(),
            head.labels.unwrap_or_default(),
            head.metadata.unwrap_or_default(),
        ];
        // The positions of a missing part are arbitrary, but its length is zero.
        Places(parts.map(|part| {
            let from = part.as_ptr().addr().wrapping_sub(start);
            let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
            (place(from), place(from.wrapping_add(part.len())))
        }))
    }

    /// Creates an object from a copy of its JSON without parsing the copy.
    #[must_use]
    pub fn of_copy(json: &'a [u8], places: &Places) -> Self {
        if u32::try_from(json.len()).is_err() {
            return Self::parse(json);
        }
        let [
            kind,
            api_version,
            name,
            namespace,
            uid,
            version,
            labels,
            metadata,
        ] = places.0.map(|(from, to)| {
            let place = usize::try_from(from).ok()?..usize::try_from(to).ok()?;
            json.get(place).filter(|part| !part.is_empty())
        });
        let text = |part: Option<&'a [u8]>| part.map(JsonStr::new).unwrap_or_default();
        let head = ObjectHead {
            kind: text(kind),
            api_version: text(api_version),
            name: text(name),
            namespace: text(namespace),
            uid: text(uid),
            resource_version: text(version),
            labels,
            annotations: None,
            metadata,
        };
        Self { json, head }
    }

    /// Returns the object's JSON: one complete and well-formed value.
    #[must_use]
    pub const fn json(&self) -> &'a [u8] {
        self.json
    }

    /// Returns `kind`; empty if absent, as in most lists.
    #[must_use]
    pub const fn kind(&self) -> JsonStr<'a> {
        self.head.kind
    }

    /// Returns `apiVersion`; empty if absent, as in most lists.
    #[must_use]
    pub const fn api_version(&self) -> JsonStr<'a> {
        self.head.api_version
    }

    /// Returns `metadata.name`.
    #[must_use]
    pub const fn name(&self) -> JsonStr<'a> {
        self.head.name
    }

    /// Returns `metadata.namespace`; empty if absent.
    #[must_use]
    pub const fn namespace(&self) -> JsonStr<'a> {
        self.head.namespace
    }

    /// Returns `metadata.uid`; empty if absent.
    #[must_use]
    pub const fn uid(&self) -> JsonStr<'a> {
        self.head.uid
    }

    /// Returns `metadata.resourceVersion`; empty if absent.
    #[must_use]
    pub const fn resource_version(&self) -> JsonStr<'a> {
        self.head.resource_version
    }

    /// Returns the JSON of `metadata.labels`, if present.
    #[must_use]
    pub const fn labels(&self) -> Option<&'a [u8]> {
        self.head.labels
    }

    /// Returns the JSON of `metadata`, if present.
    #[must_use]
    pub const fn metadata(&self) -> Option<&'a [u8]> {
        self.head.metadata
    }

    /// Writes the object's key: `namespace/name`, or `name`.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write_key(&self, out: &mut dyn Write) -> fmt::Result {
        if !self.head.namespace.is_empty() {
            self.head.namespace.write_to(out)?;
            out.write_char('/')?;
        }
        self.head.name.write_to(out)
    }
}
