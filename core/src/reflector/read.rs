//! Reading: from the bytes of an answer to frames.

use super::{Call, Change, Frame, From, ObjectFrame, Phase, Reflector, Run, State, Target, Verb};
use core::cmp::Ordering;

use super::failure::StoredProblem;
use crate::decode::RawObject;
use crate::json::{JsonStr, ScanError, as_str, value_at};
use crate::object::{KeyBuf, ResourceVersion};
use crate::report::{Phase as ReportPhase, Problem, Report};
use crate::resource::Resource;
use crate::storage::Storage;
use crate::time::Instant;
use crate::wire::{
    EventType, FrameBuffer, FrameProblem, ListMember, ObjectHead, Piece, WatchEvent,
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
        let State::Calling(call) = &mut self.state else {
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
        if self.run.begin_due {
            self.run.begin_due = false;
            return Some(Frame::Begin);
        }
        let resource = self.target.resource();
        match self.framer.next(input) {
            Ok(None) => None,
            Err(error) => {
                self.outcome = Some(Outcome::NotJson(error));
                skip(input)
            }
            Ok(Some(Piece::Member { name, json })) => {
                if self.run.envelope(&resource, name, json).is_err() {
                    self.outcome = Some(Outcome::TokenTooLong);
                    return skip(input);
                }
                Some(Frame::Internal)
            }
            Ok(Some(Piece::Item {
                json,
                problem,
                identity,
            })) => {
                self.run.progress.item();
                let head = identity.map_or_else(
                    || ObjectHead::parse(json, false),
                    |identity| identity.head(json, false),
                );
                let frame = ObjectFrame {
                    change: Change::Listed,
                    raw: RawObject::new(json, head),
                    problem,
                };
                Some(check(&resource, &mut self.key, ReportPhase::List, frame).0)
            }
            Ok(Some(Piece::End)) => {
                if !self.run.list.is_complete() {
                    self.outcome = Some(Outcome::NotAList);
                    return skip(input);
                }
                call.phase = Phase::Draining { since: now };
                if !self.run.token.as_slice().is_empty() {
                    return Some(Frame::Internal);
                }
                let version = core::mem::take(&mut self.run.version);
                if !version.is_known() {
                    self.noticed = Some((ReportPhase::List, StoredProblem::NoVersion));
                } else if version.compare(&self.version) == Some(Ordering::Less) {
                    self.noticed = Some((ReportPhase::List, StoredProblem::VersionWentBack));
                }
                self.version = version;
                self.version_unavailable = false;
                // The watch cache does not paginate, so a server that paginated this list has none.
                self.paginated |=
                    self.run.from == From::Any && self.run.paged && self.run.limit > 0;
                Some(Frame::Complete {
                    version: &self.version,
                })
            }
            Ok(Some(Piece::Event {
                problem: problem @ Some(FrameProblem::Unidentifiable { .. }),
                ..
            })) => {
                note(call, now);
                Some(Frame::Report(Report::new(
                    report_phase(call),
                    unusable("", problem),
                )))
            }
            Ok(Some(Piece::Event {
                json,
                problem,
                identity,
            })) => {
                let event = identity.map_or_else(
                    || WatchEvent::parse(json),
                    |identity| WatchEvent::cut(json, identity),
                );
                let Some(event) = event else {
                    if problem.is_some() {
                        return Some(Frame::Report(Report::new(
                            report_phase(call),
                            unusable("", problem),
                        )));
                    }
                    self.outcome = Some(Outcome::NotAnEvent);
                    return skip(input);
                };
                let need_type = resource.kind.is_some();
                let head = identity.map_or_else(
                    || ObjectHead::parse(event.object, need_type),
                    |identity| identity.head(event.object, need_type),
                );
                if self.resuming && event.kind != EventType::Error {
                    let reached = ResourceVersion::from_json(head.resource_version);
                    if reached.compare(&self.version) == Some(Ordering::Less) {
                        self.outcome = Some(Outcome::WentBack);
                        return skip(input);
                    }
                    self.resuming = false;
                }
                if matches!(
                    event.kind,
                    EventType::Added | EventType::Modified | EventType::Deleted
                ) {
                    let change = change(call, event.kind);
                    let frame = ObjectFrame {
                        change,
                        raw: RawObject::new(event.object, head),
                        problem,
                    };
                    let (frame, accepted) =
                        check(&resource, &mut self.key, report_phase(call), frame);
                    if accepted {
                        // Without a version, the server first sends the current state, unordered.
                        call.initial &= call.verb == Verb::Stream || change == Change::Listed;
                        note(call, now);
                        move_on(&mut self.version, call, head.resource_version);
                    }
                    return Some(frame);
                }
                match event.kind {
                    EventType::Error => {
                        self.error.clear();
                        keep(&mut self.error, event.object);
                        self.outcome = Some(Outcome::ErrorEvent);
                        skip(input)
                    }
                    EventType::Bookmark => {
                        note(call, now);
                        let in_stream = call.initial && call.verb == Verb::Stream;
                        let complete = in_stream && head.is_initial_events_end();
                        // A resource without a watch cache sends the bookmark that ends a streaming list, but none
                        // after it.
                        self.bookmarks_seen |= !in_stream;
                        call.initial = in_stream && !complete;
                        let reached = ResourceVersion::from_json(head.resource_version);
                        if complete && reached.compare(&self.version) == Some(Ordering::Less) {
                            self.noticed =
                                Some((ReportPhase::Stream, StoredProblem::VersionWentBack));
                        }
                        move_on(&mut self.version, call, head.resource_version);
                        if complete {
                            self.version_unavailable = false;
                            return Some(Frame::Complete {
                                version: &self.version,
                            });
                        }
                        if call.initial {
                            return Some(Frame::Internal);
                        }
                        Some(Frame::Bookmark {
                            version: &self.version,
                        })
                    }
                    EventType::Unknown(kind) => {
                        note(call, now);
                        move_on(&mut self.version, call, head.resource_version);
                        Some(Frame::Report(Report::new(
                            report_phase(call),
                            Problem::UnknownEvent(kind),
                        )))
                    }
                    EventType::Added | EventType::Modified | EventType::Deleted => {
                        Some(Frame::Internal)
                    }
                }
            }
        }
    }

    /// Handles the result of reading.
    pub(super) fn settle(&mut self, now: Instant) {
        if let Some((phase, problem)) = self.noticed.take() {
            self.report(phase, problem, None);
        }
        let Some(outcome) = self.outcome.take() else {
            return;
        };
        let State::Calling(call) = self.state else {
            return;
        };
        self.settle_outcome(now, call, outcome);
    }
}

