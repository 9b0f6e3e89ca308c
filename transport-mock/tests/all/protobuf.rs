//! Responses in protobuf. The captures are responses of kube-apiserver 1.36.2.

use informer_mock::protobuf::{self, MEDIA_TYPE};
use informer_mock::{Backend as _, DropParameter, FakeServer, Fault, Protobuf, Value, Verb, json};

use crate::common::{Ended, JSON, at, event_lines, head, names, pod, read_bytes};

const WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";
const BOTH: &str = "application/vnd.kubernetes.protobuf,application/json";
const METADATA_LIST: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const METADATA: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const TEXT: &str = "text/plain; charset=utf-8";

fn server() -> FakeServer {
    let mut server = FakeServer::new(1);
    server.add_resource("example.com", "v1", "widgets", "Widget", true);
    for name in ["a", "b", "c"] {
        server.create("pods", pod(name, "web")).unwrap();
        let widget = json!({ "metadata": { "name": name }, "spec": { "size": 1 } });
        server.create("widgets", widget).unwrap();
    }
    server
}

/// Returns status, Content-Type and body of a response, as far as it is available.
fn ask(server: &mut FakeServer, target: &str, accept: &str) -> (u16, String, Vec<u8>, Ended) {
    let id = server.handle_request(at(0), target, accept);
    let head = head(server, at(0), id);
    let (body, ended) = read_bytes(server, at(0), id);
    server.close(id);
    let media = head.header("Content-Type").unwrap_or_default().to_string();
    (head.status, media, body, ended)
}

fn object(server: &mut FakeServer, target: &str, accept: &str) -> Value {
    let (_, media, body, ended) = ask(server, target, accept);
    assert_eq!((media.as_str(), ended), (MEDIA_TYPE, Ended::Clean));
    protobuf::to_json(&body).expect("an object")
}

fn watch(server: &mut FakeServer, query: &str, accept: &str) -> Vec<String> {
    let (_, media, body, _) = ask(server, &format!("/api/v1/pods?watch=1&{query}"), accept);
    assert_eq!(media, WATCH);
    event_lines(protobuf::events(&body).expect("frames"))
}

fn encode(value: &Value) -> Vec<u8> {
    protobuf::object(value).expect("a known kind")
}

#[test]
fn the_bytes_are_those_of_the_api_server() {
    macro_rules! capture {
        ($name:literal) => {
            (
                $name,
                include_bytes!(concat!("../captures/", $name, ".json")).as_slice(),
                include_bytes!(concat!("../captures/", $name, ".pb")).as_slice(),
            )
        };
    }
    let captures = [
        capture!("pod"),
        capture!("configmap"),
        capture!("events"),
        capture!("toolarge"),
    ];
    for (name, text, bytes) in captures {
        let value: Value = serde_json::from_slice(text).unwrap();
        assert!(encode(&value) == bytes, "{name}: from JSON");
        let decoded = protobuf::to_json(bytes).unwrap();
        assert!(encode(&decoded) == bytes, "{name}: and back");
    }
    let (_, text, bytes) = capture!("watch");
    let events: Vec<Value> = serde_json::Deserializer::from_slice(text)
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap();
    let frames = events
        .iter()
        .map(|event| protobuf::frame(event["type"].as_str().unwrap(), &encode(&event["object"])));
    assert!(frames.collect::<Vec<_>>().concat() == bytes, "the watch");
    let decoded = event_lines(protobuf::events(bytes).unwrap());
    assert_eq!(decoded, event_lines(events));
    assert_eq!(decoded.last().unwrap(), "BOOKMARK 348 end");
}

