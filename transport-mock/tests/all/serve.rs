//! The server on a real port.
#![cfg(feature = "serve")]

use core::net::SocketAddr;
use core::pin::Pin;
use core::task::Poll;
use std::sync::Arc;

use crate::common::{events, pod};
use http_body_util::BodyExt as _;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use informer_mock::demo::Demo;
use informer_mock::{FakeServer, Fault, Mock, TokioClock, protobuf, serve};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

type Mocked = Mock<FakeServer, TokioClock>;
type Response = http::Response<hyper::body::Incoming>;

async fn start(server: FakeServer) -> (Mocked, SocketAddr) {
    let mock = Mock::with_clock(server, TokioClock::new());
    let serving = serve(mock.clone(), "127.0.0.1:0").await.unwrap();
    let address = serving.local_addr();
    tokio::spawn(serving.run());
    (mock, address)
}

/// A minimal client.
struct Client(BufReader<TcpStream>);

impl Client {
    async fn new(address: SocketAddr) -> Self {
        Self(BufReader::new(TcpStream::connect(address).await.unwrap()))
    }

    async fn send(&mut self, target: &str) -> (u16, String) {
        self.write(&format!(
            "GET {target} HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n"
        ))
        .await;
        self.head().await.unwrap()
    }

    async fn write(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).await.unwrap();
    }

    async fn head(&mut self) -> std::io::Result<(u16, String)> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok((head[9..12].parse().unwrap(), head))
    }

    /// Reads one chunk. The last one is empty.
    async fn chunk(&mut self) -> std::io::Result<Vec<u8>> {
        let mut size = String::new();
        if self.0.read_line(&mut size).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let mut bytes = vec![0; usize::from_str_radix(size.trim(), 16).unwrap() + 2];
        self.0.read_exact(&mut bytes).await?;
        assert!(bytes.ends_with(b"\r\n"));
        bytes.truncate(bytes.len() - 2);
        Ok(bytes)
    }

    async fn body(&mut self) -> std::io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let chunk = self.chunk().await?;
            if chunk.is_empty() {
                return Ok(body);
            }
            body.extend(chunk);
        }
    }
}

#[tokio::test]
async fn the_demo_in_protobuf() {
    let mut server = FakeServer::new(1);
    Demo::new(1).pods(300).fill(&mut server);
    let (_, address) = start(server).await;
    let mut client = Client::new(address).await;
    let head = format!(
        "Host: x\r\nAccept: {},application/json\r\n\r\n",
        protobuf::MEDIA_TYPE
    );
    for (resource, kind) in [
        ("api/v1/pods", "PodList"),
        ("api/v1/nodes", "NodeList"),
        ("api/v1/namespaces", "NamespaceList"),
        ("apis/apps/v1/deployments", "DeploymentList"),
    ] {
        client
            .write(&format!("GET /{resource} HTTP/1.1\r\n{head}"))
            .await;
        let (status, head) = client.head().await.unwrap();
        assert_eq!(status, 200);
        assert!(
            head.contains("Content-Type: application/vnd.kubernetes.protobuf\r\n"),
            "{head}"
        );
        let list = protobuf::to_json(&client.body().await.unwrap()).unwrap();
        assert_eq!(list["kind"], kind);
        let items = list["items"].as_array().unwrap();
        assert!(!items.is_empty() && items.iter().all(|item| item["metadata"]["uid"].is_string()));
    }
    let watch = "/api/v1/pods?watch=1&resourceVersion=0&timeoutSeconds=1";
    client
        .write(&format!("GET {watch} HTTP/1.1\r\n{head}"))
        .await;
    let (_, head) = client.head().await.unwrap();
    assert!(
        head.contains("application/vnd.kubernetes.protobuf;stream=watch"),
        "{head}"
    );
    let first = client.chunk().await.unwrap();
    let length = 4 + u32::from_be_bytes(first[..4].try_into().unwrap()) as usize;
    let events = protobuf::events(&first[..length]).unwrap();
    assert_eq!(events[0]["type"], "ADDED");
}

