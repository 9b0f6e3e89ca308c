//! A deterministic simulation of replicas that share keys: one seed makes processes, faults, clocks and the schedule.
//!
//! Each process has what `Replica` and `Controller` of `informer-tokio` have: [`Elector`](informer_core::election::Elector),
//! [`Members`](informer_core::election::Members) and [`WorkQueue`](informer_core::queue::WorkQueue), before one API server with Leases. It
//! is killed, frozen, cut off and started anew, and its clock is its own. After every event no key may be two's; at the
//! end all faults are taken away, and every key has to be one's and done in bounded time. See `docs/TESTING.md`.

mod plan;
mod replica;
mod run;
mod server;
mod workers;

pub use plan::{Action, Path, Plan, World};
pub use run::{Figures, Replicas};
