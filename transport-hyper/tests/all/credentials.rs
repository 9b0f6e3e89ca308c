//! Tokens, certificates and proxies: renewals and failures.
#![allow(clippy::std_instead_of_alloc, reason = "a test may")]

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex};

use crate::support::{Peer, Server, is_reused, read, started, tls};
use informer_core::{
    Body, Transport,
    transport::{FailureKind, Get, TransportError},
};
use informer_hyper::{
    Credential, CredentialError, CredentialFuture, CredentialSource, HyperTransport,
};
use tls::{Ca, accept, for_name};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

/// Advances the time without waiting.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// Sends a request on the existing connection and returns it as received.
async fn again(transport: &mut HyperTransport, peer: &mut Peer<TcpStream>) -> String {
    let (answer, request) = tokio::join!(transport.send(Get::new("/x")), peer.serve("ok"));
    assert_eq!(read(answer).await.unwrap(), "ok");
    request
}

const REFUSED: &str = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno";

#[tokio::test]
async fn a_token_file_is_read_again_every_minute() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "one\n").unwrap();
    let server = Server::start().await;
    let mut transport = server.builder().bearer_token_file(&path).build().unwrap();
    let (answer, (mut peer, request)) = tokio::join!(transport.send(Get::new("/x")), async {
        let mut peer = server.accept().await;
        let request = peer.serve("ok").await;
        (peer, request)
    });
    read(answer).await.unwrap();
    assert!(request.contains("authorization: Bearer one\r\n"));

    std::fs::write(&path, "two").unwrap();
    assert!(
        again(&mut transport, &mut peer)
            .await
            .contains("Bearer one\r\n")
    );
    pass(Duration::from_secs(61)).await;
    assert!(
        again(&mut transport, &mut peer)
            .await
            .contains("Bearer two\r\n")
    );
    // Token files may be removed on purpose, and the token stays valid. That is looked at every minute, too.
    std::fs::remove_file(&path).unwrap();
    pass(Duration::from_secs(61)).await;
    for _ in 0..2 {
        let request = again(&mut transport, &mut peer).await;
        assert!(request.contains("Bearer two\r\n"), "{request}");
        std::fs::write(&path, "three").unwrap();
    }
    pass(Duration::from_secs(61)).await;
    let request = again(&mut transport, &mut peer).await;
    assert!(request.contains("Bearer three\r\n"), "{request}");
}

#[tokio::test]
async fn a_token_file_is_read_once_more_where_the_server_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "one").unwrap();
    let server = Server::start().await;
    let mut transport = server.builder().bearer_token_file(&path).build().unwrap();
    let (answer, ()) = tokio::join!(transport.send(Get::new("/x")), async {
        let mut peer = server.accept().await;
        assert!(peer.request().await.contains("Bearer one\r\n"));
        std::fs::write(&path, "two").unwrap();
        peer.write(REFUSED).await;
        let mut peer = server.accept().await;
        assert!(peer.serve("ok").await.contains("Bearer two\r\n"));
    });
    assert_eq!(read(answer).await.unwrap(), "ok");
}

#[tokio::test]
async fn a_token_that_stays_the_same_is_not_sent_twice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "one").unwrap();
    for builder in [
        |b: informer_hyper::HyperBuilder, path: &std::path::Path| b.bearer_token_file(path),
        |b: informer_hyper::HyperBuilder, _: &std::path::Path| b.bearer_token("one"),
        |b: informer_hyper::HyperBuilder, _: &std::path::Path| b,
    ] {
        let server = Server::start().await;
        let mut transport = builder(server.builder(), &path).build().unwrap();
        // The server accepts no second connection and reads no second request.
        let (answer, _peer) = tokio::join!(transport.send(Get::new("/x")), async {
            let mut peer = server.accept().await;
            peer.request().await;
            peer.write(REFUSED).await;
            peer
        });
        let (head, body) = answer.unwrap();
        assert_eq!(head.status, 401);
        assert_eq!(read(Ok((head, body))).await.unwrap(), "no");
    }
}

