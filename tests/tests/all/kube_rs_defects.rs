//! Nine known defects of kube-rs 4.2 and 5.0 do not occur here; one test each.

use core::time::Duration;

use informer_mock::{Config, FakeServer, Fault, Gone, Mock, TokioClock, Verb, json};
use informer_tests::support::{
    Pod, Reports, at, end_of_stream, event, gaps, list, next, pod, script, server, server_of,
    settle, shown, shown_next, start_with,
};
use informer_tokio::handler::HandlerOptions;
use informer_tokio::informer::Initial;
use informer_tokio::{Informer, Raw};
use tokio::time::{sleep, timeout};

/// 1: a watch answered with 410 leads to a list. A retry at the same version would get 410 forever.
#[tokio::test(start_paused = true)]
async fn k1_http_410_on_a_watch_leads_to_a_list() {
    let mut config = Config::default();
    config.gone = Gone::Http;
    let mock = Mock::with_clock(FakeServer::with_config(1, config), TokioClock::new());
    mock.create("pods", pod("a", 1)).unwrap();
    let (pods, _) = start_with(&mock, Initial::List);
    let mut events = pods.subscribe();
    assert_eq!(shown_next(&mut events, 2).await, ["++prod/a@2", "synced"]);
    sleep(Duration::from_secs(5)).await;
    let mark = mock.log().mark();
    mock.with(|server| {
        server.cut_watches();
        server.create("pods", pod("b", 1)).unwrap();
        server.forget_events(server.version());
    });
    assert_eq!(shown_next(&mut events, 1).await, ["+prod/b@3"]);
    sleep(Duration::from_secs(60)).await;
    let log = mock.log();
    log.assert_requests_since(
        mark,
        &["WATCH rv=2 bookmarks", "LIST rv=2", "WATCH rv=3 bookmarks"],
    );
    assert_eq!(log.since(mark).next().unwrap().status, Some(410));
}

/// 2: a watch that ends at once, with or without an event, is no hot loop.
#[tokio::test(start_paused = true)]
async fn k2_watches_that_end_at_once_are_no_hot_loop() {
    let bookmark = event(
        "BOOKMARK",
        &json!({ "kind": "Pod", "metadata": { "resourceVersion": "10" } }),
    );
    for (frames, class, in_a_second, in_an_hour) in [
        // A delay of 30 to 60 s, then a list and a watch.
        (json!([]), "very-short-watch", 4, 260),
        // Five are reopened at once, since the server may have a reason.
        (json!([bookmark]), "short-watches", 8, 760),
    ] {
        let mock = script(&json!({ "lists": [list(10, &[])], "watches": [{ "frames": frames }] }));
        let (pods, reports) = start_with(&mock, Initial::List);
        pods.synced().await.unwrap();
        sleep(Duration::from_secs(1)).await;
        let first = mock.log().mark();
        assert!(first <= in_a_second, "{first} requests in a second");
        sleep(Duration::from_secs(3600)).await;
        let all = mock.log().mark();
        assert!(all <= in_an_hour, "{all} requests in an hour");
        assert!(all >= 60, "{all} requests in an hour: it gave up");
        assert!(reports.classes().contains(&class));
        pods.stop();
    }
}

/// 3: the delays between failing lists grow up to the cap, whatever events arrive in between.
#[tokio::test(start_paused = true)]
async fn k3_the_delays_between_lists_that_fail_grow() {
    for fault in [
        Fault::status(500, "").always(),
        Fault::refuse().always(),
        Fault::nothing().cut_inside_event(0).always(),
    ] {
        let mock = server_of(["a"]);
        mock.with(|server| server.inject(fault));
        let (_pods, _) = start_with(&mock, Initial::List);
        sleep(Duration::from_secs(300)).await;
        let gaps = gaps(&mock.log());
        let least = [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0];
        assert!(gaps.len() >= least.len(), "{gaps:?}");
        for (gap, least) in gaps.iter().zip(least) {
            assert!((least..2.0 * least + 0.01).contains(gap), "{gaps:?}");
        }
    }
}

