//! Errors for invalid JSON.

use core::fmt;

/// An error for input that is not JSON, or not the expected JSON.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ScanError {
    /// The offset at which the error was detected, in bytes since the start.
    pub offset: u64,
    pub(crate) kind: ScanErrorKind,
}

impl fmt::Display for ScanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.kind, self.offset)
    }
}

impl core::error::Error for ScanError {}

crate::readable_errors!(ScanError);

/// The kind of an error in the input; bytes are the offending ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "protobuf"),
    allow(dead_code, reason = "some mistakes can be made only in protobuf")
)]
pub(crate) enum ScanErrorKind {
    /// A byte that is not allowed at its position.
    UnexpectedByte(u8),
    /// An unescaped control character in a string.
    ControlInString(u8),
    /// A backslash before a character that is not an escape.
    BadEscape(u8),
    /// An invalid number.
    BadNumber(u8),
    /// Neither `true` nor `false` nor `null`.
    BadLiteral(u8),
    /// More nested containers than can be counted.
    TooDeep,
    /// The value is not an object.
    NotAnObject(u8),
    /// The `items` of a list are neither an array nor null.
    ItemsNotAnArray(u8),
    /// Data after the end of a list.
    TrailingData(u8),
    /// A part of a list other than its items is too large.
    TooLargeEnvelope,
    /// A part of a list other than its items is nested too deeply.
    TooDeepEnvelope,
    /// A part of a list other than its items is not UTF-8.
    NotUtf8Envelope,
    /// The response does not begin like an object in protobuf.
    NoMagic(u8),
    /// A number in protobuf exceeds 64 bits.
    BadVarint,
    /// A field of protobuf has an invalid tag or an encoding that Kubernetes does not use.
    BadTag,
    /// A field of protobuf extends beyond the message that contains it.
    BadLength,
    /// A response in protobuf has two lists.
    TwoLists,
    /// The response is in protobuf, which was not requested.
    UnexpectedProtobuf,
    /// The response is not in protobuf, and the decoder reads nothing else.
    ExpectedProtobuf,
}

impl fmt::Display for ScanErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnexpectedByte(byte) => write!(f, "unexpected {}", Byte(*byte)),
            Self::ControlInString(byte) => {
                write!(f, "unescaped control character {} in a string", Byte(*byte))
            }
            Self::BadEscape(byte) => write!(f, "bad escape in a string: {}", Byte(*byte)),
            Self::BadNumber(byte) => write!(f, "bad number: unexpected {}", Byte(*byte)),
            Self::BadLiteral(byte) => write!(f, "bad literal: unexpected {}", Byte(*byte)),
            Self::TooDeep => f.write_str("too many open brackets"),
            Self::NotAnObject(byte) => write!(f, "expected an object, found {}", Byte(*byte)),
            Self::ItemsNotAnArray(byte) => {
                write!(f, "expected an array of items, found {}", Byte(*byte))
            }
            Self::TrailingData(byte) => {
                write!(f, "unexpected {} after the end of the list", Byte(*byte))
            }
            Self::TooLargeEnvelope => {
                f.write_str("part of the list outside of its items is too large")
            }
            Self::TooDeepEnvelope => {
                f.write_str("part of the list outside of its items is nested too deeply")
            }
            Self::NotUtf8Envelope => f.write_str("invalid UTF-8 in a list outside of its items"),
            Self::NoMagic(byte) => write!(f, "unexpected {} before the object", Byte(*byte)),
            Self::BadVarint => f.write_str("a number with more than 64 bits"),
            Self::BadTag => f.write_str("an invalid tag of a field"),
            Self::BadLength => f.write_str("a field that extends beyond its message"),
            Self::TwoLists => f.write_str("a second list"),
            Self::UnexpectedProtobuf => f.write_str("protobuf, which was not requested"),
            Self::ExpectedProtobuf => {
                f.write_str("another format than protobuf, and the decoder reads no other")
            }
        }
    }
}

impl ScanErrorKind {
    /// Returns whether the input should be protobuf, and not JSON.
    pub(crate) const fn is_of_protobuf(self) -> bool {
        matches!(
            self,
            Self::NoMagic(_)
                | Self::BadVarint
                | Self::BadTag
                | Self::BadLength
                | Self::TwoLists
                | Self::ExpectedProtobuf
        )
    }
}

/// Displays a byte for people.
struct Byte(u8);

impl fmt::Display for Byte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_ascii_graphic() {
            write!(f, "'{}'", char::from(self.0))
        } else {
            write!(f, "0x{:02x}", self.0)
        }
    }
}
