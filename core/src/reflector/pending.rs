//! Reports that wait to be taken.

use core::time::Duration;

use super::{Reflector, Target};
use crate::report::{Level, Phase as ReportPhase, Problem, Report, RequestProblem};
use crate::resource::{InvalidName, NamePart};
use crate::storage::Storage;
use crate::wire::{ErrorClass, FrameBuffer, message};

/// A pending report. Its texts are in the buffer of the error body.
pub(super) struct Stored {
    pub(super) phase: ReportPhase,
    pub(super) problem: StoredProblem,
    pub(super) retry_in: Option<Duration>,
    pub(super) level: Level,
}

/// The problem of such a report, without its texts.
#[derive(Clone, Copy, Debug)]
pub(super) enum StoredProblem {
    Answer { class: ErrorClass, status: u16 },
    InvalidName(NamePart),
    Request(RequestProblem),
}

impl From<RequestProblem> for StoredProblem {
    fn from(problem: RequestProblem) -> Self {
        Self::Request(problem)
    }
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
            answer: if let StoredProblem::Answer { .. } = problem {
                error.as_slice()
            } else {
                &[]
            },
        }
    }
}

impl StoredProblem {
    pub(super) fn report(self, error: &impl FrameBuffer) -> Problem<'_> {
        match self {
            Self::Answer { class, status } => Problem::Answer {
                class,
                status,
                message: message(error.as_slice()),
            },
            Self::Request(problem) => Problem::Request(problem),
            Self::InvalidName(part) => {
                // Only complete `&str`s are written to the buffer.
                let name = core::str::from_utf8(error.as_slice()).unwrap_or_default();
                Problem::InvalidName(InvalidName::new(part, name))
            }
        }
    }
}

impl<R: Target, S: Storage> Reflector<R, S> {
    /// Stores a report for the next output.
    pub(super) fn report(
        &mut self,
        phase: ReportPhase,
        problem: StoredProblem,
        retry_in: Option<Duration>,
    ) {
        let level = self.level_of(problem);
        self.report_at(phase, problem, retry_in, level);
    }

    /// Returns the level of a problem. Problems that client-go does not report stay below the level of its error
    /// handler.
    pub(super) fn level_of(&self, problem: StoredProblem) -> Level {
        let ours = matches!(
            problem,
            StoredProblem::Request(
                RequestProblem::SlowList(_)
                    | RequestProblem::VersionWentBack
                    | RequestProblem::LongRetryAfter(_)
                    | RequestProblem::NoVersion
            )
        );
        if self.config.client_go && ours {
            Level::Debug
        } else {
            problem.report(&self.error).level()
        }
    }

    pub(super) fn report_at(
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
        // Reports are taken after each step, and no step produces more than fit.
        if let Some(free) = self.reports.iter_mut().find(|report| report.is_none()) {
            *free = Some(stored);
        }
    }
}
