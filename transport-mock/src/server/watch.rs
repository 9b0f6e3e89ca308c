//! The body of a watch: initial events, changes, bookmarks, and the end at the deadline.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::{self, Vec};
use core::time::Duration;

use informer_core::Instant;

use super::progress::Progress;
use crate::fault::Ending;
use crate::filter::Filter;
use crate::object::{Form, Format, Object, ResourceType, View};
use crate::protobuf;
use crate::status::Status;
use crate::store::Entry;

#[derive(Debug)]
pub(super) struct WatchBody {
    pub(super) resource: usize,
    kind: Arc<ResourceType>,
    form: Form,
    filter: Filter,
    initial: vec::IntoIter<Arc<Object>>,
    /// Whether the bookmark that ends the initial events has not been sent.
    initial_end: bool,
    queue: VecDeque<Event>,
    /// The version of the last event offered, or the version at which the watch began.
    seen: u64,
    /// Whether the watch began at a version in the future. Like the API server, it is silent until then.
    is_ahead: bool,
    deadline: Instant,
    bookmarks: Option<Bookmarks>,
    limit: Option<usize>,
    ending: Option<Ending>,
}

/// The schedule of bookmarks.
#[derive(Clone, Copy, Debug)]
struct Bookmarks {
    every: Duration,
    next: Option<Instant>,
}

#[derive(Debug)]
enum Event {
    Change(&'static str, Arc<Object>, u64),
    Error(Status),
}

/// The parameters of a new watch.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) resource: usize,
    pub(super) kind: Arc<ResourceType>,
    pub(super) form: Form,
    pub(super) filter: Filter,
    /// Only events after this version are sent.
    pub(super) version: u64,
    pub(super) initial: Vec<Arc<Object>>,
    pub(super) initial_end: bool,
    pub(super) timeout: Duration,
    pub(super) bookmarks_every: Option<Duration>,
    /// Whether the version is in the future.
    pub(super) is_ahead: bool,
    pub(super) limit: Option<usize>,
}

impl WatchBody {
    pub(super) fn new(now: Instant, opening: Opening) -> Self {
        let deadline = now + opening.timeout;
        let bookmarks = opening.bookmarks_every.map(|every| Bookmarks {
            every,
            next: next_bookmark(now, deadline, every),
        });
        Self {
            resource: opening.resource,
            kind: opening.kind,
            form: opening.form,
            filter: opening.filter,
            initial: opening.initial.into_iter(),
            initial_end: opening.initial_end,
            queue: VecDeque::new(),
            seen: opening.version,
            is_ahead: opening.is_ahead,
            deadline,
            bookmarks,
            limit: opening.limit,
            ending: None,
        }
    }

    /// Makes the watch send only this error.
    pub(super) fn failed(mut self, status: Status) -> Self {
        self.queue.push_back(Event::Error(status));
        self.initial_end = false;
        self.ending = Some(Ending::Close);
        self
    }

    /// Adds a change of an object of its resource.
    pub(super) fn offer(&mut self, entry: &Entry) {
        if entry.version <= self.seen || self.ending.is_some() {
            return;
        }
        self.seen = entry.version;
        self.is_ahead = false;
        let chosen = |object: &Option<Arc<Object>>| {
            object
                .clone()
                .filter(|object| self.filter.matches(object, &self.kind))
        };
        let event = match (chosen(&entry.before), chosen(&entry.after)) {
            (None, Some(after)) => ("ADDED", after),
            (Some(_), Some(after)) => ("MODIFIED", after),
            (Some(before), None) => ("DELETED", before),
            (None, None) => return,
        };
        if self.limit.is_some_and(|limit| self.queue.len() >= limit) {
            // A watch with a slow reader is closed without an error.
            self.ending = Some(Ending::Close);
            return;
        }
        self.queue
            .push_back(Event::Change(event.0, event.1, entry.version));
    }

    /// Advances to a version without an event for this watch.
    pub(super) fn pass(&mut self, version: u64) {
        // A watch that is ending takes no more events, so it must not advance past them.
        if self.ending.is_none() {
            self.is_ahead &= version < self.seen;
            self.seen = self.seen.max(version);
        }
    }

    /// Ends the watch after its pending events.
    pub(super) const fn finish(&mut self) {
        self.ending = Some(Ending::Close);
    }

