//! Private keys of clients, in the forms in which Go reads them. The files in `fixtures` were made by openssl.
#![allow(clippy::std_instead_of_alloc, reason = "a test may")]

use core::future::pending;

use informer_core::{Transport, transport::Get};
use informer_hyper::{HyperBuilder, HyperTransport};
use rcgen::KeyPair;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;

use crate::support::tls::{Ca, accept, for_name};
use crate::support::{Server, read};

const LABELS: [&str; 3] = ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"];

const RSA: &str = include_str!("fixtures/rsa-pkcs8.pem");
const EC: &str = include_str!("fixtures/ec-pkcs8.pem");

/// Keys by their formats, and the same keys in PKCS#8.
const KEYS: [(&str, &str, &str); 4] = [
    ("PKCS#1", include_str!("fixtures/rsa-pkcs1.pem"), RSA),
    ("SEC1", include_str!("fixtures/ec-sec1.pem"), EC),
    ("PKCS#8 of RSA", RSA, RSA),
    ("PKCS#8 of ECDSA", EC, EC),
];

/// Replaces the label of the key.
fn labelled(label: &str, pem: &str) -> String {
    let plain = pem
        .replace("RSA PRIVATE KEY", "PRIVATE KEY")
        .replace("EC PRIVATE KEY", "PRIVATE KEY");
    plain.replace("PRIVATE KEY", label)
}

/// A certificate for a key in PKCS#8, as PEM text.
fn certificate(ca: &Ca, key: &str) -> String {
    let key = KeyPair::from_pem(key).unwrap();
    ca.sign_for(&for_name("client"), &key).pem()
}

/// Sends a request to a server that requires a client certificate.
async fn is_accepted(ca: &Ca, client: impl Fn(HyperBuilder) -> HyperBuilder) {
    let server = Server::start().await;
    let builder = HyperTransport::builder(format!("https://127.0.0.1:{}", server.port));
    let builder = client(builder.root_certificates(ca.certificate.pem()));
    is_served(&server, ca, builder).await;
}

async fn is_served(server: &Server, ca: &Ca, builder: HyperBuilder) {
    let mut transport = builder.build().unwrap();
    let config = ca.strict_server(&for_name("127.0.0.1"));
    let serving = async {
        let mut peer = accept(server, config).await.unwrap();
        peer.serve("ok").await;
        pending::<()>().await;
    };
    tokio::select! {
        answer = async { read(transport.send(Get::new("/x")).await).await } => assert_eq!(answer.unwrap(), "ok"),
        () = serving => {}
    }
}

