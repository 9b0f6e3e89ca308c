//! HTTP/1.1 in plain text over real sockets.

use core::time::Duration;

use crate::support::{Server, answered, failed_as, first, is_reused, read, settle, started, whole};
use informer_core::{
    Body, Transport,
    transport::{FailureKind, Get, TransportError},
    wire::Format,
};
use informer_hyper::HyperTransport;
use tokio::io::AsyncWriteExt as _;

fn is_send<T: Send>(_: &T) {}

#[tokio::test]
async fn a_request_is_written_as_it_should_be() {
    let server = Server::start().await;
    let url = format!("http://127.0.0.1:{}/k8s/c-1/", server.port);
    let mut transport = HyperTransport::builder(url)
        .user_agent("test/1")
        .bearer_token("s3cret\n")
        .build()
        .unwrap();
    let get =
        Get::new("/api/v1/pods?limit=5&labelSelector=a%3Db").accept("application/json;as=Table");
    let (answer, request) = tokio::join!(transport.send(get), async {
        server.accept().await.serve("[]").await
    });
    assert_eq!(answer.unwrap().0.status, 200);
    let mut lines: Vec<_> = request.trim_end().split("\r\n").collect();
    lines[1..].sort_unstable();
    let host = format!("host: 127.0.0.1:{}", server.port);
    assert_eq!(
        lines,
        [
            "GET /k8s/c-1/api/v1/pods?limit=5&labelSelector=a%3Db HTTP/1.1",
            "accept-encoding: gzip",
            "accept: application/json;as=Table",
            "authorization: Bearer s3cret",
            &host,
            "user-agent: test/1",
        ],
    );
}

#[tokio::test]
async fn status_retry_after_and_format_are_reported() {
    let (server, mut transport) = started().await;
    let (answer, _peer) = answered(
        &mut transport,
        &server,
        "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 4\r\n\
         Content-Type: application/vnd.kubernetes.protobuf\r\n\r\nbusy",
    )
    .await;
    let (head, body) = answer.unwrap();
    assert_eq!(
        (head.status, head.retry_after, head.format),
        (429, Some(Duration::from_secs(7)), Some(Format::Protobuf))
    );
    assert_eq!(read(Ok((head, body))).await.unwrap(), "busy");
}

#[tokio::test]
async fn a_connection_is_kept_for_the_next_request() {
    let (server, mut transport) = started().await;
    let mut peer = whole(&mut transport, &server).await;
    for _ in 0..3 {
        is_reused(&mut transport, &mut peer).await;
    }
}

#[tokio::test]
async fn a_chunked_body_gives_its_connection_back() {
    let (server, mut transport) = started().await;
    let (answer, mut peer) = answered(
        &mut transport,
        &server,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    )
    .await;
    assert_eq!(read(answer).await.unwrap(), "abcde");
    is_reused(&mut transport, &mut peer).await;
}

#[tokio::test]
async fn a_second_request_beside_a_watch_opens_another_connection() {
    let (server, mut transport) = started().await;
    let (answer, mut watching) = answered(
        &mut transport,
        &server,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    )
    .await;
    let (_, mut watch) = answer.unwrap();
    let mut other = whole(&mut transport, &server).await;

    watching.write("1\r\na\r\n").await;
    assert_eq!(watch.chunk().await.unwrap(), Some(&b"a"[..]));
    // The other connection is idle and takes the next request.
    is_reused(&mut transport, &mut other).await;
}

#[tokio::test]
async fn a_clone_has_a_connection_of_its_own() {
    let (server, mut transport) = started().await;
    let mut peer = whole(&mut transport, &server).await;
    let mut clone = transport.clone();
    let _other = whole(&mut clone, &server).await;
    is_reused(&mut transport, &mut peer).await;
}

#[tokio::test]
async fn a_body_dropped_half_read_closes_its_connection() {
    let (server, mut transport) = started().await;
    let (answer, mut peer) = answered(
        &mut transport,
        &server,
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf ",
    )
    .await;
    let (_, mut body) = answer.unwrap();
    assert_eq!(body.chunk().await.unwrap(), Some(&b"half "[..]));
    drop(body);
    peer.closed().await;
    whole(&mut transport, &server).await;
}

#[tokio::test]
async fn an_abandoned_request_closes_its_connection() {
    let (server, mut transport) = started().await;
    let mut peer = {
        let mut sending = Box::pin(transport.send(Get::new("/x")));
        tokio::select! {
            _ = &mut sending => unreachable!("nobody answers"),
            peer = async { let mut peer = server.accept().await; peer.request().await; peer } => peer,
        }
    };
    peer.closed().await;
}

#[tokio::test]
async fn a_connection_that_the_server_gives_up_is_not_kept() {
    let (server, mut transport) = started().await;
    let (answer, mut peer) = answered(
        &mut transport,
        &server,
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
    )
    .await;
    assert_eq!(read(answer).await.unwrap(), "ok");
    peer.closed().await;
    whole(&mut transport, &server).await;
}

