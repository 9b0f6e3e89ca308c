//! Sets of fields, as in `managedFields`.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value};

/// One step of a path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Element {
    /// A member of an object.
    Field(String),
    /// The item of a list with these keys, as JSON.
    Key(String),
    /// The item of a list that is this value, as JSON.
    Value(String),
    /// The item of a list at this place. The server does not write it.
    Index(String),
}

/// A set of paths. Each node is a member of the set or has members below it, except the root.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct FieldSet {
    pub(super) is_member: bool,
    pub(super) below: BTreeMap<Element, Self>,
}

impl FieldSet {
    pub(super) fn is_empty(&self) -> bool {
        !self.is_member && self.below.is_empty()
    }

    pub(super) fn insert(&mut self, path: &[Element]) {
        match path.split_first() {
            None => self.is_member = true,
            Some((first, rest)) => self.below.entry(first.clone()).or_default().insert(rest),
        }
    }

    pub(super) fn union(mut self, other: &Self) -> Self {
        self.is_member |= other.is_member;
        for (element, other) in &other.below {
            let own = self.below.remove(element).unwrap_or_default();
            self.below.insert(element.clone(), own.union(other));
        }
        self
    }

    pub(super) fn difference(mut self, other: &Self) -> Self {
        self.is_member &= !other.is_member;
        for (element, other) in &other.below {
            if let Some(own) = self.below.remove(element) {
                let rest = own.difference(other);
                if !rest.is_empty() {
                    self.below.insert(element.clone(), rest);
                }
            }
        }
        self
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        let mut both = Self {
            is_member: self.is_member && other.is_member,
            below: BTreeMap::new(),
        };
        for (element, own) in &self.below {
            if let Some(other) = other.below.get(element) {
                let below = own.intersection(other);
                if !below.is_empty() {
                    both.below.insert(element.clone(), below);
                }
            }
        }
        both
    }

    /// Removes nodes without members.
    pub(super) fn trimmed(mut self) -> Self {
        let below = core::mem::take(&mut self.below);
        let below = below
            .into_iter()
            .map(|(element, set)| (element, set.trimmed()));
        self.below = below.filter(|(_, set)| !set.is_empty()).collect();
        self
    }

    /// Removes the fields that nobody owns: those that identify the object, and those that the server sets.
    pub(super) fn without_identity(mut self) -> Self {
        for name in ["apiVersion", "kind"] {
            self.below.remove(&field(name));
        }
        if let Some(metadata) = self.below.get_mut(&field("metadata")) {
            metadata.is_member = false;
            for name in [
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "clusterName",
                "generation",
                "managedFields",
                "resourceVersion",
            ] {
                metadata.below.remove(&field(name));
            }
        }
        self.is_member = false;
        self.trimmed()
    }

    /// Returns the paths of all members, those at one level before those below it.
    pub(super) fn paths(&self) -> Vec<String> {
        fn collect(set: &FieldSet, path: &str, all: &mut Vec<String>) {
            let below = set.below.iter();
            let below = below.map(|(element, below)| ([path, &element.shown()].concat(), below));
            let below: Vec<_> = below.collect();
            for (path, _) in below.iter().filter(|(_, below)| below.is_member) {
                all.push(path.clone());
            }
            for (path, below) in below {
                collect(below, &path, all);
            }
        }
        let mut all = Vec::new();
        collect(self, "", &mut all);
        all
    }

    /// Reads `fieldsV1`.
    pub(super) fn from_json(json: &Value) -> Option<Self> {
        let mut set = Self::default();
        for (name, below) in json.as_object()? {
            if name == "." {
                set.is_member = true;
                continue;
            }
            let mut below_set = Self::from_json(below)?;
            if below_set.is_empty() {
                below_set.is_member = true;
            }
            set.below.insert(Element::parse(name)?, below_set);
        }
        Some(set)
    }

    /// Writes `fieldsV1`.
    pub(super) fn to_json(&self) -> Value {
        let mut object = Map::new();
        for (element, below) in &self.below {
            let json = if below.below.is_empty() {
                Value::Object(Map::new())
            } else {
                let mut json = below.to_json();
                if below.is_member {
                    json["."] = Value::Object(Map::new());
                }
                json
            };
            object.insert(element.name(), json);
        }
        Value::Object(object)
    }
}

impl Element {
    fn parse(name: &str) -> Option<Self> {
        let (kind, text) = name.split_once(':')?;
        let text = text.to_string();
        let json = |text: &str| {
            serde_json::from_str::<Value>(text)
                .ok()
                .map(|json| json.to_string())
        };
        Some(match kind {
            "f" => Self::Field(text),
            "k" => Self::Key(json(&text)?),
            "v" => Self::Value(json(&text)?),
            "i" => Self::Index(text),
            _ => return None,
        })
    }

    fn name(&self) -> String {
        match self {
            Self::Field(text) => ["f:", text],
            Self::Key(text) => ["k:", text],
            Self::Value(text) => ["v:", text],
            Self::Index(text) => ["i:", text],
        }
        .concat()
    }

    /// Formats it as in the message of a conflict.
    fn shown(&self) -> String {
        match self {
            Self::Field(name) => [".", name].concat(),
            Self::Value(value) => ["[=", value, "]"].concat(),
            Self::Index(index) => ["[", index, "]"].concat(),
            Self::Key(keys) => {
                let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                let keys: Vec<String> = keys
                    .iter()
                    .map(|(key, value)| [key.as_str(), "=", &value.to_string()].concat())
                    .collect();
                ["[", &keys.join(","), "]"].concat()
            }
        }
    }
}

/// A step to a member of an object.
pub(super) fn field(name: &str) -> Element {
    Element::Field(name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(json: &Value) -> FieldSet {
        FieldSet::from_json(json).expect("valid")
    }

    #[test]
    fn sets_are_read_combined_and_written() {
        let a = set(&json!({ "f:a": { ".": {}, "f:b": {}, "k:{\"name\":\"x\"}": { "f:c": {} } } }));
        let b = set(&json!({ "f:a": { "f:b": {}, "v:\"s\"": {} }, "f:d": {} }));
        assert_eq!(
            a.clone().union(&b).paths(),
            [".a", ".d", ".a.b", ".a[=\"s\"]", ".a[name=\"x\"].c"]
        );
        assert_eq!(a.clone().difference(&b).paths(), [".a", ".a[name=\"x\"].c"]);
        assert_eq!(a.intersection(&b).paths(), [".a.b"]);
        assert_eq!(b.clone().difference(&b), FieldSet::default());
        let json = a.to_json();
        assert_eq!(set(&json), a);
        for wrong in [
            json!(1),
            json!({ "x": {} }),
            json!({ "k:{": {} }),
            json!({ "f:a": 1 }),
        ] {
            assert_eq!(FieldSet::from_json(&wrong), None, "{wrong}");
        }
    }
}
