//! Label selectors that own their requirements.

use alloc::{
    borrow::ToOwned,
    string::{String, ToString},
    vec::Vec,
};
use core::{fmt, str::FromStr};

use super::{Labels, Operator, RequirementRef, Selector, SelectorError, lookup};

/// A label selector that is parsed once, for fast repeated matching.
///
/// Its grammar and semantics are those of [`Selector`]. Requirements are sorted by key, and the values of a requirement
/// are sorted and deduplicated. Requirements of the same key stay in the given order. `Display` writes the canonical
/// form of client-go.
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
        Selector::parse(text).map(Self::from)
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

impl From<Selector<'_>> for LabelSelector {
    fn from(selector: Selector<'_>) -> Self {
        let mut requirements: Vec<_> = selector.requirements().map(Requirement::from).collect();
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self {
            requirements: Some(requirements),
        }
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

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::{
        super::tests::{MATCHES, PIECES, ROUNDS, XorShift, parse},
        *,
    };

    fn canonical(text: &str) -> String {
        LabelSelector::parse(text).unwrap().to_string()
    }

    #[test]
    fn writes_the_form_of_client_go() {
        let table = [
            ("", ""),
            (" x = a , a = x ", "a=x,x=a"),
            ("x==a", "x==a"),
            (
                "z,y notin (jkl),x in (def,abc,def)",
                "x in (abc,def),y notin (jkl),z",
            ),
            ("!z,y!=jkl,x notin(abc,def)", "x notin (abc,def),y!=jkl,!z"),
            ("z notin ()", "z notin ()"),
            ("z in (,)", "z in ()"),
            ("z in (b,,a)", "z in (,a,b)"),
            ("z!=a,z", "z!=a,z"),
            ("z,z!=a", "z,z!=a"),
            ("y<8,x>2,z=", "x>2,y<8,z="),
            ("!in,notin in (notin)", "!in,notin in (notin)"),
        ];
        for (text, expected) in table {
            assert_eq!(canonical(text), expected, "{text:?}");
            assert_eq!(canonical(expected), expected);
        }
    }

    #[test]
    fn matches_as_the_borrowed_one() {
        for (text, labels, expected) in MATCHES {
            let selector = LabelSelector::parse(text).unwrap();
            let map: BTreeMap<String, String> = labels
                .iter()
                .map(|&(key, value)| (key.to_string(), value.to_string()))
                .collect();
            assert_eq!(selector.matches(labels), expected, "{text:?} {labels:?}");
            assert_eq!(selector.matches(&map), expected, "{text:?} {labels:?}");
            assert_eq!(parse(text).matches(&map), expected, "{text:?} {labels:?}");
            assert!(!LabelSelector::nothing().matches(&map));
        }
    }

    #[test]
    fn round_trips_and_agrees_on_arbitrary_text() {
        let mut rng = XorShift(0x2545_f491_4f6c_dd1d);
        for _ in 0..ROUNDS {
            let text = rng.text(&PIECES);
            let Ok(selector) = LabelSelector::parse(&text) else {
                continue;
            };
            let shown = selector.to_string();
            assert_eq!(shown.parse().as_ref(), Ok(&selector), "{text:?} {shown:?}");
            let labels = [("a", "1"), ("x", "a"), ("b", ""), ("aa", "b")];
            let some = labels.get(rng.below(5)..).unwrap();
            assert_eq!(
                selector.matches(some),
                parse(&text).matches(some),
                "{text:?}"
            );
        }
    }

    #[test]
    fn nothing_is_not_everything() {
        let nothing = LabelSelector::nothing();
        assert!(!nothing.is_everything());
        assert!(nothing.to_string().parse::<LabelSelector>().is_err());
        assert!(LabelSelector::default().is_everything());
    }
}
