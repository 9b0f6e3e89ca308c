//! Tests of the serial line: frames, the line under noise, the promises of a transport, an informer over all that.
#![allow(
    clippy::unwrap_used,
    clippy::std_instead_of_core,
    reason = "a test may"
)]

mod conformance;
mod frames;
mod informer;
mod noise;
mod support;
