//! Compares the end of a run with the ends of runs without faults: a controller makes the same of the same wishes,
//! whatever has happened in between.
//!
//! Users do the same in all of them. What differs between the runs without faults, such as names with a uid, decides
//! nothing, so several of them are compared: at the same times, with a long pause after each change, and with nothing
//! but the objects that users have in the end.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::action::{Action, UserChange};
use super::dice::Dice;
use super::invariants::{Invariant, MARKS, Snapshot};
use super::plan::{Plan, Settings, Step};
use super::run::{Ran, Start, run};
use super::spec::Spec;
use super::trace::is_time_of_day;
use super::world::{Violation, Wishes};

/// The pause after each change by users in one of the runs.
const PAUSE: Duration = Duration::from_secs(60);

/// Carries out a plan, and compares its end in some runs.
pub(super) fn run_and_compare(spec: &Arc<Spec>, plan: &Plan, start: &Arc<Start>) -> Ran {
    let mut ran = run(spec, plan, start);
    let is_checked = Dice::of(&[plan.seed, 15]).one_in(8);
    let is_honest = spec.faults.iter().all(|kind| kind.is_honest());
    if !is_checked || !is_honest || !spec.keeps(Invariant::Converges) || ran.violation.is_some() {
        return ran;
    }
    let Some(end) = ran.end.take().map(|end| normalize(&end)) else {
        return ran;
    };
    let users = objects_of_users(spec, &end, &ran.wishes);
    let mut others = Vec::new();
    let mut found = None;
    for number in 0..MOST {
        let plan = match number % 3 {
            0 => again(plan, Duration::ZERO, number),
            1 => again(plan, PAUSE, number),
            _ => at_once(spec, plan, &users, number),
        };
        let other = run(spec, &plan, start);
        let end_of_other = other.end.as_ref().map(normalize);
        // If a deletion took longer, or a write was refused, the same change by a user means something else.
        let is_same = |end: &End| objects_of_users(spec, end, &other.wishes) == users;
        others.extend(end_of_other.filter(is_same));
        if others.len() >= FEW {
            found = compare(spec, &end, &others);
            if found.is_none() {
                return ran;
            }
        } else if number >= LAST_TRY {
            // Users have other objects in most of them, so the end cannot be compared.
            ran.tally.cannot_decide(Invariant::Converges);
            return ran;
        }
    }
    if let Some(what) = found {
        let check = Invariant::Converges.check().to_owned();
        let what = format!("{what}, in {} runs without faults", others.len());
        ran.trace.complete();
        ran.violation = Some(Violation {
            check,
            what,
            is_real_time: false,
        });
    }
    ran
}

/// How many runs without faults are compared first, and at most if they differ from the run: what differs among them, such
/// as numbers in the order of creations, may be the same in a few of them.
const FEW: usize = 3;
const MOST: u64 = 24;
/// After how many of them a run is given up whose users have other objects.
const LAST_TRY: u64 = 8;

/// The same changes by users without faults, in another world.
fn again(plan: &Plan, pause: Duration, number: u64) -> Plan {
    let mut now = Duration::ZERO;
    let of_users = plan.actions().filter(|(_, action)| is_of_users(action));
    let steps = of_users.map(|(at, action)| {
        now = if pause.is_zero() { at } else { now + pause };
        step(now, *action)
    });
    let steps: Vec<Step> = steps.collect();
    Plan {
        seed: other_seed(plan, number),
        settings: settings(plan, number),
        end: steps.last().map_or(Duration::ZERO, Step::end),
        steps,
    }
}

/// Users create what they want in the end, and nothing else happens.
fn at_once(spec: &Spec, plan: &Plan, users: &Users, number: u64) -> Plan {
    let wished = |slot: usize| {
        let found = users.iter().find(|(key, _)| is_of_slot(spec, slot, key));
        found.and_then(|(_, variant)| *variant)
    };
    let put = |slot| {
        let change = UserChange::Put(wished(slot)?);
        Some(step(Duration::ZERO, Action::User { slot, change }))
    };
    let mut steps: Vec<Step> = (0..spec.slots()).filter_map(put).collect();
    if Dice::of(&[plan.seed, number, 18]).one_in(2) {
        steps.reverse();
    }
    Plan {
        seed: other_seed(plan, number),
        settings: settings(plan, number),
        steps,
        end: Duration::ZERO,
    }
}

