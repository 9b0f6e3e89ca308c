//! Delays: their growth and reset. No failure causes a storm of requests.

use alloc::format;
use alloc::string::ToString as _;
use core::time::Duration;

use super::harness::*;
use crate::reflector::{Initial, ReflectorConfig};
use crate::report::Level;
use crate::time::BackoffConfig;
use crate::transport::{FailureKind, Head};

/// The minimum delay before each attempt: 800 ms, doubled up to 30 s.
fn least_delays() -> impl Iterator<Item = Duration> {
    core::iter::successors(Some(ms(800)), |delay| Some((*delay * 2).min(secs(30))))
}

/// The maximum number of delays that fit in a time.
fn delays_within(time: Duration) -> usize {
    let mut sum = Duration::ZERO;
    least_delays()
        .take_while(|delay| {
            sum += *delay;
            sum <= time
        })
        .count()
}

/// Like client-go: the delays restart with the first one that is later than two minutes after the last restart.
fn saw_tooth_delays_within(time: Duration) -> usize {
    // 0.8 + 1.6 + .. + 25.6 + 30 + 30 are more than 110 s, so the ninth delay is the last one before a restart.
    let teeth = time.as_secs() as usize / 120 + 1;
    teeth * 9
}

fn list_fails_after(w: &mut World, base: Duration, request: &str) {
    w.answer(500, &status(500, "InternalError"));
    w.expect_after(base, request);
}

/// X13: client-go's saw-tooth.
#[test]
fn x13_as_in_client_go_the_delays_restart_every_two_minutes() {
    let mut w = World::client_go(Initial::List);
    w.expect("LIST limit=500 resourceVersion=0");
    let mut expected = ms(800);
    let mut began = None;
    let mut teeth = 0;
    for _ in 0..60 {
        let started = *began.get_or_insert(w.now);
        if w.now - started > secs(120) {
            (began, expected) = (Some(w.now), ms(800));
            teeth += 1;
        }
        list_fails_after(&mut w, expected, "LIST limit=500 resourceVersion=0");
        expected = (expected * 2).min(secs(30));
    }
    assert!(teeth >= 5);
}

/// DIFFERENCES: a watch that lasted half a minute resets the delays.
#[test]
fn a_long_watch_resets_the_delays() {
    let sick = |mut w: World| {
        w.expect("LIST limit=500 resourceVersion=0");
        for base in least_delays().take(4) {
            list_fails_after(&mut w, base, "LIST limit=500 resourceVersion=0");
        }
        w.answer(200, &list("10", &[]));
        w.expect("WATCH resourceVersion=10");
        w
    };
    // Just too short.
    let mut w = sick(World::list());
    w.events(&[bookmark(11)]);
    w.wait(ms(29_999)).events(&[error_event(410, "Expired")]);
    w.expect_after(ms(12_800), "LIST resourceVersion=11");
    // Long enough, no matter how it ends.
    for end in [
        error_event(410, "Expired"),
        "<html>".into(),
        error_event(500, "InternalError"),
    ] {
        let mut w = sick(World::list());
        w.events(&[bookmark(11)]);
        w.wait(secs(30)).events(&[end]);
        w.expect_after(ms(800), "LIST resourceVersion=11");
    }
    // A clean end resets the delays as well.
    let mut w = sick(World::list());
    w.events(&[bookmark(11)]);
    w.wait(secs(30)).close();
    w.expect("WATCH resourceVersion=11");
    w.close();
    w.expect_after(ms(800), "LIST resourceVersion=11");
    // So does a relist by the user.
    let mut w = sick(World::list());
    w.events(&[bookmark(11)]);
    w.wait(secs(30));
    w.relist();
    w.expect_after(ms(800), "LIST resourceVersion=11");
    // In client-go, none of this resets the delays.
    let mut w = sick(World::client_go(Initial::List));
    w.events(&[bookmark(11)]);
    w.wait(secs(30)).events(&[error_event(410, "Expired")]);
    w.expect_after(ms(12_800), "LIST resourceVersion=11");
}

/// A watch without an answer did not last at all.
#[test]
fn a_watch_without_an_answer_is_no_sign_of_health() {
    let mut w = World::list();
    w.expect("LIST limit=500 resourceVersion=0");
    for base in least_delays().take(4) {
        list_fails_after(&mut w, base, "LIST limit=500 resourceVersion=0");
    }
    w.answer(200, &list("10", &[]));
    w.expect("WATCH resourceVersion=10");
    w.wait(secs(75));
    w.expect("WATCH resourceVersion=10");
    w.answer(500, "x");
    w.expect_after(ms(12_800), "LIST resourceVersion=10");
}

