//! Objects decoded into a message type by prost.

use alloc::boxed::Box;
use core::fmt;
use core::ops::Deref;

use super::raw::with_labels;
use super::{Accept, Decode, Decoder, Form, RawObject};

/// An object decoded from protobuf into a `T` by prost, with its labels: a type of `k8s-pb`, or a struct with only the
/// needed fields. Other fields are skipped. It dereferences to the `T`.
///
/// Built-in resources are served in protobuf, custom resources are not: use [`Json`](super::Json) for those.
///
/// ```
/// use informer_core::{Decode, Decoder, RawObject, decode::Proto};
///
/// #[derive(Clone, PartialEq, prost::Message)]
/// struct Pod {
///     #[prost(message, optional, tag = "2")]
///     spec: Option<Spec>,
/// }
/// #[derive(Clone, PartialEq, prost::Message)]
/// struct Spec {
///     #[prost(string, tag = "10")]
///     node_name: String,
/// }
///
/// let pod = b"\x0a\x05\x0a\x03web\x12\x04\x52\x02n1";
/// let pod: Proto<Pod> = Decoder::<Proto<Pod>>::new().decode(&RawObject::parse(pod))?;
/// assert_eq!(pod.spec.as_ref().unwrap().node_name, "n1");
/// # Ok::<(), prost::DecodeError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Proto<T> {
    object: T,
    labels: Option<Box<[u8]>>,
}

impl<T: prost::Message + Default> Decode for Decoder<Proto<T>> {
    type Value = Proto<T>;
    type Error = prost::DecodeError;

    fn decode(&self, raw: &RawObject<'_>) -> Result<Proto<T>, prost::DecodeError> {
        let mut decoded = None;
        self.prune.lend(raw.bytes(), &mut |object| {
            decoded = Some(T::decode(object).map(|decoded| (decoded, self.labels(object))));
        });
        // `lend` calls its argument once.
        let (object, labels) = decoded.unwrap_or_else(|| Ok(Default::default()))?;
        Ok(Proto { object, labels })
    }

    fn is_costly(&self) -> bool {
        true
    }

    fn is_in_pieces(&self) -> bool {
        true
    }

    fn persist(&self, raw: &RawObject<'_>, keep: &mut dyn FnMut(&[u8])) {
        self.prune.lend(raw.bytes(), keep);
    }

    fn skips_managed_fields(&self) -> bool {
        self.prune.skips_managed_fields()
    }

    fn fingerprint(&self) -> u64 {
        0x7072_6f74 ^ self.prune.fingerprint()
    }

    fn distinction(&self) -> Option<u64> {
        Some(self.fingerprint() ^ u64::from(self.keep_labels))
    }

    fn accept(&self) -> Accept {
        Accept::default().only_protobuf()
    }
}

impl<T> Decoder<Proto<T>> {
    fn labels(&self, object: &[u8]) -> Option<Box<[u8]>> {
        let mut labels = None;
        if self.keep_labels {
            // Objects without labels need no allocation.
            with_labels(object, &mut |json| {
                labels = (json != b"{}").then(|| json.into());
            });
        }
        labels
    }
}

impl<T> Proto<T> {
    /// Returns the typed object.
    #[must_use]
    pub const fn get(&self) -> &T {
        &self.object
    }
}

impl<T> Deref for Proto<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

impl<T: 'static> Form for Proto<T> {
    type Stored = Self;
    type Decoder = Decoder<Self>;

    fn labels_json(stored: &Self) -> Option<&[u8]> {
        stored.labels.as_deref()
    }
}

/// Writes only the name of the type, since the object may be a secret. `get` returns what shows it.
impl<T> fmt::Debug for Proto<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proto<{}>", core::any::type_name::<T>())
    }
}
