//! Faults of a server.

mod plan;

use alloc::string::{String, ToString};
use core::num::NonZeroU32;
use core::time::Duration;

use informer_core::transport::FailureKind;

use self::plan::Answer;
pub(crate) use self::plan::{Edit, Effects, Ending, FaultPlan, Mark};
use crate::log::Verb;
use crate::object::Format;

/// A fault that affects the next matching request, or several of them.
///
/// A fault is built from its effects, which can be combined, and the requests that it affects. By default it affects
/// the next request, once.
///
/// ```
/// use core::time::Duration;
/// use informer_mock::{Fault, Verb};
///
/// // The second and the third list begin after 3 s, arrive byte by byte, and are cut in the middle.
/// let fault = Fault::delay(Duration::from_secs(3)).split(&[1]).cut_after_bytes(200).on(Verb::List).skip(1).times(2);
/// # let mut server = informer_mock::FakeServer::new(1);
/// server.inject(fault);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    verb: Option<Verb>,
    path: Option<String>,
    skip: usize,
    times: usize,
    effects: Effects,
}

/// # Effects
impl Fault {
    /// Has no effect. It is the start for faults made of modifiers, such as [`split`](Self::split).
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            verb: None,
            path: None,
            skip: 0,
            times: 1,
            effects: Effects::default(),
        }
    }

    /// Refuses the connection, as if the server were not running.
    #[must_use]
    pub fn refuse() -> Self {
        Self::fail(FailureKind::Refused)
    }

    /// Resets the connection before the response.
    #[must_use]
    pub fn reset() -> Self {
        Self::fail(FailureKind::Reset)
    }

    /// Fails the request before the response.
    #[must_use]
    pub fn fail(kind: FailureKind) -> Self {
        Self::nothing().with(|effects| effects.fail = Some(kind))
    }

    /// Never responds and never closes the connection: it is half open.
    #[must_use]
    pub fn stall() -> Self {
        Self::nothing().with(|effects| effects.silent = true)
    }

    /// Delays the response.
    #[must_use]
    pub fn delay(delay: Duration) -> Self {
        Self::nothing().and_delay(delay)
    }

    /// Responds with this HTTP status and a body of type `text/plain`. Headers can be added with
    /// [`header`](Self::header).
    #[must_use]
    pub fn status(status: u16, body: &str) -> Self {
        let headers = [(
            "Content-Type".to_string(),
            "text/plain; charset=utf-8".to_string(),
        )]
        .into();
        let answer = Answer {
            status,
            headers,
            body: body.as_bytes().to_vec(),
            is_status: false,
        };
        Self::nothing().with(|effects| effects.answer = Some(answer))
    }

    /// Responds with a `Status` object with this code, reason and message, in the format that the client accepts.
    #[must_use]
    pub fn api_status(code: u16, reason: &'static str, message: &str) -> Self {
        let body = crate::status::Status::new(code, reason, message).json();
        let headers = [("Content-Type".to_string(), "application/json".to_string())].into();
        Self::nothing().with(|effects| {
            effects.answer = Some(Answer {
                status: code,
                headers,
                body,
                is_status: true,
            });
        })
    }

    /// Responds with 429 in plain text, as API priority and fairness does, with an optional `Retry-After`.
    #[must_use]
    pub fn overloaded(retry_after_seconds: Option<u32>) -> Self {
        let fault = Self::status(429, "Too many requests, please try again later.\n")
            .header(
                "X-Kubernetes-PF-FlowSchema-UID",
                "5a1a6d8f-6d3a-4c2f-9d0c-0f6f4a6c1b11",
            )
            .header(
                "X-Kubernetes-PF-PriorityLevel-UID",
                "0c7a2b5e-3f0d-4b1c-8a55-7d9f1e2c3a44",
            );
        match retry_after_seconds {
            Some(seconds) => fault.header("Retry-After", &seconds.to_string()),
            None => fault,
        }
    }

    /// Responds with HTTP status 410: the resourceVersion has expired.
    #[must_use]
    pub fn expired() -> Self {
        Self::api_status(
            410,
            "Expired",
            "The resourceVersion for the provided watch is too old.",
        )
    }

    /// Responds with status 200 and an HTML page, as a captive portal or a proxy does.
    #[must_use]
    pub fn html() -> Self {
        let page = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>Please sign in.</body></html>\n";
        Self::raw(page).header("Content-Type", "text/html")
    }

    /// Responds with status 200 and these bytes.
    #[must_use]
    pub fn raw(body: impl AsRef<[u8]>) -> Self {
        let headers = [("Content-Type".to_string(), "application/json".to_string())].into();
        let answer = Answer {
            status: 200,
            headers,
            body: body.as_ref().to_vec(),
            is_status: false,
        };
        Self::nothing().with(|effects| effects.answer = Some(answer))
    }

    /// Responds in JSON, even to a client that accepts only protobuf, as a proxy or an aggregated API server may at any
    /// time. With [`on`](Self::on), the format can change between a list and its watch.
    #[must_use]
    pub fn in_json() -> Self {
        Self::nothing().with(|effects| effects.format = Some(Format::Json))
    }

    /// Responds in protobuf, even to a client that accepts only JSON. A custom resource responds with 406.
    #[must_use]
    pub fn in_protobuf() -> Self {
        Self::nothing().with(|effects| effects.format = Some(Format::Protobuf))
    }

    /// Adds or replaces a header of the response.
    #[must_use]
    pub fn header(self, name: &str, value: &str) -> Self {
        self.with(|effects| effects.headers.push((name.to_string(), value.to_string())))
    }

    /// Also delays the response.
    #[must_use]
    pub fn and_delay(self, delay: Duration) -> Self {
        self.with(|effects| effects.delay = delay)
    }

    /// Cuts the body after this many bytes. The cut is a reset unless [`cleanly`](Self::cleanly) or
    /// [`silently`](Self::silently) is set.
    #[must_use]
    pub fn cut_after_bytes(self, bytes: u64) -> Self {
        self.cut(Mark::Bytes(bytes))
    }

    /// Cuts the body after this many events of a watch (including bookmarks), or items of a list.
    #[must_use]
    pub fn cut_after_events(self, events: usize) -> Self {
        self.cut(Mark::Events(events))
    }

    /// Cuts the body within this event of a watch, or item of a list, counted from 0.
    #[must_use]
    pub fn cut_inside_event(self, event: usize) -> Self {
        self.cut(Mark::Inside(event))
    }

    /// Makes the cut look like a regular end of the body.
    #[must_use]
    pub fn cleanly(self) -> Self {
        self.with(|effects| effects.ending = Ending::Close)
    }

    /// Leaves the connection open after the cut, without any further data.
    #[must_use]
    pub fn silently(self) -> Self {
        self.with(|effects| effects.ending = Ending::Stall)
    }

    /// Sends the body in chunks of these sizes, in turn. A size of 0 counts as 1.
    #[must_use]
    pub fn split(self, sizes: &[usize]) -> Self {
        self.with(|effects| effects.split = sizes.iter().map(|size| (*size).max(1)).collect())
    }

    /// Sends this event twice, counted from 0.
    #[must_use]
    pub fn duplicate_event(self, event: usize) -> Self {
        self.with(|effects| effects.edits.push((event, Edit::Duplicate)))
    }

    /// Omits this event, counted from 0, as a faulty server would.
    #[must_use]
    pub fn drop_event(self, event: usize) -> Self {
        self.with(|effects| effects.edits.push((event, Edit::Drop)))
    }

    /// Sends these bytes before this event, counted from 0.
    #[must_use]
    pub fn inject_before(self, event: usize, bytes: impl AsRef<[u8]>) -> Self {
        self.with(|effects| {
            effects
                .edits
                .push((event, Edit::Before(bytes.as_ref().to_vec())));
        })
    }

    /// Sends these bytes after the end of the body.
    #[must_use]
    pub fn append(self, bytes: impl AsRef<[u8]>) -> Self {
        self.with(|effects| effects.append = bytes.as_ref().to_vec())
    }

    /// Announces this length of the body, right or wrong. A shorter body ends with a reset, and a longer one is cut
    /// there.
    #[must_use]
    pub fn content_length(self, bytes: u64) -> Self {
        self.with(|effects| effects.content_length = Some(bytes))
    }

    /// Delays the head until the first byte of the body, as some proxies do.
    #[must_use]
    pub fn late_head(self) -> Self {
        self.with(|effects| effects.late_head = true)
    }

    /// Limits the bandwidth of the body, in bytes per second. The minimum is 1.
    #[must_use]
    pub fn bandwidth(self, bytes_per_second: u32) -> Self {
        self.with(|effects| effects.bandwidth = NonZeroU32::new(bytes_per_second.max(1)))
    }

    fn cut(self, at: Mark) -> Self {
        self.with(|effects| effects.cut = Some(at))
    }

    fn with(mut self, change: impl FnOnce(&mut Effects)) -> Self {
        change(&mut self.effects);
        self
    }
}

/// # Affected requests
impl Fault {
    /// Affects only requests with this verb.
    #[must_use]
    pub fn on(self, verb: Verb) -> Self {
        Self {
            verb: Some(verb),
            ..self
        }
    }

    /// Affects only requests with this path.
    #[must_use]
    pub fn on_path(self, path: &str) -> Self {
        Self {
            path: Some(path.to_string()),
            ..self
        }
    }

    /// Skips this many matching requests first.
    #[must_use]
    pub fn skip(self, requests: usize) -> Self {
        Self {
            skip: requests,
            ..self
        }
    }

    /// Affects this many requests.
    #[must_use]
    pub fn times(self, requests: usize) -> Self {
        Self {
            times: requests,
            ..self
        }
    }

    /// Affects every matching request until the server's faults are cleared.
    #[must_use]
    pub fn always(self) -> Self {
        self.times(usize::MAX)
    }
}
