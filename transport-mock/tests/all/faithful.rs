//! Writes as the API server handles them: owners of fields, merging, scaling, schemas, admission and garbage.

use informer_mock::{Config, FakeServer, Instant, Operation, Write, json};
use serde_json::Value;

use crate::common::{rows, value, write};

const MAPS: &str = "/api/v1/namespaces/prod/configmaps";
const WEBS: &str = "/apis/apps/v1/namespaces/prod/deployments";
const SETS: &str = "/apis/apps/v1/namespaces/prod/replicasets";
const PODS: &str = "/api/v1/namespaces/prod/pods";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn post(server: &mut FakeServer, target: &str, body: Value) -> Value {
    let (status, answer) = write(server, "POST", target, "application/json", &body);
    assert_eq!(status, 201, "{answer}");
    answer
}

fn patch(server: &mut FakeServer, target: &str, kind: &str, body: Value) -> (u16, Value) {
    write(server, "PATCH", target, kind, &body)
}

fn delete(server: &mut FakeServer, target: &str) -> u16 {
    write(server, "DELETE", target, "", &Value::Null).0
}

fn config(data: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "web" }, "data": data })
}

fn apply(server: &mut FakeServer, by: &str, data: Value) -> (u16, Value) {
    patch(
        server,
        &format!("{MAPS}/web?fieldManager={by}"),
        APPLY,
        config(data),
    )
}

fn web(containers: Value) -> Value {
    json!({ "metadata": { "name": "web" }, "spec": { "replicas": 1, "template": { "spec": { "containers": containers } } } })
}

fn gizmos() -> FakeServer {
    let keyed = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
        "items": { "type": "object", "required": ["port"], "properties": {
            "port": { "type": "integer" }, "name": { "type": "string" },
        } },
    });
    let schema = json!({ "type": "object", "properties": {
        "spec": { "type": "object", "required": ["color"], "properties": {
            "color": { "type": "string", "enum": ["red", "blue"] },
            "mode": { "type": "string", "default": "auto" },
            "replicas": { "type": "integer" },
            "set": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
            "ports": keyed,
        } },
        "status": { "type": "object", "properties": { "replicas": { "type": "integer" } } },
    } });
    let mut server = FakeServer::new(1);
    let definition = json!({ "spec": {
        "group": "example.com", "scope": "Namespaced", "names": { "plural": "gizmos", "kind": "Gizmo" },
        "versions": [{
            "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
            "subresources": { "status": {}, "scale": {
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            } },
        }],
    } });
    server.add_definition(&definition).unwrap();
    let again = server.add_definition(&definition).unwrap_err();
    assert_eq!(
        again.to_string(),
        "the definition cannot be used: gizmos.example.com exists already"
    );
    let nothing = server.add_definition(&json!({})).unwrap_err();
    assert_eq!(
        nothing.to_string(),
        "the definition cannot be used: spec.scope is missing"
    );
    server
}

const GIZMOS: &str = "/apis/example.com/v1/namespaces/prod/gizmos";

fn gizmo(spec: Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Gizmo", "metadata": { "name": "web" }, "spec": spec })
}

#[test]
fn fields_have_owners() {
    let mut server = FakeServer::new(1);
    // The manager, what it applies, the status, and the data after it.
    let table = r#"
        me             | {"a":"1","b":"1"} | 201 | {"a":"1","b":"1"}
        # The same value has two owners.
        you            | {"b":"1","c":"1"} | 200 | {"a":"1","b":"1","c":"1"}
        you            | {"a":"2"}         | 409 |
        you&force=true | {"a":"2"}         | 200 | {"a":"2","b":"1"}
        # Only what nobody owns any more is removed.
        me             | {}                | 200 | {"a":"2"}
        you            | {}                | 200 | null
    "#;
    for [by, data, status, left] in rows(table) {
        let (code, answer) = apply(&mut server, by, value(data));
        assert_eq!(code.to_string(), status, "{by} {data}: {answer}");
        if code < 300 {
            assert_eq!(answer["data"], value(left), "{by} {data}");
        }
    }
    // The owner of a conflict is named, and both owners if there are two.
    apply(&mut server, "me", json!({ "a": "1" }));
    let target = format!("{MAPS}/web?fieldManager=edit");
    patch(&mut server, &target, MERGE, json!({ "data": { "b": "1" } }));
    let (_, answer) = apply(&mut server, "you", json!({ "a": "2", "b": "2" }));
    let message = "Apply failed with 2 conflicts: conflicts with \"edit\" using v1:\n- .data.b\nconflicts with \"me\":\n- .data.a";
    assert_eq!(answer["message"], message);
    assert_eq!(answer["details"]["causes"][1]["field"], ".data.a");
    // Managers do not grow by what is refused, and a repeated configuration changes nothing.
    let version = server.version();
    assert_eq!(apply(&mut server, "me", json!({ "a": "1" })).0, 200);
    assert_eq!(server.version(), version);
}

