//! What the server refuses beyond the types of fields: changes of immutable fields, evictions, missing Namespaces.

use informer_mock::{Config, FakeServer, json};
use serde_json::Value;

use crate::common::{JSON, ask, rows, value, write};

const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const SECRETS: &str = "/api/v1/namespaces/prod/secrets";
const PODS: &str = "/api/v1/namespaces/prod/pods";

fn send(server: &mut FakeServer, method: &str, target: &str, body: Value) -> (u16, Value) {
    write(server, method, target, JSON, &body)
}

fn patch(server: &mut FakeServer, target: &str, body: Value) -> (u16, Value) {
    write(server, "PATCH", target, MERGE, &body)
}

#[test]
fn the_texts_of_a_secret_become_its_data() {
    let mut server = FakeServer::new(1);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" },
        "stringData": { "a": "b", "c": "d" }, "data": { "a": "eA==", "z": "eg==" },
    });
    let (status, made) = send(&mut server, "POST", SECRETS, secret.clone());
    let data = json!({ "a": "Yg==", "c": "ZA==", "z": "eg==" });
    assert_eq!(
        (status, &made["data"], &made["stringData"]),
        (201, &data, &Value::Null)
    );
    let one = format!("{SECRETS}/s");
    let (_, changed) = patch(&mut server, &one, json!({ "stringData": { "a": "new" } }));
    assert_eq!(changed["data"]["a"], "bmV3");

    let mut applied = secret;
    applied["metadata"]["name"] = json!("t");
    applied["data"] = Value::Null;
    let target = format!("{SECRETS}/t?fieldManager=me");
    let (status, made) = write(&mut server, "PATCH", &target, APPLY, &applied);
    assert_eq!(
        (status, &made["data"]),
        (201, &json!({ "a": "Yg==", "c": "ZA==" }))
    );
    let fields = &made["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(*fields, json!({ "f:stringData": { "f:a": {}, "f:c": {} } }));
    applied["stringData"]["a"] = json!("other");
    let (status, made) = write(&mut server, "PATCH", &target, APPLY, &applied);
    assert_eq!((status, &made["data"]["a"]), (200, &json!("b3RoZXI=")));
}

const LABELS: &str = r#"{ "metadata": { "labels": { "a": "b" } } }"#;

