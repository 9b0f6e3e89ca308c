//! Gzip bodies, over real sockets.

use core::time::Duration;

use crate::support::{
    Server, answer, answered, is_reused, read, read_abandoning, started, whole, write_in_steps,
};
use flate2::{Compress, Compression, Crc, FlushCompress};
use informer_core::{
    Body, Transport,
    transport::{FailureKind, Get, TransportError},
};
use informer_hyper::HyperBody;
use tokio::time::timeout;

/// Compresses to one gzip member.
fn member(data: &[u8]) -> Vec<u8> {
    let mut compress = Compress::new(Compression::fast(), false);
    let mut deflated = Vec::with_capacity(data.len() + 100);
    compress
        .compress_vec(data, &mut deflated, FlushCompress::Finish)
        .unwrap();
    let mut crc = Crc::new();
    crc.update(data);
    [
        &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255],
        &*deflated,
        &crc.sum().to_le_bytes(),
        &crc.amount().to_le_bytes(),
    ]
    .concat()
}

/// A chunk of a chunked body.
fn piece(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

const HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n";
const END: &str = "0\r\n\r\n";

/// Reads a chunk that must be available at once.
async fn soon(body: &mut HyperBody) -> Option<&[u8]> {
    let limit = Duration::from_secs(10);
    timeout(limit, body.chunk())
        .await
        .expect("it is held back")
        .unwrap()
}

#[tokio::test]
async fn gzip_is_asked_for_unless_it_is_turned_off() {
    let server = Server::start().await;
    for (builder, expected) in [
        (server.builder(), "gzip"),
        (server.builder().gzip(true), "gzip"),
        (server.builder().gzip(false), "identity"),
    ] {
        let mut transport = builder.build().unwrap();
        let (answer, request) = tokio::join!(transport.send(Get::new("/x")), async {
            server.accept().await.serve("plain").await
        });
        let expected = format!("\r\naccept-encoding: {expected}\r\n");
        assert!(request.contains(&expected), "{request}");
        assert_eq!(read(answer).await.unwrap(), "plain");
    }
}

#[tokio::test]
async fn a_list_of_a_known_length_is_decoded_and_gives_its_connection_back() {
    let server = Server::start().await;
    // A server that compresses without being asked is supported too.
    for on in [true, false] {
        let mut transport = server.builder().gzip(on).build().unwrap();
        let text = "0123456789".repeat(100_000);
        let bytes = member(text.as_bytes());
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
            bytes.len()
        );
        let all = [head.as_bytes(), &bytes].concat();
        let (body, mut peer) = answer(&mut transport, &server, all).await;
        let got = read(Ok((informer_core::Head::new(200), body))).await;
        assert!(got.unwrap() == text);
        is_reused(&mut transport, &mut peer).await;
    }
}

/// Its headers are those of the decoded body.
#[tokio::test]
async fn a_response_to_any_request_is_decoded() {
    let (server, transport) = started().await;
    let bytes = member(b"0123456789");
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        bytes.len()
    );
    let delete = http::Request::delete("/x")
        .body(bytes::Bytes::new())
        .unwrap();
    let (response, _peer) = tokio::join!(transport.request(delete), async {
        let mut peer = server.accept().await;
        peer.request().await;
        peer.write([head.as_bytes(), &bytes].concat()).await;
        peer
    });
    let response = response.unwrap();
    assert_eq!(response.body(), "0123456789");
    assert!(response.headers().is_empty(), "{response:?}");
}

#[tokio::test]
async fn a_chunked_list_gives_its_connection_back() {
    let (server, mut transport) = started().await;
    let text = "abc".repeat(50_000);
    let bytes = member(text.as_bytes());
    let pieces: Vec<_> = bytes.chunks(100).flat_map(piece).collect();
    let all = [HEAD.as_bytes(), &pieces, END.as_bytes()].concat();
    let (mut body, mut peer) = answer(&mut transport, &server, all).await;
    let mut got = Vec::new();
    while let Some(chunk) = soon(&mut body).await {
        got.extend_from_slice(chunk);
    }
    assert!(got == text.as_bytes());
    assert_eq!(soon(&mut body).await, None);
    is_reused(&mut transport, &mut peer).await;
}

