//! Fields of built-in kinds that cannot change, with the messages of the API server.
//!
//! The mock sets no defaults, so a field that is absent counts as its default.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use serde_json::Value;

use super::problems::Problems;
use crate::object::ResourceType;

const IMMUTABLE: &str = "field is immutable";

/// Fields that are refused with their new value: the resource, the JSON pointer, and the default.
const FIELDS: [(&str, &str, &str); 20] = [
    ("customresourcedefinitions", "/spec/scope", ""),
    ("customresourcedefinitions", "/spec/names/kind", ""),
    ("daemonsets", "/spec/selector", ""),
    ("deployments", "/spec/selector", ""),
    ("endpointslices", "/addressType", ""),
    ("ingressclasses", "/spec/controller", ""),
    ("jobs", "/spec/completions", ""),
    ("jobs", "/spec/selector", ""),
    ("jobs", "/spec/template", ""),
    ("jobs", "/spec/completionMode", "NonIndexed"),
    ("jobs", "/spec/podFailurePolicy", ""),
    ("jobs", "/spec/backoffLimitPerIndex", ""),
    ("jobs", "/spec/managedBy", ""),
    ("jobs", "/spec/successPolicy", ""),
    (
        "priorityclasses",
        "/preemptionPolicy",
        "PreemptLowerPriority",
    ),
    ("replicasets", "/spec/selector", ""),
    ("runtimeclasses", "/handler", ""),
    ("secrets", "/type", "Opaque"),
    ("storageclasses", "/parameters", ""),
    ("storageclasses", "/provisioner", ""),
];

/// Checks a change of an object.
pub(super) fn check(problems: &mut Problems, kind: &ResourceType, old: &Value, new: &mut Value) {
    if kind.custom {
        return;
    }
    for (plural, place, default) in FIELDS {
        if plural == kind.plural && !may_change(place, old, new) {
            compare(problems, place, default, old, new);
        }
    }
    match kind.plural.as_str() {
        "configmaps" => frozen(problems, &["data", "binaryData"], old, new),
        "secrets" => frozen(problems, &["data"], old, new),
        "pods" => pod(problems, &old["spec"], &new["spec"]),
        "persistentvolumeclaims" => claim(problems, old, new),
        "services" => service(problems, &old["spec"], &mut new["spec"]),
        "statefulsets" => stateful_set(problems, &old["spec"], &new["spec"]),
        "rolebindings" | "clusterrolebindings" => role(problems, &old["roleRef"], &new["roleRef"]),
        "storageclasses" => {
            compare(problems, "/reclaimPolicy", "Delete", old, new);
            compare(problems, "/volumeBindingMode", "Immediate", old, new);
        }
        "priorityclasses"
            if old["value"].as_i64().unwrap_or(0) != new["value"].as_i64().unwrap_or(0) =>
        {
            problems.forbidden("value", "may not be changed in an update.");
        }
        _ => {}
    }
}

/// Returns whether a field of a Job may change in its state.
fn may_change(place: &str, old: &Value, new: &Value) -> bool {
    match place {
        // A Job that has not begun may be scheduled in another way.
        "/spec/template" => old["spec"]["suspend"] == true && old["status"]["startTime"].is_null(),
        // An indexed Job grows with its parallelism.
        "/spec/completions" => {
            let spec = &new["spec"];
            spec["completionMode"] == "Indexed"
                && old["spec"]["completions"] == old["spec"]["parallelism"]
                && spec["completions"] == spec["parallelism"]
        }
        _ => false,
    }
}

fn compare(problems: &mut Problems, place: &str, default: &str, old: &Value, new: &Value) {
    let value = |object: &Value| match object.pointer(place) {
        None | Some(Value::Null) if !default.is_empty() => default.into(),
        None => Value::Null,
        Some(value) => value.clone(),
    };
    let (old, new) = (value(old), value(new));
    if old != new {
        let field = place[1..].replace('/', ".");
        problems.invalid(&field, &new, IMMUTABLE);
    }
}

/// Checks an object that may be declared as immutable.
fn frozen(problems: &mut Problems, members: &[&str], old: &Value, new: &Value) {
    const PROBLEM: &str = "field is immutable when `immutable` is set";
    if old["immutable"] != true {
        return;
    }
    if new["immutable"] != true {
        problems.forbidden("immutable", PROBLEM);
    }
    for member in members {
        if old[*member] != new[*member] {
            problems.forbidden(member, PROBLEM);
        }
    }
}

