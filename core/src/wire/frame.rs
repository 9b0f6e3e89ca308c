//! Finds the items of a list and the events of a watch in a response body, however it is split.

use core::fmt;

use crate::json::{JsonStr, ScanError, ScanErrorKind, Scanner, Step};

/// Holds the one frame that is split between two pieces of input.
pub trait FrameBuffer: Default {
    /// Appends `bytes`, all of them or none.
    ///
    /// # Errors
    ///
    /// When there would be more than [`limit`](Self::limit) bytes.
    #[allow(clippy::result_unit_err)] // There is one reason to fail, and the caller knows it.
    fn extend(&mut self, bytes: &[u8]) -> Result<(), ()>;

    /// Returns what has been appended.
    fn as_slice(&self) -> &[u8];

    /// Removes everything; storage that a rare large frame has needed should be given back.
    fn clear(&mut self);

    /// Sets how many bytes it may hold.
    fn set_limit(&mut self, limit: usize);

    /// Returns how many bytes it may hold: the limit that was set, or less if there is no room for so many.
    fn limit(&self) -> usize;
}

/// What a response body consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FramerMode {
    /// One object, of which the elements of `items` are wanted one by one.
    List,
    /// Objects one after another.
    Watch,
}

/// Finds frames in a response body: the items of a list or the events of a watch.
///
/// It holds no more than one frame, and that only while it is split. The same pieces come out wherever the body is
/// split. Frames that are too large, too deeply nested or not UTF-8 are delivered with a [`FrameProblem`], and the
/// frames after them are not affected; what is not JSON is an error, and ends the body.
///
/// # Examples
///
/// ```ignore
/// let mut framer = Framer::<Buffer>::new(FramerMode::List, 1 << 20);
/// while let Some(piece) = framer.next(&mut input)? {
///     match piece { .. }
/// }
/// ```
#[derive(Debug)]
pub struct Framer<B> {
    scanner: Scanner,
    stage: Stage,
    mode: FramerMode,
    /// What was consumed of a frame that is split, up to the limit; then the frame, while it is lent.
    buffer: B,
    /// How many bytes of the current frame were consumed in earlier calls.
    size: u64,
    /// Where in the body the current frame begins.
    start: u64,
    /// Whether the buffer did not take what its limit said it would.
    refused: bool,
    key: KeyText,
    failure: Option<ScanError>,
}

impl<B: FrameBuffer> Framer<B> {
    /// Creates a framer for one response body, which delivers frames of up to `limit` bytes whole.
    ///
    /// If the buffer cannot hold so many, what it can hold is the limit. The limit is the same for frames that need
    /// no buffer because they are not split.
    pub fn new(mode: FramerMode, limit: usize) -> Self {
        let mut buffer = B::default();
        buffer.set_limit(limit);
        Self {
            scanner: Scanner::new(),
            stage: Stage::Start,
            mode,
            buffer,
            size: 0,
            start: 0,
            refused: false,
            key: KeyText::default(),
            failure: None,
        }
    }