#[tokio::test]
async fn a_member_is_given_out_though_silence_follows() {
    let server = Server::start().await;
    let (mut body, mut peer) = server.answer(HEAD).await;
    for n in 0..50 {
        let event = format!("{{\"event\":{n}}}\n");
        peer.write(piece(&member(event.as_bytes()))).await;
        // Nothing more is written until this has been read.
        assert_eq!(soon(&mut body).await, Some(event.as_bytes()));
    }
    peer.write(END).await;
    assert_eq!(soon(&mut body).await, None);
}

#[tokio::test]
async fn members_can_be_torn_at_any_byte() {
    let server = Server::start().await;
    let parts = [&b"{\"a\":1}\n"[..], b"", b"{\"b\":2}\n{\"c\":3}\n"];
    let bytes: Vec<_> = parts.iter().flat_map(|part| member(part)).collect();
    let mut transport = server.transport();
    let mut peer = whole(&mut transport, &server).await;
    for at in 0..=bytes.len() {
        let (answer, _) = tokio::join!(transport.send(Get::new("/x")), async {
            peer.request().await;
            peer.write(HEAD).await;
        });
        let (_, mut body) = answer.unwrap();
        let (one, two) = bytes.split_at(at);
        let mut got = Vec::new();
        for half in [one, two] {
            if half.is_empty() {
                continue;
            }
            peer.write(piece(half)).await;
            // Reads everything available before the other half is written.
            while let Ok(chunk) = timeout(Duration::from_millis(2), body.chunk()).await {
                got.extend_from_slice(chunk.unwrap().expect("it has not ended"));
            }
        }
        peer.write(END).await;
        while let Some(chunk) = soon(&mut body).await {
            got.extend_from_slice(chunk);
        }
        assert!(got == parts.concat(), "{at}");
    }
}

#[tokio::test]
async fn a_stream_that_waits_can_be_abandoned_at_any_time_without_loss() {
    let server = Server::start().await;
    let (mut body, mut peer) = server.answer(HEAD).await;
    let events: Vec<_> = (0..500).map(|n| format!("{n};").repeat(n % 7)).collect();
    let bytes: Vec<_> = events.iter().flat_map(|e| member(e.as_bytes())).collect();
    let mut wire: Vec<_> = bytes.chunks(7).flat_map(piece).collect();
    wire.extend_from_slice(END.as_bytes());
    let ((all, abandoned), ()) =
        tokio::join!(read_abandoning(&mut body), write_in_steps(&mut peer, &wire));
    assert!(all == events.concat().as_bytes());
    assert!(abandoned > 500, "{abandoned}");
}

#[tokio::test]
async fn a_bomb_comes_in_small_chunks_and_lets_others_run() {
    let server = Server::start().await;
    let bytes = member(&vec![0; 10_000_000]);
    let all = [HEAD.as_bytes(), &piece(&bytes), END.as_bytes()].concat();
    let (mut body, _peer) = server.answer(all).await;
    let reading = async {
        let mut total = 0;
        while let Some(chunk) = soon(&mut body).await {
            assert!(chunk.len() <= 32 * 1024);
            assert!(chunk.iter().all(|&byte| byte == 0));
            total += chunk.len();
        }
        total
    };
    let counting = async {
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
    };
    let mut reading = Box::pin(reading);
    tokio::select! {
        biased;
        _ = &mut reading => unreachable!("it ran on and on"),
        () = counting => {}
    }
    assert_eq!(reading.await, 10_000_000);
}

