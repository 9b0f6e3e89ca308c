//! A server that responds from a script.

mod protobuf;

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use informer_core::{Instant, transport::FailureKind};

use crate::backend::{Backend, Chunk, HeadPoll, ResponseHead, ResponseId};
use crate::fault::Ending;
use crate::log::{RequestLog, RequestRecord, Verb};
use crate::ordered::Ordered;
use crate::query::split_target;
use crate::status::Status;

/// A server that responds from a script, regardless of the request, and records all requests.
///
/// The script is a scenario of the conformance suite, in JSON:
/// - `lists`, `watches`, `streams`: the responses to lists, plain watches and streaming lists, each in order. The last
///   one repeats. Without `streams`, a streaming list is rejected with 422.
/// - A response has `status` (default 200), `headers`, and one of `body` (JSON), `raw` (text) or `frames`. Frames are a
///   list of strings, sent as they are; objects, sent as a line of JSON; and numbers, which are pauses in seconds.
/// - `end` is how the frames end: `close` (cleanly), `abort`, or `hold` (never). `refuse` cuts the connection before
///   any response.
/// - `delay` is the time in seconds before the response begins.
///
/// Like the suite's server, it serves Pods only. Any other path gets 404 and is not recorded.
///
/// ```
/// use informer_mock::{Mock, ScriptedServer};
///
/// let server = ScriptedServer::from_json(r#"{
///     "lists": [
///         { "status": 500, "raw": "", "delay": 0.5 },
///         { "body": { "kind": "PodList", "apiVersion": "v1", "metadata": { "resourceVersion": "10" }, "items": [] } }
///     ],
///     "watches": [{ "frames": [0.2, "{\"type\":\"ADD"], "end": "abort" }]
/// }"#)?;
/// let mock = Mock::new(server);
/// # Ok::<(), informer_mock::ScriptError>(())
/// ```
#[derive(Debug)]
pub struct ScriptedServer {
    lists: Answers,
    watches: Answers,
    streams: Answers,
    protobuf: bool,
    responses: BTreeMap<u64, Response>,
    next_response: u64,
    log: RequestLog,
}

impl ScriptedServer {
    /// Parses a scenario. Unknown members are ignored.
    ///
    /// # Errors
    /// Fails if the text is not JSON, or if a member has the wrong type or value.
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        let scenario: Ordered =
            serde_json::from_str(text).map_err(|error| ScriptError(error.to_string()))?;
        if !matches!(scenario, Ordered::Object(_)) {
            return Err(ScriptError::new("the scenario", "not an object"));
        }
        let answers = |member| Answers::read(&scenario, member);
        Ok(Self {
            lists: answers("lists")?,
            watches: answers("watches")?,
            streams: answers("streams")?,
            protobuf: false,
            responses: BTreeMap::new(),
            next_response: 0,
            log: RequestLog::default(),
        })
    }

    /// Translates the responses for clients that accept protobuf. An event that is cut or malformed in JSON is cut or
    /// malformed in protobuf.
    #[must_use]
    pub fn in_protobuf(self) -> Self {
        Self {
            protobuf: true,
            ..self
        }
    }

    /// Returns the log in the format of the suite's server: one JSON object per line.
    #[must_use]
    pub fn log_lines(&self) -> String {
        let start = self
            .log
            .iter()
            .next()
            .map_or_else(|| Instant::from_micros(0), |first| first.at);
        self.log.iter().fold(String::new(), |text, request| {
            text + &request.to_json(start).to_string() + "\n"
        })
    }

    fn answer(&mut self, verb: Verb) -> Answer {
        let answers = match verb {
            Verb::Watch => &mut self.watches,
            Verb::Stream => &mut self.streams,
            Verb::List | Verb::Get | Verb::Other => &mut self.lists,
        };
        let index = answers.used.min(answers.answers.len().saturating_sub(1));
        answers.used += 1;
        answers.answers.get(index).cloned().unwrap_or_else(|| {
            let refusal = if verb == Verb::Stream {
                Status::new(422, "Invalid", NO_STREAMS)
            } else {
                not_found()
            };
            Answer::refusal(&refusal)
        })
    }
}

