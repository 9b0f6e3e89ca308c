//! The reflector's states against its inputs, as a table generated from the code and checked in.
//!
//! `UPDATE=1 cargo test -p informer-tests --test all state_table::` writes `docs/generated/STATE-TABLE.md`. Otherwise
//! the test fails if the table differs from the code's behaviour, so a change of behaviour appears as a change of the
//! table.

use core::fmt::Write;
use core::time::Duration;
use std::path::PathBuf;

use informer_core::{
    End, Frame, Head, Heap, Instant, Output, Reflector, ReflectorConfig, RequestId, Resource,
    TransportFailure, reflector::Initial, time::BackoffConfig, transport::FailureKind,
};

type Machine = Reflector<Resource<'static>, Heap>;

/// A reflector in one of the states.
struct World {
    machine: Machine,
    now: Instant,
    id: Option<RequestId>,
    frames: Vec<&'static str>,
    /// The phase that an input must fit; `any` if no request is open.
    phase: &'static str,
}

/// Bodies by name.
const TEXTS: &str = r#"
begun    {"kind":"PodList","items":[
list     {"kind":"PodList","metadata":{"resourceVersion":"20"},"items":[{"metadata":{"name":"a","resourceVersion":"5"}}]}
page     {"kind":"PodList","metadata":{"resourceVersion":"10","continue":"token"},"items":[{"metadata":{"name":"a"}}]}
added    {"type":"ADDED","object":{"metadata":{"name":"b","resourceVersion":"21"}}}
cut      {"type":"ADDED","obj
bookmark {"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"22"}}}
end      {"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"23","annotations":{"k8s.io/initial-events-end":"true"}}}}
html     <html>
oops     oops
nothing  {}
"#;

/// Answers by name: a status and a body.
const ANSWERS: &str = r#"
expired       410 {"kind":"Status","code":410,"reason":"Expired","message":"too old"}
gone          410 {"kind":"Status","code":410,"reason":"Gone","message":"gone"}
tooLarge      504 {"kind":"Status","code":504,"reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge"}],"retryAfterSeconds":1}}
timeout       504 {"kind":"Status","code":504,"reason":"Timeout"}
busy          429 Too many requests, please try again later.
tooMany       429 {"kind":"Status","code":429,"reason":"TooManyRequests"}
unauthorized  401 {"kind":"Status","code":401,"reason":"Unauthorized"}
forbidden     403 {"kind":"Status","code":403,"reason":"Forbidden"}
notFound      404 {"kind":"Status","code":404,"reason":"NotFound"}
notAcceptable 406 {"kind":"Status","code":406,"reason":"NotAcceptable"}
invalid       422 {"kind":"Status","code":422,"reason":"Invalid"}
internal      500 {"kind":"Status","code":500,"reason":"InternalError"}
"#;

/// States: a name, a description, and the inputs that lead there.
const STATES: &str = "
new             | no request was sent yet                                        |
list sent       | the first list, at version 0                                   | drain
list body       | a list is being read                                           | drain; head; data begun
list drained    | the list's JSON is complete, its body is not                   | drain; head; data list
page sent       | the second page of a list                                      | drain; head; data page; clean; drain
relist sent     | a list not older than the last version                         | watching; error expired; drain; pass 1; drain
newest sent     | a list at no version, after the last one was refused           | watching; error expired; drain; pass 1; drain; refuse expired; drain
watch sent      | a watch from the list's version                                | drain; head; data list; clean; drain
watching, new   | a watch without an event, younger than a second                | watching
watching, old   | a watch without an event, older than a second                  | watching; pass 2
watching, event | a watch that brought an event                                  | watching; data added
stream sent     | a streaming list                                               | stream; drain
streaming, new  | a streaming list without an event                              | stream; drain; head
streaming       | a streaming list that brought an object and is not complete    | stream; drain; head; data added
streamed        | a streaming list that is complete: a watch                     | stream; drain; head; data added; data end
pause to list   | the delay between runs                                         | drain; refuse internal; drain
pause to watch  | the delay for opening a watch                                  | drain; head; data list; clean; drain; refuse busy; drain
pause to stream | the delay for opening a streaming list                         | stream; drain; refuse busy; drain
retry           | the same request again, below the reflector                    | drain; fail reset; drain
stopped         | the end                                                        | watching; stop; drain
";

/// Inputs: a name, the phase it requires (`request` is one that was sent or is being read), and its action.
const INPUTS: &str = "
nothing                            | any     |
a second passes                    | any     | pass 1
11 s pass                          | any     | pass 11
31 s pass                          | any     | pass 31
76 s pass                          | any     | pass 76
11 min pass                        | any     | pass 660
relist()                           | any     | relist
stop()                             | any     | stop
refused connection                 | request | fail refused
reset                              | request | fail reset
reset of a kept connection         | request | fail used
timed out                          | request | fail timed-out
TLS failure                        | request | fail tls
a request that cannot be sent      | request | fail request
200                                | sent    | head
401                                | sent    | refuse unauthorized
403                                | sent    | refuse forbidden
404                                | sent    | refuse notFound
406                                | sent    | refuse notAcceptable
410 Expired                        | sent    | refuse expired
410 Gone                           | sent    | refuse gone
422                                | sent    | refuse invalid
429                                | sent    | refuse busy
429, Retry-After 7                 | sent    | refuse busy 7
500                                | sent    | refuse internal
500, Retry-After 7                 | sent    | refuse internal 7
504                                | sent    | refuse timeout
504 too large, Retry-After 7       | sent    | refuse tooLarge 7
200, whole list, end               | sent    | head; data list; clean
200, page, end                     | sent    | head; data page; clean
200, HTML                          | sent    | head; data html
200, `{}`, end                     | sent    | head; data nothing; clean
clean end                          | request | clean
ADDED                              | body    | data added
BOOKMARK                           | body    | data bookmark
BOOKMARK, end of the initial events | body   | data end
an event that is cut               | body    | data cut
bytes that are no JSON             | body    | data oops
JSON that is no event              | body    | data nothing
ERROR 401                          | body    | error unauthorized
ERROR 403                          | body    | error forbidden
ERROR 404                          | body    | error notFound
ERROR 410 Expired                  | body    | error expired
ERROR 410 Gone                     | body    | error gone
ERROR 422                          | body    | error invalid
ERROR 429                          | body    | error tooMany
ERROR 500                          | body    | error internal
ERROR 504                          | body    | error timeout
ERROR 504 too large                | body    | error tooLarge
an answer to an abandoned request  | request | abandoned
";

/// The cells of a table.
fn rows(table: &str) -> impl Iterator<Item = [&str; 3]> {
    table.trim().lines().map(|line| {
        let mut cells = line.split('|').map(str::trim);
        [(); 3].map(|()| cells.next().expect("a row has three cells"))
    })
}

/// The text after a name in a list of names.
fn named(list: &'static str, name: &str) -> &'static str {
    let mut pairs = list.lines().filter_map(|line| line.split_once(' '));
    let found = pairs.find(|(key, _)| *key == name);
    found.unwrap_or_else(|| panic!("{name}")).1.trim_start()
}

fn failure(name: &str) -> End {
    let mut failure = TransportFailure::new(match name {
        "refused" => FailureKind::Refused,
        "timed-out" => FailureKind::TimedOut,
        "tls" => FailureKind::Tls,
        "request" => FailureKind::Request,
        _ => FailureKind::Reset,
    });
    failure.connection_was_used = name == "used";
    End::Failed(failure)
}

impl World {
    fn new(initial: Initial) -> Self {
        // Without jitter the table has exact delays.
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
            phase: "any",
        }
    }

    /// Brings a reflector into a state.
    fn reach(script: &str) -> Self {
        let mut world = Self::new(if script.starts_with("stream") {
            Initial::Stream
        } else {
            Initial::List
        });
        world.run(script);
        world
    }

    fn run(&mut self, script: &str) {
        for step in script.split("; ").filter(|step| !step.is_empty()) {
            let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
            match verb {
                "stream" => {}
                "drain" => drop(self.drain()),
                "watching" => self.run("drain; head; data list; clean; drain; head"),
                "head" => self.head(Head::new(200)),
                "data" => self.data(named(TEXTS, rest)),
                "clean" => self.end(End::Clean),
                "fail" => self.end(failure(rest)),
                "refuse" => self.refuse(rest),
                "error" => {
                    let (_, status) = named(ANSWERS, rest).split_once(' ').unwrap();
                    self.data(&format!(r#"{{"type":"ERROR","object":{status}}}"#));
                }
                "pass" => self.now = self.now + Duration::from_secs(rest.parse().unwrap()),
                "relist" => self.machine.relist(self.now),
                "stop" => self.machine.stop(),
                "abandoned" => self.abandoned(),
                _ => panic!("{step}"),
            }
        }
    }

    /// Delivers an answer to the request before the current one, which was abandoned.
    fn abandoned(&mut self) {
        let current = self.id;
        let mut other = Self::reach("drain");
        if other.id == current {
            other.run("relist; pass 1; drain");
        }
        self.id = other.id;
        self.run("refuse internal; data list");
        self.id = current;
    }

    /// Drains the reflector's outputs; returns them as text.
    fn drain(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        loop {
            match self.machine.poll_output(self.now) {
                Output::Send(request) => {
                    self.id = Some(request.id());
                    self.phase = "sent";
                    let mut target = String::new();
                    request.write_target(&mut target).unwrap();
                    said.push(words(&target));
                }
                Output::Cancel(_) => {
                    self.phase = "any";
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

    fn head(&mut self, head: Head) {
        self.phase = "body";
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
        self.phase = "any";
        if let Some(id) = self.id {
            self.machine.handle_end(self.now, id, end);
        }
    }

    fn refuse(&mut self, answer: &str) {
        let (name, retry_after) = answer.split_once(' ').unwrap_or((answer, ""));
        let (status, body) = named(ANSWERS, name).split_once(' ').unwrap();
        let head = Head::new(status.parse().unwrap());
        self.head(if retry_after.is_empty() {
            head
        } else {
            head.with_retry_after(retry_after)
        });
        self.data(body);
        self.end(End::Clean);
    }
}

/// Formats a request without the parameters common to its kind.
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

fn table() -> String {
    let mut page = String::from(
        "# The reflector: every state against every input\n\n\
         For maintainers of the reflector: look up what it does in a state with an input. The test `state_table` makes this page;\n\
         `UPDATE=1 cargo test -p informer-tests --test all state_table::` writes it.\n\n\
         Each row shows what follows at once: frames, reports, requests (bold) and the wait after them. Jitter is off: a delay\n\
         of 0.8 s stands for 0.8 to 1.6 s. A row that would equal \"nothing\" is left out, since its input has no effect in that state.\n",
    );
    for [name, meaning, reach] in rows(STATES) {
        let (first, rest) = meaning.split_at(1);
        let first = first.to_uppercase();
        write!(
            page,
            "\n## {name}\n\n{first}{rest}.\n\n| input | what follows |\n|---|---|\n"
        )
        .unwrap();
        let outcome = |give: &str| {
            let mut world = World::reach(reach);
            world.frames.clear();
            world.run(give);
            let frames = world.frames.iter();
            let mut said: Vec<String> = frames.map(|frame| format!("frame `{frame}`")).collect();
            said.extend(world.drain());
            said.join(", ")
        };
        let phase = World::reach(reach).phase;
        let idle = outcome("");
        for [input, needs, give] in rows(INPUTS) {
            let makes_sense = needs == "any" || phase == needs;
            if !makes_sense && (needs != "request" || phase == "any") {
                continue;
            }
            let follows = outcome(give);
            if input == "nothing" || follows != idle {
                let follows = if follows.is_empty() {
                    "nothing, for ever"
                } else {
                    &follows
                };
                writeln!(page, "| {input} | {follows} |").unwrap();
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
            "line {}: see the top of this file for how to regenerate the table",
            number + 1
        );
    }
    assert_eq!(
        made.lines().count(),
        kept.lines().count(),
        "docs/generated/STATE-TABLE.md is not as long as the table"
    );
}

/// No state may wait without a deadline, loop, or react to an abandoned request.
#[test]
fn every_state_goes_on_by_itself_but_the_end() {
    for [state, _, reach] in rows(STATES) {
        for [input, _, give] in rows(INPUTS) {
            let mut world = World::reach(reach);
            world.run(give);
            let said = world.drain();
            let last = said.last().map(String::as_str).unwrap_or_default();
            let is_stopped = world.machine.is_stopped();
            let at = format!("{state} / {input}: {said:?}");
            assert_eq!(is_stopped, !last.starts_with("wait"), "{at}");
            assert!(!last.ends_with("wait 0 s"), "{at}");
            assert!(said.len() <= 5, "{at}");
        }
    }
}
