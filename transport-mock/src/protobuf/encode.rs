//! From JSON to messages.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::schema::{Field, Kind, Shape};
use super::value::parse_time;

/// The wire types.
const VARINT: u32 = 0;
const LENGTH: u32 = 2;

/// Writes the fields of a message in the order of their numbers. Members without a field are skipped.
pub(super) fn write_message(out: &mut Vec<u8>, fields: &[Field], object: &Map<String, Value>) {
    for field in fields {
        let value = object.get(field.name).unwrap_or(&Value::Null);
        match (field.shape, value) {
            (Shape::Required, _) if field.is_inline() => {
                if let Kind::Message(fields) = field.kind {
                    write_nested(out, field.number, |out| write_message(out, fields, object));
                }
            }
            (Shape::Required, value) => write_value(out, field.number, field.kind, value),
            (Shape::Optional, Value::Null) => {}
            (Shape::Optional, value) => write_value(out, field.number, field.kind, value),
            (Shape::Repeated, Value::Array(items)) => {
                for item in items {
                    write_value(out, field.number, field.kind, item);
                }
            }
            (Shape::Map, Value::Object(entries)) => {
                let mut keys: Vec<&String> = entries.keys().collect();
                keys.sort_unstable();
                for key in keys {
                    write_nested(out, field.number, |out| {
                        write_bytes(out, 1, key.as_bytes());
                        write_value(out, 2, field.kind, entries.get(key).unwrap_or(&Value::Null));
                    });
                }
            }
            (Shape::Repeated | Shape::Map, _) => {}
        }
    }
}

/// Writes one value. A value of another type counts as empty.
pub(super) fn write_value(out: &mut Vec<u8>, number: u32, kind: Kind, value: &Value) {
    match kind {
        Kind::Text => write_bytes(out, number, text(value).as_bytes()),
        Kind::Int => write_int(out, number, int(value)),
        Kind::Bool => write_int(out, number, i64::from(value.as_bool().unwrap_or(false))),
        Kind::Bytes => write_bytes(
            out,
            number,
            &value
                .as_str()
                .and_then(|text| STANDARD.decode(text).ok())
                .unwrap_or_default(),
        ),
        Kind::Time | Kind::MicroTime => write_nested(out, number, |out| {
            if let Some((seconds, nanos)) = value.as_str().and_then(parse_time) {
                write_int(out, 1, seconds);
                let nanos = if matches!(kind, Kind::MicroTime) {
                    nanos
                } else {
                    0
                };
                write_int(out, 2, i64::from(nanos));
            }
        }),
        Kind::Quantity => write_nested(out, number, |out| {
            let text = if value.is_null() {
                "0".to_string()
            } else {
                text(value)
            };
            write_bytes(out, 1, text.as_bytes());
        }),
        Kind::IntOrString => write_nested(out, number, |out| {
            write_int(out, 1, i64::from(value.is_string()));
            write_int(out, 2, int(value));
            write_bytes(out, 3, value.as_str().unwrap_or_default().as_bytes());
        }),
        Kind::Fields => write_nested(out, number, |out| {
            write_bytes(out, 1, value.to_string().as_bytes());
        }),
        Kind::Message(fields) => write_nested(out, number, |out| {
            let none = Map::new();
            write_message(out, fields, value.as_object().unwrap_or(&none));
        }),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
    }
}

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

fn write_int(out: &mut Vec<u8>, number: u32, value: i64) {
    write_varint(out, u64::from(number << 3 | VARINT));
    write_varint(out, value.cast_unsigned());
}

/// Writes a field of bytes: its tag, its length and its bytes.
pub(super) fn write_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    write_start(out, number, bytes.len());
    out.extend_from_slice(bytes);
}

/// Writes the tag and the length of a field of bytes.
pub(super) fn write_start(out: &mut Vec<u8>, number: u32, length: usize) {
    write_varint(out, u64::from(number << 3 | LENGTH));
    write_varint(out, length as u64);
}

/// Writes a nested message.
pub(super) fn write_nested(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    write_varint(out, u64::from(number << 3 | LENGTH));
    let start = out.len();
    write(out);
    let mut length = Vec::new();
    write_varint(&mut length, (out.len() - start) as u64);
    out.splice(start..start, length);
}

fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
