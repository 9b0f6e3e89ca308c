//! Validation errors, and their response.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Value, json};

use super::target::Target;
use crate::status::Status;

/// A field that is not valid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Problem {
    field: String,
    reason: &'static str,
    message: String,
}

/// The fields of an object that are not valid.
#[derive(Clone, Default, Debug)]
pub(super) struct Problems(pub(super) Vec<Problem>);

impl Problems {
    fn add(&mut self, field: &str, reason: &'static str, message: String) {
        self.0.push(Problem {
            field: field.to_string(),
            reason,
            message,
        });
    }

    pub(super) fn invalid(&mut self, field: &str, value: &Value, problem: &str) {
        let message = ["Invalid value: ", &value.to_string(), ": ", problem].concat();
        self.add(field, "FieldValueInvalid", message);
    }

    /// Adds an invalid value that is formatted already.
    pub(super) fn invalid_as(&mut self, field: &str, value: &str, problem: &str) {
        let message = ["Invalid value: ", value, ": ", problem].concat();
        self.add(field, "FieldValueInvalid", message);
    }

    pub(super) fn mistyped(&mut self, field: &str, value: &Value, problem: &str) {
        let message = ["Invalid value: ", &value.to_string(), ": ", problem].concat();
        self.add(field, "FieldValueTypeInvalid", message);
    }

    pub(super) fn required(&mut self, field: &str, problem: &str) {
        let message = if problem.is_empty() {
            "Required value".to_string()
        } else {
            ["Required value: ", problem].concat()
        };
        self.add(field, "FieldValueRequired", message);
    }

    pub(super) fn forbidden(&mut self, field: &str, problem: &str) {
        self.add(
            field,
            "FieldValueForbidden",
            ["Forbidden: ", problem].concat(),
        );
    }

    pub(super) fn duplicate(&mut self, field: &str, value: &Value) {
        let message = ["Duplicate value: ", &value.to_string()].concat();
        self.add(field, "FieldValueDuplicate", message);
    }

    pub(super) fn too_many(&mut self, field: &str, count: usize, most: u64) {
        let items = if most == 1 { " item" } else { " items" };
        let (count, most) = (count.to_string(), most.to_string());
        let message = ["Too many: ", &count, ": must have at most ", &most, items].concat();
        self.add(field, "FieldValueTooMany", message);
    }

    pub(super) fn too_long(&mut self, field: &str, most: u64) {
        let message = [
            "Too long: may not be more than ",
            &most.to_string(),
            " bytes",
        ]
        .concat();
        self.add(field, "FieldValueTooLong", message);
    }

    pub(super) fn not_supported(&mut self, field: &str, value: &Value, supported: &[Value]) {
        let supported: Vec<String> = supported.iter().map(ToString::to_string).collect();
        let message = [
            "Unsupported value: ",
            &value.to_string(),
            ": supported values: ",
            &supported.join(", "),
        ];
        self.add(field, "FieldValueNotSupported", message.concat());
    }

    /// Returns the response 422 if there are problems. `kind` and `group` are those in the response.
    pub(super) fn result(self, (group, kind): (&str, &str), name: &str) -> Result<(), Status> {
        if self.0.is_empty() {
            return Ok(());
        }
        let full = if group.is_empty() {
            kind.to_string()
        } else {
            [kind, ".", group].concat()
        };
        let mut texts: Vec<String> = Vec::new();
        for problem in &self.0 {
            let text = [&problem.field, ": ", &problem.message].concat();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let text = match texts.as_slice() {
            [text] => text.clone(),
            texts => ["[", &texts.join(", "), "]"].concat(),
        };
        let causes: Vec<Value> = self
            .0
            .iter()
            .map(|problem| json!({ "reason": problem.reason, "message": problem.message, "field": problem.field }))
            .collect();
        let mut details = json!({ "kind": kind, "causes": causes });
        for (member, value) in [("group", group), ("name", name)] {
            if !value.is_empty() {
                details[member] = value.into();
            }
        }
        let message = [&full, " \"", name, "\" is invalid: ", &text].concat();
        Err(Status::new(422, "Invalid", message).details(details))
    }

    /// Returns the response for the object of a request.
    pub(super) fn of(self, target: &Target<'_>, name: &str) -> Result<(), Status> {
        self.result((target.path.group, &target.kind.kind), name)
    }
}