/// 4: objects of a streaming list that breaks half-way do not remain, neither after the next stream nor after a list.
#[tokio::test(start_paused = true)]
async fn r78_k4_a_streaming_list_that_breaks_leaves_no_ghost() {
    let (a, ghost) = (event("ADDED", &at("a", 5)), event("ADDED", &at("ghost", 6)));
    for end in ["abort", "close"] {
        let broken = json!({ "frames": [a, ghost, 2], "end": end });
        let whole = json!({ "frames": [a, end_of_stream(10)], "end": "hold" });
        let mock = script(&json!({ "streams": [broken, whole] }));
        let (pods, _) = start_with(&mock, Initial::Stream);
        let mut events = pods.subscribe();
        assert_eq!(shown_next(&mut events, 2).await, ["++prod/a@5", "synced"]);
        assert_eq!(pods.lister().len(), 1);
        assert_eq!(mock.log().streams().count(), 2);
        assert!(
            timeout(Duration::from_secs(60), events.recv())
                .await
                .is_err()
        );
    }

    let error = json!({ "kind": "Status", "code": 500, "reason": "InternalError", "message": "m" });
    let broken = json!({ "frames": [a, ghost, event("ERROR", &error)], "end": "close" });
    let held = json!({ "frames": [], "end": "hold" });
    let lists = [list(10, &[at("a", 5)])];
    let mock = script(&json!({ "streams": [broken], "lists": lists, "watches": [held] }));
    let (pods, _) = start_with(&mock, Initial::Stream);
    let mut events = pods.subscribe();
    assert_eq!(shown_next(&mut events, 2).await, ["++prod/a@5", "synced"]);
    assert_eq!(pods.lister().len(), 1);
    assert_eq!(mock.log().lists().count(), 1);
}

/// 5: all tasks that wait for the first list are woken, and later ones do not wait.
#[tokio::test(start_paused = true)]
async fn k5_all_tasks_that_wait_for_the_first_list_are_woken() {
    let mock = server();
    mock.with(|server| server.inject(Fault::delay(Duration::from_secs(5))));
    let (pods, _) = start_with(&mock, Initial::List);
    let waiting: Vec<_> = (0..10)
        .map(|_| {
            let pods = pods.clone();
            tokio::spawn(async move { pods.synced().await })
        })
        .collect();
    settle().await;
    assert!(waiting.iter().all(|task| !task.is_finished()));
    for task in waiting {
        let synced = timeout(Duration::from_secs(10), task).await;
        synced.expect("it is woken").unwrap().unwrap();
    }
    timeout(Duration::from_millis(1), pods.synced())
        .await
        .unwrap()
        .unwrap();
}

/// 6: a subscriber does not hang if an object is deleted before it looks.
#[tokio::test(start_paused = true)]
async fn k6_a_subscriber_goes_on_where_an_object_is_gone_before_it_looks() {
    for (backlog, expected) in [
        (4096, &["+prod/x@2", "-prod/x@3", "+prod/y@4"][..]),
        (1, &["+prod/y@4"][..]),
    ] {
        let mock = server();
        let (pods, _) = start_with(&mock, Initial::List);
        let mut events = pods.subscribe_with(&HandlerOptions::default().backlog(backlog));
        assert_eq!(shown_next(&mut events, 1).await, ["synced"]);
        mock.create("pods", pod("x", 1)).unwrap();
        settle().await;
        mock.delete("pods", "prod", "x").unwrap();
        settle().await;
        mock.create("pods", pod("y", 1)).unwrap();
        settle().await;
        assert_eq!(shown_next(&mut events, expected.len()).await, expected);

        // A waiting subscriber is woken by the next event.
        let waiting = tokio::spawn(async move { shown_next(&mut events, 1).await });
        settle().await;
        assert!(!waiting.is_finished());
        mock.create("pods", pod("z", 1)).unwrap();
        let woken = timeout(Duration::from_secs(1), waiting).await;
        assert_eq!(woken.unwrap().unwrap(), ["+prod/z@5"]);
    }
}

