//! Resources with more than plain storage.

use informer_mock::{Backend, FakeServer, json};
use serde_json::Value;

use crate::common::{JSON, ask, at, event_lines, events, read, write};

fn send(server: &mut FakeServer, method: &str, target: &str, body: Value) -> (u16, Value) {
    write(server, method, target, JSON, &body)
}

#[test]
fn events_of_both_groups_are_the_same_objects() {
    const CORE: &str = "/api/v1/namespaces/prod/events";
    const NEW: &str = "/apis/events.k8s.io/v1/namespaces/prod/events";
    let mut server = FakeServer::new(1);
    let watch = |server: &mut FakeServer, path: &str| {
        server.handle_request(at(0), &format!("{path}?watch=1&resourceVersion=1"), JSON)
    };
    let (core, new) = (watch(&mut server, CORE), watch(&mut server, NEW));
    let event = json!({
        "metadata": { "name": "a" }, "note": "hello", "reason": "R", "reportingController": "c", "action": "A",
        "regarding": { "kind": "Pod", "name": "p" }, "type": "Normal", "eventTime": "2026-01-01T00:00:00.000000Z",
    });
    let (status, made) = send(&mut server, "POST", NEW, event);
    assert_eq!((status, &made["note"]), (201, &json!("hello")), "{made}");
    assert_eq!(made["apiVersion"], "events.k8s.io/v1");
    let (_, seen) = ask(&mut server, &format!("{CORE}/a"));
    assert_eq!(
        (
            &seen["message"],
            &seen["involvedObject"]["name"],
            &seen["reportingComponent"]
        ),
        (&json!("hello"), &json!("p"), &json!("c"))
    );
    assert_eq!(
        (&seen["note"], &seen["apiVersion"]),
        (&Value::Null, &json!("v1"))
    );

    let event =
        json!({ "metadata": { "name": "b", "namespace": "prod" }, "message": "hi", "count": 2 });
    server.create("events", event).unwrap();
    let (_, list) = ask(
        &mut server,
        &format!("{NEW}?fieldSelector=regarding.name%3Dp"),
    );
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    let (_, list) = ask(&mut server, NEW);
    let second = &list["items"][1];
    assert_eq!(
        (&second["note"], &second["deprecatedCount"]),
        (&json!("hi"), &json!(2))
    );
    let (status, _) = write(
        &mut server,
        "PATCH",
        &format!("{NEW}/b"),
        "application/merge-patch+json",
        &json!({ "series": { "count": 3 } }),
    );
    assert_eq!(status, 200);
    assert_eq!(
        send(&mut server, "DELETE", &format!("{CORE}/a"), Value::Null).0,
        200
    );
    let expected = ["ADDED a@2", "ADDED b@3", "MODIFIED b@4", "DELETED a@5"];
    for (id, text) in [(core, "\"message\":\"hi\""), (new, "\"note\":\"hi\"")] {
        let (body, _) = read(&mut server, at(0), id);
        assert_eq!(events(&body), expected);
        assert!(body.contains(text), "{body}");
    }
    assert!(server.get("events.events.k8s.io", "prod", "b").unwrap()["message"].is_null());
    assert_eq!(event_lines([]), [""; 0]);
}

#[test]
fn every_built_in_kind_is_created_and_read_in_protobuf() {
    let mut server = FakeServer::new(1);
    let mut paths = vec![];
    for group in ask(&mut server, "/apis").1["groups"].as_array().unwrap() {
        paths.push(format!(
            "/apis/{}",
            group["preferredVersion"]["groupVersion"].as_str().unwrap()
        ));
    }
    paths.push("/api/v1".to_owned());
    for path in paths {
        let (_, list) = ask(&mut server, &path);
        for resource in list["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            if name.contains('/') || name == "customresourcedefinitions" {
                continue;
            }
            let place = if resource["namespaced"] == true {
                "/namespaces/prod/"
            } else {
                "/"
            };
            let all = [&path, place, name].concat();
            let (status, made) = send(
                &mut server,
                "POST",
                &all,
                json!({ "metadata": { "name": "a" } }),
            );
            let is_shared = path == "/api/v1" && name == "events";
            assert_eq!(status, if is_shared { 409 } else { 201 }, "{all}: {made}");
            let id = server.handle_request(
                at(0),
                &[&all, "/a"].concat(),
                informer_mock::protobuf::MEDIA_TYPE,
            );
            let (bytes, _) = crate::common::read_bytes(&mut server, at(0), id);
            let object = informer_mock::protobuf::to_json(&bytes).expect(&all);
            assert_eq!(
                (&object["kind"], &object["metadata"]["name"]),
                (&resource["kind"], &json!("a"))
            );
        }
    }
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GIZMOS: &str = "/apis/example.com/v1/namespaces/prod/gizmos";

fn definition() -> Value {
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": {
                "type": "object", "properties": { "size": { "type": "integer", "minimum": 1 } },
            } } } },
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "gizmos.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "plural": "gizmos", "kind": "Gizmo" },
            "versions": [version("v1", true), version("v2", false)],
        },
    })
}

fn gizmo(version: &str, size: i64) -> Value {
    json!({
        "apiVersion": format!("example.com/{version}"), "kind": "Gizmo", "metadata": { "name": "a" },
        "spec": { "size": size },
    })
}

