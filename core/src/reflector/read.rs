//! Reading: from the bytes of an answer to frames.

use super::{
    Call, Change, Frame, From, ObjectFrame, Phase, Purpose, Reflector, Run, RunState, Target,
};
use core::cmp::Ordering;

use super::listed::is_group_version;
use super::pending::StoredProblem;
use crate::decode::RawObject;
use crate::json::{JsonStr, ScanError};
use crate::object::{KeyBuf, ResourceVersion};
use crate::report::{Phase as ReportPhase, Problem, Report, RequestProblem};
use crate::resource::Resource;
use crate::storage::Storage;
use crate::time::Instant;
use crate::wire::{
    EventType, Format, FrameBuffer, FrameProblem, ObjectHead, ObjectIdentity, Piece, WatchEvent,
};

use super::RequestId;

/// The result of reading an answer. It is handled once the lent frame is released.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    NotJson(ScanError),
    NotAList,
    NotAnEvent,
    /// The stream contained an ERROR event; its object is stored.
    ErrorEvent,
    /// The token of the next page is longer than the storage allows.
    TokenTooLong,
    /// The server is older than the version at which the watch was resumed.
    WentBack,
}

impl<R: Target, S: Storage> Reflector<R, S> {
    /// Reads part of the body of an answer, and lends the next frame in it.
    ///
    /// `input` advances past the bytes that were read. `None` means that all of it was read; call
    /// [`Reflector::poll_output`] next. The caller may stop in between and pass the rest later.
    pub fn next_frame<'a, 'i: 'a>(
        &'a mut self,
        now: Instant,
        id: RequestId,
        input: &mut &'i [u8],
    ) -> Option<Frame<'a, S::Text>> {
        if input.is_empty() {
            return None;
        }
        let RunState::Calling(call) = &mut self.state else {
            return skip(input);
        };
        if call.id != id || self.outcome.is_some() {
            return skip(input);
        }
        call.last_byte = now;
        match call.phase {
            Phase::Body => {}
            Phase::ErrorBody { .. } => {
                keep(&mut self.error, input);
                return skip(input);
            }
            Phase::ToSend | Phase::Sent | Phase::Draining { .. } | Phase::Retry { .. } => {
                return skip(input);
            }
        }
        if self.format_due
            && let Some(first) = input.first()
        {
            let mode = self.framer.mode();
            self.format_due = false;
            self.read_as(mode, Format::of_first_byte(*first));
            if self.outcome.is_some() {
                return skip(input);
            }
        }
        let RunState::Calling(call) = &mut self.state else {
            return skip(input);
        };
        if self.run.begin_due {
            self.run.begin_due = false;
            return Some(Frame::Begin);
        }
        let piece = match self.framer.next(input) {
            Ok(None) => return None,
            Ok(Some(piece)) => piece,
            Err(error) => {
                self.outcome = Some(Outcome::NotJson(error));
                return skip(input);
            }
        };
        let reading = Reading {
            now,
            resource: self.target.resource(),
            call,
            run: &mut self.run,
            key: &mut self.key,
            error: &mut self.error,
            version: &mut self.version,
            version_unavailable: &mut self.version_unavailable,
            first_page: self.first_page,
            paginated: &mut self.paginated,
            is_polled: self.polls.is_some(),
            resuming: &mut self.resuming,
            bookmarks_seen: &mut self.bookmarks_seen,
            noticed: &mut self.noticed,
        };
        match reading.piece(piece) {
            Ok(frame) => Some(frame),
            Err(outcome) => {
                self.outcome = Some(outcome);
                skip(input)
            }
        }
    }

    /// Handles the result of reading.
    pub(super) fn finish_reading(&mut self, now: Instant) {
        if let Some((phase, problem)) = self.noticed.take() {
            self.report(phase, problem, None);
        }
        let Some(outcome) = self.outcome.take() else {
            return;
        };
        let RunState::Calling(call) = self.state else {
            return;
        };
        self.handle_outcome(now, call, outcome);
    }
}

/// The fields of a reflector that a piece of a response changes. The piece borrows the framer.
struct Reading<'a, S: Storage> {
    now: Instant,
    resource: Resource<'a>,
    call: &'a mut Call,
    run: &'a mut Run<S>,
    key: &'a mut KeyBuf,
    error: &'a mut S::Line,
    version: &'a mut ResourceVersion<S::Text>,
    version_unavailable: &'a mut bool,
    paginated: &'a mut bool,
    /// Only the first page of a list is read.
    first_page: bool,
    /// The resource cannot be watched.
    is_polled: bool,
    resuming: &'a mut bool,
    bookmarks_seen: &'a mut bool,
    noticed: &'a mut Option<(ReportPhase, StoredProblem)>,
}