#[tokio::test]
async fn a_token_file_that_is_not_there_is_reported() {
    let server = Server::start().await;
    let mut transport = server
        .builder()
        .bearer_token_file("/no/token")
        .build()
        .unwrap();
    let error = transport.send(Get::new("/x")).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Other);
    let expected = format!(
        "cannot log in to 127.0.0.1:{}: cannot read the token file /no/token: ",
        server.port
    );
    assert!(error.to_string().starts_with(&expected), "{error}");
}

/// Returns another token after each rejection, up to a limit.
struct Counting(AtomicUsize);

impl CredentialSource for Counting {
    fn credential<'a>(&'a self, refused: Option<&'a Credential>) -> CredentialFuture<'a> {
        let count = match refused {
            Some(_) => self.0.fetch_add(1, Ordering::SeqCst) + 1,
            None => self.0.load(Ordering::SeqCst),
        };
        Box::pin(async move {
            if count > 3 {
                return Err(CredentialError::new("the vault is empty"));
            }
            Credential::bearer(format!("t{count}"))
        })
    }
}

/// The server refuses all tokens, so the source is asked ever less often, and at last has none.
#[tokio::test]
async fn a_source_of_ones_own_is_asked_anew_once_for_each_request_and_then_pauses() {
    let server = Server::start().await;
    let source = Counting(AtomicUsize::new(0));
    let mut transport = server.builder().credentials(source).build().unwrap();
    let sent = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&sent);
    tokio::spawn(async move {
        loop {
            let mut peer = server.accept().await;
            let request = peer.request().await;
            let token = request.split("Bearer ").nth(1).unwrap_or_default();
            let token = token.lines().next().unwrap_or_default();
            seen.lock().unwrap().push(token.to_owned());
            peer.write(REFUSED).await;
        }
    });
    for (after, expected) in [
        (0, &["t0", "t1"][..]),
        (11, &["t1", "t2"]),
        // The pause is 20 s now.
        (11, &["t2"]),
        (1_000, &["t2", "t3"]),
        (1_000, &["t3"]),
    ] {
        pass(Duration::from_secs(after)).await;
        let answer = transport.send(Get::new("/x")).await;
        assert_eq!(answer.unwrap().0.status, 401);
        assert_eq!(core::mem::take(&mut *sent.lock().unwrap()), expected);
    }
}

/// A source whose credential a test sets.
#[derive(Clone, Default)]
struct Given(Arc<Mutex<Credential>>);

impl Given {
    fn set(&self, credential: Credential) {
        *self.0.lock().unwrap() = credential;
    }
}

impl CredentialSource for Given {
    fn credential<'a>(&'a self, _refused: Option<&'a Credential>) -> CredentialFuture<'a> {
        Box::pin(async { Ok(self.0.lock().unwrap().clone()) })
    }
}

/// An exec plugin may give a token first, and then a certificate.
#[tokio::test]
async fn a_refused_token_is_not_sent_beside_what_replaces_it() {
    let (server, given) = (Server::start().await, Given::default());
    given.set(Credential::bearer("t").unwrap());
    let builder = server.builder().credentials(given.clone());
    let mut transport = builder.header("X-Team", "web").build().unwrap();
    transport.ready().await;
    let (answer, (first, mut peer)) = tokio::join!(transport.send(Get::new("/x")), async {
        let mut peer = server.accept().await;
        assert!(peer.request().await.contains("Bearer t\r\n"));
        given.set(Credential::default());
        peer.write(REFUSED).await;
        let mut peer = server.accept().await;
        (peer.serve("ok").await, peer)
    });
    assert_eq!(read(answer).await.unwrap(), "ok");
    for request in [first, again(&mut transport, &mut peer).await] {
        assert!(!request.contains("authorization"), "{request}");
        assert!(request.contains("x-team: web\r\n"), "{request}");
    }
}

