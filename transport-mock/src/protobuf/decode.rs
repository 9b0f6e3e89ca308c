//! From messages to JSON.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::schema::{Field, Kind, Shape};
use super::value::format_time;

/// The value of a field on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wire<'a> {
    Int(u64),
    Bytes(&'a [u8]),
}

impl<'a> Wire<'a> {
    pub(super) const fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Int(_) => None,
        }
    }

    fn text(self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    fn int(self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(value.cast_signed()),
            Self::Bytes(_) => None,
        }
    }
}

/// Splits a message into its fields; `None` if it is malformed.
pub(super) fn fields(mut bytes: &[u8]) -> Option<Vec<(u32, Wire<'_>)>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = read_varint(&mut bytes)?;
        let number = u32::try_from(tag >> 3).ok()?;
        let wire = match tag & 7 {
            0 => Wire::Int(read_varint(&mut bytes)?),
            2 => {
                let length = usize::try_from(read_varint(&mut bytes)?).ok()?;
                let (value, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                Wire::Bytes(value)
            }
            _ => return None,
        };
        found.push((number, wire));
    }
    Some(found)
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Reads a message into the members of an object. Empty values that Go always writes are omitted.
pub(super) fn read_message(
    bytes: &[u8],
    schema: &[Field],
    object: &mut Map<String, Value>,
) -> Option<()> {
    for (number, wire) in fields(bytes)? {
        let Some(field) = schema.iter().find(|field| field.number == number) else {
            continue;
        };
        match field.shape {
            Shape::Required if field.is_inline() => {
                if let Kind::Message(schema) = field.kind {
                    read_message(wire.bytes()?, schema, object)?;
                }
            }
            Shape::Required => {
                let value = read_value(wire, field.kind)?;
                if !is_empty(&value, field.kind) {
                    object.insert(field.name.to_string(), value);
                }
            }
            Shape::Optional => {
                object.insert(field.name.to_string(), read_value(wire, field.kind)?);
            }
            Shape::Repeated => {
                let value = read_value(wire, field.kind)?;
                match object.get_mut(field.name) {
                    Some(Value::Array(items)) => items.push(value),
                    _ => {
                        object.insert(field.name.to_string(), Value::Array([value].into()));
                    }
                }
            }
            Shape::Map => {
                let (mut key, mut value) = (String::new(), None);
                for (number, wire) in fields(wire.bytes()?)? {
                    match number {
                        1 => key = wire.text()?,
                        2 => value = Some(read_value(wire, field.kind)?),
                        _ => {}
                    }
                }
                let entries = object
                    .entry(field.name)
                    .or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(entries) = entries {
                    // An entry without a value has an empty one.
                    entries.insert(key, value.unwrap_or_else(|| Value::String(String::new())));
                }
            }
        }
    }
    Some(())
}

fn is_empty(value: &Value, kind: Kind) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty() || matches!(kind, Kind::Quantity) && text == "0",
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

fn read_value(wire: Wire<'_>, kind: Kind) -> Option<Value> {
    Some(match kind {
        Kind::Text => wire.text()?.into(),
        Kind::Int => wire.int()?.into(),
        Kind::Bool => (wire.int()? != 0).into(),
        Kind::Bytes => STANDARD.encode(wire.bytes()?).into(),
        Kind::Time | Kind::MicroTime => {
            let (mut seconds, mut nanos) = (None, 0);
            for (number, wire) in fields(wire.bytes()?)? {
                match number {
                    1 => seconds = Some(wire.int()?),
                    2 => nanos = u32::try_from(wire.int()?).ok()?,
                    _ => {}
                }
            }
            let micros = matches!(kind, Kind::MicroTime);
            seconds.map_or(Value::Null, |seconds| {
                format_time(seconds, nanos, micros).into()
            })
        }
        Kind::Quantity => last(wire, 1)?
            .map_or_else(|| Some("0".to_string()), Wire::text)?
            .into(),
        Kind::IntOrString => match last(wire, 1)? {
            Some(Wire::Int(1)) => last(wire, 3)?
                .and_then(Wire::text)
                .unwrap_or_default()
                .into(),
            _ => last(wire, 2)?.and_then(Wire::int).unwrap_or(0).into(),
        },
        Kind::Fields => {
            let raw = last(wire, 1)?.and_then(Wire::bytes).unwrap_or_default();
            serde_json::from_slice(raw).ok()?
        }
        Kind::Message(schema) => {
            let mut object = Map::new();
            read_message(wire.bytes()?, schema, &mut object)?;
            object.into()
        }
    })
}

/// Returns the last value of a field of a nested message.
fn last(wire: Wire<'_>, number: u32) -> Option<Option<Wire<'_>>> {
    let fields = fields(wire.bytes()?)?;
    let found = fields.iter().rfind(|field| field.0 == number);
    Some(found.map(|field| field.1))
}
