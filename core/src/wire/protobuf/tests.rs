//! Frames, objects and errors in protobuf, at any split and limit.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::message::Encoded;
use super::*;
use crate::decode::RawObject;
use crate::json::{Prune, ScanErrorKind};
use crate::storage::{Heap, Storage};
use crate::wire::{ErrorClass, Format, Framer, FramerMode, ObjectHead, Piece, Status, classify};

pub(crate) fn bytes(number: u32, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    [Encoded::field(number, value.len() as u64).as_slice(), value].concat()
}

pub(crate) fn int(number: u8, value: u64) -> Vec<u8> {
    let mut out = Encoded::new();
    out.varint(u64::from(number) << 3);
    out.varint(value);
    out.as_slice().to_vec()
}

fn entry_of(number: u32, key: &str, value: &str) -> Vec<u8> {
    bytes(number, [bytes(1, key), bytes(2, value)].concat())
}

fn metadata(name: &str, version: &str) -> Vec<u8> {
    [
        bytes(field::NAME, name),
        bytes(2, ""),
        bytes(field::NAMESPACE, "shop"),
        bytes(field::UID, format!("uid-of-{name}")),
        bytes(field::RESOURCE_VERSION, version),
        int(7, 3),
        bytes(8, int(1, 1_700_000_000)),
        entry_of(field::LABELS, "app", "web"),
        entry_of(field::ANNOTATIONS, "note", "a \"quoted\"\nline \\ é"),
        entry_of(
            field::ANNOTATIONS,
            "kubectl.kubernetes.io/last-applied-configuration",
            "{}",
        ),
        bytes(
            field::OWNER_REFERENCES,
            [
                bytes(1, "ReplicaSet"),
                bytes(3, "rs"),
                bytes(4, "u-rs"),
                bytes(5, "apps/v1"),
                int(6, 1),
            ]
            .concat(),
        ),
        bytes(14, "example.com/hold"),
        bytes(
            field::MANAGED_FIELDS,
            [bytes(1, "kubelet"), bytes(7, bytes(1, [b'f'; 300]))].concat(),
        ),
    ]
    .concat()
}

pub(crate) fn pod(name: &str, version: &str) -> Vec<u8> {
    [
        bytes(1, metadata(name, version)),
        bytes(2, bytes(10, "n1")),
        bytes(3, bytes(1, "Running")),
    ]
    .concat()
}

pub(crate) fn enveloped(kind: &str, message: &[u8]) -> Vec<u8> {
    let types = [bytes(1, "v1"), bytes(2, kind)].concat();
    [
        &MAGIC[..],
        &bytes(1, types),
        &bytes(2, message),
        &bytes(3, ""),
        &bytes(4, ""),
    ]
    .concat()
}

pub(crate) fn event_of(change: &str, object: &[u8]) -> Vec<u8> {
    let event = [bytes(1, change), bytes(2, bytes(1, object))].concat();
    let length = u32::try_from(event.len()).unwrap().to_be_bytes();
    [&length[..], &event].concat()
}

pub(crate) fn list_of(items: &[Vec<u8>]) -> Vec<u8> {
    let mut list = bytes(
        1,
        [bytes(1, ""), bytes(2, "77"), bytes(3, "next\\page")].concat(),
    );
    for item in items {
        list.extend(bytes(2, item));
    }
    enveloped("PodList", &list)
}

/// Returns what a framer finds in a body, as text.
fn read(mode: FramerMode, limit: usize, skip: bool, pieces: &[&[u8]]) -> Vec<String> {
    let mut framer: Framer<<Heap as Storage>::Frame> = Framer::new(mode, limit);
    framer.skip_managed_fields(skip);
    framer.reset(mode, Format::Protobuf);
    let mut found = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        // As the reflector does, which has nothing to do without input.
        while !input.is_empty() {
            match framer.next(&mut input) {
                Ok(None) => break,
                Ok(Some(piece)) => found.push(shown(&piece)),
                Err(error) => {
                    found.push(format!("{error:?}"));
                    return found;
                }
            }
        }
        assert!(input.is_empty(), "all of it is read");
    }
    if framer.is_midway() {
        found.push("midway".to_string());
    }
    found
}