#[tokio::test]
async fn lists_and_watches_on_one_connection_each() {
    let (mock, address) = start(FakeServer::new(1)).await;
    mock.create("pods", pod("a", "x")).unwrap();
    let mut client = Client::new(address).await;
    for _ in 0..3 {
        let (status, head) = client.send("/api/v1/pods?resourceVersion=0").await;
        assert_eq!(status, 200);
        assert!(
            head.contains("Transfer-Encoding: chunked\r\n") && !head.contains("Connection: close"),
            "{head}"
        );
        let list: serde_json::Value =
            serde_json::from_slice(&client.body().await.unwrap()).unwrap();
        assert_eq!(list["items"][0]["metadata"]["name"], "a");
    }
    let (status, head) = client.send("/api/v1/nothing").await;
    assert_eq!(status, 404);
    let length: usize = head
        .split("Content-Length: ")
        .nth(1)
        .unwrap()
        .split("\r\n")
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let mut body = vec![0; length];
    client.0.read_exact(&mut body).await.unwrap();
    assert!(body.starts_with(b"{\"kind\":\"Status\""));

    let (status, _) = client
        .send("/api/v1/pods?watch=true&resourceVersion=1")
        .await;
    assert_eq!(status, 200);
    assert_eq!(
        events(core::str::from_utf8(&client.chunk().await.unwrap()).unwrap()),
        ["ADDED a@2"]
    );
    mock.update("pods", pod("a", "y")).unwrap();
    assert_eq!(
        events(core::str::from_utf8(&client.chunk().await.unwrap()).unwrap()),
        ["MODIFIED a@3"]
    );
    mock.with(FakeServer::close_watches);
    assert!(client.chunk().await.unwrap().is_empty());
    mock.log()
        .assert_requests(&["LIST rv=0", "LIST rv=0", "LIST rv=0", "LIST", "WATCH rv=1"]);

    // Two requests at once, and one without chunks.
    client.write("GET /livez HTTP/1.1\r\n\r\nGET /readyz HTTP/1.1\r\n\r\nGET /api/v1/pods HTTP/1.0\r\n\r\n").await;
    for _ in 0..2 {
        assert_eq!(client.head().await.unwrap().0, 200);
        let mut ok = [0; 2];
        client.0.read_exact(&mut ok).await.unwrap();
        assert_eq!(&ok, b"ok");
    }
    assert!(!client.head().await.unwrap().1.contains("chunked"));
    let mut rest = String::new();
    client.0.read_to_string(&mut rest).await.unwrap();
    assert!(rest.ends_with("]}\n"));
}

/// A client of either protocol.
#[derive(Clone)]
enum Sender {
    Http1(Arc<Mutex<http1::SendRequest<String>>>),
    Http2(http2::SendRequest<String>),
}

impl Sender {
    async fn http1(address: SocketAddr) -> Self {
        let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let (sender, connection) = http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Self::Http1(Arc::new(Mutex::new(sender)))
    }

    async fn http2(address: SocketAddr) -> Self {
        let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let handshake = http2::handshake(TokioExecutor::new(), stream);
        let (sender, connection) = handshake.await.unwrap();
        tokio::spawn(connection);
        Self::Http2(sender)
    }

    async fn send(&self, method: &str, path: &str, body: String) -> hyper::Result<Response> {
        let request = http::Request::builder()
            .method(method)
            .uri(format!("http://server{path}"))
            .header("accept", "application/json")
            .header("content-type", "application/json")
            .body(body)
            .unwrap();
        match self {
            Self::Http1(sender) => sender.lock().await.send_request(request).await,
            Self::Http2(sender) => sender.clone().send_request(request).await,
        }
    }

    /// Lists the Pods. Returns what a user sees of it: the status, the length of the body, and how it ends.
    async fn list(&self) -> String {
        let mut seen = String::new();
        self.list_into(&mut seen).await;
        seen
    }

    async fn list_into(&self, seen: &mut String) {
        let mut response = match self.send("GET", "/api/v1/pods", String::new()).await {
            Ok(response) => response,
            Err(error) => return *seen = end(&error),
        };
        let mut length = 0;
        loop {
            *seen = format!("{}: {length}", response.status().as_u16());
            match response.frame().await {
                Some(Ok(frame)) => length += frame.into_data().unwrap().len(),
                Some(Err(error)) => return *seen += &format!(", {}", end(&error)),
                None => return *seen += ", end",
            }
        }
    }
}

/// Names how a response failed.
fn end(error: &hyper::Error) -> String {
    let mut cause: &dyn core::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let text = cause.to_string();
    match text.as_str() {
        _ if text.contains("os error 104") => "reset".into(),
        "stream error received: unexpected internal error encountered" => "stream reset".into(),
        "end of file before message length reached" => "too short".into(),
        "stream error detected: unspecific protocol error detected" => "false length".into(),
        _ => text,
    }
}

