//! A deterministic simulation of replicas of a controller: one seed determines processes, faults, clocks and the
//! schedule.
//!
//! Each process is a tokio runtime of its own, which runs an `Informer` and a `Controller` that shares the keys with
//! others (`Replica`) or competes for the leadership (`Election`). Its paused clock goes at its own rate: a `Run`
//! moves all clocks forward by a tick, carries the requests for Leases from one process to the API server and back, and
//! checks all invariants. A process can be killed, frozen, cut off and restarted. At the end all faults are removed, and
//! every key must be owned and reconciled within a bounded time. See `docs/TESTING.md`.

mod plan;
mod process;
mod run;
mod server;

pub use plan::{Action, Path, Plan, World};
pub use run::{Figures, Replicas};
