//! What goes wrong.

mod plan;

use alloc::string::{String, ToString};
use core::num::NonZeroU32;
use core::time::Duration;

use informer_core::transport::FailureKind;

use self::plan::Answer;
pub(crate) use self::plan::{Edit, Effects, Ending, FaultPlan, Mark};
use crate::log::Verb;

/// Something that goes wrong with the next request, or the next few, that it is meant for.
///
/// A fault starts with what happens and goes on with whom it happens to: any request once, where nothing else is said.
/// What happens can be several things at once.
///
/// ```
/// use core::time::Duration;
/// use informer_mock::{Fault, Verb};
///
/// // The second and the third list come after 3 s, a byte at a time, and are cut in the middle.
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

/// # What happens
impl Fault {
    /// Nothing, as a start for what is put on top.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let dribble = Fault::nothing().split(&[1]);
    /// ```
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

    /// Nobody listens: the connection is refused.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let down = Fault::refuse().times(5);
    /// ```
    #[must_use]
    pub fn refuse() -> Self {
        Self::fail(FailureKind::Refused)
    }

    /// The connection is reset before there is an answer.
    ///
    /// ```
    /// # use informer_mock::{Fault, Verb};
    /// let reset = Fault::reset().on(Verb::Watch);
    /// ```
    #[must_use]
    pub fn reset() -> Self {
        Self::fail(FailureKind::Reset)
    }

    /// The request fails in this way before there is an answer.
    ///
    /// ```
    /// # use informer_mock::{FailureKind, Fault};
    /// let expired_certificate = Fault::fail(FailureKind::Tls);
    /// ```
    #[must_use]
    pub fn fail(kind: FailureKind) -> Self {
        Self::nothing().with(|effects| effects.fail = Some(kind))
    }

    /// The connection is half open: there is no answer, and no end either.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let dead = Fault::stall();
    /// ```
    #[must_use]
    pub fn stall() -> Self {
        Self::nothing().with(|effects| effects.silent = true)
    }

    /// The answer comes late.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// # use core::time::Duration;
    /// let slow = Fault::delay(Duration::from_secs(12));
    /// ```
    #[must_use]
    pub fn delay(delay: Duration) -> Self {
        Self::nothing().and_delay(delay)
    }

