//! From steps to records, and back.

use core::cell::RefCell;
use core::time::Duration;

use super::{Identity, Journal, Loss, Lost, Reached, Record, Recording, Restored, Retry};
use crate::cache::{Cache, ObjectNotification, Step, restore_raw};
use crate::decode::{Decode, RawObject};
use crate::object::{KeyBuf, Object, ResourceVersion};
use crate::reflector::Change;
use crate::report::{Phase, Problem, Report, Shown};
use crate::storage::{Storage, Text};
use crate::time::Instant;

/// How long it takes at most until a list is asked for again, for a journal that fails each time. A flash is erased for
/// each of them.
const RETRY_LIMIT: Duration = Duration::from_secs(3600);

/// Derives the records of a [`Journal`] from the steps that one source brings into a cache.
///
/// It is asked to [`restore`](Self::restore) first, and then hears each step: see [`Cache::apply`]. Objects are written
/// first and the version after them; while a list is under way no version is written, so that what is restored is never
/// a part of a list. An object that a list names as it is in the cache is not written again.
///
/// A journal that cannot be written is reported once, and begun anew with the next list; until then it keeps its last
/// state. [`wants_list`](Recording::wants_list) asks for that list, and its end is reported as well. The delays before it
/// grow from a second to an hour, so a medium that fails forever costs one list an hour.
#[derive(Debug)]
pub struct Recorder<J: Journal> {
    journal: J,
    /// The time, in milliseconds since 1970, where there is a clock.
    time: Option<u64>,
    /// A list is under way.
    in_list: bool,
    /// The journal was begun anew, and has nothing yet of what is in the cache.
    is_anew: bool,
    /// Nothing is written before the next list, which begins the journal anew.
    broken: bool,
    /// Something was written since the last version.
    unsaved: bool,
    /// It was reported that the journal failed, and not yet that it is whole again.
    failed: bool,
    /// A failure that is to be reported.
    error: Option<J::Error>,
    /// The recovery is to be reported.
    recovered: bool,
    retry: Retry,
}

impl<X: Text> Restored<X> {
    /// Makes what was restored of a version that a journal has reached.
    #[must_use]
    pub fn of(reached: &Reached<'_>) -> Self {
        Self {
            version: ResourceVersion::new(reached.version),
            at: reached.at,
            complete: reached.complete,
        }
    }
}

