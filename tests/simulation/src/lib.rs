//! A deterministic simulation of an informer: one seed determines the changes, the faults and the schedule.
//!
//! A [`Plan`] is a world and a list of actions. [`run_with`] carries it out on the engine without I/O, on virtual
//! time, against two fake API servers that share one etcd. All [`invariants`] are checked after every step. At the
//! end all faults are removed, and the informer must converge within a bounded time. See `docs/TESTING.md`.
//! [`journal`] and, with the feature `runtime`, `replicas` and `runtime` are separate simulations.

#![expect(missing_debug_implementations, reason = "nothing shows them")]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "an invariant looks at what concerns it, and enums of the engine may grow"
)]

pub mod audit;
pub mod bugs;
pub mod client;
pub mod cluster;
pub mod coverage;
pub mod engine;
pub mod entropy;
pub mod faults;
pub mod fuzzing;
pub mod invariants;
pub mod journal;
pub mod journaled;
pub mod plan;
pub mod planted;
#[cfg(feature = "runtime")]
pub mod replicas;
pub mod run;
pub mod runner;
#[cfg(feature = "runtime")]
pub mod runtime;
pub mod shrink;
pub mod variant;
pub mod wire;

pub use plan::Plan;
pub use run::{Outcome, Violation, run_with};
pub use variant::Variant;
