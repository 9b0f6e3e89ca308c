//! The device's end: a [`Transport`] over a serial line.

use core::cell::{RefCell, RefMut};
use core::fmt;
use core::future::poll_fn;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use embedded_io_async::{Read, Write};
use informer_core::{
    Body, Head, Instant, Timer, Transport,
    transport::{FailureKind, Get, TransportError},
};

use crate::frame::{Decoder, encode};
use crate::message::{
    DATA, HEADER, Header, Kind, LONGEST_REQUEST, OVERHEAD, parse_failed, parse_head,
};

const BROKEN: SerialError = SerialError::Line(FailureKind::Reset);
const UNEXPECTED: SerialError = SerialError::Host(FailureKind::Other);

/// How long the answer to a frame may take, including sending both. The host takes a second at most, and the longest
/// request takes two at 9,600 bits per second.
pub const LIMIT: Duration = Duration::from_secs(5);

/// A serial line, with a buffer for one received frame.
///
/// `R` and `W` are its two directions, such as the halves of a UART. `read` must be cancel-safe: dropping its future
/// before it is ready must not lose data. Bytes are written one by one, so `W` buffers them if that is slow.
#[derive(Debug)]
pub struct SerialLine<R, W, C>(RefCell<Wire<R, W, C>>);

impl<R, W, C> SerialLine<R, W, C> {
    /// Creates the device's end of a line. Frames are numbered from `first` on. An answer to a frame before a restart is
    /// recognised by its number, so `first` should differ at each start.
    #[must_use]
    pub const fn new(reader: R, writer: W, timer: C, first: u32) -> Self {
        Self(RefCell::new(Wire {
            ends: Ends {
                reader,
                writer,
                decoder: Decoder::new(),
                number: first,
                is_sent: false,
            },
            timer,
            until: None,
        }))
    }

    /// Returns a transport. A line has one request at a time, so it serves one informer.
    pub const fn transport(&self) -> SerialTransport<'_, R, W, C> {
        SerialTransport(self)
    }
}

/// The transport over a [`SerialLine`].
#[derive(Debug)]
pub struct SerialTransport<'a, R, W, C>(&'a SerialLine<R, W, C>);

impl<'a, R: Read, W: Write, C: Timer> Transport for SerialTransport<'a, R, W, C> {
    type Body = SerialBody<'a, R, W, C>;
    type Error = SerialError;

    async fn send(&mut self, get: Get<'_>) -> Result<(Head, Self::Body), SerialError> {
        if get.target.len() + get.accept.len() >= LONGEST_REQUEST {
            return Err(SerialError::Line(FailureKind::Request));
        }
        // The body returns it.
        let Ok(wire) = self.0.0.try_borrow_mut() else {
            return Err(SerialError::InUse);
        };
        let state = Ok(true);
        let mut body = SerialBody { wire, state };
        // The answer that an abandoned request waited for is not this one's.
        body.wire.until = None;
        body.next(Some(get), Kind::Head).await?;
        let head = parse_head(body.wire.payload()).ok_or(UNEXPECTED)?;
        Ok((head, body))
    }
}

/// The body of a response. It occupies the line until it is dropped.
#[derive(Debug)]
pub struct SerialBody<'a, R: Read, W: Write, C: Timer> {
    wire: RefMut<'a, Wire<R, W, C>>,
    /// Whether there may be more of it.
    state: Result<bool, SerialError>,
}

impl<R: Read, W: Write, C: Timer> SerialBody<'_, R, W, C> {
    /// Waits for the next part. Returns whether there is one.
    async fn next(&mut self, get: Option<Get<'_>>, expected: Kind) -> Result<bool, SerialError> {
        self.state = match self.wire.answer(get).await {
            Ok(kind) if kind == expected => Ok(true),
            Ok(Kind::End) if expected == Kind::Data => Ok(false),
            Ok(Kind::Failed) => Err(SerialError::Host(parse_failed(self.wire.payload()))),
            Ok(_) => Err(UNEXPECTED),
            Err(error) => Err(error),
        };
        self.state
    }
}

impl<R: Read, W: Write, C: Timer> Body for SerialBody<'_, R, W, C> {
    type Error = SerialError;

    async fn chunk(&mut self) -> Result<Option<&[u8]>, SerialError> {
        let is_open = self.state?;
        if !is_open || !self.next(None, Kind::Data).await? {
            return Ok(None);
        }
        Ok(Some(self.wire.payload()))
    }
}

impl<R: Read, W: Write, C: Timer> Drop for SerialBody<'_, R, W, C> {
    /// Sends that the response is abandoned, if that is possible at once. Otherwise the next request implies it.
    fn drop(&mut self) {
        if self.state != Ok(false) {
            let ends = &mut self.wire.ends;
            let mut writing = pin!(ends.write(Kind::Stop, [&[]; 4]));
            let _ = writing
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()));
        }
    }
}

