//! The identity of one object, and the type of one event.

use core::fmt;

use super::{Format, FrameProblem};
use crate::json::members::Cursor;
use crate::json::{Fields, JsonStr, as_str};

/// The parts of an object that a cache needs, for any kind.
///
/// Strings are empty if the object does not have them, or has another type of value there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ObjectHead<'a> {
    /// The format of the object. Labels, annotations and metadata of an object in protobuf are the whole message.
    pub(crate) format: Format,
    /// The kind; items of a list have none.
    pub(crate) kind: JsonStr<'a>,
    /// Group and version; items of a list have none.
    pub(crate) api_version: JsonStr<'a>,
    /// The name.
    pub(crate) name: JsonStr<'a>,
    /// The namespace; empty for a cluster-scoped object.
    pub(crate) namespace: JsonStr<'a>,
    /// The uid, which distinguishes the object from earlier ones of the same name.
    pub(crate) uid: JsonStr<'a>,
    /// The version of the content, opaque.
    pub(crate) resource_version: JsonStr<'a>,
    /// The labels, a JSON object.
    pub(crate) labels: Option<&'a [u8]>,
    /// The annotations, a JSON object.
    pub(crate) annotations: Option<&'a [u8]>,
    /// The metadata, a JSON object.
    pub(crate) metadata: Option<&'a [u8]>,
}

impl<'a> ObjectHead<'a> {
    /// Finds the parts in the JSON of an object, which a [`Scanner`](crate::json::Scanner) has validated.
    ///
    /// Parsing stops as soon as the metadata is found, and with `need_type` also kind and API version. The JSON may be
    /// truncated: missing parts count as absent.
    pub(crate) fn parse(json: &'a [u8], need_type: bool) -> Self {
        let mut head = Self::default();
        let mut cursor = Cursor::new(json);
        cursor.eat(b'{');
        let mut metadata = false;
        let (mut kind, mut api_version) = (!need_type, !need_type);
        while !(metadata && kind && api_version)
            && let Some(key) = cursor.key()
        {
            if key.eq_str("metadata") && cursor.peek() == Some(b'{') {
                head.read_metadata(json, &mut cursor);
                metadata = true;
                continue;
            }
            let Some(value) = cursor.value() else { break };
            if key.eq_str("kind") {
                head.kind = as_str(value).unwrap_or_default();
                kind = true;
            } else if key.eq_str("apiVersion") {
                head.api_version = as_str(value).unwrap_or_default();
                api_version = true;
            }
        }
        head
    }

    /// Finds the parts in an object of this format, as [`parse`](Self::parse) does, and the reason why the object is
    /// unusable. Kind and API version of an object in protobuf are in its envelope.
    pub(crate) fn parse_as(
        format: Format,
        object: &'a [u8],
        need_type: bool,
    ) -> (Self, Option<FrameProblem>) {
        match format {
            #[cfg(feature = "protobuf")]
            Format::Protobuf => super::protobuf::head(object),
            _ => (Self::parse(object, need_type), None),
        }
    }

    /// Returns whether this is the bookmark that ends the initial events of a watch-list.
    pub(crate) fn is_initial_events_end(&self) -> bool {
        let annotations = self.annotations.unwrap_or_default();
        #[cfg(feature = "protobuf")]
        if self.format == Format::Protobuf {
            return super::protobuf::is_initial_events_end(annotations);
        }
        let value =
            Fields::new(annotations).find(|(name, _)| name.eq_str("k8s.io/initial-events-end"));
        value
            .and_then(|(_, value)| as_str(value))
            .is_some_and(|value| value.eq_str("true"))
    }

    /// Parses the metadata in the same pass that finds its end.
    fn read_metadata(&mut self, json: &'a [u8], cursor: &mut Cursor<'a>) {
        let start = cursor.at();
        cursor.eat(b'{');
        while let Some(key) = cursor.key() {
            let Some(value) = cursor.value() else { return };
            let text = match plain_name(key) {
                b"name" => &mut self.name,
                b"namespace" => &mut self.namespace,
                b"uid" => &mut self.uid,
                b"resourceVersion" => &mut self.resource_version,
                b"labels" => {
                    self.labels = as_object(value);
                    continue;
                }
                b"annotations" => {
                    self.annotations = as_object(value);
                    continue;
                }
                _ => continue,
            };
            *text = as_str(value).unwrap_or_default();
        }
        if cursor.eat(b'}') {
            self.metadata = json.get(start..cursor.at());
        }
    }
}

