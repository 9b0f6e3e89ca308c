//! Requests of any kind, such as writes, through the service of the transport.
#![allow(clippy::std_instead_of_alloc, reason = "a test may")]

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use informer_core::transport::{FailureKind, TransportError};
use informer_hyper::{HyperBody, HyperError, HyperTransport};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, pause, sleep};
use tower::Service as _;

use crate::support::{Peer, Server, failed_as, started};

const BUSY: &str = "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\nRetry-After: ";

fn post(path: &str, body: &str) -> Request<String> {
    Request::post(path).body(body.to_owned()).unwrap()
}

/// Reads a request with a body of this length.
async fn written(peer: &mut Peer<TcpStream>, length: usize) -> (String, String) {
    let head = peer.request().await;
    let mut body = vec![0; length];
    peer.0.read_exact(&mut body).await.unwrap();
    (head, String::from_utf8(body).unwrap())
}

async fn whole(answer: Result<Response<HyperBody>, HyperError>) -> (StatusCode, HeaderMap, Bytes) {
    let (head, body) = answer.unwrap().into_parts();
    (
        head.status,
        head.headers,
        body.collect().await.unwrap().to_bytes(),
    )
}

#[tokio::test]
async fn a_write_has_its_method_headers_and_body_and_its_response() {
    let server = Server::start().await;
    let url = format!("http://127.0.0.1:{}/prefix", server.port);
    let builder = HyperTransport::builder(url)
        .bearer_token("t")
        .user_agent("me");
    let mut transport = builder.build().unwrap();
    let patch = Request::patch(format!(
        "http://127.0.0.1:{}/pods/a?force=true",
        server.port
    ))
    .header("Content-Type", "application/merge-patch+json")
    .header("Authorization", "Bearer of-someone-else")
    .body("{}".to_owned())
    .unwrap();
    let (answer, (head, body, mut peer)) = tokio::join!(transport.call(patch), async {
        let mut peer = server.accept().await;
        let (head, body) = written(&mut peer, 2).await;
        peer.write("HTTP/1.1 201 Created\r\nX-Audit: a\r\nContent-Length: 4\r\n\r\ndone")
            .await;
        (head, body, peer)
    });
    assert!(
        head.starts_with("PATCH /prefix/pods/a?force=true HTTP/1.1\r\n"),
        "{head}"
    );
    for line in [
        "content-type: application/merge-patch+json",
        "content-length: 2",
        "authorization: Bearer t",
        "user-agent: me",
    ] {
        assert!(head.contains(&format!("{line}\r\n")), "{line}: {head}");
    }
    assert_eq!((head.matches("uthorization").count(), &*body), (1, "{}"));
    let (status, headers, body) = whole(answer).await;
    assert_eq!(
        (status.as_u16(), &headers["x-audit"], &body[..]),
        (201, &"a".parse().unwrap(), &b"done"[..])
    );

    // The next one uses the same connection.
    let delete = Request::delete("/pods/a").body(Bytes::new()).unwrap();
    let (answer, head) = tokio::join!(transport.request(delete), peer.serve("gone"));
    assert!(
        head.starts_with("DELETE /prefix/pods/a HTTP/1.1\r\n"),
        "{head}"
    );
    assert_eq!(answer.unwrap().body(), "gone");
}

/// The server may have processed it.
#[tokio::test]
async fn a_request_that_was_sent_is_not_sent_again() {
    let (server, mut transport) = started().await;
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    tokio::spawn(async move {
        loop {
            let mut peer = server.accept().await;
            written(&mut peer, 4).await;
            seen.fetch_add(1, Ordering::SeqCst);
        }
    });
    let error = transport.call(post("/x", "body")).await.unwrap_err();
    failed_as(&error, FailureKind::Reset, false);
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

/// Time is paused once the connection is open, so only the transport's timers advance it.
#[tokio::test]
async fn an_overloaded_server_is_asked_again_after_the_time_it_names() {
    let server = Server::start().await;
    let mut transport = server.builder().answer_timeout(None).build().unwrap();
    let (answer, times) = tokio::join!(transport.call(post("/x", "body")), async {
        let mut peer = server.accept().await;
        let mut times = Vec::new();
        for after in ["7", "0"] {
            assert_eq!(written(&mut peer, 4).await.1, "body");
            if times.is_empty() {
                pause();
            }
            times.push(Instant::now());
            peer.write(format!("{BUSY}{after}\r\n\r\nbusy")).await;
        }
        peer.serve("at last").await;
        times.push(Instant::now());
        times
    });
    assert_eq!(whole(answer).await.2, "at last");
    let waited: Vec<_> = times
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).as_secs())
        .collect();
    assert_eq!(waited, [7, 1]);
}

#[tokio::test]
async fn a_response_that_names_no_time_or_too_long_a_time_is_returned() {
    for after in ["100", "soon"] {
        let (server, mut transport) = started().await;
        let (answer, _) = tokio::join!(transport.call(post("/x", "body")), async {
            let mut peer = server.accept().await;
            written(&mut peer, 4).await;
            peer.write(format!("{BUSY}{after}\r\n\r\nbusy")).await;
            peer
        });
        let (status, headers, body) = whole(answer).await;
        assert_eq!((status.as_u16(), &body[..]), (429, &b"busy"[..]));
        assert_eq!(headers["retry-after"], after);
    }
}

/// A watch has none.
#[tokio::test]
async fn the_response_to_a_write_has_a_time_limit() {
    for method in ["POST", "GET"] {
        let (server, mut transport) = started().await;
        let request = Request::builder().method(method).uri("/x");
        let (answer, mut peer) = tokio::join!(
            transport.call(request.body(String::new()).unwrap()),
            async {
                let mut peer = server.accept().await;
                peer.request().await;
                peer.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
                    .await;
                peer
            }
        );
        pause();
        let (body, ()) = tokio::join!(answer.unwrap().into_body().collect(), async {
            for _ in 0..9 {
                sleep(Duration::from_secs(60)).await;
                // Whoever has given up has closed the connection.
                let _ = peer.0.write_all(b"x").await;
            }
        });
        match body {
            Ok(body) => assert_eq!((method, body.to_bytes().len()), ("GET", 9)),
            Err(error) => assert_eq!((method, error.kind()), ("POST", FailureKind::TimedOut)),
        }
        tokio::time::resume();
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_sent_is_refused_with_its_reason() {
    let builder = HyperTransport::builder("http://127.0.0.1:1");
    let mut transport = builder.build().unwrap();
    let piece = || Ok::<_, &str>(Frame::data(Bytes::from(vec![b'x'; 1 << 20])));
    let mut errors = Vec::new();
    for pieces in [
        stream::repeat_with(piece).boxed(),
        stream::pending().boxed(),
        stream::iter([Err("it is gone")]).boxed(),
    ] {
        let request = Request::post("/x").body(StreamBody::new(pieces));
        errors.push(transport.call(request.unwrap()).await.unwrap_err());
    }
    for request in [
        Request::get("/exec").header("Upgrade", "websocket"),
        Request::get("http://other/x"),
        Request::get("x"),
    ] {
        let request = request.body(String::new()).unwrap();
        errors.push(transport.call(request).await.unwrap_err());
    }
    for (error, why) in errors.iter().zip([
        "its body is larger than 16 MiB",
        "its body took longer than 65s",
        "its body cannot be read: it is gone",
        "upgraded connections are not supported",
        "its URI has the host of another server",
        "its URI has the host of another server",
    ]) {
        assert_eq!(error.kind(), FailureKind::Request, "{error}");
        assert!(error.to_string().ends_with(why), "{error}");
    }
}
