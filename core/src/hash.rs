//! Hashes that stay the same across runs, builds and replicas.

use core::fmt;

/// The 64-bit FNV-1a of the texts that are written.
pub(crate) struct Fnv(u64);

impl Fnv {
    pub(crate) const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// A hash whose value is 0 until something is added.
    #[cfg(feature = "alloc")]
    pub(crate) const fn zero() -> Self {
        Self(0)
    }

    /// Returns the hash of what `write` writes.
    pub(crate) fn of<T>(write: impl FnOnce(&mut Self) -> Result<T, fmt::Error>) -> u64 {
        let mut hash = Self::new();
        // Writing to a hash cannot fail.
        let _ = write(&mut hash);
        hash.value()
    }

    pub(crate) const fn value(&self) -> u64 {
        self.0
    }

    pub(crate) fn add(&mut self, text: &str) {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl fmt::Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text);
        Ok(())
    }
}
