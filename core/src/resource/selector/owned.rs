//! Label selectors that own their requirements.

use alloc::{
    borrow::ToOwned,
    string::{String, ToString},
    vec::Vec,
};
use core::{fmt, str::FromStr};

use super::{
    Labels, Operator, RequirementRef, Selector, SelectorError, SelectorErrorKind, check_key,
    check_value, lookup,
};

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

    /// Returns whether this is [`LabelSelector::nothing`].
    ///
    /// Requirements that contradict each other are not detected.
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        self.requirements.is_none()
    }

    /// Returns the requirements, sorted by key.
    ///
    /// The slice is empty for [`LabelSelector::everything`] and for [`LabelSelector::nothing`].
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        self.requirements.as_deref().unwrap_or_default()
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
        selector.requirements().map(Requirement::from).collect()
    }
}

impl FromIterator<Requirement> for LabelSelector {
    fn from_iter<I: IntoIterator<Item = Requirement>>(requirements: I) -> Self {
        let mut requirements: Vec<_> = requirements.into_iter().collect();
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
///
/// # Examples
///
/// ```
/// use informer_core::selector::{LabelSelector, Operator, Requirement};
///
/// let web = Requirement::new("tier", Operator::In, ["web", "edge"])?;
/// assert_eq!(web.to_string(), "tier in (edge,web)");
///
/// let selector = LabelSelector::from_iter([web, Requirement::new("app", Operator::Exists, [""; 0])?]);
/// assert_eq!(selector.to_string(), "app,tier in (edge,web)");
/// # Ok::<(), informer_core::selector::SelectorError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: String,
    operator: Operator,
    /// Sorted, without duplicates.
    values: Vec<String>,
    /// The value of `>` and `<`.
    bound: Option<i64>,
}

impl Requirement {
    /// Creates a requirement from its parts.
    ///
    /// # Errors
    ///
    /// Returns a [`SelectorError`] if the key or a value is invalid, or if the operator takes another number of values.
    /// `in` and `notin` take at least one value, `key` and `!key` take none, and the others take one. For `>` and `<`
    /// it must be an integer.
    pub fn new<V: AsRef<str>>(
        key: &str,
        operator: Operator,
        values: impl IntoIterator<Item = V>,
    ) -> Result<Self, SelectorError> {
        check_key(key).map_err(SelectorError::without_text)?;
        let values: Vec<V> = values.into_iter().collect();
        let (fits, kind) = match operator {
            Operator::Exists | Operator::DoesNotExist => {
                (values.is_empty(), SelectorErrorKind::UnwantedValues)
            }
            Operator::In | Operator::NotIn => (!values.is_empty(), SelectorErrorKind::NoValues),
            Operator::Equals
            | Operator::DoubleEquals
            | Operator::NotEquals
            | Operator::GreaterThan
            | Operator::LessThan => (values.len() == 1, SelectorErrorKind::NotOneValue),
        };
        if !fits {
            return Err(SelectorError::at(kind, 0, None).without_text());
        }
        for value in &values {
            check_value(operator, value.as_ref()).map_err(SelectorError::without_text)?;
        }
        let values = values.iter().map(|value| value.as_ref().to_owned());
        Ok(Self::from_checked(key, operator, values.collect()))
    }

    /// Returns the key of the label.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the operator.
    #[must_use]
    pub const fn operator(&self) -> Operator {
        self.operator
    }

    /// Returns the values, sorted and deduplicated.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &str> {
        self.values.iter().map(String::as_str)
    }

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

    fn from_checked(key: &str, operator: Operator, mut values: Vec<String>) -> Self {
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

impl From<RequirementRef<'_>> for Requirement {
    fn from(requirement: RequirementRef<'_>) -> Self {
        Self::from_checked(
            requirement.key,
            requirement.operator,
            requirement.values().map(ToString::to_string).collect(),
        )
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
        SelectorErrorKind as Kind, *,
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

    /// From `TestRequirementConstructor` of apimachinery.
    #[test]
    fn requirements_are_checked() {
        let long = "a".repeat(254);
        let table: [(&str, Operator, &[&str], Option<Kind>); 22] = [
            ("x1", Operator::In, &[], Some(Kind::NoValues)),
            ("x2", Operator::NotIn, &[], Some(Kind::NoValues)),
            ("x3", Operator::In, &["foo"], None),
            ("x4", Operator::NotIn, &["foo", ""], None),
            (
                "x5",
                Operator::Equals,
                &["foo", "bar"],
                Some(Kind::NotOneValue),
            ),
            ("x5", Operator::DoubleEquals, &[], Some(Kind::NotOneValue)),
            (
                "x5",
                Operator::NotEquals,
                &["foo", "foo"],
                Some(Kind::NotOneValue),
            ),
            ("x5", Operator::NotEquals, &[""], None),
            ("x6", Operator::Exists, &[], None),
            ("x7", Operator::DoesNotExist, &[], None),
            ("x8", Operator::Exists, &["foo"], Some(Kind::UnwantedValues)),
            (
                "x8",
                Operator::DoesNotExist,
                &[""],
                Some(Kind::UnwantedValues),
            ),
            ("x11", Operator::GreaterThan, &["1"], None),
            ("x12", Operator::LessThan, &["6"], None),
            ("x13", Operator::GreaterThan, &[], Some(Kind::NotOneValue)),
            (
                "x14",
                Operator::GreaterThan,
                &["bar"],
                Some(Kind::NotAnInteger),
            ),
            (
                "x15",
                Operator::LessThan,
                &["1", "2"],
                Some(Kind::NotOneValue),
            ),
            (&long, Operator::Exists, &[], Some(Kind::KeyTooLong)),
            ("x16", Operator::Equals, &[&long], Some(Kind::ValueTooLong)),
            ("x17", Operator::Equals, &["a b"], Some(Kind::InvalidValue)),
            ("", Operator::Exists, &[], Some(Kind::InvalidKey)),
            ("a b", Operator::Exists, &[], Some(Kind::InvalidKey)),
        ];
        for (key, operator, values, expected) in table {
            match (Requirement::new(key, operator, values), expected) {
                (Ok(requirement), None) => {
                    let parsed = LabelSelector::parse(&requirement.to_string()).unwrap();
                    assert_eq!(parsed.requirements(), [requirement]);
                }
                (Err(error), Some(kind)) => {
                    assert_eq!((error.kind(), error.offset()), (kind, None), "{key}");
                    assert!(error.to_string().starts_with("invalid label requirement: "));
                }
                (result, expected) => panic!("{key}: {result:?} is not {expected:?}"),
            }
        }
    }

    #[test]
    fn selectors_are_put_together() {
        let of = |key| Requirement::new(key, Operator::Exists, [""; 0]).unwrap();
        let selector: LabelSelector = [of("b"), of("a")].into_iter().collect();
        assert_eq!(selector, LabelSelector::parse("a,b").unwrap());
        assert!(LabelSelector::from_iter([]).is_everything());
        assert!(LabelSelector::nothing().requirements().is_empty());
        assert!(!LabelSelector::nothing().is_everything());
        assert!(
            LabelSelector::nothing()
                .to_string()
                .parse::<LabelSelector>()
                .is_err()
        );
    }
}