/// 7: an object that cannot be decoded affects nothing else: the list is not repeated, the watch continues, and the
/// report names the error and the object.
#[tokio::test(start_paused = true)]
async fn k7_an_object_that_cannot_be_decoded_costs_no_other() {
    let mock = server();
    let bad = |name: &str| json!({ "metadata": { "name": name, "namespace": "prod" }, "spec": 7 });
    mock.create("pods", pod("a", 1)).unwrap();
    mock.create("pods", bad("bad")).unwrap();
    mock.create("pods", pod("c", 1)).unwrap();
    let reports = Reports::default();
    let builder = Informer::<Pod>::builder(&mock.transport()).initial(Initial::List);
    let pods = reports.of(builder.seed(1)).spawn();
    let mut events = pods.subscribe();
    for expected in ["++prod/a@2", "++prod/c@4", "synced"] {
        assert_eq!(shown(&next(&mut events).await), expected);
    }
    assert_eq!(reports.take(), [("undecodable", "prod/bad".to_owned())]);
    assert_eq!(
        pods.lister().get("prod", "c").unwrap().get().spec.node_name,
        "n1"
    );

    mock.with(|server| {
        server.update("pods", bad("a")).unwrap();
        server.create("pods", pod("d", 1)).unwrap();
        server.update("pods", pod("bad", 1)).unwrap();
    });
    for expected in ["+prod/d@6", "+prod/bad@7"] {
        assert_eq!(shown(&next(&mut events).await), expected);
    }
    assert_eq!(reports.take(), [("undecodable", "prod/a".to_owned())]);
    assert_eq!(pods.health().stale, ["prod/a"]);
    let older = pods
        .lister()
        .get("prod", "a")
        .expect("the older state stays");
    assert_eq!(older.resource_version().to_string(), "2");
    sleep(Duration::from_secs(60)).await;
    mock.log()
        .assert_requests(&["LIST rv=0 limit=500", "WATCH rv=4 bookmarks"]);
}

/// 8: the first list may be answered by any API server from its memory: it requests version 0, and one answer
/// contains everything, even at the default page size. Newer changes arrive by the watch.
#[tokio::test(start_paused = true)]
async fn k8_the_first_list_is_answered_from_the_servers_memory() {
    let mock = server();
    for i in 0..600 {
        mock.create("pods", pod(&format!("p{i}"), 1)).unwrap();
    }
    let shown_version = mock.with(|server| server.version());
    mock.with(|server| server.lag_at(shown_version));
    mock.create("pods", pod("late", 1)).unwrap();
    let (pods, _) = start_with(&mock, Initial::List);
    pods.synced().await.unwrap();
    assert_eq!(pods.lister().len(), 600);
    assert_eq!(pods.resource_version(), shown_version.to_string());
    let watch = format!("WATCH rv={shown_version} bookmarks");
    settle().await;
    mock.log().assert_requests(&["LIST rv=0 limit=500", &watch]);
    mock.with(FakeServer::catch_up);
    settle().await;
    assert_eq!(pods.lister().len(), 601);
}

/// 9: the cache does not go back to older versions: not by a lagging server,
#[tokio::test(start_paused = true)]
async fn k9_a_server_that_is_behind_does_not_take_the_cache_back() {
    let mock = server_of(["a"]);
    let on = |node: u32| {
        let mut a = pod("a", 1);
        a["spec"]["nodeName"] = node.to_string().into();
        a
    };
    for node in 0..5 {
        mock.update("pods", on(node)).unwrap();
    }
    let (pods, _) = start_with(&mock, Initial::List);
    let version = |pods: &Informer<Raw>| {
        let a = pods.lister().get("prod", "a").expect("it is there");
        a.resource_version().to_string().parse::<u64>().unwrap()
    };
    pods.synced().await.unwrap();
    let seen = version(&pods);
    sleep(Duration::from_secs(5)).await;
    let mark = mock.log().mark();
    let written = mock.with(|server| {
        server.cut_watches();
        let written = server.update("pods", on(6)).unwrap();
        server.forget_events(written);
        server.lag_at(4);
        written
    });
    for _ in 0..300 {
        sleep(Duration::from_millis(100)).await;
        assert!(version(&pods) >= seen, "it went back");
    }
    assert_eq!(version(&pods), written);
    let log = mock.log();
    assert!(
        log.since(mark)
            .all(|request| request.resource_version() != Some("0")),
        "a list at 0 could be answered with anything"
    );
    assert!(log.since(mark).any(|request| request.verb == Verb::List));
}

/// nor by a repeated event. The table of the reflector's states (`state_table`) has the answer to an abandoned request.
#[tokio::test(start_paused = true)]
async fn k9_an_event_that_comes_twice_is_notified_once() {
    let twice = event("MODIFIED", &at("a", 11));
    let listed = event("MODIFIED", &at("a", 5));
    let frames = json!([listed, twice, twice, event("ADDED", &at("b", 12))]);
    let watch = json!({ "frames": frames, "end": "hold" });
    let mock = script(&json!({ "lists": [list(10, &[at("a", 5)])], "watches": [watch] }));
    let (pods, _) = start_with(&mock, Initial::List);
    let mut events = pods.subscribe();
    assert_eq!(
        shown_next(&mut events, 4).await,
        ["++prod/a@5", "synced", "~prod/a@11", "+prod/b@12"]
    );
    assert!(
        timeout(Duration::from_secs(60), events.recv())
            .await
            .is_err()
    );
}
