//! ConfigMaps in protobuf.

use informer_embassy::protobuf::{Message, Value};

/// The field `data`: entries with a key (1) and a value (2).
const DATA: u32 = 2;

/// Returns `data[key]`.
pub fn value_of<'a>(map: Message<'a>, key: &str) -> Option<&'a str> {
    let mut entries = map.fields().filter_map(|field| match field {
        (DATA, Value::Bytes(entry)) => Some(Message::new(entry)),
        _ => None,
    });
    let entry = entries.find(|entry| entry.text(&[1]) == Some(key))?;
    Some(entry.text(&[2]).unwrap_or_default())
}
