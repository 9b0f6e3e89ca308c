//! From what a reflector brings to records, and back.

use core::cell::RefCell;
use core::time::Duration;

use super::{Identity, Journal, Loaded, Loss, Lost, Reached, Record, Retry};
use crate::cache::Cache;
use crate::decode::{Decode, RawObject};
use crate::informer::{Told, decode_object, restore_raw, take_frame, upsert};
use crate::key::KeyBuf;
use crate::object::Object;
use crate::reflector::{Change, Frame, ObjectFrame};
use crate::report::{Phase, Problem, Report, Shown};
use crate::storage::Storage;
use crate::time::Instant;
use crate::version::ResourceVersion;

/// The cache of an [`Informer`](crate::Informer).
type Objects<V, S> = Cache<Object<V, <S as Storage>::Text>, S>;

/// Keeps a [`Journal`] of what one source brings into a cache.
///
/// It is asked to [`restore`](Self::restore) first; then each frame goes through [`take_frame`](Self::take_frame), in place
/// of [`take_frame`](crate::take_frame()), and [`reached`](Self::reached) follows where the driver waits. Objects are
/// written first and the version after them; while a list is under way none is, so that what is restored is never a part
/// of a list. An object that a list names as it is in the cache is not written again.
///
/// A journal that cannot be written is reported, once, and begun anew with the next list; what it holds stays what it was.
/// [`wants_list`](Self::wants_list) asks for that list, and its end is reported as well.
#[derive(Debug)]
pub struct Recorder<J> {
    journal: J,
    /// A list is under way.
    in_list: bool,
    /// The journal was begun anew, and has nothing yet of what is in the cache.
    whole: bool,
    /// Nothing is written before the next list, which begins the journal anew.
    broken: bool,
    /// Something was written since the last version.
    unsaved: bool,
    /// It was reported that the journal failed, and not yet that it is whole again.
    failed: bool,
    retry: Retry,
}

/// How long it takes at most until a list is asked for again, for a journal that fails each time. A flash is erased for
/// each of them.
const RETRY_LIMIT: Duration = Duration::from_secs(3600);

/// What was restored.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Restored<X> {
    /// The version, at which a watch can be [resumed](crate::Reflector::resuming_at).
    pub version: ResourceVersion<X>,
    /// When it was reached, in milliseconds since 1970, where that is known: since then the cache may be stale.
    pub at: Option<u64>,
    /// Whether all objects were there; where not, a list is needed.
    pub complete: bool,
}

impl<J: Journal> Recorder<J> {
    /// Makes one of a journal that was not loaded.
    pub const fn new(journal: J) -> Self {
        Self {
            journal,
            in_list: false,
            whole: false,
            broken: false,
            unsaved: false,
            failed: false,
            retry: Retry::up_to(RETRY_LIMIT),
        }
    }

    /// Returns the journal.
    pub const fn journal(&mut self) -> &mut J {
        &mut self.journal
    }

    /// Gives the journal back.
    pub fn into_journal(self) -> J {
        self.journal
    }

