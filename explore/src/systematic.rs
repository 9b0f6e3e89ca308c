//! Each write of a world without faults, with each fate that it can have.

use core::time::Duration;
use std::sync::Arc;

use super::action::{Action, CrashAt, FaultKind, UserChange, WriteFault};
use super::plan::{Plan, Settings, Step};
use super::run::{Start, run};
use super::spec::Spec;

/// The time between two changes by users, in which a program does what it has to do.
const PAUSE: Duration = Duration::from_secs(60);

/// How long a process stays away after a crash.
const DOWN: Duration = Duration::from_secs(3);

/// The writes of a process, in the order in which it has sent them.
#[derive(Clone, Default, Debug)]
pub(super) struct Sent {
    /// The index of the replica for each request that writes, in the cluster or outside of it.
    pub(super) by: Vec<usize>,
    /// Whether it creates an object, for each write that an API server got.
    pub(super) creates: Vec<bool>,
}

/// Runs a world without faults, and returns its plan, and those that differ from it by one fault of one write.
pub(super) fn points(spec: &Arc<Spec>, start: &Arc<Start>) -> Vec<Plan> {
    let base = script(spec);
    let sent = run(spec, &base, start).tally.sent;
    let mut points = vec![base.clone()];
    let mut add = |kind: FaultKind, action: Action| {
        let mut plan = base.clone();
        let step = Step {
            at: Duration::ZERO,
            kind: Some(kind),
            actions: vec![(Duration::ZERO, action)],
        };
        plan.steps.insert(0, step);
        points.push(plan);
    };
    for (index, replica) in sent.by.iter().copied().enumerate() {
        // A crash counts the writes of its own replica.
        let before = sent.by[..index].iter();
        let skip = before.filter(|other| **other == replica).count() as u64;
        for at in [CrashAt::BeforeWrite, CrashAt::AfterWrite] {
            let crash = Action::Crash {
                replica,
                at,
                skip,
                down: DOWN,
            };
            add(FaultKind::Crash, crash);
        }
    }
    for (index, creates) in sent.creates.iter().copied().enumerate() {
        let faults = [
            WriteFault::AnswerLost,
            WriteFault::Failed,
            WriteFault::Conflict,
        ];
        for fault in faults {
            // Nobody can change an object that does not exist yet.
            if fault != WriteFault::Conflict || !creates {
                let skip = index as u64;
                add(
                    fault.kind(),
                    Action::Write {
                        fault,
                        skip,
                        of: None,
                    },
                );
            }
        }
    }
    let is_on = |step: &Step| step.kind.is_none_or(|kind| spec.has(kind));
    points.retain(|plan| plan.steps.first().is_none_or(is_on));
    points
}

/// Users create each object, change it to each variant and back, and delete it. People edit and delete what the program
/// makes. At last all objects are created again.
fn script(spec: &Spec) -> Plan {
    let mut steps = Vec::new();
    let mut now = Duration::ZERO;
    let mut add = |action: Action| {
        steps.push(Step {
            at: now,
            kind: None,
            actions: vec![(Duration::ZERO, action)],
        });
        now += PAUSE;
    };
    let slots: Vec<_> = (0..spec.slots())
        .map(|slot| (slot, spec.objects_of(slot)))
        .collect();
    let put = |slot, variant| Action::User {
        slot,
        change: UserChange::Put(variant),
    };
    for (slot, objects) in &slots {
        let variants = (0..=objects.variants.len()).chain(objects.variants.first().map(|_| 0));
        variants.for_each(|variant| add(put(*slot, variant)));
    }
    for resource in 0..spec.edited.len() {
        for deletes in [false, true] {
            add(Action::Person {
                resource,
                which: 0,
                deletes,
            });
        }
    }
    for (slot, objects) in &slots {
        if objects.deletes {
            add(Action::User {
                slot: *slot,
                change: UserChange::Delete,
            });
            add(put(*slot, 0));
        }
    }
    Plan {
        seed: 0,
        settings: Settings::CALM,
        steps,
        end: now,
    }
}
