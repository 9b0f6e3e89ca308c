//! Kubernetes' protobuf: envelopes, lists and watch frames as they arrive, and views of messages.
//!
//! - `message`: a view of one message by field numbers.
//! - `frame`: finds the items of a list and the events of a watch in a response body.
//! - `collect`: the identity of an object that is too large for a frame.
//! - `object`: identity, labels and owners of one object, the type of an event, and errors.
//! - `metadata`: metadata as JSON.
//! - `prune`: removing parts of an object.

mod collect;
mod frame;
mod message;
#[cfg(feature = "alloc")]
mod metadata;
mod object;
#[cfg(feature = "alloc")]
mod prune;
#[cfg(test)]
pub(crate) mod tests;

pub(super) use frame::Cutter;
pub use message::{Message, Value};
#[cfg(feature = "alloc")]
pub(crate) use metadata::{append_labels, append_metadata};
pub(crate) use object::{Listed, TypeMeta, entry, metadata_fields, text};
pub(super) use object::{causes, event, head, is_initial_events_end, status};

/// The first bytes of an object, a list or a `Status` in an envelope.
pub(super) const MAGIC: [u8; 4] = *b"k8s\0";

/// The field numbers of the messages that an informer reads itself.
pub(crate) mod field {
    /// `Unknown`, the envelope.
    pub(crate) const TYPE_META: u32 = 1;
    pub(crate) const RAW: u32 = 2;
    /// `TypeMeta`.
    pub(crate) const API_VERSION: u32 = 1;
    pub(crate) const KIND: u32 = 2;
    /// Every list.
    pub(crate) const LIST_META: u32 = 1;
    pub(crate) const ITEMS: u32 = 2;
    /// `WatchEvent`, and the `RawExtension` in it.
    pub(crate) const EVENT_TYPE: u32 = 1;
    pub(crate) const EVENT_OBJECT: u32 = 2;
    pub(crate) const EXTENSION_RAW: u32 = 1;
    /// Every object.
    pub(crate) const METADATA: u32 = 1;
    /// `ObjectMeta`.
    pub(crate) const NAME: u32 = 1;
    pub(crate) const NAMESPACE: u32 = 3;
    pub(crate) const UID: u32 = 5;
    pub(crate) const RESOURCE_VERSION: u32 = 6;
    pub(crate) const GENERATION: u32 = 7;
    pub(crate) const DELETION_TIMESTAMP: u32 = 9;
    pub(crate) const LABELS: u32 = 11;
    pub(crate) const ANNOTATIONS: u32 = 12;
    pub(crate) const OWNER_REFERENCES: u32 = 13;
    pub(crate) const FINALIZERS: u32 = 14;
    pub(crate) const MANAGED_FIELDS: u32 = 17;
}