/// DIFFERENCES: five immediate reopenings in half a minute, then the delay between attempts to open a watch.
#[test]
fn watches_that_end_too_often_wait() {
    let mut w = World::list().watching();
    let start = w.now;
    for version in 11..16 {
        w.wait(ms(100)).events(&[modified("a", version)]).close();
        w.expect(&format!("WATCH resourceVersion={version}"));
    }
    w.no_reports();
    w.events(&[modified("a", 16)]).close();
    w.reports(&["short-watches"]);
    w.expect_after(ms(800), "WATCH resourceVersion=16");
    w.events(&[modified("a", 17)]).close();
    w.expect_after(ms(1600), "WATCH resourceVersion=17");
    // After half a minute, it reopens immediately again.
    w.wait(secs(31) - (w.now - start));
    w.events(&[modified("a", 18)]).close();
    w.expect("WATCH resourceVersion=18");

    let mut w = World::client_go(Initial::List).watching();
    for version in 11..100 {
        w.events(&[modified("a", version)]).close();
        w.expect(&format!("WATCH resourceVersion={version}"));
    }
    w.no_reports();
}

/// The same for streaming lists that end early.
#[test]
fn streams_that_end_too_often_wait() {
    let mut w = World::stream();
    w.expect("STREAM");
    for _ in 0..5 {
        w.events(&[added("a", 1)]).close();
        w.expect("STREAM");
    }
    w.events(&[added("a", 1)]).close();
    w.expect_after(ms(800), "STREAM");
}

/// DIFFERENCES: if the credentials or the parameters are rejected, the first delays are the same and the cap is five
/// minutes, as long as the class of the error stays the same.
#[test]
fn a_permanent_refusal_is_retried_less_often() {
    let delays = [
        800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 102_400, 204_800,
    ];
    for (code, reason, other) in [
        (401, "Unauthorized", 403),
        (403, "Forbidden", 401),
        (400, "BadRequest", 401),
        (405, "MethodNotAllowed", 400),
        (422, "Invalid", 400),
    ] {
        let mut w = World::list();
        w.expect("LIST limit=500 resourceVersion=0");
        for base in delays.into_iter().chain([300_000; 4]) {
            w.answer(code, &status(code, reason));
            w.expect_after(ms(base), "LIST limit=500 resourceVersion=0");
        }
        // Another class restarts the rule.
        w.answer(other, "");
        w.expect_after(secs(30), "LIST limit=500 resourceVersion=0");
        w.answer(500, "");
        w.expect_after(secs(30), "LIST limit=500 resourceVersion=0");

        let mut w = World::client_go(Initial::List);
        w.expect("LIST limit=500 resourceVersion=0");
        let start = w.now;
        while w.now - start < secs(3600) {
            w.answer(code, &status(code, reason));
            w.expect_within(ms(800), secs(60), "LIST limit=500 resourceVersion=0");
        }
    }
}

/// The same if only watching is forbidden: each run would list everything for nothing.
#[test]
fn a_watch_that_stays_forbidden_is_retried_less_often() {
    let mut w = World::list();
    w.expect("LIST limit=500 resourceVersion=0");
    let mut last = Duration::ZERO;
    for _ in 0..14 {
        w.answer(200, &list("10", &[]));
        w.expect("WATCH resourceVersion=10");
        w.answer(403, &status(403, "Forbidden"));
        last = w.expect_within(ms(800), secs(600), "LIST resourceVersion=10");
    }
    assert!(last >= secs(300), "{last:?}");
    // A watch that opens ends this state.
    w.answer(200, &list("10", &[]));
    w.expect("WATCH resourceVersion=10");
    w.events(&[bookmark(11)]);
    w.wait(secs(30)).events(&[error_event(403, "Forbidden")]);
    w.expect_after(ms(800), "LIST resourceVersion=11");
}

