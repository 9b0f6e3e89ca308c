//! The plan of a run: the settings of the world, and the actions in it. It is made from a seed, and can be shrunk.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::action::{Action, CrashAt, FaultKind, ReadFault, UserChange, WriteFault};
use super::dice::Dice;
use super::spec::Spec;

/// A world and what happens in it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) settings: Settings,
    pub(super) steps: Vec<Step>,
    /// When all faults end, since the start.
    pub(super) end: Duration,
}

/// One or more actions that belong together, such as a server that lags, what happens meanwhile, and its end. They are
/// removed together: a part of them would be another fault.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Step {
    /// Since the start, so that other steps can be removed without a change of this one.
    pub(super) at: Duration,
    /// The fault that the actions make; `None` for a change by a user.
    #[serde(skip)]
    pub(super) kind: Option<FaultKind>,
    /// Each action with its time since [`at`](Self::at), in order.
    pub(super) actions: Vec<(Duration, Action)>,
}

impl Step {
    /// The time of its last action.
    pub(super) fn end(&self) -> Duration {
        self.at + self.actions.last().map_or(Duration::ZERO, |last| last.0)
    }
}

/// The settings of a world.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Settings {
    /// The longest time until a response to a read begins.
    pub(super) read_ms: u64,
    /// The longest time that a write takes in each direction.
    pub(super) write_ms: u64,
    /// Whether the server supports streaming lists.
    pub(super) streams: bool,
    pub(super) bookmarks: bool,
    /// A watch from an expired version is rejected with HTTP status 410 instead of an event.
    pub(super) gone_http: bool,
    /// The server forgets events after 75 s, and its history after 5 minutes.
    pub(super) forgetful: bool,
    /// Seconds by which the clock of each replica is ahead of the one before it.
    pub(super) skew: i64,
    /// Seconds by which the clock of the first replica is ahead of the servers'.
    pub(super) ahead: i64,
    /// The longest delay of a watch.
    pub(super) late_ms: u64,
    /// The garbage collector is slow, and Pods have a grace period.
    pub(super) slow_deletion: bool,
}

impl Settings {
    /// Nothing is unusual.
    pub(super) const CALM: Self = Self {
        read_ms: 1,
        write_ms: 1,
        streams: true,
        bookmarks: true,
        gone_http: false,
        forgetful: false,
        skew: 0,
        ahead: 0,
        late_ms: 0,
        slow_deletion: false,
    };

    /// The settings without anything unusual. Each differs from a usual one in one setting.
    pub(super) fn simpler(self) -> impl Iterator<Item = Self> {
        [
            Self::CALM,
            Self { read_ms: 1, ..self },
            Self {
                write_ms: 1,
                ..self
            },
            Self {
                streams: true,
                ..self
            },
            Self {
                bookmarks: true,
                ..self
            },
            Self {
                gone_http: false,
                ..self
            },
            Self {
                forgetful: false,
                ..self
            },
            Self { skew: 0, ..self },
            Self { ahead: 0, ..self },
            Self { late_ms: 0, ..self },
            Self {
                slow_deletion: false,
                ..self
            },
        ]
        .into_iter()
        .filter(move |simpler| *simpler != self)
    }
}

