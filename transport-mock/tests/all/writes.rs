//! Writes by the paths of the API.
#![allow(clippy::unwrap_used, reason = "a test may")]

use informer_mock::{DeleteAnswer, FakeServer, Instant, Write, json};
use serde_json::Value;

const MAPS: &str = "/api/v1/namespaces/prod/configmaps";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn write(
    server: &mut FakeServer,
    (method, target): (&str, &str),
    content_type: &str,
    body: &Value,
) -> (u16, Value) {
    let body = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    let write = Write {
        method,
        target,
        content_type,
        body: &body,
    };
    let (status, answer) = server.handle_write(Instant::from_micros(0), write);
    (status, serde_json::from_slice(&answer).unwrap())
}

fn send(server: &mut FakeServer, method: &str, target: &str, body: Value) -> (u16, Value) {
    write(server, (method, target), "application/json", &body)
}

fn map(name: &str, a: &str) -> Value {
    json!({ "metadata": { "name": name }, "data": { "a": a } })
}

#[test]
fn objects_are_created_replaced_and_deleted() {
    let mut server = FakeServer::new(1);
    let (status, created) = send(&mut server, "POST", MAPS, map("web", "1"));
    assert_eq!((status, &created["kind"]), (201, &json!("ConfigMap")));
    assert_eq!(created["metadata"]["namespace"], "prod");
    let (status, refused) = send(&mut server, "POST", MAPS, map("web", "1"));
    assert_eq!((status, &refused["reason"]), (409, &json!("AlreadyExists")));
    let generated = json!({ "metadata": { "generateName": "web-" } });
    let (status, generated) = send(
        &mut server,
        "POST",
        &format!("{MAPS}?fieldManager=me"),
        generated,
    );
    assert_eq!(status, 201);
    assert!(
        generated["metadata"]["name"]
            .as_str()
            .unwrap()
            .starts_with("web-")
    );

    let one = format!("{MAPS}/web");
    let mut next = map("web", "2");
    next["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
    let (status, replaced) = send(&mut server, "PUT", &one, next.clone());
    assert_eq!((status, &replaced["data"]["a"]), (200, &json!("2")));
    assert_eq!(replaced["metadata"]["uid"], created["metadata"]["uid"]);
    let (status, refused) = send(&mut server, "PUT", &one, next);
    assert_eq!((status, &refused["reason"]), (409, &json!("Conflict")));
    assert_eq!(
        send(&mut server, "PUT", &format!("{MAPS}/no"), map("no", "1")).0,
        404
    );
    assert_eq!(send(&mut server, "PUT", &one, map("another", "1")).0, 400);

    let wrong = json!({ "preconditions": { "uid": "another" } });
    assert_eq!(send(&mut server, "DELETE", &one, wrong).0, 409);
    let right = json!({ "preconditions": { "uid": created["metadata"]["uid"] } });
    let (status, gone) = send(&mut server, "DELETE", &one, right);
    assert_eq!((status, &gone["status"]), (200, &json!("Success")));
    assert_eq!(gone["details"]["uid"], created["metadata"]["uid"]);
    assert_eq!(send(&mut server, "DELETE", &one, Value::Null).0, 404);
    assert!(server.get("configmaps", "prod", "web").is_none());
    // Other servers respond with the object, in its last state or with the version of its deletion.
    for (answer, later) in [(DeleteAnswer::OldVersion, 0), (DeleteAnswer::NewVersion, 1)] {
        server.config_mut().deletes = answer;
        let (_, created) = send(&mut server, "POST", MAPS, map("web", "1"));
        let version = server.version() + later;
        let (_, gone) = send(&mut server, "DELETE", &one, Value::Null);
        assert_eq!(gone["metadata"]["uid"], created["metadata"]["uid"]);
        assert_eq!(gone["metadata"]["resourceVersion"], version.to_string());
    }
}

#[test]
fn patches_are_merged() {
    let mut server = FakeServer::new(1);
    let one = format!("{MAPS}/web");
    let patch = |server: &mut FakeServer, kind, body| write(server, ("PATCH", &one), kind, &body);
    assert_eq!(patch(&mut server, MERGE, json!({})).0, 404);
    let (status, applied) = patch(&mut server, APPLY, map("web", "1"));
    assert_eq!(status, 201);
    let (status, merged) = patch(
        &mut server,
        MERGE,
        json!({ "data": { "a": null, "b": "2" } }),
    );
    assert_eq!((status, &merged["data"]), (200, &json!({ "b": "2" })));
    // The same patch again changes nothing.
    let (_, same) = patch(&mut server, MERGE, json!({ "data": { "b": "2" } }));
    assert_eq!(
        same["metadata"]["resourceVersion"],
        merged["metadata"]["resourceVersion"]
    );
    let old = json!({ "metadata": { "resourceVersion": applied["metadata"]["resourceVersion"] }, "data": {} });
    assert_eq!(patch(&mut server, MERGE, old).0, 409);
    assert_eq!(
        patch(&mut server, "application/json-patch+json", json!([])).0,
        415
    );
    assert_eq!(patch(&mut server, MERGE, json!([1])).0, 400);
}

#[test]
fn the_status_is_written_alone() {
    let mut server = FakeServer::new(1);
    let pods = "/api/v1/namespaces/prod/pods";
    let pod = json!({ "metadata": { "name": "web" }, "spec": { "nodeName": "n1" } });
    send(&mut server, "POST", pods, pod);
    let status = json!({ "spec": { "nodeName": "n2" }, "status": { "phase": "Running" } });
    let target = format!("{pods}/web/status");
    assert_eq!(
        write(&mut server, ("PATCH", &target), MERGE, &status).0,
        200
    );
    let pod = server.get("pods", "prod", "web").unwrap();
    assert_eq!(
        (&pod["spec"]["nodeName"], &pod["status"]["phase"]),
        (&json!("n1"), &json!("Running"))
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut server = FakeServer::new(1);
    for (method, target, body, status) in [
        (
            "POST",
            "/api/v1/namespaces/prod/unknown",
            map("a", "1"),
            404,
        ),
        ("POST", "/api/v1/configmaps", map("a", "1"), 405),
        ("POST", "/nothing", map("a", "1"), 404),
        ("POST", MAPS, json!({ "data": {} }), 400),
        ("POST", MAPS, json!("text"), 400),
        ("DELETE", MAPS, Value::Null, 405),
        ("PUT", MAPS, map("a", "1"), 405),
    ] {
        assert_eq!(
            send(&mut server, method, target, body).0,
            status,
            "{method} {target}"
        );
    }
    let broken = Write {
        method: "POST",
        target: MAPS,
        content_type: "application/json",
        body: b"{",
    };
    assert_eq!(server.handle_write(Instant::from_micros(0), broken).0, 400);
    assert_eq!(server.objects("configmaps").count(), 0);
    let last = server.log().iter().last().unwrap();
    assert_eq!(last.status, Some(400));
}

#[test]
fn a_body_of_the_wrong_types_is_a_bad_request() {
    let mut server = FakeServer::new(1);
    let one = format!("{MAPS}/web");
    assert_eq!(send(&mut server, "POST", MAPS, map("web", "1")).0, 201);
    let before = server.version();
    let named = |member: &str, value: &Value| {
        let mut object = json!({ "metadata": { "name": "web" } });
        object["metadata"][member] = value.clone();
        object
    };
    let mut bodies: Vec<Value> = [json!("x"), json!(1), json!(true), json!([]), json!([{}])]
        .into_iter()
        .flat_map(|value| [json!({ "metadata": value }), value])
        .collect();
    for member in [
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        bodies
            .extend([json!(1), json!([]), json!({ "a": "b" })].map(|value| named(member, &value)));
    }
    for member in ["labels", "annotations"] {
        bodies.extend(
            [json!("x"), json!(["a"]), json!({ "a": 1 })].map(|value| named(member, &value)),
        );
    }
    for member in ["finalizers", "ownerReferences", "managedFields"] {
        bodies.extend([json!("x"), json!({}), json!([1])].map(|value| named(member, &value)));
    }
    for body in &bodies {
        for (method, target, content_type) in [
            ("POST", MAPS, "application/json"),
            ("PUT", one.as_str(), "application/json"),
            ("PATCH", one.as_str(), MERGE),
            ("PATCH", one.as_str(), APPLY),
        ] {
            let (status, answer) = write(&mut server, (method, target), content_type, body);
            let shown = (status, &answer["kind"], &answer["reason"]);
            let expected = (400, &json!("Status"), &json!("BadRequest"));
            assert_eq!(shown, expected, "{method} {content_type} {body}");
        }
    }
    assert_eq!(server.version(), before);
    // Fields that Go decodes to nothing count as absent, and are taken from the path.
    assert_eq!(
        send(
            &mut server,
            "POST",
            "/api/v1/nodes",
            json!({ "metadata": "x" })
        )
        .0,
        400
    );
    let nothing = json!({ "metadata": { "name": "other", "labels": null, "uid": null } });
    assert_eq!(send(&mut server, "POST", MAPS, nothing).0, 201);
    assert_eq!(
        send(&mut server, "PUT", &one, json!({ "metadata": null })).0,
        200
    );
}
