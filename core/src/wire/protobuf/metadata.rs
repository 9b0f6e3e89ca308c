//! Metadata as JSON, for forms that store it.

use alloc::vec::Vec;
use core::fmt::Write;

use super::field::{
    self, ANNOTATIONS, DELETION_TIMESTAMP, FINALIZERS, GENERATION, LABELS, OWNER_REFERENCES,
};
use super::message::{Fields, Message, Value};
use super::object::{entry, metadata_fields, text};
use crate::json::JsonStr;

/// How a field of the metadata is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// A number that the API server omits if it is 0.
    Int,
    /// A number that is written whenever it is there.
    OptionalInt,
    Bool,
    /// Seconds and nanoseconds.
    Time,
    Map,
    Texts,
    Owners,
}

/// The fields of `ObjectMeta` without managedFields, in the order in which the API server writes JSON, which is also that of
/// their numbers.
const METADATA: [(u32, &str, Kind); 14] = [
    (1, "name", Kind::Text),
    (2, "generateName", Kind::Text),
    (3, "namespace", Kind::Text),
    (4, "selfLink", Kind::Text),
    (5, "uid", Kind::Text),
    (6, "resourceVersion", Kind::Text),
    (GENERATION, "generation", Kind::Int),
    (8, "creationTimestamp", Kind::Time),
    (DELETION_TIMESTAMP, "deletionTimestamp", Kind::Time),
    (10, "deletionGracePeriodSeconds", Kind::OptionalInt),
    (LABELS, "labels", Kind::Map),
    (ANNOTATIONS, "annotations", Kind::Map),
    (OWNER_REFERENCES, "ownerReferences", Kind::Owners),
    (FINALIZERS, "finalizers", Kind::Texts),
];

const OWNER: [(u32, &str, Kind); 6] = [
    (5, "apiVersion", Kind::Text),
    (1, "kind", Kind::Text),
    (3, "name", Kind::Text),
    (4, "uid", Kind::Text),
    (6, "controller", Kind::Bool),
    (7, "blockOwnerDeletion", Kind::Bool),
];

/// Returns the name and the kind of a field of `ObjectMeta`.
pub(super) fn of_metadata(number: u32) -> Option<(&'static str, Kind)> {
    find(&METADATA, number)
}

/// Returns the name and the kind of a field of an owner reference.
pub(super) fn of_owner(number: u32) -> Option<(&'static str, Kind)> {
    find(&OWNER, number)
}

