//! All tests of the public interface, in one program, so that it is linked once.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod bodies;
mod conformance;
mod credentials;
mod gzip;
mod http2;
mod keys;
#[cfg(feature = "kubeconfig")]
mod kubeconfig;
mod limits;
mod plain;
mod service;
mod settings;
mod store;
mod support;
mod tls;
mod tower;
