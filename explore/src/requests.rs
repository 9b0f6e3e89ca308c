//! The requests of a process, and the faults that meet them.

use core::time::Duration;
use std::sync::Arc;

use informer_core::transport::FailureKind;
use informer_mock::{Fault, ResponseHead, Verb, Write};
use serde_json::{Value, json};

use super::action::{CrashAt, FaultKind, ReadFault, WriteFault};
use super::body::LifeBody;
use super::dice::Dice;
use super::invariants::object_at;
use super::paths::plural_of;
use super::process::Life;
use super::trace::{EntryKind, SERVER, seconds};
use super::world::World;

/// A program that sends so many requests in a run loops.
const MOST: usize = 20_000;
/// So does one that sends so many within five seconds.
const MOST_LATELY: usize = 2_000;
const BURST: Duration = Duration::from_secs(5);

impl Life {
    pub(super) fn begin(&self, peer: usize, what: &str, body: &[u8]) -> usize {
        let now = self.shared.elapsed();
        let (number, lately) = {
            let mut state = self.shared.state();
            state.requests += 1;
            if now.saturating_sub(state.burst.0) > BURST {
                state.burst = (now, 0);
            }
            state.burst.1 += 1;
            (state.requests, state.burst.1)
        };
        self.shared.record_body(
            (self.lane, peer),
            EntryKind::Request,
            Some(number),
            what.to_owned(),
            body,
        );
        if lately == MOST_LATELY || number == MOST {
            let (count, since) = if lately == MOST_LATELY {
                (lately, self.shared.state().burst.0)
            } else {
                (number, Duration::ZERO)
            };
            let time = seconds(now.saturating_sub(since));
            let busiest = self.shared.state().trace.busiest(count);
            let what = format!("it loops: {count} requests within {time}, {busiest}");
            self.shared.violate("it comes to rest", &what);
        }
        number
    }

    pub(super) fn end(
        &self,
        (number, peer): (usize, usize),
        kind: EntryKind,
        what: String,
        body: &[u8],
    ) {
        self.shared
            .record_body((self.lane, peer), kind, Some(number), what, body);
    }

    pub(super) fn fail(&self, number: usize, kind: FailureKind) -> FailureKind {
        self.end((number, SERVER), EntryKind::Failure, format!("{kind}"), b"");
        kind
    }

    /// Makes the fault of the next read happen, if there is one.
    fn meet_read_fault(&self, is_watch: bool) {
        let fault = self.shared.state().due.take_read(is_watch);
        let Some(fault) = fault else { return };
        self.shared.fired(fault.kind());
        let fault = match fault {
            ReadFault::Gone => Fault::expired().on(Verb::Watch),
            ReadFault::Reset => Fault::reset(),
            ReadFault::Failed => Fault::api_status(
                500,
                "InternalError",
                "Internal error occurred: etcdserver: leader changed",
            ),
            ReadFault::Page => Fault::status(503, "<html><body>Service Unavailable</body></html>"),
            ReadFault::Unauthorized => Fault::api_status(401, "Unauthorized", "Unauthorized"),
            ReadFault::Overloaded { seconds } => Fault::overloaded(Some(seconds)),
            ReadFault::Slow(time) => Fault::delay(time),
            ReadFault::DropEvent(event) => Fault::nothing().drop_event(event).on(Verb::Watch),
        };
        self.shared.mock.with(|server| server.inject(fault));
    }

    /// Sends a GET request.
    pub(super) async fn open(
        self: &Arc<Self>,
        target: &str,
        accept: &str,
    ) -> Result<(ResponseHead, LifeBody), FailureKind> {
        let sent = async {
            let number = self.begin(SERVER, &format!("GET {}", without_timeout(target)), b"");
            self.note_request(target, false);
            self.reach().await;
            let most = self.shared.settings.read_ms.max(1);
            let time = Dice::of(&[self.shared.seed, number as u64, 8]).below(most);
            self.sleep_until(self.shared.now() + Duration::from_millis(time))
                .await;
            let is_watch = target.contains("watch=");
            self.run().await;
            self.meet_read_fault(is_watch);
            let mut exchange = self
                .shared
                .on_route(self.replica, || self.shared.mock.open(target, accept));
            let head = exchange.head().await;
            self.reach().await;
            match head {
                Ok(head) => {
                    if head.status >= 400 {
                        self.keep_apart(false).await;
                    }
                    let is_stream = target.contains("sendInitialEvents=true");
                    if is_stream && head.status == 422 && !self.shared.settings.streams {
                        self.shared.fired(FaultKind::OldServer);
                    }
                    let status = head.status.to_string();
                    self.end((number, SERVER), EntryKind::Response, status, b"");
                    let last = self.shared.state().trace.entries.len() - 1;
                    let response = (!is_watch || head.status != 200).then_some(last);
                    let late = match response {
                        None => self.shared.late(number),
                        Some(_) => Duration::ZERO,
                    };
                    let body = LifeBody::new(Arc::clone(self), exchange, number, response, late);
                    Ok((head, body))
                }
                Err(kind) => {
                    self.keep_apart(false).await;
                    Err(self.fail(number, kind))
                }
            }
        };
        self.alive(sent).await
    }

