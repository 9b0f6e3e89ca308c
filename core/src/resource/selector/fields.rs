//! Field selectors. The server evaluates them; this module writes them and predicts the result.

use alloc::string::String;
use alloc::vec::Vec;
use core::{error::Error, fmt, str::FromStr};

use crate::json::{as_str, value_at};

/// A field selector, such as `spec.nodeName=node-1,status.phase!=Failed`.
///
/// The resource determines which fields are supported: always `metadata.name` and `metadata.namespace`, and others that
/// the server knows. For custom resources those are the `selectableFields` of the definition (KEP-4358). The server
/// does the selection, so an object that no longer matches is reported as deleted. See "Field Selectors" in the
/// Kubernetes documentation.
///
/// # Examples
///
/// ```
/// use informer_core::selector::FieldSelector;
///
/// let mine = FieldSelector::new().is("spec.nodeName", "node-1").is_not("status.phase", "Failed");
/// assert_eq!(mine.as_ref(), "spec.nodeName=node-1,status.phase!=Failed");
/// assert_eq!(FieldSelector::new().is("metadata.name", r"a=b,c\").as_ref(), r"metadata.name=a\=b\,c\\");
///
/// assert_eq!("spec.nodeName==node-1".parse::<FieldSelector>()?.as_ref(), "spec.nodeName=node-1");
/// # Ok::<(), informer_core::selector::FieldSelectorError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector(String);

/// The reason why a text is not a field selector.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FieldSelectorError {
    /// A term has no `=`, `==` or `!=`.
    NoOperator,
    /// A term has no field before its operator.
    NoField,
    /// A value contains an `=` that is not escaped by a backslash.
    NotEscaped,
    /// A backslash precedes a character other than `\`, `,` or `=`.
    BadEscape,
}

impl FieldSelector {
    /// Creates a field selector that selects every object.
    #[must_use]
    pub const fn new() -> Self {
        Self(String::new())
    }

    /// Adds the requirement that the field has this value. The value is escaped as needed.
    #[must_use]
    pub fn is(self, field: &str, value: &str) -> Self {
        self.term(field, "=", value)
    }

    /// Adds the requirement that the field has another value. The value is escaped as needed.
    #[must_use]
    pub fn is_not(self, field: &str, value: &str) -> Self {
        self.term(field, "!=", value)
    }

    /// Returns whether the JSON of an object has these values at the paths that the fields name.
    ///
    /// It is an approximation of the server's decision: a field that the server computes or names differently, such as
    /// a Job's `status.successful`, counts as absent. An absent field has the value of the empty string, and also
    /// `false` and `0`.
    ///
    /// ```
    /// use informer_core::selector::FieldSelector;
    ///
    /// let pod = br#"{"metadata":{"name":"web"},"spec":{"nodeName":"n1"}}"#;
    /// assert!(FieldSelector::new().is("spec.nodeName", "n1").matches(pod));
    /// assert!(!FieldSelector::new().is_not("metadata.name", "web").matches(pod));
    /// ```
    #[must_use]
    pub fn matches(&self, object: &[u8]) -> bool {
        terms(&self.0).all(|term| {
            // It was checked when it was created.
            let Ok((field, operator, wanted)) = term else {
                return true;
            };
            let path: Vec<&str> = field.split('.').collect();
            let equal = match value_at(object, &path) {
                None | Some(b"null") => matches!(wanted.as_str(), "" | "false" | "0"),
                Some(value) => match as_str(value) {
                    Some(text) => text.eq_str(&wanted),
                    None => value == wanted.as_bytes(),
                },
            };
            equal == (operator == "=")
        })
    }

    fn term(mut self, field: &str, operator: &str, value: &str) -> Self {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(field);
        self.0.push_str(operator);
        for c in value.chars() {
            if matches!(c, '\\' | ',' | '=') {
                self.0.push('\\');
            }
            self.0.push(c);
        }
        self
    }
}

impl FromStr for FieldSelector {
    type Err = FieldSelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut selector = Self::new();
        for term in terms(text) {
            let (field, operator, value) = term?;
            selector = selector.term(field, operator, &value);
        }
        Ok(selector)
    }
}

