//! The records from which a journal restores the objects of a source.

use super::{Cache, Identity, ObjectNotification, SourceId};
use crate::decode::Decode;
use crate::object::{Object, ResourceVersion};
use crate::reflector::Restored;
use crate::report::Report;
use crate::storage::{Storage, Text};
use crate::time::Instant;

/// A record of a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record<'a> {
    /// An object is now in this state.
    Put {
        /// Its key.
        key: &'a str,
        /// Its JSON, as passed by [`Decode::persist`].
        object: &'a [u8],
    },
    /// An object was deleted.
    Delete {
        /// Its key.
        key: &'a str,
    },
    /// A newer state of an object was unusable.
    Stale {
        /// Its key.
        key: &'a str,
    },
    /// The version that is reached with all records before this one.
    Version(Reached<'a>),
}

/// A version that a journal has reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Reached<'a> {
    /// The resourceVersion, as the server wrote it.
    pub version: &'a str,
    /// The time at which it was reached, in milliseconds since 1970 by the wall clock; `None` if there is no such
    /// clock.
    pub at: Option<u64>,
    /// Whether all objects are present; false if some did not fit.
    pub complete: bool,
}

impl<'a> Reached<'a> {
    /// Creates a version that was reached with all objects, at an unknown time.
    #[must_use]
    pub const fn new(version: &'a str) -> Self {
        Self {
            version,
            at: None,
            complete: true,
        }
    }

    /// Sets the time at which it was reached, in milliseconds since 1970.
    #[must_use]
    pub const fn at(self, at: Option<u64>) -> Self {
        Self { at, ..self }
    }

    /// Sets whether all objects are present.
    #[must_use]
    pub const fn complete(self, complete: bool) -> Self {
        Self { complete, ..self }
    }
}

/// Records the steps that a source applies to a cache, such as the `Recorder` of `informer-journal`: see
/// [`Cache::apply`].
///
/// `()` records nothing, and so does `None`.
pub trait Recording {
    /// Fills an empty source of a cache from what was recorded before, and returns the restored state. `notify` receives
    /// the notifications of other sources; with a single source there are none.
    fn restore<D: Decode, S: Storage<Text: PartialEq>>(
        &mut self,
        identity: &Identity,
        decode: &D,
        cache: &mut Cache<Object<D::Value, S::Text>, S>,
        source: SourceId,
        notify: &mut impl FnMut(ObjectNotification<'_, D::Value, S::Text>),
        report: &mut dyn FnMut(Report<'_>),
    ) -> Option<Restored<S::Text>> {
        let _ = (identity, decode, cache, source, notify, report);
        None
    }

    /// Returns whether anything is recorded.
    fn records(&self) -> bool {
        false
    }

    /// Returns whether the journal was restarted with this list, so that unchanged objects must be written as well.
    fn is_restarted(&self) -> bool {
        false
    }

    /// Records that the journal may have objects that the source does not have. It stays as it is until the next list,
    /// which writes it anew.
    fn distrust(&mut self) {}

    /// Records that a list begins.
    fn begin(&mut self) {}

    /// Adds a record.
    fn append(&mut self, record: Record<'_>) {
        let _ = record;
    }

    /// Records that the list is complete.
    fn complete(&mut self) {}

    /// Records that the server confirmed the state, so that the time of the version should be written again.
    fn confirm(&mut self) {}

    /// Records that a version is reached with all records so far; `complete` is whether the cache has all its objects.
    fn reached<X: Text>(&mut self, version: &ResourceVersion<X>, complete: bool) {
        let _ = (version, complete);
    }

    /// Reports failures and recoveries since the last call.
    fn report(&mut self, report: &mut dyn FnMut(Report<'_>)) {
        let _ = report;
    }

    /// Returns whether it is time for a list, which is the only way to repair a journal that failed.
    fn wants_list(&mut self, now: Instant) -> bool {
        let _ = now;
        false
    }
}

impl Recording for () {}

impl<R: Recording> Recording for Option<R> {
    fn restore<D: Decode, S: Storage<Text: PartialEq>>(
        &mut self,
        identity: &Identity,
        decode: &D,
        cache: &mut Cache<Object<D::Value, S::Text>, S>,
        source: SourceId,
        notify: &mut impl FnMut(ObjectNotification<'_, D::Value, S::Text>),
        report: &mut dyn FnMut(Report<'_>),
    ) -> Option<Restored<S::Text>> {
        let recorder = self.as_mut()?;
        recorder.restore(identity, decode, cache, source, notify, report)
    }

    fn records(&self) -> bool {
        self.as_ref().is_some_and(R::records)
    }
    fn is_restarted(&self) -> bool {
        self.as_ref().is_some_and(R::is_restarted)
    }
    fn distrust(&mut self) {
        self.iter_mut().for_each(R::distrust);
    }
    fn begin(&mut self) {
        self.iter_mut().for_each(R::begin);
    }
    fn append(&mut self, record: Record<'_>) {
        self.iter_mut().for_each(|recorder| recorder.append(record));
    }
    fn complete(&mut self) {
        self.iter_mut().for_each(R::complete);
    }
    fn confirm(&mut self) {
        self.iter_mut().for_each(R::confirm);
    }
    fn reached<X: Text>(&mut self, version: &ResourceVersion<X>, complete: bool) {
        self.iter_mut()
            .for_each(|recorder| recorder.reached(version, complete));
    }
    fn report(&mut self, report: &mut dyn FnMut(Report<'_>)) {
        self.iter_mut().for_each(|recorder| recorder.report(report));
    }
    fn wants_list(&mut self, now: Instant) -> bool {
        self.as_mut()
            .is_some_and(|recorder| recorder.wants_list(now))
    }
}
