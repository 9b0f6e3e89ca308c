//! Objects stored as received.

use alloc::boxed::Box;
use core::convert::Infallible;
use core::fmt;

use super::{Decode, Decoder, Form, RawObject};
use crate::json::value_at;
use crate::wire::ObjectHead;

/// An object stored as the JSON that was received, unmodified. Values are read from it on demand.
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
        Ok(Raw(raw.json().into()))
    }

    fn fingerprint(&self) -> u64 {
        0x0072_6177
    }
}

impl Raw {
    /// Stores a copy of an object's JSON, which must be well-formed.
    #[must_use]
    pub fn new(json: &[u8]) -> Self {
        Self(json.into())
    }

    /// Returns the bytes as the API server sent them.
    #[must_use]
    pub const fn bytes(&self) -> &[u8] {
        &self.0
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
        ObjectHead::parse(&stored.0, false).labels
    }

    fn json(stored: &Self) -> Option<&[u8]> {
        Some(&stored.0)
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&alloc::string::String::from_utf8_lossy(&self.0))
    }
}
