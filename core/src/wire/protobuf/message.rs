//! A view of one message.

/// A protobuf message, read by field numbers. Fields with unknown numbers are skipped by their length.
///
/// ```
/// use informer_core::protobuf::{Message, Value};
///
/// // A Pod with `spec.nodeName`.
/// let pod = Message::new(b"\x0a\x05\x0a\x03web\x12\x04\x52\x02n1");
/// assert_eq!(pod.text(&[2, 10]), Some("n1"));
/// assert_eq!(pod.field(&[1, 1]), Some(Value::Bytes(b"web")));
/// assert_eq!(pod.field(&[3, 1]), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a>(&'a [u8]);

/// The value of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    /// An integer, a boolean or an enumeration.
    Varint(u64),
    /// Eight bytes, such as a `double`.
    Fixed64(u64),
    /// A string, bytes, or a message.
    Bytes(&'a [u8]),
    /// Four bytes, such as a `float`.
    Fixed32(u32),
}

impl<'a> Message<'a> {
    /// Creates a view. Fields from the first malformed one on are ignored.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns an iterator over the fields, in the order of the message. A repeated field occurs several times.
    pub fn fields(self) -> impl Iterator<Item = (u32, Value<'a>)> + Clone + use<'a> {
        Fields::new(self.0)
    }

    /// Returns the field at a path of field numbers through nested messages. The last occurrence counts.
    #[must_use]
    pub fn field(self, path: &[u32]) -> Option<Value<'a>> {
        let [number, rest @ ..] = path else {
            return None;
        };
        let found = self.fields().filter(|(at, _)| at == number);
        if rest.is_empty() {
            return found.last().map(|(_, value)| value);
        }
        // Occurrences of a message that is not repeated count as one message.
        let nested = found.filter_map(|(_, value)| value.as_message()?.field(rest));
        nested.last()
    }

    /// Returns the string at a path, if there is one and it is UTF-8.
    #[must_use]
    pub fn text(self, path: &[u32]) -> Option<&'a str> {
        match self.field(path)? {
            Value::Bytes(bytes) => core::str::from_utf8(bytes).ok(),
            Value::Varint(_) | Value::Fixed64(_) | Value::Fixed32(_) => None,
        }
    }

    /// Returns the bytes of the message.
    #[cfg(feature = "alloc")]
    pub(crate) const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Value<'a> {
    pub(crate) const fn as_bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Varint(_) | Self::Fixed64(_) | Self::Fixed32(_) => None,
        }
    }

    pub(crate) const fn as_varint(self) -> Option<u64> {
        match self {
            Self::Varint(value) => Some(value),
            Self::Bytes(_) | Self::Fixed64(_) | Self::Fixed32(_) => None,
        }
    }

    pub(crate) fn as_message(self) -> Option<Message<'a>> {
        self.as_bytes().map(Message)
    }
}

/// An iterator over the fields of a message.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    /// The rest does not begin with a field.
    malformed: bool,
}

impl<'a> Fields<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            malformed: false,
        }
    }

    /// Returns whether iteration ended before the end of the message.
    pub(super) const fn is_malformed(&self) -> bool {
        self.malformed
    }

    /// Returns the bytes that follow the last field.
    #[cfg(feature = "alloc")]
    pub(super) const fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() || self.malformed {
            return None;
        }
        let mut rest = self.rest;
        let found = read(&mut rest);
        self.malformed = found.is_none();
        if found.is_some() {
            self.rest = rest;
        }
        found
    }
}

#[inline]
fn read<'a>(rest: &mut &'a [u8]) -> Option<(u32, Value<'a>)> {
    let (number, wire) = tag(varint(rest)?)?;
    let value = match wire {
        Wire::Varint => Value::Varint(varint(rest)?),
        Wire::Fixed64 => {
            let (bytes, after) = rest.split_first_chunk()?;
            *rest = after;
            Value::Fixed64(u64::from_le_bytes(*bytes))
        }
        Wire::Bytes => {
            let length = usize::try_from(varint(rest)?).ok()?;
            let (bytes, after) = rest.split_at_checked(length)?;
            *rest = after;
            Value::Bytes(bytes)
        }
        Wire::Fixed32 => {
            let (bytes, after) = rest.split_first_chunk()?;
            *rest = after;
            Value::Fixed32(u32::from_le_bytes(*bytes))
        }
    };
    Some((number, value))
}

/// How a value is encoded. Kubernetes does not use groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wire {
    Varint,
    Fixed64,
    Bytes,
    Fixed32,
}

/// Splits a tag into field number and encoding; `None` for an invalid one.
pub(super) fn tag(tag: u64) -> Option<(u32, Wire)> {
    let wire = match tag & 7 {
        0 => Wire::Varint,
        1 => Wire::Fixed64,
        2 => Wire::Bytes,
        5 => Wire::Fixed32,
        _ => return None,
    };
    // Field numbers have 29 bits.
    let number = u32::try_from(tag >> 3).ok()?;
    (1..1 << 29).contains(&number).then_some((number, wire))
}

/// Reads a varint of at most 64 bits.
#[inline]
pub(super) fn varint(rest: &mut &[u8]) -> Option<u64> {
    // Most have one byte.
    if let [first @ 0..0x80, after @ ..] = *rest {
        *rest = after;
        return Some(u64::from(*first));
    }
    long_varint(rest)
}

fn long_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut reader = Varint::default();
    loop {
        let (first, after) = rest.split_first()?;
        *rest = after;
        if let Some(value) = reader.push(*first).ok()? {
            return Some(value);
        }
    }
}

/// Reads a varint byte by byte.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Varint {
    value: u64,
    shift: u32,
}

impl Varint {
    pub(super) const fn new() -> Self {
        Self { value: 0, shift: 0 }
    }

    /// Returns whether no byte of a varint was read yet.
    pub(super) const fn is_empty(&self) -> bool {
        self.shift == 0
    }

    /// Adds a byte; returns the value after the last one. Fails if the value exceeds 64 bits.
    pub(super) const fn push(&mut self, byte: u8) -> Result<Option<u64>, ()> {
        let bits = (byte & 0x7f) as u64;
        // The tenth byte has room for one bit.
        if self.shift > 63 || self.shift == 63 && bits > 1 {
            return Err(());
        }
        self.value |= bits << self.shift;
        self.shift += 7;
        if byte < 0x80 {
            let value = self.value;
            self.value = 0;
            self.shift = 0;
            Ok(Some(value))
        } else {
            Ok(None)
        }
    }
}

/// An encoded tag or length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Encoded {
    bytes: [u8; 20],
    len: usize,
}

impl Encoded {
    pub(super) const fn new() -> Self {
        Self {
            bytes: [0; 20],
            len: 0,
        }
    }

    /// Encodes the tag and the length of a field with bytes.
    pub(super) fn field(number: u32, length: u64) -> Self {
        let mut header = Self::new();
        header.varint(u64::from(number) << 3 | 2);
        header.varint(length);
        header
    }

    pub(super) fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.push(value.to_le_bytes()[0]);
    }

    pub(super) fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}
