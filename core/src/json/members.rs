//! The members of one object, and the elements of one array.
//!
//! The functions here read bytes that a [`Scanner`](crate::json::Scanner) has validated, so they check only what they
//! need. On invalid or truncated JSON they end early and never panic.

#[cfg(test)]
mod tests;

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
            b'"' => self.quoted(),
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
        self.quoted()
    }

    /// Consumes a string from its quote on.
    fn quoted(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        self.at = string_end(self.json, start + 1)?;
        self.json.get(start..self.at)
    }

    /// Consumes a string without escapes and returns the range of its content; `None` if the next value is another one.
    #[cfg(feature = "serde_json")]
    pub(crate) fn plain(&mut self) -> Option<core::ops::Range<usize>> {
        if self.peek()? != b'"' {
            return None;
        }
        let start = self.at + 1;
        let end = plain_end(self.json, start, &mut false);
        if *self.json.get(end)? != b'"' {
            return None;
        }
        self.at = end + 1;
        Some(start..end)
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
