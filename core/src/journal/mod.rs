//! The persisted cache: what a cache shows, kept where it outlives the process.
//!
//! A [`Journal`] is a log of records: an object, a deletion, and, after them, the version that was reached with them. What
//! follows the last version is not taken when it is loaded, so a cache that is restored shows a state that the server
//! really had, whenever the power went. A [`Log`] is one over a [`Medium`]: `FileMedium` with the feature `std`,
//! `FlashMedium` with the feature `embedded-storage`, or one of your own. A [`Recorder`] writes what a reflector brings
//! and restores it; `docs/JOURNAL.md` has the format and what it promises.

mod crc;
#[cfg(feature = "std")]
mod file;
#[cfg(feature = "embedded-storage")]
mod flash;
mod format;
mod identity;
mod index;
mod log;
mod medium;
mod recorder;
mod retry;
#[cfg(test)]
mod tests;

#[cfg(feature = "std")]
pub use file::{FileError, FileJournal, FileMedium};
#[cfg(feature = "embedded-storage")]
pub use flash::{FlashError, FlashJournal, FlashMedium};
pub use identity::Identity;
#[cfg(feature = "alloc")]
pub use index::Keys;
pub use index::{Index, Scanned};
pub use log::{Log, LogError};
pub use medium::{Area, Medium, Room};
pub use recorder::Recorder;
pub use retry::Retry;

pub use crate::cache::{Reached, Record, Recording};
pub use crate::reflector::Restored;
pub use crate::report::{Loss, Lost, Mismatch};

use core::fmt;

/// A persisted cache: a log of what was learnt of the objects of one source, and of the versions reached with it.
///
/// ```
/// use informer_core::{Resource, journal::{FileJournal, Identity, Journal, Loaded, Reached, Record}};
///
/// # let dir = std::env::temp_dir().join(format!("informer-journal-{}", std::process::id()));
/// let pods = Resource::new("", "v1", "pods");
/// let identity = Identity::new("edge-7", &pods, 0);
/// let mut journal = FileJournal::open(&dir)?;
/// assert!(matches!(journal.load(&identity, &mut |_| (), &mut |_| ())?, Loaded::Empty));
/// journal.append(Record::Put { key: "prod/web", object: br#"{"metadata":{"name":"web"}}"# })?;
/// journal.append(Record::Version(Reached::new("7")))?;
/// journal.append(Record::Delete { key: "prod/web" })?; // Nobody has said yet which version that is.
/// journal.sync()?;
/// drop(journal);
///
/// let (mut keys, mut dropped) = (Vec::new(), 0);
/// let found = FileJournal::open(&dir)?.load(
///     &identity,
///     &mut |record| {
///         if let Record::Put { key, .. } = record {
///             keys.push(key.to_owned());
///         }
///     },
///     &mut |lost| dropped += lost.records,
/// )?;
/// assert!(matches!(found, Loaded::Restored));
/// assert_eq!(keys, ["prod/web"]);
/// assert_eq!(dropped, 1);
/// # for area in ["0", "1"] { std::fs::remove_file(format!("{}.{area}", dir.display()))?; }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Journal {
    /// Why it cannot be read or written.
    type Error: fmt::Display + fmt::Debug;

    /// Reads what is there for this identity, and hands it over in order, a [`Record::Version`] last: an object may be put
    /// again or deleted after it was put. What is written from now on is of this identity.
    ///
    /// Each part of the journal that is not handed over goes to `lost`, with the reason, so that no start drops anything
    /// silently. What is handed over is a state of the server nevertheless: a journal never hands over records that are
    /// damaged, or that follow damage.
    ///
    /// # Errors
    /// Fails where it cannot be read.
    fn load(
        &mut self,
        identity: &Identity,
        take: &mut dyn FnMut(Record<'_>),
        lost: &mut dyn FnMut(Lost),
    ) -> Result<Loaded, Self::Error>;

    /// Adds a record. What was added since the last [`Record::Version`] counts only with the next one.
    ///
    /// # Errors
    /// Fails where it cannot be written, and from then on every time until [`Journal::restart`]. What is there stays as it
    /// was at the last version.
    fn append(&mut self, record: Record<'_>) -> Result<(), Self::Error>;

    /// Waits until what was added would outlive a loss of power.
    ///
    /// # Errors
    /// Fails where that cannot be had.
    fn sync(&mut self) -> Result<(), Self::Error>;

    /// Writes it anew without what is superseded. A journal does it by itself where it has to.
    ///
    /// # Errors
    /// Fails where it cannot be written; what is there stays as it was at the last version.
    fn compact(&mut self) -> Result<(), Self::Error>;

    /// Tells whether it failed since [`Journal::restart`] without an error from [`Journal::append`]: a journal that writes on
    /// another thread. The next list then begins it anew.
    fn has_failed(&self) -> bool {
        false
    }

    /// Begins anew, with nothing: what is there stays until the next version is added. It mends a journal that could not be
    /// written.
    ///
    /// # Errors
    /// Fails where it cannot be written.
    fn restart(&mut self) -> Result<(), Self::Error>;
}

/// What a journal had to give.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Loaded {
    /// Nothing.
    Empty,
    /// A state of another identity, which was not handed over. It stays until a version is added.
    Refused(Mismatch),
    /// A state, which was handed over.
    Restored,
}