/// The server has not processed it.
#[tokio::test]
async fn a_write_with_a_refused_token_is_sent_again_with_its_body() {
    let (server, given) = (Server::start().await, Given::default());
    given.set(Credential::bearer("old").unwrap());
    let builder = server.builder().credentials(given.clone());
    let transport = builder.build().unwrap();
    let put = http::Request::put("/x").body("body".into()).unwrap();
    let (response, ()) = tokio::join!(transport.request(put), async {
        for (token, answer) in [
            ("old", REFUSED),
            ("new", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        ] {
            let mut peer = server.accept().await;
            let request = peer.request().await;
            assert!(
                request.contains(&format!("Bearer {token}\r\n")),
                "{request}"
            );
            let mut body = [0; 4];
            peer.0.read_exact(&mut body).await.unwrap();
            assert_eq!(&body, b"body");
            given.set(Credential::bearer("new").unwrap());
            peer.write(answer).await;
        }
    });
    assert_eq!(response.unwrap().status(), 200);
}

/// The old connections are idle and intact.
#[tokio::test]
async fn a_renewed_client_certificate_is_not_used_over_an_old_connection() {
    let (server, ca) = (Server::start().await, Ca::new());
    let folder = tempfile::tempdir().unwrap();
    let (path, given) = (folder.path().join("ca.crt"), Given::default());
    std::fs::write(&path, ca.certificate.pem()).unwrap();
    let mut transport = HyperTransport::builder(format!("https://127.0.0.1:{}", server.port))
        .root_certificates_file(&path)
        .credentials(given.clone())
        .build()
        .unwrap();
    let mut config = ca.strict_server(&for_name("127.0.0.1"));
    config.alpn_protocols = vec![b"h2".to_vec()];
    // The certificate with which each request arrives.
    let seen = Arc::<Mutex<Vec<Vec<u8>>>>::default();
    let noted = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Some(peer) = accept(&server, config.clone()).await {
            let shown = peer.0.get_ref().1.peer_certificates().unwrap()[0].to_vec();
            let noted = Arc::clone(&noted);
            tokio::spawn(async move {
                let mut http2 = h2::server::handshake(peer.0).await.unwrap();
                while let Some(Ok((_, mut respond))) = http2.accept().await {
                    noted.lock().unwrap().push(shown.clone());
                    let _ = respond.send_response(http::Response::new(()), true);
                }
            });
        }
    });
    for _ in 0..3 {
        let (certificate, key) = ca.sign(&for_name("client"));
        let credential = Credential::default();
        given.set(credential.with_certificate(certificate.pem(), key.serialize_pem()));
        for _ in 0..2 {
            let answer = transport.send(Get::new("/x")).await;
            assert_eq!(read(answer).await.unwrap(), "");
        }
        let shown = core::mem::take(&mut *seen.lock().unwrap());
        assert_eq!(shown, [&**certificate.der(); 2]);
        // A connection that is opened after a change of the file has the certificate, too.
        let other = Ca::new().certificate;
        std::fs::write(&path, ca.certificate.pem() + &other.pem()).unwrap();
        pass(Duration::from_secs(11)).await;
        let answer = transport.send(Get::new("/x")).await;
        assert_eq!(read(answer).await.unwrap(), "");
        let shown = core::mem::take(&mut *seen.lock().unwrap());
        assert_eq!(shown, [&**certificate.der()]);
    }
    // Without a certificate that can be used, nothing is sent.
    given.set(Credential::default().with_certificate("s3cret", "s3cret"));
    let error = transport.send(Get::new("/x")).await.map(drop).unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("cannot log in to 127.0.0.1:"), "{error}");
    assert!(
        error.contains(": client certificate: neither PEM"),
        "{error}"
    );
    assert!(!error.contains("s3cret") && seen.lock().unwrap().is_empty());
}

/// Responds after 90 s, like a login that waits for a person.
struct Person(Arc<AtomicUsize>);

impl CredentialSource for Person {
    fn credential<'a>(&'a self, _refused: Option<&'a Credential>) -> CredentialFuture<'a> {
        Box::pin(async {
            self.0.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(90)).await;
            Credential::bearer("late")
        })
    }
}