/// The resource, the object, a change, and the field that is refused; `-` if none is.
const CHANGES: &str = r#"
# Pods
/api/v1/namespaces/prod/pods | {"spec":{"containers":[{"name":"c","image":"i:1"}]}} | {"spec":{"nodeName":"n"}} | spec
/api/v1/namespaces/prod/pods | {"spec":{"containers":[{"name":"c","image":"i:1"}]}} | {"spec":{"containers":[{"name":"c","image":"i:2"}]}} | -
/api/v1/namespaces/prod/pods | {"spec":{"containers":[{"name":"c","image":"i:1"}]}} | {"spec":{"containers":[{"name":"c","image":"i:1"},{"name":"d","image":"i"}]}} | spec.containers
/api/v1/namespaces/prod/pods | {"spec":{"containers":[{"name":"c","image":"i:1"}]}} | {"spec":{"containers":[{"name":"c","image":"i:1","command":["x"]}]}} | spec
/api/v1/namespaces/prod/pods | {"spec":{"activeDeadlineSeconds":9}} | {"spec":{"activeDeadlineSeconds":8}} | -
/api/v1/namespaces/prod/pods | {"spec":{"activeDeadlineSeconds":9}} | {"spec":{"activeDeadlineSeconds":10}} | spec.activeDeadlineSeconds
/api/v1/namespaces/prod/pods | {"spec":{"activeDeadlineSeconds":9}} | {"spec":{"activeDeadlineSeconds":null}} | spec.activeDeadlineSeconds
/api/v1/namespaces/prod/pods | {"spec":{"tolerations":[{"key":"a"}]}} | {"spec":{"tolerations":[{"key":"a"},{"key":"b"}]}} | -
/api/v1/namespaces/prod/pods | {"spec":{"tolerations":[{"key":"a"}]}} | {"spec":{"tolerations":[{"key":"b"}]}} | spec.tolerations
/api/v1/namespaces/prod/pods | {"spec":{"schedulingGates":[{"name":"a"}]}} | {"spec":{"schedulingGates":[]}} | -
# Workloads
/apis/apps/v1/namespaces/prod/deployments | {"spec":{"selector":{"matchLabels":{"a":"b"}}}} | {"spec":{"selector":{"matchLabels":{"c":"d"}}}} | spec.selector
/apis/apps/v1/namespaces/prod/deployments | {"spec":{"replicas":1}} | {"spec":{"replicas":2,"template":{"metadata":{"labels":{"a":"b"}}}}} | -
/apis/apps/v1/namespaces/prod/replicasets | {"spec":{"selector":{"matchLabels":{"a":"b"}}}} | {"spec":{"selector":{"matchLabels":{"c":"d"}}}} | spec.selector
/apis/apps/v1/namespaces/prod/daemonsets | {"spec":{"selector":{"matchLabels":{"a":"b"}}}} | {"spec":{"selector":null}} | spec.selector
/apis/apps/v1/namespaces/prod/statefulsets | {"spec":{"serviceName":"a"}} | {"spec":{"serviceName":"b"}} | spec
/apis/apps/v1/namespaces/prod/statefulsets | {"spec":{"serviceName":"a"}} | {"spec":{"replicas":3,"minReadySeconds":1}} | -
/apis/batch/v1/namespaces/prod/jobs | {"spec":{"completions":1}} | {"spec":{"completions":2}} | spec.completions
/apis/batch/v1/namespaces/prod/jobs | {"spec":{"completions":1,"parallelism":1,"completionMode":"Indexed"}} | {"spec":{"completions":2,"parallelism":2}} | -
/apis/batch/v1/namespaces/prod/jobs | {"spec":{"template":{"spec":{"restartPolicy":"Never"}}}} | {"spec":{"template":{"spec":{"restartPolicy":"OnFailure"}}}} | spec.template
/apis/batch/v1/namespaces/prod/jobs | {"spec":{"suspend":true,"template":{"spec":{"restartPolicy":"Never"}}}} | {"spec":{"template":{"spec":{"nodeName":"n"}}}} | -
/apis/batch/v1/namespaces/prod/jobs | {"spec":{}} | {"spec":{"completionMode":"NonIndexed","parallelism":2}} | -
# Others
/api/v1/namespaces/prod/services | {"spec":{"clusterIP":"10.0.0.1"}} | {"spec":{"clusterIP":"10.0.0.2"}} | spec.clusterIPs[0]
/api/v1/namespaces/prod/services | {"spec":{"clusterIP":"10.0.0.1"}} | {"spec":{"clusterIP":null,"type":"NodePort"}} | -
/api/v1/namespaces/prod/services | {"spec":{"clusterIP":"10.0.0.1"}} | {"spec":{"clusterIP":"","type":"ExternalName"}} | -
/api/v1/namespaces/prod/secrets | {"type":"a"} | {"type":"b"} | type
/api/v1/namespaces/prod/secrets | {} | {"type":"Opaque"} | -
/api/v1/namespaces/prod/secrets | {"immutable":true,"data":{"a":"eA=="}} | {"stringData":{"a":"y"}} | data
/api/v1/namespaces/prod/configmaps | {"immutable":true,"data":{"a":"b"}} | {"immutable":false} | immutable
/api/v1/namespaces/prod/configmaps | {"immutable":true,"data":{"a":"b"}} | {"binaryData":{"a":"eA=="}} | binaryData
/api/v1/namespaces/prod/configmaps | {"data":{"a":"b"}} | {"data":{"a":"c"},"immutable":true} | -
/api/v1/namespaces/prod/persistentvolumeclaims | {"spec":{"accessModes":["ReadWriteOnce"]}} | {"spec":{"accessModes":["ReadWriteMany"]}} | spec
/api/v1/namespaces/prod/persistentvolumeclaims | {"spec":{"accessModes":["ReadWriteOnce"]}} | {"spec":{"volumeName":"v"}} | -
/api/v1/namespaces/prod/persistentvolumeclaims | {"spec":{"resources":{"requests":{"storage":"1Gi"}}}} | {"spec":{"resources":{"requests":{"storage":"2Gi"}}}} | spec
/apis/rbac.authorization.k8s.io/v1/namespaces/prod/rolebindings | {"roleRef":{"kind":"Role","name":"a"}} | {"roleRef":{"name":"b"}} | roleRef
/apis/rbac.authorization.k8s.io/v1/clusterrolebindings | {"roleRef":{"kind":"ClusterRole","name":"a"}} | {"roleRef":{"name":"b"}} | roleRef
/apis/rbac.authorization.k8s.io/v1/clusterrolebindings | {"roleRef":{"kind":"ClusterRole","name":"a"}} | {"subjects":[{"kind":"User","name":"a"}]} | -
/apis/storage.k8s.io/v1/storageclasses | {"provisioner":"a"} | {"provisioner":"b"} | provisioner
/apis/storage.k8s.io/v1/storageclasses | {"parameters":{"a":"b"}} | {"parameters":null} | parameters
/apis/storage.k8s.io/v1/storageclasses | {} | {"reclaimPolicy":"Delete","allowVolumeExpansion":true} | -
/apis/storage.k8s.io/v1/storageclasses | {} | {"volumeBindingMode":"WaitForFirstConsumer"} | volumeBindingMode
/apis/scheduling.k8s.io/v1/priorityclasses | {"value":1} | {"value":2} | value
/apis/scheduling.k8s.io/v1/priorityclasses | {"value":1} | {"description":"x"} | -
"#;

