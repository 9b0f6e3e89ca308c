//! What a journal keeps of the steps that a source brings into a cache.

use crate::object::ResourceVersion;
use crate::report::Report;
use crate::storage::Text;
use crate::time::Instant;

/// One thing that a journal keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Record<'a> {
    /// An object is now in this state.
    Put {
        /// Its key.
        key: &'a str,
        /// Its JSON, as [`Decode::persist`](crate::Decode::persist) gives it.
        object: &'a [u8],
    },
    /// An object is gone.
    Delete {
        /// Its key.
        key: &'a str,
    },
    /// There is a newer state of an object, which could not be used.
    Stale {
        /// Its key.
        key: &'a str,
    },
    /// With all that came before, this version is reached.
    Version(Reached<'a>),
}

/// The version that a journal has reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Reached<'a> {
    /// The resourceVersion, as the server wrote it.
    pub version: &'a str,
    /// When it was reached, in milliseconds since 1970 by the clock of the wall; `None` where there is no such clock.
    pub at: Option<u64>,
    /// Whether all objects are there; false where there was no room for some.
    pub complete: bool,
}

impl<'a> Reached<'a> {
    /// A version that was reached with all objects, nobody knows when.
    #[must_use]
    pub const fn new(version: &'a str) -> Self {
        Self {
            version,
            at: None,
            complete: true,
        }
    }

    /// Says when it was reached, in milliseconds since 1970.
    #[must_use]
    pub const fn at(self, at: Option<u64>) -> Self {
        Self { at, ..self }
    }

    /// Says whether all objects are there.
    #[must_use]
    pub const fn complete(self, complete: bool) -> Self {
        Self { complete, ..self }
    }
}

/// Hears the steps that a source brings into a cache: see [`Cache::apply`](crate::Cache::apply).
///
/// `()` records nothing, and so does `None`.
pub trait Recording {
    /// Tells whether anything is recorded at all.
    fn records(&self) -> bool;
    /// Tells whether the journal was begun anew with this list, so that objects the cache has already are to be written.
    fn is_anew(&self) -> bool;
    /// A list begins.
    fn begin(&mut self);
    /// Adds a record.
    fn append(&mut self, record: Record<'_>);
    /// The list is complete.
    fn complete(&mut self);
    /// The server has confirmed the state, so that the time of the version is worth writing again.
    fn confirm(&mut self);
    /// A version is reached with all records so far; `complete` tells whether the cache has all objects of it.
    fn reached<X: Text>(&mut self, version: &ResourceVersion<X>, complete: bool);
    /// Reports failures and recoveries since the last call.
    fn report(&mut self, report: &mut dyn FnMut(Report<'_>));
    /// Tells whether it is time for a list, which alone can mend a journal that failed.
    fn wants_list(&mut self, now: Instant) -> bool;
}

impl Recording for () {
    fn records(&self) -> bool {
        false
    }
    fn is_anew(&self) -> bool {
        false
    }
    fn begin(&mut self) {}
    fn append(&mut self, _record: Record<'_>) {}
    fn complete(&mut self) {}
    fn confirm(&mut self) {}
    fn reached<X: Text>(&mut self, _version: &ResourceVersion<X>, _complete: bool) {}
    fn report(&mut self, _report: &mut dyn FnMut(Report<'_>)) {}
    fn wants_list(&mut self, _now: Instant) -> bool {
        false
    }
}

impl<R: Recording> Recording for Option<R> {
    fn records(&self) -> bool {
        self.as_ref().is_some_and(R::records)
    }
    fn is_anew(&self) -> bool {
        self.as_ref().is_some_and(R::is_anew)
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
