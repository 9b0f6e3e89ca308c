//! The interface between a mock server and a transport.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Debug;

use informer_core::{Head, Instant, transport::FailureKind};

use crate::log::RequestLog;

/// A write: a request with another method than GET.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write<'a> {
    /// The method: POST, PUT, PATCH or DELETE.
    pub method: &'a str,
    /// The path and query.
    pub target: &'a str,
    /// The `Content-Type` header, which determines the kind of patch.
    pub content_type: &'a str,
    /// The body.
    pub body: &'a [u8],
}

/// A server without sockets and without a clock. Requests are passed in, and responses are polled.
///
/// [`FakeServer`](crate::FakeServer) and [`ScriptedServer`](crate::ScriptedServer) implement it. A custom server works
/// with [`MockTransport`](crate::MockTransport) and on a real port as well.
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
    /// Sets the current time. It is called before any other method at that time.
    fn tick(&mut self, now: Instant);

    /// Starts a GET request with its path and query, and its `Accept` header.
    fn handle_request(&mut self, now: Instant, target: &str, accept: &str) -> ResponseId;

    /// Polls the head of a response. It may be polled again after it is ready.
    fn poll_head(&mut self, now: Instant, id: ResponseId) -> HeadPoll;

    /// Polls the next part of a response's body.
    fn poll_chunk(&mut self, now: Instant, id: ResponseId) -> Chunk;

    /// Drops a response that the client has read or abandoned.
    fn close(&mut self, id: ResponseId);

    /// Returns whether closing one response can unblock another. If so, all waiting tasks are woken at each close.
    fn wakes_by_close(&self) -> bool {
        false
    }

    /// Returns how the response to a request is compressed on a real port, for a client that accepts gzip.
    fn compression(&self, target: &str) -> Compression {
        let _ = target;
        Compression::None
    }

    /// Handles a write and returns the status and body of the response. `None` if the server accepts no writes.
    fn handle_write(&mut self, now: Instant, write: Write<'_>) -> Option<(u16, Vec<u8>)> {
        let _ = (now, write);
        None
    }

    /// Returns the log of all requests.
    fn log(&self) -> &RequestLog;
}

/// How a body is compressed for a client that accepts gzip.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// As one gzip member, if it is larger than 128 KiB.
    Large,
    /// Each part as a gzip member of its own.
    EachFlush,
}

/// The id of a response.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ResponseId(pub(crate) u64);

impl ResponseId {
    /// Creates an id, for a custom [`Backend`].
    #[must_use]
    pub const fn new(id: u64) -> Self {
        Self(id)
    }
}

/// The head of a response, or the reason why there is none yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HeadPoll {
    /// The head has arrived.
    Ready(ResponseHead),
    /// The connection failed before the response.
    Failed(FailureKind),
    /// Not ready. It may be ready at `until`, or after any change of the server.
    Pending {
        /// When to poll again; `None` if only a change of the server can make it ready.
        until: Option<Instant>,
    },
}

/// A part of a body, or the reason why there is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Chunk {
    /// Bytes.
    Data(Vec<u8>),
    /// The regular end.
    End,
    /// The connection failed.
    Abort(FailureKind),
    /// No data. There may be some at `until`, or after any change of the server.
    Pending {
        /// When to poll again; `None` if only a change of the server can bring data.
        until: Option<Instant>,
    },
}

/// The status and headers of a response.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ResponseHead {
    /// The HTTP status.
    pub status: u16,
    /// The headers without `Content-Length`.
    pub headers: Vec<(String, String)>,
    /// The announced length of the body; `None` for a chunked body.
    pub content_length: Option<u64>,
}

impl ResponseHead {
    /// Creates a head without headers.
    #[must_use]
    pub const fn new(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            content_length: None,
        }
    }

    /// Returns the value of a header. The name is case-insensitive.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Converts the head to the one that a transport returns.
    #[must_use]
    pub fn to_head(&self) -> Head {
        let mut head = Head::new(self.status);
        if let Some(value) = self.header("Retry-After") {
            head = head.with_retry_after(value);
        }
        if let Some(value) = self.header("Content-Type") {
            head = head.with_content_type(value);
        }
        head
    }

    pub(crate) fn set_header(&mut self, name: &str, value: &str) {
        self.headers
            .retain(|(own, _)| !own.eq_ignore_ascii_case(name));
        self.headers.push((name.into(), value.into()));
    }
}
