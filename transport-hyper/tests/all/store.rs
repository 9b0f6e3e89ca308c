//! The operating system's store of CA certificates. Environment variables name it, so it is tested in a process of its own.
#![allow(clippy::std_instead_of_alloc, reason = "a test may")]

use std::fs;
use std::path::Path;
use std::process::Stdio;

use informer_core::{Transport, transport::Get};
use informer_hyper::{HyperBuilder, HyperTransport};
use tokio::process::Command;

use crate::support::tls::{Ca, accept, for_name};
use crate::support::{Peer, Server, read};

/// What the process does; it is the test of this name.
const CLIENT: &str = "store::the_client_of_the_other_tests";

const URL: &str = "INFORMER_STORE_URL";
const PROXY: &str = "INFORMER_STORE_PROXY";
const CA: &str = "INFORMER_STORE_CA";

/// Prints the answer to a request, or the error. Without a URL it does nothing.
#[tokio::test]
#[allow(clippy::print_stdout, reason = "the other tests read it")]
async fn the_client_of_the_other_tests() {
    let Ok(url) = std::env::var(URL) else { return };
    let mut builder = HyperTransport::builder(url).no_proxy();
    if let Ok(proxy) = std::env::var(PROXY) {
        builder = builder.proxy(proxy);
    }
    if let Ok(ca) = std::env::var(CA) {
        builder = builder.root_certificates_file(ca);
    }
    println!("\n[{}]", sent(builder).await.unwrap_or_else(|error| error));
}

async fn sent(builder: HyperBuilder) -> Result<String, String> {
    let mut transport = builder
        .build()
        .map_err(|error| format!("not built: {error}"))?;
    let answer = transport.send(Get::new("/x")).await;
    read(answer).await.map_err(|error| error.to_string())
}

/// Runs the client with these variables only, and returns what it prints.
async fn client(variables: &[(&str, &str)]) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", CLIENT, "--nocapture"])
        .env_remove("SSL_CERT_FILE")
        .env_remove("SSL_CERT_DIR")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = text
        .lines()
        .find_map(|line| line.strip_prefix('[')?.strip_suffix(']'));
    said.unwrap_or(&text).to_owned()
}

/// Serves one request.
async fn serve(server: &Server, ca: &Ca) {
    if let Some(mut peer) = accept(server, ca.server(&for_name("127.0.0.1"))).await {
        peer.serve("ok").await;
        peer.closed().await;
    }
}

/// What the client says to a server of this CA.
async fn said(server: &Server, ca: &Ca, variables: &[(&str, &str)]) -> String {
    let url = format!("https://127.0.0.1:{}", server.port);
    let variables = [&[(URL, &*url)], variables].concat();
    tokio::select! {
        said = client(&variables) => said,
        () = async { loop { serve(server, ca).await } } => unreachable!(),
    }
}

fn written(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_ca_that_only_the_store_has_is_trusted() {
    let (server, ca, other) = (Server::start().await, Ca::new(), Ca::named("other"));
    let folder = tempfile::tempdir().unwrap();
    let pem = other.certificate.pem() + &ca.certificate.pem();
    let file = written(folder.path(), "store.pem", &pem);
    assert_eq!(said(&server, &ca, &[("SSL_CERT_FILE", &file)]).await, "ok");

    let names = folder.path().to_str().unwrap();
    let two = format!("/nowhere:{names}");
    for folders in [names, &two] {
        assert_eq!(said(&server, &ca, &[("SSL_CERT_DIR", folders)]).await, "ok");
    }
    let other = written(folder.path(), "other.pem", &other.certificate.pem());
    let said = said(&server, &ca, &[("SSL_CERT_FILE", &other)]).await;
    assert!(said.contains("signed by an unknown CA"), "{said}");
}

#[tokio::test]
async fn a_store_without_a_ca_is_an_error_of_the_builder() {
    let (server, ca) = (Server::start().await, Ca::new());
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().to_str().unwrap();
    let missing = folder.path().join("missing.pem");
    let missing = missing.to_str().unwrap();
    let nothing = written(folder.path(), "nothing.pem", "");
    for (variable, place, why) in [
        ("SSL_CERT_FILE", missing, "No such file"),
        ("SSL_CERT_FILE", &nothing, ""),
        ("SSL_CERT_DIR", missing, "No such file"),
        ("SSL_CERT_DIR", empty, ""),
    ] {
        let said = said(&server, &ca, &[(variable, place)]).await;
        for words in [
            "not built: no CA to trust: ",
            place,
            why,
            "SSL_CERT_FILE",
            "ca-certificates",
            "root_certificates",
            "certificate-authority",
            "webpki-roots",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
    }
}

#[tokio::test]
async fn a_cluster_with_its_own_ca_needs_no_store() {
    let (server, ca) = (Server::start().await, Ca::new());
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), "ca.pem", &ca.certificate.pem());
    let no_store = ("SSL_CERT_FILE", "/nowhere");
    assert_eq!(said(&server, &ca, &[no_store, (CA, &file)]).await, "ok");

    let url = format!("http://127.0.0.1:{}", server.port);
    let serving = async {
        server.accept().await.serve("plain").await;
        core::future::pending::<()>().await;
    };
    let variables = [no_store, (URL, &url)];
    tokio::select! {
        said = client(&variables) => assert_eq!(said, "plain"),
        () = serving => {}
    }
}

