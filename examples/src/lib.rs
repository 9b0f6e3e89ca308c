//! The examples are in `examples/`. This crate has what they share.

pub mod measure;
pub mod terminal;