#[tokio::test]
async fn a_login_that_takes_longer_than_a_request_completes() {
    let server = Server::start().await;
    let asked = Arc::new(AtomicUsize::new(0));
    let builder = server.builder().credentials(Person(Arc::clone(&asked)));
    let transport = builder.build().unwrap();
    tokio::time::pause();
    let patience = Duration::from_secs(60);
    // Both an informer, which waits until the transport is ready, and a caller with a deadline for the whole request.
    let mut informer = transport.clone();
    let mut caller = transport;
    let (sent, ()) = tokio::join!(
        tokio::time::timeout(patience, caller.send(Get::new("/x"))),
        informer.ready()
    );
    assert!(sent.is_err());
    tokio::time::resume();
    let (answer, request) = tokio::join!(informer.send(Get::new("/x")), async {
        server.accept().await.serve("ok").await
    });
    assert_eq!(answer.unwrap().0.status, 200);
    assert!(
        request.contains("authorization: Bearer late\r\n"),
        "{request}"
    );
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_ca_in_a_file_is_looked_at_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.crt");
    let (old, new) = (Ca::named("old"), Ca::named("new"));
    std::fs::write(&path, old.certificate.pem()).unwrap();
    let server = Server::start().await;
    let mut transport = HyperTransport::builder(format!("https://127.0.0.1:{}", server.port))
        .root_certificates_file(&path)
        .build()
        .unwrap();
    let (answer, mut first) = tokio::join!(transport.send(Get::new("/x")), async {
        let mut peer = accept(&server, old.server(&for_name("127.0.0.1")))
            .await
            .unwrap();
        peer.request().await;
        peer.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
            .await;
        peer
    });
    let (_, mut watch) = answer.unwrap();
    assert_eq!(watch.chunk().await.unwrap(), Some(&b"a"[..]));

    // The cluster changes its CA, and the file is half written.
    std::fs::write(&path, "-----BEGIN CERTIFICATE-----\n").unwrap();
    let mut clone = transport.clone();
    let config = new.server(&for_name("127.0.0.1"));
    let (answer, _) = tokio::join!(
        async {
            let error = clone.send(Get::new("/x")).await.unwrap_err();
            drop(clone);
            error
        },
        accept(&server, config)
    );
    assert!(answer.to_string().contains("unknown CA"), "{answer}");

    // Now it is complete.
    std::fs::write(&path, new.certificate.pem()).unwrap();
    let config = new.server(&for_name("127.0.0.1"));
    let (answer, _second) = tokio::join!(transport.send(Get::new("/x")), async {
        let mut peer = accept(&server, config).await.unwrap();
        peer.serve("new").await;
        peer
    });
    assert_eq!(read(answer).await.unwrap(), "new");
    // The watch continues.
    first.write("1\r\nb\r\n").await;
    assert_eq!(watch.chunk().await.unwrap(), Some(&b"b"[..]));
}

#[tokio::test]
async fn a_client_certificate_in_files_is_looked_at_again() {
    let folder = tempfile::tempdir().unwrap();
    let (chain_path, key_path) = (folder.path().join("crt"), folder.path().join("key"));
    let ca = Ca::new();
    let put = || {
        let (certificate, key) = ca.sign(&for_name("client"));
        std::fs::write(&chain_path, certificate.pem()).unwrap();
        std::fs::write(&key_path, key.serialize_pem()).unwrap();
        certificate.der().to_vec()
    };
    let first = put();
    let server = Server::start().await;
    let mut transport = HyperTransport::builder(format!("https://127.0.0.1:{}", server.port))
        .root_certificates(ca.certificate.pem())
        .client_certificate_files(&chain_path, &key_path)
        .build()
        .unwrap();
    let mut peers = Vec::new();
    let mut expected = first;
    for round in 0..3 {
        let config = ca.strict_server(&for_name("127.0.0.1"));
        // Each request uses a new connection, although the previous one is idle and intact.
        let (answer, mut peer) = tokio::join!(transport.send(Get::new("/x")), async {
            let mut peer = accept(&server, config).await.unwrap();
            peer.serve("ok").await;
            peer
        });
        assert_eq!(read(answer).await.unwrap(), "ok", "round {round}");
        let shown = peer.0.get_ref().1.peer_certificates().unwrap()[0].to_vec();
        assert_eq!(shown, expected);
        expected = put();
        // The files were read just now.
        let reused = is_reused(&mut transport, &mut peer);
        let reused = tokio::time::timeout(Duration::from_secs(5), reused).await;
        assert!(reused.is_ok(), "round {round}");
        peers.push(peer);
        pass(Duration::from_secs(11)).await;
    }
}