/// One event of a watch.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchEvent<'a> {
    /// The type of the event.
    pub(crate) kind: EventType<'a>,
    /// The object: of the watched kind, or a `Status`.
    pub object: &'a [u8],
    /// The kind of an object in protobuf, which is not in the object itself.
    pub(crate) object_kind: JsonStr<'a>,
    /// The API version of an object in protobuf.
    pub(crate) api_version: JsonStr<'a>,
}

/// Writes the type and the size of the object, whose content may be a secret.
impl fmt::Debug for WatchEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "WatchEvent({:?}, {} bytes)",
            self.kind,
            self.object.len()
        )
    }
}

impl<'a> WatchEvent<'a> {
    /// Finds type and object in the JSON of an event, which a [`Scanner`](crate::json::Scanner) has validated.
    ///
    /// The JSON may be truncated, and then the object is truncated as well. Returns `None` if type or object are
    /// missing.
    pub fn parse(json: &'a [u8]) -> Option<Self> {
        let (kind, object) = parts(json);
        Some(Self::new(EventType::new(kind?), object?))
    }

    pub(super) const fn new(kind: EventType<'a>, object: &'a [u8]) -> Self {
        Self {
            kind,
            object,
            object_kind: JsonStr::new(&[]),
            api_version: JsonStr::new(&[]),
        }
    }

    /// Finds the parts in an event of this format. In protobuf, the object is without its envelope, except that of an
    /// error.
    pub(crate) fn parse_as(format: Format, event: &'a [u8]) -> Option<Self> {
        match format {
            #[cfg(feature = "protobuf")]
            Format::Protobuf => {
                let event = super::protobuf::event(event)?;
                Some(Self {
                    kind: EventType::new(event.kind),
                    object: event.object,
                    object_kind: event.types.kind,
                    api_version: event.types.api_version,
                })
            }
            _ => Self::parse(event),
        }
    }
}

/// Finds type and object of an event.
pub(super) fn parts(json: &[u8]) -> (Option<JsonStr<'_>>, Option<&[u8]>) {
    let mut kind = None;
    let mut object = None;
    let mut cursor = Cursor::new(json);
    cursor.eat(b'{');
    while kind.is_none() || object.is_none() {
        let Some(key) = cursor.key() else { break };
        if key.eq_str("object") && cursor.peek() == Some(b'{') {
            let start = cursor.at();
            let whole = cursor.value();
            object = whole.or_else(|| json.get(start..));
            if whole.is_none() {
                break;
            }
            continue;
        }
        let Some(value) = cursor.value() else { break };
        if key.eq_str("type") {
            kind = as_str(value);
        }
    }
    (kind, object)
}

/// The type of a watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventType<'a> {
    /// The object was added, at least from the view of this watch.
    Added,
    /// The object was modified.
    Modified,
    /// The object was deleted; the event contains its last state.
    Deleted,
    /// A bookmark: the object only contains the resourceVersion that the watch has reached.
    Bookmark,
    /// The watch has failed, and the object is a `Status`.
    Error,
    /// An unknown type.
    Unknown(JsonStr<'a>),
}

