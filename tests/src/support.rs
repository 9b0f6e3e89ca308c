//! What tests of informers on tokio share: a server, informers of its Pods, and what these notify and report.
//!
//! The tests of the crates that this one depends on include this file by its path.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use informer_core::json::as_str;
use informer_mock::{
    Backend, FakeServer, Mock, MockTransport, ObjectRef, RequestLog, ScriptedServer, TokioClock,
    Value, json,
};
use informer_tokio::decode::{Decode, Decoder};
use informer_tokio::handler::{AsyncEventHandler, EventHandler};
use informer_tokio::informer::{Builder, Driver, Initial};
use informer_tokio::{Entry, Event, Form, Informer, Raw, Resource, Subscription, kind};
use serde::Deserialize;
use tokio::time::{sleep, timeout};

/// The time limit for an expected event. It is no measure of speed.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Pods of all namespaces.
pub const PODS: Resource<'static> = Resource::new("", "v1", "pods").kind("Pod");

/// A server on the clock of tokio.
pub type Server = Mock<FakeServer, TokioClock>;

/// The driver of an informer of [`PODS`].
pub type RawDriver = Driver<MockTransport<FakeServer, TokioClock>, Decoder<Raw>>;

/// The versions of objects, by key.
pub type Known = BTreeMap<String, String>;

/// Returns a server without objects.
pub fn server() -> Server {
    Mock::with_clock(FakeServer::new(1), TokioClock::new())
}

/// Returns a server with these Pods, at the versions from 2 on.
pub fn server_of<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Server {
    let mock = server();
    for name in names {
        let pod = pod(name.as_ref(), 1);
        mock.create("pods", pod).expect("it is new");
    }
    mock
}

/// Returns the names `p0`, `p1` and so on.
pub fn numbered(count: u64) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("p{number}"))
}

/// A Pod of the namespace `prod` on the node `n{round}`.
pub fn pod(name: &str, round: u64) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "prod" },
        "spec": { "nodeName": format!("n{round}") },
    })
}

/// A Pod of which only the node is read.
#[derive(Deserialize)]
pub struct Pod {
    /// The specification.
    pub spec: Spec,
}

/// The specification of a [`Pod`].
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// The name of the node.
    pub node_name: String,
}

kind!(Pod, "v1", "pods", "Pod");

/// An index by the node.
pub fn node(pod: &Raw, value: &mut dyn FnMut(&str)) {
    let node = pod.at(&["spec", "nodeName"]);
    if let Some(node) = node.and_then(as_str) {
        value(&node.to_string());
    }
}

/// Runs a test in a process of its own, unless this is one. Returns whether the caller is to run it.
///
/// A subscriber of `tracing` that belongs to a thread may miss what other threads use for the first time while it is set.
pub fn is_alone(test: &str) -> bool {
    const ALONE: &str = "INFORMER_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let program = std::env::current_exe().expect("it runs");
    let output = std::process::Command::new(program)
        .args(["--exact", test])
        .env(ALONE, "1")
        .output();
    let output = output.expect("it can be started");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "there is no test {test}: {text}");
    false
}

/// A server that answers from a script.
pub fn script(script: &Value) -> Mock<ScriptedServer, TokioClock> {
    let server = ScriptedServer::from_json(&script.to_string()).expect("it is a script");
    Mock::with_clock(server, TokioClock::new())
}

/// A Pod at a version, for scripts.
pub fn at(name: &str, version: u32) -> Value {
    json!({ "kind": "Pod", "metadata": { "name": name, "namespace": "prod", "resourceVersion": version.to_string() } })
}

/// The answer to a list, for scripts.
pub fn list(version: u32, items: &[Value]) -> Value {
    json!({ "body": { "kind": "PodList", "metadata": { "resourceVersion": version.to_string() }, "items": items } })
}

/// An event of a watch, for scripts.
pub fn event(kind: &str, object: &Value) -> Value {
    json!({ "type": kind, "object": object })
}

