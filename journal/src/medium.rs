//! Media: the storage under a log.

/// One of the two areas of a medium. One is written to, and the other is the target of compaction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Area {
    /// The first area.
    First,
    /// The second area.
    Second,
}

impl Area {
    /// Returns the other area.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

/// Two areas of bytes, such as two files or two halves of a flash. Each is written from start to end, and cleared as a
/// whole.
///
/// After a power loss, unsynced bytes may be present completely, partly or not at all, in any order; the log detects
/// this. Synced bytes must be present.
pub trait Medium {
    /// The reason why the medium cannot be read or written.
    type Error: core::fmt::Display + core::fmt::Debug;

    /// Returns the unit of writing in bytes: writes begin and end at multiples of it. It must divide 256.
    fn unit(&self) -> usize;

    /// Returns the capacity of an area in bytes.
    fn capacity(&self) -> u64;

    /// Returns the number of readable bytes of an area.
    ///
    /// # Errors
    /// Fails if the length cannot be determined.
    fn len(&mut self, area: Area) -> Result<u64, Self::Error>;

    /// Returns the end of the written part of an area. It is less than [`len`](Self::len) if unwritten bytes can be
    /// read and recognized, as in an erased flash. It is used to report how much was lost.
    ///
    /// # Errors
    /// Fails if the end cannot be determined.
    fn used(&mut self, area: Area) -> Result<u64, Self::Error> {
        self.len(area)
    }

    /// Returns whether an area is empty.
    ///
    /// # Errors
    /// Fails if the length cannot be determined.
    fn is_empty(&mut self, area: Area) -> Result<bool, Self::Error> {
        Ok(self.len(area)? == 0)
    }

    /// Reads bytes within the length of an area.
    ///
    /// # Errors
    /// Fails if they cannot be read.
    fn read(&mut self, area: Area, at: u64, into: &mut [u8]) -> Result<(), Self::Error>;

    /// Reads a few bytes when the following ones are not needed next. The default calls [`read`](Self::read).
    ///
    /// # Errors
    /// Fails if they cannot be read.
    fn peek(&mut self, area: Area, at: u64, into: &mut [u8]) -> Result<(), Self::Error> {
        self.read(area, at, into)
    }

    /// Lends bytes within the length of an area if the medium has them in memory. The default returns `None`.
    ///
    /// # Errors
    /// Fails if they cannot be read.
    fn lend(&mut self, area: Area, at: u64, len: usize) -> Result<Option<&[u8]>, Self::Error> {
        let _ = (area, at, len);
        Ok(None)
    }

    /// Writes bytes. Each place is written once until the area is cleared.
    ///
    /// # Errors
    /// Fails if they cannot be written, or if the medium detects that they were not stored.
    fn write(&mut self, area: Area, at: u64, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Clears an area, so that it can be written from its start.
    ///
    /// # Errors
    /// Fails if it cannot be cleared.
    fn clear(&mut self, area: Area) -> Result<(), Self::Error>;

    /// Clears an area from a place on. Returns false if the area has data there and can only be cleared as a whole.
    ///
    /// # Errors
    /// Fails if it cannot be cleared.
    fn cut(&mut self, area: Area, at: u64) -> Result<bool, Self::Error>;

    /// Called after a version was written. From here on, all earlier bytes should outlive the process.
    ///
    /// # Errors
    /// Fails if buffered bytes cannot be written.
    fn commit(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Waits until all changes to an area would survive a power loss.
    ///
    /// # Errors
    /// Fails if this cannot be ensured.
    fn sync(&mut self, area: Area) -> Result<(), Self::Error>;

    /// Called when the contents of an area are no longer needed, so that the medium can release the space.
    ///
    /// # Errors
    /// Fails if the space cannot be released.
    fn free(&mut self, area: Area) -> Result<(), Self::Error> {
        let _ = area;
        Ok(())
    }
}

/// A buffer for the bytes of one object.
pub trait Room {
    /// Returns a buffer of `len` bytes, or `None` if there is not enough room.
    fn room(&mut self, len: usize) -> Option<&mut [u8]>;
}

impl<const N: usize> Room for [u8; N] {
    fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        self.get_mut(..len)
    }
}

impl Room for &mut [u8] {
    fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        self.get_mut(..len)
    }
}

#[cfg(feature = "alloc")]
impl Room for alloc::vec::Vec<u8> {
    fn room(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.len() < len {
            self.resize(len, 0);
        }
        self.get_mut(..len)
    }
}
