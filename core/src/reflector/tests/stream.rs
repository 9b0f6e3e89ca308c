//! Streaming lists (KEP-3157), and the fallback to a list.

use super::harness::*;
use crate::reflector::{Initial, ReflectorConfig};
use crate::report::Level;
use crate::transport::{FailureKind, Head};

fn both() -> [World; 2] {
    [World::stream(), World::client_go(Initial::Stream)]
}

/// R22, R75, R87; the golden trace of a first start: one request, and the same stream continues.
#[test]
fn r22_r75_r87_a_first_start_is_one_request() {
    for mut w in both() {
        w.expect("STREAM");
        w.events(&[added("foo", 1), added("bar", 3)]);
        w.notified(&[]);
        w.events(&[end_bookmark(2)]);
        w.notified(&["add* foo@1", "add* bar@3", "synced"]);
        w.version("2");
        w.events(&[modified("foo", 4), added("baz", 5)]);
        w.notified(&["update foo@1->4", "add baz@5"]);
        assert_eq!(w.count, 1);
        w.no_reports();
    }
}

/// R71, R82: without the end there are no notifications, and no version is reached.
#[test]
fn r71_r82_without_its_end_nothing_is_notified() {
    for mut w in both() {
        w.expect("STREAM");
        w.events(&[added("foo", 1), bookmark(2)]);
        w.notified(&[]);
        w.version("");
        assert!(!w.informer.cache().is_synced());
        w.informer.stop();
        w.pump();
        assert_eq!((w.count, w.cancelled), (1, 1));
        w.notified(&[]);
    }
}

/// R81: another value of the annotation is not the end.
#[test]
fn r81_an_end_marked_false_is_none() {
    for mut w in both() {
        w.expect("STREAM");
        w.events(&[added("foo", 1), end_bookmark_saying(2, "false")]);
        w.notified(&[]);
        assert!(!w.informer.cache().is_synced());
        w.events(&[end_bookmark(3)]);
        w.notified(&["add* foo@1", "synced"]);
    }
}

/// R76: changes before the end merge into the final state.
#[test]
fn r76_changes_before_the_end_come_to_the_final_state() {
    for mut w in both() {
        w.expect("STREAM");
        w.events(&[added("foo", 1), added("bar", 2), modified("foo", 3)]);
        w.events(&[deleted("bar", 4), end_bookmark(5)]);
        w.notified(&["add* foo@3", "synced"]);
        w.version("5");
    }
}

/// R77: 429 is retried after the delay, as for a rejected watch.
#[test]
fn r77_a_stream_that_is_refused_or_too_many_is_asked_for_again() {
    for mut w in both() {
        w.expect("STREAM");
        w.answer(429, "busy");
        w.expect_after(ms(800), "STREAM");
        w.fail(FailureKind::Refused);
        w.expect_after(ms(1600), "STREAM");
        w.events(&[added("a", 1), error_event(429, "TooManyRequests")]);
        w.expect_after(ms(3200), "STREAM");
        w.reports(&[
            "too-many-requests",
            "connection-refused",
            "too-many-requests",
        ]);
        w.events(&[added("b", 1), end_bookmark(2)]);
        w.notified(&["add* b@1", "synced"]);
        assert_eq!(w.count, 4);
    }
}

/// R78, X18: a stream that ends early restarts immediately, without the objects of the first attempt.
#[test]
fn r78_x18_a_stream_that_ends_too_soon_restarts() {
    for mut w in both() {
        w.expect("STREAM");
        w.events(&[added("foo", 1), added("bar", 2)]);
        w.wait(secs(2)).close();
        w.expect("STREAM");
        w.events(&[added("foo", 3)]);
        w.fail(FailureKind::Reset);
        w.expect("STREAM");
        w.events(&[added("baz", 4), end_bookmark(5)]);
        w.notified(&["add* baz@4", "synced"]);
        w.holds(&["baz@4"]);
        w.no_reports();
    }
}

