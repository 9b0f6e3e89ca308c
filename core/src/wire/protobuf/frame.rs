//! Framing: finds the items of a list and the events of a watch in a response body, no matter how it is split.

use super::MAGIC;
use super::collect::Collector;
use super::field::{ITEMS, LIST_META, RAW, TYPE_META};
use super::message::{Varint, Wire, tag};
use crate::json::{ScanError, ScanErrorKind};
use crate::wire::frame::{ENVELOPE_LIMIT, Found, What, take};
use crate::wire::{FrameBuffer, FrameProblem, FramerMode, ListMember, ObjectIdentity};

/// Cuts a response body into frames by the lengths in it. The buffer is the framer's.
///
/// A list is an envelope: a magic number, and the message `Unknown` with the kind and the list itself. The kind usually
/// precedes the list. A watch is a sequence of messages, each after its length in four bytes.
#[derive(Debug)]
pub(in crate::wire) struct Cutter {
    mode: FramerMode,
    stage: ProtobufStage,
    level: FrameMessage,
    varint: Varint,
    /// The offset in the body.
    offset: u64,
    /// The end of the list within the envelope.
    list_end: u64,
    /// The kind of the list was found.
    is_typed: bool,
    /// The list was read.
    is_read: bool,
    /// The last byte of the list was read, but left in the input, so that the caller comes back for [`Found::End`] even
    /// if no byte follows.
    is_held: bool,
    /// The bytes of the current frame that are still to be read.
    left: u64,
    /// The size of the current frame.
    size: u64,
    /// The number of its bytes that count towards the limit, if it exceeds it.
    counted: u64,
    exceeds: bool,
    /// The buffer rejected bytes although they were within its limit.
    refused: bool,
    skips_managed_fields: bool,
    /// Reads large frames.
    collector: Collector,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProtobufStage {
    /// In the magic number, after this many bytes.
    Magic(u8),
    /// In the length of an event, after this many bytes.
    EventLength(u8),
    Tag,
    Length(u32),
    /// In a value that is not needed.
    SkipVarint,
    Skip,
    Frame(What),
    Ended,
}

/// The message whose fields are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameMessage {
    Envelope,
    List,
}

impl Cutter {
    pub(in crate::wire) const fn new(mode: FramerMode) -> Self {
        Self {
            mode,
            stage: Self::start(mode),
            level: FrameMessage::Envelope,
            varint: Varint::new(),
            offset: 0,
            list_end: 0,
            is_typed: false,
            is_read: false,
            is_held: false,
            left: 0,
            size: 0,
            counted: 0,
            exceeds: false,
            refused: false,
            skips_managed_fields: false,
            collector: Collector::new(),
        }
    }

    /// Starts over with another response body.
    pub(in crate::wire) fn reset(&mut self, mode: FramerMode) {
        self.mode = mode;
        self.stage = Self::start(mode);
        self.level = FrameMessage::Envelope;
        self.varint = Varint::new();
        self.offset = 0;
        self.is_typed = false;
        self.is_read = false;
        self.is_held = false;
        self.left = 0;
    }

    pub(in crate::wire) const fn skip_managed_fields(&mut self, skip: bool) {
        self.skips_managed_fields = skip;
    }

    /// Returns whether the body would be truncated if it ended here.
    pub(in crate::wire) const fn is_midway(&self) -> bool {
        !matches!(
            self.stage,
            ProtobufStage::Magic(0) | ProtobufStage::EventLength(0) | ProtobufStage::Ended
        )
    }

    /// Returns whether the next byte belongs to a frame of which earlier bytes are in the buffer.
    pub(in crate::wire) const fn is_in_frame(&self) -> bool {
        matches!(self.stage, ProtobufStage::Frame(_))
    }

    /// Returns the identity from the frame that was delivered last, if it exceeded the limit.
    pub(in crate::wire) fn identity(&self) -> Option<&ObjectIdentity> {
        let identity = self.collector.identity();
        (self.exceeds && identity.is_whole()).then_some(identity)
    }

    const fn start(mode: FramerMode) -> ProtobufStage {
        match mode {
            FramerMode::List => ProtobufStage::Magic(0),
            FramerMode::Watch => ProtobufStage::EventLength(0),
        }
    }

