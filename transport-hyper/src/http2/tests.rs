//! HTTP/2 in memory and on paused time, against the server of h2.

use super::*;

use std::task::Wake;

use h2::server::SendResponse;
use informer_core::{
    Body,
    transport::{FailureKind, TransportError},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::body::{BodySource, HyperBody, Origin};

fn address() -> Arc<Address> {
    Arc::new(Address::parse("http://server:80").unwrap())
}

fn settings(pings: Option<(u64, u64)>) -> Http2Settings {
    Http2Settings {
        pings: pings.map(|(after, within)| Pings {
            after: Duration::from_secs(after),
            within: Duration::from_secs(within),
        }),
        window: 65_535,
    }
}

type Server = h2::server::Connection<DuplexStream, Bytes>;

/// A connection, and the server's end of it, which nothing drives yet.
async fn pair(pings: Option<(u64, u64)>, streams: u32) -> (Arc<Http2>, Server) {
    let (ours, theirs) = duplex(1 << 20);
    let ours = Stream::plain(ours);
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(streams);
    let (address, settings) = (address(), settings(pings));
    let opening = Http2::open(&address, ours, settings, Version::default());
    let (connection, server) = tokio::join!(opening, async {
        let mut server = builder.handshake(theirs).await.unwrap();
        // The settings are sent when it is polled.
        flush(&mut server).await;
        server
    });
    (connection.map_err(|e| e.to_string()).unwrap(), server)
}

/// A connection to a server whose frames a test writes by hand.
async fn by_hand(pings: Option<(u64, u64)>) -> (Arc<Http2>, DuplexStream) {
    let (ours, mut theirs) = duplex(1 << 20);
    theirs.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    let (address, settings) = (address(), settings(pings));
    let opening = Http2::open(&address, Stream::plain(ours), settings, Version::default());
    (opening.await.map_err(|e| e.to_string()).unwrap(), theirs)
}

/// Paused time advances when no task can do more, so after this time a request has been sent.
const SENT: Duration = Duration::from_millis(1);

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let stream = stream.to_be_bytes();
    [&length[..], &[kind, flags], &stream, payload].concat()
}

/// Lets the server send its data when nothing drives it.
async fn flush(server: &mut Server) {
    poll_fn(|cx| {
        let _ = server.poll_closed(cx);
        Poll::Ready(())
    })
    .await;
}

/// Serves a connection. It passes on each request's stream after sending the headers of the response.
fn serve(mut server: Server) -> mpsc::UnboundedReceiver<SendStream<Bytes>> {
    let (streams, asked) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok((_, mut respond))) = server.accept().await {
            let _ = streams.send(answer(&mut respond));
        }
    });
    asked
}

fn answer(respond: &mut SendResponse<Bytes>) -> SendStream<Bytes> {
    respond
        .send_response(http::Response::new(()), false)
        .unwrap()
}

fn get() -> Request<Bytes> {
    Request::get("http://server/x").body(Bytes::new()).unwrap()
}

type Asked = Result<(StatusCode, HeaderMap, Http2Body), NoResponse>;

fn body(asked: Asked) -> Http2Body {
    let asked = asked.map_err(|failure| failure.error.to_string());
    asked.unwrap().2
}

async fn ask(connection: &Arc<Http2>) -> Http2Body {
    let place = connection.reserve().unwrap();
    body(place.request(get()).await)
}

/// Opens a stream of a served connection and returns both its ends.
async fn open(
    connection: &Arc<Http2>,
    asked: &mut mpsc::UnboundedReceiver<SendStream<Bytes>>,
) -> (Http2Body, SendStream<Bytes>) {
    let body = ask(connection).await;
    (body, asked.recv().await.unwrap())
}

/// Sends a request to a server that nothing drives: it accepts the request, responds, and is not polled again.
async fn ask_by_hand<T>(
    connection: &Arc<Http2>,
    server: &mut Server,
    respond: impl FnOnce(&mut SendResponse<Bytes>) -> T,
) -> (Asked, T) {
    let place = connection.reserve().unwrap();
    tokio::join!(place.request(get()), async {
        let (_, mut responder) = server.accept().await.unwrap().unwrap();
        let responded = respond(&mut responder);
        flush(server).await;
        responded
    })
}