/// Returns the field, the operator (`=` or `!=`) and the value of each term.
fn terms(
    mut rest: &str,
) -> impl Iterator<Item = Result<(&str, &'static str, String), FieldSelectorError>> {
    let texts = core::iter::from_fn(move || {
        let (term, next) = rest.split_at_checked(end_of_term(rest))?;
        let is_over = rest.is_empty();
        rest = next.strip_prefix(',').unwrap_or(next);
        (!is_over).then_some(term)
    });
    texts.filter(|term| !term.is_empty()).map(|term| {
        // The first operator of a term is used, as in apimachinery.
        let at = term
            .find(['=', '!'])
            .ok_or(FieldSelectorError::NoOperator)?;
        let (field, tail) = term.split_at(at);
        let (operator, value) = [("!=", "!="), ("=", "=="), ("=", "=")]
            .iter()
            .find_map(|(operator, text)| Some((*operator, tail.strip_prefix(text)?)))
            .ok_or(FieldSelectorError::NoOperator)?;
        if field.is_empty() {
            return Err(FieldSelectorError::NoField);
        }
        Ok((field, operator, unescape(value)?))
    })
}

/// Returns the offset of the first comma that is not escaped by a backslash.
fn end_of_term(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => return at,
            _ => {}
        }
    }
    text.len()
}

fn unescape(value: &str) -> Result<String, FieldSelectorError> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => plain.push(c),
                _ => return Err(FieldSelectorError::BadEscape),
            },
            '=' => return Err(FieldSelectorError::NotEscaped),
            c => plain.push(c),
        }
    }
    Ok(plain)
}

/// The text that is sent in a request.
impl AsRef<str> for FieldSelector {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for FieldSelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoOperator => "a term of a field selector has no `=`, `==` or `!=`",
            Self::NoField => "a term of a field selector has no field",
            Self::NotEscaped => "a value in a field selector has an `=` that is not escaped",
            Self::BadEscape => "a backslash in a field selector escapes only `\\`, `,` and `=`",
        })
    }
}

impl Error for FieldSelectorError {}

crate::readable_errors!(FieldSelectorError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parsed_selector_keeps_its_text() {
        for text in [
            "",
            "a=b",
            "a!=b",
            "a=",
            r"a=x\,y\=z\\,b!=c",
            "metadata.name=web,spec.nodeName!=n1",
        ] {
            let selector: FieldSelector = text.parse().unwrap();
            assert_eq!(selector.as_ref(), text);
        }
        assert_eq!("a==b,,".parse::<FieldSelector>().unwrap().as_ref(), "a=b");
    }

    #[test]
    fn values_are_compared_at_the_paths_of_fields() {
        let pod = br#"{"metadata":{"name":"a=b"},"spec":{"n":3,"on":true,"nodeName":null}}"#;
        for (text, wanted) in [
            ("", true),
            (r"metadata.name=a\=b", true),
            (r"metadata.name=a\=b,spec.n=3", true),
            (r"metadata.name=a\=b,spec.n=4", false),
            ("spec.n!=4,spec.on=true", true),
            ("spec.on=false", false),
            ("spec.off=false,spec.count=0,spec.nodeName=", true),
            ("spec.nodeName!=", false),
            ("spec.nodeName=n1", false),
            ("spec.nodeName!=n1", true),
        ] {
            let selector: FieldSelector = text.parse().unwrap();
            assert_eq!(selector.matches(pod), wanted, "{text}");
        }
    }

    #[test]
    fn mistakes_are_reported() {
        for (text, error) in [
            ("a", FieldSelectorError::NoOperator),
            ("a!b", FieldSelectorError::NoOperator),
            ("=b", FieldSelectorError::NoField),
            ("a=b=c", FieldSelectorError::NotEscaped),
            (r"a=b\c", FieldSelectorError::BadEscape),
            ("a=b\\", FieldSelectorError::BadEscape),
        ] {
            assert_eq!(text.parse::<FieldSelector>(), Err(error), "{text}");
        }
    }
}
