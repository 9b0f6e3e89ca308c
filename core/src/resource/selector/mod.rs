//! Label selectors, with the grammar and semantics of the API server and client-go.

mod error;
#[cfg(feature = "alloc")]
mod fields;
#[cfg(feature = "alloc")]
mod owned;
#[cfg(test)]
mod tests;

use error::Mistake;
pub use error::SelectorError;
#[cfg(feature = "alloc")]
pub use fields::{FieldSelector, FieldSelectorError};
#[cfg(feature = "alloc")]
pub use owned::LabelSelector;

#[cfg(feature = "alloc")]
use alloc::collections::BTreeMap;
#[cfg(feature = "alloc")]
use core::borrow::Borrow;
use core::{fmt, iter};

/// The longest name part of a key, and the longest value, in bytes.
const NAME_MAX: usize = 63;
/// The longest prefix of a key, in bytes.
const PREFIX_MAX: usize = 253;

/// A set of labels that a selector can look up.
///
/// The value is passed to a closure rather than returned. An implementation can therefore read labels in place, for
/// example in JSON, and unescape them in a buffer on the stack.
///
/// # Examples
///
/// ```
/// use informer_core::selector::{Labels, Selector};
///
/// struct Tier(&'static str);
///
/// impl Labels for Tier {
///     fn label(&self, key: &str, f: &mut dyn FnMut(Option<&str>)) {
///         f((key == "tier").then_some(self.0));
///     }
/// }
///
/// assert!(Selector::parse("tier in (web, db)")?.matches(&Tier("db")));
/// # Ok::<(), informer_core::selector::SelectorError>(())
/// ```
pub trait Labels {
    /// Calls `f` once with the value of `key`, or with `None` if there is no such label.
    ///
    /// An implementation that does not call `f` reports the label as absent.
    fn label(&self, key: &str, f: &mut dyn FnMut(Option<&str>));
}

impl<T: Labels + ?Sized> Labels for &T {
    fn label(&self, key: &str, f: &mut dyn FnMut(Option<&str>)) {
        (**self).label(key, f);
    }
}

/// Uses the first pair with the key.
impl<K: AsRef<str>, V: AsRef<str>> Labels for [(K, V)] {
    fn label(&self, key: &str, f: &mut dyn FnMut(Option<&str>)) {
        f(self
            .iter()
            .find(|(name, _)| name.as_ref() == key)
            .map(|(_, value)| value.as_ref()));
    }
}

/// Uses the first pair with the key.
impl<K: AsRef<str>, V: AsRef<str>, const N: usize> Labels for [(K, V); N] {
    fn label(&self, key: &str, f: &mut dyn FnMut(Option<&str>)) {
        self.as_slice().label(key, f);
    }
}

#[cfg(feature = "alloc")]
impl<K: Borrow<str> + Ord, V: AsRef<str>> Labels for BTreeMap<K, V> {
    fn label(&self, key: &str, f: &mut dyn FnMut(Option<&str>)) {
        f(self.get(key).map(AsRef::as_ref));
    }
}

/// A label selector that borrows its text and does not allocate.
///
/// The text is checked once and parsed again at each match. With the feature `alloc`, `LabelSelector` is faster for
/// repeated matching.
///
/// # Grammar
///
/// Requirements are separated by commas, and all of them must hold. White space between words is ignored.
///
/// | requirement | holds if the label |
/// |---|---|
/// | `key` | exists |
/// | `!key` | does not exist |
/// | `key=a`, `key==a` | exists and is `a` |
/// | `key!=a` | does not exist, or is not `a` |
/// | `key in (a,b)` | exists and is one of these |
/// | `key notin (a,b)` | does not exist, or is none of these |
/// | `key>5`, `key<5` | exists, is an integer, and is greater or less |
///
/// A key is a name of at most 63 bytes, optionally after a DNS subdomain of at most 253 bytes and a `/`. A name
/// consists of letters, digits, `-`, `_` and `.`, with a letter or digit at both ends. A value has the same form, or is
/// empty.
///
/// # Examples
///
/// ```
/// use informer_core::selector::Selector;
///
/// let selector = Selector::parse("app=web, tier notin (test, dev)")?;
/// assert!(selector.matches(&[("app", "web")]));
/// assert!(!selector.matches(&[("app", "web"), ("tier", "dev")]));
///
/// assert!(Selector::parse("")?.matches(&[("any", "thing")]));
/// # Ok::<(), informer_core::selector::SelectorError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector<'a> {
    text: &'a str,
}

