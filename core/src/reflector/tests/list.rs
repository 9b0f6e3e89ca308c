//! Lists: versions, pages, retries within the reflector, and the reaction to a refusal.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::harness::*;
use crate::reflector::{Initial, ReflectorConfig};
use crate::transport::{End, FailureKind, Head, TransportFailure};
use crate::{
    Frame, Heap, Instant, Output, Reflector, ResourceVersion, reflector::Purpose, report::Level,
};

fn both() -> [World; 2] {
    [World::list(), World::client_go(Initial::List)]
}

/// R21, R72; the first golden trace.
#[test]
fn r21_r72_a_first_start_lists_at_0_and_watches_from_the_lists_version() {
    for mut w in both() {
        w.expect("LIST limit=500 resourceVersion=0");
        w.answer(200, &list("1", &[pod("foo", 1)]));
        w.expect("WATCH resourceVersion=1");
        w.events(&[
            modified("foo", 2),
            added("b", 3),
            added("c", 4),
            added("d", 5),
        ]);
        w.events(&[added("e", 6)]);
        w.holds(&["b@3", "c@4", "d@5", "e@6", "foo@2"]);
        w.notified(&[
            "add* foo@1",
            "synced",
            "update foo@1->2",
            "add b@3",
            "add c@4",
            "add d@5",
            "add e@6",
        ]);
        w.version("6");
        w.no_reports();
    }
}

/// The second golden trace; R42: a list that the watch cache paginated is paginated from then on.
#[test]
fn r42_a_first_list_in_two_pages_is_paged_from_then_on() {
    for mut w in both() {
        w.expect("LIST limit=500 resourceVersion=0");
        w.answer(200, &page("10", "C", &[pod("a", 1)]));
        w.expect("LIST continue=C limit=500");
        w.answer(200, &page("12", "", &[pod("b", 2)]));
        w.expect("WATCH resourceVersion=10");
        w.holds(&["a@1", "b@2"]);
        w.answer(410, &status(410, "Expired"));
        w.expect_after(ms(800), "LIST limit=500 resourceVersion=10");
        // Such a server has no watch cache: what is too old to watch is too old to list, and it says so.
        w.answer(410, &status(410, "Expired"));
        w.expect("LIST limit=500");
    }
}

/// R41, R43: a relist is at the last version and is not paginated.
#[test]
fn r41_r43_a_relist_asks_for_the_last_version_without_pages() {
    for w in both() {
        let mut w = w.watching();
        w.close();
        w.expect_after(ms(800), "LIST resourceVersion=10");
        w.answer(200, &list("20", &[pod("a", 5)]));
        w.expect("WATCH resourceVersion=20");
        w.close();
        w.expect_after(ms(1600), "LIST resourceVersion=20");
    }
}

/// R41
#[test]
fn r41_a_known_version_is_where_the_first_list_begins() {
    let mut reflector: Reflector<_, Heap> = Reflector::new(pods(), ReflectorConfig::list(), 1);
    reflector.resume(&crate::reflector::Restored {
        version: ResourceVersion::new("10"),
        at: None,
        complete: false,
    });
    let Output::Send(request) = reflector.poll_output(Instant::from_micros(0)) else {
        panic!()
    };
    let mut target = String::new();
    request.write_target(&mut target).unwrap();
    assert_eq!(shown(&target), "LIST resourceVersion=10");
}

/// R40: a custom page size is used at any version, and is repeated with each token.
#[test]
fn r40_a_page_size_of_ones_own_is_always_used() {
    let config = ReflectorConfig {
        page_size: Some(4),
        ..ReflectorConfig::list()
    };
    let mut w = World::new(config).of_three_pages("LIST limit=4 resourceVersion=0");
    w.expect("WATCH resourceVersion=10");
    w.close();
    w.expect_after(ms(800), "LIST limit=4 resourceVersion=10");
}

