//! The life of Namespaces: objects are created only in those that exist and are not being deleted, and are deleted with
//! them.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Value, json};

use super::target::{Target, text};
use crate::object::ResourceType;
use crate::server::FakeServer;
use crate::status::Status;

/// The finalizer in the spec of a Namespace, for the deletion of its objects.
const FINALIZER: &str = "kubernetes";

/// The Namespaces of a new cluster. The last may be deleted.
const FIRST: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

impl ResourceType {
    /// Returns whether its objects are Namespaces.
    pub(super) fn is_namespaces(&self) -> bool {
        !self.custom && self.group.is_empty() && self.plural == "namespaces"
    }
}

impl FakeServer {
    /// Creates the Namespaces of a new cluster.
    pub(in crate::server) fn create_namespaces(&mut self) {
        for name in FIRST {
            let mut namespace = json!({ "metadata": { "name": name } });
            set_label(&mut namespace);
            begin(&mut namespace);
            // Nothing else exists yet.
            let _ = self.create("namespaces", namespace);
        }
    }

    /// Checks that an object may be created in its Namespace.
    pub(super) fn check_namespace(
        &self,
        target: &Target<'_>,
        object: &Value,
    ) -> Result<(), Status> {
        let namespace = target.namespace();
        if namespace.is_empty() {
            return Ok(());
        }
        let found = self.namespaces();
        let found = found.and_then(|index| self.value_at(index, namespace));
        let Some(found) = found else {
            return match self.config.requires_namespaces {
                true => Err(Status::no_such_object("", "namespaces", namespace)),
                false => Ok(()),
            };
        };
        if text(&found, "deletionTimestamp").is_none() {
            return Ok(());
        }
        let name = text(object, "name").or_else(|| text(object, "generateName"));
        let problem = [
            "unable to create new content in namespace ",
            namespace,
            " because it is being terminated",
        ];
        let message = ["namespace ", namespace, " is being terminated"].concat();
        let causes = json!([{
            "reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace",
        }]);
        Err(target.forbidden(name.unwrap_or_default(), &problem.concat(), Some(causes)))
    }

    /// Refuses the deletion of a Namespace that the cluster needs.
    pub(super) fn check_deletion(&self, target: &Target<'_>, name: &str) -> Result<(), Status> {
        let is_needed = target.kind.is_namespaces() && FIRST[..3].contains(&name);
        if is_needed && self.config.requires_namespaces {
            let problem = "this namespace may not be deleted";
            return Err(target.forbidden(name, problem, None));
        }
        Ok(())
    }

    /// Deletes the objects of the Namespaces that are being deleted, and those that are empty, as the controller of
    /// Namespaces does.
    pub(super) fn settle_namespaces(&mut self) {
        let Some(index) = self.namespaces() else {
            return;
        };
        for name in self.deleted(index) {
            let finalized = |object: &Value| finalizers(object).any(|own| own == FINALIZER);
            if !self
                .value_at(index, &name)
                .is_some_and(|object| finalized(&object))
            {
                continue;
            }
            let prefix = [&name, "/"].concat();
            let mut is_empty = true;
            for resource in 0..self.store.kinds().count() {
                if self.store.kind(resource).namespaced && self.store.stored(resource) == resource {
                    self.delete_all(resource, &prefix);
                    let mut left = self.store.at(resource, self.store.version, &prefix, None);
                    is_empty &= left.next().is_none();
                }
            }
            let Some(mut namespace) = self.value_at(index, &name).filter(|_| is_empty) else {
                continue;
            };
            let left: Vec<String> = finalizers(&namespace)
                .filter(|own| *own != FINALIZER)
                .map(ToString::to_string)
                .collect();
            set_finalizers(&mut namespace, left.into());
            self.put_or_delete(index, &name, namespace);
        }
    }

    fn namespaces(&self) -> Option<usize> {
        self.store.kinds().position(|kind| kind.is_namespaces())
    }
}

/// Sets the label of a new Namespace with its name.
pub(super) fn set_label(namespace: &mut Value) {
    let name = text(namespace, "name").unwrap_or_default().to_string();
    if !name.is_empty() {
        namespace["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
    }
}

/// Sets the finalizer and the phase of a new Namespace. Nobody owns these fields.
pub(super) fn begin(namespace: &mut Value) {
    if !finalizers(namespace).any(|own| own == FINALIZER) {
        let mut all: Vec<&str> = finalizers(namespace).collect();
        all.push(FINALIZER);
        let all = json!(all);
        set_finalizers(namespace, all);
    }
    namespace["status"] = json!({ "phase": "Active" });
}

/// Returns whether nothing keeps an object that is being deleted.
pub(super) fn is_finalized(kind: &ResourceType, object: &Value) -> bool {
    let own = object["metadata"]["finalizers"].as_array();
    let is_kept = kind.is_namespaces() && finalizers(object).next().is_some();
    // A Pod that a kubelet has not ended yet.
    let grace = object["metadata"]["deletionGracePeriodSeconds"].as_u64();
    own.is_none_or(Vec::is_empty) && !is_kept && grace.is_none_or(|grace| grace == 0)
}

/// Returns the finalizers in the spec of a Namespace.
pub(super) fn finalizers(namespace: &Value) -> impl Iterator<Item = &str> {
    let finalizers = namespace["spec"]["finalizers"].as_array();
    finalizers.into_iter().flatten().filter_map(Value::as_str)
}

/// Sets the finalizers in the spec of a Namespace.
pub(super) fn set_finalizers(namespace: &mut Value, finalizers: Value) {
    let is_none = finalizers.as_array().is_none_or(Vec::is_empty);
    if let (true, Value::Object(spec)) = (is_none, &mut namespace["spec"]) {
        spec.remove("finalizers");
    } else if !is_none {
        namespace["spec"]["finalizers"] = finalizers;
    }
}
