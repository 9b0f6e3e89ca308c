//! A resumable scanner that validates JSON as it arrives.
//!
//! The input may be split at any byte. Nothing is buffered: between two pieces of input, the scanner stores only a
//! state, the depth, and one bit per level that distinguishes objects from arrays.

mod skip;
#[cfg(test)]
mod tests;

use self::skip::{Skip, Stopped};
use super::block::{BLOCK, plain_in_block};
use super::error::{ScanError, ScanErrorKind};

/// The deepest nesting that is validated; deeper levels are only counted.
const DEPTH_LIMIT: u32 = 128;

/// A push scanner that validates RFC 8259 JSON, for input that is split at any byte.
///
/// [`skip_value`](Self::skip_value) advances to the end of a value, or as far as the input goes.
///
/// It checks structure, numbers, literals and escapes, but not UTF-8. Below 128 levels it only counts
/// brackets and skips strings, and [`too_deep`](Self::too_deep) returns true.
///
/// The scanner is unusable after an error.
#[derive(Debug, Clone)]
pub struct Scanner {
    state: Expected,
    /// The number of open containers.
    depth: u32,
    /// One bit for each open container up to the limit, the innermost lowest; set for objects.
    kinds: u128,
    /// The number of bytes consumed since the start.
    offset: u64,
    /// The remaining bytes of the current literal.
    literal: &'static [u8],
    /// Whether the current string is a key.
    in_key: bool,
    non_ascii: bool,
    too_deep: bool,
}

impl Scanner {
    /// Creates a scanner that expects the first byte of a value.
    pub const fn new() -> Self {
        Self {
            state: Expected::Value,
            depth: 0,
            kinds: 0,
            offset: 0,
            literal: &[],
            in_key: false,
            non_ascii: false,
            too_deep: false,
        }
    }

    /// Advances from `input[*at]` to the next position where something begins or ends.
    ///
    /// Consumes the bytes before it (whitespace, commas, colons, the text of a key) and advances `at`. After
    /// [`Stop::Value`], call [`enter`](Self::enter), or [`skip_value`](Self::skip_value) until that returns true;
    /// another step would report the same value again.
    ///
    /// # Errors
    ///
    /// Fails if the input is not JSON.
    pub(crate) fn step(&mut self, input: &[u8], at: &mut usize) -> Result<Stop, ScanError> {
        while let Some(&byte) = input.get(*at) {
            let start = *at;
            let state = self.state;
            let step = match (state, self.in_key) {
                (Expected::Text, true) => self.key_text(input, at),
                (Expected::Escape | Expected::Hex(_), true) => match state.after_escaped_byte(byte)
                {
                    Some(next) => {
                        self.state = next;
                        *at += 1;
                        Ok(None)
                    }
                    None => Err(ScanErrorKind::BadEscape(byte)),
                },
                (
                    Expected::Key
                    | Expected::KeyOrEnd
                    | Expected::Colon
                    | Expected::Value
                    | Expected::ValueOrEnd
                    | Expected::AfterValue,
                    _,
                ) => self.between(byte, at),
                // A value that was not skipped to its end.
                _ => {
                    if self.skip_value(input, at, u32::MAX)? {
                        continue;
                    }
                    return Ok(Stop::More);
                }
            };
            self.offset += (*at - start) as u64;
            match step {
                Ok(Some(step)) => return Ok(step),
                Ok(None) => {}
                Err(kind) => {
                    let offset = self.offset;
                    return Err(ScanError { offset, kind });
                }
            }
        }
        Ok(Stop::More)
    }

    /// Takes a byte outside of keys and values.
    fn between(&mut self, byte: u8, at: &mut usize) -> Result<Option<Stop>, ScanErrorKind> {
        let in_object = self.kinds & 1 == 1;
        let step = match (self.state, byte) {
            (_, b' ' | b'\n' | b'\r' | b'\t') => None,
            (Expected::Key | Expected::KeyOrEnd, b'"') => {
                self.in_key = true;
                self.state = Expected::Text;
                Some(Stop::KeyStart)
            }
            (Expected::Colon, b':') => {
                self.state = Expected::Value;
                None
            }
            (Expected::Value | Expected::ValueOrEnd, _) if begins_value(byte) => {
                return Ok(Some(Stop::Value(byte)));
            }
            (Expected::AfterValue, b',') => {
                self.state = after_comma(self.kinds);
                None
            }
            (Expected::KeyOrEnd | Expected::AfterValue, b'}') if in_object => Some(self.close()),
            (Expected::ValueOrEnd | Expected::AfterValue, b']') if !in_object => Some(self.close()),
            _ => return Err(ScanErrorKind::UnexpectedByte(byte)),
        };
        *at += 1;
        Ok(step)
    }

