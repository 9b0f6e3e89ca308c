//! A link to a mock server with HTTP/1.1.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::wildcard_enum_match_arm,
    clippy::unwrap_used,
    clippy::std_instead_of_core,
    reason = "a test may; not every test uses all of it"
)]

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::pin::Pin;
use std::rc::Rc;

use embedded_io_async::{ErrorKind, ErrorType, Read, Write};
use informer_core::{
    Body, Head, Transport,
    transport::{FailureKind, Get, TransportError},
};
use informer_embassy::Link;

type Sending<T> =
    Pin<Box<dyn Future<Output = Result<(Head, <T as Transport>::Body), <T as Transport>::Error>>>>;

/// The observations of a test on a link.
#[derive(Default)]
pub struct Seen {
    pub opened: Cell<usize>,
    pub closed: Cell<usize>,
    pub requests: RefCell<Vec<String>>,
}

/// Receives requests as bytes, passes them to a transport, and returns the responses in pieces of a fixed size.
pub struct ServerLink<T: Transport> {
    transport: T,
    step: usize,
    seen: Rc<Seen>,
    is_open: bool,
    input: Vec<u8>,
    sending: Option<Sending<T>>,
    body: Option<T::Body>,
    output: VecDeque<u8>,
}

impl<T: Transport + Clone + 'static> ServerLink<T> {
    pub fn new(transport: T, step: usize) -> (Self, Rc<Seen>) {
        let seen = Rc::new(Seen::default());
        let link = Self {
            transport,
            step,
            seen: Rc::clone(&seen),
            is_open: false,
            input: Vec::new(),
            sending: None,
            body: None,
            output: VecDeque::new(),
        };
        (link, seen)
    }

    fn take_request(&mut self) {
        let Some(end) = self.input.windows(4).position(|four| four == b"\r\n\r\n") else {
            return;
        };
        let request: Vec<u8> = self.input.drain(..end + 4).collect();
        let request = String::from_utf8(request).unwrap();
        let target = request.split(' ').nth(1).unwrap().to_owned();
        let header = |name: &str| {
            let mut lines = request.lines();
            lines.find_map(|line| Some(line.strip_prefix(name)?.to_owned()))
        };
        assert_eq!(header("Host: ").unwrap(), "mock:1");
        let accept = header("Accept: ").unwrap();
        let mut transport = self.transport.clone();
        self.sending = Some(Box::pin(async move {
            transport.send(Get::new(&target).accept(&accept)).await
        }));
        self.seen.requests.borrow_mut().push(request);
    }
}

impl<T: Transport + Clone + 'static> Link for ServerLink<T> {
    async fn open(&mut self) -> Result<(), ErrorKind> {
        self.close();
        self.is_open = true;
        self.seen.opened.set(self.seen.opened.get() + 1);
        Ok(())
    }

    fn close(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.seen.closed.set(self.seen.closed.get() + 1);
        }
        self.input.clear();
        self.sending = None;
        self.body = None;
        self.output.clear();
    }
}

impl<T: Transport> ErrorType for ServerLink<T> {
    type Error = ErrorKind;
}

impl<T: Transport + Clone + 'static> Read for ServerLink<T> {
    async fn read(&mut self, buf: &mut [u8]) -> Result<usize, ErrorKind> {
        while self.output.is_empty() {
            if !self.is_open {
                return Err(ErrorKind::NotConnected);
            }
            if let Some(sending) = &mut self.sending {
                let answer = sending.as_mut().await;
                self.sending = None;
                let (head, body) = answer.map_err(|error| kind(&error))?;
                let mut text = format!("HTTP/1.1 {} Any\r\n", head.status);
                if let Some(after) = head.retry_after {
                    write!(text, "Retry-After: {}\r\n", after.as_secs()).unwrap();
                }
                text.push_str("Transfer-Encoding: chunked\r\n\r\n");
                self.output.extend(text.as_bytes());
                self.body = Some(body);
            } else if let Some(body) = &mut self.body {
                match body.chunk().await.map_err(|error| kind(&error))? {
                    Some([]) => {}
                    Some(chunk) => {
                        self.output
                            .extend(format!("{:x}\r\n", chunk.len()).as_bytes());
                        self.output.extend(chunk);
                        self.output.extend(b"\r\n");
                    }
                    None => {
                        self.output.extend(b"0\r\n\r\n");
                        self.body = None;
                    }
                }
            } else {
                std::future::pending::<()>().await;
            }
        }
        let length = buf.len().min(self.step).min(self.output.len());
        for (to, from) in buf.iter_mut().zip(self.output.drain(..length)) {
            *to = from;
        }
        Ok(length)
    }
}

impl<T: Transport + Clone + 'static> Write for ServerLink<T> {
    async fn write(&mut self, buf: &[u8]) -> Result<usize, ErrorKind> {
        if !self.is_open {
            return Err(ErrorKind::NotConnected);
        }
        let length = buf.len().min(self.step);
        self.input.extend_from_slice(&buf[..length]);
        self.take_request();
        Ok(length)
    }

    async fn flush(&mut self) -> Result<(), ErrorKind> {
        Ok(())
    }
}

fn kind(error: &impl TransportError) -> ErrorKind {
    match error.kind() {
        FailureKind::Refused => ErrorKind::ConnectionRefused,
        FailureKind::Reset => ErrorKind::ConnectionReset,
        FailureKind::TimedOut => ErrorKind::TimedOut,
        _ => ErrorKind::Other,
    }
}