impl<'a, S: Storage> Reading<'a, S> {
    fn piece(self, piece: Piece<'a>) -> Result<Frame<'a, S::Text>, Outcome> {
        match piece {
            Piece::Member {
                name,
                format,
                bytes,
            } => match self.run.envelope(&self.resource, name, format, bytes) {
                Ok(()) => Ok(Frame::Internal),
                Err(_) => Err(Outcome::TokenTooLong),
            },
            Piece::Item {
                format,
                bytes,
                problem,
                identity,
            } => {
                self.run.progress.item();
                let (head, problem) = head_of(format, bytes, identity, false, problem);
                let raw = RawObject::new(bytes, head);
                let phase = ReportPhase::List;
                Ok(check(
                    &self.resource,
                    self.key,
                    phase,
                    Change::Listed,
                    raw,
                    problem,
                )
                .0)
            }
            Piece::End => self.end_of_list(),
            Piece::Event {
                problem: problem @ Some(FrameProblem::Unidentifiable { .. }),
                ..
            } => {
                note(self.call, self.now);
                Ok(self.unusable(problem))
            }
            Piece::Event {
                format,
                bytes,
                problem,
                identity,
            } => self.event(format, bytes, problem, identity),
        }
    }

    fn end_of_list(self) -> Result<Frame<'a, S::Text>, Outcome> {
        let run = self.run;
        if !run.list.is_complete() {
            return Err(Outcome::NotAList);
        }
        self.call.phase = Phase::Draining { since: self.now };
        if self.first_page {
            run.token.clear();
        }
        if !run.token.as_slice().is_empty() {
            return Ok(Frame::Internal);
        }
        let version = core::mem::take(&mut run.version);
        if !version.is_known() && !self.is_polled {
            *self.noticed = Some((ReportPhase::List, RequestProblem::NoVersion.into()));
        } else if version.compare(self.version) == Some(Ordering::Less) {
            *self.noticed = Some((ReportPhase::List, RequestProblem::VersionWentBack.into()));
        }
        *self.version = version;
        *self.version_unavailable = false;
        // The watch cache does not paginate, so a server that paginated this list has none.
        *self.paginated |= run.from == From::Any && run.paged && run.limit > 0;
        Ok(Frame::Complete {
            version: self.version,
        })
    }

    fn event(
        self,
        format: Format,
        bytes: &'a [u8],
        problem: Option<FrameProblem>,
        identity: Option<&'a ObjectIdentity>,
    ) -> Result<Frame<'a, S::Text>, Outcome> {
        let event = identity.map_or_else(
            || WatchEvent::parse_as(format, bytes),
            |identity| identity.event(bytes),
        );
        let Some(event) = event else {
            return if problem.is_some() {
                Ok(self.unusable(problem))
            } else {
                Err(Outcome::NotAnEvent)
            };
        };
        let need_type = self.resource.kind.is_some();
        let (mut head, problem) = head_of(format, event.object, identity, need_type, problem);
        if format == Format::Protobuf && need_type {
            // The type is in the envelope.
            let types = identity.map(|identity| identity.head(&[], true));
            let types = types.map(|head| (head.kind, head.api_version));
            (head.kind, head.api_version) = types.unwrap_or((event.object_kind, event.api_version));
        }
        if *self.resuming && event.kind != EventType::Error {
            let reached = ResourceVersion::from_json(head.resource_version);
            if reached.compare(self.version) == Some(Ordering::Less) {
                return Err(Outcome::WentBack);
            }
            *self.resuming = false;
        }
        match event.kind {
            EventType::Added | EventType::Modified | EventType::Deleted => {
                let raw = RawObject::new(event.object, head);
                Ok(self.change(event.kind, raw, problem))
            }
            EventType::Error => {
                self.error.clear();
                keep(self.error, event.object);
                Err(Outcome::ErrorEvent)
            }
            EventType::Bookmark => Ok(self.bookmark(&head)),
            EventType::Unknown(kind) => {
                note(self.call, self.now);
                move_on(self.version, self.call, head.resource_version);
                Ok(Frame::Report(Report::new(
                    report_phase(self.call),
                    Problem::UnknownEvent(kind),
                )))
            }
        }
    }

    fn change(
        self,
        kind: EventType<'_>,
        raw: RawObject<'a>,
        problem: Option<FrameProblem>,
    ) -> Frame<'a, S::Text> {
        let call = self.call;
        let change = change(call, kind);
        let phase = report_phase(call);
        let (frame, accepted) = check(&self.resource, self.key, phase, change, raw, problem);
        if accepted {
            // Without a version, the server first sends the current state, unordered.
            call.initial &= call.verb == Purpose::Stream || change == Change::Listed;
            note(call, self.now);
            move_on(self.version, call, raw.resource_version());
        }
        frame
    }

    fn bookmark(self, head: &ObjectHead<'_>) -> Frame<'a, S::Text> {
        let call = self.call;
        note(call, self.now);
        let in_stream = call.initial && call.verb == Purpose::Stream;
        let complete = in_stream && head.is_initial_events_end();
        // A resource without a watch cache sends the bookmark that ends a streaming list, but none after it.
        *self.bookmarks_seen |= !in_stream;
        call.initial = in_stream && !complete;
        let reached = ResourceVersion::<S::Text>::from_json(head.resource_version);
        if complete && reached.compare(self.version) == Some(Ordering::Less) {
            *self.noticed = Some((ReportPhase::Stream, RequestProblem::VersionWentBack.into()));
        }
        move_on(self.version, call, head.resource_version);
        let version = self.version;
        if complete {
            *self.version_unavailable = false;
            Frame::Complete { version }
        } else if call.initial {
            Frame::Internal
        } else {
            Frame::Bookmark { version }
        }
    }

    fn unusable(&self, problem: Option<FrameProblem>) -> Frame<'a, S::Text> {
        Frame::Report(Report::new(report_phase(self.call), unusable(problem)))
    }
}

