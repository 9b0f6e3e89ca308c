//! How the values of an object are merged: as a whole, member by member, or item by item.
//!
//! Built-in kinds are described by the tables of their protobuf messages and by the two tables here, custom resources
//! by their schema. Strategic merge patches, server-side apply and `managedFields` use the same description.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::field_set::Element;
use crate::object::ResourceType;
use crate::protobuf::schema::{self, Field, Kind, Shape};

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Type<'a> {
    /// Replaced as a whole.
    Whole,
    /// Unknown, so objects are merged and lists are replaced.
    Deduced,
    /// A struct of Go, with the name of the field that holds it.
    Struct(&'static [Field], &'static str),
    /// A struct of Go that is never absent, since it is not a pointer.
    Present(&'static [Field], &'static str),
    /// A map of Go.
    Map(Kind),
    /// A list of Go.
    List(Kind, &'static str, Option<&'static ListRow>),
    /// An object with a schema, at the root of a custom resource.
    Custom(Option<&'a Value>),
    /// A value with a schema.
    Schema(&'a Value),
}

/// How a list is merged.
#[derive(Clone, Copy, Debug)]
pub(super) enum Merging<'a> {
    /// It is replaced as a whole.
    Whole,
    /// Its items are their own keys.
    Set,
    /// Its items have keys.
    Keys(Keys<'a>),
}

/// The members that identify an item of a list.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keys<'a> {
    Table(&'static [&'static str]),
    Schema(&'a Value),
}

/// A list of a built-in kind that is not always replaced.
#[derive(Debug)]
pub(super) struct ListRow {
    /// The fields that hold the struct with the list; empty for any.
    parents: &'static [&'static str],
    name: &'static str,
    /// The keys for server-side apply; `None` if it replaces the list, and no keys for a set.
    apply: Option<&'static [&'static str]>,
    /// The key for strategic merge patches; `None` if they replace the list, and empty for a list of scalars.
    pub(super) patch: Option<&'static str>,
}

const fn list(
    parents: &'static [&'static str],
    name: &'static str,
    apply: Option<&'static [&'static str]>,
    patch: Option<&'static str>,
) -> ListRow {
    ListRow {
        parents,
        name,
        apply,
        patch,
    }
}

const CONTAINERS: &[&str] = &["containers", "initContainers", "ephemeralContainers"];

/// The lists of Kubernetes 1.36 with `x-kubernetes-list-type` or `x-kubernetes-patch-strategy`.
#[rustfmt::skip]
const LISTS: &[ListRow] = &[
    list(&["metadata"], "finalizers", Some(&[]), Some("")),
    list(&["metadata"], "ownerReferences", Some(&["uid"]), Some("uid")),
    list(&["spec"], "containers", Some(&["name"]), Some("name")),
    list(&["spec"], "initContainers", Some(&["name"]), Some("name")),
    list(&["spec"], "ephemeralContainers", Some(&["name"]), Some("name")),
    list(CONTAINERS, "env", Some(&["name"]), Some("name")),
    list(CONTAINERS, "ports", Some(&["containerPort", "protocol"]), Some("containerPort")),
    list(CONTAINERS, "volumeMounts", Some(&["mountPath"]), Some("mountPath")),
    list(CONTAINERS, "volumeDevices", Some(&["devicePath"]), Some("devicePath")),
    list(&["resources"], "claims", Some(&["name"]), None),
    list(&["exitCodes", "onExitCodes"], "values", Some(&[]), None),
    list(&["spec"], "volumes", Some(&["name"]), Some("name")),
    list(&["spec"], "hostAliases", Some(&["ip"]), Some("ip")),
    list(&["spec", ""], "imagePullSecrets", Some(&["name"]), Some("name")),
    list(&["spec"], "resourceClaims", Some(&["name"]), Some("name")),
    list(&["spec"], "schedulingGates", Some(&["name"]), Some("name")),
    list(&["spec"], "topologySpreadConstraints", Some(&["topologyKey", "whenUnsatisfiable"]), Some("topologyKey")),
    list(&["status"], "podIPs", Some(&["ip"]), Some("ip")),
    list(&["status"], "hostIPs", None, Some("ip")),
    list(&["status"], "resourceClaimStatuses", Some(&["name"]), Some("name")),
    list(&[], "allocatedResourcesStatus", Some(&["name"]), Some("name")),
    list(&["allocatedResourcesStatus"], "resources", Some(&["resourceID"]), None),
    list(&["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"], "volumeMounts", Some(&["mountPath"]), Some("mountPath")),
    list(&["status"], "conditions", Some(&["type"]), Some("type")),
    list(&["status"], "addresses", Some(&["type"]), Some("type")),
    list(&["endpoints"], "addresses", Some(&[]), None),
    list(&["spec"], "podCIDRs", Some(&[]), Some("")),
    list(&["spec"], "ports", Some(&["port", "protocol"]), Some("port")),
    list(&[""], "secrets", Some(&["name"]), Some("name")),
    list(&["uncountedTerminatedPods"], "succeeded", Some(&[]), None),
    list(&["uncountedTerminatedPods"], "failed", Some(&[]), None),
    list(&[""], "webhooks", Some(&["name"]), Some("name")),
    list(&[], "matchConditions", Some(&["name"]), Some("name")),
    list(&["spec"], "auditAnnotations", Some(&["key"]), Some("key")),
    list(&["spec"], "variables", Some(&["name"]), Some("name")),
    list(&["spec"], "validationActions", Some(&[]), None),
];