impl Backend for ScriptedServer {
    fn tick(&mut self, _now: Instant) {}

    fn handle_request(&mut self, now: Instant, target: &str, accept: &str) -> ResponseId {
        let (path, query) = split_target(target);
        let answer = if path.ends_with("/pods") {
            // The suite's server accepts only these values.
            let watching = matches!(query.get("watch"), Some("true" | "1"));
            let verb = match (watching, query.get("sendInitialEvents")) {
                (false, _) => Verb::List,
                (true, Some("true")) => Verb::Stream,
                (true, _) => Verb::Watch,
            };
            let answer = self.answer(verb);
            let mut record = RequestRecord::new(now, verb, &path, &query, accept);
            record.status = (!answer.refuse).then_some(answer.status);
            self.log.push(record);
            answer
        } else {
            Answer::refusal(&not_found())
        };
        let answer = if self.protobuf && accept.contains(crate::protobuf::MEDIA_TYPE) {
            answer.in_protobuf(query.get("watch").is_some())
        } else {
            answer
        };
        let id = self.next_response;
        self.next_response += 1;
        let ready_at = now + answer.delay;
        self.responses.insert(
            id,
            Response {
                answer,
                next: 0,
                ready_at,
            },
        );
        ResponseId(id)
    }

    fn poll_head(&mut self, now: Instant, id: ResponseId) -> HeadPoll {
        let Some(response) = self.responses.get(&id.0) else {
            return HeadPoll::Failed(FailureKind::Reset);
        };
        if now < response.ready_at {
            return HeadPoll::Pending {
                until: Some(response.ready_at),
            };
        }
        if response.answer.refuse {
            return HeadPoll::Failed(FailureKind::Reset);
        }
        HeadPoll::Ready(response.answer.head())
    }

    fn poll_chunk(&mut self, now: Instant, id: ResponseId) -> Chunk {
        let Some(response) = self.responses.get_mut(&id.0) else {
            return Chunk::Abort(FailureKind::Reset);
        };
        response.poll_chunk(now)
    }

    fn close(&mut self, id: ResponseId) {
        self.responses.remove(&id.0);
    }

    fn log(&self) -> &RequestLog {
        &self.log
    }
}

#[derive(Debug)]
struct Response {
    answer: Answer,
    next: usize,
    /// When the response begins, or the pause ends.
    ready_at: Instant,
}

impl Response {
    fn poll_chunk(&mut self, now: Instant) -> Chunk {
        loop {
            if now < self.ready_at {
                return Chunk::Pending {
                    until: Some(self.ready_at),
                };
            }
            if self.answer.refuse {
                return Chunk::Abort(FailureKind::Reset);
            }
            let Some(frame) = self.answer.frames.get(self.next) else {
                return match self.answer.end {
                    Ending::Close => Chunk::End,
                    Ending::Abort(kind) => Chunk::Abort(kind),
                    Ending::Stall => Chunk::Pending { until: None },
                };
            };
            self.next += 1;
            match frame {
                Frame::Bytes(bytes) if bytes.is_empty() => {}
                Frame::Bytes(bytes) => return Chunk::Data(bytes.clone()),
                Frame::Pause(pause) => self.ready_at = self.ready_at.max(now) + *pause,
            }
        }
    }
}

#[derive(Debug)]
struct Answers {
    answers: Vec<Answer>,
    used: usize,
}

impl Answers {
    fn read(scenario: &Ordered, member: &str) -> Result<Self, ScriptError> {
        let list = match scenario.get(member) {
            None | Some(Ordered::Null) => &[],
            Some(list) => list
                .as_list()
                .ok_or_else(|| ScriptError::new(member, "not a list"))?,
        };
        let answers = list
            .iter()
            .map(|answer| Answer::read(answer, member))
            .collect::<Result<_, _>>()?;
        Ok(Self { answers, used: 0 })
    }
}

#[derive(Clone, Debug)]
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    /// Whether the frames are one body with a known length.
    whole: bool,
    frames: Vec<Frame>,
    end: Ending,
    refuse: bool,
    delay: Duration,
}

