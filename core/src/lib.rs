//! The Kubernetes informer without I/O.
//!
//! An informer keeps a local, indexed copy of a Kubernetes resource true: it lists the resource, watches it, and tells
//! what changed. This crate is its engine. It is `no_std`, and has no socket, no clock, no thread, and no randomness
//! but a seed; with fixed storage it has no allocator. A runtime brings time and a transport brings bytes.
//!
//! # The way of the data
//! ```text
//! bytes ──> Reflector ──frames──> Decode ──> Cache: DeltaFIFO ──pop──> Indexer ──notifications──> Listeners
//! ```
//! - A [`Reflector`] says which requests to send, and finds objects in the bytes of their answers.
//! - A [`Decode`] says what is kept of an object: a type, bytes, metadata, or what a closure gives.
//! - A [`Cache`] applies changes, indexes objects, replays them in a resync, and lends what is to be told.
//! - [`DeltaFifo`] and [`Indexer`] are its two parts for use by hand, with the contract of client-go.
//!
//! # Ways to use it
//! - An [`Informer`] is reflector, decoder and cache together, driven call by call: for a microcontroller, for a
//!   simulation, for anything without futures.
//! - [`drive()`] is the loop over a [`Transport`], a [`Timer`] and a [`Sink`] that runtimes are made of.
//! - Programs on tokio use the crate `informer-tokio` and find the rest there.
//!
//! ```
//! use informer_core::{Head, Informer, Inline, Instant, Notification, Output, RawObject, ReflectorConfig, Resource};
//!
//! // At most 16 objects, keys of 64 bytes, objects of 1 KiB as they come.
//! type Memory = Inline<16, 64, 1024>;
//! let size = |raw: &RawObject<'_>| Ok::<_, core::convert::Infallible>(raw.json().len());
//! let pods = Resource::new("", "v1", "pods").namespace("prod");
//! let mut informer: Informer<_, _, Memory> = Informer::new(pods, size, ReflectorConfig::list(), 1);
//!
//! let now = Instant::from_micros(0);
//! let Output::Send(request) = informer.poll_output(now) else { panic!() };
//! let id = request.id();
//! // Here the request is sent. This is what comes back:
//! informer.handle_head(now, id, Head::new(200));
//! let body = br#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[
//!     {"metadata":{"name":"web","namespace":"prod"}}]}"#;
//! let taken = informer.handle_data(now, id, body, &mut |report| panic!("{report}"));
//! // Fewer while the cache has no room for more: pop, and give the rest again.
//! assert_eq!(taken, body.len());
//! let Some(Notification::Added { key, .. }) = informer.pop() else { panic!() };
//! assert_eq!(key.as_ref(), "prod/web");
//! ```
//!
//! # Storage
//! The engine is written once, over [`Storage`]. `Heap` grows; [`Inline`] is of a fixed size. The choice is a type
//! parameter and never a feature.
//!
//! # Trouble
//! What a server, a network or an object does wrong is never a panic and never ends an informer: it is a [`Report`], and
//! the engine says what it tries next and when.
//!
//! # Features
//! None is on by default. Each only adds, and changes no type.
//! - `alloc`: `Heap`, `Listeners`, `OwnedResource`, `LabelSelector`, and the decoders `Raw` and `Meta`.
//! - `std`: implies `alloc`; for implementations for types of `std`.
//! - `serde_json`: implies `alloc`; `Json`, which decodes into a type by serde.
//! - `serde-json-core`: `JsonCore`, which decodes into a small closed type by serde, without an allocator.
//! - `lz4`: implies `alloc`; `PackedLz4`, which keeps objects compressed.
//! - `embedded-storage`: [`journal`]s on NOR flash.
//!
//! # Documents
//! The folder `docs` of the repository has the run loop step by step (`RUN-LOOP.md`), and every difference from client-go
//! with its reason (`DIFFERENCES.md`).
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(feature = "alloc", test))]
extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

