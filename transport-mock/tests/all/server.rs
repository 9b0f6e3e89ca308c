//! The fake API server, compared with the documented behaviour of the real one.

use crate::common::{Ended, JSON, ask, ask_as, at, events, head, names, pod, read};
use informer_mock::{Backend, Config, FakeServer, Gone, HeadPoll, MutationError, ResponseId, json};
use serde_json::Value;

/// `a` at 2, `b` at 3, `c` at 4, all in `default`; `d` at 5 in `other`.
fn server() -> FakeServer {
    let mut server = FakeServer::new(1);
    for (name, app) in [("a", "web"), ("b", "db"), ("c", "web")] {
        server.create("pods", pod(name, app)).unwrap();
    }
    let mut other = pod("d", "web");
    other["metadata"]["namespace"] = "other".into();
    server.create("pods", other).unwrap();
    server
}

/// Returns the objects of a list as [`names`] does, or status and reason.
fn list(server: &mut FakeServer, target: &str) -> String {
    list_as(server, target, JSON)
}

fn list_as(server: &mut FakeServer, target: &str, accept: &str) -> String {
    let (status, answer) = ask_as(server, &format!("/api/v1/{target}"), accept);
    if status == 200 {
        return names(&answer);
    }
    assert_eq!(
        (&answer["kind"], &answer["code"]),
        (&"Status".into(), &status.into())
    );
    format!("{status} {}", answer["reason"].as_str().unwrap())
}

/// Opens a watch of all Pods.
fn watch(server: &mut FakeServer, query: &str) -> ResponseId {
    server.handle_request(at(0), &format!("/api/v1/pods?watch=true&{query}"), JSON)
}

/// Returns the events at a second, and how the body ended.
fn sent(server: &mut FakeServer, second: u64, id: ResponseId) -> (String, Ended) {
    let (body, ended) = read(server, at(second), id);
    (events(&body).join(", "), ended)
}

#[test]
fn mutations() {
    let mut server = server();
    assert_eq!(server.version(), 5);
    use MutationError::{AlreadyExists, NoName, NotAnObject, NotFound, UnknownResource};
    assert_eq!(server.create("pods", pod("a", "x")), Err(AlreadyExists));
    assert_eq!(server.update("pods", pod("z", "x")), Err(NotFound));
    assert_eq!(server.delete("pods", "default", "z"), Err(NotFound));
    assert_eq!(server.create("things", pod("a", "x")), Err(UnknownResource));
    assert_eq!(server.create("pods", json!({})), Err(NoName));
    assert_eq!(server.create("pods", json!([])), Err(NotAnObject));

    let before = server.get("pods", "default", "a").unwrap();
    assert_eq!(before["kind"], "Pod");
    assert_eq!(
        before["metadata"]["creationTimestamp"],
        "2026-01-01T00:00:00Z"
    );
    assert_eq!(before["metadata"]["uid"].as_str().unwrap().len(), 36);
    assert_eq!(
        server.update("pods", pod("a", "web")),
        Ok(2),
        "nothing changed"
    );
    assert_eq!(server.update("pods", pod("a", "new")), Ok(6));
    let after = server.get("pods", "default", "a").unwrap();
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(server.update("pods", before), Err(MutationError::Conflict));
    assert_eq!(server.put("pods", after), Ok(6));
    assert_eq!(server.delete("pods", "default", "a"), Ok(7));
    assert_eq!(server.bump_version(), 8);

    server
        .create("pods", json!({ "metadata": { "generateName": "x-" } }))
        .unwrap();
    let made = server
        .objects("pods")
        .find(|pod| pod.name().starts_with("x-"))
        .unwrap();
    assert_eq!(
        (made.name().len(), made.namespace(), made.label("app")),
        (7, "default", None)
    );
    server
        .create(
            "nodes",
            json!({ "metadata": { "name": "n1", "namespace": "ignored" } }),
        )
        .unwrap();
    assert!(
        server.get("nodes", "", "n1").unwrap()["metadata"]
            .get("namespace")
            .is_none()
    );
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let bytes = |seed| {
        let mut server = FakeServer::new(seed);
        server.create("pods", pod("a", "x")).unwrap();
        server.objects("pods").next().unwrap().to_bytes()
    };
    assert_eq!(bytes(1), bytes(1));
    assert_ne!(bytes(1), bytes(2));
}

