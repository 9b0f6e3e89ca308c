//! The device's end: a [`Transport`] over a serial line.

use core::cell::{RefCell, RefMut};
use core::fmt;
use core::future::poll_fn;
use core::ops::Range;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use embedded_io_async::{Error as _, ErrorKind, Read, Write};
use informer_core::{
    Body, Head, Instant, Timer, Transport,
    transport::{FailureKind, Get, TransportError},
};

use crate::frame::{Decoder, encode};
use crate::message::{Header, Kind, LONGEST_REQUEST, OVERHEAD, ask, parse_failed, parse_head};

/// The number of attempts before the line, or the program behind it, counts as dead.
const TRIES: u8 = 5;

/// A serial line, with a buffer of `B` bytes for a received frame. Each frame carries `B` - 13 bytes of a response.
///
/// `R` and `W` are its two directions, such as the halves of a UART. `read` must be cancel-safe: dropping its future
/// before it is ready must not lose data.
pub struct SerialLine<R, W, C, const B: usize>(RefCell<Wire<R, W, C, B>>);

impl<R: Read, W: Write, C: Timer, const B: usize> SerialLine<R, W, C, B> {
    /// Creates the device's end of a line. Requests are numbered from `first` on. The other end uses the numbers to
    /// detect a restart, so `first` should differ at each start.
    #[must_use]
    pub const fn new(reader: R, writer: W, timer: C, first: u32) -> Self {
        Self(RefCell::new(Wire {
            reader,
            writer,
            timer,
            decoder: Decoder::new(),
            input: [0; 32],
            unread: 0..0,
            request: first,
            again: Duration::from_secs(1),
        }))
    }

    /// Sets the time without a response after which a frame is sent again; the default is a second. After five attempts
    /// the line counts as dead.
    #[must_use]
    pub fn ask_again_after(mut self, time: Duration) -> Self {
        self.0.get_mut().again = time;
        self
    }

    /// Returns a transport. A line has one request at a time, so it serves one informer.
    pub fn transport(&self) -> SerialTransport<'_, R, W, C, B> {
        SerialTransport { line: self }
    }
}

impl<R, W, C, const B: usize> fmt::Debug for SerialLine<R, W, C, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SerialLine").finish_non_exhaustive()
    }
}

/// The transport over a [`SerialLine`].
pub struct SerialTransport<'a, R, W, C, const B: usize> {
    line: &'a SerialLine<R, W, C, B>,
}

impl<'a, R: Read, W: Write, C: Timer, const B: usize> Transport
    for SerialTransport<'a, R, W, C, B>
{
    type Body = SerialBody<'a, R, W, C, B>;
    type Error = SerialError;

    async fn send(&mut self, get: Get<'_>) -> Result<(Head, Self::Body), SerialError> {
        if get.target.len() + get.accept.len() >= LONGEST_REQUEST {
            return Err(SerialProblem::RequestTooLong.into());
        }
        // The body returns it.
        let Ok(wire) = self.line.0.try_borrow_mut() else {
            return Err(SerialProblem::InUse.into());
        };
        let mut body = SerialBody {
            wire,
            wanted: Wanted::new(0),
            is_open: true,
        };
        body.wanted = body.wire.next_request();
        let kind = body.wire.piece(&mut body.wanted, Some(get)).await?;
        if kind != Kind::Head {
            return Err(body.ended(kind));
        }
        let head = parse_head(body.wire.payload()).ok_or(SerialProblem::Unexpected)?;
        body.wanted.next();
        Ok((head, body))
    }
}

impl<R, W, C, const B: usize> fmt::Debug for SerialTransport<'_, R, W, C, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SerialTransport").finish_non_exhaustive()
    }
}

/// The body of a response. It occupies the line until it is dropped.
pub struct SerialBody<'a, R: Read, W: Write, C: Timer, const B: usize> {
    wire: RefMut<'a, Wire<R, W, C, B>>,
    wanted: Wanted,
    /// Whether the other end still has data of it.
    is_open: bool,
}

impl<R: Read, W: Write, C: Timer, const B: usize> SerialBody<'_, R, W, C, B> {
    /// Records that no more data will arrive, and returns the reason.
    fn ended(&mut self, kind: Kind) -> SerialError {
        self.is_open = false;
        let problem = if kind == Kind::Failed {
            SerialProblem::Failed(parse_failed(self.wire.payload()))
        } else if kind == Kind::Gone {
            SerialProblem::Gone
        } else {
            SerialProblem::Unexpected
        };
        problem.into()
    }
}

