//! The transport on virtual time.
#![cfg(feature = "std")]

use core::cell::RefCell;
use core::time::Duration;
use std::rc::Rc;

use crate::common::{events, pod};
use informer_mock::{
    Body, FailureKind, FakeServer, Fault, Get, Mock, MockTransport, ScriptedServer, Simulation,
    Transport, TransportError, Verb,
};

/// Sends a request, reads the whole response, and returns status, body and failure.
async fn all(transport: &mut impl Transport, target: &str) -> (u16, String, Option<FailureKind>) {
    let (head, mut body) = match transport.send(Get::new(target)).await {
        Ok(answer) => answer,
        Err(error) => return (0, String::new(), Some(error.kind())),
    };
    let mut text = Vec::new();
    let failure = loop {
        match body.chunk().await {
            Ok(Some(bytes)) => text.extend_from_slice(bytes),
            Ok(None) => break None,
            Err(error) => break Some(error.kind()),
        }
    };
    (head.status, String::from_utf8(text).unwrap(), failure)
}

fn assert_send<T: Send>(value: T) -> T {
    value
}

#[test]
fn everything_can_be_sent_to_another_thread() {
    let mock = Mock::new(FakeServer::new(1));
    let mut transport = assert_send(mock.transport());
    drop(assert_send(async move {
        let (_, mut body) = transport.send(Get::new("/")).await.unwrap();
        let _ = body.chunk().await;
    }));
    assert_send(mock.transport());
}

#[test]
fn a_watch_wakes_with_changes_and_with_time() {
    let mock = Mock::new(FakeServer::new(1));
    let clock = mock.clock().clone();
    let start = clock.now();
    let mut simulation = Simulation::new(&clock);
    let sent = Rc::new(RefCell::new(Vec::new()));
    let mut transport = mock.transport();
    simulation.spawn({
        let sent = Rc::clone(&sent);
        async move {
            let target = "/api/v1/pods?watch=true&resourceVersion=1&allowWatchBookmarks=true&timeoutSeconds=100";
            let (head, mut body) = transport.send(Get::new(target).watch(true)).await.unwrap();
            assert_eq!(head.status, 200);
            while let Some(bytes) = body.chunk().await.unwrap() {
                let events = events(core::str::from_utf8(bytes).unwrap()).join(",");
                sent.borrow_mut().push((clock.now() - start, events));
            }
            sent.borrow_mut().push((clock.now() - start, "end".into()));
        }
    });
    simulation.run_for(Duration::from_secs(10));
    mock.create("pods", pod("a", "x")).unwrap();
    mock.update("pods", pod("a", "y")).unwrap();
    simulation.run_until_stalled();
    mock.put("pods", pod("a", "z")).unwrap();
    simulation.run_for(Duration::from_secs(1));
    mock.delete("pods", "default", "a").unwrap();
    simulation.run_for(Duration::from_secs(1000));
    let seconds = |n| Duration::from_secs(n);
    assert_eq!(
        *sent.borrow(),
        [
            (seconds(10), "ADDED a@2,MODIFIED a@3".to_string()),
            (seconds(10), "MODIFIED a@4".into()),
            (seconds(11), "DELETED a@5".into()),
            (seconds(60), "BOOKMARK 5".into()),
            (seconds(98), "BOOKMARK 5".into()),
            (seconds(100), "end".into()),
        ]
    );
    assert_eq!(simulation.running(), 0);
    assert_eq!(
        mock.with(FakeServer::open_responses),
        (0, 0),
        "what is dropped is closed"
    );
    mock.log().assert_requests(&["WATCH rv=1 bookmarks"]);
}

#[test]
fn requests_that_are_given_up_leave_nothing() {
    let mock = Mock::new(FakeServer::new(1));
    mock.with(|server| server.inject(Fault::stall()));
    let mut simulation = Simulation::new(mock.clock());
    let mut transport = mock.transport();
    simulation.spawn(async move {
        let _ = transport.send(Get::new("/api/v1/pods")).await;
    });
    simulation.run_for(Duration::from_secs(5));
    assert_eq!(mock.with(FakeServer::open_responses).0, 1);
    drop(simulation);
    assert_eq!(mock.with(FakeServer::open_responses).0, 0);
    assert_eq!(mock.clock().next_deadline(), None);
}

#[test]
fn a_chunk_that_is_given_up_loses_nothing() {
    let mock = Mock::new(FakeServer::new(1));
    mock.create("pods", pod("a", "x")).unwrap();
    mock.with(|server| server.inject(Fault::nothing().split(&[10])));
    let clock = mock.clock().clone();
    let mut simulation = Simulation::new(&clock);
    let mut transport = mock.transport();
    let text = simulation.block_on(async move {
        let target = "/api/v1/pods?watch=true&resourceVersion=1&timeoutSeconds=9";
        let (_, mut body) = transport.send(Get::new(target)).await.unwrap();
        let mut text = Vec::new();
        loop {
            // Polled once and dropped, repeatedly.
            let polled = {
                let mut chunk = core::pin::pin!(body.chunk());
                core::future::poll_fn(|context| {
                    core::task::Poll::Ready(match chunk.as_mut().poll(context) {
                        core::task::Poll::Ready(result) => {
                            Some(result.unwrap().map(<[u8]>::to_vec))
                        }
                        core::task::Poll::Pending => None,
                    })
                })
                .await
            };
            match polled {
                Some(Some(bytes)) => text.extend(bytes),
                Some(None) => return String::from_utf8(text).unwrap(),
                None => {
                    clock
                        .sleep_until(clock.now() + Duration::from_millis(700))
                        .await;
                }
            }
        }
    });
    assert_eq!(events(&text.unwrap()), ["ADDED a@2"]);
}

