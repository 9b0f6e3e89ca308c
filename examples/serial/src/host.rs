//! The host's end of the line: it sends the device's requests with another transport.

use core::convert::Infallible;
use core::pin::pin;
use core::time::Duration;
use std::io;
use std::vec::Vec;

use informer_core::{
    Body, Transport,
    transport::{FailureKind, Get, TransportError},
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::time::{Instant, timeout, timeout_at};

use crate::frame::{Decoder, encode};
use crate::message::{
    DATA, HEADER, Header, Kind, LONGEST_REQUEST, OVERHEAD, failed, head, parse_ask,
};

/// How long a device may be silent before its response is abandoned, so that no server keeps a watch without a reader.
pub const SILENCE: Duration = Duration::from_secs(60);

/// How long an answer waits for the server. It is much less than the device waits.
const PAUSE: Duration = Duration::from_secs(1);

/// Handles the requests that arrive over a line with `transport`, until the line ends.
///
/// Spawn it for each line. One call serves one device.
///
/// # Errors
/// Returns the reason why the line ended.
pub async fn serve<T: Transport>(
    reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Unpin,
    mut transport: T,
) -> io::Result<Infallible> {
    let mut line = Line {
        reader: BufReader::new(reader),
        writer,
        decoder: Decoder::new(),
        number: 0,
        unhandled: None,
    };
    loop {
        let header = match line.unhandled.take() {
            Some(header) => header,
            None => line.hear().await?,
        };
        line.number = header.number;
        let payload = Vec::from(line.decoder.content().get(HEADER..).unwrap_or_default());
        if header.kind == Kind::Ask
            && let Some(get) = parse_ask(&payload)
        {
            if let Err(Some(error)) = respond(&mut line, &mut transport, get).await {
                return Err(error);
            }
        } else if header.kind == Kind::More {
            // Its response was abandoned, or belonged to another run of this program.
            let reset = failed(FailureKind::Reset);
            line.answer(Kind::Failed, &reset).await?;
        }
    }
}

/// Why a response is not continued: the error of the line, or none if the device does not ask for more.
type Over = Option<io::Error>;

/// Sends a request, and its response part by part.
async fn respond<T: Transport>(
    line: &mut Line<impl AsyncRead + Unpin, impl AsyncWrite + Unpin>,
    transport: &mut T,
    get: Get<'_>,
) -> Result<(), Over> {
    let mut sending = pin!(transport.send(get));
    let response = loop {
        match timeout(PAUSE, sending.as_mut()).await {
            Ok(response) => break response,
            Err(_) => line.answer_until_more(Kind::Nothing, &[]).await?,
        }
    };
    let (status, mut body) = match response {
        Ok(response) => response,
        Err(error) => return Ok(line.answer(Kind::Failed, &failed(error.kind())).await?),
    };
    line.answer_until_more(Kind::Head, &head(status)).await?;
    loop {
        match timeout(PAUSE, body.chunk()).await {
            Ok(Ok(Some(bytes))) => {
                for part in bytes.chunks(DATA) {
                    line.answer_until_more(Kind::Data, part).await?;
                }
            }
            Ok(Ok(None)) => return Ok(line.answer(Kind::End, &[]).await?),
            Ok(Err(error)) => return Ok(line.answer(Kind::Failed, &failed(error.kind())).await?),
            Err(_) => line.answer_until_more(Kind::Nothing, &[]).await?,
        }
    }
}

struct Line<R, W> {
    reader: BufReader<R>,
    writer: W,
    decoder: Decoder<{ LONGEST_REQUEST + OVERHEAD + 2 }>,
    /// The number of the frame that is to be answered.
    number: u32,
    /// The header of a frame that ended a response and is still in the decoder.
    unhandled: Option<Header>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Line<R, W> {
    /// Waits for a frame. It is cancel-safe.
    async fn hear(&mut self) -> io::Result<Header> {
        loop {
            let byte = self.reader.read_u8().await?;
            if self.decoder.push(byte)
                && let Some((header, _)) = Header::parse(self.decoder.content())
            {
                return Ok(header);
            }
        }
    }

    async fn answer(&mut self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        let number = self.number;
        let header = Header { kind, number }.to_bytes();
        let frame: Vec<u8> = encode(&[&header, payload]).collect();
        let writer = &mut self.writer;
        let written = timeout(SILENCE, async {
            writer.write_all(&frame).await?;
            writer.flush().await
        });
        written.await?
    }

    /// Answers, and waits until the device asks for the next part.
    async fn answer_until_more(&mut self, kind: Kind, payload: &[u8]) -> Result<(), Over> {
        self.answer(kind, payload).await?;
        let end = Instant::now() + SILENCE;
        loop {
            let header = timeout_at(end, self.hear()).await.map_err(|_| None)??;
            let ahead = header.number.wrapping_sub(self.number);
            match (header.kind, ahead) {
                (Kind::More, 1) => {
                    self.number = header.number;
                    return Ok(());
                }
                // The device writes a frame again if its write was interrupted, perhaps after the last byte.
                (Kind::More, 0) => {}
                _ => {
                    self.unhandled = Some(header);
                    return Err(None);
                }
            }
        }
    }
}
