//! The byte stream between the device and the server.

use embedded_io_async::{ErrorKind, Read, Write};

/// A byte stream to the API server that can be opened repeatedly: a TCP socket, TLS over one, a modem, or a serial line
/// with framing.
///
/// `read` must be cancel-safe: dropping its future before it is ready must not lose data. It returns 0 after the other
/// end has closed the connection, and an error if the connection was cut.
pub trait Link: Read + Write {
    /// Opens a new connection. A connection that was open before is closed and its data discarded.
    ///
    /// # Errors
    /// Fails if there is no connection. `ConnectionRefused` and `TimedOut` are distinguished from other errors.
    #[expect(
        async_fn_in_trait,
        reason = "embassy runs futures on the thread that made them"
    )]
    async fn open(&mut self) -> Result<(), ErrorKind>;

    /// Closes the connection at once, without waiting for the other end. Without a connection it does nothing.
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
