//! A watch that always ends at once: in an hour there are no more requests than the backoff permits.

use core::iter;
use core::time::Duration;

use informer_mock::{FakeServer, Fault, Mock, TokioClock, Verb, json};
use informer_tests::say;
use informer_tokio::informer::Initial;
use informer_tokio::{Informer, Raw, Resource};

const HOUR: Duration = Duration::from_secs(3600);

/// The minimum delay before each run: 800 ms, doubled up to 30 s. Jitter at most doubles it.
fn least_delays() -> impl Iterator<Item = Duration> {
    let double = |delay: &Duration| Some((*delay * 2).min(Duration::from_secs(30)));
    iter::successors(Some(Duration::from_millis(800)), double)
}

/// The maximum number of runs in an hour, including the first one.
fn runs() -> usize {
    let mut sum = Duration::ZERO;
    let fits = |delay: &Duration| {
        sum += *delay;
        sum <= HOUR
    };
    least_delays().take_while(fits).count() + 1
}

/// The same with client-go's behaviour: the backoff is reset by the first delay that starts more than two minutes
/// after the last reset. Eight delays take at least 111 s, so there are at most nine between resets.
fn client_go_runs() -> usize {
    let first: Duration = least_delays().take(8).sum();
    let ninth: Duration = least_delays().take(9).sum();
    assert!(first < Duration::from_secs(120) && ninth > Duration::from_secs(120));
    9 * (3600 / 120 + 1) + 1
}

/// Runs an informer for an hour against a server that always does the same; returns the time of each request.
async fn hour(client_go: bool, initial: Initial, fault: Fault) -> Vec<(Verb, Duration)> {
    let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
    let pod = json!({ "metadata": { "name": "a" } });
    mock.create("pods", pod).expect("it is new");
    mock.with(|server| {
        server.inject(fault.clone().on(Verb::Watch).always());
        server.inject(fault.on(Verb::Stream).always());
    });
    let pods = Resource::parse("pods").expect("a resource");
    let builder = Informer::<Raw>::builder_for(&mock.transport(), pods)
        .seed(1)
        .initial(initial);
    let builder = if client_go {
        builder.client_go()
    } else {
        builder
    };
    let (informer, driver) = builder.build();
    let start = tokio::time::Instant::now();
    let driver = tokio::spawn(driver.run());
    tokio::time::sleep_until(start + HOUR).await;
    informer.stop();
    driver.await.expect("no panic");
    let log = mock.log();
    let first = log.iter().next().expect("a request").at;
    log.iter()
        .map(|request| (request.verb, request.at - first))
        .collect()
}

/// Checks that there are at most this many requests, and that the informer never gave up.
#[track_caller]
fn at_most(what: &str, client_go: bool, requests: &[(Verb, Duration)], most: usize) {
    let count = requests.len();
    let way = if client_go { ", as client-go" } else { "" };
    say(&format!(
        "{what}{way}: {count} requests in an hour, {most} are allowed"
    ));
    assert!(
        count <= most,
        "{what}{way}: {count} requests, {most} are allowed"
    );
    // No delay is longer than a minute.
    assert!(count >= 60, "{what}{way}: {count} requests");
    let last = requests.last().map_or(Duration::ZERO, |last| last.1);
    assert!(
        last > HOUR - Duration::from_secs(61),
        "{what}{way}: the last one came at {last:?}"
    );
}

fn ends() -> [(&'static str, Fault); 3] {
    [
        ("a clean end", Fault::nothing().cut_after_bytes(0).cleanly()),
        ("a reset", Fault::nothing().cut_after_bytes(0)),
        ("an expired version", Fault::raw(EXPIRED)),
    ]
}

const EXPIRED: &str = concat!(
    r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
    r#""message":"too old resource version: 2 (3)","reason":"Expired","code":410}}"#
);

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_lists_again_after_a_growing_delay() {
    assert_eq!((runs(), client_go_runs()), (125, 280));
    for (what, fault) in ends() {
        let requests = hour(false, Initial::List, fault.clone()).await;
        // A list, and the watch that ends.
        at_most(what, false, &requests, 2 * runs());
        // Each single delay is within its bounds.
        let lists = requests.iter().filter(|request| request.0 == Verb::List);
        let lists: Vec<Duration> = lists.map(|request| request.1).collect();
        for (pair, least) in lists.windows(2).zip(least_delays()) {
            let delay = pair[1] - pair[0];
            let most = least * 2 + Duration::from_millis(10);
            assert!(
                (least..most).contains(&delay),
                "{what}: {delay:?}, not from {least:?} on"
            );
        }
        let requests = hour(true, Initial::List, fault).await;
        at_most(what, true, &requests, 2 * client_go_runs());
    }
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_ends_at_once_does_so_too() {
    for (what, fault) in ends() {
        for (client_go, runs) in [(false, runs()), (true, client_go_runs())] {
            let requests = hour(client_go, Initial::Stream, fault.clone()).await;
            // The stream, then a list in its place, and the watch.
            at_most(what, client_go, &requests, 3 * runs);
        }
    }
}

/// A watch that receives an event is reopened at once, but at most five times in 30 s.
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_with_an_event_each_time_waits_as_well() {
    let event = concat!(
        r#"{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1","#,
        r#""metadata":{"name":"a","namespace":"default","uid":"u","resourceVersion":"2"}}}"#
    );
    let requests = hour(false, Initial::List, Fault::raw(event)).await;
    at_most("an end after an event", false, &requests, 1 + 6 * runs());
    let lists = requests.iter().filter(|request| request.0 == Verb::List);
    assert_eq!(lists.count(), 1, "the watch is of use");
}