#[test]
fn an_object_without_managers_is_owned_by_those_before() {
    let mut server = FakeServer::new(1);
    let data = json!({ "metadata": { "namespace": "prod", "name": "web" }, "data": { "a": "1" } });
    server.create("configmaps", data).unwrap();
    let target = format!("{MAPS}/web");
    let (_, patched) = patch(&mut server, &target, MERGE, json!({ "data": { "b": "1" } }));
    assert_eq!(patched["metadata"]["managedFields"], Value::Null);
    let (status, answer) = apply(&mut server, "me", json!({ "a": "2" }));
    assert_eq!(status, 409);
    let expected =
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.a";
    assert_eq!(answer["message"], expected);
    let (_, forced) = apply(&mut server, "me&force=true", json!({ "a": "2" }));
    assert_eq!(forced["data"], json!({ "a": "2", "b": "1" }));
    assert_eq!(
        forced["metadata"]["managedFields"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let reset = json!({ "metadata": { "managedFields": [{}] } });
    let (_, reset) = patch(&mut server, &target, MERGE, reset);
    assert_eq!(reset["metadata"]["managedFields"], Value::Null);
}

#[test]
fn lists_are_applied_by_their_keys() {
    let mut server = gizmos();
    let mut apply = |by: &str, spec: Value| {
        let target = format!("{GIZMOS}/web?fieldManager={by}");
        patch(&mut server, &target, APPLY, gizmo(spec))
    };
    apply(
        "me",
        json!({ "color": "red", "set": ["a", "b"], "ports": [{ "port": 1, "name": "x" }] }),
    );
    let (_, both) = apply(
        "you",
        json!({ "color": "red", "set": ["b", "c"], "ports": [{ "port": 2 }] }),
    );
    assert_eq!(both["spec"]["set"], json!(["a", "b", "c"]));
    assert_eq!(
        both["spec"]["ports"],
        json!([{ "port": 1, "name": "x" }, { "port": 2 }])
    );
    let (_, less) = apply("me", json!({ "color": "red" }));
    assert_eq!(less["spec"]["set"], json!(["b", "c"]));
    assert_eq!(less["spec"]["ports"], json!([{ "port": 2 }]));
    let (status, conflict) = apply("me", json!({ "color": "blue" }));
    assert_eq!(
        (status, &conflict["details"]["causes"][0]["field"]),
        (409, &json!(".spec.color"))
    );
    assert_eq!(apply("me&force=true", json!({ "color": "grey" })).0, 422);
    assert_eq!(apply("me", json!({ "color": "red", "typo": 1 })).0, 500);
}

#[test]
fn strategic_patches_merge_lists_by_their_keys() {
    let names = |list: &Value| -> Vec<String> {
        let items = list.as_array().unwrap().iter();
        items
            .map(|item| item["name"].as_str().unwrap().to_owned())
            .collect()
    };
    for (change, expected) in [
        (json!([{ "name": "b", "image": "2" }]), "a b"),
        (json!([{ "name": "c", "image": "2" }]), "c a b"),
        (json!([{ "name": "b", "$patch": "delete" }]), "a"),
        (json!([{ "$patch": "replace" }, { "name": "z" }]), "z"),
    ] {
        let mut server = FakeServer::new(1);
        post(
            &mut server,
            WEBS,
            web(json!([{ "name": "a", "image": "1" }, { "name": "b", "image": "1" }])),
        );
        let body = json!({ "spec": { "template": { "spec": { "containers": change } } } });
        let (status, answer) = patch(&mut server, &format!("{WEBS}/web"), STRATEGIC, body);
        let containers = &answer["spec"]["template"]["spec"]["containers"];
        assert_eq!(
            (status, names(containers).join(" ")),
            (200, expected.to_owned()),
            "{change}"
        );
    }
    let mut server = FakeServer::new(1);
    post(
        &mut server,
        WEBS,
        web(json!([{ "name": "a" }, { "name": "b" }])),
    );
    let table = r#"
        {"spec":{"template":{"spec":{"containers":[{"image":"1"}]}}}} | 500
        {"spec":{"$patch":"what"}}                                    | 500
        []                                                            | 400
        {"spec":5}                                                    | 400
    "#;
    for [body, status] in rows(table) {
        let (code, answer) = patch(&mut server, &format!("{WEBS}/web"), STRATEGIC, value(body));
        assert_eq!(code.to_string(), status, "{body}: {answer}");
    }
    let order = json!({ "spec": { "template": { "spec": { "$setElementOrder/containers": [{ "name": "b" }, { "name": "a" }] } } } });
    let (_, sorted) = patch(&mut server, &format!("{WEBS}/web"), STRATEGIC, order);
    assert_eq!(
        names(&sorted["spec"]["template"]["spec"]["containers"]),
        ["b", "a"]
    );
}

#[test]
fn generations_count_changes_of_the_spec() {
    let mut server = FakeServer::new(1);
    let one = format!("{WEBS}/web");
    let created = post(&mut server, WEBS, web(json!([{ "name": "c" }])));
    assert_eq!(created["metadata"]["generation"], 1);
    // The subresource, the patch, and the generation after it.
    let table = r#"
                | {"metadata":{"labels":{"a":"b"},"generation":9}} | 1
                | {"spec":{"replicas":2}}                          | 2
                | {"spec":{"replicas":2}}                          | 2
        /status | {"spec":{"replicas":5},"status":{"replicas":1}}  | 2
                | {"metadata":{"finalizers":["example.com/a"]}}    | 2
    "#;
    for [part, body, expected] in rows(table) {
        let (_, answer) = patch(&mut server, &format!("{one}{part}"), MERGE, value(body));
        let generation = &answer["metadata"]["generation"];
        assert_eq!(generation.to_string(), expected, "{body}");
    }
    let (_, deleted) = write(&mut server, "DELETE", &one, "", &Value::Null);
    assert_eq!(deleted["metadata"]["generation"], 3);
    // A ConfigMap has no spec to count.
    let map = post(&mut server, MAPS, config(json!({ "a": "1" })));
    assert_eq!(map["metadata"]["generation"], Value::Null);
}

#[test]
fn replicas_are_scaled_apart() {
    let mut server = gizmos();
    post(&mut server, WEBS, web(json!([])));
    post(&mut server, GIZMOS, gizmo(json!({ "color": "red" })));
    for all in [WEBS, GIZMOS] {
        let scale = format!("{all}/web/scale");
        let (status, scaled) = patch(
            &mut server,
            &scale,
            MERGE,
            json!({ "spec": { "replicas": 3 } }),
        );
        assert_eq!(
            (status, &scaled["spec"]["replicas"]),
            (200, &json!(3)),
            "{all}"
        );
        assert_eq!(scaled["kind"], "Scale");
        let negative = json!({ "spec": { "replicas": -1 } });
        assert_eq!(patch(&mut server, &scale, MERGE, negative).0, 422);
        let stale = json!({ "metadata": { "name": "web", "resourceVersion": "1" }, "spec": { "replicas": 1 } });
        assert_eq!(write(&mut server, "PUT", &scale, "", &stale).0, 409);
        assert_eq!(delete(&mut server, &scale), 405);
    }
    assert_eq!(
        server.get("gizmos", "prod", "web").unwrap()["spec"]["replicas"],
        3
    );
    assert_eq!(
        patch(&mut server, &format!("{MAPS}/web/scale"), MERGE, json!({})).0,
        404
    );
}

#[test]
fn a_dry_run_stores_nothing() {
    let mut server = FakeServer::new(1);
    post(&mut server, MAPS, config(json!({ "a": "1" })));
    let version = server.version();
    let mut dry = |method: &str, target: &str, kind: &str, body: Value| {
        write(
            &mut server,
            method,
            &format!("{target}?dryRun=All&fieldManager=me"),
            kind,
            &body,
        )
    };
    let one = format!("{MAPS}/web");
    let (status, created) = dry("POST", MAPS, "", json!({ "metadata": { "name": "other" } }));
    assert_eq!(
        (status, &created["metadata"]["resourceVersion"]),
        (201, &Value::Null)
    );
    assert_eq!(dry("POST", MAPS, "", config(json!({}))).0, 409);
    let (_, merged) = dry("PATCH", &one, MERGE, json!({ "data": { "a": "2" } }));
    assert_eq!(merged["data"]["a"], "2");
    assert_eq!(
        dry(
            "PATCH",
            &format!("{MAPS}/web"),
            APPLY,
            config(json!({ "a": "2" }))
        )
        .0,
        409
    );
    assert_eq!(dry("DELETE", &one, "", Value::Null).0, 200);
    assert_eq!(dry("DELETE", MAPS, "", Value::Null).0, 200);
    assert_eq!(server.version(), version);
    assert_eq!(
        server.get("configmaps", "prod", "web").unwrap()["data"]["a"],
        "1"
    );
}

#[test]
fn objects_that_are_not_valid_are_refused_with_the_fields() {
    let mut server = gizmos();
    let metadata = r#"
        {"name":"UPPER"}                       | metadata.name
        {"name":"a","labels":{"a b":"c"}}      | metadata.labels
        {"name":"a","annotations":{"/c":"c"}}  | metadata.annotations
        {"name":"a","finalizers":["plain"]}    | metadata.finalizers[0]
        {"name":"a","ownerReferences":[{}]}    | metadata.ownerReferences.apiVersion
    "#;
    let metadata = rows(metadata)
        .map(|[metadata, field]| (MAPS, json!({ "metadata": value(metadata) }), field));
    let specs = r#"
        {}                                     | spec.color
        {"color":"green"}                      | spec.color
        {"color":"red","set":["a","a"]}        | spec.set[1]
        {"color":"red","ports":[{"name":"x"}]} | spec.ports[0].port
        {"color":"red","replicas":"1"}         | spec.replicas
    "#;
    let specs = rows(specs).map(|[spec, field]| (GIZMOS, gizmo(value(spec)), field));
    for (target, body, field) in metadata.chain(specs) {
        let (status, answer) = write(&mut server, "POST", target, "", &body);
        assert_eq!(
            (status, &answer["reason"]),
            (422, &json!("Invalid")),
            "{body}"
        );
        assert_eq!(answer["details"]["causes"][0]["field"], field, "{answer}");
    }
    let body = gizmo(json!({ "color": "red", "typo": 1, "mode": null }));
    let strict = format!("{GIZMOS}?fieldValidation=Strict");
    assert_eq!(write(&mut server, "POST", &strict, "", &body).0, 400);
    let created = post(&mut server, GIZMOS, body);
    assert_eq!(created["spec"], json!({ "color": "red", "mode": "auto" }));
    // Built-in kinds have the types of their fields.
    let mistyped = config(json!({ "a": 1 }));
    assert_eq!(write(&mut server, "POST", MAPS, "", &mistyped).0, 400);
    let unknown = json!({ "metadata": { "name": "web" }, "data": { "a": "1" }, "typo": 1 });
    assert_eq!(post(&mut server, MAPS, unknown)["typo"], Value::Null);
}

#[test]
fn hooks_change_and_refuse_objects() {
    let mut server = FakeServer::new(1);
    server.add_admission("defaults.example.com", |request| {
        if request.operation == Operation::Create {
            request.object["metadata"]["labels"]["by"] = "hook".into();
            request.object["metadata"]["name"] = "ignored".into();
        }
        Ok(())
    });
    server.add_admission("guard.example.com", |request| {
        match (request.operation, request.old) {
            (Operation::Delete, Some(old)) if old["data"]["keep"] == "1" => {
                Err("keep is set".to_owned())
            }
            (Operation::Update, _) if request.object["data"]["break"] == "1" => {
                *request.object = Value::Null;
                Ok(())
            }
            _ => Ok(()),
        }
    });
    let created = post(&mut server, MAPS, config(json!({ "keep": "1" })));
    assert_eq!(created["metadata"]["labels"], json!({ "by": "hook" }));
    assert_eq!(created["metadata"]["name"], "web");
    let one = format!("{MAPS}/web");
    let (status, refused) = write(&mut server, "DELETE", &one, "", &Value::Null);
    assert_eq!(status, 403);
    let message = "admission webhook \"guard.example.com\" denied the request: keep is set";
    assert_eq!(refused["message"], message);
    // A hook that leaves no object breaks its write, and nothing else.
    assert_eq!(
        patch(
            &mut server,
            &one,
            MERGE,
            json!({ "data": { "break": "1" } })
        )
        .0,
        400
    );
    let (status, _) = patch(&mut server, &one, MERGE, json!({ "data": null }));
    assert_eq!((status, delete(&mut server, &one)), (200, 200));
}

/// Creates a Deployment with a ReplicaSet with a Pod.
fn owned(server: &mut FakeServer, blocks: bool) {
    let mut owners = Value::Null;
    for (all, kind) in [(WEBS, "Deployment"), (SETS, "ReplicaSet"), (PODS, "Pod")] {
        let object = json!({ "metadata": { "name": "web", "ownerReferences": owners } });
        let uid = post(server, all, object)["metadata"]["uid"].clone();
        owners = json!([{
            "apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": uid, "blockOwnerDeletion": blocks,
        }]);
    }
}

fn left(server: &FakeServer) -> String {
    let names = ["deployments", "replicasets", "pods"];
    let left = names
        .iter()
        .filter(|name| server.get(name, "prod", "web").is_some());
    left.copied().collect::<Vec<_>>().join(" ")
}

#[test]
fn garbage_is_collected_as_the_owner_demands() {
    for (query, expected) in [
        ("", ""),
        ("?propagationPolicy=Background", ""),
        ("?propagationPolicy=Foreground", ""),
        ("?propagationPolicy=Orphan", "replicasets pods"),
    ] {
        for blocks in [false, true] {
            let mut server = FakeServer::new(1);
            owned(&mut server, blocks);
            assert_eq!(delete(&mut server, &format!("{WEBS}/web{query}")), 200);
            assert_eq!(left(&server), expected, "{query} {blocks}");
        }
    }
    // A dependent that blocks keeps its owner until it is gone.
    let mut server = FakeServer::new(1);
    owned(&mut server, true);
    let (pod, hold) = (
        format!("{PODS}/web"),
        json!({ "metadata": { "finalizers": ["example.com/a"] } }),
    );
    patch(&mut server, &pod, MERGE, hold);
    delete(
        &mut server,
        &format!("{WEBS}/web?propagationPolicy=Foreground"),
    );
    assert_eq!(left(&server), "deployments replicasets pods");
    let web = server.get("deployments", "prod", "web").unwrap();
    assert_eq!(web["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    patch(
        &mut server,
        &pod,
        MERGE,
        json!({ "metadata": { "finalizers": null } }),
    );
    assert_eq!(left(&server), "");
    // Without the collector, nothing follows.
    let mut server = FakeServer::new(1);
    server.config_mut().collects_garbage = false;
    owned(&mut server, true);
    delete(&mut server, &format!("{WEBS}/web"));
    assert_eq!(left(&server), "replicasets pods");
}

/// Without the collector, a test calls it, as if it were slow.
#[test]
fn a_late_collection_does_what_the_collector_does() {
    let mut server = FakeServer::new(1);
    server.config_mut().collects_garbage = false;
    owned(&mut server, false);
    delete(&mut server, &format!("{WEBS}/web?propagationPolicy=Orphan"));
    let finalizers = |server: &FakeServer| {
        let web = server.get("deployments", "prod", "web")?;
        Some(web["metadata"]["finalizers"].clone())
    };
    assert_eq!(finalizers(&server), Some(json!(["orphan"])));
    server.collect_garbage();
    assert_eq!(finalizers(&server), None);
    assert_eq!(left(&server), "replicasets pods");
}

/// A Namespace that an object owns is deleted with it, and its objects with the Namespace.
#[test]
fn a_namespace_with_an_owner_ends() {
    let mut config = Config::default();
    config.requires_namespaces = true;
    let mut server = FakeServer::with_config(1, config);
    let node = post(
        &mut server,
        "/api/v1/nodes",
        json!({ "metadata": { "name": "owner" } }),
    );
    let owner = json!([{ "apiVersion": "v1", "kind": "Node", "name": "owner", "uid": node["metadata"]["uid"] }]);
    let namespace = json!({ "metadata": { "name": "prod", "ownerReferences": owner } });
    post(&mut server, "/api/v1/namespaces", namespace);
    post(&mut server, MAPS, json!({ "metadata": { "name": "left" } }));
    assert_eq!(delete(&mut server, "/api/v1/nodes/owner"), 200);
    assert_eq!(server.get("configmaps", "prod", "left"), None);
    assert_eq!(server.get("namespaces", "", "prod"), None);
}

/// A StatefulSet is the one built-in object that has others, with their types.
#[test]
fn claims_of_a_stateful_set_have_a_type() {
    let mut server = FakeServer::new(1);
    let claim = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "data" } });
    let mut set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "db" },
        "spec": { "serviceName": "db", "volumeClaimTemplates": [claim] },
    });
    let target = "/apis/apps/v1/namespaces/prod/statefulsets/db?fieldManager=test";
    let (status, _) = write(&mut server, "PATCH", target, APPLY, &set);
    assert_eq!(status, 201);
    let stored = server.get("statefulsets.apps", "prod", "db").unwrap();
    assert_eq!(stored["spec"]["volumeClaimTemplates"], json!([claim]));
    set["spec"]["volumeClaimTemplates"][0]["spec"] = json!({ "kind": "PersistentVolumeClaim" });
    let (status, _) = write(&mut server, "PATCH", target, APPLY, &set);
    assert_eq!(status, 500);
}

