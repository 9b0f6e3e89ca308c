//! The text form of the data of a Secret.

use alloc::string::ToString;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::object::ResourceType;

impl ResourceType {
    /// Returns whether its objects are Secrets.
    pub(super) fn is_secrets(&self) -> bool {
        !self.custom && self.group.is_empty() && self.plural == "secrets"
    }
}

/// Moves `stringData`, which is never stored, to `data`.
pub(super) fn merge_texts(secret: &mut Value) {
    let Value::Object(secret) = secret else {
        return;
    };
    let Some(Value::Object(texts)) = secret.remove("stringData") else {
        return;
    };
    if texts.is_empty() {
        return;
    }
    let data = secret.entry("data").or_insert(Value::Null);
    if data.is_null() {
        *data = Value::Object(Map::new());
    }
    if let Value::Object(data) = data {
        for (name, text) in texts {
            let text = text.as_str().unwrap_or_default();
            data.insert(name.to_string(), STANDARD.encode(text).into());
        }
    }
}
