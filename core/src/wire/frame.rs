//! Framing: finds the items of a list and the events of a watch in a response body, no matter how it is split.

use core::fmt;

use super::identity::{Collector, KeyText, ObjectIdentity};
use crate::json::{ScanError, ScanErrorKind, Scanner, Stop};

/// A buffer for a frame that is split between two pieces of input.
pub trait FrameBuffer: Default {
    /// Appends `bytes`, all of them or none.
    ///
    /// # Errors
    ///
    /// Fails if the buffer would exceed [`limit`](Self::limit) bytes.
    #[allow(clippy::result_unit_err)] // There is one reason to fail, and the caller knows it.
    fn extend(&mut self, bytes: &[u8]) -> Result<(), ()>;

    /// Returns the contents.
    fn as_slice(&self) -> &[u8];

    /// Removes the bytes from `start` to `end`, and moves the following ones forward.
    fn remove(&mut self, start: usize, end: usize);

    /// Removes all bytes. Memory that only a rare large frame needed should be released.
    fn clear(&mut self);

    /// Sets the limit in bytes.
    fn set_limit(&mut self, limit: usize);

    /// Returns the effective limit in bytes: the one that was set, or less if the storage is smaller.
    fn limit(&self) -> usize;
}

/// The structure of a response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FramerMode {
    /// One object with the member `items`, whose elements are delivered one by one.
    List,
    /// A sequence of objects.
    Watch,
}

/// Finds frames in a response body: the items of a list or the events of a watch.
///
/// It buffers at most one frame, and only while that is split or exceeds the limit. The pieces do not depend on how the
/// body is split. Frames that are too large, too deeply nested or not UTF-8 are delivered with a [`FrameProblem`], and
/// do not affect later frames. Invalid JSON is an error and ends the body. A frame that is too large is delivered with
/// the object's [`ObjectIdentity`], no matter where in the frame its parts are.
#[derive(Debug)]
pub struct Framer<B> {
    scanner: Scanner,
    stage: Stage,
    mode: FramerMode,
    /// The consumed part of a split frame, up to the limit; then the frame, while it is lent.
    buffer: B,
    /// The number of bytes of the current frame that were consumed in earlier calls.
    size: u64,
    /// The number of those that count towards the limit, once the frame has exceeded it.
    counted: u64,
    /// The current frame exceeds the limit, and the collector follows it.
    exceeds: bool,
    /// The elements of `metadata.managedFields` do not count towards the limit.
    skips_managed_fields: bool,
    /// Scans only large frames, a second time; scanning the others would cost too much.
    collector: Collector,
    /// The offset of the current frame in the body.
    start: u64,
    /// The buffer rejected bytes although they were within its limit.
    refused: bool,
    key: KeyText,
    failure: Option<ScanError>,
}

impl<B: FrameBuffer> Framer<B> {
    /// Creates a framer for one response body, which delivers complete frames of up to `limit` bytes.
    ///
    /// A smaller capacity of the buffer reduces the limit. The limit also applies to frames that need no buffer because
    /// they are not split.
    pub fn new(mode: FramerMode, limit: usize) -> Self {
        let mut buffer = B::default();
        buffer.set_limit(limit);
        Self {
            scanner: Scanner::new(),
            stage: Stage::Start,
            mode,
            buffer,
            size: 0,
            counted: 0,
            exceeds: false,
            skips_managed_fields: false,
            collector: Collector::new(),
            start: 0,
            refused: false,
            key: KeyText::new(),
            failure: None,
        }
    }

    /// Sets whether the elements of an object's `metadata.managedFields` count towards the limit.
    ///
    /// If not, a frame that exceeds the limit is delivered with an empty array in their place. Smaller frames are
    /// delivered unmodified.
    pub(crate) const fn skip_managed_fields(&mut self, skip: bool) {
        self.skips_managed_fields = skip;
    }

    /// Starts over with another response body.
    pub(crate) fn reset(&mut self, mode: FramerMode) {
        self.scanner = Scanner::new();
        self.stage = Stage::Start;
        self.mode = mode;
        self.buffer.clear();
        self.size = 0;
        self.refused = false;
        self.failure = None;
    }

