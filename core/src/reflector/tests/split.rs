//! The output does not depend on where an answer is split.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::harness::*;
use crate::reflector::{Frame, Initial, Output, Reflector, ReflectorConfig};
use crate::transport::{End, Head};
use crate::{Heap, Instant, Resource};

const NOW: Instant = Instant::from_micros(0);

/// Returns the frames in an answer that arrives in these pieces, and the requests after it.
fn frames(initial: Initial, first: &[u8], pieces: &[&[u8]]) -> Vec<String> {
    let config = ReflectorConfig {
        initial,
        frame_limit: 4096,
        ..Default::default()
    };
    let mut reflector: Reflector<Resource<'static>, Heap> = Reflector::new(pods(), config, 1);
    let mut all = Vec::new();
    let mut id = send(&mut reflector, &mut all);
    if !first.is_empty() {
        reflector.handle_head(NOW, id, Head::new(200));
        read(&mut reflector, id, first, &mut all);
        reflector.handle_end(NOW, id, End::Clean);
        id = send(&mut reflector, &mut all);
    }
    reflector.handle_head(NOW, id, Head::new(200));
    for piece in pieces {
        read(&mut reflector, id, piece, &mut all);
        while let Output::Report(report) = reflector.poll_output(NOW) {
            all.push(format!("{report}"));
        }
    }
    all.push(format!("{}", reflector.version()));
    all
}

fn send(
    reflector: &mut Reflector<Resource<'static>, Heap>,
    all: &mut Vec<String>,
) -> crate::RequestId {
    match reflector.poll_output(NOW) {
        Output::Send(request) => {
            all.push(format!("{:?}", request.purpose()));
            request.id()
        }
        other @ (Output::Cancel(_) | Output::Report(_) | Output::Wait(_)) => panic!("{other:?}"),
    }
}

fn read(
    reflector: &mut Reflector<Resource<'static>, Heap>,
    id: crate::RequestId,
    mut piece: &[u8],
    all: &mut Vec<String>,
) {
    while let Some(frame) = reflector.next_frame(NOW, id, &mut piece) {
        all.push(match frame {
            Frame::Object(object) => format!(
                "{:?} {:?} {}",
                object.change,
                object.problem,
                String::from_utf8_lossy(object.raw.json())
            ),
            Frame::Report(report) => format!("{report}"),
            other @ (Frame::Begin
            | Frame::Bookmark { .. }
            | Frame::Complete { .. }
            | Frame::Internal) => format!("{other:?}"),
        });
    }
    assert!(piece.is_empty());
}

/// Checks splits at every byte, at every two neighbours, and into single bytes.
fn check_splits(initial: Initial, first: &[u8], body: &[u8]) -> Vec<String> {
    let whole = frames(initial, first, &[body]);
    for at in 0..=body.len() {
        let (a, b) = body.split_at(at);
        assert_eq!(frames(initial, first, &[a, b]), whole, "split at {at}");
        let (c, d) = b.split_at(b.len().min(1));
        assert_eq!(
            frames(initial, first, &[a, c, d]),
            whole,
            "split around {at}"
        );
    }
    let bytes: Vec<_> = body.chunks(1).collect();
    assert_eq!(frames(initial, first, &bytes), whole, "single bytes");
    whole
}

fn odd_pod() -> String {
    r#"{ "spec" : {"é":"\u00e9\"}{][","n":-1.5e+3,"t":[true,null]}, "metadata":{"labels":{"a":"b"},"name":"o\u0064d","namespace":"n","resourceVersion":"7"}}"#.into()
}

#[test]
fn of_a_list() {
    let body = list("10", &[pod("a", 5), odd_pod(), pod("b", 6)]);
    let found = check_splits(Initial::List, b"", body.as_bytes());
    let objects = found
        .iter()
        .filter(|f| f.starts_with("Listed None"))
        .count();
    assert_eq!((objects, found.last().unwrap().as_str()), (3, "10"));
}

#[test]
fn of_a_watch() {
    let object = odd_pod();
    let events = [
        added("a", 11),
        event("MODIFIED", &object),
        String::from("  "),
        bookmark(12),
        deleted("a", 13),
        event("STRANGE", &pod("x", 14)),
        modified("b", 15),
    ];
    let first = list("10", &[]);
    let found = check_splits(
        Initial::List,
        first.as_bytes(),
        events.join("\n").as_bytes(),
    );
    assert_eq!(found.last().unwrap(), "15");
}
