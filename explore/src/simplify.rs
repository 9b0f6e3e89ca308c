//! Makes a plan that fails as short and simple as possible.

use core::time::Duration;

use super::action::Action;
use super::plan::{Plan, Step};
use super::shrink::shrink;

/// Removes actions and simplifies the rest while the same check fails.
pub(super) fn simplify(plan: &Plan, budget: &mut usize, fails: &dyn Fn(&Plan) -> bool) -> Plan {
    let mut small = plan.clone();
    loop {
        let before = small.clone();
        for settings in small.settings.simpler() {
            try_change(&mut small, budget, fails, |plan| {
                plan.settings = settings;
            });
            if small.settings != before.settings {
                break;
            }
        }
        let rest = small.clone();
        small.steps = shrink(&small.steps, budget, &mut |steps| {
            fails(&Plan {
                steps: steps.to_vec(),
                ..rest.clone()
            })
        });
        for index in (0..small.steps.len()).rev() {
            try_change(&mut small, budget, fails, |plan| spare(plan, index));
        }
        for index in 0..small.steps.len() {
            for action in (0..small.steps[index].actions.len()).rev() {
                try_change(&mut small, budget, fails, |plan| {
                    omit(&mut plan.steps[index], action);
                });
            }
        }
        let last = |plan: &Plan| plan.steps.last().map_or(Duration::ZERO, Step::end);
        for wait in [Duration::ZERO, Duration::from_secs(1)] {
            try_change(&mut small, budget, fails, |plan| {
                plan.end = last(plan) + wait;
            });
        }
        for index in 0..small.steps.len() {
            try_change(&mut small, budget, fails, |plan| tighten(plan, index));
            // Everything from here on happens earlier.
            for wait in [Duration::ZERO, Duration::from_secs(1)] {
                try_change(&mut small, budget, fails, |plan| {
                    move_up(plan, index, wait);
                });
            }
        }
        if small == before || *budget == 0 {
            return small;
        }
    }
}

/// Moves a step, and what follows it, to a time after the step before it. It never moves it back.
fn move_up(plan: &mut Plan, index: usize, wait: Duration) {
    let before = index.checked_sub(1).and_then(|index| plan.steps.get(index));
    let wanted = before.map_or(Duration::ZERO, Step::end) + wait;
    let by = plan.steps[index].at.saturating_sub(wanted);
    for step in &mut plan.steps[index..] {
        step.at -= by;
    }
    plan.end -= by;
}

/// Leaves only the changes by people of a fault.
fn spare(plan: &mut Plan, index: usize) {
    if plan.steps[index].kind.is_none() {
        return;
    }
    let fault = plan.steps.remove(index);
    let changes = fault
        .actions
        .iter()
        .filter(|(_, action)| is_of_people(action));
    let changes: Vec<Step> = changes
        .map(|(after, action)| Step {
            at: fault.at + *after,
            kind: None,
            actions: vec![(Duration::ZERO, *action)],
        })
        .collect();
    plan.steps.splice(index..index, changes);
}

/// Removes a change by people from a fault, but not a part of the fault itself.
fn omit(step: &mut Step, action: usize) {
    if step.actions.len() > 1 && is_of_people(&step.actions[action].1) && action > 0 {
        step.actions.remove(action);
    }
}

const fn is_of_people(action: &Action) -> bool {
    matches!(action, Action::User { .. } | Action::Person { .. })
}

/// Makes all actions of a step happen at once, and what follows it earlier.
fn tighten(plan: &mut Plan, index: usize) {
    let step = &mut plan.steps[index];
    let by = step.end() - step.at;
    for (after, _) in &mut step.actions {
        *after = Duration::ZERO;
    }
    for step in &mut plan.steps[index + 1..] {
        step.at -= by;
    }
    plan.end -= by;
}

/// Keeps a change of a plan if it still fails.
fn try_change(
    plan: &mut Plan,
    budget: &mut usize,
    fails: &dyn Fn(&Plan) -> bool,
    change: impl FnOnce(&mut Plan),
) {
    let mut simpler = plan.clone();
    change(&mut simpler);
    if simpler == *plan || simpler.end > plan.end || *budget == 0 {
        return;
    }
    *budget -= 1;
    if fails(&simpler) {
        *plan = simpler;
    }
}
