//! The garbage collector.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde_json::Value;

use super::metadata::{FOREGROUND, ORPHAN};
use super::namespace::is_finalized;
use super::options::Propagation;
use super::target::text;
use crate::object::Object;
use crate::server::FakeServer;
use crate::store::key;

/// The state of an owner of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    There,
    Gone,
    /// It is being deleted in the foreground.
    Waiting,
}

/// # Garbage collection
///
/// After each write by [`execute`](FakeServer::execute), the objects without an owner are deleted, as by the
/// garbage collector of kube-controller-manager: in the background, in the foreground, or not at all, as the request or
/// the finalizers of the owner demand. All of it happens at the same instant, after the response, and each change is an
/// event with its own version. [`Config::collects_garbage`](crate::Config::collects_garbage) disables it.
impl FakeServer {
    /// Deletes all objects whose owners no longer exist, and those of deleted Namespaces. It is necessary only after
    /// deletions by [`delete`](Self::delete) and its siblings, which collect nothing, and without
    /// [`Config::collects_garbage`](crate::Config::collects_garbage).
    ///
    /// ```
    /// use informer_mock::{FakeServer, json};
    ///
    /// let mut server = FakeServer::new(1);
    /// server.create("replicasets", json!({ "metadata": { "name": "web" } }))?;
    /// let owner = json!({
    ///     "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
    ///     "uid": server.get("replicasets", "default", "web").unwrap()["metadata"]["uid"],
    /// });
    /// server.create("pods", json!({ "metadata": { "name": "web-1", "ownerReferences": [owner] } }))?;
    /// server.collect_garbage();
    /// assert!(server.get("pods", "default", "web-1").is_some());
    ///
    /// server.delete("replicasets", "default", "web")?;
    /// server.collect_garbage();
    /// assert!(server.get("pods", "default", "web-1").is_none());
    /// # Ok::<(), informer_mock::MutationError>(())
    /// ```
    pub fn collect_garbage(&mut self) {
        let since = self.store.version;
        for index in 0..self.store.kinds().count() {
            if self.store.stored(index) == index {
                for key in self.deleted(index) {
                    self.after_change(index, &key);
                }
            }
        }
        for (index, key) in self.store.dependents() {
            self.reconsider(index, &key);
        }
        self.settle(since);
    }

    /// Does what the garbage collector and the controller of Namespaces do after the changes since a version.
    pub(super) fn settle(&mut self, mut since: u64) {
        loop {
            self.settle_namespaces();
            self.collect_garbage_since(since);
            since = self.store.version;
            // The collector may have deleted a Namespace.
            self.settle_namespaces();
            if self.store.version == since {
                return;
            }
        }
    }

    /// Reacts to all changes after a version, including those that follow from them.
    fn collect_garbage_since(&mut self, mut since: u64) {
        while since < self.store.version {
            let entries = self.store.events_after(since);
            let entries: Vec<_> = entries
                .map(|entry| (entry.resource, entry.before.clone(), entry.after.clone()))
                .collect();
            since = self.store.version;
            for (index, before, after) in entries {
                match (before, after) {
                    (_, Some(object)) => {
                        let key = key(&object.namespace, &object.name);
                        self.after_change(index, &key);
                    }
                    (Some(object), None) => self.after_deletion(&object),
                    (None, None) => {}
                }
            }
        }
    }

    fn after_change(&mut self, index: usize, key: &str) {
        let Some(mut current) = self.value_at(index, key) else {
            return;
        };
        let uid = text(&current, "uid").unwrap_or_default().to_string();
        if is_deleted_with(&current, ORPHAN) {
            for (index, key) in self.store.dependents_of(&uid) {
                self.release(index, &key, |own| own == uid);
            }
            drop_finalizer(&mut current, ORPHAN);
            self.put_or_delete(index, key, current);
        } else if is_deleted_with(&current, FOREGROUND) {
            for (index, key) in self.store.dependents_of(&uid) {
                self.reconsider(index, &key);
            }
            self.finish_foreground(index, key);
        }
        self.reconsider(index, key);
    }

    fn after_deletion(&mut self, object: &Object) {
        for (index, key) in self.store.dependents_of(&object.uid) {
            self.reconsider(index, &key);
        }
        let json = [b"{".as_slice(), &object.body, b"}"].concat();
        let json: Value = serde_json::from_slice(&json).unwrap_or_default();
        for reference in owners(&json) {
            if let Some((index, key)) = self.locate(reference, &object.namespace) {
                self.finish_foreground(index, &key);
            }
        }
    }

