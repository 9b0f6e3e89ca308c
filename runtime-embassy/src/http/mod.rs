//! HTTP/1.1: GET requests over one connection, which several informers use in turns.
//!
//! The client implements what RFC 9112 requires: responses split at any byte, `Content-Length`, chunked bodies with
//! extensions and trailers, bodies that end with the connection, `Connection: close`, and interim responses. Anything
//! else is an error with a reason. A head is limited to 16 KiB, the headers that matter to 512 bytes each, and a
//! request with its token to the buffer `B`. Compressed responses are neither requested nor supported.

mod body;
mod error;
mod head;

use core::cell::{RefCell, RefMut};
use core::fmt::{self, Write as _};
use core::ops::Range;

use embedded_io_async::Error as _;
use informer_core::{Body, Head, Transport, transport::Get};

use self::body::{Framing, Piece};
pub use self::error::{HttpError, HttpProblem};
use self::head::{HeadReader, Parsed};
use crate::credentials::Credentials;
use crate::link::Link;
use crate::turns::{Member, Turn, Turns};

/// The most interim responses (1xx) before the final one.
const MAX_INTERIM: u8 = 8;

/// A connection to an API server, with a buffer of `B` bytes for requests and responses. Up to `M` informers take turns
/// on it.
///
/// A request, including its token, must fit into the buffer: 512 bytes are enough without a token, and 2 KiB with one.
/// The connection is opened on demand and reused while the server keeps it open. It is closed when a body is dropped
/// before its end.
///
/// ```
/// use informer_embassy::{Anonymous, Connection, Link};
///
/// fn server(link: impl Link) {
///     let server: Connection<_, _, 512> = Connection::new(link, "10.0.2.2:8001", Anonymous);
///     let (pods, nodes) = (server.transport(), server.transport());
/// #   let _ = (pods, nodes);
/// }
/// ```
pub struct Connection<L, C, const B: usize, const M: usize = 4> {
    turns: Turns<M>,
    wire: RefCell<Wire<L, C, B>>,
}

impl<L: Link, C: Credentials, const B: usize, const M: usize> Connection<L, C, B, M> {
    /// Creates a connection without opening it. `host` is the `Host` header: a name or address, and the port unless it
    /// is the default of the scheme.
    #[must_use]
    pub const fn new(link: L, host: &'static str, credentials: C) -> Self {
        Self {
            turns: Turns::new(),
            wire: RefCell::new(Wire {
                link,
                credentials,
                host,
                is_idle: false,
                buffer: [0; B],
                unread: 0..0,
            }),
        }
    }

    /// Returns a transport for one informer; `None` if there are `M` already.
    pub fn transport(&self) -> Option<HttpTransport<'_, L, C, B, M>> {
        Some(HttpTransport {
            connection: self,
            member: self.turns.join()?,
            turn: None,
        })
    }
}

impl<L, C, const B: usize, const M: usize> fmt::Debug for Connection<L, C, B, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

/// The transport of one informer on a [`Connection`].
pub struct HttpTransport<'a, L, C, const B: usize, const M: usize> {
    connection: &'a Connection<L, C, B, M>,
    member: Member<'a, M>,
    turn: Option<Turn<'a, M>>,
}

impl<'a, L: Link, C: Credentials, const B: usize, const M: usize> Transport
    for HttpTransport<'a, L, C, B, M>
{
    type Body = HttpBody<'a, L, C, B, M>;
    type Error = HttpError;

    async fn ready(&mut self) {
        if self.turn.is_none() {
            self.turn = Some(self.member.wait().await);
        }
    }

    async fn send(&mut self, get: Get<'_>) -> Result<(Head, Self::Body), HttpError> {
        let turn = match self.turn.take() {
            Some(turn) => turn,
            None => self.member.wait().await,
        };
        // Only the member that has the turn borrows the connection.
        let Ok(wire) = self.connection.wire.try_borrow_mut() else {
            return Err(HttpError::of(HttpProblem::InUse));
        };
        let mut body = HttpBody {
            wire,
            _turn: turn,
            framing: Framing::Empty,
            keep_alive: false,
        };
        let parsed = body.wire.exchange(get).await?;
        body.framing = parsed.framing;
        body.keep_alive = parsed.keep_alive;
        Ok((parsed.head, body))
    }
}

impl<L, C, const B: usize, const M: usize> fmt::Debug for HttpTransport<'_, L, C, B, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTransport").finish_non_exhaustive()
    }
}

/// The body of a response. It occupies the connection until it is dropped.
pub struct HttpBody<'a, L: Link, C, const B: usize, const M: usize> {
    // Declared before the turn, so that the connection is released before the next member's turn.
    wire: RefMut<'a, Wire<L, C, B>>,
    _turn: Turn<'a, M>,
    framing: Framing,
    keep_alive: bool,
}

impl<L: Link, C, const B: usize, const M: usize> Body for HttpBody<'_, L, C, B, M> {
    type Error = HttpError;

    async fn chunk(&mut self) -> Result<Option<&[u8]>, HttpError> {
        let data = loop {
            let (skip, piece) = self
                .framing
                .next(self.wire.unread())
                .map_err(HttpError::of)?;
            self.wire.unread.start += skip;
            match piece {
                Piece::Data(length) => break self.wire.take(length),
                Piece::End => {
                    self.framing = Framing::Empty;
                    // Unrequested bytes belong to no response, so the connection is not reused after them.
                    self.wire.is_idle = self.keep_alive && self.wire.unread.is_empty();
                    return Ok(None);
                }
                Piece::More => {
                    if self.wire.fill().await? == 0 {
                        self.framing.ended().map_err(HttpError::of)?;
                        self.keep_alive = false;
                    }
                }
            }
        };
        Ok(Some(self.wire.buffer.get(data).unwrap_or_default()))
    }
}

