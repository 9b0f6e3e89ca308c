//! The identity of an object whose frame exceeds the limit, collected as its bytes pass.

use super::MAGIC;
use super::field::{
    API_VERSION, EVENT_OBJECT, EVENT_TYPE, EXTENSION_RAW, KIND, MANAGED_FIELDS, METADATA, NAME,
    NAMESPACE, RAW, RESOURCE_VERSION, TYPE_META, UID,
};
use super::message::{Encoded, Varint, Wire, tag};
use crate::wire::ObjectIdentity;
use crate::wire::identity::Part;

/// Walks over a frame, collects the identity, and keeps the object without its envelope.
///
/// It can leave out `metadata.managedFields`. The length of the metadata, which precedes them, would then be wrong.
/// Each of the other fields of the metadata is therefore kept as an occurrence of `metadata` with this field alone,
/// which protobuf defines as the same object.
#[derive(Debug)]
pub(super) struct Collector {
    stage: CollectStage,
    levels: [Level; DEPTH],
    /// The end of each message, as an offset in the frame.
    ends: [u64; DEPTH],
    depth: usize,
    offset: u64,
    varint: Varint,
    /// Tag and length of the current field.
    header: Encoded,
    skips: bool,
    malformed: bool,
    identity: ObjectIdentity,
}

/// Event, extension, envelope, object and metadata.
const DEPTH: usize = 5;

/// A message that is entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Event,
    Extension,
    /// `Unknown`, after its magic number.
    Envelope,
    TypeMeta,
    Object,
    Metadata,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CollectStage {
    Magic(u8),
    Tag,
    Length(u32),
    Varint,
    /// In a value up to this offset; whether it is kept, and the part of the identity that it is.
    Value {
        end: u64,
        kept: bool,
        part: Option<Part>,
    },
    Done,
}

impl Collector {
    pub(super) const fn new() -> Self {
        Self {
            stage: CollectStage::Done,
            levels: [Level::Event; DEPTH],
            ends: [0; DEPTH],
            depth: 0,
            offset: 0,
            varint: Varint::new(),
            header: Encoded::new(),
            skips: false,
            malformed: false,
            identity: ObjectIdentity::of_protobuf(),
        }
    }

    /// Starts with the first byte of an event or of a list item of this size. `skips` leaves out managedFields.
    pub(super) fn begin(&mut self, is_event: bool, skips: bool, size: u64) {
        self.stage = CollectStage::Tag;
        self.depth = 0;
        self.offset = 0;
        self.varint = Varint::new();
        self.header = Encoded::new();
        self.skips = skips;
        self.malformed = false;
        self.identity.clear();
        let level = if is_event {
            Level::Event
        } else {
            Level::Object
        };
        self.enter(level, size);
    }

    pub(super) const fn identity(&self) -> &ObjectIdentity {
        &self.identity
    }

    /// Returns whether the frame is not what it should be.
    pub(super) const fn is_malformed(&self) -> bool {
        self.malformed
    }

    /// Reads the next part of the frame; calls `keep` with the bytes of the object.
    pub(super) fn push(&mut self, mut bytes: &[u8], keep: &mut dyn FnMut(&[u8])) {
        while !bytes.is_empty() && !self.malformed {
            if let CollectStage::Value { end, kept, part } = self.stage {
                let left = usize::try_from(end - self.offset).unwrap_or(usize::MAX);
                let (value, rest) = bytes.split_at(left.min(bytes.len()));
                if let Some(part) = part {
                    self.identity.extend(part, value);
                }
                if kept {
                    keep(value);
                }
                self.offset += value.len() as u64;
                bytes = rest;
                if self.offset == end {
                    self.after_value();
                }
            } else if let Some((first, rest)) = bytes.split_first() {
                self.offset += 1;
                bytes = rest;
                if self.byte(*first, keep).is_none() {
                    self.malformed = true;
                }
            }
        }
    }

