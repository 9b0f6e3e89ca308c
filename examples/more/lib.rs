//! Code that the examples share.

pub mod cluster;
#[path = "../shared/measure.rs"]
pub mod measure;
#[path = "../shared/terminal.rs"]
pub mod terminal;
