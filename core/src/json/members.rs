//! The members of one object, and the elements of one array.
//!
//! The functions here read bytes that a [`Scanner`](crate::json::Scanner) has validated, so they check only what they
//! need. On invalid or truncated JSON they end early and never panic.

use crate::json::JsonStr;
use crate::json::block::Bits;
use crate::json::scan::plain_end;

/// An iterator over the members of a JSON object: names, and values without the whitespace around them.
///
/// A truncated member is omitted.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    cursor: Cursor<'a>,
}

impl<'a> Fields<'a> {
    /// Creates an iterator over the members of `object`. It is empty if `object` is another value.
    pub fn new(object: &'a [u8]) -> Self {
        Self {
            cursor: Cursor::inside(object, b'{'),
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (JsonStr<'a>, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        Some((self.cursor.key()?, self.cursor.value()?))
    }
}

/// An iterator over the elements of a JSON array, without the whitespace around them.
///
/// A truncated element is omitted.
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    cursor: Cursor<'a>,
}

impl<'a> Elements<'a> {
    /// Creates an iterator over the elements of `array`. It is empty if `array` is another value.
    pub fn new(array: &'a [u8]) -> Self {
        Self {
            cursor: Cursor::inside(array, b'['),
        }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.cursor.eat(b',');
        self.cursor.value()
    }
}

/// Returns the value at a path, such as `["status", "conditions", "0", "type"]`.
///
/// A segment is the name of a member, or a decimal index into an array.
pub fn value_at<'a>(json: &'a [u8], path: &[&str]) -> Option<&'a [u8]> {
    let mut cursor = Cursor::new(json);
    for segment in path {
        // Enter the value without searching for its end.
        if cursor.eat(b'{') {
            while !cursor.key()?.eq_str(segment) {
                cursor.value()?;
            }
        } else if cursor.eat(b'[') {
            for _ in 0..index(segment)? {
                cursor.value()?;
                if !cursor.eat(b',') {
                    return None;
                }
            }
        } else {
            return None;
        }
    }
    cursor.value()
}

/// Returns the content of a string value.
pub fn as_str(value: &[u8]) -> Option<JsonStr<'_>> {
    match value {
        [b'"', content @ .., b'"'] => Some(JsonStr::new(content)),
        _ => None,
    }
}

/// Returns the number if the value is a non-negative integer without fraction and exponent.
pub fn as_u64(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0_u64, |number, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// A position in JSON that advances value by value.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(json: &'a [u8]) -> Self {
        Self { json, at: 0 }
    }

    /// Creates a cursor after the opening bracket, or at the end if another byte comes first.
    fn inside(json: &'a [u8], bracket: u8) -> Self {
        let mut cursor = Self::new(json);
        if !cursor.eat(bracket) {
            cursor.at = json.len();
        }
        cursor
    }

    /// Consumes whitespace, and then `byte` if it is next.
    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        let next = self.peek() == Some(byte);
        self.at += usize::from(next);
        next
    }

    /// Consumes the next key of an object, with the comma before and the colon after it; `None` at the end of the
    /// object.
    pub(crate) fn key(&mut self) -> Option<JsonStr<'a>> {
        self.eat(b',');
        let key = as_str(self.string()?)?;
        self.eat(b':').then_some(key)
    }

    /// Consumes a value; `None` if there is none or it is truncated.
    pub(crate) fn value(&mut self) -> Option<&'a [u8]> {
        match self.peek()? {
            b'"' => self.string(),
            b'{' | b'[' => {
                let start = self.at;
                self.at = container_end(self.json, start)?;
                self.json.get(start..self.at)
            }
            _ => self.scalar(),
        }
    }

    /// Consumes whitespace and returns the next byte without consuming it.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            match *self.json.get(self.at)? {
                b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    /// Returns the position in bytes.
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    /// Returns the unconsumed bytes.
    #[cfg(feature = "alloc")]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.json.get(self.at..).unwrap_or_default()
    }

    /// Consumes a string and returns it with its quotes.
    fn string(&mut self) -> Option<&'a [u8]> {
        if self.peek()? != b'"' {
            return None;
        }
        let start = self.at;
        self.at = string_end(self.json, start + 1)?;
        self.json.get(start..self.at)
    }

    /// Consumes a string; returns the range of its content, and whether it contains escapes.
    #[cfg(feature = "serde_json")]
    pub(crate) fn content(&mut self) -> Option<(core::ops::Range<usize>, bool)> {
        if self.peek()? != b'"' {
            return None;
        }
        let start = self.at + 1;
        let plain = plain_end(self.json, start, &mut false);
        let is_escaped = *self.json.get(plain)? != b'"';
        self.at = string_end(self.json, plain)?;
        Some((start..self.at - 1, is_escaped))
    }

    /// Consumes a number or a literal. It counts as truncated at the end of the input, unless it is the complete input.
    fn scalar(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        let rest = self.json.get(start..)?;
        let length = rest.iter().position(
            |byte| !matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'E' | b'+' | b'-' | b'.'),
        );
        match length {
            Some(0) => None,
            None if start > 0 && !is_space(self.json.get(..start)?) => None,
            _ => {
                let length = length.unwrap_or(rest.len());
                self.at = start + length;
                rest.get(..length)
            }
        }
    }
}