/// Returns the head of an object, and the reason why it is unusable. The framer has the identity if the object exceeds
/// the frame limit.
fn head_of<'a>(
    format: Format,
    bytes: &'a [u8],
    identity: Option<&'a ObjectIdentity>,
    need_type: bool,
    problem: Option<FrameProblem>,
) -> (ObjectHead<'a>, Option<FrameProblem>) {
    match identity {
        Some(identity) if problem.is_some() => (identity.head(bytes, need_type), problem),
        // An object that fits without its managedFields is complete.
        Some(_) | None => {
            let (head, found) = ObjectHead::parse_as(format, bytes, need_type);
            (head, problem.or(found))
        }
    }
}

/// Checks that an object is of the requested resource and has a key. Any other object is reported and skipped.
fn check<'a, X>(
    resource: &Resource<'_>,
    key: &'a mut KeyBuf,
    phase: ReportPhase,
    change: Change,
    raw: RawObject<'a>,
    problem: Option<FrameProblem>,
) -> (Frame<'a, X>, bool) {
    *key = KeyBuf::new();
    let is_nameless =
        matches!(problem, Some(FrameProblem::Unidentifiable { .. })) || raw.name().is_empty();
    let is_too_long = !is_nameless && raw.write_key(key).is_err();
    let key = key.as_str();
    let wrong = if is_nameless && problem.is_some() {
        unusable(problem)
    } else if is_nameless {
        Problem::NoName
    } else if is_too_long {
        Problem::KeyTooLong { key }
    } else if is_other_kind(resource, raw) {
        let kind = raw.kind();
        Problem::OtherKind { key, kind }
    } else if resource.shard.is_some_and(|shard| !shard.has_object(raw)) {
        // A server without support for shards sends all objects.
        return (Frame::Internal, true);
    } else {
        let frame = ObjectFrame {
            change,
            key,
            raw,
            problem,
        };
        return (Frame::Object(frame), true);
    };
    (Frame::Report(Report::new(phase, wrong)), false)
}

/// The problem of a frame without a known key.
fn unusable(problem: Option<FrameProblem>) -> Problem<'static> {
    Problem::Frame {
        key: "",
        problem: problem.unwrap_or(FrameProblem::NotUtf8),
    }
}

fn is_other_kind(resource: &Resource<'_>, raw: RawObject<'_>) -> bool {
    let Some(expected) = resource.kind else {
        return false;
    };
    if raw.kind().is_empty() || raw.kind().eq_str("PartialObjectMetadata") {
        return false;
    }
    if !raw.kind().eq_str(expected) {
        return true;
    }
    let version = raw.api_version();
    // Another version of the same kind is an error of the server, too.
    !version.is_empty()
        && (version.as_plain()).is_some_and(|version| !is_group_version(resource, version))
}

/// Returns the change that an event describes. A streaming list sends the current state as events.
const fn change(call: &Call, kind: EventType<'_>) -> Change {
    match kind {
        EventType::Deleted => Change::Deleted,
        EventType::Added if call.initial => Change::Listed,
        EventType::Modified if call.initial && matches!(call.verb, Purpose::Stream) => {
            Change::Listed
        }
        EventType::Added => Change::Added,
        EventType::Modified | EventType::Bookmark | EventType::Error | EventType::Unknown(_) => {
            Change::Modified
        }
    }
}

const fn note(call: &mut Call, now: Instant) {
    call.events = call.events.saturating_add(1);
    call.last_event = now;
}

/// Stores the version of an event. It is not compared, since the server defines the order. While the current state is
/// sent, unordered, the old version stays.
fn move_on<X: crate::storage::Text>(
    version: &mut ResourceVersion<X>,
    call: &Call,
    reached: JsonStr<'_>,
) {
    if !call.initial && !reached.is_empty() {
        *version = ResourceVersion::from_json(reached);
    }
}

const fn report_phase(call: &Call) -> ReportPhase {
    match call.verb {
        Purpose::List => ReportPhase::List,
        Purpose::Stream if call.initial => ReportPhase::Stream,
        Purpose::Watch | Purpose::Stream => ReportPhase::Watch,
    }
}

/// Stores as many bytes as fit.
fn keep(buffer: &mut impl FrameBuffer, bytes: &[u8]) {
    let room = buffer.limit().saturating_sub(buffer.as_slice().len());
    let _ = buffer.extend(bytes.get(..room).unwrap_or(bytes));
}

fn skip<T>(input: &mut &[u8]) -> Option<T> {
    *input = &[];
    None
}
