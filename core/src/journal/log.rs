//! A journal over a medium: records behind each other, in one of two areas.

mod load;

use core::fmt;

use super::format::{self, Cursor, Found, INCOMPLETE, Kind, size};
use super::identity::Identity;
use super::index::Index;
use super::medium::{Area, Medium, Room};
use super::{Journal, Loaded, Lost, Record};
use crate::object::{KeyBuf, MAX_KEY};

/// So many bytes may be superseded in any case before a log is compacted that grows.
const SLACK: u64 = 64 << 10;

/// A journal over a [`Medium`], with room for one object.
///
/// One area is written to. Compaction writes what counts into the other one, behind a higher sequence number, and the
/// version behind that; until then the first area is the one that is valid, so that at every moment one is whole. A log
/// that remembers its [`Keys`](super::Keys) is compacted when it has more than twice what counts (and 64 KiB); one that
/// does not, when its area is full.
///
/// An object that is longer than the room, or that does not fit the area with all others, cannot be kept: the journal is
/// then as one that could not be written.
#[derive(Debug)]
pub struct Log<M, I, B> {
    medium: M,
    index: I,
    room: B,
    identity: Identity,
    /// The highest that is in use.
    sequence: u64,
    /// The area whose state counts.
    valid: Option<Area>,
    tail: Option<Tail>,
    broken: bool,
}

/// Where an area is written to.
#[derive(Clone, Copy, Debug)]
struct Tail {
    /// Behind the first record.
    start: Cursor,
    /// Behind the last version; where there is none yet, nothing.
    committed: Option<Cursor>,
    end: Cursor,
    /// What is behind the end cannot be written to.
    blocked: bool,
}

impl Tail {
    /// An area that was read up to its last version.
    const fn loaded(start: Cursor, end: Cursor) -> Self {
        Self {
            start,
            committed: Some(end),
            end,
            blocked: false,
        }
    }
}

/// Why a log cannot be read or written.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogError<E> {
    /// The medium failed.
    Medium(E),
    /// There is no room for the objects.
    Full {
        /// How many bytes an area has.
        capacity: u64,
    },
    /// An object is longer than the room for one, or a key longer than the API server makes them.
    TooLong {
        /// How many bytes it has.
        bytes: usize,
    },
    /// An area is not as it was when it was loaded.
    Damaged,
    /// It could not be written before.
    Broken,
}

impl<E: fmt::Display> fmt::Display for LogError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Medium(error) => error.fmt(f),
            Self::Full { capacity } => write!(
                f,
                "the objects do not fit {capacity} bytes: give the journal a larger area, or keep less of each object"
            ),
            Self::TooLong { bytes } => write!(
                f,
                "an object of {bytes} bytes is longer than the journal's room for one: raise it, or keep less of each object"
            ),
            Self::Damaged => {
                f.write_str("what was read is not what was written: replace the medium")
            }
            Self::Broken => {
                f.write_str("it could not be written before; the next list begins it anew")
            }
        }
    }
}

/// Writes what `Display` writes, as `readable_errors!` has it for types without parameters.
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
    /// Makes a log over a medium; nothing is read before [`Journal::load`].
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
        }
    }

    /// Returns the medium.
    #[must_use]
    pub const fn medium(&self) -> &M {
        &self.medium
    }

    /// Gives the medium back.
    pub fn into_medium(self) -> M {
        self.medium
    }

    fn next(&mut self, cursor: &mut Cursor, end: u64) -> Result<Option<Found>, M::Error> {
        format::read(&mut self.medium, &mut self.room, cursor, end)
    }

    fn remember(&mut self, kind: Kind, key: &str, at: u64, size: u64) {
        match kind {
            Kind::Put => self.index.put(key, at, size),
            Kind::Stale => self.index.stale(key, at, size),
            Kind::Delete => self.index.delete(key),
            Kind::Head | Kind::Version => {}
        }
    }

    /// Begins an area with nothing in it but its first record. The other one stays valid.
    fn begin(&mut self) -> Result<Tail, M::Error> {
        let area = self.valid.map_or(Area::First, Area::other);
        if let Some(valid) = self.valid {
            // It may be all that there is.
            self.medium.sync(valid)?;
        }
        self.medium.clear(area)?;
        self.sequence += 1;
        let mut cursor = Cursor::start(area);
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

    /// What was written counts from now on.
    fn commit(&mut self, tail: &mut Tail) -> Result<(), LogError<M::Error>> {
        self.medium.commit()?;
        let area = tail.end.area;
        tail.committed = Some(tail.end);
        // Also where the other area could not be read: its sequence number may be the higher one.
        if self.valid.replace(area) != Some(area) {
            self.free(area)?;
        }
        if I::KEEPS && tail.end.at > 2 * self.index.live() + SLACK {
            *tail = self.compacted(tail)?;
        }
        Ok(())
    }

    /// The other area is not needed any more, once this one would outlive a loss of power.
    fn free(&mut self, area: Area) -> Result<(), M::Error> {
        if I::KEEPS {
            self.medium.sync(area)?;
            self.medium.free(area.other())?;
        }
        Ok(())
    }

    /// Writes what counts into the other area, and then what came after the last version.
    fn compacted(&mut self, from: &Tail) -> Result<Tail, LogError<M::Error>> {
        let capacity = self.medium.capacity();
        let Some(committed) = from.committed else {
            // All of it is one step, which does not fit.
            return Err(LogError::Full { capacity });
        };
        // What came after the last version is in the index, and does not count yet.
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

    /// Tells whether no later record is about the same object: a mark is superseded by another one, an object is not.
    fn is_newest(&mut self, found: &Found, cursor: &Cursor, end: u64) -> Result<bool, M::Error> {
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

    /// Writes a record again that was just read.
    fn copy(
        &mut self,
        found: &Found,
        to: &mut Tail,
        capacity: u64,
    ) -> Result<(), LogError<M::Error>> {
        if to.end.at + found.size > capacity {
            return Err(LogError::Full { capacity });
        }
        let value = self.room.room(found.len).unwrap_or_default();
        let (kind, key): (_, &KeyBuf) = ((found.kind, found.flags), &found.key);
        format::write(&mut self.medium, &mut to.end, kind, key.as_str(), value)?;
        Ok(())
    }

    /// Runs something after whose failure nothing can be written any more.
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

impl<M: Medium, I: Index, B: Room> Journal for Log<M, I, B> {
    type Error = LogError<M::Error>;

    fn load(
        &mut self,
        identity: &Identity,
        take: &mut dyn FnMut(Record<'_>),
        lost: &mut dyn FnMut(Lost),
    ) -> Result<Loaded, Self::Error> {
        self.identity = *identity;
        (self.tail, self.valid, self.sequence, self.broken) = (None, None, 0, false);
        let loaded = self.try_load(identity, take, lost);
        // Where nothing can be read, nothing should be written over it.
        self.broken = loaded.is_err();
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
        // A log that remembers its keys remembers those that no version covers yet: it would be read once for each of its
        // records, which are many.
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
            log.index.clear();
            log.tail = Some(log.begin()?);
            Ok(())
        })
    }
}
