//! Objects of which only the metadata is stored.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::convert::Infallible;
use core::fmt;

use super::{Accept, Decode, Decoder, Form, RawObject};
use crate::json::{Fields, JsonStr, as_str, value_at};

/// The metadata of an object: the JSON of `metadata`, without managedFields.
///
/// Its decoder requests only metadata from the server. Old and aggregated API servers may send complete objects
/// nevertheless; the decoder then discards the rest.
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
        Ok(Meta(without_managed_fields(
            raw.metadata().unwrap_or(b"{}"),
        )))
    }

    fn restore(&self, raw: &RawObject<'_>) -> Result<Meta, Infallible> {
        Ok(Meta(raw.metadata().unwrap_or(b"{}").into()))
    }

    fn persist(&self, raw: &RawObject<'_>, keep: &mut dyn FnMut(&[u8])) {
        let metadata = without_managed_fields(raw.metadata().unwrap_or(b"{}"));
        keep(&[br#"{"metadata":"#, &*metadata, b"}"].concat());
    }

    fn skips_managed_fields(&self) -> bool {
        true
    }

    fn fingerprint(&self) -> u64 {
        0x6d65_7461
    }

    fn accept(&self) -> Accept {
        Accept {
            list: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
            watch: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
        }
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
}

impl fmt::Debug for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&alloc::string::String::from_utf8_lossy(&self.0))
    }
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
