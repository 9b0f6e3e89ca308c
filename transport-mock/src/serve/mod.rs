//! A mock server on a real port.

mod gzip;
mod http;

use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::net::SocketAddr;
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;
use std::io;

use informer_core::Timer as _;
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::tcp::ReadHalf;
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::task::JoinSet;

use self::gzip::Gzip;
use self::http::Request;
use crate::backend::Write;
use crate::backend::{Backend, Compression, ResponseHead};
use crate::mock::{Exchange, Mock};
use crate::tokio_clock::TokioClock;

/// Opens a port for a mock server. [`Serving::run`] must be awaited or spawned to serve it.
///
/// It supports HTTP/1.1 without TLS: GET requests, writes if the server accepts them, keep-alive, chunked bodies, and
/// gzip if the server's [`Config`](crate::Config) enables it and the client accepts it. A body is taken from the server
/// only as fast as the client reads it. Faults apply: a refused or cut connection is a TCP reset.
///
/// ```
/// use informer_mock::{FakeServer, Mock, TokioClock, serve};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
/// let serving = serve(mock.clone(), "127.0.0.1:0").await?;
/// let address = serving.local_addr();
/// let server = tokio::spawn(serving.run());
/// // Clients connect to http://{address}; the test uses `mock`.
/// assert_ne!(address.port(), 0);
/// server.abort();
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Fails if the port cannot be opened.
pub async fn serve<B: Backend + Send + 'static>(
    mock: Mock<B, TokioClock>,
    address: impl ToSocketAddrs,
) -> io::Result<Serving<B>> {
    let listener = TcpListener::bind(address).await?;
    let local = listener.local_addr()?;
    Ok(Serving {
        listener,
        local,
        mock,
    })
}

/// An open port; see [`serve`].
#[derive(Debug)]
pub struct Serving<B> {
    listener: TcpListener,
    local: SocketAddr,
    mock: Mock<B, TokioClock>,
}

impl<B: Backend + Send + 'static> Serving<B> {
    /// Returns the local address.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Serves requests for ever. Dropping the future closes the port and all connections.
    pub async fn run(self) {
        let mut connections = JoinSet::new();
        loop {
            match accept(&self.listener, &mut connections).await {
                Ok(stream) => {
                    connections.spawn(connection(self.mock.clone(), stream));
                }
                // Out of file handles, or the client has disconnected already.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }
}

/// Waits for a client, and removes connections that have ended.
async fn accept(listener: &TcpListener, connections: &mut JoinSet<()>) -> io::Result<TcpStream> {
    poll_fn(|context| {
        while let Poll::Ready(Some(_)) = connections.poll_join_next(context) {}
        listener.poll_accept(context)
    })
    .await
    .map(|(stream, _)| stream)
}

/// The next state of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Then {
    Next,
    Close,
    Reset,
}

async fn connection<B: Backend + Send + 'static>(mock: Mock<B, TokioClock>, mut stream: TcpStream) {
    // Without it the connection is only slower.
    let _ = stream.set_nodelay(true);
    let mut input = Vec::new();
    loop {
        let request = match next_request(&mut stream, &mut input).await {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(status) => {
                // The client may have disconnected already.
                let _ = stream.write_all(&http::refusal(status)).await;
                let _ = stream.shutdown().await;
                return;
            }
        };
        if request.method != "GET" {
            match write(&mock, &mut stream, &request).await {
                Ok(Then::Next) => continue,
                Ok(Then::Close | Then::Reset) | Err(_) => return,
            }
        }
        match respond(&mock, &mut stream, &mut input, &request).await {
            Then::Next => {}
            Then::Close => return,
            Then::Reset => {
                // Without it, the client would see an end instead of a reset.
                let _ = stream.set_zero_linger();
                return;
            }
        }
    }
}

/// Reads the next request; `None` if the client has disconnected. The error is an HTTP status.
async fn next_request(stream: &mut TcpStream, input: &mut Vec<u8>) -> Result<Option<Request>, u16> {
    loop {
        if let Some((request, used)) = http::parse(input)? {
            input.drain(..used);
            return Ok(Some(request));
        }
        if !matches!(stream.read_buf(input).await, Ok(1..)) {
            return Ok(None);
        }
    }
}

async fn respond<B: Backend>(
    mock: &Mock<B, TokioClock>,
    stream: &mut TcpStream,
    input: &mut Vec<u8>,
    request: &Request,
) -> Then {
    let (reader, mut writer) = stream.split();
    let mut exchange = mock.open(&request.target, &request.accept);
    let mut answer = pin!(async {
        answer(&mut exchange, &mut writer, request)
            .await
            .unwrap_or(Then::Close)
    });
    let mut gone = pin!(until_gone(reader, input));
    poll_fn(|context| {
        if let Poll::Ready(then) = answer.as_mut().poll(context) {
            return Poll::Ready(then);
        }
        // A client that closes its connection does not want the rest of the response, as on the real server.
        gone.as_mut().poll(context).map(|()| Then::Close)
    })
    .await
}

