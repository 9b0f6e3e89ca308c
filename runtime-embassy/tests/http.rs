//! Requests and connections, with scripted responses.
#![allow(
    clippy::unwrap_used,
    clippy::std_instead_of_core,
    reason = "a test may"
)]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use embedded_io_async::{ErrorKind, ErrorType, Read, Write};
use informer_core::{
    Body, Transport,
    transport::{FailureKind, Get, TransportError},
};
use informer_embassy::{Anonymous, Connection, Credentials, HttpProblem, Link};

/// The steps of the other end.
#[derive(Clone, Debug)]
enum Then {
    Opens,
    Refuses,
    /// Sends this text, in pieces of a fixed size.
    Says(&'static str),
    Closes,
    Resets,
}

#[derive(Default)]
struct Other {
    script: VecDeque<Then>,
    sent: String,
    log: Vec<&'static str>,
    step: usize,
}

#[derive(Clone)]
struct Scripted(Rc<RefCell<Other>>);

impl Scripted {
    fn new(step: usize, script: &[Then]) -> Self {
        Self(Rc::new(RefCell::new(Other {
            script: script.iter().cloned().collect(),
            step,
            ..Other::default()
        })))
    }

    fn log(&self) -> String {
        self.0.borrow().log.join(" ")
    }

    fn take_sent(&self) -> String {
        std::mem::take(&mut self.0.borrow_mut().sent)
    }
}

impl Link for Scripted {
    async fn open(&mut self) -> Result<(), ErrorKind> {
        let mut other = self.0.borrow_mut();
        match other.script.pop_front() {
            Some(Then::Opens) => {
                other.log.push("open");
                Ok(())
            }
            Some(Then::Refuses) => Err(ErrorKind::ConnectionRefused),
            then => panic!("it was opened before {then:?}"),
        }
    }

    fn close(&mut self) {
        let mut other = self.0.borrow_mut();
        if other.log.last().is_some_and(|last| *last != "close") {
            other.log.push("close");
        }
    }
}

impl ErrorType for Scripted {
    type Error = ErrorKind;
}

impl Read for Scripted {
    async fn read(&mut self, buf: &mut [u8]) -> Result<usize, ErrorKind> {
        let then = self.0.borrow_mut().script.pop_front();
        match then {
            Some(Then::Says(text)) => {
                let mut other = self.0.borrow_mut();
                let length = text.len().min(other.step).min(buf.len());
                let (now, later) = text.split_at(length);
                buf[..length].copy_from_slice(now.as_bytes());
                if !later.is_empty() {
                    other.script.push_front(Then::Says(later));
                }
                Ok(length)
            }
            Some(Then::Closes) => Ok(0),
            Some(Then::Resets) => Err(ErrorKind::ConnectionReset),
            Some(then @ (Then::Opens | Then::Refuses)) => {
                self.0.borrow_mut().script.push_front(then);
                std::future::pending().await
            }
            None => std::future::pending().await,
        }
    }
}

impl Write for Scripted {
    async fn write(&mut self, buf: &[u8]) -> Result<usize, ErrorKind> {
        let length = buf.len().min(self.0.borrow().step);
        let text = std::str::from_utf8(&buf[..length]).unwrap();
        self.0.borrow_mut().sent.push_str(text);
        Ok(length)
    }