/// Each fault is seen over both protocols. Over HTTP/2, it leaves the connection to the other requests.
#[tokio::test]
async fn faults_on_the_wire() {
    let (mock, address) = start(FakeServer::new(1)).await;
    mock.create("pods", pod("a", "x")).unwrap();
    let shared = Sender::http2(address).await;
    let whole = shared.list().await;
    let length = whole.strip_prefix("200: ").unwrap().strip_suffix(", end");
    let length: u64 = length.unwrap().parse().unwrap();
    let appended = format!("200: {}, end", length + 3);
    let short = format!("200: {length}, too short");
    let broken = format!("200: {length}, false length");
    let nothing = Fault::nothing;
    for (fault, over_http1, over_http2) in [
        (nothing(), &*whole, &*whole),
        (Fault::refuse(), "reset", "stream reset"),
        (Fault::reset(), "reset", "stream reset"),
        (
            nothing().cut_after_bytes(0),
            "200: 0, reset",
            "200: 0, stream reset",
        ),
        (
            nothing().cut_after_bytes(20),
            "200: 20, reset",
            "200: 20, stream reset",
        ),
        (
            nothing().split(&[15]).cut_after_bytes(30),
            "200: 30, reset",
            "200: 30, stream reset",
        ),
        (
            nothing().cut_after_bytes(20).cleanly(),
            "200: 20, end",
            "200: 20, end",
        ),
        (nothing().split(&[1]), &whole, &whole),
        (nothing().append("xyz"), &appended, &appended),
        (nothing().content_length(length), &whole, &whole),
        (nothing().content_length(100_000), &short, &broken),
        (
            nothing().content_length(20),
            "200: 20, end",
            "200: 0, false length",
        ),
        (
            nothing().content_length(0),
            "200: 0, end",
            "200: 0, false length",
        ),
        (nothing().header("not a header", "\n"), &whole, &whole),
    ] {
        let described = format!("{fault:?}");
        for (protocol, client, expected) in [
            ("HTTP/1.1", Sender::http1(address).await, over_http1),
            ("HTTP/2", shared.clone(), over_http2),
        ] {
            mock.with(|server| server.inject(fault.clone()));
            assert_eq!(client.list().await, expected, "{protocol}: {described}");
        }
    }
    assert_eq!(shared.list().await, whole);
}

/// A response stops without an end, before its head and in its body.
#[tokio::test]
async fn a_stalled_response_says_nothing() {
    let (mock, address) = start(FakeServer::new(1)).await;
    for (fault, sent) in [
        (Fault::stall(), ""),
        (Fault::nothing().cut_after_bytes(20).silently(), "200: 20"),
    ] {
        for stalled in [Sender::http1(address).await, Sender::http2(address).await] {
            mock.with(|server| server.inject(fault.clone()));
            let requests = mock.log().mark();
            let mut seen = String::new();
            let mut list = Box::pin(stalled.list_into(&mut seen));
            while mock.log().mark() == requests {
                assert!(is_pending(&mut list).await, "{fault:?}");
                tokio::task::yield_now().await;
            }
            // The server answers others in the meantime.
            let other = Sender::http1(address).await;
            for _ in 0..10 {
                assert!(other.list().await.starts_with("200: "));
                assert!(is_pending(&mut list).await, "{fault:?}");
            }
            drop(list);
            assert_eq!(seen, sent, "{fault:?}");
        }
    }
}

/// Polls a future once.
async fn is_pending(future: &mut (impl Future<Output = ()> + Unpin)) -> bool {
    core::future::poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context).is_pending()))
        .await
}

#[tokio::test]
async fn a_false_length_ends_the_connection_of_http1() {
    let (mock, address) = start(FakeServer::new(1)).await;
    mock.create("pods", pod("a", "x")).unwrap();
    mock.with(|server| server.inject(Fault::nothing().content_length(20).split(&[30])));
    let mut client = Client::new(address).await;
    let (_, head) = client.send("/api/v1/pods").await;
    assert!(head.contains("Content-Length: 20\r\n") && !head.contains("chunked"));
    let mut body = String::new();
    client.0.read_to_string(&mut body).await.unwrap();
    assert!(body.starts_with('{') && body.ends_with("]}\n"), "{body}");
}

