//! The one way into a cache: what a source brings, as steps, and what each step does to the cache and its journal.

use core::fmt;

use crate::cache::indexer::Values;
use crate::cache::{Cache, Record, Recording};
use crate::decode::{Decode, RawObject};
use crate::object::{Cached, KeyBuf, KeyError, Object, ResourceVersion, Uid};
use crate::reflector::{Change, Frame, ObjectFrame};
use crate::report::{Phase, Problem, Report, Shown};
use crate::storage::{Storage, Text};

/// A change that a source brings into a [`Cache`]: see [`Cache::apply`].
///
/// A step carries what user code has made of an object, so applying one calls no user code.
#[non_exhaustive]
pub enum Step<'a, T, S: Storage> {
    /// A list begins. One that begins again before it is complete is the same list.
    Begin,
    /// A list names an object, or a watch event carries it.
    Object {
        /// What happened to the object.
        change: Change,
        /// Its key.
        key: &'a str,
        /// Its state; `None` if it could not be used. The cache then keeps the older state and marks it as stale, or, for
        /// a deletion, shows the last known state.
        object: Option<T>,
        /// Its values in the indexes whose functions are outside of the cache.
        values: Values<S>,
    },
    /// The list is complete: what it did not name is gone.
    Complete(ResourceVersion<S::Text>),
    /// A bookmark: the server continues from the version that was restored.
    Confirm,
    /// All steps up to this version are here.
    Reached(ResourceVersion<S::Text>),
    /// The objects of a journal are complete. They are shown as the first state, and the source is not synced before the
    /// server has confirmed them.
    Restored(ResourceVersion<S::Text>),
    /// The objects of a journal are not to be used: they are removed without a notification.
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
    /// Makes the step of an object without values in an index.
    #[must_use]
    pub fn object(change: Change, key: &'a str, object: T) -> Self {
        Self::Object {
            change,
            key,
            object: Some(object),
            values: Values::<S>::default(),
        }
    }

    /// Returns the step of a frame that carries neither an object nor a report.
    #[must_use]
    pub fn of_frame(frame: &Frame<'_, S::Text>) -> Option<Self> {
        match frame {
            Frame::Begin => Some(Self::Begin),
            Frame::Complete { version } => Some(Self::Complete((*version).clone())),
            Frame::Bookmark { .. } => Some(Self::Confirm),
            Frame::Object(_) | Frame::Report(_) | Frame::Internal => None,
        }
    }
}

impl<T: Cached, S: Storage> Cache<T, S> {
    /// Applies a step of a source, and has it recorded: `()` records nothing. Returns whether the object of the step is to
    /// be recorded; the caller then appends the [`Record::Put`], which has the bytes that [`Decode::persist`] keeps.
    ///
    /// Objects are queued as deltas, which [`Cache::pop`] applies to the state.
    ///
    /// # Errors
    /// An object for which there is no room is rejected, and the cache is incomplete until a list fits. An object of an
    /// unknown source is rejected. [`KeyError::problem`] makes a report of it.
    pub fn apply<R: Recording>(
        &mut self,
        source: u16,
        step: Step<'_, T, S>,
        recorder: &mut R,
    ) -> Result<bool, KeyError> {
        match step {
            Step::Begin => {
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
                        self.keep(source, key);
                    }
                    (change, Some(object)) => {
                        // An object that a list names as it is in the cache is in the journal as well.
                        let is_news = recorder.records()
                            && (recorder.is_anew() || !self.holds(source, key, &object));
                        // If it is rejected, the older state is not that of this version, and the cache may have none.
                        return self
                            .upsert(source, change, key, object, values)
                            .inspect_err(|_| recorder.append(Record::Stale { key }))
                            .map(|()| is_news);
                    }
                }
            }
            Step::Complete(version) => {
                if recorder.records() {
                    for key in self.unnamed(source) {
                        recorder.append(Record::Delete { key: key.as_ref() });
                    }
                }
                self.complete(source, version.clone());
                recorder.complete();
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
            Step::Restored(version) => self.restore(source, version),
            Step::Forget => self.forget(source),
        }
        Ok(false)
    }
}

