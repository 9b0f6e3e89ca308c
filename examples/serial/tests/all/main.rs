//! Tests of the serial line: frames, a noisy line, the conformance suite, and an informer on top.
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
