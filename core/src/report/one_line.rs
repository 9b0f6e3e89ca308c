//! External texts within a message, which must not affect other lines.

use core::fmt::{self, Write as _};

/// A value with both `Display` and `Debug`.
pub trait DisplayDebug: fmt::Display + fmt::Debug {}

impl<T: fmt::Display + fmt::Debug> DisplayDebug for T {}

/// Implements `Debug` for an error through its `Display`.
pub(crate) struct Shown<'a, E>(pub(crate) &'a E);

impl<E: fmt::Display> fmt::Display for Shown<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<E: fmt::Display> fmt::Debug for Shown<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Displays an external text, such as one from a server or a decoder, on one line.
///
/// Line breaks, escape sequences, other control characters and those that reorder text are escaped as in a Rust string
/// literal. So the text can neither forge a log line nor control a terminal. [`Report`](super::Report) does this with all
/// of its texts.
///
/// ```
/// use informer_core::report::OneLine;
///
/// let forged = "no such pod\n2026-01-01 INFO all is well\u{1b}[2J";
/// let shown = r"no such pod\n2026-01-01 INFO all is well\u{1b}[2J";
/// assert_eq!(OneLine(forged).to_string(), shown);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OneLine<T>(pub T);

impl<T: fmt::Display> fmt::Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaped(f), "{}", self.0)
    }
}

/// Escapes characters that would affect other lines.
pub(super) struct Escaped<'a, 'b>(pub(super) &'a mut fmt::Formatter<'b>);

impl fmt::Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| {
            if leaves_line(c) {
                write!(self.0, "{}", c.escape_default())
            } else {
                self.0.write_char(c)
            }
        })
    }
}

pub(super) fn leaves_line(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            // Marks, embeddings and isolates of bidirectional text, and separators of lines and paragraphs.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}