#[tokio::test]
async fn a_fault_has_its_status_and_headers() {
    let (mock, address) = start(FakeServer::new(1)).await;
    mock.with(|server| server.inject(Fault::overloaded(Some(3))));
    let (status, head) = Client::new(address).await.send("/api/v1/pods").await;
    assert_eq!(status, 429);
    assert!(head.contains("Retry-After: 3\r\n"));
}

#[tokio::test]
async fn invalid_requests_are_refused() {
    let (_, address) = start(FakeServer::new(1)).await;
    for (text, status) in [
        ("\0\0\r\n\r\n".to_string(), 400),
        ("POST /api/v1/pods HTTP/1.1\r\n\r\n".into(), 405),
        ("HEAD /api/v1/pods HTTP/1.1\r\n\r\n".into(), 405),
        (
            format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(70_000)),
            431,
        ),
    ] {
        let mut client = Client::new(address).await;
        client.write(&text).await;
        assert_eq!(client.head().await.unwrap().0, status);
    }
    for client in [Sender::http1(address).await, Sender::http2(address).await] {
        let path = "/api/v1/namespaces/x/configmaps";
        let response = client.send("POST", path, "x".repeat(3 << 20)).await;
        assert_eq!(response.unwrap().status(), 400);
        let response = client.send("POST", path, "x".repeat((3 << 20) + 1)).await;
        assert_eq!(response.unwrap().status(), 413);
    }
}

