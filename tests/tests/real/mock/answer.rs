//! One of the two servers, and its answers in a form that can be compared.

use core::time::Duration;
use std::collections::BTreeMap;

use http::{Request, Uri};
use http_body_util::BodyExt as _;
use informer_mock::protobuf;
use informer_tests::real::{Error, Outcome, sort_causes};
use kube_client::{Client, Config};
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::{Value, json};

use super::script::Ask;

/// A server, and what its answers have shown.
pub(super) struct Side {
    client: Client,
    token: Option<String>,
    /// Values for later requests, such as `page-1.continue`.
    saved: BTreeMap<String, String>,
    /// The version that each write made.
    versions: BTreeMap<u64, String>,
}

/// An answer as it came.
pub(super) struct Answer {
    pub(super) status: u16,
    headers: BTreeMap<String, String>,
    body: Value,
    order: Vec<String>,
}

impl Side {
    /// A server at this address. The token is that of an administrator.
    pub(super) fn new(mut config: Config, token: Option<String>) -> Outcome<Self> {
        config.auth_info = kube_client::config::AuthInfo::default();
        // Refusals are compared, too.
        config.default_retry = false;
        Ok(Self {
            client: Client::try_from(config)?,
            token,
            saved: BTreeMap::new(),
            versions: BTreeMap::new(),
        })
    }

    /// A server without TLS and users.
    pub(super) fn plain(address: Uri) -> Outcome<Self> {
        Self::new(Config::new(address), None)
    }

    /// Begins a request. The first future ends with the head of the answer; the one that it returns, with the body.
    pub(super) fn open(
        &self,
        ask: &Ask,
    ) -> Outcome<
        impl Future<Output = Outcome<impl Future<Output = Outcome<Answer>> + Send + use<>>>
        + Send
        + use<>,
    > {
        let target = self
            .fill(&ask.target)?
            .replace('<', "%3C")
            .replace('>', "%3E");
        let mut request = Request::builder()
            .method(ask.method.as_str())
            .uri(&target)
            .header(
                "accept",
                ask.accept.as_deref().unwrap_or("application/json"),
            );
        let token = match ask.user.as_deref() {
            Some("wrong") => Some("wrong"),
            _ => self.token.as_deref(),
        };
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(user) = ask.user.as_deref().filter(|user| *user != "wrong") {
            request = request.header("impersonate-user", user);
        }
        if !ask.body.is_empty() || ask.media.is_some() {
            let media = ask.media.as_deref().unwrap_or("application/json");
            request = request.header("content-type", media);
        }
        let body = kube_client::client::Body::from(self.fill(&ask.body)?.into_bytes());
        let request = request.body(body)?;
        let client = self.client.clone();
        let (is_stream, name) = (
            ["watch=1", "watch=true"]
                .iter()
                .any(|watch| ask.target.contains(watch)),
            ask.name.clone(),
        );
        Ok(async move {
            let sent = tokio::time::timeout(Duration::from_secs(60), client.send(request));
            let response = sent
                .await
                .map_err(|_| format!("{name}: no answer"))?
                .map_err(|error| format!("{name}: {error}"))?;
            Ok(async move {
                let status = response.status().as_u16();
                let mut headers = BTreeMap::new();
                for (name, value) in response.headers() {
                    headers.insert(name.to_string(), value.to_str()?.to_owned());
                }
                let read = response.into_body().collect();
                let read = tokio::time::timeout(Duration::from_secs(60), read).await;
                let bytes = read
                    .map_err(|_| format!("{name}: the body does not end"))?
                    .map_err(|error| format!("{name}: {error}"))?
                    .to_bytes();
                Answer::new(status, headers, &bytes, is_stream)
                    .map_err(|error| format!("{name}: {error}").into())
            })
        })
    }