impl<'a> EventType<'a> {
    pub(super) fn new(name: JsonStr<'a>) -> Self {
        const KNOWN: [(&str, EventType<'static>); 5] = [
            ("ADDED", EventType::Added),
            ("MODIFIED", EventType::Modified),
            ("DELETED", EventType::Deleted),
            ("BOOKMARK", EventType::Bookmark),
            ("ERROR", EventType::Error),
        ];
        KNOWN
            .iter()
            .find(|(known, _)| name.eq_str(known))
            .map_or(Self::Unknown(name), |(_, kind)| *kind)
    }
}

/// Returns the name of a metadata field, unescaped if it is a known one.
fn plain_name(key: JsonStr<'_>) -> &[u8] {
    const FIELDS: [&str; 6] = [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "labels",
        "annotations",
    ];
    if !key.raw().contains(&b'\\') {
        return key.raw();
    }
    FIELDS
        .iter()
        .find(|field| key.eq_str(field))
        .map_or(&[], |field| field.as_bytes())
}

fn as_object(value: &[u8]) -> Option<&[u8]> {
    value.starts_with(b"{").then_some(value)
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use super::*;

    const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-0","generateName":"web-","namespace":"shop","uid":"6d-fe","resourceVersion":"1000","labels":{"app":"web","name":"other"},"annotations":{"a":"}{"},"managedFields":[{"name":"x","fieldsV1":{"f:metadata":{"f:labels":{}}}}]},"spec":{"name":"not this","containers":[{"name":"c"}]},"status":{"uid":"no"}}"#;

    fn text(value: Option<&[u8]>) -> Option<&str> {
        value.map(|value| core::str::from_utf8(value).unwrap())
    }

    #[test]
    fn reads_a_pod() {
        for need_type in [true, false] {
            let head = ObjectHead::parse(POD.as_bytes(), need_type);
            assert!(head.name == "web-0" && head.namespace == "shop" && head.uid == "6d-fe");
            assert!(
                head.resource_version == "1000" && head.kind == "Pod" && head.api_version == "v1"
            );
            assert_eq!(text(head.labels), Some(r#"{"app":"web","name":"other"}"#));
            assert_eq!(text(head.annotations), Some(r#"{"a":"}{"}"#));
            let metadata = text(head.metadata).unwrap();
            assert!(metadata.starts_with("{\"name\":\"web-0\"") && metadata.ends_with("{}}}}]}"));
            assert!(POD.contains(metadata));
        }
    }

    #[test]
    fn reads_members_in_any_order() {
        let json = " { \"spec\" : {\"metadata\":{\"name\":\"no\"}}, \"metadata\" : { \"labels\" : null , \"name\" : \"a\" } , \"apiVersion\":\"v1\", \"kind\" : \"Pod\" }";
        let head = ObjectHead::parse(json.as_bytes(), true);
        assert!(head.name == "a" && head.kind == "Pod" && head.api_version == "v1");
        assert_eq!(head.labels, None);
        assert_eq!(
            text(head.metadata),
            Some("{ \"labels\" : null , \"name\" : \"a\" }")
        );
        // The kind was not requested, so it is not parsed.
        assert!(ObjectHead::parse(json.as_bytes(), false).kind.is_empty());
    }

    #[test]
    fn stops_after_the_metadata() {
        let json = r#"{"metadata":{"name":"a"},<not even JSON"#;
        assert!(ObjectHead::parse(json.as_bytes(), false).name == "a");
    }

    #[test]
    fn takes_the_wrong_type_for_absent() {
        let json = r#"{"kind":1,"apiVersion":null,"metadata":{"name":5,"uid":{},"resourceVersion":1000,"namespace":null,"labels":[],"annotations":"x"}}"#;
        let head = ObjectHead::parse(json.as_bytes(), true);
        assert_eq!(
            ObjectHead {
                metadata: None,
                ..head
            },
            ObjectHead::default()
        );
        for json in [
            "",
            "{}",
            "null",
            "[]",
            "{\"metadata\":null}",
            "{\"metadata\":[]}",
            "\"metadata\"",
            "{\"metadata\"",
        ] {
            assert_eq!(
                ObjectHead::parse(json.as_bytes(), true),
                ObjectHead::default(),
                "{json}"
            );
        }
    }

    #[test]
    fn reads_escaped_names() {
        let json = r#"{"\u006detadata":{"n\u0061me":"a\u002fb","\u0075id":"u"}}"#;
        let head = ObjectHead::parse(json.as_bytes(), false);
        assert!(head.name == "a/b" && head.uid == "u");
        assert_eq!(head.name.to_string(), "a/b");
    }

    #[test]
    fn reads_what_is_left_of_a_pod_that_is_cut_off() {
        let whole = ObjectHead::parse(POD.as_bytes(), true);
        for end in 0..POD.len() {
            let head = ObjectHead::parse(&POD.as_bytes()[..end], true);
            for (part, all) in [
                (head.kind, whole.kind),
                (head.name, whole.name),
                (head.namespace, whole.namespace),
                (head.uid, whole.uid),
                (head.resource_version, whole.resource_version),
            ] {
                assert!(part.is_empty() || part == all, "cut at {end}");
            }
            assert!(head.labels.is_none() || head.labels == whole.labels);
            assert!(head.metadata.is_none() || head.metadata == whole.metadata);
        }
        let end = POD.find("\"labels\"").unwrap();
        assert!(ObjectHead::parse(&POD.as_bytes()[..end], true).resource_version == "1000");
    }

    #[test]
    fn knows_the_end_of_the_initial_events() {
        let is_end = |annotations: &str| {
            let json = format!(
                r#"{{"kind":"Pod","metadata":{{"resourceVersion":"5","annotations":{annotations}}}}}"#
            );
            ObjectHead::parse(json.as_bytes(), true).is_initial_events_end()
        };
        assert!(is_end(r#"{"k8s.io/initial-events-end":"true"}"#));
        assert!(is_end(
            r#"{"a":"b","k8s.io\/initial-events-end":"\u0074rue"}"#
        ));
        assert!(!is_end(r#"{"k8s.io/initial-events-end":"false"}"#));
        assert!(!is_end(r#"{"k8s.io/initial-events-end":"True"}"#));
        assert!(!is_end(r#"{"k8s.io/initial-events-end":true}"#));
        assert!(!is_end(r#"{"k8s.io/initial-events":"true"}"#));
        assert!(!is_end("null"));
        assert!(!ObjectHead::default().is_initial_events_end());
    }

    #[test]
    fn reads_events() {
        let types = [
            ("ADDED", EventType::Added),
            ("MODIFIED", EventType::Modified),
            ("DELETED", EventType::Deleted),
            ("BOOKMARK", EventType::Bookmark),
            ("ERROR", EventType::Error),
            ("\\u0041DDED", EventType::Added),
            ("added", EventType::Unknown(JsonStr::new(b"added"))),
        ];
        for (name, kind) in types {
            for json in [
                format!(r#"{{"type":"{name}","object":{POD}}}"#),
                format!(" {{ \"object\" : {POD} , \"type\" : \"{name}\" }}\n"),
                format!(r#"{{"x":{{"type":"y"}},"type":"{name}","y":[],"object":{POD},"z":1}}"#),
            ] {
                let event = WatchEvent::parse(json.as_bytes()).unwrap();
                assert_eq!((event.kind, text(Some(event.object))), (kind, Some(POD)));
            }
        }
        for json in [
            "",
            "{}",
            "[]",
            r#"{"type":"ADDED"}"#,
            r#"{"object":{}}"#,
            r#"{"type":1,"object":{}}"#,
            r#"{"type":"ADDED","object":null}"#,
            r#"{"object":{"a":"#,
        ] {
            assert_eq!(WatchEvent::parse(json.as_bytes()), None, "{json}");
        }
    }

    #[test]
    fn reads_what_is_left_of_an_event_that_is_cut_off() {
        let json = format!(r#"{{"type":"ADDED","object":{POD}}}"#);
        let start = json.find(POD).unwrap();
        for end in 0..json.len() {
            let event = WatchEvent::parse(&json.as_bytes()[..end]);
            match event {
                Some(event) => assert_eq!(
                    event.object,
                    &json.as_bytes()[start..end.min(start + POD.len())]
                ),
                None => assert!(end <= start, "cut at {end}"),
            }
        }
    }

    #[test]
    fn survives_anything() {
        let mut random = 5_u64;
        for round in 0..crate::rounds(20_000) {
            let mut json: Vec<u8> = format!(r#"{{"type":"ADDED","object":{POD}}}"#).into_bytes();
            for _ in 0..=round % 3 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let place = (random >> 33) as usize % json.len();
                json[place] = b"{}[]\",:\\a\xff"[(random >> 20) as usize % 10];
            }
            let object = WatchEvent::parse(&json).map_or(&json[..], |event| event.object);
            let _: bool = ObjectHead::parse(object, true).is_initial_events_end();
        }
    }
}
