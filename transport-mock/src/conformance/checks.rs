//! The checks, one for each promise.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;

use informer_core::{
    Body, Head, Transport,
    transport::{FailureKind, Get, TransportError},
};
use serde_json::{Value, json};

use super::{Check, Outcome, TestServer};
use crate::fault::Fault;

macro_rules! checks {
    ($($name:ident)*) => {
        pub(super) fn all<T: Transport + 'static>() -> Vec<(&'static str, Check<T>)> {
            alloc::vec![$((
                stringify!($name),
                (|server, transport| -> core::pin::Pin<Box<dyn Future<Output = Outcome>>> {
                    Box::pin($name(server, transport))
                }) as Check<T>
            )),*]
        }
    };
}

checks! {
    a_list_arrives_complete
    a_large_list_arrives_complete
    requests_arrive_unchanged
    every_status_is_an_answer
    a_retry_after_in_seconds_is_reported
    bytes_are_passed_unchanged
    pieces_of_any_size_give_the_same_body
    an_event_is_delivered_on_arrival
    an_event_is_delivered_before_the_watch_ends
    the_clean_end_of_a_watch_is_no_error
    unread_bytes_are_not_lost
    no_byte_is_lost_if_a_read_is_abandoned
    a_cut_before_the_answer_is_an_error
    a_cut_inside_a_list_is_an_error
    a_cut_inside_a_watch_is_an_error
    after_a_failure_the_next_request_works
    an_abandoned_request_ends_at_the_server
    a_dropped_body_ends_at_the_server
    many_requests_one_after_another
}

const PODS: &str = "/api/v1/pods?limit=500&resourceVersion=0";
const WATCH: &str = "/api/v1/pods?watch=true&resourceVersion=1&timeoutSeconds=300";

async fn a_list_arrives_complete<T: Transport>(server: TestServer, mut transport: T) -> Outcome {
    add(&server, "default", "a", "")?;
    let (head, body) = get(&mut transport, PODS).await?;
    equal("the status", &head.status, &200)?;
    let list: Value = parse(&body)?;
    equal("the kind", &list["kind"], &json!("PodList"))?;
    equal(
        "the name",
        &list["items"][0]["metadata"]["name"],
        &json!("a"),
    )
}

async fn a_large_list_arrives_complete<T: Transport>(
    server: TestServer,
    mut transport: T,
) -> Outcome {
    // More than a megabyte, so that it does not fit into the buffers of a connection.
    let filling = "0123456789abcdef".repeat(1024);
    for number in 0..80 {
        add(&server, "default", &format!("pod-{number}"), &filling)?;
    }
    let (_, expected) = get(&mut server.transport(), PODS).await?;
    let (_, body) = get(&mut transport, PODS).await?;
    same_bytes(&body, &expected)
}

async fn requests_arrive_unchanged<T: Transport>(server: TestServer, mut transport: T) -> Outcome {
    let target = "/api/v1/namespaces/prod/pods?labelSelector=app%20in%20%28a%2Cb%29%2Cx%21%3D%C3%BC&limit=7&continue=a%2Bb%2F%3D%26c";
    let accept =
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    // The token is from another server, so the request is rejected. Only the request as received matters.
    let asked = transport.send(Get::new(target).accept(accept)).await;
    drop(asked.map_err(text)?);
    let log = server.log();
    let record = log
        .iter()
        .next_back()
        .ok_or("the server received no request")?;
    equal(
        "the path",
        &record.path.as_str(),
        &"/api/v1/namespaces/prod/pods",
    )?;
    equal("the Accept header", &record.accept.as_str(), &accept)?;
    for (name, expected) in [
        ("labelSelector", "app in (a,b),x!=ü"),
        ("limit", "7"),
        ("continue", "a+b/=&c"),
    ] {
        equal(name, &record.query.get(name), &Some(expected))?;
    }
    Ok(())
}

async fn every_status_is_an_answer<T: Transport>(server: TestServer, mut transport: T) -> Outcome {
    for status in [400, 401, 403, 404, 410, 422, 429, 500, 503, 504] {
        let fault = Fault::api_status(status, "Reason", &format!("this is {status}"));
        server.with(|server| server.inject(fault));
        let (head, body) = get(&mut transport, PODS).await?;
        equal("the status", &head.status, &status)?;
        let body: Value = parse(&body)?;
        equal(
            "the message",
            &body["message"],
            &json!(format!("this is {status}")),
        )?;
    }
    Ok(())
}

