//! Keys: `namespace/name`, or `name` for an object without a namespace.

#[cfg(feature = "alloc")]
use alloc::string::String;
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
                "the key is too long: the limit is the second parameter of `Inline`, and 317 bytes without the \
                 feature `alloc`"
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

/// The longest key with a name that is a DNS subdomain: a namespace of 63 and a name of 253 bytes. Roles and their
/// bindings can have longer names.
pub const MAX_KEY: usize = 63 + 1 + 253;

/// A buffer for one key, on the stack so that a lookup does not allocate. A key that is longer than [`MAX_KEY`] is
/// allocated, or does not fit without an allocator.
pub(crate) struct KeyBuf {
    bytes: [u8; MAX_KEY],
    len: usize,
    /// The whole key, if it is too long for the bytes.
    #[cfg(feature = "alloc")]
    long: String,
}

impl KeyBuf {
    pub(crate) const fn new() -> Self {
        Self {
            bytes: [0; MAX_KEY],
            len: 0,
            #[cfg(feature = "alloc")]
            long: String::new(),
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
        #[cfg(feature = "alloc")]
        if !self.long.is_empty() {
            return &self.long;
        }
        self.short()
    }

    /// Returns the text in the bytes.
    fn short(&self) -> &str {
        let bytes = self.bytes.get(..self.len).unwrap_or_default();
        // Only complete `&str`s are written to the buffer.
        core::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl Write for KeyBuf {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        #[cfg(feature = "alloc")]
        if !self.long.is_empty() || self.len + s.len() > MAX_KEY {
            if self.long.is_empty() {
                self.long = self.short().into();
            }
            self.long.push_str(s);
            return Ok(());
        }
        let room = (MAX_KEY - self.len).min(s.len());
        let fits = (0..=room).rev().find(|at| s.is_char_boundary(*at));
        let fits = fits.unwrap_or_default();
        // `split_at` has a panic that prints a character, and the tables for this take 5 kB of flash.
        let (now, rest) = s.split_at_checked(fits).unwrap_or(("", s));
        if let Some(free) = self.bytes.get_mut(self.len..self.len + fits) {
            free.copy_from_slice(now.as_bytes());
        }
        self.len += fits;
        // A report shows the part that fits.
        if rest.is_empty() {
            Ok(())
        } else {
            Err(fmt::Error)
        }
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
        let length = |n: usize| KeyBuf::of(long, &n).map(|key| key.as_str().len());
        assert_eq!(length(317), Ok(317));
        let longer = if cfg!(feature = "alloc") {
            Ok(318)
        } else {
            Err(KeyError::TooLong)
        };
        assert_eq!(length(318), longer);
        let none = |_: &(), _: &mut dyn Write| Err(fmt::Error);
        assert_eq!(KeyBuf::of(none, &()).err(), Some(KeyError::NoKey));
    }

    #[test]
    fn as_much_as_fits_is_shown() {
        let mut key = KeyBuf::new();
        let pieces = ["prod", "/", &"é".repeat(300), "x"];
        let written = pieces.into_iter().try_for_each(|s| key.write_str(s));
        let length = if cfg!(feature = "alloc") { 606 } else { 317 };
        assert_eq!(written.is_ok(), cfg!(feature = "alloc"));
        assert!(key.as_str().starts_with("prod/éé"));
        assert_eq!(key.as_str().len(), length);
    }
}
