//! The identity of an object whose frame exceeds the limit, collected as its bytes pass.

use core::fmt;
use core::ops::Range;

use super::Format;
use super::object::{EventType, ObjectHead, WatchEvent, parts};
use super::problem::ROOM;
use crate::json::scan::{Scanner, Stop};
use crate::json::{JsonStr, ScanError};

/// The identity of an object, without its JSON: name, namespace, uid, resourceVersion, kind and API version.
///
/// The [`Framer`](super::Framer) lends one with each frame that exceeds the limit. The identity is complete, no matter
/// where its parts are in the frame. The API server sorts the members of a custom resource, so `metadata.managedFields`
/// precedes `metadata.name`.
#[derive(Clone)]
pub struct ObjectIdentity {
    text: [u8; ROOM],
    used: usize,
    parts: [Range<usize>; PARTS],
    /// A part did not fit.
    overflows: bool,
    format: Format,
}

impl ObjectIdentity {
    const fn new(format: Format) -> Self {
        Self {
            text: [0; ROOM],
            used: 0,
            parts: [const { 0..0 }; PARTS],
            overflows: false,
            format,
        }
    }

    #[cfg(feature = "protobuf")]
    pub(super) const fn of_protobuf() -> Self {
        Self::new(Format::Protobuf)
    }

    pub(super) fn clear(&mut self) {
        self.used = 0;
        self.parts = [const { 0..0 }; PARTS];
        self.overflows = false;
    }

    /// Returns the identity as the head of an object. The other parts of the head come from `json`, the stored part of
    /// the object.
    ///
    /// Kind and API version are empty unless `need_type` is set, as with [`ObjectHead::parse`].
    pub(crate) fn head<'a>(&'a self, json: &'a [u8], need_type: bool) -> ObjectHead<'a> {
        let rest = ObjectHead::parse_as(self.format, json, need_type).0;
        let type_part = |part| {
            if need_type {
                self.part(part)
            } else {
                JsonStr::default()
            }
        };
        ObjectHead {
            kind: type_part(Part::Kind),
            api_version: type_part(Part::ApiVersion),
            name: self.part(Part::Name),
            namespace: self.part(Part::Namespace),
            uid: self.part(Part::Uid),
            resource_version: self.part(Part::ResourceVersion),
            ..rest
        }
    }

    /// Returns the event of a frame that exceeds the limit, from this identity and the stored part of the frame; `None` if
    /// it has no type, as in a list.
    ///
    /// The object may be empty.
    pub(crate) fn event<'a>(&'a self, frame: &'a [u8]) -> Option<WatchEvent<'a>> {
        let kind = self.part(Part::Type);
        if kind.is_empty() {
            return None;
        }
        let object = match self.format {
            Format::Json => parts(frame).1.unwrap_or_default(),
            // The framer has removed the envelope.
            Format::Protobuf => frame,
        };
        Some(WatchEvent::new(EventType::new(kind), object))
    }

    /// Returns whether all parts fit.
    pub(super) const fn is_whole(&self) -> bool {
        !self.overflows
    }

    fn part(&self, part: Part) -> JsonStr<'_> {
        let range = self.parts.get(part as usize).cloned().unwrap_or_default();
        let text = self.text.get(range).unwrap_or_default();
        match self.format {
            Format::Json => JsonStr::new(text),
            Format::Protobuf => JsonStr::plain(text),
        }
    }

    /// Starts a part. If a part occurs twice, the last one counts.
    pub(super) fn begin(&mut self, part: Part) {
        self.set(part, self.used..self.used);
    }

    pub(super) fn extend(&mut self, part: Part, text: &[u8]) {
        let end = self.used + text.len();
        match self.text.get_mut(self.used..end) {
            Some(room) => {
                room.copy_from_slice(text);
                let start = self
                    .parts
                    .get(part as usize)
                    .map_or(end, |range| range.start);
                self.set(part, start..end);
                self.used = end;
            }
            None => self.overflows = true,
        }
    }

    fn set(&mut self, part: Part, range: Range<usize>) {
        if let Some(place) = self.parts.get_mut(part as usize) {
            *place = range;
        }
    }
}

impl fmt::Debug for ObjectIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectIdentity")
            .field("name", &self.part(Part::Name))
            .field("namespace", &self.part(Part::Namespace))
            .field("uid", &self.part(Part::Uid))
            .field("resource_version", &self.part(Part::ResourceVersion))
            .finish_non_exhaustive()
    }
}

