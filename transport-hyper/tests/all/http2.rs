//! Many requests on few HTTP/2 connections, over real sockets.
#![allow(clippy::std_instead_of_alloc, reason = "a test may")]

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Arc;

use crate::support::{Server, failed_as, read};
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use informer_core::{
    Body, Transport,
    transport::{FailureKind, Get, TransportError},
};
use informer_hyper::{HyperBody, HyperTransport};
use tokio::sync::{mpsc, oneshot};

/// A received request, with the number of its connection.
struct Asked {
    connection: usize,
    path: String,
    respond: SendResponse<Bytes>,
}

impl Asked {
    fn answer(mut self) -> SendStream<Bytes> {
        let head = http::Response::new(());
        self.respond.send_response(head, false).unwrap()
    }

    fn refuse(mut self) {
        self.respond.send_reset(Reason::REFUSED_STREAM);
    }

    fn answer_with(self, body: &'static str) {
        self.answer().send_data(body.into(), true).unwrap();
    }
}

/// Serves HTTP/2 in plain text and passes on the requests. Each connection closes when its sender requests it.
struct Http2Server {
    port: u16,
    asked: mpsc::UnboundedReceiver<Asked>,
    connections: mpsc::UnboundedReceiver<oneshot::Sender<Bye>>,
}

enum Bye {
    /// With a GOAWAY.
    Drain,
    /// Without notice.
    Cut,
}

impl Http2Server {
    async fn start(streams: u32) -> Self {
        let server = Server::start().await;
        let port = server.port;
        let ((asked_by, asked), (opened, connections)) =
            (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        tokio::spawn(async move {
            for number in 0.. {
                let tcp = server.accept_tcp().await;
                let (bye, mut reported) = oneshot::channel();
                let (asked, opened) = (asked_by.clone(), opened.clone());
                tokio::spawn(async move {
                    let mut builder = h2::server::Builder::new();
                    builder.max_concurrent_streams(streams);
                    let mut http2 = builder.handshake(tcp).await.unwrap();
                    let _ = opened.send(bye);
                    let mut open = true;
                    loop {
                        tokio::select! {
                            word = &mut reported, if open => match word {
                                Ok(Bye::Cut) => return,
                                Ok(Bye::Drain) => { http2.graceful_shutdown(); open = false; }
                                Err(_) => open = false,
                            },
                            accepted = http2.accept() => {
                                let Some(Ok((request, respond))) = accepted else { return };
                                let path = request.uri().path().to_owned();
                                let _ = asked.send(Asked { connection: number, path, respond });
                            }
                        }
                    }
                });
            }
        });
        Self {
            port,
            asked,
            connections,
        }
    }

    fn transport(&self) -> HyperTransport {
        HyperTransport::builder(format!("http://127.0.0.1:{}", self.port))
            .http1(false)
            .build()
            .unwrap()
    }

    async fn asked(&mut self) -> Asked {
        self.asked.recv().await.unwrap()
    }

    /// Opens a watch with a clone, as each informer does.
    async fn watch(&mut self, transport: &HyperTransport) -> Watch {
        let mut clone = transport.clone();
        let (answer, (stream, connection)) = tokio::join!(clone.send(Get::new("/watch")), async {
            let asked = self.asked().await;
            let connection = asked.connection;
            (asked.answer(), connection)
        });
        Watch {
            body: answer.unwrap().1,
            stream,
            connection,
        }
    }

    async fn watches(&mut self, transport: &HyperTransport, count: usize) -> Vec<Watch> {
        let mut watches = Vec::new();
        for _ in 0..count {
            watches.push(self.watch(transport).await);
        }
        watches
    }

    /// Closes the oldest connection that is still open.
    async fn part(&mut self, how: Bye) {
        let bye = self.connections.recv().await.unwrap();
        bye.send(how).map_err(|_| ()).unwrap();
    }

    /// Gets a complete response, and returns the number of its connection.
    async fn get(&mut self, transport: &mut HyperTransport) -> usize {
        let (answer, connection) = tokio::join!(
            async { read(transport.send(Get::new("/get")).await).await },
            async {
                let asked = self.asked().await;
                let connection = asked.connection;
                asked.answer_with("whole");
                connection
            }
        );
        assert_eq!(answer.unwrap(), "whole");
        connection
    }
}

struct Watch {
    body: HyperBody,
    stream: SendStream<Bytes>,
    connection: usize,
}

impl Watch {
    async fn is_alive(&mut self) -> bool {
        self.stream.send_data("event".into(), false).is_ok()
            && matches!(self.body.chunk().await, Ok(Some(b"event")))
    }
}

#[tokio::test]
async fn lists_and_watches_of_all_clones_share_a_connection() {
    let mut server = Http2Server::start(100).await;
    let mut transport = server.transport();
    let mut watches = Vec::new();
    for _ in 0..20 {
        assert_eq!(server.get(&mut transport).await, 0);
        watches.push(server.watch(&transport).await);
    }
    for watch in &mut watches {
        assert_eq!(watch.connection, 0);
        assert!(watch.is_alive().await);
    }
}

#[tokio::test]
async fn pings_that_never_come_are_no_mistake() {
    let mut server = Http2Server::start(100).await;
    let mut transport = HyperTransport::builder(format!("http://127.0.0.1:{}", server.port))
        .http1(false)
        .pings(Some((Duration::MAX, Duration::MAX)))
        .build()
        .unwrap();
    assert_eq!(server.get(&mut transport).await, 0);
    assert!(server.watch(&transport).await.is_alive().await);
}

#[tokio::test]
async fn another_connection_is_opened_where_the_server_allows_no_more_streams() {
    let mut server = Http2Server::start(5).await;
    let transport = server.transport();
    let mut watches = server.watches(&transport, 12).await;
    let used: Vec<_> = watches.iter().map(|watch| watch.connection).collect();
    assert_eq!(used, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2]);
    // A watch that ends makes room on its connection.
    watches.remove(0);
    let again = server.watch(&transport).await;
    assert_eq!(again.connection, 0);
    for watch in &mut watches {
        assert!(watch.is_alive().await);
    }
}

