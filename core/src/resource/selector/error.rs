//! Errors of label selectors.

use core::{error::Error, fmt};

/// A mistake in a label selector, and its position.
///
/// # Examples
///
/// ```
/// use informer_core::selector::LabelSelector;
///
/// assert_eq!(
///     LabelSelector::parse("app in prod").unwrap_err().to_string(),
///     "invalid label selector, byte 7: found 'p', expected `(`; write the values of `in` and `notin` as `(a,b)`",
/// );
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SelectorError {
    pub(super) kind: Mistake,
    /// The byte offset in the text.
    pub(super) offset: usize,
    found: Option<char>,
}

impl SelectorError {
    pub(super) const fn at(kind: Mistake, offset: usize, found: Option<char>) -> Self {
        Self {
            kind,
            offset,
            found,
        }
    }

    pub(super) const fn shifted(self, by: usize) -> Self {
        Self::at(self.kind, self.offset + by, self.found)
    }
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid label selector, byte {}: ", self.offset)?;
        if let Some(found) = self.found {
            write!(f, "found {found:?}, ")?;
        } else if self.kind.is_syntax() {
            f.write_str("found the end, ")?;
        }
        self.kind.fmt(f)
    }
}

impl Error for SelectorError {}

crate::readable_errors!(SelectorError);

/// The kind of a mistake in a label selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    /// Expected a key.
    ExpectedKey,
    /// Expected an operator, or the end of the requirement.
    ExpectedOperator,
    /// Expected `(`.
    ExpectedParenthesis,
    /// Expected a value.
    ExpectedValue,
    /// Expected `,` or `)` in a list of values.
    ExpectedListEnd,
    /// Expected a value after two commas in a list of values.
    ExpectedListValue,
    /// Expected the end of the requirement.
    ExpectedEnd,
    /// The name part of a key is empty or contains an invalid character.
    InvalidKey,
    /// The name part of a key is too long.
    KeyTooLong,
    /// The prefix of a key is not a DNS subdomain of at most 253 bytes.
    InvalidPrefix,
    /// A value contains an invalid character.
    InvalidValue,
    /// A value is too long.
    ValueTooLong,
    /// The value of `>` or `<` is not an integer.
    NotAnInteger,
}

impl Mistake {
    const fn is_syntax(self) -> bool {
        matches!(
            self,
            Self::ExpectedKey
                | Self::ExpectedOperator
                | Self::ExpectedParenthesis
                | Self::ExpectedValue
                | Self::ExpectedListEnd
                | Self::ExpectedListValue
                | Self::ExpectedEnd
        )
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ExpectedKey => "expected a label key; write `key`, `!key`, `key=value` or `key in (a,b)`",
            Self::ExpectedOperator => {
                "expected `=`, `==`, `!=`, `in`, `notin`, `>`, `<`, or `,` before the next requirement"
            }
            Self::ExpectedParenthesis => "expected `(`; write the values of `in` and `notin` as `(a,b)`",
            Self::ExpectedValue => "expected a label value; omit it for an empty value",
            Self::ExpectedListEnd => "expected `,` or `)`; separate the values by commas and close the list",
            Self::ExpectedListValue => "expected a value after two commas; write one comma for an empty value at the end",
            Self::ExpectedEnd => "expected `,` or the end; separate the requirements by commas",
            Self::InvalidKey => {
                "the name of a label key must consist of letters, digits, `-`, `_` and `.`, with a letter or digit \
                 at both ends, after at most one `prefix/`"
            }
            Self::KeyTooLong => "the name of a label key must have at most 63 bytes; shorten it",
            Self::InvalidPrefix => {
                "the prefix of a label key must be a DNS name such as `example.com`, in lower case and of at most \
                 253 bytes"
            }
            Self::InvalidValue => {
                "a label value must be empty or consist of letters, digits, `-`, `_` and `.`, with a letter or digit \
                 at both ends; write it without quotes"
            }
            Self::ValueTooLong => "a label value must have at most 63 bytes; shorten it",
            Self::NotAnInteger => "the value of `>` and `<` must be an integer of 64 bits",
        })
    }
}