/// A paginated list shows exactly the version that it requests. If no watch can resume from that version, repeating the
/// list would return the same, for as long as etcd has it.
#[test]
fn a_watch_that_expired_before_a_list_in_pages_leads_to_a_list_at_the_newest_version() {
    for client_go in [false, true] {
        let mut w = World::new(ReflectorConfig {
            page_size: Some(4),
            client_go,
            ..ReflectorConfig::list()
        });
        w.expect("LIST limit=4 resourceVersion=0");
        w.answer(200, &list("10", &[]));
        w.expect("WATCH resourceVersion=10");
        w.answer(410, &status(410, "Expired"));
        let newest = if client_go {
            "LIST limit=4 resourceVersion=10"
        } else {
            "LIST limit=4"
        };
        w.expect_after(ms(800), newest);
        // From then on, the last version is known to the server again.
        w.answer(200, &list("20", &[]));
        w.expect("WATCH resourceVersion=20");
        w.close();
        w.expect_after(ms(1600), "LIST limit=4 resourceVersion=20");
    }
}

impl World {
    fn of_three_pages(mut self, first: &str) -> Self {
        self.expect(first);
        let items = |from: u32, to: u32| {
            (from..to)
                .map(|i| pod(&format!("p{i}"), i + 1))
                .collect::<Vec<_>>()
        };
        self.answer(200, &page("10", "C1", &items(0, 4)));
        self.expect("LIST continue=C1 limit=4");
        self.answer(200, &page("10", "C2", &items(4, 8)));
        self.expect("LIST continue=C2 limit=4");
        self.answer(200, &page("10", "", &items(8, 10)));
        assert_eq!(self.informer.cache().len(), 10);
        self
    }
}

/// P01: the number of requests for lists with pages of 10. P03: the version is not repeated with a token, which is a JSON
/// string with escapes.
#[test]
fn p01_p03_pages_are_asked_for_until_there_is_no_token() {
    for (count, pages) in [(0, 1), (9, 1), (10, 1), (11, 2), (21, 3)] {
        let mut w = World::new(ReflectorConfig {
            page_size: Some(10),
            ..ReflectorConfig::list()
        });
        let all: Vec<_> = (0..count).map(|i| pod(&format!("p{i}"), i + 1)).collect();
        for number in 1..=pages {
            w.expect(&match number {
                1 => "LIST limit=10 resourceVersion=0".to_string(),
                n => format!("LIST continue=T%3D{n} limit=10"),
            });
            let (from, to) = ((number - 1) * 10, (number * 10).min(count) as usize);
            let token = if number < pages {
                format!(r"T\u003d{}", number + 1)
            } else {
                String::new()
            };
            w.answer(200, &page("50", &token, &all[from as usize..to]));
        }
        w.expect("WATCH resourceVersion=50");
        assert_eq!(w.informer.cache().len(), count as usize);
        assert_eq!(w.count, pages as usize + 1);
    }
}

/// P02, R45: an expired page leads to one unpaginated list at the version requested first.
#[test]
fn p02_an_expired_page_leads_to_one_whole_list_at_the_same_version() {
    for mut w in both() {
        w.expect("LIST limit=500 resourceVersion=0");
        w.answer(200, &page("10", "C", &[pod("a", 1)]));
        w.expect("LIST continue=C limit=500");
        w.answer(410, &status(410, "Expired"));
        w.expect("LIST resourceVersion=0");
        w.answer(200, &list("30", &[pod("b", 2)]));
        w.expect("WATCH resourceVersion=30");
        // The objects of the first attempt were removed without a notification.
        w.notified(&["add* b@2", "synced"]);
        // The list still counts as paginated.
        w.close();
        w.expect_after(ms(800), "LIST limit=500 resourceVersion=30");
    }
}

/// R45 on a relist: the sequence "0", "10", "" with the token, "10".
#[test]
fn r45_p04_an_expired_page_of_a_relist_leads_to_a_whole_list_at_its_version() {
    let config = ReflectorConfig {
        page_size: Some(4),
        ..ReflectorConfig::list()
    };
    let mut w = World::new(config);
    w.expect("LIST limit=4 resourceVersion=0");
    w.answer(200, &list("10", &[pod("a", 1)]));
    w.expect("WATCH resourceVersion=10");
    w.close();
    w.expect_after(ms(800), "LIST limit=4 resourceVersion=10");
    w.answer(200, &page("11", "C", &[pod("a", 1)]));
    w.expect("LIST continue=C limit=4");
    w.answer(410, &status(410, "Expired"));
    w.expect("LIST resourceVersion=10");
    w.answer(200, &list("12", &[pod("a", 1)]));
    w.expect("WATCH resourceVersion=12");
}