#[tokio::test]
async fn a_write_does_not_wait_for_watches() {
    let mut server = Http2Server::start(2).await;
    let transport = server.transport();
    let mut watches = server.watches(&transport, 2).await;
    let delete = http::Request::delete("/x").body(Bytes::new()).unwrap();
    let (answer, ()) = tokio::join!(transport.request(delete), async {
        let asked = server.asked().await;
        assert_eq!((asked.connection, &*asked.path), (1, "/x"));
        asked.answer_with("gone");
    });
    assert_eq!(answer.unwrap().body(), "gone");
    for watch in &mut watches {
        assert!(watch.is_alive().await);
    }
}

#[tokio::test]
async fn two_hundred_at_once_open_no_more_connections_than_needed() {
    let mut server = Http2Server::start(100).await;
    let transport = server.transport();
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            let mut clone = transport.clone();
            tokio::spawn(async move { clone.send(Get::new("/watch")).await })
        })
        .collect();
    let mut streams = Vec::new();
    for _ in 0..200 {
        let asked = server.asked().await;
        assert!(asked.connection < 2);
        streams.push(asked.answer());
    }
    let mut bodies = Vec::new();
    for task in tasks {
        bodies.push(task.await.unwrap().unwrap().1);
    }
    for stream in &mut streams {
        stream.send_data("event".into(), false).unwrap();
    }
    for body in &mut bodies {
        assert_eq!(body.chunk().await.unwrap(), Some(&b"event"[..]));
    }
}

#[tokio::test]
async fn a_connection_that_goes_away_is_drained() {
    let mut server = Http2Server::start(100).await;
    let mut transport = server.transport();
    let mut watches = server.watches(&transport, 3).await;
    server.part(Bye::Drain).await;
    // The GOAWAY is sent before the next event.
    assert!(watches[0].is_alive().await);
    assert_eq!(server.get(&mut transport).await, 1);
    for watch in &mut watches {
        assert_eq!(watch.connection, 0);
        assert!(watch.is_alive().await);
    }
    assert_eq!(server.watch(&transport).await.connection, 1);
}

#[tokio::test]
async fn a_connection_that_is_cut_is_reported_to_all_and_replaced() {
    let mut server = Http2Server::start(100).await;
    let mut transport = server.transport();
    let mut watches = server.watches(&transport, 3).await;
    server.part(Bye::Cut).await;
    for watch in &mut watches {
        let error = watch.body.chunk().await.unwrap_err();
        assert_eq!(error.kind(), FailureKind::Reset, "{error}");
    }
    assert_eq!(server.get(&mut transport).await, 1);
    // It is cut while a request waits for its response, which a new connection may get at once.
    let sending = transport.send(Get::new("/x"));
    let sending = tokio::time::timeout(Duration::from_secs(5), sending);
    let (answer, _asked) = tokio::join!(sending, async {
        let asked = server.asked().await;
        server.part(Bye::Cut).await;
        asked
    });
    let error = answer.expect("it is not sent again").map(drop).unwrap_err();
    failed_as(&error, FailureKind::Reset, true);
}

