//! A mock Kubernetes API server for tests of informers.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod backend;
#[cfg(feature = "std")]
mod clock;
mod config;
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

pub use backend::{Backend, Chunk, HeadPoll, ResponseHead, ResponseId};
pub use config::{Config, Gone};
pub use fault::Fault;
pub use informer_core::{Body, FailureKind, Get, Head, Instant, Timer, Transport, TransportError};
pub use log::{RequestLog, RequestRecord, Verb};
pub use query::Query;
pub use script::{ScriptError, ScriptedServer};
pub use serde_json::json;
pub use server::{FakeServer, MutationError, ObjectRef};
#[cfg(feature = "std")]
pub use {
    clock::{Sleep, VirtualClock},
    mock::Mock,
    simulation::Simulation,
    transport::{MockBody, MockError, MockTransport},
};
#[cfg(feature = "tokio")]
pub use tokio_clock::TokioClock;
#[cfg(feature = "serve")]
pub use serve::{Serving, serve};
