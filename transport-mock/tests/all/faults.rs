//! Each fault, as a client sees it.

use core::time::Duration;

use crate::common::{Ended, JSON, ask, at, events, head, names, pod, read};
use informer_mock::{Backend, Chunk, FailureKind, FakeServer, Fault, HeadPoll, Verb};
use serde_json::Value;

const WATCH: &str = "/api/v1/pods?watch=1&resourceVersion=1";

/// `a` at 2, `b` at 3, `c` at 4, and this pending fault.
fn server(fault: Fault) -> FakeServer {
    let mut server = FakeServer::new(1);
    for name in ["a", "b", "c"] {
        server.create("pods", pod(name, "x")).unwrap();
    }
    server.inject(fault);
    server
}

fn watch(fault: Fault) -> (String, Ended) {
    let mut server = server(fault);
    let id = server.handle_request(at(0), WATCH, JSON);
    read(&mut server, at(0), id)
}

fn list(fault: Fault) -> (String, Ended) {
    let mut server = server(fault);
    let id = server.handle_request(at(0), "/api/v1/pods", JSON);
    read(&mut server, at(0), id)
}

#[test]
fn no_answer() {
    for (fault, kind) in [
        (Fault::refuse(), FailureKind::Refused),
        (Fault::reset(), FailureKind::Reset),
    ] {
        let mut server = server(fault);
        let id = server.handle_request(at(0), WATCH, JSON);
        assert_eq!(server.poll_head(at(0), id), HeadPoll::Failed(kind));
        assert_eq!(server.log().iter().next().unwrap().status, None);
        assert!(!server.has_faults());
        assert_eq!(ask(&mut server, "/api/v1/pods").0, 200);
    }
    let mut server = server(Fault::stall());
    let id = server.handle_request(at(0), WATCH, JSON);
    assert_eq!(
        server.poll_head(at(9999), id),
        HeadPoll::Pending { until: None }
    );
}

#[test]
fn late_answers() {
    let mut server = server(Fault::expired().and_delay(Duration::from_secs(5)));
    let id = server.handle_request(at(1), WATCH, JSON);
    assert_eq!(
        server.poll_head(at(1), id),
        HeadPoll::Pending { until: Some(at(6)) }
    );
    assert_eq!(
        server.poll_chunk(at(1), id),
        Chunk::Pending { until: Some(at(6)) }
    );
    assert_eq!(head(&mut server, at(6), id).status, 410);

    server.inject(Fault::nothing().late_head());
    let id = server.handle_request(
        at(6),
        "/api/v1/pods?watch=1&resourceVersion=4&timeoutSeconds=60",
        JSON,
    );
    assert_eq!(
        server.poll_head(at(6), id),
        HeadPoll::Pending {
            until: Some(at(66))
        }
    );
    server.create("pods", pod("d", "x")).unwrap();
    assert_eq!(head(&mut server, at(6), id).status, 200);
}