impl<S: Storage> Run<S> {
    /// Reads a member of a list other than its items. Fails if a token is too long: a truncated token would request
    /// another page, or none.
    fn envelope(
        &mut self,
        resource: &Resource<'_>,
        name: ListMember,
        json: &[u8],
    ) -> core::fmt::Result {
        match name {
            ListMember::Kind => {
                let kind = as_str(json).unwrap_or_default();
                self.list.kind = ListKind::of(resource, kind);
            }
            ListMember::ApiVersion => {
                let version = as_str(json).and_then(|version| version.as_plain());
                self.list.is_of_resource =
                    version.is_some_and(|version| is_group_version(resource, version));
            }
            ListMember::Metadata => {
                let text = |name| value_at(json, &[name]).and_then(as_str).unwrap_or_default();
                self.list.is_unnamed = text("name").is_empty();
                if self.pages == 0 {
                    self.version = ResourceVersion::from_json(text("resourceVersion"));
                }
                self.token.clear();
                text("continue").write_to(&mut Appender(&mut self.token))?;
            }
            ListMember::Status
            | ListMember::Message
            | ListMember::Reason
            | ListMember::Code
            | ListMember::Details => {}
        }
        Ok(())
    }
}

/// The contents of a list's envelope.
#[derive(Clone, Copy, Default)]
pub(super) struct Listed {
    kind: ListKind,
    /// The group and version are those of the resource.
    is_of_resource: bool,
    /// The metadata has no name, so this is not a single object.
    is_unnamed: bool,
}