/// Returns the end of a string, searching from the byte after its opening quote.
#[inline]
fn string_end(json: &[u8], mut i: usize) -> Option<usize> {
    loop {
        i = plain_end(json, i, &mut false);
        match json.get(i)? {
            b'"' => return Some(i + 1),
            b'\\' => i += 2,
            _ => return None,
        }
    }
}

/// Returns the end of the container whose opening bracket is at `i`.
///
/// Processes 64 bytes at a time, with a bit for each and without a branch per string. That is more than twice as fast
/// as scanning string by string, and matters because most of an object is skipped.
fn container_end(json: &[u8], mut i: usize) -> Option<usize> {
    let mut depth = 0_usize;
    // State of the previous block: whether it ends in a string, and after an unescaped backslash.
    let mut in_string = 0_u64;
    let mut escaped = false;
    loop {
        let rest = json.get(i..).filter(|rest| !rest.is_empty())?;
        let block = match rest.first_chunk::<64>() {
            Some(block) => Bits::new(block),
            None => {
                let mut padded = [0; 64];
                padded
                    .iter_mut()
                    .zip(rest)
                    .for_each(|(to, from)| *to = *from);
                Bits::new(&padded)
            }
        };

        let quotes = block.quotes & !escaped_bytes(block.backslashes, &mut escaped);
        let strings = prefix_xor(quotes) ^ in_string;
        in_string = 0_u64.wrapping_sub(strings >> 63);

        let (mut opening, mut closing) = (block.opening & !strings, block.closing & !strings);
        // Empty containers, which are frequent in managedFields, do not change the depth. The requested container
        // itself is an exception.
        let empty = opening & (closing >> 1) & !u64::from(depth == 0);
        opening ^= empty;
        closing ^= empty << 1;
        if closing.count_ones() as usize >= depth {
            // The end may be in this block. Match its brackets in order.
            let mut brackets = opening | closing;
            while brackets != 0 {
                let bit = brackets & brackets.wrapping_neg();
                if opening & bit != 0 {
                    depth += 1;
                } else {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return Some(i + bit.trailing_zeros() as usize + 1);
                    }
                }
                brackets ^= bit;
            }
        } else {
            depth = depth + opening.count_ones() as usize - closing.count_ones() as usize;
        }
        i += 64;
    }
}

/// Returns the bytes after an odd number of backslashes.
#[inline(always)]
fn escaped_bytes(mut backslashes: u64, carry: &mut bool) -> u64 {
    const EVEN: u64 = 0x5555_5555_5555_5555;

    let first = u64::from(*carry);
    if backslashes == 0 {
        *carry = false;
        return first;
    }
    backslashes &= !first;
    let behind = backslashes << 1 | first;
    // Adding the starts of runs at odd positions makes these runs carry into the bit after them.
    let odd_starts = backslashes & !EVEN & !behind;
    let (sum, overflow) = odd_starts.overflowing_add(backslashes);
    *carry = overflow;
    (EVEN ^ (sum << 1)) & behind
}

/// Sets every bit to the parity of itself and all lower bits. Applied to quotes, this marks the bytes in strings.
#[inline(always)]
fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

