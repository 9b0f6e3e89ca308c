//! The content of a JSON string.

use core::fmt::{self, Write};

/// The content of a JSON string, still escaped, or a string of protobuf, which has no escapes.
///
/// It views bytes that a [`Scanner`](crate::json::Scanner) has validated. Other bytes do not panic: invalid escapes and
/// invalid UTF-8 become U+FFFD.
#[derive(Clone, Copy, Default)]
pub struct JsonStr<'a> {
    raw: &'a [u8],
    /// A backslash is a character, and not the start of an escape.
    plain: bool,
}

impl<'a> JsonStr<'a> {
    /// Creates a view of the bytes between the quotes.
    pub(crate) const fn new(raw: &'a [u8]) -> Self {
        Self { raw, plain: false }
    }

    /// Creates a view of text without escapes.
    pub(crate) const fn plain(raw: &'a [u8]) -> Self {
        Self { raw, plain: true }
    }

    /// Returns the bytes between the quotes, unmodified.
    pub(crate) const fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// Returns whether the string is empty.
    pub const fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// Returns the string if it needs no unescaping and is UTF-8.
    pub fn as_plain(&self) -> Option<&'a str> {
        if self.may_have_escapes() {
            return None;
        }
        core::str::from_utf8(self.raw).ok()
    }

    /// Returns an iterator over the unescaped characters.
    ///
    /// A surrogate without its other half becomes U+FFFD.
    pub fn chars(&self) -> impl Iterator<Item = char> + Clone + use<'a> {
        JsonChars {
            rest: self.raw,
            plain: self.plain,
        }
    }

    /// Returns whether the unescaped string equals `text`.
    pub fn eq_str(&self, text: &str) -> bool {
        if self.raw == text.as_bytes() {
            return self.plain || !text.contains('\\');
        }
        // Escapes only make the raw text longer, so shorter strings need no search for them.
        self.raw.len() > text.len() && self.may_have_escapes() && self.chars().eq(text.chars())
    }

    fn may_have_escapes(&self) -> bool {
        !self.plain && self.raw.contains(&b'\\')
    }

    /// Returns whether the unescaped string contains `text`.
    pub(crate) fn contains(&self, text: &str) -> bool {
        let mut rest = self.chars();
        loop {
            let mut here = rest.clone();
            if text.chars().all(|wanted| here.next() == Some(wanted)) {
                return true;
            }
            if rest.next().is_none() {
                return false;
            }
        }
    }

    /// Writes the unescaped string.
    pub(crate) fn write_to(&self, out: &mut dyn Write) -> fmt::Result {
        match self.as_plain() {
            Some(plain) => out.write_str(plain),
            None => self.chars().try_for_each(|char| out.write_char(char)),
        }
    }
}

impl fmt::Display for JsonStr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_to(f)
    }
}

impl fmt::Debug for JsonStr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        self.chars()
            .flat_map(char::escape_debug)
            .try_for_each(|char| f.write_char(char))?;
        f.write_char('"')
    }
}

impl PartialEq for JsonStr<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw && self.plain == other.plain || self.chars().eq(other.chars())
    }
}

impl Eq for JsonStr<'_> {}

impl PartialEq<str> for JsonStr<'_> {
    fn eq(&self, other: &str) -> bool {
        self.eq_str(other)
    }
}

impl PartialEq<&str> for JsonStr<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.eq_str(other)
    }
}

/// An iterator over the unescaped characters of a [`JsonStr`].
#[derive(Clone)]
struct JsonChars<'a> {
    rest: &'a [u8],
    plain: bool,
}

impl JsonChars<'_> {
    /// Consumes `length` bytes and returns `char`.
    fn take(&mut self, length: usize, char: char) -> Option<char> {
        self.rest = self.rest.get(length..).unwrap_or_default();
        Some(char)
    }
}

