//! Kubeconfig files: a table of cases, which is also checked with `kubectl` if `KUBECTL` names it.
#![allow(
    clippy::print_stderr,
    clippy::std_instead_of_alloc,
    reason = "a test may"
)]

mod cases;
mod reload;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use informer_core::{Transport, transport::Get};
use informer_hyper::Kubeconfig;
use rcgen::{CertificateParams, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

use crate::support::tls::{Ca, for_name};
use crate::support::{Server, read};
use cases::Expected::{Fails, FailsHere, Sees};
use cases::{Case, FOLDER, MISSING, cases, one};

/// The servers and files of the cases.
struct Place {
    folder: tempfile::TempDir,
    https: String,
    http: String,
}

impl Place {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let (ca, expired, future) = (
            Ca::valid(&key, 2020, 4000),
            Ca::valid(&key, 2020, 2021),
            Ca::valid(&key, 3000, 4000),
        );
        let (client, client_key) = ca.sign(&CertificateParams::new([]).unwrap());
        let bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let base64 = "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n";
        let pem = ca.certificate.pem();
        // The plugin's token is its input, in hexadecimal digits.
        let plugin = "#!/bin/sh\ntoken=$(printf %s \"$KUBERNETES_EXEC_INFO\" | od -An -v -tx1 | tr -d ' \\n')\n\
             printf '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"%s\"}}' \"$token\"\n";
        for (name, text) in [
            ("ca.crt", pem.clone()),
            ("expired.crt", expired.certificate.pem()),
            ("future.crt", future.certificate.pem()),
            ("bad.crt", bad.to_owned()),
            ("bad+ca.crt", format!("{bad}{pem}")),
            ("ca+bad.crt", format!("{pem}{bad}")),
            ("base64+ca.crt", format!("{base64}{pem}")),
            (
                "expired+ca.crt",
                format!("{}{pem}", expired.certificate.pem()),
            ),
            ("client.crt", client.pem()),
            ("client.key", client_key.serialize_pem()),
            ("token", "fromfile\n".to_owned()),
            ("plugin", plugin.to_owned()),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(folder.path().join("plugin"), mode).unwrap();
        }
        let (https, http) = (Server::start().await, Server::start().await);
        let place = Self {
            folder,
            https: format!("https://127.0.0.1:{}", https.port),
            http: format!("http://127.0.0.1:{}", http.port),
        };
        let acceptor = TlsAcceptor::from(Arc::new(server_config(&ca)));
        tokio::spawn(async move {
            loop {
                let (tcp, acceptor) = (https.accept_tcp().await, acceptor.clone());
                tokio::spawn(async move {
                    if let Ok(tls) = acceptor.accept(tcp).await {
                        let has_certificate = tls.get_ref().1.peer_certificates().is_some();
                        show(tls, has_certificate).await;
                    }
                });
            }
        });
        tokio::spawn(async move {
            loop {
                tokio::spawn(show(http.accept_tcp().await, false));
            }
        });
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Fills in addresses and base64.
    fn fill(&self, text: &str) -> String {
        let mut text = text
            .replace("{https}", &self.https)
            .replace("{http}", &self.http)
            .replace("{host}", self.http.trim_start_matches("http://"));
        for name in ["ca.crt", "client.crt", "client.key"] {
            let data = BASE64_STANDARD.encode(fs::read(self.path(name)).unwrap());
            let lines = data.as_bytes().chunks(64);
            let lines: Vec<_> = lines
                .map(|l| format!("      {}", String::from_utf8_lossy(l)))
                .collect();
            text = text
                .replace(&format!("    {{{name} lines}}"), &lines.join("\n"))
                .replace(&format!("{{{name}}}"), &data);
        }
        text
    }

    fn files(&self, case: &Case) -> Vec<PathBuf> {
        let files = case.files.iter().enumerate().map(|(number, text)| {
            let path = self.path(&format!("config{number}"));
            let _ = fs::remove_file(&path);
            match text.as_str() {
                MISSING => {}
                FOLDER => return self.folder.path().to_owned(),
                text => fs::write(&path, self.fill(text)).unwrap(),
            }
            path
        });
        files.collect()
    }
}

fn server_config(ca: &Ca) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(ca.certificate.der().clone()).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .unwrap();
    let (certificate, key) = ca.sign(&for_name("127.0.0.1"));
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap()
}

