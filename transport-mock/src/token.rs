//! Continue tokens: base64 of the API server's JSON, with one additional member.

use alloc::format;
use alloc::string::String;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// The position at which the next page begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Token {
    /// The version that all pages show; `None` for the current version (an inconsistent continuation).
    pub(crate) version: Option<u64>,
    /// The key of the last object on the previous page.
    pub(crate) after: String,
    /// The number of remaining objects, if known.
    pub(crate) remaining: Option<u64>,
}

impl Token {
    pub(crate) fn encode(&self) -> String {
        let version = self
            .version
            .map_or_else(|| String::from("-1"), |version| format!("{version}"));
        let start = Value::from(format!("{}\0", self.after));
        let remaining = self
            .remaining
            .map_or_else(String::new, |n| format!(",\"remaining\":{n}"));
        URL_SAFE_NO_PAD.encode(format!(
            "{{\"v\":\"meta.k8s.io/v1\",\"rv\":{version},\"start\":{start}{remaining}}}"
        ))
    }

    pub(crate) fn decode(text: &str) -> Option<Self> {
        let json: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        if json.get("v")?.as_str()? != "meta.k8s.io/v1" {
            return None;
        }
        let version = match json.get("rv")?.as_i64()? {
            0 => return None,
            version => u64::try_from(version).ok(),
        };
        let after = json.get("start")?.as_str()?.strip_suffix('\0')?.into();
        Some(Self {
            version,
            after,
            remaining: json.get("remaining").and_then(Value::as_u64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn tokens_come_back() {
        for (version, after, remaining) in [
            (Some(5), "default/a", Some(7)),
            (None, "x", None),
            (Some(u64::MAX >> 1), "ü/\"", None),
        ] {
            let token = Token {
                version,
                after: after.to_string(),
                remaining,
            };
            assert_eq!(Token::decode(&token.encode()), Some(token));
        }
        for wrong in [
            "",
            "a",
            "!!!!",
            "eyJ2IjoieCJ9",
            "AAAA",
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJhXHUwMDAwIn0",
        ] {
            assert_eq!(Token::decode(wrong), None, "{wrong}");
        }
    }
}
