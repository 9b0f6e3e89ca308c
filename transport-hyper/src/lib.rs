//! The HTTP transport of the informer, on [hyper](https://hyper.rs) and rustls.
//!
//! It sends the informer's requests to one API server by HTTP/2 or HTTP/1.1, in plain text or over TLS. The URL, the
//! cluster's CA, a client certificate or a bearer token are given to [`HyperTransport::builder`].
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
//! Over TLS the server chooses the protocol (by ALPN), and HTTP/2 is preferred. In plain text it is HTTP/1.1.
//! [`http1`](HyperBuilder::http1) and [`http2`](HyperBuilder::http2) turn either off.
//!
//! **HTTP/2.** A transport and all its clones share connections, so give each informer a clone. One connection carries
//! as many lists and watches as the server allows (100 at an API server where nothing else is configured); then another
//! is opened. A connection that goes away (GOAWAY) is drained: what runs on it goes on, and new requests go to another
//! connection. A request that the server says it has not looked at is sent again. Where nothing was heard for 12 s a
//! ping goes out, and after 10 s more without a sign of life the connection is dead ([`pings`](HyperBuilder::pings)).
//! What is not read of one stream holds back no other.
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
//! # Compression
//! Requests say `Accept-Encoding: gzip`, and a body that comes in gzip is decoded as it arrives. A server compresses
//! lists larger than 128 KiB
//! ([KEP-2338](https://github.com/kubernetes/enhancements/issues/2338)). From Kubernetes 1.37 on it also compresses
//! watches that begin with a list, with one gzip member per flush; what is in a member is given out when it has come,
//! whether or not another follows. A compressed body needs about 75 KiB of memory for as long as it is read, however
//! much is in it. [`HyperBuilder::gzip`] turns it off.
//!
//! # Timeouts
//! Opening a connection has one ([`HyperBuilder::connect_timeout`]), and pings find dead connections of HTTP/2. How long to wait for an answer and for the
//! rest of it is the informer's decision. TCP keepalive is on: where a connection was silent for 30 s, the system asks
//! the other end whether it is still there, which also keeps what lies between from forgetting it.
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
mod pool;
mod stream;
mod tls;
mod transport;

pub use body::HyperBody;
pub use builder::{BuildError, HyperBuilder};
pub use error::HyperError;
pub use transport::HyperTransport;