#[test]
fn immutable_fields_keep_their_values() {
    for [all, object, change, refused] in rows(CHANGES) {
        let mut server = FakeServer::new(1);
        let mut object = value(object);
        object["metadata"] = json!({ "name": "x" });
        let (status, made) = send(&mut server, "POST", all, object);
        assert_eq!(status, 201, "{made}");
        let one = format!("{all}/x");
        assert_eq!(patch(&mut server, &one, value(LABELS)).0, 200);
        let (status, answer) = patch(&mut server, &one, value(change));
        let field = answer["details"]["causes"][0]["field"].as_str();
        match refused {
            "-" => assert_eq!(status, 200, "{all} {change}: {answer}"),
            refused => assert_eq!(
                (status, field),
                (422, Some(refused)),
                "{all} {change}: {answer}"
            ),
        }
    }
    let mut server = FakeServer::new(1);
    let deployments = "/apis/apps/v1/namespaces/prod/deployments";
    let spec = |label: &str| json!({ "selector": { "matchLabels": { "a": label } } });
    send(
        &mut server,
        "POST",
        deployments,
        json!({ "metadata": { "name": "x" }, "spec": spec("b") }),
    );
    let (_, refused) = patch(
        &mut server,
        &format!("{deployments}/x"),
        json!({ "spec": spec("c") }),
    );
    assert_eq!(
        refused["message"],
        "Deployment.apps \"x\" is invalid: spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable"
    );
}

fn budget(server: &mut FakeServer, allowed: i64) {
    let budget = json!({
        "metadata": { "name": "b", "namespace": "prod" }, "spec": { "selector": { "matchLabels": { "app": "web" } } },
        "status": { "disruptionsAllowed": allowed, "desiredHealthy": 1, "currentHealthy": 1 + allowed },
    });
    server.put("poddisruptionbudgets", budget).unwrap();
}

fn evict(server: &mut FakeServer, name: &str) -> (u16, Value) {
    let eviction =
        json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name } });
    send(server, "POST", &format!("{PODS}/{name}/eviction"), eviction)
}

