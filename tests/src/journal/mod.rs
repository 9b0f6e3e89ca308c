//! A persisted cache whose power goes at any moment: media that lose what they may lose, and a process that starts anew on
//! what is left, against the history of a server.

pub mod disk;
pub mod flash;
pub mod power;
pub mod process;

use informer_core::journal::{FlashJournal, Keys, Log};

use disk::Disk;
use flash::{Flash, PAGE};
use power::{Chance, Power};
use process::{Ran, run};

/// How many pages a journal has in the flash, behind one that belongs to somebody else.
const PAGES: usize = 28;

/// Runs processes on two files, until the power has gone so often.
///
/// # Errors
/// What was not as it should be.
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

/// Runs processes on a flash, until the power has gone so often.
///
/// # Errors
/// What was not as it should be.
///
/// # Panics
/// Where the flash is too small for what is in this file.
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
