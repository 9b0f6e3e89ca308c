//! Which fault has met the reflector in which state.

use core::fmt::Write as _;

use super::faults::FaultKind;
use super::plan::Action;

/// What a source is doing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Phase {
    /// Nothing is under way.
    Paused,
    /// A list was asked for.
    ListSent,
    /// A list is read.
    ListBody,
    /// A later page was asked for.
    PageSent,
    /// A later page is read.
    PageBody,
    /// A streaming list was asked for.
    StreamSent,
    /// A streaming list is read.
    StreamInitial,
    /// A streaming list is past its end.
    StreamFollowing,
    /// A watch was asked for.
    WatchSent,
    /// A watch is read.
    WatchBody,
}

impl Phase {
    /// All of them.
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

/// The actions that are faults by themselves.
const EVENTS: [&str; 19] = [
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
];

const FAULTS: usize = FaultKind::ALL.len();

/// How often each fault met each state.
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
    /// Counts the fault of a request.
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

    /// Adds what another run has met.
    pub fn add(&mut self, other: &Self) {
        for (own, other) in self.counts.iter_mut().zip(&other.counts) {
            *own += other;
        }
    }

    /// Returns the cells that should have something in them and have not.
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

    /// Writes the table.
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

/// The fault of a request meets it when it is sent. Everything else may come at any time.
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

fn event(action: &Action) -> Option<usize> {
    let name = format!("{action:?}");
    let word = name.split('(').next().unwrap_or_default();
    EVENTS.iter().position(|event| *event == word)
}