#[tokio::test]
async fn t05_an_idle_connection_that_was_closed_is_noticed() {
    let (server, mut transport) = started().await;
    let peer = whole(&mut transport, &server).await;
    drop(peer);
    settle().await;
    whole(&mut transport, &server).await;
}

#[tokio::test]
async fn an_idle_connection_is_not_kept_for_ever() {
    let (server, mut transport) = started().await;
    let mut peer = whole(&mut transport, &server).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(91)).await;
    tokio::time::resume();
    whole(&mut transport, &server).await;
    peer.closed().await;
}

#[tokio::test]
async fn t05_a_kept_connection_that_breaks_is_reported_to_have_been_used() {
    let (server, mut transport) = started().await;
    let mut peer = whole(&mut transport, &server).await;
    let (answer, ()) = tokio::join!(transport.send(Get::new("/y")), async {
        peer.request().await;
        drop(peer);
    });
    let error = answer.unwrap_err();
    failed_as(&error, FailureKind::Reset, true);
}

#[tokio::test]
async fn a_new_connection_that_breaks_is_reported_to_be_new() {
    let (server, mut transport) = started().await;
    let (answer, ()) = tokio::join!(transport.send(Get::new("/y")), async {
        server.accept().await.request().await;
    });
    let error = answer.unwrap_err();
    failed_as(&error, FailureKind::Reset, false);
    let port = server.port;
    assert_eq!(
        error.to_string(),
        format!("no response from 127.0.0.1:{port}: connection closed before message completed"),
    );
}

#[tokio::test]
async fn a_reset_is_reported() {
    let (server, mut transport) = started().await;
    let (answer, ()) = tokio::join!(transport.send(Get::new("/y")), async {
        let mut peer = server.accept().await;
        peer.request().await;
        peer.0.set_zero_linger().unwrap();
    });
    let error = answer.unwrap_err();
    failed_as(&error, FailureKind::Reset, false);
    assert!(error.to_string().contains("reset by peer"), "{error}");
}

#[tokio::test]
async fn a_port_without_a_listener_is_reported() {
    let server = Server::start().await;
    let port = server.port;
    let mut transport = server.transport();
    drop(server);
    let error = transport.send(Get::new("/x")).await.unwrap_err();
    failed_as(&error, FailureKind::Refused, false);
    let expected = format!("cannot connect to 127.0.0.1:{port}: Connection refused (os error ");
    assert!(error.to_string().starts_with(&expected), "{error}");
}

#[tokio::test]
async fn an_unknown_name_is_reported() {
    // The resolver rejects a label of 64 letters without a query.
    let name = "a".repeat(64);
    let mut transport = HyperTransport::builder(format!("http://{name}.invalid"))
        .build()
        .unwrap();
    let error = transport.send(Get::new("/x")).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Dns);
    assert!(
        error
            .to_string()
            .starts_with(&format!("cannot resolve the address of {name}.invalid: ")),
        "{error}"
    );
}

#[tokio::test]
async fn a_name_is_looked_up() {
    let server = Server::start().await;
    let url = format!("http://localhost:{}", server.port);
    let mut transport = HyperTransport::builder(url).build().unwrap();
    whole(&mut transport, &server).await;
    let port = server.port;
    drop(server);
    let error = transport.clone().send(Get::new("/x")).await.unwrap_err();
    let expected = format!("cannot connect to localhost:{port} at ");
    assert!(error.to_string().starts_with(&expected), "{error}");
}

#[tokio::test]
async fn an_ipv6_address_works() {
    let server = Server::start_at("::1").await;
    let url = format!("http://[::1]:{}", server.port);
    let mut transport = HyperTransport::builder(&url).build().unwrap();
    let (answer, request) = tokio::join!(transport.send(Get::new("/x")), async {
        server.accept().await.serve("six").await
    });
    assert_eq!(read(answer).await.unwrap(), "six");
    assert!(
        request.contains(&format!("host: [::1]:{}\r\n", server.port)),
        "{request}"
    );
    let user_agent = concat!("informer-hyper/", env!("CARGO_PKG_VERSION"));
    assert!(
        request.contains(&format!("user-agent: {user_agent}\r\n")),
        "{request}"
    );
    assert_eq!(format!("{transport:?}"), format!("HyperTransport({url})"));
}

#[tokio::test]
async fn a_server_that_does_not_speak_http_is_reported() {
    let (server, mut transport) = started().await;
    let (answer, _peer) = answered(&mut transport, &server, "SSH-2.0-OpenSSH_9.9\r\n").await;
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Other);
    let port = server.port;
    assert_eq!(
        error.to_string(),
        format!("no response from 127.0.0.1:{port}: invalid HTTP version parsed")
    );
}

