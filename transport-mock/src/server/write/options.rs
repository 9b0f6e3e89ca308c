//! The options of a write, from its query or its body.

use alloc::string::{String, ToString};

use serde_json::{Value, json};

use super::patch::PatchKind;
use super::problems::Problems;
use crate::query::Query;
use crate::status::Status;

/// The options of a write that stores an object.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Options {
    /// `fieldManager`, or empty.
    pub(super) manager: String,
    /// Whether fields are taken from other managers.
    pub(super) force: bool,
    /// Whether an object with unknown fields is refused.
    pub(super) is_strict: bool,
}

/// How dependents are treated when an object is deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::server) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// The options of a deletion.
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct DeleteOptions {
    pub(super) propagation: Option<Propagation>,
    pub(super) preconditions: Value,
    /// `gracePeriodSeconds`.
    pub(super) grace: Option<u64>,
    pub(super) is_dry: bool,
}

impl Options {
    pub(super) fn of_create(query: &Query) -> Result<Self, Status> {
        Self::read(query, "CreateOptions", None)
    }

    pub(super) fn of_update(query: &Query) -> Result<Self, Status> {
        Self::read(query, "UpdateOptions", None)
    }

    pub(super) fn of_patch(query: &Query, kind: PatchKind) -> Result<Self, Status> {
        Self::read(query, "PatchOptions", Some(kind))
    }

    fn read(query: &Query, kind: &str, patch: Option<PatchKind>) -> Result<Self, Status> {
        let mut problems = Problems::default();
        let manager = query.get("fieldManager").unwrap_or_default();
        if patch == Some(PatchKind::Apply) {
            if manager.is_empty() {
                problems.required("fieldManager", "is required for apply patch");
            }
        } else if patch.is_some() && query.filled("force").is_some() {
            problems.forbidden("force", "may not be specified for non-apply patch");
        }
        if manager.len() > 128 {
            problems.too_long("fieldManager", 128);
        }
        if let Some((at, wrong)) = manager.chars().enumerate().find(|(_, c)| c.is_control()) {
            let code = alloc::format!(
                "invalid character U+{:04X} (at position {at})",
                wrong as u32
            );
            problems.invalid("fieldManager", &manager.into(), &code);
        }
        check_dry_run(
            &mut problems,
            query.filled("dryRun").map(Value::from).as_ref(),
        );
        let validation = query.get("fieldValidation").unwrap_or_default();
        let supported = ["", "Ignore", "Strict", "Warn"];
        if !supported.contains(&validation) {
            problems.not_supported(
                "fieldValidation",
                &validation.into(),
                &supported.map(Value::from),
            );
        }
        problems.result(("meta.k8s.io", kind), "")?;
        Ok(Self {
            manager: manager.to_string(),
            force: query.flag("force") && patch == Some(PatchKind::Apply),
            is_strict: validation == "Strict",
        })
    }
}

impl DeleteOptions {
    /// Reads the options of a deletion. A body takes the place of the query.
    pub(super) fn read(query: &Query, body: &Value) -> Result<Self, Status> {
        let mut problems = Problems::default();
        let grace: Option<i64> = query
            .get("gracePeriodSeconds")
            .and_then(|text| text.parse().ok());
        let from_query = json!({
            "propagationPolicy": query.get("propagationPolicy"), "dryRun": query.filled("dryRun"),
            "gracePeriodSeconds": grace,
        });
        let options = if body.is_object() { body } else { &from_query };
        let dry = &options["dryRun"];
        let dry = dry.as_array().map_or(Some(dry), |items| items.first());
        let dry = dry.filter(|dry| !dry.is_null());
        check_dry_run(&mut problems, dry);
        let propagation = match options["propagationPolicy"].as_str() {
            None | Some("") if options["orphanDependents"] == true => Some(Propagation::Orphan),
            None | Some("") => None,
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                problems.not_supported(
                    "propagationPolicy",
                    &other.into(),
                    &supported.map(Value::from),
                );
                None
            }
        };
        problems.result(("meta.k8s.io", "DeleteOptions"), "")?;
        Ok(Self {
            propagation,
            preconditions: options["preconditions"].clone(),
            // The server takes one second for a negative value.
            grace: options["gracePeriodSeconds"]
                .as_i64()
                .map(|grace| u64::try_from(grace).unwrap_or(1)),
            is_dry: dry.is_some(),
        })
    }
}

fn check_dry_run(problems: &mut Problems, given: Option<&Value>) {
    if let Some(given) = given.filter(|given| **given != "All") {
        let given = Value::Array([given.clone()].into());
        problems.not_supported("dryRun", &given, &["All".into()]);
    }
}