/// The structs and maps with `x-kubernetes-map-type: atomic`, by the field that holds them.
const WHOLE: &[&str] = &[
    "claimRef",
    "clusterRoleSelectors",
    "configMapKeyRef",
    "controllerExpandSecretRef",
    "controllerPublishSecretRef",
    "dataSource",
    "fieldRef",
    "fileKeyRef",
    "imagePullSecrets",
    "involvedObject",
    "labelSelector",
    "matchConstraints",
    "matchResources",
    "namespaceSelector",
    "nodeExpandSecretRef",
    "nodePublishSecretRef",
    "nodeSelector",
    "nodeStageSecretRef",
    "objectSelector",
    "ownerReferences",
    "paramKind",
    "paramRef",
    "podSelector",
    "port",
    "preference",
    "regarding",
    "related",
    "required",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "resource",
    "resourceFieldRef",
    "roleRef",
    "scopeSelector",
    "secretKeyRef",
    "secretRef",
    "secrets",
    "selector",
    "subjects",
    "targetRef",
];

impl<'a> Type<'a> {
    /// Returns the type of the objects of a resource.
    pub(super) fn of(kind: &'a ResourceType) -> Self {
        if kind.custom {
            return Type::Custom(kind.schema());
        }
        match schema::find(&kind.api_version(), &kind.kind) {
            Some(Kind::Message(fields)) => Type::Struct(fields, ""),
            _ => Type::Deduced,
        }
    }

    fn field(field: &Field, parent: &str) -> Self {
        let whole = WHOLE.contains(&field.name);
        match (field.shape, field.kind) {
            (Shape::Repeated, kind) => Type::List(kind, field.name, row(parent, field.name)),
            (Shape::Map, _) if whole => Type::Whole,
            (Shape::Map, kind) => Type::Map(kind),
            (_, Kind::Message(_)) if whole => Type::Whole,
            (Shape::Required, Kind::Message(fields)) => Type::Present(fields, field.name),
            (_, Kind::Message(fields)) => Type::Struct(fields, field.name),
            _ => Type::Whole,
        }
    }

    /// Returns whether Go writes the value even if it is empty, so that nobody adds it.
    pub(super) fn is_always_there(self) -> bool {
        matches!(self, Type::Present(..) | Type::List(_, "containers", _))
    }

    /// Returns the type of a member, and whether the member is a field with a name in the type.
    pub(super) fn member(self, name: &str) -> (Self, bool) {
        match self {
            Type::Struct(fields, parent) | Type::Present(fields, parent) => {
                match find(fields, name) {
                    Some(field) => (Self::field(field, parent), true),
                    None => (Type::Deduced, false),
                }
            }
            Type::Map(Kind::Message(fields)) => (Type::Struct(fields, ""), false),
            Type::Map(_) => (Type::Whole, false),
            Type::Custom(_) if name == "metadata" => (metadata(), true),
            Type::Custom(_) if name == "apiVersion" || name == "kind" => (Type::Whole, true),
            Type::Custom(Some(schema)) | Type::Schema(schema) => {
                if let Some(property) = schema.get("properties").and_then(|all| all.get(name)) {
                    return (Type::Schema(property), true);
                }
                match schema.get("additionalProperties") {
                    Some(value @ Value::Object(_)) => (Type::Schema(value), false),
                    _ => (Type::Deduced, false),
                }
            }
            Type::Whole | Type::Deduced | Type::List(..) | Type::Custom(None) => {
                (Type::Deduced, false)
            }
        }
    }