/// `additionalProperties: true` declares members of any name, and nothing below them.
#[test]
fn members_of_any_name_are_pruned_below() {
    let mut server = FakeServer::new(1);
    let schema = json!({ "type": "object", "properties": { "spec": {
        "type": "object", "properties": { "values": { "type": "object", "additionalProperties": true } },
    } } });
    let definition = json!({ "spec": {
        "group": "example.com", "scope": "Namespaced", "names": { "plural": "gizmos", "kind": "Gizmo" },
        "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
    } });
    server.add_definition(&definition).unwrap();
    let spec = json!({ "values": { "text": "a", "object": { "below": 1 } } });
    let gizmo = json!({ "apiVersion": "example.com/v1", "kind": "Gizmo", "metadata": { "name": "a" }, "spec": spec });
    let target = "/apis/example.com/v1/namespaces/prod/gizmos/a?fieldManager=test";
    let (status, answer) = write(&mut server, "PATCH", target, APPLY, &gizmo);
    assert_eq!(status, 201, "{answer}");
    assert_eq!(
        answer["spec"]["values"],
        json!({ "text": "a", "object": {} })
    );
}

#[test]
fn a_pod_that_runs_has_a_grace_period() {
    let mut server = FakeServer::new(1);
    server.config_mut().graceful_pods = true;
    let deadline = |server: &FakeServer| {
        let pod = server.get("pods", "prod", "web")?;
        Some(pod["metadata"]["deletionGracePeriodSeconds"].clone())
    };
    let pod = json!({ "metadata": { "name": "web" }, "spec": { "nodeName": "node" } });
    // One that runs nowhere, and one that has ended, are deleted at once.
    post(&mut server, PODS, json!({ "metadata": { "name": "web" } }));
    delete(&mut server, &format!("{PODS}/web"));
    assert_eq!(deadline(&server), None);
    post(&mut server, PODS, pod.clone());
    let ended = json!({ "status": { "phase": "Failed" } });
    patch(&mut server, &format!("{PODS}/web/status"), MERGE, ended);
    delete(&mut server, &format!("{PODS}/web"));
    assert_eq!(deadline(&server), None);

    post(&mut server, PODS, pod);
    assert_eq!(delete(&mut server, &format!("{PODS}/web")), 200);
    let pod = server.get("pods", "prod", "web").unwrap();
    assert_eq!(pod["metadata"]["deletionTimestamp"], "2026-01-01T00:00:30Z");
    assert_eq!(deadline(&server), Some(json!(30)));
    // A second deletion can make it shorter, and no longer.
    delete(&mut server, &format!("{PODS}/web?gracePeriodSeconds=60"));
    assert_eq!(deadline(&server), Some(json!(30)));
    delete(&mut server, &format!("{PODS}/web?gracePeriodSeconds=5"));
    assert_eq!(deadline(&server), Some(json!(5)));
    // A change does not end it.
    let change = json!({ "metadata": { "labels": { "a": "b" } } });
    patch(&mut server, &format!("{PODS}/web"), MERGE, change);
    assert_eq!(deadline(&server), Some(json!(5)));
    delete(&mut server, &format!("{PODS}/web?gracePeriodSeconds=0"));
    assert_eq!(deadline(&server), None);

    // The garbage collector gives it its time too, and a finalizer keeps it for longer.
    let owner = post(
        &mut server,
        MAPS,
        json!({ "metadata": { "name": "owner" } }),
    );
    let owner = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"] }]);
    let metadata =
        json!({ "name": "web", "ownerReferences": owner, "finalizers": ["example.com/own"] });
    post(
        &mut server,
        PODS,
        json!({ "metadata": metadata, "spec": { "nodeName": "node" } }),
    );
    delete(&mut server, &format!("{MAPS}/owner"));
    assert_eq!(deadline(&server), Some(json!(30)));
    delete(&mut server, &format!("{PODS}/web?gracePeriodSeconds=0"));
    assert_eq!(deadline(&server), Some(json!(0)));
    let done = json!({ "metadata": { "finalizers": null } });
    patch(&mut server, &format!("{PODS}/web"), MERGE, done);
    assert_eq!(deadline(&server), None);
}

