//! The reflector: lists and watches a resource, and cuts the answers into objects. It is independent of the cache.

mod config;
mod envelope;
mod failure;
mod frame;
mod listed;
mod pages;
mod pending;
mod read;
mod refusal;
mod request;
mod restored;
mod run;
#[cfg(test)]
mod tests;
mod timeout;

pub use config::{Initial, ReflectorConfig};
pub use frame::{Change, Frame, ObjectFrame};
pub use request::{ApiRequest, Purpose, RequestId, Target};
pub use restored::Restored;

use core::time::Duration;

use failure::Reopens;
use listed::Listed;
use pending::{Stored, StoredProblem};
use read::Outcome;
use run::{Call, From, Next, Phase, Run, RunState};

use crate::decode::{Accept, Decode};
use crate::json::{ScanError, ScanErrorKind};
use crate::object::{KeyBuf, ResourceVersion};
use crate::report::{Phase as ReportPhase, Report, RequestProblem};
use crate::resource::Resource;
use crate::storage::Storage;
use crate::time::{Backoff, BackoffConfig, Instant, Rng};
use crate::transport::{End, Head, TransportFailure};
use crate::wire::{ErrorClass, Format, FrameBuffer, Framer, FramerMode};

/// Lists and watches a resource, and recovers from every failure of the API server. It does no I/O.
///
/// The `handle_*` methods take events. After each event, call [`Reflector::poll_output`] and do what it returns, until
/// it returns [`Output::Wait`]. Pass the bytes of an answer to [`Reflector::next_frame`], which lends the frames in
/// them. Answers to cancelled requests are ignored.
///
/// ```
/// use informer_core::{Frame, Head, Heap, Instant, Output, Reflector, ReflectorConfig, Resource};
///
/// let now = Instant::from_micros(0);
/// let pods = Resource::new("", "v1", "pods");
/// let mut reflector: Reflector<_, Heap> = Reflector::new(pods, ReflectorConfig::list(), 1);
///
/// let Output::Send(request) = reflector.poll_output(now) else { panic!() };
/// let mut target = String::new();
/// request.write_target(&mut target)?;
/// assert_eq!(target, "/api/v1/pods?limit=500&resourceVersion=0");
///
/// let id = request.id();
/// reflector.handle_head(now, id, Head::new(200));
/// let mut body = &br#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}}]}"#[..];
/// while let Some(frame) = reflector.next_frame(now, id, &mut body) {
///     if let Frame::Object(object) = frame {
///         assert_eq!(object.raw.name().to_string(), "a");
///     }
/// }
/// # Ok::<(), core::fmt::Error>(())
/// ```
pub struct Reflector<R, S: Storage> {
    target: R,
    accept: Accept,
    /// Stop after one complete list.
    once: bool,
    /// Only the first page of a list is read.
    first_page: bool,
    config: ReflectorConfig,
    rng: Rng,
    state: RunState,
    next_id: u32,
    cancel: Option<RequestId>,
    reports: [Option<Stored>; 4],

    version: ResourceVersion<S::Text>,
    /// The last version must not be requested again, for example because the server rejected it.
    version_unavailable: bool,
    /// A list at version 0 was paginated, so the server has no watch cache.
    paginated: bool,
    /// The Retry-After of the answer that is being handled.
    asked_wait: Option<Duration>,
    stream_refused: bool,
    /// The number of lists since a watch was answered with 405. `None` if the resource can be watched.
    polls: Option<u8>,
    /// The server sent a bookmark other than the end of a streaming list, so it sends them periodically.
    bookmarks_seen: bool,
    /// The heartbeat timed out although this server never sends bookmarks.
    lacks_bookmarks: bool,

    run_backoff: Backoff,
    open_backoff: Option<Backoff>,
    /// The class of the last run's failure, if retrying cannot fix it.
    permanent: Option<ErrorClass>,
    reopens: Reopens,
    /// The time of a scheduled relist; the watch continues until then.
    refill_at: Option<Instant>,

    run: Run<S>,
    framer: Framer<S::Frame>,
    /// The head of the answer does not state the format, so its first byte does.
    format_due: bool,
    /// The result of reading, which is handled before anything else.
    outcome: Option<Outcome>,
    /// The problem to report about the list that has just been completed.
    noticed: Option<(ReportPhase, StoredProblem)>,
    /// The version comes from a journal, and no server has confirmed it yet.
    resuming: bool,
    /// The time at which a server first accepted a watch at that version.
    resumed: Option<Instant>,
    /// The key of the object in a report.
    key: KeyBuf,
    /// The body of an error answer, or the object of an ERROR event.
    error: S::Line,
}

