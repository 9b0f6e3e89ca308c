//! Schemas of custom resources: pruning, defaults and validation.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::problems::Problems;

/// The paths of what was removed.
#[derive(Default)]
pub(super) struct Pruned {
    /// Where the schema names the members that there are.
    pub(super) undeclared: Vec<String>,
    /// Where `additionalProperties` is `true`, which server-side apply takes for declared.
    pub(super) within_any: Vec<String>,
}

/// Removes what the schema does not have.
pub(super) fn prune(object: &mut Value, schema: &Value) -> Pruned {
    let mut pruned = Pruned::default();
    prune_at(object, schema, "", true, &mut pruned);
    pruned
}

fn prune_at(value: &mut Value, schema: &Value, path: &str, is_resource: bool, pruned: &mut Pruned) {
    match value {
        Value::Object(members) => {
            let keeps = schema["x-kubernetes-preserve-unknown-fields"] == true;
            members.retain(|name, value| {
                if is_resource && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
                    return true;
                }
                let path = join(path, name);
                let property = schema.get("properties").and_then(|all| all.get(name));
                let additional = schema
                    .get("additionalProperties")
                    .filter(|more| **more != false);
                match property.or(additional) {
                    Some(schema) => {
                        let is_resource = schema["x-kubernetes-embedded-resource"] == true;
                        prune_at(value, schema, &path, is_resource, pruned);
                        true
                    }
                    None if keeps => true,
                    None => {
                        let paths = if *schema == true {
                            &mut pruned.within_any
                        } else {
                            &mut pruned.undeclared
                        };
                        paths.push(path);
                        false
                    }
                }
            });
        }
        Value::Array(items) => {
            let schema = &schema["items"];
            for (index, item) in items.iter_mut().enumerate() {
                let path = [path, "[", &index.to_string(), "]"].concat();
                let is_resource = schema["x-kubernetes-embedded-resource"] == true;
                // Without a schema, items are pruned no further.
                if schema.is_object() {
                    prune_at(item, schema, &path, is_resource, pruned);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Sets the defaults of missing members. Nulls count as missing where they are not allowed.
pub(super) fn set_defaults(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(members) => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            for (name, schema) in properties {
                if members.get(name).is_some_and(Value::is_null) && !is_nullable(schema) {
                    members.remove(name);
                }
                if let Some(default) = schema.get("default") {
                    members
                        .entry(name.clone())
                        .or_insert_with(|| default.clone());
                }
            }
            for (name, value) in members {
                let property = schema.get("properties").and_then(|all| all.get(name));
                if let Some(schema) = property.or_else(|| schema.get("additionalProperties")) {
                    set_defaults(value, schema);
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                set_defaults(item, &schema["items"]);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_nullable(schema: &Value) -> bool {
    schema["nullable"] == true
        || schema.get("type").is_none() && schema["x-kubernetes-int-or-string"] != true
}

/// Validates a value. `path` is empty for the object.
pub(super) fn validate(value: &Value, schema: &Value, path: &str, problems: &mut Problems) {
    if value.is_null() && is_nullable(schema) {
        return;
    }
    let given = type_of(value);
    let wanted = schema["type"].as_str();
    let is_int_or_string = schema["x-kubernetes-int-or-string"] == true;
    let is_right = match wanted {
        _ if is_int_or_string => ["integer", "string"].contains(&given),
        None => true,
        Some("number") => ["integer", "number"].contains(&given),
        Some(wanted) => wanted == given,
    };
    if !is_right {
        let wanted = if is_int_or_string {
            "integer,string"
        } else {
            wanted.unwrap_or_default()
        };
        let problem = [
            path,
            " in body must be of type ",
            wanted,
            ": \"",
            given,
            "\"",
        ]
        .concat();
        problems.mistyped(path, &given.into(), &problem);
    }
    match value {
        Value::String(text) => validate_text(value, text, schema, path, problems),
        Value::Number(_) => validate_number(value, schema, path, problems),
        Value::Array(items) => validate_items(items, schema, path, problems),
        Value::Object(members) => validate_members(members, schema, path, problems),
        Value::Null | Value::Bool(_) => {}
    }
    if let Some(allowed) = schema["enum"]
        .as_array()
        .filter(|allowed| !allowed.contains(value))
    {
        problems.not_supported(path, value, allowed);
    }
    validate_all(value, schema, path, problems);
}

fn validate_text(value: &Value, text: &str, schema: &Value, path: &str, problems: &mut Problems) {
    let length = text.chars().count() as u64;
    let mut fails = |problem: &str| problems.invalid(path, value, &[path, problem].concat());
    if let Some(least) = schema["minLength"].as_u64().filter(|least| length < *least) {
        fails(
            &[
                " in body should be at least ",
                &least.to_string(),
                " chars long",
            ]
            .concat(),
        );
    }
    if schema["format"] == "date-time" && !is_time(text) {
        let problem = [
            path,
            " in body must be of type date-time: ",
            &value.to_string(),
        ]
        .concat();
        problems.mistyped(path, value, &problem);
    }
    if let Some(most) = schema["maxLength"].as_u64().filter(|most| length > *most) {
        problems.too_long(path, most);
    }
}

fn validate_number(value: &Value, schema: &Value, path: &str, problems: &mut Problems) {
    let Some(number) = value.as_f64() else { return };
    let fits = value
        .as_i64()
        .is_some_and(|number| i32::try_from(number).is_ok());
    if schema["format"] == "int32" && type_of(value) == "integer" && !fits {
        let problem = [
            "Checked value must be of type integer with format int32 in ",
            path,
        ]
        .concat();
        problems.invalid("<nil>", &"".into(), &problem);
    }
    if schema["type"] == "integer" && type_of(value) == "number" {
        let problem = [
            "Checked value must be of type integer (default format) in ",
            path,
        ]
        .concat();
        problems.invalid("<nil>", &"".into(), &problem);
    }
    let mut fails = |problem: &str, bound: &Value| {
        let problem = [path, " in body should be ", problem, &bound.to_string()].concat();
        problems.invalid(path, value, &problem);
    };
    let divisor = schema["multipleOf"]
        .as_f64()
        .filter(|divisor| *divisor > 0.0);
    if divisor.is_some_and(|divisor| number % divisor != 0.0) {
        fails("a multiple of ", &schema["multipleOf"]);
    }
    if let Some(bound) = schema["maximum"].as_f64() {
        if schema["exclusiveMaximum"] == true && number >= bound {
            fails("less than ", &schema["maximum"]);
        } else if number > bound {
            fails("less than or equal to ", &schema["maximum"]);
        }
    }
    if let Some(bound) = schema["minimum"].as_f64() {
        if schema["exclusiveMinimum"] == true && number <= bound {
            fails("greater than ", &schema["minimum"]);
        } else if number < bound {
            fails("greater than or equal to ", &schema["minimum"]);
        }
    }
}

/// Checks the number of items or members against two keywords of the schema.
fn validate_count(
    count: usize,
    schema: &Value,
    (least, most, unit): (&str, &str, &str),
    path: &str,
    problems: &mut Problems,
) {
    let is_few = |least: &u64| (count as u64) < *least;
    if let Some(least) = schema[least].as_u64().filter(is_few) {
        let problem = [
            path,
            " in body should have at least ",
            &least.to_string(),
            " ",
            unit,
        ];
        problems.invalid(path, &count.into(), &problem.concat());
    }
    let is_many = |most: &u64| count as u64 > *most;
    if let Some(most) = schema[most].as_u64().filter(is_many) {
        problems.too_many(path, count, most);
    }
}

fn validate_items(items: &[Value], schema: &Value, path: &str, problems: &mut Problems) {
    let count = items.len();
    let at = |index: usize| [path, "[", &index.to_string(), "]"].concat();
    validate_count(
        count,
        schema,
        ("minItems", "maxItems", "items"),
        path,
        problems,
    );
    for (index, item) in items.iter().enumerate() {
        if schema["items"].is_object() {
            validate(item, &schema["items"], &at(index), problems);
        }
    }
    let keys = match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => None,
        Some("map") => schema["x-kubernetes-list-map-keys"].as_array(),
        _ => return,
    };
    let mut seen = alloc::collections::BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let key = match keys {
            None => item.clone(),
            Some(keys) => {
                let keys = keys.iter().filter_map(Value::as_str);
                let keys = keys.filter_map(|key| Some((key.to_string(), item.get(key)?.clone())));
                Value::Object(keys.collect())
            }
        };
        if !seen.insert(key.to_string()) {
            problems.duplicate(&at(index), &key);
        }
    }
}

fn validate_members(
    members: &Map<String, Value>,
    schema: &Value,
    path: &str,
    problems: &mut Problems,
) {
    let count = members.len();
    for name in schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if !members.contains_key(name) {
            problems.required(&join(path, name), "");
        }
    }
    validate_count(
        count,
        schema,
        ("minProperties", "maxProperties", "properties"),
        path,
        problems,
    );
    for (name, value) in members {
        let property = schema.get("properties").and_then(|all| all.get(name));
        let additional = schema
            .get("additionalProperties")
            .filter(|more| more.is_object());
        if let Some(schema) = property.or(additional) {
            validate(value, schema, &join(path, name), problems);
        }
    }
}

/// Checks `allOf`, `anyOf`, `oneOf` and `not`.
fn validate_all(value: &Value, schema: &Value, path: &str, problems: &mut Problems) {
    let holds = |schema: &&Value| {
        let mut problems = Problems::default();
        validate(value, schema, path, &mut problems);
        problems.0.is_empty()
    };
    let schemas = |name: &str| {
        schema[name]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
    };
    let quoted = ["\"", path, "\" must "].concat();
    // The server names no field, and the problems of the alternative that comes closest.
    let mut fails = |problem: &str, closest: &[Value]| {
        problems.invalid("<nil>", &"".into(), &[&quoted, problem].concat());
        let failures = closest.iter().map(|schema| {
            let mut problems = Problems::default();
            validate(value, schema, path, &mut problems);
            problems.0
        });
        problems
            .0
            .extend(failures.min_by_key(Vec::len).unwrap_or_default());
    };
    let (any, one) = (schemas("anyOf"), schemas("oneOf"));
    if !any.is_empty() && !any.iter().any(|schema| holds(&schema)) {
        fails("validate at least one schema (anyOf)", any);
    }
    let count = one.iter().filter(holds).count();
    if !one.is_empty() && count == 0 {
        fails(
            "validate one and only one schema (oneOf). Found none valid",
            one,
        );
    } else if count > 1 {
        let count = count.to_string();
        let problem = [
            "validate one and only one schema (oneOf). Found ",
            &count,
            " valid alternatives",
        ];
        fails(&problem.concat(), &[]);
    }
    if !schemas("allOf").iter().all(|schema| holds(&schema)) {
        fails("validate all the schemas (allOf)", &[]);
    }
    if schema.get("not").is_some_and(|not| holds(&not)) {
        fails("not validate the schema (not)", &[]);
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.as_f64().is_some_and(|number| number % 1.0 == 0.0) => {
            "integer"
        }
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns whether a text is a time of RFC 3339.
fn is_time(text: &str) -> bool {
    let pattern = "0000-00-00T00:00:00";
    let (Some(head), Some(rest)) = (text.get(..pattern.len()), text.get(pattern.len()..)) else {
        return false;
    };
    let is_like = |text: &str, pattern: &str| {
        text.len() == pattern.len()
            && text
                .bytes()
                .zip(pattern.bytes())
                .all(|(byte, like)| match like {
                    b'0' => byte.is_ascii_digit(),
                    b'T' => byte == b'T' || byte == b't',
                    like => byte == like,
                })
    };
    let rest = rest.strip_prefix('.').map_or(rest, |fraction| {
        fraction.trim_start_matches(|c: char| c.is_ascii_digit())
    });
    let is_zone = rest == "Z" || rest == "z" || is_like(rest, "+00:00") || is_like(rest, "-00:00");
    is_like(head, pattern) && is_zone
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_string()
    } else {
        [path, ".", name].concat()
    }
}
