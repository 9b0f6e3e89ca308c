//! A reflector and its cache on virtual time; the test plays the server.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;
use core::time::Duration;

use crate::cache::{Cache, Identity, ObjectNotification, Recording, SourceId, Step, object_of};
use crate::decode::{Decode, RawObject};
use crate::informer::PolledInformer;
use crate::object::{Object, ResourceVersion};
use crate::reflector::{Change, Initial, Output, ReflectorConfig, RequestId, Restored};
use crate::report::Report;
use crate::resource::Resource;
use crate::storage::{Heap, Storage};
use crate::time::Instant;
use crate::transport::{End, FailureKind, Head, TransportFailure};
use crate::{
    Notification,
    report::{Level, Phase},
};

pub(super) type Decoder = fn(&RawObject<'_>) -> Result<String, &'static str>;

/// Stores the text of `spec`; rejects objects that request it.
pub(super) fn decode(raw: &RawObject<'_>) -> Result<String, &'static str> {
    let text = String::from_utf8_lossy(raw.json()).into_owned();
    if text.contains("\"undecodable\"") {
        return Err("it says so");
    }
    Ok(text)
}

/// A report as the user gets it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reported {
    pub(super) phase: Phase,
    pub(super) class: &'static str,
    pub(super) level: Level,
    pub(super) permanent: bool,
    pub(super) retry_in: Option<Duration>,
    pub(super) key: Option<String>,
    pub(super) text: String,
}

pub(super) struct World {
    pub(super) informer: PolledInformer<Resource<'static>, Decoder, Heap, Had>,
    pub(super) now: Instant,
    /// The request that the server has, and whether its head was answered.
    pub(super) open: Option<(RequestId, bool)>,
    /// Requests that were sent and not expected yet, with their time.
    asked: VecDeque<(Instant, RequestId, String)>,
    pub(super) count: usize,
    pub(super) cancelled: usize,
    deadline: Option<Instant>,
    reports: Vec<Reported>,
    notified: Vec<String>,
}

/// A journal that has one object, and records nothing.
pub(super) struct Had;

impl Recording for Had {
    fn restore<D: Decode, S: Storage<Text: PartialEq>>(
        &mut self,
        _identity: &Identity,
        decode: &D,
        cache: &mut Cache<Object<D::Value, S::Text>, S>,
        source: SourceId,
        _notify: &mut impl FnMut(ObjectNotification<'_, D::Value, S::Text>),
        report: &mut dyn FnMut(Report<'_>),
    ) -> Option<Restored<S::Text>> {
        let (json, version) = (pod("a", 5), ResourceVersion::new("10"));
        let raw = RawObject::parse(json.as_bytes());
        let object = object_of(decode.restore(&raw), &raw, "a", report)?;
        for step in [
            Step::Begin,
            Step::object(Change::Listed, "a", object),
            Step::Restored(version.clone()),
        ] {
            cache.apply(source, step, &mut ()).ok()?;
        }
        Some(Restored {
            version,
            at: Some(7),
            complete: true,
        })
    }
}

pub(super) fn pods() -> Resource<'static> {
    Resource::new("", "v1", "pods").kind("Pod")
}

pub(super) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl World {
    /// Starts with a LIST.
    pub(super) fn list() -> Self {
        Self::new(ReflectorConfig::list())
    }

    /// Starts with a streaming list.
    pub(super) fn stream() -> Self {
        Self::new(ReflectorConfig::default())
    }

    /// Behaves like client-go, in either mode.
    pub(super) fn client_go(initial: Initial) -> Self {
        Self::new(ReflectorConfig {
            initial,
            client_go: true,
            ..Default::default()
        })
    }

    pub(super) fn new(config: ReflectorConfig) -> Self {
        Self::of(pods(), config, 7)
    }

    pub(super) fn of(resource: Resource<'static>, config: ReflectorConfig, seed: u64) -> Self {
        let informer = PolledInformer::new(resource, decode as Decoder, config, seed);
        Self::at(0, informer.with_recorder(Had))
    }

    fn at(micros: u64, informer: PolledInformer<Resource<'static>, Decoder, Heap, Had>) -> Self {
        let mut world = Self {
            informer,
            now: Instant::from_micros(micros),
            open: None,
            asked: VecDeque::new(),
            count: 0,
            cancelled: 0,
            deadline: None,
            reports: Vec::new(),
            notified: Vec::new(),
        };
        world.pump();
        world
    }

    /// Starts from a journal that has pod `a`@5 at version 10.
    pub(super) fn resuming(config: ReflectorConfig) -> Self {
        let mut informer =
            PolledInformer::new(pods(), decode as Decoder, config, 7).with_recorder(Had);
        let restored = informer.restore("", &mut |report| {
            panic!("{report}");
        });
        assert_eq!(restored.map(|restored| restored.at), Some(Some(7)));
        let mut world = Self::at(1, informer);
        world.notified(&["add* a@5"]);
        world.expect("WATCH resourceVersion=10");
        world
    }

    /// Continues to the state after `LIST` at version 10 with pod `a`@5, watching.
    pub(super) fn watching(mut self) -> Self {
        self.expect("LIST limit=500 resourceVersion=0");
        self.answer(200, &list("10", &[pod("a", 5)]));
        self.expect("WATCH resourceVersion=10");
        self.notified(&["add* a@5", "synced"]);
        self.no_reports();
        self
    }

    /// Continues to the state after a streaming list with pod `a`@5 and its end at version 10, with the stream still
    /// open.
    pub(super) fn streaming(mut self) -> Self {
        self.expect("STREAM");
        self.events(&[added("a", 5), end_bookmark(10)]);
        self.notified(&["add* a@5", "synced"]);
        self.no_reports();
        self
    }

    /// Does what the reflector requests.
    pub(super) fn pump(&mut self) {
        loop {
            match self.informer.poll_output(self.now) {
                Output::Report(report) => {
                    let report = reported(&report);
                    self.reports.push(report);
                }
                Output::Cancel(id) => {
                    assert_eq!(
                        self.open.take().map(|(id, _)| id),
                        Some(id),
                        "only an open request is cancelled"
                    );
                    self.cancelled += 1;
                }
                Output::Send(request) => {
                    let mut target = String::new();
                    request.write_target(&mut target).unwrap();
                    let id = request.id();
                    assert!(self.open.is_none(), "one request at a time: {target}");
                    self.open = Some((id, false));
                    self.count += 1;
                    self.asked.push_back((self.now, id, shown(&target)));
                }
                Output::Wait(deadline) => {
                    assert!(deadline.is_none_or(|at| at > self.now), "a deadline ahead");
                    self.deadline = deadline;
                    break;
                }
            }
        }
        self.pop();
    }

    fn pop(&mut self) {
        while let Some(notified) = self.informer.pop() {
            let text = match notified {
                Notification::Added {
                    entry: (key, object),
                    is_in_initial_list,
                } => {
                    let initial = if is_in_initial_list { "*" } else { "" };
                    format!(
                        "add{initial} {}@{}",
                        key.as_ref(),
                        object.resource_version()
                    )
                }
                Notification::Updated {
                    old: (_, old),
                    new: (key, object),
                } => {
                    let (old, new) = (old.resource_version(), object.resource_version());
                    format!("update {}@{old}->{new}", key.as_ref())
                }
                Notification::Replayed {
                    entry: (key, object),
                    ..
                } => {
                    format!("replay {}@{}", key.as_ref(), object.resource_version())
                }
                Notification::Deleted {
                    entry: (key, object),
                    final_state_unknown,
                } => {
                    let unknown = if final_state_unknown { "?" } else { "" };
                    format!(
                        "delete{unknown} {}@{}",
                        key.as_ref(),
                        object.resource_version()
                    )
                }
                Notification::Synced => "synced".to_string(),
            };
            self.notified.push(text);
        }
    }

    /// Expects the next request, which was sent at this time.
    #[track_caller]
    pub(super) fn expect(&mut self, request: &str) {
        let Some((at, id, asked)) = self.asked.pop_front() else {
            panic!(
                "nothing is asked; expected {request}; reports: {:?}",
                self.reports
            );
        };
        assert_eq!(asked, request);
        assert_eq!(at, self.now, "at once");
        assert_eq!(self.open, Some((id, false)));
    }

    /// Expects no request now, and the next one after a delay of `base` to twice that.
    #[track_caller]
    pub(super) fn expect_after(&mut self, base: Duration, request: &str) -> Duration {
        self.expect_within(base, base * 2, request)
    }

    #[track_caller]
    pub(super) fn expect_within(
        &mut self,
        from: Duration,
        to: Duration,
        request: &str,
    ) -> Duration {
        self.nothing_asked();
        let start = self.now;
        let Some(at) = self.deadline else {
            panic!("it never sends a request");
        };
        self.now = at;
        self.pump();
        let delay = at - start;
        assert!(
            delay >= from && delay <= to,
            "{delay:?} is not in {from:?}..={to:?}"
        );
        self.expect(request);
        delay
    }

    /// Expects no request before this time, and waits until it.
    #[track_caller]
    pub(super) fn expect_after_exactly(&mut self, delay: Duration) {
        self.nothing_asked();
        self.wait(delay - ms(1)).nothing_asked();
        self.wait(ms(1));
    }

    #[track_caller]
    pub(super) fn nothing_asked(&mut self) {
        if let Some((_, _, asked)) = self.asked.front() {
            panic!("nothing should be asked, but {asked} was");
        }
    }

    /// Returns the next request of any kind.
    pub(super) fn next_request(&mut self) -> Option<String> {
        self.asked.pop_front().map(|(_, _, asked)| asked)
    }

    /// Advances time.
    pub(super) fn wait(&mut self, time: Duration) -> &mut Self {
        let until = self.now + time;
        while let Some(at) = self.deadline.filter(|&at| at <= until) {
            self.now = at;
            self.pump();
            if self.asked.len() > 1 {
                break;
            }
        }
        self.now = until;
        self.pump();
        self
    }

    /// Relists as a user would.
    pub(super) fn relist(&mut self) {
        self.informer.relist(self.now);
        self.pump();
    }

    /// Advances to the next deadline.
    pub(super) fn jump(&mut self) {
        self.now = self.deadline.expect("a deadline");
        self.pump();
    }

    fn current(&self) -> RequestId {
        self.open.expect("a request is open").0
    }

    pub(super) fn head(&mut self, head: Head) -> &mut Self {
        let id = self.current();
        self.informer.handle_head(self.now, id, head);
        self.open = Some((id, true));
        self.pump();
        self
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        let id = self.current();
        let mut rest = bytes;
        while !rest.is_empty() {
            let reports = &mut self.reports;
            let taken = self
                .informer
                .handle_data(self.now, id, rest, &mut |report| {
                    reports.push(reported(&report));
                });
            rest = &rest[taken..];
            self.pop();
        }
        self.pump();
        self
    }

    pub(super) fn end(&mut self, end: End) -> &mut Self {
        let id = self.current();
        self.open = None;
        self.informer.handle_end(self.now, id, end);
        self.pump();
        self
    }

    /// Sends a complete answer.
    pub(super) fn answer(&mut self, status: u16, body: &str) {
        self.answer_with(Head::new(status), body);
    }

    pub(super) fn answer_with(&mut self, head: Head, body: &str) {
        let id = self.current();
        self.head(head);
        self.bytes(body.as_bytes());
        // The result of reading may have led to another request already.
        if self.open.is_some_and(|(open, _)| open == id) {
            self.end(End::Clean);
        }
    }

    /// Sends events on the open watch, after the head if that was not sent.
    pub(super) fn events(&mut self, events: &[String]) -> &mut Self {
        if self.open.is_some_and(|(_, answered)| !answered) {
            self.head(Head::new(200));
        }
        let body: String = events.iter().map(|event| format!("{event}\n")).collect();
        self.bytes(body.as_bytes())
    }

    /// Ends the watch, after the head if that was not sent.
    pub(super) fn close(&mut self) {
        if self.open.is_some_and(|(_, answered)| !answered) {
            self.head(Head::new(200));
        }
        self.end(End::Clean);
    }

    pub(super) fn fail(&mut self, kind: FailureKind) {
        self.end(End::Failed(TransportFailure::new(kind)));
    }

    pub(super) fn take_reports(&mut self) -> Vec<Reported> {
        core::mem::take(&mut self.reports)
    }

    /// Takes the only report.
    #[track_caller]
    pub(super) fn report(&mut self) -> Reported {
        let mut reports = self.take_reports();
        assert_eq!(reports.len(), 1, "{reports:?}");
        reports.remove(0)
    }

    #[track_caller]
    pub(super) fn reports(&mut self, expected: &[&str]) {
        let reports = self.take_reports();
        let classes: Vec<_> = reports.iter().map(|report| report.class).collect();
        assert_eq!(classes, expected, "{reports:?}");
    }

    #[track_caller]
    pub(super) fn no_reports(&mut self) {
        self.reports(&[]);
    }

    #[track_caller]
    pub(super) fn notified(&mut self, expected: &[&str]) {
        assert_eq!(core::mem::take(&mut self.notified), expected);
    }

    /// Checks the contents of the cache, in order of keys.
    #[track_caller]
    pub(super) fn holds(&self, expected: &[&str]) {
        let cache = self.informer.cache();
        let mut held: Vec<_> = cache
            .iter()
            .map(|(key, object)| format!("{}@{}", key.as_ref(), object.resource_version()))
            .collect();
        held.sort();
        assert_eq!(held, expected);
    }

    #[track_caller]
    pub(super) fn version(&self, expected: &str) {
        assert_eq!(self.informer.reflector().version().to_string(), expected);
    }
}

fn reported(report: &Report<'_>) -> Reported {
    Reported {
        phase: report.phase,
        class: report.class(),
        level: report.level,
        permanent: report.is_permanent(),
        retry_in: report.retry_in,
        key: report.key().map(Into::into),
        text: report.to_string(),
    }
}

/// Returns a request in short form: the constant parameters of a watch are checked and omitted, the others are sorted
/// by name.
pub(super) fn shown(target: &str) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    assert_eq!(path, "/api/v1/pods");
    let mut pairs: Vec<_> = query.split('&').filter(|pair| !pair.is_empty()).collect();
    pairs.sort_unstable();
    let mut take = |wanted: &str| {
        let at = pairs.iter().position(|pair| *pair == wanted);
        at.map(|at| pairs.remove(at)).is_some()
    };
    let mut text = String::new();
    if take("watch=true") {
        assert!(take("allowWatchBookmarks=true"), "{target}");
        let stream = take("sendInitialEvents=true");
        assert_eq!(
            stream,
            take("resourceVersionMatch=NotOlderThan"),
            "{target}"
        );
        text.push_str(if stream { "STREAM" } else { "WATCH" });
        let at = pairs
            .iter()
            .position(|pair| pair.starts_with("timeoutSeconds="))
            .unwrap();
        let seconds: u32 = pairs.remove(at)["timeoutSeconds=".len()..].parse().unwrap();
        assert!((300..=600).contains(&seconds), "{target}");
    } else {
        text.push_str("LIST");
    }
    for pair in pairs {
        write!(text, " {pair}").unwrap();
    }
    text
}

pub(super) fn pod(name: &str, version: u32) -> String {
    format!(r#"{{"metadata":{{"name":"{name}","uid":"u-{name}","resourceVersion":"{version}"}}}}"#)
}

fn typed(name: &str, version: u32) -> String {
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1",{}"#,
        &pod(name, version)[1..]
    )
}

pub(super) fn list(version: &str, items: &[String]) -> String {
    page(version, "", items)
}

pub(super) fn page(version: &str, token: &str, items: &[String]) -> String {
    let items = items.join(",");
    format!(
        r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","continue":"{token}"}},"items":[{items}]}}"#
    )
}

pub(super) fn event(kind: &str, object: &str) -> String {
    format!(r#"{{"type":"{kind}","object":{object}}}"#)
}

pub(super) fn added(name: &str, version: u32) -> String {
    event("ADDED", &typed(name, version))
}

pub(super) fn modified(name: &str, version: u32) -> String {
    event("MODIFIED", &typed(name, version))
}

pub(super) fn deleted(name: &str, version: u32) -> String {
    event("DELETED", &typed(name, version))
}

pub(super) fn bookmark(version: u32) -> String {
    let object = format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","creationTimestamp":null}}}}"#
    );
    event("BOOKMARK", &object)
}

pub(super) fn end_bookmark(version: u32) -> String {
    end_bookmark_saying(version, "true")
}

pub(super) fn end_bookmark_saying(version: u32, value: &str) -> String {
    let object = format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","annotations":{{"k8s.io/initial-events-end":"{value}"}}}}}}"#
    );
    event("BOOKMARK", &object)
}

pub(super) fn status(code: u16, reason: &str) -> String {
    status_saying(code, reason, "it went wrong", "")
}

pub(super) fn status_saying(code: u16, reason: &str, message: &str, causes: &str) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"{message}","reason":"{reason}","details":{{"causes":[{causes}]}},"code":{code}}}"#
    )
}

pub(super) fn error_event(code: u16, reason: &str) -> String {
    event("ERROR", &status(code, reason))
}