    /// Starts over with another response body.
    pub fn reset(&mut self, mode: FramerMode) {
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
    /// When the body is not what it should be. Every further call returns the same error.
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
                match what {
                    What::Item => Piece::Item { json, problem },
                    What::Event => Piece::Event { json, problem },
                    What::Member(name) => Piece::Member { name, json },
                }
            }
        }))
    }

    /// Returns whether the body, if it ended here, would end inside of something.
    ///
    /// That is inside of an event, or inside of a list. An empty body is not midway, but no list either: a list is
    /// complete with [`Piece::End`] only.
    pub fn is_midway(&self) -> bool {
        !matches!(self.stage, Stage::Start | Stage::Ended)
    }

    /// Returns the number of bytes of the body that were consumed.
    pub fn offset(&self) -> u64 {
        self.scanner.offset()
    }

    fn advance<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Found<'i>>, ScanError> {
        if self.size == 0 && !self.buffer.as_slice().is_empty() {
            // The frame that was lent by the call before.
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
                    if step == Step::More {
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

    /// The stage that follows a step made outside of frames.
    fn after(&mut self, step: Step, input: &mut &[u8]) -> Result<Stage, ScanError> {
        let offset = self.scanner.offset();
        let error = |kind| Err(ScanError { offset, kind });
        match (self.stage, step) {
            (Stage::Start, Step::Value(first @ b'{')) => match self.mode {
                FramerMode::Watch => Ok(self.begin(What::Event)),
                FramerMode::List => {
                    self.enter(first, input);
                    Ok(Stage::Between)
                }
            },
            (Stage::Start, Step::Value(first)) => error(ScanErrorKind::NotAnObject(first)),
            (Stage::Between, Step::KeyStart) => {
                self.key = KeyText::default();
                Ok(Stage::Key)
            }
            (Stage::Between, Step::Closed) => Ok(Stage::Ended),
            (Stage::Key, Step::KeyEnd) => Ok(Stage::Named(self.key.name())),
            (Stage::Named(Name::Items), Step::Value(first @ b'[')) => {
                self.enter(first, input);
                Ok(Stage::Elements)
            }
            (Stage::Named(Name::Items), Step::Value(first)) if first != b'n' => {
                error(ScanErrorKind::ItemsNotAnArray(first))
            }
            (Stage::Named(Name::Member(name)), Step::Value(_)) => {
                Ok(self.begin(What::Member(name)))
            }
            (Stage::Named(_), Step::Value(_)) => Ok(Stage::Skip),
            (Stage::Elements, Step::Value(_)) => Ok(self.begin(What::Item)),
            (Stage::Elements, Step::Closed) => Ok(Stage::Between),
            (Stage::Ended, Step::Value(first)) => error(ScanErrorKind::TrailingData(first)),
            // The scanner takes no such step from such a place.
            _ => error(ScanErrorKind::UnexpectedByte(0)),
        }
    }

    fn enter(&mut self, first: u8, input: &mut &[u8]) {
        let mut at = 0;
        self.scanner.enter(first, &mut at);
        take(input, at);
    }

    fn begin(&mut self, what: What) -> Stage {
        self.scanner.clear_marks();
        self.start = self.scanner.offset();
        self.refused = false;
        Stage::Frame(what)
    }

    /// Reads on in the current frame; `None` if it goes on after the input.
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
            // Comes before other errors, so that it does not matter how the body is split.
            return Err(self.envelope_error(ScanErrorKind::TooLargeEnvelope));
        }
        let ended = result?;
        if split || !ended {
            self.keep(part, limit);
        }
        if !ended {
            self.size = size;
            return Ok(None);
        }

        self.size = 0;
        self.stage = what.stage_after();
        let lent = (!split).then(|| part.get(..limit).unwrap_or(part));
        let json = lent.unwrap_or_else(|| self.buffer.as_slice());
        let problem = if !fits || self.refused {
            Some(FrameProblem::TooLarge { size, limit })
        } else if self.scanner.too_deep() {
            Some(FrameProblem::TooDeep)
        } else if self.scanner.saw_non_ascii() && core::str::from_utf8(json).is_err() {
            Some(FrameProblem::NotUtf8)
        } else {
            None
        };
        if let (What::Member(_), Some(problem)) = (what, problem) {
            return Err(self.envelope_error(match problem {
                FrameProblem::TooLarge { .. } => ScanErrorKind::TooLargeEnvelope,
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

    /// Keeps what fits of a part of a split frame.
    fn keep(&mut self, part: &[u8], limit: usize) {
        let room = limit.saturating_sub(self.buffer.as_slice().len());
        if !self.refused {
            self.refused = self
                .buffer
                .extend(part.get(..room).unwrap_or(part))
                .is_err();
        }
    }

    fn envelope_error(&self, kind: ScanErrorKind) -> ScanError {
        ScanError {
            offset: self.start,
            kind,
        }
    }

    /// Tells bytes after a list from those that are wrong inside of one.
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
        /// Its JSON; only the first part with [`FrameProblem::TooLarge`].
        json: &'a [u8],
        /// What is wrong with it.
        problem: Option<FrameProblem>,
    },
    /// Another member of the list itself.
    Member {
        /// Which one.
        name: ListMember,
        /// The JSON of its value.
        json: &'a [u8],
    },
    /// An event of a watch.
    Event {
        /// Its JSON; only the first part with [`FrameProblem::TooLarge`].
        json: &'a [u8],
        /// What is wrong with it.
        problem: Option<FrameProblem>,
    },
    /// The end of a list; only whitespace may follow.
    End,
}

/// The members of a list besides `items`, and of a `Status` sent in its place, that are delivered.
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
    /// What went wrong, for people.
    Message,
    /// What went wrong, in a word.
    Reason,
    /// What went wrong, as an HTTP status code.
    Code,
    /// More on what went wrong.
    Details,
}

/// Why a frame is of no use, though what comes after it is.
///
/// Of several reasons the first in this order is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameProblem {
    /// It has more bytes than the limit; the first so many are delivered.
    TooLarge {
        /// The size of the whole frame, in bytes.
        size: u64,
        /// The largest size that is delivered whole.
        limit: usize,
    },
    /// It is nested more than [`DEPTH_LIMIT`](crate::json::scan::DEPTH_LIMIT) levels deep, what is around it included.
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
            Self::TooDeep => f.write_str("nested too deeply"),
            Self::NotUtf8 => f.write_str("not UTF-8"),
        }
    }
}

