//! The owners of fields: `managedFields` and server-side apply.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Value, json};

use super::compare::{Changes, compare, fields_of, merge, remove_unowned};
use super::field_set::{FieldSet, field};
use super::structure::Type;
use crate::status::Status;

/// A manager of fields. The order is that of `managedFields` of one time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Manager {
    /// Whether it applies its fields; otherwise it updates them.
    pub(super) applies: bool,
    pub(super) name: String,
    /// The version of its fields. It does not distinguish managers that apply.
    pub(super) api_version: String,
    pub(super) subresource: String,
}

/// The fields of a manager.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Owned {
    api_version: String,
    time: String,
    set: FieldSet,
}

/// The managers of an object.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Managers(BTreeMap<Manager, Owned>);

/// A write by a manager.
#[derive(Clone, Debug)]
pub(super) struct By<'a> {
    pub(super) manager: Manager,
    pub(super) time: &'a str,
    /// Whether the manager takes fields of others.
    pub(super) force: bool,
}

/// The manager of objects that were not applied before.
const BEFORE: &str = "before-first-apply";

/// Records that a manager has changed an object. `old` is `None` if it was created.
pub(super) fn update(old: Option<&Value>, new: &mut Value, kind: Type<'_>, by: By<'_>) {
    let nothing = json!({});
    let is_new = old.is_none();
    let old = old.unwrap_or(&nothing);
    let recorded = &old["metadata"]["managedFields"];
    let is_reset = new["metadata"]["managedFields"] == json!([{}]);
    if is_reset || !is_new && Managers::read(recorded).0.is_empty() {
        // Objects without managers get none until somebody applies them.
        set_managers(new, None);
        return;
    }
    let mut managers = Managers::read(recorded);
    let changes = compare(old, new, kind);
    managers.lose(&changes, None);
    let gained = changes.added.union(&changes.modified);
    let gained = reset(gained, &by.manager.subresource);
    if !gained.is_empty() {
        managers.gain(by, gained);
    }
    set_managers(new, managers.write(recorded));
}

/// Applies a configuration to an object. `live` is `None` if it does not exist.
pub(super) fn apply(
    live: Option<&Value>,
    config: Value,
    kind: Type<'_>,
    by: By<'_>,
) -> Result<Value, Status> {
    let nothing = json!({});
    let recorded = live.map_or(&Value::Null, |live| &live["metadata"]["managedFields"]);
    let mut managers = Managers::read(recorded);
    if let Some(live) = live.filter(|_| managers.0.is_empty()) {
        let set = compare(&nothing, live, kind).added;
        let before = Manager {
            applies: false,
            name: BEFORE.to_string(),
            subresource: String::new(),
            ..by.manager.clone()
        };
        let before = By {
            manager: before,
            ..by.clone()
        };
        managers.gain(before, set);
    }
    let applied = reset(fields_of(&config, kind), &by.manager.subresource);
    let last = managers.0.remove(&by.manager.key());
    let mut merged = merge(Some(live.unwrap_or(&nothing).clone()), config, kind);
    if let Some(last) = &last {
        let owned = managers
            .0
            .values()
            .fold(applied.clone(), |all, owned| all.union(&owned.set));
        remove_unowned(&mut merged, &last.set, Some(&owned), kind);
    }
    let changes = compare(live.unwrap_or(&nothing), &merged, kind);
    let conflicts = managers.lose(&changes, (!by.force).then_some(&by.manager));
    if !conflicts.is_empty() {
        return Err(conflict(&conflicts));
    }
    if let Some(last) = last.filter(|last| last.set == applied && changes.is_empty()) {
        managers.0.insert(by.manager.key(), last);
    } else if !applied.is_empty() {
        managers.gain(by, applied);
    }
    set_managers(&mut merged, managers.write(recorded));
    Ok(merged)
}

/// Keeps the fields that a request to a subresource can own. Other requests do not own the status.
fn reset(mut set: FieldSet, subresource: &str) -> FieldSet {
    if subresource == "status" {
        set.below.remove(&field("spec"));
    }
    set
}

impl Manager {
    /// Returns what distinguishes it from others.
    fn key(&self) -> Self {
        let mut key = self.clone();
        if key.applies {
            key.api_version.clear();
        }
        key
    }

    /// Formats it as in the message of a conflict.
    fn shown(&self) -> String {
        let mut text = ["conflict with \"", &self.name, "\""].concat();
        if !self.subresource.is_empty() {
            text += &[" with subresource \"", &self.subresource, "\""].concat();
        }
        if !self.applies {
            text += &[" using ", &self.api_version].concat();
        }
        text
    }
}

