//! Filling a cache from a journal.

use core::cell::RefCell;

use super::{Identity, LostRecords, Record, RecordLog, Restored};
use informer_core::ResourceVersion;
use informer_core::reflector::Change;
use informer_core::storage::Text;

/// What a journal is restored into: one source of a cache, which may decode the objects at once or later.
pub trait Restore<X> {
    /// Receives a change of an object. It was put with this data ([`Change::Listed`]), has a newer state that could not
    /// be used ([`Change::Modified`]), or was [deleted](Change::Deleted).
    fn change(&mut self, change: Change, key: &str, object: &[u8]);

    /// Applies all changes and ends the restored list: at this state, or by forgetting them if there is none. Returns the
    /// objects that could not be used.
    fn end(&mut self, restored: Option<&Restored<X>>) -> LostRecords;

    /// Reports a part of the journal that is not restored.
    fn lost(&mut self, lost: LostRecords);
}

/// Restores a journal. Returns the restored state, or `None` if the journal has none of this identity.
///
/// Each part that is dropped is reported. [`Recorder`](super::Recorder) fills a cache by it. A runtime
/// that decodes on other threads has a [`Restore`] of its own.
///
/// ```
/// use informer_core::Resource;
/// use informer_journal::{FileJournal, Identity, Loss, LostRecords, Restore, Restored};
/// use informer_core::reflector::Change;
///
/// /// Shows what a journal has, without a cache.
/// struct Keys(Vec<String>);
///
/// impl Restore<Box<str>> for Keys {
///     fn change(&mut self, change: Change, key: &str, _object: &[u8]) {
///         self.0.push(format!("{change:?} {key}"));
///     }
///     fn end(&mut self, _restored: Option<&Restored<Box<str>>>) -> LostRecords {
///         LostRecords::new(Loss::Unusable, 0, 0)
///     }
///     fn lost(&mut self, lost: LostRecords) {
///         eprintln!("{lost}");
///     }
/// }
///
/// # let path = std::env::temp_dir().join(format!("informer-restore-{}", std::process::id()));
/// let mut journal = FileJournal::open(&path)?;
/// let identity = Identity::new("edge-7", &Resource::new("", "v1", "pods"), 0);
/// let restored = informer_journal::restore(&mut journal, &identity, &mut Keys(Vec::new()))?;
/// assert!(restored.is_none(), "the journal is new");
/// # for area in ["0", "1"] { std::fs::remove_file(format!("{}.{area}", path.display()))?; }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Fails if the journal cannot be read.
pub fn restore<J: RecordLog, X: Text>(
    journal: &mut J,
    identity: &Identity,
    into: &mut impl Restore<X>,
) -> Result<Option<Restored<X>>, J::Error> {
    let mut restored = None;
    let into = RefCell::new(into);
    let mut take = |record: Record<'_>| {
        let (change, key, object) = match record {
            Record::Put { key, object } => (Change::Listed, key, object),
            Record::Stale { key } => (Change::Modified, key, &[][..]),
            Record::Delete { key } => (Change::Deleted, key, &[][..]),
            Record::Version(reached) => {
                restored = Some(Restored {
                    version: ResourceVersion::new(reached.version),
                    at: reached.at,
                    complete: reached.complete,
                });
                return;
            }
        };
        into.borrow_mut().change(change, key, object);
    };
    let loaded = journal.load(identity, &mut take, &mut |lost| {
        into.borrow_mut().lost(lost);
    });
    let into = into.into_inner();
    let mut restored = restored.filter(|_| loaded.is_ok());
    let unusable = into.end(restored.as_ref());
    loaded?;
    if let Some(restored) = &mut restored
        && unusable.records > 0
    {
        into.lost(unusable);
        restored.complete = false;
    }
    Ok(restored)
}