/// Where in the body the framer is.
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
    /// In the value of a member that is not wanted.
    Skip,
    /// After the list.
    Ended,
}

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Item,
    Member(ListMember),
    Event,
}

impl What {
    /// The depth around the frame.
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

/// What a call has found, without what it borrows from the framer.
enum Found<'i> {
    Frame {
        what: What,
        /// The frame, where it is whole in the input; otherwise it is in the buffer.
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

/// The text of a key, long enough for every key that matters even if all of it is escaped.
#[derive(Debug, Clone, Copy)]
struct KeyText {
    bytes: [u8; 64],
    /// More than there is room for if the key is too long.
    length: usize,
}

impl KeyText {
    fn extend(&mut self, part: &[u8]) {
        let end = self.length.saturating_add(part.len());
        if let Some(room) = self.bytes.get_mut(self.length..end) {
            room.copy_from_slice(part);
        }
        self.length = end;
    }

    /// The name, from a text that ends with the closing quote.
    fn name(&self) -> Name {
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
        let Some([text @ .., b'"']) = self.bytes.get(..self.length) else {
            return Name::Other;
        };
        let text = JsonStr::new(text);
        KNOWN
            .iter()
            .find(|(known, _)| text.eq_str(known))
            .map_or(Name::Other, |(_, name)| *name)
    }
}

impl Default for KeyText {
    fn default() -> Self {
        Self {
            bytes: [0; 64],
            length: 0,
        }
    }
}

/// The number of containers open between the members of a list.
const LIST_DEPTH: u32 = 1;

/// The largest size of a member of a list, other than `items`, that is delivered.
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

    /// What comes out of a body: pieces as text, then the error if there is one, and whether it ends midway.
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
            } => format!("item {}", text(json)),
            Piece::Item {
                json,
                problem: Some(problem),
            } => format!("item {} ({problem})", text(json)),
            Piece::Event {
                json,
                problem: None,
            } => format!("event {}", text(json)),
            Piece::Event {
                json,
                problem: Some(problem),
            } => format!("event {} ({problem})", text(json)),
            Piece::Member { name, json } => format!("{name:?} {}", text(json)),
            Piece::End => "end".to_string(),
        }
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
        let mut framer = Framer::new(mode, limit);
        let mut outcome = Outcome::default();
        for part in parts {
            read(&mut framer, part, &mut outcome);
        }
        assert!(framer.buffer.peak <= limit);
        outcome
    }

    /// Reads the body split in every way that matters, and checks that it makes no difference.
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
        // Only the item that is split was copied.
        assert_eq!(framer.buffer.peak, br#"{"b":2}"#.len());
        assert_eq!(framer.offset(), body.len() as u64);
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
        // A frame as large as the limit is whole.
        let whole = read_all_ways(FramerMode::List, 18, body.as_bytes());
        assert_eq!(whole.pieces[1], "item {\"b\":\"0123456789\"}");
        let one_short = read_all_ways(FramerMode::List, 17, body.as_bytes());
        assert_eq!(
            one_short.pieces[1],
            "item {\"b\":\"0123456789\" (18 bytes, more than the limit of 17)"
        );
        assert!(read_all_ways(FramerMode::Watch, 0, b"{}{}").pieces[1].contains("2 bytes"));
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
                    let Piece::Event { json, problem } = piece else {
                        panic!("{piece:?}")
                    };
                    let event = WatchEvent::parse(json).unwrap();
                    let head = ObjectHead::parse(event.object, true);
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

    /// A buffer that breaks its promise must not make a frame with a hole.
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
        let problem = Some(FrameProblem::TooLarge {
            size: 9,
            limit: 1000,
        });
        assert_eq!(
            framer.next(&mut input),
            Ok(Some(Piece::Event {
                json: b"{\"",
                problem
            }))
        );
        assert_eq!(
            framer.next(&mut input),
            Ok(Some(Piece::Event {
                json: b"{}",
                problem: None
            }))
        );
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