#[test]
fn owners_that_remain_keep_an_object() {
    let mut server = FakeServer::new(1);
    let uids = ["a", "b"].map(|name| {
        let owner = post(&mut server, MAPS, json!({ "metadata": { "name": name } }));
        owner["metadata"]["uid"].clone()
    });
    let reference = |name: &str, uid: &Value| json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid });
    let owners = json!([reference("a", &uids[0]), reference("b", &uids[1])]);
    post(
        &mut server,
        PODS,
        json!({ "metadata": { "name": "web", "ownerReferences": owners } }),
    );
    delete(&mut server, &format!("{MAPS}/a"));
    let pod = server.get("pods", "prod", "web").unwrap();
    assert_eq!(
        pod["metadata"]["ownerReferences"],
        json!([reference("b", &uids[1])])
    );
    // An owner with the same name is another one.
    delete(&mut server, &format!("{MAPS}/b"));
    assert_eq!(left(&server), "");
    post(&mut server, MAPS, json!({ "metadata": { "name": "b" } }));
    let late =
        json!({ "metadata": { "name": "web", "ownerReferences": [reference("b", &uids[1])] } });
    post(&mut server, PODS, late);
    assert_eq!(left(&server), "", "an object whose owner is gone already");
    // Owners of each other do not wait for each other.
    let mut uids = Vec::new();
    for name in ["x", "y"] {
        let object = json!({ "metadata": { "name": name } });
        uids.push(post(&mut server, MAPS, object)["metadata"]["uid"].clone());
    }
    for (name, other, uid) in [("x", "y", &uids[1]), ("y", "x", &uids[0])] {
        let mut owner = reference(other, uid);
        owner["blockOwnerDeletion"] = true.into();
        let owners = json!({ "metadata": { "ownerReferences": [owner] } });
        patch(&mut server, &format!("{MAPS}/{name}"), MERGE, owners);
    }
    delete(
        &mut server,
        &format!("{MAPS}/x?propagationPolicy=Foreground"),
    );
    assert!(server.get("configmaps", "prod", "x").is_none());
    assert!(server.get("configmaps", "prod", "y").is_none());
}

