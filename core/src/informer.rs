//! A reflector and a cache in one, for callers that drive both from one place.

use crate::cache::{
    Cache, CacheConfig, Identity, ObjectNotification, Recording, SourceId, Step, take_frame,
};
use crate::decode::Decode;
use crate::object::Object;
use crate::reflector::{Output, Reflector, ReflectorConfig, RequestId, Restored, Target};
use crate::report::Report;
use crate::storage::Storage;
use crate::time::Instant;
use crate::transport::{End, Head};

/// An informer without I/O: a [`Reflector`], a decoder and a [`Cache`], for one thread.
///
/// The reflector is driven as usual: call `handle_*`, then [`PolledInformer::poll_output`] until it waits. The caller pops
/// notifications at its own pace. Until it does, deltas accumulate, and [`PolledInformer::handle_data`] takes fewer bytes
/// than it is given once there is no room for more.
///
/// ```
/// use informer_core::{Head, PolledInformer, Inline, Instant, Notification, Output, RawObject, ReflectorConfig, Resource};
///
/// // At most 16 objects, with keys of 64 bytes and frames of 1 KiB; no allocator.
/// type Small = Inline<16, 64, 1024>;
/// let size = |raw: &RawObject<'_>| Ok::<_, core::convert::Infallible>(raw.json().len());
/// let now = Instant::from_micros(0);
/// let mut pods: PolledInformer<_, _, Small> =
///     PolledInformer::new(Resource::new("", "v1", "pods"), size, ReflectorConfig::list(), 1);
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
pub struct PolledInformer<R, D: Decode, S: Storage, J = ()>
where
    S::Text: PartialEq,
{
    reflector: Reflector<R, S>,
    decode: D,
    cache: Cache<Object<D::Value, S::Text>, S>,
    recorder: J,
}

impl<R: Target, D: Decode, S: Storage, J> core::fmt::Debug for PolledInformer<R, D, S, J>
where
    S::Text: PartialEq,
{
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PolledInformer")
            .field("reflector", &self.reflector)
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

impl<R: Target, D: Decode, S: Storage> PolledInformer<R, D, S>
where
    S::Text: PartialEq,
{
    /// Creates an informer that has not started. The same seed gives the same jitter.
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

    /// Records the cache, for example in a journal by the `Recorder` of `informer-journal`.
    /// [`restore`](PolledInformer::restore) fills the cache from it at the next start.
    #[must_use]
    pub fn with_recorder<J: Recording>(self, recorder: J) -> PolledInformer<R, D, S, J> {
        PolledInformer {
            reflector: self.reflector,
            decode: self.decode,
            cache: self.cache,
            recorder,
        }
    }
}

impl<R: Target, D: Decode, S: Storage, J: Recording> PolledInformer<R, D, S, J>
where
    S::Text: PartialEq,
{
    /// Fills the cache from the recorder and resumes the watch at the restored version. Call it before anything else.
    ///
    /// If objects are missing, the informer lists instead. The restored objects are popped as part of the initial list.
    /// `cluster` is the user's name of the cluster: see [`Identity::new`].
    pub fn restore(
        &mut self,
        cluster: &str,
        report: &mut dyn FnMut(Report<'_>),
    ) -> Option<Restored<S::Text>> {
        let resource = self.reflector.resource();
        let identity = Identity::new(cluster, &resource, self.decode.fingerprint());
        let (decode, cache) = (&self.decode, &mut self.cache);
        let restored = self.recorder.restore(
            &identity,
            decode,
            cache,
            SourceId::FIRST,
            &mut |_| (),
            report,
        )?;
        self.reflector.resume(&restored);
        Some(restored)
    }

    /// Returns the recorder, to set its time or to sync the journal.
    pub const fn recorder(&mut self) -> &mut J {
        &mut self.recorder
    }

    /// Consumes the informer and returns the recorder.
    pub fn into_recorder(self) -> J {
        self.recorder
    }

    /// Returns what to do next: see [`Reflector::poll_output`].
    pub fn poll_output(&mut self, now: Instant) -> Output<'_> {
        if self.cache.take_wants_relist(SourceId::FIRST) {
            self.reflector.refill(now);
        }
        if !self.cache.wants_read() {
            // The cache is full, so the silence is not the server's.
            self.reflector.excuse_silence(now);
        }
        self.reflector.poll_output(now)
    }

    /// Handles the head of an answer.
    pub fn handle_head(&mut self, now: Instant, id: RequestId, head: Head) {
        self.reflector.handle_head(now, id, head);
    }

    /// Handles bytes of an answer, and returns how many were taken. If fewer were taken, the cache is full: pop
    /// notifications, then pass the rest again.
    #[must_use = "bytes that were not taken must be passed again"]
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
                Some(frame) => take_frame(
                    &self.decode,
                    cache,
                    SourceId::FIRST,
                    frame,
                    recorder,
                    report,
                ),
                None => break,
            }
        }
        if rest.is_empty() {
            let reached = Step::Reached(self.reflector.version().clone());
            // This cannot fail: every cache has a first source.
            let _ = cache.apply(SourceId::FIRST, reached, recorder);
            recorder.report(report);
        }
        if recorder.wants_list(now) {
            self.reflector.refill(now);
        }
        data.len() - rest.len()
    }

    /// Handles the end of an answer, or of the attempt to get one.
    pub fn handle_end(&mut self, now: Instant, id: RequestId, end: End) {
        self.reflector.handle_end(now, id, end);
    }

    /// Applies pending deltas up to the next notification, and lends it.
    pub fn pop(&mut self) -> Option<ObjectNotification<'_, D::Value, S::Text>> {
        self.cache.pop()
    }

    /// Starts a resync: every object is replayed without a request to the API server.
    pub fn resync(&mut self) {
        self.cache.resync();
    }

    /// Cancels the current request and relists after the delay between lists: see [`Reflector::relist`].
    pub fn relist(&mut self, now: Instant) {
        self.reflector.relist(now);
    }

    /// Cancels the current request and relists at the newest version: see [`Reflector::repair`].
    pub fn repair(&mut self, now: Instant) {
        self.reflector.repair(now);
    }

    /// Returns the cache.
    #[must_use]
    pub const fn cache(&self) -> &Cache<Object<D::Value, S::Text>, S> {
        &self.cache
    }

    /// Returns the cache for changes, such as adding an index.
    pub const fn cache_mut(&mut self) -> &mut Cache<Object<D::Value, S::Text>, S> {
        &mut self.cache
    }

    /// Returns the reflector.
    #[must_use]
    pub const fn reflector(&self) -> &Reflector<R, S> {
        &self.reflector
    }

    /// Returns whether the informer can take another frame. If not, stop reading.
    #[must_use]
    pub fn wants_read(&self) -> bool {
        self.cache.wants_read()
    }

    /// Stops the informer. Queued notifications can still be popped.
    pub fn stop(&mut self) {
        self.reflector.stop();
    }
}