/// R79: after the end a stream is a watch.
#[test]
fn r79_a_stream_that_ends_after_its_end_is_watched_on() {
    for w in both() {
        let mut w = w.streaming();
        w.close();
        w.expect("WATCH resourceVersion=10");
    }
}

/// The golden trace of a 410 after the end; then Expired and too-large at the last version.
#[test]
fn an_expired_stream_restarts_at_its_last_version() {
    let too_large = status_saying(
        504,
        "Timeout",
        "m",
        r#"{"reason":"ResourceVersionTooLarge"}"#,
    );
    for (code, body) in [(410, status(410, "Expired")), (504, too_large)] {
        for w in both() {
            let mut w = w.streaming();
            w.events(&[modified("a", 11), error_event(410, "Expired")]);
            w.expect_after(ms(800), "STREAM resourceVersion=11");
            w.answer(code, &body);
            w.expect("STREAM");
            w.events(&[added("a", 12), end_bookmark(13)]);
            w.notified(&["update a@5->11", "update a@11->12"]);
            // The flag is cleared.
            w.events(&[error_event(410, "Expired")]);
            w.expect_after(ms(1600), "STREAM resourceVersion=13");
            // As an event it is the same.
            w.events(&[event("ERROR", &body)]);
            w.expect("STREAM");
        }
    }
}

/// R80: the watch after a stream expires: the objects stay, and a stream begins at the last version.
#[test]
fn r80_a_watch_that_expires_after_a_stream_leads_to_a_stream() {
    for w in both() {
        let mut w = w.streaming();
        w.close();
        w.expect("WATCH resourceVersion=10");
        w.answer(410, &status(410, "Expired"));
        w.reports(&["expired"]);
        w.holds(&["a@5"]);
        w.expect_after(ms(800), "STREAM resourceVersion=10");
    }
}

/// R73, R74: the answer of a server without streaming lists leads to a list, in every run.
#[test]
fn r73_r74_a_refused_stream_falls_back_to_a_list() {
    for (code, reason) in [
        (400, "BadRequest"),
        (403, "Forbidden"),
        (404, "NotFound"),
        (405, "MethodNotAllowed"),
        (422, "Invalid"),
        (500, "InternalError"),
    ] {
        for mut w in both() {
            w.expect("STREAM");
            w.answer(code, &status(code, reason));
            let reports = w.take_reports();
            assert!(
                reports.iter().all(|r| r.level == Level::Debug),
                "{reports:?}"
            );
            w.expect("LIST limit=500 resourceVersion=0");
            w.answer(200, &list("10", &[pod("foo", 5)]));
            w.expect("WATCH resourceVersion=10");
            w.events(&[added("bar", 11)]);
            w.holds(&["bar@11", "foo@5"]);
            w.events(&[error_event(410, "Expired")]);
            w.expect_after(ms(800), "STREAM resourceVersion=11");
            w.answer(code, &status(code, reason));
            w.expect("LIST resourceVersion=11");
        }
    }
}

/// If configured, a refusal is remembered.
#[test]
fn a_refusal_is_remembered_where_it_is_wanted() {
    let mut w = World::new(ReflectorConfig {
        initial: Initial::Stream,
        remember_stream_refusal: true,
        ..Default::default()
    });
    w.expect("STREAM");
    w.answer(422, &status(422, "Invalid"));
    w.expect("LIST limit=500 resourceVersion=0");
    w.answer(500, "x");
    w.expect_after(ms(800), "LIST limit=500 resourceVersion=0");
}