/// Responds to a request with a description of the client.
async fn show(mut stream: impl AsyncRead + AsyncWrite + Unpin, has_certificate: bool) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let mut seen: Vec<String> = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .filter(|(name, _)| name == "authorization" || name.starts_with("impersonate-"))
        .map(|(name, value)| format!("; {name}: {value}"))
        .collect();
    seen.sort();
    if has_certificate {
        seen.push("; certificate".to_owned());
    }
    let path = head.split(' ').nth(1).unwrap();
    let body = format!("{path}{}", seen.concat());
    let answer = format!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// Decodes the token, which is the input of a plugin, to JSON with sorted keys.
fn readable(seen: &str) -> String {
    let Some((before, token)) = seen.split_once("Bearer 7b") else {
        return seen.to_owned();
    };
    let digits = format!("7b{token}");
    let bytes = digits
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap());
    let mut reported: serde_json::Value =
        serde_json::from_slice(&bytes.collect::<Vec<_>>()).unwrap();
    let reported = reported.as_object_mut().unwrap();
    assert_eq!(reported.remove("kind").unwrap(), "ExecCredential");
    reported.remove("apiVersion").unwrap();
    format!(
        "{before}Bearer {}",
        serde_json::Value::from(reported.clone())
    )
}

async fn ours(files: &[PathBuf]) -> Result<String, String> {
    let line = |error: informer_hyper::BuildError| error.to_string();
    let config = Kubeconfig::from_files(files).map_err(line)?;
    let builder = config.ok_or("there is none")?.builder().map_err(line)?;
    let mut transport = builder.build().map_err(line)?;
    let answer = transport.send(Get::new("/x")).await;
    let seen = read(answer).await.map_err(|error| error.to_string())?;
    Ok(readable(&seen))
}

async fn kubectls(kubectl: &Path, files: &[PathBuf], home: &Path) -> Option<String> {
    let output = tokio::process::Command::new(kubectl)
        .args(["get", "--raw", "/x"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .env("KUBECONFIG", std::env::join_paths(files).unwrap())
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let seen = String::from_utf8(output.stdout).unwrap();
    output.status.success().then(|| readable(seen.trim()))
}

#[tokio::test]
async fn every_case_of_the_table() {
    let place = Place::new().await;
    let kubectl = std::env::var_os("KUBECTL").map(PathBuf::from);
    if kubectl.is_none() {
        eprintln!("SKIPPED: the comparison with kubectl, for KUBECTL does not name it");
    }
    let mut wrong = Vec::new();
    for case in cases() {
        let files = place.files(&case);
        let seen = ours(&files).await;
        let is_right = match (&case.expected, &seen) {
            (Sees(expected), Ok(seen)) => place.fill(expected) == *seen,
            (Fails(words) | FailsHere(words), Err(error)) => {
                error.contains(words) && !error.contains('\n')
            }
            _ => false,
        };
        if !is_right {
            wrong.push(format!("{}: {seen:?}", case.name));
        }
        if let Some(kubectl) = &kubectl {
            let theirs = kubectls(kubectl, &files, place.folder.path()).await;
            let is_right = match &case.expected {
                Sees(expected) => theirs == Some(place.fill(expected)),
                Fails(_) => theirs.is_none(),
                FailsHere(_) => true,
            };
            if !is_right {
                wrong.push(format!("{}: kubectl: {theirs:?}", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A shell passes a file as a pipe: `KUBECONFIG=<(decrypt config)`.
#[cfg(unix)]
#[tokio::test]
async fn a_kubeconfig_may_be_a_pipe() {
    let place = Place::new().await;
    let text = place.fill(&one("{http}", "", "as: jane"));
    let pipe = place.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let writing = pipe.clone();
    let writer = tokio::task::spawn_blocking(move || fs::write(writing, text));
    let reading = tokio::task::spawn_blocking(move || Kubeconfig::from_files([&pipe, &pipe]));
    let config = reading.await.unwrap().unwrap().unwrap();
    writer.await.unwrap().unwrap();
    let mut transport = config.builder().unwrap().build().unwrap();
    let seen = read(transport.send(Get::new("/x")).await).await.unwrap();
    assert_eq!(seen, "/x; impersonate-user: jane");
}
