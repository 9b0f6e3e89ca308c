//! Compressed bodies like those of the API server: level 1, with one gzip member for a list, and one per flush for a
//! stream.

use alloc::vec::Vec;
use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Lists larger than this are compressed, in bytes.
pub(super) const LARGE: usize = 128 * 1024;

pub(super) enum Gzip {
    Whole(GzEncoder<Vec<u8>>),
    EachFlush,
}

impl Gzip {
    pub(super) fn whole() -> Self {
        Self::Whole(encoder())
    }

    pub(super) const fn each_flush() -> Self {
        Self::EachFlush
    }

    /// Compresses bytes of the body. Returns the data to send now.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Whole(encoder) => {
                encoder.write_all(bytes)?;
                Ok(core::mem::take(encoder.get_mut()))
            }
            Self::EachFlush => {
                let mut encoder = encoder();
                encoder.write_all(bytes)?;
                encoder.finish()
            }
        }
    }

    /// Returns the data to send at the end.
    pub(super) fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Whole(encoder) => encoder.finish(),
            Self::EachFlush => Ok(Vec::new()),
        }
    }
}

fn encoder() -> GzEncoder<Vec<u8>> {
    GzEncoder::new(Vec::new(), Compression::fast())
}