    /// Returns when to poll again, if there is nothing to send.
    pub(super) fn idle_until(&self, now: Instant) -> Option<Option<Instant>> {
        let busy =
            !self.initial.as_slice().is_empty() || self.initial_end || !self.queue.is_empty();
        let until = self.next_time();
        (!busy && self.ending.is_none() && until > now).then_some(Some(until))
    }

    pub(super) fn next(&mut self, now: Instant, out: &mut Vec<u8>) -> Progress {
        if let Some(object) = self.initial.next() {
            self.write_change(out, "ADDED", &object, object.version);
            return Progress::Event;
        }
        if core::mem::take(&mut self.initial_end) {
            self.write_bookmark(out, true);
            return Progress::Event;
        }
        match self.queue.pop_front() {
            Some(Event::Change(kind, object, version)) => {
                self.write_change(out, kind, &object, version);
                return Progress::Event;
            }
            Some(Event::Error(status)) => {
                self.write_event(out, "ERROR", &status.body(self.form.format));
                return Progress::Event;
            }
            None => {}
        }
        if let Some(ending) = self.ending {
            return Progress::End(ending);
        }
        if let Some(bookmarks) = &mut self.bookmarks
            && bookmarks.next.is_some_and(|next| next <= now)
        {
            bookmarks.next = next_bookmark(now, self.deadline, bookmarks.every);
            if now < self.deadline && !self.is_ahead {
                self.write_bookmark(out, false);
                return Progress::Event;
            }
        }
        if self.deadline <= now {
            self.ending = Some(Ending::Close);
            return Progress::End(Ending::Close);
        }
        Progress::Pending(Some(self.next_time()))
    }

    fn next_time(&self) -> Instant {
        let bookmark = self.bookmarks.and_then(|bookmarks| bookmarks.next);
        bookmark.map_or(self.deadline, |next| next.min(self.deadline))
    }

    fn write_change(&self, out: &mut Vec<u8>, kind: &str, object: &Object, version: u64) {
        let mut bytes = Vec::new();
        // An object that is deleted or no longer matches the selector is sent with its last content and the version of
        // the event.
        object.write_at(&mut bytes, &self.kind, self.form, version);
        self.write_event(out, kind, &bytes);
    }

    fn write_bookmark(&self, out: &mut Vec<u8>, initial_end: bool) {
        let (api_version, kind) = self.kind.type_of(self.form.view);
        let version = self.seen_before_queue();
        let end = if initial_end {
            ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}"
        } else {
            ""
        };
        let metadata = format!(
            "\"metadata\":{{\"resourceVersion\":\"{version}\",\"creationTimestamp\":null{end}}}"
        );
        let mut text = b"{".to_vec();
        match self.form.view {
            View::Full => self.kind.write_type(&mut text, ""),
            View::Metadata => text.extend_from_slice(
                format!("\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",").as_bytes(),
            ),
        }
        text.extend_from_slice(metadata.as_bytes());
        text.push(b'}');
        if self.form.format == Format::Protobuf {
            let object = serde_json::from_slice(&text).unwrap_or_default();
            text = protobuf::object(&object).unwrap_or_default();
        }
        self.write_event(out, "BOOKMARK", &text);
    }

    /// Writes an event with an object in the format of the watch.
    fn write_event(&self, out: &mut Vec<u8>, kind: &str, object: &[u8]) {
        match self.form.format {
            Format::Protobuf => out.extend_from_slice(&protobuf::frame(kind, object)),
            _ => {
                out.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
                out.extend_from_slice(object);
                out.extend_from_slice(b"}\n");
            }
        }
    }

    /// Returns the version up to which all events have been sent.
    fn seen_before_queue(&self) -> u64 {
        match self.queue.front() {
            Some(Event::Change(_, _, version)) => version - 1,
            Some(Event::Error(_)) | None => self.seen,
        }
    }
}

/// Bookmarks are sent periodically, and 2 s before the deadline, as by the API server.
fn next_bookmark(now: Instant, deadline: Instant, every: Duration) -> Option<Instant> {
    let before_end = deadline
        .saturating_duration_since(now)
        .saturating_sub(Duration::from_secs(2));
    let wait = every.min(before_end);
    (!wait.is_zero()).then(|| now + wait)
}