#[test]
fn lengths_that_are_lies() {
    let mock = Mock::new(FakeServer::new(1));
    let mut simulation = Simulation::new(mock.clock());
    let mut ask = |fault| {
        mock.with(|server| server.inject(fault));
        let mut transport = mock.transport();
        simulation
            .block_on(async move { all(&mut transport, "/api/v1/pods").await })
            .unwrap()
    };
    let (_, whole, failure) = ask(Fault::nothing());
    assert_eq!(failure, None);
    assert_eq!(
        ask(Fault::nothing().content_length(1_000)),
        (200, whole.clone(), Some(FailureKind::Reset))
    );
    assert_eq!(
        ask(Fault::nothing().content_length(5).split(&[3])),
        (200, whole[..5].into(), None)
    );
    assert_eq!(
        ask(Fault::nothing().content_length(whole.len() as u64)),
        (200, whole, None)
    );
}

#[test]
fn kept_connections() {
    let mock = Mock::new(FakeServer::new(1));
    mock.with(|server| {
        server.inject(Fault::reset().on(Verb::Watch).always());
        server.inject(Fault::refuse().on(Verb::Stream).always());
    });
    let mut simulation = Simulation::new(mock.clock());
    let mut used = |transport: &MockTransport, target: &'static str| {
        let mut transport = transport.clone();
        let answer = simulation.block_on(async move {
            match transport.send(Get::new(target)).await {
                Ok((_, mut body)) => {
                    while body.chunk().await.unwrap().is_some() {}
                    None
                }
                Err(error) => Some(error.connection_was_used()),
            }
        });
        answer.unwrap()
    };
    let (list, watch) = ("/api/v1/pods", "/api/v1/pods?watch=1");
    let stream = "/api/v1/pods?watch=1&sendInitialEvents=true";
    let transport = mock.transport();
    assert_eq!(used(&transport, watch), Some(false));
    assert_eq!(used(&transport, list), None);
    assert_eq!(used(&transport, watch), Some(true));
    assert_eq!(used(&transport, watch), Some(false));
    assert_eq!(used(&transport, list), None);
    assert_eq!(
        used(&transport, stream),
        Some(false),
        "what was used cannot be refused"
    );
    let transport = mock.transport().keep_alive(false);
    assert_eq!(used(&transport, list), None);
    assert_eq!(used(&transport, watch), Some(false));
}

#[test]
fn a_script_on_virtual_time() {
    let script = r#"{
        "lists": [{"end": "refuse"}, {"status": 429, "body": {"kind": "Status", "apiVersion": "v1"}, "headers": {"Retry-After": "1"}}],
        "watches": [{"delay": 2, "frames": ["x", 0.5, {"type": "Ä"}, 1.5], "end": "abort"}]
    }"#;
    let mock = Mock::new(ScriptedServer::from_json(script).unwrap());
    let start = mock.clock().now();
    let mut simulation = Simulation::new(mock.clock());
    let mut transport = mock.transport();
    let answers = simulation.block_on(async move {
        let list = "/api/v1/pods?limit=500&resourceVersion=0";
        let first = all(&mut transport, list).await;
        let second = all(&mut transport, list).await;
        [
            first,
            second,
            all(&mut transport, "/api/v1/pods?watch=true&timeoutSeconds=301").await,
        ]
    });
    assert_eq!(
        answers.unwrap(),
        [
            (0, String::new(), Some(FailureKind::Reset)),
            (
                429,
                "{\"kind\":\"Status\",\"apiVersion\":\"v1\"}".into(),
                None
            ),
            (
                200,
                "x{\"type\":\"\\u00c4\"}\n".into(),
                Some(FailureKind::Reset)
            ),
        ]
    );
    assert_eq!(mock.clock().now() - start, Duration::from_secs(4));
    mock.log()
        .assert_requests(&["LIST rv=0 limit=500", "LIST rv=0 limit=500", "WATCH"]);
    assert_eq!(mock.log().watches().next().unwrap().timeout(), Some(301));
    let list = r#"{"path":"/api/v1/pods","query":{"limit":"500","resourceVersion":"0"},"t":0.0,"timeout":null,"verb":"LIST"}"#;
    let watch = r#"{"path":"/api/v1/pods","query":{"watch":"true"},"t":0.0,"timeout":301.0,"verb":"WATCH"}"#;
    assert_eq!(
        mock.with(|server| server.log_lines()),
        format!("{list}\n{list}\n{watch}\n")
    );
}