/// A disk that does not respond, here a pipe without a writer, blocks one request and no other task.
#[cfg(unix)]
#[tokio::test]
async fn files_are_read_on_a_thread_that_may_block() {
    let folder = tempfile::tempdir().unwrap();
    let (token, roots) = (folder.path().join("token"), folder.path().join("ca.crt"));
    let ca = Ca::new();
    std::fs::write(&roots, ca.certificate.pem()).unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo")
        .args([&token, &pipe])
        .status();
    assert!(made.unwrap().success());
    let config = ca.server(&for_name("127.0.0.1"));
    let server = Server::start().await;
    let mut transport = HyperTransport::builder(format!("https://127.0.0.1:{}", server.port))
        .root_certificates_file(&roots)
        .bearer_token_file(&token)
        .build()
        .unwrap();
    std::fs::rename(&pipe, &roots).unwrap();
    let (answer, request, ()) = tokio::join!(
        transport.send(Get::new("/x")),
        async { accept(&server, config).await.unwrap().serve("ok").await },
        async {
            // The writing task runs on the same thread as the reading one.
            tokio::fs::write(&token, "abc").await.unwrap();
            tokio::fs::write(&roots, ca.certificate.pem())
                .await
                .unwrap();
        }
    );
    assert_eq!(answer.unwrap().0.status, 200);
    assert!(request.contains("Bearer abc\r\n"), "{request}");
}

#[tokio::test]
async fn another_name_can_be_wanted_of_the_server() {
    let (server, ca) = (Server::start().await, Ca::new());
    let mut transport = HyperTransport::builder(format!("https://127.0.0.1:{}", server.port))
        .root_certificates(ca.certificate.pem())
        .server_name("kubernetes.default")
        .build()
        .unwrap();
    let config = ca.server(&for_name("kubernetes.default"));
    let (answer, (request, _peer)) = tokio::join!(transport.send(Get::new("/x")), async {
        let mut peer = accept(&server, config).await.unwrap();
        (peer.serve("ok").await, peer)
    });
    assert_eq!(read(answer).await.unwrap(), "ok");
    assert!(request.contains(&format!("host: 127.0.0.1:{}\r\n", server.port)));
}

#[tokio::test]
async fn any_server_is_taken_where_that_is_wanted() {
    let (server, ca) = (Server::start().await, Ca::new());
    let mut transport = HyperTransport::builder(format!("https://127.0.0.1:{}", server.port))
        .insecure_skip_tls_verify(true)
        .build()
        .unwrap();
    let config = ca.server(&for_name("somebody"));
    let (answer, _peer) = tokio::join!(transport.send(Get::new("/x")), async {
        let mut peer = accept(&server, config).await.unwrap();
        peer.serve("ok").await;
        peer
    });
    assert_eq!(read(answer).await.unwrap(), "ok");
}

#[tokio::test]
async fn a_proxy_is_asked_for_the_server_with_credentials() {
    let (proxy, ca) = (Server::start().await, Ca::new());
    let mut transport = HyperTransport::builder("https://kubernetes.example:6443")
        .root_certificates(ca.certificate.pem())
        .proxy(format!("http://me:s3cret@127.0.0.1:{}", proxy.port))
        .build()
        .unwrap();
    let config = ca.server(&for_name("kubernetes.example"));
    let (answer, (asked, _peer)) = tokio::join!(transport.send(Get::new("/x")), async {
        let mut peer = proxy.accept().await;
        let asked = peer.request().await;
        peer.write("HTTP/1.1 200 Connection established\r\n\r\n")
            .await;
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let mut peer = Peer(acceptor.accept(peer.0).await.unwrap());
        peer.serve("ok").await;
        (asked, peer)
    });
    assert_eq!(read(answer).await.unwrap(), "ok");
    assert!(
        asked.starts_with("CONNECT kubernetes.example:6443 HTTP/1.1\r\n"),
        "{asked}"
    );
    assert!(
        asked.contains("Proxy-Authorization: Basic bWU6czNjcmV0\r\n"),
        "{asked}"
    );
}