#[test]
fn lists_have_the_shape_of_the_real_ones() {
    let mut server = FakeServer::new(1);
    server.add_resource("example.com", "v1", "widgets", "Widget", true);
    let object = json!({ "metadata": { "name": "a", "uid": "u", "creationTimestamp": "t", "labels": { "x": "y" } }, "spec": { "b": 1, "a": 2 } });
    server.create("configmaps", object.clone()).unwrap();
    server.create("widgets.example.com", object).unwrap();
    let mut body = |target, accept| {
        let id = server.handle_request(at(0), target, accept);
        read(&mut server, at(0), id).0
    };
    assert_eq!(
        body("/api/v1/configmaps", JSON),
        concat!(
            r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"3"},"items":["#,
            r#"{"metadata":{"name":"a","namespace":"default","uid":"u","resourceVersion":"2","creationTimestamp":"t","labels":{"x":"y"}},"spec":{"a":2,"b":1}}]}"#,
            "\n"
        )
    );
    assert_eq!(
        body("/apis/example.com/v1/namespaces/default/widgets", JSON),
        concat!(
            r#"{"apiVersion":"example.com/v1","items":[{"apiVersion":"example.com/v1","kind":"Widget","#,
            r#""metadata":{"creationTimestamp":"t","labels":{"x":"y"},"name":"a","namespace":"default","resourceVersion":"3","uid":"u"},"spec":{"a":2,"b":1}}],"#,
            r#""kind":"WidgetList","metadata":{"resourceVersion":"3"}}"#,
            "\n"
        )
    );
    let partial =
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;q=0.5";
    assert_eq!(
        body("/apis/example.com/v1/widgets", partial),
        concat!(
            r#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"3"},"items":["#,
            r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","#,
            r#""metadata":{"creationTimestamp":"t","labels":{"x":"y"},"name":"a","namespace":"default","resourceVersion":"3","uid":"u"}}]}"#,
            "\n"
        )
    );
}

#[test]
fn accept_decides_the_form() {
    let mut server = server();
    let single = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let of_list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let id = server.handle_request(
        at(0),
        "/api/v1/pods?watch=1&resourceVersion=4&timeoutSeconds=9&allowWatchBookmarks=true",
        single,
    );
    let (body, _) = read(&mut server, at(7), id);
    let lines: Vec<Value> = body
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    assert!(
        lines
            .iter()
            .all(|line| line["object"]["kind"] == "PartialObjectMetadata")
    );
    assert!(lines[0]["object"].get("spec").is_none());

    for (target, accept) in [
        ("pods", single),
        ("pods?watch=1", of_list),
        ("pods", "application/cbor"),
    ] {
        assert_eq!(list_as(&mut server, target, accept), "406 NotAcceptable");
    }
    assert_eq!(
        ask_as(&mut server, "/api/v1/pods", "application/cbor, */*").1["kind"],
        "PodList"
    );
    assert_eq!(
        ask_as(&mut server, "/api/v1/namespaces/default/pods/a", single).1["kind"],
        "PartialObjectMetadata"
    );
}

