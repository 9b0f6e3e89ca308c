//! The recorder: from steps to records, and back.

use core::time::Duration;

use super::{
    Identity, Loss, LostRecords, Reached, Record, RecordLog, Recording, Restore, Restored, Retry,
    restore,
};
use informer_core::Instant;
use informer_core::cache::{Cache, ObjectNotification, SourceId, Step, object_of};
use informer_core::decode::{Decode, RawObject};
use informer_core::object::{KeyError, MAX_KEY, Object, ResourceVersion};
use informer_core::reflector::Change;
use informer_core::report::{Phase, Problem, Report};
use informer_core::storage::{Storage, Text};

/// The longest delay between lists for a journal that keeps failing. Each attempt may erase a flash.
const RETRY_LIMIT: Duration = Duration::from_secs(3600);

/// Derives the records of a [`RecordLog`] from the steps that one source applies to a cache.
///
/// Call [`restore`](Recording::restore) first, then pass the recorder to [`Cache::apply`] with each step. Objects are
/// written before the version that includes them. No version is written during a list, so that a partial list is never
/// restored. A listed object that equals the cached one is not written again.
///
/// A version is incomplete if an object since the last list was unusable, or has a key longer than 317 bytes, which is
/// not written. The next start then begins with a list, since a decoder that was fixed may accept the object.
///
/// A journal that cannot be written is reported once, and restarted with the next list; until then it keeps its last
/// state. [`wants_list`](Recording::wants_list) requests that list, and the recovery is reported as well. The delays
/// before it grow from a second to an hour, so a medium that fails permanently costs one list per hour.
#[derive(Debug)]
pub struct Recorder<J: RecordLog> {
    journal: J,
    /// The time in milliseconds since 1970, if there is a clock.
    time: Option<u64>,
    /// A list is in progress.
    in_list: bool,
    /// The journal was restarted, and does not contain the objects of the cache yet.
    is_restarted: bool,
    /// Nothing is written until the next list, which restarts the journal.
    broken: bool,
    /// The journal may have objects that the source does not have.
    distrusts: bool,
    /// Something was written since the last version.
    unsaved: bool,
    /// The journal lacks the newest state of an object, which only a list brings back.
    lacks: bool,
    unversioned: Unversioned,
    /// The failure of the journal was reported, and its recovery was not.
    failed: bool,
    /// A failure to report.
    error: Option<J::Error>,
    /// The recovery must be reported.
    recovered: bool,
    retry: Retry,
}

/// Whether the server has sent a list without a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unversioned {
    No,
    Unreported,
    Reported,
}

