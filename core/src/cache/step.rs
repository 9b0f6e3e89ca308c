//! Steps: the only way to change a cache, and their effect on the cache and its journal.

use core::fmt;

use super::source::SweepEnd;
use crate::cache::store::Values;
use crate::cache::{Cache, Record, Recording, SourceId};
use crate::decode::{Decode, RawObject};
use crate::object::{Cached, KeyError, MAX_KEY, Object, ResourceVersion, Uid};
use crate::reflector::{Change, Frame, ObjectFrame};
use crate::report::{Phase, Problem, Report, Shown};
use crate::storage::{Storage, Text};

/// A change that a source applies to a [`Cache`]: see [`Cache::apply`].
///
/// A step contains the results of user code, such as decoded objects, so applying a step calls no user code.
#[non_exhaustive]
pub enum Step<'a, T, S: Storage> {
    /// A list begins. If the previous list was not complete, this one continues it.
    Begin,
    /// An object in a list or a watch event. An event confirms the restored version, as [`Step::Confirm`] does.
    Object {
        /// The change of the object.
        change: Change,
        /// Its key.
        key: &'a str,
        /// Its state; `None` if it was unusable. The cache then marks the older state as stale, or shows the last known
        /// state for a deletion.
        object: Option<T>,
        /// Its values of all indexes, computed outside of the cache. With `None`, the cache calls the functions of its indexes.
        values: Option<Values<S>>,
    },
    /// The list is complete: objects that it did not contain are deleted.
    Complete(ResourceVersion<S::Text>),
    /// A bookmark: the server has resumed at the restored version. `Synced` comes before any later notification.
    Confirm,
    /// All steps up to this version were applied.
    Reached(ResourceVersion<S::Text>),
    /// The objects of a journal are complete. They are shown as the initial state, and the source is not synced until
    /// the server confirms them.
    Restored(ResourceVersion<S::Text>),
    /// The objects of a journal are discarded: they are removed without a notification.
    Forget,
}

impl<T, S: Storage> fmt::Debug for Step<'_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin => f.write_str("Begin"),
            Self::Object { change, key, .. } => write!(f, "Object({change:?} {key})"),
            Self::Complete(version) => write!(f, "Complete({version})"),
            Self::Confirm => f.write_str("Confirm"),
            Self::Reached(version) => write!(f, "Reached({version})"),
            Self::Restored(version) => write!(f, "Restored({version})"),
            Self::Forget => f.write_str("Forget"),
        }
    }
}

impl<'a, T, S: Storage> Step<'a, T, S> {
    /// Creates the step of an object whose index values the cache computes.
    #[must_use]
    pub fn object(change: Change, key: &'a str, object: T) -> Self {
        Self::Object {
            change,
            key,
            object: Some(object),
            values: None,
        }
    }
}

impl<T: Cached, S: Storage> Cache<T, S> {
    /// Applies a step of a source and records it; `()` records nothing. Returns whether the object of the step is to be
    /// recorded. The caller then appends a [`Record::Put`] with the bytes from [`Decode::persist`].
    ///
    /// Objects are queued as deltas, which [`Cache::pop`] applies to the state.
    ///
    /// # Errors
    /// Rejects an object that does not fit; the cache is then incomplete until a list fits. Rejects an object of an
    /// unknown source. [`KeyError::problem`] converts the error to a report.
    pub fn apply<R: Recording>(
        &mut self,
        source: SourceId,
        step: Step<'_, T, S>,
        recorder: &mut R,
    ) -> Result<bool, KeyError> {
        let Some(source) = self.place(source) else {
            if let Step::Object { object, .. } = step {
                self.discarded.put_some(object);
                return Err(KeyError::UnknownSource);
            }
            return Ok(false);
        };
        match step {
            Step::Begin => {
                if self.forget_rivals(source) {
                    recorder.distrust();
                }
                recorder.begin();
                self.begin(source);
            }
            Step::Object {
                change,
                key,
                object,
                values,
            } => {
                if change != Change::Listed {
                    self.confirm(source);
                }
                match (change, object) {
                    (Change::Deleted, object) => {
                        recorder.append(Record::Delete { key });
                        self.delete(source, key, object);
                    }
                    (_, None) => {
                        recorder.append(Record::Stale { key });
                        self.mark_stale(source, key);
                    }
                    (change, Some(object)) => {
                        return self.record_upsert(source, change, (key, object), values, recorder);
                    }
                }
            }
            Step::Complete(version) => {
                if recorder.records() {
                    for key in self.unlisted(source) {
                        recorder.append(Record::Delete { key: key.as_ref() });
                    }
                }
                self.end_list(source, SweepEnd::Complete(version.clone()));
                recorder.complete();
                if self.take_distrust(source) {
                    recorder.distrust();
                }
                recorder.reached(&version, !self.is_incomplete());
            }
            Step::Confirm => {
                self.confirm(source);
                recorder.confirm();
            }
            Step::Reached(version) => {
                if version.is_known() {
                    recorder.reached(&version, !self.is_incomplete());
                    self.advance(source, version);
                }
            }
            Step::Restored(version) => self.end_list(source, SweepEnd::Restored(version)),
            Step::Forget => self.end_list(source, SweepEnd::Forgotten),
        }
        Ok(false)
    }

