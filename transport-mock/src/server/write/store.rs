//! Storing the object of a write: admission, validation, owners of fields, and the event.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::Done;
use super::admission::{Admission, Operation};
use super::established;
use super::managers::{self, By, Manager};
use super::options::Options;
use super::problems::Problems;
use super::structure::Type;
use super::target::{Target, text};
use super::{immutable, metadata, namespace, schema, secret};
use crate::event;
use crate::object::{Identity, Object, ResourceType};
use crate::query::Part;
use crate::seed;
use crate::server::{FakeServer, MutationError};
use crate::status::Status;
use crate::store::key;

/// The resources whose `generation` counts changes of the spec.
const COUNTED: [&str; 16] = [
    "pods",
    "deployments",
    "replicasets",
    "statefulsets",
    "daemonsets",
    "jobs",
    "cronjobs",
    "endpointslices",
    "ingresses",
    "networkpolicies",
    "customresourcedefinitions",
    "poddisruptionbudgets",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
];

/// The members of the metadata that only the server sets, besides the version and the owners of fields.
const OWN_MEMBERS: [&str; 6] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
];

/// The longest part of a generated name that is given.
const PREFIX: usize = 58;

impl FakeServer {
    /// Returns the current state of an object.
    pub(super) fn current(&self, target: &Target<'_>, name: &str) -> Option<Value> {
        self.value_at(target.index, &key(target.namespace(), name))
    }

    pub(in crate::server) fn value_at(&self, index: usize, key: &str) -> Option<Value> {
        let object = self.store.current(index, key)?;
        serde_json::from_slice(&self.render(index, object)).ok()
    }

