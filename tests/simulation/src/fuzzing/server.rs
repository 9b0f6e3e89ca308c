//! The fake API server: requests with bodies, paths and queries that our own clients would never send.

use informer_core::Instant;
use informer_mock::{Backend as _, Chunk, FakeServer, HeadPoll, Write};
use serde_json::{Map, Value};

use crate::entropy::Entropy;

const METHODS: [&str; 7] = ["POST", "PUT", "PATCH", "DELETE", "GET", "", "post"];
const PATHS: [&str; 20] = [
    "/api/v1/namespaces/a/configmaps",
    "/api/v1/namespaces/a/configmaps/x",
    "/api/v1/namespaces/a/configmaps/x/status",
    "/api/v1/namespaces/b/configmaps/y",
    "/api/v1/configmaps",
    "/api/v1/configmaps/x",
    "/api/v1/nodes",
    "/api/v1/nodes/x",
    "/api/v1/nodes/x/status",
    "/api/v1/namespaces",
    "/api/v1/namespaces/a",
    "/apis/example.com/v1/namespaces/a/widgets",
    "/apis/example.com/v1/namespaces/a/widgets/x",
    "/apis/example.com/v1/widgets.example.com",
    "/apis/example.com/v2/widgets",
    "/api/v1/namespaces/%2f/configmaps/%00",
    "/api/v1/namespaces//configmaps",
    "/status",
    "/",
    "",
];
const PARAMETERS: [&str; 12] = [
    "limit",
    "continue",
    "watch",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "allowWatchBookmarks",
    "timeoutSeconds",
    "labelSelector",
    "fieldSelector",
    "shardSelector",
    "dryRun",
];
const ARGUMENTS: [&str; 16] = [
    "",
    "0",
    "1",
    "2",
    "true",
    "-1",
    "9223372036854775807",
    "18446744073709551615",
    "99999999999999999999",
    "NotOlderThan",
    "Exact",
    "%zz",
    "a%3Db%2Cc%20in%20(d)",
    "metadata.name%3Dx",
    "shardRange(object.metadata.uid,'0x0','0x10000000000000000')",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6OTIyMzM3MjAzNjg1NDc3NTgwNywic3RhcnQiOiJhL3hcdTAwMDAifQ",
];
const CONTENT_TYPES: [&str; 6] = [
    "application/merge-patch+json",
    "application/apply-patch+yaml",
    "application/strategic-merge-patch+json",
    "application/json",
    "application/json-patch+json",
    "",
];
const KEYS: [&str; 16] = [
    "metadata",
    "name",
    "namespace",
    "generateName",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "labels",
    "annotations",
    "finalizers",
    "kind",
    "apiVersion",
    "spec",
    "status",
    "data",
    "preconditions",
];
const TEXTS: [&str; 10] = [
    "x", "", "a", "y", "1", "2", "b/c", "é\n\"\\", "<<name>>", "-",
];

/// Sends requests to a fake server.
///
/// # Panics
/// If an answer is not what an API server could send: a status outside 200 to 599, a refusal without a Status, or a
/// written object that a read does not return.
pub fn server(data: &[u8]) {
    let mut entropy = Entropy::Bytes(data);
    let mut server = FakeServer::new(1);
    server.add_resource("example.com", "v1", "widgets", "Widget", true);
    for step in 1..=64_u64 {
        if entropy.is_spent() {
            return;
        }
        let now = Instant::from_micros(step * 1_000_000);
        let path = entropy.pick(&PATHS);
        let target = format!("{path}{}", query(&mut entropy));
        if entropy.one_in(3) {
            read(&mut server, now, &target, entropy.one_in(4));
            continue;
        }
        let body = body(&mut entropy, data);
        let write = Write {
            method: entropy.pick(&METHODS),
            target: &target,
            content_type: entropy.pick(&CONTENT_TYPES),
            body: &body,
        };
        let before = server.version();
        let (status, answer) = server.execute(now, write);
        check(status, &answer, &format!("{write:?}"));
        assert!(
            status < 400 || server.version() == before,
            "refused, and changed: {write:?}"
        );
    }
}

fn check(status: u16, body: &[u8], request: &str) {
    assert!((200..600).contains(&status), "{status}: {request}");
    if status == 404 && body == b"404 page not found\n" {
        // The group is not there.
        return;
    }
    let answer: Value = serde_json::from_slice(body)
        .unwrap_or_else(|error| panic!("{error}: {request}: {}", String::from_utf8_lossy(body)));
    if status >= 400 {
        assert_eq!(
            (&answer["kind"], &answer["code"]),
            (&"Status".into(), &status.into()),
            "{request}"
        );
    } else {
        assert!(answer["metadata"].is_object(), "{request}: {answer}");
    }
}

/// Reads the available part of an answer: all of a list, or the first events of a watch.
fn read(server: &mut FakeServer, now: Instant, target: &str, only_metadata: bool) {
    let accept = if only_metadata {
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    } else {
        "application/json"
    };
    let id = server.handle_request(now, target, accept);
    let mut body = Vec::new();
    let HeadPoll::Ready(head) = server.poll_head(now, id) else {
        return server.close(id);
    };
    loop {
        match server.poll_chunk(now, id) {
            Chunk::Data(bytes) => body.extend(bytes),
            Chunk::End => {
                if !target.contains("watch") {
                    check(head.status, &body, target);
                }
                return server.close(id);
            }
            // An open watch receives the changes of later steps.
            Chunk::Pending { .. } => return,
            Chunk::Abort(_) => return server.close(id),
        }
    }
}

fn query(entropy: &mut Entropy<'_>) -> String {
    let mut query = String::new();
    for number in 0..entropy.below(4) {
        query.push(if number == 0 { '?' } else { '&' });
        query += entropy.pick(&PARAMETERS);
        query.push('=');
        query += entropy.pick(&ARGUMENTS);
    }
    query
}

fn body(entropy: &mut Entropy<'_>, data: &[u8]) -> Vec<u8> {
    match entropy.below(8) {
        0 => Vec::new(),
        1 => data.to_vec(),
        2 => value(entropy, 4).to_string().into_bytes(),
        // Most bodies are objects with metadata; otherwise none would reach the code behind the checks.
        _ => {
            let mut object = value(entropy, 3);
            if let Value::Object(object) = &mut object {
                let mut metadata = value(entropy, 2);
                if let Value::Object(metadata) = &mut metadata
                    && !entropy.one_in(4)
                {
                    metadata.insert("name".to_owned(), entropy.pick(&TEXTS).into());
                }
                object.insert("metadata".to_owned(), metadata);
            }
            object.to_string().into_bytes()
        }
    }
}

fn value(entropy: &mut Entropy<'_>, depth: u32) -> Value {
    match entropy.below(if depth == 0 { 5 } else { 12 }) {
        0 => Value::Null,
        1 => entropy.below(3).into(),
        2 => entropy.one_in(2).into(),
        3 | 4 => entropy.pick(&TEXTS).into(),
        5 => (0..entropy.below(3))
            .map(|_| value(entropy, depth - 1))
            .collect(),
        _ => {
            let mut object = Map::new();
            for _ in 0..entropy.below(5) {
                let key = entropy.pick(&KEYS);
                object.insert(key.to_owned(), value(entropy, depth - 1));
            }
            object.into()
        }
    }
}