    /// Returns whether an object is merged member by member.
    pub(super) fn merges_members(self) -> bool {
        match self {
            Type::Whole | Type::List(..) => false,
            Type::Deduced
            | Type::Struct(..)
            | Type::Present(..)
            | Type::Map(_)
            | Type::Custom(_) => true,
            Type::Schema(schema) => schema["x-kubernetes-map-type"] != "atomic",
        }
    }

    /// Returns how server-side apply merges a list, and the type of its items.
    pub(super) fn items(self) -> (Merging<'a>, Self) {
        match self {
            Type::List(kind, name, row) => {
                let merging = match row.and_then(|row| row.apply) {
                    None => Merging::Whole,
                    Some([]) => Merging::Set,
                    Some(keys) => Merging::Keys(Keys::Table(keys)),
                };
                (merging, item(kind, name))
            }
            Type::Schema(schema) => {
                let merging = match schema["x-kubernetes-list-type"].as_str() {
                    Some("set") => Merging::Set,
                    Some("map") => {
                        Merging::Keys(Keys::Schema(&schema["x-kubernetes-list-map-keys"]))
                    }
                    _ => Merging::Whole,
                };
                (merging, Type::Schema(&schema["items"]))
            }
            Type::Whole
            | Type::Deduced
            | Type::Struct(..)
            | Type::Present(..)
            | Type::Map(_)
            | Type::Custom(_) => (Merging::Whole, Type::Deduced),
        }
    }

    /// Returns the key by which a strategic merge patch merges a list, and the type of its items.
    pub(super) fn patched_items(self) -> (Option<&'static str>, Self) {
        match self {
            Type::List(kind, name, row) => {
                let is_plain = !matches!(kind, Kind::Message(_));
                let key = row.and_then(|row| row.patch);
                let key = key.filter(|key| key.is_empty() == is_plain);
                // Items that server-side apply replaces are merged all the same.
                let item = if let Kind::Message(fields) = kind {
                    Type::Struct(fields, name)
                } else {
                    Type::Whole
                };
                (key, item)
            }
            Type::Whole
            | Type::Deduced
            | Type::Struct(..)
            | Type::Present(..)
            | Type::Map(_)
            | Type::Custom(_)
            | Type::Schema(_) => (None, Type::Deduced),
        }
    }
}

impl Merging<'_> {
    /// Returns the path element of an item. `None` if it lacks a key.
    pub(super) fn element(self, item: &Value) -> Option<Element> {
        match self {
            Merging::Whole => None,
            Merging::Set => Some(Element::Value(item.to_string())),
            Merging::Keys(keys) => {
                let mut found = Map::new();
                for key in keys.names() {
                    let value = match item.get(&key) {
                        Some(value) => value.clone(),
                        // The only key with a default in the built-in kinds.
                        None if key == "protocol" => "TCP".into(),
                        None => continue,
                    };
                    found.insert(key, value);
                }
                (!found.is_empty()).then(|| Element::Key(Value::Object(found).to_string()))
            }
        }
    }
}

impl Keys<'_> {
    pub(super) fn names(self) -> Vec<String> {
        match self {
            Keys::Table(names) => names.iter().map(ToString::to_string).collect(),
            Keys::Schema(names) => names
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(ToString::to_string)
                .collect(),
        }
    }
}

/// Returns the type of the metadata of every object.
pub(super) fn metadata() -> Type<'static> {
    match schema::find("meta.k8s.io/v1", "PartialObjectMetadata") {
        Some(Kind::Message(fields)) => Type::Struct(fields, "").member("metadata").0,
        _ => Type::Deduced,
    }
}

/// Finds a field, also in structs that are embedded.
pub(super) fn find(fields: &'static [Field], name: &str) -> Option<&'static Field> {
    fields.iter().find_map(|field| {
        if let (Kind::Message(inner), true) = (field.kind, field.is_inline()) {
            return find(inner, name);
        }
        (field.name == name).then_some(field)
    })
}

fn row(parent: &str, name: &str) -> Option<&'static ListRow> {
    LISTS
        .iter()
        .find(|row| row.name == name && (row.parents.is_empty() || row.parents.contains(&parent)))
}

fn item(kind: Kind, name: &'static str) -> Type<'static> {
    if let (Kind::Message(fields), false) = (kind, WHOLE.contains(&name)) {
        Type::Struct(fields, name)
    } else {
        Type::Whole
    }
}
