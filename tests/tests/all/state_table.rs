//! The reflector's states against its inputs, as a table that is made from the code and checked in.
//!
//! `UPDATE=1 cargo test -p informer-tests --test all state_table::` writes `docs/generated/STATE-TABLE.md` anew; without it the test
//! fails where the table is not what the code does. So a change of behaviour is seen as a change of the table.

#![allow(clippy::unwrap_used, reason = "writing into a string does not fail")]

use core::fmt::Write;
use core::time::Duration;
use std::path::PathBuf;

use informer_core::{
    End, Failure, Frame, Head, Heap, Instant, Output, Reflector, ReflectorConfig, RequestId,
    Resource, reflector::Initial, time::BackoffConfig, transport::FailureKind,
};

type Machine = Reflector<Resource<'static>, Heap>;

/// A reflector that was brought into a state.
struct World {
    machine: Machine,
    now: Instant,
    id: Option<RequestId>,
    frames: Vec<&'static str>,
    phase: To,
}

/// One state: its name, what it means, and how it is reached.
struct State {
    name: &'static str,
    meaning: &'static str,
    reach: fn() -> World,
}

/// One input: its name and how it is given.
struct Input {
    name: &'static str,
    to: To,
    give: fn(&mut World),
}

/// What an input needs to make sense.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    /// Nothing.
    Any,
    /// A request.
    Request,
    /// A request that has no answer yet.
    Sent,
    /// An answer that is being read.
    Body,
}

const LIST: &str = r#"{"kind":"PodList","metadata":{"resourceVersion":"20"},"items":[{"metadata":{"name":"a","resourceVersion":"5"}}]}"#;
const PAGE: &str = r#"{"kind":"PodList","metadata":{"resourceVersion":"10","continue":"token"},"items":[{"metadata":{"name":"a"}}]}"#;
const ADDED: &str = r#"{"type":"ADDED","object":{"metadata":{"name":"b","resourceVersion":"21"}}}"#;
const BOOKMARK: &str = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"22"}}}"#;
const END: &str = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"23","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;