impl KeyError {
    /// Returns what to report if the cache rejected an object with this key.
    #[must_use]
    pub const fn problem(self, key: &str) -> Problem<'_> {
        match self {
            Self::TooLong => Problem::KeyTooLong { key },
            Self::UnknownSource => Problem::UnknownSource { key },
            Self::NoKey | Self::NoDeltas | Self::Full => Problem::NoRoom { key },
        }
    }
}

/// Decodes a frame that came from a source of a cache, and applies what it says. Anything that cannot be used is reported.
pub fn take_frame<D: Decode, S: Storage, R: Recording>(
    decode: &D,
    cache: &mut Cache<Object<D::Value, S::Text>, S>,
    source: u16,
    frame: Frame<'_, S::Text>,
    recorder: &mut R,
    report: &mut dyn FnMut(Report<'_>),
) where
    S::Text: PartialEq,
{
    let mut buf = KeyBuf::new();
    let mut applied = Ok(false);
    match &frame {
        Frame::Object(frame) => {
            // The reflector has written it into a buffer of the same size.
            let _ = frame.raw.write_key(&mut buf);
            let object = decode_object(decode, frame, buf.as_str(), report);
            let values = match &object {
                Some(object) if frame.change != Change::Deleted => {
                    cache.index_values_of(buf.as_str(), object)
                }
                _ => Values::<S>::default(),
            };
            let step = Step::Object {
                change: frame.change,
                key: buf.as_str(),
                object,
                values,
            };
            applied = cache.apply(source, step, recorder);
            if applied == Ok(true) {
                let key = buf.as_str();
                decode.persist(&frame.raw, &mut |object| {
                    recorder.append(Record::Put { key, object });
                });
            }
        }
        Frame::Report(problem) => report(*problem),
        Frame::Begin | Frame::Complete { .. } | Frame::Bookmark { .. } | Frame::Internal => {
            if let Some(step) = Step::of_frame(&frame) {
                applied = cache.apply(source, step, recorder);
            }
        }
    }
    if let Err(why) = applied {
        report(Report::about(Phase::Cache, why.problem(buf.as_str())));
    }
    recorder.report(report);
}

/// Decodes the object of a frame. Anything that cannot be used is reported.
pub fn decode_object<D: Decode, X: Text>(
    decode: &D,
    frame: &ObjectFrame<'_>,
    key: &str,
    report: &mut dyn FnMut(Report<'_>),
) -> Option<Object<D::Value, X>> {
    if let Some(problem) = frame.problem {
        report(Report::about(Phase::Cache, Problem::Frame { key, problem }));
        return None;
    }
    decode_raw(decode, &frame.raw, key, report)
}

/// Decodes an object whose JSON was copied from its frame. Anything that cannot be used is reported.
pub fn decode_raw<D: Decode, X: Text>(
    decode: &D,
    raw: &RawObject<'_>,
    key: &str,
    report: &mut dyn FnMut(Report<'_>),
) -> Option<Object<D::Value, X>> {
    object_of(decode.decode(raw), raw, key, report)
}

/// Decodes what [`Decode::persist`] has kept of an object. Anything that cannot be used is reported, and gives `None`.
///
/// ```
/// use informer_core::{Object, Raw, RawObject, cache::restore_raw, decode::RawJson};
///
/// let json = br#"{"metadata":{"name":"web","namespace":"prod","resourceVersion":"7"}}"#;
/// let report = &mut |report: informer_core::Report<'_>| println!("{report}");
/// let pod: Option<Object<RawJson, Box<str>>> = restore_raw(&Raw, &RawObject::parse(json), "prod/web", report);
/// assert_eq!(pod.map(|pod| pod.value().bytes().to_vec()), Some(json.to_vec()));
/// ```
pub fn restore_raw<D: Decode, X: Text>(
    decode: &D,
    raw: &RawObject<'_>,
    key: &str,
    report: &mut dyn FnMut(Report<'_>),
) -> Option<Object<D::Value, X>> {
    object_of(decode.restore(raw), raw, key, report)
}

fn object_of<V, X: Text>(
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
