//! The resourceVersion and the uid of an object, stored compactly.

use core::cmp::Ordering;
use core::fmt::{self, Write};

use crate::json::JsonStr;
use crate::object::KeyBuf;
use crate::storage::Text;

/// A resourceVersion. A decimal number is stored as a number; any other text is stored as it is, and is opaque.
///
/// Decimal versions of one resource are ordered (KEP-5504, conformance since Kubernetes 1.35). Opaque versions can only
/// be compared for equality.
///
/// ```
/// use core::cmp::Ordering;
/// use informer_core::ResourceVersion;
///
/// let old = ResourceVersion::<Box<str>>::new("99");
/// let new = ResourceVersion::new("1000");
/// assert_eq!(old.compare(&new), Some(Ordering::Less));
/// assert_eq!(old.compare(&ResourceVersion::new("eyJhIjoxfQ")), None);
/// assert_eq!(new.to_string(), "1000");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResourceVersion<X>(Repr<X>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Repr<X> {
    None,
    Number(u64),
    Text(X),
}

impl<X> Default for ResourceVersion<X> {
    fn default() -> Self {
        Self(Repr::None)
    }
}

impl<X: Text> ResourceVersion<X> {
    /// Stores a version. An empty text is no version, and neither is a text that the storage cannot hold.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(match canonical_number(text) {
            _ if text.is_empty() => Repr::None,
            Some(number) => Repr::Number(number),
            None => X::try_from_str(text).map_or(Repr::None, Repr::Text),
        })
    }

    pub(crate) fn from_json(text: JsonStr<'_>) -> Self {
        match text.as_plain() {
            Some(plain) => Self::new(plain),
            None => {
                let mut buf = KeyBuf::new();
                if write!(buf, "{text}").is_ok() {
                    Self::new(buf.as_str())
                } else {
                    Self::default()
                }
            }
        }
    }

    /// Returns whether there is a version.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        !matches!(self.0, Repr::None)
    }

    /// Compares two versions of the same resource. Decimal numbers are ordered; other versions are equal, or `None` is
    /// returned.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (&self.0, &other.0) {
            (Repr::Number(a), Repr::Number(b)) => Some(a.cmp(b)),
            (Repr::None, Repr::None) => Some(Ordering::Equal),
            (Repr::Text(a), Repr::Text(b)) => {
                let (a, b) = (a.as_ref(), b.as_ref());
                if a == b {
                    Some(Ordering::Equal)
                } else if is_decimal(a) && is_decimal(b) {
                    Some(a.len().cmp(&b.len()).then_with(|| a.cmp(b)))
                } else {
                    None
                }
            }
            // A number that does not fit in 64 bits is greater than any that does.
            (Repr::Number(_), Repr::Text(b)) => is_decimal(b.as_ref()).then_some(Ordering::Less),
            (Repr::Text(a), Repr::Number(_)) => is_decimal(a.as_ref()).then_some(Ordering::Greater),
            (Repr::None, Repr::Number(_) | Repr::Text(_))
            | (Repr::Number(_) | Repr::Text(_), Repr::None) => None,
        }
    }

    /// Returns whether it is `""` or `"0"`, which are instructions to the server rather than versions.
    pub(crate) const fn is_command(&self) -> bool {
        matches!(self.0, Repr::None | Repr::Number(0))
    }
}

impl<X: Text> fmt::Display for ResourceVersion<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::None => f.pad(""),
            Repr::Number(number) => number.fmt(f),
            Repr::Text(text) => f.pad(text.as_ref()),
        }
    }
}

/// Parses a number that prints as the same text again.
fn canonical_number(text: &str) -> Option<u64> {
    (is_decimal(text) || text == "0")
        .then(|| text.parse().ok())
        .flatten()
}

/// Returns whether the text is a valid version by KEP-5504: digits without a leading zero.
fn is_decimal(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit())
}