    /// Handles a byte outside of values; `None` if it is not allowed.
    fn byte(&mut self, byte: u8, keep: &mut dyn FnMut(&[u8])) -> Option<()> {
        match self.stage {
            CollectStage::Magic(at) => {
                (MAGIC.get(usize::from(at)) == Some(&byte)).then_some(())?;
                self.stage = if usize::from(at) + 1 == MAGIC.len() {
                    CollectStage::Tag
                } else {
                    CollectStage::Magic(at + 1)
                };
                self.after_field();
            }
            CollectStage::Tag => {
                self.header.push(byte);
                if let Some(found) = self.varint.push(byte).ok()? {
                    let (number, wire) = tag(found)?;
                    match wire {
                        Wire::Varint => self.stage = CollectStage::Varint,
                        Wire::Fixed64 => self.value(number, 8, keep)?,
                        Wire::Fixed32 => self.value(number, 4, keep)?,
                        Wire::Bytes => self.stage = CollectStage::Length(number),
                    }
                }
            }
            CollectStage::Varint => {
                self.header.push(byte);
                if self.varint.push(byte).ok()?.is_some() {
                    // The header is the whole field.
                    self.keep_header(0, keep);
                    self.after_value();
                }
            }
            CollectStage::Length(number) => {
                self.header.push(byte);
                if let Some(length) = self.varint.push(byte).ok()? {
                    self.field(number, length, keep)?;
                }
            }
            CollectStage::Value { .. } | CollectStage::Done => {}
        }
        // A tag or a length must not extend beyond its message.
        let is_partial = !matches!(self.stage, CollectStage::Value { .. } | CollectStage::Done);
        (!is_partial || self.depth == 0 || self.offset < self.end()).then_some(())
    }

    /// Handles a field with a length.
    fn field(&mut self, number: u32, length: u64, keep: &mut dyn FnMut(&[u8])) -> Option<()> {
        let end = self.offset.checked_add(length)?;
        (end <= self.end()).then_some(())?;
        let entered = match (self.level(), number) {
            (Level::Event, EVENT_OBJECT) => Level::Extension,
            (Level::Extension, EXTENSION_RAW) => Level::Envelope,
            (Level::Envelope, TYPE_META) => Level::TypeMeta,
            (Level::Envelope, RAW) => Level::Object,
            (Level::Object, METADATA) => Level::Metadata,
            _ => return self.value(number, length, keep),
        };
        if entered == Level::Metadata && !self.skips {
            keep(self.header.as_slice());
        }
        self.header = Encoded::new();
        self.stage = if entered == Level::Envelope {
            CollectStage::Magic(0)
        } else {
            CollectStage::Tag
        };
        self.enter(entered, end);
        self.after_field();
        Some(())
    }

    /// Handles a value that is not entered.
    fn value(&mut self, number: u32, length: u64, keep: &mut dyn FnMut(&[u8])) -> Option<()> {
        let end = self.offset.checked_add(length)?;
        (end <= self.end()).then_some(())?;
        let part = match (self.level(), number) {
            (Level::Event, EVENT_TYPE) => Some(Part::Type),
            (Level::TypeMeta, API_VERSION) => Some(Part::ApiVersion),
            (Level::TypeMeta, KIND) => Some(Part::Kind),
            (Level::Metadata, NAME) => Some(Part::Name),
            (Level::Metadata, NAMESPACE) => Some(Part::Namespace),
            (Level::Metadata, UID) => Some(Part::Uid),
            (Level::Metadata, RESOURCE_VERSION) => Some(Part::ResourceVersion),
            _ => None,
        };
        if let Some(part) = part {
            self.identity.begin(part);
        }
        let is_left_out = self.skips && self.level() == Level::Metadata && number == MANAGED_FIELDS;
        let kept = self.is_in_object() && !is_left_out;
        if kept {
            self.keep_header(length, keep);
        }
        self.stage = CollectStage::Value { end, kept, part };
        if length == 0 {
            self.after_value();
        }
        Some(())
    }

    /// Keeps tag and length of a field of the object; `length` bytes follow.
    fn keep_header(&self, length: u64, keep: &mut dyn FnMut(&[u8])) {
        if !self.is_in_object() {
            return;
        }
        let header = self.header.as_slice();
        if self.skips && self.level() == Level::Metadata {
            let alone = Encoded::field(METADATA, header.len() as u64 + length);
            keep(alone.as_slice());
        }
        keep(header);
    }

    fn after_value(&mut self) {
        self.header = Encoded::new();
        self.stage = CollectStage::Tag;
        self.after_field();
    }

    /// Leaves the messages that end here.
    fn after_field(&mut self) {
        while self.depth > 0 && self.offset == self.end() && self.stage == CollectStage::Tag {
            self.depth -= 1;
        }
        if self.depth == 0 {
            self.stage = CollectStage::Done;
        }
    }

    fn enter(&mut self, level: Level, end: u64) {
        if let (Some(place), Some(place_of_end)) = (
            self.levels.get_mut(self.depth),
            self.ends.get_mut(self.depth),
        ) {
            *place = level;
            *place_of_end = end;
            self.depth += 1;
        }
    }

    fn level(&self) -> Level {
        let level = self.levels.get(self.depth.wrapping_sub(1));
        level.copied().unwrap_or(Level::Event)
    }

    fn end(&self) -> u64 {
        let end = self.ends.get(self.depth.wrapping_sub(1));
        end.copied().unwrap_or_default()
    }

    fn is_in_object(&self) -> bool {
        matches!(self.level(), Level::Object | Level::Metadata)
    }
}