#[tokio::test]
async fn a_proxy_that_refuses_is_reported() {
    for (answer, expected) in [
        ("HTTP/1.1 403 Forbidden\r\n\r\n", "unsuccessful"),
        (
            "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
            "proxy authorization required",
        ),
    ] {
        let proxy = Server::start().await;
        let mut transport = HyperTransport::builder("http://kubernetes.example:8080")
            .proxy(format!("http://me:s3cret@127.0.0.1:{}", proxy.port))
            .build()
            .unwrap();
        let (sent, ()) = tokio::join!(transport.send(Get::new("/x")), async {
            let mut peer = proxy.accept().await;
            peer.request().await;
            peer.write(answer).await;
        });
        let error = sent.unwrap_err().to_string();
        let start = format!(
            "the proxy 127.0.0.1:{} cannot connect to kubernetes.example:8080: ",
            proxy.port
        );
        assert!(
            error.starts_with(&start) && error.ends_with(expected),
            "{error}"
        );
        assert!(!error.contains("s3cret"));
    }
}

#[tokio::test]
async fn a_socks_proxy_looks_up_the_name() {
    use tokio::io::AsyncReadExt;
    // With a password, the client offers the method 2, and the proxy asks for it.
    for (user, method) in [("", 0), ("me:s3cret@", 2)] {
        let proxy = Server::start().await;
        let mut transport = HyperTransport::builder("http://kubernetes.example:8080")
            .proxy(format!("socks5://{user}127.0.0.1:{}", proxy.port))
            .build()
            .unwrap();
        let (answer, _peer) = tokio::join!(transport.send(Get::new("/x")), async {
            let mut peer = proxy.accept().await;
            let mut hello = [0; 3];
            peer.0.read_exact(&mut hello).await.unwrap();
            assert_eq!(hello, [5, 1, method]);
            peer.write([5, method]).await;
            if method == 2 {
                let mut login = [0; 11];
                peer.0.read_exact(&mut login).await.unwrap();
                assert_eq!(&login, b"\x01\x02me\x06s3cret");
                peer.write([1, 0]).await;
            }
            let mut asked = [0; 5 + 18 + 2];
            peer.0.read_exact(&mut asked).await.unwrap();
            assert_eq!(&asked[..5], [5, 1, 0, 3, 18]);
            assert_eq!(&asked[5..23], b"kubernetes.example");
            peer.write([5, 0, 0, 1, 127, 0, 0, 1, 0, 80]).await;
            peer.serve("ok").await;
            peer
        });
        assert_eq!(read(answer).await.unwrap(), "ok");
    }
}

#[tokio::test]
async fn an_answer_that_does_not_begin_is_given_up() {
    let (server, mut transport) = started().await;
    let (answer, _peer) = tokio::join!(transport.send(Get::new("/x")), async {
        let mut peer = server.accept().await;
        peer.request().await;
        tokio::time::pause();
        peer
    });
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), FailureKind::TimedOut);
    assert!(
        error.to_string().ends_with("it took longer than 65s"),
        "{error}"
    );
}

#[tokio::test]
async fn an_answer_that_does_not_go_on_is_given_up_where_that_is_wanted() {
    let server = Server::start().await;
    let limit = Some(Duration::from_secs(90));
    let mut transport = server.builder().silence_timeout(limit).build().unwrap();
    let (answer, _peer) = tokio::join!(transport.send(Get::new("/x")), async {
        let mut peer = server.accept().await;
        peer.request().await;
        peer.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
            .await;
        peer
    });
    let (_, mut body) = answer.unwrap();
    assert_eq!(body.chunk().await.unwrap(), Some(&b"a"[..]));
    tokio::time::pause();
    // Time without a pending read does not count.
    tokio::time::advance(Duration::from_secs(1_000)).await;
    let began = tokio::time::Instant::now();
    let error = body.chunk().await.unwrap_err();
    assert_eq!(began.elapsed().as_secs(), 90);
    assert_eq!(error.kind(), FailureKind::TimedOut);
}
