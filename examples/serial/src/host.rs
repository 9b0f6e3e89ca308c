//! The host's end of the line: it sends the device's requests with another transport.

use core::pin::Pin;
use core::time::Duration;
use std::boxed::Box;
use std::io;
use std::string::{String, ToString};
use std::vec::Vec;

use informer_core::{
    Body, Head, Transport,
    transport::{FailureKind, Get, TransportError},
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::Instant;

use crate::frame::{Decoder, encode};
use crate::message::{self, Header, Kind, LONGEST_REQUEST, OVERHEAD};

/// How long a device may be silent before its request is abandoned. A device that reads asks every second.
pub const SILENCE: Duration = Duration::from_secs(60);

/// Handles the requests that arrive over a line with `transport`, until the line ends. The request of a device that is
/// silent for `silence` is abandoned, so that no server keeps a watch without a reader.
///
/// Spawn it for each line. One call serves one device.
///
/// # Errors
/// Fails if the line does.
pub async fn serve<T: Transport + Clone + 'static>(
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    transport: T,
    silence: Duration,
) -> io::Result<()> {
    let mut decoder = Decoder::<{ LONGEST_REQUEST + OVERHEAD + 4 }>::new();
    let mut input = [0; 512];
    let mut answer: Option<Answer<T>> = None;
    let mut given_up = Instant::now() + silence;
    loop {
        let is_open = answer.is_some();
        let progress = async {
            match &mut answer {
                Some(answer) if answer.is_wanted() => answer.work().await,
                _ => core::future::pending().await,
            }
        };
        let frame = tokio::select! {
            biased;
            read = reader.read(&mut input) => {
                let length = read?;
                if length == 0 {
                    return Ok(());
                }
                let mut frames = Vec::new();
                for byte in input.get(..length).unwrap_or_default() {
                    if decoder.push(*byte) {
                        given_up = Instant::now() + silence;
                        frames.extend(hear(&mut answer, &transport, decoder.content()));
                    }
                }
                frames
            }
            () = progress => answer.as_ref().map_or_else(Vec::new, Answer::frame),
            () = tokio::time::sleep_until(given_up), if is_open => {
                answer = None;
                Vec::new()
            }
        };
        if !frame.is_empty() {
            writer.write_all(&frame).await?;
            writer.flush().await?;
        }
    }
}

/// Handles a message of the device. Returns the immediate reply.
fn hear<T: Transport + Clone + 'static>(
    answer: &mut Option<Answer<T>>,
    transport: &T,
    content: &[u8],
) -> Vec<u8> {
    let Some((header, payload)) = Header::parse(content) else {
        return Vec::new();
    };
    let known = answer
        .as_mut()
        .filter(|answer| answer.request == header.request);
    match (header.kind, known) {
        (Kind::Ask, known) => {
            let Some((room, get)) = message::parse_ask(payload) else {
                return Vec::new();
            };
            // A repeated request whose response has not been read was sent twice.
            match known {
                Some(known) if known.piece == 0 && known.asked == payload => known.frame(),
                _ => {
                    *answer = None;
                    let new = Answer::new(header.request, room, payload, get, transport.clone());
                    answer.insert(new).frame()
                }
            }
        }
        (Kind::More, known) => match known.and_then(|known| known.go_to(header.piece)) {
            Some(known) => known.frame(),
            None => {
                let kind = Kind::Gone;
                encode(&[&Header { kind, ..header }.to_bytes()]).collect()
            }
        },
        (Kind::Stop, known) => {
            if known.is_some() {
                *answer = None;
            }
            Vec::new()
        }
        // Only this end sends these kinds.
        (Kind::Head | Kind::Data | Kind::End | Kind::Failed | Kind::Nothing | Kind::Gone, _) => {
            Vec::new()
        }
    }
}

type Sending<T> =
    Pin<Box<dyn Future<Output = Result<(Head, <T as Transport>::Body), <T as Transport>::Error>>>>;

/// A response that is being read, piece by piece. The last piece is kept until the next one is requested.
struct Answer<T: Transport> {
    request: u32,
    asked: Vec<u8>,
    room: usize,
    source: Source<T>,
    /// Received bytes of the body that are in no piece yet.
    rest: Vec<u8>,
    piece: u32,
    ready: Option<(Kind, Vec<u8>)>,
}

enum Source<T: Transport> {
    Sending(Sending<T>),
    Body(T::Body),
    Done,
}

impl<T: Transport + 'static> Answer<T> {
    fn new(request: u32, room: u16, asked: &[u8], get: Get<'_>, mut transport: T) -> Self {
        let (target, accept, watch) = (String::from(get.target), get.accept.to_string(), get.watch);
        let sending = async move {
            let get = Get::new(&target).accept(&accept).watch(watch);
            transport.send(get).await
        };
        Self {
            request,
            asked: asked.to_vec(),
            room: usize::from(room.max(1)),
            source: Source::Sending(Box::pin(sending)),
            rest: Vec::new(),
            piece: 0,
            ready: None,
        }
    }

    /// Whether the device waits for a piece that is not available.
    const fn is_wanted(&self) -> bool {
        self.ready.is_none()
    }

    /// Proceeds to a piece: the current one, or the next one if the current one was ready. Others are not available.
    fn go_to(&mut self, piece: u32) -> Option<&Self> {
        if piece == self.piece {
            return Some(self);
        }
        let is_last = matches!(self.source, Source::Done);
        if piece != self.piece.wrapping_add(1) || self.ready.is_none() || is_last {
            return None;
        }
        self.piece = piece;
        self.ready = None;
        self.take_rest();
        Some(self)
    }

    /// Creates a piece from the available bytes.
    fn take_rest(&mut self) {
        if !self.rest.is_empty() {
            let length = self.rest.len().min(self.room);
            self.ready = Some((Kind::Data, self.rest.drain(..length).collect()));
        }
    }

    /// Waits for the piece. It is cancel-safe like the transport.
    async fn work(&mut self) {
        while self.ready.is_none() {
            match &mut self.source {
                Source::Sending(sending) => match sending.as_mut().await {
                    Ok((head, body)) => {
                        self.source = Source::Body(body);
                        self.ready = Some((Kind::Head, message::head(head).to_vec()));
                    }
                    Err(error) => self.fail(error.kind()),
                },
                Source::Body(body) => match body.chunk().await {
                    Ok(Some(bytes)) => {
                        self.rest.extend_from_slice(bytes);
                        self.take_rest();
                    }
                    Ok(None) => {
                        self.source = Source::Done;
                        self.ready = Some((Kind::End, Vec::new()));
                    }
                    Err(error) => {
                        let kind = error.kind();
                        self.fail(kind);
                    }
                },
                Source::Done => self.fail(FailureKind::Other),
            }
        }
    }

    fn fail(&mut self, kind: FailureKind) {
        self.source = Source::Done;
        self.ready = Some((Kind::Failed, message::failed(kind).to_vec()));
    }

    /// Returns the frame of the requested piece, or of the message that it is not available yet.
    fn frame(&self) -> Vec<u8> {
        let (kind, payload) = match &self.ready {
            Some((kind, payload)) => (*kind, payload.as_slice()),
            None => (Kind::Nothing, &[][..]),
        };
        let header = Header {
            kind,
            request: self.request,
            piece: self.piece,
        };
        encode(&[&header.to_bytes(), payload]).collect()
    }
}
