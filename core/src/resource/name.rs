//! The names in a resource that no API server can have.

use core::{error::Error, fmt};

use super::Resource;
use crate::report::OneLine;

/// A part of a [`Resource`] that no API server can have. [`Resource::check`] finds it.
///
/// ```
/// use informer_core::Resource;
///
/// let error = Resource::new("", "v1", "pods").namespace("my team").check().unwrap_err();
/// assert!(error.to_string().starts_with("the namespace `my team` is invalid: "));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidName<'a> {
    /// The part.
    pub part: NamePart,
    /// The invalid name, or the begin of it.
    pub name: &'a str,
}

/// A part of a [`Resource`] that is a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum NamePart {
    /// The group: empty, or a DNS subdomain.
    Group,
    /// The version: a DNS label.
    Version,
    /// The plural: a DNS label.
    Plural,
    /// The namespace: a DNS label.
    Namespace,
    /// The value of `metadata.name` or `metadata.namespace` in the field selector: a segment of a path.
    Field,
}

impl<'a> Resource<'a> {
    /// Checks the names: the group, the version, the plural, the namespace, and those in the field selector.
    ///
    /// A server answers a list of a namespace that cannot exist with an empty list. The informer checks its resource
    /// before each request and reports an invalid name as [`Problem::InvalidName`](crate::report::Problem::InvalidName).
    ///
    /// # Errors
    /// Returns the first part that no API server can have.
    pub fn check(&self) -> Result<(), InvalidName<'a>> {
        let name_of = |term: &'a str| {
            let (field, value) = term.split_once('=')?;
            let is_name = matches!(field, "metadata.name" | "metadata.namespace");
            is_name.then(|| value.strip_prefix('=').unwrap_or(value))
        };
        let fields = self.field_selector.unwrap_or_default().split(',');
        // As in the path, the namespace of a cluster-scoped resource does not matter.
        let namespace = self
            .namespace
            .filter(|_| self.is_namespaced() != Some(false));
        [
            (NamePart::Version, Some(self.version)),
            (NamePart::Plural, Some(self.plural)),
            (NamePart::Namespace, namespace),
            (
                NamePart::Group,
                (!self.group.is_empty()).then_some(self.group),
            ),
        ]
        .into_iter()
        .filter_map(|(part, name)| Some((part, name?)))
        .chain(fields.filter_map(|term| Some((NamePart::Field, name_of(term)?))))
        .find(|(part, name)| !part.accepts(name))
        .map_or(Ok(()), |(part, name)| Err(InvalidName { part, name }))
    }
}

impl NamePart {
    fn accepts(self, name: &str) -> bool {
        match self {
            Self::Group => is_dns_subdomain(name),
            Self::Version | Self::Plural | Self::Namespace => {
                name.len() <= MOST_LABEL && !name.contains('.') && is_dns_subdomain(name)
            }
            Self::Field => !matches!(name, "." | "..") && !name.contains(['/', '%']),
        }
    }
}

/// The most bytes of a DNS label.
const MOST_LABEL: usize = 63;

impl<'a> InvalidName<'a> {
    pub(crate) const fn new(part: NamePart, name: &'a str) -> Self {
        Self { part, name }
    }

    /// Returns the begin of the name, as much as a message has.
    pub(crate) fn shown(&self) -> &'a str {
        let end = self.name.char_indices().nth(MOST_SHOWN);
        let end = end.map_or(self.name.len(), |(at, _)| at);
        self.name.get(..end).unwrap_or_default()
    }
}

/// The most characters of an invalid name in a message.
const MOST_SHOWN: usize = 100;

impl fmt::Display for InvalidName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, rule) = match self.part {
            NamePart::Group => (
                "group",
                "it must be a DNS subdomain of up to 253 characters, or empty for the core API",
            ),
            NamePart::Version => ("version", LABEL),
            NamePart::Plural => ("plural", LABEL),
            NamePart::Namespace => ("namespace", LABEL),
            NamePart::Field => (
                "name in the field selector",
                "it must not be `.` or `..` and must not contain `/` or `%`",
            ),
        };
        write!(
            f,
            "the {what} `{}` is invalid: {rule}",
            OneLine(self.shown())
        )
    }
}

const LABEL: &str = "it must be up to 63 of a-z, 0-9 and `-`, with a letter or digit at both ends";

impl Error for InvalidName<'_> {}

impl fmt::Debug for InvalidName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The longest DNS subdomain, in bytes.
const SUBDOMAIN_MAX: usize = 253;

/// Returns whether a text is an RFC 1123 subdomain in lower case.
pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= SUBDOMAIN_MAX
        && text.split('.').all(|label| {
            !label.is_empty()
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label
                    .bytes()
                    .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        })
}

#[cfg(test)]
mod tests {
    extern crate alloc;

    use alloc::string::ToString as _;

    use super::*;

    const PODS: Resource<'static> = Resource::new("", "v1", "pods");

    #[test]
    fn names_that_a_server_can_have_are_accepted() {
        let long = "a".repeat(63);
        for resource in [
            PODS,
            PODS.namespace("kube-system"),
            PODS.namespace("7"),
            PODS.namespace(&long),
            Resource::new("rbac.authorization.k8s.io", "v1", "clusterroles").namespace("My Team"),
            Resource::new("example.com", "v1alpha1", "widgets").namespace("prod"),
            PODS.fields(
                "metadata.name=a_B c,spec.nodeName=a/b,metadata.namespace==x,metadata.name!=a/b",
            ),
            PODS.fields("a.metadata.name=a/b"),
        ] {
            assert_eq!(resource.check(), Ok(()));
        }
    }

    #[test]
    fn invalid_names_are_refused() {
        let long = "a".repeat(64);
        for (resource, part, name) in [
            (PODS.namespace("my team"), NamePart::Namespace, "my team"),
            (PODS.namespace(" "), NamePart::Namespace, " "),
            (PODS.namespace("Prod"), NamePart::Namespace, "Prod"),
            (PODS.namespace("a.b"), NamePart::Namespace, "a.b"),
            (PODS.namespace("a_b"), NamePart::Namespace, "a_b"),
            (PODS.namespace("-a"), NamePart::Namespace, "-a"),
            (PODS.namespace("a-"), NamePart::Namespace, "a-"),
            (PODS.namespace(".."), NamePart::Namespace, ".."),
            (PODS.namespace("é"), NamePart::Namespace, "é"),
            (PODS.namespace(&long), NamePart::Namespace, &long),
            (Resource::new("", "", "pods"), NamePart::Version, ""),
            (Resource::new("", "v1/x", "pods"), NamePart::Version, "v1/x"),
            (Resource::new("", "v1", ""), NamePart::Plural, ""),
            (
                Resource::new("", "v1", "pods/log"),
                NamePart::Plural,
                "pods/log",
            ),
            (Resource::new("a b", "v1", "pods"), NamePart::Group, "a b"),
            (PODS.fields("metadata.name=a/b"), NamePart::Field, "a/b"),
            (
                PODS.fields("x=y,metadata.namespace==.."),
                NamePart::Field,
                "..",
            ),
        ] {
            let error = resource.check().unwrap_err();
            assert_eq!((error.part, error.name), (part, name));
        }
        let endless = "x\n".repeat(70_000);
        let shown = PODS.namespace(&endless).check().unwrap_err().to_string();
        assert!(shown.len() < 400 && !shown.contains('\n'), "{shown}");
    }
}