/// DIFFERENCES: a resource that can only be listed is listed at an interval, and reported once.
#[test]
fn a_resource_without_watches_is_listed_at_an_interval() {
    let refuse = |w: &mut World| w.answer(405, &status(405, "MethodNotAllowed"));
    let lists = |w: &mut World, versions: core::ops::Range<u32>| {
        for version in versions {
            w.expect_after_exactly(secs(30));
            w.expect(&format!("LIST resourceVersion={}", version - 1));
            w.answer(200, &list(&version.to_string(), &[pod("a", version)]));
        }
    };
    for initial in [Initial::List, Initial::Stream] {
        let mut w = World::new(ReflectorConfig {
            initial,
            ..ReflectorConfig::default()
        });
        if initial == Initial::Stream {
            w.expect("STREAM");
            refuse(&mut w);
            assert_eq!(w.report().level, Level::Debug);
        }
        w.expect("LIST limit=500 resourceVersion=0");
        w.answer(200, &list("10", &[pod("a", 10)]));
        w.expect("WATCH resourceVersion=10");
        refuse(&mut w);
        let report = w.report();
        assert_eq!(
            (report.class, report.retry_in),
            ("not-watched", Some(secs(30)))
        );
        lists(&mut w, 11..21);
        w.holds(&["a@20"]);
        // The server may have been updated.
        w.expect("WATCH resourceVersion=20");
        refuse(&mut w);
        // A relist does not wait for the interval.
        w.wait(secs(10)).relist();
        w.expect_within(ms(800), secs(2), "LIST resourceVersion=20");
        w.answer(500, "");
        w.reports(&["internal-error"]);
        w.expect_within(ms(1600), secs(4), "LIST resourceVersion=20");
        w.answer(200, &list("20", &[pod("a", 20)]));
        lists(&mut w, 21..30);
        w.no_reports();
        w.expect("WATCH resourceVersion=29");
        w.events(&[modified("a", 40)]);
        w.holds(&["a@40"]);
    }
}

/// A list without a version says nothing about a watch that there is not.
#[test]
fn a_resource_with_neither_watches_nor_versions_is_reported_at_the_start() {
    let mut w = World::new(ReflectorConfig {
        poll_interval: secs(5),
        ..ReflectorConfig::list()
    });
    w.expect("LIST limit=500 resourceVersion=0");
    w.answer(200, &list("", &[pod("a", 1)]));
    w.expect("WATCH");
    w.answer(405, "");
    w.reports(&["no-version", "not-watched"]);
    for _ in 0..8 {
        w.expect_after_exactly(secs(5));
        w.expect("LIST limit=500 resourceVersion=0");
        w.answer(200, &list("", &[]));
    }
    w.holds(&[]);
    w.no_reports();
}

/// The restored state is confirmed by a list, which does not wait.
#[test]
fn a_restored_state_of_a_resource_without_watches_is_listed_at_once() {
    let mut w = World::resuming(ReflectorConfig::list());
    w.answer(405, "");
    w.reports(&["not-watched"]);
    w.expect("LIST resourceVersion=10");
}

/// R53: five refusals at 1 ms, factor 2, jitter 1. R54: forty, capped at 50 ms. R55: a custom backoff.
#[test]
fn r53_r54_r55_a_backoff_of_ones_own_is_used() {
    let refuse = |initial, cap, jitter, times, request: &str| {
        let backoff = BackoffConfig {
            initial: ms(initial),
            cap: ms(cap),
            jitter,
            ..Default::default()
        };
        let mut w = World::new(ReflectorConfig {
            backoff,
            ..ReflectorConfig::list()
        })
        .watching();
        let start = w.now;
        for _ in 0..times {
            w.fail(FailureKind::Refused);
            w.jump();
            w.expect(request);
        }
        assert_eq!(w.count, times + 2, "no list");
        w.now - start
    };
    let watch = "WATCH resourceVersion=10";
    let time = refuse(1, 30_000, 1.0, 5, watch);
    assert!((ms(31)..=ms(62)).contains(&time), "{time:?}");
    let time = refuse(1, 50, 1.0, 40, watch);
    assert!((ms(34 * 50)..=ms(40 * 100)).contains(&time), "{time:?}");
    assert_eq!(refuse(10, 100, 0.0, 5, watch), ms(250));
}

/// Sends requests for an hour to a server that always answers in the same way; returns the number of requests.
fn an_hour(mut w: World, server: impl Fn(&mut World, &str)) -> usize {
    while w.now.as_micros() < 3_600_000_000 {
        match w.next_request() {
            Some(request) => server(&mut w, &request),
            None => w.jump(),
        }
        assert!(w.count < 100_000, "a storm");
    }
    w.count
}

fn list_or(w: &mut World, request: &str, watch: impl Fn(&mut World)) {
    if request.starts_with("LIST") {
        w.answer(200, &list("10", &[pod("a", 5)]));
    } else {
        watch(w);
    }
}

