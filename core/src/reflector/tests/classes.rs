//! Every kind of error of an API server, as the answer to each request and as an event.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::harness::*;
use crate::reflector::Initial;

struct Row {
    code: u16,
    body: String,
    class: &'static str,
}

fn rows() -> Vec<Row> {
    let row = |code, body: &str, class| Row {
        code,
        body: body.to_string(),
        class,
    };
    let too_old = status_saying(410, "Expired", "too old resource version: 1 (2)", "");
    let too_large = status_saying(
        504,
        "Timeout",
        "m",
        r#"{"reason":"ResourceVersionTooLarge"}"#,
    );
    let busy = status(429, "TooManyRequests");
    Vec::from([
        row(410, &too_old, "expired"),
        row(410, &status(410, "Gone"), "expired"),
        row(410, &status(410, "NewReason"), "expired"),
        row(504, &too_large, "too-large"),
        row(429, &busy, "too-many-requests"),
        row(500, &status(500, "ServerTimeout"), "server-timeout"),
        row(504, &status(504, "Timeout"), "timeout"),
        row(500, &status(500, "InternalError"), "internal-error"),
        row(
            503,
            &status(503, "ServiceUnavailable"),
            "service-unavailable",
        ),
        row(422, &status(422, "Invalid"), "invalid"),
        row(400, &status(400, "BadRequest"), "bad-request"),
        row(405, &status(405, "MethodNotAllowed"), "method-not-allowed"),
        row(406, &status(406, "NotAcceptable"), "not-acceptable"),
        row(404, &status(404, "NotFound"), "not-found"),
        row(401, &status(401, "Unauthorized"), "unauthorized"),
        row(403, &status(403, "Forbidden"), "forbidden"),
    ])
}

/// Errors that are not a Status: a proxy's page, the server's text.
fn texts() -> Vec<Row> {
    let row = |code, body: &str, class| Row {
        code,
        body: body.to_string(),
        class,
    };
    Vec::from([
        row(
            429,
            "Too many requests, please try again later.\n",
            "too-many-requests",
        ),
        row(404, "404 page not found\n", "not-found"),
        row(
            400,
            "Client sent an HTTP request to an HTTPS server.\n",
            "bad-request",
        ),
        row(401, "", "unauthorized"),
        row(403, "<html>", "forbidden"),
        row(502, "<html>Bad gateway</html>", "other"),
        row(503, "upstream connect error", "service-unavailable"),
        row(302, "", "other"),
        row(410, "", "expired"),
    ])
}

impl Row {
    fn is_old(&self) -> bool {
        matches!(self.class, "expired" | "too-large")
    }

    fn is_busy(&self) -> bool {
        self.class == "too-many-requests"
    }
}

fn modes(initial: Initial) -> [World; 2] {
    let config = |client_go| crate::ReflectorConfig {
        initial,
        client_go,
        ..Default::default()
    };
    [false, true].map(|client_go| World::new(config(client_go)))
}