impl<R: Read, W: Write, C: Timer, const B: usize> Body for SerialBody<'_, R, W, C, B> {
    type Error = SerialError;

    async fn chunk(&mut self) -> Result<Option<&[u8]>, SerialError> {
        if !self.is_open {
            return Ok(None);
        }
        let kind = self.wire.piece(&mut self.wanted, None).await?;
        if kind == Kind::Data {
            self.wanted.next();
            return Ok(Some(self.wire.payload()));
        }
        if kind == Kind::End {
            self.is_open = false;
            return Ok(None);
        }
        Err(self.ended(kind))
    }
}

impl<R: Read, W: Write, C: Timer, const B: usize> Drop for SerialBody<'_, R, W, C, B> {
    fn drop(&mut self) {
        if self.is_open {
            self.wire.stop(self.wanted);
        }
    }
}

impl<R: Read, W: Write, C: Timer, const B: usize> fmt::Debug for SerialBody<'_, R, W, C, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SerialBody")
            .field("wanted", &self.wanted)
            .finish_non_exhaustive()
    }
}

/// The piece that the device waits for. It survives a future that is dropped.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    request: u32,
    piece: u32,
    /// The time of the next attempt; `None` if there was no attempt yet.
    again: Option<Instant>,
    /// The number of attempts since the other end last responded.
    unheard: u8,
}

impl Wanted {
    const fn new(request: u32) -> Self {
        Self {
            request,
            piece: 0,
            again: None,
            unheard: 0,
        }
    }

    fn next(&mut self) {
        self.piece = self.piece.wrapping_add(1);
        self.again = None;
        self.unheard = 0;
    }

    const fn header(self, kind: Kind) -> Header {
        Header {
            kind,
            request: self.request,
            piece: self.piece,
        }
    }
}

struct Wire<R, W, C, const B: usize> {
    reader: R,
    writer: W,
    timer: C,
    decoder: Decoder<B>,
    input: [u8; 32],
    unread: Range<usize>,
    request: u32,
    again: Duration,
}

impl<R: Read, W: Write, C: Timer, const B: usize> Wire<R, W, C, B> {
    fn next_request(&mut self) -> Wanted {
        self.request = self.request.wrapping_add(1);
        Wanted::new(self.request)
    }

    /// The data of the last received frame, after its header.
    fn payload(&self) -> &[u8] {
        Header::parse(self.decoder.content()).map_or(&[], |(_, payload)| payload)
    }

    /// Requests a piece until it arrives, and returns its kind. The request for the first piece is the original
    /// request.
    ///
    /// It is cancel-safe: received bytes stay, and a partially sent frame counts as lost.
    async fn piece(
        &mut self,
        wanted: &mut Wanted,
        get: Option<Get<'_>>,
    ) -> Result<Kind, SerialError> {
        loop {
            let now = self.timer.now();
            let again = match wanted.again.filter(|again| now < *again) {
                Some(again) => again,
                None => {
                    if wanted.unheard == TRIES {
                        return Err(SerialProblem::Silent.into());
                    }
                    wanted.unheard += 1;
                    let again = now + self.again;
                    wanted.again = Some(again);
                    self.ask(*wanted, get).await?;
                    again
                }
            };
            while let Some(byte) = self.next_byte() {
                if self.decoder.push(byte)
                    && let Some((header, _)) = Header::parse(self.decoder.content())
                    && (header.request, header.piece) == (wanted.request, wanted.piece)
                {
                    wanted.unheard = 0;
                    if header.kind != Kind::Nothing {
                        return Ok(header.kind);
                    }
                }
            }
            self.read_until(again).await?;
        }
    }

    fn next_byte(&mut self) -> Option<u8> {
        let at = self.unread.next()?;
        self.input.get(at).copied()
    }