#[test]
fn the_first_clause_that_can_be_served_counts() {
    let mut server = server();
    let (pods, widgets) = ("/api/v1/pods", "/apis/example.com/v1/widgets");
    let unknown = "/apis/example.org/v1/widgets";
    let json_or = format!("{MEDIA_TYPE};q=0.5,{JSON}");
    for (target, accept, status, media) in [
        (pods, MEDIA_TYPE, 200, MEDIA_TYPE),
        (pods, BOTH, 200, MEDIA_TYPE),
        (
            pods,
            "application/json,application/vnd.kubernetes.protobuf",
            200,
            JSON,
        ),
        (pods, &json_or, 200, JSON),
        (pods, WATCH, 200, MEDIA_TYPE),
        (
            pods,
            "application/vnd.kubernetes.protobuf;new=1",
            200,
            MEDIA_TYPE,
        ),
        (
            pods,
            "application/vnd.kubernetes.protobuf;stream=other",
            406,
            JSON,
        ),
        (pods, METADATA_LIST, 200, MEDIA_TYPE),
        (pods, METADATA, 406, JSON),
        (pods, "application/cbor", 406, JSON),
        ("/api/v1/pods?continue=x", METADATA_LIST, 400, JSON),
        ("/api/v1/pods?continue=x", BOTH, 400, MEDIA_TYPE),
        ("/api/v1/pods?watch=1", MEDIA_TYPE, 200, WATCH),
        ("/api/v1/pods?watch=1", METADATA, 200, WATCH),
        ("/api/v1/pods?watch=1", WATCH, 200, WATCH),
        (widgets, MEDIA_TYPE, 406, MEDIA_TYPE),
        (widgets, BOTH, 200, JSON),
        (widgets, METADATA_LIST, 200, MEDIA_TYPE),
        ("/apis/example.com/v1/widgets?watch=1", METADATA, 200, WATCH),
        (
            "/apis/example.com/v1/widgets?watch=1",
            MEDIA_TYPE,
            406,
            MEDIA_TYPE,
        ),
        (
            "/apis/example.com/v1/namespaces/default/widgets/x",
            BOTH,
            404,
            MEDIA_TYPE,
        ),
        (unknown, MEDIA_TYPE, 404, TEXT),
        ("/api/v1/unknown", MEDIA_TYPE, 404, MEDIA_TYPE),
    ] {
        let answer = ask(&mut server, target, accept);
        assert_eq!(
            (answer.0, answer.1.as_str()),
            (status, media),
            "{target} {accept}"
        );
        if media == MEDIA_TYPE {
            let kind = protobuf::to_json(&answer.2).expect("an object")["kind"].clone();
            assert_eq!(kind == "Status", status != 200, "{target} {accept}: {kind}");
        }
    }
}

#[test]
fn lists_and_watches() {
    let mut server = server();
    let list = object(&mut server, "/api/v1/pods?limit=2", MEDIA_TYPE);
    assert_eq!(names(&list), "7: a@2 b@4");
    assert_eq!(list["kind"], "PodList");
    assert_eq!(list["items"][0]["spec"]["nodeName"], "n1");
    assert_eq!(list["items"][0]["kind"], Value::Null);
    assert_eq!(list["metadata"]["remainingItemCount"], 1);
    let token = list["metadata"]["continue"].as_str().unwrap();
    let rest = format!("/api/v1/pods?limit=2&continue={token}");
    assert_eq!(names(&object(&mut server, &rest, BOTH)), "7: c@6");

    let widgets = object(&mut server, "/apis/example.com/v1/widgets", METADATA_LIST);
    assert_eq!(names(&widgets), "7: a@3 b@5 c@7");
    assert_eq!(widgets["apiVersion"], "meta.k8s.io/v1");
    let one = object(&mut server, "/api/v1/namespaces/default/pods/a", METADATA);
    assert_eq!(
        (&one["kind"], &one["spec"]),
        (&"PartialObjectMetadata".into(), &Value::Null)
    );

    let stream =
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let initial = ["ADDED a@2", "ADDED b@4", "ADDED c@6", "BOOKMARK 7 end"];
    assert_eq!(watch(&mut server, stream, MEDIA_TYPE), initial);
    assert_eq!(watch(&mut server, stream, METADATA), initial);
    server.delete("pods", "default", "b").unwrap();
    assert_eq!(
        watch(&mut server, "resourceVersion=7", BOTH),
        ["DELETED b@8"]
    );
    server.compact_all();
    assert_eq!(
        watch(&mut server, "resourceVersion=7", BOTH),
        ["ERROR 410 Expired"]
    );
}

