//! Where a log is kept.

/// One of the two areas of a medium. One is written to, and the other is what it is compacted into.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Area {
    /// The first one.
    First,
    /// The second one.
    Second,
}

impl Area {
    /// Returns the other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }

    /// Returns its number.
    #[must_use]
    pub const fn number(self) -> usize {
        match self {
            Self::First => 0,
            Self::Second => 1,
        }
    }
}

/// Two areas of bytes: two files, two halves of a flash. Each is written from its begin to its end, and emptied as a whole.
///
/// After a loss of power what was not synced may be there, in part or not at all, in any order: the log finds out. What
/// was synced has to be there.
pub trait Medium {
    /// Why it cannot be read or written.
    type Error: core::fmt::Display + core::fmt::Debug;

    /// Returns how many bytes are written at a time: what is written begins and ends at a multiple of it. It divides 256.
    fn unit(&self) -> usize;

    /// Returns for how many bytes an area has room.
    fn capacity(&self) -> u64;

    /// Returns how many bytes of an area can be read.
    ///
    /// # Errors
    /// Fails where that cannot be found out.
    fn len(&mut self, area: Area) -> Result<u64, Self::Error>;

    /// Returns up to where an area was written: less than [`len`](Self::len) where unwritten bytes can be read and told
    /// from others, as those of an erased flash. It serves to say how much was lost.
    ///
    /// # Errors
    /// Fails where that cannot be found out.
    fn used(&mut self, area: Area) -> Result<u64, Self::Error> {
        self.len(area)
    }

    /// Tells whether an area has no byte.
    ///
    /// # Errors
    /// Fails where that cannot be found out.
    fn is_empty(&mut self, area: Area) -> Result<bool, Self::Error> {
        Ok(self.len(area)? == 0)
    }

    /// Reads bytes that are within the length of an area.
    ///
    /// # Errors
    /// Fails where they cannot be read.
    fn read(&mut self, area: Area, at: u64, into: &mut [u8]) -> Result<(), Self::Error>;

    /// Reads a few bytes of which those that follow are not wanted next. Left out, it is [`read`](Self::read).
    ///
    /// # Errors
    /// Fails where they cannot be read.
    fn peek(&mut self, area: Area, at: u64, into: &mut [u8]) -> Result<(), Self::Error> {
        self.read(area, at, into)
    }

    /// Lends bytes that are within the length of an area, where it has them in memory anyway. Left out, it lends none.
    ///
    /// # Errors
    /// Fails where they cannot be read.
    fn lend(&mut self, area: Area, at: u64, len: usize) -> Result<Option<&[u8]>, Self::Error> {
        let _ = (area, at, len);
        Ok(None)
    }

    /// Writes bytes, each place once until the area is cleared.
    ///
    /// # Errors
    /// Fails where they cannot be written, or where it is seen that they are not there.
    fn write(&mut self, area: Area, at: u64, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Empties an area, so that it can be written to from its begin.
    ///
    /// # Errors
    /// Fails where it cannot be emptied.
    fn clear(&mut self, area: Area) -> Result<(), Self::Error>;

    /// Empties an area from a place on; returns false where only the whole can be emptied and something is there.
    ///
    /// # Errors
    /// Fails where it cannot be emptied.
    fn cut(&mut self, area: Area, at: u64) -> Result<bool, Self::Error>;

    /// Hears that a version was written behind what came before: from here on it should outlive the process.
    ///
    /// # Errors
    /// Fails where what was gathered cannot be written.
    fn commit(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Waits until what was done with an area would outlive a loss of power.
    ///
    /// # Errors
    /// Fails where that cannot be had.
    fn sync(&mut self, area: Area) -> Result<(), Self::Error>;

    /// Hears that what is in an area is not needed any more, where room can be given back.
    ///
    /// # Errors
    /// Fails where it cannot be given back.
    fn free(&mut self, area: Area) -> Result<(), Self::Error> {
        let _ = area;
        Ok(())
    }
}

/// Room for the bytes of one object.
pub trait Room {
    /// Lends room for so many bytes, or nothing where there is not so much.
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