#[cfg(feature = "alloc")]
mod audit;
mod backoff;
mod cache;
mod decode;
mod delta;
mod discard;
mod drive;
#[cfg(feature = "alloc")]
mod election;
mod expected;
mod fifo;
mod indexer;
mod informer;
pub mod journal;
pub mod json;
mod key;
#[cfg(feature = "alloc")]
mod listeners;
#[cfg(feature = "alloc")]
mod members;
mod object;
#[cfg(feature = "alloc")]
mod queue;
mod readable;
mod reflector;
mod report;
mod resource;
mod rng;
mod selector;
mod shard;
mod step;
pub mod storage;
mod table;
mod time;
mod transport;
mod version;
pub mod wire;

#[cfg(feature = "alloc")]
pub use audit::{Audit, AuditConfig, AuditEntry, AuditStep, Verdict};
pub use backoff::{Backoff, BackoffConfig};
#[cfg(feature = "alloc")]
pub use cache::DiscardedObjects;
pub use cache::{Cache, CacheConfig, Notification, ObjectNotification};
pub use decode::{ACCEPT_JSON, Accept, Decode, RawObject, View};
#[cfg(feature = "serde_json")]
pub use decode::{Json, Typed};
#[cfg(feature = "serde-json-core")]
pub use decode::{JsonCore, JsonCoreError, JsonCoreProblem};
#[cfg(feature = "lz4")]
pub use decode::{Lz4Json, PackedLz4};
#[cfg(feature = "alloc")]
pub use decode::{Meta, Metadata, Raw, RawJson, packing};
pub use delta::{Delta, DeltaKind, Deltas, Last, Payload, Tombstone};
pub use drive::{Activity, Command, Sink, drive};
#[cfg(feature = "alloc")]
pub use election::{ElectionConfig, ElectionError, ElectionStep, Elector, LeaseRecord, Written};
pub use expected::ExpectedState;
pub use fifo::{DeltaFifo, KeyOf, KnownObjects, PopError, Popped, Unbounded};
pub use indexer::{IndexError, Indexer, NAMESPACE_INDEX, Values as IndexValues};
pub use informer::Informer;
#[cfg(feature = "alloc")]
pub use json::Prune;
pub use key::{KeyError, KeyFn, Keyed, split_key};
#[cfg(feature = "alloc")]
pub use listeners::{Event, ListenerConfig, ListenerId, Listeners};
#[cfg(feature = "alloc")]
pub use members::Members;
pub use object::{Cached, Object};
#[cfg(feature = "alloc")]
pub use queue::{
    Exponential, FastSlow, KeyedBackoff, MaxOf, MaxWait, QueueMetrics, RateLimit, Spread,
    TokenBucket, Turn, Waiter, Waiters, WorkQueue,
};
pub use reflector::{
    Change, Frame, Initial, ObjectFrame, Output, Reflector, ReflectorConfig, Request, RequestId,
    Target, Verb,
};
pub use report::{DisplayDebug, DriftKind, Level, OneLine, Phase, Problem, Report};
#[cfg(feature = "alloc")]
pub use resource::OwnedResource;
pub use resource::{QueryWriter, Resource, ResourceError};
#[cfg(feature = "alloc")]
pub use selector::{FieldSelector, FieldSelectorError, LabelSelector, Requirement};
pub use selector::{
    Labels, Operator, RequirementRef, Requirements, Selector, SelectorError, SelectorErrorKind,
    Values,
};
pub use shard::{Shard, ShardBy, rendezvous};
pub use step::{Step, decode_object, decode_raw, restore_raw, take_frame};
#[cfg(feature = "alloc")]
pub use storage::Heap;
pub use storage::{Inline, Storage};
pub use time::Instant;
pub use transport::{Body, End, Failure, FailureKind, Get, Head, Timer, Transport, TransportError};
pub use version::{ResourceVersion, Uid};

/// How often a test of random cases goes round: under miri each takes a thousand times as long.
#[cfg(test)]
pub(crate) const fn rounds(usual: u64) -> u64 {
    if cfg!(miri) {
        usual.div_ceil(400)
    } else {
        usual
    }
}