#[test]
fn canned_answers() {
    let answer = |fault| {
        let mut server = server(fault);
        let id = server.handle_request(at(0), WATCH, JSON);
        (head(&mut server, at(0), id), read(&mut server, at(0), id).0)
    };
    let (head, body) = answer(Fault::overloaded(Some(7)));
    assert_eq!(
        (head.status, head.to_head().retry_after),
        (429, Some(Duration::from_secs(7)))
    );
    assert_eq!(
        head.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(body, "Too many requests, please try again later.\n");
    assert_eq!(
        answer(Fault::overloaded(None)).0.header("retry-after"),
        None
    );

    let (head, body) = answer(Fault::html());
    assert_eq!(
        (head.status, head.header("content-type")),
        (200, Some("text/html"))
    );
    assert!(body.starts_with("<!DOCTYPE html>"));

    let (head, body) = answer(Fault::api_status(403, "Forbidden", "no"));
    assert_eq!(
        (head.status, head.content_length),
        (403, Some(body.len() as u64))
    );
    assert_eq!(
        serde_json::from_str::<Value>(&body).unwrap()["message"],
        "no"
    );
    assert_eq!(
        answer(Fault::status(503, "x").header("Retry-After", "y"))
            .0
            .header("Retry-After"),
        Some("y")
    );
    assert_eq!(answer(Fault::raw("{\"ki").append("!")).1, "{\"ki!");
}

#[test]
fn cuts() {
    let reset = Ended::Cut(FailureKind::Reset);
    let (body, ended) = watch(Fault::nothing().cut_after_events(2));
    assert_eq!(
        (events(&body).join(" "), ended),
        ("ADDED a@2 ADDED b@3".into(), reset)
    );
    assert_eq!(
        watch(Fault::nothing().cut_after_events(0).cleanly()),
        (String::new(), Ended::Clean)
    );
    let (body, ended) = watch(Fault::nothing().cut_after_bytes(10).silently());
    assert_eq!((body.as_str(), ended), ("{\"type\":\"A", Ended::Open(None)));
    let (body, ended) = watch(Fault::nothing().cut_inside_event(1).cleanly());
    assert_eq!(
        (body.lines().count(), body.ends_with('\n'), ended),
        (2, false, Ended::Clean)
    );

    let whole = list(Fault::nothing()).0;
    for bytes in 0..whole.len() {
        let (body, ended) = list(
            Fault::nothing()
                .cut_after_bytes(bytes as u64)
                .split(&[7, 1, 100]),
        );
        assert_eq!((body.as_str(), ended), (&whole[..bytes], reset));
    }
    assert_eq!(
        list(Fault::nothing().cut_after_bytes(1_000_000)),
        (whole, Ended::Clean)
    );
    assert!(
        list(Fault::nothing().cut_after_events(1))
            .0
            .ends_with("\"phase\":\"Running\"}}")
    );
}

#[test]
fn cuts_of_what_is_still_to_come() {
    let mut server = server(Fault::nothing().cut_after_events(4));
    let id = server.handle_request(at(0), WATCH, JSON);
    assert_eq!(events(&read(&mut server, at(0), id).0).len(), 3);
    server.create("pods", pod("d", "x")).unwrap();
    server.create("pods", pod("e", "x")).unwrap();
    let (body, ended) = read(&mut server, at(0), id);
    assert_eq!(
        (events(&body).join(" "), ended),
        ("ADDED d@5".into(), Ended::Cut(FailureKind::Reset))
    );
}

#[test]
fn splits() {
    let mut server = server(Fault::nothing().split(&[1, 3, 0]));
    let id = server.handle_request(at(0), WATCH, JSON);
    let mut sizes = Vec::new();
    while let Chunk::Data(bytes) = server.poll_chunk(at(0), id) {
        sizes.push(bytes.len());
    }
    assert_eq!(sizes[..6], [1, 3, 1, 1, 3, 1]);
    let whole: usize = sizes.iter().sum();
    assert_eq!(whole, watch(Fault::nothing()).0.len());
}

#[test]
fn events_twice_never_and_with_noise() {
    let sent = |fault| events(&watch(fault).0).join(" ");
    assert_eq!(
        sent(Fault::nothing().duplicate_event(1)),
        "ADDED a@2 ADDED b@3 ADDED b@3 ADDED c@4"
    );
    assert_eq!(
        sent(Fault::nothing().drop_event(0).drop_event(2)),
        "ADDED b@3"
    );
    let (body, _) = watch(Fault::nothing().inject_before(1, "noise\n"));
    assert_eq!(body.lines().nth(1), Some("noise"));

    let listed = |fault| names(&serde_json::from_str(&list(fault).0).unwrap());
    for index in 0..3 {
        let mut all = ["a@2", "b@3", "c@4"].to_vec();
        all.remove(index);
        assert_eq!(
            listed(Fault::nothing().drop_event(index)),
            format!("4: {}", all.join(" "))
        );
        let mut all = ["a@2", "b@3", "c@4"].to_vec();
        all.insert(index, all[index]);
        assert_eq!(
            listed(Fault::nothing().duplicate_event(index)),
            format!("4: {}", all.join(" "))
        );
    }
    assert!(list(Fault::nothing().append("}}}")).0.ends_with("]}\n}}}"));
}

#[test]
fn whom_it_hits() {
    let mut server = server(Fault::status(500, "x").on(Verb::List).skip(1).times(2));
    server.inject(Fault::reset().on_path("/api/v1/nodes").always());
    let mut status = |target| {
        let id = server.handle_request(at(0), target, JSON);
        if let HeadPoll::Ready(head) = server.poll_head(at(0), id) {
            head.status
        } else {
            0
        }
    };
    let got: Vec<u16> = [
        "/api/v1/pods",
        WATCH,
        "/api/v1/pods",
        "/api/v1/nodes",
        "/api/v1/pods",
        "/api/v1/nodes",
        "/api/v1/pods",
    ]
    .map(&mut status)
    .into();
    // The second fault waits for the first one, which occurs alone.
    assert_eq!(got, [200, 200, 500, 500, 200, 0, 200]);
    server.clear_faults();
    assert_eq!(ask(&mut server, "/api/v1/nodes").0, 200);
}

#[test]
fn trouble_with_open_watches() {
    let mut server = FakeServer::new(1);
    let open = |server: &mut FakeServer| server.handle_request(at(0), WATCH, JSON);
    let (first, list) = (
        open(&mut server),
        server.handle_request(at(0), "/api/v1/pods", JSON),
    );
    assert_eq!(server.open_responses(), (2, 1));
    server.create("pods", pod("a", "x")).unwrap();
    server.cut_watches();
    assert_eq!(
        read(&mut server, at(0), first),
        (String::new(), Ended::Cut(FailureKind::Reset))
    );
    assert_eq!(read(&mut server, at(0), list).1, Ended::Clean);
    server.close(list);

    let second = open(&mut server);
    server.close_watches();
    assert_eq!(
        (
            events(&read(&mut server, at(0), second).0).len(),
            server.open_responses().0
        ),
        (1, 2)
    );

    let third = open(&mut server);
    server.stall_watches();
    assert_eq!(
        read(&mut server, at(9_999), third),
        (String::new(), Ended::Open(None))
    );

    let fourth = open(&mut server);
    server.go_down();
    assert_eq!(
        read(&mut server, at(0), fourth).1,
        Ended::Cut(FailureKind::Reset)
    );
    let fifth = open(&mut server);
    assert_eq!(
        server.poll_head(at(0), fifth),
        HeadPoll::Failed(FailureKind::Refused)
    );
    server.come_up();
    assert_eq!(ask(&mut server, "/api/v1/pods").0, 200);
}

#[test]
fn a_half_open_watch_ends_as_others_do() {
    type Change = fn(&mut FakeServer);
    let ways: [(Change, Ended); 4] = [
        (FakeServer::cut_watches, Ended::Cut(FailureKind::Reset)),
        (FakeServer::go_away, Ended::Cut(FailureKind::Reset)),
        (FakeServer::close_watches, Ended::Clean),
        (FakeServer::go_down, Ended::Cut(FailureKind::Reset)),
    ];
    for (end, expected) in ways {
        for fault in [
            Fault::nothing(),
            Fault::nothing().cut_after_events(0).silently(),
        ] {
            let mut server = server(fault);
            let id = server.handle_request(at(0), WATCH, JSON);
            head(&mut server, at(0), id);
            read(&mut server, at(0), id);
            server.stall_watches();
            server.stall_watches();
            let nothing = String::new();
            assert_eq!(
                read(&mut server, at(0), id),
                (nothing.clone(), Ended::Open(None))
            );
            end(&mut server);
            server.stall_watches();
            assert_eq!(read(&mut server, at(0), id), (nothing, expected));
        }
    }
}

#[test]
fn a_restart() {
    let mut server = server(Fault::nothing());
    server.tick(at(100));
    server.restart(Duration::from_secs(4));
    let id = server.handle_request(at(101), WATCH, JSON);
    let refused = head(&mut server, at(101), id);
    assert_eq!(
        (refused.status, refused.header("Retry-After")),
        (429, Some("3"))
    );
    let id = server.handle_request(at(104), WATCH, JSON);
    assert_eq!(
        events(&read(&mut server, at(104), id).0),
        ["ERROR 410 Expired"]
    );
    let id = server.handle_request(at(104), "/api/v1/pods?watch=1&resourceVersion=4", JSON);
    assert_eq!(read(&mut server, at(104), id).0, "");
}