#[derive(Debug)]
struct Wire<R, W, C> {
    ends: Ends<R, W>,
    timer: C,
    /// The time limit of the current frame and its answer. It survives a future that is dropped.
    until: Option<Instant>,
}

impl<R: Read, W: Write, C: Timer> Wire<R, W, C> {
    /// Asks for a part, the first one with `get`, until there is one. Returns its kind. It is cancel-safe.
    async fn answer(&mut self, mut get: Option<Get<'_>>) -> Result<Kind, SerialError> {
        loop {
            let until = *self.until.get_or_insert_with(|| {
                self.ends.number = self.ends.number.wrapping_add(1);
                self.ends.is_sent = false;
                self.timer.now() + LIMIT
            });
            let heard = {
                let mut turn = pin!(self.ends.turn(get));
                let mut sleeping = pin!(self.timer.sleep_until(until));
                // An answer that is there counts, even if this is polled late.
                poll_fn(|cx| match turn.as_mut().poll(cx) {
                    Poll::Ready(heard) => Poll::Ready(Some(heard)),
                    Poll::Pending => sleeping.as_mut().poll(cx).map(|()| None),
                })
                .await
            };
            match heard {
                // The timer may be early.
                None if self.timer.now() < until => {}
                None => return Err(SerialError::Line(FailureKind::TimedOut)),
                Some(heard) => {
                    self.until = None;
                    if heard != Ok(Kind::Nothing) {
                        return heard;
                    }
                    get = None;
                }
            }
        }
    }

    /// The data of the last received frame, after its header.
    fn payload(&self) -> &[u8] {
        let content = self.ends.decoder.content();
        content.get(HEADER..).unwrap_or_default()
    }
}

#[derive(Debug)]
struct Ends<R, W> {
    reader: R,
    writer: W,
    decoder: Decoder<{ DATA + OVERHEAD }>,
    /// The number of the current frame.
    number: u32,
    is_sent: bool,
}

impl<R: Read, W: Write> Ends<R, W> {
    /// Sends the current frame unless that is done, and waits for its answer. It is cancel-safe: a frame that was not
    /// sent whole is sent again, and the host ignores what arrived of it before.
    async fn turn(&mut self, get: Option<Get<'_>>) -> Result<Kind, SerialError> {
        if !self.is_sent {
            let is_watch = [get.is_some_and(|get| get.watch).into()];
            let (kind, data) = match get {
                Some(get) => (
                    Kind::Ask,
                    [
                        &is_watch,
                        get.target.as_bytes(),
                        b"\n",
                        get.accept.as_bytes(),
                    ],
                ),
                None => (Kind::More, [&[][..]; 4]),
            };
            self.write(kind, data).await?;
            self.is_sent = true;
        }
        let mut input = [0; 32];
        loop {
            let read = self.reader.read(&mut input).await;
            let length = read.ok().filter(|length| *length > 0).ok_or(BROKEN)?;
            // The host sends nothing after an answer, so the bytes behind it can be dropped.
            for byte in input.iter().take(length) {
                if self.decoder.push(*byte)
                    && let Some((header, _)) = Header::parse(self.decoder.content())
                    && header.number == self.number
                {
                    return Ok(header.kind);
                }
            }
        }
    }

    async fn write(&mut self, kind: Kind, data: [&[u8]; 4]) -> Result<(), SerialError> {
        let number = self.number;
        let header = Header { kind, number }.to_bytes();
        let [a, b, c, d] = data;
        for byte in encode(&[&header, a, b, c, d]) {
            let written = self.writer.write_all(&[byte]).await;
            written.map_err(|_| BROKEN)?;
        }
        self.writer.flush().await.map_err(|_| BROKEN)
    }
}

/// The error of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SerialError {
    /// The line failed. It timed out if a frame was lost or damaged, or if nobody is at the other end.
    Line(FailureKind),
    /// The program at the other end got no response, or not all of it, or sent an unexpected answer.
    Host(FailureKind),
    /// The line already has a request.
    InUse,
}

impl TransportError for SerialError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Line(kind) | Self::Host(kind) => *kind,
            Self::InUse => FailureKind::Other,
        }
    }
}

impl core::error::Error for SerialError {}

informer_core::readable_errors!(SerialError);

impl fmt::Display for SerialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(kind) => write!(f, "the serial line: {kind}"),
            Self::Host(kind) => write!(f, "at the other end of the serial line: {kind}"),
            Self::InUse => f.write_str("the serial line already has a request"),
        }
    }
}
