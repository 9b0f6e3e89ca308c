//! Objects of which only the metadata is stored.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::convert::Infallible;
use core::fmt;

use super::{Accept, Decode, Decoder, Form, RawObject};
use crate::json::{Fields, JsonStr, Prune, as_str, value_at};
#[cfg(feature = "protobuf")]
use crate::wire::protobuf::append_metadata;

/// The metadata of an object: the JSON of `metadata`, without managedFields.
///
/// Its decoder requests only metadata from the server, in protobuf with the feature `protobuf`, and stores it as JSON.
/// Old and aggregated API servers may send complete objects nevertheless; the decoder then discards the rest.
///
/// ```
/// use informer_core::{Decode, Decoder, Meta, RawObject};
///
/// let json = br#"{"metadata":{"name":"web","managedFields":[{}],"labels":{"app":"web"}},"spec":{}}"#;
/// let kept = Decoder::<Meta>::new().decode(&RawObject::parse(json)).unwrap();
/// assert_eq!(kept.json(), br#"{"name":"web","labels":{"app":"web"}}"#);
/// assert_eq!(kept.label("app").map(|v| v.to_string()).as_deref(), Some("web"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Meta(Box<[u8]>);

impl Decode for Decoder<Meta> {
    type Value = Meta;
    type Error = Infallible;

    fn decode(&self, raw: &RawObject<'_>) -> Result<Meta, Infallible> {
        Ok(Meta(metadata(self.prune, raw)))
    }

    fn restore(&self, raw: &RawObject<'_>) -> Result<Meta, Infallible> {
        Ok(Meta(raw.metadata_json().unwrap_or(b"{}").into()))
    }

    fn persist(&self, raw: &RawObject<'_>, keep: &mut dyn FnMut(&[u8])) {
        keep(&[br#"{"metadata":"#, &*metadata(self.prune, raw), b"}"].concat());
    }

    fn skips_managed_fields(&self) -> bool {
        true
    }

    fn fingerprint(&self) -> u64 {
        0x6d65_7461 ^ self.prune.fingerprint()
    }

    fn accept(&self) -> Accept {
        #[cfg(feature = "protobuf")]
        return Accept::metadata().protobuf();
        #[cfg(not(feature = "protobuf"))]
        Accept::metadata()
    }
}

impl Meta {
    /// Returns the JSON of the metadata.
    #[must_use]
    pub const fn json(&self) -> &[u8] {
        &self.0
    }

    /// Returns the JSON of the value at a path in the metadata, such as `ownerReferences`.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&[u8]> {
        value_at(&self.0, path)
    }

    /// Returns the value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<JsonStr<'_>> {
        self.at(&["labels", key]).and_then(as_str)
    }
}

impl Form for Meta {
    type Stored = Self;
    type Decoder = Decoder<Self>;

    fn labels_json(stored: &Self) -> Option<&[u8]> {
        stored.at(&["labels"])
    }

    fn with_metadata(stored: &Self, read: &mut dyn FnMut(&[u8])) {
        read(&stored.0);
    }
}

/// Writes the key, the version and the size. Annotations may be secrets.
impl fmt::Debug for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |name| self.at(&[name]).and_then(as_str).unwrap_or_default();
        f.write_str("Meta(")?;
        let namespace = text("namespace");
        if !namespace.is_empty() {
            write!(f, "{namespace}/")?;
        }
        let (name, version) = (text("name"), text("resourceVersion"));
        write!(f, "{name}@{version}, {} bytes)", self.0.len())
    }
}

/// Returns the metadata of an object as JSON, without managedFields and what is pruned.
fn metadata(prune: Prune, raw: &RawObject<'_>) -> Box<[u8]> {
    let json = all_metadata(raw);
    if prune.is_nothing() {
        return json;
    }
    let kept = prune.part(&["metadata"], &json);
    kept.map_or_else(|| (*b"{}").into(), Vec::into_boxed_slice)
}

fn all_metadata(raw: &RawObject<'_>) -> Box<[u8]> {
    #[cfg(feature = "protobuf")]
    if let Some(message) = raw.protobuf() {
        let mut json = Vec::with_capacity(message.bytes().len().min(1024));
        append_metadata(message.bytes(), &mut json);
        // A copy of the right length leaves no gap in the heap, which a shortened buffer would.
        return json.as_slice().into();
    }
    without_managed_fields(raw.metadata_json().unwrap_or(b"{}"))
}

fn without_managed_fields(metadata: &[u8]) -> Box<[u8]> {
    let kept = || Fields::new(metadata).filter(|(name, _)| !name.eq_str("managedFields"));
    // The sum of quoted names, values, colons, commas and braces, so that one allocation is enough.
    let len = kept()
        .map(|(name, value)| name.raw().len() + value.len() + 4)
        .sum::<usize>()
        + 2;
    let mut out = Vec::with_capacity(len);
    out.push(b'{');
    for (i, (name, value)) in kept().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.push(b'"');
        out.extend_from_slice(name.raw());
        out.extend_from_slice(b"\":");
        out.extend_from_slice(value);
    }
    out.push(b'}');
    out.into_boxed_slice()
}
