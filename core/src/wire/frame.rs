//! Framing: finds the items of a list and the events of a watch in a response body, no matter how it is split.

mod piece;
mod stage;
#[cfg(test)]
mod tests;

pub use self::piece::{ListMember, Piece};
pub use self::stage::FramerMode;
pub(super) use self::stage::{Found, What};
use self::stage::{LIST_DEPTH, Name, Stage, name_of};
use super::identity::{Collector, KeyText, ObjectIdentity};
#[cfg(feature = "protobuf")]
use super::protobuf::Cutter;
use super::{Format, FrameBuffer, FrameProblem};
use crate::json::{ScanError, ScanErrorKind, Scanner, Stop};

/// Finds frames in a response body, in JSON or protobuf: the items of a list or the events of a watch.
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
    format: Format,
    #[cfg(feature = "protobuf")]
    protobuf: Cutter,
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
    /// Creates a framer for one response body in JSON, which delivers complete frames of up to `limit` bytes.
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
            format: Format::Json,
            #[cfg(feature = "protobuf")]
            protobuf: Cutter::new(mode),
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
        #[cfg(feature = "protobuf")]
        self.protobuf.skip_managed_fields(skip);
    }

    /// Starts over with another response body, in this format.
    pub fn reset(&mut self, mode: FramerMode, format: Format) {
        self.format = format;
        #[cfg(feature = "protobuf")]
        self.protobuf.reset(mode);
        self.scanner = Scanner::new();
        self.stage = Stage::Start;
        self.mode = mode;
        self.buffer.clear();
        self.size = 0;
        self.refused = false;
        self.failure = None;
    }

    pub(crate) const fn format(&self) -> Format {
        self.format
    }

    pub(crate) const fn mode(&self) -> FramerMode {
        self.mode
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
        #[cfg(feature = "protobuf")]
        if self.format == Format::Protobuf {
            return self.next_in_protobuf(input);
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
                let bytes = lent.unwrap_or_else(|| self.buffer.as_slice());
                let identity = matches!(problem, Some(FrameProblem::TooLarge { .. }))
                    .then(|| self.collector.identity());
                piece(what, Format::Json, bytes, problem, identity)
            }
        }))
    }

    #[cfg(feature = "protobuf")]
    fn next_in_protobuf<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Piece<'a>>, ScanError> {
        if !self.protobuf.is_in_frame() && !self.buffer.as_slice().is_empty() {
            // This frame was lent by the previous call.
            self.buffer.clear();
        }
        let found = self
            .protobuf
            .advance(&mut self.buffer, input)
            .inspect_err(|failure| self.failure = Some(*failure))?;
        Ok(found.map(|found| match found {
            Found::End => Piece::End,
            Found::Frame { what, lent, .. } => {
                let bytes = lent.unwrap_or_else(|| self.buffer.as_slice());
                let problem = self.protobuf.problem(self.buffer.limit());
                let identity = self.protobuf.identity();
                piece(what, Format::Protobuf, bytes, problem, identity)
            }
        }))
    }

    /// Returns whether the body would be truncated if it ended here, within an event or a list.
    ///
    /// Returns false for an empty body, although that is not a list: a list is complete only with [`Piece::End`].
    pub fn is_midway(&self) -> bool {
        #[cfg(feature = "protobuf")]
        if self.format == Format::Protobuf {
            return self.protobuf.is_midway();
        }
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
                FrameProblem::NotUtf8 | FrameProblem::Malformed => ScanErrorKind::NotUtf8Envelope,
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

const fn piece<'a>(
    what: What,
    format: Format,
    bytes: &'a [u8],
    problem: Option<FrameProblem>,
    identity: Option<&'a ObjectIdentity>,
) -> Piece<'a> {
    match what {
        What::Item => Piece::Item {
            format,
            bytes,
            problem,
            identity,
        },
        What::Event => Piece::Event {
            format,
            bytes,
            problem,
            identity,
        },
        What::Member(name) => Piece::Member {
            name,
            format,
            bytes,
        },
    }
}

/// The maximum size of a member of a list, other than `items`, in bytes.
pub(super) const ENVELOPE_LIMIT: usize = 64 * 1024;

/// Takes the first `length` bytes from the input.
pub(super) fn take<'i>(input: &mut &'i [u8], length: usize) -> &'i [u8] {
    let (taken, rest) = input.split_at_checked(length).unwrap_or((input, &[]));
    *input = rest;
    taken
}