impl Plan {
    /// Makes the plan of a seed.
    pub(super) fn of_seed(seed: u64, spec: &Spec) -> Self {
        let dice = &mut Dice::of(&[seed, 1]);
        let settings = Settings {
            read_ms: dice.pick(&[1, 1, 5, 50, 400]),
            write_ms: dice.pick(&[1, 1, 5, 50, 400]),
            streams: !dice.one_in(3) || !spec.has(FaultKind::OldServer),
            bookmarks: !dice.one_in(4) || !spec.has(FaultKind::OldServer),
            gone_http: dice.one_in(3) && spec.has(FaultKind::Gone),
            forgetful: dice.one_in(3) && spec.has(FaultKind::Expired),
            skew: dice.pick(&[0, 1, 10, 60]),
            ahead: if spec.has(FaultKind::Clocks) {
                dice.pick(&[0, 0, 1, -1, 60, -60, 3_600, -3_600])
            } else {
                0
            },
            late_ms: if spec.has(FaultKind::LateEvents) {
                dice.pick(&[0, 0, 0, 50, 1_000, 10_000])
            } else {
                0
            },
            slow_deletion: spec.has(FaultKind::SlowDeletion) && dice.one_in(3),
        };
        let mut maker = Maker::new(seed, spec);
        let mut steps = Vec::new();
        let mut actions = 0;
        while actions < spec.steps {
            let step = maker.step();
            actions += step.actions.len();
            steps.push(step);
        }
        if spec.old.is_some() {
            upgrade(seed, spec.replicas, &mut steps);
        }
        let end = steps.last().map_or(Duration::ZERO, Step::end);
        Self {
            seed,
            settings,
            steps,
            end,
        }
    }

    /// Iterates over the actions with their times.
    pub(super) fn actions(&self) -> impl Iterator<Item = (Duration, &Action)> {
        self.steps.iter().flat_map(|step| {
            let actions = step.actions.iter();
            actions.map(|(after, action)| (step.at + *after, action))
        })
    }
}

/// Replaces one replica after the other by the new program, from some step on.
fn upgrade(seed: u64, replicas: usize, steps: &mut Vec<Step>) {
    let mut dice = Dice::of(&[seed, 14]);
    let mut index = dice.index(steps.len() + 1);
    for replica in 0..replicas {
        let before = index.checked_sub(1).and_then(|index| steps.get(index));
        let step = Step {
            at: before.map_or(Duration::ZERO, Step::end),
            kind: None,
            actions: vec![(Duration::ZERO, Action::Upgrade { replica })],
        };
        steps.insert(index, step);
        index += 1 + dice.index(3);
        index = index.min(steps.len());
    }
}

/// Makes the actions of a plan.
struct Maker<'a> {
    spec: &'a Spec,
    dice: Dice,
    /// The faults of this run, and how often each of them occurs.
    faults: Vec<(FaultKind, u64)>,
    /// How often users act, in comparison with faults.
    users: u64,
    pauses: &'static [u64],
    /// The time of the last action.
    now: Duration,
    /// Decides which writes count. It is apart, so that seeds keep the rest of their meaning.
    resources: Dice,
}

impl<'a> Maker<'a> {
    fn new(seed: u64, spec: &'a Spec) -> Self {
        let mut dice = Dice::of(&[seed, 2]);
        // Each run has many of some faults and none of others, so that rare combinations occur.
        let mut faults: Vec<_> = spec
            .faults
            .iter()
            .map(|kind| (*kind, dice.pick(&[0, 0, 0, 1, 4])))
            .collect();
        if let Some(index) = (!faults.is_empty()).then(|| dice.index(faults.len())) {
            faults[index].1 = 4;
        }
        let users = dice.pick(&[1, 2, 4]);
        const PAUSES: [&[u64]; 4] = [
            &[0, 1, 10, 100],
            &[0, 10, 100, 1_000],
            &[1, 100, 1_000, 10_000],
            &[0, 100, 2_000, 90_000],
        ];
        let pauses = dice.pick(&PAUSES);
        Self {
            spec,
            dice,
            faults,
            users,
            pauses,
            now: Duration::ZERO,
            resources: Dice::of(&[seed, 19]),
        }
    }

    fn step(&mut self) -> Step {
        let faults: u64 = self.faults.iter().map(|(_, weight)| weight).sum();
        // Users do as much as all faults together, times their weight.
        let at = self.dice.below(faults * (self.users + 1));
        let kind = if at >= faults { None } else { self.kind(at) };
        let mut actions = Vec::new();
        match kind {
            Some(kind) => self.fault(kind, &mut actions),
            None => {
                let action = self.change();
                self.push(&mut actions, action);
            }
        }
        let at = actions.first().map_or(self.now, |first| first.0);
        for action in &mut actions {
            action.0 -= at;
        }
        Step { at, kind, actions }
    }