/// The bookmark that ends a streaming list, for scripts.
pub fn end_of_stream(version: u32) -> Value {
    let metadata = json!({ "resourceVersion": version.to_string(), "annotations": { "k8s.io/initial-events-end": "true" } });
    let pod = json!({ "kind": "Pod", "apiVersion": "v1", "metadata": metadata });
    event("BOOKMARK", &pod)
}

/// The seconds between requests.
pub fn gaps(log: &RequestLog) -> Vec<f64> {
    let times: Vec<_> = log.iter().map(|request| request.at).collect();
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    gaps.map(|gap| gap.as_secs_f64()).collect()
}

/// Creates an informer of [`PODS`].
pub fn informer(mock: &Server) -> (Informer<Raw>, RawDriver) {
    Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .seed(1)
        .build()
}

/// Starts an informer of [`PODS`].
pub fn start(mock: &Server) -> Informer<Raw> {
    let (pods, driver) = informer(mock);
    tokio::spawn(driver.run());
    pods
}

/// Starts an informer, and records its reports.
pub fn start_with<B: Backend + Send + 'static>(
    mock: &Mock<B, TokioClock>,
    initial: Initial,
) -> (Informer<Raw>, Reports) {
    let reports = Reports::default();
    let builder = Informer::<Raw>::builder_for(&mock.transport(), PODS).initial(initial);
    let pods = reports.of(builder.seed(1)).spawn();
    (pods, reports)
}

/// A handler that records events as `++a`, `+a`, `~a`, `=a`, `-a`. With calls that await, it sleeps before each.
#[derive(Clone, Default)]
pub struct Recorder {
    /// The events.
    pub heard: Heard,
    /// How long it sleeps.
    pub sleep: Duration,
}

/// Events as text.
pub type Heard = Arc<Mutex<Vec<String>>>;

impl Recorder {
    /// Records an event.
    pub fn note(&self, text: String) {
        let mut heard = self.heard.lock().expect("no test panics with it");
        heard.push(text);
    }

    /// Returns the events since the last call.
    pub fn take(&self) -> Vec<String> {
        core::mem::take(&mut *self.heard.lock().expect("no test panics with it"))
    }

    /// Returns the events since the last call, sorted.
    pub fn sorted(&self) -> Vec<String> {
        let mut heard = self.take();
        heard.sort();
        heard
    }
}

impl<F: Form> EventHandler<F> for Recorder {
    fn on_add(&mut self, entry: &Entry<F>, is_in_initial_list: bool) {
        let sign = if is_in_initial_list { "++" } else { "+" };
        self.note(format!("{sign}{}", entry.name()));
    }

    fn on_update(&mut self, old: &Entry<F>, new: &Entry<F>) {
        let sign = if old.is_same_state(new) { "=" } else { "~" };
        self.note(format!("{sign}{}", new.name()));
    }

    fn on_delete(&mut self, entry: &Entry<F>, _: bool) {
        self.note(format!("-{}", entry.name()));
    }
}

impl AsyncEventHandler<Raw> for Recorder {
    async fn on_add(&mut self, entry: &Entry<Raw>, is_in_initial_list: bool) {
        sleep(self.sleep).await;
        EventHandler::on_add(self, entry, is_in_initial_list);
    }

    async fn on_update(&mut self, old: &Entry<Raw>, new: &Entry<Raw>) {
        sleep(self.sleep).await;
        EventHandler::on_update(self, old, new);
    }

    async fn on_delete(&mut self, entry: &Entry<Raw>, is_unknown: bool) {
        sleep(self.sleep).await;
        EventHandler::on_delete(self, entry, is_unknown);
    }
}

