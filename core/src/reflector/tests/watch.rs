//! Watches: the reaction to each way in which one ends, and the effect of each event.

use super::harness::*;
use crate::cache::SourceId;
use crate::reflector::{Initial, ReflectorConfig};
use crate::report::{Level, Phase};
use crate::transport::{End, FailureKind, Head};

fn both() -> [World; 2] {
    [
        World::list().watching(),
        World::client_go(Initial::List).watching(),
    ]
}

/// X06: a watch that the server ends after its timeout is reopened immediately, without a list.
#[test]
fn x06_a_watch_that_ends_is_reopened_at_once() {
    for mut w in both() {
        w.wait(secs(60)).events(&[bookmark(11)]);
        w.wait(secs(60)).events(&[bookmark(12)]);
        w.close();
        w.expect("WATCH resourceVersion=12");
        // The same after a second without an event.
        w.wait(secs(1)).close();
        w.expect("WATCH resourceVersion=12");
        // Earlier with an event.
        w.events(&[modified("a", 13)]).close();
        w.expect("WATCH resourceVersion=13");
        // No matter how it was cut off.
        w.events(&[modified("a", 14)]).fail(FailureKind::Reset);
        w.expect("WATCH resourceVersion=14");
        w.no_reports();
    }
}

/// R08, R09: a watch that ends within a second without an event is very short.
#[test]
fn r08_r09_a_very_short_watch_leads_to_a_list() {
    for (mut w, level) in both().into_iter().zip([Level::Warn, Level::Debug]) {
        w.wait(ms(999)).close();
        let report = w.report();
        assert_eq!((report.class, report.level), ("very-short-watch", level));
        w.expect_after(ms(800), "LIST resourceVersion=10");
    }
}

/// R53, R57: a watch that is refused, or answered with 429, is retried: no list, no end.
#[test]
fn r53_r57_a_watch_that_is_refused_or_too_many_is_asked_for_again() {
    for mut w in both() {
        let mut base = ms(800);
        for round in 0..6 {
            let class = if round % 2 == 0 {
                w.fail(FailureKind::Refused);
                "connection-refused"
            } else {
                w.answer(429, "Too many requests, please try again later.\n");
                "too-many-requests"
            };
            let report = w.report();
            assert_eq!(report.class, class);
            let delay = w.expect_after(base, "WATCH resourceVersion=10");
            assert_eq!(report.retry_in, Some(delay), "the delay is reported");
            base = (base * 2).min(secs(30));
        }
        // A user who relists does not get this watch first.
        w.answer(429, "");
        w.relist();
        w.expect_within(ms(800), secs(60), "LIST resourceVersion=10");
    }
}

/// R56: 429 on opening, then 429 in the stream: two delays, and no list.
#[test]
fn r56_a_429_in_the_stream_waits_and_watches_on() {
    for mut w in both() {
        w.answer(429, "busy");
        w.expect_after(ms(800), "WATCH resourceVersion=10");
        w.events(&[modified("a", 11), error_event(429, "TooManyRequests")]);
        assert_eq!(w.cancelled, 1);
        w.reports(&["too-many-requests", "too-many-requests"]);
        w.expect_after(ms(1600), "WATCH resourceVersion=11");
        w.wait(secs(2)).close();
        w.expect("WATCH resourceVersion=11");
    }
}

/// X02: a 410 in the stream leads to a list at the last version, which is not discarded. client-go's error handler does
/// not get it.
#[test]
fn x02_an_expired_watch_lists_at_the_last_version() {
    for (mut w, level) in both().into_iter().zip([Level::Info, Level::Debug]) {
        w.events(&[modified("a", 11), error_event(410, "Expired")]);
        assert_eq!(w.cancelled, 1);
        let report = w.report();
        assert_eq!(
            (report.class, report.level, report.phase),
            ("expired", level, Phase::Watch)
        );
        w.expect_after(ms(800), "LIST resourceVersion=11");
    }
}

/// The same on opening; R58: an internal error is not retried in either implementation.
#[test]
fn r58_any_other_refusal_or_error_leads_to_a_list() {
    for (code, reason) in [
        (410, "Expired"),
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (404, "NotFound"),
        (500, "InternalError"),
        (504, "Timeout"),
    ] {
        for mut w in both() {
            w.answer(code, &status(code, reason));
            w.expect_after(ms(800), "LIST resourceVersion=10");
        }
        for mut w in both() {
            w.events(&[error_event(code, reason)]);
            let report = w.report();
            let delay = w.expect_after(ms(800), "LIST resourceVersion=10");
            assert_eq!(report.retry_in, Some(delay));
        }
    }
    for kind in [
        FailureKind::Tls,
        FailureKind::Dns,
        FailureKind::Request,
        FailureKind::Other,
    ] {
        for mut w in both() {
            w.fail(kind);
            w.reports(&[kind.as_str()]);
            w.expect_after(ms(800), "LIST resourceVersion=10");
        }
    }
}