async fn data(body: &mut Http2Body) -> Option<Result<Bytes, HyperError>> {
    poll_fn(|cx| body.poll_data(cx)).await
}

async fn text(body: &mut Http2Body) -> String {
    String::from_utf8(data(body).await.unwrap().unwrap().to_vec()).unwrap()
}

fn send(stream: &mut SendStream<Bytes>, text: impl Into<String>) {
    stream.send_data(text.into().into(), false).unwrap();
}

#[tokio::test(start_paused = true)]
async fn two_hundred_streams_on_one_connection_of_which_some_are_not_polled() {
    let (connection, server) = pair(None, 250).await;
    let mut asked = serve(server);
    let mut bodies = Vec::new();
    let mut streams = Vec::new();
    for _ in 0..200 {
        let (body, stream) = open(&connection, &mut asked).await;
        bodies.push(body);
        streams.push(stream);
    }
    // Every fifth was polled once, and is then not polled for a long time.
    let mut left = Vec::new();
    let mut tasks = Vec::new();
    for (number, mut body) in bodies.into_iter().enumerate() {
        if number % 5 == 0 {
            let cx = &mut Context::from_waker(Waker::noop());
            assert!(body.poll_data(cx).is_pending());
            left.push((number, body));
        } else {
            tasks.push(tokio::spawn(async move {
                let mut seen = String::new();
                while seen.matches(';').count() < 100 {
                    seen += &text(&mut body).await;
                }
                (number, seen)
            }));
        }
    }
    for event in 0..100 {
        for (number, stream) in streams.iter_mut().enumerate() {
            send(stream, format!("{number}.{event};"));
        }
        tokio::task::yield_now().await;
    }
    let expected = |number| -> String { (0..100).map(|e| format!("{number}.{e};")).collect() };
    for task in tasks {
        let (number, seen) = task.await.unwrap();
        assert_eq!(seen, expected(number));
    }
    for (number, mut body) in left {
        let mut seen = String::new();
        while seen.len() < expected(number).len() {
            seen += &text(&mut body).await;
        }
        assert_eq!(seen, expected(number));
    }
}

