//! Decoders: from the JSON of an object to the value that the cache stores.

mod accept;
mod form;
#[cfg(feature = "serde_json")]
mod json;
#[cfg(feature = "serde-json-core")]
mod json_core;
#[cfg(feature = "alloc")]
mod meta;
#[cfg(feature = "alloc")]
mod on_demand;
#[cfg(feature = "prost")]
mod proto;
#[cfg(feature = "alloc")]
mod raw;
mod raw_object;

pub use accept::Accept;
#[cfg(feature = "alloc")]
pub use form::Decoder;
pub use form::Form;
#[cfg(feature = "serde_json")]
pub use json::Json;
#[cfg(feature = "serde-json-core")]
pub use json_core::{JsonCore, JsonCoreError};
#[cfg(feature = "alloc")]
pub use meta::Meta;
#[cfg(feature = "alloc")]
pub use on_demand::OnDemand;
#[cfg(feature = "prost")]
#[doc(no_inline)]
pub use prost;
#[cfg(feature = "prost")]
pub use proto::Proto;
#[cfg(feature = "alloc")]
pub use raw::Raw;
pub use raw_object::{OwnerReference, Places, RawObject};

use core::fmt;

#[cfg(feature = "protobuf")]
use crate::wire::protobuf::Message;

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
    note = "use `Decoder::<Raw>::new()`, `Decoder::<Meta>::new()`, `Decoder::<Json<T>>::new()` for a `T: Deserialize`, or a closure `|raw: &RawObject<'_>| -> Result<V, E>`"
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

    /// Returns a number that tells decoders of one type apart: two with the same number make the same of every object, so
    /// they can share an informer. `None` if that is not known, as of a closure that captures something.
    ///
    /// The default is the fingerprint, if there is one. Decoders of a type without data are the same.
    ///
    /// ```
    /// use informer_core::{Decode, RawObject};
    ///
    /// /// Keeps objects up to a size, and of larger ones nothing.
    /// struct UpTo(usize);
    ///
    /// impl Decode for UpTo {
    ///     type Value = Vec<u8>;
    ///     type Error = core::convert::Infallible;
    ///
    ///     fn decode(&self, raw: &RawObject<'_>) -> Result<Vec<u8>, Self::Error> {
    ///         let bytes = raw.bytes();
    ///         Ok(if bytes.len() > self.0 { Vec::new() } else { bytes.to_vec() })
    ///     }
    ///
    ///     // Without this, each request to a factory would have a watch of its own.
    ///     fn distinction(&self) -> Option<u64> {
    ///         Some(self.0 as u64)
    ///     }
    /// }
    /// ```
    fn distinction(&self) -> Option<u64> {
        let fingerprint = self.fingerprint();
        (fingerprint != 0 || size_of_val(self) == 0).then_some(fingerprint)
    }

    /// Calls `keep` with the bytes that a journal stores for an object: JSON or protobuf
    /// that includes the object's identity, and from which [`Decode::decode`] produces the same value.
    ///
    /// The default passes the object as received. A decoder that stores few fields should pass only those, and a decoder
    /// that discards secrets must not pass them.
    fn persist(&self, raw: &RawObject<'_>, keep: &mut dyn FnMut(&[u8])) {
        keep(raw.bytes());
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

    /// Returns whether a value consists of many allocations. A runtime with several threads then leaves all objects to the
    /// threads that help to decode, and returns replaced ones to them, so that their memory is allocated and freed by
    /// the same thread. Only a decoder that [is costly](Decode::is_costly) is asked.
    ///
    /// ```
    /// use informer_core::{Decode, Decoder, Json, Raw};
    ///
    /// assert!(Decoder::<Json<serde_json::Value>>::new().is_in_pieces());
    /// assert!(!Decoder::<Raw>::new().is_in_pieces());
    /// ```
    fn is_in_pieces(&self) -> bool {
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

    /// Returns what the decoder can read. It should request no more than it stores.
    fn accept(&self) -> Accept {
        Accept::default()
    }
}

/// A decoder of protobuf: a closure that reads the fields of a message by their numbers.
///
/// The server is asked for nothing but protobuf, in which it serves built-in resources, and no custom ones.
///
/// ```
/// use informer_core::RawObject;
/// use informer_core::decode::FromProtobuf;
/// use informer_core::protobuf::Message;
///
/// // The length of a Pod's node name.
/// let decoder = FromProtobuf(|_: &RawObject<'_>, pod: Message<'_>| {
///     Ok::<_, core::convert::Infallible>(pod.text(&[2, 10]).map_or(0, str::len))
/// });
/// # let _ = decoder;
/// ```
#[cfg(feature = "protobuf")]
#[derive(Clone, Copy, Debug)]
pub struct FromProtobuf<F>(pub F);

#[cfg(feature = "protobuf")]
impl<F, V, E> Decode for FromProtobuf<F>
where
    F: Fn(&RawObject<'_>, Message<'_>) -> Result<V, E>,
    E: fmt::Display,
{
    type Value = V;
    type Error = E;

    fn decode(&self, raw: &RawObject<'_>) -> Result<V, E> {
        // The reflector accepts no other format.
        self.0(raw, raw.protobuf().unwrap_or(Message::new(&[])))
    }

    fn fingerprint(&self) -> u64 {
        // It differs from that of a closure for JSON.
        0x7062_6366
    }

    fn distinction(&self) -> Option<u64> {
        (size_of_val(self) == 0).then_some(0)
    }

    fn accept(&self) -> Accept {
        Accept::default().only_protobuf()
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
