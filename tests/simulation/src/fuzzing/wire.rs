//! Frames do not depend on how bytes are split, and a reflector handles any bytes without a panic and without a loop.

use core::time::Duration;

use informer_core::storage::Storage;
use informer_core::wire::{Format, FrameBuffer, Framer, FramerMode, Piece, WatchEvent};
use informer_core::{
    Decoder, End, Frame, Head, Heap, Inline, Instant, Output, Raw, RawObject, Reflector,
    ReflectorConfig, Resource, TransportFailure, transport::FailureKind,
};

use super::{pieces, sizes};

/// Reads a list or a watch in JSON, whole and in pieces, and passes it to a reflector.
///
/// # Panics
/// If the results differ, or the reflector loops.
pub fn wire(data: &[u8]) {
    read(data, Format::Json);
}

/// The same for a list or a watch in protobuf.
///
/// # Panics
/// If the results differ, or the reflector loops.
pub fn protobuf(data: &[u8]) {
    read(data, Format::Protobuf);
}

fn read(data: &[u8], format: Format) {
    let (&[first, ref rest @ ..], _) = (data, ()) else {
        return;
    };
    let (sizes, body) = sizes(rest);
    let mode = if first & 1 == 0 {
        FramerMode::List
    } else {
        FramerMode::Watch
    };
    let limit = [64, 256, 4096][usize::from(first >> 1) % 3];
    let whole = frames::<<Heap as Storage>::Frame>(mode, format, limit, &[body]);
    assert_eq!(
        frames::<<Heap as Storage>::Frame>(mode, format, limit, &pieces(body, sizes)),
        whole,
        "split by {sizes:?}"
    );
    assert_eq!(
        frames::<<Heap as Storage>::Frame>(mode, format, limit, &pieces(body, &[1])),
        whole,
        "split at every byte"
    );
    if limit == 256 {
        type Small = <Inline<4, 32, 256> as Storage>::Frame;
        assert_eq!(
            frames::<Small>(mode, format, limit, &pieces(body, sizes)),
            whole,
            "in a buffer of a fixed size"
        );
    }
    reflect::<Heap>(first, format, &pieces(body, sizes));
    reflect::<Inline<4, 32, 256>>(first, format, &pieces(body, sizes));
}

/// Returns all frames of a body, and whether it failed.
fn frames<B: FrameBuffer>(
    mode: FramerMode,
    format: Format,
    limit: usize,
    pieces: &[&[u8]],
) -> Vec<String> {
    let mut framer: Framer<B> = Framer::new(mode, limit);
    framer.reset(mode, format);
    let mut found = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        loop {
            match framer.next(&mut input) {
                Ok(None) => {
                    assert!(input.is_empty(), "all of it is read");
                    break;
                }
                Ok(Some(piece)) => found.push(shown(&piece)),
                Err(error) => {
                    found.push(format!("{error:?}"));
                    return found;
                }
            }
        }
    }
    found.push(format!("midway {}", framer.is_midway()));
    found
}

fn shown(piece: &Piece<'_>) -> String {
    match piece {
        Piece::Item {
            bytes,
            problem,
            identity,
            ..
        } => {
            let name = RawObject::parse(bytes).name();
            format!("item {bytes:?} {problem:?} {name} {identity:?}")
        }
        Piece::Member { name, bytes, .. } => format!("{name:?} {bytes:?}"),
        Piece::Event {
            bytes,
            problem,
            identity,
            ..
        } => {
            let event = WatchEvent::parse(bytes);
            let version = event.map(|event| {
                RawObject::parse(event.object)
                    .resource_version()
                    .to_string()
            });
            format!("event {bytes:?} {problem:?} {version:?} {identity:?}")
        }
        Piece::End => "end".to_owned(),
        _ => "?".to_owned(),
    }
}

/// Answers every request of a reflector with the bytes.
fn reflect<S: Storage>(first: u8, format: Format, pieces: &[&[u8]]) {
    let config = if first & 8 == 0 {
        ReflectorConfig::list()
    } else {
        ReflectorConfig::default()
    };
    let config = ReflectorConfig {
        client_go: first & 16 != 0,
        frame_limit: 256,
        ..config
    };
    let pods = Resource::new("", "v1", "pods").kind("Pod");
    let mut reflector: Reflector<_, S> = Reflector::new(pods, config, first.into());
    reflector = reflector.with_decoder(&Decoder::<Raw>::new().protobuf());
    let status = [200, 200, 410, 429, 504, 422, 500, 403][usize::from(first >> 5)];
    let mut now = Instant::from_micros(1_000_000);
    let mut id = None;
    for round in 0..6 {
        let deadline = settle(&mut reflector, now, &mut id);
        let Some(id) = id else {
            now = deadline.unwrap_or(now + Duration::from_secs(1));
            continue;
        };
        // The first answer may be an error; later answers come from a healthy server.
        let mut head = Head::new(if round == 0 { status } else { 200 });
        head.format = Some(format);
        reflector.handle_head(now, id, head);
        for piece in pieces {
            let mut input = *piece;
            let mut frames = 0;
            while let Some(frame) = reflector.next_frame(now, id, &mut input) {
                if let Frame::Object(object) = &frame {
                    assert!(!object.key.is_empty(), "an object has a key");
                }
                frames += 1;
                assert!(frames < 10_000, "it does not come to an end");
            }
            now = now + Duration::from_millis(1);
            settle(&mut reflector, now, &mut None);
        }
        let end = if first & 4 == 0 {
            End::Clean
        } else {
            End::Failed(TransportFailure::new(FailureKind::Reset))
        };
        reflector.handle_end(now, id, end);
        now = now + Duration::from_secs(40);
    }
}

/// Drains the reflector's outputs; returns when it next wants to run.
fn settle<S: Storage>(
    reflector: &mut Reflector<Resource<'_>, S>,
    now: Instant,
    id: &mut Option<informer_core::RequestId>,
) -> Option<Instant> {
    for _ in 0..16 {
        match reflector.poll_output(now) {
            Output::Send(request) => {
                let mut target = String::new();
                assert!(
                    request.write_target(&mut target).is_ok(),
                    "a request can be written"
                );
                *id = Some(request.id());
            }
            Output::Report(report) => drop(report.to_string()),
            Output::Wait(deadline) => {
                assert!(
                    deadline.is_none_or(|deadline| deadline > now),
                    "a deadline ahead"
                );
                return deadline;
            }
            _ => {}
        }
    }
    panic!("it never waits");
}
