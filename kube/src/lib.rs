//! Kubernetes informers for users of kube-rs.
//!
//! A [`kube::Client`](kube_client::Client) is the transport, and the types of k8s-openapi, those derived with
//! `kube::CustomResource`, and `kube::core::DynamicObject` are stored as they are. The informers are those of
//! [`informer_tokio`].
//!
//! This crate follows the major versions of kube, so the other crates of the workspace need not.
//!
//! # Features
//! - `client` (default): everything that sends requests through a `kube::Client`. Without it, [`resource`] makes the
//!   types usable with any transport.
//! - `runtime`: replacements for the watcher of `kube-runtime`, with its signatures.

#![forbid(unsafe_code)]

#[cfg(feature = "client")]
pub mod informers;
#[cfg(feature = "client")]
mod lease;
mod resource;
#[cfg(feature = "client")]
mod transport;
#[cfg(feature = "runtime")]
pub mod watcher;
#[cfg(feature = "client")]
mod writes;

pub use resource::{resource, resource_of};
#[cfg(feature = "runtime")]
pub use watcher::{metadata_watcher, watcher};
#[cfg(feature = "client")]
pub use {informers::Informers, lease::KubeLease, transport::transport};

/// The program in `README.md`.
#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../README.md")]
mod readme {}