fn is_space(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .all(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t'))
}

/// Returns the array index of a path segment.
pub(crate) fn index(segment: &str) -> Option<usize> {
    as_u64(segment.as_bytes())?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    use super::*;

    fn members(json: &str) -> Vec<(String, &str)> {
        let text = |value| core::str::from_utf8(value).unwrap();
        Fields::new(json.as_bytes())
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect()
    }

    fn elements(json: &str) -> Vec<&str> {
        Elements::new(json.as_bytes())
            .map(|value| core::str::from_utf8(value).unwrap())
            .collect()
    }

    #[test]
    fn lists_members() {
        assert_eq!(members("{}"), []);
        assert_eq!(members(" { } "), []);
        let json = " {\"a\" : 1 , \"b\\n\":\"}\\\"\" ,\n\"c\":[ {} ,2] , \"d\" : {\"e\":{ }} ,\"f\":null,\"g\":-1.5e+3 } ";
        let expected = [
            ("a", "1"),
            ("b\n", "\"}\\\"\""),
            ("c", "[ {} ,2]"),
            ("d", "{\"e\":{ }}"),
            ("f", "null"),
            ("g", "-1.5e+3"),
        ];
        assert_eq!(
            members(json),
            expected.map(|(name, value)| (name.to_string(), value))
        );
    }

    #[test]
    fn lists_elements() {
        assert_eq!(elements("[]"), [""; 0]);
        assert_eq!(
            elements("[ 1 , \"a,]\" ,[], {\"b\":[1]},true]"),
            ["1", "\"a,]\"", "[]", "{\"b\":[1]}", "true"]
        );
        assert_eq!(elements("{\"a\":1}"), [""; 0]);
        assert_eq!(members("[1]"), []);
    }

    #[test]
    fn finds_values() {
        let json =
            br#"{"status":{"conditions":[{"type":"Ready","n":7},{"type":"\u0041"}]},"1":{"x":2}}"#;
        let find =
            |path: &[&str]| value_at(json, path).map(|value| core::str::from_utf8(value).unwrap());
        assert_eq!(
            find(&["status", "conditions", "0", "type"]),
            Some("\"Ready\"")
        );
        assert_eq!(
            find(&["status", "conditions", "1", "type"]),
            Some("\"\\u0041\"")
        );
        assert_eq!(find(&["1", "x"]), Some("2"));
        assert_eq!(find(&[]).map(str::len), Some(json.len()));
        for absent in [
            &["spec"][..],
            &["status", "conditions", "2"],
            &["status", "conditions", "-1"],
            &["status", "conditions", ""],
            &["status", "conditions", "type"],
            &["1", "x", "y"],
        ] {
            assert_eq!(find(absent), None, "{absent:?}");
        }
        assert_eq!(
            value_at(json, &["status", "conditions", "0", "n"]).and_then(as_u64),
            Some(7)
        );
        assert!(
            as_str(
                find(&["status", "conditions", "1", "type"])
                    .unwrap()
                    .as_bytes()
            )
            .unwrap()
                == "A"
        );
    }

    #[test]
    fn reads_scalars() {
        assert_eq!(as_u64(b"0"), Some(0));
        assert_eq!(as_u64(b"18446744073709551615"), Some(u64::MAX));
        for other in [
            &b"18446744073709551616"[..],
            b"-1",
            b"1.0",
            b"1e3",
            b"",
            b"\"1\"",
            b"null",
        ] {
            assert_eq!(as_u64(other), None);
        }
        assert!(as_str(b"\"a\"").unwrap() == "a");
        assert!(as_str(b"\"\"").unwrap().is_empty());
        for other in [&b"\""[..], b"", b"1", b"null", b"{}"] {
            assert_eq!(as_str(other), None);
        }
    }

    #[test]
    fn leaves_out_what_is_cut_off() {
        let json = "{\"a\":{\"b\":[1,\"]\"]},\"c\":\"d\\\"e\",\"f\":true,\"g\":12}";
        let whole = members(json);
        for end in 0..json.len() {
            let part = members(&json[..end]);
            assert!(
                part.len() <= whole.len() && part == whole[..part.len()],
                "cut at {end}: {part:?}"
            );
        }
        assert_eq!(value_at(b"12", &[]), Some(&b"12"[..]));
    }

    /// Finds the end of a container byte by byte.
    fn plain_container_end(json: &[u8]) -> Option<usize> {
        let (mut depth, mut in_string, mut escaped) = (0, false, false);
        for (at, byte) in json.iter().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }

    #[test]
    fn finds_ends_of_containers() {
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        for _ in 0..crate::rounds(50_000) {
            let mut json = alloc::vec![b'{'];
            for _ in 0..random % 300 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                // Backslashes occur only in strings, as in JSON. Text makes the containers span several blocks.
                json.extend_from_slice(match random >> 60 {
                    0 | 1 => b"{",
                    2 => b"[",
                    3 | 4 => b"}",
                    5 => b"]",
                    6 => b"\"\\\\\\\"}\"",
                    7 => b"\"\\\\\\\\\"",
                    8 => b"\"]\\\\\\\\\\\\\\\\\\\\\\\\\\\"{\"",
                    9 => b"\"a\\u0022}}\"",
                    10 => b"\"long text that goes on, and on, and on, and on: }}}}\"",
                    11 => "\"é\u{fb}ý\"".as_bytes(),
                    _ => b",:1 x",
                });
            }
            assert_eq!(
                container_end(&json, 0),
                plain_container_end(&json),
                "{}",
                json.escape_ascii()
            );
        }
    }

    #[test]
    fn survives_anything() {
        let alphabet = b"{}[]\",:\\a1 \n\xff";
        let mut random = 3_u64;
        for round in 0..20_000 {
            let bytes: Vec<u8> = (0..round % 90)
                .map(|_| {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    alphabet[(random >> 40) as usize % alphabet.len()]
                })
                .collect();
            assert!(Fields::new(&bytes).count() <= bytes.len());
            assert!(Elements::new(&bytes).count() <= bytes.len());
            let _: Option<&[u8]> = value_at(&bytes, &["a", "0"]);
        }
    }
}