    fn close(&mut self) -> Stop {
        self.depth -= 1;
        self.kinds >>= 1;
        self.state = after_value(self.depth);
        Stop::Closed
    }

    /// Reads the text of a key and its closing quote.
    fn key_text(&mut self, input: &[u8], at: &mut usize) -> Result<Option<Stop>, ScanErrorKind> {
        let end = scan_text(input, *at, &mut self.non_ascii);
        *at = end.at;
        match end.how {
            TextEnd::Quote => {
                self.state = Expected::Colon;
                Ok(Some(Stop::KeyEnd))
            }
            TextEnd::Pause(inside) => {
                self.state = inside;
                Ok(None)
            }
            TextEnd::Bad(kind) => Err(kind),
        }
    }

    /// Advances to the end of the value that has begun, or of the next value.
    ///
    /// `floor` is the depth around the value. Returns whether the value has ended. If not, all input was consumed, and
    /// the call must be repeated with more. A number ends only with the byte after it, which is not consumed.
    ///
    /// # Errors
    ///
    /// Fails if the input is not JSON.
    pub fn skip_value(
        &mut self,
        input: &[u8],
        at: &mut usize,
        floor: u32,
    ) -> Result<bool, ScanError> {
        let start = *at;
        let mut skip = Skip {
            input,
            at: start,
            floor,
            state: self.state,
            depth: self.depth,
            kinds: self.kinds,
            literal: self.literal,
            in_key: self.in_key,
            non_ascii: self.non_ascii,
            too_deep: self.too_deep,
        };
        let outcome = skip.run();
        let offset = self.offset + (skip.at - start) as u64;
        *at = skip.at;
        *self = Self {
            state: skip.state,
            depth: skip.depth,
            kinds: skip.kinds,
            offset,
            literal: skip.literal,
            in_key: skip.in_key,
            non_ascii: skip.non_ascii,
            too_deep: skip.too_deep,
        };
        match outcome {
            Ok(()) => Ok(false),
            Err(Stopped::Ended) => Ok(true),
            Err(Stopped::Bad(kind)) => Err(ScanError { offset, kind }),
        }
    }

    /// Creates a scanner for a value within `depth` containers. `kinds` has a bit for each, set for objects, the
    /// innermost lowest.
    pub(crate) const fn inside(depth: u32, kinds: u128) -> Self {
        let mut scanner = Self::new();
        scanner.depth = depth;
        scanner.kinds = kinds;
        scanner
    }

    /// Enters the container whose first byte was reported by [`Stop::Value`], and consumes that byte.
    ///
    /// # Errors
    ///
    /// Fails if the container is 128 levels deep, or if `first` does not begin a container. Nothing is
    /// consumed, so another [`step`](Self::step) would report the same value again. [`skip_value`](Self::skip_value)
    /// still works.
    pub(crate) fn enter(&mut self, first: u8, at: &mut usize) -> Result<(), ScanError> {
        let kind = match first {
            b'{' | b'[' if self.depth < DEPTH_LIMIT => None,
            b'{' | b'[' => Some(ScanErrorKind::TooDeep),
            _ => Some(ScanErrorKind::UnexpectedByte(first)),
        };
        if let Some(kind) = kind {
            let offset = self.offset;
            return Err(ScanError { offset, kind });
        }
        let object = first == b'{';
        self.kinds = self.kinds << 1 | u128::from(object);
        self.depth += 1;
        self.state = if object {
            Expected::KeyOrEnd
        } else {
            Expected::ValueOrEnd
        };
        self.offset += 1;
        *at += 1;
        Ok(())
    }

    /// Resets the results of [`saw_non_ascii`](Self::saw_non_ascii) and [`too_deep`](Self::too_deep).
    pub(crate) fn clear_marks(&mut self) {
        self.non_ascii = false;
        self.too_deep = false;
    }

    /// Returns the number of open containers.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Returns the number of bytes consumed since the start.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns whether there may have been a byte outside of ASCII since the marks were cleared.
    ///
    /// False is certain. True is a hint: strings are scanned in blocks, which may extend past their end.
    pub(crate) fn saw_non_ascii(&self) -> bool {
        self.non_ascii
    }

    /// Returns whether nesting exceeded 128 since the marks were cleared.
    pub fn too_deep(&self) -> bool {
        self.too_deep
    }
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new()
    }
}

/// The position at which [`Scanner::step`] stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// All input was consumed.
    More,
    /// A key begins; its opening quote is consumed.
    KeyStart,
    /// A key has ended; its closing quote is consumed.
    KeyEnd,
    /// A value begins with this byte, which is not consumed.
    Value(u8),
    /// A container has ended; its closing bracket is consumed.
    Closed,
}

