//! Kubernetes informers for users of kube-rs.
//!
//! A [`kube::Client`](kube_client::Client) is the transport, and the types of k8s-openapi, those derived with
//! `kube::CustomResource`, and `kube::core::DynamicObject` are stored as they are. Informers, listers, handlers and
//! controllers are those of [`informer_tokio`], whose modules this crate re-exports, so that a program needs no other
//! dependency.
//!
//! This crate follows the major versions of kube, so the other crates of the workspace need not.
//!
//! # Features
//! - `client` (default): everything that sends requests through a `kube::Client`. Without it, [`resource()`] makes the
//!   types usable with any transport.
//! - `runtime`: `runtime::watcher` and `runtime::reflector`, which replace those of `kube-runtime` and have their signatures.
//! - `controller`: `runtime::Controller`, which replaces the constructors of kube's. It needs kube's feature
//!   `unstable-runtime-stream-control`.
//! - `metrics`, `page`, `zstd`: those of [`informer_tokio`].
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "client")]
mod discovery;
#[cfg(feature = "client")]
pub mod informers;
#[cfg(feature = "client")]
mod lease;
mod resource;
#[cfg(feature = "runtime")]
pub mod runtime;
#[cfg(feature = "client")]
mod service;
#[cfg(feature = "client")]
mod transport;

pub use resource::{resource, resource_of};
#[cfg(feature = "client")]
pub use {
    discovery::discover, informers::Informers, lease::KubeLease, service::service,
    transport::transport,
};

#[cfg(feature = "zstd")]
#[doc(inline)]
pub use informer_tokio::Packed;
#[cfg(feature = "metrics")]
#[doc(inline)]
pub use informer_tokio::metrics;
#[cfg(feature = "page")]
#[doc(inline)]
pub use informer_tokio::page;
#[doc(inline)]
pub use informer_tokio::{
    Controller, Entry, Event, Form, Handlers, Informer, InvalidKey, Json, Key, Lister, Meta, Raw,
    Resource, Subscription, controller, decode, election, factory, handler, health, informer,
    journal, queue, selector,
};
#[cfg(feature = "client")]
#[doc(inline)]
pub use informer_tokio::{discovery::DiscoveryError, recorder, requests, rights};

/// The program in `README.md`.
#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../README.md")]
mod readme {}
