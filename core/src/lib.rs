//! The Kubernetes informer without I/O.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(feature = "alloc", test))]
extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

mod backoff;
mod cache;
mod decode;
mod delta;
mod drive;
mod fifo;
mod indexer;
mod informer;
pub mod json;
mod key;
#[cfg(feature = "alloc")]
mod listeners;
mod object;
mod reflector;
mod report;
mod resource;
mod rng;
mod selector;
pub mod storage;
mod table;
mod time;
mod transport;
mod version;
pub mod wire;

pub use backoff::{Backoff, BackoffConfig};
pub use cache::{Cache, CacheConfig, Notification};
pub use decode::{ACCEPT_JSON, Accept, Decode, RawObject, View};
#[cfg(feature = "serde_json")]
pub use decode::{Json, Typed};
#[cfg(feature = "alloc")]
pub use decode::{Meta, Metadata, Raw, RawJson};
pub use delta::{Delta, DeltaKind, Deltas, Last, Payload, Tombstone};
pub use drive::{Command, Sink, drive};
pub use fifo::{DeltaFifo, KeyOf, KnownObjects, Mode, PopError, Popped, Unbounded};
pub use indexer::{IndexError, Indexer, NAMESPACE_INDEX, Values as IndexValues};
pub use informer::{Informer, Told, decode_object};
pub use key::{KeyError, KeyFn, Keyed, split_key};
#[cfg(feature = "alloc")]
pub use listeners::{Event, ListenerConfig, ListenerId, Listeners};
pub use object::{Cached, Object};
pub use reflector::{
    Change, Frame, Initial, ObjectFrame, Output, Reflector, ReflectorConfig, Request, RequestId,
    Target, Verb,
};
pub use report::{DisplayDebug, Level, Phase, Problem, Report};
#[cfg(feature = "alloc")]
pub use resource::OwnedResource;
pub use resource::{QueryWriter, Resource, ResourceError};
#[cfg(feature = "alloc")]
pub use selector::{LabelSelector, Requirement};
pub use selector::{
    Labels, Operator, RequirementRef, Requirements, Selector, SelectorError, SelectorErrorKind,
    Values,
};
#[cfg(feature = "alloc")]
pub use storage::Heap;
pub use storage::{Inline, Storage};
pub use time::Instant;
pub use transport::{Body, End, Failure, FailureKind, Get, Head, Timer, Transport, TransportError};
pub use version::{ResourceVersion, Uid};
