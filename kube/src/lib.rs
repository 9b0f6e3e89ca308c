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
//! - `runtime`: [`watcher`] and [`reflector`], which replace those of `kube-runtime` and have their signatures.
//! - `controller`: [`Controller`], which replaces the constructors of kube's. It needs kube's feature
//!   `unstable-runtime-stream-control`.

#![forbid(unsafe_code)]

#[cfg(feature = "controller")]
mod controller;
#[cfg(feature = "client")]
mod discovery;
#[cfg(feature = "client")]
pub mod informers;
#[cfg(feature = "client")]
mod lease;
#[cfg(feature = "runtime")]
pub mod reflector;
mod resource;
#[cfg(feature = "client")]
mod transport;
#[cfg(feature = "runtime")]
pub mod watcher;
#[cfg(feature = "client")]
mod writes;

#[cfg(feature = "controller")]
pub use controller::Controller;
#[cfg(feature = "runtime")]
pub use reflector::reflector;
pub use resource::{resource, resource_of};
#[cfg(feature = "runtime")]
pub use watcher::{metadata_watcher, watcher};
#[cfg(feature = "client")]
pub use {discovery::discover, informers::Informers, lease::KubeLease, transport::transport};

/// The program in `README.md`.
#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../README.md")]
mod readme {}
