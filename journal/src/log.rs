//! A journal over a medium: a sequence of records in one of two areas.

mod load;

use core::fmt;

use super::Identity;
use super::format::{self, How, INCOMPLETE, Kind, Located, LogCursor, size};
use super::index::Index;
use super::medium::{Area, Medium, Room};
use super::{Loaded, LostRecords, Record, RecordLog};
use informer_core::object::MAX_KEY;

/// The number of superseded bytes that never triggers a compaction.
const SLACK: u64 = 64 << 10;

/// A journal over a [`Medium`], with a buffer for one object.
///
/// One area is written to. Compaction writes the current records to the other area, after a higher sequence number, and
/// then the version. Until then the first area stays valid, so that one area is complete at any moment. A log with
/// `Keys` is compacted when it exceeds twice the size of its current records plus 64 KiB; a log with
/// [`Scanned`](super::Scanned) when its area is full.
///
/// The journal fails if an object is longer than the buffer, or if all objects together do not fit in an area.
#[derive(Debug)]
pub struct Log<M, I, B> {
    medium: M,
    index: I,
    room: B,
    identity: Identity,
    /// The highest sequence number in use.
    sequence: u64,
    /// The area with the valid state.
    valid: Option<Area>,
    tail: Option<Tail>,
    broken: bool,
    /// The medium could not be read, so it is not known which area has the state.
    unread: bool,
}

/// The end of an area that is written to.
#[derive(Clone, Copy, Debug)]
struct Tail {
    /// After the first record.
    start: LogCursor,
    /// After the last version, if there is one.
    committed: Option<LogCursor>,
    end: LogCursor,
    /// The area cannot be written after `end`.
    blocked: bool,
}

impl Tail {
    /// Returns the end of an area that was read up to its last version.
    const fn loaded(start: LogCursor, end: LogCursor) -> Self {
        Self {
            start,
            committed: Some(end),
            end,
            blocked: false,
        }
    }
}

/// The reason why a log cannot be read or written.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogError<E> {
    /// The medium failed.
    Medium(E),
    /// The objects do not fit.
    Full {
        /// The capacity of an area in bytes.
        capacity: u64,
    },
    /// An object is longer than the buffer, or a key is longer than the API server allows.
    TooLong {
        /// The length in bytes.
        bytes: usize,
    },
    /// An area changed after it was loaded.
    Damaged,
    /// An earlier write failed.
    Broken,
}

impl<E: fmt::Display> fmt::Display for LogError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Medium(error) => error.fmt(f),
            Self::Full { capacity } => write!(
                f,
                "the objects do not fit in {capacity} bytes: use a larger area, or store less of each object"
            ),
            Self::TooLong { bytes } => write!(
                f,
                "an object of {bytes} bytes exceeds the journal's buffer: use a larger buffer, or store less of each object"
            ),
            Self::Damaged => {
                f.write_str("the medium returned other data than was written: replace it")
            }
            Self::Broken => {
                f.write_str("an earlier write failed; the next list restarts the journal")
            }
        }
    }
}

/// Like `Display`, as `readable_errors!` does for types without parameters.
impl<E: fmt::Display> fmt::Debug for LogError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<E: fmt::Display> core::error::Error for LogError<E> {}

impl<E> From<E> for LogError<E> {
    fn from(error: E) -> Self {
        Self::Medium(error)
    }
}

impl<M: Medium, I: Index, B: Room> Log<M, I, B> {
    /// Creates a log over a medium. Nothing is read before [`RecordLog::load`].
    pub fn new(medium: M, room: B) -> Self {
        Self {
            medium,
            index: I::default(),
            room,
            identity: Identity::default(),
            sequence: 0,
            valid: None,
            tail: None,
            broken: false,
            unread: false,
        }
    }

    /// Returns the medium.
    #[must_use]
    pub const fn medium(&self) -> &M {
        &self.medium
    }

    /// Consumes the log and returns the medium.
    pub fn into_medium(self) -> M {
        self.medium
    }

    fn next(&mut self, cursor: &mut LogCursor, end: u64) -> Result<Option<Located>, M::Error> {
        let room = &mut self.room;
        format::read(&mut self.medium, room, cursor, end, How::Checked)
    }