impl<'a> Selector<'a> {
    /// Parses a selector; the empty text selects every object.
    ///
    /// # Errors
    ///
    /// Returns a [`SelectorError`] for the first mistake.
    pub fn parse(text: &'a str) -> Result<Self, SelectorError> {
        let mut lexer = Lexer::new(text);
        while let Some(scanned) = lexer.requirement()? {
            scanned.check()?;
        }
        Ok(Self { text })
    }

    /// Returns the requirements, in the order of the text.
    fn requirements(&self) -> impl Iterator<Item = RequirementRef<'a>> + use<'a> {
        let mut lexer = Lexer::new(self.text);
        // `parse` checked the text, so no error is discarded here.
        iter::from_fn(move || lexer.requirement().ok().flatten()).map(|scanned| scanned.requirement)
    }

    /// Returns whether every requirement holds for these labels.
    pub fn matches<L: Labels + ?Sized>(&self, labels: &L) -> bool {
        self.requirements()
            .all(|requirement| requirement.matches(labels))
    }
}

/// Writes the original text.
impl fmt::Display for Selector<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

/// One requirement in the text of a [`Selector`].
#[derive(Clone, Copy)]
struct RequirementRef<'a> {
    key: &'a str,
    operator: Operator,
    /// The single value, or the text between the parentheses.
    values: &'a str,
}

impl<'a> RequirementRef<'a> {
    /// Returns the values, in the order of the text.
    fn values(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let taken = self.operator.takes_values().then(|| self.values.split(','));
        taken
            .into_iter()
            .flatten()
            .map(|value| value.trim_matches(is_space))
    }

    /// Returns whether the requirement holds for a value of its label, or for the absence of the label.
    fn accepts(&self, value: Option<&str>) -> bool {
        let has = |value: &str| self.values().any(|own| own == value);
        let bound = || self.values.parse().ok();
        self.operator.accepts(value, has, bound)
    }

    fn matches<L: Labels + ?Sized>(&self, labels: &L) -> bool {
        lookup(labels, self.key, |value| self.accepts(value))
    }
}

/// The relation between a label and the values of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operator {
    /// `key`: the label exists.
    Exists,
    /// `!key`: the label does not exist.
    DoesNotExist,
    /// `key=value`: the label has this value.
    Equals,
    /// `key==value`: the same as [`Operator::Equals`].
    DoubleEquals,
    /// `key!=value`: the label does not exist or has another value.
    NotEquals,
    /// `key in (a,b)`: the label has one of these values.
    In,
    /// `key notin (a,b)`: the label does not exist or has none of these values.
    NotIn,
    /// `key>5`: the label is an integer greater than 5.
    GreaterThan,
    /// `key<5`: the label is an integer less than 5.
    LessThan,
}

impl Operator {
    const fn takes_values(self) -> bool {
        !matches!(self, Self::Exists | Self::DoesNotExist)
    }

    const fn takes_integer(self) -> bool {
        matches!(self, Self::GreaterThan | Self::LessThan)
    }

    fn accepts(
        self,
        value: Option<&str>,
        has: impl FnOnce(&str) -> bool,
        bound: impl FnOnce() -> Option<i64>,
    ) -> bool {
        let numbers = || Some((value?.parse::<i64>().ok()?, bound()?));
        match self {
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::Equals | Self::DoubleEquals | Self::In => value.is_some_and(has),
            Self::NotEquals | Self::NotIn => !value.is_some_and(has),
            Self::GreaterThan => numbers().is_some_and(|(label, bound)| label > bound),
            Self::LessThan => numbers().is_some_and(|(label, bound)| label < bound),
        }
    }
}

/// Writes the operator as in a selector. [`Operator::Exists`] is the empty text.
impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exists => "",
            Self::DoesNotExist => "!",
            Self::Equals => "=",
            Self::DoubleEquals => "==",
            Self::NotEquals => "!=",
            Self::In => "in",
            Self::NotIn => "notin",
            Self::GreaterThan => ">",
            Self::LessThan => "<",
        })
    }
}

