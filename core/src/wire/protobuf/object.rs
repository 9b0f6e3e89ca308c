//! The identity of an object, the type of an event, the metadata of a list, and errors.

use super::field::{
    API_VERSION, EVENT_OBJECT, EVENT_TYPE, EXTENSION_RAW, KIND, METADATA, NAME, NAMESPACE, RAW,
    RESOURCE_VERSION, TYPE_META, UID,
};
use super::message::{Fields, Message, Value};
use super::{MAGIC, field};
use crate::json::JsonStr;
use crate::wire::{Format, FrameProblem, ObjectHead, Status};

/// Kind and API version of an object.
#[derive(Clone, Copy, Default)]
pub(crate) struct TypeMeta<'a> {
    pub(crate) api_version: JsonStr<'a>,
    pub(crate) kind: JsonStr<'a>,
}

impl<'a> TypeMeta<'a> {
    pub(crate) fn parse(message: &'a [u8]) -> Self {
        let mut found = Self::default();
        for (number, value) in Fields::new(message) {
            match number {
                API_VERSION => found.api_version = text(value),
                KIND => found.kind = text(value),
                _ => {}
            }
        }
        found
    }
}

/// Version and paging of a list.
#[derive(Clone, Copy, Default)]
pub(crate) struct Listed<'a> {
    pub(crate) version: JsonStr<'a>,
    pub(crate) token: JsonStr<'a>,
}

impl<'a> Listed<'a> {
    pub(crate) fn parse(message: &'a [u8]) -> Self {
        let mut found = Self::default();
        for (number, value) in Fields::new(message) {
            match number {
                2 => found.version = text(value),
                3 => found.token = text(value),
                _ => {}
            }
        }
        found
    }
}

/// Returns the identity of an object, and the reason why it cannot be used. The message may be truncated.
pub(in crate::wire) fn head(object: &[u8]) -> (ObjectHead<'_>, Option<FrameProblem>) {
    let mut head = ObjectHead {
        format: Format::Protobuf,
        labels: Some(object),
        annotations: Some(object),
        metadata: Some(object),
        ..ObjectHead::default()
    };
    let mut malformed = Format::of_object(object) != Format::Protobuf;
    let mut utf8 = true;
    let mut fields = Fields::new(object);
    for (number, value) in &mut fields {
        let (METADATA, Value::Bytes(metadata)) = (number, value) else {
            malformed |= number == METADATA;
            continue;
        };
        let mut fields = Fields::new(metadata);
        for (number, value) in &mut fields {
            let part = match number {
                NAME => &mut head.name,
                NAMESPACE => &mut head.namespace,
                UID => &mut head.uid,
                RESOURCE_VERSION => &mut head.resource_version,
                _ => continue,
            };
            *part = text(value);
            utf8 &= core::str::from_utf8(part.raw()).is_ok();
        }
        malformed |= fields.is_malformed();
    }
    malformed |= fields.is_malformed();
    let problem = if malformed {
        Some(FrameProblem::Malformed)
    } else if utf8 {
        None
    } else {
        Some(FrameProblem::NotUtf8)
    };
    (head, problem)
}

/// The parts of a watch event: its type, the object, and the object's kind.
pub(in crate::wire) struct Event<'a> {
    pub(in crate::wire) kind: JsonStr<'a>,
    /// The object without its envelope; with it for an error.
    pub(in crate::wire) object: &'a [u8],
    pub(in crate::wire) types: TypeMeta<'a>,
}

/// Finds the parts of a watch event; `None` if type or object are missing.
pub(in crate::wire) fn event(frame: &[u8]) -> Option<Event<'_>> {
    let event = Message::new(frame);
    let kind = event.field(&[EVENT_TYPE])?.as_bytes()?;
    let enveloped = event.field(&[EVENT_OBJECT, EXTENSION_RAW])?.as_bytes()?;
    let unknown = Message::new(enveloped.strip_prefix(&MAGIC)?);
    let types = (unknown.field(&[TYPE_META])).and_then(Value::as_bytes);
    let object = unknown.field(&[RAW])?.as_bytes()?;
    let is_error = kind == b"ERROR";
    Some(Event {
        kind: JsonStr::plain(kind),
        object: if is_error { enveloped } else { object },
        types: types.map(TypeMeta::parse).unwrap_or_default(),
    })
}

/// Parses a `Status` in its envelope; `None` for another kind of object.
pub(in crate::wire) fn status(body: &[u8]) -> Option<Status<'_>> {
    let unknown = Message::new(body.strip_prefix(&MAGIC)?);
    let types = TypeMeta::parse(unknown.field(&[TYPE_META])?.as_bytes()?);
    if !types.kind.eq_str("Status") {
        return None;
    }
    let message = unknown.field(&[RAW])?.as_message()?;
    let at = |number| message.field(&[number]);
    let string = |number| at(number).map(text).unwrap_or_default();
    let number = |path: &[u32]| message.field(path).and_then(Value::as_varint);
    Some(Status {
        status: string(2),
        message: string(3),
        reason: string(4),
        code: number(&[6]).and_then(|code| code.try_into().ok()),
        retry_after_seconds: number(&[5, 5])
            .map(|seconds| seconds.try_into().unwrap_or(u32::MAX))
            .filter(|seconds| *seconds > 0),
        format: Format::Protobuf,
        raw_causes: at(5).and_then(Value::as_bytes),
    })
}

/// Returns the causes in the details of a `Status`: reason, message and field.
pub(in crate::wire) fn causes(details: &[u8]) -> impl Iterator<Item = [JsonStr<'_>; 3]> + use<'_> {
    let causes = Message::new(details)
        .fields()
        .filter(|(number, _)| *number == 4);
    causes.filter_map(|(_, cause)| {
        let cause = cause.as_message()?;
        Some([1, 2, 3].map(|number| cause.field(&[number]).map(text).unwrap_or_default()))
    })
}

/// Returns the fields of an object's metadata with this number.
pub(crate) fn metadata_fields(
    object: &[u8],
    number: u32,
) -> impl Iterator<Item = Value<'_>> + Clone + use<'_> {
    let metadata = Message::new(object)
        .fields()
        .filter(|(at, _)| *at == METADATA)
        .filter_map(|(_, value)| value.as_message());
    metadata
        .flat_map(Message::fields)
        .filter(move |(at, _)| *at == number)
        .map(|(_, value)| value)
}

/// Returns key and value of an entry of a map of strings.
pub(crate) fn entry<'a>(entry: Value<'a>) -> (JsonStr<'a>, JsonStr<'a>) {
    let (mut key, mut text_of) = (JsonStr::default(), JsonStr::default());
    for (number, value) in Fields::new(entry.as_bytes().unwrap_or_default()) {
        match number {
            1 => key = text(value),
            2 => text_of = text(value),
            _ => {}
        }
    }
    (key, text_of)
}

/// Returns whether an object is the bookmark that ends the initial events.
pub(in crate::wire) fn is_initial_events_end(object: &[u8]) -> bool {
    metadata_fields(object, field::ANNOTATIONS)
        .map(entry)
        .any(|(key, value)| key.eq_str("k8s.io/initial-events-end") && value.eq_str("true"))
}

pub(crate) fn text(value: Value<'_>) -> JsonStr<'_> {
    JsonStr::plain(value.as_bytes().unwrap_or_default())
}
