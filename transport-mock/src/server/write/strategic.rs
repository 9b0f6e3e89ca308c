//! Strategic merge patches: merge patches of built-in kinds whose lists are merged by key.

use alloc::string::String;
use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::structure::Type;
use crate::status::Status;

/// Applies a patch.
pub(super) fn apply(target: &mut Value, patch: Value, kind: Type<'_>) -> Result<(), Status> {
    let Value::Object(patch) = patch else {
        *target = patch;
        return Ok(());
    };
    let current = match target {
        Value::Object(target) => core::mem::take(target),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    };
    let patched = merge(current, patch, kind)?;
    *target = Value::Object(patched.unwrap_or_default());
    Ok(())
}

/// Merges two objects. `None` if the patch deletes the object.
fn merge(
    mut target: Map<String, Value>,
    mut patch: Map<String, Value>,
    kind: Type<'_>,
) -> Result<Option<Map<String, Value>>, Status> {
    match patch.remove("$patch") {
        None => {}
        Some(Value::String(directive)) if directive == "merge" => {}
        Some(Value::String(directive)) if directive == "replace" => return Ok(Some(patch)),
        Some(Value::String(directive)) if directive == "delete" => return Ok(None),
        Some(directive) => {
            let directive = directive.as_str().unwrap_or_default();
            let message = [
                "unknown patch type: ",
                directive,
                " in map: map[$patch:",
                directive,
                "]",
            ];
            return Err(Status::new(500, "", message.concat()));
        }
    }
    if let Some(Value::Array(retained)) = patch.remove("$retainKeys") {
        target.retain(|name, _| retained.iter().any(|retained| retained == name));
    }
    let mut orders = Vec::new();
    for (name, value) in patch {
        if let Some(name) = name.strip_prefix("$deleteFromPrimitiveList/") {
            if let (Some(Value::Array(items)), Value::Array(removed)) =
                (target.get_mut(name), &value)
            {
                items.retain(|item| !removed.contains(item));
            }
        } else if let Some(name) = name.strip_prefix("$setElementOrder/") {
            orders.push((String::from(name), value));
        } else if value.is_null() {
            target.remove(&name);
        } else {
            let (kind, _) = kind.member(&name);
            if let Some(value) = merge_value(target.remove(&name), value, kind)? {
                target.insert(name, value);
            }
        }
    }
    for (name, order) in orders {
        let (kind, _) = kind.member(&name);
        if let (Some(Value::Array(items)), Value::Array(order), Some(key)) =
            (target.get_mut(&name), order, kind.patched_items().0)
        {
            sort(items, &order, key);
        }
    }
    Ok(Some(target))
}

fn merge_value(
    target: Option<Value>,
    patch: Value,
    kind: Type<'_>,
) -> Result<Option<Value>, Status> {
    Ok(match (target, patch) {
        (Some(Value::Object(target)), Value::Object(patch)) => {
            merge(target, patch, kind)?.map(Value::Object)
        }
        (_, Value::Object(patch)) => merge(Map::new(), patch, kind)?.map(Value::Object),
        (Some(Value::Array(target)), Value::Array(patch)) => {
            merge_list(target, patch, kind).map(|list| Some(Value::Array(list)))?
        }
        (_, Value::Array(patch)) => {
            merge_list(Vec::new(), patch, kind).map(|list| Some(Value::Array(list)))?
        }
        (_, patch) => Some(patch),
    })
}

fn merge_list(
    mut target: Vec<Value>,
    mut patch: Vec<Value>,
    kind: Type<'_>,
) -> Result<Vec<Value>, Status> {
    let (key, kind) = kind.patched_items();
    let is_replacement = |item: &Value| item["$patch"] == "replace";
    if patch.iter().any(is_replacement) {
        patch.retain(|item| !is_replacement(item));
        return Ok(patch);
    }
    let Some(key) = key else {
        return Ok(patch);
    };
    let original = target.clone();
    let mut given = Vec::new();
    for item in patch {
        if key.is_empty() {
            if !target.contains(&item) {
                target.push(item.clone());
            }
            given.push(item);
            continue;
        }
        let Some(id) = item.get(key).cloned() else {
            let message = [
                "map: ",
                &item_in_go(&item),
                " does not contain declared merge key: ",
                key,
            ];
            return Err(Status::new(500, "", message.concat()));
        };
        let is_same = |other: &Value| other.get(key) == Some(&id);
        if item["$patch"] == "delete" {
            target.retain(|other| !is_same(other));
            continue;
        }
        given.push(item.clone());
        match target.iter().position(is_same) {
            Some(at) => {
                let merged = merge_value(Some(target[at].take()), item, kind)?;
                target[at] = merged.unwrap_or_default();
            }
            None => target.extend(merge_value(None, item, kind)?),
        }
    }
    // The items of the patch have its order. The others follow them unless they preceded them.
    sort_among(&mut target, &given, &original, key);
    Ok(target)
}

/// Returns the place of an item in a list.
fn place(items: &[Value], item: &Value, key: &str) -> Option<usize> {
    items.iter().position(|other| {
        if key.is_empty() {
            other == item
        } else {
            other.get(key) == item.get(key)
        }
    })
}

/// Puts items in the order of a list. The others keep their places relative to them in the original list.
fn sort_among(items: &mut Vec<Value>, order: &[Value], original: &[Value], key: &str) {
    let (mut given, others): (Vec<Value>, Vec<Value>) = core::mem::take(items)
        .into_iter()
        .partition(|item| place(order, item, key).is_some());
    given.sort_by_key(|item| place(order, item, key));
    let (mut given, mut others) = (given.into_iter().peekable(), others.into_iter().peekable());
    while let (Some(item), Some(other)) = (given.peek(), others.peek()) {
        let before = place(original, other, key)
            .zip(place(original, item, key))
            .is_some_and(|(other, item)| other < item);
        items.extend(if before { others.next() } else { given.next() });
    }
    items.extend(given);
    items.extend(others);
}

/// Puts the items in the order of `$setElementOrder`.
fn sort(items: &mut Vec<Value>, order: &[Value], key: &str) {
    let original = items.clone();
    sort_among(items, order, &original, key);
}

/// Formats an object as Go prints a map.
fn item_in_go(item: &Value) -> String {
    let members = item.as_object().into_iter().flatten();
    let members: Vec<String> = members
        .map(|(name, value)| {
            let text = value
                .as_str()
                .map_or_else(|| alloc::format!("{value}"), String::from);
            [name.as_str(), ":", &text].concat()
        })
        .collect();
    ["map[", &members.join(" "), "]"].concat()
}
