//! A NOR flash that loses power. If a word is being programmed, some of its bits are cleared; if a page is being
//! erased, some of its bits are set.

use embedded_storage::nor_flash::{
    ErrorType, NorFlash, NorFlashErrorKind, ReadNorFlash, check_erase, check_read, check_write,
};

use super::power::{Chance, Fate, Power};

/// The bytes of a page. Real flash has 4096, which would make tests slower.
pub const PAGE: usize = 512;
const WORD: usize = 8;

/// A flash of several pages.
#[derive(Clone, Debug)]
pub struct Flash {
    bytes: Vec<u8>,
    power: Power,
    chance: Chance,
    /// The number of page erasures.
    pub erased: u64,
}

impl Flash {
    /// Makes a flash with this many pages and arbitrary old contents.
    #[must_use]
    pub fn new(pages: usize, power: Power, mut chance: Chance) -> Self {
        let bytes = (0..pages * PAGE).map(|_| chance.below(256) as u8).collect();
        Self {
            bytes,
            power,
            chance,
            erased: 0,
        }
    }

    /// Programs a word, which only clears bits. A torn write clears only some of them.
    fn program(&mut self, at: usize, word: &[u8], is_torn: bool) -> bool {
        for (place, new) in self.bytes[at..at + word.len()].iter_mut().zip(word) {
            if *place & *new != *new {
                return false;
            }
            let reached = if is_torn {
                self.chance.below(256) as u8
            } else {
                0
            };
            *place &= *new | reached;
        }
        true
    }
}

impl ErrorType for Flash {
    type Error = NorFlashErrorKind;
}

impl ReadNorFlash for Flash {
    const READ_SIZE: usize = 4;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), NorFlashErrorKind> {
        check_read(self, offset, bytes.len())?;
        let at = offset as usize;
        bytes.copy_from_slice(&self.bytes[at..at + bytes.len()]);
        Ok(())
    }

    fn capacity(&self) -> usize {
        self.bytes.len()
    }
}

impl NorFlash for Flash {
    const WRITE_SIZE: usize = WORD;
    const ERASE_SIZE: usize = PAGE;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), NorFlashErrorKind> {
        check_erase(self, from, to)?;
        for page in (from as usize..to as usize).step_by(PAGE) {
            let fate = self.power.spend();
            let page = page..page + PAGE;
            match fate {
                Fate::Done => self.bytes[page].fill(0xff),
                Fate::Torn => {
                    for place in page {
                        self.bytes[place] |= match self.chance.below(3) {
                            0 => 0,
                            1 => 0xff,
                            _ => self.chance.below(256) as u8,
                        };
                    }
                    return Err(NorFlashErrorKind::Other);
                }
                Fate::Dead => return Err(NorFlashErrorKind::Other),
            }
            self.erased += 1;
        }
        Ok(())
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), NorFlashErrorKind> {
        check_write(self, offset, bytes.len())?;
        let fate = self.power.spend();
        let words = bytes.len() / WORD;
        let whole = match fate {
            Fate::Done => words,
            Fate::Torn => self.chance.place(words),
            Fate::Dead => return Err(NorFlashErrorKind::Other),
        };
        for (number, word) in bytes.chunks(WORD).enumerate().take(whole + 1) {
            let at = offset as usize + number * WORD;
            // A word must not be programmed twice.
            if !self.program(at, word, number == whole) {
                return Err(NorFlashErrorKind::Other);
            }
        }
        if fate == Fate::Torn {
            return Err(NorFlashErrorKind::Other);
        }
        Ok(())
    }
}
