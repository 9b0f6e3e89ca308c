//! Removing parts of an object.

use alloc::vec::Vec;

use super::field;
use super::message::{Encoded, Fields, Value};
use super::object::entry;
use crate::json::prune::{Below, Member};
use crate::json::{JsonStr, Prune};

impl Prune {
    /// Appends an object in protobuf without the removed parts. The rest from an error on is copied unchanged.
    ///
    /// A segment of a path is the number of a field, in decimal. The fields of the metadata are also found by their
    /// names, and its labels and annotations by their keys.
    pub(crate) fn copy_protobuf(self, object: &[u8], out: &mut Vec<u8>) {
        out.reserve(object.len());
        copy(object, Level::Object, self.begin(), out);
    }
}

/// The message whose fields are copied.
#[derive(Clone, Copy)]
enum Level {
    Object,
    Metadata,
    Other,
}

impl Level {
    /// Returns the name of a field in JSON, if it is known.
    fn name(self, number: u32) -> Option<&'static str> {
        match (self, number) {
            (Self::Object, field::METADATA) => Some("metadata"),
            (Self::Metadata, 2) => Some("generateName"),
            (Self::Metadata, 8) => Some("creationTimestamp"),
            (Self::Metadata, field::LABELS) => Some("labels"),
            (Self::Metadata, field::ANNOTATIONS) => Some("annotations"),
            (Self::Metadata, field::OWNER_REFERENCES) => Some("ownerReferences"),
            (Self::Metadata, 14) => Some("finalizers"),
            (Self::Metadata, field::MANAGED_FIELDS) => Some("managedFields"),
            _ => None,
        }
    }
}

fn copy(message: &[u8], level: Level, below: Below, out: &mut Vec<u8>) {
    let mut fields = Fields::new(message);
    let mut begin = 0;
    while let Some((number, value)) = fields.next() {
        let end = message.len() - fields.rest().len();
        let whole = message.get(begin..end).unwrap_or_default();
        begin = end;
        let Some(deeper) = descend(level, number, below) else {
            continue;
        };
        match value {
            Value::Bytes(bytes) if !deeper.is_nothing() => {
                let is_map = matches!(level, Level::Metadata)
                    && matches!(number, field::LABELS | field::ANNOTATIONS);
                if is_map {
                    if matches!(deeper.member(entry(value).0), Member::Keep(_)) {
                        out.extend_from_slice(whole);
                    }
                    continue;
                }
                let mut kept = Vec::with_capacity(bytes.len());
                let nested = match (level, number) {
                    (Level::Object, field::METADATA) => Level::Metadata,
                    _ => Level::Other,
                };
                copy(bytes, nested, deeper, &mut kept);
                out.extend_from_slice(Encoded::field(number, kept.len() as u64).as_slice());
                out.extend_from_slice(&kept);
            }
            Value::Bytes(_) | Value::Varint(_) | Value::Fixed64(_) | Value::Fixed32(_) => {
                out.extend_from_slice(whole);
            }
        }
    }
    out.extend_from_slice(fields.rest());
}

/// Returns what may be removed below a field; `None` if the field itself is removed.
fn descend(level: Level, number: u32, below: Below) -> Option<Below> {
    let mut digits = [0; 10];
    let by_number = below.member(decimal(number, &mut digits));
    let Member::Keep(by_number) = by_number else {
        return None;
    };
    match level.name(number) {
        None => Some(by_number),
        Some(name) => match below.member(JsonStr::plain(name.as_bytes())) {
            Member::Skip => None,
            Member::Keep(by_name) => Some(by_name.union(by_number)),
        },
    }
}

fn decimal(mut number: u32, digits: &mut [u8; 10]) -> JsonStr<'_> {
    let mut begin = digits.len();
    for place in digits.iter_mut().rev() {
        *place = b'0' + u8::try_from(number % 10).unwrap_or_default();
        begin -= 1;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    JsonStr::plain(digits.get(begin..).unwrap_or_default())
}
