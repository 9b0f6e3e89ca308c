//! TLS over real sockets, with certificates made for each test.
#![allow(clippy::std_instead_of_alloc, reason = "a test may")]

use crate::support::tls::{Ca, accept, for_name};
use crate::support::{Peer, Server, failed_as, is_reused, read};
use informer_core::{
    Body, Transport,
    transport::{FailureKind, Get, TransportError},
};
use informer_hyper::{HyperBuilder, HyperError, HyperTransport};
use rcgen::{CertificateParams, date_time_ymd};
use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

fn builder(server: &Server) -> HyperBuilder {
    HyperTransport::builder(format!("https://127.0.0.1:{}", server.port))
}

/// The same, and the client trusts this CA.
fn trusting(server: &Server, ca: &Ca) -> HyperBuilder {
    builder(server).root_certificates(ca.certificate.pem())
}

/// A certificate for the address of every server in these tests.
fn here() -> CertificateParams {
    for_name("127.0.0.1")
}

/// Sends a request and responds with this body. Returns the body as read, and the server's end of the connection.
async fn served(
    server: &Server,
    config: ServerConfig,
    transport: &mut HyperTransport,
    body: &str,
) -> (String, Peer<TlsStream<TcpStream>>) {
    let (answer, peer) = tokio::join!(transport.send(Get::new("/x")), async {
        let mut peer = accept(server, config).await.unwrap();
        peer.serve(body).await;
        peer
    });
    (read(answer).await.unwrap(), peer)
}

/// Sends a request that fails, and returns the error without the server's address.
async fn failure(
    server: &Server,
    config: ServerConfig,
    builder: HyperBuilder,
) -> (HyperError, String) {
    let mut transport = builder.build().unwrap();
    // Dropping the client closes its connection, which the server waits for.
    let sending = async { transport.send(Get::new("/x")).await.unwrap_err() };
    let (error, _) = tokio::join!(sending, accept(server, config));
    let line = error
        .to_string()
        .replace(&format!("127.0.0.1:{}", server.port), "SERVER");
    (error, line)
}

/// The same, for a TLS failure.
async fn tls_failure(server: &Server, config: ServerConfig, builder: HyperBuilder) -> String {
    let (error, line) = failure(server, config, builder).await;
    assert_eq!(error.kind(), FailureKind::Tls);
    line
}

#[tokio::test]
async fn a_cluster_with_its_own_ca_and_a_client_certificate() {
    let (server, ca) = (Server::start().await, Ca::new());
    let (certificate, key) = ca.sign(&for_name("client"));
    let mut transport = trusting(&server, &ca)
        .client_certificate(certificate.pem(), key.serialize_pem())
        .build()
        .unwrap();
    let config = ca.strict_server(&here());
    let (answer, mut peer) = served(&server, config, &mut transport, "first").await;
    assert_eq!(answer, "first");
    assert!(peer.0.get_ref().1.peer_certificates().is_some());
    assert_eq!(peer.0.get_ref().1.alpn_protocol(), None);

    is_reused(&mut transport, &mut peer).await;
}

#[tokio::test]
async fn certificates_may_be_der_and_several() {
    let (server, ca, other) = (Server::start().await, Ca::new(), Ca::new());
    let (certificate, key) = ca.sign(&for_name("client"));
    let mut transport = builder(&server)
        .root_certificates(other.certificate.der().to_vec())
        .root_certificates(ca.certificate.der().to_vec())
        .client_certificate(certificate.der().to_vec(), key.serialize_der())
        .build()
        .unwrap();
    let config = ca.strict_server(&here());
    let (answer, _peer) = served(&server, config, &mut transport, "ok").await;
    assert_eq!(answer, "ok");
}

/// A server's configuration with these protocols, the preferred one first.
fn speaking(ca: &Ca, protocols: &[&[u8]]) -> ServerConfig {
    let mut config = ca.server(&here());
    config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
    config
}

const HTTP1: &[u8] = b"http/1.1";
const HTTP2: &[u8] = b"h2";

