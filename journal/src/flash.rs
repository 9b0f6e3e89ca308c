//! A log in NOR flash.

use core::fmt;

use embedded_storage::nor_flash::{NorFlash, NorFlashError, NorFlashErrorKind};

use super::index::Scanned;
use super::log::Log;
use super::medium::{Area, Medium};

/// The number of bytes that are read at a time for aligned reads, and compared after a write.
const PIECE: usize = 64;

/// A journal in NOR flash: the internal one of a microcontroller, or an external chip.
///
/// It divides a range of the flash into two halves. Objects are appended to one half. When that is full, the other half
/// is erased and the current records are written to it.
///
/// Each time as many bytes as a half were written, one half is erased. Both halves wear evenly, and there is no other
/// wear levelling. A bookmark takes about 30 bytes and arrives every minute. For a half of 64 KiB this means two erases
/// in three days, in addition to those for changes.
///
/// The calls block while the flash is busy. Erasing 4 KiB takes about 50 ms, during which many chips run nothing else.
pub type FlashJournal<F, B> = Log<FlashMedium<F>, Scanned, B>;

impl<F: NorFlash, B: super::Room> FlashJournal<F, B> {
    /// Creates a journal in `len` bytes of a flash from `start` on, with a buffer for one object in its stored form.
    ///
    /// ```
    /// use embedded_storage::nor_flash::NorFlash;
    /// use informer_journal::FlashJournal;
    ///
    /// fn journal<F: NorFlash>(flash: F) -> Option<FlashJournal<F, [u8; 2048]>> {
    ///     FlashJournal::in_flash(flash, 0x8_0000, 128 * 1024, [0; 2048])
    /// }
    /// # let _ = journal::<embedded_storage_none::None>;
    /// # mod embedded_storage_none {
    /// #     use embedded_storage::nor_flash::{ErrorType, NorFlash, NorFlashErrorKind, ReadNorFlash};
    /// #     pub struct None;
    /// #     impl ErrorType for None { type Error = NorFlashErrorKind; }
    /// #     impl ReadNorFlash for None {
    /// #         const READ_SIZE: usize = 1;
    /// #         fn read(&mut self, _: u32, _: &mut [u8]) -> Result<(), NorFlashErrorKind> { Ok(()) }
    /// #         fn capacity(&self) -> usize { 0 }
    /// #     }
    /// #     impl NorFlash for None {
    /// #         const WRITE_SIZE: usize = 4;
    /// #         const ERASE_SIZE: usize = 4096;
    /// #         fn erase(&mut self, _: u32, _: u32) -> Result<(), NorFlashErrorKind> { Ok(()) }
    /// #         fn write(&mut self, _: u32, _: &[u8]) -> Result<(), NorFlashErrorKind> { Ok(()) }
    /// #     }
    /// # }
    /// ```
    ///
    /// Returns `None` if the range is not within the flash, or does not consist of an even number of whole pages. It
    /// also returns `None` if the flash reads in units of more than 64 bytes or writes in units of more than 256.
    #[must_use]
    pub fn in_flash(flash: F, start: u32, len: u32, room: B) -> Option<Self> {
        Some(Self::new(FlashMedium::new(flash, start, len)?, room))
    }
}

/// Two halves of a range of NOR flash, for a [`Log`].
#[derive(Debug)]
pub struct FlashMedium<F> {
    flash: F,
    start: u32,
    /// The size of a half in bytes.
    half: u32,
}

/// The reason why a flash cannot be used.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlashError {
    /// The driver failed.
    Driver(NorFlashErrorKind),
    /// The flash returned other data than was written: a cell is worn out, or was not erased.
    NotThere {
        /// The address in the flash.
        at: u32,
    },
}

impl fmt::Display for FlashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver(kind) => write!(f, "the flash failed: {kind}"),
            Self::NotThere { at } => {
                write!(f, "the flash did not store what was written at {at:#x}")
            }
        }
    }
}

impl core::error::Error for FlashError {}

informer_core::readable_errors!(FlashError);