/// The unpaginated list after an expired page forgets the pages: if it fails too, the next list is paginated again.
#[test]
fn an_expired_whole_list_leads_to_pages_at_the_newest_version() {
    let mut w = World::list();
    w.expect("LIST limit=500 resourceVersion=0");
    w.answer(200, &page("10", "C", &[pod("a", 1)]));
    w.expect("LIST continue=C limit=500");
    w.answer(410, &status(410, "Expired"));
    w.expect("LIST resourceVersion=0");
    w.answer(410, &status(410, "Expired"));
    w.expect("LIST limit=500");
    w.answer(200, &list("20", &[pod("b", 1)]));
    w.expect("WATCH resourceVersion=20");
    w.notified(&["add* b@1", "synced"]);
}

/// R44; the golden trace of 410 and the row after it.
#[test]
fn r44_x03_an_expired_relist_is_repeated_at_once_at_the_newest_version() {
    for (code, reason) in [(410, "Expired"), (410, "Gone"), (410, "SomethingNew")] {
        for w in both() {
            let mut w = w.watching();
            w.events(&[error_event(410, "Expired")]);
            w.expect_after(ms(800), "LIST resourceVersion=10");
            w.answer(code, &status(code, reason));
            // X03: without pages, like the rejected list.
            w.expect("LIST");
            w.answer(200, &list("30", &[pod("a", 5)]));
            w.expect("WATCH resourceVersion=30");
            w.close();
            w.expect_after(ms(1600), "LIST resourceVersion=30");
        }
    }
}

/// R46: a version from the future, in its three wire forms.
#[test]
fn r46_a_too_large_version_leads_to_a_list_at_the_newest_one() {
    let forms = [
        status_saying(
            504,
            "Timeout",
            "m",
            r#"{"reason":"ResourceVersionTooLarge"}"#,
        ),
        status_saying(
            504,
            "Timeout",
            "m",
            r#"{"message":"Too large resource version"}"#,
        ),
        status_saying(
            504,
            "Timeout",
            "Timeout: Too large resource version: 9, current: 8",
            "",
        ),
    ];
    for form in forms {
        for w in both() {
            let mut w = w.watching();
            w.close();
            w.expect_after(ms(800), "LIST resourceVersion=10");
            // The same with Retry-After: waiting does not help.
            w.answer_with(Head::new(504).with_retry_after("1"), &form);
            w.expect("LIST");
            w.answer(200, &list("8", &[pod("a", 5)]));
            w.expect("WATCH resourceVersion=8");
        }
    }
}

/// R26: a Table, in both versions of its group, is not a list.
#[test]
fn r26_a_table_is_refused() {
    for version in ["v1", "v1beta1"] {
        let mut w = World::list().watching();
        w.close();
        w.expect_after(ms(800), "LIST resourceVersion=10");
        w.take_reports();
        w.answer(
            200,
            &format!(
                r#"{{"kind":"Table","apiVersion":"meta.k8s.io/{version}","metadata":{{"resourceVersion":"11"}},"columnDefinitions":[],"rows":[{{"cells":["a"],"object":{}}}]}}"#,
                pod("a", 5)
            ),
        );
        w.reports(&["not-a-list"]);
        w.holds(&["a@5"]);
        w.expect_after(ms(1600), "LIST resourceVersion=10");
        w.version("10");
    }
}

/// A list that answers the current request is authoritative, even if it is older than the last version.
#[test]
fn an_older_list_is_taken_and_reported() {
    for (mut w, level) in both().into_iter().zip([Level::Info, Level::Debug]) {
        w = w.watching();
        w.close();
        w.take_reports();
        w.expect_after(ms(800), "LIST resourceVersion=10");
        w.answer(200, &list("7", &[pod("a", 3)]));
        let report = w.report();
        assert_eq!((report.class, report.level), ("version-went-back", level));
        w.expect("WATCH resourceVersion=7");
        w.notified(&["update a@5->3"]);
    }
}

