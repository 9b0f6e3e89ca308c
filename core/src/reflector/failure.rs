//! What follows when a request fails, is refused, or ends.

use core::time::Duration;

use super::config::{
    HEALTHY, HEARTBEAT, LONGEST_RETRY_AFTER, MAX_RETRIES, PERMANENT_CAP, REOPEN_WINDOW, REOPENS,
    RETRY_DELAY, SHORT, STREAM_SILENCE,
};
use super::read::Outcome;
use super::{Call, From, Initial, Next, Phase, Reflector, RequestId, State, Target, Verb};
use crate::json::ScanError;
use crate::report::{Level, Phase as ReportPhase, Problem, Report};
use crate::storage::Storage;
use crate::time::Instant;
use crate::transport::{End, Failure, FailureKind};
use crate::wire::{ErrorClass, FrameBuffer, Status, classify, message};

impl<R: Target, S: Storage> Reflector<R, S> {
    /// There was no answer. Below the reflector a GET that was cut is asked again.
    pub(super) fn no_answer(&mut self, now: Instant, call: Call, failure: Failure) {
        let again = match failure.kind {
            FailureKind::Reset => true,
            FailureKind::TimedOut => call.verb.is_watch(),
            FailureKind::Refused | FailureKind::Tls | FailureKind::Dns | FailureKind::Other => {
                false
            }
        };
        if again && call.retries < MAX_RETRIES {
            // A kept connection that the server had closed says nothing of the server's health.
            let stale = failure.connection_was_used && call.retries == 0;
            self.retry_at(now, call, if stale { Duration::ZERO } else { RETRY_DELAY });
            return;
        }
        let problem = StoredProblem::Transport(failure.kind);
        match call.verb {
            // There is a state to go on from, however long it takes.
            Verb::Watch if self.resuming => self.open_later(now, call, problem),
            Verb::List => self.fail_run(now, ReportPhase::List, problem, None),
            // In client-go a watch that cannot be had for so long counts as one that ended, in silence.
            Verb::Watch if again && self.config.client_go => self.watch_ended(now, call),
            Verb::Watch if again => self.open_later(now, call, problem),
            Verb::Watch | Verb::Stream if failure.kind == FailureKind::Refused => {
                self.open_later(now, call, problem);
            }
            Verb::Watch => self.fail_run(now, ReportPhase::Watch, problem, None),
            Verb::Stream => self.fall_back(now, problem),
        }
    }

    /// An answer was an error, and its body is here.
    pub(super) fn refused(
        &mut self,
        now: Instant,
        call: Call,
        status: u16,
        retry_after: Option<Duration>,
    ) {
        let body = self.error.as_slice();
        let parsed = Status::parse(body);
        let class = classify(status, parsed.as_ref(), body);
        let is_expired = parsed.is_some_and(|status| status.reason.eq_str("Expired"));
        let problem = StoredProblem::Answer { class, status };
        let asked = retry_after
            .filter(|_| (status == 429 || status >= 500) && class != ErrorClass::TooLarge);
        let wait = asked.map(|asked| asked.min(LONGEST_RETRY_AFTER));
        if wait < asked {
            let problem = StoredProblem::LongRetryAfter(asked.unwrap_or_default());
            self.report(phase_of(&call), problem, wait);
        }
        if let Some(wait) = wait
            && call.retries < MAX_RETRIES
        {
            self.report_at(phase_of(&call), problem, Some(wait), Level::Info);
            self.retry_at(now, call, wait);
            return;
        }
        // Who has asked so often that the request is given up is asked to wait all the same.
        if !self.config.client_go {
            self.asked_wait = wait;
        }
        match call.verb {
            Verb::List => self.list_refused(now, class, problem, is_expired),
            // A gateway that answers for a server that is away.
            Verb::Watch if self.resuming && status >= 500 && class != ErrorClass::TooLarge => {
                self.open_later(now, call, problem);
            }
            Verb::Watch if class == ErrorClass::TooManyRequests => {
                self.open_later(now, call, problem);
            }
            Verb::Watch => self.fail_run(now, ReportPhase::Watch, problem, Some(class)),
            Verb::Stream => self.stream_refused(now, call, class, problem),
        }
        self.asked_wait = None;
    }

