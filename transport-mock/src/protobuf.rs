//! Kubernetes' protobuf: objects, lists and watches, from JSON and back.
//!
//! [`FakeServer`](crate::FakeServer) responds in it to clients that request
//! [`MEDIA_TYPE`]. The functions are for servers and tests of their own:
//!
//! ```
//! use informer_mock::{json, protobuf};
//!
//! let pod = json!({ "kind": "Pod", "apiVersion": "v1", "metadata": { "name": "a" }, "spec": { "nodeName": "n1" } });
//! let bytes = protobuf::object(&pod).expect("a kind with a table");
//! assert!(bytes.starts_with(b"k8s\0"));
//! assert_eq!(protobuf::to_json(&bytes), Some(pod));
//! ```
//!
//! Tables exist for the built-in resources of the server, except CustomResourceDefinitions, and for `Status` and
//! `PartialObjectMetadata`. Fields are written in the order of their numbers, and empty fields as by Go, so the bytes are those
//! of the API server. Members of an object that its table does not have are omitted.

mod decode;
mod encode;
pub(crate) mod schema;
mod value;

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Map, Value, json};

use self::schema::{Kind, LIST_META};

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The first bytes of an object, a list or a `Status`.
const MAGIC: &[u8; 4] = b"k8s\0";

/// Returns whether there is a table for a kind.
#[must_use]
pub fn is_known(api_version: &str, kind: &str) -> bool {
    schema::find(api_version, kind).is_some()
}

/// Converts an object, a list or a `Status` of a known kind, with its envelope. `None` if the kind is unknown.
#[must_use]
pub fn object(object: &Value) -> Option<Vec<u8>> {
    let (api_version, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
    if let (Some(item_kind), Some(items)) = (kind.strip_suffix("List"), object["items"].as_array())
    {
        let items: Option<Vec<Vec<u8>>> = items
            .iter()
            .map(|item| Some(list_item(&message(api_version, item_kind, item)?)))
            .collect();
        let items = items?.concat();
        let start = list_start(api_version, kind, &object["metadata"], items.len());
        return Some([start, items, list_end()].concat());
    }
    let mut out = Vec::new();
    write_object(
        &mut out,
        api_version,
        kind,
        &message(api_version, kind, object)?,
    );
    Some(out)
}

/// Converts an object without its envelope, as in a list. `None` if the kind is unknown.
#[must_use]
pub fn message(api_version: &str, kind: &str, object: &Value) -> Option<Vec<u8>> {
    let Kind::Message(fields) = schema::find(api_version, kind)? else {
        return None;
    };
    let mut out = Vec::new();
    encode::write_message(&mut out, fields, object.as_object()?);
    Some(out)
}

/// Writes a list from its beginning to its first item: the kind of the list, its length, and its metadata. `items` is
/// the total length of what [`list_item`] returns for its items; [`list_end`] is its end.
#[must_use]
pub fn list_start(api_version: &str, kind: &str, metadata: &Value, items: usize) -> Vec<u8> {
    let mut meta = Vec::new();
    encode::write_value(&mut meta, 1, LIST_META, metadata);
    let mut out = MAGIC.to_vec();
    write_type(&mut out, api_version, kind);
    encode::write_start(&mut out, 2, meta.len() + items);
    out.extend_from_slice(&meta);
    out
}

/// Writes an item of a list.
#[must_use]
pub fn list_item(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 6);
    encode::write_bytes(&mut out, 2, message);
    out
}

/// Writes the end of a list.
#[must_use]
pub fn list_end() -> Vec<u8> {
    let mut out = Vec::new();
    encode::write_bytes(&mut out, 3, b"");
    encode::write_bytes(&mut out, 4, b"");
    out
}

/// Writes the frame of an event of a watch. The object has its envelope.
#[must_use]
pub fn frame(event: &str, object: &[u8]) -> Vec<u8> {
    let mut out = [0; 4].to_vec();
    encode::write_bytes(&mut out, 1, event.as_bytes());
    encode::write_nested(&mut out, 2, |out| encode::write_bytes(out, 1, object));
    let length = u32::try_from(out.len() - 4).unwrap_or(u32::MAX);
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

/// Converts an object, a list or a `Status` with its envelope to JSON. `None` if it is malformed or of an unknown kind.
#[must_use]
pub fn to_json(bytes: &[u8]) -> Option<Value> {
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), None);
    for (number, wire) in decode::fields(bytes.strip_prefix(MAGIC)?)? {
        match number {
            1 => {
                for (number, wire) in decode::fields(wire.bytes()?)? {
                    let text = String::from_utf8(wire.bytes()?.to_vec()).ok()?;
                    match number {
                        1 => api_version = text,
                        2 => kind = text,
                        _ => {}
                    }
                }
            }
            2 => raw = wire.bytes(),
            _ => {}
        }
    }
    let mut object = Map::new();
    if let Some(item_kind) = kind.strip_suffix("List") {
        let item = schema::find(&api_version, item_kind)?;
        read_list(raw?, item, &mut object)?;
    } else {
        let Kind::Message(fields) = schema::find(&api_version, &kind)? else {
            return None;
        };
        decode::read_message(raw?, fields, &mut object)?;
    }
    object.insert("kind".to_string(), kind.into());
    object.insert("apiVersion".to_string(), api_version.into());
    Some(object.into())
}

/// Converts the frames of a watch to events with `type` and `object`. `None` if one of them is malformed or incomplete.
#[must_use]
pub fn events(mut bytes: &[u8]) -> Option<Vec<Value>> {
    let mut events = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (frame, rest) = rest.split_at_checked(length)?;
        bytes = rest;
        let (mut kind, mut object) = (String::new(), Value::Null);
        for (number, wire) in decode::fields(frame)? {
            match number {
                1 => kind = String::from_utf8(wire.bytes()?.to_vec()).ok()?,
                2 => {
                    for (number, wire) in decode::fields(wire.bytes()?)? {
                        if number == 1 {
                            object = to_json(wire.bytes()?)?;
                        }
                    }
                }
                _ => {}
            }
        }
        events.push(json!({ "type": kind, "object": object }));
    }
    Some(events)
}

fn read_list(raw: &[u8], item: Kind, object: &mut Map<String, Value>) -> Option<()> {
    use self::schema::{Field, Shape};
    let fields = [
        Field::new("metadata", 1, (Shape::Required, LIST_META)),
        Field::new("items", 2, (Shape::Repeated, item)),
    ];
    object.insert("items".to_string(), Value::Array(Vec::new()));
    decode::read_message(raw, &fields, object)
}

/// Writes an object with its envelope.
pub(crate) fn write_object(out: &mut Vec<u8>, api_version: &str, kind: &str, message: &[u8]) {
    out.extend_from_slice(MAGIC);
    write_type(out, api_version, kind);
    encode::write_bytes(out, 2, message);
    out.extend_from_slice(&list_end());
}

fn write_type(out: &mut Vec<u8>, api_version: &str, kind: &str) {
    encode::write_nested(out, 1, |out| {
        encode::write_bytes(out, 1, api_version.as_bytes());
        encode::write_bytes(out, 2, kind.as_bytes());
    });
}
