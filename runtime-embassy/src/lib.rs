//! A Kubernetes informer for embassy: a cached, indexed copy of a resource in fixed memory, without an allocator.
//!
//! As in embassy-net there are three parts. [`Resources`] is the memory, a [`Runner`] is the future that does the work,
//! and a [`Lister`] reads the cache and controls the runner. A [`Connection`] implements HTTP/1.1 over a [`Link`], a
//! byte stream that can be opened and closed; several informers take turns on it.
//!
//! ```
//! use informer_embassy::{
//!     Connection, Inline, Link, Notification, RawObject, Resource, Resources, Storage, ObjectNotification, config, json,
//! };
//!
//! /// At most 32 objects, with keys of 80 bytes and objects of 2 KiB as received. It never grows.
//! type Memory = Inline<32, 80, 2048>;
//!
//! /// Stores one bit of each Pod.
//! fn is_running(raw: &RawObject<'_>) -> Result<bool, &'static str> {
//!     let phase = json::value_at(raw.json(), &["status", "phase"]).and_then(json::as_str);
//!     Ok(phase.ok_or("there is no phase")?.eq_str("Running"))
//! }
//!
//! async fn watch<L: Link>(link: L) {
//!     // In a real program these are in statics, and the futures are tasks.
//!     let mut resources = Resources::<bool, Memory>::new(1);
//!     let server: Connection<_, _, 2048> = Connection::new(link, "10.0.2.2:8001", "a token");
//!     let Some(transport) = server.transport() else { return };
//!
//!     let pods = Resource::new("", "v1", "pods").fields("spec.nodeName=gateway-7");
//!     let (lister, runner) = informer_embassy::new(&mut resources, pods, is_running, config(), 1);
//!     let _reader = lister; // It is `Copy`: any task of the same executor may have one.
//!     runner.run(transport, |notification: ObjectNotification<'_, bool, <Memory as Storage>::Text>| {
//!         if let Notification::Added { entry: (key, object), .. } = notification {
//!             let _display = (key.as_ref(), *object.value());
//!         }
//!     }).await;
//! }
//! # let _ = watch::<NoLink>;
//! # struct NoLink;
//! # impl Link for NoLink { async fn open(&mut self) -> Result<(), informer_embassy::ErrorKind> { Ok(()) } fn close(&mut self) {} }
//! # impl embedded_io_async::ErrorType for NoLink { type Error = embedded_io_async::ErrorKind; }
//! # impl embedded_io_async::Read for NoLink { async fn read(&mut self, _: &mut [u8]) -> Result<usize, Self::Error> { Ok(0) } }
//! # impl embedded_io_async::Write for NoLink { async fn write(&mut self, b: &[u8]) -> Result<usize, Self::Error> { Ok(b.len()) } async fn flush(&mut self) -> Result<(), Self::Error> { Ok(()) } }
//! ```
//!
//! # Time
//! [`Runner::run`] uses embassy-time. [`Runner::run_on`] uses any other [`Timer`], so tests do not need embassy.
//!
//! # Several informers on one connection
//! A device often has memory for one socket only. Each informer gets its own [`HttpTransport`] from the same
//! [`Connection`] and requests watches of 30 s, as [`config`] does. When a watch ends, the next informer in the queue
//! gets the connection. The time in the queue does not count towards an informer's deadlines.
//!
//! # Features
//! None is on by default. `net` adds `TcpLink`, over a socket of embassy-net, and needs Rust 1.91. `serde-json-core` adds
//! `JsonCore`, which decodes small closed structs, and `protobuf` adds `FromProtobuf`, for closures that read protobuf.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(test)]
extern crate std;

mod credentials;
mod handler;
pub mod http;
mod link;
mod lister;
#[cfg(feature = "net")]
mod net;
mod resources;
mod runner;
mod timer;
mod turns;
mod waiters;

pub use credentials::{Anonymous, Credentials};
pub use embedded_io_async::ErrorKind;
pub use handler::Handler;
pub use http::{Connection, HttpBody, HttpError, HttpProblem, HttpTransport};
pub use informer_core::{
    Decode, Inline, Notification, Object, RawObject, ReflectorConfig, Report, Resource,
    ResourceVersion, Storage, Timer, Transport,
    cache::ObjectNotification,
    drive::Command,
    json,
    reflector::{Initial, Target},
};
#[cfg(feature = "serde-json-core")]
pub use informer_core::{JsonCore, decode::JsonCoreError};
#[cfg(feature = "protobuf")]
pub use informer_core::{decode::FromProtobuf, protobuf};
#[cfg(feature = "journal")]
#[doc(no_inline)]
pub use informer_journal as journal;
pub use link::Link;
pub use lister::{InHandler, Lister};
#[cfg(feature = "net")]
pub use net::TcpLink;
pub use resources::Resources;
pub use runner::{Runner, new};
pub use timer::EmbassyTimer;
pub use waiters::{MAX_WAITERS, TooManyWaiters};

use core::time::Duration;

/// Returns the configuration for a device: lists in pages of 32 objects, and watches of 30 s, so that several informers
/// can take turns on one connection.
#[must_use]
pub fn config() -> ReflectorConfig {
    ReflectorConfig {
        page_size: Some(32),
        watch_timeout: Some(Duration::from_secs(30)),
        ..ReflectorConfig::list()
    }
}
