//! Bodies: chunks, cuts and wrong lengths, over real sockets.

use crate::support::{
    Server, answered, failed_as, is_reused, read, read_abandoning, started, whole, write_in_steps,
};
use informer_core::{
    Body, Transport,
    transport::{FailureKind, Get, TransportError},
};

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

#[tokio::test]
async fn a_stream_arrives_as_it_is_written() {
    let server = Server::start().await;
    let (mut body, mut peer) = server.answer(CHUNKED).await;
    for n in 0..50 {
        let event = format!("{{\"event\":{n}}}\n");
        peer.write(format!("{:x}\r\n{event}\r\n", event.len()))
            .await;
        assert_eq!(body.chunk().await.unwrap(), Some(event.as_bytes()));
    }
    peer.write("0\r\n\r\n").await;
    assert_eq!(body.chunk().await.unwrap(), None);
    assert_eq!(body.chunk().await.unwrap(), None);
    assert_eq!(
        format!("{body:?}"),
        format!("HyperBody(127.0.0.1:{}, ended)", server.port)
    );
}

#[tokio::test]
async fn a_stream_that_waits_can_be_abandoned_at_any_time_without_loss() {
    let server = Server::start().await;
    let (mut body, mut peer) = server.answer(CHUNKED).await;
    let text: String = (0..3_000).map(|n| format!("{n};")).collect();
    // Written in odd pieces, so that chunk heads are split too.
    let wire: String = text
        .as_bytes()
        .chunks(7)
        .map(|c| format!("{:x}\r\n{}\r\n", c.len(), str::from_utf8(c).unwrap()))
        .collect();
    let wire = wire + "0\r\n\r\n";
    let ((all, abandoned), ()) = tokio::join!(
        read_abandoning(&mut body),
        write_in_steps(&mut peer, wire.as_bytes())
    );
    assert!(all == text.as_bytes());
    assert!(abandoned > 1_000, "{abandoned}");
}

#[tokio::test]
async fn a_large_body_arrives_whole() {
    let (server, mut transport) = started().await;
    let text = "0123456789".repeat(300_000);
    let (got, _) = tokio::join!(
        async { read(transport.send(Get::new("/x")).await).await },
        async { server.accept().await.serve(&text).await }
    );
    assert!(got.unwrap() == text);
}

#[tokio::test]
async fn t05_a_stream_that_is_cut_keeps_failing() {
    let server = Server::start().await;
    let (mut body, peer) = server.answer(format!("{CHUNKED}3\r\nabc\r\n5\r\nde")).await;
    assert_eq!(body.chunk().await.unwrap(), Some(&b"abc"[..]));
    drop(peer);
    assert_eq!(body.chunk().await.unwrap(), Some(&b"de"[..]));
    for _ in 0..2 {
        let error = body.chunk().await.unwrap_err();
        failed_as(&error, FailureKind::Reset, false);
        let expected = format!("the response from 127.0.0.1:{} was cut off: ", server.port);
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
}

#[tokio::test]
async fn a_stream_that_is_reset_fails() {
    let server = Server::start().await;
    let (mut body, peer) = server.answer(format!("{CHUNKED}3\r\nabc\r\n")).await;
    assert_eq!(body.chunk().await.unwrap(), Some(&b"abc"[..]));
    peer.0.set_zero_linger().unwrap();
    drop(peer);
    let error = body.chunk().await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Reset);
    assert!(error.to_string().contains("reset by peer"), "{error}");
}

#[tokio::test]
async fn a_stream_cut_between_two_chunks_fails() {
    let server = Server::start().await;
    let (mut body, peer) = server.answer(format!("{CHUNKED}3\r\nabc\r\n")).await;
    drop(peer);
    assert_eq!(body.chunk().await.unwrap(), Some(&b"abc"[..]));
    assert_eq!(body.chunk().await.unwrap_err().kind(), FailureKind::Reset);
}

#[tokio::test]
async fn fewer_bytes_than_announced_are_an_error() {
    let server = Server::start().await;
    let (mut body, peer) = server
        .answer("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
        .await;
    drop(peer);
    assert_eq!(body.chunk().await.unwrap(), Some(&b"hello"[..]));
    assert_eq!(body.chunk().await.unwrap_err().kind(), FailureKind::Reset);
}

#[tokio::test]
async fn more_bytes_than_announced_end_the_connection() {
    let (server, mut transport) = started().await;
    let (answer, mut peer) = answered(
        &mut transport,
        &server,
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello, world",
    )
    .await;
    assert_eq!(read(answer).await.unwrap(), "hello");
    peer.closed().await;
    whole(&mut transport, &server).await;
}

#[tokio::test]
async fn nonsense_between_chunks_is_an_error() {
    let server = Server::start().await;
    let (mut body, _peer) = server.answer(format!("{CHUNKED}zz\r\n")).await;
    let error = body.chunk().await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Other);
}

#[tokio::test]
async fn a_body_without_a_length_ends_with_its_connection() {
    let server = Server::start().await;
    let (mut body, peer) = server.answer("HTTP/1.0 200 OK\r\n\r\nold").await;
    drop(peer);
    assert_eq!(body.chunk().await.unwrap(), Some(&b"old"[..]));
    assert_eq!(body.chunk().await.unwrap(), None);
}

#[tokio::test]
async fn an_answer_without_a_body_gives_its_connection_back() {
    let (server, mut transport) = started().await;
    let (answer, mut peer) =
        answered(&mut transport, &server, "HTTP/1.1 204 No Content\r\n\r\n").await;
    let (head, body) = answer.unwrap();
    assert_eq!(head.status, 204);
    assert_eq!(read(Ok((head, body))).await.unwrap(), "");
    is_reused(&mut transport, &mut peer).await;
}
