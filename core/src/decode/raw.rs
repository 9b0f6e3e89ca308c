//! Objects stored as received.

use alloc::boxed::Box;
use core::convert::Infallible;
use core::fmt;

use super::{Decode, RawObject, View};
use crate::json::value_at;
use crate::wire::ObjectHead;

/// A decoder that stores the JSON of each object unmodified. Values are read from it on demand.
///
/// ```
/// use informer_core::{Decode, Raw, RawObject};
///
/// let json = br#"{"metadata":{"name":"web"},"spec":{"nodeName":"n1"}}"#;
/// let kept = Raw.decode(&RawObject::parse(json)).unwrap();
/// assert_eq!(kept.bytes(), json);
/// assert_eq!(kept.at(&["spec", "nodeName"]), Some(&br#""n1""#[..]));
/// ```
#[derive(Clone, Copy, Default, Debug)]
pub struct Raw;

impl Decode for Raw {
    type Value = RawJson;
    type Error = Infallible;

    fn decode(&self, raw: &RawObject<'_>) -> Result<RawJson, Infallible> {
        Ok(RawJson(raw.json().into()))
    }

    fn fingerprint(&self) -> u64 {
        0x0072_6177
    }
}

/// The JSON of an object.
#[derive(Clone, PartialEq, Eq)]
pub struct RawJson(Box<[u8]>);

impl RawJson {
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
    ///
    /// ```
    /// use informer_core::{Decode, Raw, RawObject};
    ///
    /// let kept = Raw.decode(&RawObject::parse(br#"{"replicas":3}"#)).unwrap();
    /// let value: std::collections::BTreeMap<String, u32> = kept.decode()?;
    /// assert_eq!(value["replicas"], 3);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[cfg(feature = "serde_json")]
    pub fn decode<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }
}

impl View for RawJson {
    fn labels_json(&self) -> Option<&[u8]> {
        ObjectHead::parse(&self.0, false).labels
    }

    fn json(&self) -> Option<&[u8]> {
        Some(&self.0)
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&alloc::string::String::from_utf8_lossy(&self.0))
    }
}