#[test]
fn selectors_and_namespaces() {
    let mut server = server();
    server
        .put(
            "pods",
            json!({ "metadata": { "name": "e" }, "status": { "phase": "Failed" } }),
        )
        .unwrap();
    for (target, expected) in [
        ("namespaces/default/pods", "6: a@2 b@3 c@4 e@6"),
        ("namespaces/other/pods", "6: d@5"),
        ("namespaces/defaul/pods", "6: "),
        ("pods?labelSelector=app%3Dweb", "6: a@2 c@4 d@5"),
        ("pods?labelSelector=app+in+(db,x)", "6: b@3"),
        ("pods?labelSelector=!app", "6: e@6"),
        ("pods?labelSelector=app!%3Dweb,app", "6: b@3"),
        ("pods?fieldSelector=metadata.name%3Da", "6: a@2"),
        ("pods?fieldSelector=metadata.namespace!%3Ddefault", "6: d@5"),
        (
            "pods?fieldSelector=spec.nodeName%3Dn1,status.phase!%3DFailed,metadata.name!%3Da",
            "6: b@3 c@4 d@5",
        ),
        ("pods?fieldSelector=spec.nodeName%3D", "6: e@6"),
        ("pods?labelSelector=a+b", "400 BadRequest"),
        ("pods?fieldSelector=spec.x%3D1", "400 BadRequest"),
        ("pods?fieldSelector=x", "400 BadRequest"),
        (
            "nodes?fieldSelector=metadata.namespace%3Da",
            "400 BadRequest",
        ),
    ] {
        assert_eq!(list(&mut server, target), expected, "{target}");
    }
    server.add_selectable_field("configmaps", "data.x").unwrap();
    let m = json!({ "metadata": { "name": "m" }, "data": { "x": "1" } });
    server.create("configmaps", m).unwrap();
    assert_eq!(
        list(&mut server, "configmaps?fieldSelector=data.x%3D1"),
        "7: m@7"
    );
}

#[test]
fn unknown_paths() {
    let mut server = server();
    for path in [
        "/api/v1/things",
        "/apis/apps/v1/pods",
        "/api/v1/namespaces/a/nodes",
        "/api/v1/pods/a",
    ] {
        let (status, answer) = ask(&mut server, path);
        assert_eq!(
            (status, &answer["reason"]),
            (404, &"NotFound".into()),
            "{path}"
        );
    }
    // The API server has no group for these paths, and answers in plain text before 1.38.
    for path in ["/api/v2/pods", "/apis/example.com/v1/widgets", "/foo"] {
        let id = server.handle_request(at(0), path, JSON);
        let head = head(&mut server, at(0), id);
        assert_eq!(head.status, 404, "{path}");
        assert_eq!(
            head.header("Content-Type"),
            Some("text/plain; charset=utf-8")
        );
        let body = read(&mut server, at(0), id).0;
        assert_eq!(body, "404 page not found\n");
    }
    server.config_mut().minor = 38;
    assert_eq!(ask(&mut server, "/foo").1["reason"], "NotFound");
    server.config_mut().minor = 36;
    let found = ask(&mut server, "/api/v1/namespaces/other/pods/d").1;
    assert_eq!(found["metadata"]["name"], "d");
    let missing = ask(&mut server, "/apis/apps/v1/namespaces/x/deployments/y");
    assert_eq!(missing.1["message"], "deployments.apps \"y\" not found");
    assert_eq!(ask(&mut server, "/version").1["minor"], "36");
}

#[test]
fn pages() {
    let mut server = server();
    let page = |server: &mut FakeServer, query: &str| {
        let (_, list) = ask(server, &format!("/api/v1/pods?{query}"));
        let metadata = &list["metadata"];
        let token = metadata["continue"]
            .as_str()
            .unwrap_or_default()
            .to_string();
        (names(&list), metadata["remainingItemCount"].clone(), token)
    };
    let (first, left, token) = page(&mut server, "limit=2");
    assert_eq!((first.as_str(), left), ("5: a@2 b@3", 2.into()));

    // Changes between pages are not visible.
    server.delete("pods", "default", "c").unwrap();
    server.create("pods", pod("bb", "x")).unwrap();
    let (second, left, last) = page(&mut server, &format!("limit=1&continue={token}"));
    assert_eq!((second.as_str(), left), ("5: c@4", 1.into()));
    let rest = page(&mut server, &format!("limit=1&continue={last}"));
    assert_eq!(rest, ("5: d@5".into(), Value::Null, String::new()));

    // After its version is compacted, the rest is available at the current version.
    server.compact(5);
    let third = list(&mut server, &format!("pods?limit=1&continue={last}"));
    assert_eq!(third, "5: d@5");
    server.compact(6);
    let (status, expired) = ask(
        &mut server,
        &format!("/api/v1/pods?limit=1&continue={token}"),
    );
    assert_eq!((status, &expired["reason"]), (410, &"Expired".into()));
    assert!(expired["message"].as_str().unwrap().starts_with(
        "The provided continue parameter is too old to display a consistent list result."
    ));
    let rest = expired["metadata"]["continue"].as_str().unwrap();
    let shown = list(&mut server, &format!("pods?continue={rest}"));
    assert_eq!(shown, "7: bb@7 d@5");

    let (selected, left, token) = page(&mut server, "limit=1&labelSelector=app%3Dweb");
    assert_eq!((selected.as_str(), left), ("7: a@2", Value::Null));
    assert!(!token.is_empty());

    // The watch cache ignores the limit at "0".
    let limited = "pods?limit=1&resourceVersion=0";
    assert_eq!(list(&mut server, limited), "7: a@2 b@3 bb@7 d@5");
    server.config_mut().cache_ignores_limit = false;
    assert_eq!(list(&mut server, limited), "7: a@2");
    server.config_mut().paging = false;
    assert_eq!(list(&mut server, "pods?limit=1"), "7: a@2 b@3 bb@7 d@5");

    for wrong in ["continue=x", &format!("continue={rest}&resourceVersion=5")] {
        assert_eq!(
            list(&mut server, &format!("pods?{wrong}")),
            "400 BadRequest"
        );
    }
}