fn shown(piece: &Piece<'_>) -> String {
    let object = |object, identity: Option<&crate::wire::ObjectIdentity>| {
        let (head, problem) = ObjectHead::parse_as(Format::Protobuf, object, true);
        let head = identity.map_or(head, |identity| identity.head(object, true));
        let raw = RawObject::new(object, head);
        let labels: Vec<_> = raw.labels().map(|(k, v)| format!("{k}={v}")).collect();
        let (name, version) = (head.name, head.resource_version);
        let managed = metadata_fields(object, field::MANAGED_FIELDS).count();
        format!("{name} v{version} {labels:?} {managed} {problem:?}")
    };
    match *piece {
        Piece::Item {
            bytes,
            problem,
            identity,
            ..
        } => format!("item {} {problem:?}", object(bytes, identity)),
        Piece::Event {
            bytes,
            problem,
            identity,
            ..
        } => {
            let event = match identity {
                Some(identity) => identity.event(bytes),
                None => crate::wire::WatchEvent::parse_as(Format::Protobuf, bytes),
            };
            let Some(event) = event else {
                return format!("no event {problem:?}");
            };
            let shown = object(event.object, identity);
            format!("{:?} {} {shown} {problem:?}", event.kind, event.object_kind)
        }
        Piece::Member { name, bytes, .. } => format!("{name:?} {}", bytes.len()),
        Piece::End => "end".to_string(),
    }
}

/// Reads a body whole, at every byte, and at every single place; each way gives the same.
fn read_all_ways(mode: FramerMode, limit: usize, skip: bool, body: &[u8]) -> Vec<String> {
    let whole = read(mode, limit, skip, &[body]);
    let single: Vec<&[u8]> = body.chunks(1).collect();
    assert_eq!(read(mode, limit, skip, &single), whole, "at every byte");
    for at in 0..body.len().min(1500) {
        let (first, second) = body.split_at(at);
        assert_eq!(read(mode, limit, skip, &[first, second]), whole, "at {at}");
    }
    whole
}

#[test]
fn finds_items_and_members() {
    let body = list_of(&[pod("a", "5"), pod("b\\c", "6")]);
    let found = read_all_ways(FramerMode::List, 4096, false, &body);
    assert_eq!(
        found,
        [
            "TypeMeta 13",
            "Metadata 17",
            r#"item a v5 ["app=web"] 1 None None"#,
            r#"item b\c v6 ["app=web"] 1 None None"#,
            "end"
        ]
    );
    let list = bytes(3, "next\\page");
    let listed = Listed::parse(&list);
    assert!(listed.token == "next\\page" && listed.version.is_empty());
}

#[test]
fn waits_for_the_kind_if_it_follows_the_list() {
    let list = bytes(2, bytes(2, pod("a", "5")));
    let types = bytes(1, bytes(2, "PodList"));
    let body = [&MAGIC[..], &list, &types].concat();
    let found = read_all_ways(FramerMode::List, 4096, false, &body);
    assert_eq!(found.last().map(String::as_str), Some("end"));
    let found = read_all_ways(FramerMode::List, 4096, false, &[&MAGIC[..], &list].concat());
    assert_eq!(found.last().map(String::as_str), Some("midway"));
}

#[test]
fn a_list_may_end_with_its_last_item_or_its_kind() {
    let metadata = bytes(1, bytes(2, "77"));
    let types = bytes(1, bytes(2, "PodList"));
    for list in [
        [metadata.clone(), bytes(2, pod("a", "5"))].concat(),
        metadata,
        bytes(2, ""),
        bytes(9, "unknown"),
        Vec::new(),
    ] {
        let list = bytes(2, list);
        for body in [
            [&MAGIC[..], &types, &list].concat(),
            [&MAGIC[..], &list, &types].concat(),
        ] {
            let found = read_all_ways(FramerMode::List, 4096, false, &body);
            assert_eq!(found.last().map(String::as_str), Some("end"), "{body:?}");
        }
    }
}

#[test]
fn finds_events() {
    let bookmark = enveloped(
        "Pod",
        &bytes(1, entry_of(12, "k8s.io/initial-events-end", "true")),
    );
    assert!(is_initial_events_end(
        event(&event_of("BOOKMARK", &bookmark)[4..]).unwrap().object
    ));
    let body = [
        event_of(
            "ADDED",
            &enveloped(
                "Namespace",
                &bytes(1, [bytes(1, "demo"), bytes(6, "42")].concat()),
            ),
        ),
        event_of("MODIFIED", &enveloped("Pod", &pod("a", "7"))),
        event_of("ADDED", b"no envelope"),
        vec![0; 4],
        event_of("NEW", &enveloped("Pod", &pod("a", "8"))),
    ]
    .concat();
    assert_eq!(
        read_all_ways(FramerMode::Watch, 4096, false, &body),
        [
            "Added Namespace demo v42 [] 0 None None",
            r#"Modified Pod a v7 ["app=web"] 1 None None"#,
            "no event None",
            "no event None",
            r#"Unknown("NEW") Pod a v8 ["app=web"] 1 None None"#,
        ]
    );
}

