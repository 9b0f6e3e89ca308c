//! A process under test, and its connections to the server.

use core::fmt;
use core::future::{Future, pending, poll_fn};
use core::pin::pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Poll;
use core::time::Duration;
use std::sync::Arc;
use std::time::SystemTime;

use informer_core::{Instant, Timer as _, transport::FailureKind};
use serde_json::{Value, json};

use super::action::{CrashAt, FaultKind, ReadFault, WriteFault};
use super::body::LifeBody;
use super::connect::ApiError;
use super::dice::Dice;
use super::invariants::object_at;
use super::trace::{EntryKind, SERVER};
use super::world::{Shared, World, plural_of};
use informer_mock::Fault;
use informer_mock::ResponseHead;
use informer_mock::Verb;
use informer_mock::Write;

/// A process that runs the program under test, from its start to its death.
///
/// When it dies, its future is dropped at the await where it is. Tasks that it has spawned cannot be ended, but none of
/// their requests reaches the server any more, and they get no response.
#[derive(Clone)]
pub struct Process {
    pub(super) life: Arc<Life>,
}

impl Process {
    /// Returns a seed for this process, for everything that is random in it: `Builder::seed` of an informer, for
    /// example. Without it, two runs of the same seed differ.
    #[must_use]
    pub fn seed(&self) -> u64 {
        let life = &self.life;
        Dice::of(&[life.shared.seed, life.replica as u64, life.number.into()]).below(u64::MAX)
    }

    /// Returns the index of the replica, from 0.
    #[must_use]
    pub fn replica(&self) -> usize {
        self.life.replica
    }

    /// Returns a name that no other process of the run has, as a Pod has one. It is an identity for elections.
    #[must_use]
    pub fn pod(&self) -> String {
        format!("controller-{}-{}", self.life.replica + 1, self.life.number)
    }

    /// Returns the time of day on the machine of the process. It is also that of `SystemTime::now` on platforms where
    /// [the time of day is the world's](crate#determinism), except in tasks that replicas other than the first have
    /// spawned. Machines differ, as [`FaultKind::Clocks`] says.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        let shared = &self.life.shared;
        let epoch = shared.mock.read(|server| server.config().epoch);
        let epoch = epoch.saturating_add_signed(shared.skew(self.life.replica));
        SystemTime::UNIX_EPOCH + Duration::from_secs(epoch) + shared.elapsed()
    }

    /// Returns the world, for state outside of the cluster.
    #[must_use]
    pub fn world(&self) -> World {
        World {
            shared: Arc::clone(&self.life.shared),
        }
    }

    /// Calls a system outside of the cluster, such as a cloud, whose state is in
    /// [`World::outside`]. It takes some time and counts as a write: the process may die before it, or before it gets
    /// the result. `what` describes the call in the trace.
    pub async fn call<T>(&self, what: &str, call: impl FnOnce() -> T) -> T {
        let life = &self.life;
        life.alive(async {
            let outside = life.shared.lane("outside");
            let number = life.begin(outside, what, b"");
            life.reach().await;
            life.crash_at(CrashAt::BeforeWrite).await;
            life.travel(number).await;
            life.run().await;
            let result = call();
            life.shared.changed("");
            life.crash_at(CrashAt::AfterWrite).await;
            life.end(
                (number, outside),
                EntryKind::Response,
                "done".to_owned(),
                b"",
            );
            result
        })
        .await
    }
}

/// # Calls that fail
impl Process {
    /// Like [`call`](Self::call), but the call fails at times, with or without an effect
    /// ([`FaultKind::FailedCall`]).
    ///
    /// # Errors
    /// Fails if the world wants it: the connection is reset.
    pub async fn try_call<T>(&self, what: &str, call: impl FnOnce() -> T) -> Result<T, ApiError> {
        let has_effect = self.life.call_fault();
        if has_effect == Some(false) {
            self.call(&format!("{what}: it fails without an effect"), || ())
                .await;
        } else {
            let done = self.call(what, call).await;
            if has_effect.is_none() {
                return Ok(done);
            }
        }
        Err(ApiError::of_connection(FailureKind::Reset))
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Process").field(&self.pod()).finish()
    }
}

/// The state of a process.
pub(super) struct Life {
    pub(super) shared: Arc<Shared>,
    pub(super) lane: usize,
    pub(super) replica: usize,
    pub(super) number: u32,
    pub(super) is_dead: AtomicBool,
    pub(super) spared: std::sync::Mutex<Spared>,
    /// How long the process stays away after its death.
    pub(super) down: std::sync::Mutex<Duration>,
}

/// When a process last got a list, and a failure of a read.
#[derive(Default)]
pub(super) struct Spared {
    list: Option<Instant>,
    failure: Option<Instant>,
}

impl Life {
    /// Keeps lists and failures of reads apart by a millisecond, if kube-runtime is spared.
    pub(super) async fn keep_apart(&self, is_list: bool) {
        if !self.shared.spec.spares_kube {
            return;
        }
        loop {
            let now = self.shared.now();
            {
                let mut spared = self
                    .spared
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                let Spared { list, failure } = &mut *spared;
                let (own, other) = if is_list {
                    (list, failure)
                } else {
                    (failure, list)
                };
                if *other != Some(now) {
                    *own = Some(now);
                    return;
                }
            }
            self.sleep_until(now + Duration::from_millis(1)).await;
        }
    }