    /// Consumes input up to the end of the next frame.
    pub(in crate::wire) fn advance<'i, B: FrameBuffer>(
        &mut self,
        buffer: &mut B,
        input: &mut &'i [u8],
    ) -> Result<Option<Found<'i>>, ScanError> {
        if self.is_held && !input.is_empty() {
            self.is_held = false;
            take(input, 1);
        }
        loop {
            if self.level == FrameMessage::List && self.offset == self.list_end {
                self.end_list()?;
            }
            if self.is_read && self.is_typed && self.stage == ProtobufStage::Tag {
                self.stage = ProtobufStage::Ended;
                return Ok(Some(Found::End));
            }
            match self.stage {
                ProtobufStage::Frame(what) => return self.read_frame(buffer, what, input),
                ProtobufStage::Skip => {
                    self.consume(input);
                    if self.left > 0 {
                        return Ok(None);
                    }
                    self.stage = ProtobufStage::Tag;
                }
                // Fields of the envelope after the list.
                ProtobufStage::Ended => {
                    *input = &[];
                    return Ok(None);
                }
                ProtobufStage::Magic(_)
                | ProtobufStage::EventLength(_)
                | ProtobufStage::Tag
                | ProtobufStage::Length(_)
                | ProtobufStage::SkipVarint => {
                    let before = *input;
                    let Some((first, rest)) = before.split_first() else {
                        return Ok(None);
                    };
                    self.stage = self.byte(*first)?;
                    *input = rest;
                    self.offset += 1;
                    if let ProtobufStage::Frame(what) = self.stage
                        && let Some(found) = self.begin(what, buffer)?
                    {
                        self.hold_back(before, input);
                        return Ok(Some(found));
                    }
                }
            }
        }
    }

    /// Returns to the envelope at the end of the list.
    fn end_list(&mut self) -> Result<(), ScanError> {
        match self.stage {
            ProtobufStage::Tag if self.varint.is_empty() => {
                self.level = FrameMessage::Envelope;
                self.is_read = true;
                Ok(())
            }
            // What ends here is handled first.
            ProtobufStage::Frame(_) | ProtobufStage::Skip => Ok(()),
            // A field is cut off.
            ProtobufStage::Tag
            | ProtobufStage::Length(_)
            | ProtobufStage::SkipVarint
            | ProtobufStage::Magic(_)
            | ProtobufStage::EventLength(_)
            | ProtobufStage::Ended => Err(self.error(ScanErrorKind::BadLength)),
        }
    }

    /// Returns the stage after a byte outside of frames.
    fn byte(&mut self, byte: u8) -> Result<ProtobufStage, ScanError> {
        match self.stage {
            ProtobufStage::Magic(at) => {
                if MAGIC.get(usize::from(at)) != Some(&byte) {
                    return Err(self.error(ScanErrorKind::NoMagic(byte)));
                }
                Ok(if usize::from(at) + 1 == MAGIC.len() {
                    ProtobufStage::Tag
                } else {
                    ProtobufStage::Magic(at + 1)
                })
            }
            ProtobufStage::EventLength(at) => {
                if at == 0 {
                    self.left = 0;
                }
                self.left = self.left << 8 | u64::from(byte);
                Ok(if at == 3 {
                    ProtobufStage::Frame(What::Event)
                } else {
                    ProtobufStage::EventLength(at + 1)
                })
            }
            ProtobufStage::Tag => match self.varint(byte)? {
                None => Ok(ProtobufStage::Tag),
                Some(value) => match tag(value) {
                    Some((_, Wire::Varint)) => Ok(ProtobufStage::SkipVarint),
                    Some((_, Wire::Fixed64)) => self.skip(8),
                    Some((_, Wire::Fixed32)) => self.skip(4),
                    Some((number, Wire::Bytes)) => Ok(ProtobufStage::Length(number)),
                    None => Err(self.error(ScanErrorKind::BadTag)),
                },
            },
            ProtobufStage::Length(number) => match self.varint(byte)? {
                None => Ok(ProtobufStage::Length(number)),
                Some(length) => self.value(number, length),
            },
            ProtobufStage::SkipVarint => Ok(match self.varint(byte)? {
                None => ProtobufStage::SkipVarint,
                Some(_) => ProtobufStage::Tag,
            }),
            ProtobufStage::Skip | ProtobufStage::Frame(_) | ProtobufStage::Ended => Ok(self.stage),
        }
    }

    /// Returns the stage in a value of this length that is not needed.
    fn skip(&mut self, length: u64) -> Result<ProtobufStage, ScanError> {
        // The offset is that of the last byte before the value.
        let end = (self.offset + 1).checked_add(length);
        let fits =
            end.is_some_and(|end| self.level == FrameMessage::Envelope || end <= self.list_end);
        if !fits {
            return Err(self.error(ScanErrorKind::BadLength));
        }
        self.left = length;
        Ok(ProtobufStage::Skip)
    }

    /// Returns the stage in the value of a field whose length was read.
    fn value(&mut self, number: u32, length: u64) -> Result<ProtobufStage, ScanError> {
        let skip = self.skip(length)?;
        match (self.level, number) {
            (FrameMessage::Envelope, TYPE_META) => {
                Ok(ProtobufStage::Frame(What::Member(ListMember::TypeMeta)))
            }
            (FrameMessage::Envelope, RAW) => {
                if self.is_read {
                    return Err(self.error(ScanErrorKind::TwoLists));
                }
                self.level = FrameMessage::List;
                self.list_end = self.offset + 1 + length;
                Ok(ProtobufStage::Tag)
            }
            (FrameMessage::List, LIST_META) => {
                Ok(ProtobufStage::Frame(What::Member(ListMember::Metadata)))
            }
            (FrameMessage::List, ITEMS) => Ok(ProtobufStage::Frame(What::Item)),
            _ => Ok(skip),
        }
    }

    fn varint(&mut self, byte: u8) -> Result<Option<u64>, ScanError> {
        let offset = self.offset;
        self.varint.push(byte).map_err(|()| ScanError {
            offset,
            kind: ScanErrorKind::BadVarint,
        })
    }

    /// Begins a frame whose length is known. Returns the frame if it is empty.
    fn begin<'i, B: FrameBuffer>(
        &mut self,
        what: What,
        buffer: &mut B,
    ) -> Result<Option<Found<'i>>, ScanError> {
        self.size = self.left;
        self.counted = self.left;
        self.refused = false;
        self.exceeds = false;
        if let What::Member(_) = what {
            if self.size > buffer.limit().min(ENVELOPE_LIMIT) as u64 {
                return Err(self.error(ScanErrorKind::TooLargeEnvelope));
            }
        } else if self.size > buffer.limit() as u64 {
            self.exceed(what);
        }
        if self.left == 0 {
            return Ok(Some(self.end(what, Some(&[]))));
        }
        Ok(None)
    }

    fn exceed(&mut self, what: What) {
        self.exceeds = true;
        self.counted = 0;
        self.collector
            .begin(what == What::Event, self.skips_managed_fields, self.size);
    }

    /// Reads more of the current frame; `None` if it continues after the input.
    fn read_frame<'i, B: FrameBuffer>(
        &mut self,
        buffer: &mut B,
        what: What,
        input: &mut &'i [u8],
    ) -> Result<Option<Found<'i>>, ScanError> {
        let split = self.left < self.size;
        let before = *input;
        let part = self.consume(input);
        let ended = self.left == 0;
        if !self.exceeds && (split || !ended) && buffer.extend(part).is_err() {
            // The buffer has the complete frame so far.
            if let What::Member(_) = what {
                return Err(self.error(ScanErrorKind::TooLargeEnvelope));
            }
            self.exceed(what);
            self.refused = true;
            self.collector.push(buffer.as_slice(), &mut |_| {});
            buffer.clear();
        }
        if self.exceeds {
            let limit = buffer.limit();
            let (counted, refused) = (&mut self.counted, &mut self.refused);
            self.collector.push(part, &mut |kept| {
                *counted += kept.len() as u64;
                let room = limit.saturating_sub(buffer.as_slice().len());
                if !*refused {
                    *refused = buffer.extend(kept.get(..room).unwrap_or(kept)).is_err();
                }
            });
        }
        if !ended {
            return Ok(None);
        }
        let found = self.end(what, (!split && !self.exceeds).then_some(part));
        self.hold_back(before, input);
        Ok(Some(found))
    }

    /// Leaves the last byte of `before` that was consumed in the input, if the list ends with it.
    fn hold_back<'i>(&mut self, before: &'i [u8], input: &mut &'i [u8]) {
        let is_end = match self.level {
            FrameMessage::List => self.offset == self.list_end,
            FrameMessage::Envelope => self.is_read,
        };
        if is_end && self.is_typed && self.stage == ProtobufStage::Tag {
            let consumed = before.len() - input.len();
            *input = before.get(consumed - 1..).unwrap_or_default();
            self.is_held = true;
        }
    }

    fn end<'i>(&mut self, what: What, lent: Option<&'i [u8]>) -> Found<'i> {
        self.stage = match what {
            What::Event => ProtobufStage::EventLength(0),
            What::Item | What::Member(_) => ProtobufStage::Tag,
        };
        self.is_typed |= what == What::Member(ListMember::TypeMeta);
        Found::Frame {
            what,
            lent,
            problem: None,
        }
    }

    /// Returns the problem of the frame that was read last.
    pub(in crate::wire) fn problem(&self, limit: usize) -> Option<FrameProblem> {
        let size = self.counted;
        if !self.exceeds {
            None
        } else if self.collector.is_malformed() {
            Some(FrameProblem::Malformed)
        } else if !self.collector.identity().is_whole() {
            Some(FrameProblem::Unidentifiable { size, limit })
        } else if size > limit as u64 || self.refused {
            Some(FrameProblem::TooLarge { size, limit })
        } else {
            None
        }
    }

    fn consume<'i>(&mut self, input: &mut &'i [u8]) -> &'i [u8] {
        let length = usize::try_from(self.left).unwrap_or(usize::MAX);
        let part = take(input, length.min(input.len()));
        self.left -= part.len() as u64;
        self.offset += part.len() as u64;
        part
    }

    const fn error(&self, kind: ScanErrorKind) -> ScanError {
        ScanError {
            offset: self.offset,
            kind,
        }
    }
}