    /// The body of an answer ended before its content did, or where a watch ends.
    pub(super) fn body_ended(&mut self, now: Instant, call: Call, end: End) {
        match call.verb {
            Verb::List => {
                let problem = match end {
                    End::Clean => StoredProblem::Truncated,
                    End::Failed(failure) => StoredProblem::Transport(failure.kind),
                };
                self.fail_run(now, ReportPhase::List, problem, None);
            }
            Verb::Stream if call.initial => {
                if is_very_short(now, &call) {
                    self.fall_back(now, StoredProblem::VeryShortWatch);
                } else if self.is_endless(now, &call) {
                    self.fall_back(now, StoredProblem::EndlessStream(self.run.stream_limit));
                } else {
                    self.run.streamed += now - call.sent;
                    self.reopen(now, call, Next::Stream);
                }
            }
            Verb::Watch | Verb::Stream => self.watch_ended(now, call),
        }
    }

    /// Nothing came for too long; the request is already abandoned.
    pub(super) fn silent(&mut self, now: Instant, call: Call) {
        let silence = now - call.last_byte;
        match call.verb {
            Verb::List => {
                self.fail_run(now, ReportPhase::List, StoredProblem::Silent(silence), None);
            }
            Verb::Stream if call.initial => {
                let problem = if now - call.last_event >= STREAM_SILENCE {
                    StoredProblem::NoInitialEvents(STREAM_SILENCE)
                } else {
                    StoredProblem::EndlessStream(self.run.stream_limit)
                };
                self.fall_back(now, problem);
            }
            Verb::Watch if self.is_doubtful(now) => {
                let problem = StoredProblem::Silent(silence);
                self.fail_run(now, ReportPhase::Watch, problem, None);
            }
            Verb::Watch | Verb::Stream => {
                self.heartbeat_in_vain |= !self.bookmarks_seen;
                self.report(ReportPhase::Watch, StoredProblem::Silent(silence), None);
                self.note_health(now, &call);
                self.reopen(now, call, Next::Watch);
            }
        }
    }

    /// A page of a list is whole: the next one, or the watch.
    pub(super) fn page_done(&mut self, now: Instant) {
        if self.run.token.as_slice().is_empty() {
            if self.once {
                self.state = State::Stopped;
            } else {
                self.call(now, Verb::Watch);
            }
        } else if self.run.progress.is_endless(self.run.token.as_slice()) {
            self.fail_run(now, ReportPhase::List, StoredProblem::EndlessPages, None);
        } else {
            self.run.pages = self.run.pages.saturating_add(1);
            self.run.paged = true;
            self.call(now, Verb::List);
        }
    }

    pub(super) fn settle_outcome(&mut self, now: Instant, call: Call, outcome: Outcome) {
        let problem = match outcome {
            Outcome::NotJson(error) => StoredProblem::NotJson(error),
            Outcome::NotAList => StoredProblem::NotAList,
            Outcome::NotAnEvent => StoredProblem::NotAnEvent,
            Outcome::TokenTooLong => StoredProblem::RequestTooLong,
            Outcome::WentBack => {
                // What it would show from here on is not what follows the state that is there.
                self.version_unavailable = true;
                StoredProblem::VersionWentBack
            }
            Outcome::ErrorEvent => {
                self.cancel = Some(call.id);
                self.note_health(now, &call);
                self.error_event(now, call);
                return;
            }
        };
        self.cancel = Some(call.id);
        match call.verb {
            Verb::List => self.fail_run(now, ReportPhase::List, problem, None),
            Verb::Stream if call.initial => self.fall_back(now, problem),
            Verb::Watch | Verb::Stream => {
                self.note_health(now, &call);
                self.fail_in_stream(now, problem, None);
            }
        }
    }

    /// Asks for the same again, under a new name.
    pub(super) fn resend(&mut self) {
        let id = RequestId(self.next_id);
        if let State::Calling(call) = &mut self.state {
            call.id = id;
            call.phase = Phase::ToSend;
            self.next_id = self.next_id.wrapping_add(1);
        }
    }