    /// Deletes an object that has no owner any more.
    fn reconsider(&mut self, index: usize, key: &str) {
        let Some(object) = self.value_at(index, key) else {
            return;
        };
        if object["metadata"]["deletionTimestamp"].is_string() {
            return;
        }
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let states: Vec<(Owner, String)> = owners(&object)
            .map(|reference| {
                let uid = reference["uid"].as_str().unwrap_or_default();
                (self.owner(reference, namespace), uid.to_string())
            })
            .collect();
        let any = |wanted: Owner| states.iter().any(|(state, _)| *state == wanted);
        if states.is_empty() {
            return;
        }
        if any(Owner::There) {
            if any(Owner::Gone) || any(Owner::Waiting) {
                let is_gone = |uid: &str| {
                    states
                        .iter()
                        .any(|(state, own)| *state != Owner::There && own == uid)
                };
                self.release(index, key, is_gone);
            }
            return;
        }
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        let propagation = if any(Owner::Waiting) && !self.store.dependents_of(uid).is_empty() {
            Some(Propagation::Foreground)
        } else {
            let has = |name: &str| has_finalizer(&object, name);
            (!has(ORPHAN) && !has(FOREGROUND)).then_some(Propagation::Background)
        };
        self.delete_or_mark(index, key, object, propagation);
    }

    /// Removes references to owners.
    fn release(&mut self, index: usize, key: &str, is_gone: impl Fn(&str) -> bool) {
        let Some(mut object) = self.value_at(index, key) else {
            return;
        };
        if let Some(Value::Array(references)) = object.pointer_mut("/metadata/ownerReferences") {
            references.retain(|reference| !reference["uid"].as_str().is_some_and(&is_gone));
        }
        let metadata = &mut object["metadata"];
        if metadata["ownerReferences"] == Value::Array(Vec::new())
            && let Value::Object(metadata) = metadata
        {
            metadata.remove("ownerReferences");
        }
        self.put_or_delete(index, key, object);
    }

    /// Ends a deletion in the foreground, unless dependents still block it.
    fn finish_foreground(&mut self, index: usize, key: &str) {
        let Some(mut object) = self.value_at(index, key) else {
            return;
        };
        if !is_deleted_with(&object, FOREGROUND) {
            return;
        }
        let uid = object["metadata"]["uid"]
            .as_str()
            .unwrap_or_default()
            .to_string();
        let blocks = |(index, key): &(usize, Arc<str>)| {
            let Some(dependent) = self.value_at(*index, key) else {
                return false;
            };
            let blocking = owners(&dependent)
                .any(|own| own["uid"] == uid.as_str() && own["blockOwnerDeletion"] == true);
            // Two objects that own each other do not wait for each other.
            let is_owner = owners(&object).any(|own| own["uid"] == dependent["metadata"]["uid"]);
            blocking && !(is_owner && is_deleted_with(&dependent, FOREGROUND))
        };
        if self.store.dependents_of(&uid).iter().any(blocks) {
            return;
        }
        drop_finalizer(&mut object, FOREGROUND);
        self.put_or_delete(index, key, object);
    }

    /// Finds the owner of an object by its kind and name.
    fn locate(&self, reference: &Value, namespace: &str) -> Option<(usize, String)> {
        let api_version = reference["apiVersion"].as_str().unwrap_or_default();
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let index = self.store.kinds().position(|kind| {
            kind.is_served && kind.group == group && reference["kind"] == kind.kind.as_str()
        })?;
        let namespace = if self.store.kind(index).namespaced {
            namespace
        } else {
            ""
        };
        let name = reference["name"].as_str().unwrap_or_default();
        Some((index, key(namespace, name)))
    }

    fn owner(&self, reference: &Value, namespace: &str) -> Owner {
        let Some((index, key)) = self.locate(reference, namespace) else {
            // The collector leaves the dependents of kinds that it does not know.
            return Owner::There;
        };
        let found = self.store.current(index, &key);
        if found.is_none_or(|owner| reference["uid"] != *owner.uid) {
            return Owner::Gone;
        }
        let is_waiting = self
            .value_at(index, &key)
            .is_some_and(|owner| is_deleted_with(&owner, FOREGROUND));
        if is_waiting {
            Owner::Waiting
        } else {
            Owner::There
        }
    }

    /// Removes a finalizer of an object that is being deleted.
    pub(super) fn finish(&mut self, index: usize, key: &str, mut object: Value, finalizer: &str) {
        drop_finalizer(&mut object, finalizer);
        self.put_or_delete(index, key, object);
    }

    pub(super) fn put_or_delete(&mut self, index: usize, key: &str, object: Value) {
        let is_done = is_finalized(self.store.kind(index), &object);
        if is_done && object["metadata"]["deletionTimestamp"].is_string() {
            self.delete_at(index, key);
        } else {
            // The object exists and has its version.
            let _ = self.put_at(index, object, |_| Ok(()));
        }
    }
}

fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
}

fn has_finalizer(object: &Value, name: &str) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|finalizers| finalizers.iter().any(|own| own == name))
}

fn is_deleted_with(object: &Value, finalizer: &str) -> bool {
    object["metadata"]["deletionTimestamp"].is_string() && has_finalizer(object, finalizer)
}

fn drop_finalizer(object: &mut Value, name: &str) {
    if let Some(Value::Array(finalizers)) = object.pointer_mut("/metadata/finalizers") {
        finalizers.retain(|own| own != name);
    }
}