#[test]
fn a_definition_that_a_client_writes_is_served_at_once() {
    let mut server = FakeServer::new(1);
    let watch = format!("{DEFINITIONS}?watch=1&resourceVersion=1");
    let watch = server.handle_request(at(0), &watch, JSON);
    let (status, made) = send(&mut server, "POST", DEFINITIONS, definition());
    assert_eq!(
        (status, &made["status"]["storedVersions"]),
        (201, &json!(["v1"]))
    );
    assert_eq!(made["spec"]["names"]["listKind"], "GizmoList");
    let seen = server
        .get("customresourcedefinitions", "", "gizmos.example.com")
        .unwrap();
    let conditions = seen["status"]["conditions"].as_array().unwrap();
    let conditions: Vec<_> = conditions
        .iter()
        .map(|one| (&one["type"], &one["status"]))
        .collect();
    let (names, established, yes) = (json!("NamesAccepted"), json!("Established"), json!("True"));
    assert_eq!(conditions, [(&names, &yes), (&established, &yes)]);
    assert_eq!(seen["status"]["acceptedNames"], seen["spec"]["names"]);

    assert_eq!(send(&mut server, "POST", GIZMOS, gizmo("v1", 0)).0, 422);
    let both = GIZMOS.replace("v1", "v2");
    assert_eq!(send(&mut server, "POST", &both, gizmo("v2", 1)).0, 201);
    assert_eq!(
        ask(&mut server, &format!("{GIZMOS}/a")).1["apiVersion"],
        "example.com/v1"
    );
    assert_eq!(ask(&mut server, "/apis/example.com").0, 200);

    // The second version is no longer served, and the first one has another schema.
    let mut next = seen;
    next["spec"]["versions"][1]["served"] = json!(false);
    let size = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/minimum";
    *next.pointer_mut(size).unwrap() = json!(3);
    let one = format!("{DEFINITIONS}/gizmos.example.com");
    assert_eq!(send(&mut server, "PUT", &one, next).0, 200);
    assert_eq!(
        write(&mut server, "POST", GIZMOS, JSON, &gizmo("v1", 2)).0,
        422
    );
    assert_eq!(send(&mut server, "POST", &both, gizmo("v2", 3)).0, 404);
    let (body, _) = read(&mut server, at(0), watch);
    assert_eq!(
        events(&body),
        [
            "ADDED gizmos.example.com@2",
            "MODIFIED gizmos.example.com@3",
            "MODIFIED gizmos.example.com@5"
        ]
    );
}

#[test]
fn a_definition_is_deleted_with_its_objects() {
    let mut server = FakeServer::new(1);
    let one = format!("{DEFINITIONS}/gizmos.example.com");
    for _ in 0..2 {
        send(&mut server, "POST", DEFINITIONS, definition());
        let kinds = ask(&mut server, "/apis/example.com/v2").1["resources"].clone();
        assert_eq!(kinds.as_array().map(Vec::len), Some(1));
        let mut kept = gizmo("v1", 1);
        kept["metadata"]["finalizers"] = json!(["example.com/a"]);
        send(&mut server, "POST", GIZMOS, kept);
        let version = server.version();
        let watch = format!("{GIZMOS}?watch=1&resourceVersion={version}");
        let watch = server.handle_request(at(0), &watch, JSON);
        let (status, deleted) = send(&mut server, "DELETE", &one, Value::Null);
        assert_eq!(
            (status, deleted["metadata"]["deletionTimestamp"].is_string()),
            (200, true)
        );
        assert_eq!(ask(&mut server, &one).0, 200, "an object is left");
        let again = json!({ "metadata": { "finalizers": null } });
        let gizmo = format!("{GIZMOS}/a");
        assert_eq!(
            write(
                &mut server,
                "PATCH",
                &gizmo,
                "application/merge-patch+json",
                &again
            )
            .0,
            200
        );
        let (body, ended) = read(&mut server, at(0), watch);
        assert_eq!(events(&body).len(), 2, "{body}");
        assert_eq!(ended, crate::common::Ended::Clean);
        assert_eq!(ask(&mut server, &one).0, 404);
        assert_eq!(send(&mut server, "POST", GIZMOS, json!({})).0, 404);
    }
}

#[test]
fn a_definition_has_the_name_of_what_it_defines() {
    let mut server = FakeServer::new(1);
    let mut wrong = definition();
    wrong["metadata"]["name"] = json!("gizmo.example.com");
    let (status, refused) = send(&mut server, "POST", DEFINITIONS, wrong);
    let message = "CustomResourceDefinition.apiextensions.k8s.io \"gizmo.example.com\" is invalid: metadata.name: \
                   Invalid value: \"gizmo.example.com\": must be spec.names.plural+\".\"+spec.group";
    assert_eq!((status, &refused["message"]), (422, &json!(message)));
    let mut wrong = definition();
    wrong["spec"]["versions"][1]["storage"] = json!(true);
    assert_eq!(send(&mut server, "POST", DEFINITIONS, wrong).0, 422);
    let mut applied = definition();
    applied["metadata"]["name"] = json!("gizmos.example.com");
    let target = format!("{DEFINITIONS}/gizmos.example.com?fieldManager=me");
    let (status, _) = write(
        &mut server,
        "PATCH",
        &target,
        "application/apply-patch+yaml",
        &applied,
    );
    assert_eq!(status, 201);
    assert_eq!(send(&mut server, "POST", GIZMOS, gizmo("v1", 1)).0, 201);
}
