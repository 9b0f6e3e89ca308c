//! The scenarios of client-go's watch helpers (W), as far as they apply to an informer. It recovers from errors that
//! end a retry watcher, since it can list.

use core::time::Duration;

use informer_mock::{FakeServer, Fault, Verb, json};
use informer_tests::support::{
    at, event, informer, list, next, pod, script, server, server_of, shown, shown_next, start_with,
};
use informer_tokio::informer::Initial;
use serde_json::Value;
use tokio::time::{sleep, timeout};

fn status(code: u16, reason: &str) -> Value {
    json!({ "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "m" })
}

fn error(code: u16, reason: &str) -> Value {
    event("ERROR", &status(code, reason))
}

/// A watch fails to start, or ends, in each possible way; afterwards all events arrive, each once, and in order.
#[tokio::test(start_paused = true)]
async fn w02_it_recovers_from_every_end_of_a_watch() {
    let added = event("ADDED", &at("b", 11));
    let later = [
        event("MODIFIED", &at("b", 13)),
        event("ADDED", &at("c", 17)),
    ];
    let whole = json!({ "frames": [added, later[0], later[1]], "end": "hold" });
    let rest = json!({ "frames": later, "end": "hold" });
    let then = |event: Value| json!({ "frames": [added, event], "end": "hold" });
    let end = |how: &str| json!({ "frames": [added], "end": how });
    let starts = [
        ("refused", json!({ "end": "refuse" })),
        (
            "gone",
            json!({ "status": 410, "body": status(410, "Expired") }),
        ),
        ("500", json!({ "status": 500, "raw": "" })),
        ("no body", json!({ "frames": [], "end": "close" })),
        (
            "timeout",
            json!({ "status": 504, "body": status(504, "Timeout") }),
        ),
    ];
    let ends = [
        ("timeout event", vec![then(error(504, "Timeout"))]),
        ("500 event", vec![then(error(500, "InternalError"))]),
        ("unknown code", vec![then(error(599, "Whatever"))]),
        ("no status", vec![then(event("ERROR", &at("b", 9)))]),
        ("not JSON", vec![then(json!("}{\n"))]),
        ("close", vec![end("close")]),
        ("abort", vec![end("abort")]),
        (
            "four times",
            ["close", "close", "abort", "close"].map(end).into(),
        ),
    ];
    let starts = starts.map(|(name, watch)| (name, vec![watch], &whole));
    let ends = ends.map(|(name, watches)| (name, watches, &rest));
    for (name, mut watches, last) in starts.into_iter().chain(ends) {
        watches.push(last.clone());
        // A list after an event shows the last state, and a watch from there continues.
        let lists = match last == &whole {
            true => vec![list(10, &[at("a", 5)])],
            false => vec![
                list(10, &[at("a", 5)]),
                list(11, &[at("a", 5), at("b", 11)]),
            ],
        };
        let mock = script(&json!({ "lists": lists, "watches": watches }));
        let (pods, _) = start_with(&mock, Initial::List);
        let mut notified = pods.subscribe();
        let seen = shown_next(&mut notified, 5).await.join(" ");
        let expected = "++prod/a@5 synced +prod/b@11 ~prod/b@13 +prod/c@17";
        assert_eq!(seen, expected, "{name}");
        let more = timeout(Duration::from_secs(30), notified.recv()).await;
        assert!(more.is_err(), "{name}: {more:?}");
        assert_eq!(pods.resource_version(), "17", "{name}");
    }
}

/// A 410 in the stream is reported, and a list brings the missing changes.
#[tokio::test(start_paused = true)]
async fn w03_an_expired_watch_is_reported_and_relisted() {
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
async fn w04_a_forbidden_watch_is_reported_and_resumes_when_allowed() {
    for (code, reason, class) in [
        (403, "Forbidden", "forbidden"),
        (401, "Unauthorized", "unauthorized"),
    ] {
        let mock = server_of(["a"]);
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
    let mock = server_of(["a", "b", "c"]);
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
        let mock = server_of(["a"]);
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
        mock.put(
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
    let mock = server();
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
