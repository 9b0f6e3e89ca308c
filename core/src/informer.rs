//! Reflector and cache together, for callers that drive them from one place.

use crate::cache::{Cache, CacheConfig, ObjectNotification, Recording, Step, take_frame};
use crate::decode::Decode;
use crate::journal::{Identity, Journal, Recorder};
use crate::object::Object;
use crate::reflector::{Output, Reflector, ReflectorConfig, RequestId, Restored, Target};
use crate::report::Report;
use crate::storage::Storage;
use crate::time::Instant;
use crate::transport::{End, Head};

/// An informer without I/O: a [`Reflector`], a decoder and a [`Cache`], for one thread.
///
/// The reflector's half is driven as the reflector is: `handle_*`, then [`Informer::poll_output`] until it waits.
/// Notifications are popped from the other half, at the caller's speed: while nothing is popped deltas gather, and
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
pub struct Informer<R, D: Decode, S: Storage, J = ()>
where
    S::Text: PartialEq,
{
    reflector: Reflector<R, S>,
    decode: D,
    cache: Cache<Object<D::Value, S::Text>, S>,
    recorder: J,
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
            recorder: (),
        }
    }

    /// Keeps the cache in a journal, from which [`Informer::restore`] fills it at the next start.
    #[must_use]
    pub fn with_journal<J: Journal>(self, journal: J) -> Informer<R, D, S, Recorder<J>> {
        Informer {
            reflector: self.reflector,
            decode: self.decode,
            cache: self.cache,
            recorder: Recorder::new(journal),
        }
    }
}

impl<R: Target, D: Decode, S: Storage, J: Journal> Informer<R, D, S, Recorder<J>>
where
    S::Text: PartialEq,
{
    /// Fills the cache from the journal, before anything else, and has the watch resumed at the version that is restored;
    /// where not all objects are there, everything is listed. The objects are then popped as initial ones.
    ///
    /// `cluster` is the user's name of the cluster: see [`Identity::new`].
    pub fn restore(
        &mut self,
        cluster: &str,
        report: &mut dyn FnMut(Report<'_>),
    ) -> Option<Restored<S::Text>> {
        let resource = self.reflector.resource();
        let identity = Identity::new(cluster, &resource, self.decode.fingerprint());
        let (decode, cache) = (&self.decode, &mut self.cache);
        let restored = self
            .recorder
            .restore(&identity, decode, cache, 0, &mut |_| (), report)?;
        self.reflector.restored(&restored);
        Some(restored)
    }

    /// Ends it, and gives the journal back.
    pub fn into_journal(self) -> J {
        self.recorder.into_journal()
    }

    /// Returns the recorder, to set the time or to sync the journal.
    pub const fn recorder(&mut self) -> &mut Recorder<J> {
        &mut self.recorder
    }
}

impl<R: Target, D: Decode, S: Storage, J: Recording> Informer<R, D, S, J>
where
    S::Text: PartialEq,
{
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
        let (cache, recorder) = (&mut self.cache, &mut self.recorder);
        while cache.wants_read() {
            match self.reflector.next_frame(now, id, &mut rest) {
                Some(frame) => take_frame(&self.decode, cache, 0, frame, recorder, report),
                None => break,
            }
        }
        if rest.is_empty() {
            let reached = Step::Reached(self.reflector.version().clone());
            // The cache has this source.
            let _ = cache.apply(0, reached, recorder);
            recorder.report(report);
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

    /// Applies what came up to the next notification, and lends that.
    pub fn pop(&mut self) -> Option<ObjectNotification<'_, D::Value, S::Text>> {
        self.cache.pop()
    }

    /// Begins a resync: every object is replayed, without asking the API server.
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
