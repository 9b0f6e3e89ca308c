//! Objects decoded into a type by serde_json.

use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;

use serde::de::DeserializeOwned;

use super::{Decode, RawObject, View};

/// Decodes each object into a `T` by serde_json: a type of k8s-openapi, or a struct with the fields one needs.
///
/// ```
/// use informer_core::{Decode, Json, RawObject};
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// struct Pod { spec: Spec }
/// #[derive(Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct Spec { node_name: String }
///
/// let json = br#"{"metadata":{"name":"web","labels":{"a":"b"}},"spec":{"nodeName":"n1"}}"#;
/// let pod = Json::<Pod>::new().decode(&RawObject::parse(json))?;
/// assert_eq!(pod.spec.node_name, "n1");
/// # Ok::<(), serde_json::Error>(())
/// ```
pub struct Json<T> {
    keep_labels: bool,
    of: PhantomData<fn() -> T>,
}

impl<T> Json<T> {
    /// Makes a decoder that keeps the labels beside the object, for selectors.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            keep_labels: true,
            of: PhantomData,
        }
    }

    /// Keeps no labels: less memory, and no selection by labels from the cache.
    #[must_use]
    pub const fn without_labels(self) -> Self {
        Self {
            keep_labels: false,
            of: PhantomData,
        }
    }
}

impl<T> Default for Json<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for Json<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Json<T> {}

impl<T> fmt::Debug for Json<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Json")
            .field("keep_labels", &self.keep_labels)
            .finish_non_exhaustive()
    }
}

impl<T: DeserializeOwned> Decode for Json<T> {
    type Value = Typed<T>;
    type Error = serde_json::Error;

    fn decode(&self, raw: &RawObject<'_>) -> Result<Typed<T>, serde_json::Error> {
        let object = serde_json::from_slice(raw.json())?;
        let labels = if self.keep_labels {
            raw.labels().map(Into::into)
        } else {
            None
        };
        Ok(Typed { object, labels })
    }

    fn fingerprint(&self) -> u64 {
        0x6a73_6f6e
    }
}

/// A typed object, with its labels beside it. It dereferences to the object.
#[derive(Clone, PartialEq, Eq)]
pub struct Typed<T> {
    object: T,
    labels: Option<Box<[u8]>>,
}

impl<T> Deref for Typed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

impl<T> View for Typed<T> {
    fn labels_json(&self) -> Option<&[u8]> {
        self.labels.as_deref()
    }
}

impl<T: fmt::Debug> fmt::Debug for Typed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(f)
    }
}