/// A truncated body is not retried within the reflector: the run fails.
#[test]
fn p04_a_list_that_is_cut_in_the_middle_fails_the_run() {
    let body = list("20", &[pod("a", 5), pod("b", 6)]);
    let cut = &body.as_bytes()[..body.len() - 30];
    for (end, class) in [
        (End::Clean, "truncated"),
        (
            End::Failed(TransportFailure::new(FailureKind::Reset)),
            "connection-reset",
        ),
    ] {
        let mut w = World::list().watching();
        w.close();
        w.expect_after(ms(800), "LIST resourceVersion=10");
        w.take_reports();
        w.head(Head::new(200)).bytes(cut).end(end);
        w.reports(&[class]);
        // Nothing is swept, and the version is the old one.
        w.holds(&["a@5"]);
        w.version("10");
        w.expect_after(ms(1600), "LIST resourceVersion=10");
        w.answer(200, &list("21", &[pod("b", 6)]));
        w.holds(&["b@6"]);
        w.notified(&["add b@6", "delete? a@5"]);
    }
}

/// Only the JSON matters: a list is applied even if its body ends with an error after it.
#[test]
fn a_list_whose_end_is_cut_is_whole() {
    let mut w = World::list();
    w.expect("LIST limit=500 resourceVersion=0");
    w.head(Head::new(200))
        .bytes(list("10", &[pod("a", 5)]).as_bytes());
    w.nothing_asked();
    w.fail(FailureKind::Reset);
    w.reports(&["connection-reset"]);
    w.expect("WATCH resourceVersion=10");
    w.notified(&["add* a@5", "synced"]);
}

/// The same for a list whose body never ends.
#[test]
fn a_list_whose_body_does_not_end_is_whole_after_a_second() {
    let mut w = World::list();
    w.expect("LIST limit=500 resourceVersion=0");
    w.head(Head::new(200))
        .bytes(list("10", &[pod("a", 5)]).as_bytes());
    w.wait(ms(999)).nothing_asked();
    w.wait(ms(1));
    w.expect("WATCH resourceVersion=10");
    w.reports(&["silent"]);
    assert_eq!(w.cancelled, 1);
}

/// The body of an error may be endless: the part received so far is used.
#[test]
fn an_error_whose_body_does_not_end_is_an_error() {
    for head in [Head::new(403), Head::new(500).with_retry_after("0")] {
        let mut w = World::list();
        w.expect("LIST limit=500 resourceVersion=0");
        w.head(head);
        for _ in 0..4 {
            w.bytes(&[b'x'; 20_000]);
            w.wait(secs(1)).no_reports();
        }
        w.wait(secs(1));
        assert_eq!((w.take_reports().len(), w.cancelled), (1, 1));
        if head.status == 403 {
            w.expect_after(ms(800), "LIST limit=500 resourceVersion=0");
        } else {
            w.expect("LIST limit=500 resourceVersion=0");
        }
    }
}

/// DIFFERENCES: a list without a byte for a minute is cancelled; a slow one is reported.
#[test]
fn a_silent_list_is_given_up_after_a_minute() {
    let mut w = World::list();
    w.expect("LIST limit=500 resourceVersion=0");
    w.wait(ms(9_999)).no_reports();
    w.wait(ms(1)).reports(&["slow-list"]);
    w.wait(ms(49_999)).no_reports();
    w.wait(ms(1)).reports(&["silent"]);
    assert_eq!(w.cancelled, 1);
    w.expect_after(ms(800), "LIST limit=500 resourceVersion=0");
    // Every byte restarts the minute.
    w.head(Head::new(200));
    for byte in b"{\"kind\":".chunks(1) {
        w.wait(secs(59)).bytes(byte);
    }
    w.reports(&["slow-list"]);
    w.wait(secs(60)).reports(&["silent"]);
}

