//! All tests of the public interface, in one program, so that it is linked once.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod audit;
mod batches;
mod controller;
mod decoders;
mod discovery;
mod election;
mod fleet;
mod hooks;
mod informer;
mod journal;
mod leases;
mod locks;
mod names;
#[cfg(feature = "zstd")]
mod packed;
mod queue;
#[cfg(feature = "requests")]
mod recorder;
mod replicas;
#[cfg(feature = "requests")]
mod rights;
mod shards;
mod shared;
mod stderr;
#[path = "../../../tests/src/support.rs"]
#[expect(
    dead_code,
    unreachable_pub,
    reason = "it is public in its crate, and others use the rest"
)]
mod support;
mod threads;
mod warnings;
