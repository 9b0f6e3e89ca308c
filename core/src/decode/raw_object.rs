//! Objects as received.

use core::fmt::{self, Write};

use crate::json::{Elements, Fields, JsonStr, as_str, value_at};
#[cfg(feature = "protobuf")]
use crate::wire::protobuf::{self, Message, field};
use crate::wire::{Format, ObjectHead};

/// An object as received, in JSON or protobuf, with its identity.
#[derive(Clone, Copy)]
pub struct RawObject<'a> {
    bytes: &'a [u8],
    head: ObjectHead<'a>,
}

/// Writes the key, the version and the size. The content may be a secret.
impl fmt::Debug for RawObject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RawObject")?;
        self.show(f)
    }
}

/// The positions of an object's identity in its bytes, see [`RawObject::places`].
#[derive(Clone, Copy, Debug)]
pub struct Places {
    parts: [(u32, u32); 8],
    format: Format,
}

impl<'a> RawObject<'a> {
    pub(crate) const fn new(bytes: &'a [u8], head: ObjectHead<'a>) -> Self {
        Self { bytes, head }
    }

    /// Parses the identity of an object from its JSON, which begins with a brace, or from the bytes that
    /// [`RawObject::bytes`] returned.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Self {
        let (head, _) = ObjectHead::parse_as(Format::of_object(bytes), bytes, true);
        Self { bytes, head }
    }

    /// Returns the positions of the identity in the bytes, for [`RawObject::of_copy`].
    #[must_use]
    pub fn places(&self) -> Places {
        let head = &self.head;
        let start = self.bytes.as_ptr().addr();
        let parts = [
            head.kind.raw(),
            head.api_version.raw(),
            head.name.raw(),
            head.namespace.raw(),
            head.uid.raw(),
            head.resource_version.raw(),
            head.labels.unwrap_or_default(),
            head.metadata.unwrap_or_default(),
        ];
        // The positions of a missing part are arbitrary, but its length is zero.
        let parts = parts.map(|part| {
            let from = part.as_ptr().addr().wrapping_sub(start);
            let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
            (place(from), place(from.wrapping_add(part.len())))
        });
        Places {
            parts,
            format: head.format,
        }
    }

    /// Creates an object from a copy of its bytes without parsing the copy.
    #[must_use]
    pub fn of_copy(bytes: &'a [u8], places: &Places) -> Self {
        if u32::try_from(bytes.len()).is_err() {
            return Self::parse(bytes);
        }
        let [
            kind,
            api_version,
            name,
            namespace,
            uid,
            version,
            labels,
            metadata,
        ] = places.parts.map(|(from, to)| {
            let place = usize::try_from(from).ok()?..usize::try_from(to).ok()?;
            bytes.get(place).filter(|part| !part.is_empty())
        });
        let text = |part: Option<&'a [u8]>| match places.format {
            Format::Json => part.map(JsonStr::new).unwrap_or_default(),
            Format::Protobuf => part.map(JsonStr::plain).unwrap_or_default(),
        };
        let head = ObjectHead {
            format: places.format,
            kind: text(kind),
            api_version: text(api_version),
            name: text(name),
            namespace: text(namespace),
            uid: text(uid),
            resource_version: text(version),
            labels,
            annotations: None,
            metadata,
        };
        Self { bytes, head }
    }

    /// Returns the object as received. In protobuf, that is the message without its envelope.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the object's JSON: one complete and well-formed value. It is empty for an object in protobuf, which only
    /// a decoder receives that requests it.
    #[must_use]
    pub const fn json(&self) -> &'a [u8] {
        match self.head.format {
            Format::Json => self.bytes,
            Format::Protobuf => &[],
        }
    }

    /// Returns the object's protobuf message; `None` for an object in JSON.
    #[cfg(feature = "protobuf")]
    #[must_use]
    pub const fn protobuf(&self) -> Option<Message<'a>> {
        match self.head.format {
            Format::Json => None,
            Format::Protobuf => Some(Message::new(self.bytes)),
        }
    }

    /// Returns `kind`; empty if absent, as in most lists.
    #[must_use]
    pub const fn kind(&self) -> JsonStr<'a> {
        self.head.kind
    }

    /// Returns `apiVersion`; empty if absent, as in most lists.
    #[must_use]
    pub const fn api_version(&self) -> JsonStr<'a> {
        self.head.api_version
    }

    /// Returns `metadata.name`.
    #[must_use]
    pub const fn name(&self) -> JsonStr<'a> {
        self.head.name
    }

    /// Returns `metadata.namespace`; empty if absent.
    #[must_use]
    pub const fn namespace(&self) -> JsonStr<'a> {
        self.head.namespace
    }

    /// Returns `metadata.uid`; empty if absent.
    #[must_use]
    pub const fn uid(&self) -> JsonStr<'a> {
        self.head.uid
    }

    /// Returns `metadata.resourceVersion`; empty if absent.
    #[must_use]
    pub const fn resource_version(&self) -> JsonStr<'a> {
        self.head.resource_version
    }

    /// Returns an iterator over the labels.
    pub fn labels(&self) -> impl Iterator<Item = (JsonStr<'a>, JsonStr<'a>)> + use<'a> {
        self.pairs(self.head.labels, "labels")
    }

    /// Returns an iterator over the annotations.
    pub fn annotations(&self) -> impl Iterator<Item = (JsonStr<'a>, JsonStr<'a>)> + use<'a> {
        self.pairs(self.in_metadata("annotations"), "annotations")
    }

    /// Returns `metadata.generation`. `None` if the resource has none, like ConfigMaps and Services.
    #[must_use]
    pub fn generation(&self) -> Option<u64> {
        let (json, message) = self.in_format(self.in_metadata("generation"));
        let number = core::str::from_utf8(json).ok()?.parse().ok();
        // In protobuf, 0 stands for none.
        number
            .or_else(|| generation_of_protobuf(message))
            .filter(|generation| *generation > 0)
    }

    /// Returns an iterator over the finalizers.
    pub fn finalizers(&self) -> impl Iterator<Item = JsonStr<'a>> + use<'a> {
        let (json, message) = self.in_format(self.in_metadata("finalizers"));
        Elements::new(json)
            .filter_map(as_str)
            .chain(finalizers_of_protobuf(message))
    }

    /// Returns whether `metadata.deletionTimestamp` is set: the object is deleted when it has no finalizers any more.
    #[must_use]
    pub fn is_being_deleted(&self) -> bool {
        let (json, message) = self.in_format(self.in_metadata("deletionTimestamp"));
        as_str(json).is_some() || is_deletion_in_protobuf(message)
    }

    /// Returns an iterator over the owner references.
    pub fn owner_references(&self) -> impl Iterator<Item = OwnerReference<'a>> + use<'a> {
        let (json, message) = self.in_format(self.in_metadata("ownerReferences"));
        Elements::new(json)
            .map(OwnerReference::parse)
            .chain(OwnerReference::of_protobuf(message))
    }

    /// Returns the JSON of a field of the metadata; the whole object in protobuf.
    fn in_metadata(&self, name: &str) -> Option<&'a [u8]> {
        match self.head.format {
            Format::Json => value_at(self.head.metadata?, &[name]),
            Format::Protobuf => Some(self.bytes),
        }
    }

    /// Returns bytes as JSON or as protobuf; the other is empty.
    fn in_format(&self, bytes: Option<&'a [u8]>) -> (&'a [u8], &'a [u8]) {
        let bytes = bytes.unwrap_or_default();
        match self.head.format {
            Format::Json => (bytes, &[]),
            Format::Protobuf => (&[], bytes),
        }
    }

    fn pairs(
        &self,
        bytes: Option<&'a [u8]>,
        name: &str,
    ) -> impl Iterator<Item = (JsonStr<'a>, JsonStr<'a>)> + use<'a> {
        let (json, message) = self.in_format(bytes);
        let json = Fields::new(json).map(|(key, value)| (key, as_str(value).unwrap_or_default()));
        json.chain(pairs_of_protobuf(message, name))
    }

    /// Returns the JSON of `metadata.labels`, if present. It is absent in protobuf.
    #[cfg(feature = "serde_json")]
    pub(crate) fn labels_json(&self) -> Option<&'a [u8]> {
        self.head
            .labels
            .filter(|_| self.head.format == Format::Json)
    }

    /// Returns the JSON of `metadata`, if present. It is absent in protobuf.
    #[cfg(feature = "alloc")]
    pub(crate) fn metadata_json(&self) -> Option<&'a [u8]> {
        self.head
            .metadata
            .filter(|_| self.head.format == Format::Json)
    }

    /// Writes the object's key: `namespace/name`, or `name`.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write_key(&self, out: &mut dyn Write) -> fmt::Result {
        if !self.head.namespace.is_empty() {
            self.head.namespace.write_to(out)?;
            out.write_char('/')?;
        }
        self.head.name.write_to(out)
    }

    /// Writes what `Debug` of a form shows: the key, the version and the size.
    pub(super) fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('(')?;
        self.write_key(f)?;
        let (version, size) = (self.resource_version(), self.bytes.len());
        write!(f, "@{version}, {size} bytes)")
    }
}