#[tokio::test]
async fn a_refused_request_is_sent_again() {
    let mut server = Http2Server::start(100).await;
    let mut transport = server.transport();
    let (answer, ()) = tokio::join!(transport.send(Get::new("/x")), async {
        for _ in 0..2 {
            server.asked().await.refuse();
        }
        let asked = server.asked().await;
        assert_eq!(asked.path, "/x");
        asked.answer_with("at last");
    });
    assert_eq!(read(answer).await.unwrap(), "at last");
}

#[tokio::test]
async fn a_server_that_refuses_all_is_not_asked_for_ever() {
    let mut server = Http2Server::start(100).await;
    let mut transport = server.transport();
    tokio::spawn(async move {
        loop {
            server.asked().await.refuse();
        }
    });
    let error = transport.send(Get::new("/x")).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Reset, "{error}");
    assert!(error.to_string().contains("no response from"), "{error}");
}

type Served = h2::server::Connection<tokio::net::TcpStream, Bytes>;

/// Accepts up to 20 HTTP/2 connections with an idle time of zero, passes each to `handle`, and counts them.
async fn counting<F: Future<Output = ()> + Send + 'static>(
    handle: fn(Served) -> F,
) -> (HyperTransport, Arc<AtomicUsize>) {
    let server = Server::start().await;
    let builder = server.builder().http1(false).idle_timeout(Duration::ZERO);
    let opened = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&opened);
    tokio::spawn(async move {
        for _ in 0..20 {
            let http2 = h2::server::handshake(server.accept_tcp().await).await;
            count.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(handle(http2.unwrap()));
        }
    });
    (builder.build().unwrap(), opened)
}

#[tokio::test]
async fn a_server_that_goes_away_on_each_connection_gets_five() {
    let (mut transport, opened) = counting(|mut http2: Served| async move {
        http2.abrupt_shutdown(Reason::NO_ERROR);
        let _ = http2.accept().await;
    })
    .await;
    let error = transport.send(Get::new("/x")).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Reset, "{error}");
    assert_eq!(opened.load(Ordering::SeqCst), 5, "{error}");
}

#[tokio::test]
async fn without_idle_time_each_request_opens_one_connection() {
    let (mut transport, opened) = counting(|mut http2: Served| async move {
        while let Some(Ok((_, mut respond))) = http2.accept().await {
            let _ = respond.send_response(http::Response::new(()), true);
        }
    })
    .await;
    for request in 1..4 {
        assert_eq!(
            read(transport.send(Get::new("/x")).await).await.unwrap(),
            ""
        );
        assert_eq!(opened.load(Ordering::SeqCst), request);
    }
}

#[tokio::test]
async fn a_connection_opens_although_its_first_request_stalls_or_is_dropped() {
    let mut server = Http2Server::start(100).await;
    let transport = server.transport();
    // It begins to connect and is not polled again.
    let mut first = transport.clone();
    let mut stuck = Box::pin(first.send(Get::new("/stuck")));
    let cx = &mut core::task::Context::from_waker(core::task::Waker::noop());
    assert!(stuck.as_mut().poll(cx).is_pending());
    let mut second = transport.clone();
    assert_eq!(server.get(&mut second).await, 0);
    drop(stuck);
    // It begins and is dropped.
    drop(Box::pin(transport.clone().send(Get::new("/given up"))));
    assert_eq!(server.get(&mut second).await, 0);
}

#[tokio::test]
async fn the_futures_can_move_between_threads() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let mut server = Http2Server::start(100).await;
    let transport = server.transport();
    let mut clone = is_send(transport.clone());
    let sending = is_send(clone.send(Get::new("/x")));
    let (answer, ()) = tokio::join!(sending, async { server.asked().await.answer_with("x") });
    assert_eq!(read(is_send(answer)).await.unwrap(), "x");
}

/// The limit of heads is that of HTTP/1.1. Beyond it, the other streams of the connection continue.
#[tokio::test]
async fn a_large_head_is_read_up_to_the_limit() {
    let mut server = Http2Server::start(100).await;
    let mut transport = server.transport();
    let mut ask = async |length: usize| {
        let (answer, ()) = tokio::join!(transport.send(Get::new("/x")), async {
            let mut asked = server.asked.recv().await.unwrap();
            let head = http::Response::builder().header("x-large", "a".repeat(length));
            let sent = asked.respond.send_response(head.body(()).unwrap(), false);
            sent.unwrap().send_data("[]".into(), true).unwrap();
        });
        read(answer).await
    };
    for length in [60_000, 260_000] {
        assert_eq!(ask(length).await.unwrap(), "[]", "{length}");
    }
    let error = ask(300_000).await.unwrap_err();
    let shown = error.to_string();
    let why = ": the head of the response is larger than 256 KiB, or is not valid";
    assert!(shown.ends_with(why), "{shown}");
    assert_eq!(error.kind(), FailureKind::Other);
    assert_eq!(ask(10).await.unwrap(), "[]");
}
