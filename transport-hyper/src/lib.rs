//! An HTTP transport for the informer, built on [hyper](https://hyper.rs) and rustls.
//!
//! It sends the informer's requests to one API server over HTTP/2 or HTTP/1.1, in plain text or over TLS.
//! [`HyperTransport::builder`] takes the URL, the cluster's CA, and a client certificate or a bearer token.
//!
//! ```no_run
//! use informer_core::{Body, Transport, transport::Get};
//! use informer_hyper::HyperTransport;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let mut transport = HyperTransport::in_cluster()?.build()?;
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
//! Over TLS the server chooses the protocol by ALPN, and HTTP/2 is preferred. In plain text HTTP/1.1 is used.
//! [`http1`](HyperBuilder::http1) and [`http2`](HyperBuilder::http2) disable either protocol.
//!
//! **HTTP/2.** A transport and all its clones share connections, so give each informer a clone. One connection carries
//! as many lists and watches as the server allows (100 by default on an API server); then another is opened. When the
//! server closes a connection (GOAWAY), its open streams continue, and new requests use another connection. A request
//! that the server reports as not processed is sent again, and a new connection that the server closes at once is
//! replaced. After five such attempts the request fails as a reset, and the informer backs off. After 12 s without data
//! a ping is sent, and after another 10 s the connection is considered dead ([`pings`](HyperBuilder::pings)). A stream
//! that is not read does not block other streams.
//!
//! **HTTP/1.1.** A transport keeps one idle connection. A request uses it, and returns it after the body has been read
//! to its end, so a list and the following watch share a connection. If the connection is in use, a request opens
//! another one. A body that is dropped before its end closes its connection. Clones share no HTTP/1.1 connections.
//!
//! An HTTP/2 connection has a task, which ends with the last transport or body that uses the connection. An HTTP/1.1
//! connection has none, and makes progress only while [`send`](informer_core::Transport::send) or
//! [`chunk`](informer_core::Body::chunk) is awaited. Both functions need a tokio runtime with `enable_all`. The server's
//! name is resolved again for each connection.
//!
//! # Writes
//! [`HyperTransport`] is a [`Service`](tower_service::Service) for requests of any method, for `kube::Client` and other
//! clients. [`HyperTransport::request`] is the same for requests and responses in memory.
//!
//! # Authentication
//! A program in a Pod starts with [`HyperTransport::in_cluster`], and a program on a workstation with `Kubeconfig`
//! (feature `kubeconfig`). Other programs set a URL, a CA, and a client certificate, a token or a [`CredentialSource`].
//!
//! Certificate files are read again when they change
//! ([`root_certificates_file`](HyperBuilder::root_certificates_file)). A token file is read every minute, and once
//! after the server responds with 401. Logs, errors and `Debug` output never contain secrets.
//!
//! All clones share one acquisition of a credential. It has its own limit
//! ([`login_timeout`](HyperBuilder::login_timeout)) and may outlive the request that began it.
//!
//! # Features
//! - `http2` (default): HTTP/2.
//! - `ring` (default): TLS with the cryptography of ring, which is compiled by a C compiler.
//! - `aws-lc-rs`: TLS with the cryptography of aws-lc-rs, which is compiled by a C compiler. If `ring` is on too, it is not
//!   used.
//! - `tls`: TLS by rustls. Each of `ring`, `aws-lc-rs`, `kubeconfig` and `webpki-roots` includes it. Without it, a URL with
//!   `https://` is an error of [`build`](HyperBuilder::build).
//! - `kubeconfig`: `Kubeconfig`, the clusters and users that `kubectl` knows.
//! - `tower`: `TowerTransport`, which uses any service over HTTP requests, such as `kube::Client`, as a transport.
//! - `webpki-roots`: the public CAs of Mozilla, compiled in, which are trusted where the operating system has none
//!   ([`root_certificates`](HyperBuilder::root_certificates)).
//!
//! A [`CryptoProvider`](rustls::crypto::CryptoProvider) that the program has installed for the process before it builds a
//! transport comes before those of `ring` and `aws-lc-rs`.
//!
//! # Compression
//! Requests send `Accept-Encoding: gzip`, and gzip bodies are decoded as they arrive. A server compresses lists larger
//! than 128 KiB ([KEP-2338](https://github.com/kubernetes/enhancements/issues/2338)). Kubernetes 1.37 and later also
//! compress watches that begin with a list, with one gzip member per flush. The data of each member is returned as soon
//! as it arrives. Reading a compressed body takes about 75 KiB of memory, regardless of its size.
//! [`HyperBuilder::gzip`] disables compression.
//!
//! # Timeouts
//! | phase | limit |
//! |---|---|
//! | opening a connection | [`connect_timeout`](HyperBuilder::connect_timeout) |
//! | head of a response | [`answer_timeout`](HyperBuilder::answer_timeout) |
//! | no data in a response body | [`silence_timeout`](HyperBuilder::silence_timeout), off by default since the informer has its own limit |
//! | idle connection | [`idle_timeout`](HyperBuilder::idle_timeout) |
//!
//! Pings detect dead HTTP/2 connections. TCP keepalive detects dead HTTP/1.1 connections: the operating system sends a
//! probe after 30 s without data.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

mod address;
mod body;
mod build_error;
mod builder;
mod connect;
mod credentials;
mod error;
mod gzip;
mod http1;
#[cfg(feature = "http2")]
mod http2;
#[cfg(not(feature = "http2"))]
#[path = "without_http2.rs"]
mod http2;
#[cfg(feature = "tls")]
mod in_cluster;
#[cfg(feature = "kubeconfig")]
mod kubeconfig;
mod pool;
mod proxy;
mod service;
mod stream;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "without_tls.rs"]
mod tls;
#[cfg(feature = "tower")]
mod tower;
mod transport;

pub use body::HyperBody;
pub use build_error::BuildError;
pub use builder::HyperBuilder;
pub use credentials::{Credential, CredentialError, CredentialFuture, CredentialSource};
pub use error::HyperError;
#[cfg(feature = "tls")]
pub use in_cluster::in_cluster_namespace;
#[cfg(feature = "kubeconfig")]
pub use kubeconfig::Kubeconfig;
#[cfg(feature = "tower")]
pub use tower::TowerTransport;
pub use transport::HyperTransport;
// They are in the signatures.
#[doc(no_inline)]
pub use http;
#[cfg(feature = "tls")]
#[doc(no_inline)]
pub use rustls;

/// The program in `README.md`.
#[cfg(all(doctest, feature = "kubeconfig"))]
#[doc = include_str!("../README.md")]
mod readme {}
