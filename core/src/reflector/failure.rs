//! Requests that fail or end, and the reaction to each.

use core::time::Duration;

use super::config::{
    HEALTHY, HEARTBEAT, MAX_RETRIES, PERMANENT_CAP, POLLS, REOPEN_WINDOW, REOPENS, RETRY_DELAY,
    SHORT, STREAM_SILENCE,
};
use super::pending::StoredProblem;
use super::read::Outcome;
use super::{Call, From, Initial, Next, Phase, Purpose, Reflector, RequestId, RunState, Target};
use crate::report::{Level, Phase as ReportPhase, RequestProblem};
use crate::storage::Storage;
use crate::time::Instant;
use crate::transport::{End, FailureKind, TransportFailure};
use crate::wire::{ErrorClass, FrameBuffer};

impl<R: Target, S: Storage> Reflector<R, S> {
    /// Handles a request without an answer. A GET that was cut off is retried within the reflector.
    pub(super) fn no_answer(&mut self, now: Instant, call: Call, failure: TransportFailure) {
        let again = match failure.kind {
            FailureKind::Reset => true,
            FailureKind::TimedOut => call.verb.is_watch(),
            FailureKind::Refused
            | FailureKind::Tls
            | FailureKind::Dns
            | FailureKind::Request
            | FailureKind::Other => false,
        };
        if again && call.retries < MAX_RETRIES {
            // If the server closed a reused connection, that says nothing about the server's health.
            let stale = failure.connection_was_used && call.retries == 0;
            self.retry_at(now, call, if stale { Duration::ZERO } else { RETRY_DELAY });
            return;
        }
        let problem = RequestProblem::Transport(failure.kind).into();
        // The next run has the same resource and selectors, so the reaction is that to a server that rejects them.
        if failure.kind == FailureKind::Request {
            self.fail_run(now, phase_of(call.verb), problem, Some(ErrorClass::Invalid));
            return;
        }
        match call.verb {
            // The cache was restored, so the watch is retried for as long as it takes.
            Purpose::Watch if self.resuming => self.open_later(now, call, problem),
            Purpose::List => self.fail_run(now, ReportPhase::List, problem, None),
            // client-go treats a watch that fails this often as one that ended, without a report.
            Purpose::Watch if again && self.config.client_go => self.watch_ended(now, call),
            Purpose::Watch if again => self.open_later(now, call, problem),
            Purpose::Watch | Purpose::Stream if failure.kind == FailureKind::Refused => {
                self.open_later(now, call, problem);
            }
            Purpose::Watch => self.fail_run(now, ReportPhase::Watch, problem, None),
            Purpose::Stream => self.fall_back(now, problem),
        }
    }

    /// Handles the end of a body, which is too early except for a watch.
    pub(super) fn body_ended(&mut self, now: Instant, call: Call, end: End) {
        match call.verb {
            Purpose::List => {
                let problem = match end {
                    End::Clean => RequestProblem::Truncated,
                    End::Failed(failure) => RequestProblem::Transport(failure.kind),
                };
                self.fail_run(now, ReportPhase::List, problem.into(), None);
            }
            Purpose::Stream if call.initial => {
                if is_very_short(now, &call) {
                    self.fall_back(now, RequestProblem::VeryShortWatch.into());
                } else if self.is_endless(now, &call) {
                    self.fall_back(
                        now,
                        RequestProblem::EndlessStream(self.run.stream_limit).into(),
                    );
                } else {
                    self.run.streamed += now - call.sent;
                    self.reopen(now, call, Next::Stream);
                }
            }
            Purpose::Watch | Purpose::Stream => self.watch_ended(now, call),
        }
    }

