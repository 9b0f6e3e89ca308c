//! CustomResourceDefinitions that clients write: what they define exists while they do.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Value, json};

use super::definition::kinds;
use super::options::Propagation;
use super::problems::Problems;
use super::target::text;
use crate::object::{Object, ResourceType};
use crate::server::FakeServer;
use crate::store::key;

/// The finalizer of a definition whose objects are being deleted.
pub(super) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

impl ResourceType {
    /// Returns whether its objects are CustomResourceDefinitions.
    pub(super) fn is_definitions(&self) -> bool {
        !self.custom && self.plural == "customresourcedefinitions"
    }
}

impl FakeServer {
    /// Serves what the definitions define that have changed since a version, and removes what deleted ones have
    /// defined, with all objects.
    pub(super) fn settle_definitions(&mut self, since: u64) {
        let index = self.store.kinds().position(|kind| kind.is_definitions());
        let Some(index) = index else { return };
        let entries = self.store.events_after(since);
        let entries = entries.filter(|entry| entry.resource == index);
        let changed: Vec<(bool, String)> = entries
            .filter_map(|entry| {
                let object = entry.after.as_ref().or(entry.before.as_ref())?;
                Some((entry.after.is_some(), object.name.to_string()))
            })
            .collect();
        for (is_there, name) in changed {
            match self.value_at(index, &name) {
                Some(definition) if is_there => self.establish(index, definition),
                _ => {}
            }
        }
        for object in self.deleted(index) {
            if let Some(definition) = self.value_at(index, &object) {
                self.clean_up(index, &object, definition);
            }
        }
    }

    /// Returns the keys of the objects of a resource that are being deleted.
    pub(super) fn deleted(&self, index: usize) -> Vec<String> {
        let objects = self.store.at(index, self.store.version, "", None);
        let deleted = objects.filter(|object| is_deleted(object));
        deleted
            .map(|object| key(&object.namespace, &object.name))
            .collect()
    }

    fn establish(&mut self, index: usize, mut definition: Value) {
        let Ok(kinds) = kinds(&definition) else {
            return;
        };
        let Some(first) = kinds.first() else { return };
        let (group, plural, stored) = (
            first.group.clone(),
            first.plural.clone(),
            first.version.clone(),
        );
        if text(&definition, "deletionTimestamp").is_some() {
            return;
        }
        for index in 0..self.store.kinds().count() {
            let kind = self.store.kind(index);
            let is_own = kind.custom && (&kind.group, &kind.plural) == (&group, &plural);
            if is_own && !kinds.iter().any(|new| new.version == kind.version) {
                self.store.kind_mut(index).is_served = false;
            }
        }
        self.define(kinds);

        let existing = definition.clone();
        let time = self.time();
        let status = &mut definition["status"];
        let mut versions = status["storedVersions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        if !versions.iter().any(|version| *version == stored) {
            versions.push(stored.into());
        }
        status["storedVersions"] = versions.into();
        status["acceptedNames"] = existing["spec"]["names"].clone();
        for (kind, reason, message) in [
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            (
                "Established",
                "InitialNamesAccepted",
                "the initial names have been accepted",
            ),
        ] {
            if !status["conditions"].is_array() {
                status["conditions"] = json!([]);
            }
            let Value::Array(conditions) = &mut status["conditions"] else {
                continue;
            };
            if !conditions.iter().any(|condition| condition["type"] == kind) {
                conditions.push(json!({
                    "type": kind, "status": "True", "lastTransitionTime": time, "reason": reason, "message": message,
                }));
            }
        }
        if definition == existing {
            return;
        }
        self.put_status(index, &existing, definition);
    }

    /// Deletes the objects of a definition that is being deleted, and then the definition.
    fn clean_up(&mut self, index: usize, name: &str, definition: Value) {
        let finalizers = definition["metadata"]["finalizers"].as_array();
        if !finalizers.is_some_and(|finalizers| finalizers.iter().any(|own| own == CLEANUP)) {
            return;
        }
        let names = &definition["spec"];
        let group = names["group"].as_str().unwrap_or_default();
        let plural = names["names"]["plural"].as_str().unwrap_or_default();
        let own = self.store.kinds().position(|kind| {
            kind.is_served && kind.custom && (&*kind.group, &*kind.plural) == (group, plural)
        });
        if let Some(own) = own {
            self.delete_all(own, "");
            let mut left = self.store.at(own, self.store.version, "", None);
            if left.next().is_some() {
                return;
            }
        }
        self.withdraw(group, plural);
        self.finish(index, name, definition, CLEANUP);
    }