    /// Returns the fault at a place of the sum of all weights.
    fn kind(&self, mut at: u64) -> Option<FaultKind> {
        let found = self.faults.iter().find(|(_, weight)| {
            let found = at < *weight;
            at = at.saturating_sub(*weight);
            found
        });
        found.map(|(kind, _)| *kind)
    }

    fn push(&mut self, actions: &mut Vec<(Duration, Action)>, action: Action) {
        let most = self.dice.pick(self.pauses);
        self.now += Duration::from_millis(self.dice.below(most + 1));
        actions.push((self.now, action));
    }

    /// Something that a user does.
    fn change(&mut self) -> Action {
        let dice = &mut self.dice;
        if !self.spec.edited.is_empty() && (self.spec.slots() == 0 || dice.one_in(4)) {
            let resource = dice.index(self.spec.edited.len());
            let which = dice.below(16);
            return Action::Person {
                resource,
                which,
                deletes: dice.one_in(2),
            };
        }
        if self.spec.slots() == 0 {
            return Action::Wait;
        }
        let slot = dice.index(self.spec.slots());
        let objects = self.spec.objects_of(slot);
        let variant = dice.index(objects.variants.len() + 1);
        let change = match dice.below(8) {
            0..5 => UserChange::Put(variant),
            _ if !objects.deletes => UserChange::Put(variant),
            5..7 => UserChange::Delete,
            _ => UserChange::Recreate(variant),
        };
        Action::User { slot, change }
    }

    /// Adds a fault, with what belongs to it. Changes by users happen in between, since a fault without any change
    /// shows nothing.
    fn fault(&mut self, kind: FaultKind, actions: &mut Vec<(Duration, Action)>) {
        let server = self.dice.index(2);
        let replica = self.dice.index(self.spec.replicas);
        match kind {
            FaultKind::Stale => {
                // A server lags behind, and a process that starts meanwhile reads from it.
                self.push(actions, Action::Lag { server });
                self.changes(actions);
                if self.dice.one_in(2) {
                    self.push(actions, Action::Route { replica, server });
                }
                if self.dice.one_in(2) && self.spec.has(FaultKind::Crash) {
                    let crash = self.crash(replica);
                    self.push(actions, crash);
                } else {
                    // Servers end watches all the time, so that is no fault of its own.
                    self.push(actions, Action::CloseWatches);
                }
                self.changes(actions);
                self.push(actions, Action::CatchUp { server });
                self.push(actions, Action::Route { replica, server: 0 });
            }
            FaultKind::Unobserved => {
                // Watches show nothing for a while, and cannot be resumed: only the result is observed.
                self.push(actions, Action::StallWatches);
                self.changes(actions);
                self.push(actions, Action::ForgetEvents);
                self.push(actions, Action::CutWatches);
            }
            FaultKind::Crash => {
                let crash = self.crash(replica);
                self.push(actions, crash);
                if self.dice.one_in(2) {
                    self.changes(actions);
                }
            }
            _ => {
                let mut action = self.simple(kind, server, replica);
                if let Action::Write { of, .. } = &mut action {
                    let one = self.resources.one_in(3);
                    *of = one.then(|| self.resources.below(16));
                }
                self.push(actions, action);
            }
        }
    }

    fn changes(&mut self, actions: &mut Vec<(Duration, Action)>) {
        for _ in 0..=self.dice.below(2) {
            let action = self.change();
            self.push(actions, action);
        }
    }

    fn crash(&mut self, replica: usize) -> Action {
        let at = match self.dice.below(5) {
            0 => CrashAt::Now,
            1 | 2 => CrashAt::BeforeWrite,
            _ => CrashAt::AfterWrite,
        };
        Action::Crash {
            replica,
            at,
            skip: self.dice.below(3),
            down: self.time(&[0, 100, 3_000, 30_000, 120_000]),
        }
    }

