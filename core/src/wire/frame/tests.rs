//! Frames of lists and watches, at any split and limit.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::*;
use crate::wire::{Format, ObjectHead, WatchEvent};

#[derive(Debug, Default)]
struct TestBuffer {
    bytes: Vec<u8>,
    limit: usize,
    peak: usize,
}

impl FrameBuffer for TestBuffer {
    fn extend(&mut self, bytes: &[u8]) -> Result<(), ()> {
        if self.bytes.len() + bytes.len() > self.limit {
            return Err(());
        }
        self.bytes.extend_from_slice(bytes);
        self.peak = self.peak.max(self.bytes.len());
        Ok(())
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    fn remove(&mut self, start: usize, end: usize) {
        self.bytes.drain(start..end);
    }

    fn clear(&mut self) {
        self.bytes.clear();
    }

    fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    fn limit(&self) -> usize {
        self.limit
    }
}

/// The output for a body: pieces as text, then the error if there is one, and whether the body ends midway.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Outcome {
    pieces: Vec<String>,
    error: Option<ScanError>,
    midway: bool,
}

fn show(piece: &Piece<'_>) -> String {
    let text = |json| String::from_utf8_lossy(json).into_owned();
    match piece {
        Piece::Item {
            bytes: json,
            format: _,
            problem: None,
            ..
        } => format!("item {}", text(json)),
        Piece::Item {
            bytes: json,
            format: _,
            problem: Some(problem),
            identity,
        } => format!("item {} ({problem}){}", text(json), whose(*identity)),
        Piece::Event {
            bytes: json,
            format: _,
            problem: None,
            ..
        } => format!("event {}", text(json)),
        Piece::Event {
            bytes: json,
            format: _,
            problem: Some(problem),
            identity,
        } => format!("event {} ({problem}){}", text(json), whose(*identity)),
        Piece::Member {
            name, bytes: json, ..
        } => format!("{name:?} {}", text(json)),
        Piece::End => "end".to_string(),
    }
}

/// Returns the identity of a large frame as text.
fn whose(identity: Option<&ObjectIdentity>) -> String {
    let Some(identity) = identity else {
        return String::new();
    };
    let head = identity.head(b"", true);
    if head.name.is_empty() {
        return String::new();
    }
    format!(
        " {:?} {} {} of {}/{} u{} v{}",
        identity.event(b"").map(|event| event.kind),
        head.kind,
        head.api_version,
        head.namespace,
        head.name,
        head.uid,
        head.resource_version
    )
}

fn read(framer: &mut Framer<TestBuffer>, mut input: &[u8], outcome: &mut Outcome) {
    while outcome.error.is_none() {
        match framer.next(&mut input) {
            Ok(Some(piece)) => outcome.pieces.push(show(&piece)),
            Ok(None) => {
                assert!(input.is_empty());
                break;
            }
            Err(error) => {
                assert_eq!(framer.next(&mut input), Err(error));
                outcome.error = Some(error);
            }
        }
    }
    outcome.midway = outcome.error.is_none() && framer.is_midway();
}

fn outcome<'i>(
    mode: FramerMode,
    limit: usize,
    parts: impl IntoIterator<Item = &'i [u8]>,
) -> Outcome {
    outcome_of(Framer::new(mode, limit), limit, parts)
}

fn outcome_of<'i>(
    mut framer: Framer<TestBuffer>,
    limit: usize,
    parts: impl IntoIterator<Item = &'i [u8]>,
) -> Outcome {
    let mut outcome = Outcome::default();
    for part in parts {
        read(&mut framer, part, &mut outcome);
    }
    assert!(framer.buffer.peak <= limit);
    outcome
}