    /// Handles a timeout due to silence; the request is already cancelled.
    pub(super) fn silent(&mut self, now: Instant, call: Call) {
        let silence = now - call.last_byte;
        match call.verb {
            Purpose::List => {
                self.fail_run(
                    now,
                    ReportPhase::List,
                    RequestProblem::Silent(silence).into(),
                    None,
                );
            }
            Purpose::Stream if call.initial => {
                let problem = if now - call.last_event >= STREAM_SILENCE {
                    RequestProblem::NoInitialEvents(STREAM_SILENCE)
                } else {
                    RequestProblem::EndlessStream(self.run.stream_limit)
                };
                self.fall_back(now, problem.into());
            }
            Purpose::Watch if self.is_doubtful(now) || self.is_ahead(&call) => {
                let problem = RequestProblem::Silent(silence).into();
                self.fail_run(now, ReportPhase::Watch, problem, None);
            }
            Purpose::Watch | Purpose::Stream => {
                self.lacks_bookmarks |= !self.bookmarks_seen;
                self.report(
                    ReportPhase::Watch,
                    RequestProblem::Silent(silence).into(),
                    None,
                );
                self.note_health(now, &call);
                self.reopen(now, call, Next::Watch);
            }
        }
    }

    /// Continues after a complete page: with the next page, or with the watch.
    pub(super) fn page_done(&mut self, now: Instant) {
        if self.run.token.as_slice().is_empty() {
            match &mut self.polls {
                _ if self.once => self.state = RunState::Stopped,
                Some(polls) if *polls + 1 < POLLS => {
                    *polls += 1;
                    self.run_backoff.reset();
                    self.run_after(now, self.poll_interval());
                }
                Some(_) | None => self.call(now, Purpose::Watch),
            }
        } else if self.run.progress.is_endless(self.run.token.as_slice()) {
            self.fail_run(
                now,
                ReportPhase::List,
                RequestProblem::EndlessPages.into(),
                None,
            );
        } else {
            self.run.pages = self.run.pages.saturating_add(1);
            self.run.paged = true;
            self.call(now, Purpose::List);
        }
    }