/// R01: an ERROR event whose object is not a Status also ends the watch.
#[test]
fn r01_an_error_event_without_a_status_ends_the_watch() {
    for mut w in both() {
        w.events(&[event("ERROR", &pod("a", 1))]);
        assert_eq!(w.cancelled, 1);
        w.reports(&["other"]);
        w.expect_after(ms(800), "LIST resourceVersion=10");
    }
}

/// R25: an object that the server can no longer read; the list without it removes it.
#[test]
fn r25_a_store_read_error_leads_to_a_list_that_removes_the_object() {
    for mut w in both() {
        w.events(&[added("b", 11)]);
        w.events(&[error_event(500, "StoreReadError")]);
        w.expect_after(ms(800), "LIST resourceVersion=11");
        w.answer(200, &list("12", &[pod("a", 5)]));
        w.holds(&["a@5"]);
        w.version("12");
    }
}

/// R20: the version is that of the last accepted event, not the highest; another kind is skipped.
#[test]
fn r20_the_version_is_that_of_the_last_event_taken() {
    let mut w = World::list();
    w.answer(200, &list("1", &[pod("foo", 1), pod("bar", 1)]));
    w.take_reports();
    let other = r#"{"kind":"Service","apiVersion":"v1","metadata":{"name":"rejected","resourceVersion":"99"}}"#;
    w.events(&[
        event("ADDED", other),
        deleted("foo", 50),
        modified("bar", 55),
        added("baz", 32),
    ]);
    w.holds(&["bar@55", "baz@32"]);
    w.version("32");
    w.reports(&["other-kind"]);
}

/// R24: bookmarks and deletions advance the version like changes.
#[test]
fn r24_each_event_moves_the_version() {
    let mut w = World::list().watching();
    for (event, version) in [
        (added("b", 10), "10"),
        (modified("b", 20), "20"),
        (bookmark(30), "30"),
        (deleted("b", 40), "40"),
    ] {
        w.events(&[event]);
        w.version(version);
        assert_eq!(
            w.informer.cache().version(SourceId::FIRST).unwrap(),
            w.informer.reflector().version()
        );
    }
    w.notified(&["add b@10", "update b@10->20", "delete b@40"]);
}

/// X04: an event of an unknown type advances the version and counts as an event; an object of another kind does
/// neither.
#[test]
fn x04_x05_an_unknown_event_counts_and_a_skipped_one_does_not() {
    for mut w in both() {
        w.events(&[event("CHANGED", &pod("a", 33))]);
        w.reports(&["unknown-event"]);
        w.version("33");
        w.holds(&["a@5"]);
        w.close();
        w.expect("WATCH resourceVersion=33");
        // X05
        w.events(&[event(
            "ADDED",
            r#"{"kind":"Service","metadata":{"name":"x","resourceVersion":"34"}}"#,
        )]);
        w.close();
        w.version("33");
        w.reports(&["other-kind", "very-short-watch"]);
        w.expect_after(ms(800), "LIST resourceVersion=33");
    }
}

/// R50-R52: the requested timeout of a watch.
#[test]
fn r50_r51_r52_the_timeout_is_between_the_shortest_and_twice_that() {
    use alloc::string::String;
    for (min, from, to) in [(300, 300, 600), (1, 300, 600), (1800, 1800, 3600)] {
        let mut seen = (u64::MAX, 0);
        for seed in 0..200 {
            let config = ReflectorConfig {
                min_watch_timeout: secs(min),
                initial: Initial::Stream,
                ..Default::default()
            };
            let mut reflector: crate::Reflector<_, crate::Heap> =
                crate::Reflector::new(pods(), config, seed);
            let crate::Output::Send(request) =
                reflector.poll_output(crate::Instant::from_micros(0))
            else {
                panic!()
            };
            let mut target = String::new();
            request.write_target(&mut target).unwrap();
            let (_, timeout) = target.rsplit_once("timeoutSeconds=").unwrap();
            let timeout: u64 = timeout.parse().unwrap();
            assert!((from..=to).contains(&timeout), "{timeout}");
            seen = (seen.0.min(timeout), seen.1.max(timeout));
        }
        assert!(
            seen.0 < from + from / 10 && seen.1 > to - to / 10,
            "{seen:?}"
        );
    }
}