#[test]
fn a_pod_is_evicted_if_its_budget_allows_it() {
    let mut server = FakeServer::new(1);
    for (name, app) in [("a", "web"), ("b", "web"), ("c", "db")] {
        let pod =
            json!({ "metadata": { "name": name, "namespace": "prod", "labels": { "app": app } } });
        server.create("pods", pod).unwrap();
    }
    budget(&mut server, 0);
    let (status, refused) = evict(&mut server, "a");
    assert_eq!(
        (status, &refused["reason"]),
        (429, &json!("TooManyRequests"))
    );
    let cause = json!({
        "reason": "DisruptionBudget", "message": "The disruption budget b needs 1 healthy pods and has 1 currently",
    });
    assert_eq!(refused["details"]["causes"], json!([cause]));
    assert_eq!(evict(&mut server, "c").0, 201, "no budget selects it");

    budget(&mut server, 1);
    let dry = json!({ "metadata": { "name": "a" }, "deleteOptions": { "dryRun": ["All"] } });
    assert_eq!(
        send(&mut server, "POST", &format!("{PODS}/a/eviction"), dry).0,
        201
    );
    let (status, done) = evict(&mut server, "a");
    let expected = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 });
    assert_eq!((status, done), (201, expected));
    assert!(server.get("pods", "prod", "a").is_none());
    let seen = server.get("poddisruptionbudgets", "prod", "b").unwrap();
    assert_eq!(seen["status"]["disruptionsAllowed"], 0);
    assert!(seen["status"]["disruptedPods"]["a"].is_string());
    assert_eq!(evict(&mut server, "b").0, 429);
    assert_eq!(evict(&mut server, "none").0, 404);
    let another = json!({ "metadata": { "name": "another" } });
    assert_eq!(
        send(&mut server, "POST", &format!("{PODS}/b/eviction"), another).0,
        400
    );
    assert_eq!(ask(&mut server, &format!("{PODS}/b/eviction")).0, 405);
}

#[test]
fn a_pod_is_bound_to_a_node_once() {
    let mut server = FakeServer::new(1);
    send(
        &mut server,
        "POST",
        PODS,
        json!({ "metadata": { "name": "a" } }),
    );
    let binding = |node: &str| json!({ "metadata": { "name": "a" }, "target": { "kind": "Node", "name": node } });
    let target = format!("{PODS}/a/binding");
    assert_eq!(send(&mut server, "POST", &target, binding("n1")).0, 201);
    let pod = server.get("pods", "prod", "a").unwrap();
    assert_eq!(pod["spec"]["nodeName"], "n1");
    assert_eq!(pod["status"]["conditions"][0]["type"], "PodScheduled");
    let (status, refused) = send(&mut server, "POST", &target, binding("n2"));
    let message = "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"n1\"";
    assert_eq!((status, &refused["message"]), (409, &json!(message)));
}

#[test]
fn what_needs_a_container_is_refused() {
    let mut server = FakeServer::new(1);
    send(
        &mut server,
        "POST",
        PODS,
        json!({ "metadata": { "name": "a" } }),
    );
    for part in ["log", "exec", "attach", "portforward", "proxy", "proxy/x"] {
        let target = format!("{PODS}/a/{part}?command=ls");
        let (status, refused) = ask(&mut server, &target);
        assert_eq!(
            (status, &refused["reason"]),
            (501, &json!("NotImplemented")),
            "{part}"
        );
        assert!(
            refused["message"]
                .as_str()
                .unwrap()
                .contains("informer-mock"),
            "{refused}"
        );
        assert_eq!(send(&mut server, "POST", &target, Value::Null).0, 501);
        assert_eq!(ask(&mut server, &format!("{PODS}/none/{part}")).0, 404);
    }
    let maps = "/api/v1/namespaces/prod/configmaps/a/log";
    assert_eq!(ask(&mut server, maps).0, 404);
}

fn with_namespaces() -> FakeServer {
    let mut config = Config::default();
    config.requires_namespaces = true;
    FakeServer::with_config(1, config)
}

