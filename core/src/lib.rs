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
//! - [`DeltaFifo`](cache::DeltaFifo) and [`Indexer`](cache::Indexer) are its two parts for use by hand, with the contract of client-go.
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

// In the order in which the data flows: each module depends only on those above it.
pub mod time;

pub mod json;

pub mod wire;

pub mod storage;

pub mod transport;

pub mod report;

pub mod object;

pub mod decode;

pub mod resource;

pub mod reflector;

pub mod cache;

#[cfg(feature = "alloc")]
pub mod listeners;

pub mod journal;

mod informer;

pub mod drive;

#[cfg(feature = "alloc")]
pub mod audit;

#[cfg(feature = "alloc")]
pub mod queue;

pub mod election;

#[doc(inline)]
pub use cache::{Cache, Notification, Step};
#[cfg(feature = "serde_json")]
#[doc(inline)]
pub use decode::Json;
#[cfg(feature = "serde-json-core")]
#[doc(inline)]
pub use decode::JsonCore;
#[doc(inline)]
pub use decode::{Decode, RawObject};
#[cfg(feature = "alloc")]
#[doc(inline)]
pub use decode::{Meta, Raw};
#[doc(inline)]
pub use drive::{Sink, drive};
pub use informer::Informer;
#[cfg(feature = "alloc")]
#[doc(inline)]
pub use listeners::Listeners;
#[doc(inline)]
pub use object::{Object, ResourceVersion, Uid};
#[doc(inline)]
pub use reflector::{Frame, Output, Reflector, ReflectorConfig, Request, RequestId};
#[doc(inline)]
pub use report::Report;
#[cfg(feature = "alloc")]
#[doc(inline)]
pub use resource::OwnedResource;
#[doc(inline)]
pub use resource::Resource;
pub use resource::selector;
#[cfg(feature = "alloc")]
#[doc(inline)]
pub use storage::Heap;
#[doc(inline)]
pub use storage::{Inline, Storage};
#[doc(inline)]
pub use time::Instant;
#[doc(inline)]
pub use transport::{Body, End, Failure, Head, Timer, Transport};

/// How often a test of random cases goes round: under miri each takes a thousand times as long.
#[cfg(test)]
pub(crate) const fn rounds(usual: u64) -> u64 {
    if cfg!(miri) {
        usual.div_ceil(400)
    } else {
        usual
    }
}
