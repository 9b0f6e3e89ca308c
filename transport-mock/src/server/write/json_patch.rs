//! JSON patches (RFC 6902).

use alloc::string::String;

use serde_json::Value;

use crate::status::Status;

/// The most operations, as on the server.
const OPERATIONS: usize = 10_000;
/// The most bytes that `copy` may add, as on the server.
const COPIED: usize = 3 << 20;
/// The deepest nesting of an object, as of the parser.
const DEPTH: usize = 128;

/// Applies a patch. After a failure, the object is not to be stored.
pub(super) fn apply(object: &mut Value, patch: Value) -> Result<(), Status> {
    let Value::Array(operations) = patch else {
        let message = "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp";
        return Err(Status::bad_request(message));
    };
    if operations.len() > OPERATIONS {
        let message = "The allowed maximum operations in a JSON patch is 10000";
        return Err(Status::new(413, "RequestEntityTooLarge", message));
    }
    let mut copied = 0;
    for operation in operations {
        run(object, &operation, &mut copied).ok_or_else(Status::rejected)?;
    }
    Ok(())
}

fn run(object: &mut Value, operation: &Value, copied: &mut usize) -> Option<()> {
    let path = operation["path"].as_str()?;
    let value = || operation.get("value").cloned();
    let from = || operation["from"].as_str();
    match operation["op"].as_str()? {
        "test" => (object.pointer(path).unwrap_or(&Value::Null) == &value()?).then_some(()),
        "add" => add(object, path, value()?),
        "replace" => {
            let value = value()?;
            fits(path, &value)?;
            *object.pointer_mut(path)? = value;
            Some(())
        }
        "remove" => remove(object, path).map(drop),
        "copy" => {
            let source = object.pointer(from()?)?;
            *copied += size(source);
            if *copied > COPIED {
                return None;
            }
            let source = source.clone();
            add(object, path, source)
        }
        "move" => {
            let moved = remove(object, from()?)?;
            add(object, path, moved)
        }
        _ => None,
    }
}

/// Fails if a value would be nested too deeply at a path.
fn fits(path: &str, value: &Value) -> Option<()> {
    (path.matches('/').count() + depth(value) <= DEPTH).then_some(())
}

/// Returns how deeply a value is nested.
pub(super) fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Returns about how many bytes a value takes.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => 2 + items.iter().map(size).sum::<usize>(),
        Value::Object(members) => {
            2 + members
                .iter()
                .map(|(name, value)| name.len() + 4 + size(value))
                .sum::<usize>()
        }
        Value::String(text) => text.len() + 2,
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
    }
}

/// Returns what holds a value, and the name of the value in it.
fn parent<'a>(object: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let (parent, name) = path.rsplit_once('/')?;
    let name = name.replace("~1", "/").replace("~0", "~");
    Some((object.pointer_mut(parent)?, name))
}

fn add(object: &mut Value, path: &str, value: Value) -> Option<()> {
    fits(path, &value)?;
    match parent(object, path)? {
        (Value::Object(members), name) => drop(members.insert(name, value)),
        (Value::Array(items), name) => {
            let index = if name == "-" {
                items.len()
            } else {
                name.parse().ok()?
            };
            if index > items.len() {
                return None;
            }
            items.insert(index, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(object: &mut Value, path: &str) -> Option<Value> {
    match parent(object, path)? {
        (Value::Object(members), name) => members.remove(&name),
        (Value::Array(items), name) => {
            let index: usize = name.parse().ok()?;
            (index < items.len()).then(|| items.remove(index))
        }
        _ => None,
    }
}