impl<F: NorFlash> FlashMedium<F> {
    /// Uses `len` bytes of a flash from `start` on. Returns `None` under the conditions of [`FlashJournal::in_flash`].
    pub(crate) fn new(flash: F, start: u32, len: u32) -> Option<Self> {
        let page = u32::try_from(F::ERASE_SIZE).ok()?;
        let end = start.checked_add(len)?;
        let is_in_flash = usize::try_from(end).ok()? <= flash.capacity();
        let is_whole = len > 0 && start.is_multiple_of(page) && len.is_multiple_of(2 * page);
        let is_known =
            PIECE.is_multiple_of(F::READ_SIZE) && 256_usize.is_multiple_of(F::WRITE_SIZE);
        (is_in_flash && is_whole && is_known).then_some(Self {
            flash,
            start,
            half: len / 2,
        })
    }

    /// Consumes the medium and returns the flash.
    pub fn into_flash(self) -> F {
        self.flash
    }

    /// Returns the address in the flash. `at` is within the area.
    fn place(&self, area: Area, at: u64) -> u32 {
        let begin = match area {
            Area::First => self.start,
            Area::Second => self.start + self.half,
        };
        begin + u32::try_from(at).unwrap_or(u32::MAX).min(self.half)
    }

    fn read_at(&mut self, mut at: u32, mut into: &mut [u8]) -> Result<(), FlashError> {
        let unit = u32::try_from(F::READ_SIZE).unwrap_or(1);
        let mut piece = [0; PIECE];
        while !into.is_empty() {
            let before = (at % unit) as usize;
            let len = into.len().min(PIECE - before);
            let whole = (before + len).next_multiple_of(F::READ_SIZE);
            let read = piece.get_mut(..whole).unwrap_or_default();
            let done = self.flash.read(at - at % unit, read);
            done.map_err(|error| FlashError::Driver(error.kind()))?;
            let (now, later) = into.split_at_mut(len);
            now.copy_from_slice(piece.get(before..before + len).unwrap_or_default());
            at += u32::try_from(len).unwrap_or(u32::MAX);
            into = later;
        }
        Ok(())
    }
}

impl<F: NorFlash> Medium for FlashMedium<F> {
    type Error = FlashError;

    fn unit(&self) -> usize {
        F::WRITE_SIZE
    }

    fn capacity(&self) -> u64 {
        self.half.into()
    }

    fn len(&mut self, _area: Area) -> Result<u64, FlashError> {
        Ok(self.half.into())
    }

    fn used(&mut self, area: Area) -> Result<u64, FlashError> {
        let begin = self.place(area, 0);
        let mut end = self.place(area, self.half.into());
        while end > begin {
            let mut piece = [0; PIECE];
            let len = (PIECE as u32).min(end - begin);
            let found = piece.get_mut(..len as usize).unwrap_or_default();
            self.read_at(end - len, found)?;
            if let Some(last) = found.iter().rposition(|byte| *byte != 0xff) {
                return Ok(u64::from(end - len - begin) + last as u64 + 1);
            }
            end -= len;
        }
        Ok(0)
    }

    fn read(&mut self, area: Area, at: u64, into: &mut [u8]) -> Result<(), FlashError> {
        self.read_at(self.place(area, at), into)
    }

    fn write(&mut self, area: Area, at: u64, bytes: &[u8]) -> Result<(), FlashError> {
        let mut at = self.place(area, at);
        let written = self.flash.write(at, bytes);
        written.map_err(|error| FlashError::Driver(error.kind()))?;
        for bytes in bytes.chunks(PIECE) {
            let mut piece = [0; PIECE];
            let found = piece.get_mut(..bytes.len()).unwrap_or_default();
            self.read_at(at, found)?;
            if found != bytes {
                return Err(FlashError::NotThere { at });
            }
            at += u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        }
        Ok(())
    }

    fn clear(&mut self, area: Area) -> Result<(), FlashError> {
        let begin = self.place(area, 0);
        let erased = self.flash.erase(begin, begin + self.half);
        erased.map_err(|error| FlashError::Driver(error.kind()))
    }

    fn cut(&mut self, area: Area, at: u64) -> Result<bool, FlashError> {
        let end = self.place(area, self.half.into());
        let mut place = self.place(area, at);
        while place < end {
            let mut piece = [0; PIECE];
            let len = (PIECE as u32).min(end - place);
            let found = piece.get_mut(..len as usize).unwrap_or_default();
            self.read_at(place, found)?;
            if found.iter().any(|byte| *byte != 0xff) {
                return Ok(false);
            }
            place += len;
        }
        Ok(true)
    }

    fn sync(&mut self, _area: Area) -> Result<(), FlashError> {
        // Each call returns only when the flash has finished.
        Ok(())
    }
}
