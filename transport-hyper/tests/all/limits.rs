//! Certificates of servers that cannot be verified. The error names the limit and the way out. The files in `fixtures`
//! were made by openssl, as rcgen lacks their algorithms.
#![allow(clippy::std_instead_of_alloc, reason = "a test may")]

use std::sync::Arc;

use informer_core::Transport;
use informer_core::transport::{FailureKind, Get, TransportError};
use informer_hyper::HyperTransport;
use rcgen::{BasicConstraints, CertificateParams, CustomExtension, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::support::Server;
use crate::support::tls::{Ca, accept, for_name};

type Chain = Vec<CertificateDer<'static>>;

fn here() -> CertificateParams {
    for_name("127.0.0.1")
}

/// Connects to a server with this chain, and returns the error.
async fn error(root: &[u8], chain: Chain, key: PrivateKeyDer<'static>) -> Option<String> {
    let server = Server::start().await;
    // A server does not look at its own certificate.
    let key = ring::sign::any_supported_type(&key).unwrap();
    let certified = CertifiedKey::new(chain, key);
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    let mut transport = HyperTransport::builder(format!("https://127.0.0.1:{}", server.port))
        .root_certificates(root)
        .build()
        .unwrap();
    let (answer, _) = tokio::join!(
        async {
            let answer = transport.send(Get::new("/x")).await;
            drop(transport);
            answer
        },
        async {
            let mut peer = accept(&server, config).await?;
            peer.serve("ok").await;
            Some(peer)
        }
    );
    let error = answer.err()?;
    assert_eq!(error.kind(), FailureKind::Tls);
    let line = error.to_string();
    for dumped in ["Other", "Context", "{", "["] {
        assert!(!line.contains(dumped), "{line}");
    }
    Some(line)
}

#[track_caller]
fn says(line: Option<&str>, words: &[&str]) {
    for words in words {
        assert!(
            line.is_some_and(|line| line.contains(words)),
            "{words}: {line:?}"
        );
    }
}

#[tokio::test]
async fn an_algorithm_that_cannot_be_verified_is_named() {
    for (pem, expected) in [
        (
            include_str!("fixtures/chain-p521.pem"),
            (!cfg!(feature = "aws-lc-rs")).then_some("signed with ECDSA with SHA-512"),
        ),
        (
            include_str!("fixtures/chain-secp256k1.pem"),
            Some("signed with ECDSA on secp256k1"),
        ),
        (
            include_str!("fixtures/chain-ed448.pem"),
            Some("signed with Ed448"),
        ),
        (
            include_str!("fixtures/chain-sha1.pem"),
            Some("signed with RSA with SHA-1"),
        ),
        (
            include_str!("fixtures/chain-rsa1024.pem"),
            Some("a CA whose RSA key has 1024 bits"),
        ),
    ] {
        let chain: Result<Chain, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
        let [server, ca] = <[_; 2]>::try_from(chain.unwrap()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(include_bytes!("fixtures/ec-sec1.pem")).unwrap();
        let line = error(&ca, vec![server], key).await;
        let Some(expected) = expected else {
            assert_eq!(line, None);
            continue;
        };
        let way_out =
            "issue it again by a CA with RSA of 2048 to 8192 bits, ECDSA on P-256 or P-384";
        says(line.as_deref(), &[expected, way_out]);
    }
}

/// `openssl req -x509` makes such certificates.
#[tokio::test]
async fn a_server_with_a_certificate_of_a_ca_is_told_so() {
    let ca = Ca::new();
    let mut params = here();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let (signed, key) = ca.sign(&params);
    let own = params.self_signed(&key).unwrap();
    for (root, certificate) in [(ca.certificate.der(), &signed), (own.der(), &own)] {
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let line = error(root, vec![certificate.der().clone()], key).await;
        says(
            line.as_deref(),
            &[
                "the server's certificate is that of a CA (CA:TRUE)",
                "issue the server a certificate with CA:FALSE",
            ],
        );
    }
}

#[tokio::test]
async fn a_certificate_of_the_server_is_no_ca() {
    let ca = Ca::named("the real CA");
    let (leaf, key) = ca.sign(&here());
    let line = error(leaf.der(), vec![leaf.der().clone()], key.into()).await;
    says(
        line.as_deref(),
        &[
            "the configured CA is the server's own certificate",
            "set the CA that has issued it, \"the real CA\" (root_certificates, or certificate-authority in a kubeconfig)",
        ],
    );

    // A certificate that has signed itself is its own CA, as in Go.
    let key = KeyPair::generate().unwrap();
    let own = here().self_signed(&key).unwrap();
    assert_eq!(
        error(own.der(), vec![own.der().clone()], key.into()).await,
        None
    );
}

#[tokio::test]
async fn a_certificate_that_may_not_sign_others_is_reported() {
    let ca = Ca::new();
    let mut middle = CertificateParams::default();
    middle.distinguished_name.push(DnType::CommonName, "middle");
    let (certificate, key) = ca.sign(&middle);
    let (issuer, key_of_server) = (Issuer::new(middle, key), KeyPair::generate().unwrap());
    let leaf = here().signed_by(&key_of_server, &issuer).unwrap();
    let chain = vec![leaf.der().clone(), certificate.der().clone()];
    let line = error(ca.certificate.der(), chain, key_of_server.into()).await;
    says(
        line.as_deref(),
        &[
            "signed by a certificate that is not that of a CA",
            "CA:TRUE",
        ],
    );
}

#[tokio::test]
async fn a_critical_extension_is_reported() {
    let ca = Ca::new();
    let mut params = here();
    let mut extension = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
    extension.set_criticality(true);
    params.custom_extensions.push(extension);
    let (certificate, key) = ca.sign(&params);
    let line = error(
        ca.certificate.der(),
        vec![certificate.der().clone()],
        key.into(),
    )
    .await;
    says(
        line.as_deref(),
        &["has a critical extension that is not supported"],
    );
}