/// DIFFERENCES: bookmarks are sent each minute, so 75 seconds of silence mean a dead connection.
#[test]
fn a_silent_watch_is_reopened_from_its_last_version() {
    let mut w = World::list().watching();
    w.wait(secs(60)).events(&[bookmark(11)]);
    // A server that does not answer may be down; nothing follows for its state.
    for round in 0..3 {
        w.wait(ms(74_999)).no_reports();
        w.nothing_asked();
        w.wait(ms(1)).reports(&["silent"]);
        assert_eq!(w.cancelled, round + 1);
        w.expect("WATCH resourceVersion=11");
    }
}

/// A server whose etcd was restored to an older state accepts a watch at a version that does not exist yet, and sends
/// nothing. Its bookmarks are missing, so a list follows.
#[test]
fn a_watch_that_is_accepted_and_stays_silent_is_followed_by_a_list() {
    let mut w = World::list().watching();
    w.wait(secs(60)).events(&[bookmark(11)]);
    w.wait(secs(75)).reports(&["silent"]);
    w.expect("WATCH resourceVersion=11");
    w.head(Head::new(200));
    w.wait(secs(75)).reports(&["silent"]);
    w.wait(secs(2));
    assert!(w.next_request().unwrap().starts_with("LIST"));
}

/// On a server without bookmarks, the heartbeat times out once; then only the requested timeout plus half a minute
/// applies.
#[test]
fn without_bookmarks_the_heartbeat_fires_once() {
    let mut w = World::list().watching();
    w.head(Head::new(200));
    w.wait(secs(75)).reports(&["silent"]);
    w.expect("WATCH resourceVersion=10");
    w.head(Head::new(200));
    w.wait(ms(329_999)).no_reports();
    w.nothing_asked();
    w.wait(secs(301));
    w.reports(&["silent"]);
    w.next_request().unwrap();
    // A bookmark shows that silence is significant.
    w.events(&[bookmark(12)]);
    w.wait(secs(75)).reports(&["silent"]);
    w.expect("WATCH resourceVersion=12");
}

/// A watch that exceeds its timeout by half a minute is cancelled, no matter how many events it has.
#[test]
fn a_watch_that_does_not_end_is_ended() {
    let mut w = World::list().watching();
    let start = w.now;
    let mut version = 10;
    while w.cancelled == 0 {
        version += 1;
        w.events(&[bookmark(version)]);
        w.wait(secs(10));
        assert!(w.now - start < secs(650));
    }
    assert!(w.now - start >= secs(330));
    w.reports(&["silent"]);
    assert!(w.next_request().unwrap().starts_with("WATCH"));
}

/// With `client_go`, a silent watch is not cancelled.
#[test]
fn as_client_go_a_silent_watch_is_waited_for() {
    let mut w = World::client_go(Initial::List).watching();
    w.events(&[bookmark(11)]);
    w.wait(secs(7200)).nothing_asked();
    w.no_reports();
}

/// After ten retries the run ends, and the next one lists.
#[test]
fn t02_a_watch_with_retry_after_each_time_is_given_up() {
    for mut w in both() {
        let busy = Head::new(503).with_retry_after("2");
        for _ in 0..10 {
            w.answer_with(busy, "");
            w.wait(ms(1999)).nothing_asked();
            w.wait(ms(1));
            w.expect("WATCH resourceVersion=10");
        }
        w.answer_with(busy, "");
        w.reports(&["service-unavailable"; 11]);
        w.jump();
        w.expect("LIST resourceVersion=10");
    }
}