    /// Waits for the delay between runs, and then lists.
    pub(super) fn pause_run(&mut self, now: Instant, class: Option<ErrorClass>) -> Duration {
        self.resuming = false;
        // A resource that is not served yet may be installed at any moment.
        let permanent =
            class.filter(|class| class.is_permanent() && *class != ErrorClass::NotFound);
        let patient = permanent.is_some() && permanent == self.permanent && !self.config.client_go;
        self.permanent = permanent;
        self.version_unavailable |= class == Some(ErrorClass::Expired)
            && self.would_list_the_same()
            && !self.config.client_go;
        let cap = if patient {
            PERMANENT_CAP
        } else {
            Duration::ZERO
        };
        let delay = self.run_backoff.step(now, &mut self.rng, cap);
        let delay = delay.max(self.asked_wait.unwrap_or_default());
        self.state = State::Paused {
            until: now + delay,
            then: Next::Run,
        };
        delay
    }

    /// Tells whether a list at the last version would be one in pages, which shows that very version as long as the etcd
    /// has it, and that may be longer than watches can go on from it.
    fn would_list_the_same(&self) -> bool {
        let begins_with_list = self.config.initial == Initial::List || self.stream_refused;
        // A server that makes pages by itself has no watch cache: its lists and watches expire together.
        let in_pages = self.config.page_size.is_some_and(|size| size > 0);
        let was_the_same = self.run.from == From::Last && self.run.limit > 0 && !self.run.whole;
        begins_with_list && in_pages || was_the_same
    }

    pub(super) fn report(
        &mut self,
        phase: ReportPhase,
        problem: StoredProblem,
        retry_in: Option<Duration>,
    ) {
        let level = self.level_of(problem);
        self.report_at(phase, problem, retry_in, level);
    }

    /// How much a problem matters. What client-go has no word for is not for its error handler.
    fn level_of(&self, problem: StoredProblem) -> Level {
        let ours = matches!(
            problem,
            StoredProblem::SlowList(_)
                | StoredProblem::VersionWentBack
                | StoredProblem::LongRetryAfter(_)
                | StoredProblem::NoVersion
        );
        if self.config.client_go && ours {
            Level::Debug
        } else {
            problem.report(&self.error).level()
        }
    }

    fn report_at(
        &mut self,
        phase: ReportPhase,
        problem: StoredProblem,
        retry_in: Option<Duration>,
        level: Level,
    ) {
        let stored = Stored {
            phase,
            problem,
            retry_in,
            level,
        };
        // Reports are taken after each step, and no step makes as many as there is room for.
        if let Some(free) = self.reports.iter_mut().find(|report| report.is_none()) {
            *free = Some(stored);
        }
    }

    fn retry_at(&mut self, now: Instant, call: Call, wait: Duration) {
        let retries = call.retries.saturating_add(1);
        self.state = State::Calling(Call {
            phase: Phase::Retry { at: now + wait },
            retries,
            ..call
        });
    }

    fn list_refused(
        &mut self,
        now: Instant,
        class: ErrorClass,
        problem: StoredProblem,
        is_expired: bool,
    ) {
        if is_expired && self.run.pages > 0 && !self.run.whole {
            // A page that expired cannot be had any more: the whole list in one piece.
            self.report_at(ReportPhase::List, problem, None, Level::Debug);
            self.run.whole = true;
            self.first_page(now);
        } else if matches!(class, ErrorClass::Expired | ErrorClass::TooLarge) && !self.run.retried {
            self.report_at(ReportPhase::List, problem, None, Level::Debug);
            self.run.retried = true;
            self.run.whole = false;
            self.run.paged = false;
            self.run.from = From::Newest;
            self.version_unavailable = true;
            self.first_page(now);
        } else if class == ErrorClass::BadRequest && !self.run.token.as_slice().is_empty() {
            // The server refuses its own token, not the parameters: the next list gets another token.
            let delay = self.pause_run(now, None);
            self.report_at(ReportPhase::List, problem, Some(delay), Level::Warn);
        } else {
            self.fail_run(now, ReportPhase::List, problem, Some(class));
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "every other refusal leads to a list"
    )]
    fn stream_refused(
        &mut self,
        now: Instant,
        call: Call,
        class: ErrorClass,
        problem: StoredProblem,
    ) {
        match class {
            ErrorClass::TooManyRequests => self.open_later(now, call, problem),
            ErrorClass::Expired | ErrorClass::TooLarge if self.run.from != From::Newest => {
                self.report_at(ReportPhase::Stream, problem, None, Level::Debug);
                self.version_unavailable = true;
                self.begin_stream(now);
            }
            _ => {
                self.stream_refused |= self.config.remember_stream_refusal;
                self.fall_back(now, problem);
            }
        }
    }

