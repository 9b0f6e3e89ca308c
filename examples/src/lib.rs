//! The examples are in `examples/`. This crate has what they share, and has the code in the documents compiled and run.

pub mod measure;
pub mod terminal;

/// The code in `README.md`.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub mod readme {}

/// The code in `docs/RUN-LOOP.md`.
#[cfg(doctest)]
#[doc = include_str!("../../docs/RUN-LOOP.md")]
pub mod run_loop {}

/// The code in `docs/FROM-CLIENT-GO.md`.
#[cfg(doctest)]
#[doc = include_str!("../../docs/FROM-CLIENT-GO.md")]
pub mod from_client_go {}

/// The code in `docs/FROM-KUBE-RS.md`.
#[cfg(doctest)]
#[doc = include_str!("../../docs/FROM-KUBE-RS.md")]
pub mod from_kube_rs {}

/// The code in `docs/RESYNC.md`.
#[cfg(doctest)]
#[doc = include_str!("../../docs/RESYNC.md")]
pub mod resync {}

/// The code in `docs/AUDIT.md`.
#[cfg(doctest)]
#[doc = include_str!("../../docs/AUDIT.md")]
pub mod audit {}

/// The code in `docs/MEMORY.md`.
#[cfg(doctest)]
#[doc = include_str!("../../docs/MEMORY.md")]
pub mod memory {}

/// The code in `docs/HEALTH.md`.
#[cfg(doctest)]
#[doc = include_str!("../../docs/HEALTH.md")]
pub mod health {}

/// The code in `docs/TRANSPORTS.md`.
#[cfg(doctest)]
#[doc = include_str!("../../docs/TRANSPORTS.md")]
pub mod transports {}