    /// Replaces the names of values by the values.
    fn fill(&self, text: &str) -> Outcome<String> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (name, after) = after.split_once('}').ok_or("a name without its end")?;
            let value = self.saved.get(name);
            filled += before;
            // The answer has it in one server alone; then the next answers differ as well.
            filled += value.map_or("none", String::as_str);
            rest = after;
        }
        Ok(filled + rest)
    }

    /// Makes the answers of both servers comparable, and keeps what later requests need.
    pub(super) fn learn(real: &mut Self, mock: &mut Self, ask: &Ask, answers: [&Answer; 2]) {
        let made = answers.map(|answer| {
            let version = answer.body["metadata"]["resourceVersion"].as_str()?;
            version.parse::<u64>().ok()
        });
        let is_write = ask.method != "GET"
            && answers
                .iter()
                .all(|answer| answer.status < 300 && answer.body["items"].is_null());
        for ((side, answer), version) in [real, mock].into_iter().zip(answers).zip(made) {
            for (short, long) in [
                ("rv", "resourceVersion"),
                ("uid", "uid"),
                ("continue", "continue"),
            ] {
                if let Some(value) = answer.body["metadata"][long].as_str() {
                    side.saved
                        .insert(format!("{}.{short}", ask.name), value.to_owned());
                }
            }
            if let (true, Some(version)) = (is_write, version)
                && made.iter().all(Option::is_some)
                && side
                    .versions
                    .last_key_value()
                    .is_none_or(|(last, _)| *last < version)
            {
                side.versions.insert(version, ask.name.clone());
            }
        }
    }

    /// Returns an answer without what must differ: uids, times, tokens, and versions by their numbers.
    pub(super) fn comparable(&self, answer: &Answer, other: &Answer) -> Value {
        let mut body = answer.body.clone();
        if let Value::Array(events) = &mut body {
            simplify_bookmarks(events);
        }
        sort_causes(&mut body);
        self.simplify(&mut body, false);
        json!({
            "status": answer.status, "header": answer.headers, "body": body,
            "members": common(&answer.order, &other.order).join(" "),
        })
    }

    fn simplify(&self, value: &mut Value, is_shared: bool) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.simplify(item, false)),
            Value::Object(members) => {
                let is_list =
                    members.contains_key("items") || members.get("columnDefinitions").is_some();
                let is_bookmark = members.get("type").is_some_and(|kind| kind == "BOOKMARK");
                let prefix = members.get("generateName").and_then(Value::as_str);
                let prefix = prefix.map(str::to_owned);
                for (key, value) in members.iter_mut() {
                    match (key.as_str(), &mut *value) {
                        ("resourceVersion", Value::String(text)) => {
                            if let Ok(version) = text.parse() {
                                *text = self.version(version, is_shared);
                            }
                        }
                        ("continue", Value::String(text)) if !text.is_empty() => {
                            "<token>".clone_into(text);
                        }
                        ("message", Value::String(text)) => *text = without_numbers(text),
                        // The port of the control plane differs each time.
                        ("serverAddress", Value::String(text)) => "<address>".clone_into(text),
                        ("name", Value::String(text)) if prefix.is_some() => {
                            let prefix = prefix.as_deref().unwrap_or_default();
                            if let Some(suffix) = text.strip_prefix(prefix) {
                                *text = format!("{prefix}<{} characters>", suffix.len());
                            }
                        }
                        ("items", Value::Array(items)) => {
                            items.iter_mut().for_each(|item| self.simplify(item, false));
                        }
                        ("managedFields", Value::Array(items)) => {
                            items.iter_mut().for_each(|item| self.simplify(item, false));
                            // Otherwise their order depends on the second in which each was written.
                            items.sort_by_key(|item| {
                                let texts = ["operation", "manager", "subresource"];
                                texts.map(|name| item[name].to_string())
                            });
                        }
                        ("metadata", value) => self.simplify(value, is_list || is_shared),
                        ("object", value) if is_bookmark => self.simplify(value, true),
                        (_, Value::String(text)) if is_uid(text) => "<uid>".clone_into(text),
                        (_, Value::String(text)) if is_time(text) => "<time>".clone_into(text),
                        (_, value) => self.simplify(value, false),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Names a version by the write that made it. Other clients write to the real server, so a version that is not one
    /// of an object is at least that of the last write.
    fn version(&self, version: u64, is_shared: bool) -> String {
        let last = self.versions.range(..=version).next_back();
        match last {
            Some((exact, name)) if *exact == version && !is_shared => format!("<{name}>"),
            Some((_, name)) => format!("<since {name}>"),
            None => "<before>".to_owned(),
        }
    }

    /// Sends a request that takes a seat for three seconds: a list at a version that is not there yet.
    pub(super) async fn hold(&self, user: &str) -> Outcome {
        let ask = Ask {
            name: "hold".to_owned(),
            method: "GET".to_owned(),
            target: "/api/v1/configmaps?resourceVersion=1999999999".to_owned(),
            user: Some(user.to_owned()),
            ..Ask::default()
        };
        tokio::spawn(self.open(&ask)?);
        tokio::time::sleep(Duration::from_millis(300)).await;
        Ok(())
    }

    /// The version of the last write.
    pub(super) fn last_version(&self) -> u64 {
        self.versions
            .last_key_value()
            .map_or(0, |(version, _)| *version)
    }
}

impl Answer {
    fn new(
        status: u16,
        mut headers: BTreeMap<String, String>,
        bytes: &[u8],
        is_stream: bool,
    ) -> Outcome<Self> {
        // They say how the body is framed, and when.
        for name in ["date", "content-length", "transfer-encoding", "connection"] {
            headers.remove(name);
        }
        for (name, value) in &mut headers {
            if name.starts_with("x-kubernetes-pf") || name == "audit-id" {
                "<id>".clone_into(value);
            }
        }
        let text = || json!({ "text": String::from_utf8_lossy(bytes) });
        let media = headers.get("content-type").map_or("", String::as_str);
        let body = if media.starts_with(protobuf::MEDIA_TYPE) {
            from_protobuf(bytes, is_stream && status == 200)?
        } else if is_stream && status == 200 {
            let events: Result<Vec<Value>, _> = serde_json::Deserializer::from_slice(bytes)
                .into_iter()
                .collect();
            events.map_or_else(|_| text(), Value::from)
        } else if bytes.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(bytes).unwrap_or_else(|_| text())
        };
        let order = serde_json::Deserializer::from_slice(bytes)
            .into_iter::<Members>()
            .next()
            .and_then(Result::ok);
        Ok(Self {
            status,
            headers,
            body,
            order: order.map(|members| members.0).unwrap_or_default(),
        })
    }
}

/// Decodes protobuf. Fails unless the result is encoded as the same bytes, so no field is left out of the comparison.
fn from_protobuf(bytes: &[u8], is_stream: bool) -> Outcome<Value> {
    let (body, encoded) = if is_stream {
        let events = protobuf::events(bytes).ok_or("invalid frames")?;
        let frames = events.iter().map(|event| {
            let object = protobuf::object(&event["object"])?;
            Some(protobuf::frame(event["type"].as_str()?, &object))
        });
        let frames: Option<Vec<Vec<u8>>> = frames.collect();
        (Value::from(events), frames.map(|frames| frames.concat()))
    } else {
        let body = protobuf::to_json(bytes).ok_or("invalid protobuf")?;
        let encoded = protobuf::object(&body);
        (body, encoded)
    };
    if encoded.as_deref() != Some(bytes) {
        return Err(format!("fields are missing in the tables: {body}").into());
    }
    Ok(body)
}

/// The names of an object's members, in their order.
struct Members(Vec<String>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Members;
            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut names = Vec::new();
                while let Some((name, IgnoredAny)) = map.next_entry::<String, _>()? {
                    names.push(name);
                }
                Ok(Members(names))
            }
        }
        deserializer.deserialize_map(Names)
    }
}

