//! Reflector and cache together, for who drives them from one place.

use crate::cache::{Cache, CacheConfig, Notification};
use crate::decode::{Decode, RawObject};
use crate::journal::{Identity, Journal, Recorder, Restored};
use crate::key::{KeyBuf, KeyError};
use crate::object::Object;
use crate::reflector::{
    Change, Frame, ObjectFrame, Output, Reflector, ReflectorConfig, RequestId, Target,
};
use crate::report::{Phase, Problem, Report};
use crate::storage::Storage;
use crate::time::Instant;
use crate::transport::{End, Head};
use crate::version::{ResourceVersion, Uid};

/// An informer without I/O: a [`Reflector`], a decoder and a [`Cache`], for one thread.
///
/// The reflector's half is driven as the reflector is: `handle_*`, then [`Informer::poll_output`] until it waits. What
/// is to be told is popped from the other half, at the caller's speed: while nothing is popped deltas gather, and
/// where there is no room for more, [`Informer::handle_data`] takes less than it is given.
///
/// ```
/// use informer_core::{Head, Informer, Inline, Instant, Notification, Output, RawObject, ReflectorConfig, Resource};
///
/// // Sixteen objects, keys of 64 bytes, frames of 1 kB; no allocator.
/// type Small = Inline<16, 64, 1024>;
/// let size = |raw: &RawObject<'_>| Ok::<_, core::convert::Infallible>(raw.json().len());
/// let now = Instant::from_micros(0);
/// let mut pods: Informer<_, _, Small> =
///     Informer::new(Resource::new("", "v1", "pods"), size, ReflectorConfig::list(), 1);
///
/// let Output::Send(request) = pods.poll_output(now) else { panic!() };
/// let id = request.id();
/// pods.handle_head(now, id, Head::new(200));
/// let body = br#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}}]}"#;
/// assert_eq!(pods.handle_data(now, id, body, &mut |report| panic!("{report}")), body.len());
/// assert!(matches!(pods.pop(), Some(Notification::Added { .. })));
/// assert!(matches!(pods.pop(), Some(Notification::Synced)));
/// assert!(pods.cache().get("a").is_some());
/// ```
pub struct Informer<R, D: Decode, S: Storage>
where
    S::Text: PartialEq,
{
    reflector: Reflector<R, S>,
    decode: D,
    cache: Cache<Object<D::Value, S::Text>, S>,
}

