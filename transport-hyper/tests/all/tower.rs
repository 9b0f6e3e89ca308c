//! A service as a transport.
#![cfg(feature = "tower")]
#![allow(clippy::std_instead_of_alloc, reason = "a test may")]

use core::future::ready;
use std::io;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Empty, Full, StreamBody};
use hyper::body::Frame;
use informer_core::{
    Body, Transport,
    transport::{FailureKind, Get, TransportError},
};
use informer_hyper::TowerTransport;
use tower::service_fn;
use tower::util::future_service;

#[tokio::test]
async fn a_request_has_what_the_engine_wants_and_no_host() {
    let service = service_fn(|request: Request<Empty<Bytes>>| async move {
        assert_eq!(request.uri().to_string(), "/api/v1/pods?limit=500");
        assert_eq!(request.headers()["accept"], "application/json");
        assert_eq!(request.headers()["accept-encoding"], "identity");
        let head = Response::builder().status(429).header("Retry-After", "7");
        let head = head.header("Warning", "299 - \"old\"");
        Ok::<_, io::Error>(head.body(Full::<Bytes>::from("busy")).unwrap())
    });
    let mut transport = TowerTransport::new(service);
    let (head, mut body) = transport
        .send(Get::new("/api/v1/pods?limit=500"))
        .await
        .unwrap();
    assert_eq!((head.status, head.retry_after.unwrap().as_secs()), (429, 7));
    assert_eq!(body.warning(), Some("old"));
    assert_eq!(body.chunk().await.unwrap(), Some(&b"busy"[..]));
    assert_eq!(body.chunk().await.unwrap(), None);
    // The clones return each warning once.
    let again = Get::new("/api/v1/pods?limit=500");
    let (_, mut body) = transport.clone().send(again).await.unwrap();
    assert_eq!(body.warning(), None);
}

#[tokio::test]
async fn a_service_that_fails_is_reported_by_class() {
    for (kind, class) in [
        (io::ErrorKind::ConnectionRefused, FailureKind::Refused),
        (io::ErrorKind::ConnectionReset, FailureKind::Reset),
        (io::ErrorKind::TimedOut, FailureKind::TimedOut),
        (io::ErrorKind::InvalidData, FailureKind::Other),
    ] {
        let service = service_fn(move |_: Request<Empty<Bytes>>| async move {
            Err::<Response<Full<Bytes>>, _>(io::Error::new(kind, "broken"))
        });
        let error = TowerTransport::new(service)
            .send(Get::new("/x"))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), class);
        assert_eq!(error.to_string(), "no response from the service: broken");
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_built_is_no_failure_of_the_service() {
    let service = service_fn(|_: Request<Empty<Bytes>>| async move {
        Ok::<_, io::Error>(Response::new(Full::<Bytes>::default()))
    });
    let mut transport = TowerTransport::new(service);
    let long = format!("/x?labelSelector={}", "a".repeat(70_000));
    for (target, why) in [
        (long.as_str(), "its path and query have 70017 bytes"),
        ("/a b", "invalid uri character"),
    ] {
        let error = transport
            .send(Get::new(target))
            .await
            .map(drop)
            .unwrap_err();
        assert_eq!(error.kind(), FailureKind::Request);
        let shown = error.to_string();
        let expected = format!("cannot send a request to the service: {why}");
        assert!(shown.starts_with(&expected), "{shown}");
    }
}

#[tokio::test]
async fn a_body_that_breaks_is_reported() {
    let service = service_fn(|_: Request<Empty<Bytes>>| async move {
        let pieces = [
            Ok(Frame::data(Bytes::from("half"))),
            Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        ];
        let body = StreamBody::new(futures_util::stream::iter(pieces));
        Ok::<_, io::Error>(Response::new(body))
    });
    // It panics if it is called before it is ready.
    let service = future_service(ready(Ok::<_, io::Error>(service)));
    let (_, mut body) = TowerTransport::new(service)
        .send(Get::new("/x"))
        .await
        .unwrap();
    assert_eq!(body.chunk().await.unwrap(), Some(&b"half"[..]));
    let error = body.chunk().await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Reset);
    assert_eq!(
        error.to_string(),
        "the response from the service was cut off: unexpected end of file"
    );
}