#[test]
fn faults_keep_the_length_of_a_list_right() {
    let mut server = server();
    let faults = [
        (Fault::nothing().duplicate_event(1), "7: a@2 b@4 b@4 c@6"),
        (Fault::nothing().drop_event(0), "7: b@4 c@6"),
        (Fault::nothing().split(&[1, 7]), "7: a@2 b@4 c@6"),
    ];
    for (fault, expected) in faults {
        server.inject(fault);
        assert_eq!(
            names(&object(&mut server, "/api/v1/pods", MEDIA_TYPE)),
            expected
        );
    }
    server.inject(Fault::nothing().cut_after_events(1));
    let (_, _, body, ended) = ask(&mut server, "/api/v1/pods", MEDIA_TYPE);
    assert!(matches!(ended, Ended::Cut(_)));
    assert_eq!(protobuf::to_json(&body), None);
    server.inject(Fault::api_status(403, "Forbidden", "no"));
    let refused = object(&mut server, "/api/v1/pods", MEDIA_TYPE);
    assert_eq!(
        (&refused["code"], &refused["message"]),
        (&403.into(), &"no".into())
    );
}

#[test]
fn proxies_and_other_servers() {
    let mut server = server();
    server.inject(Fault::in_json().on(Verb::Watch));
    server.inject(Fault::in_protobuf().on(Verb::List));
    assert_eq!(ask(&mut server, "/api/v1/pods", JSON).1, MEDIA_TYPE);
    assert_eq!(ask(&mut server, "/api/v1/pods?watch=1", MEDIA_TYPE).1, JSON);
    assert_eq!(
        ask(&mut server, "/api/v1/pods?watch=1", MEDIA_TYPE).1,
        WATCH
    );

    server.config_mut().protobuf = Protobuf::AnsweredAsJson;
    let answer = ask(&mut server, "/apis/example.com/v1/widgets", MEDIA_TYPE);
    assert_eq!((answer.0, answer.1.as_str()), (200, JSON));
    let answer = ask(&mut server, "/api/v1/pods", METADATA_LIST);
    assert!(
        answer
            .2
            .starts_with(b"{\"kind\":\"PartialObjectMetadataList\"")
    );

    server.config_mut().protobuf = Protobuf::NotAcceptable;
    assert_eq!(ask(&mut server, "/api/v1/pods", BOTH).1, JSON);
    let answer = ask(&mut server, "/api/v1/pods", MEDIA_TYPE);
    assert_eq!((answer.0, answer.1.as_str()), (406, JSON));
}

#[test]
fn managed_fields_are_dropped_where_the_server_can() {
    let with = |drop_parameter| {
        let mut server = FakeServer::new(1);
        server.config_mut().drop_parameter = drop_parameter;
        server.add_resource("example.com", "v1", "widgets", "Widget", true);
        let fields = json!([{ "manager": "m", "fieldsV1": { "f:spec": {} } }]);
        for resource in ["pods", "widgets"] {
            let object = json!({ "metadata": { "name": "a", "managedFields": fields, "labels": { "l": "1" } }, "spec": {} });
            server.create(resource, object).unwrap();
        }
        server
    };
    let drop = ";drop=metadata.managedFields";
    let (json_drop, protobuf_drop) = (format!("{JSON}{drop}"), format!("{MEDIA_TYPE}{drop}"));
    let (pods, widgets) = ("/api/v1/pods", "/apis/example.com/v1/widgets");
    let read = |server: &mut FakeServer, target: &str, accept: &str| {
        let (status, media, body, _) = ask(server, target, accept);
        assert_eq!(status, 200);
        let list = if media == MEDIA_TYPE {
            protobuf::to_json(&body).unwrap()
        } else {
            serde_json::from_slice(&body).unwrap()
        };
        let metadata = &list["items"][0]["metadata"];
        assert_eq!(
            (&metadata["name"], &metadata["labels"]["l"]),
            (&"a".into(), &"1".into())
        );
        metadata["managedFields"][0]["fieldsV1"]["f:spec"].is_object()
    };
    let mut ignored = with(DropParameter::Ignored);
    let mut honored = with(DropParameter::Honored);
    for (target, accept) in [
        (pods, &json_drop),
        (pods, &protobuf_drop),
        (widgets, &json_drop),
    ] {
        assert!(read(&mut ignored, target, accept), "{target} {accept}");
        assert!(!read(&mut honored, target, accept), "{target} {accept}");
        assert!(read(&mut honored, target, BOTH));
    }
    for code in [400, 406] {
        let mut rejected = with(DropParameter::Rejected(code));
        let answer = ask(&mut rejected, pods, &format!("{protobuf_drop},{JSON}"));
        assert_eq!((answer.0, answer.1.as_str()), (code, MEDIA_TYPE));
        assert_eq!(ask(&mut rejected, pods, BOTH).0, 200);
    }
}