#[test]
fn a_restored_backup_knows_its_owners() {
    let mut server = FakeServer::new(1);
    owned(&mut server, false);
    let backup = server.version();
    delete(&mut server, &format!("{WEBS}/web"));
    server.restore(backup);
    assert_eq!(left(&server), "deployments replicasets pods");
    delete(&mut server, &format!("{WEBS}/web"));
    assert_eq!(left(&server), "");
}

#[test]
fn a_collection_is_deleted_by_its_selector() {
    let mut server = FakeServer::new(1);
    for (name, app) in [("a", "x"), ("b", "y"), ("c", "x")] {
        post(
            &mut server,
            MAPS,
            json!({ "metadata": { "name": name, "labels": { "app": app } } }),
        );
    }
    let (status, list) = write(
        &mut server,
        "DELETE",
        &format!("{MAPS}?labelSelector=app=x"),
        "",
        &Value::Null,
    );
    assert_eq!((status, &list["kind"]), (200, &json!("ConfigMapList")));
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    assert_eq!(server.objects("configmaps").count(), 1);
}

/// Bodies that grow: a patch must not make an object that cannot be handled.
#[test]
fn hostile_bodies_are_refused() {
    let mut server = FakeServer::new(1);
    post(&mut server, MAPS, config(json!({ "a": "1" })));
    let one = format!("{MAPS}/web");
    let grow: Vec<Value> = (0..200)
        .map(|_| json!({ "op": "copy", "from": "/data", "path": "/data/x" }))
        .collect();
    assert_eq!(
        patch(&mut server, &one, JSON_PATCH, Value::Array(grow)).0,
        422
    );
    let many = vec![json!({ "op": "test", "path": "/data/a", "value": "1" }); 10_001];
    assert_eq!(
        patch(&mut server, &one, JSON_PATCH, Value::Array(many)).0,
        413
    );
    let deep = "[".repeat(100_000);
    for (kind, method, target) in [
        ("application/json", "PUT", &one),
        (MERGE, "PATCH", &one),
        (STRATEGIC, "PATCH", &one),
        (JSON_PATCH, "PATCH", &one),
        (APPLY, "PATCH", &format!("{one}?fieldManager=me")),
        ("", "DELETE", &one),
    ] {
        let write = Write {
            method,
            target,
            content_type: kind,
            body: deep.as_bytes(),
        };
        assert_eq!(
            server.execute(Instant::from_micros(0), write).0,
            400,
            "{method} {kind}"
        );
    }
    // An object that is nested as deeply as the parser permits has deeper managedFields.
    server.add_resource("example.com", "v1", "widgets", "Widget", true);
    let widget = |levels: usize| {
        let inside = "{\"a\":".repeat(levels) + "1" + &"}".repeat(levels);
        let text = format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"w{levels}"}},"spec":{inside}}}"#
        );
        text.into_bytes()
    };
    for (levels, status) in [(99, 201), (100, 400), (126, 400), (127, 400)] {
        let write = Write {
            method: "POST",
            target: "/apis/example.com/v1/namespaces/prod/widgets",
            content_type: "",
            body: &widget(levels),
        };
        assert_eq!(
            server.execute(Instant::from_micros(0), write).0,
            status,
            "{levels}"
        );
    }
    assert_eq!(
        delete(
            &mut server,
            "/apis/example.com/v1/namespaces/prod/widgets/w99"
        ),
        200
    );
    // Managers of any form are read, and dropped if they cannot be.
    for fields in [
        json!([{ "fieldsV1": { "f:data": 5 } }]),
        json!([{ "fieldsV1": { "k:{": {} } }]),
        json!([{ "operation": 5 }]),
    ] {
        let body = json!({ "metadata": { "managedFields": fields }, "data": { "n": "1" } });
        assert_eq!(patch(&mut server, &one, MERGE, body).0, 200);
    }
    assert_eq!(
        server.get("configmaps", "prod", "web").unwrap()["data"]["a"],
        "1"
    );
}
