//! The answers of a script in protobuf.

use alloc::vec::Vec;
use core::ops::Range;

use serde_json::{Deserializer, Value};

use super::{Answer, Frame};
use crate::protobuf;

/// A frame whose message is malformed, for bytes that are no JSON.
const MALFORMED: &[u8] = &[0, 0, 0, 2, 0xff, 0xff];

/// The beginning of a frame, for an event that is cut.
const CUT: &[u8] = b"\0\0\x01\0\x0a\x05ADDED\x12";

impl Answer {
    /// Returns the same answer in protobuf. A body of its own, such as an HTML page, remains as it is.
    pub(super) fn in_protobuf(&self, is_watch: bool) -> Self {
        let mut answer = self.clone();
        let mut names = self.headers.iter().map(|(name, _)| name);
        if names.any(|name| name.eq_ignore_ascii_case("Content-Type")) {
            return answer;
        }
        if self.whole {
            let bytes = match self.frames.as_slice() {
                [Frame::Bytes(json)] => serde_json::from_slice(json).ok(),
                _ => None,
            };
            let Some(bytes) = bytes.and_then(|value: Value| protobuf::object(&value)) else {
                return answer;
            };
            answer.frames = [Frame::Bytes(bytes)].into();
        } else {
            answer.frames = translated(&self.frames);
        }
        let parameter = if is_watch { ";stream=watch" } else { "" };
        let media_type = [protobuf::MEDIA_TYPE, parameter].concat();
        answer.headers.push(("Content-Type".into(), media_type));
        answer
    }
}

/// Translates the frames of a watch. Where a frame ends within an event, one ends within the event in protobuf.
fn translated(frames: &[Frame]) -> Vec<Frame> {
    let json: Vec<u8> = frames.iter().flat_map(Frame::bytes).copied().collect();
    let events = events(&json);
    let mut out = Vec::new();
    let mut at = 0;
    for frame in frames {
        if let Frame::Pause(_) = frame {
            out.push(frame.clone());
            continue;
        }
        let piece = at..at + frame.bytes().len();
        at = piece.end;
        let parts = events.iter().flat_map(|(place, bytes)| {
            let from = part_of(place, bytes.len(), piece.start);
            &bytes[from..part_of(place, bytes.len(), piece.end)]
        });
        out.push(Frame::Bytes(parts.copied().collect()));
    }
    out
}

/// Returns how many of the `length` bytes of an event in protobuf are sent when its JSON, which is at `place`, is sent
/// up to `at`.
fn part_of(place: &Range<usize>, length: usize, at: usize) -> usize {
    if at <= place.start {
        0
    } else if at >= place.end {
        length
    } else {
        ((at - place.start) * length / place.len()).clamp(1, length - 1)
    }
}

/// Returns the events with their places in the JSON.
fn events(json: &[u8]) -> Vec<(Range<usize>, Vec<u8>)> {
    let mut events = Vec::new();
    let mut stream = Deserializer::from_slice(json).into_iter::<Value>();
    let mut from = 0;
    while let Some(next) = stream.next() {
        let (to, bytes) = match next {
            Ok(event) => {
                let object = protobuf::object(&event["object"]).unwrap_or_default();
                let kind = event["type"].as_str().unwrap_or_default();
                (stream.byte_offset(), protobuf::frame(kind, &object))
            }
            Err(error) if error.is_eof() => (json.len() + 1, CUT.to_vec()),
            Err(_) => (json.len(), MALFORMED.to_vec()),
        };
        events.push((from..to, bytes));
        from = to;
    }
    events
}
