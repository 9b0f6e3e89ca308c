//! Which faults met the reflector in which state.

use core::fmt::Write as _;

use super::faults::FaultKind;
use super::plan::Action;

/// The phase of a source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Phase {
    /// No request is open.
    Paused,
    /// A list was sent.
    ListSent,
    /// A list is being read.
    ListBody,
    /// A request for a later page was sent.
    PageSent,
    /// A later page is being read.
    PageBody,
    /// A streaming list was sent.
    StreamSent,
    /// A streaming list is being read.
    StreamInitial,
    /// A streaming list is past its end.
    StreamFollowing,
    /// A watch was sent.
    WatchSent,
    /// A watch is being read.
    WatchBody,
}

impl Phase {
    /// All phases.
    pub const ALL: [Self; 10] = [
        Self::Paused,
        Self::ListSent,
        Self::ListBody,
        Self::PageSent,
        Self::PageBody,
        Self::StreamSent,
        Self::StreamInitial,
        Self::StreamFollowing,
        Self::WatchSent,
        Self::WatchBody,
    ];
}

/// The actions that are faults themselves.
const EVENTS: [&str; 20] = [
    "CutWatches",
    "CloseWatches",
    "StallWatches",
    "Compact",
    "ForgetEvents",
    "Lag",
    "CatchUp",
    "Route",
    "Down",
    "Up",
    "Restart",
    "Restore",
    "Lose",
    "ClockBack",
    "Resync",
    "Relist",
    "LateAnswer",
    "Reborn",
    "Stop",
    "GoAway",
];

const FAULTS: usize = FaultKind::ALL.len();

/// The number of times that each fault met each phase.
#[derive(Clone, Debug)]
pub struct Coverage {
    counts: Vec<u64>,
}

impl Default for Coverage {
    fn default() -> Self {
        Self {
            counts: vec![0; (FAULTS + EVENTS.len()) * Phase::ALL.len()],
        }
    }
}

impl Coverage {
    /// Counts a fault in the answer to a request.
    pub fn hit(&mut self, phase: Phase, fault: FaultKind) {
        self.count(fault as usize, phase);
    }

    /// Counts an action.
    pub fn act(&mut self, phase: Phase, action: &Action) {
        if let Some(event) = event(action) {
            self.count(FAULTS + event, phase);
        }
    }

    fn count(&mut self, row: usize, phase: Phase) {
        self.counts[row * Phase::ALL.len() + phase as usize] += 1;
    }

    /// Adds the coverage of another run.
    pub fn add(&mut self, other: &Self) {
        for (own, other) in self.counts.iter_mut().zip(&other.counts) {
            *own += other;
        }
    }

    /// Returns the possible cells that were never met.
    #[must_use]
    pub fn empty(&self) -> Vec<String> {
        let mut empty = Vec::new();
        for row in 0..FAULTS + EVENTS.len() {
            for phase in Phase::ALL {
                if is_possible(row, phase)
                    && self.counts[row * Phase::ALL.len() + phase as usize] == 0
                {
                    empty.push(format!("{} × {phase:?}", name(row)));
                }
            }
        }
        empty
    }

    /// Formats the table.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = format!("{:<22}", "");
        for phase in Phase::ALL {
            let _ = write!(text, "{:>16}", format!("{phase:?}"));
        }
        text.push('\n');
        for row in 0..FAULTS + EVENTS.len() {
            let _ = write!(text, "{:<22}", name(row));
            for phase in Phase::ALL {
                let count = self.counts[row * Phase::ALL.len() + phase as usize];
                let cell = if is_possible(row, phase) {
                    count.to_string()
                } else {
                    "·".to_owned()
                };
                let _ = write!(text, "{cell:>16}");
            }
            text.push('\n');
        }
        text
    }
}

/// The fault of a request meets it when it is sent. All other faults can come at any time.
const fn is_possible(row: usize, phase: Phase) -> bool {
    row >= FAULTS
        || matches!(
            phase,
            Phase::ListSent | Phase::PageSent | Phase::StreamSent | Phase::WatchSent
        )
}

fn name(row: usize) -> String {
    FaultKind::ALL
        .get(row)
        .map_or_else(|| EVENTS[row - FAULTS].to_owned(), ToString::to_string)
}

/// The row of an action among [`EVENTS`].
const fn event(action: &Action) -> Option<usize> {
    Some(match action {
        Action::CutWatches => 0,
        Action::CloseWatches => 1,
        Action::StallWatches => 2,
        Action::Compact(_) => 3,
        Action::ForgetEvents => 4,
        Action::Lag(..) => 5,
        Action::CatchUp(..) => 6,
        Action::Route(_) => 7,
        Action::Down(_) => 8,
        Action::Up(_) => 9,
        Action::Restart(..) => 10,
        Action::Restore(..) => 11,
        Action::Lose(_) => 12,
        Action::ClockBack(_) => 13,
        Action::Resync => 14,
        Action::Relist(_) => 15,
        Action::LateAnswer(_) => 16,
        Action::Reborn => 17,
        Action::Stop => 18,
        Action::GoAway(_) => 19,
        Action::Put(..)
        | Action::Spoil(..)
        | Action::Delete(_)
        | Action::Recreate(_)
        | Action::Bump
        | Action::Fault(..)
        | Action::PageFault(..)
        | Action::Bookmarks(_)
        | Action::Read(..)
        | Action::ReadAll(_)
        | Action::Pop(_)
        | Action::Hear(..)
        | Action::Pass(..)
        | Action::ToDeadline
        | Action::Join(..)
        | Action::JoinAmid(_)
        | Action::Leave(_)
        | Action::AddIndex
        | Action::Unheard(_)
        | Action::DiskFull(_) => return None,
    })
}
