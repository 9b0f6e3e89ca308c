//! The plan of a run: the settings of the world, and the actions in it. It is made from a seed, and can be shrunk.

use core::time::Duration;

use super::action::{Action, CrashAt, FaultKind, UserChange, WriteFault};
use super::dice::Dice;
use super::spec::Spec;

/// A world and what happens in it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) settings: Settings,
    pub(super) steps: Vec<Step>,
    /// When all faults end, since the start.
    pub(super) end: Duration,
}

/// An action and its time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Step {
    /// Since the start, so that other steps can be removed without a change of this one.
    pub(super) at: Duration,
    pub(super) action: Action,
}

/// The settings of a world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    /// Seconds by which the clocks of replicas may differ.
    pub(super) skew: u64,
}

impl Settings {
    /// The settings without anything unusual. Each differs from a usual one in one setting.
    pub(super) fn simpler(self) -> impl Iterator<Item = Self> {
        let calm = Self {
            read_ms: 1,
            write_ms: 1,
            streams: true,
            bookmarks: true,
            gone_http: false,
            forgetful: false,
            skew: 0,
        };
        [
            calm,
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
        ]
        .into_iter()
        .filter(move |simpler| *simpler != self)
    }
}

impl Plan {
    /// Makes the plan of a seed.
    pub(super) fn of_seed(seed: u64, spec: &Spec) -> Self {
        let dice = &mut Dice::of(&[seed, 1]);
        let expires = spec.faults.contains(&FaultKind::Expired);
        let settings = Settings {
            read_ms: dice.pick(&[1, 1, 5, 50, 400]),
            write_ms: dice.pick(&[1, 1, 5, 50, 400]),
            streams: !dice.one_in(3),
            bookmarks: !dice.one_in(4),
            gone_http: dice.one_in(3) && expires,
            forgetful: dice.one_in(3) && expires,
            skew: dice.pick(&[0, 1, 10, 60]),
        };
        let mut maker = Maker::new(seed, spec);
        let mut steps = Vec::new();
        while steps.len() < spec.steps {
            maker.add_to(&mut steps);
        }
        steps.truncate(spec.steps);
        let end = steps.last().map_or(Duration::ZERO, |step| step.at);
        Self {
            seed,
            settings,
            steps,
            end,
        }
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
}

impl<'a> Maker<'a> {
    fn new(seed: u64, spec: &'a Spec) -> Self {
        let mut dice = Dice::of(&[seed, 2]);
        // Each run has many of some faults and none of others, so that rare combinations occur.
        let mut faults: Vec<_> = spec
            .faults
            .iter()
            .map(|kind| (*kind, dice.pick(&[0, 0, 1, 4])))
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
        }
    }

    fn add_to(&mut self, steps: &mut Vec<Step>) {
        let faults: u64 = self.faults.iter().map(|(_, weight)| weight).sum();
        // Users do as much as all faults together, times their weight.
        let at = self.dice.below(faults * (self.users + 1));
        if at >= faults || faults == 0 {
            let action = self.change();
            return self.push(steps, action);
        }
        let mut at = at;
        let kind = self.faults.iter().find(|(_, weight)| {
            let found = at < *weight;
            at = at.saturating_sub(*weight);
            found
        });
        if let Some((kind, _)) = kind {
            self.fault(*kind, steps);
        }
    }

    fn push(&mut self, steps: &mut Vec<Step>, action: Action) {
        let most = self.dice.pick(self.pauses);
        let last = steps.last().map_or(Duration::ZERO, |step| step.at);
        let at = last + Duration::from_millis(self.dice.below(most + 1));
        steps.push(Step { at, action });
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
    fn fault(&mut self, kind: FaultKind, steps: &mut Vec<Step>) {
        let server = self.dice.index(2);
        let replica = self.dice.index(self.spec.replicas);
        match kind {
            FaultKind::Stale => {
                // A server lags behind, and a process that starts meanwhile reads from it.
                self.push(steps, Action::Lag { server });
                self.changes(steps);
                if self.dice.one_in(2) {
                    self.push(steps, Action::Route { server });
                }
                if self.dice.one_in(2) && self.spec.has(FaultKind::Crash) {
                    let crash = self.crash(replica);
                    self.push(steps, crash);
                } else {
                    self.push(steps, Action::CutWatches);
                }
                self.changes(steps);
                self.push(steps, Action::CatchUp { server });
                self.push(steps, Action::Route { server: 0 });
            }
            FaultKind::Unobserved => {
                // Watches show nothing for a while, and cannot be resumed: only the result is observed.
                self.push(steps, Action::StallWatches);
                self.changes(steps);
                self.push(steps, Action::ForgetEvents);
                self.push(steps, Action::CutWatches);
            }
            FaultKind::Crash => {
                let crash = self.crash(replica);
                self.push(steps, crash);
                if self.dice.one_in(2) {
                    self.changes(steps);
                }
            }
            _ => {
                let action = self.simple(kind, server, replica);
                self.push(steps, action);
            }
        }
    }

    fn changes(&mut self, steps: &mut Vec<Step>) {
        for _ in 0..=self.dice.below(2) {
            let action = self.change();
            self.push(steps, action);
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
        let write = |fault, skip| Action::Write { fault, skip };
        match kind {
            FaultKind::Expired => match dice.below(3) {
                0 => Action::Compact,
                1 => Action::ForgetEvents,
                _ => Action::ReadExpired,
            },
            FaultKind::Cut => match dice.below(5) {
                0 | 1 => Action::CutWatches,
                2 => Action::CloseWatches,
                3 => Action::GoAway,
                _ => Action::ReadReset {
                    count: 1 + dice.below(3),
                },
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
            FaultKind::Overload => Action::ReadOverloaded {
                count: 1 + dice.below(3),
                seconds: dice.pick(&[1, 10]),
            },
            FaultKind::Slow => Action::ReadSlow {
                time: self.time(&[500, 20_000]),
            },
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
            FaultKind::LostEvent => Action::DropEvent {
                event: dice.below(3),
            },
            FaultKind::Stale | FaultKind::Unobserved | FaultKind::Crash => Action::Wait,
        }
    }

    /// A time in milliseconds, about one of these.
    fn time(&mut self, most: &[u64]) -> Duration {
        let most = self.dice.pick(most);
        Duration::from_millis(most / 2 + self.dice.below(most / 2 + 1))
    }
}
