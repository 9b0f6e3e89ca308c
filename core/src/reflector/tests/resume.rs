//! Watches that resume at a restored version: `docs/JOURNAL.md`.

use super::harness::*;
use crate::cache::SourceId;
use crate::reflector::{Initial, ReflectorConfig};
use crate::transport::FailureKind;

fn both() -> [World; 2] {
    [
        World::resuming(ReflectorConfig::list()),
        World::resuming(ReflectorConfig {
            client_go: true,
            ..ReflectorConfig::list()
        }),
    ]
}

#[test]
fn an_event_or_a_bookmark_confirms_what_was_restored() {
    for mut w in both() {
        assert!(w.informer.cache().is_restored(SourceId::FIRST) && !w.informer.cache().is_synced());
        w.events(&[bookmark(10)]);
        w.notified(&["synced"]);
        assert!(!w.informer.cache().is_restored(SourceId::FIRST) && w.informer.cache().is_synced());
    }
    for mut w in both() {
        w.events(&[modified("a", 12)]);
        w.notified(&["synced", "update a@5->12"]);
        // From here on it is a watch like any other.
        w.close();
        w.expect("WATCH resourceVersion=12");
        w.no_reports();
    }
}

#[test]
fn an_unreachable_server_is_retried_without_a_list() {
    for mut w in both() {
        for kind in [
            FailureKind::Dns,
            FailureKind::Tls,
            FailureKind::Other,
            FailureKind::Refused,
        ] {
            w.fail(kind);
            assert_eq!(w.take_reports().len(), 1);
            w.jump();
            w.expect("WATCH resourceVersion=10");
        }
        w.answer(503, "the upstream is away");
        assert_eq!(w.take_reports().len(), 1);
        w.jump();
        w.expect("WATCH resourceVersion=10");
        // A watch that ends without an event is no reason for a list either.
        w.wait(secs(20)).events(&[]).close();
        w.expect("WATCH resourceVersion=10");
    }
}

#[test]
fn a_server_that_is_older_is_listed_at_its_newest_version() {
    for older in [bookmark(9), modified("a", 8)] {
        let mut w = World::resuming(ReflectorConfig::list());
        w.events(&[older]);
        w.reports(&["version-went-back"]);
        w.notified(&[]);
        assert!(!w.informer.cache().is_synced());
        w.expect_after(ms(800), "LIST limit=500");
        w.answer(200, &list("9", &[pod("a", 4)]));
        w.reports(&["version-went-back"]);
        w.notified(&["update a@5->4", "synced"]);
        w.expect("WATCH resourceVersion=9");
    }
}

#[test]
fn a_silent_server_is_listed_since_it_may_be_older() {
    let mut w = World::resuming(ReflectorConfig::list());
    w.events(&[]).wait(secs(74));
    w.nothing_asked();
    w.wait(secs(1));
    w.reports(&["silent"]);
    w.expect_after(ms(800), "LIST resourceVersion=10");
    let causes = r#"{"reason":"ResourceVersionTooLarge"}"#;
    let too_large = status_saying(
        504,
        "Timeout",
        "Too large resource version: 10, current: 9",
        causes,
    );
    w.answer(504, &too_large);
    w.expect("LIST");
}

#[test]
fn a_version_that_the_server_forgot_leads_to_a_list_that_is_no_older() {
    for initial in [Initial::List, Initial::Stream] {
        let mut w = World::resuming(ReflectorConfig {
            initial,
            ..ReflectorConfig::default()
        });
        w.answer(410, &status(410, "Expired"));
        w.reports(&["expired"]);
        let request = match initial {
            Initial::List => "LIST resourceVersion=10",
            Initial::Stream => "STREAM resourceVersion=10",
        };
        w.expect_after(ms(800), request);
    }
}
