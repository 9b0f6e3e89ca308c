//! Compressed bodies, as the API server makes them: level 1, a list as one member, a stream as one for each flush.

use alloc::vec::Vec;
use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Lists beyond this are compressed, in bytes.
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

    /// Takes bytes of the body; returns what is to be sent now.
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

    /// Returns what is to be sent at the end.
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
