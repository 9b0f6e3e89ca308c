//! A persisted cache that loses power at any moment: media that lose all they are allowed to lose, and a process that
//! restarts on the rest, checked against the history of a server.

pub mod disk;
pub mod flash;
pub mod power;
pub mod process;

use informer_journal::{FlashJournal, Keys, Log};

use disk::Disk;
use flash::{Flash, PAGE};
use power::{Chance, Power};
use process::{Ran, run};

/// The number of the journal's pages in the flash, after a page that belongs to something else.
const PAGES: usize = 28;

/// Runs processes on two files through `crashes` power losses.
///
/// # Errors
/// A description of what was wrong.
pub fn on_disk(seed: u64, crashes: usize) -> Result<Ran, String> {
    let power = Power::default();
    run(
        seed,
        crashes,
        &power,
        Disk::new(power.clone()),
        |disk| Log::<_, Keys, _>::new(disk, Vec::new()),
        |log, chance| log.into_medium().after_loss(chance),
    )
}

/// Runs processes on a flash through `crashes` power losses.
///
/// # Errors
/// A description of what was wrong.
///
/// # Panics
/// If the flash is too small for the pages defined in this module.
pub fn on_flash(seed: u64, crashes: usize) -> Result<Ran, String> {
    let power = Power::default();
    run(
        seed,
        crashes,
        &power,
        Flash::new(PAGES + 1, power.clone(), Chance::new(!seed)),
        |flash| {
            FlashJournal::in_flash(flash, PAGE as u32, (PAGES * PAGE) as u32, [0; 1024])
                .expect("the range is in the flash")
        },
        |log, _| log.into_medium().into_flash(),
    )
}
