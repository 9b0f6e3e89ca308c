//! `Status` objects in the format of the API server.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Value, json};

use crate::object::Format;
use crate::protobuf;

/// An error response.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Status {
    pub(crate) code: u16,
    reason: &'static str,
    message: String,
    details: Option<Value>,
    continue_token: Option<String>,
}

impl Status {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            continue_token: None,
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// The path does not exist.
    pub(crate) fn no_such_path() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
        .details(json!({}))
    }

    pub(crate) fn not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .details(json!({}))
    }

    /// A part of an object needs a container.
    pub(crate) fn no_container(plural: &str, part: &str) -> Self {
        let message = format!(
            "informer-mock does not serve {plural}/{part}: it has no containers and no network"
        );
        Self::new(501, "NotImplemented", message).details(json!({}))
    }

    pub(crate) fn no_such_object(group: &str, plural: &str, name: &str) -> Self {
        let full = if group.is_empty() {
            plural.to_string()
        } else {
            format!("{plural}.{group}")
        };
        let mut details = json!({ "name": name, "kind": plural });
        if !group.is_empty() {
            details["group"] = group.into();
        }
        Self::new(404, "NotFound", format!("{full} \"{name}\" not found")).details(details)
    }

    /// The list options contradict each other.
    pub(crate) fn invalid_options(field: &str, problem: &'static str, message: &str) -> Self {
        let text = format!("ListOptions.meta.k8s.io \"\" is invalid: {field}: {message}");
        let causes = json!([{ "reason": problem, "message": message, "field": field }]);
        let details = json!({ "group": "meta.k8s.io", "kind": "ListOptions", "causes": causes });
        Self::new(422, "Invalid", text).details(details)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// A further page of a list whose version has expired. `token` continues the list at the current version.
    pub(crate) fn continue_expired(token: String) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. You can start a new \
                       list without the continue parameter, or use the continue token in this response to retrieve the \
                       remainder of the results. Continuing with the provided token results in an inconsistent list - \
                       objects that were created, modified, or deleted between the time the first chunk was returned and \
                       now may show up in the list.";
        Self {
            continue_token: Some(token),
            ..Self::expired(message)
        }
    }

    /// The version is in the future. Old servers report it in the cause's message (up to 1.18) or in the text (up to
    /// 1.16).
    pub(crate) fn too_large(asked: u64, current: u64, minor: u32) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let status = Self::new(504, "Timeout", message);
        let mut cause = json!({ "message": "Too large resource version" });
        match minor {
            0..=16 => return status.details(json!({ "retryAfterSeconds": 1 })),
            17..=18 => {}
            _ => cause["reason"] = "ResourceVersionTooLarge".into(),
        }
        status.details(json!({ "causes": [cause], "retryAfterSeconds": 1 }))
    }

    /// The watch cache is being filled.
    pub(crate) fn not_ready(seconds: u64) -> Self {
        let message = "storage is (re)initializing";
        Self::new(429, "TooManyRequests", message).details(json!({ "retryAfterSeconds": seconds }))
    }

    /// A patch cannot be applied to the object.
    pub(crate) fn rejected() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", message).details(json!({}))
    }

    pub(crate) fn unsupported() -> Self {
        let message = "the body of the request was in an unknown format";
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// The body of a request is larger than the limit, in bytes.
    #[cfg(feature = "tower")]
    pub(crate) fn body_too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// A parameter of a media type is rejected.
    pub(crate) fn unknown_parameter(code: u16) -> Self {
        let (reason, message) = match code {
            406 => (
                "NotAcceptable",
                "the media type has an unknown parameter: drop",
            ),
            _ => ("BadRequest", "invalid media type: unknown parameter: drop"),
        };
        Self::new(code, reason, message)
    }

    pub(crate) fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json, application/vnd.kubernetes.protobuf";
        Self::new(406, "NotAcceptable", message)
    }

    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.details.as_ref()?.get("retryAfterSeconds")?.as_u64()
    }

    /// Returns the `retryAfterSeconds` of a response in JSON.
    #[cfg(feature = "tower")]
    pub(crate) fn retry_after_in(code: u16, body: &[u8]) -> Option<u64> {
        if code < 400 {
            return None;
        }
        let body: Value = serde_json::from_slice(body).ok()?;
        body["details"]["retryAfterSeconds"].as_u64()
    }

    pub(crate) fn json(&self) -> Vec<u8> {
        let metadata = self
            .continue_token
            .as_ref()
            .map_or_else(|| json!({}), |token| json!({ "continue": token }));
        let mut text = format!(
            "{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{metadata},\"status\":\"Failure\",\"message\":{}",
            Value::from(self.message.as_str())
        );
        if !self.reason.is_empty() {
            text += &format!(",\"reason\":\"{}\"", self.reason);
        }
        if let Some(details) = &self.details {
            text += &format!(",\"details\":{details}");
        }
        text += &format!(",\"code\":{}}}\n", self.code);
        text.into_bytes()
    }

    /// Returns it as the body of a response, without a line feed.
    pub(crate) fn body(&self, format: Format) -> Vec<u8> {
        let mut json = self.json();
        json.truncate(json.trim_ascii_end().len());
        match format {
            Format::Protobuf => {
                let object = serde_json::from_slice(&json).unwrap_or_default();
                protobuf::object(&object).unwrap_or_default()
            }
            _ => json,
        }
    }

    pub(crate) fn details(self, details: Value) -> Self {
        Self {
            details: Some(details),
            ..self
        }
    }
}