#[derive(Clone, Debug)]
enum Frame {
    Bytes(Vec<u8>),
    Pause(Duration),
}

impl Answer {
    fn read(answer: &Ordered, member: &str) -> Result<Self, ScriptError> {
        let wrong = |what: &str| ScriptError::new(member, what);
        if !matches!(answer, Ordered::Object(_)) {
            return Err(wrong("a response is not an object"));
        }
        let status = answer.get("status").map_or(Some(200.0), Ordered::as_f64);
        let status = status.filter(|status| (100.0..1000.0).contains(status));
        // In range, as has just been checked.
        let status = status.ok_or_else(|| wrong("`status` is not an HTTP status"))? as u16;
        let headers = match answer.get("headers") {
            None => Vec::new(),
            Some(Ordered::Object(headers)) => headers
                .iter()
                .map(|(name, value)| (name.clone(), plain(value)))
                .collect(),
            Some(_) => return Err(wrong("`headers` is not an object")),
        };
        let delay = answer.get("delay").map_or(Some(Duration::ZERO), seconds);
        let delay = delay.ok_or_else(|| wrong("`delay` is not a number of seconds"))?;
        let (end, refuse) = match answer.get("end").map_or(Some("close"), Ordered::as_str) {
            Some("close") => (Ending::Close, false),
            Some("abort") => (Ending::Abort(FailureKind::Reset), false),
            Some("hold") => (Ending::Stall, false),
            Some("refuse") => (Ending::Close, true),
            _ => return Err(wrong("`end` is not one of close, abort, hold, refuse")),
        };
        let answer = match answer.get("frames") {
            Some(frames) => {
                let frames = frames
                    .as_list()
                    .ok_or_else(|| wrong("`frames` is not a list"))?;
                let frames = frames
                    .iter()
                    .map(|frame| Frame::read(frame).ok_or_else(|| wrong("a frame is invalid")));
                let frames = frames.collect::<Result<_, _>>()?;
                Self {
                    status,
                    headers,
                    whole: false,
                    frames,
                    end,
                    refuse,
                    delay,
                }
            }
            None => {
                let body = match answer.get("raw") {
                    Some(raw) => raw
                        .as_str()
                        .ok_or_else(|| wrong("`raw` is not a string"))?
                        .to_string(),
                    None => answer.get("body").map_or_else(|| "{}".to_string(), compact),
                };
                let frames = [Frame::Bytes(body.into_bytes())].into();
                Self {
                    status,
                    headers,
                    whole: true,
                    frames,
                    end: Ending::Close,
                    refuse,
                    delay,
                }
            }
        };
        Ok(answer)
    }

    fn refusal(status: &Status) -> Self {
        Self {
            status: status.code,
            headers: Vec::new(),
            whole: true,
            frames: [Frame::Bytes(status.json().trim_ascii_end().to_vec())].into(),
            end: Ending::Close,
            refuse: false,
            delay: Duration::ZERO,
        }
    }

    fn head(&self) -> ResponseHead {
        let mut head = ResponseHead::new(self.status);
        head.set_header("Content-Type", "application/json");
        for (name, value) in &self.headers {
            head.set_header(name, value);
        }
        if self.whole {
            let lengths = self.frames.iter().map(|frame| {
                if let Frame::Bytes(bytes) = frame {
                    bytes.len() as u64
                } else {
                    0
                }
            });
            head.content_length = Some(lengths.sum());
        }
        head
    }
}

impl Frame {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Pause(_) => &[],
        }
    }

    fn read(frame: &Ordered) -> Option<Self> {
        match frame {
            Ordered::Text(text) => Some(Self::Bytes(text.clone().into_bytes())),
            Ordered::Number(_) => seconds(frame).map(Self::Pause),
            Ordered::Object(_) | Ordered::List(_) => {
                Some(Self::Bytes((compact(frame) + "\n").into_bytes()))
            }
            Ordered::Null | Ordered::Bool(_) => None,
        }
    }
}

const NO_STREAMS: &str = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";