/// Requests with the bounds of their delays in milliseconds: after 429, after an expired version, and after anything else.
type Next = [(u64, u64, &'static str); 3];

/// Expects the report and the next request.
fn expect_next(w: &mut World, row: &Row, [busy, old, other]: Next) {
    w.reports(&[row.class]);
    let (from, to, request) = if row.is_busy() {
        busy
    } else if row.is_old() {
        old
    } else {
        other
    };
    if to == 0 {
        w.expect(request);
    } else {
        w.expect_within(ms(from), ms(to), request);
    }
}

#[test]
fn as_the_answer_to_a_list() {
    let first = (800, 1600, "LIST limit=500 resourceVersion=0");
    let again = (1600, 3200, "LIST resourceVersion=10");
    for row in rows().iter().chain(&texts()) {
        for mut w in modes(Initial::List) {
            w.expect(first.2);
            w.answer(row.code, &row.body);
            expect_next(&mut w, row, [first, (0, 0, "LIST limit=500"), first]);
        }
        for mut w in modes(Initial::List).map(World::watching) {
            w.close();
            w.take_reports();
            w.expect_after(ms(800), again.2);
            w.answer(row.code, &row.body);
            expect_next(&mut w, row, [again, (0, 0, "LIST"), again]);
        }
    }
}

#[test]
fn as_the_answer_to_a_watch_and_as_an_event_of_it() {
    let (watch, list) = (
        (800, 1600, "WATCH resourceVersion=10"),
        (800, 1600, "LIST resourceVersion=10"),
    );
    // A resource without watches is no failure.
    let is_failure = |row: &&Row| row.code != 405;
    for row in rows().iter().chain(&texts()).filter(is_failure) {
        for mut w in modes(Initial::List).map(World::watching) {
            w.answer(row.code, &row.body);
            expect_next(&mut w, row, [watch, list, list]);
        }
    }
    for row in &rows() {
        for mut w in modes(Initial::List).map(World::watching) {
            w.events(&[event("ERROR", &row.body)]);
            assert_eq!(w.cancelled, 1);
            w.holds(&["a@5"]);
            expect_next(&mut w, row, [watch, list, list]);
        }
    }
}

#[test]
fn as_the_answer_to_a_streaming_list_and_as_an_event_of_it() {
    // The first request was already for the newest version: a list, although client-go would repeat the request for
    // ever.
    let list = (0, 0, "LIST limit=500 resourceVersion=0");
    let next = [
        (800, 3200, "STREAM resourceVersion=10"),
        (0, 0, "STREAM"),
        (0, 0, "LIST resourceVersion=10"),
    ];
    let expired = |w: &mut World| {
        w.events(&[error_event(410, "Expired")]);
        w.take_reports();
        w.expect_after(ms(800), "STREAM resourceVersion=10");
    };
    for row in rows().iter().chain(&texts()) {
        for mut w in modes(Initial::Stream) {
            w.expect("STREAM");
            w.answer(row.code, &row.body);
            expect_next(&mut w, row, [(800, 1600, "STREAM"), list, list]);
        }
        for mut w in modes(Initial::Stream).map(World::streaming) {
            expired(&mut w);
            w.answer(row.code, &row.body);
            expect_next(&mut w, row, next);
        }
    }
    for row in &rows() {
        for mut w in modes(Initial::Stream).map(World::streaming) {
            expired(&mut w);
            w.events(&[added("b", 20), event("ERROR", &row.body)]);
            w.version("10");
            expect_next(&mut w, row, next);
        }
    }
}

/// A refusal is permanent once there is no other request to try.
#[test]
fn a_refusal_that_only_a_person_can_mend_is_permanent() {
    for row in rows().iter().chain(&texts()) {
        let permanent = matches!(row.code, 400 | 401 | 403 | 404 | 405 | 406 | 422);
        for mut w in modes(Initial::List) {
            w.answer(row.code, &row.body);
            assert_eq!(w.take_reports()[0].permanent, permanent, "{}", row.code);
        }
        // Without streaming lists, the server may still list.
        for mut w in modes(Initial::Stream) {
            w.answer(row.code, &row.body);
            assert!(!w.take_reports()[0].permanent, "{}", row.code);
        }
    }
    // A rejected token does not make the parameters wrong.
    let mut w = World::list();
    w.answer(200, &page("10", "t", &[]));
    w.answer(400, &status(400, "BadRequest"));
    let reports = w.take_reports();
    assert!(!reports[0].permanent, "{reports:?}");
}

/// The server's message is in the report.
#[test]
fn a_report_has_the_servers_words() {
    let mut w = World::list();
    w.answer(
        403,
        &status_saying(403, "Forbidden", "pods is forbidden", ""),
    );
    let reports = w.take_reports();
    assert!(reports[0].text.contains("pods is forbidden"), "{reports:?}");
    assert!(reports[0].text.contains("403"), "{reports:?}");
    w.jump();
    w.answer(503, "upstream connect error\nand more\n");
    let reports = w.take_reports();
    assert!(reports[0].text.contains("upstream connect error"));
    assert!(!reports[0].text.contains("and more"));
}
