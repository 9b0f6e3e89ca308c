//! One run of the reflector, and the requests that it consists of.

use core::time::Duration;

use super::config::{DEFAULT_PAGE, LONGEST_WATCH};
use super::listed::Listed;
use super::pages::Pages;
use super::{ApiRequest, Initial, Purpose, Reflector, RequestId, Target};
use crate::object::ResourceVersion;
use crate::storage::Storage;
use crate::time::Instant;
use crate::wire::FrameBuffer as _;

/// One run (client-go's ListAndWatch), with the state that is needed from page to page.
pub(super) struct Run<S: Storage> {
    pub(super) began: Instant,
    pub(super) slow_reported: bool,
    /// The requested version.
    pub(super) from: From,
    pub(super) limit: u32,
    /// A page expired, so the list is requested without pages.
    pub(super) whole: bool,
    pub(super) pages: u32,
    /// A second page was requested.
    pub(super) paged: bool,
    /// The token of the next page.
    pub(super) token: S::Line,
    /// Whether the pages make progress.
    pub(super) progress: Pages,
    /// The total time for which streaming lists of this run may be read: the timeout of the first one.
    pub(super) stream_limit: Duration,
    /// The time for which they were read so far.
    pub(super) streamed: Duration,
    /// The list was retried without a version, after the version was rejected.
    pub(super) retried: bool,
    /// The version of the first page.
    pub(super) version: ResourceVersion<S::Text>,
    pub(super) begin_due: bool,
    pub(super) list: Listed,
}

/// The version that a list requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum From {
    /// Any version: `0`.
    Any,
    /// Not older than the last version.
    Last,
    /// The most recent version: no parameter.
    Newest,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum RunState {
    Idle,
    Paused { until: Instant, then: Next },
    Calling(Call),
    Stopped,
}

/// The action after a pause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    Run,
    Watch,
    Stream,
}

/// One request, including its retries within the reflector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) id: RequestId,
    pub(super) verb: Purpose,
    /// The server is sending the initial state: a streaming list before its end, or a watch without a version.
    pub(super) initial: bool,
    pub(super) phase: Phase,
    pub(super) retries: u8,
    /// The time of the call; the wait for the answer is included.
    pub(super) began: Instant,
    /// The time at which it was last sent.
    pub(super) sent: Instant,
    pub(super) timeout: Duration,
    pub(super) last_byte: Instant,
    pub(super) last_event: Instant,
    pub(super) events: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    ToSend,
    Sent,
    Body,
    ErrorBody {
        status: u16,
        retry_after: Option<Duration>,
        since: Instant,
    },
    /// The JSON is complete, but the body has not ended.
    Draining {
        since: Instant,
    },
    Retry {
        at: Instant,
    },
}

impl<S: Storage> Run<S> {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::from_micros(0),
            slow_reported: false,
            from: From::Any,
            limit: 0,
            whole: false,
            pages: 0,
            paged: false,
            token: S::Line::default(),
            progress: Pages::default(),
            stream_limit: Duration::ZERO,
            streamed: Duration::ZERO,
            retried: false,
            version: ResourceVersion::default(),
            begin_due: false,
            list: Listed::default(),
        }
    }
}

impl<R: Target, S: Storage> Reflector<R, S> {
    /// Returns whether a run is in progress.
    pub(super) const fn is_in_run(&self) -> bool {
        match self.state {
            RunState::Stopped
            | RunState::Idle
            | RunState::Paused {
                then: Next::Run, ..
            } => false,
            RunState::Paused { .. } | RunState::Calling(_) => true,
        }
    }

    /// Returns whether the next list of a resource without watches is awaited.
    pub(super) const fn is_polling(&self) -> bool {
        let waits = matches!(
            self.state,
            RunState::Paused {
                then: Next::Run,
                ..
            }
        );
        waits && self.polls.is_some()
    }

    pub(super) fn current(&mut self, id: RequestId) -> Option<&mut Call> {
        match &mut self.state {
            RunState::Calling(call) if call.id == id => Some(call),
            RunState::Calling(_) | RunState::Idle | RunState::Paused { .. } | RunState::Stopped => {
                None
            }
        }
    }

