//! Reading a log when it is opened.

use super::{Log, LogError, Tail};
use crate::Identity;
use crate::format::{self, How, INCOMPLETE, Kind, Located, LogCursor, number};
use crate::index::Index;
use crate::medium::{Area, Medium, Room};
use crate::{Loaded, Reached};
use informer_core::cache::Record;
use informer_core::report::{Loss, LostRecords};

impl<M: Medium, I: Index, B: Room> Log<M, I, B> {
    pub(super) fn try_load(
        &mut self,
        identity: &Identity,
        take: &mut dyn FnMut(Record<'_>),
        lost: &mut dyn FnMut(LostRecords),
    ) -> Result<Loaded, LogError<M::Error>> {
        let mut areas = [
            self.head(Area::First, lost)?,
            self.head(Area::Second, lost)?,
        ];
        // The newer area first.
        areas.sort_unstable_by_key(|area| core::cmp::Reverse(area.map(|(sequence, ..)| sequence)));
        for (sequence, found, start) in areas.into_iter().flatten() {
            self.sequence = self.sequence.max(sequence);
            let mismatch = identity.mismatch(&found);
            let loaded = match mismatch {
                None => self.load_area(start, take)?,
                Some(_) => self.load_area(start, &mut |_| ())?,
            };
            let end = loaded.map_or(start, |tail| tail.end);
            if let Some(mismatch) = mismatch.filter(|_| loaded.is_some()) {
                self.valid = Some(start.area);
                self.index.clear();
                let all = self.dropped(start)?;
                lost(LostRecords::new(
                    Loss::Refused(mismatch),
                    all.records,
                    all.bytes,
                ));
                return Ok(Loaded::Refused(mismatch));
            }
            let mut rest = self.dropped(end)?;
            // An area with only its first record was begun, and lost nothing.
            if rest.bytes > 0 {
                rest.bytes += loaded.map_or(start.at, |_| 0);
                lost(rest);
            }
            let Some(mut tail) = loaded else {
                continue;
            };
            tail.blocked = !self.medium.cut(start.area, tail.end.at)?;
            self.valid = Some(start.area);
            self.tail = Some(tail);
            // An older area is superseded by this one.
            return Ok(Loaded::Restored);
        }
        self.index.clear();
        Ok(Loaded::Empty)
    }

    /// Counts the records and bytes of an area from a position on, which are dropped.
    fn dropped(&mut self, from: LogCursor) -> Result<LostRecords, M::Error> {
        let end = self.medium.len(from.area)?;
        let used = self.medium.used(from.area)?;
        let mut cursor = from;
        let mut records = 0;
        while self.next(&mut cursor, end)?.is_some() {
            records += 1;
        }
        let is_whole = cursor.at >= used;
        let why = if is_whole {
            Loss::Unfinished
        } else {
            Loss::Damaged
        };
        let bytes = used.max(cursor.at).saturating_sub(from.at);
        Ok(LostRecords::new(why, records, bytes))
    }

    /// Reads the first record of an area.
    fn head(
        &mut self,
        area: Area,
        lost: &mut dyn FnMut(LostRecords),
    ) -> Result<Option<(u64, Identity, LogCursor)>, M::Error> {
        let end = self.medium.len(area)?;
        let mut head = [0; format::HEAD];
        let mut cursor = LogCursor::start(area);
        let found = format::read(&mut self.medium, &mut head, &mut cursor, end, How::Checked)?;
        let head = found
            .filter(|found| found.kind == Kind::Head && found.len == format::HEAD)
            .and_then(|_| format::parse_head(&head))
            .map(|(sequence, identity)| (sequence, identity, cursor));
        let used = self.medium.used(area)?;
        if head.is_none() && used > 0 {
            let why = match format::format_of(&mut self.medium, area)? {
                None => Loss::NoJournal,
                Some(found) if found == format::format() => Loss::Damaged,
                Some(found) => Loss::Format(found),
            };
            lost(LostRecords::new(why, 0, used));
        }
        Ok(head)
    }

    /// Passes on the current records of an area, up to its last version. Returns `None` if it has no version.
    fn load_area(
        &mut self,
        start: LogCursor,
        take: &mut dyn FnMut(Record<'_>),
    ) -> Result<Option<Tail>, LogError<M::Error>> {
        if I::KEEPS {
            self.load_at_once(start, take)
        } else {
            self.load_twice(start, take)
        }
    }

    /// Reads the valid records up to the last version, and then reads them again to pass them on.
    fn load_twice(
        &mut self,
        start: LogCursor,
        take: &mut dyn FnMut(Record<'_>),
    ) -> Result<Option<Tail>, LogError<M::Error>> {
        let end = self.medium.len(start.area)?;
        let mut cursor = start;
        let mut committed = None;
        while let Some(found) = self.next(&mut cursor, end)? {
            match found.kind {
                Kind::Head => break,
                Kind::Version => committed = Some(cursor),
                Kind::Put | Kind::Delete | Kind::Stale => {}
            }
        }
        let Some(committed) = committed else {
            return Ok(None);
        };
        let mut cursor = start;
        while cursor.at < committed.at {
            // The record was checked in the first pass.
            let (medium, room) = (&mut self.medium, &mut self.room);
            let found = format::read(medium, room, &mut cursor, committed.at, How::Again)?;
            let found = found.ok_or(LogError::Damaged)?;
            self.give(&found, true, cursor.at >= committed.at, take)?;
        }
        Ok(Some(Tail::loaded(start, committed)))
    }

    /// Scans the keys to find the current records, then reads the rest once and passes on each valid record
    /// immediately. If a record turns out to be damaged, later records are taken back.
    fn load_at_once(
        &mut self,
        start: LogCursor,
        take: &mut dyn FnMut(Record<'_>),
    ) -> Result<Option<Tail>, LogError<M::Error>> {
        let mut end = self.medium.len(start.area)?;
        while let Some((committed, all_count)) = self.survey(start, end)? {
            let mut cursor = start;
            while cursor.at < committed {
                let (medium, room) = (&mut self.medium, &mut self.room);
                let found = format::read(medium, room, &mut cursor, committed, How::InPlace)?;
                let Some(found) = found else {
                    break;
                };
                let counts = all_count || self.index.is_live(found.key.as_str(), found.at);
                self.give(&found, counts, cursor.at >= committed, take)?;
            }
            if cursor.at >= committed {
                return Ok(Some(Tail::loaded(start, cursor)));
            }
            end = cursor.at;
            self.take_back(start, end, take)?;
        }
        Ok(None)
    }

    /// Scans the keys of an area and indexes the current records, assuming that all records up to the last version are
    /// valid. Returns the end of that version, and whether all records up to there are current.
    fn survey(&mut self, start: LogCursor, end: u64) -> Result<Option<(u64, bool)>, M::Error> {
        let mut end = end;
        loop {
            self.index.clear();
            let mut puts = 0;
            let mut all_put = true;
            let mut committed = None;
            let mut at = start.at;
            while let Some((kind, key, size)) =
                format::read_key(&mut self.medium, start.area, at, end)?
            {
                if kind == Kind::Head {
                    break;
                }
                self.remember(kind, key.as_str(), at, size);
                at += size;
                match kind {
                    Kind::Put => puts += 1,
                    Kind::Version => committed = Some(at),
                    Kind::Head | Kind::Delete | Kind::Stale => all_put = false,
                }
            }
            let Some(committed) = committed else {
                return Ok(None);
            };
            if committed == at {
                let all_count = all_put && puts == self.index.objects();
                return Ok(Some((committed, all_count)));
            }
            // Scan again without the records after the last version.
            end = committed;
        }
    }

    /// Takes back the records that were passed on up to a position.
    fn take_back(
        &mut self,
        start: LogCursor,
        end: u64,
        take: &mut dyn FnMut(Record<'_>),
    ) -> Result<(), M::Error> {
        let mut at = start.at;
        while let Some((kind, key, size)) = format::read_key(&mut self.medium, start.area, at, end)?
        {
            let key = key.as_str();
            let was_given = kind == Kind::Put && self.index.is_live(key, at);
            if was_given {
                take(Record::Delete { key });
            }
            at += size;
        }
        Ok(())
    }

    /// Passes on a record that was just read if it is current, and the last version.
    fn give(
        &mut self,
        found: &Located,
        counts: bool,
        is_last: bool,
        take: &mut dyn FnMut(Record<'_>),
    ) -> Result<(), M::Error> {
        let key = found.key.as_str();
        match found.kind {
            Kind::Put if counts => {
                let object = self.value(found)?;
                take(Record::Put { key, object });
            }
            Kind::Stale if counts => take(Record::Stale { key }),
            Kind::Delete if !I::KEEPS => take(Record::Delete { key }),
            Kind::Version if is_last => {
                let at = number(self.value(found)?);
                take(Record::Version(
                    Reached::new(key)
                        .at(Some(at).filter(|at| *at > 0))
                        .complete(found.flags & INCOMPLETE == 0),
                ));
            }
            Kind::Head | Kind::Put | Kind::Delete | Kind::Stale | Kind::Version => {}
        }
        Ok(())
    }

    /// Returns the value of a record that was just read.
    fn value(&mut self, found: &Located) -> Result<&[u8], M::Error> {
        let lent = if I::KEEPS {
            self.medium.lend(found.area, found.value, found.len)?
        } else {
            None
        };
        Ok(match lent {
            Some(value) => value,
            None => self.room.room(found.len).unwrap_or_default(),
        })
    }
}
