//! The reflector against client-go's rules. A comment with `R..`, `P..` or `X..` refers to a scenario in the catalogue
//! of client-go; "DIFFERENCES" marks an intentional improvement.
#![cfg(feature = "alloc")]

mod backoff;
mod bad_input;
mod classes;
mod harness;
mod large;
mod list;
#[cfg(feature = "protobuf")]
mod negotiation;
mod resume;
mod retry;
mod split;
mod stream;
mod watch;
