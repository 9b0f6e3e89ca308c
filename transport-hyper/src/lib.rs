//! The HTTP transport of the informer, on [hyper](https://hyper.rs) and [rustls](https://docs.rs/rustls).
//!
//! It sends the informer's requests to one API server by HTTP/1.1, in plain text or over TLS. The URL, the cluster's
//! CA, a client certificate or a bearer token are given to [`HyperTransport::builder`].
//!
//! ```no_run
//! use informer_core::{Body, Get, Transport};
//! use informer_hyper::HyperTransport;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let account = std::path::Path::new("/var/run/secrets/kubernetes.io/serviceaccount");
//! let mut transport = HyperTransport::builder("https://kubernetes.default.svc")
//!     .root_certificates(std::fs::read(account.join("ca.crt"))?)
//!     .bearer_token(std::fs::read_to_string(account.join("token"))?)
//!     .build()?;
//!
//! let (head, mut body) = transport.send(Get::new("/api/v1/namespaces/default/pods?limit=500")).await?;
//! let mut json = Vec::new();
//! while let Some(chunk) = body.chunk().await? {
//!     json.extend_from_slice(chunk);
//! }
//! println!("{}: {} bytes", head.status, json.len());
//! # Ok(())
//! # }
//! ```
//!
//! # Connections
//! A transport keeps one idle connection. A request takes it, and gives it back when the body was read to its end; so
//! a list and the watch that follows share a connection. A request that comes while it is taken opens another. A body
//! that is dropped before its end closes its connection. A clone of a transport shares the settings, not the
//! connection.
//!
//! Nothing is spawned: a connection moves on only while [`send`](informer_core::Transport::send) or
//! [`chunk`](informer_core::Body::chunk) is awaited. These must be awaited inside a tokio runtime with `enable_all`.
//!
//! # Timeouts
//! Only opening a connection has one ([`HyperBuilder::connect_timeout`]). How long to wait for an answer and for the
//! rest of it is the informer's decision.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

mod address;
mod body;
mod builder;
mod connect;
mod connection;
mod credentials;
mod error;
mod pool;
mod stream;
mod tls;
mod transport;

pub use body::HyperBody;
pub use builder::{BuildError, HyperBuilder};
pub use error::HyperError;
pub use transport::HyperTransport;
