//! The scenarios of client-go's watch helpers (W), as far as they apply to an informer. It recovers from errors that
//! end a retry watcher, since it can list.

use core::time::Duration;

use informer_mock::{FakeServer, Fault, Verb, json};
use informer_tests::{next, shown};
use informer_tokio::informer::Initial;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::support::{at, event, informer, list, pod, script, server, shown_next, start_with};

fn error(code: u16, reason: &str) -> Value {
    let status = json!({ "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "m" });
    event("ERROR", &status)
}

/// A watch fails to start, or ends, in each possible way; afterwards all events arrive, each once, and in order.
#[tokio::test(start_paused = true)]
async fn w02_it_recovers_from_every_end_of_a_watch() {
    let three = [
        ("ADDED", "b", 11),
        ("MODIFIED", "b", 13),
        ("ADDED", "c", 17),
    ];
    let events: Vec<Value> = three
        .iter()
        .map(|(kind, name, version)| event(kind, &at(name, *version)))
        .collect();
    let rest = json!({ "frames": [&events[1], &events[2]], "end": "hold" });
    let first = |then: &[Value], end: &str| {
        let frames: Vec<Value> = [&[events[0].clone()], then].concat();
        json!({ "frames": frames, "end": end })
    };
    let whole = json!({ "frames": events, "end": "hold" });
    // A list shows the last state, and a watch from there continues.
    let later = list(11, &[at("a", 5), at("b", 11)]);
    let starts: Vec<(&str, Vec<Value>)> = vec![
        ("refused", vec![json!({ "end": "refuse" }), whole.clone()]),
        (
            "gone",
            vec![
                json!({ "status": 410, "body": error(410, "Expired")["object"] }),
                whole.clone(),
            ],
        ),
        (
            "500",
            vec![json!({ "status": 500, "raw": "" }), whole.clone()],
        ),
        (
            "no body",
            vec![json!({ "frames": [], "end": "close" }), whole.clone()],
        ),
        (
            "timeout",
            vec![
                json!({ "status": 504, "body": error(504, "Timeout")["object"] }),
                whole.clone(),
            ],
        ),
    ];
    for (name, watches) in starts {
        let mock = script(&json!({ "lists": [list(10, &[at("a", 5)])], "watches": watches }));
        let (pods, _) = start_with(&mock, Initial::List);
        let mut notified = pods.subscribe();
        let seen = shown_next(&mut notified, 5).await;
        assert_eq!(
            seen,
            [
                "++prod/a@5",
                "synced",
                "+prod/b@11",
                "~prod/b@13",
                "+prod/c@17"
            ],
            "{name}"
        );
    }
    let ends: Vec<(&str, Vec<Value>)> = vec![
        (
            "timeout event",
            vec![first(&[error(504, "Timeout")], "hold"), rest.clone()],
        ),
        (
            "500 event",
            vec![first(&[error(500, "InternalError")], "hold"), rest.clone()],
        ),
        (
            "unknown code",
            vec![first(&[error(599, "Whatever")], "hold"), rest.clone()],
        ),
        (
            "no status",
            vec![first(&[event("ERROR", &at("b", 9))], "hold"), rest.clone()],
        ),
        (
            "not JSON",
            vec![first(&[json!("}{\n")], "hold"), rest.clone()],
        ),
        ("close", vec![first(&[], "close"), rest.clone()]),
        ("abort", vec![first(&[], "abort"), rest.clone()]),
        (
            "four times",
            vec![
                first(&[], "close"),
                first(&[], "close"),
                first(&[], "abort"),
                first(&[], "close"),
                rest.clone(),
            ],
        ),
    ];
    for (name, watches) in ends {
        let mock = script(
            &json!({ "lists": [list(10, &[at("a", 5)]), later.clone()], "watches": watches }),
        );
        let (pods, _) = start_with(&mock, Initial::List);
        let mut notified = pods.subscribe();
        let seen = shown_next(&mut notified, 5).await;
        assert_eq!(
            seen,
            [
                "++prod/a@5",
                "synced",
                "+prod/b@11",
                "~prod/b@13",
                "+prod/c@17"
            ],
            "{name}"
        );
        let more = timeout(Duration::from_secs(30), notified.recv()).await;
        assert!(more.is_err(), "{name}: {more:?}");
        assert_eq!(pods.resource_version(), "17", "{name}");
    }
}

/// A 410 in the stream is reported, and a list brings the missing changes.
#[tokio::test(start_paused = true)]
async fn w03_an_expired_watch_is_reported_and_listed_anew() {
    let watches = [
        json!({ "frames": [event("ADDED", &at("b", 11)), error(410, "Expired")], "end": "hold" }),
        json!({ "frames": [], "end": "hold" }),
    ];
    let mock = script(
        &json!({ "lists": [list(10, &[at("a", 5)]), list(20, &[at("b", 15)])], "watches": watches }),
    );
    let (pods, reports) = start_with(&mock, Initial::List);
    let mut notified = pods.subscribe();
    assert_eq!(
        shown_next(&mut notified, 5).await,
        [
            "++prod/a@5",
            "synced",
            "+prod/b@11",
            "~prod/b@15",
            "-?prod/a@5"
        ]
    );
    assert_eq!(reports.classes(), ["expired"]);
    mock.log().assert_requests(&[
        "LIST rv=0 limit=500",
        "WATCH rv=10 bookmarks",
        "LIST rv=11",
        "WATCH rv=20 bookmarks",
    ]);
}

/// A forbidden watch is reported each time. The informer does not end, and continues once it is permitted.
#[tokio::test(start_paused = true)]
async fn w04_a_forbidden_watch_is_reported_and_goes_on_when_it_may() {
    for (code, reason, class) in [
        (403, "Forbidden", "forbidden"),
        (401, "Unauthorized", "unauthorized"),
    ] {
        let mock = server(&["a"]);
        mock.with(|server| {
            server.inject(
                Fault::api_status(code, reason, "m")
                    .on(Verb::Watch)
                    .always(),
            );
        });
        let (pods, reports) = start_with(&mock, Initial::List);
        pods.synced().await.unwrap();
        sleep(Duration::from_secs(60)).await;
        let reported = reports.classes();
        assert!(reported.len() >= 3, "{reported:?}");
        assert!(
            reported.iter().all(|reported| *reported == class),
            "{reported:?}"
        );
        mock.with(FakeServer::clear_faults);
        let version = mock.create("pods", pod("b", 1)).unwrap();
        let reached = timeout(
            Duration::from_secs(600),
            pods.wait_until(&version.to_string()),
        )
        .await;
        reached.expect("it goes on").unwrap();
    }
}

/// A stop with unread events ends; a second stop is no error, and unread events can still be read.
#[tokio::test(start_paused = true)]
async fn w05_a_stop_with_unread_events_ends() {
    let mock = server(&["a", "b", "c"]);
    let (pods, driver) = informer(&mock);
    let driver = tokio::spawn(driver.run());
    let mut notified = pods.subscribe();
    let unread = pods.subscribe();
    pods.synced().await.unwrap();
    pods.stop();
    pods.stop();
    timeout(Duration::from_secs(1), driver)
        .await
        .expect("it ends")
        .unwrap();
    pods.stop();
    assert_eq!(unread.lag().pending, 4);
    drop(unread);
    assert_eq!(
        shown_next(&mut notified, 4).await,
        ["++prod/a@2", "++prod/b@3", "++prod/c@4", "synced"]
    );
    assert!(notified.recv().await.is_none());
    assert!(notified.recv().await.is_none());
}

/// A subscription is a watch that starts with the list; bookmarks are no events.
#[tokio::test(start_paused = true)]
async fn w08_a_subscription_is_a_watch_that_begins_with_the_list() {
    for initial in [Initial::List, Initial::Stream] {
        let mock = server(&["a"]);
        let (pods, _) = start_with(&mock, initial);
        let mut notified = pods.subscribe();
        assert_eq!(shown_next(&mut notified, 2).await, ["++prod/a@2", "synced"]);
        let bookmark = mock.with(FakeServer::bump_version);
        assert!(
            timeout(Duration::from_secs(70), notified.recv())
                .await
                .is_err(),
            "a bookmark came"
        );
        assert_eq!(pods.resource_version(), bookmark.to_string());
        mock.create("pods", pod("b", 1)).unwrap();
        mock.apply(
            "pods",
            json!({ "metadata": { "name": "a", "namespace": "prod", "labels": { "x": "y" } } }),
        )
        .unwrap();
        mock.delete("pods", "prod", "b").unwrap();
        assert_eq!(
            shown_next(&mut notified, 3).await,
            ["+prod/b@4", "~prod/a@5", "-prod/b@6"]
        );
        pods.stop();
        assert!(notified.recv().await.is_none());
    }
}

/// A thousand events keep their order. A slow reader blocks nobody and can be dropped.
#[tokio::test(start_paused = true)]
async fn w10_a_thousand_events_keep_their_order() {
    let mock = server(&[]);
    let (pods, _) = start_with(&mock, Initial::List);
    let mut notified = pods.subscribe();
    let idle = pods.subscribe();
    assert_eq!(shown_next(&mut notified, 1).await, ["synced"]);
    for number in 0..1000 {
        mock.create("pods", pod(&format!("p{number}"), 1)).unwrap();
    }
    for number in 0..1000 {
        let expected = format!("+prod/p{number}@{}", number + 2);
        assert_eq!(shown(&next(&mut notified).await), expected);
    }
    assert_eq!(idle.lag().pending, 1001);
    drop(idle);
    mock.create("pods", pod("last", 1)).unwrap();
    assert_eq!(shown_next(&mut notified, 1).await, ["+prod/last@1002"]);
}