#[tokio::test]
async fn each_format_is_read_under_each_label() {
    let ca = Ca::new();
    let mut refused = Vec::new();
    for (format, pem, pkcs8) in KEYS {
        let chain = certificate(&ca, pkcs8);
        let der = PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap();
        let as_text = LABELS.map(|label| (label, labelled(label, pem).into_bytes()));
        let as_der = ("DER", der.secret_der().to_vec());
        for (label, key) in as_text.into_iter().chain([as_der]) {
            let builder = HyperTransport::builder("https://127.0.0.1")
                .root_certificates(ca.certificate.pem())
                .client_certificate(&*chain, key.clone());
            match builder.build() {
                Ok(_) => {
                    is_accepted(&ca, |builder| builder.client_certificate(&*chain, &*key)).await;
                }
                Err(error) => refused.push(format!("{format} as {label}: {error}")),
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// As in Go, the first block counts whose label ends in `PRIVATE KEY`.
#[tokio::test]
async fn a_key_is_found_among_other_blocks() {
    let ca = Ca::new();
    let (_, sec1, pkcs8) = KEYS[1];
    assert!(sec1.starts_with("-----BEGIN EC PARAMETERS-----"));
    let chain = certificate(&ca, pkcs8);
    let broken = "-----BEGIN PRIVATE KEY-----\n!!!!\n-----END PRIVATE KEY-----\n";
    let cut = "-----BEGIN CERTIFICATE-----\nAAAA\n";
    let headed = pkcs8.replace("KEY-----\nM", "KEY-----\nComment: of a test\n\nM");
    for key in [
        format!("{chain}{sec1}"),
        format!("{sec1}{chain}"),
        format!(
            "Bag Attributes\n    friendlyName: me\n{chain}{}",
            labelled("RSA PRIVATE KEY", sec1)
        ),
        format!("{cut}{}", labelled("ED25519 PRIVATE KEY", pkcs8)),
        format!("{broken}{pkcs8}"),
        format!("{pkcs8}{RSA}"),
        sec1.replace('\n', "\r\n"),
        headed,
    ] {
        is_accepted(&ca, |builder| builder.client_certificate(&*chain, &*key)).await;
    }
    let both = format!("{chain}{sec1}");
    is_accepted(&ca, |builder| builder.client_certificate(&*both, &*both)).await;
}

#[cfg(feature = "kubeconfig")]
#[tokio::test]
async fn keys_of_a_kubeconfig_and_of_a_plugin_are_read_by_content() {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;

    let ca = Ca::new();
    for (_, pem, pkcs8) in KEYS {
        let chain = certificate(&ca, pkcs8);
        for label in LABELS {
            let key = labelled(label, pem);
            let status = serde_json::json!({
                "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                "status": {"clientCertificateData": chain, "clientKeyData": key},
            });
            let exec = serde_json::json!({"exec": {
                "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "interactiveMode": "Never",
                "args": ["-c", "printf %s \"$STATUS\""], "env": [{"name": "STATUS", "value": status.to_string()}],
            }});
            let data = serde_json::json!({
                "client-certificate-data": BASE64_STANDARD.encode(&chain),
                "client-key-data": BASE64_STANDARD.encode(&key),
            });
            for user in [exec, data] {
                let server = Server::start().await;
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("config");
                let config = serde_json::json!({
                    "current-context": "c",
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                    "clusters": [{"name": "c", "cluster": {
                        "server": format!("https://127.0.0.1:{}", server.port),
                        "certificate-authority-data": BASE64_STANDARD.encode(ca.certificate.pem()),
                    }}],
                    "users": [{"name": "u", "user": user}],
                });
                std::fs::write(&path, config.to_string()).unwrap();
                let config = informer_hyper::Kubeconfig::from_file(&path).unwrap();
                let builder = config.builder().unwrap();
                is_served(&server, &ca, builder).await;
            }
        }
    }
}

#[test]
fn a_key_that_cannot_be_used_says_why() {
    let ca = Ca::new();
    let chain = certificate(&ca, EC);
    let encrypted = "it is encrypted; decrypt it";
    let no_public = include_str!("fixtures/ec-without-public.pem");
    let explicit = include_str!("fixtures/ec-explicit.pem");
    let p521 = include_str!("fixtures/p521.pem");
    // aws-lc-rs supports these.
    let by_ring = [
        (p521, "ECDSA on P-521 is not supported"),
        (
            &labelled("RSA PRIVATE KEY", p521),
            "ECDSA on P-521 is not supported",
        ),
        (explicit, "its curve is described by parameters"),
        (no_public, "it lacks the public key"),
    ];
    let by_ring = by_ring.iter().filter(|_| !cfg!(feature = "aws-lc-rs"));
    for (key, expected) in [
        (include_str!("fixtures/encrypted.pem"), encrypted),
        (include_str!("fixtures/encrypted-old.pem"), encrypted),
        (
            &labelled("RSA PRIVATE KEY", include_str!("fixtures/encrypted.pem"))
                .replace("ENCRYPTED ", ""),
            encrypted,
        ),
        (
            include_str!("fixtures/secp256k1.pem"),
            "ECDSA on secp256k1 is not supported",
        ),
        (include_str!("fixtures/ed448.pem"), "Ed448 is not supported"),
        (
            include_str!("fixtures/rsa-pss.pem"),
            "RSA-PSS is not supported",
        ),
        (
            include_str!("fixtures/rsa1024.pem"),
            "RSA of 1024 bits is not supported",
        ),
        (RSA, "do not belong together"),
        (
            "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n",
            "ssh-keygen",
        ),
    ]
    .iter()
    .chain(by_ring)
    {
        let builder = HyperTransport::builder("https://127.0.0.1")
            .root_certificates(ca.certificate.pem())
            .client_certificate(&*chain, *key);
        let problem = builder.build().unwrap_err().to_string();
        assert!(problem.contains(expected), "{expected}: {problem}");
        assert!(
            problem.starts_with("client ") && !problem.contains('\n'),
            "{problem}"
        );
        let lines = key
            .lines()
            .filter(|line| !line.starts_with('-') && line.len() > 8);
        assert!(
            !lines.into_iter().any(|line| problem.contains(line)),
            "{problem}"
        );
    }
}
