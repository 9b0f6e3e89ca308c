//! The settings of TLS.

use std::path::PathBuf;

use rustls::ClientConfig;

use crate::builder::HyperBuilder;
use crate::credentials::Secret;
use crate::tls::{Identity, PemSource};

impl HyperBuilder {
    /// Trusts the CA certificates in `certificates`: PEM text with one or more certificates, or one certificate in DER.
    ///
    /// A certificate that has expired, is not valid yet or cannot be parsed is logged and not trusted. If no
    /// certificate remains, the transport cannot be built, or its requests fail with an error of the class TLS.
    ///
    /// Several calls add up. Without any call, the CAs of the operating system's store are trusted, as by kubectl, or those
    /// of the file and the folders that the environment variables `SSL_CERT_FILE` and `SSL_CERT_DIR` name. The store is read
    /// once, by [`build`](Self::build), and only if the URL is `https://`. If it has no CA, as in an image without
    /// `/etc/ssl`, building fails, unless the feature `webpki-roots` has compiled the CAs of Mozilla in. A cluster's CA is
    /// usually not in the store.
    pub fn root_certificates(mut self, certificates: impl Into<Vec<u8>>) -> Self {
        let data = Secret(certificates.into());
        self.tls.roots.push(PemSource::Data(data));
        self
    }

    /// Trusts the CA certificates in a file; see [`root_certificates`](Self::root_certificates).
    ///
    /// The file is checked before each new connection, and at most every 10 s when a request is sent. After a change,
    /// existing connections accept no new requests, and their open streams continue. A file that later cannot be read
    /// or parsed is logged, and the previous certificates stay in use.
    pub fn root_certificates_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.roots.push(PemSource::File(path.into()));
        self
    }

    /// Authenticates with a client certificate in files. The files are checked for changes as described for
    /// [`root_certificates_file`](Self::root_certificates_file).
    pub fn client_certificate_files(
        mut self,
        chain: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.tls.identity = Some(Identity {
            chain: PemSource::File(chain.into()),
            key: PemSource::File(key.into()),
        });
        self
    }

    #[cfg(feature = "kubeconfig")]
    pub(crate) fn roots(mut self, source: PemSource) -> Self {
        self.tls.roots.push(source);
        self
    }

    #[cfg(feature = "kubeconfig")]
    pub(crate) fn identity(mut self, identity: Identity) -> Self {
        self.tls.identity = Some(identity);
        self
    }

    /// Verifies the server's certificate against this name instead of the URL's host.
    ///
    /// This is needed to reach a server through a tunnel or by an address that is not in its certificate.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.tls.server_name = Some(name.into());
        self
    }

    /// Disables or enables the verification of the server's certificate. It is enabled by default.
    ///
    /// **Without verification, an attacker on the network can read and change everything, including credentials.**
    /// [`build`](Self::build) logs a warning.
    pub fn insecure_skip_tls_verify(mut self, insecure: bool) -> Self {
        self.tls.insecure = insecure;
        self
    }

    /// Authenticates with a client certificate: the chain, beginning with the client's own certificate, and its private
    /// key.
    ///
    /// Both are PEM text or DER. The key is PKCS#8, PKCS#1 or SEC1; its content decides, whatever its PEM label. The same
    /// PEM text can hold both. Keys are RSA of 2048, 3072 or 4096 bits, ECDSA on P-256 or P-384, or Ed25519; aws-lc-rs
    /// supports more.
    pub fn client_certificate(
        mut self,
        chain: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.tls.identity = Some(Identity {
            chain: PemSource::Data(Secret(chain.into())),
            key: PemSource::Data(Secret(key.into())),
        });
        self
    }

    /// Uses this TLS configuration instead of one made from the builder's certificates.
    ///
    /// Its ALPN protocols are replaced by those that the transport supports.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use informer_hyper::HyperTransport;
    ///
    /// let provider = Arc::new(rustls::crypto::ring::default_provider());
    /// let config = rustls::ClientConfig::builder_with_provider(provider)
    ///     .with_protocol_versions(&[&rustls::version::TLS13])?
    ///     .with_root_certificates(rustls::RootCertStore::empty())
    ///     .with_no_client_auth();
    /// let transport = HyperTransport::builder("https://10.0.0.1:6443").tls_config(config).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tls_config(mut self, config: ClientConfig) -> Self {
        self.tls.config = Some(config);
        self
    }
}