    fn remember(&mut self, kind: Kind, key: &str, at: u64, size: u64) {
        match kind {
            Kind::Put => self.index.put(key, at, size),
            Kind::Stale => self.index.stale(key, at, size),
            Kind::Delete => self.index.delete(key),
            Kind::Head | Kind::Version => {}
        }
    }

    /// Begins an area with only its first record. The other area stays valid.
    fn begin(&mut self) -> Result<Tail, M::Error> {
        let area = self.valid.map_or(Area::First, Area::other);
        if let Some(valid) = self.valid {
            // The valid area may contain the only state.
            self.medium.sync(valid)?;
        }
        self.medium.clear(area)?;
        self.sequence += 1;
        let mut cursor = LogCursor::start(area);
        let head = format::head(self.sequence, &self.identity);
        format::write(&mut self.medium, &mut cursor, (Kind::Head, 0), "", &head)?;
        Ok(Tail {
            start: cursor,
            committed: None,
            end: cursor,
            blocked: false,
        })
    }

    fn try_append(&mut self, record: Record<'_>) -> Result<(), LogError<M::Error>> {
        let at;
        let (kind, flags, key, value) = match record {
            Record::Put { key, object } => (Kind::Put, 0, key, object),
            Record::Delete { key } => (Kind::Delete, 0, key, &[][..]),
            Record::Stale { key } => (Kind::Stale, 0, key, &[][..]),
            Record::Version(reached) => {
                at = reached.at.unwrap_or(0).to_le_bytes();
                let flags = if reached.complete { 0 } else { INCOMPLETE };
                (Kind::Version, flags, reached.version, &at[..])
            }
        };
        if key.len() > MAX_KEY
            || u32::try_from(value.len()).is_err()
            || self.room.room(value.len()).is_none()
        {
            return Err(LogError::TooLong { bytes: value.len() });
        }
        let mut tail = match self.tail {
            Some(tail) => tail,
            None => self.begin()?,
        };
        let needed = size(key.len(), value.len(), self.medium.unit());
        let capacity = self.medium.capacity();
        if tail.blocked || tail.end.at + needed > capacity {
            tail = self.compacted(&tail)?;
        }
        if tail.end.at + needed > capacity {
            return Err(LogError::Full { capacity });
        }
        let found = tail.end.at;
        format::write(&mut self.medium, &mut tail.end, (kind, flags), key, value)?;
        self.remember(kind, key, found, needed);
        if kind == Kind::Version {
            self.commit(&mut tail)?;
        }
        self.tail = Some(tail);
        Ok(())
    }

    /// Makes the written records take effect.
    fn commit(&mut self, tail: &mut Tail) -> Result<(), LogError<M::Error>> {
        self.medium.commit()?;
        let area = tail.end.area;
        tail.committed = Some(tail.end);
        // This also applies if the other area was unreadable, since its sequence number may be higher.
        if self.valid.replace(area) != Some(area) {
            self.free(area)?;
        }
        if I::KEEPS && tail.end.at > 2 * self.index.live() + SLACK {
            *tail = self.compacted(tail)?;
        }
        Ok(())
    }

    /// Releases the other area, once this one would survive a power loss.
    fn free(&mut self, area: Area) -> Result<(), M::Error> {
        if I::KEEPS {
            self.medium.sync(area)?;
            self.medium.free(area.other())?;
        }
        Ok(())
    }

    /// Writes the current records to the other area, and then the records after the last version.
    fn compacted(&mut self, from: &Tail) -> Result<Tail, LogError<M::Error>> {
        let capacity = self.medium.capacity();
        let Some(committed) = from.committed else {
            // The area consists of a single step that does not fit.
            return Err(LogError::Full { capacity });
        };
        // The records after the last version are in the index, but are not in effect yet.
        let is_indexed = I::KEEPS && from.end.at == committed.at;
        let mut to = self.begin()?;
        let mut cursor = from.start;
        let mut last = from.start;
        while cursor.at < committed.at {
            let before = cursor;
            let found = self
                .next(&mut cursor, committed.at)?
                .ok_or(LogError::Damaged)?;
            let key = found.key.as_str();
            let is_live = match found.kind {
                Kind::Put | Kind::Stale if is_indexed => self.index.is_live(key, found.at),
                Kind::Put | Kind::Stale => self.is_newest(&found, &cursor, committed.at)?,
                Kind::Head | Kind::Delete | Kind::Version => false,
            };
            if found.kind == Kind::Version {
                last = before;
            }
            if is_live {
                let new = to.end.at;
                self.copy(&found, &mut to, capacity)?;
                self.index.moved(key, found.at, new);
            }
        }
        let version = self
            .next(&mut last, committed.at)?
            .ok_or(LogError::Damaged)?;
        self.copy(&version, &mut to, capacity)?;
        to.committed = Some(to.end);
        let mut cursor = committed;
        while cursor.at < from.end.at {
            let found = self
                .next(&mut cursor, from.end.at)?
                .ok_or(LogError::Damaged)?;
            let new = to.end.at;
            self.copy(&found, &mut to, capacity)?;
            self.index.moved(found.key.as_str(), found.at, new);
        }
        self.medium.commit()?;
        self.valid = Some(to.end.area);
        self.free(to.end.area)?;
        Ok(to)
    }

