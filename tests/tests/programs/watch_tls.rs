//! The example `watch` with a cluster that it cannot use: a one-line error names the reason.
#![allow(
    clippy::unwrap_used,
    clippy::std_instead_of_alloc,
    clippy::std_instead_of_core,
    reason = "a test may"
)]

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

struct Ca(Issuer<'static, KeyPair>, String);

impl Ca {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self(Issuer::new(params, key), pem)
    }
}

/// Listens with a certificate for this name, and answers 401 to every request.
async fn start(ca: &Ca, name: &str, expired: bool) -> u16 {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    if expired {
        params.not_after = date_time_ymd(2020, 1, 1);
    }
    let certificate = params.signed_by(&key, &ca.0).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(tcp).await {
                    // The client may have disconnected.
                    let _ = refuse(stream).await;
                }
            });
        }
    });
    port
}

async fn refuse(mut stream: TlsStream<TcpStream>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let body = r#"{"kind":"Status","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#;
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

/// Writes a kubeconfig with this CA and runs `watch` with it; returns its one-line error.
async fn fails(folder: &Path, port: u16, ca: &Ca) -> String {
    std::fs::write(folder.join("ca.crt"), &ca.1).unwrap();
    let errors = errors(folder, port, "certificate-authority: ca.crt").await;
    let lines: Vec<_> = errors.lines().collect();
    let [line] = lines.as_slice() else {
        panic!("not one line:\n{errors}");
    };
    line.strip_prefix("error: ").unwrap().to_owned()
}

/// Writes a kubeconfig and runs `watch` with it; returns its errors when it gives up.
async fn errors(folder: &Path, port: u16, trust: &str) -> String {
    let config = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:{port}', {trust}}}}}]\n\
         users: [{{name: u, user: {{token: s3cret}}}}]\n"
    );
    let path = folder.join("config");
    std::fs::write(&path, config).unwrap();
    let running = Command::new(informer_tests::example("watch"))
        .args(["pods", "--seconds", "20"])
        .env("KUBECONFIG", &path)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(Duration::from_secs(60), running).await;
    let output = output.unwrap().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{errors}");
    assert!(!errors.contains("s3cret"), "{errors}");
    errors
}

#[tokio::test]
async fn a_cluster_that_is_not_verified_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let port = start(&Ca::new("nobody's"), "kube.example", true).await;
    let errors = errors(folder.path(), port, "insecure-skip-tls-verify: true").await;
    let lines: Vec<_> = errors.lines().collect();
    let [warning, line] = lines.as_slice() else {
        panic!("not a warning and an error:\n{errors}");
    };
    for words in ["WARN", "INSECURE", "127.0.0.1", "is not verified"] {
        assert!(warning.contains(words), "{warning}");
    }
    assert!(line.contains("does not accept the credentials"), "{line}");
}

#[tokio::test]
async fn a_problem_with_a_cluster_is_reported_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let (ca, other) = (Ca::new("this"), Ca::new("other"));
    for (name, expired, trusted, says) in [
        ("127.0.0.1", false, &other, "signed by an unknown CA"),
        ("127.0.0.1", true, &ca, "certificate has expired"),
        (
            "kube.example",
            false,
            &ca,
            "not valid for the name \"127.0.0.1\"; it is for kube.example",
        ),
        ("127.0.0.1", false, &ca, "does not accept the credentials"),
    ] {
        let port = start(&ca, name, expired).await;
        let line = fails(folder.path(), port, trusted).await;
        assert!(line.contains(says), "{line}");
    }
    // This port was free a moment ago, so nothing listens there.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let line = fails(folder.path(), port, &ca).await;
    assert!(line.contains("Connection refused"), "{line}");
}
