//! What the benchmarks share: the data set and the server that replays it.

pub mod cases;
pub mod compare;
pub mod data;
pub mod pods;
pub mod server;