#[test]
fn versions_of_lists() {
    let mut server = server();
    let mut check = |compacted: u64, rows: &[(&str, &str)]| {
        server.compact(compacted);
        for (query, expected) in rows {
            let found = list(&mut server, &format!("pods?{query}"));
            assert_eq!(found, *expected, "{query}");
        }
    };
    check(
        0,
        &[
            ("resourceVersion=3", "5: a@2 b@3 c@4 d@5"),
            (
                "resourceVersion=3&resourceVersionMatch=NotOlderThan",
                "5: a@2 b@3 c@4 d@5",
            ),
            ("resourceVersion=3&resourceVersionMatch=Exact", "3: a@2 b@3"),
            ("resourceVersion=3&limit=5", "3: a@2 b@3"),
            (
                "resourceVersion=9&resourceVersionMatch=Exact",
                "504 Timeout",
            ),
        ],
    );
    check(
        4,
        &[
            (
                "resourceVersion=4&resourceVersionMatch=Exact",
                "4: a@2 b@3 c@4",
            ),
            (
                "resourceVersion=3&resourceVersionMatch=Exact",
                "410 Expired",
            ),
            ("resourceVersion=3", "5: a@2 b@3 c@4 d@5"),
            ("resourceVersion=x", "400 BadRequest"),
            ("resourceVersionMatch=Exact", "422 Invalid"),
            (
                "resourceVersion=0&resourceVersionMatch=Exact",
                "422 Invalid",
            ),
            ("resourceVersion=1&resourceVersionMatch=Foo", "422 Invalid"),
            (
                "resourceVersion=1&resourceVersionMatch=Exact&continue=x",
                "422 Invalid",
            ),
            ("sendInitialEvents=true", "422 Invalid"),
            ("watch=1&sendInitialEvents=true", "422 Invalid"),
            ("watch=1&resourceVersionMatch=NotOlderThan", "422 Invalid"),
            (
                "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact",
                "422 Invalid",
            ),
        ],
    );
}

#[test]
fn a_version_from_the_future_is_waited_for() {
    let mut server = server();
    let open = |server: &mut FakeServer| {
        server.handle_request(at(0), "/api/v1/pods?resourceVersion=6", JSON)
    };
    let (late, early) = (open(&mut server), open(&mut server));
    assert_eq!(
        server.poll_head(at(0), late),
        HeadPoll::Pending { until: Some(at(3)) }
    );
    assert_eq!(
        server.poll_head(at(0), early),
        HeadPoll::Pending { until: Some(at(3)) }
    );
    let refused = head(&mut server, at(3), late);
    assert_eq!(
        (refused.status, refused.header("retry-after")),
        (504, Some("1"))
    );
    let status: Value = serde_json::from_str(&read(&mut server, at(3), late).0).unwrap();
    assert_eq!(status["reason"], "Timeout");
    assert_eq!(
        status["message"],
        "Timeout: Too large resource version: 6, current: 5"
    );
    assert_eq!(
        status["details"]["causes"][0]["reason"],
        "ResourceVersionTooLarge"
    );
    assert_eq!(status["details"]["retryAfterSeconds"], 1);
    server.bump_version();
    assert_eq!(head(&mut server, at(2), early).status, 200);
    assert!(
        read(&mut server, at(2), early)
            .0
            .contains("\"resourceVersion\":\"6\"")
    );
    let answered = server.log().iter().map(|request| request.status);
    assert!(answered.eq([Some(504), Some(200)]));

    *server.config_mut() = Config::for_minor(18);
    server.config_mut().too_large_wait = core::time::Duration::ZERO;
    let (_, status) = ask(&mut server, "/api/v1/pods?resourceVersion=600");
    assert_eq!(
        status["details"]["causes"],
        json!([{ "message": "Too large resource version" }])
    );
}

