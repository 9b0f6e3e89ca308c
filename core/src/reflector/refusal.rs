//! Answers that are errors: the classes of an error, and the reaction to each.

use core::time::Duration;

use super::config::{LONGEST_RETRY_AFTER, MAX_RETRIES};
use super::failure::phase_of;
use super::pending::StoredProblem;
use super::{Call, From, Purpose, Reflector, Target};
use crate::report::{Level, Phase as ReportPhase, RequestProblem};
use crate::resource::NamePart;
use crate::storage::Storage;
use crate::time::Instant;
use crate::wire::{ErrorClass, FrameBuffer, Status, classify};

impl<R: Target, S: Storage> Reflector<R, S> {
    /// Handles a name that no server can have, which is in the buffer of the error body.
    pub(super) fn refuse_name(&mut self, now: Instant, verb: Purpose, part: NamePart) {
        let problem = StoredProblem::InvalidName(part);
        self.fail_run(now, phase_of(verb), problem, Some(ErrorClass::Invalid));
    }

    /// Handles an error answer with a complete body.
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
        // A rejected format or parameter is not requested again. That ends, since each step removes one of them.
        if let Some(simpler) = self.accept.simpler(status) {
            self.accept = simpler;
            self.report_at(phase_of(call.verb), problem, None, Level::Debug);
            self.resend();
            return;
        }
        let asked = retry_after
            .filter(|_| (status == 429 || status >= 500) && class != ErrorClass::TooLarge);
        let wait = asked.map(|asked| asked.min(LONGEST_RETRY_AFTER));
        if wait < asked {
            let problem = RequestProblem::LongRetryAfter(asked.unwrap_or_default()).into();
            self.report(phase_of(call.verb), problem, wait);
        }
        if let Some(wait) = wait
            && call.retries < MAX_RETRIES
        {
            self.report_at(phase_of(call.verb), problem, Some(wait), Level::Info);
            self.retry_at(now, call, wait);
            return;
        }
        // The wait also applies after the last retry was rejected.
        if !self.config.client_go {
            self.asked_wait = wait;
        }
        match call.verb {
            Purpose::List => self.list_refused(now, class, problem, is_expired),
            // A gateway answers for an API server that is down.
            Purpose::Watch if self.resuming && status >= 500 && class != ErrorClass::TooLarge => {
                self.open_later(now, call, problem);
            }
            Purpose::Watch if class == ErrorClass::TooManyRequests => {
                self.open_later(now, call, problem);
            }
            Purpose::Watch if class == ErrorClass::MethodNotAllowed && !self.config.client_go => {
                self.not_watched(now);
            }
            Purpose::Watch => self.fail_run(now, ReportPhase::Watch, problem, Some(class)),
            Purpose::Stream => self.stream_refused(now, call, class, problem),
        }
        self.asked_wait = None;
    }

    /// Handles the answer that the resource cannot be watched. It is listed from time to time.
    fn not_watched(&mut self, now: Instant) {
        // A restored state has not been confirmed by a list.
        let wait = if core::mem::take(&mut self.resuming) {
            Duration::ZERO
        } else {
            self.poll_interval()
        };
        if self.polls.replace(0).is_none() {
            let problem = RequestProblem::NotWatched(self.poll_interval()).into();
            self.report(ReportPhase::Watch, problem, Some(wait));
        }
        self.run_after(now, wait);
    }

    fn list_refused(
        &mut self,
        now: Instant,
        class: ErrorClass,
        problem: StoredProblem,
        is_expired: bool,
    ) {
        if is_expired && self.run.pages > 0 && !self.run.whole {
            // An expired page cannot be requested again, so the list is requested without pages.
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
            // The server rejects its own token rather than the parameters, and the next list gets a new token.
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

    pub(super) fn error_event(&mut self, now: Instant, call: Call) {
        let body = self.error.as_slice();
        let parsed = Status::parse(body);
        let status = parsed.and_then(|status| status.code).unwrap_or(0);
        let class = classify(0, parsed.as_ref(), body);
        let problem = StoredProblem::Answer { class, status };
        if call.verb == Purpose::Stream && call.initial {
            self.stream_refused(now, call, class, problem);
        } else if class == ErrorClass::TooManyRequests {
            self.open_later(
                now,
                Call {
                    verb: Purpose::Watch,
                    ..call
                },
                problem,
            );
        } else {
            self.fail_in_stream(now, problem, Some(class));
        }
    }
}
