//! Label selectors.

use alloc::{
    borrow::ToOwned,
    string::{String, ToString},
    vec::Vec,
};
use core::{fmt, str::FromStr};

use super::parse::{RequirementRef, parse};
use super::{Labels, SelectorError};

/// A label selector.
///
/// `Display` writes the canonical form of client-go: requirements are sorted by key, and the values of a requirement are
/// sorted and deduplicated. Requirements of the same key stay in the given order.
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
/// use std::collections::BTreeMap;
/// use informer_core::selector::LabelSelector;
///
/// let selector: LabelSelector = "tier in (web, db, db), app = shop".parse()?;
/// assert_eq!(selector.to_string(), "app=shop,tier in (db,web)");
///
/// let labels = BTreeMap::from([("app".to_string(), "shop".to_string()), ("tier".to_string(), "db".to_string())]);
/// assert!(selector.matches(&labels));
/// # Ok::<(), informer_core::selector::SelectorError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    /// `None` selects nothing.
    requirements: Option<Vec<Requirement>>,
}

impl LabelSelector {
    /// Parses a selector; the empty text selects every object.
    ///
    /// # Errors
    ///
    /// Returns a [`SelectorError`] for the first mistake.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut requirements: Vec<_> = parse(text)?.into_iter().map(Requirement::from).collect();
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self {
            requirements: Some(requirements),
        })
    }

    /// Returns the selector that selects every object.
    #[must_use]
    pub const fn everything() -> Self {
        Self {
            requirements: Some(Vec::new()),
        }
    }

    /// Returns the selector that selects no object. It has no text form.
    #[must_use]
    pub const fn nothing() -> Self {
        Self { requirements: None }
    }

    /// Returns whether the selector selects every object.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// Returns whether every requirement holds for these labels.
    pub fn matches<L: Labels + ?Sized>(&self, labels: &L) -> bool {
        self.requirements.as_ref().is_some_and(|requirements| {
            requirements
                .iter()
                .all(|requirement| requirement.matches(labels))
        })
    }
}

/// Returns the selector that selects every object.
impl Default for LabelSelector {
    fn default() -> Self {
        Self::everything()
    }
}

impl FromStr for LabelSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// Writes the canonical form. For [`LabelSelector::nothing`] it writes `<nothing>`, which cannot be parsed.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(requirements) = &self.requirements else {
            return f.write_str("<nothing>");
        };
        for (index, requirement) in requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

/// One requirement of a [`LabelSelector`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Requirement {
    key: String,
    operator: Operator,
    /// Sorted, without duplicates.
    values: Vec<String>,
    /// The value of `>` and `<`.
    bound: Option<i64>,
}

impl Requirement {
    /// Returns whether the requirement holds for a value of its label, or for the absence of the label.
    fn accepts(&self, value: Option<&str>) -> bool {
        let has = |value: &str| {
            self.values
                .binary_search_by(|own| own.as_str().cmp(value))
                .is_ok()
        };
        self.operator.accepts(value, has, || self.bound)
    }

    fn matches<L: Labels + ?Sized>(&self, labels: &L) -> bool {
        lookup(labels, &self.key, |value| self.accepts(value))
    }
}

impl From<RequirementRef<'_>> for Requirement {
    fn from(requirement: RequirementRef<'_>) -> Self {
        let RequirementRef { key, operator, .. } = requirement;
        let mut values: Vec<_> = requirement.values().map(ToString::to_string).collect();
        values.sort_unstable();
        values.dedup();
        let bound = values
            .first()
            .filter(|_| operator.takes_integer())
            .and_then(|value| value.parse().ok());
        Self {
            key: key.to_owned(),
            operator,
            values,
            bound,
        }
    }
}

/// Writes the canonical form.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = match self.operator {
            Operator::Exists => return f.write_str(&self.key),
            Operator::DoesNotExist => return write!(f, "!{}", self.key),
            Operator::In | Operator::NotIn => (" ", " ("),
            Operator::Equals
            | Operator::DoubleEquals
            | Operator::NotEquals
            | Operator::GreaterThan
            | Operator::LessThan => ("", ""),
        };
        write!(f, "{}{before}{}{after}", self.key, self.operator)?;
        for (index, value) in self.values.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            f.write_str(value)?;
        }
        f.write_str(if after.is_empty() { "" } else { ")" })
    }
}

/// The relation between a label and the values of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Operator {
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
    pub(super) const fn takes_values(self) -> bool {
        !matches!(self, Self::Exists | Self::DoesNotExist)
    }

    pub(super) const fn takes_integer(self) -> bool {
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
