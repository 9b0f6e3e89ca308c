//! Converts YAML to JSON values.

use core::iter;

use granit_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Map, Number, Value};

/// Parses the first document of a text, as kubectl does. Empty text is null.
///
/// # Errors
/// Returns the line at which the text is not valid YAML. The error contains no part of the text, which may hold
/// secrets.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| wrong(error.marker().line()))?;
        if matches!(event, Event::DocumentEnd) {
            break;
        }
        reader.take(event).ok_or_else(|| wrong(span.start.line()))?;
    }
    Ok(reader.root.unwrap_or(Value::Null))
}

fn wrong(line: usize) -> String {
    format!("it is not a kubeconfig file in YAML or JSON; see line {line}")
}

#[derive(Default)]
struct Reader {
    root: Option<Value>,
    open: Vec<Open>,
    anchors: Vec<(usize, Value)>,
    /// The number of values copied by aliases.
    copied: usize,
}

/// A collection whose end has not been read.
struct Open {
    anchor: usize,
    kind: NodeKind,
}

enum NodeKind {
    List(Vec<Value>),
    Map {
        map: Map<String, Value>,
        merged: Vec<Value>,
        key: Option<String>,
    },
}

/// Real files are less deep.
const MOST_DEPTH: usize = 64;
/// Without a limit, aliases of aliases could multiply a small file.
const MOST_COPIED: usize = 10_000;

impl Reader {
    /// Handles an event. Returns `None` if a value is not allowed at this place.
    fn take(&mut self, event: Event<'_>) -> Option<()> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar(&text, style, tag.as_deref());
                self.remember(anchor, &value);
                self.add(value)
            }
            Event::Alias(anchor) => {
                let known = self
                    .anchors
                    .iter()
                    .rev()
                    .find(|(known, _)| *known == anchor);
                let value = known?.1.clone();
                self.copied += size(&value);
                (self.copied <= MOST_COPIED).then_some(())?;
                self.add(value)
            }
            Event::SequenceStart(_, anchor, _) => self.begin(anchor, NodeKind::List(Vec::new())),
            Event::MappingStart(_, anchor, _) => self.begin(
                anchor,
                NodeKind::Map {
                    map: Map::new(),
                    merged: Vec::new(),
                    key: None,
                },
            ),
            Event::SequenceEnd | Event::MappingEnd => {
                let Open { anchor, kind } = self.open.pop()?;
                let value = match kind {
                    NodeKind::List(list) => Value::Array(list),
                    NodeKind::Map { map, merged, .. } => Value::Object(merge(map, merged)?),
                };
                self.remember(anchor, &value);
                self.add(value)
            }
            Event::UnresolvedAlias(_) => None,
            Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(..)
            | Event::DocumentEnd
            | Event::Anchor(..)
            | _ => Some(()),
        }
    }

    fn begin(&mut self, anchor: usize, kind: NodeKind) -> Option<()> {
        (self.open.len() < MOST_DEPTH).then(|| self.open.push(Open { anchor, kind }))
    }

    fn remember(&mut self, anchor: usize, value: &Value) {
        if anchor > 0 {
            self.anchors.push((anchor, value.clone()));
        }
    }

    fn add(&mut self, value: Value) -> Option<()> {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(value);
            return Some(());
        };
        match &mut open.kind {
            NodeKind::List(list) => list.push(value),
            NodeKind::Map { map, merged, key } => match key.take() {
                None => *key = Some(name(value)?),
                Some(key) if key == MERGE => merged.push(value),
                // The last of several equal keys takes precedence, as in kubectl.
                Some(key) => drop(map.insert(key, value)),
            },
        }
        Some(())
    }
}

/// The merge key `<<`, which adds the fields of other maps.
const MERGE: &str = "<<";

fn merge(mut map: Map<String, Value>, merged: Vec<Value>) -> Option<Map<String, Value>> {
    for value in merged {
        let others = match value {
            Value::Array(list) => list,
            other @ Value::Object(_) => vec![other],
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        };
        for other in others {
            let Value::Object(other) = other else {
                return None;
            };
            for (key, value) in other {
                map.entry(key).or_insert(value);
            }
        }
    }
    Some(map)
}

/// Converts a key to text, as JSON requires.
fn name(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(size).sum(),
        Value::Object(map) => map.values().map(size).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Converts a scalar by the rules of YAML 1.1, which kubectl uses.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    let string = || Value::String(text.to_owned());
    if style != ScalarStyle::Plain || tag.is_some() {
        return string();
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Value::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Value::Bool(false);
        }
        _ => {}
    }
    number(text).map_or_else(string, Value::Number)
}

fn number(text: &str) -> Option<Number> {
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    let digits = plain.strip_prefix(['-', '+']).unwrap_or(&plain);
    let first = digits.strip_prefix('.').unwrap_or(digits).chars().next()?;
    if !first.is_ascii_digit() {
        return None;
    }
    let sign = if plain.starts_with('-') { -1 } else { 1 };
    for (prefix, radix) in [("0x", 16), ("0b", 2), ("0o", 8), ("0", 8), ("", 10)] {
        let rest = digits
            .strip_prefix(prefix)
            .filter(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_digit(radix)));
        if let Some(rest) = rest {
            let number = i128::from_str_radix(rest, radix).ok()? * sign;
            return Number::from_i128(number);
        }
    }
    let is_float = iter::once(digits).all(|text| {
        text.chars()
            .all(|c| c.is_ascii_digit() || "eE.+-".contains(c))
    });
    if is_float {
        return Number::from_f64(plain.parse().ok()?);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::json;

    #[test]
    fn values_are_those_of_kubectl() {
        for (text, expected) in [
            ("", json!(null)),
            (
                "a: [x, 'y', yes, 1, -0x1f, 017, 08, 1.5, .5, 1e3, 1_0, ~, 2001-01-01, !!str 7, 1.2.3, 0xg]",
                json!({"a": ["x", "y", true, 1, -31, 15, 8, 1.5, 0.5, 1000.0, 10, null, "2001-01-01", "7", "1.2.3", "0xg"]}),
            ),
            (
                "a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2}",
                json!({"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 1, "e": 2}}),
            ),
            (
                "a: {<<: [{b: 1}, {b: 2, c: 3}], c: 4}",
                json!({"a": {"b": 1, "c": 4}}),
            ),
            ("a: 1\na: 2", json!({"a": 2})),
            ("3: x\nyes: y2", json!({"3": "x", "true": "y2"})),
            (
                "\u{feff}---\na: |\n  x\n  y\n---\nb: 1",
                json!({"a": "x\ny\n"}),
            ),
            ("a: >-\n  x\n  y", json!({"a": "x y"})),
            ("{\"a\":\t[1, \"\\u00e9\"]}", json!({"a": [1, "é"]})),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn text_that_is_no_yaml_is_refused_without_being_shown() {
        let deep = "[".repeat(100_000);
        let bomb = (1..9).fold("a0: &a0 [s3cret]\n".to_owned(), |text, n| {
            let alias = format!("*a{},", n - 1).repeat(9);
            format!("{text}a{n}: &a{n} [{alias}]\n")
        });
        for text in [
            "a: [s3cret",
            "*s3cret",
            "a: s3cret: b",
            "<<: s3cret",
            "[s3cret]: b",
            &deep,
            &bomb,
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                error.contains("line") && !error.contains("s3cret"),
                "{error}"
            );
        }
    }
}