impl<J: Journal> Recorder<J> {
    /// Makes one of a journal.
    pub const fn new(journal: J) -> Self {
        Self {
            journal,
            time: None,
            in_list: false,
            is_anew: false,
            broken: false,
            unsaved: false,
            failed: false,
            error: None,
            recovered: false,
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

    /// Sets the time of the versions that are written from now on, in milliseconds since 1970.
    pub const fn set_time(&mut self, time: Option<u64>) {
        self.time = time;
    }

    /// Fills a source of a cache, which has brought nothing yet, with what is in the journal: what is popped then are
    /// initial objects. The cache is not synced by it, see [`Cache::is_restored`]. `notify` is called with the notifications
    /// of other sources; if there is only one source, there are none.
    ///
    /// A journal of another cluster, resource, selector or decoder is refused, and one that cannot be read is not used:
    /// both are reported, and so is each part of a journal that is dropped.
    pub fn restore<D: Decode, S: Storage>(
        &mut self,
        identity: &Identity,
        decode: &D,
        cache: &mut Cache<Object<D::Value, S::Text>, S>,
        source: u16,
        notify: &mut impl FnMut(ObjectNotification<'_, D::Value, S::Text>),
        report: &mut dyn FnMut(Report<'_>),
    ) -> Option<Restored<S::Text>>
    where
        S::Text: PartialEq,
    {
        let mut restored = None;
        let mut unusable = Lost::new(Loss::Unusable, 0, 0);
        let reports = RefCell::new(&mut *report);
        cache.begin(source);
        let mut take = |record: Record<'_>| {
            let (change, key, bytes) = match record {
                Record::Put { key, object } => (Change::Listed, key, object),
                Record::Delete { key } => (Change::Deleted, key, &[][..]),
                Record::Stale { key } => (Change::Modified, key, &[][..]),
                Record::Version(reached) => {
                    restored = Some(Restored::of(&reached));
                    return;
                }
            };
            let report = &mut **reports.borrow_mut();
            let is_put = change == Change::Listed;
            let object = is_put
                .then(|| restore_raw(decode, &RawObject::parse(bytes), key, report))
                .flatten();
            let is_lost = is_put && object.is_none();
            let object = object.map(|object| (cache.index_values_of(key, &object), object));
            let (values, object) = object.unzip();
            let step = Step::Object {
                change,
                key,
                object,
                values: values.unwrap_or_default(),
            };
            let applied = cache.apply(source, step, &mut ());
            if let Err(why) = applied {
                report(Report::about(Phase::Cache, why.problem(key)));
            }
            if is_lost || applied.is_err() {
                unusable.records += 1;
                unusable.bytes += bytes.len() as u64;
            }
            // The objects are initial ones, so only other sources have notifications.
            while let Some(notification) = cache.pop() {
                notify(notification);
            }
        };
        let loaded = self.journal.load(identity, &mut take, &mut |lost| {
            report_loss(lost, &mut **reports.borrow_mut());
        });
        if let Err(error) = loaded {
            self.failed(error);
        }
        let Some(mut restored) = restored.filter(|_| !self.broken) else {
            cache.forget(source);
            self.report(report);
            return None;
        };
        if unusable.records > 0 {
            report_loss(unusable, report);
            // An entry in the journal but not in the cache would never be swept by a list.
            self.broken = true;
            restored.complete = false;
        }
        cache.restore(source, restored.version.clone());
        Some(restored)
    }

    fn note(&mut self, done: Result<(), J::Error>) {
        if let Err(error) = done {
            self.failed(error);
        }
    }

    fn failed(&mut self, error: J::Error) {
        (self.broken, self.failed) = (true, true);
        self.error = Some(error);
    }
}

impl<J: Journal> Recording for Recorder<J> {
    fn records(&self) -> bool {
        !self.broken
    }

    fn is_anew(&self) -> bool {
        self.is_anew
    }

    fn begin(&mut self) {
        self.in_list = true;
        if core::mem::take(&mut self.broken) || self.journal.has_failed() {
            self.is_anew = true;
            let done = self.journal.restart();
            self.note(done);
        }
    }

    fn append(&mut self, record: Record<'_>) {
        if self.broken {
            return;
        }
        self.unsaved = true;
        let done = self.journal.append(record);
        self.note(done);
    }

    fn complete(&mut self) {
        (self.in_list, self.is_anew, self.unsaved) = (false, false, true);
    }

    fn confirm(&mut self) {
        self.unsaved = true;
    }

    fn reached<X: Text>(&mut self, version: &ResourceVersion<X>, complete: bool) {
        // A part of a list is no state of the server.
        if self.in_list || self.broken || !self.unsaved || !version.is_known() {
            return;
        }
        let mut text = KeyBuf::new();
        if core::fmt::Write::write_fmt(&mut text, format_args!("{version}")).is_err() {
            // No server has versions that long; without one there is nothing to resume.
            return;
        }
        let reached = Reached::new(text.as_str()).at(self.time).complete(complete);
        self.append(Record::Version(reached));
        self.unsaved = false;
        if self.failed && !self.broken {
            (self.failed, self.recovered) = (false, true);
            self.retry.settle();
        }
    }

    fn report(&mut self, report: &mut dyn FnMut(Report<'_>)) {
        if let Some(error) = self.error.take() {
            let message = Shown(&error);
            let problem = Problem::Journal { message: &message };
            report(Report::about(Phase::Journal, problem));
        }
        if core::mem::take(&mut self.recovered) {
            report(Report::about(Phase::Journal, Problem::JournalRecovered));
        }
    }

    fn wants_list(&mut self, now: Instant) -> bool {
        // The cache cannot be written instead, since a decoder does not keep the JSON of an object.
        self.failed && self.broken && !self.in_list && self.retry.is_due(now)
    }
}

/// Reports a part of a journal that was not restored.
fn report_loss(lost: Lost, report: &mut dyn FnMut(Report<'_>)) {
    report(Report::about(Phase::Journal, Problem::JournalLost { lost }));
}
