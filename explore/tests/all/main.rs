//! All tests of the public interface, in one program, so that it is linked once.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod bugs;
mod explore;
mod faults;
mod invariants;
#[cfg(feature = "kube")]
mod kube;
mod reports;
mod table;
