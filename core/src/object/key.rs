//! Keys: `namespace/name`, or `name` for an object without a namespace.

use core::fmt::{self, Write};

/// A function that writes the key of an object: `namespace/name`, or `name` for an object without a namespace.
///
/// # Errors
/// Fails for an object without a key.
pub(crate) type KeyFn<T> = fn(&T, &mut dyn Write) -> fmt::Result;

/// The reason why an object has no usable key: client-go's `KeyError`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The key function failed.
    NoKey,
    /// The key is longer than the storage allows.
    TooLong,
    /// There is no room for another key.
    Full,
    /// The cache has no such source. Ids begin at 0, and the cache was created for fewer sources.
    UnknownSource,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoKey => "the object has no key: give it a metadata.name",
            Self::TooLong => {
                "the key is too long: the limit is 317 bytes, or the second parameter of `Inline`"
            }
            Self::Full => "there is no room for another key: raise the first parameter of `Inline`",
            Self::UnknownSource => {
                "the cache has no such source: create it with one source for each list and watch"
            }
        })
    }
}

impl core::error::Error for KeyError {}

crate::readable_errors!(KeyError);

/// Splits a key into namespace and name. The namespace is empty for an object without one.
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

/// The longest key that the API server allows: a namespace of 63 and a name of 253 bytes.
pub(crate) const MAX_KEY: usize = 63 + 1 + 253;

/// A buffer on the stack for one key, so that a lookup does not allocate.
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
        // Only complete `&str`s are written to the buffer.
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

/// Distinguishes a key that is too long from a key function that failed.
struct Probe<'a> {
    buf: &'a mut KeyBuf,
    overflow: bool,
}

impl Write for Probe<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.buf.write_str(s).inspect_err(|_| self.overflow = true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_too_long_differs_from_one_that_is_missing() {
        let long = |n: &usize, out: &mut dyn Write| (0..*n).try_for_each(|_| out.write_str("x"));
        assert_eq!(KeyBuf::of(long, &317).map(|k| k.as_str().len()), Ok(317));
        assert_eq!(KeyBuf::of(long, &318).err(), Some(KeyError::TooLong));
        let none = |_: &(), _: &mut dyn Write| Err(fmt::Error);
        assert_eq!(KeyBuf::of(none, &()).err(), Some(KeyError::NoKey));
    }
}
