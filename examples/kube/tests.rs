//! Runs the unit tests of the examples. If the examples were test targets themselves, `cargo test` would not build the
//! programs that other tests run.

#![allow(dead_code, reason = "the examples' `main` is not called here")]

#[path = "sample_controller/main.rs"]
mod sample_controller;
#[path = "shops/main.rs"]
mod shops;
