//! The journal of one source.

use core::time::Duration;
use std::path::PathBuf;

use informer_journal::{FileError, FileJournal, Identity, LogError, RecordLog as _};

/// Its files and its identity.
#[derive(Clone)]
pub(crate) struct SourceJournal {
    pub(super) path: PathBuf,
    pub(crate) identity: Identity,
    pub(super) sync_every: Duration,
}

impl SourceJournal {
    pub(crate) fn open(&self) -> Result<FileJournal, FileError> {
        FileJournal::open(&self.path)
    }

    /// Starts an area and syncs it. This leaves the state of the other area intact, and shows whether the files can be
    /// written again.
    pub(super) fn probe(&self, log: &mut Option<FileJournal>) -> Result<(), LogError<FileError>> {
        let log = match log {
            Some(log) => log,
            None => {
                let mut opened = self.open()?;
                // This determines which area is valid. The cache already has newer objects than the journal.
                opened.load(&self.identity, &mut |_| (), &mut |_| ())?;
                log.insert(opened)
            }
        };
        log.restart()?;
        log.sync()
    }
}
