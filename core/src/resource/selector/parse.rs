//! The grammar of label selectors.

use alloc::vec::Vec;

use super::error::{Mistake, SelectorError};
use super::label::Operator;
use crate::resource::is_dns_subdomain;

/// The longest name part of a key, and the longest value, in bytes.
const NAME_MAX: usize = 63;

/// Parses a selector, and returns its requirements in the order of the text.
pub(super) fn parse(text: &str) -> Result<Vec<RequirementRef<'_>>, SelectorError> {
    let mut lexer = Lexer { text, at: 0 };
    let mut requirements = Vec::new();
    while let Some(scanned) = lexer.requirement()? {
        scanned.check()?;
        requirements.push(scanned.requirement);
    }
    Ok(requirements)
}

/// One requirement in the text of a selector.
#[derive(Clone, Copy)]
pub(super) struct RequirementRef<'a> {
    pub(super) key: &'a str,
    pub(super) operator: Operator,
    /// The single value, or the text between the parentheses.
    values: &'a str,
}

impl<'a> RequirementRef<'a> {
    /// Returns the values, in the order of the text.
    pub(super) fn values(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let taken = self.operator.takes_values().then(|| self.values.split(','));
        taken
            .into_iter()
            .flatten()
            .map(|value| value.trim_matches(is_space))
    }
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

pub(super) fn check_key(key: &str) -> Result<(), SelectorError> {
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

pub(super) fn check_value(operator: Operator, value: &str) -> Result<(), SelectorError> {
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
