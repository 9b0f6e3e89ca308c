//! Invalid input through the whole informer: one report each, of the right class, and no other loss.

use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informer_core::{Decoder, Form, reflector::Initial, time::BackoffConfig};
use informer_hyper::HyperTransport;
use informer_mock::{Body as _, FakeServer, Fault, Get, Mock, TokioClock, Verb, json, serve};
use informer_tests::{next, shown};
use informer_tokio::decode::Decode;
use informer_tokio::informer::Driver;
use informer_tokio::transport::Transport;
use informer_tokio::{Informer, Meta, Raw, Resource, Subscription};
use serde::Deserialize;

const PODS: Resource<'static> = Resource::new("", "v1", "pods").kind("Pod");

type Server = Mock<FakeServer, TokioClock>;

#[derive(Deserialize)]
#[expect(dead_code, reason = "it is decoded, and that is all")]
struct Pod {
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it is decoded, and that is all")]
struct Spec {
    node_name: String,
}

/// The forms in which objects are stored.
trait Tried:
    Form<
        Stored: Send + Sync + 'static,
        Decoder: Decode<Value = <Self as Form>::Stored> + Default + Send + Sync + 'static,
    >
{
    const NAME: &'static str;
}

impl Tried for Raw {
    const NAME: &'static str = "raw";
}

impl Tried for Meta {
    const NAME: &'static str = "metadata";
}

impl Tried for Pod {
    const NAME: &'static str = "typed";
}

/// Calls a function for each form.
macro_rules! each_form {
    ($function:ident($($argument:expr),*)) => {
        $function::<Raw>($($argument),*).await;
        $function::<Meta>($($argument),*).await;
        $function::<Pod>($($argument),*).await;
    };
}

fn pod(name: &str) -> serde_json::Value {
    json!({ "metadata": { "name": name, "namespace": "prod" }, "spec": { "nodeName": "n1" } })
}

/// A server with `prod/a` at version 2, `prod/b` at 3 and `prod/c` at 4.
fn server() -> Server {
    let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
    for name in ["a", "b", "c"] {
        mock.create("pods", pod(name)).expect("it is new");
    }
    mock
}

type Reports = Arc<Mutex<Vec<(&'static str, String)>>>;

/// An informer with its notifications and its reports.
struct World<F: Form> {
    informer: Informer<F>,
    events: Subscription<F>,
    reports: Reports,
    /// The name of the case, for messages.
    what: String,
}

impl<F: Tried> World<F> {
    fn build<T: Transport + Clone>(transport: T, what: &str) -> (Self, Driver<T, F::Decoder>) {
        let reports = Reports::default();
        let mut backoff = BackoffConfig::default();
        // In real time, waiting would show nothing.
        backoff.initial = Duration::from_millis(1);
        let (informer, driver) = Informer::<F>::builder_for(&transport, PODS)
            .initial(Initial::List)
            .seed(1)
            .backoff(backoff)
            .on_report({
                let reports = Arc::clone(&reports);
                move |report| {
                    let key = report.key().unwrap_or_default().to_owned();
                    lock(&reports).push((report.class(), key));
                }
            })
            .build();
        let events = informer.subscribe();
        let what = format!("{what}, {}", F::NAME);
        (
            Self {
                informer,
                events,
                reports,
                what,
            },
            driver,
        )
    }

    fn start(mock: &Server, what: &str) -> Self {
        let (world, driver) = Self::build(mock.transport(), what);
        tokio::spawn(driver.run());
        world
    }

    /// Waits for `count` events; returns them, with those before the synced event sorted.
    async fn told(&mut self, count: usize) -> Vec<String> {
        let mut told = Vec::new();
        for _ in 0..count {
            told.push(shown(&next(&mut self.events).await));
        }
        let synced = told.iter().position(|event| event == "synced").unwrap_or(0);
        told[..synced].sort();
        told
    }

    #[track_caller]
    fn reported(&self, wanted: &[(&'static str, &str)]) {
        let reports: Vec<_> = lock(&self.reports).drain(..).collect();
        let wanted: Vec<_> = wanted
            .iter()
            .map(|(class, key)| (*class, (*key).to_owned()))
            .collect();
        assert_eq!(reports, wanted, "{}", self.what);
    }

    /// Checks that the cache equals the server's state.
    #[track_caller]
    fn holds_all_of(&self, mock: &Server) {
        let mut here: Vec<String> = self
            .informer
            .lister()
            .list()
            .iter()
            .map(|entry| format!("{}@{}", entry.key(), entry.resource_version()))
            .collect();
        here.sort();
        let there: Vec<String> = mock.with(|server| {
            server
                .objects("pods")
                .map(|pod| format!("{}@{}", pod.key(), pod.version()))
                .collect()
        });
        assert_eq!(here, there, "{}", self.what);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs everything that is ready.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

/// Returns a Pod with an additional member, as bytes.
fn with(name: &str, more: &[u8]) -> Vec<u8> {
    let start = format!(
        "{{\"metadata\":{{\"name\":\"{name}\",\"namespace\":\"prod\",\"uid\":\"bad\",\"resourceVersion\":\"5\"}},\
         \"spec\":{{\"nodeName\":\"n1\"}}"
    );
    [start.as_bytes(), b",", more, b"}"].concat()
}

/// Unusable objects that have an identity, and the class of their report.
fn unusable(name: &str) -> Vec<(&'static str, Vec<u8>)> {
    let text = |fill: &[u8]| [b"\"data\":\"", fill, b"\""].concat();
    let deep = [
        "\"data\":".to_owned(),
        "[".repeat(10_000),
        "]".repeat(10_000),
    ]
    .concat();
    vec![
        ("object-too-large", with(name, &text(&vec![b'x'; 20 << 20]))),
        ("object-too-deep", with(name, deep.as_bytes())),
        ("object-not-utf8", with(name, &text(b"\xff\xfe"))),
    ]
}

/// A Pod whose `nodeName` is not a string, which matters only to forms that read it.
fn of_another_form(name: &str) -> Vec<u8> {
    let text = String::from_utf8(with(name, b"\"status\":{}")).expect("it is text");
    text.replace("\"n1\"", "[1]").into_bytes()
}

/// Objects without a valid name, or outside the request, and the class of their report.
fn unwanted() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let bytes = |text: &str| text.as_bytes().to_vec();
    vec![
        ("no-name", "", bytes("{}")),
        (
            "no-name",
            "",
            bytes(r#"{"metadata":{"namespace":"prod","resourceVersion":"5"}}"#),
        ),
        (
            "other-kind",
            "prod/x",
            bytes(
                r#"{"kind":"Service","apiVersion":"v1","metadata":{"name":"x","namespace":"prod","resourceVersion":"5"}}"#,
            ),
        ),
    ]
}

async fn in_a_list<F: Tried>(class: &'static str, key: &'static str, bad: Vec<u8>) {
    let mock = server();
    let item = [b",", bad.as_slice()].concat();
    mock.with(|server| server.inject(Fault::nothing().inject_before(1, item).on(Verb::List)));
    let mut world = World::<F>::start(&mock, &format!("{class} in a list"));
    let told = world.told(4).await;
    assert_eq!(
        told,
        ["++prod/a@2", "++prod/b@3", "++prod/c@4", "synced"],
        "{}",
        world.what
    );
    world.reported(&[(class, key)]);
    world.holds_all_of(&mock);

    // The watch continues as if nothing had happened.
    mock.create("pods", pod("d")).expect("it is new");
    assert_eq!(world.told(1).await, ["+prod/d@5"]);
    settle().await;
    world.reported(&[]);
    world.holds_all_of(&mock);
    mock.log()
        .assert_requests(&["LIST rv=0 limit=500", "WATCH rv=4 bookmarks"]);
}

#[tokio::test(start_paused = true)]
async fn a_bad_object_in_a_list_is_one_report_and_no_more() {
    for (class, object) in unusable("bad") {
        each_form!(in_a_list(class, "prod/bad", object.clone()));
    }
    for (class, key, object) in unwanted() {
        each_form!(in_a_list(class, key, object.clone()));
    }
    in_a_list::<Pod>("undecodable", "prod/bad", of_another_form("bad")).await;
}

async fn in_a_watch<F: Tried>(class: &'static str, key: &'static str, bad: Vec<u8>) {
    let mock = server();
    let event = [b"{\"type\":\"ADDED\",\"object\":", bad.as_slice(), b"}\n"].concat();
    mock.with(|server| server.inject(Fault::nothing().inject_before(1, event).on(Verb::Watch)));
    let mut world = World::<F>::start(&mock, &format!("{class} in a watch"));
    world.told(4).await;
    settle().await;
    mock.with(|server| {
        server.create("pods", pod("d")).expect("it is new");
        server.create("pods", pod("e")).expect("it is new");
    });
    assert_eq!(
        world.told(2).await,
        ["+prod/d@5", "+prod/e@6"],
        "{}",
        world.what
    );
    mock.delete("pods", "prod", "a").expect("it is there");
    assert_eq!(world.told(1).await, ["-prod/a@7"], "{}", world.what);
    settle().await;
    world.reported(&[(class, key)]);
    world.holds_all_of(&mock);
    mock.log()
        .assert_requests(&["LIST rv=0 limit=500", "WATCH rv=4 bookmarks"]);
}

#[tokio::test(start_paused = true)]
async fn a_bad_object_in_a_watch_is_one_report_and_no_more() {
    for (class, object) in unusable("bad") {
        each_form!(in_a_watch(class, "prod/bad", object.clone()));
    }
    for (class, key, object) in unwanted() {
        each_form!(in_a_watch(class, key, object.clone()));
    }
    in_a_watch::<Pod>("undecodable", "prod/bad", of_another_form("bad")).await;
}

/// An unusable state leaves the previous one in the cache, and the key is stale until the next state.
async fn of_an_object_that_is_there<F: Tried>(class: &'static str, bad: Vec<u8>) {
    let mock = server();
    let event = [
        b"{\"type\":\"MODIFIED\",\"object\":",
        bad.as_slice(),
        b"}\n",
    ]
    .concat();
    mock.with(|server| server.inject(Fault::nothing().inject_before(1, event).on(Verb::Watch)));
    let mut world = World::<F>::start(&mock, &format!("{class} of an object that is there"));
    world.told(4).await;
    settle().await;
    mock.with(|server| {
        server.create("pods", pod("d")).expect("it is new");
        server.create("pods", pod("e")).expect("it is new");
    });
    world.told(2).await;
    world.reported(&[(class, "prod/a")]);
    world.holds_all_of(&mock);
    assert_eq!(world.informer.health().stale, ["prod/a"], "{}", world.what);
    let mut healed = pod("a");
    healed["metadata"]["labels"] = json!({ "app": "a" });
    mock.update("pods", healed).expect("it is there");
    assert_eq!(world.told(1).await, ["~prod/a@7"], "{}", world.what);
    assert_eq!(world.informer.health().stale, [""; 0], "{}", world.what);
    world.reported(&[]);
    world.holds_all_of(&mock);
}

#[tokio::test(start_paused = true)]
async fn a_bad_state_leaves_the_older_one() {
    for (class, object) in unusable("a") {
        each_form!(of_an_object_that_is_there(class, object.clone()));
    }
    of_an_object_that_is_there::<Pod>("undecodable", of_another_form("a")).await;
}

/// Input that one form rejects is valid for another.
async fn is_taken<F: Tried>() {
    let mock = server();
    let item = [b",".to_vec(), of_another_form("x")].concat();
    mock.with(|server| server.inject(Fault::nothing().inject_before(1, item).on(Verb::List)));
    let mut world = World::<F>::start(&mock, "an object of another form");
    let told = world.told(5).await;
    assert_eq!(
        told,
        [
            "++prod/a@2",
            "++prod/b@3",
            "++prod/c@4",
            "++prod/x@5",
            "synced"
        ]
    );
    world.reported(&[]);
}

#[tokio::test(start_paused = true)]
async fn who_does_not_look_does_not_mind() {
    is_taken::<Raw>().await;
    is_taken::<Meta>().await;
}

async fn breaks_a_list<F: Tried>(class: &'static str, fault: Fault) {
    // The first list and a relist.
    let mock = server();
    mock.with(|server| server.inject(fault.clone().on(Verb::List)));
    let mut world = World::<F>::start(&mock, &format!("{class} breaks a list: {fault:?}"));
    let told = world.told(4).await;
    assert_eq!(
        told,
        ["++prod/a@2", "++prod/b@3", "++prod/c@4", "synced"],
        "{}",
        world.what
    );
    world.reported(&[(class, "")]);
    world.holds_all_of(&mock);

    settle().await;
    mock.with(|server| {
        server.inject(fault.on(Verb::List));
        server.cut_watches();
        server.delete("pods", "prod", "a").expect("it is there");
        server.create("pods", pod("d")).expect("it is new");
        server.compact_all();
    });
    let mut told = world.told(2).await;
    told.sort();
    assert_eq!(told, ["+prod/d@6", "-?prod/a@2"], "{}", world.what);
    settle().await;
    world.reported(&[("expired", ""), (class, "")]);
    world.holds_all_of(&mock);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_list_is_one_report_and_listed_again() {
    for (class, fault) in [
        ("truncated", Fault::nothing().cut_inside_event(1).cleanly()),
        ("truncated", Fault::nothing().cut_after_events(2).cleanly()),
        ("truncated", Fault::nothing().cut_after_bytes(0).cleanly()),
        ("connection-reset", Fault::nothing().cut_inside_event(1)),
        ("connection-reset", Fault::nothing().content_length(100_000)),
        ("truncated", Fault::nothing().content_length(200)),
        ("not-json", Fault::html()),
        ("not-json", Fault::nothing().inject_before(1, ",oops")),
        ("not-json", Fault::nothing().inject_before(1, "\0")),
        ("not-a-list", Fault::raw("{}")),
        (
            "not-a-list",
            Fault::raw(r#"{"kind":"ServiceList","metadata":{"resourceVersion":"9"},"items":[]}"#),
        ),
    ] {
        each_form!(breaks_a_list(class, fault.clone()));
    }
}

async fn breaks_a_watch<F: Tried>(class: &'static str, fault: Fault) {
    let mock = server();
    mock.with(|server| server.inject(fault.clone().on(Verb::Watch)));
    let mut world = World::<F>::start(&mock, &format!("{class} breaks a watch: {fault:?}"));
    world.told(4).await;
    mock.with(|server| {
        server.create("pods", pod("d")).expect("it is new");
        server.create("pods", pod("e")).expect("it is new");
        server.delete("pods", "prod", "a").expect("it is there");
    });
    let mut told = world.told(3).await;
    told.sort();
    // Either by the watch, or by the list after it, which does not show the deletion.
    assert_eq!(told[..2], ["+prod/d@5", "+prod/e@6"], "{}", world.what);
    assert!(
        ["-prod/a@7", "-?prod/a@2"].contains(&told[2].as_str()),
        "{told:?}, {}",
        world.what
    );
    settle().await;
    world.reported(&[(class, "")]);
    world.holds_all_of(&mock);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_event_is_one_report_and_nothing_is_lost() {
    for (class, fault) in [
        ("not-json", Fault::html()),
        ("not-json", Fault::nothing().inject_before(1, "<html>")),
        (
            "not-json",
            Fault::nothing().inject_before(1, "{\"type\":\"MODIFIED\",\"object\":{oops}}\n"),
        ),
        ("not-json", Fault::nothing().inject_before(1, "\0\0\n")),
        (
            "not-an-event",
            Fault::nothing().inject_before(1, "{\"type\":\"ADDED\"}\n"),
        ),
        (
            "not-an-event",
            Fault::nothing().inject_before(1, "{\"hello\":\"world\"}\n"),
        ),
        (
            "unknown-event",
            Fault::nothing().inject_before(1, "{\"type\":\"GREETING\",\"object\":{}}\n"),
        ),
    ] {
        each_form!(breaks_a_watch(class, fault.clone()));
    }
}

/// A wrong Content-Length over real HTTP: hyper detects it, and the informer gets its error.
async fn over_http<F: Tried>(class: &'static str, length: u64) {
    let mock = server();
    let serving = serve(mock.clone(), "127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", serving.local_addr());
    tokio::spawn(serving.run());
    mock.with(|server| server.inject(Fault::nothing().content_length(length).on(Verb::List)));
    let transport = HyperTransport::builder(&url).build().expect("a URL");
    let (mut world, driver) = World::<F>::build(transport, &format!("a length of {length}"));
    let driver = tokio::spawn(driver.run());
    let told = world.told(4).await;
    assert_eq!(
        told,
        ["++prod/a@2", "++prod/b@3", "++prod/c@4", "synced"],
        "{}",
        world.what
    );
    mock.create("pods", pod("d")).expect("it is new");
    assert_eq!(world.told(1).await, ["+prod/d@5"], "{}", world.what);
    world.reported(&[(class, "")]);
    world.holds_all_of(&mock);
    world.informer.stop();
    driver.await.expect("no panic");
}

#[tokio::test]
async fn a_content_length_that_is_a_lie_is_one_report() {
    each_form!(over_http("connection-reset", 1_000_000));
    each_form!(over_http("truncated", 200));
}

/// An informer whose responses are all split into pieces of these sizes.
async fn split<F: Tried>(sizes: &[usize]) {
    let mock = full_of_text();
    mock.with(|server| server.inject(Fault::nothing().split(sizes).always()));
    let mut world = World::<F>::start(&mock, &format!("split at {sizes:?}"));
    let mut told = world.told(3).await;
    settle().await;
    change(&mock);
    told.extend(world.told(4).await);
    assert_eq!(
        told,
        [
            "++prod/a@2",
            "++prod/b@3",
            "synced",
            "+prod/c@4",
            "~prod/a@5",
            "-prod/b@6",
            "~prod/c@7",
        ],
        "{}",
        world.what
    );
    settle().await;
    world.reported(&[]);
    world.holds_all_of(&mock);
    mock.log()
        .assert_requests(&["LIST rv=0 limit=500", "WATCH rv=3 bookmarks"]);
    world.informer.stop();
}

/// Two Pods with text that is hard to split.
fn full_of_text() -> Server {
    let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
    for name in ["a", "b"] {
        mock.create("pods", worded(name, 0)).expect("it is new");
    }
    mock
}

fn worded(name: &str, number: usize) -> serde_json::Value {
    let mut pod = pod(name);
    let text = "ü€😀 \\\" \u{1} {}[],:\n";
    pod["metadata"]["annotations"] = json!({ text: text, "number": number.to_string() });
    pod["spec"]["args"] = json!([1.5e-7, -0.0, true, false, null, {}, [], text]);
    pod
}

/// Four events, which arrive in one piece.
fn change(mock: &Server) {
    mock.with(|server| {
        server.create("pods", worded("c", 0)).expect("it is new");
        server.update("pods", worded("a", 1)).expect("it is there");
        server.delete("pods", "prod", "b").expect("it is there");
        server.update("pods", worded("c", 1)).expect("it is there");
    });
}

/// Returns the lengths of the list and of the events.
async fn length(form: &str) -> usize {
    let mock = full_of_text();
    let mut transport = mock.transport();
    let (list, watch) = (
        "/api/v1/pods?resourceVersion=0",
        "/api/v1/pods?watch=true&resourceVersion=3",
    );
    let accept = match form {
        Meta::NAME => Decoder::<Meta>::new().accept(),
        _ => Decoder::<Raw>::new().accept(),
    };
    let (_, mut body) = transport
        .send(Get::new(list).accept(accept.list))
        .await
        .expect("an answer");
    let first = body.chunk().await.expect("a body").map_or(0, <[u8]>::len);
    change(&mock);
    let (_, mut body) = transport
        .send(Get::new(watch).accept(accept.watch).watch(true))
        .await
        .expect("an answer");
    let second = body.chunk().await.expect("a body").map_or(0, <[u8]>::len);
    assert!(first > 500 && second > 1000, "{first}, {second}");
    first.max(second)
}

async fn split_everywhere<F: Tried>() {
    split::<F>(&[usize::MAX]).await;
    split::<F>(&[1]).await;
    split::<F>(&[2, 3, 5, 7]).await;
    for at in 1..=length(F::NAME).await {
        split::<F>(&[at, usize::MAX]).await;
    }
}

/// Lists and watches are split into single bytes, and in two at every byte, also within characters, escapes and
/// numbers.
#[tokio::test(start_paused = true)]
async fn wherever_it_is_split_the_same_is_told() {
    each_form!(split_everywhere());
}
