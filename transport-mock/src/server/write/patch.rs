//! Patches of each kind.

use alloc::string::ToString;

use serde_json::{Map, Value};

use super::managers::{self, By};
use super::options::Options;
use super::structure::Type;
use super::target::{Target, text};
use super::{Done, json_patch, parse, strategic};
use crate::backend::Write;
use crate::query::Part;
use crate::server::{FakeServer, MutationError};
use crate::status::Status;

/// The kind of a patch, by its media type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchKind {
    fn of(content_type: &str) -> Option<Self> {
        let media = content_type.split(';').next().unwrap_or_default().trim();
        Some(match media {
            "application/json-patch+json" => Self::Json,
            "application/merge-patch+json" => Self::Merge,
            "application/strategic-merge-patch+json" => Self::Strategic,
            "application/apply-patch+yaml" => Self::Apply,
            _ => return None,
        })
    }
}

impl FakeServer {
    pub(super) fn patch(
        &mut self,
        target: &Target<'_>,
        name: &str,
        write: Write<'_>,
    ) -> Result<Done, Status> {
        let kind = PatchKind::of(write.content_type)
            // A strategic merge patch needs Go types.
            .filter(|kind| *kind != PatchKind::Strategic || !target.kind.custom);
        let Some(kind) = kind else {
            return Err(Status::unsupported());
        };
        let options = Options::of_patch(target.query, kind)?;
        let patch = parse(write.body)?;
        let existing = self.current(target, name);
        if kind == PatchKind::Apply && target.path.part != Part::Scale {
            return self.apply_config(target, name, existing, patch, &options);
        }
        let Some(existing) = existing else {
            return Err(target.refused(MutationError::NotFound, name));
        };
        if target.path.part == Part::Scale {
            return self.change_scale(target, name, existing, &options, |scale| {
                // Its lists have no keys.
                let kind = if kind == PatchKind::Json {
                    kind
                } else {
                    PatchKind::Merge
                };
                apply(scale, patch, kind, Type::Deduced)
            });
        }
        let mut patched = existing.clone();
        apply(&mut patched, patch, kind, Type::of(&target.kind))?;
        // The version in a patch is optional. If present, it must be the object's current one.
        let patched = target.decode(patched, Some(name), &options)?;
        self.change(target, name, existing, patched, Some(&options))
    }

    fn apply_config(
        &mut self,
        target: &Target<'_>,
        name: &str,
        existing: Option<Value>,
        config: Value,
        options: &Options,
    ) -> Result<Done, Status> {
        if existing.is_none() && target.path.part == Part::Status {
            return Err(target.refused(MutationError::NotFound, name));
        }
        let mut config = target.decode_applied(config, name)?;
        let version = text(&config, "resourceVersion").map(ToString::to_string);
        let other_part = if target.path.part == Part::Status {
            "spec"
        } else {
            "status"
        };
        if let Value::Object(config) = &mut config {
            if target.kind.has_status() {
                config.remove(other_part);
            }
            if let Some(Value::Object(metadata)) = config.get_mut("metadata") {
                metadata.remove("resourceVersion");
            }
        }
        let time = self.time();
        let by = By {
            manager: target.manager(options, true),
            time: &time,
            force: options.force,
        };
        let mut merged = managers::apply(existing.as_ref(), config, Type::of(&target.kind), by)?;
        match existing {
            None => self.insert(target, merged, None),
            Some(existing) => {
                if let Some(version) = version {
                    merged["metadata"]["resourceVersion"] = version.into();
                }
                self.change(target, name, existing, merged, None)
            }
        }
    }
}

fn apply(object: &mut Value, patch: Value, kind: PatchKind, types: Type<'_>) -> Result<(), Status> {
    if kind == PatchKind::Json {
        return json_patch::apply(object, patch);
    }
    if !patch.is_object() {
        let message = "json: cannot unmarshal array into Go value of type map[string]interface {}";
        let head = if kind == PatchKind::Merge {
            "error decoding patch: "
        } else {
            ""
        };
        return Err(Status::bad_request([head, message].concat()));
    }
    if kind == PatchKind::Strategic {
        return strategic::apply(object, patch, types);
    }
    merge(object, patch);
    Ok(())
}

/// Merges as defined by RFC 7386: objects member by member; null removes, and other values replace.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Value::Object(target) = target {
        for (key, value) in patch {
            if value.is_null() {
                target.remove(&key);
            } else {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
    }
}