#[test]
fn a_large_object_has_its_identity_and_may_fit_without_managed_fields() {
    let body = event_of("MODIFIED", &enveloped("Pod", &pod("a", "7")));
    let fits = r#"Modified  a v7 ["app=web"] 0 None None"#;
    assert_eq!(
        read_all_ways(FramerMode::Watch, 420, true, &body),
        [fits],
        "the object fits"
    );
    let found = read_all_ways(FramerMode::Watch, 420, false, &body);
    assert!(found[0].starts_with("Modified  a v7"), "{found:?}");
    assert!(found[0].contains("TooLarge"), "{found:?}");
    let found = read_all_ways(FramerMode::Watch, 40, true, &body);
    assert!(found[0].starts_with("Modified  a v7"), "{found:?}");

    let items = list_of(&[pod("a", "7"), pod("b", "8")]);
    let found = read_all_ways(FramerMode::List, 420, true, &items);
    assert_eq!(found[2], r#"item a v7 ["app=web"] 0 None None"#);
    assert_eq!(found[3], r#"item b v8 ["app=web"] 0 None None"#);

    let long = enveloped("Pod", &bytes(1, bytes(1, [b'n'; 900])));
    let found = read_all_ways(FramerMode::Watch, 100, false, &event_of("ADDED", &long));
    assert!(found[0].contains("Unidentifiable"), "{found:?}");
}

#[test]
fn an_object_without_managed_fields_is_the_same_object() {
    let body = event_of("ADDED", &enveloped("Pod", &pod("a", "7")));
    let mut framer: Framer<<Heap as Storage>::Frame> = Framer::new(FramerMode::Watch, 420);
    framer.skip_managed_fields(true);
    framer.reset(FramerMode::Watch, Format::Protobuf);
    let Ok(Some(Piece::Event { bytes, .. })) = framer.next(&mut &body[..]) else {
        panic!("no event");
    };
    let mut kept = Vec::new();
    Prune::new(&[&["metadata", "managedFields"]]).copy(&pod("a", "7"), &mut kept);
    let json = |object| {
        let mut json = Vec::new();
        append_metadata(object, &mut json);
        String::from_utf8(json).unwrap()
    };
    assert_eq!(json(bytes), json(&kept));
    assert_eq!(Message::new(bytes).text(&[2, 10]), Some("n1"));
}

/// A message begins with the length of its metadata, which may look like a brace.
#[test]
fn metadata_of_any_length_is_no_json() {
    for padding in 0..300 {
        let metadata = [bytes(1, "a"), bytes(14, vec![b'f'; padding])].concat();
        let pod = [bytes(1, &metadata), bytes(2, bytes(10, "n1"))].concat();
        assert_eq!(Format::of_object(&pod), Format::Protobuf, "{padding}");
        assert!(RawObject::parse(&pod).name() == "a", "{padding}");
        let mut kept = Vec::new();
        Prune::new(&[&["2"]]).copy(&pod, &mut kept);
        assert_eq!(kept, bytes(1, &metadata), "{padding}");
        let found = read_all_ways(FramerMode::List, 1000, false, &list_of(&[pod]));
        assert!(found[2].starts_with("item a "), "{padding}: {found:?}");
    }
    // White space and a brace are an unknown field, whose number is skipped.
    let unknown = [b"\x20\x7b".to_vec(), pod("a", "1")].concat();
    let found = read_all_ways(FramerMode::List, 4096, false, &list_of(&[unknown]));
    assert!(found[2].starts_with("item a v1"), "{found:?}");
}

#[test]
fn refuses_what_is_malformed() {
    let in_list = |list: &[u8]| [&MAGIC[..], &bytes(1, bytes(2, "PodList")), list].concat();
    for (body, kind) in [
        (b"{}".to_vec(), ScanErrorKind::NoMagic(b'{')),
        (b"k8sx".to_vec(), ScanErrorKind::NoMagic(b'x')),
        (in_list(&[0xff; 11]), ScanErrorKind::BadVarint),
        // A group, and field number 0.
        (in_list(b"\x0b"), ScanErrorKind::BadTag),
        (in_list(b"\x02\x00"), ScanErrorKind::BadTag),
        // An item that extends beyond the list.
        (in_list(b"\x12\x03\x12\x05ab"), ScanErrorKind::BadLength),
        // A tag, a length, a number and fixed bytes that are cut off by the end of the list.
        (in_list(b"\x12\x01\x92\x01\x00"), ScanErrorKind::BadLength),
        (in_list(b"\x12\x01\x12\x00"), ScanErrorKind::BadLength),
        (in_list(b"\x12\x02\x18\x80\x00"), ScanErrorKind::BadLength),
        (in_list(b"\x12\x02\x19\x00\x00"), ScanErrorKind::BadLength),
        (
            in_list(b"\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
            ScanErrorKind::BadLength,
        ),
        (
            [&MAGIC[..], b"\x12\x00\x12\x00"].concat(),
            ScanErrorKind::TwoLists,
        ),
        (
            [&MAGIC[..], b"\x0a\xff\xff\xff\x7f"].concat(),
            ScanErrorKind::TooLargeEnvelope,
        ),
    ] {
        let found = read_all_ways(FramerMode::List, 4096, false, &body);
        assert!(
            found.last().unwrap().starts_with(&kind.to_string()),
            "{found:?} {kind:?}"
        );
    }
}

#[test]
fn an_object_that_is_malformed_is_reported_and_later_ones_are_not_affected() {
    for wrong in [
        // A field beyond the object, a group, metadata that is a number, metadata that is malformed.
        b"\x0a\x7f".to_vec(),
        b"{}".to_vec(),
        int(1, 5),
        bytes(1, b"\x0a\x09x"),
    ] {
        for limit in [4096, 20] {
            let body = list_of(&[wrong.clone(), pod("b", "2")]);
            let found = read_all_ways(FramerMode::List, limit, false, &body);
            let is_reported = found[2].contains("Malformed") || found[2].contains("TooLarge");
            assert!(is_reported, "{found:?}");
            assert!(found[3].starts_with("item b v2"), "{found:?}");
        }
    }
    let not_utf8 = list_of(&[bytes(1, bytes(1, b"\xff"))]);
    let found = read_all_ways(FramerMode::List, 4096, false, &not_utf8);
    assert!(found[2].contains("NotUtf8"), "{found:?}");
}

#[test]
fn a_frame_of_4_gigabytes_needs_no_memory() {
    let mut framer: Framer<<Heap as Storage>::Frame> = Framer::new(FramerMode::Watch, 1024);
    framer.reset(FramerMode::Watch, Format::Protobuf);
    let head = [
        &[0xff; 4][..],
        &bytes(1, "ADDED"),
        b"\x12\xf0\xff\xff\xff\x0f",
    ]
    .concat();
    let zeros = [0x08; 1 << 16];
    let mut found = framer.next(&mut &head[..]);
    assert!(matches!(found, Ok(None)));
    for _ in 0..crate::rounds(100) {
        found = framer.next(&mut &zeros[..]);
        assert!(matches!(found, Ok(None)), "{found:?}");
    }
    assert!(framer.is_midway());
}

#[test]
fn metadata_is_the_json_that_the_server_would_send() {
    let mut json = Vec::new();
    append_metadata(&pod("a", "5"), &mut json);
    assert_eq!(
        String::from_utf8(json).unwrap(),
        r#"{"name":"a","namespace":"shop","uid":"uid-of-a","resourceVersion":"5","generation":3,"creationTimestamp":"2023-11-14T22:13:20Z","labels":{"app":"web"},"annotations":{"note":"a \"quoted\"\nline \\ é","kubectl.kubernetes.io/last-applied-configuration":"{}"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"rs","uid":"u-rs","controller":true}],"finalizers":["example.com/hold"]}"#
    );
    for (seconds, shown) in [
        (0, r#"{"creationTimestamp":"1970-01-01T00:00:00Z"}"#),
        (
            951_827_696,
            r#"{"creationTimestamp":"2000-02-29T12:34:56Z"}"#,
        ),
        (
            4_102_444_799,
            r#"{"creationTimestamp":"2099-12-31T23:59:59Z"}"#,
        ),
        // Go's zero time.
        ((-62_135_596_800_i64).cast_unsigned(), "{}"),
    ] {
        let mut json = Vec::new();
        append_metadata(&bytes(1, bytes(8, int(1, seconds))), &mut json);
        assert_eq!(String::from_utf8(json).unwrap(), shown);
    }
}

#[test]
fn an_object_has_labels_annotations_and_owners() {
    let pod = pod("a", "5");
    let raw = RawObject::parse(&pod);
    let shown = |(key, value)| format!("{key}={value}");
    assert_eq!(raw.labels().map(shown).collect::<Vec<_>>(), ["app=web"]);
    assert_eq!(raw.annotations().count(), 2);
    assert_eq!(raw.generation(), Some(3));
    assert!(!raw.is_being_deleted());
    let time = bytes(9, int(1, 1_700_000_000));
    assert!(RawObject::parse(&bytes(1, time)).is_being_deleted());
    assert!(raw.finalizers().eq(["example.com/hold"]));
    assert_eq!(RawObject::parse(&bytes(1, int(7, 0))).generation(), None);
    let owner = raw.owner_references().next().unwrap();
    assert!(owner.kind == "ReplicaSet" && owner.name == "rs" && owner.controller);
    assert!(owner.uid == "u-rs" && owner.api_version == "apps/v1");
    assert_eq!(raw.json(), b"");

    let mut copy = pod.clone();
    let places = raw.places();
    copy.reserve(1);
    let copied = RawObject::of_copy(&copy, &places);
    assert!(copied.name() == "a" && copied.resource_version() == "5");
    assert_eq!(copied.labels().map(shown).collect::<Vec<_>>(), ["app=web"]);
    assert_eq!(copied.owner_references().count(), 1);

    // The same in JSON.
    let mut json = b"{\"metadata\":".to_vec();
    append_metadata(&pod, &mut json);
    json.push(b'}');
    let json = RawObject::parse(&json);
    assert!(json.labels().eq(raw.labels()) && json.annotations().eq(raw.annotations()));
    assert!(json.owner_references().eq(raw.owner_references()));
    assert!(json.generation() == raw.generation() && json.finalizers().eq(raw.finalizers()));
}

#[test]
fn prunes_by_name_and_by_number() {
    let prune = |prune: Prune| {
        let mut kept = Vec::new();
        prune.copy(&pod("a", "5"), &mut kept);
        kept
    };
    let kept = prune(Prune::NOISE);
    assert_eq!(metadata_fields(&kept, field::MANAGED_FIELDS).count(), 0);
    let notes: Vec<_> = metadata_fields(&kept, field::ANNOTATIONS)
        .map(entry)
        .collect();
    assert!(notes.len() == 1 && notes[0].0 == "note");
    assert_eq!(Message::new(&kept).text(&[2, 10]), Some("n1"));

    let kept = prune(Prune::new(&[
        &["2", "10"],
        &["3"],
        &["metadata", "labels", "app"],
    ]));
    assert_eq!(Message::new(&kept).field(&[2]), Some(Value::Bytes(b"")));
    assert_eq!(Message::new(&kept).field(&[3]), None);
    assert_eq!(metadata_fields(&kept, field::LABELS).count(), 0);
    assert_eq!(prune(Prune::NOTHING), pod("a", "5"));
}

/// The metadata of an object in protobuf without some parts, as JSON.
fn pruned_metadata(metadata: Vec<u8>, paths: &'static [&'static [&'static str]]) -> String {
    let mut kept = Vec::new();
    Prune::new(paths).copy(&bytes(1, metadata), &mut kept);
    let mut json = Vec::new();
    append_metadata(&kept, &mut json);
    String::from_utf8(json).unwrap()
}

#[test]
fn prunes_the_metadata_as_in_json() {
    let metadata = [
        bytes(1, "web"),
        bytes(4, "/self"),
        int(7, 3),
        bytes(9, int(1, 1)),
        int(10, 0),
        bytes(11, [bytes(1, "app"), bytes(2, "shop")].concat()),
        bytes(
            13,
            [bytes(1, "Set"), bytes(3, "a"), bytes(4, "u1")].concat(),
        ),
        bytes(
            13,
            [bytes(1, "Job"), bytes(3, "b"), bytes(4, "u2")].concat(),
        ),
        // A text that can be read as a message.
        bytes(14, "abcdefghi"),
        bytes(14, "second"),
    ]
    .concat();
    let whole = r#"{"name":"web","selfLink":"/self","generation":3,"deletionTimestamp":"1970-01-01T00:00:01Z","deletionGracePeriodSeconds":0,"labels":{"app":"shop"},"ownerReferences":[{"kind":"Set","name":"a","uid":"u1"},{"kind":"Job","name":"b","uid":"u2"}],"finalizers":["abcdefghi","second"]}"#;
    assert_eq!(pruned_metadata(metadata.clone(), &[]), whole);
    const PATHS: [&[&[&str]]; 7] = [
        &[&["metadata", "finalizers", "0"]],
        &[&["metadata", "finalizers", "*", "x"]],
        &[
            &["metadata", "ownerReferences", "1", "uid"],
            &["metadata", "generation"],
        ],
        &[
            &["metadata", "ownerReferences", "*", "kind"],
            &["metadata", "selfLink"],
        ],
        &[
            &["metadata", "deletionTimestamp"],
            &["metadata", "deletionGracePeriodSeconds"],
        ],
        &[&["metadata", "labels", "*"], &["metadata", "finalizers"]],
        &[&["*", "name"]],
    ];
    for paths in PATHS {
        let mut json = Vec::new();
        let object = [r#"{"metadata":"#, whole, "}"].concat();
        Prune::new(paths).copy(object.as_bytes(), &mut json);
        let json = String::from_utf8(json).unwrap();
        // Without elements, a list is absent in protobuf.
        let expected = json.replace(r#""labels":{},"#, "");
        let kept = pruned_metadata(metadata.clone(), paths);
        assert_eq!(
            [r#"{"metadata":"#, &kept, "}"].concat(),
            expected,
            "{paths:?}"
        );
    }
    let no_finalizers = pruned_metadata(metadata, &[&["metadata", "finalizers", "*"]]);
    assert_eq!(
        no_finalizers,
        whole.replace(r#","finalizers":["abcdefghi","second"]"#, "")
    );
}

#[test]
fn a_path_of_numbers_takes_no_star() {
    let made = std::panic::catch_unwind(|| Prune::new(&[&["2", "2", "*", "7"]]));
    assert!(made.is_err());
}

#[test]
fn a_text_can_end_with_a_backslash() {
    let metadata = [bytes(1, "web"), bytes(14, r"a\")].concat();
    let json = pruned_metadata(metadata, &[]);
    assert_eq!(json, r#"{"name":"web","finalizers":["a\\"]}"#);
}

#[test]
fn reads_an_error() {
    let cause = [
        bytes(1, "ResourceVersionTooLarge"),
        bytes(2, "m"),
        bytes(3, "f"),
    ]
    .concat();
    let details = [bytes(4, cause), int(5, 7)].concat();
    let message = [
        bytes(2, "Failure"),
        bytes(3, "Too large"),
        bytes(4, "Timeout"),
        bytes(5, details),
        int(6, 504),
    ]
    .concat();
    let body = enveloped("Status", &message);
    let status = Status::parse(&body).unwrap();
    assert!(status.reason == "Timeout" && status.message == "Too large");
    assert_eq!(
        (status.code, status.retry_after_seconds),
        (Some(504), Some(7))
    );
    assert_eq!(status.causes().count(), 1);
    assert_eq!(classify(504, Some(&status), &body), ErrorClass::TooLarge);
    assert!(crate::wire::message(&body) == "Too large");
    assert_eq!(Status::parse(&enveloped("Pod", &message)), None);
    let error = event_of("ERROR", &body);
    assert_eq!(event(&error[4..]).unwrap().object, body);
}

#[test]
fn survives_anything() {
    let list = list_of(&[pod("a", "5"), pod("b", "6")]);
    let watch = [
        event_of("ADDED", &enveloped("Pod", &pod("a", "5"))),
        event_of("BOOKMARK", &enveloped("Pod", &bytes(1, bytes(6, "42")))),
    ]
    .concat();
    let mut random = 7_u64;
    let mut next = |below: usize| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) as usize % below
    };
    for round in 0..crate::rounds(20_000) {
        let (mode, body) = if round % 2 == 0 {
            (FramerMode::List, &list)
        } else {
            (FramerMode::Watch, &watch)
        };
        let mut body = body.clone();
        for _ in 0..=round % 3 {
            let at = next(body.len());
            body[at] = b"\x00\x01\x0a\x12\x7f\x80\xff{"[next(8)];
        }
        let limit = [16, 100, 420, 4096][next(4)];
        let skip = next(2) == 0;
        let whole = read(mode, limit, skip, &[&body]);
        let pieces: Vec<&[u8]> = body.chunks(1 + next(50)).collect();
        assert_eq!(read(mode, limit, skip, &pieces), whole, "round {round}");
        let mut out = Vec::new();
        Prune::NOISE.copy(&body, &mut out);
        append_metadata(&body, &mut out);
        let _ = Status::parse(&body);
    }
}
