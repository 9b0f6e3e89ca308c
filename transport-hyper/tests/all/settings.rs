//! Invalid settings of a transport.
#![allow(clippy::std_instead_of_alloc, reason = "a test may")]

use std::sync::Arc;

use informer_hyper::{HyperBuilder, HyperTransport};
use rcgen::{CertificateParams, KeyPair};
use rustls::{ClientConfig, RootCertStore};

fn https() -> HyperBuilder {
    HyperTransport::builder("https://127.0.0.1")
}

/// The same, and it builds where the operating system has no CA.
fn trusting() -> HyperBuilder {
    https().insecure_skip_tls_verify(true)
}

fn problem(builder: HyperBuilder) -> String {
    builder.build().unwrap_err().to_string()
}

fn client_config() -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth()
}

#[test]
fn a_url_with_a_password_does_not_show_it() {
    for url in [
        "https://me:s3cret@host",
        "me:s3cret@host",
        "https://me:s3cret@host:99999",
    ] {
        let problem = problem(HyperTransport::builder(url));
        assert!(
            problem.starts_with("server URL \"[hidden]@host"),
            "{problem}"
        );
        assert!(!problem.contains("s3cret"), "{problem}");
        let builder = HyperTransport::builder(url);
        assert!(!format!("{builder:?}").contains("s3cret"), "{builder:?}");
    }
}

#[test]
fn nothing_shows_a_token_or_a_key() {
    let builder = https()
        .bearer_token("s3cret")
        .client_certificate("s3cret", "s3cret")
        .root_certificates("s3cret");
    let shown = format!("{builder:?}");
    assert!(
        !shown.contains("s3cret") && !shown.contains(&format!("{:?}", b"s3cret")),
        "{shown}"
    );
    assert!(!problem(builder).contains("s3cret"));
    let transport = trusting().bearer_token("s3cret").build().unwrap();
    assert_eq!(
        format!("{transport:?}"),
        "HyperTransport(https://127.0.0.1:443)"
    );
    let problem = problem(trusting().bearer_token("s3cret\nx"));
    assert!(
        problem.starts_with("bearer token: ") && !problem.contains("s3cret"),
        "{problem}"
    );
}

const NO_CERTIFICATE: &str = "root certificates: the PEM text contains no CERTIFICATE";
const NO_KEY: &str = "client key: no private key";

#[test]
fn certificates_that_are_none_are_reported() {
    let key = KeyPair::generate().unwrap().serialize_pem();
    let certificate = CertificateParams::default()
        .self_signed(&KeyPair::generate().unwrap())
        .unwrap()
        .pem();
    let root = |pem: &[u8]| https().root_certificates(pem);
    let client = |chain: &str, key: &str| trusting().client_certificate(chain, key);
    let both = root(certificate.as_bytes()).tls_config(client_config());
    let half = b"-----BEGIN CERTIFICATE-----\nxx";
    for (builder, expected) in [
        (root(b"nonsense"), "root certificates: neither PEM text"),
        (root(b""), "root certificates: neither PEM text"),
        (root(key.as_bytes()), NO_CERTIFICATE),
        (root(half), "root certificates: "),
        (root(b"\x30\x00"), "root certificates: "),
        (client("", &key), "client certificate: neither PEM text"),
        (client(&certificate, "nonsense"), NO_KEY),
        (client(&certificate, &certificate), NO_KEY),
        (client(&certificate, &key), "client certificate and key: "),
        (both, "tls_config: "),
    ] {
        let problem = problem(builder);
        assert!(problem.starts_with(expected), "{problem}");
        assert!(!problem.contains('\n'), "{problem}");
    }
}

#[test]
fn certificates_need_an_https_url() {
    let problem = problem(HyperTransport::builder("http://host").tls_config(client_config()));
    assert_eq!(
        problem,
        "server URL \"http://host:80\": certificates require an https URL"
    );
}

#[test]
fn a_user_agent_is_one_line() {
    assert!(problem(trusting().user_agent("a\nb")).starts_with("user agent \"a\\nb\": "));
}

#[test]
fn a_name_that_no_certificate_has_is_reported() {
    assert!(problem(HyperTransport::builder("https://a..b")).contains("\"a..b\""));
}
