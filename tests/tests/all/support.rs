//! What tests of informers on tokio share: a server with Pods, informers of them, and their reports.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use informer_core::reflector::Initial;
use informer_core::{Decode, Decoder, Form, Resource};
use informer_mock::{
    Backend, FakeServer, Mock, MockTransport, ObjectRef, ScriptedServer, TokioClock, json,
};
use informer_tests::{next, shown};
use informer_tokio::handler::{AsyncEventHandler, EventHandler};
use informer_tokio::informer::{Builder, Driver};
use informer_tokio::{Entry, Informer, Raw, Subscription};
use serde_json::Value;
use tokio::time::sleep;

pub(crate) const PODS: Resource<'static> = Resource::new("", "v1", "pods").kind("Pod");

pub(crate) type Server = Mock<FakeServer, TokioClock>;
pub(crate) type RawDriver = Driver<MockTransport<FakeServer, TokioClock>, Decoder<Raw>>;

/// Returns a server with these Pods, at the versions from 2 on.
pub(crate) fn server(names: &[&str]) -> Server {
    let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
    for name in names {
        mock.create("pods", pod(name, 1)).expect("it is new");
    }
    mock
}

/// A Pod of the namespace `prod` on the node `n{round}`.
pub(crate) fn pod(name: &str, round: u64) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "prod", "labels": { "round": round.to_string() } },
        "spec": { "nodeName": format!("n{round}") },
    })
}

/// A server that answers from a script.
pub(crate) fn script(script: &Value) -> Mock<ScriptedServer, TokioClock> {
    let server = ScriptedServer::from_json(&script.to_string()).expect("it is a script");
    Mock::with_clock(server, TokioClock::new())
}

/// A Pod at a version, for scripts.
pub(crate) fn at(name: &str, version: u32) -> Value {
    json!({ "kind": "Pod", "metadata": { "name": name, "namespace": "prod", "resourceVersion": version.to_string() } })
}

/// The answer to a list, for scripts.
pub(crate) fn list(version: u32, items: &[Value]) -> Value {
    json!({ "body": { "kind": "PodList", "metadata": { "resourceVersion": version.to_string() }, "items": items } })
}

/// An event of a watch, for scripts.
pub(crate) fn event(kind: &str, object: &Value) -> Value {
    json!({ "type": kind, "object": object })
}

pub(crate) fn informer(mock: &Server) -> (Informer<Raw>, RawDriver) {
    Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .seed(1)
        .build()
}

pub(crate) fn start(mock: &Server) -> Informer<Raw> {
    let (pods, driver) = informer(mock);
    tokio::spawn(driver.run());
    pods
}

/// Starts an informer, and records its reports.
pub(crate) fn start_with<B: Backend + Send + 'static>(
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
pub(crate) struct Recorder {
    pub(crate) heard: Heard,
    pub(crate) sleep: Duration,
}

pub(crate) type Heard = Arc<Mutex<Vec<String>>>;

impl Recorder {
    pub(crate) fn note(&self, text: String) {
        let mut heard = self.heard.lock().expect("no test panics with it");
        heard.push(text);
    }

    pub(crate) fn take(&self) -> Vec<String> {
        core::mem::take(&mut *self.heard.lock().expect("no test panics with it"))
    }

    pub(crate) fn sorted(&self) -> Vec<String> {
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
pub(crate) struct Reports(Arc<Mutex<Vec<(&'static str, String)>>>);

impl Reports {
    pub(crate) fn of<T, F: Form>(&self, builder: Builder<T, F>) -> Builder<T, F>
    where
        F::Decoder: Decode<Value = F::Stored>,
    {
        let reports = Arc::clone(&self.0);
        builder.on_report(move |report| {
            let key = report.key().unwrap_or_default().to_owned();
            let mut reports = reports.lock().expect("no test panics with it");
            reports.push((report.class(), key));
        })
    }

    pub(crate) fn take(&self) -> Vec<(&'static str, String)> {
        core::mem::take(&mut *self.0.lock().expect("no test panics with it"))
    }

    pub(crate) fn classes(&self) -> Vec<&'static str> {
        self.take().into_iter().map(|(class, _)| class).collect()
    }
}

pub(crate) async fn shown_next<F: Form>(events: &mut Subscription<F>, count: usize) -> Vec<String> {
    let mut seen = Vec::new();
    for _ in 0..count {
        seen.push(shown(&next(events).await));
    }
    seen
}

/// Runs everything that is ready.
pub(crate) async fn settle() {
    sleep(Duration::from_millis(10)).await;
}

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The server's objects or an informer's objects, as text.
pub(crate) fn truth(mock: &Server) -> BTreeMap<String, String> {
    mock.with(|server| {
        let object = |object: ObjectRef<'_>| (object.key(), object.version().to_string());
        server.objects("pods").map(object).collect()
    })
}

pub(crate) fn held<F: Form>(pods: &Informer<F>) -> BTreeMap<String, String> {
    let entry = |entry: &Entry<F>| {
        (
            entry.key().to_string(),
            entry.resource_version().to_string(),
        )
    };
    pods.lister().list().iter().map(entry).collect()
}