/// Returns where two answers differ: the place, and both values.
pub(super) fn differences(real: &Value, mock: &Value) -> Vec<[String; 3]> {
    fn collect(
        place: &str,
        real: Option<&Value>,
        mock: Option<&Value>,
        all: &mut Vec<[String; 3]>,
    ) {
        let inside = |key: &str| {
            if place.is_empty() {
                key.to_owned()
            } else {
                format!("{place}.{key}")
            }
        };
        match (real, mock) {
            (Some(Value::Object(a)), Some(Value::Object(b))) => {
                let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
                for key in keys {
                    collect(&inside(key), a.get(key), b.get(key), all);
                }
            }
            (Some(Value::Array(a)), Some(Value::Array(b))) => {
                for index in 0..a.len().max(b.len()) {
                    collect(&inside(&index.to_string()), a.get(index), b.get(index), all);
                }
            }
            _ if real == mock => {}
            _ => all.push([place.to_owned(), shown(real), shown(mock)]),
        }
    }
    fn shown(value: Option<&Value>) -> String {
        value.map_or_else(|| "–".to_owned(), Value::to_string)
    }
    fn summary(answer: &Value) -> String {
        let body = &answer["body"];
        let word = |member: &str| body[member].as_str().unwrap_or_default();
        let text = match word("kind") {
            "Status" => format!("{} {}", word("reason"), word("message")),
            kind => kind.to_owned(),
        };
        format!("{} {text}", answer["status"]).trim().to_owned()
    }
    if real["status"] != mock["status"] || real["body"]["kind"] != mock["body"]["kind"] {
        return vec![["answer".to_owned(), summary(real), summary(mock)]];
    }
    let mut all = Vec::new();
    collect("", Some(real), Some(mock), &mut all);
    all
}