impl PartialEq for ObjectIdentity {
    fn eq(&self, other: &Self) -> bool {
        ALL.iter().all(|part| self.part(*part) == other.part(*part))
    }
}

impl Eq for ObjectIdentity {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Type,
    Kind,
    ApiVersion,
    Name,
    Namespace,
    Uid,
    ResourceVersion,
}

const PARTS: usize = 7;
const ALL: [Part; PARTS] = [
    Part::Type,
    Part::Kind,
    Part::ApiVersion,
    Part::Name,
    Part::Namespace,
    Part::Uid,
    Part::ResourceVersion,
];

/// Walks over a frame, collects the identity, and finds the elements of `metadata.managedFields`.
///
/// It follows a scanner that has validated the same bytes.
#[derive(Debug)]
pub(super) struct Collector {
    scanner: Scanner,
    /// The number of containers around the next value.
    floor: u32,
    stage: IdentityStage,
    level: Container,
    is_event: bool,
    /// The elements of `managedFields` are still to be skipped.
    skips: bool,
    key: KeyText,
    identity: ObjectIdentity,
}

/// The next bytes: some to skip, and then some to store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) skipped: usize,
    pub(super) kept: usize,
}

/// The innermost container that was entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Container {
    Outside,
    Event,
    Object,
    Metadata,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IdentityStage {
    /// Between two members.
    Between,
    Key,
    /// Between a key and its value, or before the frame itself.
    Named(Field),
    /// In a string of the identity; whether its opening quote was consumed.
    Text(Part, bool),
    /// In a value that is not needed.
    Skip,
    /// In the elements of `managedFields`.
    ManagedFields,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Enter(Container),
    ManagedFields,
    Part(Part),
    Other,
}

impl Collector {
    pub(super) const fn new() -> Self {
        Self {
            scanner: Scanner::new(),
            floor: 0,
            stage: IdentityStage::Done,
            level: Container::Outside,
            is_event: false,
            skips: false,
            key: KeyText::new(),
            identity: ObjectIdentity::new(Format::Json),
        }
    }

    /// Starts with the first byte of an event or of a list item. `skips` skips the elements of the first
    /// `metadata.managedFields`.
    pub(super) fn begin(&mut self, is_event: bool, skips: bool) {
        // An item is nested in an array and an object.
        (self.scanner, self.floor) = if is_event {
            (Scanner::new(), 0)
        } else {
            (Scanner::inside(2, 0b10), 2)
        };
        self.is_event = is_event;
        self.skips = skips;
        self.level = Container::Outside;
        self.stage = IdentityStage::Named(Field::Enter(if is_event {
            Container::Event
        } else {
            Container::Object
        }));
        self.identity.clear();
    }

    pub(super) const fn identity(&self) -> &ObjectIdentity {
        &self.identity
    }