#[test]
fn no_fault_makes_a_storm() {
    const HOUR: Duration = secs(3600);
    let runs = delays_within(HOUR) + 1;
    let client_go_runs = saw_tooth_delays_within(HOUR) + 1;
    assert_eq!(runs, 125);
    type Server = fn(&mut World, &str);
    // The servers, each with the maximum number of requests in one run.
    let servers: [(&str, Server, usize); 12] = [
        (
            "a watch that ends at once",
            |w, request| list_or(w, request, World::close),
            2,
        ),
        (
            "a watch that ends with an error at once",
            |w, request| {
                list_or(w, request, |w| {
                    w.events(&[error_event(410, "Expired")]);
                });
            },
            2,
        ),
        (
            "a watch that is reset at once",
            |w, request| {
                list_or(w, request, |w| {
                    w.head(Head::new(200)).fail(FailureKind::Reset);
                });
            },
            2,
        ),
        ("a list that fails", |w, _| w.answer(500, "x"), 1),
        (
            "everything is expired",
            |w, _| w.answer(410, &status(410, "Expired")),
            2,
        ),
        ("nobody listens", |w, _| w.fail(FailureKind::Refused), 1),
        (
            "a connection that is closed before the answer",
            |w, _| w.fail(FailureKind::Reset),
            11,
        ),
        (
            "HTML for everything",
            |w, _| w.answer(200, "<html>login</html>"),
            1,
        ),
        (
            "a token that is repeated",
            |w, _| w.answer(200, &page("10", "t", &[pod("a", 5)])),
            2,
        ),
        (
            "pages that always expire",
            |w, request| {
                if request.contains("continue") {
                    w.answer(410, &status(410, "Expired"));
                } else {
                    w.answer(200, &page("10", "C", &[pod("a", 1)]));
                }
            },
            8,
        ),
        (
            "the wait of a year",
            |w, _| w.answer_with(Head::new(429).with_retry_after("31536000"), "x"),
            1,
        ),
        (
            "a list that is cut",
            |w, _| w.answer(200, "{\"kind\":\"PodList\""),
            1,
        ),
    ];
    for (name, server, per_run) in servers {
        let count = an_hour(World::list(), server);
        assert!(count <= per_run * runs, "{name}: {count}");
        let count = an_hour(World::client_go(Initial::List), server);
        assert!(count <= per_run * client_go_runs, "{name}: {count}");
        // Each run tries a stream, and then a list.
        let count = an_hour(World::stream(), server);
        assert!(
            count <= (per_run + per_run.max(1)) * runs,
            "{name}: {count}"
        );
    }
}

#[test]
fn no_watch_makes_a_storm() {
    let opens = delays_within(secs(3600)) + 1;
    // With one event each: five immediate reopenings after each delay.
    let one_event = |w: &mut World, request: &str| {
        list_or(w, request, |w| {
            w.events(&[modified("a", 11)]).close();
        });
    };
    let count = an_hour(World::list(), one_event);
    assert!(count <= 1 + 6 * opens, "{count}");

    // Ends after a second without an event.
    let a_second = |w: &mut World, request: &str| {
        list_or(w, request, |w| {
            w.head(Head::new(200));
            w.wait(secs(1)).close();
        });
    };
    let count = an_hour(World::list(), a_second);
    assert!(count <= 1 + 6 * opens, "{count}");
    // client-go reopens these without a limit; only the server's second slows it down.
    let count = an_hour(World::client_go(Initial::List), a_second);
    assert!(count <= 3602, "{count}");

    // Cut off before the answer: ten retries within the reflector, then the delay.
    let cut = |w: &mut World, request: &str| {
        list_or(w, request, |w| w.fail(FailureKind::Reset));
    };
    let count = an_hour(World::list(), cut);
    assert!(count <= 1 + 11 * opens, "{count}");
    let count = an_hour(World::client_go(Initial::List), cut);
    assert!(count <= 1 + 3600 / 10 * 11 + 11, "{count}");

    // A silent server.
    let silent = |w: &mut World, request: &str| {
        list_or(w, request, |w| {
            w.events(&[bookmark(11)]);
        });
    };
    let count = an_hour(World::list(), silent);
    assert!(count <= 1 + 3600 / 75 + 1, "{count}");

    // Streams that end early.
    let half = |w: &mut World, request: &str| {
        list_or(w, request, |w| {
            w.events(&[added("a", 5)]).close();
        });
    };
    let count = an_hour(World::stream(), half);
    assert!(count <= 1 + 6 * opens, "{count}");
}
