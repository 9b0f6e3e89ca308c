//! What is between the device and the server.

use embedded_io_async::{ErrorKind, Read, Write};

/// A way to the API server that can be opened again and again: a TCP socket, TLS over one, a modem, a serial line with
/// framing.
///
/// `read` has to be cancel-safe: where its future is dropped before it is ready, no byte is lost. It returns 0 where the
/// other end has closed, and an error where the connection was cut.
pub trait Link: Read + Write {
    /// Opens a new connection. Whatever was open before is gone, with all that came of it.
    ///
    /// # Errors
    /// Fails where there is no connection; `ConnectionRefused` and `TimedOut` are told apart from the rest.
    #[expect(
        async_fn_in_trait,
        reason = "embassy runs futures on the thread that made them"
    )]
    async fn open(&mut self) -> Result<(), ErrorKind>;

    /// Closes the connection at once, without waiting for the other end. Where there is none, it does nothing.
    fn close(&mut self);
}

impl<L: Link> Link for &mut L {
    async fn open(&mut self) -> Result<(), ErrorKind> {
        L::open(self).await
    }

    fn close(&mut self) {
        L::close(self);
    }
}