    /// A fault of one action.
    fn simple(&mut self, kind: FaultKind, server: usize, replica: usize) -> Action {
        let dice = &mut self.dice;
        let read = |fault, count| Action::Read { fault, count };
        let write = |fault, skip| Action::Write {
            fault,
            skip,
            of: None,
        };
        match kind {
            FaultKind::Expired => match dice.below(2) {
                0 => Action::Compact,
                _ => Action::ForgetEvents,
            },
            FaultKind::Gone => read(ReadFault::Gone, 1),
            FaultKind::Cut => match dice.below(5) {
                0 | 1 => Action::CutWatches,
                2 => Action::CloseWatches,
                3 => Action::GoAway,
                _ => read(ReadFault::Reset, 1 + dice.below(3)),
            },
            FaultKind::Silence => Action::StallWatches,
            FaultKind::Restart => match dice.below(3) {
                0 => Action::Down {
                    server,
                    time: self.time(&[1_000, 20_000]),
                },
                _ => Action::Restart {
                    server,
                    unready: self.time(&[1_000, 10_000]),
                },
            },
            FaultKind::Overload => {
                let count = 1 + dice.below(3);
                let seconds = dice.pick(&[1, 10]);
                read(ReadFault::Overloaded { seconds }, count)
            }
            FaultKind::FailedRead => {
                let fault = dice.pick(&[ReadFault::Failed, ReadFault::Page]);
                read(fault, 1 + dice.below(3))
            }
            FaultKind::Unauthorized => match dice.below(3) {
                0 => write(WriteFault::Unauthorized, dice.below(3)),
                _ => read(ReadFault::Unauthorized, 1 + dice.below(3)),
            },
            FaultKind::Slow => read(ReadFault::Slow(self.time(&[500, 20_000])), 1),
            FaultKind::Conflict => write(WriteFault::Conflict, dice.below(3)),
            FaultKind::FailedWrite => {
                let fault = dice.pick(&[
                    WriteFault::Overloaded,
                    WriteFault::Failed,
                    WriteFault::Reset,
                ]);
                write(fault, dice.below(4))
            }
            FaultKind::SlowWrite => {
                let skip = dice.below(3);
                write(WriteFault::Slow(self.time(&[1_000, 9_000])), skip)
            }
            FaultKind::LostAnswer => {
                let fault = dice.pick(&[WriteFault::AnswerLost, WriteFault::AnswerTimeout]);
                write(fault, dice.below(3))
            }
            FaultKind::Denied => {
                let fault =
                    dice.pick(&[WriteFault::Denied, WriteFault::Quota, WriteFault::Invalid]);
                write(fault, dice.below(3))
            }
            FaultKind::FailedCall => Action::Call {
                has_effect: dice.one_in(2),
                skip: dice.below(3),
            },
            FaultKind::Pause => Action::Pause {
                replica,
                time: self.time(&[1_000, 12_000, 40_000]),
            },
            FaultKind::Clocks => Action::Jump {
                replica,
                by: dice.pick(&[1, -1, 30, -30, 600, -600]),
            },
            FaultKind::Partition => Action::Partition {
                replica,
                time: self.time(&[1_000, 12_000, 40_000]),
            },
            FaultKind::Duplicate => Action::Duplicate {
                replica,
                time: self.time(&[1_000, 30_000]),
            },
            FaultKind::Backup => Action::Restore {
                back: 1 + dice.below(8),
            },
            FaultKind::LostObject => Action::Lose {
                which: dice.below(16),
            },
            FaultKind::LostEvent => read(ReadFault::DropEvent(dice.index(3)), 1),
            // They are settings of the world, or have several actions.
            FaultKind::OldServer
            | FaultKind::LateEvents
            | FaultKind::SlowDeletion
            | FaultKind::Stale
            | FaultKind::Unobserved
            | FaultKind::Crash => Action::Wait,
        }
    }

    /// A time in milliseconds, about one of these.
    fn time(&mut self, most: &[u64]) -> Duration {
        let most = self.dice.pick(most);
        Duration::from_millis(most / 2 + self.dice.below(most / 2 + 1))
    }
}
