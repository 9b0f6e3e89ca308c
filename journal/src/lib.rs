//! The journal: a cache that outlives the process.
//!
//! A [`RecordLog`] is a log of records: objects, deletions, and the versions that were reached with them. Records after
//! the last version are not loaded. A restored cache therefore shows a state that the server really had, no matter when
//! the power failed. A [`Log`] is a journal over a [`Medium`]: `FileMedium` with the feature `std`, `FlashMedium` with
//! the feature `embedded-storage`, or a custom one. A [`Recorder`] writes the changes of a reflector and restores them.
//! `docs/JOURNAL.md` in the repository describes the format and its guarantees.
//!
//! # Features
//! - `alloc`: an index of the keys, and buffers that grow.
//! - `std`: implies `alloc`; journals in files.
//! - `embedded-storage`: journals in NOR flash.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(feature = "alloc", test))]
extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

mod crc;
#[cfg(feature = "std")]
mod file;
#[cfg(feature = "embedded-storage")]
mod flash;
mod format;
mod index;
mod log;
mod medium;
mod recorder;
mod restore;
mod retry;
#[cfg(test)]
mod tests;

#[cfg(feature = "std")]
pub use file::{FileError, FileJournal, FileMedium};
#[cfg(feature = "embedded-storage")]
pub use flash::{FlashError, FlashJournal, FlashMedium};
#[cfg(feature = "alloc")]
pub use index::Keys;
pub use index::{Index, Scanned};
pub use log::{Log, LogError};
pub use medium::{Area, Medium, Room};
pub use recorder::Recorder;
pub use restore::{Restore, restore};
pub use retry::Retry;

#[doc(no_inline)]
pub use informer_core::{
    cache::{Identity, Reached, Record, Recording},
    reflector::Restored,
    report::{Loss, LostRecords, Mismatch},
};

use core::fmt;

/// A persisted cache: a log of the objects of one source, and of the versions that were reached with them.
///
/// ```
/// use informer_core::Resource;
/// use informer_journal::{FileJournal, Identity, RecordLog, Loaded, Reached, Record};
///
/// # let dir = std::env::temp_dir().join(format!("informer-journal-{}", std::process::id()));
/// let pods = Resource::new("", "v1", "pods");
/// let identity = Identity::new("edge-7", &pods, 0);
/// let mut journal = FileJournal::open(&dir)?;
/// assert!(matches!(journal.load(&identity, &mut |_| (), &mut |_| ())?, Loaded::Empty));
/// journal.append(Record::Put { key: "prod/web", object: br#"{"metadata":{"name":"web"}}"# })?;
/// journal.append(Record::Version(Reached::new("7")))?;
/// journal.append(Record::Delete { key: "prod/web" })?; // No version includes this record yet.
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
pub trait RecordLog {
    /// The reason why the journal cannot be read or written.
    type Error: fmt::Display + fmt::Debug;

    /// Reads the records of this identity and passes them to `take` in order, with a [`Record::Version`] at the end. An
    /// object may be put again or deleted after it was put. Later writes belong to this identity.
    ///
    /// Each part of the journal that is not passed on is passed to `lost` with the reason, so that nothing is dropped
    /// silently. The records passed on are always a state of the server: a journal never passes on records that are
    /// damaged or follow damage.
    ///
    /// # Errors
    /// Fails if the journal cannot be read.
    fn load(
        &mut self,
        identity: &Identity,
        take: &mut dyn FnMut(Record<'_>),
        lost: &mut dyn FnMut(LostRecords),
    ) -> Result<Loaded, Self::Error>;

    /// Adds a record. Records after the last [`Record::Version`] take effect only with the next version.
    ///
    /// # Errors
    /// Fails if the record cannot be written; then every call fails until [`RecordLog::restart`]. The journal keeps its
    /// state of the last version.
    fn append(&mut self, record: Record<'_>) -> Result<(), Self::Error>;

    /// Waits until all added records would survive a power loss.
    ///
    /// # Errors
    /// Fails if this cannot be ensured.
    fn sync(&mut self) -> Result<(), Self::Error>;

    /// Rewrites the journal without superseded records. A journal does so by itself when necessary.
    ///
    /// # Errors
    /// Fails if it cannot be written; the journal keeps its state of the last version.
    fn compact(&mut self) -> Result<(), Self::Error>;

    /// Returns whether the journal has failed since [`RecordLog::restart`] without an error from [`RecordLog::append`],
    /// such as one that writes on another thread. The next list then restarts it.
    fn has_failed(&self) -> bool {
        false
    }

    /// Restarts the journal with no records, which repairs a journal that could not be written. The old state stays
    /// until the next version is added.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    fn restart(&mut self) -> Result<(), Self::Error>;
}

/// The result of loading a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Loaded {
    /// The journal has no state.
    Empty,
    /// The state has another identity and was not passed on. It stays until a version is added.
    Refused(Mismatch),
    /// The state was passed on.
    Restored,
}

/// The program in `README.md`.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