    /// Consumes input up to the end of the next piece, and lends that piece.
    ///
    /// Returns `None` when all of the input is consumed.
    ///
    /// # Errors
    ///
    /// Fails if the body is invalid. Every further call returns the same error.
    pub fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Piece<'a>>, ScanError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let found = self
            .advance(input)
            .inspect_err(|failure| self.failure = Some(*failure))?;
        Ok(found.map(|found| match found {
            Found::End => Piece::End,
            Found::Frame {
                what,
                lent,
                problem,
            } => {
                let json = lent.unwrap_or_else(|| self.buffer.as_slice());
                let identity = matches!(problem, Some(FrameProblem::TooLarge { .. }))
                    .then(|| self.collector.identity());
                match what {
                    What::Item => Piece::Item {
                        json,
                        problem,
                        identity,
                    },
                    What::Event => Piece::Event {
                        json,
                        problem,
                        identity,
                    },
                    What::Member(name) => Piece::Member { name, json },
                }
            }
        }))
    }

    /// Returns whether the body would be truncated if it ended here, within an event or a list.
    ///
    /// Returns false for an empty body, although that is not a list: a list is complete only with [`Piece::End`].
    pub fn is_midway(&self) -> bool {
        !matches!(self.stage, Stage::Start | Stage::Ended)
    }

    fn advance<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Found<'i>>, ScanError> {
        if self.size == 0 && !self.buffer.as_slice().is_empty() {
            // This frame was lent by the previous call.
            self.buffer.clear();
        }
        loop {
            match self.stage {
                Stage::Frame(what) => return self.read_frame(what, input),
                Stage::Skip => {
                    let mut at = 0;
                    let ended = self.scanner.skip_value(input, &mut at, LIST_DEPTH)?;
                    take(input, at);
                    if !ended {
                        return Ok(None);
                    }
                    self.stage = Stage::Between;
                }
                Stage::Start
                | Stage::Between
                | Stage::Key
                | Stage::Named(_)
                | Stage::Elements
                | Stage::Ended => {
                    let mut at = 0;
                    let step = self
                        .scanner
                        .step(input, &mut at)
                        .map_err(|error| self.reword(error))?;
                    let text = take(input, at);
                    if self.stage == Stage::Key {
                        self.key.extend(text);
                    }
                    if step == Stop::More {
                        return Ok(None);
                    }
                    self.stage = self.after(step, input)?;
                    if self.stage == Stage::Ended {
                        return Ok(Some(Found::End));
                    }
                }
            }
        }
    }

    /// Returns the stage after a step outside of frames.
    fn after(&mut self, step: Stop, input: &mut &[u8]) -> Result<Stage, ScanError> {
        let offset = self.scanner.offset();
        let error = |kind| Err(ScanError { offset, kind });
        match (self.stage, step) {
            (Stage::Start, Stop::Value(first @ b'{')) => match self.mode {
                FramerMode::Watch => Ok(self.begin(What::Event)),
                FramerMode::List => {
                    self.enter(first, input)?;
                    Ok(Stage::Between)
                }
            },
            (Stage::Start, Stop::Value(first)) => error(ScanErrorKind::NotAnObject(first)),
            (Stage::Between, Stop::KeyStart) => {
                self.key = KeyText::new();
                Ok(Stage::Key)
            }
            (Stage::Between, Stop::Closed) => Ok(Stage::Ended),
            (Stage::Key, Stop::KeyEnd) => Ok(Stage::Named(name_of(&self.key))),
            (Stage::Named(Name::Items), Stop::Value(first @ b'[')) => {
                self.enter(first, input)?;
                Ok(Stage::Elements)
            }
            (Stage::Named(Name::Items), Stop::Value(first)) if first != b'n' => {
                error(ScanErrorKind::ItemsNotAnArray(first))
            }
            (Stage::Named(Name::Member(name)), Stop::Value(_)) => {
                Ok(self.begin(What::Member(name)))
            }
            (Stage::Named(_), Stop::Value(_)) => Ok(Stage::Skip),
            (Stage::Elements, Stop::Value(_)) => Ok(self.begin(What::Item)),
            (Stage::Elements, Stop::Closed) => Ok(Stage::Between),
            (Stage::Ended, Stop::Value(first)) => error(ScanErrorKind::TrailingData(first)),
            // The scanner never returns this step in this stage.
            _ => error(ScanErrorKind::UnexpectedByte(0)),
        }
    }

    fn enter(&mut self, first: u8, input: &mut &[u8]) -> Result<(), ScanError> {
        let mut at = 0;
        self.scanner.enter(first, &mut at)?;
        take(input, at);
        Ok(())
    }

    fn begin(&mut self, what: What) -> Stage {
        self.scanner.clear_marks();
        self.start = self.scanner.offset();
        self.refused = false;
        self.exceeds = false;
        Stage::Frame(what)
    }

    /// Reads more of the current frame; `None` if it continues after the input.
    fn read_frame<'i>(
        &mut self,
        what: What,
        input: &mut &'i [u8],
    ) -> Result<Option<Found<'i>>, ScanError> {
        let limit = match what {
            What::Member(_) => self.buffer.limit().min(ENVELOPE_LIMIT),
            What::Item | What::Event => self.buffer.limit(),
        };
        let mut at = 0;
        let result = self.scanner.skip_value(input, &mut at, what.floor());
        let part = take(input, at);
        let split = self.size > 0;
        let size = self.size + part.len() as u64;
        let fits = size <= limit as u64;
        if matches!(what, What::Member(_)) && (!fits || self.refused) {
            // This error takes precedence, so that the result does not depend on how the body is split.
            return Err(self.envelope_error(ScanErrorKind::TooLargeEnvelope));
        }
        let ended = result?;
        if fits && !self.refused && (split || !ended) {
            self.refused = self.buffer.extend(part).is_err();
        }
        if (!fits || self.refused) && !matches!(what, What::Member(_)) {
            self.reduce(what, part, limit)?;
        }
        if !ended {
            self.size = size;
            return Ok(None);
        }

        self.size = 0;
        self.stage = what.stage_after();
        let lent = (!split && !self.exceeds).then_some(part);
        let json = lent.unwrap_or_else(|| self.buffer.as_slice());
        let size = if self.exceeds { self.counted } else { size };
        let problem = if size > limit as u64 || self.refused {
            if self.exceeds && !self.collector.identity().is_whole() {
                Some(FrameProblem::Unidentifiable { size, limit })
            } else {
                Some(FrameProblem::TooLarge { size, limit })
            }
        } else if self.scanner.too_deep() {
            Some(FrameProblem::TooDeep)
        } else if self.scanner.saw_non_ascii() && core::str::from_utf8(json).is_err() {
            Some(FrameProblem::NotUtf8)
        } else {
            None
        };
        if let (What::Member(_), Some(problem)) = (what, problem) {
            return Err(self.envelope_error(match problem {
                FrameProblem::TooLarge { .. } | FrameProblem::Unidentifiable { .. } => {
                    ScanErrorKind::TooLargeEnvelope
                }
                FrameProblem::TooDeep => ScanErrorKind::TooDeepEnvelope,
                FrameProblem::NotUtf8 => ScanErrorKind::NotUtf8Envelope,
            }));
        }
        Ok(Some(Found::Frame {
            what,
            lent,
            problem,
        }))
    }

    /// Collects the identity from the next part of a frame that exceeds the limit, and buffers as much of the frame as
    /// fits.
    fn reduce(&mut self, what: What, part: &[u8], limit: usize) -> Result<(), ScanError> {
        if !self.exceeds {
            self.exceeds = true;
            self.collector
                .begin(what == What::Event, self.skips_managed_fields);
            // The buffer contains the complete frame so far.
            let mut at = 0;
            while let Some(rest) = self.buffer.as_slice().get(at..)
                && !rest.is_empty()
            {
                let segment = self.collector.next(rest)?;
                if segment.skipped > 0 {
                    self.buffer.remove(at, at + segment.skipped);
                }
                at += segment.kept;
            }
            self.counted = at as u64;
        }
        let mut rest = part;
        while !rest.is_empty() {
            let segment = self.collector.next(rest)?;
            take(&mut rest, segment.skipped);
            let kept = take(&mut rest, segment.kept);
            self.counted += kept.len() as u64;
            let room = limit.saturating_sub(self.buffer.as_slice().len());
            if !self.refused {
                self.refused = self
                    .buffer
                    .extend(kept.get(..room).unwrap_or(kept))
                    .is_err();
            }
        }
        Ok(())
    }

    fn envelope_error(&self, kind: ScanErrorKind) -> ScanError {
        ScanError {
            offset: self.start,
            kind,
        }
    }

    /// Distinguishes bytes after a list from invalid bytes within one.
    fn reword(&self, error: ScanError) -> ScanError {
        match (self.stage, error.kind) {
            (Stage::Ended, ScanErrorKind::UnexpectedByte(byte)) => ScanError {
                kind: ScanErrorKind::TrailingData(byte),
                ..error
            },
            _ => error,
        }
    }
}

