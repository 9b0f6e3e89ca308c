//! What a journal has and does not hand over.

use core::fmt;

/// A part of a journal that was not restored, and why.
///
/// ```
/// use informer_core::journal::{Loss, Lost};
///
/// let lost = Lost::new(Loss::Damaged, 2, 102_400);
/// assert_eq!(lost.to_string(), "102400 bytes are not what was written: 2 records before them and all after them are dropped");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Lost {
    /// Why it was not restored.
    pub why: Loss,
    /// How many records are dropped, as far as they could be counted: those behind damage cannot.
    pub records: u64,
    /// How many bytes are dropped.
    pub bytes: u64,
}

/// Why a part of a journal is not restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Loss {
    /// No version covers it: the process ended before a version or a list was complete. The server sends it again.
    Unfinished,
    /// It is not what was written: the medium changed it, it was cut off, or the power was lost before it was synced.
    Damaged,
    /// It does not begin as a journal does.
    NoJournal,
    /// It has another format, of this number.
    Format(u8),
    /// It is the cache of something else.
    Refused(Mismatch),
    /// The decoder refuses these objects now, or there is no room for them.
    Unusable,
}

/// In what two identities differ: the first of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Mismatch {
    /// The cluster.
    Cluster,
    /// The group, version, resource or namespace.
    Resource,
    /// The selectors of labels or fields, or the shard.
    Selectors,
    /// What the decoder keeps of an object.
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

impl Lost {
    /// Makes a description of a loss.
    #[must_use]
    pub const fn new(why: Loss, records: u64, bytes: u64) -> Self {
        Self {
            why,
            records,
            bytes,
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            why,
            records,
            bytes,
        } = self;
        match why {
            Loss::Unfinished => write!(
                f,
                "{records} records ({bytes} bytes) were not finished when the process ended and are dropped; the server sends them again"
            ),
            Loss::Damaged => write!(
                f,
                "{bytes} bytes are not what was written: {records} records before them and all after them are dropped"
            ),
            Loss::NoJournal => write!(
                f,
                "{bytes} bytes do not begin as a journal and are dropped; the next list overwrites them"
            ),
            Loss::Format(found) => write!(
                f,
                "{bytes} bytes have the format {found}, which this program cannot read, and are dropped; the next list overwrites them"
            ),
            Loss::Refused(mismatch) => write!(
                f,
                "it holds the cache of {mismatch}, of which {records} records ({bytes} bytes) are dropped: give each cache a journal of its own"
            ),
            Loss::Unusable => write!(
                f,
                "{records} objects ({bytes} bytes) can no longer be decoded or stored and are dropped; a list follows"
            ),
        }
    }
}