/// What the kind of an answer implies.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum ListKind {
    /// The answer has no kind, or not that of a list of the resource.
    #[default]
    Other,
    /// The kind is that of a list of the resource.
    List,
    /// The kind may be the `listKind` of a CustomResourceDefinition.
    Custom,
}

impl Listed {
    /// Returns whether the answer is a list of the resource. Another answer, taken for an empty list, would clear the
    /// cache.
    fn is_complete(self) -> bool {
        match self.kind {
            ListKind::List => true,
            ListKind::Custom => self.is_of_resource && self.is_unnamed,
            ListKind::Other => false,
        }
    }
}

impl ListKind {
    fn of(resource: &Resource<'_>, kind: JsonStr<'_>) -> Self {
        if is_list_of(resource, kind) {
            return Self::List;
        }
        // The group of a custom resource is a domain. Its lists may have any kind except that of the objects.
        let may_be_custom = resource.group.contains('.')
            && !kind.is_empty()
            && resource.kind.is_none_or(|object| !kind.eq_str(object));
        if may_be_custom {
            Self::Custom
        } else {
            Self::Other
        }
    }
}

fn is_list_of(resource: &Resource<'_>, kind: JsonStr<'_>) -> bool {
    let Some(expected) = resource.kind else {
        return ends_with_list(kind);
    };
    if kind.eq_str("PartialObjectMetadataList") || kind.eq_str("List") {
        return true;
    }
    kind.as_plain()
        .and_then(|kind| kind.strip_suffix("List"))
        .is_some_and(|kind| kind == expected)
}

fn ends_with_list(kind: JsonStr<'_>) -> bool {
    kind.as_plain().is_some_and(|kind| kind.ends_with("List"))
}

fn is_group_version(resource: &Resource<'_>, version: &str) -> bool {
    version.rsplit_once('/').unwrap_or(("", version)) == (resource.group, resource.version)
}

/// Checks that an object is of the requested resource and has a key. Any other object is reported and skipped.
fn check<'a, X>(
    resource: &Resource<'_>,
    key: &'a mut KeyBuf,
    phase: ReportPhase,
    frame: ObjectFrame<'a>,
) -> (Frame<'a, X>, bool) {
    let raw = frame.raw;
    *key = KeyBuf::new();
    if matches!(frame.problem, Some(FrameProblem::Unidentifiable { .. })) || raw.name().is_empty() {
        let problem = if frame.problem.is_some() {
            unusable("", frame.problem)
        } else {
            Problem::NoName
        };
        return (Frame::Report(Report::new(phase, problem)), false);
    }
    if raw.write_key(key).is_err() {
        return (
            Frame::Report(Report::new(
                phase,
                Problem::KeyTooLong { key: key.as_str() },
            )),
            false,
        );
    }
    if is_other_kind(resource, raw) {
        let problem = Problem::OtherKind {
            key: key.as_str(),
            kind: raw.kind(),
        };
        return (Frame::Report(Report::new(phase, problem)), false);
    }
    // A server without support for shards sends all objects.
    if resource.shard.is_some_and(|shard| !shard.has_object(raw)) {
        return (Frame::Internal, true);
    }
    (Frame::Object(frame), true)
}

fn unusable(key: &str, problem: Option<FrameProblem>) -> Problem<'_> {
    Problem::Frame {
        key,
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
        EventType::Modified if call.initial && matches!(call.verb, Verb::Stream) => Change::Listed,
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
        Verb::List => ReportPhase::List,
        Verb::Stream if call.initial => ReportPhase::Stream,
        Verb::Watch | Verb::Stream => ReportPhase::Watch,
    }
}

/// Writes text into a buffer, all of it or nothing.
struct Appender<'a, B>(&'a mut B);

impl<B: FrameBuffer> core::fmt::Write for Appender<'_, B> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.0
            .extend(text.as_bytes())
            .map_err(|()| core::fmt::Error)
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
