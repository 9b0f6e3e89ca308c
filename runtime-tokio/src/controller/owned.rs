//! Owner references of objects.

use std::sync::{Arc, OnceLock};

use informer_core::decode::OwnerReference;
use informer_core::json::{Elements, value_at};
use informer_core::{Form, Json, Meta, Raw, Resource};

use crate::cache::entry::{Entry, Key, in_cluster};
use crate::informer::Lister;

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

    /// Returns all owners of the object, for [`Controller::owns_any`](crate::controller::Controller::owns_any). By default
    /// only the one that manages it is known.
    fn owners(&self) -> Vec<Owner> {
        self.controller().into_iter().collect()
    }
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

    /// Returns all owners of the object, for [`Controller::owns_any`](crate::controller::Controller::owns_any). By default
    /// only the one that manages it is known.
    fn owners(&self) -> Vec<Owner> {
        self.controller().into_iter().collect()
    }
}

impl<T: OwnedObject> Owned for Json<T> {
    fn controller(&self) -> Option<Owner> {
        T::controller(self)
    }

    fn owners(&self) -> Vec<Owner> {
        T::owners(self)
    }
}

impl Owned for Raw {
    fn controller(&self) -> Option<Owner> {
        of_metadata::<Self, _>(self, controller_of)
    }

    fn owners(&self) -> Vec<Owner> {
        of_metadata::<Self, _>(self, |references| Some(owners_of(references))).unwrap_or_default()
    }
}

#[cfg(feature = "zstd")]
impl<F: informer_core::decode::OnDemand> Owned for crate::packed::Packed<F> {
    fn controller(&self) -> Option<Owner> {
        of_metadata::<Self, _>(self, controller_of)
    }

    fn owners(&self) -> Vec<Owner> {
        of_metadata::<Self, _>(self, |references| Some(owners_of(references))).unwrap_or_default()
    }
}

impl Owned for Meta {
    fn controller(&self) -> Option<Owner> {
        of_metadata::<Self, _>(self, controller_of)
    }

    fn owners(&self) -> Vec<Owner> {
        of_metadata::<Self, _>(self, |references| Some(owners_of(references))).unwrap_or_default()
    }
}

fn of_metadata<F: Form, T>(stored: &F::Stored, read: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
    let (mut read, mut found) = (Some(read), None);
    F::with_metadata(stored, &mut |metadata| {
        let references = value_at(metadata, &["ownerReferences"]);
        if let (Some(references), Some(read)) = (references, read.take()) {
            found = read(references);
        }
    });
    found
}

fn controller_of(references: &[u8]) -> Option<Owner> {
    let mut owners = Elements::new(references).map(OwnerReference::parse);
    owner_of(&owners.find(|owner| owner.controller)?)
}

fn owners_of(references: &[u8]) -> Vec<Owner> {
    let owners = Elements::new(references).map(OwnerReference::parse);
    owners.filter_map(|owner| owner_of(&owner)).collect()
}

/// Returns an owner, unless the reference does not name one.
fn owner_of(owner: &OwnerReference<'_>) -> Option<Owner> {
    let is_named =
        !(owner.api_version.is_empty() || owner.kind.is_empty() || owner.name.is_empty());
    is_named.then(|| Owner {
        api_version: owner.api_version.to_string(),
        kind: owner.kind.to_string(),
        name: owner.name.to_string(),
        uid: owner.uid.to_string(),
    })
}

/// The group and kind that an owner must have, and whether it is namespaced. What the resource does not tell is read from
/// the cache of owners.
pub(crate) struct OwnerKind<F: Form> {
    group: String,
    kind: Option<String>,
    /// Whether owners are namespaced, once it is known.
    namespaced: Arc<OnceLock<bool>>,
    owners: Lister<F>,
}

impl<F: Form> OwnerKind<F> {
    pub(crate) fn of(resource: &Resource<'_>, owners: Lister<F>) -> Self {
        let namespaced = resource.is_namespaced();
        Self {
            group: resource.group.to_owned(),
            kind: resource.kind.map(str::to_owned),
            namespaced: Arc::new(namespaced.map_or_else(OnceLock::new, OnceLock::from)),
            owners,
        }
    }

    pub(crate) fn set(&mut self, kind: String, namespaced: bool) {
        self.kind = Some(kind);
        self.namespaced = Arc::new(OnceLock::from(namespaced));
    }

    /// Returns the key of the owner of an object with a key, if the owner is of this kind. The version may differ, since
    /// the same object can be read in every version.
    ///
    /// As long as the cache has no owner, it is not known whether they are namespaced. If their kind is not known, an owner
    /// is one that the cache has with its uid. One that the informer does not select is none of the controller's: it would
    /// be taken for deleted. Either way nothing is missed: an owner that comes later is reconciled itself.
    pub(crate) fn key(&self, owner: &Owner, owned: &Key) -> Option<Key> {
        let group = owner
            .api_version
            .split_once('/')
            .map_or("", |(group, _)| group);
        if group != self.group || self.kind.as_ref().is_some_and(|kind| *kind != owner.kind) {
            return None;
        }
        let name = match owned.namespace() {
            // The owner of a cluster-scoped object is cluster-scoped.
            namespace if !namespace.is_empty() && self.is_namespaced()? => {
                &format!("{namespace}/{}", owner.name)
            }
            _ => &owner.name,
        };
        let key = match owned.cluster() {
            "" => Key::new(name),
            cluster => Key::new(&in_cluster(cluster, name)),
        };
        let is_owner = |object: Entry<F>| object.uid().to_string() == owner.uid;
        let is_wanted = match self.owners.selects(key.as_str()) {
            Some(true) if self.kind.is_some() => true,
            Some(false) => false,
            Some(true) => self.owners.get_by_key(key.as_str()).is_some_and(is_owner),
            None => self.owners.get_by_key(key.as_str()).is_some(),
        };
        is_wanted.then_some(key)
    }

    /// Returns whether owners are namespaced; `None` if it is not known yet.
    fn is_namespaced(&self) -> Option<bool> {
        self.namespaced.get().copied().or_else(|| {
            let namespaced = !self.owners.any_key()?.namespace().is_empty();
            Some(*self.namespaced.get_or_init(|| namespaced))
        })
    }
}

impl<F: Form> Clone for OwnerKind<F> {
    fn clone(&self) -> Self {
        Self {
            group: self.group.clone(),
            kind: self.kind.clone(),
            namespaced: Arc::clone(&self.namespaced),
            owners: self.owners.clone(),
        }
    }
}
