//! The informer of Kubernetes' client-go for programs on tokio.
//!
//! An informer keeps a local, indexed copy of a resource up to date and notifies handlers of changes. This crate joins
//! the engine ([`informer_core`]), the runtime ([`informer_tokio`]) and the HTTP transport ([`informer_hyper`]), so that
//! a program needs no other dependency of this project.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use informer::{Informer, kind};
//! use serde::Deserialize;
//!
//! /// The fields that this program reads; no others are stored.
//! #[derive(Deserialize)]
//! struct Pod {
//!     spec: Spec,
//! }
//!
//! #[derive(Deserialize)]
//! #[serde(rename_all = "camelCase")]
//! struct Spec {
//!     node_name: Option<String>,
//! }
//!
//! kind!(Pod, "v1", "pods");
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let cluster = informer::connect().await?;
//!     let pods = Informer::<Pod>::builder(&cluster)
//!         .index("node", |pod| pod.spec.node_name.clone())
//!         .spawn();
//!
//!     pods.synced_within(Duration::from_secs(30)).await?; // Or the reason why not.
//!     println!("{} Pods", pods.lister().len());
//!     for pod in pods.lister().by_index("node", "n1")? {
//!         println!("{pod} runs on n1");
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # Features
//! - `aws-lc-rs`: the cryptography of aws-lc-rs for TLS. If `ring` is on too, it is not used.
//! - `kubeconfig` (default): [`connect()`] reads the kubeconfig files that `kubectl` reads.
//! - `metrics`: metrics for the `metrics` facade.
//! - `page`: `page::Page`, the health of informers as an HTTP page and as Prometheus metrics.
//! - `prost`: `decode::Proto`, which decodes protobuf into messages of prost.
//! - `ring` (default): the cryptography of ring for TLS. Without it, `aws-lc-rs` or a provider that the program installs is
//!   needed.
//! - `webpki-roots`: the public CAs of Mozilla, compiled in, which are trusted where the operating system has none.
//! - `zstd`: `Packed`, which stores objects compressed. It needs a C compiler.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

mod connect;

pub use connect::{ConnectError, connect};
#[cfg(feature = "zstd")]
#[doc(inline)]
pub use informer_tokio::Packed;
#[doc(inline)]
pub use informer_tokio::{
    Controller, Entry, Event, Form, Handlers, Informer, InvalidKey, Json, Key, Kind, Lister, Meta,
    Raw, Resource, Subscription, boxed, kind,
};

#[cfg(feature = "metrics")]
#[doc(inline)]
pub use informer_tokio::metrics;
#[cfg(feature = "page")]
#[doc(inline)]
pub use informer_tokio::page;
#[doc(inline)]
pub use informer_tokio::{
    controller, decode, discovery, election, factory, handler, health, informer, journal, protobuf,
    queue, recorder, requests, rights, selector,
};

/// Transports, which send requests to an API server.
pub mod transport {
    #[cfg(feature = "kubeconfig")]
    #[doc(inline)]
    pub use informer_hyper::Kubeconfig;
    #[doc(inline)]
    pub use informer_hyper::{
        BuildError, Credential, CredentialError, CredentialFuture, CredentialSource, HyperBuilder,
        HyperError, HyperTransport, in_cluster_namespace,
    };
    #[doc(no_inline)]
    pub use informer_hyper::{http, rustls};
    #[doc(inline)]
    pub use informer_tokio::transport::*;
}

/// The program in `README.md`.
#[cfg(doctest)]
#[doc = include_str!("README.md")]
mod readme {}
