//! Custom resources with their definitions.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use serde_json::Value;

use crate::object::{Definition, Names, ResourceType, ScalePaths};
use crate::server::FakeServer;

/// The reason why a CustomResourceDefinition cannot be used.
#[derive(Clone, PartialEq, Eq)]
pub struct DefinitionError(String);

impl fmt::Display for DefinitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the definition cannot be used: {}", self.0)
    }
}

impl core::error::Error for DefinitionError {}

informer_core::readable_errors!(DefinitionError);

/// # Custom resources
impl FakeServer {
    /// Adds the resource of a CustomResourceDefinition of `apiextensions.k8s.io/v1`, in all versions that are served.
    /// Objects are the same in each; there is no conversion but that of `apiVersion`.
    ///
    /// Its schema is used by [`execute`](Self::execute): unknown fields are pruned, defaults are set, and objects
    /// that it does not allow are refused with 422. `pattern`, rules in CEL (`x-kubernetes-validations`) and formats
    /// other than `date-time` and `int32` are not checked. The subresources `status` and `scale` exist if they are
    /// declared. The definition itself is not stored as an object, unlike one that a client writes.
    ///
    /// ```
    /// use informer_mock::{FakeServer, Instant, Write, json};
    ///
    /// let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": {
    ///     "size": { "type": "integer", "minimum": 1 },
    ///     "mode": { "type": "string", "default": "auto" },
    /// } } } });
    /// let mut server = FakeServer::new(1);
    /// server.add_definition(&json!({ "spec": {
    ///     "group": "example.com", "scope": "Namespaced", "names": { "plural": "gizmos", "kind": "Gizmo" },
    ///     "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
    /// } }))?;
    ///
    /// let mut create = |size: i64| {
    ///     let spec = json!({ "size": size, "typo": 1 });
    ///     let gizmo = json!({ "apiVersion": "example.com/v1", "kind": "Gizmo", "metadata": { "name": "a" }, "spec": spec });
    ///     let body = gizmo.to_string();
    ///     let write = Write {
    ///         method: "POST",
    ///         target: "/apis/example.com/v1/namespaces/prod/gizmos",
    ///         content_type: "application/json",
    ///         body: body.as_bytes(),
    ///     };
    ///     server.execute(Instant::from_micros(0), write).0
    /// };
    /// assert_eq!((create(0), create(1)), (422, 201));
    /// assert_eq!(server.get("gizmos", "prod", "a").unwrap()["spec"], json!({ "mode": "auto", "size": 1 }));
    /// # Ok::<(), informer_mock::DefinitionError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if a name or the storage version is missing, or if the resource exists already.
    pub fn add_definition(&mut self, definition: &Value) -> Result<(), DefinitionError> {
        let kinds = kinds(definition)?;
        for kind in &kinds {
            let is_known = |known: &Arc<ResourceType>| known.is_served && is_same(known, kind);
            if self.store.kinds().any(is_known) {
                let problem = [kind.plural.as_str(), ".", &kind.group, " exists already"].concat();
                return Err(DefinitionError(problem));
            }
        }
        self.define(kinds);
        Ok(())
    }
}

impl FakeServer {
    /// Serves the versions of a custom resource.
    pub(super) fn define(&mut self, kinds: Vec<ResourceType>) {
        let Some(first) = kinds.first() else { return };
        let (group, plural) = (first.group.clone(), first.plural.clone());
        for kind in kinds {
            let same = |known: &Arc<ResourceType>| known.custom && is_same(known, &kind);
            let found = self.store.kinds().position(same);
            if let Some(index) = found {
                *self.store.kind_mut(index) = kind;
                continue;
            }
            let shown = |known: &Arc<ResourceType>| {
                known.custom && (&known.group, &known.plural) == (&group, &plural)
            };
            let found = self.store.kinds().position(shown);
            match found {
                Some(index) => self.store.add_view(kind, index),
                None => self.store.add(kind),
            };
        }
    }

    /// Ends the endpoints of a custom resource and its watches.
    pub(super) fn withdraw(&mut self, group: &str, plural: &str) {
        for index in 0..self.store.kinds().count() {
            let kind = self.store.kind(index);
            if !kind.is_served || !kind.custom || (&*kind.group, &*kind.plural) != (group, plural) {
                continue;
            }
            self.store.kind_mut(index).is_served = false;
            self.end_watches(self.store.stored(index));
        }
    }
}

fn is_same(one: &ResourceType, other: &ResourceType) -> bool {
    (&one.group, &one.version, &one.plural) == (&other.group, &other.version, &other.plural)
}

/// Returns the resources of a definition: its storage version, and the others that are served.
pub(super) fn kinds(definition: &Value) -> Result<Vec<ResourceType>, DefinitionError> {
    let spec = &definition["spec"];
    let text = |place: &str| {
        let value = spec.pointer(place).and_then(Value::as_str);
        value.filter(|text| !text.is_empty()).ok_or_else(|| {
            DefinitionError(["spec", &place.replace('/', "."), " is missing"].concat())
        })
    };
    let namespaced = match text("/scope")? {
        "Namespaced" => true,
        "Cluster" => false,
        other => return Err(DefinitionError(["spec.scope is ", other].concat())),
    };
    let versions = || spec["versions"].as_array().into_iter().flatten();
    let stored = versions().find(|version| version["storage"] == true);
    let stored = stored.ok_or_else(|| {
        DefinitionError("no entry of spec.versions has storage: true".to_string())
    })?;
    let fields = stored["selectableFields"].as_array().into_iter().flatten();
    let selectable: Vec<String> = fields
        .filter_map(|field| path(&field["jsonPath"]))
        .collect();
    let (group, plural, kind) = (
        text("/group")?,
        text("/names/plural")?,
        text("/names/kind")?,
    );
    let words = |member: &str| {
        let words = spec["names"][member].as_array().into_iter().flatten();
        let words = words.filter_map(Value::as_str).map(ToString::to_string);
        words.collect::<Vec<String>>()
    };
    let singular =
        text("/names/singular").map_or_else(|_| kind.to_ascii_lowercase(), ToString::to_string);
    let others =
        versions().filter(|version| version["storage"] != true && version["served"] == true);
    let kinds = [stored].into_iter().chain(others).map(|version| {
        let name = version["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            return Err(DefinitionError("a version has no name".to_string()));
        }
        Ok(ResourceType {
            group: group.to_string(),
            version: name.to_string(),
            plural: plural.to_string(),
            kind: kind.to_string(),
            namespaced,
            custom: true,
            is_served: version["served"] != false,
            names: Names {
                singular: singular.clone(),
                short: words("shortNames"),
                categories: words("categories"),
            },
            parts: &[],
            // All versions have the same objects, and these the fields of one of them.
            selectable: selectable.clone(),
            definition: Some(Arc::new(details(version))),
        })
    });
    kinds.collect()
}

fn details(version: &Value) -> Definition {
    let scale = version.pointer("/subresources/scale").and_then(|scale| {
        Some(ScalePaths {
            spec: path(&scale["specReplicasPath"])?,
            status: path(&scale["statusReplicasPath"])?,
            selector: path(&scale["labelSelectorPath"]),
        })
    });
    Definition {
        schema: version["schema"]["openAPIV3Schema"].clone(),
        has_status: version.pointer("/subresources/status").is_some(),
        scale,
    }
}

/// Returns a path without the dot at its beginning.
fn path(value: &Value) -> Option<String> {
    Some(value.as_str()?.trim_start_matches('.').to_string())
}