#[test]
fn objects_need_a_namespace_if_the_server_requires_it() {
    let maps = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps");
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
    let mut server = with_namespaces();
    assert_eq!(server.objects("namespaces").count(), 4);
    let (status, refused) = send(&mut server, "POST", &maps("prod"), map.clone());
    assert_eq!(
        (status, &refused["message"]),
        (404, &json!("namespaces \"prod\" not found"))
    );
    let target = format!("{}/a?fieldManager=me", maps("prod"));
    assert_eq!(write(&mut server, "PATCH", &target, APPLY, &map).0, 404);
    assert_eq!(
        send(&mut server, "POST", &maps("default"), map.clone()).0,
        201
    );

    let namespaces = "/api/v1/namespaces";
    let (_, made) = send(
        &mut server,
        "POST",
        namespaces,
        json!({ "metadata": { "name": "prod" } }),
    );
    assert_eq!(made["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(made["status"]["phase"], "Active");
    assert_eq!(
        made["metadata"]["labels"]["kubernetes.io/metadata.name"],
        "prod"
    );
    let mut kept = map.clone();
    kept["metadata"]["finalizers"] = json!(["example.com/a"]);
    assert_eq!(send(&mut server, "POST", &maps("prod"), kept).0, 201);
    let mut other = map.clone();
    other["metadata"]["name"] = json!("b");
    send(&mut server, "POST", &maps("prod"), other);

    let prod = format!("{namespaces}/prod");
    let (status, deleted) = send(&mut server, "DELETE", &prod, Value::Null);
    assert_eq!(
        (status, &deleted["status"]["phase"]),
        (200, &json!("Terminating"))
    );
    assert!(server.get("configmaps", "prod", "b").is_none());
    let mut third = map;
    third["metadata"]["name"] = json!("c");
    let (status, refused) = send(&mut server, "POST", &maps("prod"), third);
    let message = "configmaps \"c\" is forbidden: unable to create new content in namespace prod because it is being terminated";
    assert_eq!((status, &refused["message"]), (403, &json!(message)));
    assert_eq!(
        refused["details"]["causes"][0]["reason"],
        "NamespaceTerminating"
    );
    let none = json!({ "metadata": { "finalizers": null } });
    assert_eq!(
        patch(&mut server, &format!("{}/a", maps("prod")), none).0,
        200
    );
    assert_eq!(ask(&mut server, &prod).0, 404, "its last object is gone");
    assert_eq!(
        send(
            &mut server,
            "DELETE",
            "/api/v1/namespaces/default",
            Value::Null
        )
        .0,
        403
    );
}

#[test]
fn a_namespace_is_finalized() {
    let mut server = with_namespaces();
    server.config_mut().collects_garbage = false;
    send(
        &mut server,
        "POST",
        "/api/v1/namespaces",
        json!({ "metadata": { "name": "prod" } }),
    );
    let prod = "/api/v1/namespaces/prod";
    let (_, same) = patch(&mut server, prod, json!({ "spec": { "finalizers": [] } }));
    assert_eq!(same["spec"]["finalizers"], json!(["kubernetes"]));
    let finalize = |server: &mut FakeServer, list: Value| {
        let body = json!({ "metadata": { "name": "prod" }, "spec": { "finalizers": list } });
        send(server, "PUT", &format!("{prod}/finalize"), body)
    };
    let both = json!(["kubernetes", "example.com/a"]);
    let (status, changed) = finalize(&mut server, both.clone());
    assert_eq!((status, &changed["spec"]["finalizers"]), (200, &both));
    assert_eq!(changed["status"]["phase"], "Active");
    for _ in 0..2 {
        let (_, deleted) = send(&mut server, "DELETE", prod, Value::Null);
        assert!(deleted["metadata"]["deletionTimestamp"].is_string());
    }
    assert_eq!(finalize(&mut server, json!([])).0, 200);
    assert_eq!(ask(&mut server, prod).0, 404);
}

#[test]
fn a_namespace_that_is_being_deleted_takes_no_objects() {
    let mut server = FakeServer::new(1);
    let namespace = json!({
        "metadata": { "name": "prod", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/a"] },
    });
    server.create("namespaces", namespace).unwrap();
    assert_eq!(
        send(
            &mut server,
            "POST",
            PODS,
            json!({ "metadata": { "generateName": "a-" } })
        )
        .0,
        403
    );
    assert_eq!(
        send(
            &mut server,
            "POST",
            "/api/v1/namespaces/other/pods",
            json!({ "metadata": { "name": "a" } })
        )
        .0,
        201
    );
}
