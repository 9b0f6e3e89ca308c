//! A link over a socket of embassy-net.

use core::fmt;

use embassy_net::IpEndpoint;
use embassy_net::tcp::{ConnectError, TcpSocket};
use embedded_io_async::{ErrorKind, ErrorType, Read, Write};

use crate::link::Link;

/// A socket of embassy-net as a [`Link`]: plain TCP to one address.
///
/// Set the socket's timeout and keep-alive. `set_timeout` limits the time to open a connection. Together with
/// `set_keep_alive`, it also detects a dead connection whose reset was lost. Without them, the informer detects a
/// silent server only after 75 s. If the server sends no bookmarks, the first detection takes the whole timeout of the
/// watch.
///
/// ```no_run
/// use embassy_net::{IpEndpoint, Stack, tcp::TcpSocket};
/// use informer_embassy::TcpLink;
///
/// fn link<'a>(stack: Stack<'a>, receive: &'a mut [u8], send: &'a mut [u8], server: IpEndpoint) -> TcpLink<'a> {
///     let mut socket = TcpSocket::new(stack, receive, send);
///     socket.set_timeout(Some(embassy_time::Duration::from_secs(20)));
///     socket.set_keep_alive(Some(embassy_time::Duration::from_secs(10)));
///     TcpLink::new(socket, server)
/// }
/// ```
pub struct TcpLink<'a> {
    socket: TcpSocket<'a>,
    server: IpEndpoint,
}

impl<'a> TcpLink<'a> {
    /// Creates a link over a socket that is not connected.
    #[must_use]
    pub const fn new(socket: TcpSocket<'a>, server: IpEndpoint) -> Self {
        Self { socket, server }
    }
}

impl Link for TcpLink<'_> {
    async fn open(&mut self) -> Result<(), ErrorKind> {
        self.socket.abort();
        // The reset of the previous connection must be sent first.
        let _ = self.socket.flush().await;
        self.socket
            .connect(self.server)
            .await
            .map_err(|error| match error {
                ConnectError::ConnectionReset => ErrorKind::ConnectionRefused,
                ConnectError::TimedOut => ErrorKind::TimedOut,
                ConnectError::NoRoute => ErrorKind::NotConnected,
                ConnectError::InvalidState => ErrorKind::Other,
            })
    }

    fn close(&mut self) {
        self.socket.abort();
    }
}

impl ErrorType for TcpLink<'_> {
    type Error = embassy_net::tcp::Error;
}

impl Read for TcpLink<'_> {
    async fn read(&mut self, buf: &mut [u8]) -> Result<usize, Self::Error> {
        self.socket.read(buf).await
    }
}

impl Write for TcpLink<'_> {
    async fn write(&mut self, buf: &[u8]) -> Result<usize, Self::Error> {
        self.socket.write(buf).await
    }

    async fn flush(&mut self) -> Result<(), Self::Error> {
        // Written bytes are sent without a flush, and waiting for their acknowledgement would cost a round trip.
        Ok(())
    }
}

impl fmt::Debug for TcpLink<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpLink")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}
