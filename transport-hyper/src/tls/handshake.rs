//! The TLS handshake of one connection.

use alloc::sync::Arc;
use std::io;

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio_rustls::TlsConnector;

use crate::stream::Stream;

/// A configuration, and the name that the certificate of the server must have.
pub(crate) struct Handshake {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
}

impl Handshake {
    pub(crate) async fn shake(&self, stream: Stream) -> io::Result<Stream> {
        let connector = TlsConnector::from(Arc::clone(&self.config));
        let tls = connector.connect(self.name.clone(), stream).await?;
        let alpn = tls.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        Ok(Stream::new(tls, alpn))
    }
}
