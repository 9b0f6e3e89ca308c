//! The Kubernetes informer engine, without I/O.
//!
//! An informer keeps a local, indexed cache of a Kubernetes resource up to date: it lists the resource, watches it, and
//! notifies of changes. This crate is its engine. It is `no_std` and has no socket, clock or thread; its randomness
//! comes from a seed. With fixed storage it needs no allocator. A runtime provides time, and a transport provides
//! bytes.
//!
//! # Data flow
//! ```text
//! bytes ──> Reflector ──frames──> Decode ──> Cache: DeltaFIFO ──pop──> Indexer ──notifications──> Listeners
//! ```
//! - A [`Reflector`] decides which requests to send, and cuts the responses into objects.
//! - A [`Decode`] decides what to store of an object: a type, its bytes, its metadata, or the result of a closure.
//! - A [`Cache`] applies changes, indexes objects, replays them in a resync, and lends the notifications.
//! - [`DeltaFifo`](cache::DeltaFifo) and [`Indexer`](cache::Indexer) are the two parts of a cache for standalone use,
//!   with the contract of client-go.
//!
//! # Ways to use it
//! - A [`PolledInformer`] joins reflector, decoder and cache, and is driven call by call. Use it on a microcontroller, in a
//!   simulation, or anywhere without futures.
//! - [`drive()`] is the loop over a [`Transport`], a [`Timer`] and a [`Sink`] on which the runtimes are built.
//! - Programs on tokio use the crate `informer` or `informer-tokio`, which re-export what they need.
//!
//! ```
//! use informer_core::{Head, PolledInformer, Inline, Instant, Notification, Output, RawObject, ReflectorConfig, Resource};
//!
//! // At most 16 objects, with keys of 64 bytes and objects of 1 KiB, stored inline.
//! type Memory = Inline<16, 64, 1024>;
//! let size = |raw: &RawObject<'_>| Ok::<_, core::convert::Infallible>(raw.json().len());
//! let pods = Resource::new("", "v1", "pods").namespace("prod");
//! let mut informer: PolledInformer<_, _, Memory> = PolledInformer::new(pods, size, ReflectorConfig::list(), 1);
//!
//! let now = Instant::from_micros(0);
//! let Output::Send(request) = informer.poll_output(now) else { panic!() };
//! let id = request.id();
//! // Send the request here. This is the response:
//! informer.handle_head(now, id, Head::new(200));
//! let body = br#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[
//!     {"metadata":{"name":"web","namespace":"prod"}}]}"#;
//! let taken = informer.handle_data(now, id, body, &mut |report| panic!("{report}"));
//! // Less is taken while the cache is full: pop notifications, then pass the rest again.
//! assert_eq!(taken, body.len());
//! let Some(Notification::Added { entry: (key, _), .. }) = informer.pop() else { panic!() };
//! assert_eq!(key.as_ref(), "prod/web");
//! ```
//!
//! # Storage
//! The engine is written once, over [`Storage`]. `Heap` grows; [`Inline`] has a fixed size. The choice is a type
//! parameter, never a feature.
//!
//! # Failures
//! A fault of the server, the network or an object never panics and never ends an informer. It becomes a [`Report`]
//! that states what the engine tries next, and when.
//!
//! # Features
//! No feature is on by default. Each feature only adds items and changes no type.
//! - `alloc`: `Heap`, `Listeners`, `OwnedResource`, `LabelSelector`, and the forms `Raw` and `Meta`.
//! - `std`: implies `alloc`; implements traits for types of `std`.
//! - `serde_json`: implies `alloc`; `Json`, the form of a type that serde decodes.
//! - `serde-json-core`: `JsonCore`, which decodes into a small closed type by serde, without an allocator.
//! - `protobuf`: `decode::FromProtobuf` and views of messages; with `alloc`, `Raw` and `Meta` in protobuf.
//! - `prost`: implies `alloc` and `protobuf`; `Proto`, which decodes into messages of prost.
//!
//! # Documents
//! The folder `docs` of the repository describes the run loop step by step (`RUN-LOOP.md`), and every difference from
//! client-go with its reason (`DIFFERENCES.md`).
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(feature = "alloc", test))]
extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

// In the order of the data flow: each module depends only on those above it.
mod hash;

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
pub use decode::{Decode, Form, RawObject};
#[cfg(feature = "alloc")]
#[doc(inline)]
pub use decode::{Decoder, Meta, Raw};
#[doc(inline)]
pub use drive::{Sink, drive};
pub use informer::PolledInformer;
#[cfg(feature = "alloc")]
#[doc(inline)]
pub use listeners::Listeners;
#[doc(inline)]
pub use object::{Object, ResourceVersion, Uid};
#[doc(inline)]
pub use reflector::{ApiRequest, Frame, Output, Reflector, ReflectorConfig, RequestId};
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
pub use transport::{Body, End, Head, Timer, Transport, TransportFailure};
#[cfg(feature = "protobuf")]
pub use wire::protobuf;

/// Returns how many rounds a test of random cases runs. Each takes about a thousand times as long under miri.
#[cfg(test)]
pub(crate) const fn rounds(usual: u64) -> u64 {
    if cfg!(miri) {
        usual.div_ceil(400)
    } else {
        usual
    }
}

/// Reads a table of a test: a row on each line, with `|` between its two cells.
#[cfg(test)]
pub(crate) fn rows(table: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = table.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| {
        let (one, two) = line.split_once('|').expect("a row has two cells");
        (one.trim(), two.trim())
    })
}