    /// Advances in the frame. Consumes at least one byte, unless `bytes` is empty.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Result<Segment, ScanError> {
        let mut at = 0;
        while at < bytes.len() {
            let start = at;
            match self.stage {
                IdentityStage::Done => at = bytes.len(),
                IdentityStage::Skip => {
                    if self.scanner.skip_value(bytes, &mut at, self.floor)? {
                        self.stage = self.after_value();
                    }
                }
                IdentityStage::Text(part, quoted) => {
                    let ended = self.scanner.skip_value(bytes, &mut at, self.floor)?;
                    let from = if quoted { start } else { start + 1 };
                    let to = if ended { at.saturating_sub(1) } else { at };
                    self.identity
                        .extend(part, bytes.get(from..to).unwrap_or_default());
                    self.stage = if ended {
                        self.after_value()
                    } else {
                        IdentityStage::Text(part, true)
                    };
                }
                IdentityStage::ManagedFields if start > 0 => return Ok(kept(start)),
                IdentityStage::ManagedFields => {
                    if !self.scanner.skip_value(bytes, &mut at, self.floor)? {
                        return Ok(Segment {
                            skipped: at,
                            kept: 0,
                        });
                    }
                    self.stage = self.after_value();
                    // The closing bracket.
                    return Ok(Segment {
                        skipped: at.saturating_sub(1),
                        kept: 1,
                    });
                }
                IdentityStage::Between | IdentityStage::Key | IdentityStage::Named(_) => {
                    let step = self.scanner.step(bytes, &mut at)?;
                    if self.stage == IdentityStage::Key {
                        self.key.extend(bytes.get(start..at).unwrap_or_default());
                    }
                    self.stage = match (self.stage, step) {
                        (stage, Stop::More) => stage,
                        (IdentityStage::Between, Stop::KeyStart) => {
                            self.key = KeyText::new();
                            IdentityStage::Key
                        }
                        (IdentityStage::Between, Stop::Closed) => self.leave(),
                        (IdentityStage::Key, Stop::KeyEnd) => IdentityStage::Named(self.field()),
                        (IdentityStage::Named(field), Stop::Value(first)) => {
                            self.value(field, first, &mut at)?
                        }
                        // The scanner never returns this step in this stage.
                        _ => IdentityStage::Done,
                    };
                }
            }
        }
        Ok(kept(at))
    }

    /// Returns the stage within a value that begins.
    fn value(
        &mut self,
        field: Field,
        first: u8,
        at: &mut usize,
    ) -> Result<IdentityStage, ScanError> {
        Ok(match (field, first) {
            (Field::Enter(level), b'{') => {
                self.scanner.enter(first, at)?;
                self.floor += 1;
                self.level = level;
                IdentityStage::Between
            }
            (Field::ManagedFields, b'[') if self.skips => {
                self.scanner.enter(first, at)?;
                // Skipping bytes moves all later stored bytes, so this is done at most once per frame.
                self.skips = false;
                IdentityStage::ManagedFields
            }
            (Field::Part(part), _) => {
                self.identity.begin(part);
                if first == b'"' {
                    IdentityStage::Text(part, false)
                } else {
                    IdentityStage::Skip
                }
            }
            _ => IdentityStage::Skip,
        })
    }

    fn after_value(&self) -> IdentityStage {
        if self.level == Container::Outside {
            IdentityStage::Done
        } else {
            IdentityStage::Between
        }
    }

    /// Leaves the innermost container.
    fn leave(&mut self) -> IdentityStage {
        self.floor = self.floor.saturating_sub(1);
        self.level = match self.level {
            Container::Metadata => Container::Object,
            Container::Object if self.is_event => Container::Event,
            Container::Object | Container::Event | Container::Outside => Container::Outside,
        };
        self.after_value()
    }

    /// Returns the role of the value after the current key.
    fn field(&self) -> Field {
        let fields: &[(&str, Field)] = match self.level {
            Container::Event => &[
                ("type", Field::Part(Part::Type)),
                ("object", Field::Enter(Container::Object)),
            ],
            Container::Object => &[
                ("kind", Field::Part(Part::Kind)),
                ("apiVersion", Field::Part(Part::ApiVersion)),
                ("metadata", Field::Enter(Container::Metadata)),
            ],
            Container::Metadata => &[
                ("name", Field::Part(Part::Name)),
                ("namespace", Field::Part(Part::Namespace)),
                ("uid", Field::Part(Part::Uid)),
                ("resourceVersion", Field::Part(Part::ResourceVersion)),
                ("managedFields", Field::ManagedFields),
            ],
            Container::Outside => &[],
        };
        self.key.find(fields).unwrap_or(Field::Other)
    }
}

const fn kept(kept: usize) -> Segment {
    Segment { skipped: 0, kept }
}

/// The text of a key. It has room for every relevant key, even if all its characters are escaped.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyText {
    bytes: [u8; 96],
    /// Exceeds the size of `bytes` if the key is too long.
    length: usize,
}

impl KeyText {
    pub(super) const fn new() -> Self {
        Self {
            bytes: [0; 96],
            length: 0,
        }
    }

    pub(super) fn extend(&mut self, part: &[u8]) {
        let end = self.length.saturating_add(part.len());
        if let Some(room) = self.bytes.get_mut(self.length..end) {
            room.copy_from_slice(part);
        }
        self.length = end;
    }

    /// Looks up the key, which ends with its closing quote, among known ones.
    pub(super) fn find<T: Copy>(&self, known: &[(&str, T)]) -> Option<T> {
        let [text @ .., b'"'] = self.bytes.get(..self.length)? else {
            return None;
        };
        let text = JsonStr::new(text);
        known
            .iter()
            .find(|(name, _)| text.eq_str(name))
            .map(|(_, value)| *value)
    }
}