#[tokio::test(start_paused = true)]
async fn an_unread_body_holds_back_its_own_stream_alone() {
    let (connection, server) = pair(None, 10).await;
    let mut asked = serve(server);
    let mut idle = Vec::new();
    for _ in 0..5 {
        let (body, mut stream) = open(&connection, &mut asked).await;
        idle.push(body);
        // Five times the window of a stream, which is more than the default window of a connection.
        stream
            .send_data(Bytes::from(vec![b'x'; 100_000]), true)
            .unwrap();
    }
    let (mut body, mut stream) = open(&connection, &mut asked).await;
    for round in 0..50 {
        stream
            .send_data(Bytes::from(vec![b'y'; 60_000]), false)
            .unwrap();
        let mut read = 0;
        while read < 60_000 {
            read += data(&mut body).await.unwrap().unwrap().len();
        }
        assert_eq!(read, 60_000, "in round {round}");
    }
    for mut body in idle {
        let mut read = 0;
        while let Some(piece) = data(&mut body).await {
            read += piece.unwrap().len();
        }
        assert_eq!(read, 100_000);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_dropped_ends_its_stream_and_no_other() {
    let (connection, server) = pair(None, 2).await;
    let mut asked = serve(server);
    let (mut kept, mut stream) = open(&connection, &mut asked).await;
    let (dropped, mut other) = open(&connection, &mut asked).await;
    assert!(connection.reserve().is_none());

    drop(dropped);
    let reason = poll_fn(|cx| other.poll_reset(cx)).await.unwrap();
    assert_eq!(reason, Reason::CANCEL);
    send(&mut stream, "still here");
    assert_eq!(text(&mut kept).await, "still here");
    let _third = ask(&connection).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_given_up_ends_its_stream() {
    let (connection, mut server) = pair(None, 1).await;
    let place = connection.reserve().unwrap();
    let mut asking = Box::pin(place.request(get()));
    let mut respond = tokio::select! {
        _ = &mut asking => unreachable!("nobody answers"),
        accepted = server.accept() => accepted.unwrap().unwrap().1,
    };
    drop(asking);
    let reason = poll_fn(|cx| {
        let _ = server.poll_closed(cx);
        respond.poll_reset(cx)
    });
    assert_eq!(reason.await.unwrap(), Reason::CANCEL);
    assert!(connection.reserve().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_goes_away_takes_no_more_and_ends_what_it_has() {
    let (connection, mut server) = pair(None, 10).await;
    let (asked, mut stream) = ask_by_hand(&connection, &mut server, answer).await;
    let mut body = body(asked);
    assert!(connection.is_open());
    server.graceful_shutdown();
    tokio::spawn(async move { while server.accept().await.is_some() {} });
    sleep(Duration::from_secs(1)).await;
    assert!(!connection.is_open());
    for event in 0..3 {
        send(&mut stream, format!("event {event}"));
        assert_eq!(text(&mut body).await, format!("event {event}"));
    }
    stream.send_data(Bytes::new(), true).unwrap();
    while let Some(last) = data(&mut body).await {
        assert_eq!(last.unwrap(), Bytes::new());
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_pings_is_alive() {
    let (connection, server) = pair(Some((12, 10)), 10).await;
    let mut asked = serve(server);
    let (mut body, mut stream) = open(&connection, &mut asked).await;
    tokio::join!(
        async {
            sleep(Duration::from_secs(3_600)).await;
            send(&mut stream, "after an hour");
        },
        async { assert_eq!(text(&mut body).await, "after an hour") }
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_gone_in_silence_is_noticed() {
    let (connection, mut server) = pair(Some((12, 10)), 10).await;
    let (asked, _stream) = ask_by_hand(&connection, &mut server, answer).await;
    let mut body = body(asked);
    // From here on nothing drives the server, and nothing is closed.
    let began = Instant::now();
    let error = data(&mut body).await.unwrap().unwrap_err();
    assert_eq!(began.elapsed().as_secs(), 22);
    assert_eq!(error.kind(), FailureKind::TimedOut);
    assert_eq!(
        error.to_string(),
        "the connection to server:80 is dead: no data for 22 s and no response to a ping"
    );
    assert!(!connection.is_open());
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_whose_server_has_gone_takes_no_request() {
    let (connection, _server) = pair(Some((12, 10)), 10).await;
    sleep(Duration::from_secs(21)).await;
    assert!(connection.is_open());
    sleep(Duration::from_secs(2)).await;
    assert!(!connection.is_open());
}

/// Any data after a ping proves that the server is alive, even without a pong.
#[tokio::test(start_paused = true)]
async fn a_server_that_sends_and_answers_no_ping_is_alive() {
    let (connection, mut server) = by_hand(Some((12, 10))).await;
    let place = connection.reserve().unwrap();
    let (asked, ()) = tokio::join!(place.request(get()), async {
        sleep(SENT).await;
        // END_HEADERS, and `:status: 200` of the static table.
        server
            .write_all(&frame(HEADERS, 4, 1, &[0x88]))
            .await
            .unwrap();
    });
    let mut body = body(asked);
    for gap in [13, 9, 9, 9, 9] {
        tokio::join!(
            async {
                sleep(Duration::from_secs(gap)).await;
                server
                    .write_all(&frame(DATA, 0, 1, b"event"))
                    .await
                    .unwrap();
            },
            async { assert_eq!(text(&mut body).await, "event") }
        );
    }
    let began = Instant::now();
    let error = data(&mut body).await.unwrap().unwrap_err();
    assert_eq!(began.elapsed().as_secs(), 10, "{error}");
}

#[tokio::test(start_paused = true)]
async fn silence_is_counted_from_what_came_last() {
    let (connection, server) = pair(None, 10).await;
    let mut asked = serve(server);
    let (body, mut stream) = open(&connection, &mut asked).await;
    let (from, limit) = (Origin::Server(address()), Duration::from_secs(90));
    let source = BodySource::Http2(body);
    let mut body = HyperBody::new(from, &HeaderMap::new(), source, Some(limit));
    for _ in 0..3 {
        tokio::join!(
            async {
                sleep(Duration::from_secs(60)).await;
                send(&mut stream, "event");
            },
            async { assert_eq!(body.chunk().await.unwrap(), Some(&b"event"[..])) }
        );
    }
    let began = Instant::now();
    let error = body.chunk().await.unwrap_err();
    assert_eq!(
        (error.kind(), began.elapsed()),
        (FailureKind::TimedOut, limit)
    );
}

/// A GOAWAY names the last request that the server processes.
#[tokio::test(start_paused = true)]
async fn a_request_after_the_last_that_a_server_takes_is_untouched() {
    for (last, is_untouched) in [(0, true), (1, false)] {
        let (connection, mut server) = by_hand(None).await;
        let place = connection.reserve().unwrap();
        let (asked, ()) = tokio::join!(place.request(get()), async {
            sleep(SENT).await;
            let bye = frame(GOAWAY, 0, 0, &[0, 0, 0, last, 0, 0, 0, 0]);
            server.write_all(&bye).await.unwrap();
            drop(server);
        });
        assert_eq!(asked.err().unwrap().is_untouched, is_untouched, "{last}");
    }
}

/// The body is larger than all windows, and the server reads it to its end before it answers, or not at all.
#[tokio::test(start_paused = true)]
async fn a_large_body_is_sent_as_the_server_reads_it() {
    for reads in [true, false] {
        let (connection, mut server) = pair(None, 10).await;
        let place = connection.reserve().unwrap();
        let request = Request::put("http://server/x").body(vec![b'x'; 3 << 20].into());
        let serving = tokio::spawn(async move {
            let (request, mut respond) = server.accept().await.unwrap().unwrap();
            tokio::spawn(async move { while server.accept().await.is_some() {} });
            assert_eq!(request.headers()["content-length"], "3145728");
            let (mut body, mut read) = (request.into_body(), 0);
            while reads && let Some(piece) = body.data().await {
                let piece = piece.unwrap().len();
                read += piece;
                body.flow_control().release_capacity(piece).unwrap();
            }
            let mut stream = answer(&mut respond);
            stream.send_data("answer".into(), true).unwrap();
            (read, body)
        });
        let mut response = body(place.request(request.unwrap()).await);
        assert_eq!(text(&mut response).await, "answer");
        assert!(data(&mut response).await.is_none());
        drop(response);
        let (read, mut rest) = serving.await.unwrap();
        assert_eq!(read, if reads { 3 << 20 } else { 0 });
        // The server does not take an unread body for a whole one: its stream is reset.
        let mut end = rest.data().await;
        while let Some(Ok(_)) = end {
            end = rest.data().await;
        }
        let reset = end.and_then(|end| end.unwrap_err().reason());
        assert_eq!(reset, (!reads).then_some(Reason::CANCEL));
        assert!(connection.is_open());
    }
}

/// A connection counts as idle since its last stream ended.
#[tokio::test(start_paused = true)]
async fn a_connection_is_idle_from_the_end_of_its_last_stream() {
    let (connection, server) = pair(None, 10).await;
    let mut asked = serve(server);
    let (body, stream) = open(&connection, &mut asked).await;
    sleep(Duration::from_secs(100)).await;
    assert_eq!(connection.idle(), None);
    drop((body, stream));
    sleep(Duration::from_secs(5)).await;
    assert_eq!(connection.idle(), Some(Duration::from_secs(5)));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_was_away_does_not_take_the_connection_for_dead() {
    let (connection, server) = pair(Some((12, 10)), 10).await;
    let mut asked = serve(server);
    let (mut body, mut stream) = open(&connection, &mut asked).await;
    for _ in 0..3 {
        // It begins to wait, and is then not polled for a long time, whatever wakes it.
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(body.poll_data(cx).is_pending());
        sleep(Duration::from_secs(100)).await;
    }
    send(&mut stream, "hello");
    assert_eq!(text(&mut body).await, "hello");
}

#[tokio::test(start_paused = true)]
async fn without_pings_silence_is_no_sign() {
    let (connection, mut server) = pair(None, 10).await;
    let (asked, _stream) = ask_by_hand(&connection, &mut server, answer).await;
    let mut body = body(asked);
    let hour = Duration::from_secs(3_600);
    assert!(timeout(hour, data(&mut body)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_reset_is_reported_and_the_others_go_on() {
    let (connection, server) = pair(None, 10).await;
    let mut asked = serve(server);
    let (mut body, mut stream) = open(&connection, &mut asked).await;
    let (mut other, mut going_on) = open(&connection, &mut asked).await;
    stream.send_reset(Reason::INTERNAL_ERROR);
    let error = data(&mut body).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), FailureKind::Reset, "{error}");
    assert!(error.to_string().contains("was cut off"), "{error}");
    send(&mut going_on, "on");
    assert_eq!(text(&mut other).await, "on");
    assert!(connection.is_open());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_cut_is_reported_to_every_stream() {
    let (connection, mut server) = pair(None, 10).await;
    let mut bodies = Vec::new();
    for _ in 0..3 {
        let half = |respond: &mut _| send(&mut answer(respond), "half");
        let (asked, ()) = ask_by_hand(&connection, &mut server, half).await;
        bodies.push(body(asked));
    }
    drop(server);
    for body in &mut bodies {
        assert_eq!(text(body).await, "half");
        let error = data(body).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), FailureKind::Reset, "{error}");
    }
    assert!(!connection.is_open());
}

#[tokio::test(start_paused = true)]
async fn the_last_body_closes_a_dropped_connection() {
    let (connection, server) = pair(Some((12, 10)), 10).await;
    let mut asked = serve(server);
    let (mut body, mut stream) = open(&connection, &mut asked).await;
    drop(connection);
    send(&mut stream, "a body has it still");
    assert_eq!(text(&mut body).await, "a body has it still");
    drop((body, stream));
    assert!(asked.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_server_without_http2_is_reported() {
    let (ours, mut theirs) = duplex(1 << 16);
    tokio::spawn(async move {
        let mut preface = [0; 24];
        theirs.read_exact(&mut preface).await.unwrap();
        theirs
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
    });
    let opened = Http2::open(
        &address(),
        Stream::plain(ours),
        settings(None),
        Version::default(),
    )
    .await;
    let error = opened.map(|_| ()).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot use HTTP/2 with server:80: ")
            && error.ends_with("does the server support it?"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_stream_is_reported_to_be_untouched() {
    let (connection, mut server) = pair(None, 10).await;
    let refuse = |respond: &mut SendResponse<_>| respond.send_reset(Reason::REFUSED_STREAM);
    let (asked, ()) = ask_by_hand(&connection, &mut server, refuse).await;
    assert!(asked.err().unwrap().is_untouched);
}

/// Counts how often it is woken.
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn data_wakes_the_last_reader_of_its_stream_and_nobody_else() {
    let (connection, server) = pair(None, 10).await;
    let mut asked = serve(server);
    let (mut body, mut stream) = open(&connection, &mut asked).await;
    let (mut other, mut others) = open(&connection, &mut asked).await;
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(body.poll_data(cx).is_pending());
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    let cx = &mut Context::from_waker(&waker);
    assert!(body.poll_data(cx).is_pending());

    send(&mut others, "for the other");
    assert_eq!(text(&mut other).await, "for the other");
    assert_eq!(count.0.load(Ordering::SeqCst), 0);
    send(&mut stream, "event");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    assert_eq!(text(&mut body).await, "event");
}
