//! What can go wrong with the answer to a request.

use core::fmt;
use core::time::Duration;

use informer_mock::{FailureKind, Fault, protobuf};
use serde_json::{Deserializer, Value};

/// The fault in the answer to the next request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FaultKind {
    /// The connection is refused.
    Refuse,
    /// The connection is reset before an answer.
    Reset,
    /// A pooled connection turns out to be closed.
    StaleConnection,
    /// The TLS handshake fails.
    Tls,
    /// The request times out.
    TimedOut,
    /// Neither an answer nor an end arrives.
    NoAnswer,
    /// The answer is late.
    Late,
    /// The head arrives together with the first byte of the body.
    LateHead,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404: the resource is gone.
    NotFound,
    /// 410 as a status.
    Gone,
    /// 410 as an ERROR event.
    GoneEvent,
    /// 422: streaming lists are not supported.
    Invalid,
    /// 429 in plain text, without Retry-After.
    Overloaded,
    /// 429 with Retry-After.
    OverloadedRetryAfter,
    /// 429 as an ERROR event.
    OverloadedEvent,
    /// 500.
    Internal,
    /// 503 with Retry-After.
    Unavailable,
    /// 504: the requested version is not available yet.
    TooLarge,
    /// A page of HTML with status 200.
    Html,
    /// Half an answer that ends like a complete one.
    HalfClean,
    /// Half an answer, then a reset.
    Half,
    /// Half an answer, then silence.
    HalfSilent,
    /// A cut within an object.
    CutInObject,
    /// The answer ends right after its head.
    Empty,
    /// A cut after an object.
    CutBehindObject,
    /// A cut within a gzip member: the transport delivers the bytes it could decompress, then its error.
    CutInMember,
    /// Silence after an object: the connection is half open.
    StallBehindObject,
    /// An object is sent twice.
    Duplicate,
    /// An object is never sent: a bug of the server.
    Drop,
    /// Garbage before an object.
    Garbage,
    /// An event of an unknown type, and one of another kind, before an object.
    Strange,
    /// A streaming list never ends.
    NoEnd,
    /// Bytes follow the end.
    Trailing,
    /// One byte at a time.
    Dribble,
    /// Answers that contain one uninformative event and end, again and again.
    Restless,
}

impl FaultKind {
    /// All faults.
    pub const ALL: [Self; 37] = [
        Self::Refuse,
        Self::Reset,
        Self::StaleConnection,
        Self::Tls,
        Self::TimedOut,
        Self::NoAnswer,
        Self::Late,
        Self::LateHead,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::Gone,
        Self::GoneEvent,
        Self::Invalid,
        Self::Overloaded,
        Self::OverloadedRetryAfter,
        Self::OverloadedEvent,
        Self::Internal,
        Self::Unavailable,
        Self::TooLarge,
        Self::Html,
        Self::HalfClean,
        Self::Half,
        Self::HalfSilent,
        Self::CutInObject,
        Self::Empty,
        Self::CutBehindObject,
        Self::CutInMember,
        Self::StallBehindObject,
        Self::Duplicate,
        Self::Drop,
        Self::Garbage,
        Self::Strange,
        Self::NoEnd,
        Self::Trailing,
        Self::Dribble,
        Self::Restless,
    ];

    /// Returns whether a server with this fault lies: the state it shows need not be true.
    #[must_use]
    pub const fn lies(self) -> bool {
        matches!(self, Self::Drop | Self::NoEnd)
    }

    /// Returns whether the bytes are no valid answer, so that the client's reaction cannot be predicted.
    #[must_use]
    pub const fn garbles(self) -> bool {
        matches!(
            self,
            Self::Html | Self::Garbage | Self::Strange | Self::Trailing | Self::Restless
        )
    }

    /// Returns whether the effect depends on the format of an answer, because the fault counts bytes or sends its own.
    #[must_use]
    pub const fn depends_on_format(self) -> bool {
        matches!(
            self,
            Self::HalfClean
                | Self::Half
                | Self::HalfSilent
                | Self::CutInMember
                // A list in protobuf ends with its last object.
                | Self::CutBehindObject
                | Self::StallBehindObject
                | Self::Garbage
                | Self::Strange
                | Self::Trailing
                | Self::Restless
                | Self::GoneEvent
                | Self::OverloadedEvent
        )
    }