#[test]
fn a_watch_tells_what_happens() {
    let mut server = server();
    let id = server.handle_request(
        at(0),
        "/api/v1/namespaces/default/pods?watch=true&resourceVersion=3",
        JSON,
    );
    let head = head(&mut server, at(0), id);
    assert_eq!((head.status, head.content_length), (200, None));
    assert_eq!(events(&read(&mut server, at(0), id).0), ["ADDED c@4"]);
    server.update("pods", pod("a", "new")).unwrap(); // 6
    server.delete("pods", "default", "a").unwrap(); // 7
    server.delete("pods", "other", "d").unwrap(); // 8
    server.create("configmaps", pod("m", "x")).unwrap(); // 9
    server.create("pods", pod("a", "x")).unwrap(); // 10
    let (body, ended) = read(&mut server, at(0), id);
    assert_eq!(events(&body), ["MODIFIED a@6", "DELETED a@7", "ADDED a@10"]);
    assert!(body.contains(
        r#"{"type":"DELETED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a""#
    ));
    assert!(matches!(ended, Ended::Open(Some(_))));
    server.compact_all();
    assert_eq!(
        read(&mut server, at(0), id).1,
        ended,
        "an open watch is not touched by compaction"
    );
}

#[test]
fn leaving_and_entering_a_selector() {
    let mut server = server();
    let id = watch(&mut server, "resourceVersion=5&labelSelector=app%3Dweb");
    server.update("pods", pod("a", "db")).unwrap(); // 6: leaves
    server.update("pods", pod("a", "x")).unwrap(); // 7: outside
    server.update("pods", pod("b", "web")).unwrap(); // 8: enters
    let mut still = pod("b", "web");
    still["status"]["phase"] = "Failed".into();
    server.update("pods", still).unwrap(); // 9
    server.delete("pods", "default", "a").unwrap(); // 10: outside
    let (body, _) = read(&mut server, at(0), id);
    assert_eq!(events(&body), ["DELETED a@6", "ADDED b@8", "MODIFIED b@9"]);
    let left: Value = serde_json::from_str(body.lines().next().unwrap()).unwrap();
    let app = &left["object"]["metadata"]["labels"]["app"];
    assert_eq!(app, "web", "the content is the previous one");
}

