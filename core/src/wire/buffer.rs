//! Buffers of fixed or growing size.

/// A buffer for a frame that is split between two pieces of input.
pub trait FrameBuffer: Default {
    /// Appends `bytes`, all of them or none.
    ///
    /// # Errors
    ///
    /// Fails if the buffer would exceed [`limit`](Self::limit) bytes.
    #[allow(clippy::result_unit_err)] // There is one reason to fail, and the caller knows it.
    fn extend(&mut self, bytes: &[u8]) -> Result<(), ()>;

    /// Returns the contents.
    fn as_slice(&self) -> &[u8];

    /// Removes the bytes from `start` to `end`, and moves the following ones forward.
    fn remove(&mut self, start: usize, end: usize);

    /// Removes all bytes. Memory that only a rare large frame needed should be released.
    fn clear(&mut self);

    /// Sets the limit in bytes.
    fn set_limit(&mut self, limit: usize);

    /// Returns the effective limit in bytes: the one that was set, or less if the storage is smaller.
    fn limit(&self) -> usize;
}

/// Writes text into a buffer, all of it or nothing.
pub(crate) struct Appender<'a, B>(pub(crate) &'a mut B);

impl<B: FrameBuffer> core::fmt::Write for Appender<'_, B> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.0
            .extend(text.as_bytes())
            .map_err(|()| core::fmt::Error)
    }
}
