//! Errors of label selectors.

use core::{error::Error, fmt};

/// A mistake in a label selector, and its position.
///
/// # Examples
///
/// ```
/// use informer_core::selector::{Selector, SelectorErrorKind};
///
/// let error = Selector::parse("app in prod").unwrap_err();
/// assert_eq!(error.kind(), SelectorErrorKind::ExpectedParenthesis);
/// assert_eq!(
///     error.to_string(),
///     "invalid label selector, byte 7: found 'p', expected `(`; write the values of `in` and `notin` as `(a,b)`",
/// );
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SelectorError {
    kind: SelectorErrorKind,
    offset: Option<usize>,
    found: Option<char>,
}

impl SelectorError {
    /// Returns the kind of the mistake.
    #[must_use]
    pub const fn kind(&self) -> SelectorErrorKind {
        self.kind
    }

    /// Returns the byte offset in the text, or `None` if the requirement was not parsed from text.
    #[must_use]
    pub const fn offset(&self) -> Option<usize> {
        self.offset
    }

    pub(super) const fn at(kind: SelectorErrorKind, offset: usize, found: Option<char>) -> Self {
        Self {
            kind,
            offset: Some(offset),
            found,
        }
    }

    #[cfg(feature = "alloc")]
    pub(super) fn without_text(self) -> Self {
        Self {
            offset: None,
            ..self
        }
    }

    pub(super) fn shifted(self, by: usize) -> Self {
        Self {
            offset: self.offset.map(|offset| offset + by),
            ..self
        }
    }
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            Some(offset) => write!(f, "invalid label selector, byte {offset}: ")?,
            None => f.write_str("invalid label requirement: ")?,
        }
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SelectorErrorKind {
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
    /// `in` or `notin` has no values.
    NoValues,
    /// `=`, `==`, `!=`, `>` or `<` does not have exactly one value.
    NotOneValue,
    /// A requirement without values has values.
    UnwantedValues,
}

impl SelectorErrorKind {
    const fn is_syntax(self) -> bool {
        matches!(
            self,
            Self::ExpectedKey
                | Self::ExpectedOperator
                | Self::ExpectedParenthesis
                | Self::ExpectedValue
                | Self::ExpectedListEnd
                | Self::ExpectedEnd
        )
    }
}

impl fmt::Display for SelectorErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ExpectedKey => "expected a label key; write `key`, `!key`, `key=value` or `key in (a,b)`",
            Self::ExpectedOperator => {
                "expected `=`, `==`, `!=`, `in`, `notin`, `>`, `<`, or `,` before the next requirement"
            }
            Self::ExpectedParenthesis => "expected `(`; write the values of `in` and `notin` as `(a,b)`",
            Self::ExpectedValue => "expected a label value; omit it for an empty value",
            Self::ExpectedListEnd => "expected `,` or `)`; separate the values by commas and close the list",
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
            Self::NoValues => "`in` and `notin` need at least one value",
            Self::NotOneValue => "`=`, `==`, `!=`, `>` and `<` take exactly one value",
            Self::UnwantedValues => "`key` and `!key` take no values; remove them",
        })
    }
}