/// What the client says that reaches a server in plain text through a proxy over TLS, whose certificate is of this CA.
async fn through_a_proxy(ca: &Ca, store: &str) -> String {
    let proxy = Server::start().await;
    let url = format!("https://127.0.0.1:{}", proxy.port);
    let proxying = async {
        loop {
            let accepted = accept(&proxy, ca.server(&for_name("127.0.0.1"))).await;
            let Some(Peer(stream)) = accepted else {
                continue;
            };
            let mut peer = Peer(stream);
            assert!(
                peer.request()
                    .await
                    .starts_with("CONNECT kubernetes.example:80 ")
            );
            peer.write("HTTP/1.1 200 OK\r\n\r\n").await;
            peer.serve("ok").await;
            peer.closed().await;
        }
    };
    let variables = [
        (URL, "http://kubernetes.example"),
        (PROXY, &*url),
        ("SSL_CERT_FILE", store),
    ];
    tokio::select! {
        said = client(&variables) => said,
        () = proxying => unreachable!(),
    }
}

#[tokio::test]
async fn a_proxy_is_trusted_by_the_store() {
    let (ca, other) = (Ca::new(), Ca::named("other"));
    let folder = tempfile::tempdir().unwrap();
    let store = written(folder.path(), "store.pem", &ca.certificate.pem());
    assert_eq!(through_a_proxy(&ca, &store).await, "ok");

    let said = through_a_proxy(&other, &store).await;
    assert!(
        said.contains("the proxy's certificate is signed by an unknown CA; add the CA to the operating system's store"),
        "{said}"
    );
    let said = through_a_proxy(&ca, "/nowhere").await;
    assert!(
        said.starts_with("not built: proxy: no CA to trust: "),
        "{said}"
    );
    assert!(!said.contains("certificate-authority"), "{said}");
}

/// As in Go, a CA that has expired is not trusted, though the store still has it.
#[tokio::test]
async fn a_ca_of_the_store_that_has_expired_is_not_trusted() {
    let (server, key) = (Server::start().await, rcgen::KeyPair::generate().unwrap());
    let (expired, valid) = (Ca::valid(&key, 2000, 2010), Ca::valid(&key, 2000, 4000));
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), "store.pem", &expired.certificate.pem());
    let said_to = async |variables: &[(&str, &str)]| said(&server, &valid, variables).await;
    let said = said_to(&[("SSL_CERT_FILE", &file)]).await;
    assert!(
        said.contains(
            "no CA certificate of the operating system's store is valid: the last one expired "
        ),
        "{said}"
    );
    let said = through_a_proxy(&valid, &file).await;
    assert!(said.contains("the last one expired "), "{said}");

    let both = expired.certificate.pem() + &valid.certificate.pem();
    let file = written(folder.path(), "both.pem", &both);
    assert_eq!(said_to(&[("SSL_CERT_FILE", &file)]).await, "ok");
}