#[tokio::test]
async fn the_futures_can_move_between_threads() {
    let (server, mut transport) = started().await;
    is_send(&transport);
    let sending = transport.send(Get::new("/x"));
    is_send(&sending);
    let (answer, _) = tokio::join!(sending, async { server.accept().await.serve("body").await });
    let (_, mut body) = answer.unwrap();
    is_send(&body);
    let chunk = body.chunk();
    is_send(&chunk);
    assert_eq!(chunk.await.unwrap(), Some(&b"body"[..]));
}

/// Sending such a request again fails again, so it must not count as a failure of the network.
#[tokio::test]
async fn a_request_that_cannot_be_built_is_an_error_of_its_caller() {
    let mut transport = HyperTransport::builder("http://127.0.0.1:1/k8s")
        .build()
        .unwrap();
    let path = "/api/v1/pods?labelSelector=";
    let long = |length: usize| format!("{path}{}", "a".repeat(length - path.len()));
    for (get, why) in [
        (
            Get::new(&long(65_531)),
            "its path and query have 65535 bytes, and at most 65534 are possible: select by fewer values",
        ),
        (
            Get::new("/a b"),
            "its path has characters that are not allowed",
        ),
        (Get::new("pods"), "its path does not start with a slash"),
        (Get::new(""), "its path does not start with a slash"),
        (
            Get::new("/x").accept("a\nb"),
            "the Accept header has characters that are not allowed",
        ),
    ] {
        let error = transport.send(get).await.map(drop).unwrap_err();
        failed_as(&error, FailureKind::Request, false);
        let shown = error.to_string();
        let expected = format!("cannot send a request to 127.0.0.1:1: {why}");
        assert!(shown.starts_with(&expected), "{shown}");
    }
    let sent = transport.send(Get::new(&long(65_530))).await;
    failed_as(&sent.map(drop).unwrap_err(), FailureKind::Refused, false);
}

/// The limit of heads does not depend on what else the process has open.
#[tokio::test]
async fn a_large_head_is_read_however_many_connections_are_open() {
    const WATCH: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    const LIMIT: usize = 256 << 10;
    let head = |length: usize| {
        let (begin, end) = (
            "HTTP/1.1 200 OK\r\nX-Large: ",
            "\r\nContent-Length: 2\r\n\r\n",
        );
        format!(
            "{begin}{}{end}",
            "a".repeat(length - begin.len() - end.len())
        )
    };
    let server = Server::start().await;
    let mut watches = Vec::new();
    for _ in 0..70 {
        watches.push(server.answer(WATCH).await);
    }
    for length in [20_000, 60_000, LIMIT] {
        let (answer, _peer) = answered(
            &mut server.transport(),
            &server,
            format!("{}[]", head(length)),
        )
        .await;
        assert_eq!(read(answer).await.unwrap(), "[]", "{length}");
    }
    let (answer, _peer) = first(&mut server.transport(), &server, |mut peer| async {
        peer.request().await;
        // The client may close the connection before it has all of it.
        let _ = peer.0.write_all(head(LIMIT + 100).as_bytes()).await;
        peer
    })
    .await;
    let error = answer.map(drop).unwrap_err();
    failed_as(&error, FailureKind::Other, false);
    let shown = error.to_string();
    let why = ": the head of the response is larger than 256 KiB, or has more than 100 headers";
    assert!(
        shown.starts_with("no response from ") && shown.ends_with(why),
        "{shown}"
    );
}

/// The clones of a transport return each text once.
#[tokio::test]
async fn a_warning_of_the_server_is_returned_once() {
    let (server, mut transport) = started().await;
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\
        Warning: 299 - \"a is \\\"old\\\"\", 299 - \"b\"\r\nWarning: 299 - \"\u{e9}\"\r\n\r\nok";
    let (answer, _peer) = answered(&mut transport, &server, head).await;
    let (_, mut body) = answer.unwrap();
    let mut warnings = Vec::new();
    while let Some(text) = body.warning() {
        warnings.push(text.to_owned());
    }
    assert_eq!(warnings, ["a is \"old\"", "b", "\u{e9}"]);
    assert_eq!(body.chunk().await.unwrap(), Some(&b"ok"[..]));
    let (answer, _peer) = answered(&mut transport.clone(), &server, head).await;
    assert_eq!(answer.unwrap().1.warning(), None);
}

/// It is not followed, so its target must be in the message.
#[tokio::test]
async fn a_redirect_names_its_target() {
    for status in [301, 302, 303, 307, 308] {
        let (server, mut transport) = started().await;
        let answer = format!(
            "HTTP/1.1 {status} Elsewhere\r\nLocation: https://u:s3cret@other:6443/x?token=s3cret\r\n\
             Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nhtml"
        );
        let (answer, _peer) = answered(&mut transport, &server, answer).await;
        assert_eq!(answer.as_ref().unwrap().0.status, status);
        let body = read(answer).await.unwrap();
        assert!(
            body.contains("redirects to https://other:6443/x, "),
            "{body}"
        );
    }
}
