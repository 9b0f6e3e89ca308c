//! The face that all our servers have towards a transport.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Debug;

use informer_core::{Head, Instant, transport::FailureKind};

use crate::log::RequestLog;
use crate::server::Write;

/// A server without sockets and without a clock: requests are handed in, answers are polled.
///
/// [`FakeServer`](crate::FakeServer) and [`ScriptedServer`](crate::ScriptedServer) are such servers; one of your own
/// works with the transport and on a port as well.
///
/// ```
/// use informer_mock::{Backend, Chunk, FakeServer, HeadPoll, Instant};
///
/// let mut server = FakeServer::new(1);
/// let now = Instant::from_micros(0);
/// let id = server.handle_request(now, "/api/v1/pods", "application/json");
/// let HeadPoll::Ready(head) = server.poll_head(now, id) else { panic!() };
/// assert_eq!(head.status, 200);
/// let Chunk::Data(body) = server.poll_chunk(now, id) else { panic!() };
/// assert_eq!(body, b"{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}\n");
/// assert_eq!(server.poll_chunk(now, id), Chunk::End);
/// server.close(id);
/// ```
pub trait Backend {
    /// Tells what time it is, before anything else is done at that time.
    fn tick(&mut self, now: Instant);

    /// Takes a GET request: its path and query, and its `Accept` header.
    fn handle_request(&mut self, now: Instant, target: &str, accept: &str) -> ResponseId;

    /// Asks for the head of a response. It may be asked for again.
    fn poll_head(&mut self, now: Instant, id: ResponseId) -> HeadPoll;

    /// Asks for more of the body of a response.
    fn poll_chunk(&mut self, now: Instant, id: ResponseId) -> Chunk;

    /// Drops a response, which the client has read or does not want any more.
    fn close(&mut self, id: ResponseId);

    /// Tells whether the end of one response can bring another one on; then those who wait are woken at each.
    fn wakes_by_close(&self) -> bool {
        false
    }

    /// Says what of the answer to a request is compressed for a client that accepts gzip, on a real port.
    fn compression(&self, target: &str) -> Compression {
        let _ = target;
        Compression::None
    }

    /// Answers a write: the status and the body of the answer. `None` where it takes none.
    fn handle_write(&mut self, now: Instant, write: Write<'_>) -> Option<(u16, Vec<u8>)> {
        let _ = (now, write);
        None
    }

    /// Returns what was asked so far.
    fn log(&self) -> &RequestLog;
}

/// What of a body is compressed for a client that accepts gzip.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compression {
    /// Nothing.
    #[default]
    None,
    /// A body of more than 128 KiB, as one member of gzip.
    Large,
    /// Each piece, as a member of gzip of its own.
    EachFlush,
}

/// Names a response of a server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ResponseId(pub(crate) u64);

impl ResponseId {
    /// Makes an id, for a [`Backend`] of one's own.
    ///
    /// ```
    /// # use informer_mock::ResponseId;
    /// assert_eq!(ResponseId::new(7), ResponseId::new(7));
    /// ```
    #[must_use]
    pub const fn new(id: u64) -> Self {
        Self(id)
    }
}

/// The head of a response, or why there is none yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HeadPoll {
    /// It is there.
    Ready(ResponseHead),
    /// There is no answer: the connection failed.
    Failed(FailureKind),
    /// Not yet. There may be news at the time given, and after each change of the server.
    Pending {
        /// When to ask again; `None` where only a change of the server can bring news.
        until: Option<Instant>,
    },
}

/// A piece of a body, or why there is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Chunk {
    /// Bytes.
    Data(Vec<u8>),
    /// The clean end.
    End,
    /// The connection failed.
    Abort(FailureKind),
    /// Nothing now. There may be news at the time given, and after each change of the server.
    Pending {
        /// When to ask again; `None` where only a change of the server can bring news.
        until: Option<Instant>,
    },
}

/// Status and headers of a response.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ResponseHead {
    /// The HTTP status.
    pub status: u16,
    /// The headers, `Content-Length` left out.
    pub headers: Vec<(String, String)>,
    /// The announced length of the body; `None` for a body in chunks.
    pub content_length: Option<u64>,
}

impl ResponseHead {
    /// Makes a head with no headers.
    ///
    /// ```
    /// # use informer_mock::ResponseHead;
    /// assert_eq!(ResponseHead::new(200).content_length, None);
    /// ```
    #[must_use]
    pub const fn new(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            content_length: None,
        }
    }

    /// Returns a header, whose name is compared without regard to case.
    ///
    /// ```
    /// # use informer_mock::ResponseHead;
    /// let mut head = ResponseHead::new(429);
    /// head.headers.push(("Retry-After".into(), "3".into()));
    /// assert_eq!(head.header("retry-after"), Some("3"));
    /// ```
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Returns what a transport tells of it.
    #[must_use]
    pub fn to_head(&self) -> Head {
        let head = Head::new(self.status);
        self.header("Retry-After")
            .map_or(head, |value| head.with_retry_after(value))
    }

    pub(crate) fn set_header(&mut self, name: &str, value: &str) {
        self.headers
            .retain(|(own, _)| !own.eq_ignore_ascii_case(name));
        self.headers.push((name.into(), value.into()));
    }
}
