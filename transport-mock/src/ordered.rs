//! JSON whose members keep their order, as the scripts of scenarios require.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Ordered {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl Ordered {
    /// Returns the last member with this name, as Python's parser does.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        let Self::Object(members) = self else {
            return None;
        };
        members
            .iter()
            .rev()
            .find(|(own, _)| own == key)
            .map(|(_, value)| value)
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        if let Self::Text(text) = self {
            Some(text)
        } else {
            None
        }
    }

    pub(crate) const fn as_list(&self) -> Option<&[Self]> {
        if let Self::List(items) = self {
            Some(items.as_slice())
        } else {
            None
        }
    }

    pub(crate) fn as_f64(&self) -> Option<f64> {
        if let Self::Number(number) = self {
            number.as_f64()
        } else {
            None
        }
    }

    /// Writes it in ASCII, as `json.dumps(.., separators=(",", ":"))` does.
    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Self::Null => *out += "null",
            Self::Bool(true) => *out += "true",
            Self::Bool(false) => *out += "false",
            Self::Number(number) => *out += &alloc::format!("{number}"),
            Self::Text(text) => write_text(out, text),
            Self::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (index, (key, value)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write_text(out, key);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OrderedVisitor)
    }
}

struct OrderedVisitor;

impl<'de> Visitor<'de> for OrderedVisitor {
    type Value = Ordered;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Ordered, E> {
        Ok(Ordered::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Ordered, E> {
        Ok(Ordered::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Ordered, E> {
        Ok(Ordered::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Ordered, E> {
        Ok(Ordered::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Ordered, E> {
        Ok(Number::from_f64(value).map_or(Ordered::Null, Ordered::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Ordered, E> {
        Ok(Ordered::Text(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Ordered, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Ordered::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Ordered, A::Error> {
        let mut object = Vec::new();
        while let Some(member) = members.next_entry()? {
            object.push(member);
        }
        Ok(Ordered::Object(object))
    }
}

fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => *out += "\\\"",
            '\\' => *out += "\\\\",
            '\n' => *out += "\\n",
            '\r' => *out += "\\r",
            '\t' => *out += "\\t",
            '\u{8}' => *out += "\\b",
            '\u{c}' => *out += "\\f",
            ' '..='~' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    *out += &alloc::format!("\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_stays_and_text_becomes_ascii() {
        let text = r#" { "z": [1, -2, 0.5, null, true], "a": "ü\n\u0041😀\/" , "m": {} } "#;
        let ordered: Ordered = serde_json::from_str(text).expect("valid");
        let mut out = String::new();
        ordered.write(&mut out);
        assert_eq!(
            out,
            r#"{"z":[1,-2,0.5,null,true],"a":"\u00fc\nA\ud83d\ude00/","m":{}}"#
        );
        assert_eq!(
            ordered.get("z").and_then(Ordered::as_list).map(<[_]>::len),
            Some(5)
        );
    }
}