    /// The answer has this HTTP status, a body of type `text/plain`, and headers as [`header`](Self::header) adds them.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let broken = Fault::status(503, "upstream connect error").header("Retry-After", "2");
    /// ```
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
        };
        Self::nothing().with(|effects| effects.answer = Some(answer))
    }

    /// The answer is a `Status` object with this code, reason and message.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let forbidden = Fault::api_status(403, "Forbidden", "pods is forbidden: User \"x\" cannot list resource \"pods\"");
    /// ```
    #[must_use]
    pub fn api_status(code: u16, reason: &'static str, message: &str) -> Self {
        let body = crate::status::Status::new(code, reason, message).json();
        let headers = [("Content-Type".to_string(), "application/json".to_string())].into();
        Self::nothing().with(|effects| {
            effects.answer = Some(Answer {
                status: code,
                headers,
                body,
            });
        })
    }

    /// The server is overloaded: 429 as priority and fairness says it, in plain text, with `Retry-After` where given.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let overload = Fault::overloaded(Some(4)).times(3);
    /// ```
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

    /// The resourceVersion has expired, told by HTTP status 410.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let gone = Fault::expired();
    /// ```
    #[must_use]
    pub fn expired() -> Self {
        Self::api_status(
            410,
            "Expired",
            "The resourceVersion for the provided watch is too old.",
        )
    }

    /// A proxy answers for the server: status 200 and a page of HTML.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let captive_portal = Fault::html();
    /// ```
    #[must_use]
    pub fn html() -> Self {
        let page = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>Please sign in.</body></html>\n";
        Self::raw(page).header("Content-Type", "text/html")
    }

    /// The answer is status 200 and these bytes.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let half = Fault::raw("{\"kind\":\"PodList\",\"meta");
    /// ```
    #[must_use]
    pub fn raw(body: impl AsRef<[u8]>) -> Self {
        let headers = [("Content-Type".to_string(), "application/json".to_string())].into();
        let answer = Answer {
            status: 200,
            headers,
            body: body.as_ref().to_vec(),
        };
        Self::nothing().with(|effects| effects.answer = Some(answer))
    }

    /// Adds a header to the answer, or replaces it.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let date = Fault::status(503, "").header("Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT");
    /// ```
    #[must_use]
    pub fn header(self, name: &str, value: &str) -> Self {
        self.with(|effects| effects.headers.push((name.to_string(), value.to_string())))
    }

    /// The answer comes late, too.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// # use core::time::Duration;
    /// let slow_refusal = Fault::expired().and_delay(Duration::from_secs(1));
    /// ```
    #[must_use]
    pub fn and_delay(self, delay: Duration) -> Self {
        self.with(|effects| effects.delay = delay)
    }

    /// The body is cut after this many bytes, by a reset where [`cleanly`](Self::cleanly) says nothing else.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let cut = Fault::nothing().cut_after_bytes(1_000);
    /// ```
    #[must_use]
    pub fn cut_after_bytes(self, bytes: u64) -> Self {
        self.cut(Mark::Bytes(bytes))
    }

    /// The body is cut behind this many events of a watch (bookmarks count), or items of a list.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let cut = Fault::nothing().cut_after_events(2).cleanly();
    /// ```
    #[must_use]
    pub fn cut_after_events(self, events: usize) -> Self {
        self.cut(Mark::Events(events))
    }

    /// The body is cut in the middle of this event of a watch, or item of a list, counted from 0.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let cut = Fault::nothing().cut_inside_event(0);
    /// ```
    #[must_use]
    pub fn cut_inside_event(self, event: usize) -> Self {
        self.cut(Mark::Inside(event))
    }

    /// Where the body is cut, it ends as if it were whole.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let empty = Fault::nothing().cut_after_bytes(0).cleanly();
    /// ```
    #[must_use]
    pub fn cleanly(self) -> Self {
        self.with(|effects| effects.ending = Ending::Close)
    }

    /// Where the body is cut, the connection stays open and nothing more is ever sent.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let dies_silently = Fault::nothing().cut_after_events(1).silently();
    /// ```
    #[must_use]
    pub fn silently(self) -> Self {
        self.with(|effects| effects.ending = Ending::Stall)
    }

    /// The body comes in chunks of these sizes, in turn. A size of 0 counts as 1.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let odd = Fault::nothing().split(&[1, 7, 64]);
    /// ```
    #[must_use]
    pub fn split(self, sizes: &[usize]) -> Self {
        self.with(|effects| effects.split = sizes.iter().map(|size| (*size).max(1)).collect())
    }

    /// This event, counted from 0, comes twice.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let twice = Fault::nothing().duplicate_event(0);
    /// ```
    #[must_use]
    pub fn duplicate_event(self, event: usize) -> Self {
        self.with(|effects| effects.edits.push((event, Edit::Duplicate)))
    }

    /// This event, counted from 0, never comes: the server has a bug.
    ///
    /// ```
    /// # use informer_mock::{Fault, Verb};
    /// let lost = Fault::nothing().drop_event(3).on(Verb::Watch);
    /// ```
    #[must_use]
    pub fn drop_event(self, event: usize) -> Self {
        self.with(|effects| effects.edits.push((event, Edit::Drop)))
    }

    /// These bytes come before this event, counted from 0.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let noise = Fault::nothing().inject_before(1, b"\0\0garbage\n");
    /// ```
    #[must_use]
    pub fn inject_before(self, event: usize, bytes: impl AsRef<[u8]>) -> Self {
        self.with(|effects| {
            effects
                .edits
                .push((event, Edit::Before(bytes.as_ref().to_vec())));
        })
    }

    /// These bytes come behind the end of the body.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let trailing = Fault::nothing().append("}}}");
    /// ```
    #[must_use]
    pub fn append(self, bytes: impl AsRef<[u8]>) -> Self {
        self.with(|effects| effects.append = bytes.as_ref().to_vec())
    }

    /// The head announces this many bytes, true or not. A body that is shorter ends in a reset, one that is longer is
    /// cut there.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let lie = Fault::nothing().content_length(1_000_000);
    /// ```
    #[must_use]
    pub fn content_length(self, bytes: u64) -> Self {
        self.with(|effects| effects.content_length = Some(bytes))
    }

    /// The head waits for the first byte of the body, as some proxies do.
    ///
    /// ```
    /// # use informer_mock::{Fault, Verb};
    /// let proxy = Fault::nothing().late_head().on(Verb::Watch);
    /// ```
    #[must_use]
    pub fn late_head(self) -> Self {
        self.with(|effects| effects.late_head = true)
    }

    /// The body comes over a thin link, with so many bytes a second, and at least one.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let modem = Fault::nothing().bandwidth(1_200).always();
    /// ```
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

/// # Whom it happens to
impl Fault {
    /// Only to requests with this verb.
    ///
    /// ```
    /// # use informer_mock::{Fault, Verb};
    /// let no_streams = Fault::reset().on(Verb::Stream).always();
    /// ```
    #[must_use]
    pub fn on(self, verb: Verb) -> Self {
        Self {
            verb: Some(verb),
            ..self
        }
    }

    /// Only to requests with this path.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let one_namespace = Fault::refuse().on_path("/api/v1/namespaces/a/pods");
    /// ```
    #[must_use]
    pub fn on_path(self, path: &str) -> Self {
        Self {
            path: Some(path.to_string()),
            ..self
        }
    }

    /// Only after this many of those requests went well.
    ///
    /// ```
    /// # use informer_mock::{Fault, Verb};
    /// let third_page = Fault::expired().on(Verb::List).skip(2);
    /// ```
    #[must_use]
    pub fn skip(self, requests: usize) -> Self {
        Self {
            skip: requests,
            ..self
        }
    }

    /// To this many requests.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let thrice = Fault::reset().times(3);
    /// ```
    #[must_use]
    pub fn times(self, requests: usize) -> Self {
        Self {
            times: requests,
            ..self
        }
    }

    /// To every such request, until the server's faults are cleared.
    ///
    /// ```
    /// # use informer_mock::Fault;
    /// let slow_link = Fault::nothing().split(&[512]).always();
    /// ```
    #[must_use]
    pub fn always(self) -> Self {
        self.times(usize::MAX)
    }
}