/// The next action for the caller.
#[derive(Debug)]
#[must_use]
#[non_exhaustive]
pub enum Output<'a> {
    /// Send this request.
    Send(ApiRequest<'a>),
    /// Cancel this request.
    Cancel(RequestId),
    /// Give this report to the user.
    Report(Report<'a>),
    /// Wait until there is input or until this time; `None` means no time limit.
    Wait(Option<Instant>),
}

impl<R: Target, S: Storage> Reflector<R, S> {
    /// Creates a reflector that has not started. The same seed gives the same jitter.
    #[must_use]
    pub fn new(target: R, config: ReflectorConfig, seed: u64) -> Self {
        let backoff = if config.client_go {
            BackoffConfig {
                reset_interval: Some(Duration::from_secs(120)),
                ..config.backoff
            }
        } else {
            config.backoff
        };
        let mut framer = Framer::new(FramerMode::List, config.frame_limit);
        framer.skip_managed_fields(config.skip_managed_fields);
        let mut error = S::Line::default();
        error.set_limit(config::ERROR_BODY);
        Self {
            target,
            accept: Accept::default(),
            once: false,
            first_page: false,
            rng: Rng::new(seed),
            state: RunState::Idle,
            next_id: 0,
            cancel: None,
            reports: [const { None }; 4],
            version: ResourceVersion::default(),
            version_unavailable: false,
            paginated: false,
            asked_wait: None,
            stream_refused: false,
            polls: None,
            bookmarks_seen: false,
            lacks_bookmarks: false,
            run_backoff: Backoff::new(backoff),
            open_backoff: (!config.client_go).then(|| Backoff::new(backoff)),
            permanent: None,
            reopens: Reopens::default(),
            refill_at: None,
            run: Run::new(),
            framer,
            format_due: false,
            outcome: None,
            noticed: None,
            resuming: false,
            resumed: None,
            key: KeyBuf::new(),
            error,
            config,
        }
    }

    /// Makes the reflector list once, at the newest version, and then stop. [`is_stopped`](Self::is_stopped) returns
    /// true after the [`Frame::Complete`]. Failures are retried as usual.
    ///
    /// ```
    /// use informer_core::{Heap, Instant, Output, Reflector, ReflectorConfig, Resource};
    ///
    /// let pods = Resource::new("", "v1", "pods");
    /// let mut once: Reflector<_, Heap<Box<str>>> = Reflector::new(pods, ReflectorConfig::list(), 1).list_once();
    /// let Output::Send(list) = once.poll_output(Instant::from_micros(0)) else { panic!() };
    /// let mut target = String::new();
    /// list.write_target(&mut target).unwrap();
    /// assert_eq!(target, "/api/v1/pods?limit=500");
    /// ```
    #[must_use]
    pub fn list_once(mut self) -> Self {
        self.once = true;
        self.version_unavailable = true;
        self.config.initial = Initial::List;
        self
    }

    /// Makes the reflector [list once](Self::list_once), and only the first object. The version of the [`Frame::Complete`] is
    /// the newest one of the server.
    ///
    /// ```
    /// use informer_core::{Heap, Instant, Output, Reflector, ReflectorConfig, Resource};
    ///
    /// let pods = Resource::new("", "v1", "pods");
    /// let mut probe: Reflector<_, Heap<Box<str>>> = Reflector::new(pods, ReflectorConfig::list(), 1).probe();
    /// let Output::Send(list) = probe.poll_output(Instant::from_micros(0)) else { panic!() };
    /// let mut target = String::new();
    /// list.write_target(&mut target).unwrap();
    /// assert_eq!(target, "/api/v1/pods?limit=1");
    /// ```
    #[must_use]
    pub fn probe(mut self) -> Self {
        self.config.page_size = Some(1);
        self.first_page = true;
        self.list_once()
    }

    /// Sets the `Accept` headers that a decoder requires. If the decoder ignores managedFields, they do not count
    /// towards the frame limit.
    #[must_use]
    pub fn with_decoder<D: Decode>(mut self, decode: &D) -> Self {
        let skips = self.config.skip_managed_fields || decode.skips_managed_fields();
        self.framer.skip_managed_fields(skips);
        self.accept = decode.accept().drop_managed_fields(skips);
        if self.config.client_go {
            self.accept = self.accept.plain();
        }
        self
    }

    /// Starts from a restored cache: with a watch at its version, or with a list if it is incomplete.
    ///
    /// While no server can be reached, the watch is retried. The reflector lists instead if the server no longer has
    /// the version or is older. It also lists if the watch receives nothing for 75 s, not even a bookmark: that server
    /// may have been restored from an older backup.
    ///
    /// ```
    /// use informer_core::{Heap, Instant, Output, Reflector, ReflectorConfig, Resource, ResourceVersion};
    /// use informer_core::reflector::Restored;
    ///
    /// let pods = Resource::new("", "v1", "pods");
    /// let mut reflector: Reflector<_, Heap> = Reflector::new(pods, ReflectorConfig::list(), 1);
    /// reflector.resume(&Restored { version: ResourceVersion::new("7"), at: None, complete: true });
    /// let Output::Send(request) = reflector.poll_output(Instant::from_micros(0)) else { panic!() };
    /// let mut target = String::new();
    /// request.write_target(&mut target).unwrap();
    /// assert!(target.starts_with("/api/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion=7&"));
    /// ```
    pub fn resume(&mut self, restored: &Restored<S::Text>) {
        let version = restored.version.clone();
        if restored.complete && !version.is_command() {
            self.resuming = true;
            self.state = RunState::Paused {
                until: Instant::from_micros(0),
                then: Next::Watch,
            };
        }
        self.version = version;
    }

    /// Returns the next action. Call it until it returns [`Output::Wait`].
    pub fn poll_output(&mut self, now: Instant) -> Output<'_> {
        self.handle_timeout(now);
        if let Some(stored) = self.reports.iter_mut().find_map(Option::take) {
            return Output::Report(stored.report(&self.error));
        }
        if let Some(id) = self.cancel.take() {
            return Output::Cancel(id);
        }
        if let RunState::Calling(call) = &mut self.state
            && call.phase == Phase::ToSend
        {
            call.phase = Phase::Sent;
            call.sent = now;
            call.last_byte = now;
            call.last_event = now;
            let call = *call;
            return Output::Send(self.request(&call));
        }
        Output::Wait(self.deadline())
    }

    /// Handles the head of an answer.
    pub fn handle_head(&mut self, now: Instant, id: RequestId, head: Head) {
        let Some(call) = self.current(id) else { return };
        if call.phase != Phase::Sent {
            return;
        }
        call.last_byte = now;
        if head.status == 200 {
            call.phase = Phase::Body;
            let (verb, initial) = (call.verb, call.initial);
            if verb.is_watch() {
                self.resumed = self.resumed.or(Some(now));
                // The list before this watch may be allowed although the watch is not.
                self.permanent = None;
                self.polls = None;
            } else {
                // The token has been used, and the new page may have none.
                self.run.token.clear();
            }
            let mode = if verb.is_watch() {
                FramerMode::Watch
            } else {
                FramerMode::List
            };
            self.format_due = head.format.is_none();
            self.read_as(mode, head.format.unwrap_or_default());
            self.run.list = Listed::default();
            self.run.begin_due = match verb {
                Purpose::List => self.run.pages == 0,
                Purpose::Stream => initial,
                // A watch without a version also begins with the current state, but has no marker at its end.
                Purpose::Watch => false,
            };
        } else {
            call.phase = Phase::ErrorBody {
                status: head.status,
                retry_after: head.retry_after,
                since: now,
            };
            self.error.clear();
        }
    }

    /// Prepares to read a body in this format, and fails if the decoder does not read it.
    fn read_as(&mut self, mode: FramerMode, format: Format) {
        self.framer.reset(mode, format);
        let kind = match format {
            _ if self.format_due => return,
            Format::Json if !self.accept.accepts_json() => ScanErrorKind::ExpectedProtobuf,
            Format::Protobuf if !self.accept.accepts_protobuf() => {
                ScanErrorKind::UnexpectedProtobuf
            }
            Format::Json | Format::Protobuf => return,
        };
        self.outcome = Some(Outcome::NotJson(ScanError { offset: 0, kind }));
    }

    /// Handles the end of an answer, or of the attempt to get one.
    pub fn handle_end(&mut self, now: Instant, id: RequestId, end: End) {
        self.finish_reading(now);
        let Some(call) = self.current(id).copied() else {
            return;
        };
        match (call.phase, end) {
            (Phase::Sent, End::Failed(failure)) => self.no_answer(now, call, failure),
            (Phase::Sent, End::Clean) => {
                self.no_answer(
                    now,
                    call,
                    TransportFailure::new(crate::transport::FailureKind::Reset),
                );
            }
            (Phase::Body, end) => self.body_ended(now, call, end),
            (
                Phase::ErrorBody {
                    status,
                    retry_after,
                    ..
                },
                _,
            ) => self.refused(now, call, status, retry_after),
            (Phase::Draining { .. }, end) => {
                if let End::Failed(failure) = end {
                    self.report(
                        ReportPhase::List,
                        RequestProblem::Transport(failure.kind).into(),
                        None,
                    );
                }
                self.page_done(now);
            }
            (Phase::ToSend | Phase::Retry { .. }, _) => {}
        }
    }

    /// Cancels the current request and relists after the delay between lists. Does nothing if a list is already due.
    pub fn relist(&mut self, now: Instant) {
        if !self.is_in_run() && !self.is_polling() {
            return;
        }
        if let RunState::Calling(call) = self.state {
            self.note_health(now, &call);
        }
        self.abandon();
        self.pause_run(now, None);
    }

    /// Relists after the delay between lists, as [`relist`](Self::relist) does, but continues the watch until then. Use
    /// it when a full cache has room again.
    ///
    /// Objects deleted in the meantime free room, so a single relist serves all of them. A paginated list shows exactly
    /// the version that it requests, and continuing the watch makes that the version of the last deletion.
    ///
    /// ```
    /// use informer_core::{Heap, Instant, Output, Reflector, ReflectorConfig, Resource, ResourceVersion};
    /// use informer_core::reflector::Restored;
    ///
    /// let pods = Resource::new("", "v1", "pods");
    /// let mut reflector: Reflector<_, Heap> = Reflector::new(pods, ReflectorConfig::list(), 1);
    /// reflector.resume(&Restored { version: ResourceVersion::new("7"), at: None, complete: true });
    /// let now = Instant::from_micros(0);
    /// assert!(matches!(reflector.poll_output(now), Output::Send(_)), "it watches");
    /// reflector.refill(now);
    /// let Output::Wait(Some(until)) = reflector.poll_output(now) else { panic!("it continues to watch") };
    /// assert!(matches!(reflector.poll_output(until), Output::Cancel(_)));
    /// let Output::Send(list) = reflector.poll_output(until) else { panic!("it lists") };
    /// let mut target = String::new();
    /// list.write_target(&mut target).unwrap();
    /// assert_eq!(target, "/api/v1/pods?resourceVersion=7");
    /// ```
    pub fn refill(&mut self, now: Instant) {
        if self.refill_at.is_some() {
            return;
        }
        match self.state {
            RunState::Stopped
            | RunState::Idle
            | RunState::Paused {
                then: Next::Run | Next::Stream,
                ..
            } => return,
            RunState::Paused {
                then: Next::Watch, ..
            } => {}
            // A list that is still being read benefits from the free room anyway.
            RunState::Calling(call)
                if (call.verb == Purpose::List || call.verb == Purpose::Stream && call.initial)
                    && !matches!(call.phase, Phase::Draining { .. }) =>
            {
                return;
            }
            RunState::Calling(call) => self.note_health(now, &call),
        }
        let delay = self.run_backoff.step(now, &mut self.rng, Duration::ZERO);
        self.refill_at = Some(now + delay);
    }

    /// Cancels the current request and relists at the newest version. Use it if the cache is known to differ from the
    /// server: a list from a watch cache might not repair that.
    pub fn repair(&mut self, now: Instant) {
        self.version_unavailable = true;
        self.relist(now);
    }

    /// Cancels the current request and stops permanently.
    pub fn stop(&mut self) {
        self.abandon();
        self.state = RunState::Stopped;
    }

    /// Returns whether the reflector has stopped.
    #[must_use]
    pub const fn is_stopped(&self) -> bool {
        matches!(self.state, RunState::Stopped)
    }

    /// Returns the last seen version: client-go's `LastSyncResourceVersion`.
    #[must_use]
    pub const fn version(&self) -> &ResourceVersion<S::Text> {
        &self.version
    }

    /// Returns the format of the answer, of which this is the next chunk.
    pub(crate) fn format_of(&self, chunk: &[u8]) -> Format {
        match chunk.first() {
            Some(first) if self.format_due => Format::of_first_byte(*first),
            _ => self.framer.format(),
        }
    }

    /// Returns the resource that is listed and watched.
    #[must_use]
    pub fn resource(&self) -> Resource<'_> {
        self.target.resource()
    }
}

impl<R: Target, S: Storage> core::fmt::Debug for Reflector<R, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Reflector")
            .field("resource", &self.target.resource())
            .field("state", &self.state)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
