//! Removing parts of an object.

use alloc::vec::Vec;

use super::field;
use super::message::{Encoded, Fields, Value};
use super::metadata::{self, Kind};
use super::object::entry;
use crate::json::prune::{Below, Member};
use crate::json::{JsonStr, Prune};

impl Prune {
    /// Appends an object in protobuf without the removed parts. The rest from an error on is copied unchanged.
    ///
    /// The metadata is pruned as in JSON, by the names of its fields, the keys of its maps and the indexes of its lists. Everywhere
    /// else a segment is the number of a field, in decimal, and a field that a path leads through has to be a message: the
    /// bytes of an object do not show which fields are texts.
    pub(crate) fn copy_protobuf(self, object: &[u8], out: &mut Vec<u8>) {
        out.reserve(object.len());
        copy(object, MessageKind::Object, self.begin(), self.begin(), out);
    }
}

/// The message whose fields are copied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MessageKind {
    Object,
    Metadata,
    Owner,
    Other,
}

impl MessageKind {
    /// Returns the name of a field in JSON and its kind, if they are known.
    fn field(self, number: u32) -> Option<(&'static str, Option<Kind>)> {
        let known = |field: Option<(&'static str, Kind)>| {
            let (name, kind) = field?;
            Some((name, Some(kind)))
        };
        match (self, number) {
            (Self::Object, field::METADATA) => Some(("metadata", None)),
            (Self::Metadata, field::MANAGED_FIELDS) => Some(("managedFields", None)),
            (Self::Metadata, _) => known(metadata::of_metadata(number)),
            (Self::Owner, _) => known(metadata::of_owner(number)),
            (Self::Object | Self::Other, _) => None,
        }
    }

    /// Returns the message in a field.
    const fn within(self, number: u32) -> Self {
        match (self, number) {
            (Self::Object, field::METADATA) => Self::Metadata,
            (Self::Metadata, field::OWNER_REFERENCES) => Self::Owner,
            (Self::Object | Self::Metadata | Self::Owner | Self::Other, _) => Self::Other,
        }
    }
}

/// Copies the fields of a message without those that are removed `by_name` or `by_number`.
fn copy(message: &[u8], level: MessageKind, by_name: Below, by_number: Below, out: &mut Vec<u8>) {
    let mut fields = Fields::new(message);
    let mut begin = 0;
    // The indexes of the next texts and owners.
    let mut indexes = [0; 2];
    while let Some((number, value)) = fields.next() {
        let end = message.len() - fields.rest().len();
        let whole = message.get(begin..end).unwrap_or_default();
        begin = end;
        let mut digits = [0; 10];
        let Member::Keep(by_number) = by_number.exactly(decimal(number, &mut digits)) else {
            continue;
        };
        let known = level.field(number);
        let by_name = match known {
            Some((name, _)) => by_name.member(JsonStr::plain(name.as_bytes())),
            None => Member::Keep(by_name.nothing()),
        };
        let Member::Keep(mut by_name) = by_name else {
            continue;
        };
        let kind = known.and_then(|(_, kind)| kind);
        let element = match kind {
            Some(Kind::Map) => {
                let key = entry(value).0;
                Some(match by_number.exactly(key) {
                    Member::Skip => Member::Skip,
                    Member::Keep(_) => by_name.member(key),
                })
            }
            Some(kind @ (Kind::Texts | Kind::Owners)) => {
                let index = &mut indexes[usize::from(kind == Kind::Owners)];
                *index += 1;
                Some(by_name.element(*index - 1))
            }
            Some(Kind::Text | Kind::Int | Kind::OptionalInt | Kind::Bool | Kind::Time) | None => {
                None
            }
        };
        match element {
            Some(Member::Skip) => continue,
            Some(Member::Keep(below)) => by_name = below,
            None => {}
        }
        let is_message = kind.is_none_or(|kind| matches!(kind, Kind::Owners | Kind::Time));
        match value {
            Value::Bytes(bytes)
                if is_message && !(by_name.is_nothing() && by_number.is_nothing()) =>
            {
                let mut kept = Vec::with_capacity(bytes.len());
                copy(bytes, level.within(number), by_name, by_number, &mut kept);
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