    /// Creates an object. `tracked` has the options if the owners of its fields are still to be set.
    pub(super) fn insert(
        &mut self,
        target: &Target<'_>,
        mut object: Value,
        tracked: Option<&Options>,
    ) -> Result<Done, Status> {
        self.check_namespace(target, &object)?;
        let kind = &target.kind;
        if kind.has_status() && kind.plural != "nodes" {
            set_member(&mut object, "status", None);
        }
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            for member in OWN_MEMBERS.iter().chain(&["resourceVersion"]) {
                metadata.remove(*member);
            }
            if tracked.is_some() {
                metadata.remove("managedFields");
            }
        }
        if let (None, Some(prefix)) = (text(&object, "name"), text(&object, "generateName")) {
            let mut end = prefix.len().min(PREFIX);
            while !prefix.is_char_boundary(end) {
                end -= 1;
            }
            let name = [&prefix[..end], &seed::suffix(&mut self.rng)].concat();
            object["metadata"]["name"] = name.into();
        }
        let name = text(&object, "name").unwrap_or_default().to_string();
        self.check(target, &name, None, &mut object)?;
        // The generation of a PriorityClass stays at 1.
        if is_counted(kind) || kind.plural == "priorityclasses" {
            object["metadata"]["generation"] = 1.into();
        }
        self.track(target, None, &mut object, tracked);
        if kind.is_definitions() {
            established::set_status(&mut object);
        } else if kind.is_namespaces() && self.config.requires_namespaces {
            namespace::begin(&mut object);
        }
        if self
            .store
            .current(target.index, &key(target.namespace(), &name))
            .is_some()
        {
            return Err(target.refused(MutationError::AlreadyExists, &name));
        }
        self.commit(target, 201, object, target.is_dry)
    }

    /// Stores a new state of an object.
    pub(super) fn change(
        &mut self,
        target: &Target<'_>,
        name: &str,
        existing: Value,
        mut new: Value,
        tracked: Option<&Options>,
    ) -> Result<Done, Status> {
        if let Some(version) = text(&new, "resourceVersion") {
            if !version.bytes().all(|byte| byte.is_ascii_digit()) {
                let shown = Value::from(version).to_string();
                let message = ["strconv.ParseUint: parsing ", &shown, ": invalid syntax"];
                return Err(Status::new(500, "", message.concat()));
            }
            if existing["metadata"]["resourceVersion"] != version {
                return Err(target.refused(MutationError::Conflict, name));
            }
        }
        let mut problems = Problems::default();
        metadata::check_change(&mut problems, &existing["metadata"], &new["metadata"]);
        if !target.kind.custom {
            problems.0.extend_from_within(..);
        }
        keep_part(&mut new, &existing, target);
        let has_changed_uid = text(&new, "uid") != text(&existing, "uid");
        for member in OWN_MEMBERS {
            new["metadata"][member] = existing["metadata"][member].clone();
        }
        if has_changed_uid || !problems.0.is_empty() {
            problems.of(target, name)?;
        }
        if tracked.is_some() && new["metadata"]["managedFields"] != serde_json::json!([{}]) {
            new["metadata"]["managedFields"] = existing["metadata"]["managedFields"].clone();
        }
        drop_nulls(&mut new["metadata"]);
        self.check(target, name, Some(&existing), &mut new)?;
        let is_counted = is_counted(&target.kind) && target.path.part != Part::Status;
        if is_counted && differs(&existing, &new, &target.kind) {
            let generation = existing["metadata"]["generation"].as_u64().unwrap_or(0);
            new["metadata"]["generation"] = (generation + 1).into();
        }
        self.track(target, Some(&existing), &mut new, tracked);
        let is_finalized = namespace::is_finalized(&target.kind, &new);
        if text(&new, "deletionTimestamp").is_some() && is_finalized {
            if !target.is_dry {
                self.delete_at(target.index, &key(target.namespace(), name));
            }
            return Ok((200, new.to_string().into_bytes()));
        }
        self.commit(target, 200, new, target.is_dry)
    }

    /// Admits and validates an object.
    fn check(
        &mut self,
        target: &Target<'_>,
        name: &str,
        old: Option<&Value>,
        object: &mut Value,
    ) -> Result<(), Status> {
        if let Some(schema) = target.kind.schema() {
            schema::set_defaults(object, schema);
        }
        if target.kind.is_definitions() {
            established::set_defaults(object);
        } else if target.kind.is_secrets() {
            secret::merge_texts(object);
        } else if target.kind.is_namespaces() && self.config.requires_namespaces && old.is_none() {
            namespace::set_label(object);
        }
        if !self.hooks.is_empty() {
            let before = object["metadata"].clone();
            self.hooks.call(Admission {
                operation: if old.is_some() {
                    Operation::Update
                } else {
                    Operation::Create
                },
                resource: target.path.plural,
                group: target.path.group,
                subresource: target.path.part.name(),
                namespace: target.namespace(),
                name,
                object,
                old,
                dry_run: target.is_dry,
            })?;
            // The hook may leave anything.
            *object = target.decode(object.take(), None, &Options::default())?;
            for member in [
                "name",
                "namespace",
                "uid",
                "resourceVersion",
                "creationTimestamp",
            ] {
                object["metadata"][member] = before[member].clone();
            }
            drop_nulls(&mut object["metadata"]);
        }
        let mut problems = metadata::check(&object["metadata"], &target.kind);
        if let Some(schema) = target.kind.schema() {
            schema::validate(object, schema, "", &mut problems);
        }
        if target.kind.is_definitions() {
            established::check(&mut problems, object);
        }
        if let Some(old) = old.filter(|_| target.path.part == Part::Whole) {
            immutable::check(&mut problems, &target.kind, old, object);
        }
        problems.of(target, name)
    }

    fn track(
        &self,
        target: &Target<'_>,
        old: Option<&Value>,
        object: &mut Value,
        tracked: Option<&Options>,
    ) {
        if let Some(options) = tracked {
            let time = self.time();
            let is_untimed = target.path.part == Part::Scale;
            let by = By {
                manager: target.manager(options, false),
                time: if is_untimed { "" } else { &time },
                force: true,
            };
            managers::update(old, object, Type::of(&target.kind), by);
        }
    }

    /// Stores a status that the server itself writes.
    pub(super) fn put_status(&mut self, index: usize, existing: &Value, mut new: Value) {
        let time = self.time();
        let kind = self.store.kind(index);
        let by = By {
            manager: Manager {
                applies: false,
                name: "kube-apiserver".to_string(),
                api_version: kind.api_version(),
                subresource: "status".to_string(),
            },
            time: &time,
            force: true,
        };
        managers::update(Some(existing), &mut new, Type::of(kind), by);
        // The object exists and has its version.
        let _ = self.put_at(index, new, |_| Ok(()));
    }

    /// Stores an object, unless the request is a dry run, and returns the response with it.
    pub(super) fn commit(
        &mut self,
        target: &Target<'_>,
        status: u16,
        object: Value,
        is_dry: bool,
    ) -> Result<Done, Status> {
        let name = text(&object, "name").unwrap_or_default().to_string();
        if is_dry {
            return Ok((status, self.rehearse(target, object, &name)));
        }
        self.put_at(target.index, object, |_| Ok(()))
            .map_err(|error| target.refused(error, &name))?;
        let stored = self
            .store
            .current(target.index, &key(target.namespace(), &name));
        let stored = stored.ok_or_else(|| target.refused(MutationError::NotFound, &name))?;
        Ok((status, self.render(target.index, stored)))
    }

    /// Returns the response to a dry run. An object that does not exist has no version.
    fn rehearse(&mut self, target: &Target<'_>, object: Value, name: &str) -> Vec<u8> {
        let stored = self
            .store
            .current(target.index, &key(target.namespace(), name))
            .cloned();
        let (version, uid, created) = match &stored {
            Some(stored) => (
                stored.version,
                stored.uid.to_string(),
                stored.created.to_string(),
            ),
            None => (0, seed::uuid(&mut self.rng), self.time()),
        };
        let identity = Identity {
            version,
            namespace: target.namespace(),
            name,
            uid: &uid,
            created: &created,
        };
        let mut members = object.as_object().cloned().unwrap_or_default();
        if target.kind.is_new_event() {
            members = event::to_core(members);
        }
        let rendered = self.render(
            target.index,
            &Object::new(&target.kind, &members, &identity),
        );
        if stored.is_some() {
            return rendered;
        }
        let mut object: Value = serde_json::from_slice(&rendered).unwrap_or_default();
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.remove("resourceVersion");
        }
        object.to_string().into_bytes()
    }
}

