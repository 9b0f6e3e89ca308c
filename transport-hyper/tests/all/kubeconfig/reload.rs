//! A kubeconfig that changes while a transport uses it.

use core::time::Duration;
use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use informer_core::{Transport, transport::Get};
use informer_hyper::{HyperTransport, Kubeconfig};
use serde_json::{Value, json};

use crate::support::tls::{Ca, accept, for_name};
use crate::support::{Server, read};

/// Writes a kubeconfig with a new client certificate, and returns the certificate.
fn put(path: &Path, url: &str, ca: &Ca, token: &str, impersonate: Option<&str>) -> Vec<u8> {
    let (certificate, key) = ca.sign(&for_name("client"));
    let data = |pem: String| BASE64_STANDARD.encode(pem);
    let config = json!({
        "current-context": "c",
        "contexts": [
            { "name": "c", "context": { "cluster": "c", "user": "u" } },
            { "name": "other", "context": { "cluster": "other", "user": "other" } },
        ],
        "clusters": [
            { "name": "c", "cluster": { "server": url, "certificate-authority-data": data(ca.certificate.pem()) } },
            { "name": "other", "cluster": { "server": "https://127.0.0.1:1" } },
        ],
        "users": [
            { "name": "u", "user": {
                "client-certificate-data": data(certificate.pem()), "client-key-data": data(key.serialize_pem()),
                "token": token, "as": impersonate,
            } },
            { "name": "other", "user": { "token": "other" } },
        ],
    });
    fs::write(path, config.to_string()).unwrap();
    certificate.der().to_vec()
}

/// Sends a request over a new connection. Returns its token, and the client's certificate. `refused` is a token that the
/// server refuses.
async fn seen(
    transport: &HyperTransport,
    server: &Server,
    ca: &Ca,
    refused: &str,
) -> (String, Vec<u8>) {
    let mut transport = transport.clone();
    let serve = async {
        loop {
            let config = ca.strict_server(&for_name("127.0.0.1"));
            let mut peer = accept(server, config).await.unwrap();
            let shown = peer.0.get_ref().1.peer_certificates().unwrap()[0].to_vec();
            let request = peer.request().await;
            let (_, token) = request.split_once("authorization: Bearer ").unwrap();
            let token = token.lines().next().unwrap().to_owned();
            let status = if token == refused {
                "401 Unauthorized"
            } else {
                "200 OK"
            };
            peer.write(format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok"))
                .await;
            if token != refused {
                return (token, shown);
            }
        }
    };
    let (answer, seen) = tokio::join!(transport.send(Get::new("/x")), serve);
    assert_eq!(read(answer).await.unwrap(), "ok");
    seen
}

async fn pass_a_minute() {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn credentials_and_ca_of_a_kubeconfig_that_changes_are_followed_but_no_other_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let server = Server::start().await;
    let url = format!("https://127.0.0.1:{}", server.port);
    let (old, new) = (Ca::named("old"), Ca::named("new"));
    let first = put(&path, &url, &old, "one", None);
    let config = Kubeconfig::from_file(&path).unwrap();
    // It is read once before the transport is built.
    fs::remove_file(&path).unwrap();
    let transport = config.builder().unwrap().build().unwrap();
    assert_eq!(
        seen(&transport, &server, &old, "").await,
        ("one".to_owned(), first.clone())
    );

    // It is half written, and then complete.
    fs::write(&path, "clusters: [").unwrap();
    pass_a_minute().await;
    assert_eq!(
        seen(&transport, &server, &old, "").await,
        ("one".to_owned(), first)
    );
    let second = put(&path, &url, &new, "two", None);
    pass_a_minute().await;
    assert_eq!(
        seen(&transport, &server, &new, "").await,
        ("two".to_owned(), second)
    );

    // A refusal does not wait for a minute.
    let third = put(&path, &url, &new, "three", None);
    assert_eq!(
        seen(&transport, &server, &new, "two").await,
        ("three".to_owned(), third.clone())
    );

    // The secrets of another cluster or user are not sent to this server.
    for (url, impersonate) in [("https://127.0.0.1:1", None), (&*url, Some("somebody"))] {
        put(&path, url, &new, "another", impersonate);
        pass_a_minute().await;
        assert_eq!(
            seen(&transport, &server, &new, "").await,
            ("three".to_owned(), third.clone())
        );
    }
    let mut config: Value = {
        put(&path, &url, &new, "four", None);
        serde_json::from_slice(&fs::read(&path).unwrap()).unwrap()
    };
    // Another current context is for programs that start now.
    config["current-context"] = "other".into();
    fs::write(&path, config.to_string()).unwrap();
    pass_a_minute().await;
    assert_eq!(seen(&transport, &server, &new, "").await.0, "four");
}

#[tokio::test]
async fn certificate_files_are_followed_without_the_kubeconfig_that_named_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let server = Server::start().await;
    let url = format!("https://127.0.0.1:{}", server.port);
    let ca = Ca::new();
    put(&path, &url, &ca, "one", None);
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    // The CA stays inline.
    config["users"][0]["user"] = json!({
        "client-certificate": "client.crt", "client-key": "client.key", "token": "one",
    });
    fs::write(&path, config.to_string()).unwrap();
    let renew = || {
        let (certificate, key) = ca.sign(&for_name("client"));
        fs::write(folder.path().join("client.crt"), certificate.pem()).unwrap();
        fs::write(folder.path().join("client.key"), key.serialize_pem()).unwrap();
        certificate.der().to_vec()
    };
    let first = renew();
    let config = Kubeconfig::from_file(&path).unwrap();
    let transport = config.builder().unwrap().build().unwrap();
    assert_eq!(seen(&transport, &server, &ca, "").await.1, first);
    fs::remove_file(&path).unwrap();
    let second = renew();
    assert_eq!(
        seen(&transport, &server, &ca, "").await,
        ("one".to_owned(), second)
    );
}
