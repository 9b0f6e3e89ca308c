//! Tests with a `kube::Client` whose service is a mock in this process, on virtual time.
#![cfg(feature = "client")]
#![allow(clippy::unwrap_used, reason = "a test may")]

mod discovery;
mod fleet;
mod informers;
#[cfg(feature = "controller")]
mod kube_runtime;
mod lease;
#[cfg(feature = "controller")]
mod reflector;
mod server;
#[path = "../../../tests/src/support.rs"]
#[expect(
    dead_code,
    unreachable_pub,
    reason = "it is public in its crate, and others use the rest"
)]
mod support;
mod transport;
#[cfg(feature = "runtime")]
mod watcher;
