//! Parts shared by the benchmarks: the data set, the server that replays it, and the cases whose instructions are
//! counted.
#![expect(missing_debug_implementations, reason = "nothing shows them")]

pub mod cases;
pub mod clusters;
pub mod compare;
pub mod data;
pub mod encoded;
pub mod growth;
pub mod http2;
pub mod informers;
pub mod nodes;
pub mod pods;
pub mod script;
pub mod server;
