//! The reflector against client-go's rules. What a test's comment names as `R..`, `P..` or `X..` is a scenario of the
//! catalogue of client-go; "DIFFERENCES" marks where the engine does better on purpose.
#![cfg(feature = "alloc")]

mod backoff;
mod bad_input;
mod classes;
mod harness;
mod large;
mod list;
mod resume;
mod split;
mod stream;
mod watch;
