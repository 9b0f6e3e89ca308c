//! Sharing work among replicas: one of them leads, or each has a part of the keys.

#[cfg(feature = "alloc")]
mod config;
#[cfg(feature = "alloc")]
mod elector;
#[cfg(feature = "alloc")]
mod members;
mod rendezvous;

#[cfg(feature = "alloc")]
pub use config::{ElectionConfig, ElectionError};
#[cfg(feature = "alloc")]
pub use elector::{ElectionStep, Elector, LeaseRecord, Written};
#[cfg(feature = "alloc")]
pub use members::Members;
pub use rendezvous::rendezvous;