    fn error_event(&mut self, now: Instant, call: Call) {
        let body = self.error.as_slice();
        let parsed = Status::parse(body);
        let status = parsed.and_then(|status| status.code).unwrap_or(0);
        let class = classify(0, parsed.as_ref(), body);
        let problem = StoredProblem::Answer { class, status };
        if call.verb == Verb::Stream && call.initial {
            self.stream_refused(now, call, class, problem);
        } else if class == ErrorClass::TooManyRequests {
            self.open_later(
                now,
                Call {
                    verb: Verb::Watch,
                    ..call
                },
                problem,
            );
        } else {
            self.fail_in_stream(now, problem, Some(class));
        }
    }

    /// The streaming list is given up for this run. A refusal is a server's right, and what hinders the list as well
    /// is reported by the list.
    fn fall_back(&mut self, now: Instant, problem: StoredProblem) {
        let is_usual = matches!(
            problem,
            StoredProblem::Answer { .. } | StoredProblem::Transport(_)
        );
        let level = if is_usual || self.config.client_go {
            Level::Debug
        } else {
            self.level_of(problem)
        };
        self.report_at(ReportPhase::Stream, problem, None, level);
        self.begin_list(now);
    }

    fn watch_ended(&mut self, now: Instant, call: Call) {
        self.note_health(now, &call);
        if self.is_doubtful(now) {
            let silence = now - call.last_byte;
            return self.fail_in_stream(now, StoredProblem::Silent(silence), None);
        }
        if is_very_short(now, &call) {
            self.fail_in_stream(now, StoredProblem::VeryShortWatch, None);
        } else {
            self.reopen(now, call, Next::Watch);
        }
    }

    /// Returns whether a streaming list has been read for a whole watch timeout without coming to its end.
    fn is_endless(&self, now: Instant, call: &Call) -> bool {
        self.stream_end(call).is_some_and(|end| now >= end)
    }

    /// Whether a server has had the time to say anything at all after a version that was restored, and has not: it may be
    /// older than that.
    fn is_doubtful(&self, now: Instant) -> bool {
        let is_long = |since: Instant| now - since >= HEARTBEAT;
        self.resuming && self.resumed.is_some_and(is_long)
    }

    /// Watches on at once, but not for ever without a pause.
    fn reopen(&mut self, now: Instant, call: Call, next: Next) {
        if !self.config.client_go && !self.reopens.allow(now) {
            let verb = if next == Next::Stream {
                Verb::Stream
            } else {
                Verb::Watch
            };
            self.open_later(now, Call { verb, ..call }, StoredProblem::ShortWatches);
        } else if next == Next::Stream {
            self.begin_stream(now);
        } else {
            self.call(now, Verb::Watch);
        }
    }

    /// Waits for the delay between attempts to open a watch, and asks for the same.
    fn open_later(&mut self, now: Instant, call: Call, problem: StoredProblem) {
        let backoff = self.open_backoff.as_mut().unwrap_or(&mut self.run_backoff);
        let delay = backoff.step(now, &mut self.rng, Duration::ZERO);
        let delay = delay.max(self.asked_wait.unwrap_or_default());
        let then = if call.verb == Verb::Stream {
            Next::Stream
        } else {
            Next::Watch
        };
        self.state = State::Paused {
            until: now + delay,
            then,
        };
        self.report_at(phase_of(&call), problem, Some(delay), Level::Info);
    }

    fn fail_run(
        &mut self,
        now: Instant,
        phase: ReportPhase,
        problem: StoredProblem,
        class: Option<ErrorClass>,
    ) {
        let delay = self.pause_run(now, class);
        self.report(phase, problem, Some(delay));
    }

