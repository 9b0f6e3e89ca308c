//! Owner references of objects.

use informer_core::decode::OwnerReference;
use informer_core::json::{Elements, value_at};
use informer_core::{Form, Json, Meta, Raw, Resource};

use crate::cache::entry::{Key, in_cluster};

/// The owner that manages an object: the entry of `metadata.ownerReferences` with `controller: true`.
///
/// See [Owners and Dependents](https://kubernetes.io/docs/concepts/overview/working-with-objects/owners-dependents/).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The group and version of the owner, such as `apps/v1`.
    pub api_version: String,
    /// The kind of the owner, such as `ReplicaSet`.
    pub kind: String,
    /// The name of the owner. The owner is in the object's namespace, or cluster-scoped.
    pub name: String,
    /// The uid of the owner.
    pub uid: String,
}

/// A stored object whose owner can be read, for [`Controller::owns`](crate::controller::Controller::owns).
///
/// All forms of JSON and metadata implement it. A [`Json`] object implements it if its type is an [`OwnedObject`].
///
/// ```
/// use informer_tokio::Raw;
/// use informer_tokio::controller::Owned;
/// let pod = Raw::new(br#"{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet",
///     "name":"web","uid":"u1","controller":true}]}}"#);
/// assert_eq!(pod.controller().unwrap().name, "web");
/// ```
#[diagnostic::on_unimplemented(
    message = "the owner of a stored `{Self}` cannot be read",
    note = "cache the owned resource as `Raw`, `Meta` or `Packed`, or as a struct that implements `OwnedObject`"
)]
pub trait Owned {
    /// Returns the owner that manages the object; `None` if there is none.
    fn controller(&self) -> Option<Owner>;
}

/// An object type whose owner can be read.
#[diagnostic::on_unimplemented(
    message = "the owner of `{Self}` cannot be read",
    label = "stores no `metadata.ownerReferences` that a controller can read",
    note = "cache the owned resource as `Raw`, `Meta` or `Packed`, which read the owner from the object's metadata",
    note = "or implement `OwnedObject` for `{Self}`; for a type of k8s-openapi or kube, use a request of `informer-kube`"
)]
pub trait OwnedObject {
    /// Returns the owner that manages the object; `None` if there is none.
    fn controller(&self) -> Option<Owner>;
}

impl<T: OwnedObject> Owned for Json<T> {
    fn controller(&self) -> Option<Owner> {
        T::controller(self)
    }
}

impl Owned for Raw {
    fn controller(&self) -> Option<Owner> {
        of_metadata::<Self>(self)
    }
}

#[cfg(feature = "zstd")]
impl<F: informer_core::decode::OnDemand> Owned for crate::packed::Packed<F> {
    fn controller(&self) -> Option<Owner> {
        of_metadata::<Self>(self)
    }
}

impl Owned for Meta {
    fn controller(&self) -> Option<Owner> {
        of_metadata::<Self>(self)
    }
}

fn of_metadata<F: Form>(stored: &F::Stored) -> Option<Owner> {
    let mut owner = None;
    F::with_metadata(stored, &mut |metadata| {
        owner = value_at(metadata, &["ownerReferences"]).and_then(of_references);
    });
    owner
}

fn of_references(references: &[u8]) -> Option<Owner> {
    let mut owners = Elements::new(references).map(OwnerReference::parse);
    let owner = owners.find(|owner| owner.controller)?;
    let is_named =
        !(owner.api_version.is_empty() || owner.kind.is_empty() || owner.name.is_empty());
    is_named.then(|| Owner {
        api_version: owner.api_version.to_string(),
        kind: owner.kind.to_string(),
        name: owner.name.to_string(),
        uid: owner.uid.to_string(),
    })
}

/// The group and kind that an owner must have, and whether it is namespaced.
#[derive(Clone, Debug)]
pub(crate) struct OwnerKind {
    pub(crate) group: String,
    /// If unknown, every kind of the group matches.
    pub(crate) kind: Option<String>,
    pub(crate) namespaced: bool,
}

impl OwnerKind {
    pub(crate) fn of(resource: &Resource<'_>) -> Self {
        Self {
            group: resource.group.to_owned(),
            kind: resource.kind.map(str::to_owned),
            namespaced: resource.is_namespaced().unwrap_or(true),
        }
    }

    /// Returns the key of the owner of an object with a key, if the owner is of this kind. The version may differ, since
    /// the same object can be read in every version.
    pub(crate) fn key(&self, owner: &Owner, owned: &Key) -> Option<Key> {
        let group = owner
            .api_version
            .split_once('/')
            .map_or("", |(group, _)| group);
        if group != self.group || self.kind.as_ref().is_some_and(|kind| *kind != owner.kind) {
            return None;
        }
        let name = match owned.namespace() {
            namespace if self.namespaced && !namespace.is_empty() => {
                &format!("{namespace}/{}", owner.name)
            }
            _ => &owner.name,
        };
        Some(match owned.cluster() {
            "" => Key::new(name),
            cluster => Key::new(&in_cluster(cluster, name)),
        })
    }
}
