//! Several servers, a restored backup, and load balancers and proxies.

use core::num::NonZeroU32;
use core::time::Duration;

use crate::common::{Ended, JSON, ask, at, events, head, names, pod, read};
use informer_mock::{Backend, Chunk, Config, FailureKind, FakeServer, Fault, HeadPoll, Verb};

const RESTART: Duration = Duration::from_secs(5);

fn server() -> FakeServer {
    FakeServer::new(1)
}

/// A server that lags, and is set to lag at a later version, receives the changes in between.
#[test]
fn a_server_that_catches_up_sends_its_watches_the_newer_events() {
    let mut server = server();
    server.create("pods", pod("a", "x")).unwrap(); // 2
    server.lag_at(2);
    let watch = server.handle_request(at(0), "/api/v1/pods?watch=1&resourceVersion=2", JSON);
    server.create("pods", pod("b", "x")).unwrap(); // 3
    server.create("pods", pod("c", "x")).unwrap(); // 4
    server.lag_at(3);
    assert_eq!(events(&read(&mut server, at(0), watch).0).len(), 1);
    server.catch_up();
    assert_eq!(events(&read(&mut server, at(0), watch).0).len(), 1);
}

#[test]
fn each_server_has_a_cache_of_its_own_and_keeps_its_watches() {
    let mut server = server();
    server.create("pods", pod("a", "x")).unwrap(); // 2
    let second = server.add_server();
    assert_eq!((second, server.routed_to()), (1, 0));
    let first_watch = server.handle_request(at(0), "/api/v1/pods?watch=1&resourceVersion=2", JSON);
    server.route_to(second);
    server.lag_at(2);
    let second_watch = server.handle_request(at(0), "/api/v1/pods?watch=1&resourceVersion=2", JSON);
    server.create("pods", pod("b", "x")).unwrap(); // 3
    assert_eq!(
        (server.visible_version(0), server.visible_version(1)),
        (Some(3), Some(2))
    );
    assert_eq!(events(&read(&mut server, at(0), first_watch).0).len(), 1);
    assert_eq!(read(&mut server, at(0), second_watch).0, "");

    // A list at "0" shows what each server has, and a list without a version shows the storage.
    let seen = |server: &mut FakeServer, target| names(&ask(server, target).1);
    assert_eq!(
        seen(&mut server, "/api/v1/pods?resourceVersion=0"),
        "2: a@2"
    );
    assert_eq!(seen(&mut server, "/api/v1/pods"), "3: a@2 b@3");
    server.route_to(0);
    assert_eq!(
        seen(&mut server, "/api/v1/pods?resourceVersion=0"),
        "3: a@2 b@3"
    );

    // Each server goes down separately.
    server.go_down();
    assert_eq!(
        read(&mut server, at(0), first_watch).1,
        Ended::Cut(FailureKind::Reset)
    );
    let refused = server.handle_request(at(0), "/api/v1/pods", JSON);
    assert_eq!(
        server.poll_head(at(0), refused),
        HeadPoll::Failed(FailureKind::Refused)
    );
    server.route_to(second);
    server.catch_up();
    assert_eq!(events(&read(&mut server, at(0), second_watch).0).len(), 1);
    assert_eq!(ask(&mut server, "/api/v1/pods").0, 200);
    server.restart(RESTART);
    assert_eq!(ask(&mut server, "/api/v1/pods").0, 429);
    server.route_to(7);
    assert_eq!(server.routed_to(), 1, "there is no such server");
}

#[test]
fn a_list_that_is_held_waits_for_its_own_server() {
    let mut server = server();
    let second = server.add_server();
    server.route_to(second);
    server.lag_at(1);
    let version = server.create("pods", pod("a", "x")).unwrap();
    let target = format!("/api/v1/pods?resourceVersion={version}");
    let held = server.handle_request(at(0), &target, JSON);
    server.route_to(0);
    assert!(matches!(
        server.poll_head(at(0), held),
        HeadPoll::Pending { until: Some(_) }
    ));
    assert_eq!(ask(&mut server, &target).0, 200, "the other has it");
    server.route_to(second);
    server.catch_up();
    server.route_to(0);
    assert_eq!(head(&mut server, at(1), held).status, 200);
}

#[test]
fn a_backup_makes_what_came_after_it_unhappened() {
    let mut server = server();
    let backup = server.create("pods", pod("a", "old")).unwrap();
    server.update("pods", pod("a", "new")).unwrap();
    server.create("pods", pod("b", "x")).unwrap();
    let seen = server.version();
    let watch = server.handle_request(at(0), "/api/v1/pods?watch=1&resourceVersion=4", JSON);
    server.restore(backup);
    assert_eq!(
        read(&mut server, at(0), watch).1,
        Ended::Cut(FailureKind::Reset)
    );
    assert_eq!(server.version(), backup);
    let (_, list) = ask(&mut server, "/api/v1/pods");
    assert_eq!(names(&list), "2: a@2");
    assert_eq!(list["metadata"]["resourceVersion"], backup.to_string());
    assert_eq!(list["items"][0]["metadata"]["labels"]["app"], "old");

    // The version that a client has seen is in the future now,
    let target = format!("/api/v1/pods?resourceVersion={seen}");
    let held = server.handle_request(at(0), &target, JSON);
    assert_eq!(head(&mut server, at(4), held).status, 504);
    // and the following versions are issued again for other changes.
    assert_eq!(server.create("pods", pod("c", "x")).unwrap(), backup + 1);
    // A backup from before the known history restores the oldest known state.
    server.compact_all();
    let compacted = server.version();
    server.create("pods", pod("d", "x")).unwrap();
    server.restore(1);
    assert_eq!(server.version(), compacted);
    assert_eq!(names(&ask(&mut server, "/api/v1/pods").1), "4: a@2 c@3");
}

