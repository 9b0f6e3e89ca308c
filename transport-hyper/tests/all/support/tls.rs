//! Certificates made for each test.

use std::sync::Arc;

use super::{Peer, Server};
use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A CA of a test.
pub struct Ca {
    pub certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    pub fn new() -> Self {
        Self::named("this cluster's CA")
    }

    pub fn named(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self {
            certificate: params.self_signed(&key).unwrap(),
            issuer: Issuer::new(params, key),
        }
    }

    /// Creates a CA with this key that is valid from the first year to the last. All of them have the same name.
    pub fn valid(key: &KeyPair, from: i32, to: i32) -> Self {
        let key = KeyPair::try_from(key.serialize_der()).unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = rcgen::date_time_ymd(from, 1, 1);
        params.not_after = rcgen::date_time_ymd(to, 1, 1);
        Self {
            certificate: params.self_signed(&key).unwrap(),
            issuer: Issuer::new(params, key),
        }
    }

    pub fn sign(&self, params: &CertificateParams) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        (self.sign_for(params, &key), key)
    }

    pub fn sign_for(&self, params: &CertificateParams, key: &KeyPair) -> Certificate {
        params.signed_by(key, &self.issuer).unwrap()
    }

    /// A server's configuration with a certificate of this CA.
    pub fn server(&self, params: &CertificateParams) -> ServerConfig {
        let (certificate, key) = self.sign(params);
        ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key.into())
            .unwrap()
    }

    /// The same, with a required client certificate of this CA.
    pub fn strict_server(&self, params: &CertificateParams) -> ServerConfig {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
            .build()
            .unwrap();
        let (certificate, key) = self.sign(params);
        ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate.der().clone()], key.into())
            .unwrap()
    }
}

pub fn for_name(name: &str) -> CertificateParams {
    CertificateParams::new([name.to_owned()]).unwrap()
}

/// Performs the TLS handshake. If it fails, waits until the client has read the reason.
pub async fn accept(server: &Server, config: ServerConfig) -> Option<Peer<TlsStream<TcpStream>>> {
    let tcp = server.accept_tcp().await;
    match TlsAcceptor::from(Arc::new(config))
        .accept(tcp)
        .into_fallible()
        .await
    {
        Ok(stream) => Some(Peer(stream)),
        Err((_, tcp)) => {
            let _ = tokio::io::copy(&mut { tcp }, &mut tokio::io::sink()).await;
            None
        }
    }
}
