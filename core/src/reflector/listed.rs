//! The envelope of a list: whether an answer is a list of the resource.

use crate::json::JsonStr;
use crate::resource::Resource;

/// The contents of a list's envelope.
#[derive(Clone, Copy, Default)]
pub(super) struct Listed {
    pub(super) kind: ListKind,
    /// The group and version are those of the resource.
    pub(super) is_of_resource: bool,
    /// The metadata has no name, so this is not a single object.
    pub(super) is_unnamed: bool,
}

/// Values that depend on the kind of a response.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ListKind {
    /// The answer has no kind, or not that of a list of the resource.
    #[default]
    Other,
    /// The kind is that of a list of the resource.
    List,
    /// The kind may be the `listKind` of a CustomResourceDefinition.
    Custom,
}

impl Listed {
    /// Returns whether the answer is a list of the resource. Another answer, taken for an empty list, would clear the
    /// cache.
    pub(super) fn is_complete(self) -> bool {
        match self.kind {
            ListKind::List => true,
            ListKind::Custom => self.is_of_resource && self.is_unnamed,
            ListKind::Other => false,
        }
    }
}

impl ListKind {
    pub(super) fn of(resource: &Resource<'_>, kind: JsonStr<'_>) -> Self {
        if is_list_of(resource, kind) {
            return Self::List;
        }
        // The group of a custom resource is a domain. Its lists may have any kind except that of the objects.
        let may_be_custom = resource.group.contains('.')
            && !kind.is_empty()
            && resource.kind.is_none_or(|object| !kind.eq_str(object));
        if may_be_custom {
            Self::Custom
        } else {
            Self::Other
        }
    }
}

fn is_list_of(resource: &Resource<'_>, kind: JsonStr<'_>) -> bool {
    let Some(expected) = resource.kind else {
        return ends_with_list(kind);
    };
    if kind.eq_str("PartialObjectMetadataList") || kind.eq_str("List") {
        return true;
    }
    kind.as_plain()
        .and_then(|kind| kind.strip_suffix("List"))
        .is_some_and(|kind| kind == expected)
}

fn ends_with_list(kind: JsonStr<'_>) -> bool {
    kind.as_plain().is_some_and(|kind| kind.ends_with("List"))
}

pub(super) fn is_group_version(resource: &Resource<'_>, version: &str) -> bool {
    version.rsplit_once('/').unwrap_or(("", version)) == (resource.group, resource.version)
}