const EXPIRED: (u16, &str) = (
    410,
    r#"{"kind":"Status","code":410,"reason":"Expired","message":"too old"}"#,
);
const GONE: (u16, &str) = (
    410,
    r#"{"kind":"Status","code":410,"reason":"Gone","message":"gone"}"#,
);
const TOO_LARGE: (u16, &str) = (
    504,
    r#"{"kind":"Status","code":504,"reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge"}],"retryAfterSeconds":1}}"#,
);
const TIMEOUT: (u16, &str) = (504, r#"{"kind":"Status","code":504,"reason":"Timeout"}"#);
const BUSY: (u16, &str) = (429, "Too many requests, please try again later.");
const UNAUTHORIZED: (u16, &str) = (
    401,
    r#"{"kind":"Status","code":401,"reason":"Unauthorized"}"#,
);
const FORBIDDEN: (u16, &str) = (403, r#"{"kind":"Status","code":403,"reason":"Forbidden"}"#);
const NOT_FOUND: (u16, &str) = (404, r#"{"kind":"Status","code":404,"reason":"NotFound"}"#);
const NOT_ACCEPTABLE: (u16, &str) = (
    406,
    r#"{"kind":"Status","code":406,"reason":"NotAcceptable"}"#,
);
const INVALID: (u16, &str) = (422, r#"{"kind":"Status","code":422,"reason":"Invalid"}"#);
const INTERNAL: (u16, &str) = (
    500,
    r#"{"kind":"Status","code":500,"reason":"InternalError"}"#,
);

impl World {
    fn new(initial: Initial) -> Self {
        // No jitter, so that the table has exact delays.
        let mut backoff = BackoffConfig::default();
        backoff.jitter = 0.0;
        let config = ReflectorConfig {
            initial,
            backoff,
            ..ReflectorConfig::default()
        };
        let machine = Reflector::new(Resource::new("", "v1", "pods"), config, 1);
        Self {
            machine,
            now: Instant::from_micros(0),
            id: None,
            frames: Vec::new(),
            phase: To::Any,
        }
    }

    fn begun(initial: Initial) -> Self {
        let mut world = Self::new(initial);
        world.drain();
        world
    }

    /// Takes everything the reflector says; returns it in words.
    fn drain(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        loop {
            match self.machine.poll_output(self.now) {
                Output::Send(request) => {
                    self.id = Some(request.id());
                    self.phase = To::Sent;
                    let mut target = String::new();
                    request.write_target(&mut target).unwrap();
                    said.push(words(&target));
                }
                Output::Cancel(_) => {
                    self.phase = To::Any;
                    said.push("cancel".to_owned());
                }
                Output::Report(report) => said.push(format!("report `{}`", report.class())),
                Output::Wait(until) => {
                    if let Some(until) = until {
                        let wait = until.saturating_duration_since(self.now);
                        said.push(format!("wait {} s", wait.as_secs_f64()));
                    }
                    return said;
                }
                _ => said.push("?".to_owned()),
            }
        }
    }

    fn later(mut self, time: Duration) -> Self {
        self.now = self.now + time;
        self
    }

    fn head(&mut self, head: Head) {
        self.phase = To::Body;
        if let Some(id) = self.id {
            self.machine.handle_head(self.now, id, head);
        }
    }

    fn data(&mut self, body: &str) {
        let Some(id) = self.id else { return };
        let mut body = body.as_bytes();
        while let Some(frame) = self.machine.next_frame(self.now, id, &mut body) {
            self.frames.push(match frame {
                Frame::Begin => "begin",
                Frame::Object(_) => "object",
                Frame::Bookmark { .. } => "bookmark",
                Frame::Complete { .. } => "complete",
                Frame::Report(_) => "report",
                Frame::Internal | _ => continue,
            });
        }
    }

    fn end(&mut self, end: End) {
        self.phase = To::Any;
        if let Some(id) = self.id {
            self.machine.handle_end(self.now, id, end);
        }
    }

    fn refuse(&mut self, (status, body): (u16, &str), retry_after: Option<&str>) {
        let head = Head::new(status);
        self.head(retry_after.map_or(head, |seconds| head.with_retry_after(seconds)));
        self.data(body);
        self.end(End::Clean);
    }

    fn error_event(&mut self, (_, status): (u16, &str)) {
        self.data(&format!(r#"{{"type":"ERROR","object":{status}}}"#));
    }

    fn ok(mut self) -> Self {
        self.head(Head::new(200));
        self
    }

    fn with(mut self, body: &str) -> Self {
        self.data(body);
        self
    }

    fn ended(mut self) -> Self {
        self.end(End::Clean);
        self.drain();
        self
    }

    fn refused(mut self, answer: (u16, &str)) -> Self {
        self.refuse(answer, None);
        self.drain();
        self
    }

    fn watching() -> Self {
        Self::begun(Initial::List).ok().with(LIST).ended().ok()
    }
}

/// A request without what is the same in every one of its kind.
fn words(target: &str) -> String {
    let (_, query) = target.split_once('?').unwrap_or((target, ""));
    let get = |name: &str| {
        query
            .split('&')
            .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
            .map(ToOwned::to_owned)
    };
    let mut said = match (get("sendInitialEvents"), get("watch")) {
        (Some(_), _) => "**STREAM**",
        (None, Some(_)) => "**WATCH**",
        (None, None) => "**LIST**",
    }
    .to_owned();
    for (name, short) in [
        ("resourceVersion", "rv"),
        ("limit", "limit"),
        ("continue", "continue"),
    ] {
        if let Some(value) = get(name) {
            write!(said, " {short}={value}").unwrap();
        }
    }
    said
}

fn states() -> Vec<State> {
    fn state(name: &'static str, meaning: &'static str, reach: fn() -> World) -> State {
        State {
            name,
            meaning,
            reach,
        }
    }
    vec![
        state("new", "nothing was asked yet", || World::new(Initial::List)),
        state("list sent", "the first list, at version 0", || {
            World::begun(Initial::List)
        }),
        state("list body", "a list is being read", || {
            World::begun(Initial::List)
                .ok()
                .with(r#"{"kind":"PodList","items":["#)
        }),
        state(
            "list drained",
            "the list's JSON is complete, its body is not",
            || World::begun(Initial::List).ok().with(LIST),
        ),
        state("page sent", "the second page of a list", || {
            World::begun(Initial::List).ok().with(PAGE).ended()
        }),
        state(
            "relist sent",
            "a list not older than the last version",
            || {
                let mut world = World::watching();
                world.error_event(EXPIRED);
                world.drain();
                let mut world = world.later(Duration::from_secs(1));
                world.drain();
                world
            },
        ),
        state(
            "newest sent",
            "a list at no version, after the last one was refused",
            || {
                let mut world = World::watching();
                world.error_event(EXPIRED);
                world.drain();
                let mut world = world.later(Duration::from_secs(1));
                world.drain();
                world.refused(EXPIRED)
            },
        ),
        state("watch sent", "a watch from the list's version", || {
            World::begun(Initial::List).ok().with(LIST).ended()
        }),
        state(
            "watching, new",
            "a watch without an event, younger than a second",
            World::watching,
        ),
        state(
            "watching, old",
            "a watch without an event, older than a second",
            || World::watching().later(Duration::from_secs(2)),
        ),
        state("watching, event", "a watch that brought an event", || {
            World::watching().with(ADDED)
        }),
        state("stream sent", "a streaming list", || {
            World::begun(Initial::Stream)
        }),
        state(
            "streaming, new",
            "a streaming list without an event",
            || World::begun(Initial::Stream).ok(),
        ),
        state(
            "streaming",
            "a streaming list that brought an object and is not complete",
            || World::begun(Initial::Stream).ok().with(ADDED),
        ),
        state(
            "streamed",
            "a streaming list that is complete: a watch",
            || World::begun(Initial::Stream).ok().with(ADDED).with(END),
        ),
        state("pause to list", "the delay between runs", || {
            World::begun(Initial::List).refused(INTERNAL)
        }),
        state("pause to watch", "the delay for opening a watch", || {
            World::begun(Initial::List)
                .ok()
                .with(LIST)
                .ended()
                .refused(BUSY)
        }),
        state(
            "pause to stream",
            "the delay for opening a streaming list",
            || World::begun(Initial::Stream).refused(BUSY),
        ),
        state(
            "retry",
            "the same request again, below the reflector",
            || {
                let mut world = World::begun(Initial::List);
                world.end(End::Failed(Failure::new(FailureKind::Reset)));
                world.drain();
                world
            },
        ),
        state("stopped", "the end", || {
            let mut world = World::watching();
            world.machine.stop();
            world.drain();
            world
        }),
    ]
}

fn inputs() -> Vec<Input> {
    fn answer(name: &'static str, give: fn(&mut World)) -> Input {
        Input {
            name,
            to: To::Sent,
            give,
        }
    }
    fn cut(name: &'static str, give: fn(&mut World)) -> Input {
        Input {
            name,
            to: To::Request,
            give,
        }
    }
    fn body(name: &'static str, give: fn(&mut World)) -> Input {
        Input {
            name,
            to: To::Body,
            give,
        }
    }
    fn other(name: &'static str, give: fn(&mut World)) -> Input {
        Input {
            name,
            to: To::Any,
            give,
        }
    }
    vec![
        other("nothing", |_| {}),
        other("a second passes", |world| {
            world.now = world.now + Duration::from_secs(1);
        }),
        other("11 s pass", |world| {
            world.now = world.now + Duration::from_secs(11);
        }),
        other("31 s pass", |world| {
            world.now = world.now + Duration::from_secs(31);
        }),
        other("76 s pass", |world| {
            world.now = world.now + Duration::from_secs(76);
        }),
        other("11 min pass", |world| {
            world.now = world.now + Duration::from_secs(660);
        }),
        other("relist()", |world| world.machine.relist(world.now)),
        other("stop()", |world| world.machine.stop()),
        cut("refused connection", |world| {
            world.end(End::Failed(Failure::new(FailureKind::Refused)));
        }),
        cut("reset", |world| {
            world.end(End::Failed(Failure::new(FailureKind::Reset)));
        }),
        cut("reset of a kept connection", |world| {
            let mut failure = Failure::new(FailureKind::Reset);
            failure.connection_was_used = true;
            world.end(End::Failed(failure));
        }),
        cut("timed out", |world| {
            world.end(End::Failed(Failure::new(FailureKind::TimedOut)));
        }),
        cut("TLS failure", |world| {
            world.end(End::Failed(Failure::new(FailureKind::Tls)));
        }),
        answer("200", |world| world.head(Head::new(200))),
        answer("401", |world| world.refuse(UNAUTHORIZED, None)),
        answer("403", |world| world.refuse(FORBIDDEN, None)),
        answer("404", |world| world.refuse(NOT_FOUND, None)),
        answer("406", |world| world.refuse(NOT_ACCEPTABLE, None)),
        answer("410 Expired", |world| world.refuse(EXPIRED, None)),
        answer("410 Gone", |world| world.refuse(GONE, None)),
        answer("422", |world| world.refuse(INVALID, None)),
        answer("429", |world| world.refuse(BUSY, None)),
        answer("429, Retry-After 7", |world| world.refuse(BUSY, Some("7"))),
        answer("500", |world| world.refuse(INTERNAL, None)),
        answer("500, Retry-After 7", |world| {
            world.refuse(INTERNAL, Some("7"));
        }),
        answer("504", |world| world.refuse(TIMEOUT, None)),
        answer("504 too large, Retry-After 7", |world| {
            world.refuse(TOO_LARGE, Some("7"));
        }),
        answer("200, whole list, end", |world| {
            world.head(Head::new(200));
            world.data(LIST);
            world.end(End::Clean);
        }),
        answer("200, page, end", |world| {
            world.head(Head::new(200));
            world.data(PAGE);
            world.end(End::Clean);
        }),
        answer("200, HTML", |world| {
            world.head(Head::new(200));
            world.data("<html>");
        }),
        answer("200, `{}`, end", |world| {
            world.head(Head::new(200));
            world.data("{}");
            world.end(End::Clean);
        }),
        cut("clean end", |world| world.end(End::Clean)),
        body("ADDED", |world| world.data(ADDED)),
        body("BOOKMARK", |world| world.data(BOOKMARK)),
        body("BOOKMARK, end of the initial events", |world| {
            world.data(END);
        }),
        body("an event that is cut", |world| world.data(&ADDED[..20])),
        body("bytes that are no JSON", |world| world.data("oops")),
        body("JSON that is no event", |world| world.data("{}")),
        body("ERROR 401", |world| world.error_event(UNAUTHORIZED)),
        body("ERROR 403", |world| world.error_event(FORBIDDEN)),
        body("ERROR 404", |world| world.error_event(NOT_FOUND)),
        body("ERROR 410 Expired", |world| world.error_event(EXPIRED)),
        body("ERROR 410 Gone", |world| world.error_event(GONE)),
        body("ERROR 422", |world| world.error_event(INVALID)),
        body("ERROR 429", |world| {
            world.error_event((
                429,
                r#"{"kind":"Status","code":429,"reason":"TooManyRequests"}"#,
            ));
        }),
        body("ERROR 500", |world| world.error_event(INTERNAL)),
        body("ERROR 504", |world| world.error_event(TIMEOUT)),
        body("ERROR 504 too large", |world| world.error_event(TOO_LARGE)),
        cut("an answer to an abandoned request", |world| {
            // The id of the request before the first one: nobody waits for it.
            let current = world.id;
            let mut other = World::begun(Initial::List);
            let mut abandoned = other.id;
            if abandoned == current {
                other.machine.relist(other.now);
                other = other.later(Duration::from_secs(1));
                other.drain();
                abandoned = other.id;
            }
            world.id = abandoned;
            world.refuse(INTERNAL, None);
            world.data(LIST);
            world.id = current;
        }),
    ]
}

fn table() -> String {
    let mut page = String::from(
        "# The reflector: every state against every input\n\n\
         For maintainers of the reflector: look up what it does in a state with an input. The test `state_table` makes this page;\n\
         `UPDATE=1 cargo test -p informer-tests --test all state_table::` writes it.\n\n\
         Each row shows what follows at once: frames, reports, requests (bold) and the wait after them. Jitter is off: a delay\n\
         of 0.8 s stands for 0.8 to 1.6 s. A row that would equal \"nothing\" is left out, since its input has no effect in that state.\n",
    );
    for state in states() {
        write!(
            page,
            "\n## {}\n\n{}.\n\n| input | what follows |\n|---|---|\n",
            state.name, state.meaning
        )
        .unwrap();
        let outcome = |give: fn(&mut World)| {
            let mut world = (state.reach)();
            world.frames.clear();
            give(&mut world);
            let mut said: Vec<String> = world
                .frames
                .iter()
                .map(|frame| format!("frame `{frame}`"))
                .collect();
            said.extend(world.drain());
            said.join(", ")
        };
        let request = (state.reach)().phase;
        let idle = outcome(|_| {});
        for input in inputs() {
            let makes_sense = match input.to {
                To::Any => true,
                To::Request => request != To::Any,
                To::Sent | To::Body => request == input.to,
            };
            if !makes_sense {
                continue;
            }
            let follows = outcome(input.give);
            if input.name == "nothing" || follows != idle {
                let follows = if follows.is_empty() {
                    "nothing, for ever"
                } else {
                    &follows
                };
                writeln!(page, "| {} | {follows} |", input.name).unwrap();
            }
        }
    }
    page
}

#[test]
fn the_table_is_what_the_code_does() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/generated/STATE-TABLE.md");
    let made = table();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    for (number, (made, kept)) in made.lines().zip(kept.lines()).enumerate() {
        assert_eq!(
            made,
            kept,
            "line {}: see the top of this file for how the table is made anew",
            number + 1
        );
    }
    assert_eq!(
        made.lines().count(),
        kept.lines().count(),
        "docs/generated/STATE-TABLE.md is not as long as the table"
    );
}

/// No state may wait for nothing, be busy, or answer an abandoned request.
#[test]
fn every_state_goes_on_by_itself_but_the_end() {
    for state in states() {
        for input in inputs() {
            let mut world = (state.reach)();
            (input.give)(&mut world);
            let said = world.drain();
            let last = said.last().map(String::as_str).unwrap_or_default();
            let stopped = world.machine.is_stopped();
            assert_eq!(
                stopped,
                !last.starts_with("wait"),
                "{} / {}: {said:?}",
                state.name,
                input.name
            );
            assert!(
                !last.ends_with("wait 0 s"),
                "{} / {}: {said:?}",
                state.name,
                input.name
            );
            assert!(said.len() <= 5, "{} / {}: {said:?}", state.name, input.name);
        }
    }
}