fn find(table: &[(u32, &'static str, Kind)], number: u32) -> Option<(&'static str, Kind)> {
    let (_, name, kind) = table.iter().find(|(own, ..)| *own == number)?;
    Some((name, *kind))
}

/// One more than the highest number of a field that is written.
const NUMBERS: usize = 18;

/// Appends the metadata of an object as JSON, as the API server would send it, without managedFields.
pub(crate) fn append_metadata(object: &[u8], out: &mut Vec<u8>) {
    let begin = out.len();
    if append_in_order(object, out).is_none() {
        out.truncate(begin);
        let metadata = Message::new(object)
            .fields()
            .filter(|(number, _)| *number == field::METADATA)
            .filter_map(|(_, value)| value.as_message());
        append(&METADATA, metadata.flat_map(Message::fields), out);
    }
}

/// Does so in one pass; `None` if the fields are not in the order of their numbers, as an encoder need not write them.
fn append_in_order(object: &[u8], out: &mut Vec<u8>) -> Option<()> {
    out.push(b'{');
    let begin = out.len();
    let mut previous = 0;
    // The bracket that ends the elements of the previous field.
    let mut end = None;
    for (number, value) in Fields::new(object) {
        let (field::METADATA, Value::Bytes(metadata)) = (number, value) else {
            continue;
        };
        for (number, value) in Fields::new(metadata) {
            let Some((_, name, kind)) = METADATA.get(number as usize - 1) else {
                continue;
            };
            let elements = kind.brackets();
            if number == previous && elements.is_some() {
                out.push(b',');
                append_element(*kind, value, out);
                continue;
            }
            if number <= previous {
                return None;
            }
            out.extend(end.take());
            previous = number;
            let before = out.len();
            append_name(before > begin, name, out);
            if let Some((open, close)) = elements {
                out.push(open);
                append_element(*kind, value, out);
                end = Some(close);
            } else if !append_scalar(*kind, value, out) {
                out.truncate(before);
            }
        }
    }
    out.extend(end);
    out.push(b'}');
    Some(())
}

/// Appends the labels of an object as a JSON object.
pub(crate) fn append_labels(object: &[u8], out: &mut Vec<u8>) {
    append_elements(Kind::Map, metadata_fields(object, LABELS), out);
}

fn append<'a>(
    table: &[(u32, &str, Kind)],
    fields: impl Iterator<Item = (u32, Value<'a>)> + Clone,
    out: &mut Vec<u8>,
) {
    // If a field occurs several times, the last one counts, unless it is repeated.
    let mut last = [None; NUMBERS];
    for (number, value) in fields.clone() {
        if let Some(place) = last.get_mut(number as usize) {
            *place = Some(value);
        }
    }
    out.push(b'{');
    let begin = out.len();
    for (number, name, kind) in table {
        let Some(Some(last)) = last.get(*number as usize) else {
            continue;
        };
        let all = fields.clone().filter(|(at, _)| at == number);
        let before = out.len();
        append_name(before > begin, name, out);
        if kind.brackets().is_some() {
            append_elements(*kind, all.map(|(_, value)| value), out);
        } else if !append_scalar(*kind, *last, out) {
            out.truncate(before);
        }
    }
    out.push(b'}');
}

impl Kind {
    /// Returns the brackets around the elements of a repeated field.
    const fn brackets(self) -> Option<(u8, u8)> {
        match self {
            Self::Map => Some((b'{', b'}')),
            Self::Texts | Self::Owners => Some((b'[', b']')),
            Self::Text | Self::Int | Self::OptionalInt | Self::Bool | Self::Time => None,
        }
    }
}

fn append_name(follows: bool, name: &str, out: &mut Vec<u8>) {
    separate(usize::from(follows), out);
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

/// Appends the value of a field that is not repeated. Returns `false` if the API server omits it.
fn append_scalar(kind: Kind, value: Value<'_>, out: &mut Vec<u8>) -> bool {
    match kind {
        Kind::Int | Kind::OptionalInt => {
            let number = value.as_varint().unwrap_or_default();
            // Negative numbers are in two's complement.
            write(out, format_args!("{}", number.cast_signed()));
            number != 0 || kind == Kind::OptionalInt
        }
        Kind::Bool => {
            let is_set = value.as_varint().is_some_and(|bit| bit != 0);
            write(out, format_args!("{is_set}"));
            true
        }
        Kind::Time => (value.as_message()).is_some_and(|time| append_time(time, out)),
        Kind::Text | Kind::Map | Kind::Texts | Kind::Owners => {
            let text = text(value);
            append_text(text, out);
            !text.is_empty()
        }
    }
}

/// Appends an element of a repeated field. If the key of a map occurs several times, so does it in the JSON.
fn append_element(kind: Kind, value: Value<'_>, out: &mut Vec<u8>) {
    match kind {
        Kind::Map => {
            let (key, value) = entry(value);
            append_text(key, out);
            out.push(b':');
            append_text(value, out);
        }
        Kind::Owners => {
            let owner = Message::new(value.as_bytes().unwrap_or_default());
            append(&OWNER, owner.fields(), out);
        }
        Kind::Text | Kind::Int | Kind::OptionalInt | Kind::Bool | Kind::Time | Kind::Texts => {
            append_text(text(value), out);
        }
    }
}

fn append_elements<'a>(kind: Kind, values: impl Iterator<Item = Value<'a>>, out: &mut Vec<u8>) {
    let (open, close) = kind.brackets().unwrap_or((b'[', b']'));
    out.push(open);
    for (at, value) in values.enumerate() {
        separate(at, out);
        append_element(kind, value, out);
    }
    out.push(close);
}

fn separate(at: usize, out: &mut Vec<u8>) {
    if at > 0 {
        out.push(b',');
    }
}

fn append_text(text: JsonStr<'_>, out: &mut Vec<u8>) {
    out.push(b'"');
    let is_special = |byte: &u8| matches!(byte, 0..0x20 | b'"' | b'\\' | 0x80..);
    // Without an early end, this takes many bytes at a time.
    let special = |any, byte| any | is_special(byte);
    if !text.raw().iter().fold(false, special) {
        out.extend_from_slice(text.raw());
    } else {
        for char in text.chars() {
            match char {
                '"' => out.extend_from_slice(b"\\\""),
                '\\' => out.extend_from_slice(b"\\\\"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\t' => out.extend_from_slice(b"\\t"),
                '\0'..' ' => write(out, format_args!("\\u{:04x}", u32::from(char))),
                _ => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }
    out.push(b'"');
}

/// Appends a time as RFC 3339. Returns `false` for Go's zero time, and for times outside of the years 1 to 9999.
fn append_time(time: Message<'_>, out: &mut Vec<u8>) -> bool {
    let seconds = time.field(&[1]).and_then(Value::as_varint);
    let seconds = seconds.unwrap_or_default().cast_signed();
    if !(-62_135_596_800 + 1..=253_402_300_799).contains(&seconds) {
        return false;
    }
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    out.push(b'"');
    append_digits(year / 100, out);
    for (separator, number) in [
        (None, year % 100),
        (Some(b'-'), month),
        (Some(b'-'), day),
        (Some(b'T'), hour),
        (Some(b':'), minute),
        (Some(b':'), second),
    ] {
        out.extend(separator);
        append_digits(number, out);
    }
    out.extend_from_slice(b"Z\"");
    true
}

/// Appends a number below 100 as two digits.
fn append_digits(number: i64, out: &mut Vec<u8>) {
    let number = u8::try_from(number).unwrap_or_default();
    out.extend([b'0' + number / 10, b'0' + number % 10]);
}

/// Returns the date that is this many days after 1970-01-01, in the Gregorian calendar.
///
/// The year is counted from March, so that a leap day is its last day.
const fn date(days: i64) -> (i64, i64, i64) {
    const DAYS_IN_ERA: i64 = 146_097;
    // From 0000-03-01 to 1970-01-01.
    let days = days + 719_468;
    let era = days.div_euclid(DAYS_IN_ERA);
    let day_of_era = days.rem_euclid(DAYS_IN_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

fn write(out: &mut Vec<u8>, text: core::fmt::Arguments<'_>) {
    struct Bytes<'a>(&'a mut Vec<u8>);
    impl Write for Bytes<'_> {
        fn write_str(&mut self, text: &str) -> core::fmt::Result {
            self.0.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
    // Cannot fail: a vector accepts any text.
    let _ = Bytes(out).write_fmt(text);
}
