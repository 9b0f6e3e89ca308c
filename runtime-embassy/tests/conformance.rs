//! The conformance suite for transports: over an in-memory link with any split, and over TCP.
#![allow(
    clippy::unwrap_used,
    clippy::std_instead_of_core,
    reason = "a test may"
)]

mod support;

use embedded_io_async::{ErrorKind, ErrorType, Read, Write};
use informer_embassy::{Anonymous, Connection, Link};
use informer_mock::{conformance, serve};
use support::ServerLink;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[tokio::test(start_paused = true)]
async fn it_conforms_at_any_split() {
    for step in [1, 19, 4096] {
        let verdict = conformance::check(async |server| {
            let (link, _) = ServerLink::new(server.transport(), step);
            // A transport borrows its connection, which on a device is in a static.
            let connection: &'static Connection<_, _, 512> =
                Box::leak(Box::new(Connection::new(link, "mock:1", Anonymous)));
            connection.transport().unwrap()
        });
        verdict.await.assert();
    }
}

#[tokio::test]
async fn it_conforms_over_tcp() {
    let verdict = conformance::check(async |server| {
        let serving = serve(server, "127.0.0.1:0").await.unwrap();
        let address = serving.local_addr().to_string();
        tokio::spawn(serving.run());
        let connection: &'static Connection<_, _, 512> = Box::leak(Box::new(Connection::new(
            Tcp(address, None),
            "mock:1",
            Anonymous,
        )));
        connection.transport().unwrap()
    });
    verdict.await.assert();
}

struct Tcp(String, Option<TcpStream>);

impl Tcp {
    fn stream(&mut self) -> Result<&mut TcpStream, ErrorKind> {
        self.1.as_mut().ok_or(ErrorKind::NotConnected)
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the rest is one class")]
fn lost(error: std::io::Error) -> ErrorKind {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => ErrorKind::ConnectionRefused,
        std::io::ErrorKind::ConnectionReset => ErrorKind::ConnectionReset,
        std::io::ErrorKind::BrokenPipe => ErrorKind::BrokenPipe,
        _ => ErrorKind::Other,
    }
}

impl Link for Tcp {
    async fn open(&mut self) -> Result<(), ErrorKind> {
        let stream = TcpStream::connect(&self.0).await.map_err(lost)?;
        self.1 = Some(stream);
        Ok(())
    }

    fn close(&mut self) {
        self.1 = None;
    }
}

impl ErrorType for Tcp {
    type Error = ErrorKind;
}

impl Read for Tcp {
    async fn read(&mut self, buf: &mut [u8]) -> Result<usize, ErrorKind> {
        self.stream()?.read(buf).await.map_err(lost)
    }
}

impl Write for Tcp {
    async fn write(&mut self, buf: &[u8]) -> Result<usize, ErrorKind> {
        self.stream()?.write(buf).await.map_err(lost)
    }

    async fn flush(&mut self) -> Result<(), ErrorKind> {
        Ok(())
    }
}