/// The input that is expected next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// A value; at the top level also whitespace or nothing.
    Value,
    /// The first element of an array, or its end.
    ValueOrEnd,
    /// A key, after a comma.
    Key,
    /// The first key of an object, or its end.
    KeyOrEnd,
    Colon,
    /// A comma, or the end of the innermost container.
    AfterValue,
    /// Text of a string.
    Text,
    /// The character after a backslash.
    Escape,
    /// This many hexadecimal digits.
    Hex(u8),
    Literal,
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    ExponentMark,
    ExponentSign,
    Exponent,
    /// Anything, below the validated depth.
    Deep,
}

impl Expected {
    /// Returns the state after another byte of a number; `None` if the byte is not part of it.
    fn after_number_byte(self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (Self::Integer, b'0'..=b'9') => Some(Self::Integer),
            (Self::Minus, b'0') => Some(Self::Zero),
            (Self::Minus, b'1'..=b'9') => Some(Self::Integer),
            (Self::Zero | Self::Integer, b'.') => Some(Self::Point),
            (Self::Point | Self::Fraction, b'0'..=b'9') => Some(Self::Fraction),
            (Self::Zero | Self::Integer | Self::Fraction, b'e' | b'E') => Some(Self::ExponentMark),
            (Self::ExponentMark, b'+' | b'-') => Some(Self::ExponentSign),
            (Self::ExponentMark | Self::ExponentSign | Self::Exponent, b'0'..=b'9') => {
                Some(Self::Exponent)
            }
            _ => None,
        }
    }

    /// Returns the state after another byte of an escape; `None` if the byte is not part of one.
    #[inline(always)]
    fn after_escaped_byte(self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (Self::Escape, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                Some(Self::Text)
            }
            (Self::Escape, b'u') => Some(Self::Hex(4)),
            (Self::Hex(left @ 2..), _) if byte.is_ascii_hexdigit() => Some(Self::Hex(left - 1)),
            (Self::Hex(_), _) if byte.is_ascii_hexdigit() => Some(Self::Text),
            _ => None,
        }
    }

    fn may_end_number(self) -> bool {
        matches!(
            self,
            Self::Zero | Self::Integer | Self::Fraction | Self::Exponent
        )
    }
}

/// Returns the state after a value. At the top level, no comma can follow.
const fn after_value(depth: u32) -> Expected {
    if depth == 0 {
        Expected::Value
    } else {
        Expected::AfterValue
    }
}

const fn after_comma(kinds: u128) -> Expected {
    if kinds & 1 == 1 {
        Expected::Key
    } else {
        Expected::Value
    }
}

fn begins_value(byte: u8) -> bool {
    matches!(
        byte,
        b'"' | b'{' | b'[' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n'
    )
}

/// The position up to which a string was read, and the reason to stop.
struct ReadText {
    at: usize,
    how: TextEnd,
}

enum TextEnd {
    /// Its closing quote is consumed.
    Quote,
    /// The string continues in this state.
    Pause(Expected),
    Bad(ScanErrorKind),
}

/// Reads the text of a string from `input[i]` on.
// Small processors have no flash for a copy at each place.
#[cfg_attr(target_pointer_width = "64", inline(always))]
fn scan_text(input: &[u8], mut i: usize, wide: &mut bool) -> ReadText {
    let how = loop {
        i = plain_end(input, i, wide);
        match input.get(i) {
            Some(b'"') => {
                i += 1;
                break TextEnd::Quote;
            }
            Some(b'\\') => {
                i += 1;
                match input.get(i) {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => i += 1,
                    // Unicode escapes and errors are handled by the state machine.
                    _ => break TextEnd::Pause(Expected::Escape),
                }
            }
            Some(&byte) => break TextEnd::Bad(ScanErrorKind::ControlInString(byte)),
            None => break TextEnd::Pause(Expected::Text),
        }
    };
    ReadText { at: i, how }
}

/// Returns the position of the first quote, backslash or control character from `input[i]` on, and records bytes
/// outside of ASCII.
#[cfg_attr(target_pointer_width = "64", inline(always))]
pub(crate) fn plain_end(input: &[u8], mut i: usize, wide: &mut bool) -> usize {
    while let Some(block) = input.get(i..).and_then(|rest| rest.first_chunk::<BLOCK>()) {
        let plain = plain_in_block(block, wide);
        i += plain;
        if plain < BLOCK {
            return i;
        }
    }
    while let Some(&byte) = input.get(i)
        && byte >= b' '
        && !matches!(byte, b'"' | b'\\')
    {
        *wide |= !byte.is_ascii();
        i += 1;
    }
    i
}
