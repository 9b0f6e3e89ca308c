//! A Kubernetes API server for tests of informers: in memory, with every fault, on virtual time.
//!
//! - [`FakeServer`] holds objects and answers lists, watches and streaming lists as the real server does: paging with
//!   tokens that expire, compaction and 410, bookmarks, selectors, metadata only. It has no sockets and no clock.
//! - [`Fault`]s break what it answers, down to the byte.
//! - [`ScriptedServer`] answers from a script instead, in the format of the conformance suite.
//! - [`Mock`] shares a server and its clock; [`MockTransport`] is a [`Transport`] to it.
//! - [`VirtualClock`] and [`Simulation`] run futures with no real time and in a fixed order.
//! - [`RequestLog`] says what was asked: "it did not list again" is one line.
//! - `conformance` (feature `tokio`) checks a transport of your own.
//! - [`demo`] fills a server with a cluster that changes all the time.
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
//! // Here stands what is tested. It gets a transport, and the clock as its timer.
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
//! # Time
//! A [`Mock`] takes its time from a [`Timer`], and a transport's futures wait by it. Any runtime can poll them:
//! - on a [`VirtualClock`], [`Simulation`] polls the futures and moves the clock; or a test polls by itself and calls
//!   [`VirtualClock::advance`];
//! - under tokio, `TokioClock` (feature `tokio`) follows tokio's time. With `start_paused`, tokio jumps over all waiting,
//!   and the server's deadlines are among what it jumps to.
//!
//! A change of the server goes through [`Mock::with`] or a method of [`Mock`], which wakes those who wait for it.
//!
//! # Features
//! - `std` (default): the clock, the simulation, `Mock` and its transport. Without it, the servers, faults, log and demo are
//!   `no_std` with `alloc`.
//! - `tokio`: `TokioClock` and `conformance`.
//! - `serve`: `serve` and `Serving`, HTTP/1.1 on a port, on tokio.
//!
//! # What it does not do
//! It answers GET requests alone; a test changes objects by calls. It does not validate objects, default them, or keep
//! `generation` and `managedFields`. There is no admission, no garbage collection, no finalizers: what is deleted is gone at
//! once. There is no authentication, no discovery, no protobuf, CBOR, tables, websockets, gzip or HTTP/2, and no sharded
//! lists (a shard selector is ignored, as old servers do). Field selectors know name and namespace, a few fields of Pods,
//! Nodes and Secrets, and what [`FakeServer::add_selectable_field`] adds. Continue tokens do not check that the
//! selectors of the pages are the same.
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
mod fault;
mod filter;
mod log;
#[cfg(feature = "std")]
mod mock;
mod object;
mod ordered;
mod query;
mod script;
mod seed;
#[cfg(feature = "serve")]
mod serve;
mod server;
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

pub use backend::{Backend, Chunk, Compression, HeadPoll, ResponseHead, ResponseId};
pub use config::{Config, DeleteAnswer, Gone};
pub use fault::Fault;
pub use informer_core::{
    Body, Head, Instant, Timer, Transport,
    transport::{FailureKind, Get, TransportError},
};
pub use log::{RequestLog, RequestRecord, Verb};
pub use query::Query;
pub use script::{ScriptError, ScriptedServer};
pub use serde_json::json;
#[cfg(feature = "serve")]
pub use serve::{Serving, serve};
pub use server::{FakeServer, MutationError, ObjectRef, Write};
#[cfg(feature = "tokio")]
pub use tokio_clock::TokioClock;
#[cfg(feature = "std")]
pub use {
    clock::{Sleep, VirtualClock},
    mock::Mock,
    simulation::Simulation,
    transport::{MockBody, MockError, MockTransport},
};
