//! Writes by the paths of the API.

use informer_mock::{DeleteAnswer, FakeServer, Instant, Write, json};
use serde_json::Value;

use crate::common::{JSON, write};

const MAPS: &str = "/api/v1/namespaces/prod/configmaps";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn send(server: &mut FakeServer, method: &str, target: &str, body: Value) -> (u16, Value) {
    write(server, method, target, JSON, &body)
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
    let patch = |server: &mut FakeServer, kind, body| write(server, "PATCH", &one, kind, &body);
    assert_eq!(patch(&mut server, MERGE, json!({})).0, 404);
    let (status, applied) = send(&mut server, "POST", MAPS, map("web", "1"));
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
    assert_eq!(patch(&mut server, "application/json", json!({})).0, 415);
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
    assert_eq!(write(&mut server, "PATCH", &target, MERGE, &status).0, 200);
    let pod = server.get("pods", "prod", "web").unwrap();
    assert_eq!(
        (&pod["spec"]["nodeName"], &pod["status"]["phase"]),
        (&json!("n1"), &json!("Running"))
    );
}

#[test]
fn invalid_writes_are_refused() {
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
        ("POST", MAPS, json!({ "data": {} }), 422),
        ("POST", MAPS, json!("text"), 400),
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
    assert_eq!(server.execute(Instant::from_micros(0), broken).0, 400);
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
    let applied = format!("{one}?fieldManager=me");
    for body in &bodies {
        for (method, target, content_type) in [
            ("POST", MAPS, "application/json"),
            ("PUT", one.as_str(), "application/json"),
            ("PATCH", one.as_str(), MERGE),
            ("PATCH", applied.as_str(), APPLY),
        ] {
            let (status, answer) = write(&mut server, method, target, content_type, body);
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
    // A PUT needs the name nevertheless.
    assert_eq!(
        send(&mut server, "PUT", &one, json!({ "metadata": null })).0,
        400
    );
}

#[test]
fn json_patches_are_applied_as_a_whole() {
    let mut server = FakeServer::new(1);
    send(&mut server, "POST", MAPS, map("web", "1"));
    let one = format!("{MAPS}/web");
    let mut patch = |body| {
        write(
            &mut server,
            "PATCH",
            &one,
            "application/json-patch+json",
            &body,
        )
    };
    let (status, patched) = patch(json!([
        { "op": "test", "path": "/data/a", "value": "1" },
        { "op": "add", "path": "/metadata/finalizers", "value": ["example.com/a"] },
        { "op": "add", "path": "/metadata/finalizers/-", "value": "example.com/c" },
        { "op": "add", "path": "/metadata/finalizers/1", "value": "example.com/b" },
        { "op": "add", "path": "/metadata/labels", "value": { "a/b": "c_d" } },
        { "op": "copy", "from": "/metadata/labels/a~1b", "path": "/data/b" },
        { "op": "move", "from": "/data/a", "path": "/data/c" },
        { "op": "replace", "path": "/data/b", "value": "2" },
        { "op": "remove", "path": "/metadata/finalizers/0" },
    ]));
    assert_eq!(
        (status, &patched["data"]),
        (200, &json!({ "b": "2", "c": "1" }))
    );
    assert_eq!(
        patched["metadata"]["finalizers"],
        json!(["example.com/b", "example.com/c"])
    );
    for refused in [
        json!([{ "op": "test", "path": "/data/c", "value": "2" }, { "op": "remove", "path": "/data/c" }]),
        json!([{ "op": "add", "path": "/data/d", "value": "1" }, { "op": "remove", "path": "/data/none" }]),
        json!([{ "op": "replace", "path": "/data/none", "value": "1" }]),
        json!([{ "op": "add", "path": "/none/none", "value": "1" }]),
        json!([{ "op": "add", "path": "/metadata/finalizers/9", "value": "1" }]),
        json!([{ "op": "what", "path": "/data" }]),
    ] {
        assert_eq!(patch(refused.clone()).0, 422, "{refused}");
    }
    assert_eq!(patch(json!({})).0, 400);
    assert_eq!(patch(json!([])).1["data"], json!({ "b": "2", "c": "1" }));
}

#[test]
fn an_object_with_finalizers_is_deleted_when_the_last_is_removed() {
    let mut server = FakeServer::new(1);
    let mut object = map("web", "1");
    object["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]);
    send(&mut server, "POST", MAPS, object);
    let one = format!("{MAPS}/web");
    let (status, deleted) = send(&mut server, "DELETE", &one, Value::Null);
    let time = deleted["metadata"]["deletionTimestamp"].clone();
    assert_eq!((status, time.is_string()), (200, true), "{deleted}");
    let version = server.version();
    assert_eq!(send(&mut server, "DELETE", &one, Value::Null).0, 200);
    assert_eq!(server.version(), version);

    let finalizers =
        |list: Value| json!({ "metadata": { "finalizers": list, "deletionTimestamp": null } });
    let (status, kept) = write(
        &mut server,
        "PATCH",
        &one,
        MERGE,
        &finalizers(json!(["example.com/b"])),
    );
    assert_eq!(
        (status, &kept["metadata"]["deletionTimestamp"]),
        (200, &time)
    );
    assert!(server.get("configmaps", "prod", "web").is_some());
    let mut old = finalizers(json!([]));
    old["metadata"]["resourceVersion"] = json!("1");
    assert_eq!(write(&mut server, "PATCH", &one, MERGE, &old).0, 409);
    let (status, _) = write(&mut server, "PATCH", &one, MERGE, &finalizers(Value::Null));
    assert_eq!(status, 200);
    assert!(server.get("configmaps", "prod", "web").is_none());
}

#[test]
fn only_the_status_of_a_resource_that_has_one_is_apart() {
    let mut server = FakeServer::new(1);
    server.add_resource("example.com", "v1", "widgets", "Widget", true);
    let all = "/apis/example.com/v1/namespaces/prod/widgets";
    let (one, status) = (format!("{all}/web"), format!("{all}/web/status"));
    let widget = |version: &Value, ready: bool| {
        json!({
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": { "name": "web", "resourceVersion": version }, "status": { "ready": ready },
        })
    };
    let (code, created) = send(&mut server, "POST", all, widget(&Value::Null, true));
    assert_eq!((code, &created["status"]), (201, &Value::Null));
    let version = &created["metadata"]["resourceVersion"];
    let (code, written) = send(&mut server, "PUT", &status, widget(version, true));
    assert_eq!((code, &written["status"]["ready"]), (200, &json!(true)));
    let version = &written["metadata"]["resourceVersion"];
    let (code, kept) = send(&mut server, "PUT", &one, widget(version, false));
    assert_eq!((code, &kept["status"]["ready"]), (200, &json!(true)));
    let patch = json!({ "status": { "ready": false } });
    let (_, kept) = write(&mut server, "PATCH", &one, MERGE, &patch);
    assert_eq!(kept["status"]["ready"], true);

    for (method, target, body, code) in [
        // A custom resource is replaced at a version.
        ("PUT", one.as_str(), widget(&Value::Null, true), 422),
        ("DELETE", &status, Value::Null, 405),
        (
            "PUT",
            "/api/v1/namespaces/prod/configmaps/web/status",
            map("web", "1"),
            404,
        ),
        ("GET", &status, Value::Null, 405),
    ] {
        assert_eq!(
            send(&mut server, method, target, body).0,
            code,
            "{method} {target}"
        );
    }
}

#[test]
fn an_object_is_created_as_the_server_would() {
    let mut server = FakeServer::new(1);
    server.add_resource("example.com", "v1", "widgets", "Widget", true);
    let widgets = "/apis/example.com/v1/namespaces/prod/widgets";
    let named = |extra: Value| {
        let mut object = map("web", "1");
        if let Value::Object(extra) = extra {
            object.as_object_mut().unwrap().extend(extra);
        }
        object
    };
    for (target, body, code) in [
        (MAPS, named(json!({ "kind": "Secret" })), 400),
        (MAPS, named(json!({ "apiVersion": "v2" })), 400),
        (widgets, named(json!({})), 400),
        (
            MAPS,
            named(json!({ "metadata": { "name": "web", "resourceVersion": "1" } })),
            500,
        ),
        (
            "/api/v1/namespaces/prod/configmaps?dryRun=All",
            named(json!({})),
            201,
        ),
        (
            "/api/v1/namespaces/prod/configmaps?dryRun=Some",
            named(json!({})),
            422,
        ),
    ] {
        assert_eq!(send(&mut server, "POST", target, body).0, code, "{target}");
    }
    let media = write(&mut server, "POST", MAPS, "text/plain", &named(json!({})));
    assert_eq!(media.0, 415);
    assert_eq!(server.objects("configmaps").count(), 0);

    send(
        &mut server,
        "POST",
        MAPS,
        named(json!({ "kind": "ConfigMap", "apiVersion": "v1" })),
    );
    let (_, refused) = send(&mut server, "POST", MAPS, named(json!({})));
    assert_eq!(refused["message"], "configmaps \"web\" already exists");
    let another = json!({ "metadata": { "name": "web", "uid": "another" } });
    assert_eq!(
        send(&mut server, "PUT", &format!("{MAPS}/web"), another).0,
        409
    );
}