fn lookup<L: Labels + ?Sized>(
    labels: &L,
    key: &str,
    accepts: impl Fn(Option<&str>) -> bool,
) -> bool {
    let mut verdict = None;
    labels.label(key, &mut |value| verdict = Some(accepts(value)));
    verdict.unwrap_or_else(|| accepts(None))
}

#[derive(Clone, Copy)]
enum Token<'a> {
    End,
    Open,
    Close,
    Comma,
    Bang,
    Operator(Operator),
    Word(&'a str),
}

/// A requirement with valid syntax, and the offsets of its parts.
struct Scanned<'a> {
    requirement: RequirementRef<'a>,
    key_at: usize,
    values_at: usize,
}

impl Scanned<'_> {
    fn check(&self) -> Result<(), SelectorError> {
        let RequirementRef {
            key,
            operator,
            values,
        } = self.requirement;
        check_key(key).map_err(|error| error.shifted(self.key_at))?;
        if !operator.takes_values() {
            return Ok(());
        }
        let mut at = self.values_at;
        for piece in values.split(',') {
            let value = piece.trim_start_matches(is_space);
            let value_at = at + piece.len() - value.len();
            check_value(operator, value.trim_end_matches(is_space))
                .map_err(|error| error.shifted(value_at))?;
            at += piece.len() + 1;
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    const fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Parses one requirement and the comma after it.
    fn requirement(&mut self) -> Result<Option<Scanned<'a>>, SelectorError> {
        use Mistake::{ExpectedEnd, ExpectedKey, ExpectedOperator, ExpectedValue};

        if matches!(self.peek(), Token::End) {
            return Ok(None);
        }
        let negated = self.skip(|token| matches!(token, Token::Bang));
        let key_at = self.start();
        let Token::Word(key) = self.next() else {
            return Err(self.unexpected(key_at, ExpectedKey));
        };
        let mut scanned = Scanned {
            requirement: RequirementRef {
                key,
                operator: Operator::Exists,
                values: "",
            },
            key_at,
            values_at: self.at,
        };
        if negated {
            scanned.requirement.operator = Operator::DoesNotExist;
        } else if !matches!(self.peek(), Token::End | Token::Comma) {
            let at = self.start();
            let operator = match self.next() {
                Token::Operator(operator) => operator,
                Token::Word("in") => Operator::In,
                Token::Word("notin") => Operator::NotIn,
                Token::Word(_)
                | Token::End
                | Token::Open
                | Token::Close
                | Token::Comma
                | Token::Bang => {
                    return Err(self.unexpected(at, ExpectedOperator));
                }
            };
            scanned.requirement.operator = operator;
            scanned.values_at = self.start();
            if matches!(operator, Operator::In | Operator::NotIn) {
                (scanned.values_at, scanned.requirement.values) = self.list()?;
            } else if !matches!(self.peek(), Token::End | Token::Comma) {
                let Token::Word(value) = self.next() else {
                    return Err(self.unexpected(scanned.values_at, ExpectedValue));
                };
                scanned.requirement.values = value;
            }
        }
        let at = self.start();
        match self.next() {
            Token::End => {}
            Token::Comma => {
                // A trailing comma is an error.
                if matches!(self.peek(), Token::End) {
                    return Err(self.unexpected(self.text.len(), ExpectedKey));
                }
            }
            Token::Open | Token::Close | Token::Bang | Token::Operator(_) | Token::Word(_) => {
                return Err(self.unexpected(at, ExpectedEnd));
            }
        }
        Ok(Some(scanned))
    }

    /// Parses `(a,b)`, and returns the offset of the text between the parentheses and the text. Commas without a value between
    /// them are accepted as by the API server, which reads them in pairs: `(a,)` and `(a,,b)`, but not `(a,,)`.
    fn list(&mut self) -> Result<(usize, &'a str), SelectorError> {
        let at = self.start();
        if !matches!(self.next(), Token::Open) {
            return Err(self.unexpected(at, Mistake::ExpectedParenthesis));
        }
        let begin = self.at;
        while !matches!(self.peek(), Token::Close) {
            let at = self.start();
            match self.next() {
                Token::Word(_) => {
                    let at = self.start();
                    if !matches!(self.peek(), Token::Comma | Token::Close) {
                        return Err(self.unexpected(at, Mistake::ExpectedListEnd));
                    }
                }
                Token::Comma => {
                    let is_pair = self.skip(|token| matches!(token, Token::Comma));
                    if is_pair && matches!(self.peek(), Token::Close) {
                        let at = self.start();
                        return Err(self.unexpected(at, Mistake::ExpectedListValue));
                    }
                }
                Token::End | Token::Open | Token::Close | Token::Bang | Token::Operator(_) => {
                    return Err(self.unexpected(at, Mistake::ExpectedListEnd));
                }
            }
        }
        let at = self.start();
        self.next();
        Ok((begin, self.text.get(begin..at).unwrap_or_default()))
    }

    fn next(&mut self) -> Token<'a> {
        let at = self.start();
        let rest = self.text.get(at..).unwrap_or_default();
        let (token, len) = match rest.as_bytes() {
            [] => (Token::End, 0),
            [b'(', ..] => (Token::Open, 1),
            [b')', ..] => (Token::Close, 1),
            [b',', ..] => (Token::Comma, 1),
            [b'!', b'=', ..] => (Token::Operator(Operator::NotEquals), 2),
            [b'!', ..] => (Token::Bang, 1),
            [b'=', b'=', ..] => (Token::Operator(Operator::DoubleEquals), 2),
            [b'=', ..] => (Token::Operator(Operator::Equals), 1),
            [b'>', ..] => (Token::Operator(Operator::GreaterThan), 1),
            [b'<', ..] => (Token::Operator(Operator::LessThan), 1),
            _ => {
                let word = rest.split(is_delimiter).next().unwrap_or(rest);
                (Token::Word(word), word.len())
            }
        };
        self.at = at + len;
        token
    }

    fn skip(&mut self, wanted: impl FnOnce(Token<'a>) -> bool) -> bool {
        let mut ahead = self.clone();
        let found = wanted(ahead.next());
        if found {
            *self = ahead;
        }
        found
    }

    fn peek(&self) -> Token<'a> {
        self.clone().next()
    }

    /// Returns the offset of the next token.
    fn start(&self) -> usize {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.text.len() - rest.trim_start_matches(is_space).len()
    }

    fn unexpected(&self, at: usize, kind: Mistake) -> SelectorError {
        let found = self.text.get(at..).and_then(|rest| rest.chars().next());
        SelectorError::at(kind, at, found)
    }
}

const fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

const fn is_delimiter(c: char) -> bool {
    is_space(c) || matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn check_key(key: &str) -> Result<(), SelectorError> {
    let (name_at, name) = match key.split_once('/') {
        Some((prefix, name)) => {
            if !is_dns_subdomain(prefix) {
                return Err(SelectorError::at(Mistake::InvalidPrefix, 0, None));
            }
            (prefix.len() + 1, name)
        }
        None => (0, key),
    };
    if name.is_empty() {
        let kind = Mistake::InvalidKey;
        return Err(SelectorError::at(kind, name_at, None));
    }
    check_name(name, Mistake::InvalidKey, Mistake::KeyTooLong)
        .map_err(|error| error.shifted(name_at))
}

fn check_value(operator: Operator, value: &str) -> Result<(), SelectorError> {
    if operator.takes_integer() && value.parse::<i64>().is_err() {
        let kind = Mistake::NotAnInteger;
        return Err(SelectorError::at(kind, 0, None));
    }
    check_name(value, Mistake::InvalidValue, Mistake::ValueTooLong)
}

/// Checks a name or a value, which may be empty.
fn check_name(name: &str, invalid: Mistake, too_long: Mistake) -> Result<(), SelectorError> {
    let last = name.chars().next_back().map_or(0, char::len_utf8);
    let wrong = name.char_indices().find(|&(at, c)| {
        let inside = at > 0 && at + last < name.len();
        !(c.is_ascii_alphanumeric() || inside && matches!(c, '-' | '_' | '.'))
    });
    if let Some((at, c)) = wrong {
        return Err(SelectorError::at(invalid, at, Some(c)));
    }
    if name.len() > NAME_MAX {
        return Err(SelectorError::at(too_long, NAME_MAX, None));
    }
    Ok(())
}

/// Returns whether a text is an RFC 1123 subdomain in lower case.
pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= PREFIX_MAX
        && text.split('.').all(|label| {
            !label.is_empty()
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label
                    .bytes()
                    .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        })
}