async fn a_retry_after_in_seconds_is_reported<T: Transport>(
    server: TestServer,
    mut transport: T,
) -> Outcome {
    for (header, expected) in [
        (Some("7"), Some(7)),
        (Some("0"), Some(0)),
        (Some("Fri, 31 Dec 1999 23:59:59 GMT"), None),
        (None, None),
    ] {
        let fault = Fault::api_status(429, "TooManyRequests", "busy");
        let fault = match header {
            Some(value) => fault.header("Retry-After", value),
            None => fault,
        };
        server.with(|server| server.inject(fault));
        let (head, _) = get(&mut transport, PODS).await?;
        let expected = expected.map(Duration::from_secs);
        equal(
            &format!("Retry-After: {header:?}"),
            &head.retry_after,
            &expected,
        )?;
    }
    Ok(())
}

async fn bytes_are_passed_unchanged<T: Transport>(server: TestServer, mut transport: T) -> Outcome {
    let every: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    server.with(|server| server.inject(Fault::raw(&every)));
    let (_, body) = get(&mut transport, PODS).await?;
    same_bytes(&body, &every)
}

async fn pieces_of_any_size_give_the_same_body<T: Transport>(
    server: TestServer,
    mut transport: T,
) -> Outcome {
    add(&server, "default", "a", "é – 世界")?;
    let (_, expected) = get(&mut server.transport(), PODS).await?;
    for sizes in [&[1][..], &[1, 2, 3, 5, 8, 13], &[4096]] {
        server.with(|server| server.inject(Fault::nothing().split(sizes)));
        let (_, body) = get(&mut transport, PODS).await?;
        same_bytes(&body, &expected)?;
    }
    Ok(())
}

async fn an_event_is_delivered_on_arrival<T: Transport>(
    server: TestServer,
    mut transport: T,
) -> Outcome {
    let mut watch = watch(&mut transport).await?;
    for number in 0..20 {
        // The next event does not exist before this one was read, so a transport that waits for more data hangs.
        let name = format!("pod-{number}");
        add(&server, "default", &name, "")?;
        let event = event(&mut watch).await?;
        equal(
            "the event",
            &event["object"]["metadata"]["name"],
            &json!(name),
        )?;
    }
    Ok(())
}

async fn an_event_is_delivered_before_the_watch_ends<T: Transport>(
    server: TestServer,
    mut transport: T,
) -> Outcome {
    server.with(|server| server.inject(Fault::nothing().cut_after_events(2).cleanly()));
    let mut watch = watch(&mut transport).await?;
    for name in ["a", "b"] {
        add(&server, "default", name, "")?;
    }
    let all = rest(&mut watch).await.map_err(text)?;
    equal(
        "the events",
        &all.iter().filter(|b| **b == b'\n').count(),
        &2,
    )
}

async fn the_clean_end_of_a_watch_is_no_error<T: Transport>(
    server: TestServer,
    mut transport: T,
) -> Outcome {
    server.with(|server| server.inject(Fault::nothing().cut_after_bytes(0).cleanly()));
    let mut watch = watch(&mut transport).await?;
    let all = rest(&mut watch).await.map_err(text)?;
    equal("the bytes", &all.len(), &0)
}

async fn unread_bytes_are_not_lost<T: Transport>(server: TestServer, mut transport: T) -> Outcome {
    let mut watch = watch(&mut transport).await?;
    let filling = "0123456789abcdef".repeat(256);
    for number in 0..500 {
        add(&server, "default", &format!("pod-{number}"), &filling)?;
        tokio::task::yield_now().await;
    }
    let (mut seen, mut lines) = (Vec::new(), 0);
    while lines < 500 {
        let piece = watch.chunk().await.map_err(text)?;
        let piece = piece.ok_or("the watch ended")?;
        lines += piece.iter().filter(|byte| **byte == b'\n').count();
        seen.extend_from_slice(piece);
    }
    let names = seen.split(|byte| *byte == b'\n').take(500);
    for (number, line) in names.enumerate() {
        let event: Value = parse(line)?;
        let expected = json!(format!("pod-{number}"));
        equal("the event", &event["object"]["metadata"]["name"], &expected)?;
    }
    Ok(())
}

