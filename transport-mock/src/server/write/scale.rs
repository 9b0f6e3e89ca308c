//! The scale subresource.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value, json};

use super::Done;
use super::options::Options;
use super::problems::Problems;
use super::target::{Target, text};
use crate::object::ResourceType;
use crate::server::{FakeServer, MutationError};
use crate::status::Status;

impl ResourceType {
    /// Returns the place of the replicas in a JSON pointer.
    fn replicas(&self) -> String {
        let scale = self
            .definition
            .as_ref()
            .and_then(|definition| definition.scale.as_ref());
        pointer(scale.map_or("spec.replicas", |scale| &scale.spec))
    }
}

impl FakeServer {
    /// Changes the number of replicas by a `Scale`.
    pub(super) fn change_scale(
        &mut self,
        target: &Target<'_>,
        name: &str,
        existing: Value,
        options: &Options,
        change: impl FnOnce(&mut Value) -> Result<(), Status>,
    ) -> Result<Done, Status> {
        let mut scale = write_scale(&target.kind, &existing, 0);
        change(&mut scale)?;
        if let Some(given) = text(&scale, "name").filter(|given| *given != name) {
            let message = [
                "the name of the object (",
                given,
                ") does not match the name on the URL (",
                name,
                ")",
            ];
            return Err(Status::bad_request(message.concat()));
        }
        let replicas = match &scale["spec"]["replicas"] {
            value if value.is_null() => 0,
            value => value.as_i64().ok_or_else(|| {
                let message = "Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal into Go struct field \
                               Scale.spec.replicas of type int32";
                Status::bad_request(message)
            })?,
        };
        if !(0..=i64::from(i32::MAX)).contains(&replicas) {
            let mut problems = Problems::default();
            if target.kind.custom {
                let field = target.kind.replicas().replace('/', ".");
                problems.invalid(&field, &replicas.into(), "should be a non-negative integer");
                problems.of(target, name)?;
            } else {
                let problem = "must be greater than or equal to 0";
                problems.invalid("spec.replicas", &replicas.into(), problem);
                problems.result(("autoscaling", "Scale"), name)?;
            }
        }
        let mut new = existing.clone();
        if let Some(version) = text(&scale, "resourceVersion") {
            new["metadata"]["resourceVersion"] = version.into();
        }
        if !set(&mut new, &target.kind.replicas(), replicas.into()) {
            return Err(target.refused(MutationError::NotAnObject, name));
        }
        // The server does not record who scales a custom resource.
        let tracked = (!target.kind.custom).then_some(options);
        let (status, object) = self.change(target, name, existing, new, tracked)?;
        let object: Value = serde_json::from_slice(&object).unwrap_or_default();
        let scale = write_scale(&target.kind, &object, 0);
        Ok((status, scale.to_string().into_bytes()))
    }
}

/// Returns the `Scale` of an object for a GET.
pub(in crate::server) fn read_scale(kind: &ResourceType, object: &Value) -> Result<Value, Status> {
    let place = kind.replicas();
    if kind.custom && object.pointer(&place).is_none() {
        let path = place.replace('/', ".");
        let message = ["the spec replicas field \"", &path, "\" does not exist"].concat();
        let text = ["Internal error occurred: ", &message].concat();
        let details = json!({ "causes": [{ "message": message }] });
        return Err(Status::new(500, "InternalError", text).details(details));
    }
    Ok(write_scale(kind, object, 1))
}

/// Returns the `Scale` of an object. `missing` is the number of replicas that counts as wanted if the object has none.
fn write_scale(kind: &ResourceType, object: &Value, missing: i64) -> Value {
    let mut metadata = Map::new();
    for member in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if let Some(value) = text(object, member) {
            metadata.insert(member.to_string(), value.into());
        }
    }
    let number = |place: &str| object.pointer(place).and_then(Value::as_i64);
    let paths = kind
        .definition
        .as_ref()
        .and_then(|definition| definition.scale.as_ref());
    let (ready, selector) = match paths {
        Some(paths) => {
            let selector = paths.selector.as_deref().map(pointer);
            let selector = selector.and_then(|place| object.pointer(&place)?.as_str());
            (
                number(&pointer(&paths.status)),
                selector.map(ToString::to_string),
            )
        }
        None => (
            number("/status/replicas"),
            selector(&object["spec"]["selector"]),
        ),
    };
    let mut status = json!({ "replicas": ready.unwrap_or(0) });
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        status["selector"] = selector.into();
    }
    let wanted = number(&kind.replicas()).unwrap_or(missing);
    let spec = if wanted == 0 {
        json!({})
    } else {
        json!({ "replicas": wanted })
    };
    json!({ "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status })
}

/// Formats a selector of labels as text.
pub(super) fn selector(selector: &Value) -> Option<String> {
    let mut parts = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        parts.push((key.clone(), [key, "=", value.as_str()?].concat()));
    }
    for requirement in selector["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let key = requirement["key"].as_str()?;
        let values = requirement["values"].as_array().into_iter().flatten();
        let mut values: Vec<&str> = values.filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = ["(", &values.join(","), ")"].concat();
        let text = match requirement["operator"].as_str()? {
            "In" => [key, " in ", &values].concat(),
            "NotIn" => [key, " notin ", &values].concat(),
            "Exists" => key.to_string(),
            "DoesNotExist" => ["!", key].concat(),
            _ => return None,
        };
        parts.push((key.to_string(), text));
    }
    parts.sort();
    let parts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
    Some(parts.join(","))
}

fn pointer(path: &str) -> String {
    ["/", &path.replace('.', "/")].concat()
}

/// Sets a value at a place, and creates the objects above it. Fails if something else is there.
fn set(object: &mut Value, place: &str, value: Value) -> bool {
    let mut current = object;
    for name in place.split('/').skip(1) {
        if current.is_null() {
            *current = Value::Object(Map::new());
        }
        let Value::Object(members) = current else {
            return false;
        };
        current = members.entry(name.to_string()).or_insert(Value::Null);
    }
    *current = value;
    true
}