    /// Queues the upsert of an object. Returns whether the object is to be recorded.
    fn record_upsert<R: Recording>(
        &mut self,
        source: u16,
        change: Change,
        (key, object): (&str, T),
        values: Option<Values<S>>,
        recorder: &mut R,
    ) -> Result<bool, KeyError> {
        // A listed object that equals the cached one is in the journal already, unless no journal stores its key.
        let is_news = recorder.records()
            && (recorder.is_restarted()
                || key.len() > MAX_KEY
                || !self.holds(source, key, &object));
        let values = values.unwrap_or_else(|| self.index_values_of(key, &object));
        // A rejected object leaves the cache with an older state, or with none.
        self.upsert(source, change, key, object, values)
            .inspect_err(|_| recorder.append(Record::Stale { key }))
            .map(|()| is_news)
    }
}

impl KeyError {
    /// Returns the problem to report if the cache rejected an object with this key.
    #[must_use]
    pub const fn problem(self, key: &str) -> Problem<'_> {
        match self {
            Self::TooLong => Problem::KeyTooLong { key },
            Self::UnknownSource => Problem::UnknownSource { key },
            Self::NoKey | Self::Full => Problem::NoRoom { key },
        }
    }
}

/// Decodes a frame from a source of a cache, and applies it. Unusable frames are reported.
pub fn take_frame<D: Decode, S: Storage, R: Recording>(
    decode: &D,
    cache: &mut Cache<Object<D::Value, S::Text>, S>,
    source: SourceId,
    frame: Frame<'_, S::Text>,
    recorder: &mut R,
    report: &mut dyn FnMut(Report<'_>),
) where
    S::Text: PartialEq,
{
    let step = match frame {
        Frame::Object(frame) => {
            let key = frame.key;
            let object = decode_object(decode, &frame, report);
            let step = Step::Object {
                change: frame.change,
                key,
                object,
                values: None,
            };
            match cache.apply(source, step, recorder) {
                Ok(true) => decode.persist(&frame.raw, &mut |object| {
                    recorder.append(Record::Put { key, object });
                }),
                Ok(false) => {}
                Err(why) => report(Report::about(Phase::Cache, why.problem(key))),
            }
            None
        }
        Frame::Report(problem) => {
            report(problem);
            None
        }
        Frame::Begin => Some(Step::Begin),
        Frame::Complete { version } => Some(Step::Complete(version.clone())),
        Frame::Bookmark { .. } => Some(Step::Confirm),
        Frame::Internal => None,
    };
    if let Some(step) = step {
        // Objects alone are rejected.
        let _ = cache.apply(source, step, recorder);
    }
    recorder.report(report);
}

/// Decodes the object of a frame. Returns `None` if it is unusable, which is reported.
pub fn decode_object<D: Decode, X: Text>(
    decode: &D,
    frame: &ObjectFrame<'_>,
    report: &mut dyn FnMut(Report<'_>),
) -> Option<Object<D::Value, X>> {
    let key = frame.key;
    if let Some(problem) = frame.problem {
        report(Report::about(Phase::Cache, Problem::Frame { key, problem }));
        return None;
    }
    object_of(decode.decode(&frame.raw), &frame.raw, key, report)
}

/// Combines the value of a decoder with the object's identity. Returns `None` if the decoder failed, which is reported.
pub fn object_of<V, X: Text>(
    decoded: Result<V, impl fmt::Display>,
    raw: &RawObject<'_>,
    key: &str,
    report: &mut dyn FnMut(Report<'_>),
) -> Option<Object<V, X>> {
    match decoded {
        Ok(value) => {
            let uid = Uid::from_json(raw.uid());
            let version = ResourceVersion::from_json(raw.resource_version());
            Some(Object::new(uid, version, value))
        }
        Err(error) => {
            let message = Shown(&error);
            report(Report::about(
                Phase::Cache,
                Problem::Undecodable {
                    key,
                    message: &message,
                },
            ));
            None
        }
    }
}