    async fn flush(&mut self) -> Result<(), ErrorKind> {
        Ok(())
    }
}

fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

/// Sends a request and reads the whole body.
fn ask(
    transport: &mut impl Transport<Error = informer_embassy::HttpError>,
) -> Result<String, informer_embassy::HttpError> {
    now(async {
        let (head, mut body) = transport.send(Get::new("/api/v1/pods?watch=true")).await?;
        let mut text = format!("{}:", head.status);
        while let Some(chunk) = body.chunk().await? {
            text.push_str(std::str::from_utf8(chunk).unwrap());
        }
        Ok(text)
    })
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

#[test]
fn a_connection_is_kept_while_the_server_keeps_it() {
    for step in [1, 3, 1000] {
        let script = [
            Then::Opens,
            Then::Says(OK),
            Then::Says(
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
            ),
            Then::Says(
                "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno",
            ),
            Then::Opens,
            Then::Says("HTTP/1.0 200 OK\r\n\r\nuntil the end"),
            Then::Closes,
            Then::Opens,
            Then::Says(OK),
        ];
        let link = Scripted::new(step, &script);
        let connection: Connection<_, _, 256> = Connection::new(link.clone(), "server", Anonymous);
        let mut transport = connection.transport().unwrap();
        for expected in [
            "200:hello",
            "200:hello",
            "404:no",
            "200:until the end",
            "200:hello",
        ] {
            assert_eq!(ask(&mut transport).unwrap(), expected);
            assert_eq!(
                link.take_sent(),
                "GET /api/v1/pods?watch=true HTTP/1.1\r\nHost: server\r\nAccept: application/json\r\nUser-Agent: informer-embassy\r\n\r\n"
            );
        }
        assert_eq!(link.log(), "open close open close open");
    }
}

#[test]
fn a_failure_says_what_it_is_and_the_next_request_opens_anew() {
    let closed = HttpProblem::Closed;
    let reset = HttpProblem::Link(ErrorKind::ConnectionReset);
    for (says, then, problem, kind) in [
        ("", Then::Closes, closed, FailureKind::Reset),
        ("HTTP/1.1 200", Then::Closes, closed, FailureKind::Reset),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
            Then::Closes,
            closed,
            FailureKind::Reset,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
            Then::Resets,
            reset,
            FailureKind::Reset,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            Then::Closes,
            closed,
            FailureKind::Reset,
        ),
        (
            "SSH-2.0\r\n",
            Then::Closes,
            HttpProblem::NotHttp,
            FailureKind::Other,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n",
            Then::Closes,
            HttpProblem::UnknownCoding,
            FailureKind::Other,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello",
            Then::Closes,
            HttpProblem::BadChunk,
            FailureKind::Other,
        ),
    ] {
        for used in [false, true] {
            let mut script = vec![Then::Opens];
            script.extend(used.then_some(Then::Says(OK)));
            script.extend((!says.is_empty()).then_some(Then::Says(says)));
            script.extend([then.clone(), Then::Opens, Then::Says(OK)]);
            let link = Scripted::new(7, &script);
            let connection: Connection<_, _, 256> =
                Connection::new(link.clone(), "server", Anonymous);
            let mut transport = connection.transport().unwrap();
            if used {
                assert_eq!(ask(&mut transport).unwrap(), "200:hello");
            }
            let error = ask(&mut transport).unwrap_err();
            assert_eq!((error.problem(), error.kind()), (problem, kind), "{says}");
            let before_answer = !says.contains("\r\n\r\n") || problem == HttpProblem::UnknownCoding;
            assert_eq!(error.connection_was_used(), used && before_answer, "{says}");
            // The rest of the broken connection's script does not affect the new one.
            link.0
                .borrow_mut()
                .script
                .retain(|then| !matches!(then, Then::Closes | Then::Resets));
            while !matches!(link.0.borrow().script.front(), Some(Then::Opens)) {
                link.0.borrow_mut().script.pop_front();
            }
            assert_eq!(ask(&mut transport).unwrap(), "200:hello");
            assert_eq!(link.log(), "open close open");
        }
    }
    let link = Scripted::new(7, &[Then::Refuses, Then::Opens, Then::Says(OK)]);
    let connection: Connection<_, _, 256> = Connection::new(link, "server", Anonymous);
    let mut transport = connection.transport().unwrap();
    assert_eq!(
        ask(&mut transport).unwrap_err().kind(),
        FailureKind::Refused
    );
    assert_eq!(ask(&mut transport).unwrap(), "200:hello");
}

#[test]
fn a_body_that_is_dropped_closes_its_connection() {
    let script = [
        Then::Opens,
        Then::Says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
        Then::Opens,
        Then::Says(OK),
    ];
    let link = Scripted::new(1000, &script);
    let connection: Connection<_, _, 256> = Connection::new(link.clone(), "server", Anonymous);
    let mut transport = connection.transport().unwrap();
    let (_, mut body) = now(transport.send(Get::new("/"))).unwrap();
    assert_eq!(now(body.chunk()).unwrap(), Some(&b"hello"[..]));
    // Another informer waits for its turn while the body exists, and no longer.
    let mut other = connection.transport().unwrap();
    {
        let mut waiting = pin!(other.ready());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
        drop(body);
        assert!(waiting.as_mut().poll(&mut cx).is_ready());
    }
    assert_eq!(link.log(), "open close");
    assert_eq!(ask(&mut other).unwrap(), "200:hello");
}

#[test]
fn no_more_informers_than_there_is_room_for() {
    let link = Scripted::new(1, &[]);
    let connection: Connection<_, _, 256, 2> = Connection::new(link, "server", Anonymous);
    let first = connection.transport().unwrap();
    let _second = connection.transport().unwrap();
    assert!(connection.transport().is_none());
    drop(first);
    assert!(connection.transport().is_some());
}

/// Returns another token for each request.
struct Renewed(u32);

impl Credentials for Renewed {
    fn write_token(&mut self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.0 += 1;
        write!(out, "token-{}", self.0)
    }
}

struct NoToken;

impl Credentials for NoToken {
    fn write_token(&mut self, _: &mut dyn fmt::Write) -> fmt::Result {
        Err(fmt::Error)
    }
}

#[test]
fn each_request_has_the_token_of_its_time() {
    let link = Scripted::new(9, &[Then::Opens, Then::Says(OK), Then::Says(OK)]);
    let connection: Connection<_, _, 256> = Connection::new(link.clone(), "server", Renewed(0));
    let mut transport = connection.transport().unwrap();
    for header in [
        "\r\nAuthorization: Bearer token-1\r\n\r\n",
        "\r\nAuthorization: Bearer token-2\r\n\r\n",
    ] {
        ask(&mut transport).unwrap();
        assert!(link.take_sent().ends_with(header));
    }
}

#[test]
fn a_request_that_cannot_be_made_is_an_error_and_nothing_is_sent() {
    fn problem<const B: usize>(credentials: impl Credentials) -> HttpProblem {
        let link = Scripted::new(9, &[]);
        let connection: Connection<_, _, B> = Connection::new(link, "server", credentials);
        let error = ask(&mut connection.transport().unwrap()).unwrap_err();
        let is_of_caller = error.problem() != HttpProblem::NoToken;
        assert_eq!(error.kind() == FailureKind::Request, is_of_caller);
        error.problem()
    }
    let long = "x".repeat(200);
    assert_eq!(problem::<64>(Anonymous), HttpProblem::RequestTooLong);
    // The token fits but the end of the head does not, or neither fits.
    for length in 100..160 {
        assert_eq!(problem::<200>(&long[..length]), HttpProblem::RequestTooLong);
    }
    assert_eq!(problem::<256>(NoToken), HttpProblem::NoToken);
    assert_eq!(problem::<256>("a\r\nX: y"), HttpProblem::BadToken);
    assert_eq!(problem::<256>("a b"), HttpProblem::BadToken);
}
