//! The settings that the user of [`Explore`](super::Explore) has passed.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use serde_json::{Value, json};

use super::action::FaultKind;
use super::actors::Actor;
use super::invariants::Invariant;
use super::run::Start;
use super::world::World;
use informer_mock::Config;
use informer_mock::FakeServer;

#[derive(Clone)]
pub(super) struct Spec {
    pub(super) config: Config,
    pub(super) setups: Vec<Setup>,
    pub(super) objects: Vec<Objects>,
    /// Resources whose objects a person edits.
    pub(super) edited: Vec<String>,
    pub(super) actors: Vec<Actor>,
    pub(super) replicas: usize,
    /// The program that runs before an upgrade.
    pub(super) old: Option<Arc<Start>>,
    pub(super) faults: Vec<FaultKind>,
    /// Those that were asked for by name.
    pub(super) named: Vec<FaultKind>,
    /// Whether worlds spare what kube-runtime cannot bear.
    pub(super) spares_kube: bool,
    pub(super) checks: Vec<Check>,
    pub(super) invariants: Vec<Invariant>,
    /// Resources and paths that are not compared with runs without faults.
    pub(super) masks: Vec<(String, String)>,
    pub(super) steps: usize,
    pub(super) patience: Duration,
    pub(super) settle: Duration,
}

type Setup = Arc<dyn Fn(&mut FakeServer) + Send + Sync>;
type Test = Arc<dyn Fn(&World) -> Result<(), String> + Send + Sync>;

/// A condition of the world.
#[derive(Clone)]
pub(super) struct Check {
    pub(super) name: String,
    /// Whether it holds after every change, and not only in the end.
    pub(super) always: bool,
    pub(super) test: Test,
}

impl Spec {
    /// Returns the number of objects that users change.
    pub(super) fn slots(&self) -> usize {
        self.objects.iter().map(|objects| objects.names.len()).sum()
    }

    /// Returns the objects that a slot belongs to.
    pub(super) fn objects_of(&self, slot: usize) -> &Objects {
        self.find(slot).0
    }

    /// Returns the index of the objects that a slot belongs to.
    pub(super) fn index_of(&self, mut slot: usize) -> usize {
        let holds = |objects: &Objects| match slot.checked_sub(objects.names.len()) {
            Some(rest) => {
                slot = rest;
                false
            }
            None => true,
        };
        self.objects.iter().position(holds).unwrap_or(0)
    }

    /// Returns the objects and the name of a slot.
    pub(super) fn find(&self, mut slot: usize) -> (&Objects, &str) {
        for objects in &self.objects {
            match objects.names.get(slot) {
                Some(name) => return (objects, name),
                None => slot -= objects.names.len(),
            }
        }
        unreachable!("a plan uses the slots of its specification")
    }

    pub(super) fn has(&self, kind: FaultKind) -> bool {
        self.faults.contains(&kind)
    }

    /// Creates the Namespaces of the objects that users write.
    pub(super) fn add_namespaces(&self, server: &mut FakeServer) {
        let namespaces = self
            .objects
            .iter()
            .map(|one| &one.object["metadata"]["namespace"]);
        for namespace in namespaces.filter(|namespace| namespace.is_string()) {
            // It exists if a setup or another object is in it.
            let _ = server.create("namespaces", json!({ "metadata": { "name": namespace } }));
        }
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spec")
            .field("objects", &self.objects)
            .field("faults", &self.faults)
            .finish_non_exhaustive()
    }
}

/// Objects of one resource that users create, change and delete.
///
/// ```
/// use informer_explore::Objects;
/// use informer_mock::json;
///
/// let maps = json!({ "metadata": { "namespace": "prod", "labels": { "made": "by-a-user" } }, "data": { "size": "1" } });
/// Objects::new("configmaps", maps)
///     .names(["a", "b", "c"])
///     .changed(json!({ "data": { "size": "2" } }))
///     .changed(json!({ "data": null }));
/// ```
#[derive(Clone, Debug)]
pub struct Objects {
    pub(super) resource: String,
    pub(super) object: Value,
    pub(super) names: Vec<String>,
    pub(super) variants: Vec<Value>,
    pub(super) deletes: bool,
}

impl Objects {
    /// Describes objects of a resource, which is named as in kubectl. They exist under the names `a` and `b` at times,
    /// or under those that [`names`](Self::names) sets.
    #[must_use]
    pub fn new(resource: &str, object: Value) -> Self {
        Self {
            resource: resource.to_owned(),
            object,
            names: ["a".to_owned(), "b".to_owned()].into(),
            variants: Vec::new(),
            deletes: true,
        }
    }

    /// Sets the names.
    #[must_use]
    pub fn names<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        Self { names, ..self }
    }

    /// Adds a change that users make: a merge patch of the object.
    #[must_use]
    pub fn changed(mut self, patch: Value) -> Self {
        self.variants.push(patch);
        self
    }

    /// Sets that users never delete these objects.
    #[must_use]
    pub fn kept(self) -> Self {
        Self {
            deletes: false,
            ..self
        }
    }

    /// Returns the object with a name, in a variant; the first is the object as given.
    pub(super) fn make(&self, name: &str, variant: usize) -> Value {
        // Without the members that are null, which say what a change removes.
        let mut object = Value::Object(serde_json::Map::new());
        merge(&mut object, &self.object);
        if let Some(patch) = variant.checked_sub(1).and_then(|at| self.variants.get(at)) {
            merge(&mut object, patch);
        }
        object["metadata"]["name"] = name.into();
        object
    }
}

impl Objects {
    /// Returns the merge patch that changes an object to a variant.
    pub(super) fn change(&self, variant: usize) -> Value {
        let mut change = self.object.clone();
        if let Some(patch) = variant.checked_sub(1).and_then(|at| self.variants.get(at)) {
            overlay(&mut change, patch);
        }
        change
    }
}

/// Merges two patches into one that has the effect of both.
fn overlay(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                overlay(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch.clone(),
    }
}

/// Merges as defined by RFC 7386.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    for (key, value) in patch {
        match target.as_object_mut() {
            Some(target) if value.is_null() => drop(target.remove(key)),
            _ => merge(&mut target[key.as_str()], value),
        }
    }
}