async fn no_byte_is_lost_if_a_read_is_abandoned<T: Transport>(
    server: TestServer,
    mut transport: T,
) -> Outcome {
    for number in 0..50 {
        add(&server, "default", &format!("pod-{number}"), "filling")?;
    }
    let (_, expected) = get(&mut server.transport(), PODS).await?;
    server.with(|server| server.inject(Fault::nothing().split(&[7, 31])));
    let (_, mut body) = transport.send(Get::new(PODS)).await.map_err(text)?;
    let mut seen = Vec::new();
    loop {
        // Polled once and dropped, again and again, and then awaited so that data arrives.
        let abandoned = {
            let mut reading = pin!(body.chunk());
            poll_fn(|cx| {
                Poll::Ready(match reading.as_mut().poll(cx) {
                    Poll::Ready(read) => {
                        Some(read.map(|piece| piece.map(<[u8]>::to_vec)).map_err(text))
                    }
                    Poll::Pending => None,
                })
            })
            .await
        };
        let piece = match abandoned {
            Some(read) => read?,
            None => {
                tokio::task::yield_now().await;
                body.chunk().await.map_err(text)?.map(<[u8]>::to_vec)
            }
        };
        let Some(piece) = piece else { break };
        seen.extend_from_slice(&piece);
    }
    same_bytes(&seen, &expected)
}

async fn a_cut_before_the_answer_is_an_error<T: Transport>(
    server: TestServer,
    mut transport: T,
) -> Outcome {
    server.with(|server| server.inject(Fault::reset()));
    match transport.send(Get::new(PODS)).await {
        Ok((head, _)) => Err(format!("there was a response: {}", head.status)),
        Err(error) => not_blamed(error.kind()),
    }
}

async fn a_cut_inside_a_list_is_an_error<T: Transport>(
    server: TestServer,
    mut transport: T,
) -> Outcome {
    for number in 0..50 {
        add(&server, "default", &format!("pod-{number}"), "filling")?;
    }
    let (_, whole) = get(&mut server.transport(), PODS).await?;
    for bytes in [1, 100, 5_000] {
        server.with(|server| server.inject(Fault::nothing().cut_after_bytes(bytes)));
        // The cut may overtake the data that was sent before it, including the head.
        let Ok((_, mut body)) = transport.send(Get::new(PODS)).await else {
            continue;
        };
        let mut seen = Vec::new();
        let error = loop {
            match body.chunk().await {
                Ok(Some(piece)) => seen.extend_from_slice(piece),
                Ok(None) => return Err(format!("a list cut after {bytes} bytes ended cleanly")),
                Err(error) => break error,
            }
        };
        not_blamed(error.kind())?;
        if !whole.starts_with(&seen) {
            return Err("the data before the cut differs from the list".to_string());
        }
    }
    Ok(())
}

async fn a_cut_inside_a_watch_is_an_error<T: Transport>(
    server: TestServer,
    mut transport: T,
) -> Outcome {
    server.with(|server| server.inject(Fault::nothing().cut_inside_event(1)));
    let mut watch = watch(&mut transport).await?;
    add(&server, "default", "a", "")?;
    event(&mut watch).await?;
    add(&server, "default", "b", "")?;
    match rest(&mut watch).await {
        Ok(_) => Err("a watch cut inside an event ended cleanly".to_string()),
        Err(error) => not_blamed(error.kind()),
    }
}

async fn after_a_failure_the_next_request_works<T: Transport>(
    server: TestServer,
    mut transport: T,
) -> Outcome {
    add(&server, "default", "a", "")?;
    let (_, expected) = get(&mut server.transport(), PODS).await?;
    for fault in [Fault::reset(), Fault::nothing().cut_after_bytes(10)] {
        server.with(|server| server.inject(fault));
        if get(&mut transport, PODS).await.is_ok() {
            return Err("a cut was no error".to_string());
        }
        let (_, body) = get(&mut transport, PODS).await?;
        same_bytes(&body, &expected)?;
    }
    Ok(())
}