/// A blocked reader is not mistaken for a silent server.
#[test]
fn a_reader_without_room_excuses_the_silence() {
    use crate::{Head, Inline, Instant, Output, PolledInformer, RawObject};
    type Tiny = Inline<2, 16, 256>;
    fn poll(
        informer: &mut PolledInformer<crate::Resource<'static>, Len, Tiny>,
        now: Instant,
    ) -> bool {
        loop {
            match informer.poll_output(now) {
                Output::Cancel(_) | Output::Report(_) => return false,
                Output::Send(_) => {}
                Output::Wait(_) => return true,
            }
        }
    }
    type Len = fn(&RawObject<'_>) -> Result<usize, core::convert::Infallible>;
    let len: Len = |raw| Ok(raw.json().len());
    let mut now = Instant::from_micros(0);
    let mut informer: PolledInformer<_, _, Tiny> =
        PolledInformer::new(pods(), len, ReflectorConfig::list(), 1);
    let Output::Send(request) = informer.poll_output(now) else {
        panic!()
    };
    let id = request.id();
    informer.handle_head(now, id, Head::new(200));
    let body = list("1", &[]);
    let taken = informer.handle_data(now, id, body.as_bytes(), &mut |r| panic!("{r}"));
    assert_eq!(taken, body.len());
    informer.handle_end(now, id, End::Clean);
    while informer.pop().is_some() {}
    let Output::Send(request) = informer.poll_output(now) else {
        panic!()
    };
    let id = request.id();
    informer.handle_head(now, id, Head::new(200));
    let events = [
        added("a", 2),
        added("b", 3),
        modified("a", 4),
        modified("b", 5),
    ]
    .concat();
    let taken = informer.handle_data(now, id, events.as_bytes(), &mut |r| panic!("{r}"));
    assert!(taken < events.len() && !informer.wants_read());
    for _ in 0..20 {
        now = now + secs(10);
        assert!(poll(&mut informer, now), "it gave up at {now:?}");
    }
    while informer.pop().is_some() {}
    let rest = &events.as_bytes()[taken..];
    assert!(informer.handle_data(now, id, rest, &mut |r| panic!("{r}")) > 0);
}

/// A watch that is cut off before its answer is retried within the reflector; after ten retries client-go treats it as
/// one that ended.
#[test]
fn a_watch_that_is_cut_before_its_answer_is_asked_again() {
    for kind in [FailureKind::Reset, FailureKind::TimedOut] {
        let mut w = World::client_go(Initial::List).watching();
        for _ in 0..10 {
            w.fail(kind);
            w.nothing_asked();
            w.wait(secs(1));
            w.expect("WATCH resourceVersion=10");
        }
        w.fail(kind);
        w.expect("WATCH resourceVersion=10");
        w.no_reports();

        // DIFFERENCES: here it is reported, and the delay between attempts to open a watch applies.
        let mut w = World::list().watching();
        for _ in 0..10 {
            w.fail(kind);
            w.wait(secs(1));
            w.expect("WATCH resourceVersion=10");
        }
        w.no_reports();
        w.fail(kind);
        w.reports(&[kind.as_str()]);
        w.expect_after(ms(800), "WATCH resourceVersion=10");
    }
}

/// A list without a version: the watch has none either, and its initial events do not advance it.
#[test]
fn a_watch_at_no_version_takes_none_from_its_initial_burst() {
    let mut w = World::list();
    w.expect("LIST limit=500 resourceVersion=0");
    w.answer(200, &list("", &[pod("a", 5)]));
    w.expect("WATCH");
    w.events(&[added("a", 5), added("b", 3)]);
    w.version("");
    w.events(&[modified("b", 6)]);
    w.version("6");
    w.notified(&["add* a@5", "synced", "add b@3", "update b@3->6"]);
    w.close();
    w.expect("WATCH resourceVersion=6");
}

/// A truncated frame is not applied, and nothing is lost: the next watch sends it again.
#[test]
fn an_event_that_is_cut_is_had_again() {
    for mut w in both() {
        let whole = modified("a", 11);
        w.events(&[]);
        w.wait(secs(2));
        w.bytes(&whole.as_bytes()[..whole.len() / 2]).close();
        w.expect("WATCH resourceVersion=10");
        w.events(&[whole]);
        w.notified(&["update a@5->11"]);
        w.no_reports();
    }
}

/// No configured timeout panics, and none is longer than the API server supports.
#[test]
fn extreme_timeouts_are_cut() {
    let times = [0, 1, u64::MAX].map(core::time::Duration::from_secs);
    for min_watch_timeout in times {
        for watch_timeout in times.map(Some).into_iter().chain([None]) {
            let config = ReflectorConfig {
                min_watch_timeout,
                watch_timeout,
                ..Default::default()
            };
            let mut reflector: crate::Reflector<_, crate::Heap> =
                crate::Reflector::new(pods(), config, 1);
            let now = crate::Instant::from_micros(u64::MAX - 1);
            let crate::Output::Send(request) = reflector.poll_output(now) else {
                panic!("a stream");
            };
            let mut target = alloc::string::String::new();
            request.write_target(&mut target).unwrap();
            let (_, seconds) = target.split_once("timeoutSeconds=").unwrap();
            assert!(
                (1..=31_536_000).contains(&seconds.parse().unwrap()),
                "{target}"
            );
            let _ = reflector.poll_output(now);
        }
    }
}