    /// Ends the process: no request of it is served any more.
    pub(super) fn die(&self, why: &str, down: Duration) {
        if self.is_dead.swap(true, Ordering::AcqRel) {
            return;
        }
        *self
            .down
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = down;
        self.shared
            .record(self.lane, EntryKind::Note, format!("dies {why}"));
        self.shared.wake_main();
    }

    /// Ends the process by a planned crash.
    pub(super) fn crash(&self, why: &str, down: Duration) {
        self.shared.state().tally.deaths += 1;
        self.shared.fired(FaultKind::Crash);
        self.die(why, down);
    }

    /// Runs a future while the process is alive. After its death, the future never ends.
    pub(super) async fn alive<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        poll_fn(|context| {
            if self.is_dead.load(Ordering::Acquire) {
                return Poll::Pending;
            }
            future.as_mut().poll(context)
        })
        .await
    }

    /// Waits while the process cannot reach the server.
    pub(super) async fn reach(&self) {
        let mut is_cut_off = false;
        loop {
            let until = self.shared.state().partitions.get(&self.replica).copied();
            let Some(until) = until.filter(|until| *until > self.shared.now()) else {
                return;
            };
            if !core::mem::replace(&mut is_cut_off, true) {
                self.shared.fired(FaultKind::Partition);
            }
            self.sleep_until(until).await;
        }
    }

    /// Waits while the process does not run.
    pub(super) async fn run(&self) {
        let until = self.shared.state().pauses.get(&self.replica).copied();
        if let Some(until) = until {
            self.sleep_until(until).await;
        }
    }

    async fn sleep_until(&self, until: Instant) {
        let mut clock = *self.shared.mock.clock();
        clock.sleep_until(until).await;
    }

    /// Waits for the way of a write in one direction.
    async fn travel(&self, number: usize) {
        let most = self.shared.settings.write_ms.max(1);
        let time = 1 + Dice::of(&[self.shared.seed, number as u64, 7]).below(most);
        self.sleep_until(self.shared.now() + Duration::from_millis(time))
            .await;
    }

    fn begin(&self, peer: usize, what: &str, body: &[u8]) -> usize {
        let (number, limit) = {
            let mut state = self.shared.state();
            state.requests += 1;
            (state.requests, self.shared.spec.request_limit)
        };
        self.shared.record_body(
            (self.lane, peer),
            EntryKind::Request,
            Some(number),
            what.to_owned(),
            body,
        );
        if number == limit {
            let what = format!("there were {limit} requests: it loops");
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

    /// Dies here if that is planned.
    async fn crash_at(&self, at: CrashAt) {
        let due = {
            let mut state = self.shared.state();
            if at == CrashAt::BeforeWrite {
                state.tally.sent.by.push(self.replica);
            }
            let found = state
                .crashes
                .iter_mut()
                .position(|crash| crash.replica == self.replica && crash.at == at);
            match found {
                Some(index) if state.crashes[index].skip == 0 => Some(state.crashes.remove(index)),
                Some(index) => {
                    state.crashes[index].skip -= 1;
                    None
                }
                None => None,
            }
        };
        if let Some(crash) = due {
            let why = match at {
                CrashAt::AfterWrite => "after its write took effect, before the response",
                CrashAt::BeforeWrite | CrashAt::Now => "before it sends this",
            };
            self.crash(why, crash.down);
            pending::<()>().await;
        }
    }

    fn call_fault(&self) -> Option<bool> {
        let fault = {
            let mut state = self.shared.state();
            let due = state.call_faults.iter().position(|(_, skip)| *skip == 0);
            for (_, skip) in &mut state.call_faults {
                *skip = skip.saturating_sub(1);
            }
            due.map(|index| state.call_faults.remove(index).0)
        };
        if fault.is_some() {
            self.shared.fired(FaultKind::FailedCall);
        }
        fault
    }

    fn write_fault(&self, creates: bool) -> Option<WriteFault> {
        let mut state = self.shared.state();
        state.tally.sent.creates.push(creates);
        let due = state.write_faults.iter().position(|(_, skip)| *skip == 0);
        for (_, skip) in &mut state.write_faults {
            *skip = skip.saturating_sub(1);
        }
        due.map(|index| state.write_faults.remove(index).0)
    }

    /// Makes the fault of the next read happen, if there is one.
    fn meet_read_fault(&self, is_watch: bool) {
        let fault = {
            let mut state = self.shared.state();
            let fits = |(fault, _): &(ReadFault, u64)| is_watch || !fault.is_of_watches();
            let Some(index) = state.read_faults.iter().position(fits) else {
                return;
            };
            let fault = state.read_faults[index].0;
            state.read_faults[index].1 -= 1;
            state.read_faults.retain(|(_, left)| *left > 0);
            fault
        };
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
        let fault = self.write_fault(write.method == "POST");
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