#[tokio::test]
async fn http2_is_spoken_where_the_server_speaks_it() {
    // Both orders of preference work: Go's servers choose by the client's order, and others by their own.
    for protocols in [&[HTTP2, HTTP1][..], &[HTTP2]] {
        let (server, ca) = (Server::start().await, Ca::new());
        let mut transport = trusting(&server, &ca).build().unwrap();
        let config = speaking(&ca, protocols);
        let (answer, ()) = tokio::join!(
            async {
                let answer = read(transport.send(Get::new("/x")).await).await;
                drop(transport); // This also closes the connection, which the server waits for.
                answer
            },
            async {
                let peer = accept(&server, config).await.unwrap();
                assert_eq!(peer.0.get_ref().1.alpn_protocol(), Some(HTTP2));
                let mut http2 = h2::server::handshake(peer.0).await.unwrap();
                let (request, mut respond) = http2.accept().await.unwrap().unwrap();
                assert_eq!(
                    request.uri().to_string(),
                    format!("https://127.0.0.1:{}/x", server.port)
                );
                assert!(!request.headers().contains_key("host"));
                assert_eq!(request.headers()["accept-encoding"], "gzip");
                let mut stream = respond
                    .send_response(http::Response::new(()), false)
                    .unwrap();
                stream.send_data("ok".into(), true).unwrap();
                while let Some(Ok(_)) = http2.accept().await {}
            }
        );
        assert_eq!(answer.unwrap(), "ok");
    }
}

#[tokio::test]
async fn http1_is_spoken_where_nothing_else_can_be() {
    for (protocols, http2, agreed) in [
        (&[HTTP1][..], true, Some(HTTP1)),
        (&[], true, None),
        (&[HTTP2, HTTP1], false, Some(HTTP1)),
    ] {
        let (server, ca) = (Server::start().await, Ca::new());
        let mut transport = trusting(&server, &ca).http2(http2).build().unwrap();
        let config = speaking(&ca, protocols);
        let (answer, peer) = served(&server, config, &mut transport, "ok").await;
        assert_eq!(answer, "ok");
        assert_eq!(peer.0.get_ref().1.alpn_protocol(), agreed);
    }
}

#[tokio::test]
async fn http2_alone_is_not_had_from_a_server_of_http1() {
    for (protocols, expected) in [
        (&[][..], "does not support HTTP/2, and HTTP/1.1 is disabled"),
        (
            &[HTTP1],
            "supports none of the protocols that this client allows",
        ),
    ] {
        let (server, ca) = (Server::start().await, Ca::new());
        let client = trusting(&server, &ca).http1(false);
        let (error, line) = failure(&server, speaking(&ca, protocols), client).await;
        assert!(line.contains(expected), "{line}");
        assert!(!error.connection_was_used());
    }
}

#[tokio::test]
async fn an_unknown_ca_is_reported() {
    let (server, ca, other) = (Server::start().await, Ca::new(), Ca::named("other"));
    let client = trusting(&server, &other);
    let (error, line) = failure(&server, ca.server(&here()), client).await;
    failed_as(&error, FailureKind::Tls, false);
    assert_eq!(
        line,
        "TLS handshake with SERVER failed: the server's certificate is signed by an unknown CA; \
         set the cluster's CA (root_certificates, or certificate-authority in a kubeconfig)",
    );
}

#[tokio::test]
async fn another_ca_of_the_same_name_is_reported() {
    let (server, ca, other) = (Server::start().await, Ca::new(), Ca::new());
    let client = trusting(&server, &other);
    let line = tls_failure(&server, ca.server(&here()), client).await;
    assert_eq!(
        line,
        "TLS handshake with SERVER failed: the server's certificate is signed by a different CA with the same name as \
         the configured one; set this cluster's CA (root_certificates, or certificate-authority in a kubeconfig)",
    );
}

#[tokio::test]
async fn an_expired_certificate_is_reported() {
    let (server, ca) = (Server::start().await, Ca::new());
    let client = trusting(&server, &ca);
    let mut params = here();
    params.not_after = date_time_ymd(2020, 1, 1);
    let line = tls_failure(&server, ca.server(&params), client).await;
    let days = line
        .strip_prefix("TLS handshake with SERVER failed: the server's certificate has expired ");
    let days = days.and_then(|l| l.strip_suffix(" d ago; renew it"));
    assert!(
        days.is_some_and(|d| d.parse::<u32>().is_ok_and(|d| d > 2_000)),
        "{line}"
    );
}

#[tokio::test]
async fn a_certificate_of_the_future_is_reported() {
    let (server, ca) = (Server::start().await, Ca::new());
    let client = trusting(&server, &ca);
    let mut params = here();
    params.not_before = date_time_ymd(4000, 1, 1);
    let line = tls_failure(&server, ca.server(&params), client).await;
    assert!(
        line.contains("becomes valid in ") && line.contains("is the clock right?"),
        "{line}"
    );
}

