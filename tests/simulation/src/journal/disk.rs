//! Two files on a disk with a cache. Data that was not synced may survive, be lost, or survive in part, sector by
//! sector and in any order.

use core::ops::Range;

use informer_journal::{Area, Medium};

use super::power::{Chance, Fate, Off, Power};

/// The unit that a disk usually writes atomically.
const SECTOR: usize = 512;

/// Two files.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    files: [File; 2],
    power: Power,
    full: bool,
}

#[derive(Clone, Debug, Default)]
struct File {
    /// The contents that the process sees.
    seen: Vec<u8>,
    /// The contents that are synced.
    safe: Vec<u8>,
}

impl Disk {
    /// Makes empty files.
    #[must_use]
    pub fn new(power: Power) -> Self {
        Self {
            power,
            ..Self::default()
        }
    }

    /// Makes the disk full, so that half of the data written does not fit, or gives it room again.
    pub const fn fill(&mut self, full: bool) {
        self.full = full;
    }

    /// Returns what is left after a power loss.
    #[must_use]
    pub fn after_loss(mut self, chance: &mut Chance) -> Self {
        for file in &mut self.files {
            file.lose(chance);
        }
        self
    }

    /// Corrupts stored data, as a bad medium or another program does: some bytes, the start of a file, or its last
    /// bytes. A file is never cut at the end of a record, which could not be detected.
    pub fn damage(&mut self, chance: &mut Chance) {
        let longest = usize::from(self.files[1].seen.len() > self.files[0].seen.len());
        let file = &mut self.files[longest];
        let len = file.seen.len();
        if len == 0 {
            return;
        }
        match chance.below(4) {
            // Shorter than any record.
            0 => file.seen.truncate(len.saturating_sub(1 + chance.place(11))),
            1 => {
                let end = len.min(64);
                file.seen[..end].fill(0xa5);
            }
            _ => {
                let at = chance.place(len);
                let end = (at + 1 + chance.place(SECTOR)).min(len);
                file.seen[at..end].iter_mut().for_each(|byte| *byte ^= 0x5a);
            }
        }
        file.safe.clone_from(&file.seen);
    }

    fn file(&mut self, area: Area) -> &mut File {
        &mut self.files[area as usize]
    }

    /// Performs an operation completely or in part.
    fn run(
        &mut self,
        whole: impl FnOnce(&mut Self),
        part: impl FnOnce(&mut Self),
    ) -> Result<(), Off> {
        match self.power.spend() {
            Fate::Done => {
                whole(self);
                Ok(())
            }
            Fate::Torn => {
                part(self);
                Err(Off)
            }
            Fate::Dead => Err(Off),
        }
    }
}

impl File {
    fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.seen.len() < end {
            self.seen.resize(end, 0);
        }
        self.seen[at..end].copy_from_slice(bytes);
    }

    /// Each sector that was not synced has its new or its old contents, or the new ones up to a place and the old
    /// ones after it. Parts never written are zeros or garbage. The length is between the old and the new one.
    fn lose(&mut self, chance: &mut Chance) {
        let (seen, safe) = (
            core::mem::take(&mut self.seen),
            core::mem::take(&mut self.safe),
        );
        let longest = seen.len().max(safe.len());
        let mut left = Vec::with_capacity(longest);
        for start in (0..longest).step_by(SECTOR) {
            let range = start..(start + SECTOR).min(longest);
            let (new, old) = (sector(&seen, &range, chance), sector(&safe, &range, chance));
            let torn = match chance.below(4) {
                _ if new == old => 0,
                0 => 0,
                1 => chance.place(range.len() + 1),
                _ => range.len(),
            };
            left.extend_from_slice(&new[..torn]);
            left.extend_from_slice(&old[torn..]);
        }
        let shortest = seen.len().min(safe.len());
        left.truncate(match chance.below(4) {
            0 => safe.len(),
            1 => shortest + chance.place(longest - shortest + 1),
            _ => seen.len(),
        });
        self.safe.clone_from(&left);
        self.seen = left;
    }
}

/// Returns the bytes of a sector, padded with zeros or garbage.
fn sector(bytes: &[u8], range: &Range<usize>, chance: &mut Chance) -> Vec<u8> {
    let start = range.start.min(bytes.len());
    let mut sector = bytes[start..range.end.min(bytes.len())].to_vec();
    let fill = if chance.one_in(3) { 0xa5 } else { 0 };
    sector.resize(range.len(), fill);
    sector
}

fn place(at: u64) -> usize {
    usize::try_from(at).expect("the files are small")
}

impl Medium for Disk {
    type Error = Off;

    fn unit(&self) -> usize {
        1
    }

    fn capacity(&self) -> u64 {
        u64::MAX
    }

    fn len(&mut self, area: Area) -> Result<u64, Off> {
        Ok(self.file(area).seen.len() as u64)
    }

    fn read(&mut self, area: Area, at: u64, into: &mut [u8]) -> Result<(), Off> {
        let (at, len) = (place(at), into.len());
        into.copy_from_slice(&self.file(area).seen[at..at + len]);
        Ok(())
    }

    fn write(&mut self, area: Area, at: u64, bytes: &[u8]) -> Result<(), Off> {
        let at = place(at);
        if self.full {
            self.file(area).write(at, &bytes[..bytes.len() / 2]);
            return Err(Off);
        }
        self.run(
            |disk| disk.file(area).write(at, bytes),
            |disk| disk.file(area).write(at, &bytes[..bytes.len() / 2]),
        )
    }

    fn clear(&mut self, area: Area) -> Result<(), Off> {
        self.run(|disk| disk.file(area).seen.clear(), |_| ())
    }

    fn cut(&mut self, area: Area, at: u64) -> Result<bool, Off> {
        let at = place(at);
        if self.file(area).seen.len() > at {
            self.run(|disk| disk.file(area).seen.truncate(at), |_| ())?;
        }
        Ok(true)
    }

    fn sync(&mut self, area: Area) -> Result<(), Off> {
        self.run(
            |disk| {
                let file = disk.file(area);
                file.safe.clone_from(&file.seen);
            },
            |_| (),
        )
    }

    fn free(&mut self, area: Area) -> Result<(), Off> {
        self.clear(area)
    }
}