    /// Begins a run: client-go's ListAndWatch.
    pub(super) fn begin_run(&mut self, now: Instant) {
        self.run = Run::new();
        self.run.began = now;
        self.refill_at = None;
        let can_stream = !self.stream_refused && self.polls.is_none();
        if self.config.initial == Initial::Stream && can_stream {
            self.begin_stream(now);
        } else {
            self.begin_list(now);
        }
    }

    pub(super) fn begin_stream(&mut self, now: Instant) {
        self.run.from = if self.version_unavailable || self.version.is_command() {
            From::Newest
        } else {
            From::Last
        };
        self.call(now, Purpose::Stream);
    }

    pub(super) fn begin_list(&mut self, now: Instant) {
        self.run.began = now;
        self.run.from = if self.version_unavailable {
            From::Newest
        } else if self.version.is_command() {
            From::Any
        } else {
            From::Last
        };
        self.run.limit = match self.config.page_size {
            Some(size) => size,
            // An unpaginated list "not older than" a version is answered from the watch cache.
            None if self.run.from == From::Last && !self.paginated => 0,
            None => DEFAULT_PAGE,
        };
        self.first_page(now);
    }

    pub(super) fn first_page(&mut self, now: Instant) {
        self.run.pages = 0;
        self.run.progress = Pages::default();
        self.run.token.clear();
        self.run.version = ResourceVersion::default();
        self.call(now, Purpose::List);
    }

    /// Makes a new request the current one. If a name in its resource is invalid, the run fails instead.
    pub(super) fn call(&mut self, now: Instant, verb: Purpose) {
        if let Err(invalid) = self.target.resource().check() {
            self.error.clear();
            // If it does not fit, the report is without it.
            let _ = self.error.extend(invalid.shown().as_bytes());
            let part = invalid.part;
            self.refuse_name(now, verb, part);
            return;
        }
        let min = (self.config.min_watch_timeout).clamp(Duration::from_secs(300), LONGEST_WATCH);
        let timeout = match self.config.watch_timeout {
            _ if !verb.is_watch() => Duration::ZERO,
            Some(timeout) => timeout.clamp(Duration::from_secs(1), LONGEST_WATCH),
            None => self.rng.between(min, (min * 2).min(LONGEST_WATCH)),
        };
        if verb == Purpose::Stream && self.run.stream_limit.is_zero() {
            self.run.stream_limit = timeout;
        }
        let id = RequestId(self.next_id);
        self.next_id = self.next_id.wrapping_add(1);
        self.state = RunState::Calling(Call {
            id,
            verb,
            initial: verb == Purpose::Stream
                || (verb == Purpose::Watch && self.version.is_command()),
            phase: Phase::ToSend,
            retries: 0,
            began: now,
            sent: now,
            timeout,
            last_byte: now,
            last_event: now,
            events: 0,
        });
    }

    pub(super) fn request(&self, call: &Call) -> ApiRequest<'_> {
        let list_version: Option<&dyn core::fmt::Display> = match self.run.from {
            From::Any => Some(&0),
            From::Last => Some(&self.version),
            From::Newest => None,
        };
        ApiRequest {
            id: call.id,
            verb: call.verb,
            resource: self.target.resource(),
            version: match call.verb {
                Purpose::List | Purpose::Stream => list_version,
                Purpose::Watch => self.version.is_known().then_some(&self.version),
            },
            limit: if self.run.whole { 0 } else { self.run.limit },
            token: if call.verb == Purpose::List {
                self.run.token.as_slice()
            } else {
                &[]
            },
            timeout: call.timeout,
            accept: self.accept,
        }
    }

    /// Cancels the current request without counting it as a failure.
    pub(super) fn abandon(&mut self) {
        if let RunState::Calling(call) = &self.state
            && !matches!(call.phase, Phase::ToSend | Phase::Retry { .. })
        {
            self.cancel = Some(call.id);
        }
    }
}