/// Handles a write, if the server accepts writes.
async fn write<B: Backend>(
    mock: &Mock<B, TokioClock>,
    stream: &mut TcpStream,
    request: &Request,
) -> io::Result<Then> {
    let now = mock.clock().now();
    let write = Write {
        method: &request.method,
        target: &request.target,
        content_type: &request.content_type,
        body: &request.body,
    };
    let Some((status, body)) = mock.with(|backend| backend.handle_write(now, write)) else {
        stream.write_all(&http::refusal(405)).await?;
        return Ok(Then::Close);
    };
    let mut head = ResponseHead::new(status);
    head.set_header("Content-Type", "application/json");
    head.content_length = Some(body.len() as u64);
    stream
        .write_all(&http::head(&head, false, request.keep_alive))
        .await?;
    stream.write_all(&body).await?;
    Ok(if request.keep_alive {
        Then::Next
    } else {
        Then::Close
    })
}

async fn answer<B: Backend>(
    exchange: &mut Exchange<B, TokioClock>,
    writer: &mut (impl AsyncWrite + Unpin),
    request: &Request,
) -> io::Result<Then> {
    let Ok(mut head) = exchange.head().await else {
        return Ok(Then::Reset);
    };
    let mut pieces = Vec::new();
    let gzip = match exchange.compression(&request.target) {
        // Error responses are short, and a body with a false length must keep that length.
        _ if !request.gzip || head.status != 200 || head.content_length.is_some() => None,
        Compression::None => None,
        Compression::EachFlush => Some(Gzip::each_flush()),
        Compression::Large => match large(exchange, &mut pieces).await {
            Ok(large) => large.then(Gzip::whole),
            Err(_) => return Ok(Then::Reset),
        },
    };
    if gzip.is_some() {
        head.set_header("Content-Encoding", "gzip");
    }
    let chunked = head.content_length.is_none() && request.chunks;
    let keep = request.keep_alive && (chunked || head.content_length.is_some());
    writer.write_all(&http::head(&head, chunked, keep)).await?;
    let mut out = Out {
        writer,
        chunked,
        gzip,
        sent: 0,
    };
    for piece in pieces {
        out.write(&piece).await?;
    }
    loop {
        match exchange.raw_chunk().await {
            Ok(Some(bytes)) => out.write(&bytes).await?,
            Ok(None) => break,
            Err(_) => return Ok(Then::Reset),
        }
    }
    out.finish().await?;
    // After a false length, the connection cannot be reused.
    let whole = head.content_length.is_none_or(|length| length == out.sent);
    Ok(if keep && whole {
        Then::Next
    } else {
        Then::Close
    })
}

/// Reads until the body is known to be worth compressing. At the end of the body, the end is polled a second time
/// afterwards.
async fn large<B: Backend>(
    exchange: &mut Exchange<B, TokioClock>,
    pieces: &mut Vec<Vec<u8>>,
) -> Result<bool, informer_core::transport::FailureKind> {
    let mut length = 0;
    while length <= gzip::LARGE {
        let Some(bytes) = exchange.raw_chunk().await? else {
            return Ok(false);
        };
        length += bytes.len();
        pieces.push(bytes);
    }
    Ok(true)
}

/// Writes a body to a client.
struct Out<'a, W> {
    writer: &'a mut W,
    chunked: bool,
    gzip: Option<Gzip>,
    sent: u64,
}

impl<W: AsyncWrite + Unpin> Out<'_, W> {
    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.gzip {
            Some(gzip) => {
                let bytes = gzip.write(bytes)?;
                self.write_plain(&bytes).await
            }
            None => self.write_plain(bytes).await,
        }
    }

    async fn write_plain(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sent += bytes.len() as u64;
        if bytes.is_empty() {
            Ok(())
        } else if self.chunked {
            self.writer.write_all(&http::chunk(bytes)).await
        } else {
            self.writer.write_all(bytes).await
        }
    }

    async fn finish(&mut self) -> io::Result<()> {
        if let Some(gzip) = self.gzip.take() {
            let rest = gzip.finish()?;
            self.write_plain(&rest).await?;
        }
        if self.chunked {
            self.writer.write_all(b"0\r\n\r\n").await?;
        }
        Ok(())
    }
}

/// Reads further requests until the client closes the connection.
async fn until_gone(mut reader: ReadHalf<'_>, input: &mut Vec<u8>) {
    loop {
        if input.len() >= http::HEAD_LIMIT {
            return core::future::pending().await;
        }
        if !matches!(reader.read_buf(input).await, Ok(1..)) {
            return;
        }
    }
}
