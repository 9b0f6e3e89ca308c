//! Keys: `namespace/name`, or `name` where there is no namespace.

use core::fmt::{self, Write};

use crate::storage::{Storage, Text};

/// Writes the key of an object.
///
/// # Errors
/// An object that has no key is an error.
pub type KeyFn<T> = fn(&T, &mut dyn Write) -> fmt::Result;

/// An object that knows its key.
///
/// ```
/// use core::fmt::{self, Write};
/// use informer_core::object::Keyed;
///
/// struct Pod { namespace: &'static str, name: &'static str }
///
/// impl Keyed for Pod {
///     fn write_key(&self, out: &mut dyn Write) -> fmt::Result {
///         write!(out, "{}/{}", self.namespace, self.name)
///     }
/// }
/// ```
pub trait Keyed {
    /// Writes `namespace/name`, or `name` for an object without a namespace.
    ///
    /// # Errors
    /// An object that has no name is an error.
    fn write_key(&self, out: &mut dyn Write) -> fmt::Result;
}

impl Keyed for str {
    fn write_key(&self, out: &mut dyn Write) -> fmt::Result {
        out.write_str(self)
    }
}

/// Why an object has no usable key: client-go's `KeyError`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The key function failed.
    NoKey,
    /// The key is longer than the storage takes.
    TooLong,
    /// `Deltas` without a delta in it have no key.
    NoDeltas,
    /// There is no room for another key.
    Full,
    /// The source is not one of the cache: ids begin at 0, and the cache was made for fewer.
    UnknownSource,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoKey => "the object has no key: give it a metadata.name",
            Self::TooLong => "the key is longer than the storage takes: raise its second size",
            Self::NoDeltas => "0 length Deltas object; can't get key",
            Self::Full => "there is no room for another key: raise the storage's first size",
            Self::UnknownSource => {
                "the cache has no such source: make it for as many as there are lists and watches"
            }
        })
    }
}

impl core::error::Error for KeyError {}

crate::readable_errors!(KeyError);

/// Splits a key into namespace and name; the namespace is empty where there is none.
///
/// ```
/// use informer_core::object::split_key;
///
/// assert_eq!(split_key("prod/web-1"), ("prod", "web-1"));
/// assert_eq!(split_key("node-1"), ("", "node-1"));
/// ```
#[must_use]
pub fn split_key(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

/// The longest key the API server makes: a namespace of 63 and a name of 253 bytes.
pub(crate) const MAX_KEY: usize = 63 + 1 + 253;

/// Room on the stack for one key, so that a look-up allocates nothing.
pub(crate) struct KeyBuf {
    bytes: [u8; MAX_KEY],
    len: usize,
}

impl KeyBuf {
    pub(crate) const fn new() -> Self {
        Self {
            bytes: [0; MAX_KEY],
            len: 0,
        }
    }

    pub(crate) fn of<T>(key_fn: KeyFn<T>, object: &T) -> Result<Self, KeyError> {
        let mut buf = Self::new();
        let mut probe = Probe {
            buf: &mut buf,
            overflow: false,
        };
        let written = key_fn(object, &mut probe);
        match (probe.overflow, written) {
            (true, _) => Err(KeyError::TooLong),
            (false, Err(_)) => Err(KeyError::NoKey),
            (false, Ok(())) => Ok(buf),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..self.len).unwrap_or_default();
        // Only whole `&str`s are written into it.
        core::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl Write for KeyBuf {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let end = self.len + s.len();
        self.bytes
            .get_mut(self.len..end)
            .ok_or(fmt::Error)?
            .copy_from_slice(s.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// Tells a key that is too long from a key function that failed.
struct Probe<'a> {
    buf: &'a mut KeyBuf,
    overflow: bool,
}

impl Write for Probe<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.buf.write_str(s).inspect_err(|_| self.overflow = true)
    }
}

/// Stores a copy of a key.
pub(crate) fn store_key<S: Storage>(key: &str) -> Result<S::Text, KeyError> {
    S::Text::try_from_str(key).ok_or(KeyError::TooLong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_too_long_is_told_from_one_that_is_missing() {
        let long = |n: &usize, out: &mut dyn Write| (0..*n).try_for_each(|_| out.write_str("x"));
        assert_eq!(KeyBuf::of(long, &317).map(|k| k.as_str().len()), Ok(317));
        assert_eq!(KeyBuf::of(long, &318).err(), Some(KeyError::TooLong));
        let none = |_: &(), _: &mut dyn Write| Err(fmt::Error);
        assert_eq!(KeyBuf::of(none, &()).err(), Some(KeyError::NoKey));
    }
}