    /// Makes the fault. `at` chooses a position: an object, a byte, or a number of seconds. Events are in protobuf if
    /// `in_protobuf` is set.
    #[must_use]
    pub fn fault(self, at: u8, in_protobuf: bool) -> Fault {
        let answer = |events: &str| {
            if in_protobuf {
                Fault::raw(frames(events)).header("Content-Type", protobuf::MEDIA_TYPE)
            } else {
                Fault::raw(events)
            }
        };
        let index = usize::from(at % 3);
        let bytes = u64::from(at) * 3 + 1;
        let seconds = u32::from(at % 4) + 1;
        match self {
            Self::Refuse => Fault::refuse().times(1 + index),
            Self::Reset | Self::StaleConnection => Fault::reset().times(1 + index * 5),
            Self::Tls => Fault::fail(FailureKind::Tls),
            Self::TimedOut => Fault::fail(FailureKind::TimedOut),
            Self::NoAnswer => Fault::stall(),
            Self::Late => Fault::delay(Duration::from_secs(u64::from(at % 90))),
            Self::LateHead => Fault::nothing().late_head(),
            Self::Unauthorized => {
                Fault::api_status(401, "Unauthorized", "Unauthorized").times(1 + index)
            }
            Self::Forbidden => Fault::api_status(403, "Forbidden", "pods is forbidden").times(1 + index),
            Self::NotFound => Fault::status(404, "404 page not found\n"),
            Self::Gone => Fault::expired(),
            Self::GoneEvent => answer(
                "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\
                 \"status\":\"Failure\",\"message\":\"too old resource version: 1 (2)\",\"reason\":\"Expired\",\
                 \"code\":410}}\n",
            ),
            Self::Invalid => Fault::api_status(422, "Invalid", "sendInitialEvents is forbidden for watch"),
            Self::Overloaded => Fault::overloaded(None).times(1 + index),
            Self::OverloadedRetryAfter => Fault::overloaded(Some(seconds)).times(1 + index),
            Self::OverloadedEvent => answer(
                "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\
                 \"status\":\"Failure\",\"message\":\"slow down\",\"reason\":\"TooManyRequests\",\"code\":429}}\n",
            ),
            Self::Internal => Fault::api_status(500, "InternalError", "etcdserver: request timed out"),
            Self::Unavailable => Fault::status(503, "apiserver is shutting down\n")
                .header("Retry-After", &seconds.to_string()),
            Self::TooLarge => Fault::status(504, TOO_LARGE),
            Self::Html => Fault::html(),
            Self::HalfClean => Fault::nothing().cut_after_bytes(bytes).cleanly(),
            Self::Half | Self::CutInMember => Fault::nothing().cut_after_bytes(bytes),
            Self::HalfSilent => Fault::nothing().cut_after_bytes(bytes).silently(),
            Self::CutInObject => Fault::nothing().cut_inside_event(index),
            Self::Empty => Fault::nothing().cut_after_bytes(0).cleanly(),
            Self::CutBehindObject => Fault::nothing().cut_after_events(index + 1),
            Self::StallBehindObject => Fault::nothing().cut_after_events(index + 1).silently(),
            Self::Duplicate => Fault::nothing().duplicate_event(index),
            Self::Drop => Fault::nothing().drop_event(index),
            Self::Garbage => Fault::nothing().inject_before(index, "\u{0}garbage\n"),
            Self::Strange if in_protobuf => Fault::nothing().inject_before(index, frames(STRANGE)),
            Self::Strange => Fault::nothing().inject_before(index, STRANGE),
            Self::NoEnd => Fault::nothing().drop_event(usize::from(at % 6)),
            Self::Trailing => Fault::nothing().append("}}}"),
            Self::Dribble => Fault::nothing().split(&[1]),
            Self::Restless => {
                answer("{\"type\":\"RENAMED\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"name\":\"q\"}}}\n").times(20)
            }
        }
    }
}

const STRANGE: &str = "{\"type\":\"RENAMED\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"name\":\"q\"}}}\n\
    {\"type\":\"ADDED\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"q\"}}}\n";

/// Converts the events of a watch to protobuf.
fn frames(events: &str) -> Vec<u8> {
    let events = Deserializer::from_str(events).into_iter::<Value>();
    let frames = events.map(|event| {
        let mut event = event.expect("an event in JSON");
        event["object"]["apiVersion"] = "v1".into();
        let object = protobuf::object(&event["object"]).expect("a kind with a table");
        protobuf::frame(event["type"].as_str().unwrap_or_default(), &object)
    });
    frames.flatten().collect()
}

const TOO_LARGE: &str = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\
    \"message\":\"Timeout: Too large resource version: 9, current: 8\",\"reason\":\"Timeout\",\"details\":{\
    \"causes\":[{\"reason\":\"ResourceVersionTooLarge\",\"message\":\"Too large resource version\"}],\
    \"retryAfterSeconds\":1},\"code\":504}\n";

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
