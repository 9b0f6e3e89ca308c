//! Requests that are retried unchanged, below the reflector.

use alloc::{string::ToString as _, vec::Vec};

use super::harness::*;
use crate::reflector::{Initial, Output, Reflector, ReflectorConfig};
use crate::report::{Level, Phase};
use crate::storage::Heap;
use crate::time::Instant;
use crate::transport::{FailureKind, Head};

fn both() -> [World; 2] {
    [World::list(), World::client_go(Initial::List)]
}

/// DESIGN 8: an answer 429 or 5xx with Retry-After is retried unchanged, at most ten times.
#[test]
fn an_answer_with_retry_after_is_asked_again_unchanged() {
    for (code, reason) in [
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
    ] {
        for (mut w, client_go) in both().into_iter().zip([false, true]) {
            for _ in 0..10 {
                w.expect("LIST limit=500 resourceVersion=0");
                w.answer_with(Head::new(code).with_retry_after("3"), &status(code, reason));
                w.nothing_asked();
                w.wait(ms(2999)).nothing_asked();
                w.wait(ms(1));
            }
            w.expect("LIST limit=500 resourceVersion=0");
            let mut reports = w.take_reports();
            reports.retain(|report| report.class != "slow-list");
            assert_eq!(reports.len(), 10);
            assert!(
                reports.iter().all(|report| {
                    report.level == Level::Info && report.retry_in == Some(secs(3))
                })
            );
            // The eleventh goes to the reflector, which waits as long nevertheless; client-go's does not.
            w.answer_with(Head::new(code).with_retry_after("3"), &status(code, reason));
            let report = w.report();
            assert_eq!(report.phase, Phase::List);
            let again = "LIST limit=500 resourceVersion=0";
            if client_go {
                w.expect_after(ms(800), again);
            } else {
                assert_eq!(report.retry_in, Some(secs(3)));
                w.expect_after_exactly(secs(3));
                w.expect(again);
                // That wait does not apply to the next failure.
                w.answer(500, "no");
                w.expect_after(ms(1600), again);
            }
        }
    }
}

/// Without Retry-After in whole seconds, or with another status, there are no retries within the reflector.
#[test]
fn t03_only_429_and_5xx_with_retry_after_are_asked_again() {
    for head in [
        Head::new(429),
        Head::new(500),
        Head::new(503).with_retry_after("Fri, 31 Dec 1999 23:59:59 GMT"),
        Head::new(307).with_retry_after("1"),
        Head::new(404).with_retry_after("1"),
        Head::new(403).with_retry_after("1"),
    ] {
        let mut w = World::list();
        w.expect("LIST limit=500 resourceVersion=0");
        w.answer_with(head, "no");
        let reports = w.take_reports();
        assert!(reports[0].retry_in.unwrap() < ms(1600));
        assert_ne!(reports[0].retry_in, Some(secs(1)));
        w.expect_after(ms(800), "LIST limit=500 resourceVersion=0");
    }
    // A good answer is not asked for again.
    let mut w = World::list();
    w.expect("LIST limit=500 resourceVersion=0");
    w.answer_with(Head::new(200).with_retry_after("7"), &list("10", &[]));
    w.expect("WATCH resourceVersion=10");
    w.no_reports();
}

/// A refused connection is never retried within the reflector, and neither are failures of TLS or DNS.
#[test]
fn t03_an_unsent_request_is_not_retried_within_the_reflector() {
    for kind in [
        FailureKind::Refused,
        FailureKind::Tls,
        FailureKind::Dns,
        FailureKind::Request,
        FailureKind::Other,
        // A list that times out is not retried either: client-go does that only for watches.
        FailureKind::TimedOut,
    ] {
        let mut w = World::list();
        w.expect("LIST limit=500 resourceVersion=0");
        w.fail(kind);
        w.reports(&[kind.as_str()]);
        w.expect_after(ms(800), "LIST limit=500 resourceVersion=0");
    }
}

/// A request that cannot be built is the same in each run. It is an error of the caller, and the delays are those of a
/// permanent refusal.
#[test]
fn a_request_that_cannot_be_built_is_retried_as_a_permanent_refusal() {
    let delays = [
        800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 102_400, 204_800,
    ];
    for (world, begin, phase) in [
        (World::list as fn() -> World, LIST, Phase::List),
        (World::stream, "STREAM", Phase::Stream),
    ] {
        let mut w = world();
        w.expect(begin);
        for base in delays.into_iter().chain([300_000; 2]) {
            w.fail(FailureKind::Request);
            let report = w.report();
            assert_eq!(
                (report.class, report.level, report.phase),
                ("request", Level::Error, phase)
            );
            w.expect_after(ms(base), begin);
        }
    }
    // A restored cache is no reason to watch with a target that cannot be sent.
    let mut w = World::resuming(ReflectorConfig::list());
    w.fail(FailureKind::Request);
    assert_eq!(w.report().level, Level::Error);
    w.expect_after(ms(800), "LIST resourceVersion=10");
    w.fail(FailureKind::Request);
    w.expect_after(ms(1600), "LIST resourceVersion=10");

    let mut w = World::client_go(Initial::List);
    w.expect(LIST);
    w.fail(FailureKind::Request);
    w.reports(&["request"]);
    w.expect_after(ms(800), LIST);
}

/// A server answers a list of a namespace that cannot exist with an empty list, so nothing is requested.
#[test]
fn a_name_that_no_server_has_is_reported_without_a_request() {
    for config in [
        ReflectorConfig::list(),
        ReflectorConfig::default(),
        ReflectorConfig {
            client_go: true,
            ..ReflectorConfig::list()
        },
    ] {
        let phase = if config.initial == Initial::List {
            Phase::List
        } else {
            Phase::Stream
        };
        let mut w = World::of(pods().namespace("my team"), config, 1);
        for _ in 0..3 {
            w.nothing_asked();
            let report = w.report();
            assert_eq!(
                (report.class, report.level, report.phase),
                ("invalid-name", Level::Error, phase)
            );
            w.jump();
        }
    }
    let target = pods().namespace("my team");
    let mut reflector: Reflector<_, Heap> = Reflector::new(target, ReflectorConfig::list(), 1);
    let Output::Report(report) = reflector.poll_output(Instant::from_micros(0)) else {
        panic!()
    };
    let shown = report.to_string();
    assert!(report.is_permanent(), "{shown}");
    assert!(
        shown.starts_with("list: the namespace `my team` is invalid: it must be"),
        "{shown}"
    );
}

const LIST: &str = "LIST limit=500 resourceVersion=0";

/// A Retry-After of a year from a proxy is capped.
#[test]
fn a_long_retry_after_is_cut_and_reported() {
    let mut w = World::list();
    w.expect("LIST limit=500 resourceVersion=0");
    for _ in 0..12 {
        w.answer_with(Head::new(503).with_retry_after("31536000"), "x");
        let mut reports = w.take_reports();
        reports.retain(|report| report.class != "slow-list");
        let classes: Vec<_> = reports.iter().map(|report| report.class).collect();
        assert_eq!(classes, ["long-retry-after", "service-unavailable"]);
        assert_eq!(reports[0].level, Level::Warn);
        w.expect_within(secs(300), secs(300), "LIST limit=500 resourceVersion=0");
    }
    w.take_reports();
    w.answer_with(Head::new(503).with_retry_after("300"), "x");
    let reports = w.take_reports();
    assert!(
        reports
            .iter()
            .all(|report| report.class != "long-retry-after")
    );
}
