//! Invalid input through the whole informer: one report each, of the right class, and no other loss.

use core::time::Duration;

use informer_core::{reflector::Initial, time::BackoffConfig};
use informer_hyper::HyperTransport;
use informer_mock::{Fault, Verb, serve};
use informer_tests::support::{
    Pod, Reports, Server, held, pod, server_of, settle, shown_next, truth,
};
use informer_tokio::decode::Decoder;
use informer_tokio::informer::Driver;
use informer_tokio::transport::Transport;
use informer_tokio::{Informer, Json, Subscription};

/// An informer with its notifications and its reports.
struct World {
    informer: Informer<Pod>,
    events: Subscription<Pod>,
    reports: Reports,
    /// The name of the case, for messages.
    what: String,
}

impl World {
    fn build<T: Transport + Clone>(
        transport: T,
        what: &str,
    ) -> (Self, Driver<T, Decoder<Json<Pod>>>) {
        let reports = Reports::default();
        let mut backoff = BackoffConfig::default();
        // In real time, waiting would show nothing.
        backoff.initial = Duration::from_millis(1);
        let builder = Informer::<Pod>::builder(&transport).initial(Initial::List);
        let (informer, driver) = reports.of(builder.seed(1).backoff(backoff)).build();
        let events = informer.subscribe();
        let what = what.to_owned();
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
    async fn notified(&mut self, count: usize) -> Vec<String> {
        let mut notified = shown_next(&mut self.events, count).await;
        let synced = notified
            .iter()
            .position(|event| event == "synced")
            .unwrap_or(0);
        notified[..synced].sort();
        notified
    }

    #[track_caller]
    fn reported(&self, wanted: &[(&'static str, &str)]) {
        let wanted: Vec<_> = wanted
            .iter()
            .map(|(class, key)| (*class, (*key).to_owned()))
            .collect();
        assert_eq!(self.reports.take(), wanted, "{}", self.what);
    }

    /// Checks that the cache equals the server's state.
    #[track_caller]
    fn holds_all_of(&self, mock: &Server) {
        assert_eq!(held(&self.informer), truth(mock), "{}", self.what);
    }
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

/// A Pod whose `nodeName` is not a string.
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

async fn in_a_list(class: &'static str, key: &'static str, bad: Vec<u8>) {
    let mock = server_of(["a", "b", "c"]);
    let item = [b",", bad.as_slice()].concat();
    mock.with(|server| server.inject(Fault::nothing().inject_before(1, item).on(Verb::List)));
    let mut world = World::start(&mock, &format!("{class} in a list"));
    let notified = world.notified(4).await;
    assert_eq!(
        notified,
        ["++prod/a@2", "++prod/b@3", "++prod/c@4", "synced"],
        "{}",
        world.what
    );
    world.reported(&[(class, key)]);
    world.holds_all_of(&mock);

    // The watch continues as if nothing had happened.
    mock.create("pods", pod("d", 1)).expect("it is new");
    assert_eq!(world.notified(1).await, ["+prod/d@5"]);
    settle().await;
    world.reported(&[]);
    world.holds_all_of(&mock);
    mock.log()
        .assert_requests(&["LIST rv=0 limit=500", "WATCH rv=4 bookmarks"]);
}

#[tokio::test(start_paused = true)]
async fn a_bad_object_in_a_list_is_one_report_and_no_more() {
    for (class, object) in unusable("bad") {
        in_a_list(class, "prod/bad", object).await;
    }
    for (class, key, object) in unwanted() {
        in_a_list(class, key, object).await;
    }
    in_a_list("undecodable", "prod/bad", of_another_form("bad")).await;
}

/// An informer whose watch sends a bad object before two good ones.
async fn before_two(kind: &str, bad: &[u8], what: &str) -> (Server, World) {
    let mock = server_of(["a", "b", "c"]);
    let start = format!("{{\"type\":\"{kind}\",\"object\":");
    let event = [start.as_bytes(), bad, b"}\n"].concat();
    mock.with(|server| server.inject(Fault::nothing().inject_before(1, event).on(Verb::Watch)));
    let mut world = World::start(&mock, what);
    world.notified(4).await;
    settle().await;
    mock.with(|server| {
        server.create("pods", pod("d", 1)).expect("it is new");
        server.create("pods", pod("e", 1)).expect("it is new");
    });
    let notified = world.notified(2).await;
    assert_eq!(notified, ["+prod/d@5", "+prod/e@6"], "{what}");
    (mock, world)
}

async fn in_a_watch(class: &'static str, key: &'static str, bad: Vec<u8>) {
    let (mock, mut world) = before_two("ADDED", &bad, &format!("{class} in a watch")).await;
    mock.delete("pods", "prod", "a").expect("it is there");
    assert_eq!(world.notified(1).await, ["-prod/a@7"], "{}", world.what);
    settle().await;
    world.reported(&[(class, key)]);
    world.holds_all_of(&mock);
    mock.log()
        .assert_requests(&["LIST rv=0 limit=500", "WATCH rv=4 bookmarks"]);
}

#[tokio::test(start_paused = true)]
async fn a_bad_object_in_a_watch_is_one_report_and_no_more() {
    for (class, object) in unusable("bad") {
        in_a_watch(class, "prod/bad", object).await;
    }
    for (class, key, object) in unwanted() {
        in_a_watch(class, key, object).await;
    }
    in_a_watch("undecodable", "prod/bad", of_another_form("bad")).await;
}

/// An unusable state leaves the previous one in the cache, and the key is stale until the next state.
async fn of_an_object_that_is_there(class: &'static str, bad: Vec<u8>) {
    let what = format!("{class} of an object that is there");
    let (mock, mut world) = before_two("MODIFIED", &bad, &what).await;
    world.reported(&[(class, "prod/a")]);
    world.holds_all_of(&mock);
    assert_eq!(world.informer.health().stale, ["prod/a"], "{}", world.what);
    mock.update("pods", pod("a", 2)).expect("it is there");
    assert_eq!(world.notified(1).await, ["~prod/a@7"], "{}", world.what);
    assert_eq!(world.informer.health().stale, [""; 0], "{}", world.what);
    world.reported(&[]);
    world.holds_all_of(&mock);
}

#[tokio::test(start_paused = true)]
async fn a_bad_state_leaves_the_older_one() {
    for (class, object) in unusable("a") {
        of_an_object_that_is_there(class, object).await;
    }
    of_an_object_that_is_there("undecodable", of_another_form("a")).await;
}

/// A wrong Content-Length over real HTTP: hyper detects it, and the informer gets its error.
async fn over_http(class: &'static str, length: u64) {
    let mock = server_of(["a", "b", "c"]);
    let serving = serve(mock.clone(), "127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", serving.local_addr());
    tokio::spawn(serving.run());
    mock.with(|server| server.inject(Fault::nothing().content_length(length).on(Verb::List)));
    let transport = HyperTransport::builder(&url).build().expect("a URL");
    let (mut world, driver) = World::build(transport, &format!("a length of {length}"));
    let driver = tokio::spawn(driver.run());
    let notified = world.notified(4).await;
    assert_eq!(
        notified,
        ["++prod/a@2", "++prod/b@3", "++prod/c@4", "synced"],
        "{}",
        world.what
    );
    mock.create("pods", pod("d", 1)).expect("it is new");
    assert_eq!(world.notified(1).await, ["+prod/d@5"], "{}", world.what);
    world.reported(&[(class, "")]);
    world.holds_all_of(&mock);
    world.informer.stop();
    driver.await.expect("no panic");
}

#[tokio::test]
async fn a_content_length_that_is_a_lie_is_one_report() {
    over_http("connection-reset", 1_000_000).await;
    over_http("truncated", 200).await;
}
