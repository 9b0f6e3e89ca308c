//! Takes the place of the module `tls` without the feature `tls`: nothing can be connected to over TLS.

use alloc::sync::Arc;
use core::convert::Infallible;
use core::future::Ready;
use std::io;

use crate::address::Host;
use crate::build_error::BuildError;
use crate::connect::Protocols;
use crate::credentials::ClientCertificate;
use crate::stream::Stream;

/// There are no settings to change.
#[derive(Clone, Default, Debug)]
pub(crate) struct TlsSettings {}

impl TlsSettings {
    pub(crate) fn is_empty(&self) -> bool {
        true
    }
}

pub(crate) enum Tls {}

impl Tls {
    pub(crate) fn new(
        _settings: TlsSettings,
        _host: &Host,
        _protocols: Protocols,
    ) -> Result<Self, BuildError> {
        Err(BuildError(format!("server URL: {MISSING}")))
    }

    pub(crate) fn handshake(&self) -> Ready<Result<(Handshake, Version), String>> {
        match *self {}
    }

    pub(crate) fn version(&self) -> Ready<Version> {
        match *self {}
    }

    pub(crate) fn present(
        &self,
        _presented: Option<&Arc<ClientCertificate>>,
    ) -> Result<(), String> {
        match *self {}
    }
}

pub(crate) enum Handshake {}

impl Handshake {
    pub(crate) fn shake(&self, _stream: Stream) -> Ready<io::Result<Stream>> {
        match *self {}
    }
}

pub(crate) fn for_proxy(_host: &Host) -> Result<Handshake, BuildError> {
    Err(BuildError(format!("proxy: {MISSING}")))
}

const MISSING: &str = "https needs the cargo feature tls of informer-hyper, which ring and aws-lc-rs include; enable one of these";

/// Without certificates, every connection has the same version.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) struct Version {}

pub(crate) type Error = Infallible;

pub(crate) fn describe(error: &Error) -> String {
    match *error {}
}

#[cfg(test)]
mod tests {
    use crate::transport::HyperTransport;

    #[test]
    fn https_needs_a_feature() {
        let server = HyperTransport::builder("https://host").no_proxy();
        let proxy = HyperTransport::builder("http://host").proxy("https://proxy");
        for (builder, what) in [(server, "server URL"), (proxy, "proxy")] {
            let error = builder.build().unwrap_err().to_string();
            let expected = format!("{what}: https needs the cargo feature tls ");
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}