    /// Fills a source of a cache, which has brought nothing yet, with what is in the journal: what is popped then are
    /// initial objects. The cache is not synced by it, see [`Cache::is_restored`]. `tell` hears what other sources have to tell
    /// meanwhile; where there is only one, nothing.
    ///
    /// A journal of another cluster, resource, selector or decoder is refused, and one that cannot be read is not used:
    /// both are reported, and so is each part of a journal that is dropped.
    pub fn restore<D: Decode, S: Storage, F>(
        &mut self,
        identity: &Identity,
        decode: &D,
        cache: &mut Objects<D::Value, S>,
        source: u16,
        tell: &mut F,
        report: &mut dyn FnMut(Report<'_>),
    ) -> Option<Restored<S::Text>>
    where
        F: FnMut(Told<'_, D::Value, S::Text>),
        S::Text: PartialEq,
    {
        cache.begin(source);
        let mut restored = None;
        let mut unusable = Lost::new(Loss::Unusable, 0, 0);
        let reports = RefCell::new(&mut *report);
        let mut take = |record: Record<'_>| match record {
            Record::Put { key, object } => {
                let raw = RawObject::parse(object);
                let report = &mut **reports.borrow_mut();
                let decoded = restore_raw(decode, &raw, key, report);
                if !upsert(cache, source, Change::Listed, key, decoded, report) {
                    unusable.records += 1;
                    unusable.bytes += object.len() as u64;
                }
                // Nothing is told of it yet, but of other sources.
                while let Some(told) = cache.pop() {
                    tell(told);
                }
            }
            Record::Delete { key } => {
                cache.delete(source, key, None);
                while let Some(told) = cache.pop() {
                    tell(told);
                }
            }
            Record::Stale { key } => cache.keep(source, key),
            Record::Version(reached) => {
                restored = Some(Restored {
                    version: ResourceVersion::new(reached.version),
                    at: reached.at,
                    complete: reached.complete,
                });
            }
        };
        let loaded = self.journal.load(identity, &mut take, &mut |lost| {
            let report = &mut **reports.borrow_mut();
            report_loss(lost, report);
        });
        match loaded {
            Ok(Loaded::Restored) => {}
            // A loss was reported, whatever it was.
            Ok(Loaded::Empty | Loaded::Refused(_)) => return None,
            Err(error) => {
                self.failed(&error, report);
                return None;
            }
        }
        let mut restored = restored?;
        if unusable.records > 0 {
            report_loss(unusable, report);
            // An entry in the journal but not in the cache would never be swept by a list.
            self.broken = true;
            restored.complete = false;
        }
        cache.restore(source, restored.version.clone());
        Some(restored)
    }

    /// Records what a frame says, and does what [`take_frame`](crate::take_frame()) does.
    pub fn take_frame<D: Decode, S: Storage>(
        &mut self,
        decode: &D,
        cache: &mut Objects<D::Value, S>,
        source: u16,
        frame: Frame<'_, S::Text>,
        at: Option<u64>,
        report: &mut dyn FnMut(Report<'_>),
    ) where
        S::Text: PartialEq,
    {
        match frame {
            Frame::Begin => {
                self.in_list = true;
                if core::mem::take(&mut self.broken) {
                    self.whole = true;
                    let done = self.journal.restart();
                    self.note(done, report);
                }
                cache.begin(source);
            }
            Frame::Object(object) => self.object(decode, cache, source, &object, report),
            Frame::Complete { version } => {
                let unnamed = cache.unnamed(source);
                for key in unnamed {
                    let done = self.append(Record::Delete { key: key.as_ref() });
                    self.note(done, report);
                }
                take_frame(decode, cache, source, Frame::Complete { version }, report);
                self.in_list = false;
                self.whole = false;
                self.unsaved = true;
                self.reached(cache, version, at, report);
            }
            frame @ (Frame::Bookmark { .. } | Frame::Report(_) | Frame::Internal) => {
                self.unsaved |= matches!(frame, Frame::Bookmark { .. });
                take_frame(decode, cache, source, frame, report);
            }
        }
    }

    /// Writes the version that was reached with all that came, where there is anything new in it; `at` is the time, in
    /// milliseconds since 1970, where there is a clock.
    pub fn reached<D, S: Storage>(
        &mut self,
        cache: &Objects<D, S>,
        version: &ResourceVersion<S::Text>,
        at: Option<u64>,
        report: &mut dyn FnMut(Report<'_>),
    ) where
        S::Text: PartialEq,
    {
        if self.in_list || self.broken || !self.unsaved || !version.is_known() {
            return;
        }
        let mut text = KeyBuf::new();
        if core::fmt::Write::write_fmt(&mut text, format_args!("{version}")).is_err() {
            // No server has versions that long; without one there is nothing to resume.
            return;
        }
        let reached = Reached::new(text.as_str())
            .at(at)
            .complete(!cache.is_incomplete());
        let done = self.append(Record::Version(reached));
        self.unsaved = false;
        self.note(done, report);
        if self.failed && !self.broken {
            self.failed = false;
            self.retry.settle();
            report(Report::about(Phase::Journal, Problem::JournalRecovered));
        }
    }

    /// Tells whether it is time for a list, which alone can mend a journal that failed: the caller then calls
    /// [`Reflector::refill`](crate::Reflector::refill). The delays grow from a second to an hour, so a medium that fails
    /// forever costs one list an hour.
    ///
    /// The cache cannot be written instead, since a decoder does not keep the JSON of an object.
    pub fn wants_list(&mut self, now: Instant) -> bool {
        self.failed && self.broken && !self.in_list && self.retry.is_due(now)
    }

    fn object<D: Decode, S: Storage>(
        &mut self,
        decode: &D,
        cache: &mut Objects<D::Value, S>,
        source: u16,
        frame: &ObjectFrame<'_>,
        report: &mut dyn FnMut(Report<'_>),
    ) where
        S::Text: PartialEq,
    {
        let mut buf = KeyBuf::new();
        // The reflector has written it into a buffer of the same size.
        let _ = frame.raw.write_key(&mut buf);
        let key = buf.as_str();
        let decoded = decode_object(decode, frame, key, report);
        if frame.change != Change::Listed {
            cache.confirm(source);
        }
        let mut done = Ok(());
        match (frame.change, decoded) {
            (Change::Deleted, object) => {
                done = self.append(Record::Delete { key });
                cache.delete(source, key, object);
            }
            (_, None) => {
                done = self.append(Record::Stale { key });
                cache.keep(source, key);
            }
            (change, Some(object)) => {
                let is_known = !self.whole && cache.holds(source, key, &object);
                if !upsert(cache, source, change, key, Some(object), report) {
                    // Where it is refused the older state is not that of this version, and the cache has none perhaps.
                    done = self.append(Record::Stale { key });
                } else if !is_known {
                    decode.persist(&frame.raw, &mut |object| {
                        done = self.append(Record::Put { key, object });
                    });
                }
            }
        }
        self.note(done, report);
    }

    fn append(&mut self, record: Record<'_>) -> Result<(), J::Error> {
        if self.broken {
            return Ok(());
        }
        self.unsaved = true;
        self.journal.append(record)
    }

    fn note(&mut self, done: Result<(), J::Error>, report: &mut dyn FnMut(Report<'_>)) {
        if let Err(error) = done {
            self.failed(&error, report);
        }
    }

    fn failed(&mut self, error: &J::Error, report: &mut dyn FnMut(Report<'_>)) {
        (self.broken, self.failed) = (true, true);
        let message = Shown(error);
        let problem = Problem::Journal { message: &message };
        report(Report::about(Phase::Journal, problem));
    }
}

/// Reports a part of a journal that was not restored.
fn report_loss(lost: Lost, report: &mut dyn FnMut(Report<'_>)) {
    report(Report::about(Phase::Journal, Problem::JournalLost { lost }));
}