/// A uid. A UUID in lower case takes 16 bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Uid<X>(UidRepr<X>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum UidRepr<X> {
    None,
    Uuid([u8; 16]),
    Text(X),
}

impl<X> Default for Uid<X> {
    fn default() -> Self {
        Self(UidRepr::None)
    }
}

impl<X: Text> Uid<X> {
    /// Stores a uid. An empty text is no uid, and neither is a text that the storage cannot hold.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(match parse_uuid(text) {
            _ if text.is_empty() => UidRepr::None,
            Some(uuid) => UidRepr::Uuid(uuid),
            None => X::try_from_str(text).map_or(UidRepr::None, UidRepr::Text),
        })
    }

    pub(crate) fn from_json(text: JsonStr<'_>) -> Self {
        text.as_plain().map_or_else(Self::default, Self::new)
    }

    /// Returns whether there is a uid.
    pub(crate) const fn is_known(&self) -> bool {
        !matches!(self.0, UidRepr::None)
    }
}

impl<X: Text> fmt::Display for Uid<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            UidRepr::None => Ok(()),
            UidRepr::Uuid(bytes) => bytes.iter().enumerate().try_for_each(|(i, byte)| {
                let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
                write!(f, "{dash}{byte:02x}")
            }),
            UidRepr::Text(text) => f.write_str(text.as_ref()),
        }
    }
}

/// Parses the form `8-4-4-4-12` in lower case, which prints as the same text again.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    if text.len() != 36 {
        return None;
    }
    let mut bytes = [0; 16];
    let mut digits = text.bytes().enumerate().filter_map(|(i, b)| match (i, b) {
        (8 | 13 | 18 | 23, b'-') => None,
        (8 | 13 | 18 | 23, _) => Some(None),
        (_, b'0'..=b'9') => Some(Some(b - b'0')),
        (_, b'a'..=b'f') => Some(Some(b - b'a' + 10)),
        _ => Some(None),
    });
    for byte in &mut bytes {
        *byte = digits.next()?? << 4 | digits.next()??;
    }
    digits.next().is_none().then_some(bytes)
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use alloc::boxed::Box;
    use alloc::string::ToString;

    use super::*;

    type Version = ResourceVersion<Box<str>>;

    #[test]
    fn versions_print_as_they_came() {
        for text in [
            "",
            "0",
            "1",
            "18446744073709551615",
            "18446744073709551616",
            "007",
            "eyJh",
            "1.5",
        ] {
            assert_eq!(Version::new(text).to_string(), text);
        }
    }

    #[test]
    fn decimal_versions_compare_by_length_then_bytes() {
        let order = [
            "1",
            "9",
            "10",
            "18446744073709551615",
            "18446744073709551616",
            "99999999999999999999999",
        ];
        for (i, a) in order.iter().enumerate() {
            for (j, b) in order.iter().enumerate() {
                assert_eq!(
                    Version::new(a).compare(&Version::new(b)),
                    Some(i.cmp(&j)),
                    "{a} and {b}"
                );
            }
            for opaque in ["", "007", "x1"] {
                assert_eq!(
                    Version::new(a).compare(&Version::new(opaque)),
                    None,
                    "{a} and {opaque}"
                );
            }
        }
        assert_eq!(
            Version::new("x").compare(&Version::new("x")),
            Some(Ordering::Equal)
        );
    }

    #[test]
    fn uids_print_as_they_came() {
        for text in [
            "",
            "0b5ba2b0-6f0f-4f0c-8b0a-2f1c9b7d1e55",
            "0B5BA2B0-6f0f-4f0c-8b0a-2f1c9b7d1e55",
            "0b5ba2b0x6f0f-4f0c-8b0a-2f1c9b7d1e55",
            "uid-default-a",
        ] {
            assert_eq!(Uid::<Box<str>>::new(text).to_string(), text);
        }
        assert!(size_of::<Uid<Box<str>>>() <= 24);
    }
}
