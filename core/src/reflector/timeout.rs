//! Timeouts: the end of a pause, and calls and bodies that take too long.

use super::config::{
    DRAIN, ERROR_DRAIN, HEARTBEAT, LIST_SILENCE, SLOW_LIST, STREAM_SILENCE, WATCH_MARGIN,
};
use super::run::{Call, Next, Phase, RunState};
use super::{Purpose, Reflector, RequestId, Target};
use crate::report::{Phase as ReportPhase, RequestProblem};
use crate::storage::Storage;
use crate::time::{Instant, earliest};

impl<R: Target, S: Storage> Reflector<R, S> {
    /// Handles the passing of time. It is harmless to call it too often.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.finish_reading(now);
        if self.refill_at.is_some_and(|at| now >= at) {
            self.refill_at = None;
            if self.is_in_run() {
                self.abandon();
                self.resuming = false;
                self.begin_run(now);
            }
        }
        match self.state {
            RunState::Idle => self.begin_run(now),
            RunState::Paused { until, then } if now >= until => match then {
                Next::Run => self.begin_run(now),
                Next::Watch => self.call(now, Purpose::Watch),
                Next::Stream => self.begin_stream(now),
            },
            RunState::Paused { .. } | RunState::Stopped => {}
            RunState::Calling(call) => self.check_call(now, call),
        }
    }

    /// Excludes the time until now from the silence of the server, because the reader was blocked.
    pub const fn excuse_silence(&mut self, now: Instant) {
        if let RunState::Calling(call) = &mut self.state {
            call.last_byte = now;
            call.last_event = now;
        }
    }

    /// Excludes the time that a request waited before it could be sent.
    pub fn excuse_wait(&mut self, now: Instant, id: RequestId) {
        let Some(call) = self.current(id) else { return };
        if call.phase != Phase::Sent {
            return;
        }
        // The time of earlier attempts still counts.
        let waited = now - call.sent;
        call.began = call.began + waited;
        call.sent = now;
        call.last_byte = now;
        call.last_event = now;
        self.run.began = self.run.began + waited;
    }

    /// Checks whether the current call has timed out.
    fn check_call(&mut self, now: Instant, call: Call) {
        match call.phase {
            Phase::Retry { at } if now >= at => self.resend(),
            Phase::Draining { since } if now >= since + DRAIN => {
                self.cancel = Some(call.id);
                self.report(
                    ReportPhase::List,
                    RequestProblem::Silent(DRAIN).into(),
                    None,
                );
                self.page_done(now);
            }
            Phase::ErrorBody {
                status,
                retry_after,
                since,
            } if now >= since + ERROR_DRAIN => {
                self.cancel = Some(call.id);
                self.refused(now, call, status, retry_after);
            }
            Phase::Sent | Phase::Body => self.check_silence(now, call),
            Phase::Retry { .. }
            | Phase::Draining { .. }
            | Phase::ErrorBody { .. }
            | Phase::ToSend => {}
        }
    }

    fn check_silence(&mut self, now: Instant, call: Call) {
        if call.verb == Purpose::List
            && !self.run.slow_reported
            && now >= self.run.began + SLOW_LIST
        {
            self.run.slow_reported = true;
            self.report(
                ReportPhase::List,
                RequestProblem::SlowList(now - self.run.began).into(),
                None,
            );
        }
        if self
            .silence_deadline(&call)
            .is_some_and(|deadline| now >= deadline)
        {
            self.cancel = Some(call.id);
            self.silent(now, call);
        }
    }

    /// Returns when the current call times out because of silence.
    fn silence_deadline(&self, call: &Call) -> Option<Instant> {
        if self.config.client_go {
            return None;
        }
        match call.verb {
            Purpose::List => Some(call.last_byte + LIST_SILENCE),
            Purpose::Stream if call.initial => earliest(
                Some(call.last_event + STREAM_SILENCE),
                self.stream_end(call),
            ),
            Purpose::Watch | Purpose::Stream => {
                let asked = call.sent + call.timeout + WATCH_MARGIN;
                let beats = self.bookmarks_seen || !self.lacks_bookmarks;
                Some(if beats {
                    asked.min(call.last_byte + HEARTBEAT)
                } else {
                    asked
                })
            }
        }
    }

    /// Returns when the streaming lists of this run have been read for a complete watch timeout in total.
    pub(super) fn stream_end(&self, call: &Call) -> Option<Instant> {
        let left = self.run.stream_limit.saturating_sub(self.run.streamed);
        (!self.config.client_go).then(|| call.sent + left)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let deadline = match &self.state {
            RunState::Idle | RunState::Stopped => None,
            RunState::Paused { until, .. } => Some(*until),
            RunState::Calling(call) => match call.phase {
                Phase::ToSend => None,
                Phase::Retry { at } => Some(at),
                Phase::Draining { since } => Some(since + DRAIN),
                Phase::ErrorBody { since, .. } => Some(since + ERROR_DRAIN),
                Phase::Sent | Phase::Body => {
                    let slow = call.verb == Purpose::List && !self.run.slow_reported;
                    earliest(
                        slow.then(|| self.run.began + SLOW_LIST),
                        self.silence_deadline(call),
                    )
                }
            },
        };
        earliest(deadline, self.refill_at.filter(|_| self.is_in_run()))
    }
}
