//! Objects decoded into a type by serde_json.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

use serde::de::DeserializeOwned;

use super::{Decode, Decoder, Form, RawObject};
use crate::json::Prune;
use crate::json::de::read;

/// An object parsed into a `T` by serde_json, with its labels: a type of k8s-openapi, or a struct with only the needed
/// fields. It dereferences to the `T`.
///
/// ```
/// use informer_core::{Decode, Decoder, Json, RawObject};
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// struct Pod { spec: Spec }
/// #[derive(Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct Spec { node_name: String }
///
/// let json = br#"{"metadata":{"name":"web","labels":{"a":"b"}},"spec":{"nodeName":"n1"}}"#;
/// let pod: Json<Pod> = Decoder::<Json<Pod>>::new().decode(&RawObject::parse(json))?;
/// assert_eq!(pod.spec.node_name, "n1");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Json<T> {
    object: T,
    labels: Option<Box<[u8]>>,
}

impl<T: DeserializeOwned> Decode for Decoder<Json<T>> {
    type Value = Json<T>;
    type Error = serde_json::Error;

    fn decode(&self, raw: &RawObject<'_>) -> Result<Json<T>, serde_json::Error> {
        self.decode_without(self.prune, raw)
    }

    fn restore(&self, raw: &RawObject<'_>) -> Result<Json<T>, serde_json::Error> {
        self.decode_without(Prune::NOTHING, raw)
    }

    fn is_costly(&self) -> bool {
        true
    }

    fn is_in_pieces(&self) -> bool {
        true
    }

    fn persist(&self, raw: &RawObject<'_>, keep: &mut dyn FnMut(&[u8])) {
        self.prune.lend(raw.json(), keep);
    }

    fn skips_managed_fields(&self) -> bool {
        self.prune.skips_managed_fields()
    }

    fn fingerprint(&self) -> u64 {
        0x6a73_6f6e ^ self.prune.fingerprint()
    }

    fn distinction(&self) -> Option<u64> {
        Some(self.fingerprint() ^ u64::from(self.keep_labels))
    }
}

impl<T: DeserializeOwned> Decoder<Json<T>> {
    fn decode_without(
        &self,
        prune: Prune,
        raw: &RawObject<'_>,
    ) -> Result<Json<T>, serde_json::Error> {
        let object = object(raw.json(), prune)?;
        let labels = if self.keep_labels {
            match raw.labels_json() {
                Some(labels) if !prune.is_nothing() => prune
                    .part(&["metadata", "labels"], labels)
                    .map(Vec::into_boxed_slice),
                labels => labels.map(Into::into),
            }
        } else {
            None
        };
        Ok(Json { object, labels })
    }
}

/// Deserializes an object without its pruned parts.
pub(super) fn object<T: DeserializeOwned>(
    json: &[u8],
    prune: Prune,
) -> Result<T, serde_json::Error> {
    match read(json, prune) {
        Ok(object) => Ok(object),
        // serde_json has the better error message, and supports types that need more than a value.
        Err(_) if prune.is_nothing() => serde_json::from_slice(json),
        Err(_) => {
            let mut kept = Vec::new();
            prune.copy(json, &mut kept);
            serde_json::from_slice(&kept)
        }
    }
}

impl<T> Json<T> {
    /// Returns the typed object.
    #[must_use]
    pub const fn get(&self) -> &T {
        &self.object
    }
}

impl<T> Deref for Json<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

impl<T: DeserializeOwned + 'static> Form for Json<T> {
    type Stored = Self;
    type Decoder = Decoder<Self>;

    fn labels_json(stored: &Self) -> Option<&[u8]> {
        stored.labels.as_deref()
    }
}

/// A type stands for its [`Json`] form.
impl<T: DeserializeOwned + 'static> Form for T {
    type Stored = Json<T>;
    type Decoder = Decoder<Json<T>>;

    fn labels_json(stored: &Json<T>) -> Option<&[u8]> {
        stored.labels.as_deref()
    }
}

/// Writes only the name of the type, since the object may be a secret. `get` returns what shows it.
impl<T> fmt::Debug for Json<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json<{}>", core::any::type_name::<T>())
    }
}