/// Returns the names that both have, in the order of the first.
fn common(names: &[String], others: &[String]) -> Vec<String> {
    let both = names.iter().filter(|name| others.contains(name));
    both.cloned().collect()
}

/// Moves the bookmarks to the end, as one that says whether any was older than an event before it. Only the one that
/// ends the initial events has its place; the others depend on the time.
fn simplify_bookmarks(events: &mut Vec<Value>) {
    let (mut last, mut bookmark, mut is_old) = (0, None, false);
    events.retain_mut(|event| {
        let is_bookmark = event["type"] == "BOOKMARK";
        let metadata = &mut event["object"]["metadata"];
        let version = metadata["resourceVersion"].as_str();
        let number = version.and_then(|text| text.parse::<u64>().ok());
        let is_behind = number.is_some_and(|number| number < last);
        last = last.max(number.unwrap_or(0));
        if !is_bookmark {
            return true;
        }
        is_old |= is_behind;
        metadata["resourceVersion"] = "any".into();
        let is_end = metadata["annotations"].is_object();
        if !is_end {
            bookmark = Some(event.clone());
        }
        is_end
    });
    if let Some(mut bookmark) = bookmark {
        bookmark["object"]["metadata"]["resourceVersion"] =
            if is_old { "older" } else { "not older" }.into();
        events.push(bookmark);
    }
}

/// Replaces each number and uid in a message.
fn without_numbers(text: &str) -> String {
    let is_around = |c: char| " ,:\"().".contains(c);
    let replaced = text.split_inclusive([' ', ',', ':', '"']).map(|word| {
        let plain = word.trim_matches(is_around);
        let name = if is_uid(plain) {
            "<uid>"
        } else if plain.parse::<u64>().is_ok() {
            "<n>"
        } else {
            plain
        };
        word.replacen(plain, name, usize::from(name != plain))
    });
    replaced.collect()
}

fn is_uid(text: &str) -> bool {
    text.len() == 36 && text.split('-').map(str::len).eq([8, 4, 4, 4, 12])
}

fn is_time(text: &str) -> bool {
    text.len() >= 20 && text.ends_with('Z') && text.as_bytes()[10] == b'T' && text.starts_with("20")
}

/// Reads an answer of each server.
pub(super) async fn both<T>(
    real: impl Future<Output = Result<T, Error>>,
    mock: impl Future<Output = Result<T, Error>>,
) -> Outcome<[T; 2]> {
    let (real, mock) = tokio::join!(real, mock);
    Ok([
        real.map_err(|error| format!("kube-apiserver: {error}"))?,
        mock.map_err(|error| format!("informer-mock: {error}"))?,
    ])
}