/// DIFFERENCES, R83: a stream without an event for half a minute is cancelled. The following list does not count as
/// slow because of that.
#[test]
fn r83_a_silent_stream_is_given_up_for_a_list() {
    let mut w = World::stream();
    w.expect("STREAM");
    w.events(&[added("a", 1)]);
    w.wait(secs(29)).events(&[added("b", 2)]);
    w.wait(ms(29_999)).nothing_asked();
    w.wait(ms(1));
    assert_eq!(w.cancelled, 1);
    w.expect("LIST limit=500 resourceVersion=0");
    let report = w.report();
    assert_eq!(report.class, "no-initial-events");
    // The user should learn why each start takes half a minute.
    assert_eq!(report.level, Level::Warn);
    w.wait(ms(9_999)).no_reports();
    w.wait(ms(1)).reports(&["slow-list"]);

    // The same without any answer.
    let mut w = World::stream();
    w.expect("STREAM");
    w.wait(secs(30));
    w.expect("LIST limit=500 resourceVersion=0");

    let mut w = World::client_go(Initial::Stream);
    w.expect("STREAM");
    w.head(Head::new(200));
    w.wait(secs(3600)).nothing_asked();
    w.no_reports();
}

/// DIFFERENCES: a streaming list with events but without an end is cancelled after the timeout of a watch, in one
/// request or in several.
#[test]
fn a_stream_without_an_end_is_given_up_for_a_list() {
    for lives in [secs(3600), secs(110)] {
        let mut w = World::stream();
        w.expect("STREAM");
        let mut opened = w.now;
        let list = loop {
            w.events(&[added("a", 1)]).wait(secs(9));
            match w.next_request() {
                Some(request) if request == "STREAM" => opened = w.now,
                Some(request) => break request,
                None if w.now - opened > lives => w.close(),
                None => assert!(w.now < crate::Instant::from_micros(620_000_000)),
            }
        };
        assert_eq!(list, "LIST limit=500 resourceVersion=0");
        let report = w.report();
        assert_eq!(report.class, "endless-stream");
        assert_eq!(report.level, Level::Warn);
        // The next run requests a stream, which again may take the full timeout.
        w.answer(500, "x");
        w.take_reports();
        w.expect_after(ms(800), "STREAM");
        for _ in 0..14 {
            w.events(&[added("a", 1)]).wait(secs(20));
        }
        w.nothing_asked();
    }
    let mut w = World::client_go(Initial::Stream);
    w.expect("STREAM");
    for _ in 0..200 {
        w.events(&[added("a", 1)]).wait(secs(20));
    }
    w.nothing_asked();
}

/// The end of a streaming list is no sign of periodic bookmarks. A resource without a watch cache sends only that one.
#[test]
fn the_end_of_a_stream_is_no_heartbeat() {
    let mut w = World::stream().streaming();
    w.wait(secs(75));
    w.reports(&["silent"]);
    w.expect("WATCH resourceVersion=10");
    w.head(Head::new(200));
    w.wait(secs(299)).nothing_asked();
    w.no_reports();
    // A bookmark after the end is a sign.
    let mut w = World::stream().streaming();
    w.events(&[bookmark(11)]);
    for _ in 0..3 {
        w.wait(secs(75));
        w.expect("WATCH resourceVersion=11");
        w.reports(&["silent"]);
    }
}

/// A streaming list is a list: it is authoritative even if it is older than the last version.
#[test]
fn an_older_stream_is_taken_and_reported() {
    let mut w = World::stream().streaming();
    w.events(&[error_event(410, "Expired")]);
    w.take_reports();
    w.expect_after(ms(800), "STREAM resourceVersion=10");
    w.events(&[added("a", 3), end_bookmark(7), added("b", 8)]);
    w.reports(&["version-went-back"]);
    w.version("8");
    w.notified(&["update a@5->3", "add b@8"]);
    w.holds(&["a@3", "b@8"]);
}

/// A relist by stream notifies of changes, and of deletions at its end.
#[test]
fn a_relist_by_stream_notifies_deletions_at_its_end() {
    let mut w = World::stream().streaming();
    w.events(&[added("b", 11), added("c", 12), error_event(410, "Expired")]);
    w.notified(&["add b@11", "add c@12"]);
    w.expect_after(ms(800), "STREAM resourceVersion=12");
    w.events(&[added("b", 20), added("d", 21), deleted("c", 22)]);
    w.notified(&["update b@11->20", "add d@21", "delete c@22"]);
    w.version("12");
    w.events(&[end_bookmark(23)]);
    w.notified(&["delete? a@5"]);
}
