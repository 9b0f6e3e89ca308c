//! Validation of metadata, with the messages of the API server.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::problems::Problems;
use crate::object::ResourceType;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
                         and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with \
                     an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const PREFIX: &str = "prefix part ";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                         alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const QUALIFIED: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                         alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
                         'example.com/MyName')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
                           and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
                           validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Finalizers that need no domain.
pub(super) const ORPHAN: &str = "orphan";
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// Checks the metadata of an object.
pub(super) fn check(metadata: &Value, kind: &ResourceType) -> Problems {
    let mut problems = Problems::default();
    let text = |member: &str| metadata[member].as_str().unwrap_or_default();
    let prefix = text("generateName");
    if !prefix.is_empty() {
        // A prefix may end in a dash, which a suffix follows.
        let shown = [prefix.strip_suffix('-').map_or(prefix, |head| head), ""].concat();
        let shown = if prefix.ends_with('-') {
            shown + "a"
        } else {
            shown
        };
        check_name(&mut problems, "metadata.generateName", prefix, &shown, kind);
    }
    let name = text("name");
    if name.is_empty() {
        problems.required("metadata.name", "name or generateName is required");
    } else {
        check_name(&mut problems, "metadata.name", name, name, kind);
    }
    for (name, value) in members(&metadata["labels"]) {
        check_qualified(&mut problems, "metadata.labels", name, name);
        let value = value.as_str().unwrap_or_default();
        if value.len() > 63 {
            problems.invalid(
                "metadata.labels",
                &value.into(),
                "must be no more than 63 bytes",
            );
        }
        if !value.is_empty() && !is_name_part(value) {
            problems.invalid("metadata.labels", &value.into(), LABEL_VALUE);
        }
    }
    let mut size = 0;
    for (name, value) in members(&metadata["annotations"]) {
        let lower = name.to_ascii_lowercase();
        check_qualified(&mut problems, "metadata.annotations", &lower, name);
        size += name.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_LIMIT {
        problems.too_long("metadata.annotations", ANNOTATIONS_LIMIT as u64);
    }
    check_owners(&mut problems, &metadata["ownerReferences"]);
    for (index, finalizer) in texts(&metadata["finalizers"]).enumerate() {
        check_qualified(&mut problems, "metadata.finalizers", finalizer, finalizer);
        let is_standard = [ORPHAN, FOREGROUND, "kubernetes"].contains(&finalizer);
        if !kind.custom && !is_standard && !finalizer.contains('/') {
            let field = ["metadata.finalizers[", &index.to_string(), "]"].concat();
            let problem = "name is neither a standard finalizer name nor is it fully qualified";
            problems.invalid(&field, &finalizer.into(), problem);
        }
    }
    let both = |name| texts(&metadata["finalizers"]).any(|finalizer| finalizer == name);
    if both(ORPHAN) && both(FOREGROUND) {
        let problem = "finalizer orphan and foregroundDeletion cannot be both set";
        problems.invalid("metadata.finalizers", &metadata["finalizers"], problem);
    }
    problems
}

/// Checks what may not change. Built-in kinds of the server check it twice.
pub(super) fn check_change(problems: &mut Problems, old: &Value, new: &Value) {
    if !old["deletionTimestamp"].is_null() {
        let kept: Vec<&str> = texts(&old["finalizers"]).collect();
        let added: Vec<String> = texts(&new["finalizers"])
            .filter(|finalizer| !kept.contains(finalizer))
            .map(|finalizer| ["\"", finalizer, "\""].concat())
            .collect();
        if !added.is_empty() {
            let problem = [
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{",
                &added.join(", "),
                "}",
            ];
            problems.forbidden("metadata.finalizers", &problem.concat());
        }
    }
    for member in ["uid", "deletionTimestamp"] {
        let given = new[member].as_str().filter(|given| !given.is_empty());
        if let Some(given) = given.filter(|_| new[member] != old[member]) {
            let field = ["metadata.", member].concat();
            problems.invalid(&field, &given.into(), "field is immutable");
        }
    }
}

fn check_owners(problems: &mut Problems, owners: &Value) {
    const FIELD: &str = "metadata.ownerReferences";
    let mut controllers = Vec::new();
    for owner in owners.as_array().into_iter().flatten() {
        let text = |member: &str| owner[member].as_str().unwrap_or_default();
        for (member, problem) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if text(member).is_empty() {
                let field = [FIELD, ".", member].concat();
                problems.invalid(&field, &"".into(), problem);
            }
        }
        if owner["controller"] == true {
            controllers.push([text("kind"), "/", text("name")].concat());
        }
    }
    if let [first, second, ..] = controllers.as_slice() {
        let problem = [
            "Only one reference can have Controller set to true. Found \"true\" in references for ",
            first,
            " and ",
            second,
        ];
        problems.invalid_as(FIELD, &in_order(owners), &problem.concat());
    }
}

/// Formats owners as Go does: with the members in the order of the struct.
fn in_order(owners: &Value) -> String {
    const MEMBERS: [&str; 6] = [
        "apiVersion",
        "kind",
        "name",
        "uid",
        "controller",
        "blockOwnerDeletion",
    ];
    let owners = owners.as_array().into_iter().flatten().map(|owner| {
        let members = MEMBERS.iter().filter_map(|name| {
            let value = owner.get(name)?;
            Some(["\"", name, "\":", &value.to_string()].concat())
        });
        ["{", &members.collect::<Vec<_>>().join(","), "}"].concat()
    });
    ["[", &owners.collect::<Vec<_>>().join(","), "]"].concat()
}

fn check_name(problems: &mut Problems, field: &str, given: &str, name: &str, kind: &ResourceType) {
    let (limit, problem, is_valid): (_, _, fn(&str) -> bool) = match kind.plural.as_str() {
        "roles" => {
            for part in ["/", "%"] {
                if given.contains(part) {
                    let problem = ["may not contain '", part, "'"].concat();
                    problems.invalid(field, &given.into(), &problem);
                }
            }
            if [".", ".."].contains(&given) {
                let problem = ["may not be '", given, "'"].concat();
                problems.invalid(field, &given.into(), &problem);
            }
            return;
        }
        "namespaces" | "services" if !kind.custom => (63, LABEL, is_label),
        _ => (253, SUBDOMAIN, |name| name.split('.').all(is_label)),
    };
    if name.len() > limit {
        let problem = ["must be no more than ", &limit.to_string(), " characters"].concat();
        problems.invalid(field, &given.into(), &problem);
    }
    if limit == 63 && !is_valid(name) && name.split('.').all(is_label) {
        problems.invalid(field, &given.into(), "must not contain dots");
    } else if !is_valid(name) {
        problems.invalid(field, &given.into(), problem);
    }
}

/// Checks a name with an optional domain before it.
fn check_qualified(problems: &mut Problems, field: &str, name: &str, shown: &str) {
    let shown = Value::from(shown);
    let part = match name.split_once('/') {
        None => name,
        Some((_, rest)) if rest.contains('/') => {
            return problems.invalid(field, &shown, QUALIFIED);
        }
        Some((prefix, part)) => {
            if prefix.is_empty() {
                problems.invalid(field, &shown, &[PREFIX, "must be non-empty"].concat());
            } else if !prefix.split('.').all(is_label) {
                problems.invalid(field, &shown, &[PREFIX, SUBDOMAIN].concat());
            }
            part
        }
    };
    if part.is_empty() {
        problems.invalid(field, &shown, "name part must be non-empty");
    } else if part.len() > 63 {
        problems.invalid(field, &shown, "name part must be no more than 63 bytes");
    }
    if !is_name_part(part) {
        problems.invalid(field, &shown, NAME_PART);
    }
}

fn is_label(text: &str) -> bool {
    let is_end = |byte: Option<&u8>| {
        byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let bytes = text.as_bytes();
    let inside = |byte: &u8| is_end(Some(byte)) || *byte == b'-';
    is_end(bytes.first()) && is_end(bytes.last()) && bytes.iter().all(inside)
}

fn is_name_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    is_end(bytes.first()) && is_end(bytes.last()) && bytes.iter().all(inside)
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}