#[tokio::test]
async fn a_wrong_name_is_reported() {
    let (server, ca) = (Server::start().await, Ca::new());
    let params =
        CertificateParams::new(["kube.example".to_owned(), "10.0.0.1".to_owned()]).unwrap();
    let client = trusting(&server, &ca);
    let line = tls_failure(&server, ca.server(&params), client).await;
    assert_eq!(
        line,
        "TLS handshake with SERVER failed: the server's certificate is not valid for the name \"127.0.0.1\"; \
         it is for kube.example, 10.0.0.1",
    );
}

#[tokio::test]
async fn a_missing_client_certificate_is_reported() {
    let (server, ca) = (Server::start().await, Ca::new());
    let client = trusting(&server, &ca);
    let line = tls_failure(&server, ca.strict_server(&here()), client).await;
    assert!(
        line.contains("the server requires a client certificate; set one"),
        "{line}"
    );
}

#[tokio::test]
async fn a_client_certificate_of_another_ca_is_reported() {
    for name in ["this cluster's CA", "other"] {
        let (server, ca, other) = (Server::start().await, Ca::new(), Ca::named(name));
        let (certificate, key) = other.sign(&for_name("client"));
        let client =
            trusting(&server, &ca).client_certificate(certificate.pem(), key.serialize_pem());
        let line = tls_failure(&server, ca.strict_server(&here()), client).await;
        assert!(line.contains("client's certificate"), "{line}");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_reported() {
    let (server, ca) = (Server::start().await, Ca::new());
    let mut transport = trusting(&server, &ca).build().unwrap();
    let (answer, _peer) = tokio::join!(transport.send(Get::new("/x")), async {
        let mut peer = server.accept().await;
        peer.write("HTTP/1.1 400 Bad Request\r\n\r\n").await;
        peer
    });
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Tls);
    assert!(
        error
            .to_string()
            .ends_with("the server does not use TLS; should the URL be http://?"),
        "{error}"
    );
}

#[tokio::test]
async fn a_handshake_that_is_cut_is_reported() {
    let (server, ca) = (Server::start().await, Ca::new());
    let mut transport = trusting(&server, &ca).build().unwrap();
    let (answer, ()) = tokio::join!(transport.send(Get::new("/x")), async {
        drop(server.accept().await);
    });
    assert_eq!(answer.unwrap_err().kind(), FailureKind::Reset);
}

#[tokio::test]
async fn a_handshake_that_takes_too_long_is_given_up() {
    let (server, ca) = (Server::start().await, Ca::new());
    let here = format!("127.0.0.1:{}", server.port);
    let behind = HyperTransport::builder("http://kubernetes.example");
    for (builder, what) in [
        (trusting(&server, &ca), "complete the TLS handshake with"),
        (server.builder().http1(false), "start HTTP/2 with"),
        (
            behind.proxy(format!("http://{here}")),
            "connect through the proxy",
        ),
    ] {
        let mut transport = builder.build().unwrap();
        let (answer, _peer) = tokio::join!(transport.send(Get::new("/x")), async {
            let peer = server.accept().await;
            peer.0.readable().await.unwrap();
            // Nothing else happens from here on, so the paused clock advances to the deadline.
            tokio::time::pause();
            peer
        });
        tokio::time::resume();
        let error = answer.unwrap_err();
        assert_eq!(error.kind(), FailureKind::TimedOut);
        assert_eq!(
            error.to_string(),
            format!("cannot {what} {here}: it took longer than 10s"),
        );
    }
}

#[tokio::test]
async fn a_body_cut_without_a_word_of_tls_is_an_error() {
    let (server, ca) = (Server::start().await, Ca::new());
    let mut transport = trusting(&server, &ca).build().unwrap();
    let config = ca.server(&here());
    let (answer, peer) = tokio::join!(transport.send(Get::new("/x")), async {
        let mut peer = accept(&server, config).await.unwrap();
        peer.request().await;
        // Without a length, the end of the connection is the end of the body, and anyone could cut it.
        peer.write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf")
            .await;
        peer
    });
    let (_, mut body) = answer.unwrap();
    assert_eq!(body.chunk().await.unwrap(), Some(&b"half"[..]));
    drop(peer);
    let error = body.chunk().await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Reset);
    assert!(error.to_string().contains("close_notify"), "{error}");
}
