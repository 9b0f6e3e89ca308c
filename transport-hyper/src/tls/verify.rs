//! The verification of the certificate of a server or of a proxy.

use alloc::sync::Arc;
use core::error::Error as StdError;
use core::fmt;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::tls::Peer;
use crate::tls::algorithm::{FOR_SERVERS, RSA_BITS, rsa_bits};
use crate::tls::der::{Tag, any, expect};
use crate::tls::roots::{Fields, Roots};

/// Verifies as rustls does, with the CAs that are valid at that time, and explains errors whose cause rustls does not
/// tell.
#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) roots: Arc<Roots>,
    pub(super) peer: Peer,
    pub(super) provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(problem) = self.roots.problem(now) {
            return Err(explained(problem));
        }
        let roots = Arc::new(self.roots.store(now));
        WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&self.provider))
            .build()
            .map_err(|error| Error::General(error.to_string()))?
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            .map_err(|error| self.explain(error, end_entity, intermediates))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
            .map_err(|error| of_handshake(error, cert))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
            .map_err(|error| of_handshake(error, cert))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

impl Verifier {
    fn explain(
        &self,
        error: Error,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
    ) -> Error {
        let Error::InvalidCertificate(problem) = &error else {
            return error;
        };
        let fields = Fields::of(end_entity);
        if matches!(problem, CertificateError::UnknownIssuer) {
            return match (self.peer, fields) {
                (Peer::Proxy, _) => explained(
                    "the proxy's certificate is signed by an unknown CA; add the CA to the operating system's store, or to the \
                     file that SSL_CERT_FILE names"
                        .to_owned(),
                ),
                (Peer::Server, Some(leaf)) if self.roots.has(&leaf) => explained(format!(
                    "the configured CA is the server's own certificate and no CA; set the CA that has issued it{} \
                     (root_certificates, or certificate-authority in a kubeconfig)",
                    common_name(leaf.issuer).map_or_else(String::new, |name| format!(", {name:?}"))
                )),
                (Peer::Server, _) => error,
            };
        }
        // A signature by an RSA key of another size than these counts as wrong.
        if matches!(problem, CertificateError::BadSignature) {
            let intermediates = intermediates.iter().filter_map(|c| Fields::of(c));
            let of_intermediates = intermediates
                .clone()
                .filter_map(|fields| rsa_bits(fields.public_key));
            let issuers = fields.iter().copied().chain(intermediates);
            let of_roots = issuers.flat_map(|fields| self.roots.keys(fields.issuer));
            let of_roots: Vec<_> = of_roots.filter_map(rsa_bits).collect();
            let mut sizes = of_intermediates.chain(of_roots);
            if let Some(size) = sizes.find(|size| !RSA_BITS.contains(size)) {
                return explained(format!(
                    "the server's certificate is signed by a CA whose RSA key has {size} bits; issue it again by a CA with \
                     {FOR_SERVERS}"
                ));
            }
        }
        error
    }
}

/// Explains why the signature of a handshake is wrong, which the server makes by the key of its certificate.
fn of_handshake(error: Error, certificate: &CertificateDer<'_>) -> Error {
    if !matches!(
        error,
        Error::InvalidCertificate(CertificateError::BadSignature)
    ) {
        return error;
    }
    let size = Fields::of(certificate).and_then(|fields| rsa_bits(fields.public_key));
    match size.filter(|size| !RSA_BITS.contains(size)) {
        Some(size) => explained(format!(
            "the server's certificate has an RSA key of {size} bits; issue it for a key of {FOR_SERVERS}"
        )),
        None => explained(
            "the server's signature of the handshake is wrong; it does not have the key of its certificate".to_owned(),
        ),
    }
}

/// Finds the common name in the content of a `Name`
/// ([RFC 5280 section 4.1.2.4](https://www.rfc-editor.org/rfc/rfc5280#section-4.1.2.4)).
fn common_name(name: &[u8]) -> Option<String> {
    let mut rest = name;
    while let Some((set, others)) = expect(Tag::Set, rest) {
        let (pair, _) = expect(Tag::Sequence, set)?;
        let (attribute, value) = expect(Tag::ObjectIdentifier, pair)?;
        if attribute == COMMON_NAME {
            let (_, text, _) = any(value)?;
            return Some(String::from_utf8_lossy(text).into_owned());
        }
        rest = others;
    }
    None
}

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// Wraps an explanation, so that it passes through rustls.
fn explained(text: String) -> Error {
    let error = OtherError(Arc::new(Explained(text)));
    Error::InvalidCertificate(CertificateError::Other(error))
}

/// A complete description of what is wrong with a certificate.
#[derive(Debug)]
pub(super) struct Explained(pub(super) String);

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Explained {}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls_pki_types::pem::PemObject as _;

    #[test]
    fn a_server_with_an_rsa_key_that_is_too_short_is_told_so() {
        let wrong = || Error::InvalidCertificate(CertificateError::BadSignature);
        let pem = include_bytes!("../../tests/all/fixtures/server-rsa1024.pem");
        let certificate = CertificateDer::from_pem_slice(pem).unwrap();
        let said = crate::tls::describe(&of_handshake(wrong(), &certificate));
        assert!(
            said.starts_with("the server's certificate has an RSA key of 1024 bits; issue it for a key of RSA of 2048 to 8192"),
            "{said}"
        );
        let fields = Fields::of(&certificate).unwrap();
        assert_eq!(common_name(fields.issuer).as_deref(), Some("server"));

        let pem = include_bytes!("../../tests/all/fixtures/chain-p521.pem");
        let certificate = CertificateDer::from_pem_slice(pem).unwrap();
        let said = crate::tls::describe(&of_handshake(wrong(), &certificate));
        assert!(
            said.contains("does not have the key of its certificate"),
            "{said}"
        );
    }
}
