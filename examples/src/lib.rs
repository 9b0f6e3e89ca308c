//! The examples are in `examples/`. This crate itself is empty; it has the code in the documents compiled and run.

/// The code in `README.md`.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub mod readme {}

/// The code in `docs/RUN-LOOP.md`.
#[cfg(doctest)]
#[doc = include_str!("../../docs/RUN-LOOP.md")]
pub mod run_loop {}
