//! Continue tokens: base64 of the API server's JSON, with one additional member.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

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
        base64(
            format!("{{\"v\":\"meta.k8s.io/v1\",\"rv\":{version},\"start\":{start}{remaining}}}")
                .as_bytes(),
        )
    }

    pub(crate) fn decode(text: &str) -> Option<Self> {
        let json: Value = serde_json::from_slice(&unbase64(text)?).ok()?;
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

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits = group
            .iter()
            .fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - group.len()));
        for index in 0..=group.len() {
            let digit = bits >> (18 - 6 * index) & 63;
            out.push(char::from(ALPHABET[digit as usize]));
        }
    }
    out
}

pub(crate) fn unbase64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for group in text.trim_end_matches('=').as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for byte in group {
            bits =
                bits << 6 | u32::try_from(ALPHABET.iter().position(|digit| digit == byte)?).ok()?;
        }
        let bytes = (bits << (6 * (4 - group.len()))).to_be_bytes();
        let len = group.len().checked_sub(1).filter(|len| *len > 0)?;
        out.extend_from_slice(bytes.get(1..=len)?);
    }
    Some(out)
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

    #[test]
    fn base64_of_every_length() {
        assert_eq!(base64(b"fo"), "Zm8");
        assert_eq!(base64(b"foo?>"), "Zm9vPz4");
        for len in 0..20_u8 {
            let bytes: Vec<u8> = (0..len).map(|i| i.wrapping_mul(37)).collect();
            assert_eq!(unbase64(&base64(&bytes)), Some(bytes));
        }
    }
}
