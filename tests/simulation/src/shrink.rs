//! Shrinks a failing plan while it fails in the same way.

use super::plan::Plan;

/// Removes actions while `fails` returns true for the rest. `budget` limits the calls of `fails`.
pub fn shrink(mut plan: Plan, mut budget: usize, fails: &mut dyn FnMut(&Plan) -> bool) -> Plan {
    let world = plan.world.clone();
    plan.actions = informer_explore::shrink(&plan.actions, &mut budget, &mut |actions| {
        fails(&Plan {
            world: world.clone(),
            actions: actions.to_vec(),
        })
    });
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
    fn irrelevant_actions_are_removed() {
        let mut plan = Plan::of_seed(3);
        plan.actions.insert(100, Action::Delete(77));
        plan.actions.insert(200, Action::Put(77, 1));
        let mut asked = 0;
        let small = shrink(plan, 10_000, &mut |plan| {
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