/// Reads the body split in every relevant way, and checks that the output is the same.
fn read_all_ways(mode: FramerMode, limit: usize, body: &[u8]) -> Outcome {
    let whole = outcome(mode, limit, [body]);
    for cut in 0..=body.len() {
        let (one, two) = body.split_at(cut);
        assert_eq!(outcome(mode, limit, [one, two]), whole, "cut at {cut}");
        assert_eq!(
            outcome(mode, limit, [one, &[], two, &[]]),
            whole,
            "cut at {cut}, with empty parts"
        );
    }
    for size in [1, 2, 3, 5, 7, 16, 17] {
        assert_eq!(
            outcome(mode, limit, body.chunks(size)),
            whole,
            "parts of {size}"
        );
    }
    whole
}

fn list(body: &str) -> Outcome {
    read_all_ways(FramerMode::List, 1000, body.as_bytes())
}

fn watch(body: &str) -> Outcome {
    read_all_ways(FramerMode::Watch, 1000, body.as_bytes())
}

fn complete(pieces: &[&str]) -> Outcome {
    let pieces = pieces.iter().map(ToString::to_string).collect();
    Outcome {
        pieces,
        error: None,
        midway: false,
    }
}

fn fails(pieces: &[&str], offset: u64, kind: ScanErrorKind) -> Outcome {
    Outcome {
        error: Some(ScanError { offset, kind }),
        ..complete(pieces)
    }
}

#[test]
fn finds_items_and_members_in_any_order() {
    let body = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"10"},"items":[{"a":1},{"b":[2]}]}"#;
    let members = [
        "Kind \"PodList\"",
        "ApiVersion \"v1\"",
        "Metadata {\"resourceVersion\":\"10\"}",
    ];
    let items = ["item {\"a\":1}", "item {\"b\":[2]}"];
    assert_eq!(
        list(body),
        complete(&[&members[..], &items, &["end"]].concat())
    );

    let body = " {\r\n \"items\" : [ {\"a\":1} ,\n {\"b\":[2]} ] , \"metadata\" : {\"resourceVersion\":\"10\"} ,\"kind\":\"PodList\" }\r\n ";
    assert_eq!(
        list(body),
        complete(&[&items[..], &[members[2], members[0], "end"]].concat())
    );

    let body = r#"{"items":[{"a":1}],"items":[{"b":[2]}]}"#;
    assert_eq!(list(body), complete(&[&items[..], &["end"]].concat()));
}

