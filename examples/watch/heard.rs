//! Reports of the informer, and how the example rates them.

use std::time::Instant;

use informer::health::{Level, Phase, Problem, Report, RequestProblem};
use informer::transport::FailureKind;
use informer_core::wire::ErrorClass;

/// A report.
pub(crate) struct Heard {
    pub(crate) class: &'static str,
    pub(crate) level: Level,
    /// The complete text.
    pub(crate) text: String,
    /// The text without the time of the next attempt.
    pub(crate) last_text: String,
    /// Whether a list failed in a way that a retry does not fix.
    pub(crate) is_permanent: bool,
    /// Whether a request failed, so that the cache may be stale until one succeeds.
    pub(crate) is_outage: bool,
    pub(crate) at: Instant,
}

impl Heard {
    pub(crate) fn of(report: &Report<'_>) -> Self {
        // A rejected streaming list is followed by a plain list, which decides.
        let is_list =
            matches!(report.phase, Phase::List | Phase::Stream) && report.level > Level::Debug;
        let mut last = *report;
        last.retry_in = None;
        Self {
            class: report.class(),
            level: report.level,
            text: report.to_string(),
            last_text: last.to_string(),
            is_permanent: is_list && is_permanent(&report.problem),
            is_outage: (is_list || report.phase == Phase::Watch) && is_outage(&report.problem),
            at: Instant::now(),
        }
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "all other problems resolve themselves, or concern an object"
)]
fn is_permanent(problem: &Problem<'_>) -> bool {
    match problem {
        Problem::Request(RequestProblem::Transport(kind)) => matches!(
            kind,
            FailureKind::Refused
                | FailureKind::Dns
                | FailureKind::Tls
                | FailureKind::Request
                | FailureKind::Other
        ),
        Problem::Answer { class, status, .. } => {
            matches!(
                class,
                ErrorClass::Unauthorized
                    | ErrorClass::Forbidden
                    | ErrorClass::NotFound
                    | ErrorClass::NotAcceptable
                    | ErrorClass::Invalid
            ) || *status == 400
        }
        Problem::Request(
            RequestProblem::NotJson(_) | RequestProblem::NotAList | RequestProblem::RequestTooLong,
        ) => true,
        _ => false,
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "all other problems are not failures of requests"
)]
fn is_outage(problem: &Problem<'_>) -> bool {
    match problem {
        Problem::Request(
            RequestProblem::Transport(_) | RequestProblem::Truncated | RequestProblem::Silent(_),
        ) => true,
        // A relist follows at once.
        Problem::Answer { class, .. } => {
            !matches!(class, ErrorClass::Expired | ErrorClass::TooLarge)
        }
        _ => false,
    }
}

/// A time in which no request succeeds.
pub(crate) struct Outage {
    began: Instant,
    attempts: u32,
}

impl Outage {
    /// Counts a failed request. The first one begins the outage.
    pub(crate) fn note(outage: &mut Option<Self>, heard: &Heard) {
        if heard.is_outage {
            let outage = outage.get_or_insert(Self {
                began: heard.at,
                attempts: 0,
            });
            outage.attempts += 1;
        }
    }

    /// Returns the line that reports the end of the outage.
    pub(crate) fn over(&self) -> String {
        let attempts = match self.attempts {
            1 => "1 failed attempt".to_owned(),
            attempts => format!("{attempts} failed attempts"),
        };
        format!(
            "the server answers again, after {:.1} s and {attempts}",
            self.began.elapsed().as_secs_f32()
        )
    }
}
