//! A transport through a Unix socket with a custom protocol. The other end forwards the requests.
//!
//! Each request has its own connection. The client sends the length of the rest (4 bytes, big-endian), the target, a
//! line break and the `Accept` header. The other end returns the status (2 bytes), the `Retry-After` in seconds plus 1,
//! or 0 (4 bytes), and pieces of the body, each preceded by its length. An empty piece is the end. A connection that
//! closes before it was cut.

use core::fmt;
use core::time::Duration;
use std::io;
use std::path::{Path, PathBuf};

use informer_core::{
    Body, Head, Transport,
    transport::{FailureKind, Get, TransportError},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet, spawn_local};

/// Sends requests through the tunnel at this path.
#[derive(Clone, Debug)]
pub(crate) struct Tunnel(pub(crate) PathBuf);

/// The body of a response.
#[derive(Debug)]
pub(crate) struct Pieces {
    stream: UnixStream,
    /// Received bytes. The first `lent` of them have been returned.
    received: Vec<u8>,
    lent: usize,
}

/// The reason why there is no response, or not all of it.
#[derive(Debug)]
pub(crate) struct Lost(io::Error);

impl Transport for Tunnel {
    type Body = Pieces;
    type Error = Lost;

    async fn send(&mut self, get: Get<'_>) -> Result<(Head, Pieces), Lost> {
        let mut stream = UnixStream::connect(&self.0).await?;
        let request = format!("{}\n{}", get.target, get.accept);
        let length = u32::try_from(request.len()).map_err(io::Error::other)?;
        stream
            .write_all(&[&length.to_be_bytes(), request.as_bytes()].concat())
            .await?;
        let head = Head::new(stream.read_u16().await?);
        let head = match stream.read_u32().await? {
            0 => head,
            seconds => head.with_retry_after(&(seconds - 1).to_string()),
        };
        let (received, lent) = (Vec::new(), 0);
        Ok((
            head,
            Pieces {
                stream,
                received,
                lent,
            },
        ))
    }
}

impl Body for Pieces {
    type Error = Lost;

    /// Bytes stay here until they are returned, so nothing is lost if the future is dropped.
    async fn chunk(&mut self) -> Result<Option<&[u8]>, Lost> {
        self.received.drain(..self.lent);
        self.lent = 0;
        loop {
            if let Some((length, rest)) = self.received.split_first_chunk() {
                let length = u32::from_be_bytes(*length) as usize;
                if length == 0 {
                    return Ok(None);
                }
                if length > LONGEST {
                    return Err(io::Error::other("a piece is too long").into());
                }
                if rest.len() >= length {
                    self.lent = 4 + length;
                    return Ok(Some(&self.received[4..self.lent]));
                }
            }
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }
}

/// A wrong length must not exhaust the memory.
const LONGEST: usize = 1 << 20;

impl TransportError for Lost {
    #[expect(clippy::wildcard_enum_match_arm, reason = "there are many kinds")]
    fn kind(&self) -> FailureKind {
        match self.0.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => FailureKind::Refused,
            _ => FailureKind::Reset,
        }
    }
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        Self(error)
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the tunnel: {}", self.0)
    }
}

// This is the end of the transport. The rest is the other end, which uses another transport to the API server.

/// Opens the other end of a tunnel on this thread. It sends requests with the transports that `transport` returns.
pub(crate) fn open<T: Transport + 'static>(
    path: &Path,
    transport: impl Fn() -> T + 'static,
) -> io::Result<JoinHandle<()>> {
    let listener = UnixListener::bind(path)?;
    Ok(spawn_local(async move {
        let mut running = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let transport = transport();
            running.spawn_local(async move {
                // After a failure, the client sees a connection that closes too early.
                let _ = answer(stream, transport).await;
            });
        }
    }))
}

/// Handles one request with `transport`.
async fn answer<T: Transport>(mut stream: UnixStream, mut transport: T) -> io::Result<()> {
    let length = stream.read_u32().await? as usize;
    let mut request = vec![0; length.min(LONGEST)];
    stream.read_exact(&mut request).await?;
    let request = String::from_utf8_lossy(&request);
    let (target, accept) = request
        .split_once('\n')
        .unwrap_or((&request, "application/json"));
    let (mut reader, mut writer) = stream.into_split();
    // A client that closes its end does not want the response any more.
    let mut end = [0; 1];
    tokio::select! {
        _ = reader.read(&mut end) => Ok(()),
        done = async {
            let lost = |error: T::Error| io::Error::other(error.to_string());
            let (head, mut body) = transport.send(Get::new(target).accept(accept)).await.map_err(lost)?;
            writer.write_u16(head.status).await?;
            let seconds = |after: Duration| after.as_secs().min(3_600) as u32 + 1;
            writer.write_u32(head.retry_after.map_or(0, seconds)).await?;
            while let Some(piece) = body.chunk().await.map_err(lost)? {
                for piece in piece.chunks(LONGEST) {
                    writer.write_u32(piece.len() as u32).await?;
                    writer.write_all(piece).await?;
                }
            }
            writer.write_u32(0).await
        } => done,
    }
}