async fn an_abandoned_request_ends_at_the_server<T: Transport>(
    server: TestServer,
    mut transport: T,
) -> Outcome {
    server.with(|server| server.inject(Fault::stall()));
    {
        let mut sending = pin!(transport.send(Get::new(PODS)));
        let asked = until(&server, |open| open == 1);
        let mut asked = pin!(asked);
        poll_fn(|cx| {
            if sending.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(
                    "a response came from a server that sends none".to_string()
                ));
            }
            asked.as_mut().poll(cx)
        })
        .await?;
    }
    until(&server, |open| open == 0).await?;
    get(&mut transport, PODS).await.map(|_| ())
}

async fn a_dropped_body_ends_at_the_server<T: Transport>(
    server: TestServer,
    mut transport: T,
) -> Outcome {
    let mut body = watch(&mut transport).await?;
    add(&server, "default", "a", "")?;
    event(&mut body).await?;
    equal("the open responses", &server.with(|s| s.open()), &1)?;
    drop(body);
    until(&server, |open| open == 0).await?;
    let (head, _) = get(&mut transport, PODS).await?;
    equal("the status", &head.status, &200)
}

async fn many_requests_one_after_another<T: Transport>(
    server: TestServer,
    mut transport: T,
) -> Outcome {
    for number in 0..100 {
        add(&server, "default", &format!("pod-{number}"), "")?;
        let (_, body) = get(&mut transport, PODS).await?;
        let list: Value = parse(&body)?;
        let count = list["items"].as_array().map_or(0, Vec::len);
        equal("the objects", &count, &(number + 1))?;
    }
    Ok(())
}

/// Waits until the number of open responses is right.
async fn until(server: &TestServer, right: impl Fn(usize) -> bool) -> Outcome {
    for _ in 0..1_000 {
        if right(server.with(|server| server.open())) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let open = server.with(|server| server.open());
    Err(format!("after 10 s the server has {open} open responses"))
}

fn add(server: &TestServer, namespace: &str, name: &str, filling: &str) -> Outcome {
    let pod = json!({
        "metadata": { "namespace": namespace, "name": name, "annotations": { "filling": filling } },
    });
    let created = server.with(|server| server.create("pods", pod));
    created.map(|_| ()).map_err(|error| error.to_string())
}

async fn get<T: Transport>(transport: &mut T, target: &str) -> Result<(Head, Vec<u8>), String> {
    let (head, mut body) = transport.send(Get::new(target)).await.map_err(text)?;
    let body = rest(&mut body).await.map_err(text)?;
    Ok((head, body))
}

async fn watch<T: Transport>(transport: &mut T) -> Result<T::Body, String> {
    let (head, body) = transport
        .send(Get::new(WATCH).watch(true))
        .await
        .map_err(text)?;
    equal("the status of the watch", &head.status, &200)?;
    Ok(body)
}

async fn rest<B: Body>(body: &mut B) -> Result<Vec<u8>, B::Error> {
    let mut all = Vec::new();
    while let Some(piece) = body.chunk().await? {
        all.extend_from_slice(piece);
    }
    Ok(all)
}

/// Reads one event. No other event is available.
async fn event<B: Body>(body: &mut B) -> Result<Value, String> {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        let piece = body.chunk().await.map_err(text)?;
        line.extend_from_slice(piece.ok_or("the watch ended")?);
    }
    parse(&line)
}

/// The connection was lost. The error must not blame anything else.
fn not_blamed(kind: FailureKind) -> Outcome {
    match kind {
        FailureKind::Reset | FailureKind::Other => Ok(()),
        FailureKind::Refused
        | FailureKind::TimedOut
        | FailureKind::Tls
        | FailureKind::Dns
        | FailureKind::Request
        | _ => Err(format!("a cut was reported as {kind:?}")),
    }
}

fn parse(bytes: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("the data is not JSON: {error}"))
}

fn text(error: impl TransportError) -> String {
    format!("the request failed: {error}")
}

fn equal<V: PartialEq + core::fmt::Debug>(what: &str, found: &V, expected: &V) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what} is {found:?} instead of {expected:?}"))
}

fn same_bytes(found: &[u8], expected: &[u8]) -> Outcome {
    if found == expected {
        return Ok(());
    }
    let at = found.iter().zip(expected).position(|(a, b)| a != b);
    Err(match at {
        Some(at) => format!("byte {at} of {} differs", expected.len()),
        None => format!(
            "{} bytes arrived instead of {}",
            found.len(),
            expected.len()
        ),
    })
}
