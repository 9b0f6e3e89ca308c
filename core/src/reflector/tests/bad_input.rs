//! Invalid input: one report each, of the right class, and no other loss.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::harness::*;
use crate::reflector::{Initial, ReflectorConfig};
use crate::transport::Head;
use crate::{Frame, Heap, Instant, Output, Reflector, Resource};

/// Bodies that break a list: a report, a delay, another list, and no sweep.
#[test]
fn a_body_that_is_no_list_fails_the_run_and_sweeps_nothing() {
    let status = status(410, "Expired");
    let bodies = r#"
        not-json   | <html><body>Please log in</body></html>
        truncated  |
        truncated  | {
        not-json   | null
        not-json   | []
        not-json   | "x"
        not-json   | {"items":{}}
        not-json   | {"kind":"PodList","items":[oops]}
        not-a-list | {}
        not-a-list | {"items":[]}
        not-a-list | {"metadata":{"resourceVersion":"20"},"items":[]}
        not-a-list | {"kind":"ServiceList","metadata":{"resourceVersion":"20"},"items":[]}
        not-a-list | {"kind":"Pod","metadata":{"name":"a","resourceVersion":"20"}}
    "#;
    let more = [("not-json", "\0"), ("not-a-list", status.as_str())];
    for (class, body) in crate::rows(bodies).chain(more) {
        for initial in [false, true] {
            let mut w = if initial {
                World::list()
            } else {
                let mut w = World::list().watching();
                w.close();
                w
            };
            if initial {
                w.expect("LIST limit=500 resourceVersion=0");
            } else {
                w.expect_after(ms(800), "LIST resourceVersion=10");
            }
            w.take_reports();
            w.answer(200, body);
            w.reports(&[class]);
            w.notified(&[]);
            if initial {
                assert!(!w.informer.cache().is_synced());
                w.expect_after(ms(800), "LIST limit=500 resourceVersion=0");
            } else {
                w.holds(&["a@5"]);
                w.expect_after(ms(1600), "LIST resourceVersion=10");
            }
        }
    }
}

fn large() -> Vec<u8> {
    let mut object = pod("a", 20).into_bytes();
    object.pop();
    object.extend_from_slice(b",\"data\":\"");
    object.resize(20 << 20, b'x');
    object.extend_from_slice(b"\"}");
    object
}

fn deep() -> Vec<u8> {
    let (open, close) = ("[".repeat(10_000), "]".repeat(10_000));
    let object = pod("a", 20);
    format!("{},\"deep\":{open}{close}}}", &object[..object.len() - 1]).into_bytes()
}

fn not_utf8() -> Vec<u8> {
    let object = pod("a", 20);
    let mut object = object.as_bytes()[..object.len() - 1].to_vec();
    object.extend_from_slice(b",\"data\":\"\xff\xfe\"}");
    object
}

fn undecodable() -> Vec<u8> {
    let object = pod("a", 20);
    format!("{},\"x\":\"undecodable\"}}", &object[..object.len() - 1]).into_bytes()
}

/// Unusable objects with an identity: the older state stays, and its key is stale.
fn unusable() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("object-too-large", large()),
        ("object-too-deep", deep()),
        ("object-not-utf8", not_utf8()),
        ("undecodable", undecodable()),
    ]
}

/// Objects without a name or of another resource: they are skipped.
fn nameless() -> impl Iterator<Item = (&'static str, &'static [u8])> {
    let objects = r#"
        no-name    | {"metadata":{"resourceVersion":"20"}}
        no-name    | {}
        no-name    | {"metadata":null}
        no-name    | {"metadata":{"name":5,"resourceVersion":"20"}}
        other-kind | {"kind":"Service","apiVersion":"v1","metadata":{"name":"x","resourceVersion":"20"}}
        other-kind | {"apiVersion":"metrics.k8s.io/v1beta1","kind":"Pod","metadata":{"name":"x","resourceVersion":"20"}}
    "#;
    crate::rows(objects).map(|(class, object)| (class, object.as_bytes()))
}

