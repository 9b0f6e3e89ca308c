//! Fields of objects by their types: those that an object has, those that a change affects, and those to be removed.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::field_set::{Element, FieldSet, field};
use super::structure::{Merging, Type};

/// The fields that differ between two states of an object.
#[derive(Clone, Default, Debug)]
pub(super) struct Changes {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

/// Returns the fields of an applied configuration.
pub(super) fn fields_of(value: &Value, kind: Type<'_>) -> FieldSet {
    let mut set = FieldSet::default();
    collect(value, kind, &mut set);
    set.without_identity()
}

fn collect(value: &Value, kind: Type<'_>, set: &mut FieldSet) {
    match value {
        Value::Object(members) if kind.merges_members() => {
            for (name, value) in members {
                let (kind, is_field) = kind.member(name);
                let below = set.below.entry(field(name)).or_default();
                collect(value, kind, below);
                let is_empty = value.as_object().is_some_and(Map::is_empty);
                below.is_member |= !is_field || is_empty || value.is_null();
            }
        }
        Value::Array(items) => match kind.items() {
            (Merging::Whole, _) => set.is_member = true,
            (merging, kind) => {
                for item in items {
                    if let Some(element) = merging.element(item) {
                        let below = set.below.entry(element).or_default();
                        collect(item, kind, below);
                        below.is_member = true;
                    }
                }
            }
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            set.is_member = true;
        }
    }
}

/// Compares two states of an object.
pub(super) fn compare(old: &Value, new: &Value, kind: Type<'_>) -> Changes {
    let mut changes = Changes::default();
    changes.walk(&mut Vec::new(), Some(old), Some(new), kind);
    Changes {
        added: changes.added.without_identity(),
        modified: changes.modified.without_identity(),
        removed: changes.removed.without_identity(),
    }
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    fn walk(
        &mut self,
        path: &mut Vec<Element>,
        old: Option<&Value>,
        new: Option<&Value>,
        kind: Type<'_>,
    ) {
        let is_empty = |value: Option<&Value>| {
            value.is_none_or(|value| value.is_null() || *value == Value::Object(Map::new()))
        };
        let Some(children) = children(old, new, kind) else {
            match (old, new) {
                _ if kind.is_always_there() && is_empty(old) && is_empty(new) => {}
                (None, Some(_)) => self.added.insert(path),
                (Some(_), None) => self.removed.insert(path),
                (Some(old), Some(new)) if old != new => self.modified.insert(path),
                _ => {}
            }
            return;
        };
        for (element, (old, new, kind)) in children {
            path.push(element);
            self.walk(path, old, new, kind);
            path.pop();
        }
        match (old, new) {
            _ if kind.is_always_there() => {}
            (None, _) => self.added.insert(path),
            (_, None) => self.removed.insert(path),
            _ => {}
        }
    }
}

type Children<'v, 't> = BTreeMap<Element, (Option<&'v Value>, Option<&'v Value>, Type<'t>)>;

/// Returns the parts of two values by their path elements. `None` if the values are compared as a whole.
fn children<'v, 't>(
    old: Option<&'v Value>,
    new: Option<&'v Value>,
    kind: Type<'t>,
) -> Option<Children<'v, 't>> {
    let known = |value: Option<&'v Value>| value.filter(|value| !value.is_null());
    let mut all = Children::new();
    match (known(old), known(new)) {
        (Some(Value::Object(_)) | None, Some(Value::Object(_)))
        | (Some(Value::Object(_)), None)
            if kind.merges_members() =>
        {
            for (is_new, value) in [(false, old), (true, new)] {
                for (name, value) in value.and_then(Value::as_object).into_iter().flatten() {
                    let entry = all
                        .entry(field(name))
                        .or_insert_with(|| (None, None, kind.member(name).0));
                    let place = if is_new { &mut entry.1 } else { &mut entry.0 };
                    *place = Some(value);
                }
            }
        }
        (Some(Value::Array(_)) | None, Some(Value::Array(_))) | (Some(Value::Array(_)), None) => {
            let (merging, kind) = kind.items();
            if matches!(merging, Merging::Whole) {
                return None;
            }
            for (is_new, value) in [(false, old), (true, new)] {
                for value in value.and_then(Value::as_array).into_iter().flatten() {
                    let entry = all
                        .entry(merging.element(value)?)
                        .or_insert((None, None, kind));
                    let place = if is_new { &mut entry.1 } else { &mut entry.0 };
                    *place = Some(value);
                }
            }
        }
        _ => return None,
    }
    (!all.is_empty()).then_some(all)
}

/// Merges an applied configuration into an object.
pub(super) fn merge(live: Option<Value>, config: Value, kind: Type<'_>) -> Value {
    match (live, config) {
        (Some(Value::Object(mut live)), Value::Object(config)) if kind.merges_members() => {
            for (name, value) in config {
                let (kind, _) = kind.member(&name);
                let merged = merge(live.remove(&name), value, kind);
                live.insert(name, merged);
            }
            Value::Object(live)
        }
        (Some(Value::Array(live)), Value::Array(config)) => match kind.items() {
            (Merging::Whole, _) => Value::Array(config),
            (merging, kind) => Value::Array(merge_items(live, config, merging, kind)),
        },
        (_, config) => config,
    }
}

/// Merges two lists. The applied items have their order. The others stay where they are, before an applied item that
/// follows them.
fn merge_items(
    live: Vec<Value>,
    config: Vec<Value>,
    merging: Merging<'_>,
    kind: Type<'_>,
) -> Vec<Value> {
    let keyed = |items: Vec<Value>| -> Vec<(Option<Element>, Value)> {
        let keyed = items.into_iter().map(|item| (merging.element(&item), item));
        keyed.collect()
    };
    let (mut live, config) = (keyed(live), keyed(config));
    let is_in = |items: &[(Option<Element>, Value)], element: &Option<Element>| {
        element.is_some() && items.iter().any(|(other, _)| other == element)
    };
    let mut merged = Vec::new();
    for (index, (element, item)) in config.iter().enumerate() {
        // Items that are not applied come first, up to the next item that is.
        let next = config[index..]
            .iter()
            .find(|(element, _)| is_in(&live, element));
        let next = next.map(|(element, _)| element.clone());
        let end = match &next {
            Some(next) => live
                .iter()
                .position(|(other, _)| other == next)
                .unwrap_or(live.len()),
            None => live.len(),
        };
        let mut at = 0;
        for _ in 0..end {
            if is_in(&config, &live[at].0) {
                at += 1;
            } else {
                merged.push(live.remove(at).1);
            }
        }
        let own = live
            .iter()
            .position(|(other, _)| other.is_some() && other == element);
        let old = own.map(|own| live.remove(own).1);
        merged.push(match old {
            Some(old) => merge(Some(old), item.clone(), kind),
            None => item.clone(),
        });
    }
    merged.extend(live.into_iter().map(|(_, item)| item));
    merged
}

/// Removes the fields that were applied before and that nobody owns any more.
pub(super) fn remove_unowned(
    value: &mut Value,
    before: &FieldSet,
    owned: Option<&FieldSet>,
    kind: Type<'_>,
) {
    let owned_below = |element: &Element| owned.and_then(|owned| owned.below.get(element));
    match value {
        Value::Object(members) => {
            for (element, before) in &before.below {
                let Element::Field(name) = element else {
                    continue;
                };
                match (owned_below(element), members.get_mut(name)) {
                    (None, Some(_)) if name != "metadata" => drop(members.remove(name)),
                    (owned, Some(value)) => {
                        remove_unowned(value, before, owned, kind.member(name).0);
                    }
                    (_, None) => {}
                }
            }
        }
        Value::Array(items) => {
            let (merging, kind) = kind.items();
            items.retain_mut(|item| {
                let Some(element) = merging.element(item) else {
                    return true;
                };
                match (before.below.get(&element), owned_below(&element)) {
                    (Some(before), None) => !before.is_member,
                    (Some(before), owned) => {
                        remove_unowned(item, before, owned, kind);
                        true
                    }
                    (None, _) => true,
                }
            });
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
