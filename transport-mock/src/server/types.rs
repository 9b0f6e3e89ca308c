//! Types in the interface of the server.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::object::{Form, Object, ResourceType};
use crate::store::key;

/// An object of the server.
#[derive(Clone, Copy, Debug)]
pub struct ObjectRef<'a> {
    pub(super) object: &'a Object,
    pub(super) kind: &'a ResourceType,
}

impl<'a> ObjectRef<'a> {
    /// Returns the namespace, or an empty string for a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> &'a str {
        &self.object.namespace
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &'a str {
        &self.object.name
    }

    /// Returns the uid.
    #[must_use]
    pub fn uid(&self) -> &'a str {
        &self.object.uid
    }

    /// Returns the resourceVersion.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.object.version
    }

    /// Returns `namespace/name`, or only the name for a cluster-scoped object.
    #[must_use]
    pub fn key(&self) -> String {
        key(&self.object.namespace, &self.object.name)
    }

    /// Returns the value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&'a str> {
        self.object
            .labels
            .iter()
            .find(|(own, _)| **own == *key)
            .map(|(_, value)| &**value)
    }

    /// Returns the object as JSON, in the format of a watch.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.object.write(&mut bytes, self.kind, Form::JSON);
        bytes
    }
}

/// The reason why a change was rejected.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MutationError {
    /// The resource does not exist.
    UnknownResource,
    /// The JSON is not an object.
    NotAnObject,
    /// The object has neither `metadata.name` nor `metadata.generateName`.
    NoName,
    /// The object already exists.
    AlreadyExists,
    /// The object does not exist.
    NotFound,
    /// The object has another resourceVersion now.
    Conflict,
}

impl fmt::Display for MutationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownResource => "the server has no such resource",
            Self::NotAnObject => "not a JSON object",
            Self::NoName => "the object has no name",
            Self::AlreadyExists => "the object already exists",
            Self::NotFound => "the object does not exist",
            Self::Conflict => "the object has been modified",
        })
    }
}

impl core::error::Error for MutationError {}

informer_core::readable_errors!(MutationError);
