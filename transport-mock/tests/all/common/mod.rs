//! Helpers of several tests.
#![allow(dead_code, unreachable_pub, reason = "each test uses some of it")]

use core::time::Duration;

use informer_mock::{
    Backend, Chunk, FailureKind, FakeServer, HeadPoll, Instant, ResponseHead, ResponseId, Write,
    json,
};
use serde_json::Value;

pub const JSON: &str = "application/json";

pub fn at(seconds: u64) -> Instant {
    Instant::from_micros(0) + Duration::from_secs(seconds)
}

pub fn pod(name: &str, app: &str) -> Value {
    json!({ "metadata": { "name": name, "labels": { "app": app } }, "spec": { "nodeName": "n1" }, "status": { "phase": "Running" } })
}

/// How a body ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    Open(Option<Instant>),
    Clean,
    Cut(FailureKind),
}

pub fn head(server: &mut impl Backend, now: Instant, id: ResponseId) -> ResponseHead {
    match server.poll_head(now, id) {
        HeadPoll::Ready(head) => head,
        other @ (HeadPoll::Failed(_) | HeadPoll::Pending { .. }) => panic!("no head: {other:?}"),
    }
}

/// Reads all available data as text.
pub fn read(server: &mut impl Backend, now: Instant, id: ResponseId) -> (String, Ended) {
    let (body, ended) = read_bytes(server, now, id);
    (String::from_utf8(body).expect("UTF-8"), ended)
}

/// Reads all available data.
pub fn read_bytes(server: &mut impl Backend, now: Instant, id: ResponseId) -> (Vec<u8>, Ended) {
    let mut body = Vec::new();
    loop {
        let ended = match server.poll_chunk(now, id) {
            Chunk::Data(bytes) => {
                assert!(!bytes.is_empty());
                body.extend(bytes);
                continue;
            }
            Chunk::End => Ended::Clean,
            Chunk::Abort(kind) => Ended::Cut(kind),
            Chunk::Pending { until } => Ended::Open(until),
        };
        return (body, ended);
    }
}

/// Sends a request with a finite response, and returns status and body.
pub fn ask(server: &mut FakeServer, target: &str) -> (u16, Value) {
    ask_as(server, target, JSON)
}

pub fn ask_as(server: &mut FakeServer, target: &str, accept: &str) -> (u16, Value) {
    let id = server.handle_request(at(0), target, accept);
    let head = head(server, at(0), id);
    let (body, ended) = read(server, at(0), id);
    assert_eq!(ended, Ended::Clean);
    server.close(id);
    (
        head.status,
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}")),
    )
}

/// Formats a list as `version: name@version ..`.
pub fn names(list: &Value) -> String {
    let items = list["items"].as_array().expect("items").iter();
    let items: Vec<String> = items.map(|item| named(&item["metadata"])).collect();
    format!(
        "{}: {}",
        list["metadata"]["resourceVersion"]
            .as_str()
            .expect("a version"),
        items.join(" ")
    )
}

fn named(metadata: &Value) -> String {
    format!(
        "{}@{}",
        metadata["name"].as_str().unwrap_or_default(),
        metadata["resourceVersion"].as_str().unwrap_or_default()
    )
}

/// Formats events as `ADDED name@version`, `BOOKMARK 12`, `BOOKMARK 12 end`, `ERROR 410 Expired`.
pub fn events(body: &str) -> Vec<String> {
    let lines = body.lines().map(|line| {
        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"))
    });
    event_lines(lines)
}

pub fn event_lines(events: impl IntoIterator<Item = Value>) -> Vec<String> {
    events
        .into_iter()
        .map(|event| {
            let (kind, object) = (event["type"].as_str().expect("a type"), &event["object"]);
            let metadata = &object["metadata"];
            match kind {
                "ERROR" => format!(
                    "ERROR {} {}",
                    object["code"],
                    object["reason"].as_str().unwrap_or_default()
                ),
                "BOOKMARK" => {
                    let end = metadata["annotations"]["k8s.io/initial-events-end"] == "true";
                    let version = metadata["resourceVersion"].as_str().unwrap_or_default();
                    format!("BOOKMARK {version}{}", if end { " end" } else { "" })
                }
                _ => format!("{kind} {}", named(metadata)),
            }
        })
        .collect()
}

/// Reads a table with a row on each line and `|` between the cells. A line with `#` is a comment.
pub fn rows<const N: usize>(table: &str) -> impl Iterator<Item = [&str; N]> {
    let lines = table.lines().map(str::trim);
    let rows = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        cells.try_into().expect("each row has all cells")
    })
}

/// Reads a cell with JSON.
pub fn value(cell: &str) -> Value {
    serde_json::from_str(cell).unwrap_or_else(|error| panic!("{cell}: {error}"))
}

/// Sends a write, and returns the status and the response.
pub fn write(
    server: &mut FakeServer,
    method: &str,
    target: &str,
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
    let (status, answer) = server.execute(Instant::from_micros(0), write);
    (status, serde_json::from_slice(&answer).unwrap())
}