/// Requests take more or less time, so that they meet in other orders.
fn settings(plan: &Plan, number: u64) -> Settings {
    let mut dice = Dice::of(&[plan.seed, number, 17]);
    Settings {
        read_ms: dice.pick(&[1, 5, 50, 400]),
        write_ms: dice.pick(&[1, 5, 50, 400]),
        ..Settings::CALM
    }
}

fn step(at: Duration, action: Action) -> Step {
    Step {
        at,
        kind: None,
        actions: vec![(Duration::ZERO, action)],
    }
}

const fn is_of_users(action: &Action) -> bool {
    matches!(
        action,
        Action::User { .. } | Action::Person { .. } | Action::Upgrade { .. }
    )
}

/// Another world: what follows from its seed differs, such as uids.
fn other_seed(plan: &Plan, number: u64) -> u64 {
    Dice::of(&[plan.seed, number, 16]).below(u64::MAX)
}

/// A resource, and the namespace and name.
type Key = (String, String);
/// Objects without what differs anyway. Those with generated names have one key.
type End = BTreeMap<Key, Vec<Value>>;

/// The objects of users that exist, each with the variant that they want, unless they want it to be deleted.
type Users = BTreeMap<Key, Option<usize>>;

fn objects_of_users(spec: &Spec, end: &End, wishes: &Wishes) -> Users {
    let of_users = end.keys().filter_map(|key| {
        let slot = (0..spec.slots()).find(|slot| is_of_slot(spec, *slot, key))?;
        Some((key.clone(), wishes.get(&slot).copied()))
    });
    of_users.collect()
}

/// Whether an object is that of a slot.
fn is_of_slot(spec: &Spec, slot: usize, (resource, key): &Key) -> bool {
    let (objects, name) = spec.find(slot);
    *resource == objects.resource && key.rsplit('/').next() == Some(name)
}

fn normalize(snapshot: &Snapshot) -> End {
    let mut end = End::new();
    for ((resource, key), object) in snapshot {
        let mut object = object.clone();
        let generated = object["metadata"]["generateName"].as_str().map(|prefix| {
            let namespace = key.rsplit_once('/').map_or("", |(namespace, _)| namespace);
            format!("{namespace}/{prefix}*")
        });
        clean(&mut object);
        let key = generated.unwrap_or_else(|| key.clone());
        end.entry((resource.clone(), key)).or_default().push(object);
    }
    for objects in end.values_mut() {
        objects.sort_by_key(Value::to_string);
    }
    end
}

/// Removes what is new in each world from an object.
fn clean(object: &mut Value) {
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return;
    };
    let old = core::mem::take(metadata);
    for (member, value) in old {
        match member.as_str() {
            "labels" | "finalizers" => drop(metadata.insert(member, value)),
            "annotations" => {
                let Value::Object(mut annotations) = value else {
                    continue;
                };
                annotations.retain(|name, _| !MARKS.contains(&name.as_str()));
                if !annotations.is_empty() {
                    metadata.insert(member, annotations.into());
                }
            }
            "ownerReferences" => {
                let owners = value.as_array().into_iter().flatten();
                let owners = owners.map(|owner| json!([owner["kind"], owner["name"]]));
                metadata.insert(member, owners.collect());
            }
            _ => {}
        }
    }
    without_times(object);
}

fn without_times(value: &mut Value) {
    match value {
        Value::String(text) if is_time_of_day(text) => "a time".clone_into(text),
        Value::Array(values) => values.iter_mut().for_each(without_times),
        Value::Object(members) => members.values_mut().for_each(without_times),
        _ => {}
    }
}

