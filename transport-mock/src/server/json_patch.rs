//! JSON patches (RFC 6902).

use alloc::string::String;

use serde_json::Value;

use crate::status::Status;

/// Applies a patch. After a failure, the object is not to be stored.
pub(super) fn apply(object: &mut Value, patch: Value) -> Result<(), Status> {
    let Value::Array(operations) = patch else {
        return Err(Status::bad_request("error decoding patch: it is no array"));
    };
    for operation in operations {
        run(object, &operation).ok_or_else(|| {
            let message = "the server rejected our request due to an error in our request";
            Status::new(422, "Invalid", message)
        })?;
    }
    Ok(())
}

fn run(object: &mut Value, operation: &Value) -> Option<()> {
    let path = operation["path"].as_str()?;
    let value = || operation.get("value").cloned();
    let from = || operation["from"].as_str();
    match operation["op"].as_str()? {
        "test" => (object.pointer(path).unwrap_or(&Value::Null) == &value()?).then_some(()),
        "add" => add(object, path, value()?),
        "replace" => {
            *object.pointer_mut(path)? = value()?;
            Some(())
        }
        "remove" => remove(object, path).map(drop),
        "copy" => {
            let copied = object.pointer(from()?)?.clone();
            add(object, path, copied)
        }
        "move" => {
            let moved = remove(object, from()?)?;
            add(object, path, moved)
        }
        _ => None,
    }
}

/// Returns what holds a value, and the name of the value in it.
fn parent<'a>(object: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let (parent, name) = path.rsplit_once('/')?;
    let name = name.replace("~1", "/").replace("~0", "~");
    Some((object.pointer_mut(parent)?, name))
}

fn add(object: &mut Value, path: &str, value: Value) -> Option<()> {
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
