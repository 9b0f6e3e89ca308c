//! Skipping a value.

use super::{DEPTH_LIMIT, Expected, TextEnd, after_comma, after_value, scan_text};
use crate::json::error::ScanErrorKind;

/// The state of a scanner while it skips a value.
///
/// It is apart from the scanner so that it stays in registers: stores to memory would dominate the cost. All of its
/// functions are therefore inlined into [`Skip::run`].
pub(super) struct Skip<'a> {
    pub(super) input: &'a [u8],
    pub(super) at: usize,
    /// The depth around the value.
    pub(super) floor: u32,
    pub(super) state: Expected,
    pub(super) depth: u32,
    pub(super) kinds: u128,
    pub(super) literal: &'static [u8],
    pub(super) in_key: bool,
    pub(super) non_ascii: bool,
    pub(super) too_deep: bool,
}

/// Why nothing more is skipped.
pub(super) enum Stopped {
    /// The value has ended.
    Ended,
    Bad(ScanErrorKind),
}

type Skipped = Result<(), Stopped>;

impl Skip<'_> {
    /// Skips until the value ends, or to the end of the input.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(super) fn run(&mut self) -> Skipped {
        while let Some(&byte) = self.input.get(self.at) {
            match self.state {
                Expected::Key | Expected::KeyOrEnd => self.before_key(byte)?,
                Expected::Colon => self.before_colon(byte)?,
                Expected::Value | Expected::ValueOrEnd => self.before_value(byte)?,
                Expected::AfterValue => self.after_value(byte)?,
                Expected::Text if self.in_key => self.key()?,
                Expected::Text => self.string()?,
                Expected::Escape | Expected::Hex(_) => self.escaped(byte)?,
                Expected::Literal => self.literal(byte)?,
                Expected::Minus
                | Expected::Zero
                | Expected::Integer
                | Expected::Point
                | Expected::Fraction
                | Expected::ExponentMark
                | Expected::ExponentSign
                | Expected::Exponent => self.number(byte)?,
                Expected::Deep => self.deep(byte)?,
            }
        }
        Ok(())
    }

    /// Consumes the byte, and expects this next.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn proceed(&mut self, next: Expected) {
        self.at += 1;
        self.state = next;
    }

    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn space(&mut self, byte: u8) -> Skipped {
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
            _ => return Err(Stopped::Bad(ScanErrorKind::UnexpectedByte(byte))),
        }
        Ok(())
    }

    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn before_key(&mut self, byte: u8) -> Skipped {
        match byte {
            b'"' => {
                self.at += 1;
                self.key()
            }
            b'}' if self.state == Expected::KeyOrEnd => self.close(),
            _ => self.space(byte),
        }
    }

    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn before_colon(&mut self, byte: u8) -> Skipped {
        match byte {
            b':' => self.proceed(Expected::Value),
            _ => self.space(byte)?,
        }
        Ok(())
    }

    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn before_value(&mut self, byte: u8) -> Skipped {
        match byte {
            b'"' => {
                self.at += 1;
                return self.string();
            }
            b'{' | b'[' => self.open(byte),
            b']' if self.state == Expected::ValueOrEnd => return self.close(),
            b'0'..=b'9' | b'-' => self.proceed(match byte {
                b'-' => Expected::Minus,
                b'0' => Expected::Zero,
                _ => Expected::Integer,
            }),
            b't' | b'f' | b'n' => {
                self.literal = match byte {
                    b't' => b"rue",
                    b'f' => b"alse",
                    _ => b"ull",
                };
                self.proceed(Expected::Literal);
            }
            _ => return self.space(byte),
        }
        Ok(())
    }

    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn after_value(&mut self, byte: u8) -> Skipped {
        match byte {
            b',' => self.proceed(after_comma(self.kinds)),
            b'}' | b']' if (byte == b'}') == (self.kinds & 1 == 1) => return self.close(),
            _ => return self.space(byte),
        }
        Ok(())
    }

    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn open(&mut self, byte: u8) {
        let object = byte == b'{';
        self.depth += 1;
        let inside = if self.depth > DEPTH_LIMIT {
            self.too_deep = true;
            Expected::Deep
        } else {
            self.kinds = self.kinds << 1 | u128::from(object);
            if object {
                Expected::KeyOrEnd
            } else {
                Expected::ValueOrEnd
            }
        };
        self.proceed(inside);
    }

    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn close(&mut self) -> Skipped {
        self.at += 1;
        self.depth -= 1;
        self.kinds >>= 1;
        self.end_value()?;
        self.comma();
        Ok(())
    }

    /// Ends a value. At the top level, no comma can follow.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn end_value(&mut self) -> Skipped {
        self.state = after_value(self.depth);
        if self.depth <= self.floor {
            return Err(Stopped::Ended);
        }
        Ok(())
    }

    /// Takes the most likely next byte after a value in a container.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn comma(&mut self) {
        if self.input.get(self.at) == Some(&b',') {
            self.proceed(after_comma(self.kinds));
        }
    }

    /// Reads the text of a key and its closing quote, and what most likely follows: a colon, and a string.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn key(&mut self) -> Skipped {
        let end = scan_text(self.input, self.at, &mut self.non_ascii);
        self.at = end.at;
        match end.how {
            TextEnd::Quote => {
                self.state = Expected::Colon;
                if self.input.get(self.at) == Some(&b':') {
                    self.proceed(Expected::Value);
                    if self.input.get(self.at) == Some(&b'"') {
                        self.at += 1;
                        return self.string();
                    }
                }
            }
            TextEnd::Pause(inside) => (self.in_key, self.state) = (true, inside),
            TextEnd::Bad(kind) => return Err(Stopped::Bad(kind)),
        }
        Ok(())
    }

    /// Reads the text of a string value and its closing quote.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn string(&mut self) -> Skipped {
        let end = scan_text(self.input, self.at, &mut self.non_ascii);
        self.at = end.at;
        match end.how {
            TextEnd::Quote if self.depth > DEPTH_LIMIT => self.state = Expected::Deep,
            TextEnd::Quote => {
                self.end_value()?;
                self.comma();
            }
            TextEnd::Pause(inside) => (self.in_key, self.state) = (false, inside),
            TextEnd::Bad(kind) => return Err(Stopped::Bad(kind)),
        }
        Ok(())
    }

    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn escaped(&mut self, byte: u8) -> Skipped {
        match self.state.after_escaped_byte(byte) {
            Some(next) => self.proceed(next),
            None => return Err(Stopped::Bad(ScanErrorKind::BadEscape(byte))),
        }
        Ok(())
    }

    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn literal(&mut self, byte: u8) -> Skipped {
        match self.literal {
            [next, rest @ ..] if *next == byte => {
                self.at += 1;
                self.literal = rest;
                if rest.is_empty() {
                    self.end_value()?;
                }
                Ok(())
            }
            _ => Err(Stopped::Bad(ScanErrorKind::BadLiteral(byte))),
        }
    }

    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn number(&mut self, byte: u8) -> Skipped {
        match self.state.after_number_byte(byte) {
            Some(next) => self.proceed(next),
            None if self.state.may_end_number() => return self.end_value(),
            None => return Err(Stopped::Bad(ScanErrorKind::BadNumber(byte))),
        }
        Ok(())
    }

    /// Takes a byte below the depth that is validated.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn deep(&mut self, byte: u8) -> Skipped {
        self.at += 1;
        match byte {
            b'"' => return self.string(),
            b'{' | b'[' => match self.depth.checked_add(1) {
                Some(more) => self.depth = more,
                None => return Err(Stopped::Bad(ScanErrorKind::TooDeep)),
            },
            b'}' | b']' => {
                self.depth -= 1;
                if self.depth <= DEPTH_LIMIT {
                    return self.end_value();
                }
            }
            _ => {}
        }
        Ok(())
    }
}