/// A part of a response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Piece<'a> {
    /// An element of the `items` of a list.
    Item {
        /// Its JSON; truncated with [`FrameProblem::TooLarge`].
        json: &'a [u8],
        /// The problem, if it is unusable.
        problem: Option<FrameProblem>,
        /// The identity of the object, with [`FrameProblem::TooLarge`]; otherwise it is in the JSON.
        identity: Option<&'a ObjectIdentity>,
    },
    /// Another member of the list itself.
    Member {
        /// The name of the member.
        name: ListMember,
        /// The JSON of its value.
        json: &'a [u8],
    },
    /// An event of a watch.
    Event {
        /// Its JSON; truncated with [`FrameProblem::TooLarge`].
        json: &'a [u8],
        /// The problem, if it is unusable.
        problem: Option<FrameProblem>,
        /// The identity of the event and its object, with [`FrameProblem::TooLarge`]; otherwise it is in the JSON.
        identity: Option<&'a ObjectIdentity>,
    },
    /// The end of a list; only whitespace may follow.
    End,
}

/// The members of a list other than `items`, and of a `Status` in its place, that are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListMember {
    /// The kind of the list, or `Status`.
    Kind,
    /// Group and version.
    ApiVersion,
    /// Resource version and paging of the list.
    Metadata,
    /// `Success` or `Failure`.
    Status,
    /// The error message, for people.
    Message,
    /// The error reason, in one word.
    Reason,
    /// The error code, an HTTP status code.
    Code,
    /// Details of the error.
    Details,
}

/// The reason why a frame is unusable, although later frames are not affected.
///
/// If there are several reasons, the first in this order is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameProblem {
    /// It exceeds the limit; the part up to the limit is delivered.
    TooLarge {
        /// The size of the complete frame in bytes.
        size: u64,
        /// The limit in bytes.
        limit: usize,
    },
    /// It exceeds the limit, and its identity is longer than the framer supports, which is more than Kubernetes allows.
    /// The change cannot be applied to any object.
    Unidentifiable {
        /// The size of the complete frame in bytes.
        size: u64,
        /// The limit in bytes.
        limit: usize,
    },
    /// It is nested more than [`DEPTH_LIMIT`](crate::json::DEPTH_LIMIT) levels deep, including the containers around
    /// it.
    TooDeep,
    /// It is not UTF-8.
    NotUtf8,
}

impl fmt::Display for FrameProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { size, limit } => {
                write!(f, "{size} bytes, more than the limit of {limit}")
            }
            Self::Unidentifiable { size, limit } => write!(
                f,
                "{size} bytes, more than the limit of {limit}, and its identity exceeds {} bytes, so the change is lost",
                super::identity::ROOM
            ),
            Self::TooDeep => f.write_str("nested too deeply"),
            Self::NotUtf8 => f.write_str("not UTF-8"),
        }
    }
}

/// The position of the framer in the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Before the list or an event.
    Start,
    /// In the list, between members.
    Between,
    /// In the key of a member of the list.
    Key,
    /// Between such a key and its value.
    Named(Name),
    /// In `items`, between elements.
    Elements,
    /// In a value that is a frame.
    Frame(What),
    /// In the value of a member that is not delivered.
    Skip,
    /// After the list.
    Ended,
}

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Item,
    Member(ListMember),
    Event,
}

impl What {
    /// Returns the depth around the frame.
    fn floor(self) -> u32 {
        match self {
            Self::Item => LIST_DEPTH + 1,
            Self::Member(_) => LIST_DEPTH,
            Self::Event => 0,
        }
    }

    fn stage_after(self) -> Stage {
        match self {
            Self::Item => Stage::Elements,
            Self::Member(_) => Stage::Between,
            Self::Event => Stage::Start,
        }
    }
}