impl<J: RecordLog> Recorder<J> {
    /// Creates a recorder for a journal.
    pub const fn new(journal: J) -> Self {
        Self {
            journal,
            time: None,
            in_list: false,
            is_restarted: false,
            broken: false,
            distrusts: false,
            unsaved: false,
            lacks: false,
            unversioned: Unversioned::No,
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

    /// Consumes the recorder and returns the journal.
    #[must_use]
    pub fn into_journal(self) -> J {
        self.journal
    }

    /// Sets the time of the versions that are written next, in milliseconds since 1970.
    pub const fn set_time(&mut self, time: Option<u64>) {
        self.time = time;
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

/// A source that is being restored.
struct RestoredSource<'a, D: Decode, S: Storage, N> {
    decode: &'a D,
    cache: &'a mut Cache<Object<D::Value, S::Text>, S>,
    id: SourceId,
    notify: &'a mut N,
    report: &'a mut dyn FnMut(Report<'_>),
    unusable: LostRecords,
}

impl<D: Decode, S: Storage<Text: PartialEq>, N> RestoredSource<'_, D, S, N> {
    fn apply(&mut self, step: Step<'_, Object<D::Value, S::Text>, S>) -> Result<bool, KeyError> {
        self.cache.apply(self.id, step, &mut ())
    }
}

impl<D, S, N> Restore<S::Text> for RestoredSource<'_, D, S, N>
where
    D: Decode,
    S: Storage<Text: PartialEq>,
    N: FnMut(ObjectNotification<'_, D::Value, S::Text>),
{
    fn change(&mut self, change: Change, key: &str, bytes: &[u8]) {
        let is_put = change == Change::Listed;
        let object = if is_put {
            let raw = RawObject::parse(bytes);
            object_of(self.decode.restore(&raw), &raw, key, self.report)
        } else {
            None
        };
        let is_lost = is_put && object.is_none();
        let step = Step::Object {
            change,
            key,
            object,
            values: None,
        };
        let applied = self.apply(step);
        if let Err(why) = applied {
            (self.report)(Report::about(Phase::Cache, why.problem(key)));
        }
        if is_lost || applied.is_err() {
            self.unusable.records += 1;
            self.unusable.bytes += bytes.len() as u64;
        }
        // The restored objects have no notifications yet, so these are of other sources.
        while let Some(notification) = self.cache.pop() {
            (self.notify)(notification);
        }
    }

    fn end(&mut self, restored: Option<&Restored<S::Text>>) -> LostRecords {
        let step = restored.map_or(Step::Forget, |restored| {
            Step::Restored(restored.version.clone())
        });
        // Only objects are rejected.
        let _ = self.apply(step);
        self.unusable
    }

    fn lost(&mut self, lost: LostRecords) {
        (self.report)(Report::about(Phase::Journal, Problem::JournalLost { lost }));
    }
}

impl<J: RecordLog> Recording for Recorder<J> {
    /// Fills an empty source of a cache from the journal. The restored objects are popped as part of the initial list,
    /// but the cache is not synced by them: see [`Cache::is_restored`]. `notify` receives the notifications of other
    /// sources; with a single source there are none.
    ///
    /// A journal of another cluster, resource, selector or decoder is rejected, and an unreadable journal is not used.
    /// Both are reported, and so is each part of a journal that is dropped. Nothing is restored for a source that the cache
    /// does not have.
    fn restore<D: Decode, S: Storage<Text: PartialEq>>(
        &mut self,
        identity: &Identity,
        decode: &D,
        cache: &mut Cache<Object<D::Value, S::Text>, S>,
        id: SourceId,
        notify: &mut impl FnMut(ObjectNotification<'_, D::Value, S::Text>),
        report: &mut dyn FnMut(Report<'_>),
    ) -> Option<Restored<S::Text>> {
        // Nothing is restored for a source that the cache does not have.
        cache.version(id)?;
        let mut into = RestoredSource {
            decode,
            cache,
            id,
            notify,
            report,
            unusable: LostRecords::new(Loss::Unusable, 0, 0),
        };
        // Only objects are rejected.
        let _ = into.apply(Step::Begin);
        let restored = restore(&mut self.journal, identity, &mut into);
        // An entry in the journal but not in the cache would never be swept by a list.
        self.broken |= into.unusable.records > 0;
        let restored = restored.unwrap_or_else(|error| {
            self.failed(error);
            None
        });
        if restored.is_none() {
            self.report(report);
        }
        restored
    }

    fn records(&self) -> bool {
        !self.broken
    }

    fn is_restarted(&self) -> bool {
        self.is_restarted
    }

    fn distrust(&mut self) {
        (self.broken, self.distrusts) = (true, true);
    }

    fn begin(&mut self) {
        (self.in_list, self.distrusts, self.lacks) = (true, false, false);
        if core::mem::take(&mut self.broken) || self.journal.has_failed() {
            self.is_restarted = true;
            let done = self.journal.restart();
            self.note(done);
        }
    }

    fn append(&mut self, record: Record<'_>) {
        let (key, lacks) = match record {
            Record::Put { key, .. } => (key, key.len() > MAX_KEY),
            Record::Stale { key } => (key, true),
            Record::Delete { key } => (key, false),
            Record::Version(_) => ("", false),
        };
        self.lacks |= lacks;
        if self.broken {
            return;
        }
        self.unsaved = true;
        if key.len() > MAX_KEY {
            return;
        }
        let done = self.journal.append(record);
        self.note(done);
    }

    fn complete(&mut self) {
        (self.in_list, self.is_restarted, self.unsaved) = (false, false, true);
    }

    fn confirm(&mut self) {
        self.unsaved = true;
    }

    fn reached<X: Text>(&mut self, version: &ResourceVersion<X>, complete: bool) {
        if !version.is_known() && !self.in_list && !self.broken {
            // Without versions nothing can be restored, and nothing would ever be compacted.
            self.broken = true;
            if self.unversioned == Unversioned::No {
                self.unversioned = Unversioned::Unreported;
            }
            return;
        }
        // A partial list is not a state of the server.
        if self.in_list || self.broken || !self.unsaved || !version.is_known() {
            return;
        }
        let mut text = heapless::String::<MAX_KEY>::new();
        if core::fmt::Write::write_fmt(&mut text, format_args!("{version}")).is_err() {
            // No server has versions of that length, and there is nothing to resume without one.
            return;
        }
        let is_whole = complete && !self.lacks;
        let reached = Reached::new(text.as_str()).at(self.time).complete(is_whole);
        self.append(Record::Version(reached));
        self.unsaved = false;
        if self.failed && !self.broken {
            (self.failed, self.recovered) = (false, true);
            self.retry.reset();
        }
    }

    fn report(&mut self, report: &mut dyn FnMut(Report<'_>)) {
        if let Some(error) = self.error.take() {
            let problem = Problem::Journal { message: &error };
            report(Report::about(Phase::Journal, problem));
        }
        if self.unversioned == Unversioned::Unreported {
            self.unversioned = Unversioned::Reported;
            let message = &"the server sends no resourceVersions, so there is no state to restore";
            report(Report::about(Phase::Journal, Problem::Journal { message }));
        }
        if core::mem::take(&mut self.recovered) {
            report(Report::about(Phase::Journal, Problem::JournalRecovered));
        }
    }

    fn wants_list(&mut self, now: Instant) -> bool {
        // The journal cannot be rewritten from the cache, since a decoder does not store the JSON of an object.
        (self.failed || self.distrusts) && self.broken && !self.in_list && self.retry.is_due(now)
    }
}