impl<L: Link, C, const B: usize, const M: usize> Drop for HttpBody<'_, L, C, B, M> {
    fn drop(&mut self) {
        if !self.wire.is_idle {
            self.wire.link.close();
        }
    }
}

impl<L: Link, C, const B: usize, const M: usize> fmt::Debug for HttpBody<'_, L, C, B, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpBody")
            .field("framing", &self.framing)
            .finish_non_exhaustive()
    }
}

/// The link, and the bytes that were read from it.
struct Wire<L, C, const B: usize> {
    link: L,
    credentials: C,
    host: &'static str,
    /// Whether the link is open without a response in progress.
    is_idle: bool,
    buffer: [u8; B],
    unread: Range<usize>,
}

impl<L: Link, C, const B: usize> Wire<L, C, B> {
    fn unread(&self) -> &[u8] {
        self.buffer.get(self.unread.clone()).unwrap_or_default()
    }

    /// Takes this many of the available bytes. Returns their range.
    fn take(&mut self, length: usize) -> Range<usize> {
        let start = self.unread.start;
        self.unread.start = (start + length).min(self.unread.end);
        start..self.unread.start
    }

    /// Reads more bytes after all available ones were taken. It is cancel-safe if the link is.
    async fn fill(&mut self) -> Result<usize, HttpError> {
        self.unread = 0..0;
        let read = self.link.read(&mut self.buffer).await;
        let length = read.map_err(|error| HttpError::of(HttpProblem::Link(error.kind())))?;
        self.unread = 0..length.min(B);
        Ok(length)
    }
}

impl<L: Link, C: Credentials, const B: usize> Wire<L, C, B> {
    /// Sends a request and reads the head of its response.
    async fn exchange(&mut self, get: Get<'_>) -> Result<Parsed, HttpError> {
        let length = self.compose(get)?;
        // If this is interrupted from here on, the connection cannot be reused.
        let was_used = core::mem::take(&mut self.is_idle);
        if !was_used {
            self.link.close();
            let opened = self.link.open().await;
            opened.map_err(|kind| HttpError::of(HttpProblem::Open(kind)))?;
        }
        let answer = self.ask(length).await;
        answer.map_err(|error| error.on_used(was_used))
    }

    async fn ask(&mut self, length: usize) -> Result<Parsed, HttpError> {
        let lost = |error: L::Error| HttpError::of(HttpProblem::Link(error.kind()));
        let request = self.buffer.get(..length).unwrap_or_default();
        self.link.write_all(request).await.map_err(lost)?;
        self.link.flush().await.map_err(lost)?;
        let mut head = HeadReader::new();
        let mut interim = 0;
        loop {
            if self.fill().await? == 0 {
                return Err(HttpError::of(HttpProblem::Closed));
            }
            loop {
                let (read, parsed) = head.read(self.unread()).map_err(HttpError::of)?;
                self.unread.start += read;
                match parsed {
                    None => break,
                    Some(parsed) if parsed.is_interim() => {
                        interim += 1;
                        if interim > MAX_INTERIM {
                            return Err(HttpError::of(HttpProblem::HeadTooLong));
                        }
                        head = HeadReader::new();
                    }
                    Some(parsed) => return Ok(parsed),
                }
            }
        }
    }

    /// Writes a request into the buffer, which is empty between responses. Returns its length.
    fn compose(&mut self, get: Get<'_>) -> Result<usize, HttpError> {
        let too_long = |_| HttpError::of(HttpProblem::RequestTooLong);
        self.unread = 0..0;
        let mut out = Out {
            buffer: &mut self.buffer,
            length: 0,
        };
        write!(
            out,
            "GET {} HTTP/1.1\r\nHost: {}\r\nAccept: {}\r\nUser-Agent: informer-embassy\r\nAuthorization: Bearer ",
            get.target, self.host, get.accept
        )
        .map_err(too_long)?;
        let before = out.length;
        if self.credentials.write_token(&mut out).is_err() {
            let problem = if out.length == B {
                HttpProblem::RequestTooLong
            } else {
                HttpProblem::NoToken
            };
            return Err(HttpError::of(problem));
        }
        let length = out.length;
        let token = self.buffer.get(before..length).unwrap_or_default();
        // Other bytes could begin another header.
        if !token.iter().all(u8::is_ascii_graphic) {
            return Err(HttpError::of(HttpProblem::BadToken));
        }
        let end = if token.is_empty() {
            before - "\r\nAuthorization: Bearer ".len()
        } else {
            length
        };
        let mut out = Out {
            buffer: &mut self.buffer,
            length: end,
        };
        out.write_str("\r\n\r\n").map_err(too_long)?;
        Ok(out.length)
    }
}

/// Writes text into a buffer. If the text does not fit, the buffer counts as full.
struct Out<'a> {
    buffer: &'a mut [u8],
    length: usize,
}

impl fmt::Write for Out<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        let Some(room) = self.buffer.get_mut(self.length..end) else {
            self.length = self.buffer.len();
            return Err(fmt::Error);
        };
        room.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}
