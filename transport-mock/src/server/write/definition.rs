//! Custom resources with their definitions.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use serde_json::Value;

use crate::object::{Definition, ResourceType, ScalePaths};
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
    /// Adds the resource of a CustomResourceDefinition of `apiextensions.k8s.io/v1`, in its storage version.
    ///
    /// Its schema is used by [`execute`](Self::execute): unknown fields are pruned, defaults are set, and objects
    /// that it does not allow are refused with 422. `pattern`, rules in CEL (`x-kubernetes-validations`) and formats
    /// other than `date-time` and `int32` are not checked. The subresources `status` and `scale` exist if they are
    /// declared. The definition itself is not stored as an object.
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
        let mut versions = spec["versions"].as_array().into_iter().flatten();
        let version = versions.find(|version| version["storage"] == true);
        let version = version.ok_or_else(|| {
            DefinitionError("no entry of spec.versions has storage: true".to_string())
        })?;
        let name = version["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            return Err(DefinitionError("a version has no name".to_string()));
        }
        let path = |value: &Value| Some(value.as_str()?.trim_start_matches('.').to_string());
        let scale = version.pointer("/subresources/scale").and_then(|scale| {
            Some(ScalePaths {
                spec: path(&scale["specReplicasPath"])?,
                status: path(&scale["statusReplicasPath"])?,
                selector: path(&scale["labelSelectorPath"]),
            })
        });
        let fields = version["selectableFields"].as_array().into_iter().flatten();
        let selectable: Vec<String> = fields
            .filter_map(|field| path(&field["jsonPath"]))
            .collect();
        let kind = ResourceType {
            group: text("/group")?.to_string(),
            version: name.to_string(),
            plural: text("/names/plural")?.to_string(),
            kind: text("/names/kind")?.to_string(),
            namespaced,
            custom: true,
            selectable,
            definition: Some(Arc::new(Definition {
                schema: version["schema"]["openAPIV3Schema"].clone(),
                has_status: version.pointer("/subresources/status").is_some(),
                scale,
            })),
        };
        let is_known = |known: &Arc<ResourceType>| {
            (&known.group, &known.version, &known.plural)
                == (&kind.group, &kind.version, &kind.plural)
        };
        if self.store.kinds().any(is_known) {
            let problem = [kind.plural.as_str(), ".", &kind.group, " exists already"].concat();
            return Err(DefinitionError(problem));
        }
        self.store.add(kind);
        Ok(())
    }
}