#[test]
fn a_thin_link_brings_so_many_bytes_a_second() {
    for by_fault in [false, true] {
        let mut server = server();
        for index in 0..50 {
            server
                .create("pods", pod(&format!("p{index}"), "x"))
                .unwrap();
        }
        let whole = ask(&mut server, "/api/v1/pods").1.to_string().len();
        if by_fault {
            server.inject(Fault::nothing().bandwidth(1000).on(Verb::List));
        } else {
            server.config_mut().bandwidth = NonZeroU32::new(1000);
        }
        let id = server.handle_request(at(10), "/api/v1/pods", JSON);
        let (mut now, mut length) = (at(10), 0);
        loop {
            match server.poll_chunk(now, id) {
                Chunk::Data(bytes) => {
                    assert!((1..=100).contains(&bytes.len()));
                    length += bytes.len();
                }
                Chunk::Pending { until } => now = until.expect("it goes on"),
                Chunk::End => break,
                Chunk::Abort(kind) => panic!("{kind}"),
            }
        }
        assert!(length >= whole, "{length} of {whole}");
        let took = now.saturating_duration_since(at(10)).as_millis();
        assert_eq!(took, length as u128, "a byte a millisecond");
    }
}

#[test]
fn a_silent_connection_is_cut_on_the_way() {
    let mut config = Config::default();
    config.idle_cut = Some(Duration::from_secs(240));
    config.bookmarks = false;
    let mut server = FakeServer::with_config(1, config);
    let watch = server.handle_request(at(0), "/api/v1/pods?watch=1&resourceVersion=1", JSON);
    let open = |until| ("".to_string(), Ended::Open(Some(at(until))));
    assert_eq!(read(&mut server, at(1), watch), open(241), "since it began");
    server.create("pods", pod("a", "x")).unwrap();
    assert_eq!(
        read(&mut server, at(200), watch).1,
        Ended::Open(Some(at(440)))
    );
    assert_eq!(read(&mut server, at(439), watch), open(440));
    let cut = Ended::Cut(FailureKind::Reset);
    assert_eq!(read(&mut server, at(440), watch), (String::new(), cut));
}

#[test]
fn beyond_the_limit_of_streams_requests_wait() {
    let mut config = Config::default();
    config.stream_limit = Some(2);
    let mut server = FakeServer::with_config(1, config);
    let [first, second, third] = [0; 3]
        .map(|_| server.handle_request(at(0), "/api/v1/pods?watch=1&resourceVersion=1", JSON));
    for id in [first, second] {
        assert_eq!(head(&mut server, at(0), id).status, 200);
    }
    assert_eq!(
        server.poll_head(at(9), third),
        HeadPoll::Pending { until: None }
    );
    server.close(first);
    assert_eq!(head(&mut server, at(9), third).status, 200);
}

#[cfg(feature = "std")]
#[test]
fn a_request_that_waits_for_a_stream_is_woken_by_an_end() {
    use informer_mock::{Get, Mock, Simulation, Transport};
    let mut config = Config::default();
    config.stream_limit = Some(1);
    let mock = Mock::new(FakeServer::with_config(1, config));
    let watch = Get::new("/api/v1/pods?watch=1&resourceVersion=1").watch(true);
    let mut simulation = Simulation::new(mock.clock());
    let mut transport = mock.transport();
    let (_, first) = simulation
        .block_on(async move { transport.send(watch).await.ok() })
        .flatten()
        .unwrap();
    let mut transport = mock.transport();
    simulation.spawn(async move { drop(first) });
    let second = simulation.block_on(async move {
        transport
            .send(watch)
            .await
            .ok()
            .map(|(head, _)| head.status)
    });
    assert_eq!(second.flatten(), Some(200));
}

#[test]
fn a_goaway_cuts_what_has_not_begun_and_nothing_else() {
    let mut server = server();
    server.config_mut().latency = Duration::from_secs(1);
    let watch = "/api/v1/pods?watch=1&resourceVersion=1";
    let begun = server.handle_request(at(0), watch, JSON);
    assert_eq!(head(&mut server, at(1), begun).status, 200);
    let waits = server.handle_request(at(1), watch, JSON);
    server.go_away();
    assert_eq!(
        server.poll_head(at(2), waits),
        HeadPoll::Failed(FailureKind::Reset)
    );
    server.create("pods", pod("a", "x")).unwrap();
    let (body, ended) = read(&mut server, at(2), begun);
    assert_eq!(events(&body).len(), 1);
    assert!(matches!(ended, Ended::Open(_)));
}

#[test]
fn versions_differ_in_what_they_compress() {
    let of = |minor| {
        let config = Config::for_minor(minor);
        (config.gzip_lists, config.gzip_streams)
    };
    assert_eq!(
        [15, 16, 36, 37].map(of),
        [(false, false), (true, false), (true, false), (true, true)]
    );
}
