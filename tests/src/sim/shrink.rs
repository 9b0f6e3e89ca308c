//! Makes a plan that fails smaller, while it fails in the same way.

use super::plan::Plan;

/// Takes actions away for as long as `fails` says that the plan still fails. `budget` is how often it may be asked.
pub fn shrink(plan: &Plan, mut budget: usize, fails: &mut dyn FnMut(&Plan) -> bool) -> Plan {
    let mut plan = plan.clone();
    let mut size = plan.actions.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        let mut removed = false;
        while at < plan.actions.len() {
            if budget == 0 {
                return plan;
            }
            budget -= 1;
            let mut smaller = plan.clone();
            smaller
                .actions
                .drain(at..(at + size).min(plan.actions.len()));
            if fails(&smaller) {
                plan = smaller;
                removed = true;
            } else {
                at += size;
            }
        }
        if size == 1 && !removed {
            break;
        }
        if !removed || size > plan.actions.len() {
            size = (size / 2).max(1);
        }
    }
    simplify(plan, budget, fails)
}

/// Makes the world more ordinary.
fn simplify(mut plan: Plan, mut budget: usize, fails: &mut dyn FnMut(&Plan) -> bool) -> Plan {
    let changes: [fn(&mut Plan); 7] = [
        |plan| plan.world.latency = 0,
        |plan| plan.world.forgetful = false,
        |plan| plan.world.gone_http = false,
        |plan| plan.world.merged = false,
        |plan| plan.world.page = 0,
        |plan| plan.world.cache_pages = false,
        |plan| plan.world.remember_refusal = false,
    ];
    for change in changes {
        if budget == 0 {
            break;
        }
        budget -= 1;
        let mut simpler = plan.clone();
        change(&mut simpler);
        if fails(&simpler) {
            plan = simpler;
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::super::plan::Action;
    use super::*;

    #[test]
    fn what_does_not_matter_goes() {
        let mut plan = Plan::of_seed(3);
        plan.actions.insert(100, Action::Delete(77));
        plan.actions.insert(200, Action::Put(77, 1));
        let mut asked = 0;
        let small = shrink(&plan, 10_000, &mut |plan| {
            asked += 1;
            plan.actions.contains(&Action::Delete(77)) && plan.actions.contains(&Action::Put(77, 1))
        });
        assert_eq!(small.actions, [Action::Delete(77), Action::Put(77, 1)]);
        assert!(
            asked < 200,
            "it is not asked for every action alone: {asked}"
        );
    }
}