#[tokio::test]
async fn the_response_of_a_closed_connection_is_forgotten() {
    let (mock, address) = start(FakeServer::new(1)).await;
    let mut client = Client::new(address).await;
    client
        .send("/api/v1/pods?watch=true&resourceVersion=1")
        .await;
    assert_eq!(mock.with(FakeServer::open_responses), (1, 1));
    drop(client);
    while mock.with(FakeServer::open_responses).0 > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_watches() {
    let (mock, address) = start(FakeServer::new(1)).await;
    let mut clients = Vec::new();
    for _ in 0..300 {
        let mut client = Client::new(address).await;
        client
            .send("/api/v1/pods?watch=true&resourceVersion=1")
            .await;
        clients.push(client);
    }
    mock.create("pods", pod("a", "x")).unwrap();
    for client in &mut clients {
        assert_eq!(
            events(core::str::from_utf8(&client.chunk().await.unwrap()).unwrap()),
            ["ADDED a@2"]
        );
    }
    mock.with(FakeServer::cut_watches);
    for client in &mut clients {
        assert_eq!(
            client.chunk().await.unwrap_err().kind(),
            std::io::ErrorKind::ConnectionReset
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_waits_for_its_reader() {
    let mut server = FakeServer::new(1);
    Demo::new(1).pods(20_000).fill(&mut server);
    let (mock, address) = start(server).await;
    let mut client = Client::new(address).await;
    client.send("/api/v1/pods").await;
    // About 30 MB do not fit into the socket's buffers, so the response stays open until it is read.
    assert_eq!(mock.with(FakeServer::open_responses).0, 1);
    let mut bytes = 0;
    loop {
        let chunk = client.chunk().await.unwrap();
        if chunk.is_empty() {
            break;
        }
        assert!(chunk.len() < 70_000);
        bytes += chunk.len();
    }
    assert!(bytes > 20_000_000, "{bytes}");
}

#[tokio::test(start_paused = true)]
async fn paused_time_of_tokio() {
    use informer_mock::{Body, Get, Transport};
    let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
    let mut transport = mock.transport();
    let watching = tokio::spawn(async move {
        let target =
            "/api/v1/pods?watch=true&resourceVersion=1&timeoutSeconds=100&allowWatchBookmarks=1";
        let (_, mut body) = transport.send(Get::new(target)).await.unwrap();
        let mut text = String::new();
        while let Some(bytes) = body.chunk().await.unwrap() {
            text += core::str::from_utf8(bytes).unwrap();
        }
        text
    });
    let start = tokio::time::Instant::now();
    tokio::time::sleep(core::time::Duration::from_secs(90)).await;
    mock.create("pods", pod("a", "x")).unwrap();
    assert_eq!(
        events(&watching.await.unwrap()),
        ["BOOKMARK 1", "ADDED a@2", "BOOKMARK 2"]
    );
    assert_eq!(start.elapsed().as_secs(), 100);
}

async fn ask_for_gzip(client: &mut Client, target: &str) -> String {
    client
        .write(&format!(
            "GET {target} HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\nAccept-Encoding: br, gzip\r\n\r\n"
        ))
        .await;
    client.head().await.unwrap().1
}

fn unzip(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut decoder = flate2::bufread::MultiGzDecoder::new(bytes);
    std::io::Read::read_to_string(&mut decoder, &mut text).unwrap();
    text
}

#[tokio::test]
async fn a_large_list_is_compressed_for_who_wants_it() {
    let (mock, address) = start(FakeServer::new(1)).await;
    mock.create("pods", pod("small", "x")).unwrap();
    let mut client = Client::new(address).await;
    let target = "/api/v1/pods?resourceVersion=0";
    let head = ask_for_gzip(&mut client, target).await;
    assert!(!head.contains("Content-Encoding"), "{head}");
    assert!(
        client
            .body()
            .await
            .unwrap()
            .starts_with(b"{\"kind\":\"PodList\"")
    );

    for index in 0..1000 {
        mock.create("pods", pod(&format!("p{index}"), "x")).unwrap();
    }
    client.send(target).await;
    let plain = client.body().await.unwrap();
    assert!(plain.len() > 128 * 1024);
    let head = ask_for_gzip(&mut client, target).await;
    assert!(head.contains("Content-Encoding: gzip\r\n"), "{head}");
    let body = client.body().await.unwrap();
    assert!(body.len() * 5 < plain.len(), "{}", body.len());
    assert_eq!(unzip(&body).as_bytes(), plain);

    mock.with(|server| server.config_mut().gzip_lists = false);
    let head = ask_for_gzip(&mut client, target).await;
    assert!(!head.contains("Content-Encoding"), "{head}");
}

#[tokio::test]
async fn a_streaming_list_has_a_member_of_gzip_for_each_flush() {
    let (mock, address) = start(FakeServer::with_config(
        1,
        informer_mock::Config::for_minor(37),
    ))
    .await;
    mock.create("pods", pod("a", "x")).unwrap();
    let mut client = Client::new(address).await;
    let stream = "/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    for (app, target) in [
        ("y", stream),
        (
            "z",
            "/api/v1/pods?watch=1&resourceVersion=0&allowWatchBookmarks=1",
        ),
    ] {
        let head = ask_for_gzip(&mut client, target).await;
        assert!(
            head.contains("Content-Encoding: gzip\r\n"),
            "{target}: {head}"
        );
        let initial = unzip(&client.chunk().await.unwrap());
        assert!(
            initial.contains("initial-events-end"),
            "{target}: {initial}"
        );
        mock.update("pods", pod("a", app)).unwrap();
        let update = unzip(&client.chunk().await.unwrap());
        assert!(
            update.starts_with("{\"type\":\"MODIFIED\""),
            "{target}: {update}"
        );
        client = Client::new(address).await;
    }
    // A plain watch is never compressed.
    let head = ask_for_gzip(&mut client, "/api/v1/pods?watch=1&resourceVersion=1").await;
    assert!(!head.contains("Content-Encoding"), "{head}");
}

/// The port also accepts writes, one after another on a connection, and watches receive them.
#[tokio::test]
async fn writes_are_answered() {
    let (mock, address) = start(FakeServer::new(1)).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let target = "/api/v1/namespaces/prod/configmaps";
    let body = r#"{"metadata":{"name":"web"}}"#;
    for (method, target, body, status) in [
        ("POST", target.to_owned(), body, "201 Created"),
        ("POST", target.to_owned(), body, "409 Conflict"),
        ("DELETE", format!("{target}/web"), "", "200 OK"),
        ("PUT", target.to_owned(), "{}", "405 Method Not Allowed"),
    ] {
        let head =
            format!("{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n");
        let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        // In two pieces, with the body split.
        let (first, rest) = request.split_at(request.len() - body.len() / 2);
        stream.write_all(first.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        tokio::task::yield_now().await;
        stream.write_all(rest.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !String::from_utf8_lossy(&answer).trim_end().ends_with("}") {
            assert_ne!(
                stream.read_buf(&mut answer).await.unwrap(),
                0,
                "it has closed"
            );
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}\r\n")),
            "{answer}"
        );
    }
    assert_eq!(mock.with(|server| server.objects("configmaps").count()), 0);
    assert_eq!(mock.with(|server| server.version()), 3);
}
