//! The text of reports.

use alloc::string::ToString;

use core::time::Duration;

use super::one_line::leaves_line;
use super::*;
use crate::json::JsonStr;
use crate::transport::FailureKind;
use crate::wire::{ErrorClass, FrameProblem};

const HOSTILE: &str = "a\nb\r\u{1b}[2Jc\u{7f}\u{9b}1m\u{202e}\u{2066}\u{2028}\u{0}\t";

/// A report stays on one line, whatever text a server, a transport, a decoder or a handler gives.
#[test]
fn every_report_is_one_line() {
    let json = escaped(HOSTILE);
    let text = JsonStr::new(json.as_bytes());
    let (key, message) = (HOSTILE, &HOSTILE as &dyn DisplayDebug);
    let (class, problem) = (ErrorClass::Forbidden, FrameProblem::NotUtf8);
    for problem in [
        Problem::Answer {
            class,
            status: 403,
            message: text,
        },
        Problem::Answer {
            class,
            status: 0,
            message: JsonStr::new(HOSTILE.as_bytes()),
        },
        Problem::OtherKind { key, kind: text },
        Problem::UnknownEvent(text),
        Problem::LeftWithFinalizer {
            key,
            finalizer: text,
        },
        Problem::Frame { key, problem },
        Problem::Undecodable { key, message },
        Problem::NoRoom { key },
        Problem::KeyTooLong { key },
        Problem::IndexPanicked {
            key,
            index: HOSTILE,
        },
        Problem::HandlerPanicked {
            handler: HOSTILE,
            message: HOSTILE,
        },
        Problem::Undelivered {
            handler: HOSTILE,
            count: 1,
        },
        Problem::Journal { message },
        Problem::Drift {
            key,
            kind: DriftKind::Gone,
        },
    ] {
        assert_ne!(problem.to_string(), problem.facts().class);
        let report = Report::new(Phase::List, problem);
        for shown in [
            report.to_string(),
            problem.to_string(),
            Report {
                detail: HOSTILE,
                ..report
            }
            .to_string(),
        ] {
            assert!(!shown.contains(leaves_line), "{shown:?}");
            assert!(
                shown.contains(r"a\nb\r\u{1b}[2Jc\u{7f}\u{9b}1m\u{202e}"),
                "{shown}"
            );
        }
    }
}

/// The text of a problem says more than its class.
#[test]
fn problems_without_texts_of_others_have_their_own() {
    let time = Duration::from_secs(7);
    let timed = [
        Problem::Request(RequestProblem::Silent(time)),
        Problem::Request(RequestProblem::NoInitialEvents(time)),
        Problem::Request(RequestProblem::EndlessStream(time)),
        Problem::Request(RequestProblem::LongRetryAfter(time)),
        Problem::Request(RequestProblem::NotWatched(time)),
        Problem::Request(RequestProblem::SlowList(time)),
    ];
    for problem in timed {
        assert!(problem.to_string().contains(" 7 s"), "{problem}");
    }
    let lost = LostRecords::new(Loss::Unfinished, 1, 1);
    for problem in [
        Problem::Request(RequestProblem::Transport(FailureKind::Dns)),
        Problem::Request(RequestProblem::Truncated),
        Problem::Request(RequestProblem::NotAList),
        Problem::Request(RequestProblem::NotAnEvent),
        Problem::Request(RequestProblem::VeryShortWatch),
        Problem::Request(RequestProblem::ShortWatches),
        Problem::Request(RequestProblem::EndlessPages),
        Problem::Request(RequestProblem::NoVersion),
        Problem::Request(RequestProblem::VersionWentBack),
        Problem::Request(RequestProblem::RequestTooLong),
        Problem::NoName,
        Problem::JournalLost { lost },
        Problem::JournalRecovered,
        Problem::Drifted {
            count: 1,
            repair: true,
        },
        Problem::WatchLags {
            lag: Duration::from_secs(100),
        },
    ] {
        assert!(problem.to_string().contains(' '), "{problem}");
    }
}

/// A server says only that a page was not found; the report says what to do.
#[test]
fn a_missing_resource_has_advice() {
    let problem = Problem::Answer {
        class: ErrorClass::NotFound,
        status: 404,
        message: JsonStr::new(b"404 page not found"),
    };
    assert_eq!(
        problem.to_string(),
        "the server answered 404 (not-found): 404 page not found; the resource is not served: check its group, version \
         and plural, or install its CustomResourceDefinition"
    );
}

#[cfg(feature = "std")]
#[test]
fn advice_is_for_problems_that_need_somebody() {
    let advice = |problem| Report::new(Phase::List, problem).advice();
    let slow = RequestProblem::SlowList(Duration::from_secs(60));
    assert_eq!(advice(slow.into()), None);
    let refused = RequestProblem::Transport(FailureKind::Refused);
    assert!(advice(refused.into()).is_some_and(|text| text.contains("check the address")));
}

#[test]
fn malformed_protobuf_is_distinguished_from_text_that_is_not_utf8() {
    let class = |problem| Problem::Frame { key: "", problem }.facts().class;
    assert_eq!(class(FrameProblem::Malformed), "object-malformed");
    assert_eq!(class(FrameProblem::NotUtf8), "object-not-utf8");
}

/// The text as a server sends it: escaped.
fn escaped(text: &str) -> alloc::string::String {
    text.chars()
        .map(|c| alloc::format!("\\u{:04x}", u32::from(c)))
        .collect()
}