    /// Deletes all objects of a resource whose keys begin with a prefix. Those with finalizers are marked.
    pub(super) fn delete_all(&mut self, index: usize, prefix: &str) {
        let objects = self.store.at(index, self.store.version, prefix, None);
        let keys: Vec<String> = objects
            .map(|object| key(&object.namespace, &object.name))
            .collect();
        for key in keys {
            let Some(object) = self.value_at(index, &key) else {
                continue;
            };
            if text(&object, "deletionTimestamp").is_none() {
                self.delete_or_mark(index, &key, object, Some(Propagation::Background));
            }
        }
    }
}

/// Returns whether an object is being deleted.
fn is_deleted(object: &Object) -> bool {
    // Quotation marks within texts are escaped, so the name of the member is found only where it is one.
    let metadata = &object.body[..object.metadata_end];
    let member = b"\"deletionTimestamp\":\"2";
    metadata.windows(member.len()).any(|part| part == member)
}

/// Sets the defaults of a definition.
pub(super) fn set_defaults(definition: &mut Value) {
    let Some(kind) = definition
        .pointer("/spec/names/kind")
        .and_then(Value::as_str)
    else {
        return;
    };
    let (singular, list) = (kind.to_ascii_lowercase(), [kind, "List"].concat());
    for (member, value) in [("singular", singular), ("listKind", list)] {
        let names = &mut definition["spec"]["names"];
        if names[member].as_str().is_none_or(str::is_empty) {
            names[member] = value.into();
        }
    }
    if definition["spec"]["conversion"].is_null() {
        definition["spec"]["conversion"] = json!({ "strategy": "None" });
    }
}

/// Sets the status of a new definition.
pub(super) fn set_status(definition: &mut Value) {
    let versions = definition["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten();
    let stored = versions.filter(|version| version["storage"] == true);
    let stored: Vec<Value> = stored.map(|version| version["name"].clone()).collect();
    definition["status"] = json!({
        "conditions": null, "acceptedNames": { "plural": "", "kind": "" }, "storedVersions": stored,
    });
}

/// Checks a definition.
pub(super) fn check(problems: &mut Problems, definition: &Value) {
    let spec = &definition["spec"];
    let word = |place: &str| {
        spec.pointer(place)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let name = text(definition, "name").unwrap_or_default();
    if name != [word("/names/plural"), ".", word("/group")].concat() {
        let problem = "must be spec.names.plural+\".\"+spec.group";
        problems.invalid("metadata.name", &name.into(), problem);
    }
    for (field, place) in [("spec.group", "/group"), ("spec.scope", "/scope")] {
        if word(place).is_empty() {
            problems.required(field, "");
        }
    }
    let versions = spec["versions"].as_array().into_iter().flatten();
    if versions
        .filter(|version| version["storage"] == true)
        .count()
        != 1
    {
        let problem = "must have exactly one version marked as storage version";
        problems.invalid("spec.versions", &spec["versions"], problem);
    }
    for (field, place) in [
        ("spec.names.plural", "/names/plural"),
        ("spec.names.singular", "/names/singular"),
        ("spec.names.kind", "/names/kind"),
        ("spec.names.listKind", "/names/listKind"),
    ] {
        if word(place).is_empty() {
            problems.required(field, "");
        }
    }
    let mut versions = spec["versions"].as_array().into_iter().flatten();
    if !versions.any(|version| version["storage"] == true) {
        let problem = "must have at least one stored version";
        problems.invalid("status.storedVersions", &Value::Null, problem);
    }
}

/// Marks a definition that is being deleted.
pub(super) fn set_terminating(definition: &mut Value, time: &str) {
    if let Some(Value::Array(conditions)) = definition.pointer_mut("/status/conditions")
        && !conditions
            .iter()
            .any(|condition| condition["type"] == "Terminating")
    {
        conditions.push(json!({
            "type": "Terminating", "status": "True", "lastTransitionTime": time, "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        }));
    }
}