fn stale(w: &World) -> Vec<String> {
    let keys = w.informer.cache().stale_keys();
    keys.map(|key| key.to_string()).collect()
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[test]
fn a_list_keeps_what_is_there_of_an_object_that_is_of_no_use() {
    for (class, object) in unusable() {
        let mut w = World::list().watching();
        w.close();
        w.expect_after(ms(800), "LIST resourceVersion=10");
        w.take_reports();
        let body = list("30", &["@".to_string(), pod("b", 21)]);
        let (start, end) = body.split_once('@').unwrap();
        w.head(Head::new(200));
        w.bytes(&joined(&[start.as_bytes(), &object, end.as_bytes()]));
        let report = w.report();
        assert_eq!((report.class, report.key.as_deref()), (class, Some("a")));
        w.holds(&["a@5", "b@21"]);
        assert_eq!(stale(&w), ["a"]);
        w.notified(&["add b@21"]);
        w.version("30");
        w.end(crate::End::Clean);
        w.expect("WATCH resourceVersion=30");
        // The same version in a usable form removes the mark.
        w.events(&[modified("a", 31)]);
        assert_eq!(stale(&w), [""; 0]);
    }
}

#[test]
fn a_watch_keeps_what_is_there_of_an_object_that_is_of_no_use() {
    for (class, object) in unusable() {
        for kind in ["ADDED", "MODIFIED"] {
            let mut w = World::list().watching();
            let start = format!("{{\"type\":\"{kind}\",\"object\":");
            let next = added("b", 21);
            // An earlier event of the same key in the same input takes effect, and does not hide the problem.
            w.events(&[]);
            w.bytes(&joined(&[
                modified("a", 6).as_bytes(),
                start.as_bytes(),
                &object,
                b"}\n",
                next.as_bytes(),
            ]));
            let report = w.report();
            assert_eq!((report.class, report.key.as_deref()), (class, Some("a")));
            w.holds(&["a@6", "b@21"]);
            assert_eq!(stale(&w), ["a"], "{class}");
            w.events(&[bookmark(22)]);
            w.close();
            w.expect("WATCH resourceVersion=22");
        }
    }
}

/// DELETED needs only the identity.
#[test]
fn a_deletion_needs_no_more_than_an_identity() {
    for (class, object) in unusable() {
        let mut w = World::list().watching();
        w.events(&[]);
        w.bytes(&joined(&[
            b"{\"type\":\"DELETED\",\"object\":",
            &object,
            b"}",
        ]));
        w.holds(&[]);
        w.notified(&["delete? a@5"]);
        w.reports(&[class]);
    }
}

#[test]
fn objects_of_another_kind_or_without_a_name_are_skipped() {
    for (class, object) in nameless() {
        let mut w = World::list().watching();
        let start = b"{\"type\":\"ADDED\",\"object\":";
        w.events(&[]);
        w.bytes(&joined(&[start, object, b"}"]));
        w.reports(&[class]);
        w.version("10");
        w.events(&[modified("a", 21)]);
        w.version("21");
        w.holds(&["a@21"]);

        w.events(&[error_event(410, "Expired")]);
        w.expect_after(ms(800), "LIST resourceVersion=21");
        w.take_reports();
        let body = list("30", &["@".to_string(), pod("b", 21)]);
        let (start, end) = body.split_once('@').unwrap();
        w.head(Head::new(200));
        w.bytes(&joined(&[start.as_bytes(), object, end.as_bytes()]));
        w.reports(&[class]);
        w.holds(&["b@21"]);
        w.version("30");
    }
}

/// A name that is not UTF-8 is one report as well.
#[test]
fn a_name_that_is_not_utf8_is_reported_once() {
    let mut w = World::list().watching();
    w.events(&[]);
    w.bytes(b"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"b\xff\",\"resourceVersion\":\"11\"}}}");
    w.reports(&["object-not-utf8"]);
    w.holds(&["a@5"]);
    w.version("11");
}

/// Names of roles and their bindings have no limit.
#[test]
fn a_name_of_any_length_is_cached() {
    let mut w = World::list().watching();
    let name = "x".repeat(1000);
    w.events(&[added(&name, 11), added("b", 12)]);
    w.reports(&[]);
    w.holds(&["a@5", "b@12", &format!("{name}@11")]);
}

/// The type of a large event is also found at its end.
#[test]
fn a_large_event_whose_type_comes_last_is_applied() {
    let mut w = World::list().watching();
    w.events(&[]);
    w.bytes(&joined(&[
        b"{\"object\":",
        &large(),
        b",\"type\":\"DELETED\"}",
    ]));
    w.reports(&["object-too-large"]);
    w.holds(&[]);
    w.version("20");
    w.events(&[added("b", 21)]);
    w.holds(&["b@21"]);
}

/// Like client-go, the error handler gets none of the failures within a watch.
#[test]
fn as_client_go_what_breaks_a_watch_is_not_for_the_error_handler() {
    let mut w = World::client_go(Initial::List).watching();
    w.events(&["{}".to_string()]);
    let report = w.report();
    assert_eq!(report.level, crate::report::Level::Debug);
    w.expect_after(ms(800), "LIST resourceVersion=10");
}

/// A CustomResourceDefinition may choose any `listKind`. An answer that is not a list of the resource stays invalid.
#[test]
fn a_list_kind_that_is_not_the_usual_one() {
    let widgets = Resource::new("example.com", "v1", "widgets");
    let pods = pods();
    let lists = r#"
        true  | {"kind":"Shelf","apiVersion":"example.com/v1","metadata":{},"items":[]}
        true  | {"apiVersion":"example.com/v1","items":[],"kind":"Shelf","metadata":{"name":""}}
        true  | {"kind":"GadgetList","apiVersion":"example.com/v1","metadata":{},"items":[]}
        false | {"kind":"Shelf","apiVersion":"example.com/v2","metadata":{},"items":[]}
        false | {"kind":"Shelf","apiVersion":"v1","metadata":{},"items":[]}
        false | {"kind":"Shelf","apiVersion":"example.com/v1","items":[]}
        false | {"kind":"Shelf","metadata":{},"items":[]}
        false | {"apiVersion":"example.com/v1","metadata":{},"items":[]}
        false | {"kind":"Shelf","apiVersion":"example.com/v1","metadata":{"name":"a"},"items":[]}
        false | {"kind":"Widget","apiVersion":"example.com/v1","metadata":{},"items":[]}
        false | {"kind":"Status","apiVersion":"v1","metadata":{},"items":[]}
    "#;
    let of_pods = r#"
        false | {"kind":"Shelf","apiVersion":"v1","metadata":{},"items":[]}
        false | {"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[]}
    "#;
    let lists = crate::rows(lists).map(|row| (widgets, row));
    let all = lists.chain(crate::rows(of_pods).map(|row| (pods, row)));
    for (resource, (is_list, body)) in all {
        for resource in [
            resource.kind(resource.kind.unwrap_or("Widget")),
            Resource {
                kind: None,
                ..resource
            },
        ] {
            if resource.kind.is_none()
                && (body.contains("List") || body.contains(r#"kind":"Widget"#))
            {
                continue;
            }
            let config = ReflectorConfig::list();
            let mut reflector: Reflector<_, Heap> = Reflector::new(resource, config, 1);
            let now = Instant::from_micros(0);
            let Output::Send(request) = reflector.poll_output(now) else {
                panic!("a list")
            };
            let id = request.id();
            reflector.handle_head(now, id, Head::new(200));
            let mut rest = body.as_bytes();
            let mut complete = false;
            while let Some(frame) = reflector.next_frame(now, id, &mut rest) {
                complete |= matches!(frame, Frame::Complete { .. });
            }
            assert_eq!(
                complete.to_string(),
                is_list,
                "{body} for {:?}",
                resource.kind
            );
        }
    }
}
