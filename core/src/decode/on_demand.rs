//! Values that are decoded when they are read.

use core::fmt;

#[cfg(feature = "serde_json")]
use serde::de::DeserializeOwned;

#[cfg(feature = "serde_json")]
use super::Json;
#[cfg(feature = "prost")]
use super::Proto;
use super::{Accept, Form, Raw};
#[cfg(feature = "serde_json")]
use crate::json::Prune;

/// A form whose object can be decoded at any time from the stored bytes, for caches that store objects compressed.
///
/// It is implemented for `Raw`, for `Proto<T>`, and for every type that serde can deserialize.
///
/// ```
/// use informer_core::decode::OnDemand;
///
/// #[derive(serde::Deserialize)]
/// struct Node { spec: Spec }
/// #[derive(serde::Deserialize)]
/// struct Spec { unschedulable: bool }
///
/// let node = Node::from_bytes(br#"{"metadata":{"name":"n1"},"spec":{"unschedulable":true}}"#)?;
/// assert!(node.spec.unschedulable);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be decoded on demand",
    note = "use `Raw`, `Proto<T>`, or a type that implements `serde::Deserialize`"
)]
pub trait OnDemand: Form {
    /// The decoded object.
    type Object;
    /// The reason why an object could not be decoded.
    type Error: fmt::Display;

    /// Decodes an object from the JSON or the protobuf in which it was received.
    ///
    /// # Errors
    /// Fails if the object is not of the type.
    fn from_bytes(bytes: &[u8]) -> Result<Self::Object, Self::Error>;

    /// Returns the formats in which the object can be decoded.
    #[must_use]
    fn accept() -> Accept {
        Accept::default()
    }
}

impl OnDemand for Raw {
    type Object = Self;
    type Error = core::convert::Infallible;

    fn from_bytes(bytes: &[u8]) -> Result<Self, Self::Error> {
        Ok(Self::new(bytes))
    }
}

#[cfg(feature = "serde_json")]
impl<T: DeserializeOwned + 'static> OnDemand for T {
    type Object = T;
    type Error = serde_json::Error;

    fn from_bytes(bytes: &[u8]) -> Result<T, Self::Error> {
        super::json::object(bytes, Prune::NOTHING)
    }
}

#[cfg(feature = "serde_json")]
impl<T: DeserializeOwned + 'static> OnDemand for Json<T> {
    type Object = T;
    type Error = serde_json::Error;

    fn from_bytes(bytes: &[u8]) -> Result<T, Self::Error> {
        T::from_bytes(bytes)
    }
}

#[cfg(feature = "prost")]
impl<T: prost::Message + Default + 'static> OnDemand for Proto<T> {
    type Object = T;
    type Error = prost::DecodeError;

    fn from_bytes(bytes: &[u8]) -> Result<T, Self::Error> {
        T::decode(bytes)
    }

    fn accept() -> Accept {
        Accept::default().only_protobuf()
    }
}

#[cfg(all(test, feature = "prost"))]
mod tests {
    use alloc::string::String;

    use super::*;

    #[derive(Clone, PartialEq, prost::Message)]
    struct Pod {
        #[prost(message, optional, tag = "2")]
        spec: Option<Spec>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct Spec {
        #[prost(string, tag = "10")]
        node_name: String,
    }

    #[test]
    fn a_message_is_requested_in_protobuf_alone() {
        assert!(!Proto::<Pod>::accept().accepts_json());
        let pod = Proto::<Pod>::from_bytes(b"\x0a\x05\x0a\x03web\x12\x04\x52\x02n1").unwrap();
        assert_eq!(pod.spec.unwrap().node_name, "n1");
        assert!(Proto::<Pod>::from_bytes(b"{}").is_err());
    }
}