#[tokio::test]
async fn a_stream_that_ends_inside_a_member_was_cut() {
    let server = Server::start().await;
    let (good, cut) = (member(b"good"), member(b"cut off"));
    // In the header, in the data, in the trailer.
    for len in [1, 9, 13, cut.len() - 8, cut.len() - 1] {
        let bytes = [&good, &cut[..len]].concat();
        let all = [HEAD.as_bytes(), &piece(&bytes), END.as_bytes()].concat();
        let (mut body, mut peer) = server.answer(all).await;
        assert_eq!(soon(&mut body).await, Some(&b"good"[..]));
        let error = loop {
            match body.chunk().await {
                Ok(chunk) => assert!(b"cut off".starts_with(chunk.expect("it was cut"))),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), FailureKind::Reset);
        let expected = format!(
            "the response from 127.0.0.1:{} was cut off: it ends in the middle of a gzip member",
            server.port
        );
        assert_eq!(error.to_string(), expected);
        assert_eq!(
            body.chunk().await.unwrap_err().to_string(),
            error.to_string()
        );
        peer.closed().await;
    }
}

#[tokio::test]
async fn a_connection_that_breaks_gives_what_came_before() {
    let server = Server::start().await;
    let bytes = [HEAD.as_bytes(), &piece(&member(b"event"))].concat();
    let (mut body, peer) = server.answer(bytes).await;
    drop(peer);
    assert_eq!(soon(&mut body).await, Some(&b"event"[..]));
    for _ in 0..2 {
        assert_eq!(body.chunk().await.unwrap_err().kind(), FailureKind::Reset);
    }
}

#[tokio::test]
async fn an_undecodable_body_is_reported_and_closes_the_connection() {
    let server = Server::start().await;
    let (good, mut bad) = (member(b"good"), member(b"bad"));
    let at = bad.len() - 8;
    bad[at] ^= 1;
    for (bytes, why) in [
        (
            &bad[..],
            "it is not valid gzip: CRC computed does not match",
        ),
        (&good[..0], "it is not valid gzip: Invalid gzip header"),
        (&good, "a gzip member is followed by other data"),
    ] {
        let bytes = [bytes, b"{}"].concat();
        let all = [HEAD.as_bytes(), &piece(&bytes)].concat();
        let (mut body, mut peer) = server.answer(all).await;
        if bytes.starts_with(&good) {
            assert_eq!(soon(&mut body).await, Some(&b"good"[..]));
        }
        for _ in 0..2 {
            let error = body.chunk().await.unwrap_err();
            assert_eq!(error.kind(), FailureKind::Other);
            let expected = format!(
                "the response from 127.0.0.1:{} cannot be decoded: {why}",
                server.port
            );
            assert_eq!(error.to_string(), expected);
        }
        peer.closed().await;
    }
}

#[tokio::test]
async fn an_unknown_encoding_is_reported_with_the_status_and_closes_the_connection() {
    let server = Server::start().await;
    let head = "HTTP/1.1 503 Busy\r\nRetry-After: 3\r\nContent-Encoding: br\r\nContent-Length: 2";
    let bytes = format!("{head}\r\n\r\n\x0b\x02");
    let (answer, mut peer) = answered(&mut server.transport(), &server, bytes).await;
    let (head, mut body) = answer.unwrap();
    assert_eq!(
        (head.status, head.retry_after),
        (503, Some(Duration::from_secs(3)))
    );
    let error = body.chunk().await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Other);
    let expected = "cannot be decoded: its content encoding \"br\" is not supported";
    assert!(error.to_string().ends_with(expected), "{error}");
    peer.closed().await;
}

#[tokio::test]
async fn padding_and_bodies_of_nothing_are_taken() {
    let server = Server::start().await;
    let padded = [&member(b"x")[..], &[0; 512]].concat();
    for (body, expected) in [
        (piece(&padded), "x"),
        (piece(&member(b"")), ""),
        (vec![], ""),
    ] {
        let mut transport = server.transport();
        let all = [HEAD.as_bytes(), &body, END.as_bytes()].concat();
        let (mut body, mut peer) = answer(&mut transport, &server, all).await;
        let mut got = Vec::new();
        while let Some(chunk) = soon(&mut body).await {
            assert!(!chunk.is_empty());
            got.extend_from_slice(chunk);
        }
        assert_eq!(got, expected.as_bytes());
        is_reused(&mut transport, &mut peer).await;
    }
}