fn not_found() -> Status {
    let message = "the server could not find the requested resource";
    Status::new(404, "NotFound", message)
}

fn compact(value: &Ordered) -> String {
    let mut text = String::new();
    value.write(&mut text);
    text
}

fn plain(value: &Ordered) -> String {
    value
        .as_str()
        .map_or_else(|| compact(value), ToString::to_string)
}

fn seconds(value: &Ordered) -> Option<Duration> {
    Duration::try_from_secs_f64(value.as_f64()?).ok()
}

/// The reason why a script is invalid.
#[derive(Clone, PartialEq, Eq)]
pub struct ScriptError(String);

impl ScriptError {
    fn new(place: &str, problem: &str) -> Self {
        Self(place.to_string() + ": " + problem)
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for ScriptError {}

informer_core::readable_errors!(ScriptError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_and_ends() {
        let text = r#"{"watches":[
            {"frames":["a", 0.5, {"b": 1, "a": 2}, ""], "end": "abort", "delay": 1, "headers": {"X": 1}},
            {"frames":[], "end": "hold"}, {"end": "refuse"}]}"#;
        let mut server = ScriptedServer::from_json(text).expect("valid");
        let at = |millis: u64| Instant::from_micros(millis * 1000);
        let open = |server: &mut ScriptedServer, now| {
            server.handle_request(now, "/api/v1/pods?watch=1", "")
        };
        let id = open(&mut server, at(0));
        assert_eq!(
            server.poll_head(at(0), id),
            HeadPoll::Pending {
                until: Some(at(1000))
            }
        );
        let HeadPoll::Ready(head) = server.poll_head(at(1000), id) else {
            panic!("no head")
        };
        assert_eq!((head.header("x"), head.content_length), (Some("1"), None));
        assert_eq!(server.poll_chunk(at(1000), id), Chunk::Data(b"a".to_vec()));
        assert_eq!(
            server.poll_chunk(at(1000), id),
            Chunk::Pending {
                until: Some(at(1500))
            }
        );
        assert_eq!(
            server.poll_chunk(at(1500), id),
            Chunk::Data(b"{\"b\":1,\"a\":2}\n".to_vec())
        );
        assert_eq!(
            server.poll_chunk(at(1500), id),
            Chunk::Abort(FailureKind::Reset)
        );

        let id = open(&mut server, at(0));
        assert_eq!(server.poll_chunk(at(9), id), Chunk::Pending { until: None });
        for _ in 0..2 {
            let id = open(&mut server, at(0));
            assert_eq!(
                server.poll_head(at(9), id),
                HeadPoll::Failed(FailureKind::Reset)
            );
        }
        let id = server.handle_request(at(0), "/api/v1/pods?watch=true&sendInitialEvents=true", "");
        let HeadPoll::Ready(head) = server.poll_head(at(9), id) else {
            panic!("no head")
        };
        assert_eq!(head.status, 422);
        let id = server.handle_request(at(0), "/version", "");
        let HeadPoll::Ready(head) = server.poll_head(at(9), id) else {
            panic!("no head")
        };
        assert_eq!(head.status, 404);
        assert_eq!(server.log().mark(), 5);
    }

    #[test]
    fn wrong_scripts_are_refused() {
        for (text, problem) in [
            ("[]", "the scenario: not an object"),
            ("{\"lists\":{}}", "lists: not a list"),
            ("{\"lists\":[1]}", "lists: a response is not an object"),
            (
                "{\"lists\":[{\"status\":\"x\"}]}",
                "lists: `status` is not an HTTP status",
            ),
            (
                "{\"watches\":[{\"frames\":[null]}]}",
                "watches: a frame is invalid",
            ),
            (
                "{\"watches\":[{\"frames\":[-1]}]}",
                "watches: a frame is invalid",
            ),
            (
                "{\"watches\":[{\"end\":\"x\"}]}",
                "watches: `end` is not one of close, abort, hold, refuse",
            ),
        ] {
            let error = ScriptedServer::from_json(text).expect_err("wrong");
            assert_eq!(error.to_string(), problem);
        }
    }
}