/// An owner of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OwnerReference<'a> {
    /// Group and version of the owner.
    pub api_version: JsonStr<'a>,
    /// The kind of the owner.
    pub kind: JsonStr<'a>,
    /// The name of the owner, in the namespace of the object or without one.
    pub name: JsonStr<'a>,
    /// The uid of the owner.
    pub uid: JsonStr<'a>,
    /// Whether the owner is the object's controller.
    pub controller: bool,
}

impl<'a> OwnerReference<'a> {
    /// Parses an element of `metadata.ownerReferences` in JSON. Missing parts are empty.
    #[must_use]
    pub fn parse(reference: &'a [u8]) -> Self {
        let at = |name| value_at(reference, &[name]);
        let text = |name| at(name).and_then(as_str).unwrap_or_default();
        Self {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
            controller: at("controller") == Some(b"true"),
        }
    }

    #[cfg(feature = "protobuf")]
    fn of_protobuf(object: &'a [u8]) -> impl Iterator<Item = Self> + use<'a> {
        let references = protobuf::metadata_fields(object, field::OWNER_REFERENCES);
        references.filter_map(|reference| {
            let reference = reference.as_message()?;
            let text = |number| reference.field(&[number]).map(protobuf::text);
            Some(Self {
                api_version: text(5).unwrap_or_default(),
                kind: text(1).unwrap_or_default(),
                name: text(3).unwrap_or_default(),
                uid: text(4).unwrap_or_default(),
                controller: reference.field(&[6]) == Some(protobuf::Value::Varint(1)),
            })
        })
    }

    #[cfg(not(feature = "protobuf"))]
    fn of_protobuf(_: &'a [u8]) -> impl Iterator<Item = Self> + use<'a> {
        core::iter::empty()
    }
}

#[cfg(feature = "protobuf")]
fn generation_of_protobuf(object: &[u8]) -> Option<u64> {
    let fields = protobuf::metadata_fields(object, field::GENERATION);
    fields.filter_map(protobuf::Value::as_varint).last()
}

#[cfg(not(feature = "protobuf"))]
const fn generation_of_protobuf(_: &[u8]) -> Option<u64> {
    None
}

#[cfg(feature = "protobuf")]
fn is_deletion_in_protobuf(object: &[u8]) -> bool {
    let mut fields = protobuf::metadata_fields(object, field::DELETION_TIMESTAMP);
    fields.next().is_some()
}

#[cfg(not(feature = "protobuf"))]
const fn is_deletion_in_protobuf(_: &[u8]) -> bool {
    false
}

#[cfg(feature = "protobuf")]
fn finalizers_of_protobuf<'a>(object: &'a [u8]) -> impl Iterator<Item = JsonStr<'a>> + use<'a> {
    protobuf::metadata_fields(object, field::FINALIZERS).map(protobuf::text)
}

#[cfg(not(feature = "protobuf"))]
fn finalizers_of_protobuf<'a>(_: &'a [u8]) -> impl Iterator<Item = JsonStr<'a>> + use<'a> {
    core::iter::empty()
}

/// Returns the labels or the annotations of an object in protobuf.
#[cfg(feature = "protobuf")]
fn pairs_of_protobuf<'a>(
    object: &'a [u8],
    name: &str,
) -> impl Iterator<Item = (JsonStr<'a>, JsonStr<'a>)> + use<'a> {
    let number = if name == "labels" {
        field::LABELS
    } else {
        field::ANNOTATIONS
    };
    protobuf::metadata_fields(object, number).map(protobuf::entry)
}

#[cfg(not(feature = "protobuf"))]
fn pairs_of_protobuf<'a>(
    _: &'a [u8],
    _: &str,
) -> impl Iterator<Item = (JsonStr<'a>, JsonStr<'a>)> + use<'a> {
    core::iter::empty()
}
