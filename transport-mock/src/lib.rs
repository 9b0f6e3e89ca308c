//! An in-memory Kubernetes API server for tests of informers, with faults and virtual time.
//!
//! - [`FakeServer`] stores objects and serves lists, watches and streaming lists like the real server: paging with
//!   expiring tokens, compaction and 410, bookmarks, selectors, metadata only. It has no sockets and no clock.
//! - [`Fault`] makes its responses fail in every way, down to single bytes.
//! - [`ScriptedServer`] responds from a script instead, in the format of the conformance suite.
//! - [`Mock`] shares a server and its clock; [`MockTransport`] is a [`Transport`] to it.
//! - [`VirtualClock`] and [`Simulation`] run futures without real time and in a fixed order.
//! - [`RequestLog`] records the requests, so that a test can assert that there was no relist.
//! - [`protobuf`] converts objects from JSON and back; the server responds in it to clients that accept it.
//! - `conformance` (feature `tokio`) checks a custom transport.
//! - [`demo`] fills a server with a cluster that changes continuously.
//! - `serve` (feature `serve`) opens a real port for a server.
//!
//! # A test
//! ```
//! use core::time::Duration;
//! use informer_mock::{Body, FakeServer, Fault, Get, Mock, Simulation, Transport, Verb, json};
//!
//! let mock = Mock::new(FakeServer::new(1));
//! mock.create("pods", json!({ "metadata": { "name": "a" } }))?;
//! mock.with(|server| server.inject(Fault::overloaded(Some(1)).on(Verb::List)));
//!
//! // The code under test stands here. It gets a transport, and the clock as its timer.
//! let (mut transport, clock) = (mock.transport(), mock.clock().clone());
//! let client = async move {
//!     loop {
//!         let (head, mut body) = transport.send(Get::new("/api/v1/pods?resourceVersion=0")).await?;
//!         match head.retry_after {
//!             Some(delay) => clock.sleep_until(clock.now() + delay).await,
//!             None => break body.chunk().await.map(|bytes| bytes.map(<[u8]>::len)),
//!         }
//!     }
//! };
//!
//! let start = mock.clock().now();
//! let read = Simulation::new(mock.clock()).block_on(client);
//! assert!(matches!(read, Some(Ok(Some(1..)))));
//! assert_eq!(mock.clock().now() - start, Duration::from_secs(1), "of virtual time");
//! mock.log().assert_requests(&["LIST rv=0", "LIST rv=0"]);
//! # Ok::<(), informer_mock::MutationError>(())
//! ```
//!
//! # Faults
//! | effect | methods of [`Fault`] |
//! |---|---|
//! | no response | [`refuse`](Fault::refuse), [`reset`](Fault::reset), [`fail`](Fault::fail), [`stall`](Fault::stall) |
//! | a late response | [`delay`](Fault::delay), [`late_head`](Fault::late_head), [`bandwidth`](Fault::bandwidth) |
//! | another response | [`status`](Fault::status), [`api_status`](Fault::api_status), [`overloaded`](Fault::overloaded), [`expired`](Fault::expired), [`html`](Fault::html), [`raw`](Fault::raw), [`in_json`](Fault::in_json), [`in_protobuf`](Fault::in_protobuf), [`header`](Fault::header), [`content_length`](Fault::content_length) |
//! | a body that ends early | [`cut_after_bytes`](Fault::cut_after_bytes), [`cut_after_events`](Fault::cut_after_events), [`cut_inside_event`](Fault::cut_inside_event): as a reset, [`cleanly`](Fault::cleanly) or [`silently`](Fault::silently) |
//! | a changed body | [`split`](Fault::split), [`duplicate_event`](Fault::duplicate_event), [`drop_event`](Fault::drop_event), [`inject_before`](Fault::inject_before), [`append`](Fault::append) |
//!
//! A fault affects the next request, or those that [`on`](Fault::on), [`on_path`](Fault::on_path), [`skip`](Fault::skip),
//! [`times`](Fault::times) and [`always`](Fault::always) select.
//!
//! # Time
//! A [`Mock`] takes its time from a [`Timer`], and the futures of its transport wait for that timer. Any runtime can
//! poll them:
//! - With a [`VirtualClock`], [`Simulation`] polls the futures and advances the clock. A test can also poll them itself
//!   and call [`VirtualClock::advance`].
//! - Under tokio, `TokioClock` (feature `tokio`) follows tokio's time. With `start_paused`, tokio advances to the next
//!   deadline when all tasks wait, and the server's deadlines are included.
//!
//! To change the server, use [`Mock::with`] or a method of [`Mock`]. Both wake the waiting tasks.
//!
//! # Features
//! - `std` (default): the clock, the simulation, `Mock` and its transport. Without it, the servers, faults, log and
//!   demo are `no_std` with `alloc`.
//! - `tokio`: `TokioClock` and `conformance`.
//! - `serve`: `serve` and `Serving`, HTTP/1.1 on a port, on tokio.
//! - `tower`: `Mock::service`, the server as a service for the client of kube-rs.
//!
//! # Limits
//! A transport sends GET requests only. Writes of clients are served on a real port and by
//! [`FakeServer::execute`], as by the API server: with validation, owners of fields, admission by hooks
//! ([`FakeServer::add_admission`]), finalizers and garbage collection. The methods that change objects, such as
//! [`FakeServer::create`], do none of that: they take effect at once and as given. Built-in kinds have no defaults and no
//! rules beyond the types of their fields and those that cannot change. There is no authentication, OpenAPI, CBOR,
//! tables, websockets or containers; gzip and HTTP/2 exist only on a real port. Field selectors support name and namespace, a few fields of Pods, Nodes,
//! Secrets, Services, Namespaces, Jobs and Events, and those added with [`FakeServer::add_selectable_field`]. Continue
//! tokens do not verify that all pages have the same selectors.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod backend;
#[cfg(feature = "std")]
mod clock;
mod config;
#[cfg(feature = "tokio")]
pub mod conformance;
pub mod demo;
mod event;
mod fault;
mod filter;
mod log;
#[cfg(feature = "std")]
mod mock;
mod object;
mod ordered;
pub mod protobuf;
mod query;
mod script;
mod seed;
#[cfg(feature = "serve")]
mod serve;
mod server;
#[cfg(feature = "tower")]
pub mod service;
#[cfg(feature = "std")]
mod simulation;
mod status;
mod store;
mod template;
mod token;
#[cfg(feature = "tokio")]
mod tokio_clock;
#[cfg(feature = "std")]
mod transport;

pub use backend::{Backend, Chunk, Compression, HeadPoll, ResponseHead, ResponseId, Write};
pub use config::{Config, DeleteAnswer, DropParameter, Gone, Protobuf};
pub use fault::Fault;
pub use informer_core::{
    Body, Head, Instant, Timer, Transport,
    transport::{FailureKind, Get, TransportError},
};
pub use log::{RequestLog, RequestRecord, Verb};
pub use query::Query;
pub use script::{ScriptError, ScriptedServer};
pub use serde_json::{Value, json};
#[cfg(feature = "serve")]
pub use serve::{Serving, serve};
pub use server::{Admission, DefinitionError, FakeServer, MutationError, ObjectRef, Operation};
#[cfg(feature = "tower")]
pub use service::{MockService, ServiceBody};
#[cfg(feature = "tokio")]
pub use tokio_clock::TokioClock;
#[cfg(feature = "std")]
pub use {
    clock::{Sleep, VirtualClock},
    mock::{Exchange, Mock},
    simulation::Simulation,
    transport::{MockBody, MockError, MockTransport},
};

/// The program in `README.md`.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
