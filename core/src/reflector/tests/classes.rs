//! Every kind of error of an API server, as the answer to a watch and as an event of it.

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

fn modes(initial: Initial) -> [World; 2] {
    let config = |client_go| crate::ReflectorConfig {
        initial,
        client_go,
        ..Default::default()
    };
    [false, true].map(|client_go| World::new(config(client_go)))
}

/// After 429 a watch follows, and after anything else a list.
#[test]
fn as_the_answer_to_a_watch_and_as_an_event_of_it() {
    let expect_next = |w: &mut World, row: &Row| {
        w.reports(&[row.class]);
        let next = if row.class == "too-many-requests" {
            "WATCH resourceVersion=10"
        } else {
            "LIST resourceVersion=10"
        };
        w.expect_after(ms(800), next);
    };
    let watching = || modes(Initial::List).map(World::watching);
    for row in rows().iter().chain(&texts()) {
        for (mut w, client_go) in watching().into_iter().zip([false, true]) {
            // Only client-go takes a resource without watches for a failure.
            if row.code != 405 || client_go {
                w.answer(row.code, &row.body);
                expect_next(&mut w, row);
            }
        }
    }
    for row in &rows() {
        for mut w in watching() {
            w.events(&[event("ERROR", &row.body)]);
            assert_eq!(w.cancelled, 1);
            w.holds(&["a@5"]);
            expect_next(&mut w, row);
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