impl<R: Target, D: Decode, S: Storage> Informer<R, D, S>
where
    S::Text: PartialEq,
{
    /// Makes an informer that has not begun. The same seed gives the same jitter.
    #[must_use]
    pub fn new(target: R, decode: D, config: ReflectorConfig, seed: u64) -> Self {
        let cache = if config.client_go {
            CacheConfig::client_go()
        } else {
            CacheConfig::default()
        };
        Self {
            reflector: Reflector::new(target, config, seed).with_decoder(&decode),
            decode,
            cache: Cache::new(cache, 1, seed),
        }
    }

    /// Says what to do next: [`Reflector::poll_output`].
    pub fn poll_output(&mut self, now: Instant) -> Output<'_> {
        if self.cache.take_wants_relist(0) {
            self.reflector.refill(now);
        }
        if !self.cache.wants_read() {
            // It is not the server that is silent.
            self.reflector.excuse_silence(now);
        }
        self.reflector.poll_output(now)
    }

    /// Takes the head of an answer.
    pub fn handle_head(&mut self, now: Instant, id: RequestId, head: Head) {
        self.reflector.handle_head(now, id, head);
    }

    /// Takes bytes of an answer; returns how many. Where it takes fewer there is no room: pop, and give the rest again.
    #[must_use = "bytes that are not taken have to be given again"]
    pub fn handle_data(
        &mut self,
        now: Instant,
        id: RequestId,
        data: &[u8],
        report: &mut dyn FnMut(Report<'_>),
    ) -> usize {
        let mut rest = data;
        while self.cache.wants_read() {
            match self.reflector.next_frame(now, id, &mut rest) {
                Some(frame) => take_frame(&self.decode, &mut self.cache, 0, frame, report),
                None => break,
            }
        }
        if self.reflector.version().is_known() && rest.is_empty() {
            self.cache.advance(0, self.reflector.version().clone());
        }
        data.len() - rest.len()
    }

    /// Fills the cache from a journal, before anything else, and has the watch resumed at the version that is restored;
    /// where not all objects are there, everything is listed. What is popped then are the objects.
    ///
    /// `cluster` is what the user calls the cluster: see [`Identity::new`].
    pub fn restore<J: Journal>(
        &mut self,
        recorder: &mut Recorder<J>,
        cluster: &str,
        report: &mut dyn FnMut(Report<'_>),
    ) -> Option<Restored<S::Text>> {
        let resource = self.reflector.resource();
        let identity = Identity::new(cluster, &resource, self.decode.fingerprint());
        let restored = recorder.restore(
            &identity,
            &self.decode,
            &mut self.cache,
            0,
            &mut |_| (),
            report,
        )?;
        self.reflector.restored(&restored);
        Some(restored)
    }

    /// As [`Informer::handle_data`], and keeps a journal of it; `at` is the time, in milliseconds since 1970, where there is
    /// a clock.
    #[must_use = "bytes that are not taken have to be given again"]
    pub fn handle_data_recorded<J: Journal>(
        &mut self,
        now: Instant,
        id: RequestId,
        data: &[u8],
        recorder: &mut Recorder<J>,
        at: Option<u64>,
        report: &mut dyn FnMut(Report<'_>),
    ) -> usize {
        let mut rest = data;
        while self.cache.wants_read() {
            match self.reflector.next_frame(now, id, &mut rest) {
                Some(frame) => {
                    recorder.take_frame(&self.decode, &mut self.cache, 0, frame, at, report);
                }
                None => break,
            }
        }
        let reached = self.reflector.version();
        if reached.is_known() && rest.is_empty() {
            self.cache.advance(0, reached.clone());
            recorder.reached(&self.cache, reached, at, report);
        }
        if recorder.wants_list(now) {
            self.reflector.refill(now);
        }
        data.len() - rest.len()
    }

    /// Takes the end of an answer, or of the attempt to get one.
    pub fn handle_end(&mut self, now: Instant, id: RequestId, end: End) {
        self.reflector.handle_end(now, id, end);
    }

    /// Applies what came up to the next thing to tell, and lends that.
    pub fn pop(&mut self) -> Option<Told<'_, D::Value, S::Text>> {
        self.cache.pop()
    }

    /// Begins a resync: every object is told as a replay, without asking the API server.
    pub fn resync(&mut self) {
        self.cache.resync();
    }

    /// Abandons what is under way and lists again, after the delay for runs: [`Reflector::relist`].
    pub fn relist(&mut self, now: Instant) {
        self.reflector.relist(now);
    }

    /// Abandons what is under way and lists again at the newest version: [`Reflector::repair`].
    pub fn repair(&mut self, now: Instant) {
        self.reflector.repair(now);
    }

    /// Returns the cache.
    #[must_use]
    pub const fn cache(&self) -> &Cache<Object<D::Value, S::Text>, S> {
        &self.cache
    }

    /// Returns the cache, to add indexes to it.
    pub const fn cache_mut(&mut self) -> &mut Cache<Object<D::Value, S::Text>, S> {
        &mut self.cache
    }

    /// Returns the reflector.
    #[must_use]
    pub const fn reflector(&self) -> &Reflector<R, S> {
        &self.reflector
    }

    /// Tells whether another frame can be taken; where not, nothing should be read.
    #[must_use]
    pub fn wants_read(&self) -> bool {
        self.cache.wants_read()
    }

    /// Ends it. What was queued can still be popped.
    pub fn stop(&mut self) {
        self.reflector.stop();
    }
}

/// What an [`Informer`] tells.
pub type Told<'a, V, X> = Notification<'a, Object<V, X>, X>;

/// Decodes a frame that came from a source of a cache, and queues what it says; what cannot be used is reported.
pub fn take_frame<D: Decode, S: Storage>(
    decode: &D,
    cache: &mut Cache<Object<D::Value, S::Text>, S>,
    source: u16,
    frame: Frame<'_, S::Text>,
    report: &mut dyn FnMut(Report<'_>),
) where
    S::Text: PartialEq,
{
    match frame {
        Frame::Begin => cache.begin(source),
        Frame::Object(object) => take_object(decode, cache, source, &object, report),
        Frame::Complete { version } => cache.complete(source, version.clone()),
        Frame::Report(r) => report(r),
        // The server has agreed to go on from the version that was restored.
        Frame::Bookmark { .. } => cache.confirm(source),
        Frame::Internal => {}
    }
}

fn take_object<D: Decode, S: Storage>(
    decode: &D,
    cache: &mut Cache<Object<D::Value, S::Text>, S>,
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
    match (frame.change, decoded) {
        (Change::Deleted, object) => cache.delete(source, key, object),
        (change, object) => {
            upsert(cache, source, change, key, object, report);
        }
    }
}

/// Queues an object, where it could be decoded; returns whether there is one and there was room for it.
pub(crate) fn upsert<V, S: Storage>(
    cache: &mut Cache<Object<V, S::Text>, S>,
    source: u16,
    change: Change,
    key: &str,
    object: Option<Object<V, S::Text>>,
    report: &mut dyn FnMut(Report<'_>),
) -> bool
where
    S::Text: PartialEq,
{
    let Some(object) = object else {
        cache.keep(source, key);
        return false;
    };
    let values = cache.index_values_of(key, &object);
    let problem = match cache.upsert(source, change, key, object, values) {
        Ok(()) => return true,
        Err(KeyError::TooLong) => Problem::KeyTooLong { key },
        Err(KeyError::UnknownSource) => Problem::UnknownSource { key },
        Err(_) => Problem::NoRoom { key },
    };
    report(Report::about(Phase::Cache, problem));
    false
}

/// Decodes the object of a frame; what cannot be used is reported.
pub fn decode_object<D: Decode, X: crate::storage::Text>(
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

/// Decodes an object that was kept as JSON since its frame came; what cannot be used is reported.
pub fn decode_raw<D: Decode, X: crate::storage::Text>(
    decode: &D,
    raw: &RawObject<'_>,
    key: &str,
    report: &mut dyn FnMut(Report<'_>),
) -> Option<Object<D::Value, X>> {
    object_of(decode.decode(raw), raw, key, report)
}

/// Decodes what [`Decode::persist`] has kept of an object; what cannot be used is reported, and gives `None`.
///
/// ```
/// use informer_core::{Object, Raw, RawJson, RawObject, restore_raw};
///
/// let json = br#"{"metadata":{"name":"web","namespace":"prod","resourceVersion":"7"}}"#;
/// let report = &mut |report: informer_core::Report<'_>| println!("{report}");
/// let pod: Option<Object<RawJson, Box<str>>> = restore_raw(&Raw, &RawObject::parse(json), "prod/web", report);
/// assert_eq!(pod.map(|pod| pod.value().bytes().to_vec()), Some(json.to_vec()));
/// ```
pub fn restore_raw<D: Decode, X: crate::storage::Text>(
    decode: &D,
    raw: &RawObject<'_>,
    key: &str,
    report: &mut dyn FnMut(Report<'_>),
) -> Option<Object<D::Value, X>> {
    object_of(decode.restore(raw), raw, key, report)
}

fn object_of<V, X: crate::storage::Text>(
    decoded: Result<V, impl core::fmt::Display>,
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
            let message = crate::report::Shown(&error);
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