    /// Sends a write.
    pub(super) async fn write(
        &self,
        method: &str,
        target: &str,
        content_type: &str,
        body: &[u8],
    ) -> Result<(u16, Vec<u8>), FailureKind> {
        let sent = async {
            let number = self.begin(SERVER, &format!("{method} {target}"), body);
            self.note_request(target, true);
            self.reach().await;
            self.crash_at(CrashAt::BeforeWrite).await;
            self.travel(number).await;
            let write = Write {
                method,
                target,
                content_type,
                body,
            };
            match self.apply(write).await {
                Ok((status, answer)) => {
                    self.crash_at(CrashAt::AfterWrite).await;
                    self.travel(number + 1).await;
                    self.reach().await;
                    self.end(
                        (number, SERVER),
                        EntryKind::Response,
                        summary(status, &answer),
                        &answer,
                    );
                    Ok((status, answer))
                }
                Err(kind) => Err(self.fail(number, kind)),
            }
        };
        self.alive(sent).await
    }

    /// Does what the server does with a write, with the faults that meet it.
    async fn apply(&self, write: Write<'_>) -> Result<(u16, Vec<u8>), FailureKind> {
        let now = self.shared.now();
        let (server, is_ready) = {
            let routed = self.shared.route(self.replica);
            let state = self.shared.state();
            (
                routed,
                state.down.get(&routed).is_none_or(|until| *until <= now),
            )
        };
        if !is_ready {
            let text = format!("server {} is down", server + 1);
            self.shared.record(SERVER, EntryKind::Note, text);
            return Err(FailureKind::Refused);
        }
        let fault = {
            let mut state = self.shared.state();
            state.tally.sent.creates.push(write.method == "POST");
            state.due.take_write(plural_of(write.target))
        };
        if let Some(fault) = fault {
            self.shared.fired(fault.kind());
            let text = format!("fault of this write: {fault}");
            self.shared.record(SERVER, EntryKind::Note, text);
        }
        match fault {
            Some(WriteFault::Reset) => return Err(FailureKind::Reset),
            Some(WriteFault::Overloaded) => return Ok(refusal(429, "TooManyRequests")),
            Some(WriteFault::Failed) => return Ok(refusal(500, "InternalError")),
            Some(WriteFault::Unauthorized) => return Ok(refusal(401, "Unauthorized")),
            Some(WriteFault::Denied | WriteFault::Quota) => return Ok(refusal(403, "Forbidden")),
            Some(WriteFault::Invalid) => return Ok(refusal(422, "Invalid")),
            Some(WriteFault::Slow(time)) => self.sleep_until(now + time).await,
            Some(WriteFault::Conflict) if write.method != "POST" => self.touch(write.target),
            Some(WriteFault::Conflict | WriteFault::AnswerLost | WriteFault::AnswerTimeout)
            | None => {}
        }
        let now = self.shared.now();
        let world = World {
            shared: Arc::clone(&self.shared),
        };
        let object = object_at(&world, write.target);
        let (before, answer, after) = self.shared.mock.with(|server| {
            let before = server.version();
            let answer = server.execute(now, write);
            (before, answer, server.version())
        });
        if answer.0 < 300 {
            let changed = object_at(&world, write.target);
            self.note_write(
                write.method,
                write.target,
                (object.as_ref(), changed.as_ref()),
            );
        }
        if before != after {
            self.shared.changed(plural_of(write.target));
        }
        match fault {
            Some(WriteFault::AnswerLost) => Err(FailureKind::Reset),
            Some(WriteFault::AnswerTimeout) => Ok(refusal(504, "Timeout")),
            _ => Ok(answer),
        }
    }

    /// Another client changes an object.
    fn touch(&self, target: &str) {
        let target = target.split('?').next().unwrap_or_default();
        let target = target
            .trim_end_matches("/status")
            .trim_end_matches("/scale");
        let count = self.shared.state().requests.to_string();
        let patch = json!({ "metadata": { "annotations": { "touched-by": "another client", "touched-at": count } } });
        let lane = self.shared.lane("another client");
        self.shared.write(lane, "PATCH", target, &patch);
    }
}

/// Describes the response to a write.
fn summary(status: u16, answer: &[u8]) -> String {
    if status < 300 {
        return status.to_string();
    }
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let reason = answer["reason"].as_str().unwrap_or_default();
    format!("{status} {reason}")
}

/// An error response of the server itself.
fn refusal(code: u16, reason: &'static str) -> (u16, Vec<u8>) {
    let message = match code {
        401 => "Unauthorized",
        403 => "admission webhook \"policy.example.com\" denied the request: not now",
        422 => "the object is invalid: a policy that has just been created forbids it",
        429 => "Too many requests, please try again later.",
        504 => {
            "Timeout: request did not complete within requested timeout - context deadline exceeded"
        }
        _ => "Internal error occurred: failed calling webhook",
    };
    (
        code,
        json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        })
        .to_string()
        .into_bytes(),
    )
}

/// Leaves out the random time limit of a watch.
fn without_timeout(target: &str) -> String {
    let Some((path, query)) = target.split_once('?') else {
        return target.to_owned();
    };
    let rest: Vec<&str> = query
        .split('&')
        .filter(|pair| !pair.starts_with("timeoutSeconds="))
        .collect();
    [path, "?", &rest.join("&")].concat()
}