fn pod(problems: &mut Problems, old: &Value, new: &Value) {
    let items = |spec: &Value, member: &str| spec[member].as_array().map_or(0, Vec::len);
    for member in ["containers", "initContainers"] {
        if items(old, member) != items(new, member) {
            let problem = "pod updates may not add or remove containers";
            problems.forbidden(&["spec.", member].concat(), problem);
            return;
        }
    }
    let (before, after) = (
        old["activeDeadlineSeconds"].as_i64(),
        new["activeDeadlineSeconds"].as_i64(),
    );
    match (before, after) {
        (Some(before), Some(after)) if after > before => {
            let problem = "must be less than or equal to previous value";
            problems.invalid("spec.activeDeadlineSeconds", &after.into(), problem);
            return;
        }
        (Some(_), None) => {
            let problem = "must not update from a positive integer to nil value";
            problems.invalid("spec.activeDeadlineSeconds", &Value::Null, problem);
            return;
        }
        _ => {}
    }
    let tolerations = |spec: &Value| spec["tolerations"].as_array().cloned().unwrap_or_default();
    let added = tolerations(new);
    let is_kept = |toleration: &Value| {
        let plain = |toleration: &Value| {
            let mut toleration = toleration.clone();
            toleration["tolerationSeconds"] = Value::Null;
            toleration
        };
        added.iter().any(|own| plain(own) == plain(toleration))
    };
    if !tolerations(old).iter().all(is_kept) {
        let problem = "existing toleration can not be modified except its tolerationSeconds";
        problems.forbidden("spec.tolerations", problem);
        return;
    }
    let mut allowed = new.clone();
    for member in ["activeDeadlineSeconds", "tolerations"] {
        allowed[member] = old[member].clone();
    }
    let is_negative = old["terminationGracePeriodSeconds"]
        .as_i64()
        .is_some_and(|seconds| seconds < 0);
    if is_negative && new["terminationGracePeriodSeconds"] == 1 {
        allowed["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"].clone();
    }
    // Gates can be removed.
    let gates = |spec: &Value| {
        spec["schedulingGates"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    if gates(new).iter().all(|gate| gates(old).contains(gate)) {
        allowed["schedulingGates"] = old["schedulingGates"].clone();
    }
    for member in ["containers", "initContainers"] {
        let containers = allowed[member].as_array_mut().into_iter().flatten();
        for (index, container) in containers.enumerate() {
            container["image"] = old[member][index]["image"].clone();
        }
    }
    if !is_same(&allowed, old) {
        let problem = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        problems.forbidden("spec", problem);
    }
}

fn claim(problems: &mut Problems, old: &Value, new: &Value) {
    let mut allowed = new["spec"].clone();
    let (old, phase) = (&old["spec"], &old["status"]["phase"]);
    for member in ["volumeName", "storageClassName"] {
        if old[member].is_null() {
            allowed[member] = Value::Null;
        }
    }
    if phase == "Bound" {
        allowed["volumeAttributesClassName"] = old["volumeAttributesClassName"].clone();
        if allowed["resources"].is_object() {
            allowed["resources"]["requests"] = old["resources"]["requests"].clone();
        }
    }
    if !is_same(&allowed, old) {
        let problem = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        problems.forbidden("spec", problem);
    }
}

/// The address of a Service stays unless its type changes. A request may omit it.
fn service(problems: &mut Problems, old: &Value, new: &mut Value) {
    const EXTERNAL: &str = "ExternalName";
    if old["type"] == EXTERNAL || new["type"] == EXTERNAL {
        return;
    }
    let is_set = |spec: &Value| spec["clusterIP"].as_str().is_some_and(|ip| !ip.is_empty());
    if !is_set(old) {
        return;
    }
    if !is_set(new) {
        for member in ["clusterIP", "clusterIPs"] {
            new[member] = old[member].clone();
        }
        super::store::drop_nulls(new);
    }
    if old["clusterIP"] != new["clusterIP"] {
        let given = new["clusterIPs"].as_array();
        let given = given.filter(|given| given.first() == Some(&new["clusterIP"]));
        let given = given
            .cloned()
            .unwrap_or_else(|| [new["clusterIP"].clone()].into());
        let problem = "may not change once set";
        problems.invalid("spec.clusterIPs[0]", &given.into(), problem);
    }
}

fn stateful_set(problems: &mut Problems, old: &Value, new: &Value) {
    let mut allowed = new.clone();
    for member in [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ] {
        allowed[member] = old[member].clone();
    }
    if !is_same(&allowed, old) {
        let problem = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        problems.forbidden("spec", problem);
    }
}

fn role(problems: &mut Problems, old: &Value, new: &Value) {
    if old == new {
        return;
    }
    let text = |member: &str| Value::from(new[member].as_str().unwrap_or_default()).to_string();
    let value = [
        "{\"APIGroup\":",
        &text("apiGroup"),
        ",\"Kind\":",
        &text("kind"),
        ",\"Name\":",
        &text("name"),
        "}",
    ];
    problems.invalid_as("roleRef", &value.concat(), "cannot change roleRef");
}

/// Compares two values, where null counts as absent, and an object without members as null.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let mut names: Vec<&String> = one.keys().chain(other.keys()).collect();
            names.sort_unstable();
            names.dedup();
            let get = |members: &serde_json::Map<String, Value>, name: &str| {
                members.get(name).cloned().unwrap_or(Value::Null)
            };
            names
                .into_iter()
                .all(|name| is_same(&get(one, name), &get(other, name)))
        }
        (Value::Object(members), Value::Null) | (Value::Null, Value::Object(members)) => {
            members.values().all(|value| is_same(value, &Value::Null))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| is_same(one, other))
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_absent_field_is_null() {
        assert!(is_same(
            &json!({ "a": null, "b": [{}] }),
            &json!({ "b": [{ "c": null }] })
        ));
        assert!(is_same(&json!({ "a": { "b": null } }), &Value::Null));
        assert!(!is_same(&json!({ "a": 1 }), &json!({})));
    }
}
