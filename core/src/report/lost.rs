//! Parts of a journal that are not restored.

use core::fmt;

/// A part of a journal that was not restored, with the reason.
///
/// ```
/// use informer_core::report::{Loss, LostRecords};
///
/// let lost = LostRecords::new(Loss::Damaged, 2, 102_400);
/// assert_eq!(lost.to_string(), "102400 bytes are damaged: 2 records before them and all records after them are dropped");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LostRecords {
    /// The reason.
    pub why: Loss,
    /// The number of dropped records. Records after damage cannot be counted.
    pub records: u64,
    /// The number of dropped bytes.
    pub bytes: u64,
}

/// The reason why a part of a journal is not restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Loss {
    /// No version covers it: the process ended before a version or a list was complete. The server sends the data
    /// again.
    Unfinished,
    /// It differs from what was written: the medium changed it, it was cut off, or the power failed before it was
    /// synced.
    Damaged,
    /// It is not a journal.
    NoJournal,
    /// It has another format, with this number.
    Format(u8),
    /// It is the journal of another cache.
    Refused(Mismatch),
    /// The decoder now rejects these objects, or there is no room for them.
    Unusable,
}

/// The first difference between two identities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Mismatch {
    /// The cluster.
    Cluster,
    /// The group, version, resource or namespace.
    Resource,
    /// The label or field selectors, or the shard.
    Selectors,
    /// The data that the decoder stores.
    Decoder,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cluster => "another cluster",
            Self::Resource => "another resource or namespace",
            Self::Selectors => "other selectors",
            Self::Decoder => "another decoder",
        })
    }
}

impl LostRecords {
    /// Creates a description of a loss.
    #[must_use]
    pub const fn new(why: Loss, records: u64, bytes: u64) -> Self {
        Self {
            why,
            records,
            bytes,
        }
    }
}

impl fmt::Display for LostRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            why,
            records,
            bytes,
        } = self;
        match why {
            Loss::Unfinished => write!(
                f,
                "{records} records ({bytes} bytes) were incomplete when the process ended and are dropped; the server sends them again"
            ),
            Loss::Damaged => write!(
                f,
                "{bytes} bytes are damaged: {records} records before them and all records after them are dropped"
            ),
            Loss::NoJournal => write!(
                f,
                "{bytes} bytes are not a journal and are dropped; the next list overwrites them"
            ),
            Loss::Format(found) => write!(
                f,
                "{bytes} bytes have the format {found}, which this program cannot read, and are dropped; the next list overwrites them"
            ),
            Loss::Refused(mismatch) => write!(
                f,
                "it belongs to {mismatch}, and {records} records ({bytes} bytes) are dropped: use a separate journal for each cache"
            ),
            Loss::Unusable => write!(
                f,
                "{records} objects ({bytes} bytes) can no longer be decoded or stored and are dropped; a list follows"
            ),
        }
    }
}