    pub(super) fn handle_outcome(&mut self, now: Instant, call: Call, outcome: Outcome) {
        let problem = match outcome {
            Outcome::NotJson(error) => RequestProblem::NotJson(error),
            Outcome::NotAList => RequestProblem::NotAList,
            Outcome::NotAnEvent => RequestProblem::NotAnEvent,
            Outcome::TokenTooLong => RequestProblem::RequestTooLong,
            Outcome::WentBack => {
                // Its changes from here on do not follow from the state of the cache.
                self.version_unavailable = true;
                RequestProblem::VersionWentBack
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
            Purpose::List => self.fail_run(now, ReportPhase::List, problem.into(), None),
            Purpose::Stream if call.initial => self.fall_back(now, problem.into()),
            Purpose::Watch | Purpose::Stream => {
                self.note_health(now, &call);
                self.fail_in_stream(now, problem.into(), None);
            }
        }
    }

    pub(super) fn poll_interval(&self) -> Duration {
        self.config.poll_interval.max(Duration::from_secs(1))
    }

    pub(super) fn run_after(&mut self, now: Instant, wait: Duration) {
        self.state = RunState::Paused {
            until: now + wait,
            then: Next::Run,
        };
    }

    /// Retries the request under a new id.
    pub(super) fn resend(&mut self) {
        let id = RequestId(self.next_id);
        if let RunState::Calling(call) = &mut self.state {
            call.id = id;
            call.phase = Phase::ToSend;
            self.next_id = self.next_id.wrapping_add(1);
        }
    }

    /// Waits for the delay between lists, then lists.
    pub(super) fn pause_run(&mut self, now: Instant, class: Option<ErrorClass>) -> Duration {
        self.resuming = false;
        // A resource that is not served yet may be installed at any time.
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
        self.run_after(now, delay);
        delay
    }

    /// Returns whether a list at the last version would be paginated. Such a list shows exactly that version for as
    /// long as etcd has it, which may be longer than watches can resume from it.
    fn would_list_the_same(&self) -> bool {
        let begins_with_list = self.config.initial == Initial::List || self.stream_refused;
        // A server that paginates without being asked has no watch cache, so its lists and watches expire together.
        let in_pages = self.config.page_size.is_some_and(|size| size > 0);
        let was_the_same = self.run.from == From::Last && self.run.limit > 0 && !self.run.whole;
        begins_with_list && in_pages || was_the_same
    }

    pub(super) fn retry_at(&mut self, now: Instant, call: Call, wait: Duration) {
        let retries = call.retries.saturating_add(1);
        self.state = RunState::Calling(Call {
            phase: Phase::Retry { at: now + wait },
            retries,
            ..call
        });
    }

    /// Falls back to a list for this run. A server may reject streaming lists, and a failure that affects the list as
    /// well is reported by the list.
    pub(super) fn fall_back(&mut self, now: Instant, problem: StoredProblem) {
        let is_usual = matches!(
            problem,
            StoredProblem::Answer { .. } | StoredProblem::Request(RequestProblem::Transport(_))
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
            return self.fail_in_stream(now, RequestProblem::Silent(silence).into(), None);
        }
        if is_very_short(now, &call) {
            self.fail_in_stream(now, RequestProblem::VeryShortWatch.into(), None);
        } else {
            self.reopen(now, call, Next::Watch);
        }
    }

    /// Returns whether streaming lists have been read for a complete watch timeout without reaching the end.
    fn is_endless(&self, now: Instant, call: &Call) -> bool {
        self.stream_end(call).is_some_and(|end| now >= end)
    }

    /// Returns whether a server has been silent for a heartbeat since a watch was resumed at a restored version. The
    /// server may be older than that version.
    fn is_doubtful(&self, now: Instant) -> bool {
        let is_long = |since: Instant| now - since >= HEARTBEAT;
        self.resuming && self.resumed.is_some_and(is_long)
    }

    /// Returns whether a silent watch may be ahead of the server, which was restored to an older state: it accepted the
    /// watch and sent nothing since, although it sends bookmarks.
    const fn is_ahead(&self, call: &Call) -> bool {
        matches!(call.phase, Phase::Body) && call.events == 0 && self.bookmarks_seen
    }

    /// Reopens the watch immediately, up to a rate limit. One that ended at the requested time did not end too early.
    fn reopen(&mut self, now: Instant, call: Call, next: Next) {
        let is_on_time = now - call.sent >= call.timeout;
        if !self.config.client_go && !is_on_time && !self.reopens.allow(now) {
            let verb = if next == Next::Stream {
                Purpose::Stream
            } else {
                Purpose::Watch
            };
            self.open_later(
                now,
                Call { verb, ..call },
                RequestProblem::ShortWatches.into(),
            );
        } else if next == Next::Stream {
            self.begin_stream(now);
        } else {
            self.call(now, Purpose::Watch);
        }
    }

    /// Retries after the delay between attempts to open a watch.
    pub(super) fn open_later(&mut self, now: Instant, call: Call, problem: StoredProblem) {
        let backoff = self.open_backoff.as_mut().unwrap_or(&mut self.run_backoff);
        let delay = backoff.step(now, &mut self.rng, Duration::ZERO);
        let delay = delay.max(self.asked_wait.unwrap_or_default());
        let then = if call.verb == Purpose::Stream {
            Next::Stream
        } else {
            Next::Watch
        };
        self.state = RunState::Paused {
            until: now + delay,
            then,
        };
        self.report_at(phase_of(call.verb), problem, Some(delay), Level::Info);
    }

    pub(super) fn fail_run(
        &mut self,
        now: Instant,
        phase: ReportPhase,
        problem: StoredProblem,
        class: Option<ErrorClass>,
    ) {
        let delay = self.pause_run(now, class);
        self.report(phase, problem, Some(delay));
    }

    /// As [`Self::fail_run`], for failures that client-go's error handler does not get.
    pub(super) fn fail_in_stream(
        &mut self,
        now: Instant,
        problem: StoredProblem,
        class: Option<ErrorClass>,
    ) {
        let delay = self.pause_run(now, class);
        if self.config.client_go {
            self.report_at(ReportPhase::Watch, problem, Some(delay), Level::Debug);
        } else {
            self.report(ReportPhase::Watch, problem, Some(delay));
        }
    }

    /// Resets the delays after a watch that lasted.
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

pub(super) const fn phase_of(verb: Purpose) -> ReportPhase {
    match verb {
        Purpose::List => ReportPhase::List,
        Purpose::Watch => ReportPhase::Watch,
        Purpose::Stream => ReportPhase::Stream,
    }
}

/// Returns whether a watch ended too early to be useful.
fn is_very_short(now: Instant, call: &Call) -> bool {
    call.events == 0 && now - call.began < SHORT
}

/// The times of the last watches that were reopened without a delay.
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
