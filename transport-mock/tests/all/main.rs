//! All tests of the public interface, in one program, so that it is linked once.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;
mod conformance;
mod demo;
mod discovery;
mod faithful;
mod faults;
mod protobuf;
mod resources;
mod rules;
mod serve;
mod server;
mod servers;
mod transport;
mod writes;