/// The result of a call, without the parts that it borrows from the framer.
enum Found<'i> {
    Frame {
        what: What,
        /// The frame if it is complete in the input; otherwise it is in the buffer.
        lent: Option<&'i [u8]>,
        problem: Option<FrameProblem>,
    },
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Items,
    Member(ListMember),
    Other,
}

/// Returns the member of a list with this key.
fn name_of(key: &KeyText) -> Name {
    const KNOWN: [(&str, Name); 9] = [
        ("items", Name::Items),
        ("kind", Name::Member(ListMember::Kind)),
        ("apiVersion", Name::Member(ListMember::ApiVersion)),
        ("metadata", Name::Member(ListMember::Metadata)),
        ("status", Name::Member(ListMember::Status)),
        ("message", Name::Member(ListMember::Message)),
        ("reason", Name::Member(ListMember::Reason)),
        ("code", Name::Member(ListMember::Code)),
        ("details", Name::Member(ListMember::Details)),
    ];
    key.find(&KNOWN).unwrap_or(Name::Other)
}

/// The number of open containers between the members of a list.
const LIST_DEPTH: u32 = 1;

/// The maximum size of a member of a list, other than `items`, in bytes.
const ENVELOPE_LIMIT: usize = 64 * 1024;

/// Takes the first `length` bytes from the input.
fn take<'i>(input: &mut &'i [u8], length: usize) -> &'i [u8] {
    let (taken, rest) = input.split_at_checked(length).unwrap_or((input, &[]));
    *input = rest;
    taken
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    use super::*;
    use crate::wire::{ObjectHead, WatchEvent};

    #[derive(Debug, Default)]
    struct TestBuffer {
        bytes: Vec<u8>,
        limit: usize,
        peak: usize,
    }

    impl FrameBuffer for TestBuffer {
        fn extend(&mut self, bytes: &[u8]) -> Result<(), ()> {
            if self.bytes.len() + bytes.len() > self.limit {
                return Err(());
            }
            self.bytes.extend_from_slice(bytes);
            self.peak = self.peak.max(self.bytes.len());
            Ok(())
        }

        fn as_slice(&self) -> &[u8] {
            &self.bytes
        }

        fn remove(&mut self, start: usize, end: usize) {
            self.bytes.drain(start..end);
        }

        fn clear(&mut self) {
            self.bytes.clear();
        }

        fn set_limit(&mut self, limit: usize) {
            self.limit = limit;
        }

        fn limit(&self) -> usize {
            self.limit
        }
    }

    /// The output for a body: pieces as text, then the error if there is one, and whether the body ends midway.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    struct Outcome {
        pieces: Vec<String>,
        error: Option<ScanError>,
        midway: bool,
    }

    fn show(piece: &Piece<'_>) -> String {
        let text = |json| String::from_utf8_lossy(json).into_owned();
        match piece {
            Piece::Item {
                json,
                problem: None,
                ..
            } => format!("item {}", text(json)),
            Piece::Item {
                json,
                problem: Some(problem),
                identity,
            } => format!("item {} ({problem}){}", text(json), whose(*identity)),
            Piece::Event {
                json,
                problem: None,
                ..
            } => format!("event {}", text(json)),
            Piece::Event {
                json,
                problem: Some(problem),
                identity,
            } => format!("event {} ({problem}){}", text(json), whose(*identity)),
            Piece::Member { name, json } => format!("{name:?} {}", text(json)),
            Piece::End => "end".to_string(),
        }
    }

    /// Returns the identity of a large frame as text.
    fn whose(identity: Option<&ObjectIdentity>) -> String {
        let Some(identity) = identity else {
            return String::new();
        };
        let head = identity.head(b"", true);
        if head.name.is_empty() {
            return String::new();
        }
        format!(
            " {:?} {} {} of {}/{} u{} v{}",
            identity.event_type(),
            head.kind,
            head.api_version,
            head.namespace,
            head.name,
            head.uid,
            head.resource_version
        )
    }

    fn read(framer: &mut Framer<TestBuffer>, mut input: &[u8], outcome: &mut Outcome) {
        while outcome.error.is_none() {
            match framer.next(&mut input) {
                Ok(Some(piece)) => outcome.pieces.push(show(&piece)),
                Ok(None) => {
                    assert!(input.is_empty());
                    break;
                }
                Err(error) => {
                    assert_eq!(framer.next(&mut input), Err(error));
                    outcome.error = Some(error);
                }
            }
        }
        outcome.midway = outcome.error.is_none() && framer.is_midway();
    }

    fn outcome<'i>(
        mode: FramerMode,
        limit: usize,
        parts: impl IntoIterator<Item = &'i [u8]>,
    ) -> Outcome {
        outcome_of(Framer::new(mode, limit), limit, parts)
    }

    fn outcome_of<'i>(
        mut framer: Framer<TestBuffer>,
        limit: usize,
        parts: impl IntoIterator<Item = &'i [u8]>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        for part in parts {
            read(&mut framer, part, &mut outcome);
        }
        assert!(framer.buffer.peak <= limit);
        outcome
    }

    /// Reads the body split in every relevant way, and checks that the output is the same.
    fn read_all_ways(mode: FramerMode, limit: usize, body: &[u8]) -> Outcome {
        let whole = outcome(mode, limit, [body]);
        for cut in 0..=body.len() {
            let (one, two) = body.split_at(cut);
            assert_eq!(outcome(mode, limit, [one, two]), whole, "cut at {cut}");
            assert_eq!(
                outcome(mode, limit, [one, &[], two, &[]]),
                whole,
                "cut at {cut}, with empty parts"
            );
        }
        for size in [1, 2, 3, 5, 7, 16, 17] {
            assert_eq!(
                outcome(mode, limit, body.chunks(size)),
                whole,
                "parts of {size}"
            );
        }
        whole
    }

    fn list(body: &str) -> Outcome {
        read_all_ways(FramerMode::List, 1000, body.as_bytes())
    }

    fn watch(body: &str) -> Outcome {
        read_all_ways(FramerMode::Watch, 1000, body.as_bytes())
    }

    fn complete(pieces: &[&str]) -> Outcome {
        let pieces = pieces.iter().map(ToString::to_string).collect();
        Outcome {
            pieces,
            error: None,
            midway: false,
        }
    }

    fn fails(pieces: &[&str], offset: u64, kind: ScanErrorKind) -> Outcome {
        Outcome {
            error: Some(ScanError { offset, kind }),
            ..complete(pieces)
        }
    }

    #[test]
    fn finds_items_and_members_in_any_order() {
        let body = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"10"},"items":[{"a":1},{"b":[2]}]}"#;
        let members = [
            "Kind \"PodList\"",
            "ApiVersion \"v1\"",
            "Metadata {\"resourceVersion\":\"10\"}",
        ];
        let items = ["item {\"a\":1}", "item {\"b\":[2]}"];
        assert_eq!(
            list(body),
            complete(&[&members[..], &items, &["end"]].concat())
        );

        let body = " {\r\n \"items\" : [ {\"a\":1} ,\n {\"b\":[2]} ] , \"metadata\" : {\"resourceVersion\":\"10\"} ,\"kind\":\"PodList\" }\r\n ";
        assert_eq!(
            list(body),
            complete(&[&items[..], &[members[2], members[0], "end"]].concat())
        );

        let body = r#"{"items":[{"a":1}],"items":[{"b":[2]}]}"#;
        assert_eq!(list(body), complete(&[&items[..], &["end"]].concat()));
    }

    #[test]
    fn finds_nothing_in_empty_lists() {
        assert_eq!(list("{}"), complete(&["end"]));
        assert_eq!(list(r#"{"items":null}"#), complete(&["end"]));
        assert_eq!(list(r#"{"items":[]}"#), complete(&["end"]));
        assert_eq!(
            list(r#"{"items" : [ ] , "kind":"L"}"#),
            complete(&["Kind \"L\"", "end"])
        );
        assert_eq!(list(""), complete(&[]));
        assert_eq!(list(" \n"), complete(&[]));
    }

    #[test]
    fn skips_other_members() {
        let long = "x".repeat(100);
        let body = format!(
            r#"{{"{long}":"{long}","other":{{"items":[{{}}]}},"":[1,2],"it":1,"items2":[{{}}],"items":[{{"items":[1]}}],"n":-1.5e3,"t":true}}"#
        );
        assert_eq!(list(&body), complete(&["item {\"items\":[1]}", "end"]));
    }

    #[test]
    fn reads_escaped_keys() {
        let body = r#"{"\u0069tems":[{}],"\u006bind":"L","\u0061\u0070\u0069\u0056\u0065\u0072\u0073\u0069\u006f\u006e":"v1"}"#;
        assert_eq!(
            list(body),
            complete(&["item {}", "Kind \"L\"", "ApiVersion \"v1\"", "end"])
        );
    }

    #[test]
    fn finds_a_status_in_place_of_a_list() {
        let body = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","details":{"retryAfterSeconds":1},"code":410}"#;
        let expected = [
            "Kind \"Status\"",
            "ApiVersion \"v1\"",
            "Metadata {}",
            "Status \"Failure\"",
            "Message \"too old\"",
            "Reason \"Expired\"",
            "Details {\"retryAfterSeconds\":1}",
            "Code 410",
            "end",
        ];
        assert_eq!(list(body), complete(&expected));
    }

    #[test]
    fn delivers_items_that_are_no_objects() {
        let body = r#"{"items":[1,"a",null,[{}], -2.5e1 ,true]}"#;
        let expected = [
            "item 1",
            "item \"a\"",
            "item null",
            "item [{}]",
            "item -2.5e1",
            "item true",
            "end",
        ];
        assert_eq!(list(body), complete(&expected));
    }

    #[test]
    fn finds_events() {
        let one =
            r#"{"type":"ADDED","object":{"a":"}]{[\"\\","n":-12.5e+3,"t":[true,false,null]}}"#;
        let two = r#"{"type":"MODIFIED","object":{"a":"\ud83e\udd80\u00e9"}}"#;
        let expected = [one, two, one].map(|event| format!("event {event}"));
        let expected = expected.each_ref().map(String::as_str);
        for between in ["", "\n", "\r\n", " \t\n\n "] {
            let body = format!("{between}{one}{between}{two}{between}{one}{between}");
            assert_eq!(watch(&body), complete(&expected));
        }
        assert_eq!(watch(""), complete(&[]));
        assert_eq!(watch("{}{}"), complete(&["event {}", "event {}"]));
    }

    #[test]
    fn lends_exactly_the_bytes_of_a_frame() {
        let events = [
            r#"{"type":"ADDED","object":{"a":"}]{[\"\\","n":-12.5e+3,"t":[true,false,null]}}"#,
            "{\"type\":\"MODIFIED\",\"object\":{\"a\":\"日本語 🦀 \\ud83e\\udd80\"}}",
        ];
        let body = events.join("\n");
        for size in 1..=body.len() {
            let mut framer = Framer::<TestBuffer>::new(FramerMode::Watch, 1000);
            let mut found = Vec::new();
            for mut input in body.as_bytes().chunks(size) {
                while let Some(piece) = framer.next(&mut input).unwrap() {
                    let Piece::Event {
                        json,
                        problem: None,
                        ..
                    } = piece
                    else {
                        panic!("{piece:?}")
                    };
                    found.push(String::from_utf8(json.to_vec()).unwrap());
                }
            }
            assert_eq!(found, events);
        }
    }

    #[test]
    fn lends_whole_frames_from_the_input() {
        let body = br#"{"items":[{"a":1},{"b":2},{"c":3}]}"#;
        let mut framer = Framer::<TestBuffer>::new(FramerMode::List, 100);
        for mut input in [&body[..21], &body[21..]] {
            while let Some(piece) = framer.next(&mut input).unwrap() {
                assert!(matches!(piece, Piece::Item { .. } | Piece::End));
            }
        }
        // Only the split item was copied.
        assert_eq!(framer.buffer.peak, br#"{"b":2}"#.len());
        assert_eq!(framer.scanner.offset(), body.len() as u64);
    }

    #[test]
    fn tells_where_a_body_ends_midway() {
        let body = r#"{"kind":"L","items":[{"a":1}],"metadata":{}}"#;
        for end in 1..body.len() {
            let found = list(&body[..end]);
            assert!(found.midway && found.error.is_none(), "cut at {end}");
        }
        let event = r#"{"type":"ADDED","object":{}}"#;
        for end in 1..event.len() {
            let found = watch(&format!("{event}\n{}", &event[..end]));
            assert!(found.midway && found.pieces.len() == 1, "cut at {end}");
        }
        assert!(!watch(event).midway);
    }

    #[test]
    fn refuses_what_is_not_a_list() {
        use ScanErrorKind::{
            ControlInString, ItemsNotAnArray, NotAnObject, TooDeepEnvelope, TooLargeEnvelope,
            TrailingData, UnexpectedByte,
        };
        assert_eq!(
            fails(&[], 0, UnexpectedByte(b'<')),
            list("<html><body>502</body></html>")
        );
        assert_eq!(fails(&[], 0, NotAnObject(b'[')), list("[]"));
        assert_eq!(fails(&[], 1, NotAnObject(b'"')), list(" \"text\""));
        assert_eq!(fails(&[], 0, NotAnObject(b'4')), list("404 page not found"));
        assert_eq!(
            fails(&[], 9, ItemsNotAnArray(b'{')),
            list(r#"{"items":{}}"#)
        );
        assert_eq!(fails(&[], 9, ItemsNotAnArray(b'1')), list(r#"{"items":1}"#));
        assert_eq!(fails(&["end"], 3, TrailingData(b'{')), list("{} {}"));
        assert_eq!(fails(&["end"], 2, TrailingData(b'x')), list("{}x"));
        assert_eq!(
            fails(&["item {}"], 12, UnexpectedByte(b'{')),
            list(r#"{"items":[{}{}]}"#)
        );
        assert_eq!(
            fails(&["item {}"], 13, UnexpectedByte(b']')),
            list(r#"{"items":[{},]}"#)
        );
        assert_eq!(
            fails(&["item {}"], 12, UnexpectedByte(b'}')),
            list(r#"{"items":[{}}"#)
        );
        assert_eq!(
            fails(&["item {}"], 18, UnexpectedByte(b'x')),
            list(r#"{"items":[{},{"x":x}]}"#)
        );
        assert_eq!(
            fails(&["Code 410"], 12, UnexpectedByte(b'}')),
            list(r#"{"code":410,}"#)
        );
        assert_eq!(
            fails(&[], 4, ControlInString(b'\n')),
            list("{\"it\nems\":[]}")
        );
        let large = format!(r#"{{"metadata":{{"a":"{}"}}}}"#, "x".repeat(1000));
        assert_eq!(fails(&[], 12, TooLargeEnvelope), list(&large));
        let bad_late = format!("{{\"metadata\":{{\"a\":\"{}\n", "x".repeat(1000));
        assert_eq!(fails(&[], 12, TooLargeEnvelope), list(&bad_late));
        let deep = format!(r#"{{"details":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        assert_eq!(fails(&[], 11, TooDeepEnvelope), list(&deep));
        let body = b"{\"metadata\":{\"a\":\"\xff\"}}";
        let found = read_all_ways(FramerMode::List, 1000, body);
        assert_eq!(fails(&[], 12, ScanErrorKind::NotUtf8Envelope), found);
    }

    #[test]
    fn refuses_what_is_not_a_watch() {
        use ScanErrorKind::{BadNumber, NotAnObject, UnexpectedByte};
        assert_eq!(fails(&[], 0, UnexpectedByte(b'<')), watch("<html>"));
        assert_eq!(fails(&[], 0, NotAnObject(b'[')), watch("[{}]"));
        assert_eq!(fails(&["event {}"], 3, NotAnObject(b'1')), watch("{}\n1"));
        assert_eq!(
            fails(&["event {}"], 2, UnexpectedByte(b',')),
            watch("{},{}")
        );
        assert_eq!(fails(&["event {}"], 2, UnexpectedByte(b'}')), watch("{}}"));
        assert_eq!(
            fails(&["event {}"], 8, BadNumber(b'}')),
            watch(r#"{}{"a":-}"#)
        );
    }

    #[test]
    fn refuses_large_members_by_their_own_limit() {
        let body = format!(r#"{{"metadata":{{"a":"{}"}}}}"#, "x".repeat(ENVELOPE_LIMIT));
        let error = ScanError {
            offset: 12,
            kind: ScanErrorKind::TooLargeEnvelope,
        };
        for size in [100, 1000, 65_536, 1 << 20] {
            let found = outcome(FramerMode::List, 1 << 20, body.as_bytes().chunks(size));
            assert_eq!(found.error, Some(error));
        }
        let skipped = body.replace("metadata", "other");
        assert_eq!(
            outcome(FramerMode::List, 100, skipped.as_bytes().chunks(77)),
            complete(&["end"])
        );
    }

    #[test]
    fn delivers_the_start_of_what_is_too_large() {
        let body = r#"{"items":[{"a":1},{"b":"0123456789"},{"c":3}]}"#;
        let expected = [
            "item {\"a\":1}",
            "item {\"b\":\"012 (18 bytes, more than the limit of 9)",
            "item {\"c\":3}",
            "end",
        ];
        assert_eq!(
            read_all_ways(FramerMode::List, 9, body.as_bytes()),
            complete(&expected)
        );
        // A frame of exactly the limit is complete.
        let whole = read_all_ways(FramerMode::List, 18, body.as_bytes());
        assert_eq!(whole.pieces[1], "item {\"b\":\"0123456789\"}");
        let one_short = read_all_ways(FramerMode::List, 17, body.as_bytes());
        assert_eq!(
            one_short.pieces[1],
            "item {\"b\":\"0123456789\" (18 bytes, more than the limit of 17)"
        );
        assert!(read_all_ways(FramerMode::Watch, 0, b"{}{}").pieces[1].contains("2 bytes"));
    }

    /// A custom resource as sent by the API server: its members are sorted, and the name follows managedFields.
    const SORTED: &str = r#"{"apiVersion":"example.com/v1","kind":"Gate","metadata":{"annotations":{"name":"no","uid":"no"},"managedFields":[{"manager":"m]","name":"no"},{}],"n\u0061me":"a\u002d1","namespace":"prod","resourceVersion":"12","uid":"6d-fe"},"spec":{"metadata":{"name":"no"},"x":1}}"#;

    #[test]
    fn finds_the_identity_of_what_is_too_large() {
        let whose = " Gate example.com/v1 of prod/a-1 u6d-fe v12";
        for (mode, body, is, of) in [
            (
                FramerMode::List,
                format!(r#"{{"items":[{SORTED},{{}}]}}"#),
                "item ",
                format!(" None{whose}"),
            ),
            (
                FramerMode::Watch,
                format!(r#"{{"object":{SORTED},"type":"DELETED"}}{{}}"#),
                "event ",
                format!(" Some(Deleted){whose}"),
            ),
        ] {
            let size = body.find(",{}]}").map_or(body.len() - 2, |end| end - 10);
            for limit in 2..size {
                let found = outcome(mode, limit, [body.as_bytes()]);
                assert!(found.pieces[0].starts_with(is), "{found:?}");
                assert!(found.pieces[0].ends_with(&of), "{limit}: {found:?}");
                assert_eq!(found.pieces[1], format!("{is}{{}}"));
                for parts in [1, 7, 64] {
                    let split = outcome(mode, limit, body.as_bytes().chunks(parts));
                    assert_eq!(split, found, "limit {limit}, parts of {parts}");
                }
            }
            let found = read_all_ways(mode, size, body.as_bytes());
            assert!(found.pieces[0].ends_with('}'), "{found:?}");
        }
    }

    #[test]
    fn leaves_out_managed_fields_of_what_is_too_large() {
        let event = format!(r#"{{"type":"ADDED","object":{SORTED}}}"#);
        let body = event.repeat(2);
        let elements = r#"{"manager":"m]","name":"no"},{}"#;
        let reduced = event.replace(elements, "");
        for limit in 2..=event.len() {
            let parts_of = |parts: usize| {
                let mut framer = Framer::new(FramerMode::Watch, limit);
                framer.skip_managed_fields(true);
                outcome_of(framer, limit, body.as_bytes().chunks(parts))
            };
            let found = parts_of(usize::MAX);
            let expected = match limit {
                _ if limit == event.len() => format!("event {event}"),
                _ if limit >= reduced.len() => format!("event {reduced}"),
                _ => format!(
                    "event {} ({} bytes, more than the limit of {limit}) Some(Added) Gate example.com/v1 of prod/a-1 u6d-fe v12",
                    &reduced[..limit],
                    reduced.len()
                ),
            };
            assert_eq!(found, complete(&[&expected, &expected]));
            for parts in [1, 5, 48, 200] {
                assert_eq!(parts_of(parts), found, "limit {limit}, parts of {parts}");
            }
        }
    }

    #[test]
    fn reports_an_identity_that_is_longer_than_its_room() {
        let room = super::super::identity::ROOM;
        for (length, fits) in [(room - 2, true), (room - 1, false), (10_000, false)] {
            let uid = "u".repeat(length);
            let body = format!(r#"{{"items":[{{"metadata":{{"uid":"{uid}","name":"ab"}}}}]}}"#);
            for parts in [1, 100, usize::MAX] {
                let found = outcome(FramerMode::List, 20, body.as_bytes().chunks(parts));
                assert_eq!(found.pieces[0].contains(&format!("of /ab u{uid}")), fits);
                assert_eq!(found.pieces[0].contains("the change is lost"), !fits);
            }
        }
    }

    #[test]
    fn survives_a_frame_of_20_megabytes() {
        let start = r#"{"type":"ADDED","object":{"metadata":{"name":"big","namespace":"ns","uid":"u","resourceVersion":"7"},"data":""#;
        let next = r#"{"type":"DELETED","object":{"metadata":{"name":"next"}}}"#;
        let big = format!("{start}{}\"}}}}", "x".repeat(20 << 20));
        let body = format!("{big}\n{next}\n");
        for size in [1000, 65_536, usize::MAX] {
            let mut framer = Framer::<TestBuffer>::new(FramerMode::Watch, 1 << 20);
            let mut names = Vec::new();
            for mut input in body.as_bytes().chunks(size) {
                while let Some(piece) = framer.next(&mut input).unwrap() {
                    let Piece::Event {
                        json,
                        problem,
                        identity,
                    } = piece
                    else {
                        panic!("{piece:?}")
                    };
                    let event = WatchEvent::parse(json).unwrap();
                    let head = identity.map_or_else(
                        || ObjectHead::parse(event.object, true),
                        |identity| identity.head(event.object, true),
                    );
                    names.push((
                        head.name.to_string(),
                        head.resource_version.to_string(),
                        problem,
                    ));
                }
            }
            let problem = FrameProblem::TooLarge {
                size: big.len() as u64,
                limit: 1 << 20,
            };
            let expected = [
                ("big".to_string(), "7".to_string(), Some(problem)),
                ("next".to_string(), String::new(), None),
            ];
            assert_eq!(names, expected);
            assert!(framer.buffer.peak <= 1 << 20);
        }
    }

    #[test]
    fn goes_on_after_what_is_too_deep() {
        let deep = format!(
            r#"{{"metadata":{{"name":"deep"}},"a":{}{}}}"#,
            "[".repeat(10_000),
            "]".repeat(10_000)
        );
        let body = format!(r#"{{"items":[{{"a":1}},{deep},{{"b":2}}],"kind":"L"}}"#);
        for size in [1, 7, 1000, usize::MAX] {
            let found = outcome(FramerMode::List, 1 << 20, body.as_bytes().chunks(size));
            let expected = [
                "item {\"a\":1}",
                &format!("item {deep} (nested too deeply)"),
                "item {\"b\":2}",
                "Kind \"L\"",
                "end",
            ];
            assert_eq!(found, complete(&expected));
        }
        assert!(ObjectHead::parse(deep.as_bytes(), false).name == "deep");
    }

    #[test]
    fn goes_on_after_what_is_not_utf8() {
        let body = b"{\"items\":[{\"a\":\"\xc3\xa9\"},{\"a\":\"\xc3\"},{\"a\":\"e\"},{\"a\":\"\xed\xa0\x80\"},{\"a\":\"\xf0\x9f\xa6\x80\"}]}";
        let found = read_all_ways(FramerMode::List, 1000, body);
        let bad: Vec<_> = found
            .pieces
            .iter()
            .map(|piece| piece.ends_with("(not UTF-8)"))
            .collect();
        assert_eq!(bad, [false, true, false, true, false, false]);
        assert_eq!(found.error, None);
    }

    #[test]
    fn starts_over() {
        let mut framer = Framer::new(FramerMode::List, 1000);
        let mut found = Outcome::default();
        read(&mut framer, br#"{"items":[{"a"#, &mut found);
        assert!(found.midway);
        framer.reset(FramerMode::Watch);
        found = Outcome::default();
        read(&mut framer, br#"{"b":1}<"#, &mut found);
        assert_eq!(
            fails(&["event {\"b\":1}"], 7, ScanErrorKind::UnexpectedByte(b'<')),
            found
        );
        framer.reset(FramerMode::List);
        found = Outcome::default();
        read(&mut framer, b"{}", &mut found);
        assert_eq!(found, complete(&["end"]));
    }

    /// A buffer that rejects bytes within its limit must not produce a frame with a gap.
    #[test]
    fn reports_what_the_buffer_refuses() {
        #[derive(Default)]
        struct Stubborn(Vec<u8>);
        impl FrameBuffer for Stubborn {
            fn extend(&mut self, bytes: &[u8]) -> Result<(), ()> {
                if bytes.len() > 2 {
                    return Err(());
                }
                self.0.extend_from_slice(bytes);
                Ok(())
            }
            fn as_slice(&self) -> &[u8] {
                &self.0
            }
            fn remove(&mut self, start: usize, end: usize) {
                self.0.drain(start..end);
            }
            fn clear(&mut self) {
                self.0.clear();
            }
            fn set_limit(&mut self, _: usize) {}
            fn limit(&self) -> usize {
                1000
            }
        }
        let mut framer = Framer::<Stubborn>::new(FramerMode::Watch, 1000);
        for mut input in [&b"{\""[..], b"abc\":", b"1"] {
            assert_eq!(framer.next(&mut input), Ok(None));
        }
        let mut input = &b"}{}"[..];
        let Ok(Some(piece)) = framer.next(&mut input) else {
            panic!("a frame is refused")
        };
        assert_eq!(
            show(&piece),
            "event {\" (9 bytes, more than the limit of 1000)"
        );
        let Ok(Some(piece)) = framer.next(&mut input) else {
            panic!("a frame follows")
        };
        assert_eq!(show(&piece), "event {}");
    }

    #[test]
    fn survives_anything() {
        let words: [&[u8]; 20] = [
            b"{",
            b"}",
            b"[",
            b"]",
            b"\"items\":[",
            b"\"kind\":",
            b"\"metadata\":{",
            b",",
            b":",
            b"\"a\":",
            b"\"",
            b"1",
            b"null",
            b"\\",
            b"\\u00e9",
            "é".as_bytes(),
            b"\xff",
            b" ",
            b"\n",
            b"{\"x\":[{}]}",
        ];
        let mut random = 88_172_645_463_325_252_u64;
        for round in 0..crate::rounds(10_000) {
            let mode = if round % 2 == 0 {
                FramerMode::List
            } else {
                FramerMode::Watch
            };
            let mut body = Vec::new();
            if round % 4 < 3 {
                body.extend_from_slice(b"{\"items\":[");
            }
            for _ in 0..random % 24 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                body.extend_from_slice(words[(random >> 30) as usize % words.len()]);
            }
            let limit = (random >> 50) as usize % 40;
            let whole = outcome(mode, limit, [&body[..]]);
            for size in [1, 3, 8] {
                assert_eq!(
                    outcome(mode, limit, body.chunks(size)),
                    whole,
                    "{}",
                    body.escape_ascii()
                );
            }
        }
    }
}