impl Managers {
    /// Reads `managedFields`. Entries that cannot be read are dropped.
    fn read(json: &Value) -> Self {
        let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_string();
        let entries = json.as_array().into_iter().flatten().filter_map(|entry| {
            let manager = Manager {
                applies: entry["operation"] == "Apply",
                name: text(entry, "manager"),
                api_version: text(entry, "apiVersion"),
                subresource: text(entry, "subresource"),
            };
            let owned = Owned {
                api_version: manager.api_version.clone(),
                time: text(entry, "time"),
                set: FieldSet::from_json(&entry["fieldsV1"])?,
            };
            Some((manager.key(), owned))
        });
        Self(entries.collect())
    }

    /// Writes `managedFields`. If only times differ from what was recorded, that stays.
    fn write(self, recorded: &Value) -> Option<Value> {
        if self.0.is_empty() {
            return None;
        }
        let mut entries: Vec<(Manager, Owned)> = self.0.into_iter().collect();
        entries.sort_by(|(a, a_owned), (b, b_owned)| {
            (b.applies, &a_owned.time, a).cmp(&(a.applies, &b_owned.time, b))
        });
        let entries = entries.into_iter().map(|(manager, owned)| {
            let mut entry = json!({
                "operation": if manager.applies { "Apply" } else { "Update" },
                "apiVersion": owned.api_version, "fieldsType": "FieldsV1", "fieldsV1": owned.set.to_json(),
            });
            for (name, text) in [
                ("manager", manager.name),
                ("subresource", manager.subresource),
                ("time", owned.time),
            ] {
                if !text.is_empty() {
                    entry[name] = text.into();
                }
            }
            entry
        });
        let new = Value::Array(entries.collect());
        let untimed = |json: &Value| {
            let mut json = json.clone();
            for entry in json.as_array_mut().into_iter().flatten() {
                if let Value::Object(entry) = entry {
                    entry.remove("time");
                }
            }
            json
        };
        Some(if untimed(&new) == untimed(recorded) {
            recorded.clone()
        } else {
            new
        })
    }

    /// Takes the changed fields from their managers. With `applier`, they are returned instead if there are any.
    fn lose(&mut self, changes: &Changes, applier: Option<&Manager>) -> Vec<(String, String)> {
        let changed = changes.added.clone().union(&changes.modified);
        if applier.is_some() {
            let conflicts = self.0.iter().flat_map(|(manager, owned)| {
                let paths = owned.set.intersection(&changed).paths();
                paths.into_iter().map(|path| (manager.shown(), path))
            });
            let conflicts: Vec<_> = conflicts.collect();
            if !conflicts.is_empty() {
                return conflicts;
            }
        }
        for owned in self.0.values_mut() {
            let rest = core::mem::take(&mut owned.set);
            owned.set = rest.difference(&changed).difference(&changes.removed);
        }
        self.0.retain(|_, owned| !owned.set.is_empty());
        Vec::new()
    }

    fn gain(&mut self, by: By<'_>, set: FieldSet) {
        let owned = self.0.entry(by.manager.key()).or_insert_with(|| Owned {
            api_version: String::new(),
            time: String::new(),
            set: FieldSet::default(),
        });
        owned.api_version = by.manager.api_version;
        owned.time = by.time.to_string();
        owned.set = core::mem::take(&mut owned.set).union(&set);
    }
}

fn set_managers(object: &mut Value, managers: Option<Value>) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        match managers {
            Some(managers) => drop(metadata.insert("managedFields".to_string(), managers)),
            None => drop(metadata.remove("managedFields")),
        }
    }
}

/// The response to a configuration that changes fields of others.
fn conflict(conflicts: &[(String, String)]) -> Status {
    let causes: Vec<Value> = conflicts
        .iter()
        .map(|(with, path)| json!({ "reason": "FieldManagerConflict", "message": with, "field": path }))
        .collect();
    let message = if let [(with, path)] = conflicts {
        ["Apply failed with 1 conflict: ", with, ": ", path].concat()
    } else {
        let mut lines = Vec::new();
        let mut last = "";
        for (with, path) in conflicts {
            if with != last {
                lines.push([&with.replacen("conflict", "conflicts", 1), ":"].concat());
                last = with;
            }
            lines.push(["- ", path].concat());
        }
        let count = conflicts.len().to_string();
        [
            "Apply failed with ",
            &count,
            " conflicts: ",
            &lines.join("\n"),
        ]
        .concat()
    };
    Status::new(409, "Conflict", message).details(json!({ "causes": causes }))
}