    /// Returns whether no later record supersedes this one. A mark is superseded by another mark, but an object is not.
    fn is_newest(
        &mut self,
        found: &Located,
        cursor: &LogCursor,
        end: u64,
    ) -> Result<bool, M::Error> {
        let mut at = cursor.at;
        while let Some((kind, key, size)) =
            format::read_key(&mut self.medium, cursor.area, at, end)?
        {
            let supersedes = match kind {
                Kind::Put | Kind::Delete => true,
                Kind::Stale => found.kind == Kind::Stale,
                Kind::Head | Kind::Version => false,
            };
            if supersedes && key.as_str() == found.key.as_str() {
                return Ok(false);
            }
            at += size;
        }
        Ok(true)
    }

    /// Writes a record that was just read to the other area.
    fn copy(
        &mut self,
        found: &Located,
        to: &mut Tail,
        capacity: u64,
    ) -> Result<(), LogError<M::Error>> {
        if to.end.at + found.size > capacity {
            return Err(LogError::Full { capacity });
        }
        let value = self.room.room(found.len).unwrap_or_default();
        let (kind, key) = ((found.kind, found.flags), &found.key);
        format::write(&mut self.medium, &mut to.end, kind, key.as_str(), value)?;
        Ok(())
    }

    /// Runs a write. If it fails, nothing can be written until a restart.
    fn guarded(
        &mut self,
        run: impl FnOnce(&mut Self) -> Result<(), LogError<M::Error>>,
    ) -> Result<(), LogError<M::Error>> {
        if self.broken {
            return Err(LogError::Broken);
        }
        let done = run(self);
        self.broken = done.is_err();
        done
    }
}

impl<M: Medium, I: Index, B: Room> RecordLog for Log<M, I, B> {
    type Error = LogError<M::Error>;

    fn load(
        &mut self,
        identity: &Identity,
        take: &mut dyn FnMut(Record<'_>),
        lost: &mut dyn FnMut(LostRecords),
    ) -> Result<Loaded, Self::Error> {
        self.identity = *identity;
        (self.tail, self.valid, self.sequence, self.broken) = (None, None, 0, false);
        let loaded = self.try_load(identity, take, lost);
        // If nothing can be read, nothing should be overwritten.
        self.broken = loaded.is_err();
        self.unread = loaded.is_err();
        loaded
    }

    fn append(&mut self, record: Record<'_>) -> Result<(), Self::Error> {
        self.guarded(|log| log.try_append(record))
    }

    fn sync(&mut self) -> Result<(), Self::Error> {
        let Some(tail) = self.tail else {
            return Ok(());
        };
        self.guarded(|log| Ok(log.medium.sync(tail.end.area)?))
    }

    fn compact(&mut self) -> Result<(), Self::Error> {
        // The index of a log with keys includes records that no version covers yet. Compaction would scan the log for
        // each of its many records instead.
        let is_due = |tail: &Tail| {
            tail.committed
                .is_some_and(|at| !I::KEEPS || at.at == tail.end.at)
        };
        let Some(tail) = self.tail.filter(is_due) else {
            return Ok(());
        };
        self.guarded(|log| {
            log.tail = Some(log.compacted(&tail)?);
            Ok(())
        })
    }

    fn restart(&mut self) -> Result<(), Self::Error> {
        self.broken = false;
        self.guarded(|log| {
            if log.unread {
                let identity = log.identity;
                log.try_load(&identity, &mut |_| (), &mut |_| ())?;
                log.unread = false;
            }
            log.index.clear();
            log.tail = Some(log.begin()?);
            Ok(())
        })
    }
}