#[test]
fn bookmarks_and_the_deadline() {
    let mut server = server();
    let timed = "allowWatchBookmarks=true&timeoutSeconds=150";
    let open_until = |seconds| Ended::Open(Some(at(seconds)));
    let id = watch(&mut server, &format!("resourceVersion=5&{timed}"));
    assert_eq!(sent(&mut server, 0, id), (String::new(), open_until(60)));
    server.bump_version();
    let (body, ended) = read(&mut server, at(60), id);
    assert_eq!(
        (events(&body).concat(), ended),
        ("BOOKMARK 6".into(), open_until(120))
    );
    assert!(body.contains(r#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"6","creationTimestamp":null}}"#));
    server.create("pods", pod("e", "x")).unwrap();
    for (second, expected, ended) in [
        (120, "ADDED e@7, BOOKMARK 7", open_until(148)),
        (148, "BOOKMARK 7", open_until(150)),
        (150, "", Ended::Clean),
    ] {
        assert_eq!(sent(&mut server, second, id), (expected.into(), ended));
    }

    let id = server.handle_request(at(200), "/api/v1/pods?watch=true&resourceVersion=5", JSON);
    let (body, Ended::Open(Some(until))) = sent(&mut server, 200, id) else {
        panic!("it ended")
    };
    assert_eq!(body, "ADDED e@7");
    assert!(
        until >= at(200 + 1800) && until < at(200 + 3600),
        "the server chooses the timeout"
    );

    server.config_mut().bookmarks = false;
    let target = format!("/api/v1/pods?watch=true&resourceVersion=7&{timed}");
    let id = server.handle_request(at(200), &target, JSON);
    assert_eq!(sent(&mut server, 349, id), (String::new(), open_until(350)));
}

#[test]
fn i18_a_watch_from_a_version_that_is_gone() {
    let mut server = server();
    server.compact(4);
    let begin = |server: &mut FakeServer, version: u64| {
        let id = watch(server, &format!("resourceVersion={version}"));
        (head(server, at(0), id).status, read(server, at(0), id))
    };
    let (status, (body, ended)) = begin(&mut server, 3);
    assert_eq!((status, ended), (200, Ended::Clean));
    assert_eq!(events(&body), ["ERROR 410 Expired"]);
    assert!(body.contains("too old resource version: 3 (4)"));
    assert_eq!(events(&begin(&mut server, 4).1.0), ["ADDED d@5"]);

    server.config_mut().gone = Gone::Http;
    let (status, (body, _)) = begin(&mut server, 3);
    assert_eq!(status, 410);
    assert!(body.contains("\"reason\":\"Expired\""));

    // The watch cache drops events earlier than etcd does.
    server.forget_events(5);
    assert_eq!(begin(&mut server, 4).0, 410);
    let exact = "pods?resourceVersion=4&resourceVersionMatch=Exact";
    assert_eq!(list(&mut server, exact), "4: a@2 b@3 c@4");
    server.compact_all();
    assert_eq!(begin(&mut server, 5).0, 410);
    assert_eq!(begin(&mut server, 6).0, 200);
}

#[test]
fn a_server_forgets_by_itself() {
    let mut server = FakeServer::with_config(1, Config::default().forgetful());
    for second in 0..10 {
        server.tick(at(second * 60));
        server.put("pods", pod("a", &format!("v{second}"))).unwrap();
    }
    // Now it is 540 s: events before 465 s have left the cache, and states before 240 s are compacted.
    for (version, expected) in [
        (8, "ERROR 410 Expired"),
        (9, "MODIFIED a@10, MODIFIED a@11"),
    ] {
        let id = watch(&mut server, &format!("resourceVersion={version}"));
        assert_eq!(sent(&mut server, 540, id).0, expected);
    }
    for (version, expected) in [(6, "6: a@6"), (4, "410 Expired")] {
        let target = format!("pods?resourceVersion={version}&resourceVersionMatch=Exact");
        assert_eq!(list(&mut server, &target), expected);
    }
}

#[test]
fn streaming_lists() {
    let mut server = server();
    let stream = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let whole = format!("{stream}&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=");
    let id = watch(&mut server, &whole);
    server.update("pods", pod("a", "new")).unwrap();
    assert_eq!(
        sent(&mut server, 0, id).0,
        "ADDED a@2, ADDED b@3, ADDED c@4, ADDED d@5, BOOKMARK 5 end, MODIFIED a@6"
    );

    // Without bookmarks there is no end mark.
    let id = watch(&mut server, stream);
    assert_eq!(events(&read(&mut server, at(0), id).0).len(), 4);
    // A compacted version is accepted, and one in the future is not.
    server.compact_all();
    let id = watch(&mut server, &format!("{whole}2"));
    assert!(sent(&mut server, 0, id).0.ends_with("BOOKMARK 7 end"));
    let id = watch(&mut server, &format!("{whole}99"));
    let (body, ended) = read(&mut server, at(0), id);
    assert_eq!(
        (events(&body).concat().as_str(), ended),
        ("ERROR 504 Timeout", Ended::Clean)
    );
    assert!(body.contains("ResourceVersionTooLarge"));
    // sendInitialEvents=false without a version starts now.
    let id = watch(
        &mut server,
        "sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
    );
    assert_eq!(read(&mut server, at(0), id).0, "");

    server.config_mut().watch_list = false;
    let (status, refused) = ask(&mut server, &format!("/api/v1/pods?watch=true&{whole}"));
    assert_eq!((status, &refused["reason"]), (422, &"Invalid".into()));
    assert_eq!(refused["details"]["kind"], "ListOptions");
    assert!(refused["message"].as_str().unwrap().contains(
        "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
    ));
}

#[test]
fn a_plain_watch_at_no_version() {
    let mut server = server();
    let objects = "ADDED a@2, ADDED c@4, ADDED d@5";
    for version in ["", "&resourceVersion=", "&resourceVersion=0"] {
        let query = format!("allowWatchBookmarks=true&labelSelector=app%3Dweb{version}");
        for (watch_list, end) in [(true, ", BOOKMARK 5 end"), (false, "")] {
            server.config_mut().watch_list = watch_list;
            let id = watch(&mut server, &query);
            assert_eq!(sent(&mut server, 0, id).0, format!("{objects}{end}"));
        }
    }
}

#[test]
fn a_server_that_lags() {
    let mut server = server();
    server.lag_at(3);
    assert_eq!(list(&mut server, "pods?resourceVersion=0"), "3: a@2 b@3");
    assert_eq!(list(&mut server, "pods"), "5: a@2 b@3 c@4 d@5");
    let id = watch(&mut server, "resourceVersion=2");
    assert_eq!(sent(&mut server, 0, id).0, "ADDED b@3");
    let ahead = watch(&mut server, "resourceVersion=4");
    assert_eq!(sent(&mut server, 0, ahead).0, "");
    server.create("pods", pod("e", "x")).unwrap();
    assert_eq!(sent(&mut server, 0, id).0, "");
    let late = server.handle_request(at(0), "/api/v1/pods?resourceVersion=5", JSON);
    let pending = HeadPoll::Pending { until: Some(at(3)) };
    assert_eq!(server.poll_head(at(1), late), pending);
    server.catch_up();
    assert_eq!(
        sent(&mut server, 0, id).0,
        "ADDED c@4, ADDED d@5, ADDED e@6"
    );
    assert_eq!(sent(&mut server, 0, ahead).0, "ADDED d@5, ADDED e@6");
    assert_eq!(head(&mut server, at(1), late).status, 200);
}

#[test]
fn a_slow_reader_is_cut() {
    let mut server = server();
    server.config_mut().watch_buffer = Some(2);
    let id = watch(&mut server, "resourceVersion=5");
    for round in 0..5 {
        let changed = pod("a", &format!("x{round}"));
        server.put("pods", changed).unwrap();
    }
    assert_eq!(
        sent(&mut server, 0, id),
        ("MODIFIED a@6, MODIFIED a@7".into(), Ended::Clean)
    );
}

#[test]
fn a_lost_deletion() {
    let mut server = server();
    let id = watch(&mut server, "resourceVersion=5");
    server.forget("pods", "default", "a").unwrap();
    assert_eq!(sent(&mut server, 0, id).0, "");
    assert_eq!(list(&mut server, "pods"), "5: b@3 c@4 d@5");
}

#[test]
fn a_list_comes_in_chunks() {
    let mut server = FakeServer::new(1);
    for index in 0..2_000 {
        server
            .create("pods", pod(&format!("pod-{index:05}"), "x"))
            .unwrap();
    }
    let id = server.handle_request(at(0), "/api/v1/pods", JSON);
    let (mut chunks, mut largest, mut total) = (0, 0, Vec::new());
    while let informer_mock::Chunk::Data(bytes) = server.poll_chunk(at(0), id) {
        chunks += 1;
        largest = largest.max(bytes.len());
        total.extend(bytes);
    }
    assert!(chunks > 4, "{chunks}");
    assert!(largest < 66 * 1024, "{largest}");
    let list: Value = serde_json::from_slice(&total).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 2_000);
}