    /// As [`Self::fail_run`], for what client-go's error handler does not hear of.
    fn fail_in_stream(&mut self, now: Instant, problem: StoredProblem, class: Option<ErrorClass>) {
        let delay = self.pause_run(now, class);
        if self.config.client_go {
            self.report_at(ReportPhase::Watch, problem, Some(delay), Level::Debug);
        } else {
            self.report(ReportPhase::Watch, problem, Some(delay));
        }
    }

    /// A watch that lived shows that all is well: the next delay is a short one.
    pub(super) fn note_health(&mut self, now: Instant, call: &Call) {
        let lived = call.verb.is_watch() && call.phase == Phase::Body && now - call.sent >= HEALTHY;
        if self.config.client_go || !lived {
            return;
        }
        self.run_backoff.reset();
        if let Some(open) = &mut self.open_backoff {
            open.reset();
        }
    }
}

const fn phase_of(call: &Call) -> ReportPhase {
    match call.verb {
        Verb::List => ReportPhase::List,
        Verb::Watch => ReportPhase::Watch,
        Verb::Stream => ReportPhase::Stream,
    }
}

/// Tells whether a watch ended before it can have been of use.
fn is_very_short(now: Instant, call: &Call) -> bool {
    call.events == 0 && now - call.began < SHORT
}

/// When watches were last reopened without a delay.
#[derive(Default)]
pub(super) struct Reopens([Option<Instant>; REOPENS]);

impl Reopens {
    fn allow(&mut self, now: Instant) -> bool {
        let free = self
            .0
            .iter_mut()
            .find(|at| at.is_none_or(|at| now - at >= REOPEN_WINDOW));
        free.map(|at| *at = Some(now)).is_some()
    }
}

/// A report that waits to be taken. Texts are in the buffer of the error's body.
pub(super) struct Stored {
    phase: ReportPhase,
    problem: StoredProblem,
    retry_in: Option<Duration>,
    level: Level,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum StoredProblem {
    Answer { class: ErrorClass, status: u16 },
    Transport(FailureKind),
    Truncated,
    NotJson(ScanError),
    NotAList,
    NotAnEvent,
    VeryShortWatch,
    ShortWatches,
    Silent(Duration),
    NoInitialEvents(Duration),
    EndlessStream(Duration),
    EndlessPages,
    LongRetryAfter(Duration),
    NoVersion,
    SlowList(Duration),
    VersionWentBack,
    RequestTooLong,
}

impl Stored {
    pub(super) fn report<'a>(&self, error: &'a impl FrameBuffer) -> Report<'a> {
        let Self {
            phase,
            problem,
            retry_in,
            level,
        } = *self;
        Report {
            phase,
            problem: problem.report(error),
            retry_in,
            level,
            detail: "",
        }
    }
}

impl StoredProblem {
    fn report(self, error: &impl FrameBuffer) -> Problem<'_> {
        match self {
            Self::Answer { class, status } => Problem::Answer {
                class,
                status,
                message: message(error.as_slice()),
            },
            Self::Transport(kind) => Problem::Transport(kind),
            Self::Truncated => Problem::Truncated,
            Self::NotJson(error) => Problem::NotJson(error),
            Self::NotAList => Problem::NotAList,
            Self::NotAnEvent => Problem::NotAnEvent,
            Self::VeryShortWatch => Problem::VeryShortWatch,
            Self::ShortWatches => Problem::ShortWatches,
            Self::Silent(time) => Problem::Silent(time),
            Self::NoInitialEvents(time) => Problem::NoInitialEvents(time),
            Self::EndlessStream(time) => Problem::EndlessStream(time),
            Self::EndlessPages => Problem::EndlessPages,
            Self::LongRetryAfter(asked) => Problem::LongRetryAfter(asked),
            Self::NoVersion => Problem::NoVersion,
            Self::SlowList(time) => Problem::SlowList(time),
            Self::VersionWentBack => Problem::VersionWentBack,
            Self::RequestTooLong => Problem::RequestTooLong,
        }
    }
}