/// With `client_go` it waits, and the error handler gets nothing.
#[test]
fn as_client_go_a_silent_list_is_waited_for() {
    let mut w = World::client_go(Initial::List);
    w.expect("LIST limit=500 resourceVersion=0");
    w.wait(secs(3600)).nothing_asked();
    assert_eq!(w.cancelled, 0);
    assert!(
        w.take_reports()
            .iter()
            .all(|report| report.level == Level::Debug)
    );
}

/// A last page without metadata ends the list; the previous token is not used again.
#[test]
fn a_page_without_metadata_is_the_last_one() {
    let mut w = World::list();
    w.expect("LIST limit=500 resourceVersion=0");
    w.answer(200, &page("10", "C", &[pod("a", 1)]));
    w.expect("LIST continue=C limit=500");
    w.answer(
        200,
        &format!(r#"{{"kind":"PodList","items":[{}]}}"#, pod("b", 1)),
    );
    w.expect("WATCH resourceVersion=10");
}

/// A relist notifies of changes as they arrive, and of deletions at its end.
#[test]
fn a_relist_notifies_deletions_at_its_end() {
    let mut w = World::list().watching();
    w.events(&[added("b", 11)]);
    w.notified(&["add b@11"]);
    w.close();
    w.expect("WATCH resourceVersion=11");
    w.events(&[error_event(410, "Expired")]);
    w.expect_after(ms(800), "LIST resourceVersion=11");
    w.head(Head::new(200));
    let body = list("20", &[pod("b", 12), pod("c", 13)]);
    let (most, end) = body.split_at(body.len() - 2);
    w.bytes(most.as_bytes());
    w.notified(&["update b@11->12", "add c@13"]);
    w.version("11");
    w.bytes(end.as_bytes());
    w.notified(&["delete? a@5"]);
    w.version("20");
}

/// R23: a list fails, a watch cannot be opened: the last good state stays, and the next run recovers.
#[test]
fn r23_errors_leave_the_last_good_state() {
    for mut w in both() {
        w.expect("LIST limit=500 resourceVersion=0");
        w.answer(500, &status(500, "InternalError"));
        w.reports(&["internal-error"]);
        w.holds(&[]);
        w.expect_after(ms(800), "LIST limit=500 resourceVersion=0");
        w.answer(200, &list("1", &[pod("foo", 1)]));
        w.expect("WATCH resourceVersion=1");
        w.answer(404, &status(404, "NotFound"));
        w.reports(&["not-found"]);
        w.holds(&["foo@1"]);
        w.expect_after(ms(1600), "LIST resourceVersion=1");
        w.answer(200, &list("2", &[pod("foo", 2)]));
        w.holds(&["foo@2"]);
    }
}

/// R04-R07 for an engine without I/O: stopped at any time, it cancels the open request and sends no other.
#[test]
fn r06_r07_a_stop_cancels_and_asks_for_nothing_more() {
    type Moment = fn(&mut World);
    let moments: [(Moment, usize); 8] = [
        (|_| {}, 1),
        (
            |w| {
                w.head(Head::new(200));
            },
            1,
        ),
        (|w| w.answer(500, "x"), 0),
        (
            |w| w.answer_with(Head::new(429).with_retry_after("5"), "x"),
            0,
        ),
        (|w| w.answer(200, &list("1", &[])), 1),
        (|w| w.answer(200, &page("1", "C", &[])), 1),
        (
            |w| {
                w.answer(200, &list("1", &[]));
                w.events(&[added("a", 2)]);
            },
            1,
        ),
        (
            |w| {
                w.answer(200, &list("1", &[]));
                w.answer(429, "x");
            },
            0,
        ),
    ];
    for (moment, cancels) in moments {
        let mut w = World::list();
        moment(&mut w);
        let count = w.count;
        w.informer.stop();
        w.pump();
        w.wait(secs(3600));
        assert_eq!((w.count, w.cancelled), (count, cancels));
        assert!(w.informer.reflector().is_stopped());
    }
}

/// No request is made unless the reflector is polled.
#[test]
fn r04_a_reflector_stopped_before_it_began_asks_for_nothing() {
    let mut reflector: Reflector<_, Heap> = Reflector::new(pods(), ReflectorConfig::list(), 1);
    reflector.stop();
    let output = reflector.poll_output(Instant::from_micros(0));
    assert!(matches!(output, Output::Wait(None)), "{output:?}");
}

/// A token that the storage truncates would request another page, or none.
#[test]
fn a_token_that_is_too_long_fails_the_run() {
    type Small = crate::Inline<4, 32, 4096>;
    let now = Instant::from_micros(0);
    let mut reflector: Reflector<_, Small> = Reflector::new(pods(), ReflectorConfig::list(), 1);
    let Output::Send(request) = reflector.poll_output(now) else {
        panic!()
    };
    let id = request.id();
    reflector.handle_head(now, id, Head::new(200));
    let body = page("10", &"x".repeat(2000), &[]);
    let mut rest = body.as_bytes();
    while let Some(frame) = reflector.next_frame(now, id, &mut rest) {
        assert!(!matches!(frame, Frame::Complete { .. }));
    }
    let Output::Report(report) = reflector.poll_output(now) else {
        panic!()
    };
    assert_eq!(report.class(), "request-too-long");
    assert!(matches!(reflector.poll_output(now), Output::Cancel(_)));
    assert!(matches!(reflector.poll_output(now), Output::Wait(Some(_))));
}

/// A server that repeats a token would send the same pages for ever.
#[test]
fn a_repeated_token_fails_the_run() {
    for mut w in [World::list(), World::client_go(Initial::List)] {
        w.expect("LIST limit=500 resourceVersion=0");
        w.answer(200, &page("10", "t", &[pod("a", 5)]));
        w.expect("LIST continue=t limit=500");
        w.answer(200, &page("10", "t", &[pod("b", 5)]));
        let reports = w.take_reports();
        assert_eq!(reports[0].class, "endless-pages");
        assert_eq!(reports[0].level, Level::Warn);
        w.notified(&[]);
        w.expect_after(ms(800), "LIST limit=500 resourceVersion=0");
    }
}

/// A list without a version is reported and completed: room in the cache still leads to a list.
#[test]
fn a_list_without_a_version_is_complete() {
    let mut reflector: Reflector<_, Heap> = Reflector::new(pods(), ReflectorConfig::list(), 1);
    let now = Instant::from_micros(0);
    let feed = |reflector: &mut Reflector<_, Heap>, id, body: &str| {
        reflector.handle_head(now, id, Head::new(200));
        let mut body = body.as_bytes();
        let mut frames = String::new();
        while let Some(frame) = reflector.next_frame(now, id, &mut body) {
            frames.push(match frame {
                Frame::Begin => '<',
                Frame::Object(_) => 'o',
                Frame::Bookmark { .. } => 'b',
                Frame::Complete { .. } => '>',
                Frame::Report(_) | Frame::Internal => continue,
            });
        }
        frames
    };
    let Output::Send(request) = reflector.poll_output(now) else {
        panic!("a list");
    };
    let id = request.id();
    assert_eq!(feed(&mut reflector, id, &list("", &[pod("a", 5)])), "<o>");
    reflector.handle_end(now, id, End::Clean);
    let Output::Report(report) = reflector.poll_output(now) else {
        panic!("a report");
    };
    assert_eq!(report.class(), "no-version");
    let Output::Send(request) = reflector.poll_output(now) else {
        panic!("a watch");
    };
    let id = request.id();
    let events = [added("a", 5), end_bookmark(6)].join("\n");
    assert_eq!(feed(&mut reflector, id, &events), "ob");
    assert_eq!(reflector.version().to_string(), "6");
    reflector.refill(now);
    let Output::Wait(Some(until)) = reflector.poll_output(now) else {
        panic!("the watch continues");
    };
    assert!(matches!(reflector.poll_output(until), Output::Cancel(_)));
    let Output::Send(request) = reflector.poll_output(until) else {
        panic!("a list");
    };
    assert_eq!(request.purpose(), Purpose::List);
}