#[test]
fn finds_nothing_in_empty_lists() {
    assert_eq!(list("{}"), complete(&["end"]));
    assert_eq!(list(r#"{"items":null}"#), complete(&["end"]));
    assert_eq!(list(r#"{"items":[]}"#), complete(&["end"]));
    assert_eq!(
        list(r#"{"items" : [ ] , "kind":"L"}"#),
        complete(&["Kind \"L\"", "end"])
    );
    assert_eq!(list(""), complete(&[]));
    assert_eq!(list(" \n"), complete(&[]));
}

#[test]
fn skips_other_members() {
    let long = "x".repeat(100);
    let body = format!(
        r#"{{"{long}":"{long}","other":{{"items":[{{}}]}},"":[1,2],"it":1,"items2":[{{}}],"items":[{{"items":[1]}}],"n":-1.5e3,"t":true}}"#
    );
    assert_eq!(list(&body), complete(&["item {\"items\":[1]}", "end"]));
}

#[test]
fn reads_escaped_keys() {
    let body = r#"{"\u0069tems":[{}],"\u006bind":"L","\u0061\u0070\u0069\u0056\u0065\u0072\u0073\u0069\u006f\u006e":"v1"}"#;
    assert_eq!(
        list(body),
        complete(&["item {}", "Kind \"L\"", "ApiVersion \"v1\"", "end"])
    );
}

#[test]
fn finds_a_status_in_place_of_a_list() {
    let body = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","details":{"retryAfterSeconds":1},"code":410}"#;
    let expected = [
        "Kind \"Status\"",
        "ApiVersion \"v1\"",
        "Metadata {}",
        "Status \"Failure\"",
        "Message \"too old\"",
        "Reason \"Expired\"",
        "Details {\"retryAfterSeconds\":1}",
        "Code 410",
        "end",
    ];
    assert_eq!(list(body), complete(&expected));
}

#[test]
fn delivers_items_that_are_no_objects() {
    let body = r#"{"items":[1,"a",null,[{}], -2.5e1 ,true]}"#;
    let expected = [
        "item 1",
        "item \"a\"",
        "item null",
        "item [{}]",
        "item -2.5e1",
        "item true",
        "end",
    ];
    assert_eq!(list(body), complete(&expected));
}

#[test]
fn finds_events() {
    let one = r#"{"type":"ADDED","object":{"a":"}]{[\"\\","n":-12.5e+3,"t":[true,false,null]}}"#;
    let two = r#"{"type":"MODIFIED","object":{"a":"\ud83e\udd80\u00e9"}}"#;
    let expected = [one, two, one].map(|event| format!("event {event}"));
    let expected = expected.each_ref().map(String::as_str);
    for between in ["", "\n", "\r\n", " \t\n\n "] {
        let body = format!("{between}{one}{between}{two}{between}{one}{between}");
        assert_eq!(watch(&body), complete(&expected));
    }
    assert_eq!(watch(""), complete(&[]));
    assert_eq!(watch("{}{}"), complete(&["event {}", "event {}"]));
}

#[test]
fn lends_exactly_the_bytes_of_a_frame() {
    let events = [
        r#"{"type":"ADDED","object":{"a":"}]{[\"\\","n":-12.5e+3,"t":[true,false,null]}}"#,
        "{\"type\":\"MODIFIED\",\"object\":{\"a\":\"日本語 🦀 \\ud83e\\udd80\"}}",
    ];
    let body = events.join("\n");
    for size in 1..=body.len() {
        let mut framer = Framer::<TestBuffer>::new(FramerMode::Watch, 1000);
        let mut found = Vec::new();
        for mut input in body.as_bytes().chunks(size) {
            while let Some(piece) = framer.next(&mut input).unwrap() {
                let Piece::Event {
                    bytes: json,
                    format: _,
                    problem: None,
                    ..
                } = piece
                else {
                    panic!("{piece:?}")
                };
                found.push(String::from_utf8(json.to_vec()).unwrap());
            }
        }
        assert_eq!(found, events);
    }
}

#[test]
fn lends_whole_frames_from_the_input() {
    let body = br#"{"items":[{"a":1},{"b":2},{"c":3}]}"#;
    let mut framer = Framer::<TestBuffer>::new(FramerMode::List, 100);
    for mut input in [&body[..21], &body[21..]] {
        while let Some(piece) = framer.next(&mut input).unwrap() {
            assert!(matches!(piece, Piece::Item { .. } | Piece::End));
        }
    }
    // Only the split item was copied.
    assert_eq!(framer.buffer.peak, br#"{"b":2}"#.len());
    assert_eq!(framer.scanner.offset(), body.len() as u64);
}

#[test]
fn tells_where_a_body_ends_midway() {
    let body = r#"{"kind":"L","items":[{"a":1}],"metadata":{}}"#;
    for end in 1..body.len() {
        let found = list(&body[..end]);
        assert!(found.midway && found.error.is_none(), "cut at {end}");
    }
    let event = r#"{"type":"ADDED","object":{}}"#;
    for end in 1..event.len() {
        let found = watch(&format!("{event}\n{}", &event[..end]));
        assert!(found.midway && found.pieces.len() == 1, "cut at {end}");
    }
    assert!(!watch(event).midway);
}

#[test]
fn refuses_what_is_not_a_list() {
    use ScanErrorKind::{
        ControlInString, ItemsNotAnArray, NotAnObject, TooDeepEnvelope, TooLargeEnvelope,
        TrailingData, UnexpectedByte,
    };
    assert_eq!(
        fails(&[], 0, UnexpectedByte(b'<')),
        list("<html><body>502</body></html>")
    );
    assert_eq!(fails(&[], 0, NotAnObject(b'[')), list("[]"));
    assert_eq!(fails(&[], 1, NotAnObject(b'"')), list(" \"text\""));
    assert_eq!(fails(&[], 0, NotAnObject(b'4')), list("404 page not found"));
    assert_eq!(
        fails(&[], 9, ItemsNotAnArray(b'{')),
        list(r#"{"items":{}}"#)
    );
    assert_eq!(fails(&[], 9, ItemsNotAnArray(b'1')), list(r#"{"items":1}"#));
    assert_eq!(fails(&["end"], 3, TrailingData(b'{')), list("{} {}"));
    assert_eq!(fails(&["end"], 2, TrailingData(b'x')), list("{}x"));
    assert_eq!(
        fails(&["item {}"], 12, UnexpectedByte(b'{')),
        list(r#"{"items":[{}{}]}"#)
    );
    assert_eq!(
        fails(&["item {}"], 13, UnexpectedByte(b']')),
        list(r#"{"items":[{},]}"#)
    );
    assert_eq!(
        fails(&["item {}"], 12, UnexpectedByte(b'}')),
        list(r#"{"items":[{}}"#)
    );
    assert_eq!(
        fails(&["item {}"], 18, UnexpectedByte(b'x')),
        list(r#"{"items":[{},{"x":x}]}"#)
    );
    assert_eq!(
        fails(&["Code 410"], 12, UnexpectedByte(b'}')),
        list(r#"{"code":410,}"#)
    );
    assert_eq!(
        fails(&[], 4, ControlInString(b'\n')),
        list("{\"it\nems\":[]}")
    );
    let large = format!(r#"{{"metadata":{{"a":"{}"}}}}"#, "x".repeat(1000));
    assert_eq!(fails(&[], 12, TooLargeEnvelope), list(&large));
    let bad_late = format!("{{\"metadata\":{{\"a\":\"{}\n", "x".repeat(1000));
    assert_eq!(fails(&[], 12, TooLargeEnvelope), list(&bad_late));
    let deep = format!(r#"{{"details":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    assert_eq!(fails(&[], 11, TooDeepEnvelope), list(&deep));
    let body = b"{\"metadata\":{\"a\":\"\xff\"}}";
    let found = read_all_ways(FramerMode::List, 1000, body);
    assert_eq!(fails(&[], 12, ScanErrorKind::NotUtf8Envelope), found);
}

#[test]
fn refuses_what_is_not_a_watch() {
    use ScanErrorKind::{BadNumber, NotAnObject, UnexpectedByte};
    assert_eq!(fails(&[], 0, UnexpectedByte(b'<')), watch("<html>"));
    assert_eq!(fails(&[], 0, NotAnObject(b'[')), watch("[{}]"));
    assert_eq!(fails(&["event {}"], 3, NotAnObject(b'1')), watch("{}\n1"));
    assert_eq!(
        fails(&["event {}"], 2, UnexpectedByte(b',')),
        watch("{},{}")
    );
    assert_eq!(fails(&["event {}"], 2, UnexpectedByte(b'}')), watch("{}}"));
    assert_eq!(
        fails(&["event {}"], 8, BadNumber(b'}')),
        watch(r#"{}{"a":-}"#)
    );
}

#[test]
fn refuses_large_members_by_their_own_limit() {
    let body = format!(r#"{{"metadata":{{"a":"{}"}}}}"#, "x".repeat(ENVELOPE_LIMIT));
    let error = ScanError {
        offset: 12,
        kind: ScanErrorKind::TooLargeEnvelope,
    };
    for size in [100, 1000, 65_536, 1 << 20] {
        let found = outcome(FramerMode::List, 1 << 20, body.as_bytes().chunks(size));
        assert_eq!(found.error, Some(error));
    }
    let skipped = body.replace("metadata", "other");
    assert_eq!(
        outcome(FramerMode::List, 100, skipped.as_bytes().chunks(77)),
        complete(&["end"])
    );
}

#[test]
fn delivers_the_start_of_what_is_too_large() {
    let body = r#"{"items":[{"a":1},{"b":"0123456789"},{"c":3}]}"#;
    let expected = [
        "item {\"a\":1}",
        "item {\"b\":\"012 (18 bytes, more than the limit of 9)",
        "item {\"c\":3}",
        "end",
    ];
    assert_eq!(
        read_all_ways(FramerMode::List, 9, body.as_bytes()),
        complete(&expected)
    );
    // A frame of exactly the limit is complete.
    let whole = read_all_ways(FramerMode::List, 18, body.as_bytes());
    assert_eq!(whole.pieces[1], "item {\"b\":\"0123456789\"}");
    let one_short = read_all_ways(FramerMode::List, 17, body.as_bytes());
    assert_eq!(
        one_short.pieces[1],
        "item {\"b\":\"0123456789\" (18 bytes, more than the limit of 17)"
    );
    assert!(read_all_ways(FramerMode::Watch, 0, b"{}{}").pieces[1].contains("2 bytes"));
}

/// A custom resource as sent by the API server: its members are sorted, and the name follows managedFields.
const SORTED: &str = r#"{"apiVersion":"example.com/v1","kind":"Gate","metadata":{"annotations":{"name":"no","uid":"no"},"managedFields":[{"manager":"m]","name":"no"},{}],"n\u0061me":"a\u002d1","namespace":"prod","resourceVersion":"12","uid":"6d-fe"},"spec":{"metadata":{"name":"no"},"x":1}}"#;

#[test]
fn finds_the_identity_of_what_is_too_large() {
    let whose = " Gate example.com/v1 of prod/a-1 u6d-fe v12";
    for (mode, body, is, of) in [
        (
            FramerMode::List,
            format!(r#"{{"items":[{SORTED},{{}}]}}"#),
            "item ",
            format!(" None{whose}"),
        ),
        (
            FramerMode::Watch,
            format!(r#"{{"object":{SORTED},"type":"DELETED"}}{{}}"#),
            "event ",
            format!(" Some(Deleted){whose}"),
        ),
    ] {
        let size = body.find(",{}]}").map_or(body.len() - 2, |end| end - 10);
        for limit in 2..size {
            let found = outcome(mode, limit, [body.as_bytes()]);
            assert!(found.pieces[0].starts_with(is), "{found:?}");
            assert!(found.pieces[0].ends_with(&of), "{limit}: {found:?}");
            assert_eq!(found.pieces[1], format!("{is}{{}}"));
            for parts in [1, 7, 64] {
                let split = outcome(mode, limit, body.as_bytes().chunks(parts));
                assert_eq!(split, found, "limit {limit}, parts of {parts}");
            }
        }
        let found = read_all_ways(mode, size, body.as_bytes());
        assert!(found.pieces[0].ends_with('}'), "{found:?}");
    }
}

#[test]
fn leaves_out_managed_fields_of_what_is_too_large() {
    let event = format!(r#"{{"type":"ADDED","object":{SORTED}}}"#);
    let body = event.repeat(2);
    let elements = r#"{"manager":"m]","name":"no"},{}"#;
    let reduced = event.replace(elements, "");
    for limit in 2..=event.len() {
        let parts_of = |parts: usize| {
            let mut framer = Framer::new(FramerMode::Watch, limit);
            framer.skip_managed_fields(true);
            outcome_of(framer, limit, body.as_bytes().chunks(parts))
        };
        let found = parts_of(usize::MAX);
        let expected = match limit {
            _ if limit == event.len() => format!("event {event}"),
            _ if limit >= reduced.len() => format!("event {reduced}"),
            _ => format!(
                "event {} ({} bytes, more than the limit of {limit}) Some(Added) Gate example.com/v1 of prod/a-1 u6d-fe v12",
                &reduced[..limit],
                reduced.len()
            ),
        };
        assert_eq!(found, complete(&[&expected, &expected]));
        for parts in [1, 5, 48, 200] {
            assert_eq!(parts_of(parts), found, "limit {limit}, parts of {parts}");
        }
    }
}

#[test]
fn reports_an_identity_that_is_longer_than_its_room() {
    let room = super::super::problem::ROOM;
    for (length, fits) in [(room - 2, true), (room - 1, false), (10_000, false)] {
        let uid = "u".repeat(length);
        let body = format!(r#"{{"items":[{{"metadata":{{"uid":"{uid}","name":"ab"}}}}]}}"#);
        for parts in [1, 100, usize::MAX] {
            let found = outcome(FramerMode::List, 20, body.as_bytes().chunks(parts));
            assert_eq!(found.pieces[0].contains(&format!("of /ab u{uid}")), fits);
            assert_eq!(found.pieces[0].contains("the change is lost"), !fits);
        }
    }
}

#[test]
fn survives_a_frame_of_20_megabytes() {
    let start = r#"{"type":"ADDED","object":{"metadata":{"name":"big","namespace":"ns","uid":"u","resourceVersion":"7"},"data":""#;
    let next = r#"{"type":"DELETED","object":{"metadata":{"name":"next"}}}"#;
    let big = format!("{start}{}\"}}}}", "x".repeat(20 << 20));
    let body = format!("{big}\n{next}\n");
    for size in [1000, 65_536, usize::MAX] {
        let mut framer = Framer::<TestBuffer>::new(FramerMode::Watch, 1 << 20);
        let mut names = Vec::new();
        for mut input in body.as_bytes().chunks(size) {
            while let Some(piece) = framer.next(&mut input).unwrap() {
                let Piece::Event {
                    bytes: json,
                    format: _,
                    problem,
                    identity,
                } = piece
                else {
                    panic!("{piece:?}")
                };
                let event = WatchEvent::parse(json).unwrap();
                let head = identity.map_or_else(
                    || ObjectHead::parse(event.object, true),
                    |identity| identity.head(event.object, true),
                );
                names.push((
                    head.name.to_string(),
                    head.resource_version.to_string(),
                    problem,
                ));
            }
        }
        let problem = FrameProblem::TooLarge {
            size: big.len() as u64,
            limit: 1 << 20,
        };
        let expected = [
            ("big".to_string(), "7".to_string(), Some(problem)),
            ("next".to_string(), String::new(), None),
        ];
        assert_eq!(names, expected);
        assert!(framer.buffer.peak <= 1 << 20);
    }
}

#[test]
fn goes_on_after_what_is_too_deep() {
    let deep = format!(
        r#"{{"metadata":{{"name":"deep"}},"a":{}{}}}"#,
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    let body = format!(r#"{{"items":[{{"a":1}},{deep},{{"b":2}}],"kind":"L"}}"#);
    for size in [1, 7, 1000, usize::MAX] {
        let found = outcome(FramerMode::List, 1 << 20, body.as_bytes().chunks(size));
        let expected = [
            "item {\"a\":1}",
            &format!("item {deep} (nested too deeply)"),
            "item {\"b\":2}",
            "Kind \"L\"",
            "end",
        ];
        assert_eq!(found, complete(&expected));
    }
    assert!(ObjectHead::parse(deep.as_bytes(), false).name == "deep");
}

#[test]
fn goes_on_after_what_is_not_utf8() {
    let body = b"{\"items\":[{\"a\":\"\xc3\xa9\"},{\"a\":\"\xc3\"},{\"a\":\"e\"},{\"a\":\"\xed\xa0\x80\"},{\"a\":\"\xf0\x9f\xa6\x80\"}]}";
    let found = read_all_ways(FramerMode::List, 1000, body);
    let bad: Vec<_> = found
        .pieces
        .iter()
        .map(|piece| piece.ends_with("(not UTF-8)"))
        .collect();
    assert_eq!(bad, [false, true, false, true, false, false]);
    assert_eq!(found.error, None);
}

#[test]
fn starts_over() {
    let mut framer = Framer::new(FramerMode::List, 1000);
    let mut found = Outcome::default();
    read(&mut framer, br#"{"items":[{"a"#, &mut found);
    assert!(found.midway);
    framer.reset(FramerMode::Watch, Format::Json);
    found = Outcome::default();
    read(&mut framer, br#"{"b":1}<"#, &mut found);
    assert_eq!(
        fails(&["event {\"b\":1}"], 7, ScanErrorKind::UnexpectedByte(b'<')),
        found
    );
    framer.reset(FramerMode::List, Format::Json);
    found = Outcome::default();
    read(&mut framer, b"{}", &mut found);
    assert_eq!(found, complete(&["end"]));
}

/// A buffer that rejects bytes within its limit must not produce a frame with a gap.
#[test]
fn reports_what_the_buffer_refuses() {
    #[derive(Default)]
    struct Stubborn(Vec<u8>);
    impl FrameBuffer for Stubborn {
        fn extend(&mut self, bytes: &[u8]) -> Result<(), ()> {
            if bytes.len() > 2 {
                return Err(());
            }
            self.0.extend_from_slice(bytes);
            Ok(())
        }
        fn as_slice(&self) -> &[u8] {
            &self.0
        }
        fn remove(&mut self, start: usize, end: usize) {
            self.0.drain(start..end);
        }
        fn clear(&mut self) {
            self.0.clear();
        }
        fn set_limit(&mut self, _: usize) {}
        fn limit(&self) -> usize {
            1000
        }
    }
    let mut framer = Framer::<Stubborn>::new(FramerMode::Watch, 1000);
    for mut input in [&b"{\""[..], b"abc\":", b"1"] {
        assert_eq!(framer.next(&mut input), Ok(None));
    }
    let mut input = &b"}{}"[..];
    let Ok(Some(piece)) = framer.next(&mut input) else {
        panic!("a frame is refused")
    };
    assert_eq!(
        show(&piece),
        "event {\" (9 bytes, more than the limit of 1000)"
    );
    let Ok(Some(piece)) = framer.next(&mut input) else {
        panic!("a frame follows")
    };
    assert_eq!(show(&piece), "event {}");
}

#[test]
fn survives_anything() {
    let words: [&[u8]; 20] = [
        b"{",
        b"}",
        b"[",
        b"]",
        b"\"items\":[",
        b"\"kind\":",
        b"\"metadata\":{",
        b",",
        b":",
        b"\"a\":",
        b"\"",
        b"1",
        b"null",
        b"\\",
        b"\\u00e9",
        "é".as_bytes(),
        b"\xff",
        b" ",
        b"\n",
        b"{\"x\":[{}]}",
    ];
    let mut random = 88_172_645_463_325_252_u64;
    for round in 0..crate::rounds(10_000) {
        let mode = if round % 2 == 0 {
            FramerMode::List
        } else {
            FramerMode::Watch
        };
        let mut body = Vec::new();
        if round % 4 < 3 {
            body.extend_from_slice(b"{\"items\":[");
        }
        for _ in 0..random % 24 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            body.extend_from_slice(words[(random >> 30) as usize % words.len()]);
        }
        let limit = (random >> 50) as usize % 40;
        let whole = outcome(mode, limit, [&body[..]]);
        for size in [1, 3, 8] {
            assert_eq!(
                outcome(mode, limit, body.chunks(size)),
                whole,
                "{}",
                body.escape_ascii()
            );
        }
    }
}