/// The reports of an informer: classes and keys.
#[derive(Clone, Default)]
pub struct Reports(Arc<Mutex<Vec<(&'static str, String)>>>);

impl Reports {
    /// Records the reports of an informer.
    pub fn of<T, F, D>(&self, builder: Builder<T, F, D>) -> Builder<T, F, D>
    where
        F: Form,
        D: Decode<Value = F::Stored>,
    {
        let reports = Arc::clone(&self.0);
        builder.on_report(move |report| {
            let key = report.key().unwrap_or_default().to_owned();
            let mut reports = reports.lock().expect("no test panics with it");
            reports.push((report.class(), key));
        })
    }

    /// Returns the reports since the last call.
    pub fn take(&self) -> Vec<(&'static str, String)> {
        core::mem::take(&mut *self.0.lock().expect("no test panics with it"))
    }

    /// Returns the classes of the reports since the last call.
    pub fn classes(&self) -> Vec<&'static str> {
        self.take().into_iter().map(|(class, _)| class).collect()
    }
}

/// Waits for the next event of a subscription.
///
/// # Panics
/// If there is none in time, or the informer has ended.
pub async fn next<F: Form>(events: &mut Subscription<F>) -> Event<F> {
    let event = timeout(PATIENCE, events.recv()).await;
    let Ok(Some(event)) = event else {
        panic!(
            "there is no next event: {event:?}",
            event = event.map(|_| "the informer ended")
        );
    };
    event
}

/// Waits for this many events, and returns them as text.
pub async fn shown_next<F: Form>(events: &mut Subscription<F>, count: usize) -> Vec<String> {
    let mut seen = Vec::new();
    for _ in 0..count {
        seen.push(shown(&next(events).await));
    }
    seen
}

/// Returns the events that have arrived.
pub async fn arrived<F: Form>(events: &mut Subscription<F>) -> Vec<Event<F>> {
    let mut seen = Vec::new();
    while let Ok(Some(event)) = timeout(Duration::from_millis(1), events.recv()).await {
        seen.push(event);
    }
    seen
}

/// Formats an event: `++key@version` is an add in the initial state; `+`, `~` and `-` are an add, an update and a
/// deletion after it; `-?` is an unobserved deletion; `=` is a replay.
pub fn shown<F: Form>(event: &Event<F>) -> String {
    signed(event, |entry| {
        format!("{}@{}", entry.key(), entry.resource_version())
    })
}

/// Formats an event as [`shown`] does, with the name alone: `++name`.
pub fn named<F: Form>(event: &Event<F>) -> String {
    signed(event, |entry| entry.name().to_owned())
}

fn signed<F: Form>(event: &Event<F>, name: impl Fn(&Entry<F>) -> String) -> String {
    let (sign, entry) = match event {
        Event::Added {
            entry,
            is_in_initial_list: true,
        } => ("++", entry),
        Event::Added { entry, .. } => ("+", entry),
        Event::Updated { new, .. } => ("~", new),
        Event::Replayed { entry, .. } => ("=", entry),
        Event::Deleted {
            entry,
            final_state_unknown: true,
        } => ("-?", entry),
        Event::Deleted { entry, .. } => ("-", entry),
        Event::Synced => return "synced".to_owned(),
        _ => return "?".to_owned(),
    };
    format!("{sign}{}", name(entry))
}

/// Runs everything that is ready.
pub async fn settle() {
    sleep(Duration::from_millis(10)).await;
}

/// Returns a time in seconds.
pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns the Pods of the server.
pub fn truth(mock: &Server) -> Known {
    truth_of(mock, "pods")
}

/// Returns the objects of the server.
pub fn truth_of(mock: &Server, resource: &str) -> Known {
    mock.with(|server| {
        let object = |object: ObjectRef<'_>| (object.key(), object.version().to_string());
        server.objects(resource).map(object).collect()
    })
}

/// Returns the objects of an informer.
pub fn held<F: Form>(informer: &Informer<F>) -> Known {
    let object = |entry: &Entry<F>| {
        let version = entry.resource_version().to_string();
        (entry.key().to_string(), version)
    };
    informer.lister().list().iter().map(object).collect()
}

/// Returns the keys of the objects of an informer.
pub fn keys<F: Form>(informer: &Informer<F>) -> Vec<String> {
    held(informer).into_keys().collect()
}

/// Returns the names of objects, sorted and joined by `,`.
pub fn names<F: Form>(entries: &[Entry<F>]) -> String {
    let mut names: Vec<_> = entries.iter().map(Entry::name).collect();
    names.sort_unstable();
    names.join(",")
}