impl Iterator for JsonChars<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        match self.rest {
            [] => None,
            [b'\\', b'u', digits @ ..] if !self.plain => match (hex(digits), digits.get(4..)) {
                (Some(high @ 0xd800..=0xdbff), Some([b'\\', b'u', more @ ..])) => match hex(more) {
                    Some(low @ 0xdc00..=0xdfff) => {
                        let code = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                        self.take(12, or_replacement(char::from_u32(code)))
                    }
                    _ => self.take(6, char::REPLACEMENT_CHARACTER),
                },
                // An unpaired surrogate is not a character.
                (Some(code), _) => self.take(6, or_replacement(char::from_u32(code))),
                (None, _) => self.take(2, char::REPLACEMENT_CHARACTER),
            },
            [b'\\', escape, ..] if !self.plain => match escape {
                b'"' | b'\\' | b'/' => self.take(2, char::from(*escape)),
                b'b' => self.take(2, '\u{8}'),
                b'f' => self.take(2, '\u{c}'),
                b'n' => self.take(2, '\n'),
                b'r' => self.take(2, '\r'),
                b't' => self.take(2, '\t'),
                _ => self.take(1, char::REPLACEMENT_CHARACTER),
            },
            [b'\\'] if !self.plain => self.take(1, char::REPLACEMENT_CHARACTER),
            [first, ..] if first.is_ascii() => self.take(1, char::from(*first)),
            rest => {
                let window = rest.get(..4).unwrap_or(rest);
                let (valid, bad) = match core::str::from_utf8(window) {
                    Ok(valid) => (valid, 1),
                    Err(error) => {
                        let valid = window.get(..error.valid_up_to()).unwrap_or_default();
                        let bad = error.error_len().unwrap_or(1);
                        (core::str::from_utf8(valid).unwrap_or_default(), bad)
                    }
                };
                match valid.chars().next() {
                    Some(char) => self.take(char.len_utf8(), char),
                    None => self.take(bad, char::REPLACEMENT_CHARACTER),
                }
            }
        }
    }
}

fn or_replacement(char: Option<char>) -> char {
    char.unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Returns the value of four hexadecimal digits.
fn hex(digits: &[u8]) -> Option<u32> {
    let digits = digits.first_chunk::<4>()?;
    digits.iter().try_fold(0, |value, digit| {
        Some(value << 4 | char::from(*digit).to_digit(16)?)
    })
}

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    use super::*;

    fn text(raw: &str) -> JsonStr<'_> {
        JsonStr::new(raw.as_bytes())
    }

    #[test]
    fn unescapes() {
        for (raw, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("é日🦀", "é日🦀"),
            (r#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{c}\n\r\t"),
            (r"\u00e9\u65E5", "é日"),
            (r"\ud83e\udd80!", "🦀!"),
            (r"\uD83E\uDD80", "🦀"),
            (r"\ud83e", "\u{fffd}"),
            (r"\ud83ex", "\u{fffd}x"),
            (r"\udd80\ud83e", "\u{fffd}\u{fffd}"),
            (r"\ud83e\u0041", "\u{fffd}A"),
            (r"\ud83e\ud83e\udd80", "\u{fffd}🦀"),
            (r"\ud83e\n", "\u{fffd}\n"),
            (r"\u0000", "\0"),
        ] {
            assert_eq!(text(raw).to_string(), expected, "{raw}");
            assert_eq!(text(raw).chars().collect::<String>(), expected, "{raw}");
            assert!(text(raw).eq_str(expected), "{raw}");
            assert!(text(raw) == *expected && text(raw) == expected, "{raw}");
            assert_eq!(
                text(raw).as_plain(),
                (!raw.contains('\\')).then_some(expected)
            );
            assert_eq!(text(raw).is_empty(), expected.is_empty());
        }
    }

    #[test]
    fn compares() {
        assert!(!text("a").eq_str("b"));
        assert!(!text("a").eq_str("ab"));
        assert!(!text("ab").eq_str("a"));
        assert!(!text(r"\n").eq_str(r"\n"));
        assert!(text(r"\\n").eq_str(r"\n"));
        assert_eq!(text(r"\u0061b"), text("ab"));
        assert_ne!(text("a"), text("b"));
        assert!(JsonStr::default().is_empty());
    }

    #[test]
    fn contains() {
        let message = text(r"Timeout: Too \u006carge resource version: 5");
        assert!(message.contains("Too large resource version"));
        assert!(message.contains(""));
        assert!(message.contains("5"));
        assert!(!message.contains("55"));
        assert!(text("TooTo large").contains("To large"));
    }

    #[test]
    fn replaces_what_is_not_utf8() {
        let shown = |raw: &[u8]| JsonStr::new(raw).to_string();
        assert_eq!(shown(b"a\xffb"), "a\u{fffd}b");
        assert_eq!(shown(b"\xe6\x97"), "\u{fffd}\u{fffd}");
        assert_eq!(shown(b"\\"), "\u{fffd}");
        assert_eq!(shown(b"\\u12"), "\u{fffd}12");
        assert_eq!(shown(b"\\q"), "\u{fffd}q");
        assert_eq!(JsonStr::new(b"\xff").as_plain(), None);
        assert_eq!(alloc::format!("{:?}", text("a\\\"\\nb")), r#""a\"\nb""#);
    }

    #[test]
    fn survives_anything() {
        let mut random = 7_u64;
        for length in 0..2_000 {
            let bytes: Vec<u8> = (0..length % 20)
                .map(|_| {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    let byte = (random >> 40) as u8;
                    if byte < 64 {
                        b"\\ud8\\dc"[byte as usize % 7]
                    } else {
                        byte
                    }
                })
                .collect();
            assert!(JsonStr::new(&bytes).chars().count() <= bytes.len());
        }
    }
}