    /// Reads the available bytes, or none until the deadline.
    async fn read_until(&mut self, deadline: Instant) -> Result<(), SerialError> {
        let read = {
            let mut reading = pin!(self.reader.read(&mut self.input));
            let mut sleeping = pin!(self.timer.sleep_until(deadline));
            poll_fn(|cx| match reading.as_mut().poll(cx) {
                Poll::Ready(read) => Poll::Ready(Some(read)),
                // It may be early. The caller checks the clock.
                Poll::Pending => sleeping.as_mut().poll(cx).map(|()| None),
            })
            .await
        };
        match read {
            None => Ok(()),
            Some(Ok(0)) => Err(SerialProblem::Closed.into()),
            Some(Ok(length)) => {
                self.unread = 0..length;
                Ok(())
            }
            Some(Err(error)) => Err(SerialProblem::Line(error.kind()).into()),
        }
    }

    async fn ask(&mut self, wanted: Wanted, get: Option<Get<'_>>) -> Result<(), SerialError> {
        let Some(get) = get else {
            let header = wanted.header(Kind::More).to_bytes();
            return self.write(&[&header]).await;
        };
        let header = wanted.header(Kind::Ask).to_bytes();
        let room = u16::try_from(B.saturating_sub(OVERHEAD)).unwrap_or(u16::MAX);
        let (target, accept) = (get.target.as_bytes(), get.accept.as_bytes());
        self.write(&[&header, &ask(room, get), target, b"\n", accept])
            .await
    }

    async fn write(&mut self, parts: &[&[u8]]) -> Result<(), SerialError> {
        let failed = |error: W::Error| SerialError::from(SerialProblem::Line(error.kind()));
        let mut bytes = encode(parts);
        let mut some = [0; 32];
        loop {
            let mut length = 0;
            for (place, byte) in some.iter_mut().zip(&mut bytes) {
                *place = byte;
                length += 1;
            }
            if length == 0 {
                return self.writer.flush().await.map_err(failed);
            }
            let some = some.get(..length).unwrap_or_default();
            self.writer.write_all(some).await.map_err(failed)?;
        }
    }

    /// Sends that a response is abandoned, if that is possible at once. Otherwise the next request implies it.
    fn stop(&mut self, wanted: Wanted) {
        let header = wanted.header(Kind::Stop).to_bytes();
        let parts: [&[u8]; 1] = [&header];
        let mut writing = pin!(self.write(&parts));
        let _ = writing
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
    }
}

/// The error of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SerialError(SerialProblem);

/// The cause of a [`SerialError`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SerialProblem {
    /// The program at the other end did not respond to five attempts.
    Silent,
    /// The line was closed.
    Closed,
    /// The line failed.
    Line(ErrorKind),
    /// The program at the other end was restarted, or has abandoned the response.
    Gone,
    /// The program at the other end got no response, or not all of it.
    Failed(FailureKind),
    /// The program at the other end sent an unexpected message.
    Unexpected,
    /// Target and `Accept` header are longer than 2 KiB.
    RequestTooLong,
    /// The line already has a request.
    InUse,
}

impl SerialError {
    /// Returns the cause of the error.
    #[must_use]
    pub const fn problem(&self) -> SerialProblem {
        self.0
    }
}

impl From<SerialProblem> for SerialError {
    fn from(problem: SerialProblem) -> Self {
        Self(problem)
    }
}

impl TransportError for SerialError {
    fn kind(&self) -> FailureKind {
        match self.0 {
            SerialProblem::Silent => FailureKind::TimedOut,
            SerialProblem::Closed | SerialProblem::Line(_) | SerialProblem::Gone => {
                FailureKind::Reset
            }
            SerialProblem::Failed(kind) => kind,
            SerialProblem::RequestTooLong => FailureKind::Request,
            SerialProblem::Unexpected | SerialProblem::InUse => FailureKind::Other,
        }
    }
}

impl core::error::Error for SerialError {}

informer_core::readable_errors!(SerialError);

impl fmt::Display for SerialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SerialProblem::Silent => {
                write!(
                    f,
                    "the other end of the line did not respond to {TRIES} attempts"
                )
            }
            SerialProblem::Closed => f.write_str("the line was closed"),
            SerialProblem::Line(kind) => write!(f, "the line failed: {kind:?}"),
            SerialProblem::Gone => {
                f.write_str("the other end of the line does not know the request")
            }
            SerialProblem::Failed(kind) => write!(f, "at the other end of the line: {kind}"),
            SerialProblem::Unexpected => {
                f.write_str("the other end of the line sent an unexpected message")
            }
            SerialProblem::RequestTooLong => {
                write!(f, "the request is longer than {LONGEST_REQUEST} bytes")
            }
            SerialProblem::InUse => f.write_str("the line already has a request"),
        }
    }
}