/// Restores the parts of an object that a request cannot change.
fn keep_part(new: &mut Value, existing: &Value, target: &Target<'_>) {
    if target.kind.is_namespaces() && target.path.part == Part::Whole {
        let own: Vec<&str> = namespace::finalizers(existing).collect();
        namespace::set_finalizers(new, own.into());
    }
    match target.path.part {
        Part::Whole if target.kind.has_status() => {
            set_member(new, "status", existing.get("status").cloned());
        }
        Part::Whole | Part::Scale | Part::Eviction | Part::Binding | Part::Container(_) => {}
        Part::Finalize => {
            let given: Vec<&str> = namespace::finalizers(new).collect();
            let mut namespace = existing.clone();
            namespace::set_finalizers(&mut namespace, given.into());
            *new = namespace;
        }
        Part::Status => {
            let status = new.get("status").cloned();
            let version = new["metadata"]["resourceVersion"].take();
            let uid = new["metadata"]["uid"].take();
            let managed = new["metadata"]["managedFields"].take();
            let mut metadata = new["metadata"].take();
            *new = existing.clone();
            if !target.kind.custom {
                // Built-in kinds accept the metadata, too, except for some members.
                let fixed = match target.path.plural {
                    "deployments" => "labels",
                    _ => "ownerReferences",
                };
                metadata[fixed] = existing["metadata"][fixed].clone();
                new["metadata"] = metadata;
            }
            new["metadata"]["managedFields"] = managed;
            new["metadata"]["uid"] = uid;
            new["metadata"]["resourceVersion"] = version;
            set_member(new, "status", status);
        }
    }
}

fn is_counted(kind: &ResourceType) -> bool {
    kind.custom || COUNTED.contains(&kind.plural.as_str())
}

/// Returns whether two states differ in what `generation` counts.
fn differs(old: &Value, new: &Value, kind: &ResourceType) -> bool {
    let counted = |object: &Value| -> Map<String, Value> {
        let members = object.as_object().into_iter().flatten();
        let is_counted =
            |name: &str| name != "metadata" && !(name == "status" && kind.has_status());
        let counted = members.filter(|(name, _)| is_counted(name));
        counted
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    // Annotations of a Deployment count, since some of them are copied to its ReplicaSets.
    let annotations = |object: &Value| object["metadata"]["annotations"].clone();
    counted(old) != counted(new)
        || kind.plural == "deployments" && !kind.custom && annotations(old) != annotations(new)
}

/// Sets a member, or removes it.
fn set_member(object: &mut Value, name: &str, value: Option<Value>) {
    if let Value::Object(object) = object {
        match value {
            Some(value) => drop(object.insert(name.to_string(), value)),
            None => drop(object.remove(name)),
        }
    }
}

pub(super) fn drop_nulls(metadata: &mut Value) {
    if let Value::Object(metadata) = metadata {
        metadata.retain(|_, value| !value.is_null());
    }
}
