//! A minimal server: a listener, and bytes written by the test.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::std_instead_of_alloc,
    reason = "each test uses a part of it"
)]

pub mod tls;

use core::future::ready;

use informer_core::transport::{FailureKind, Get, TransportError};
use informer_core::{Body, Head, Transport};
use informer_hyper::{HyperBody, HyperBuilder, HyperError, HyperTransport};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub type Answer = Result<(Head, HyperBody), HyperError>;

/// Listens on a free port of this machine.
pub struct Server {
    listener: TcpListener,
    pub port: u16,
}

impl Server {
    pub async fn start() -> Self {
        Self::start_at("127.0.0.1").await
    }

    pub async fn start_at(host: &str) -> Self {
        let listener = TcpListener::bind((host, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        Self { listener, port }
    }

    pub fn builder(&self) -> HyperBuilder {
        HyperTransport::builder(format!("http://127.0.0.1:{}", self.port))
    }

    pub fn transport(&self) -> HyperTransport {
        self.builder().build().unwrap()
    }

    /// Responds to the request of a new client with these bytes.
    pub async fn answer(&self, bytes: impl AsRef<[u8]>) -> (HyperBody, Peer<TcpStream>) {
        answer(&mut self.transport(), self, bytes).await
    }

    pub async fn accept_tcp(&self) -> TcpStream {
        self.listener.accept().await.unwrap().0
    }

    pub async fn accept(&self) -> Peer<TcpStream> {
        Peer(self.accept_tcp().await)
    }
}

/// A server, and a transport to it.
pub async fn started() -> (Server, HyperTransport) {
    let server = Server::start().await;
    let transport = server.transport();
    (server, transport)
}

/// The server's end of a connection. Dropping it closes the connection.
pub struct Peer<S>(pub S);

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    /// Reads the head of a request.
    pub async fn request(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.0.read_u8().await.unwrap());
        }
        String::from_utf8(head).unwrap()
    }

    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
        self.0.flush().await.unwrap();
    }

    /// Responds to one request with a complete body.
    pub async fn serve(&mut self, body: &str) -> String {
        let request = self.request().await;
        self.write(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
        request
    }

    /// Waits until the client has closed the connection.
    pub async fn closed(&mut self) {
        let mut rest = Vec::new();
        let _ = self.0.read_to_end(&mut rest).await;
        assert_eq!(rest, b"");
    }
}

/// Sends a request to a new connection and lets `serve` act on it.
pub async fn first<F: Future<Output = Peer<TcpStream>>>(
    transport: &mut HyperTransport,
    server: &Server,
    serve: impl FnOnce(Peer<TcpStream>) -> F,
) -> (Answer, Peer<TcpStream>) {
    tokio::join!(transport.send(Get::new("/x")), async {
        serve(server.accept().await).await
    })
}

/// Sends a request on a new connection, and responds with these bytes.
pub async fn answered(
    transport: &mut HyperTransport,
    server: &Server,
    bytes: impl AsRef<[u8]>,
) -> (Answer, Peer<TcpStream>) {
    first(transport, server, |mut peer| async {
        peer.request().await;
        peer.write(bytes).await;
        peer
    })
    .await
}

/// The same, returning only the body.
pub async fn answer(
    transport: &mut HyperTransport,
    server: &Server,
    bytes: impl AsRef<[u8]>,
) -> (HyperBody, Peer<TcpStream>) {
    let (answer, peer) = answered(transport, server, bytes).await;
    (answer.unwrap().1, peer)
}

/// Gets a complete body on a new connection, and returns the server's end of it.
pub async fn whole(transport: &mut HyperTransport, server: &Server) -> Peer<TcpStream> {
    let (answer, peer) = first(transport, server, |mut peer| async {
        peer.serve("first").await;
        peer
    })
    .await;
    assert_eq!(read(answer).await.unwrap(), "first");
    peer
}

/// Sends another request. The server accepts no further connections, so it must use the existing one.
pub async fn is_reused<S: AsyncRead + AsyncWrite + Unpin>(
    transport: &mut HyperTransport,
    peer: &mut Peer<S>,
) {
    let (answer, _) = tokio::join!(transport.send(Get::new("/y")), peer.serve("again"));
    assert_eq!(read(answer).await.unwrap(), "again");
}

/// Checks the class of an error, and whether it is of a connection that had been used.
#[track_caller]
pub fn failed_as(error: &HyperError, kind: FailureKind, was_used: bool) {
    let found = (error.kind(), error.connection_was_used());
    assert_eq!(found, (kind, was_used), "{error}");
}

/// Reads a body to its end.
pub async fn read(answer: Answer) -> Result<String, HyperError> {
    let (_, mut body) = answer?;
    let mut all = Vec::new();
    while let Some(chunk) = body.chunk().await? {
        all.extend_from_slice(chunk);
    }
    Ok(String::from_utf8(all).unwrap())
}

/// The same, and counts how often a wait for a chunk was abandoned, which happens each time none is available at once.
pub async fn read_abandoning(body: &mut HyperBody) -> (Vec<u8>, u32) {
    let (mut all, mut abandoned) = (Vec::new(), 0);
    loop {
        tokio::select! {
            biased;
            chunk = body.chunk() => match chunk.unwrap() {
                Some(chunk) => all.extend_from_slice(chunk),
                None => return (all, abandoned),
            },
            () = ready(()) => abandoned += 1,
        }
        tokio::task::yield_now().await;
    }
}

/// Writes in small pieces, in step with the reader, so that it repeatedly runs out of data.
pub async fn write_in_steps(peer: &mut Peer<TcpStream>, bytes: &[u8]) {
    for piece in bytes.chunks(13) {
        peer.write(piece).await;
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
    }
}

/// Lets the runtime process all socket events so far, in the order in which they happened.
pub async fn settle() {
    let server = Server::start().await;
    let connecting = TcpStream::connect(("127.0.0.1", server.port));
    let (client, mut peer) = tokio::join!(connecting, server.accept());
    peer.write("x").await;
    client.unwrap().read_u8().await.unwrap();
}