/// Describes the first difference to all other ends, as far as these are the same.
fn compare(spec: &Spec, end: &End, others: &[End]) -> Option<String> {
    let first = others.first()?;
    let keys: BTreeSet<&Key> = others
        .iter()
        .flat_map(End::keys)
        .chain(end.keys())
        .collect();
    let resources: BTreeSet<&String> = keys.iter().map(|(resource, _)| resource).collect();
    let count = |end: &End, key: &Key| end.get(key).map_or(0, Vec::len);
    for resource in resources {
        let of_resource = || keys.iter().filter(|key| key.0 == *resource);
        let is_same = |key: &&Key| {
            others
                .iter()
                .all(|end| count(end, key) == count(first, key))
        };
        if !of_resource().all(is_same) {
            // Its objects depend on more than the wishes of users.
            continue;
        }
        for key in of_resource() {
            let (own, wanted) = (count(end, key), count(first, key));
            let name = format!("{} {}", key.0, key.1);
            match (own, wanted) {
                (1, 0) => return Some(format!("{name} exists, and not")),
                (0, 1) => return Some(format!("{name} does not exist, and it does")),
                _ if own != wanted => {
                    return Some(format!("there are {own} of {name}, and {wanted}"));
                }
                _ => {}
            }
            for index in 0..own {
                let of = |end: &End| end.get(*key).and_then(|all| all.get(index)).cloned();
                let wanted: Vec<Value> = others.iter().filter_map(of).collect();
                let masks = spec.masks_of(&key.0);
                let found = difference(&of(end).unwrap_or_default(), &wanted, "", &masks);
                if let Some((path, own, wanted)) = found {
                    return Some(format!("{name} has {own} at {path}, and {wanted}"));
                }
            }
        }
    }
    None
}

/// Returns the path of the first difference, with both values. What differs among the others is left out.
fn difference(
    own: &Value,
    others: &[Value],
    path: &str,
    masks: &[&str],
) -> Option<(String, Value, Value)> {
    let first = others.first()?;
    if masks.contains(&path) || others.iter().all(|other| other == own) {
        return None;
    }
    let objects: Vec<_> = others.iter().filter_map(Value::as_object).collect();
    if let Some(own) = own.as_object()
        && objects.len() == others.len()
    {
        let names: BTreeSet<&String> = objects
            .iter()
            .flat_map(|object| object.keys())
            .chain(own.keys())
            .collect();
        return names.into_iter().find_map(|name| {
            let of = |object: &&serde_json::Map<String, Value>| object.get(name).cloned();
            let others: Vec<Value> = objects
                .iter()
                .map(|object| of(object).unwrap_or_default())
                .collect();
            let own = own.get(name).cloned().unwrap_or_default();
            difference(&own, &others, &format!("{path}/{name}"), masks)
        });
    }
    let are_same = others.iter().all(|other| other == first);
    are_same.then(|| (path.to_owned(), own.clone(), first.clone()))
}

impl Spec {
    fn masks_of(&self, resource: &str) -> Vec<&str> {
        let masks = self.masks.iter().filter(|(of, _)| of == resource);
        masks.map(|(_, path)| path.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_more_or_less_is_a_difference() {
        let spec = &crate::Explore::new().rules.spec;
        let key = || ("secrets".to_owned(), "prod/a".to_owned());
        let (has, none) = (End::from([(key(), vec![json!({})])]), End::new());
        let found = compare(spec, &has, &[none.clone(), none.clone()]);
        assert_eq!(found.unwrap(), "secrets prod/a exists, and not");
        let found = compare(spec, &none, &[has.clone(), has.clone()]);
        assert_eq!(found.unwrap(), "secrets prod/a does not exist, and it does");
        // They differ themselves, or there is nothing to compare with.
        assert_eq!(compare(spec, &has, &[has.clone(), none]), None);
        assert_eq!(compare(spec, &has, &[]), None);
    }

    #[test]
    fn only_what_is_stable_is_compared() {
        let found = |own: Value, others: &[Value]| difference(&own, others, "", &["/data/mask"]);
        let others = [
            json!({ "data": { "a": 1, "uid": "x" } }),
            json!({ "data": { "a": 1, "uid": "y" } }),
        ];
        let same = json!({ "data": { "a": 1, "uid": "z", "mask": 7 } });
        assert_eq!(found(same, &others), None);
        let other = json!({ "data": { "a": 2, "uid": "z" } });
        let expected = ("/data/a".to_owned(), json!(2), json!(1));
        assert_eq!(found(other, &others), Some(expected));
        let expected = ("/data/b".to_owned(), json!(1), Value::Null);
        let more = json!({ "data": { "a": 1, "b": 1 } });
        assert_eq!(found(more, &others), Some(expected));
    }
}
