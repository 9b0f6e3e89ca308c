//! The HTTP transport of the informer, on [hyper](https://hyper.rs) and rustls.
//!
//! It sends the informer's requests to one API server by HTTP/2 or HTTP/1.1, in plain text or over TLS. The URL, the
//! cluster's CA, a client certificate or a bearer token are given to [`HyperTransport::builder`].
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
//! Over TLS the server chooses the protocol (by ALPN), and HTTP/2 is preferred. In plain text it is HTTP/1.1.
//! [`http1`](HyperBuilder::http1) and [`http2`](HyperBuilder::http2) turn either off.
//!
//! **HTTP/2.** A transport and all its clones share connections, so give each informer a clone. One connection carries
//! as many lists and watches as the server allows (an API server allows 100 by default); then another is opened. When
//! the server closes a connection (GOAWAY), its open streams continue and new requests use another connection. A request
//! that the server reports as not processed is sent again, and a new connection that the server closes at once is
//! replaced. After five such attempts the request fails as a reset, and the informer backs off. After 12 s without data
//! a ping is sent, and after 10 s more the connection is dead ([`pings`](HyperBuilder::pings)). A stream that is not
//! read holds back no other.
//!
//! **HTTP/1.1.** A transport keeps one idle connection. A request takes it, and gives it back when the body was read to
//! its end; so a list and the watch that follows share a connection. A request that comes while it is taken opens
//! another. A body that is dropped before its end closes its connection. A clone has connections of its own.
//!
//! Nothing is spawned: a connection moves on only while [`send`](informer_core::Transport::send) or
//! [`chunk`](informer_core::Body::chunk) is awaited, and of those who share a connection any one moves it on for all.
//! These must be awaited inside a tokio runtime with `enable_all`. The server's name is looked up anew for each
//! connection.
//!
//! # Logging in
//! A program in a Pod begins with [`HyperTransport::in_cluster`], one on a desk with `Kubeconfig` (feature
//! `kubeconfig`), and others give a URL, a CA, and a client certificate, a token or a [`CredentialSource`]. Certificates
//! in files are read again ([`root_certificates_file`](HyperBuilder::root_certificates_file)); a token in a file is
//! read again every minute, and once where the server answers 401. Nothing of these is ever in a log, an error or a
//! `Debug` text. All clones share one acquisition of a credential, which has a limit of its own
//! ([`login_timeout`](HyperBuilder::login_timeout)) and may outlast the request that began it.
//!
//! # Features
//! None is on by default.
//! - `kubeconfig`: `Kubeconfig`, the clusters and users that `kubectl` knows.
//! - `tower`: `TowerTransport`, any service over HTTP requests as a transport, `kube::Client` among them.
//!
//! # Compression
//! Requests say `Accept-Encoding: gzip`, and a body that comes in gzip is decoded as it arrives. A server compresses
//! lists larger than 128 KiB
//! ([KEP-2338](https://github.com/kubernetes/enhancements/issues/2338)). From Kubernetes 1.37 on it also compresses
//! watches that begin with a list, with one gzip member per flush; what is in a member is given out when it has come,
//! whether or not another follows. A compressed body needs about 75 KiB of memory for as long as it is read, however
//! much is in it. [`HyperBuilder::gzip`] turns it off.
//!
//! # Timeouts
//! There are limits for opening a connection ([`connect_timeout`](HyperBuilder::connect_timeout)), for the head of an
//! answer ([`answer_timeout`](HyperBuilder::answer_timeout)), for silence in its body
//! ([`silence_timeout`](HyperBuilder::silence_timeout), off where nothing is set, for the informer has its own) and for
//! idle connections ([`idle_timeout`](HyperBuilder::idle_timeout)). Pings find dead connections of HTTP/2, and TCP
//! keepalive those of HTTP/1.1: where one was silent for 30 s, the system asks the other end whether it is still there.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

mod address;
mod body;
mod builder;
mod connect;
mod credentials;
mod error;
mod gzip;
mod http1;
mod http2;
mod in_cluster;
#[cfg(feature = "kubeconfig")]
mod kubeconfig;
mod pool;
mod proxy;
mod stream;
mod tls;
#[cfg(feature = "tower")]
mod tower;
mod transport;

pub use body::HyperBody;
pub use builder::{BuildError, HyperBuilder};
pub use credentials::{Credential, CredentialError, CredentialFuture, CredentialSource};
pub use error::HyperError;
pub use in_cluster::in_cluster_namespace;
#[cfg(feature = "kubeconfig")]
pub use kubeconfig::Kubeconfig;
#[cfg(feature = "tower")]
pub use tower::TowerTransport;
pub use transport::HyperTransport;
