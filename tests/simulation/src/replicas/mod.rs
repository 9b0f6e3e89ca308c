//! A deterministic simulation of replicas that share keys: one seed determines processes, faults, clocks and the
//! schedule.
//!
//! Each process has the parts of `Replica` and `Controller` of `informer-tokio`:
//! [`Elector`](informer_core::election::Elector), [`Members`](informer_core::election::Members) and
//! [`PolledQueue`](informer_core::queue::PolledQueue). All use one API server with Leases. A process can be killed,
//! frozen, cut off and restarted, and has its own clock. After every event no key may belong to two processes. At the
//! end all faults are removed, and every key must be owned and reconciled within a bounded time. See
//! `docs/TESTING.md`.

mod plan;
mod replica;
mod run;
mod server;

pub use plan::{Action, Path, Plan, World};
pub use run::{Figures, Replicas};
