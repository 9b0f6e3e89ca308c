//! Objects stored as received.

use alloc::boxed::Box;
#[cfg(feature = "protobuf")]
use alloc::vec::Vec;
use core::convert::Infallible;
use core::fmt;

#[cfg(feature = "protobuf")]
use super::Accept;
use super::{Decode, Decoder, Form, RawObject};
use crate::json::value_at;
#[cfg(feature = "protobuf")]
use crate::wire::protobuf::{Message, append_labels, append_metadata};
use crate::wire::{Format, ObjectHead};

/// An object stored as the JSON or protobuf that was received, unmodified. Values are read from it on demand.
///
/// ```
/// use informer_core::{Decode, Decoder, Raw, RawObject};
///
/// let json = br#"{"metadata":{"name":"web"},"spec":{"nodeName":"n1"}}"#;
/// let pod: Raw = Decoder::<Raw>::new().decode(&RawObject::parse(json)).unwrap();
/// assert_eq!(pod.bytes(), json);
/// assert_eq!(pod.at(&["spec", "nodeName"]), Some(&br#""n1""#[..]));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Raw(Box<[u8]>);

impl Decode for Decoder<Raw> {
    type Value = Raw;
    type Error = Infallible;

    fn decode(&self, raw: &RawObject<'_>) -> Result<Raw, Infallible> {
        let mut kept = None;
        self.prune
            .lend(raw.bytes(), &mut |bytes| kept = Some(bytes.into()));
        Ok(Raw(kept.unwrap_or_default()))
    }

    #[cfg(not(feature = "protobuf"))]
    fn fingerprint(&self) -> u64 {
        0x0072_6177 ^ self.prune.fingerprint()
    }

    #[cfg(feature = "protobuf")]
    fn fingerprint(&self) -> u64 {
        0x0072_6177 ^ self.prune.fingerprint() ^ u64::from(self.protobuf)
    }

    fn restore(&self, raw: &RawObject<'_>) -> Result<Raw, Infallible> {
        Ok(Raw(raw.bytes().into()))
    }

    fn persist(&self, raw: &RawObject<'_>, keep: &mut dyn FnMut(&[u8])) {
        self.prune.lend(raw.bytes(), keep);
    }

    fn skips_managed_fields(&self) -> bool {
        self.prune.skips_managed_fields()
    }

    #[cfg(feature = "protobuf")]
    fn accept(&self) -> Accept {
        if self.protobuf {
            Accept::default().protobuf()
        } else {
            Accept::default()
        }
    }
}

#[cfg(feature = "protobuf")]
impl Decoder<Raw> {
    /// Requests protobuf. Objects that are served in JSON only, such as custom resources, are stored as JSON.
    ///
    /// ```
    /// use informer_core::{Decode, Decoder, Raw, RawObject};
    ///
    /// let pod = b"\x0a\x05\x0a\x03web\x12\x04\x52\x02n1";
    /// let pod = Decoder::<Raw>::new().protobuf().decode(&RawObject::parse(pod)).unwrap();
    /// assert_eq!(pod.message().and_then(|pod| pod.text(&[2, 10])), Some("n1"));
    /// ```
    #[must_use]
    pub const fn protobuf(self) -> Self {
        Self {
            protobuf: true,
            ..self
        }
    }
}

impl Raw {
    /// Stores a copy of an object's JSON, which must be well-formed and begin with its brace.
    #[must_use]
    pub fn new(json: &[u8]) -> Self {
        Self(json.into())
    }

    /// Returns the object's JSON, unless it was received in protobuf.
    fn json(&self) -> Option<&[u8]> {
        (Format::of_object(&self.0) == Format::Json).then_some(&self.0)
    }

    /// Returns the bytes as the API server sent them.
    #[must_use]
    pub const fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the object's message, if it was received in protobuf.
    #[cfg(feature = "protobuf")]
    #[must_use]
    pub fn message(&self) -> Option<Message<'_>> {
        (Format::of_object(&self.0) == Format::Protobuf).then(|| Message::new(&self.0))
    }

    /// Returns the JSON of the value at a path. A number in the path is an index into an array.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&[u8]> {
        value_at(&self.0, path)
    }

    /// Decodes the object as a type.
    ///
    /// # Errors
    /// Fails if the object does not match the type.
    #[cfg(feature = "serde_json")]
    pub fn decode<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }
}

impl Form for Raw {
    type Stored = Self;
    type Decoder = Decoder<Self>;

    fn labels_json(stored: &Self) -> Option<&[u8]> {
        ObjectHead::parse(stored.json()?, false).labels
    }

    fn json(stored: &Self) -> Option<&[u8]> {
        stored.json()
    }

    #[cfg(feature = "protobuf")]
    fn with_labels(stored: &Self, read: &mut dyn FnMut(&[u8])) {
        with_labels(&stored.0, read);
    }

    #[cfg(feature = "protobuf")]
    fn with_message(stored: &Self, read: &mut dyn FnMut(Message<'_>)) {
        stored.message().into_iter().for_each(read);
    }

    #[cfg(feature = "protobuf")]
    fn with_metadata(stored: &Self, read: &mut dyn FnMut(&[u8])) {
        with_metadata(&stored.0, read);
    }
}

/// Calls `read` with the JSON of the labels of an object in either format.
#[cfg(feature = "protobuf")]
pub(super) fn with_labels(object: &[u8], read: &mut dyn FnMut(&[u8])) {
    match Format::of_object(object) {
        Format::Json => ObjectHead::parse(object, false)
            .labels
            .into_iter()
            .for_each(read),
        Format::Protobuf => {
            let mut json = Vec::new();
            append_labels(object, &mut json);
            read(&json);
        }
    }
}

/// Calls `read` with the JSON of the metadata of an object in either format, without managedFields in protobuf.
#[cfg(feature = "protobuf")]
pub(super) fn with_metadata(object: &[u8], read: &mut dyn FnMut(&[u8])) {
    match Format::of_object(object) {
        Format::Json => ObjectHead::parse(object, false)
            .metadata
            .into_iter()
            .for_each(read),
        Format::Protobuf => {
            let mut json = Vec::new();
            append_metadata(object, &mut json);
            read(&json);
        }
    }
}

/// Writes the key, the version and the size. The content may be a secret.
impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Raw")?;
        RawObject::parse(&self.0).show(f)
    }
}
