//! Decoding of built-in kinds, as Go decodes them: by the types of their fields.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::structure::{Type, find, metadata};
use crate::object::ResourceType;
use crate::protobuf::schema::{Field, Kind, Shape};

/// The findings in an object.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    /// The paths of the members that the kind does not have. They have been removed.
    pub(super) unknown: Vec<String>,
    /// The first member of another type.
    pub(super) mistyped: Option<Mistyped>,
}

/// A member of another type, as the server reports it.
#[derive(Debug)]
pub(super) struct Mistyped {
    /// After decoding.
    pub(super) decoded: String,
    /// After applying.
    pub(super) applied: String,
}

/// Checks the types of an object's members, and removes unknown ones, nulls and empty collections.
pub(super) fn decode(object: &mut Value, kind: &ResourceType) -> Decoded {
    let mut found = Decoded::default();
    if let (Type::Struct(fields, _), Value::Object(members)) = (Type::of(kind), &mut *object) {
        found.walk_struct(members, fields, "", &kind.kind);
    } else if let (Type::Present(fields, _), Some(Value::Object(members))) =
        (metadata(), object.get_mut("metadata"))
    {
        found.walk_struct(members, fields, "metadata", &kind.kind);
    }
    found
}

/// Returns whether an object is at a path: the object itself, or one that a StatefulSet has. These have a type.
fn is_object(path: &str) -> bool {
    let claim = path.strip_prefix("spec.volumeClaimTemplates[");
    path.is_empty() || claim.is_some_and(|index| index.find(']') == Some(index.len() - 1))
}

impl Decoded {
    fn walk_struct(
        &mut self,
        members: &mut Map<String, Value>,
        fields: &'static [Field],
        path: &str,
        root: &str,
    ) {
        members.retain(|name, value| {
            if is_object(path) && (name == "apiVersion" || name == "kind") {
                return true;
            }
            let path = match path {
                "" => name.to_string(),
                path => [path, ".", name].concat(),
            };
            match find(fields, name) {
                // managedFields are free of form.
                _ if path == "metadata.managedFields" => true,
                Some(field) => !value.is_null() && self.walk(value, field, &path, root),
                None => {
                    self.unknown.push(path);
                    false
                }
            }
        });
    }

    /// Returns whether the value is kept.
    fn walk(&mut self, value: &mut Value, field: &'static Field, path: &str, root: &str) -> bool {
        match (field.shape, &mut *value) {
            (Shape::Repeated, Value::Array(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let path = [path, "[", &index.to_string(), "]"].concat();
                    self.walk_one(item, field.kind, &path, root);
                }
                !items.is_empty() || ["containers", "rules", "endpoints"].contains(&field.name)
            }
            (Shape::Map, Value::Object(members)) => {
                for (name, item) in members.iter_mut() {
                    self.walk_one(item, field.kind, &[path, ".", name].concat(), root);
                }
                !members.is_empty()
            }
            (Shape::Repeated, other) => {
                self.wrong(other, path, root, "[]");
                true
            }
            (Shape::Map, other) => {
                self.wrong(other, path, root, "map[string]string");
                true
            }
            (Shape::Required | Shape::Optional, _) => {
                self.walk_one(value, field.kind, path, root);
                true
            }
        }
    }

    fn walk_one(&mut self, value: &mut Value, kind: Kind, path: &str, root: &str) {
        let wanted = match (kind, &mut *value) {
            (Kind::Text, Value::Null) => {
                *value = "".into();
                return;
            }
            (_, Value::Null) | (Kind::Fields, _) => return,
            (Kind::Message(fields), Value::Object(members)) => {
                return self.walk_struct(members, fields, path, root);
            }
            (Kind::Text | Kind::Bytes | Kind::Time | Kind::MicroTime, Value::String(_))
            | (Kind::Quantity | Kind::IntOrString, Value::String(_) | Value::Number(_))
            | (Kind::Bool, Value::Bool(_)) => return,
            (Kind::Int, Value::Number(number)) if !number.is_f64() => return,
            (Kind::Int, _) => "int64",
            (Kind::Bool, _) => "bool",
            (Kind::Message(_), _) => "object",
            _ => "string",
        };
        self.wrong(value, path, root, wanted);
    }

    fn wrong(&mut self, value: &Value, path: &str, root: &str, wanted: &str) {
        let given = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        // Go names neither the items nor the keys of a map.
        let names = path.split('[').next().unwrap_or_default();
        let names = match names.rsplit_once('.') {
            Some((map, _))
                if ["data", "labels", "annotations"]
                    .iter()
                    .any(|name| map.ends_with(name)) =>
            {
                map
            }
            _ => names,
        };
        let message = [
            "json: cannot unmarshal ",
            given,
            " into Go struct field ",
            root,
            ".",
            names,
            " of type ",
            wanted,
        ];
        let typed = match wanted {
            "int64" => "numeric",
            "bool" => "boolean",
            "[]" => "list",
            "object" | "map[string]string" => "map",
            other => other,
        };
        let shown = value
            .as_str()
            .map_or_else(|| value.to_string(), ToString::to_string);
        let applied = [
            ".",
            path,
            ": expected ",
            typed,
            ", got &value.valueUnstructured{Value:",
            &shown,
            "}",
        ];
        self.mistyped.get_or_insert_with(|| Mistyped {
            decoded: message.concat(),
            applied: applied.concat(),
        });
    }
}
